"""From what people and torch write to the entries of the registry, and from text back to torch's modules."""

from __future__ import annotations

import re
import sys
from collections.abc import Mapping, Sequence
from functools import lru_cache
from numbers import Real
from typing import Any, NamedTuple

from isometer.activations._registry import ALIASES, ENTRIES, UNREGISTERED, ActivationEntry, TorchForm

_ROOMS = ("torch", "torch.nn", "torch.nn.functional", "nn", "nn.functional", "functional", "F")
_MODULES, _FUNCTIONS = ("torch.nn",), ("torch", "torch.nn.functional", "torch.Tensor")


class Found(NamedTuple):
    """An entry with the parameters that a name, a call or a module gives it; defaults are not filled in."""

    entry: ActivationEntry
    parameters: tuple[float, ...] = ()

    @property
    def text(self) -> str:
        """What `isometer.activation` reads as the same."""
        numbers = ", ".join(repr(value) for value in self.parameters)
        return f"{self.entry.name}({numbers})" if numbers else self.entry.name


class _Index(NamedTuple):
    spellings: dict[str, Found]  # in lower case; what torch has stands there a second time behind a dot
    functions: dict[str, list[tuple[ActivationEntry, TorchForm]]]  # by the last part of their path
    classes: dict[str, list[tuple[ActivationEntry, TorchForm]]]
    calls: frozenset[str]  # functions whose call is an activation


@lru_cache(maxsize=1)
def _index() -> _Index:
    index = _Index({}, {}, {}, UNREGISTERED)
    for entry in ENTRIES.values():
        for name in (entry.name, *entry.aliases):
            index.spellings.setdefault(name.casefold(), Found(entry))
        for form in entry.torch:
            for rows, path in ((index.classes, form.module), (index.functions, form.function)):
                if path:
                    last = path.rpartition(".")[2]
                    rows.setdefault(last, []).append((entry, form))
                    for spelling in (last, f".{last}"):
                        index.spellings.setdefault(spelling.casefold(), Found(entry, form.values))
    plain = {f.function for entry in ENTRIES.values() for f in entry.torch if f.function and not f.arithmetic}
    return index._replace(calls=index.calls | plain)


forget_names = _index.cache_clear  # after ENTRIES has changed


def is_activation_call(function: str) -> bool:
    """Whether torch's function of this name is called for nothing but an activation, registered or not.

    Example:
        >>> is_activation_call("relu"), is_activation_call("prelu"), is_activation_call("exp")
        (True, True, False)
    """
    return function in _index().calls


def find(name: str) -> Found | None:
    """The entry of a name as people write it: the registry's own, or torch's in any case and with its room before it.

    Example:
        >>> [find(name).text for name in ("swish", "LeakyReLU", "nn.GELU", "torch.nn.functional.relu6")]
        ['silu', 'leaky_relu', 'gelu', 'hardtanh(0.0, 6.0)']
        >>> find("nn.Linear") is None
        True
    """
    entry = ENTRIES.get(ALIASES.get(name, name))
    if entry is not None:
        return Found(entry)
    room, _, last = name.rpartition(".")
    return _index().spellings.get((f".{last}" if room in _ROOMS else name).casefold())


def find_call(function: str, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Found | None:
    """The entry of a call of torch's function of this name, in place or not, with the parameters of the call.

    Example:
        >>> find_call("leaky_relu_", (None, 0.2), {}).text, find_call("elu", (None,), {}).text
        ('leaky_relu(0.2)', 'elu(1.0)')
        >>> find_call("gelu", (None,), {"approximate": "tanh"}).text
        'gelu_tanh'
    """
    name = function.removesuffix("_")
    for entry, form in _index().functions.get(name, ()):
        given = [args[i] if len(args) > i else kwargs.get(key) for i, key in enumerate(form.arguments, start=1)]
        found = _with_arguments(entry, form, given)
        if found is not None:
            return found
    return None


def find_torch(source: Any) -> Found | None:
    """The entry of a module, a class of modules or a function, so that it keeps its closed forms; `None` if unknown.

    Subclasses are not taken for their parents: they may compute something else.

    Example:
        >>> import torch
        >>> find_torch(torch.nn.ELU(0.7)).text, find_torch(torch.nn.Tanh).text, find_torch(torch.Tensor.sin).text
        ('elu(0.7)', 'tanh', 'sin')
        >>> find_torch(torch.nn.PReLU()) is None
        True
    """
    torch = sys.modules.get("torch")
    is_module = torch is not None and isinstance(source, torch.nn.Module)
    kind = type(source) if is_module else source
    is_class = isinstance(kind, type)
    rows = _index().classes if is_class else _index().functions
    for entry, form in rows.get(str(getattr(kind, "__name__", "")), ()):
        if not (_is_at(form.module, kind, _MODULES) if is_class else _is_at(form.function, kind, _FUNCTIONS)):
            continue
        if not is_module:
            return Found(entry, form.values)
        found = _with_arguments(entry, form, [getattr(source, name, "") for name in form.arguments])
        if found is not None:
            return found
    return None


def torch_module(text: str, *, spec: bool = False) -> Any | None:
    """The module that networks are built with for an activation, `None` where they evaluate its expression.

    Args:
        text: the activation. Aliases, and parameters left to their defaults, are evaluated as expressions wherever the
            module would round differently.
        spec: the network is that of a spec.

    Example:
        >>> import torch
        >>> torch_module("leaky_relu(0.2)", spec=True), torch_module("Tanh"), torch_module("normalized(relu)")
        (LeakyReLU(negative_slope=0.2), Tanh(), None)
    """
    written = _written(text)
    if written is None:
        return None
    entry, given = written
    values = (*given, *entry.defaults[len(given) :])
    for form in entry.torch:
        written_out = bool(form.only) or len(given) == len(entry.defaults)
        wanted = form.builds == "networks" or (form.builds == "specs" and spec and written_out)
        fixed: tuple[object, ...] = form.only or form.values
        if form.module and wanted and (not fixed or not entry.defaults or fixed == values):
            kind = next(filter(None, map(_at, _paths(form.module, _MODULES))), None)
            arguments = form.only or (() if form.values else values)
            return None if kind is None else kind(**dict(zip(form.arguments, arguments, strict=True)))
    return None


def _written(text: str) -> Found | None:
    """The entry and the parameters of text such as leaky_relu(0.2), `None` for other expressions and for aliases."""
    parts = re.fullmatch(r"([\w.]+)\s*(?:\(([^()]+)\))?", text.strip())
    found = None if parts is None or parts[1] in ALIASES else find(parts[1])
    if parts is None or found is None or parts[2] is None:
        return found
    try:
        numbers = tuple(float(number) for number in parts[2].split(","))
    except ValueError:  # an expression in x
        return None
    return Found(found.entry, numbers) if len(numbers) <= len(found.entry.defaults) else None


def _with_arguments(entry: ActivationEntry, form: TorchForm, given: Sequence[Any]) -> Found | None:
    """The entry if the form holds for the arguments; `None` among them stands for an argument that was left out."""
    if form.only:  # left out, an argument has its default: the first form in the registry stands for it
        holds = all(value is None or value == wanted for value, wanted in zip(given, form.only, strict=True))
        return Found(entry) if holds else None
    if form.values:
        return Found(entry, form.values)
    values = [default if value is None else value for value, default in zip(given, entry.defaults, strict=False)]
    if not all(isinstance(value, Real) for value in values):  # a trained tensor, say
        return None
    return Found(entry, tuple(float(value) for value in values))


def _is_at(path: str, source: Any, homes: Sequence[str]) -> bool:
    own = f"{getattr(source, '__module__', '')}.{getattr(source, '__qualname__', '')}"  # local classes have no other
    return path == own or any(_at(place) is source for place in _paths(path, homes))


def _paths(path: str, homes: Sequence[str]) -> list[str]:
    return [path] if "." in path else [f"{home}.{path}" for home in homes]


def _at(path: str) -> Any:
    """What stands at a path, `None` if its module has not been imported."""
    home, _, name = path.rpartition(".")
    return sys.modules.get(path) or (getattr(_at(home), name, None) if home else None)
