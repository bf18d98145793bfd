"""Checkpoints of long cells: nested state of numbers, text and arrays, as bytes that carry their own checksum."""

from __future__ import annotations

import hashlib
import io
import json
import math
import time
from collections.abc import Callable, Mapping
from typing import Any
from zipfile import BadZipFile

import msgspec
import numpy as np

from isometer.errors import IsometerError

NOTE = ".note"  # ends the key under which a worker sends what its cell says of itself
_MAGIC = b"isometer-checkpoint/1 "
_PAUSE = 1.0  # seconds between notes


class Checkpoint:
    """Where a long cell keeps its state, so that it can resume after an interruption.

    A cell's function that has a parameter `checkpoint` gets one. The state may nest dicts, lists and tuples of numbers,
    text, None, NumPy arrays and torch tensors, such as the state dicts of a model and an optimiser; it comes back the
    same, tensors on the CPU. Saving replaces what was saved before, and what is saved is complete or absent.

    Args:
        saved: what was saved before, if anything.
        write: where to put the bytes; without it nothing is kept.
        note: where to put the cell's messages about its progress.

    Example:
        >>> kept = []
        >>> Checkpoint(write=kept.append).save({"epoch": 3, "weights": np.arange(2.0)})
        >>> Checkpoint(kept[-1]).load()
        {'epoch': 3, 'weights': array([0., 1.])}
        >>> Checkpoint().load() is None
        True
    """

    def __init__(
        self,
        saved: bytes | None = None,
        write: Callable[[bytes], None] | None = None,
        note: Callable[[str], None] | None = None,
    ) -> None:
        self._saved = saved
        self._write = write
        self._note = note
        self._said = -_PAUSE

    def load(self) -> Any:
        """The state saved last; None if there is none, or it is damaged.

        Example:
            >>> Checkpoint(b"torn").load() is None
            True
        """
        if self._saved is None or not is_whole(self._saved):
            return None
        try:
            return _decoded(self._saved)
        except (OSError, ValueError, KeyError, TypeError, RecursionError, BadZipFile):
            return None  # whole, but not written by this program

    def save(self, state: Any) -> None:
        """Keep a state.

        Example:
            >>> Checkpoint().save({"epoch": 3})
        """
        self._saved = _encoded(state)
        if self._write is not None:
            self._write(self._saved)

    def tell(self, text: str) -> None:
        """Report the cell's progress, for the progress bar; call it freely, at most one message a second is passed on.

        Example:
            >>> said = []
            >>> checkpoint = Checkpoint(note=said.append)
            >>> checkpoint.tell("epoch 3, 1000 images/s")
            >>> checkpoint.tell("epoch 4, 1000 images/s")
            >>> said
            ['epoch 3, 1000 images/s']
        """
        now = time.monotonic()
        if self._note is not None and now - self._said >= _PAUSE:
            self._said = now
            self._note(text)


def is_whole(saved: bytes) -> bool:
    """Whether bytes are a checkpoint, all of it.

    Example:
        >>> is_whole(b"torn")
        False
    """
    head = len(_MAGIC) + 65  # 64 digits and a newline
    return saved.startswith(_MAGIC) and saved[len(_MAGIC) : head] == _digest(saved[head:])


def _digest(body: bytes) -> bytes:
    return hashlib.sha256(body).hexdigest().encode() + b"\n"


def _encoded(state: Any) -> bytes:
    arrays: list[np.ndarray[Any, Any]] = []
    tree = json.dumps(_tree(state, arrays))
    page = io.BytesIO()
    named = {f"array{i}": array for i, array in enumerate(arrays)}
    np.savez(page, allow_pickle=False, tree=np.array(tree), **named)
    body = page.getvalue()
    return _MAGIC + _digest(body) + body


def _decoded(saved: bytes) -> Any:
    with np.load(io.BytesIO(saved[len(_MAGIC) + 65 :]), allow_pickle=False) as page:
        return _state(msgspec.json.decode(str(page["tree"])), page)


def _tree(value: Any, arrays: list[np.ndarray[Any, Any]]) -> Any:
    """JSON with a tag in front of everything that JSON does not know."""
    if isinstance(value, float) and not math.isfinite(value):
        return ["float", repr(float(value))]
    if value is None or isinstance(value, bool | int | float | str):
        return value
    if isinstance(value, Mapping):
        # pairs: an object of JSON would turn the whole-number keys of optimiser states into text
        return ["dict", [[_tree(key, arrays), _tree(item, arrays)] for key, item in value.items()]]
    if isinstance(value, list | tuple):
        return [type(value).__name__, [_tree(item, arrays) for item in value]]
    if isinstance(value, np.ndarray | np.generic) and value.dtype.kind in "biufc":
        arrays.append(np.asarray(value))
        return ["array", len(arrays) - 1]
    # a tensor, told without importing torch
    if type(value).__module__.partition(".")[0] == "torch" and hasattr(value, "detach"):
        arrays.append(value.detach().cpu().numpy())
        return ["tensor", len(arrays) - 1]
    raise IsometerError(
        f"a checkpoint cannot keep a {type(value).__name__}; expected numbers, text, None, arrays, tensors and dicts, "
        "lists and tuples of them — save its state_dict()"
    )


def _state(tree: Any, page: Any) -> Any:
    if not isinstance(tree, list):
        return tree
    kind, content = tree
    if kind == "dict":
        return {_state(key, page): _state(item, page) for key, item in content}
    if kind in ("list", "tuple"):
        items = [_state(item, page) for item in content]
        return items if kind == "list" else tuple(items)
    if kind == "float":
        return float(content)
    array = page[f"array{content}"]
    if kind == "array":
        return array
    import torch

    return torch.from_numpy(array)
