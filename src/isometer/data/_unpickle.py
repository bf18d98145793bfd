"""Python pickles of arrays, read without running anything that they name.

A pickle is a program that may call any importable function. This reader knows three constructors (NumPy's array and
dtype, and the encoder that stands for bytes in old protocols), and even those only as stand-ins defined here; every
other name is refused before it is looked up.
"""

from __future__ import annotations

import io
import math
import pickle
from collections.abc import Callable
from typing import Any

import numpy as np

from isometer.errors import IsometerError

_RECONSTRUCT = {("numpy.core.multiarray", "_reconstruct"), ("numpy._core.multiarray", "_reconstruct")}
_FROM_BUFFER = {("numpy.core.numeric", "_frombuffer"), ("numpy._core.numeric", "_frombuffer")}
_PLAIN = (bytes, str, int, float, bool, type(None))


def read_pickle(content: bytes, label: str) -> Any:
    """Dicts, lists, tuples, text, bytes, numbers and uint8 arrays; anything else is refused.

    Args:
        content: the pickle.
        label: its name, for messages.

    Raises:
        IsometerError: if the pickle is damaged, names any function or class, or holds other arrays.

    Example:
        >>> import pickle, numpy as np
        >>> read_pickle(pickle.dumps({"data": np.arange(3, dtype=np.uint8)}), "example")
        {'data': array([0, 1, 2], dtype=uint8)}
        >>> read_pickle(pickle.dumps(print), "example")
        Traceback (most recent call last):
        ...
        isometer.errors.IsometerError: example needs 'builtins.print'; a data file holds only arrays, ...
    """
    try:
        value = _ArrayUnpickler(content, label).load()
    except IsometerError:
        raise
    except Exception as problem:  # a damaged pickle fails anywhere in the machine
        raise IsometerError(
            f"{label} is not a complete pickle of arrays ({type(problem).__name__}: {problem}) — obtain it again"
        ) from None
    return _converted(value, label, 0)


class _ArrayUnpickler(pickle.Unpickler):
    def __init__(self, content: bytes, label: str) -> None:
        super().__init__(io.BytesIO(content), encoding="bytes")  # Python 2 wrote CIFAR: its text is bytes
        self._label = label
        # new classes for every pickle: what one does to them does not outlive it
        self._known: dict[tuple[str, str], Callable[..., Any] | type] = {("_codecs", "encode"): _encode}
        array, element = _stand_ins()
        self._known |= {("numpy", "ndarray"): array, ("numpy", "dtype"): element}
        self._known |= dict.fromkeys(_RECONSTRUCT, lambda *_: array())
        self._known |= dict.fromkeys(_FROM_BUFFER, lambda data, kind, shape, order: array(data, kind, shape, order))

    def find_class(self, module: str, name: str) -> Any:
        # never super().find_class, which imports the module
        try:
            return self._known[module, name]
        except KeyError:
            raise IsometerError(
                f"{self._label} needs '{module}.{name}'; a data file holds only arrays, numbers and text — "
                "do not trust it, obtain it from its publisher"
            ) from None


class _Recorded:
    """An array as its parts."""

    def __init__(self, data: Any = b"", kind: Any = None, shape: Any = (0,), order: Any = "C") -> None:
        self.data, self.kind, self.shape, self.order = data, kind, shape, order

    def __setstate__(self, state: Any) -> None:
        _, self.shape, self.kind, columns_first, self.data = state
        self.order = "F" if columns_first else "C"


class _Element:
    """A dtype as its name; what else its state says does not matter for bytes."""

    def __init__(self, name: Any = "", *_: Any) -> None:
        self.name = name.decode("latin1") if isinstance(name, bytes) else name

    def __setstate__(self, state: Any) -> None:
        pass


def _stand_ins() -> tuple[type[_Recorded], type[_Element]]:
    return type("array", (_Recorded,), {}), type("dtype", (_Element,), {})


def _encode(text: Any, encoding: Any = "latin1") -> bytes:
    if not isinstance(text, str | bytes):
        raise TypeError("text expected")
    return text if isinstance(text, bytes) else text.encode("latin1")  # so protocol 2 writes bytes


def _converted(value: Any, label: str, depth: int) -> Any:
    if depth > 8:  # a list in a pickle may hold itself
        raise IsometerError(f"{label} is nested too deeply; expected a dict of arrays and lists — obtain it again")
    if isinstance(value, _PLAIN):
        return value
    if isinstance(value, dict):
        return {_converted(k, label, depth + 1): _converted(v, label, depth + 1) for k, v in value.items()}
    if isinstance(value, list | tuple):
        return [_converted(v, label, depth + 1) for v in value]
    if isinstance(value, _Recorded):
        return _array(value, label)
    raise IsometerError(f"{label} holds a {type(value).__name__}; expected arrays, lists and text — obtain it again")


def _array(value: _Recorded, label: str) -> np.ndarray[Any, np.dtype[np.uint8]]:
    kind = value.kind.name if isinstance(value.kind, _Element) else None
    if kind not in ("u1", "|u1", "uint8"):
        raise IsometerError(f"{label} holds an array of {kind!r}; expected uint8 — obtain it again")
    data, shape = value.data, value.shape
    if isinstance(data, pickle.PickleBuffer | bytearray):
        data = bytes(data)
    ok = isinstance(data, bytes) and isinstance(shape, tuple) and all(isinstance(s, int) and s >= 0 for s in shape)
    if not ok or len(data) != math.prod(shape):
        raise IsometerError(f"{label} holds an array whose shape and data do not agree — obtain it again")
    return np.frombuffer(data, dtype=np.uint8).reshape(shape, order="F" if value.order == "F" else "C")
