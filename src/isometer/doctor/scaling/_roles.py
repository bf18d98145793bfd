"""Which group a parameter belongs to, by the axes that grow with the width, and which modules repeat with the depth."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field

from torch import nn

from isometer.doctor.scaling._rules import EMBEDDING, FIXED, HIDDEN, INPUT, OUTPUT, VECTOR

_TRANSPOSED = ("ConvTranspose1d", "ConvTranspose2d", "ConvTranspose3d", "Conv1D")
"""Layers that keep inputs on the first axis of the weight; `Conv1D` is a linear layer of `transformers`."""


@dataclass(frozen=True)
class Role:
    """A kind of parameter: those of one group whose names differ in numbers only.

    Attributes:
        group: group of parameters.
        label: its name with `*` for numbers.
        repeated: whether there are more of them in a deeper model.
    """

    group: str
    label: str
    repeated: bool = False


@dataclass(frozen=True, eq=False)
class Roles:
    """The roles in a model of one size.

    Attributes:
        of: role by name of the parameter.
        blocks: names of the modules that repeat with the depth, in order; none where depth was not varied.
    """

    of: Mapping[str, Role]
    blocks: tuple[str, ...] = field(default=())


def pattern(name: str) -> str:
    """A name with its numbers left out.

    Example:
        >>> pattern("blocks.12.mlp.0.weight")
        'blocks.*.mlp.*.weight'
    """
    return re.sub(r"\d+", "*", name)


@dataclass(frozen=True, eq=False)
class Repeats:
    """What deeper models have more of: kinds of parameters, and kinds of modules with parameters."""

    parameters: frozenset[tuple[str, str]] = frozenset()
    modules: frozenset[tuple[str, str]] = frozenset()


def repeats(shallow: tuple[nn.Module, nn.Module | None], deep: tuple[nn.Module, nn.Module | None]) -> Repeats:
    """What a deep model has more of than a shallow one, each given with a wider one of the same depth.

    Example:
        >>> few, many = ([nn.Sequential(*(nn.Linear(n, n) for _ in range(depth))) for n in (2, 3)] for depth in (1, 4))
        >>> sorted(repeats(tuple(few), tuple(many)).parameters)
        [('*.bias', 'vector'), ('*.weight', 'hidden')]
    """
    kinds = [Counter((pattern(name), group) for name, group in _groups(*pair).items()) for pair in (shallow, deep)]
    modules = [Counter(_kind(*one) for one in pair[0].named_modules()) for pair in (shallow, deep)]
    return Repeats(*(frozenset(key for key in many if many[key] > few[key]) for few, many in (kinds, modules)))


def roles(model: nn.Module, wider: nn.Module | None, repeated: Repeats) -> Roles:
    """The roles of a model's parameters.

    Args:
        model: the model.
        wider: the same depth at another width; None if the width is not varied.
        repeated: what deeper models have more of.

    Example:
        >>> found = roles(nn.Linear(3, 8), nn.Linear(3, 16), Repeats())
        >>> {name: role.group for name, role in found.of.items()}
        {'weight': 'input', 'bias': 'vector'}
    """
    of = {}
    for name, group in _groups(model, wider).items():
        key = (pattern(name), group)
        of[name] = Role(group, pattern(name), key in repeated.parameters)
    blocks: list[str] = []
    for name, module in model.named_modules():
        inside = any(name.startswith(f"{outer}.") for outer in blocks)
        weights = next(module.parameters(), None) is not None
        if name and not inside and weights and _kind(name, module) in repeated.modules:
            blocks.append(name)
    return Roles(of, tuple(blocks))


def _kind(name: str, module: nn.Module) -> tuple[str, str]:
    return pattern(name), type(module).__name__


def _groups(model: nn.Module, wider: nn.Module | None) -> dict[str, str]:
    owners = dict(model.named_modules())
    other = {} if wider is None else dict(wider.named_parameters())
    found: dict[str, str] = {}
    matrices = [name for name, parameter in model.named_parameters() if parameter.dim() > 1]
    for name, parameter in model.named_parameters():
        owner = owners[name.rpartition(".")[0]]
        if name in other and other[name].dim() == parameter.dim():
            grows = [a != b for a, b in zip(parameter.shape, other[name].shape, strict=True)]
            found[name] = _by_growth(owner, grows)
        else:
            found[name] = _by_place(owner, name, parameter, matrices)
    return found


def _by_growth(owner: nn.Module, grows: list[bool]) -> str:
    if not any(grows):
        return FIXED
    if len(grows) == 1:
        return VECTOR
    if sum(grows) > 1:
        return HIDDEN
    if isinstance(owner, (nn.Linear, nn.modules.conv._ConvNd)) or type(owner).__name__ in _TRANSPOSED:
        outputs_first = type(owner).__name__ not in _TRANSPOSED
        return INPUT if grows[0] == outputs_first else OUTPUT
    return EMBEDDING


def _by_place(owner: nn.Module, name: str, parameter: nn.Parameter, matrices: list[str]) -> str:
    """A guess where the width is not varied: the first matrix is the input, the last the output."""
    if isinstance(owner, nn.Embedding):
        return EMBEDDING
    if parameter.dim() < 2:
        return VECTOR
    if not isinstance(owner, (nn.Linear, nn.modules.conv._ConvNd)) and "." not in name:
        return EMBEDDING  # a table of positions, say
    if name == matrices[-1]:
        return OUTPUT
    return INPUT if name == matrices[0] else HIDDEN
