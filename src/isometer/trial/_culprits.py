"""Which part of a faulty model is guilty, found by comparison with the sound model of the same seed.

No table of names says where a fault is. Both models are built from one seed and compared: weights and buffers, which
of them are trained, hooks, types of modules, eps and modes, then batches and loss. What differs is guilty.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import torch
from torch import nn

from isometer.trial._faults import NotApplicable
from isometer.trial._faults._parts import readout_layer
from isometer.trial._members import Member
from isometer.trial._specimen import Specimen

Part = Literal["module", "modules", "input", "targets", "loss", "structure", "none"]
OUTSIDE: tuple[Part, ...] = ("input", "targets", "loss")
"""Parts that are no modules; a cause names them by these words."""
_SEED = 0
_STEPS = 64  # a fault that strikes one sample of thirty shows in so many batches
_PLAIN = (bool, int, float, str, tuple, type(None))
Names = frozenset[str]


@dataclass(frozen=True)
class Culprits:
    """The guilty part of a model.

    Attributes:
        modules: names of the modules that differ from the sound model; the model itself is the empty name.
        part: `module` if all that differs is in one module, `modules` if it is in several, `input`, `targets` or
            `loss` if it is no part of the model, `structure` if the architecture is another, `none` if nothing differs.
        also: further names that count: the guilty parameter, and modules at which the same change is the same model.
    """

    modules: Names
    part: Part
    also: Names = frozenset()


def culprits(member: Member) -> Culprits:
    """The part of a member that its fault changed.

    Example:
        >>> from isometer.trial import Blueprint
        >>> blueprint = Blueprint("friedman", 16, 2, options={"activation": "ReLU"})
        >>> member = Member("mlp-relu/0", "mlp-relu", "0", blueprint, blueprint, "one-zero", {"place": 0.9}, False, 0.0)
        >>> culprits(member).part, sorted(culprits(member).modules)
        ('module', ['5'])
    """
    if member.blueprint != member.sound:
        return Culprits(frozenset(), "structure")
    return compared(member.sibling(_SEED), member.specimen(_SEED))


def compared(sound: Specimen, faulty: Specimen) -> Culprits:
    """What differs between a model and the sound one of the same structure and weights.

    A module that is reached by several names, or that shares the guilty weight with another, is one module with all of
    these names. A hook changes what a module returns. If its parent returns the very tensor that it returns, call by
    call, the same hook at the parent makes the same model: then the name of the parent counts too, and so on up and
    down. For a hook of the whole model, the last layer with weights that runs counts too.
    """
    places = _merged(_changes(sound, faulty))
    if not places:
        return Culprits(frozenset(), _outside(sound, faulty))
    guilty: Names = frozenset().union(*(place.modules for place in places))
    also: Names = frozenset().union(*(place.parameters for place in places))
    hooked = [name for place in places if place.hooked for name in place.modules]
    return Culprits(guilty, "module" if len(places) == 1 else "modules", (also | _alike(sound, hooked)) - guilty)


def named(found: Culprits, causes: Sequence[Sequence[str]], first: int = 2) -> bool:
    """Whether one of the first causes names the guilty part.

    A cause that names other modules beside it does not count: one that names every layer would always be right.

    Args:
        found: the guilty part.
        causes: names of modules, or `input`, `targets`, `loss`, cause by cause, the likeliest first.
        first: how many causes count.

    Example:
        >>> guilty = Culprits(frozenset({"4"}), "module")
        >>> named(guilty, [["0"], ["4"]]), named(guilty, [["0"], ["4"]], first=1), named(guilty, [["0", "4"]])
        (True, False, False)
    """
    counted = frozenset({found.part}) if found.part in OUTSIDE else found.modules | found.also
    return any(len(names) > 0 and counted.issuperset(names) for names in causes[:first])


@dataclass(frozen=True)
class _Place:
    """One change: the names of the module that it is in, those of parameters, and whether it is a hook."""

    modules: Names
    parameters: Names = frozenset()
    hooked: bool = False


def _changes(sound: Specimen, faulty: Specimen) -> Iterator[_Place]:
    before, now = _modules(sound.model), _modules(faulty.model)
    fickle = _fickle(sound)
    yield from _changed_tensors(_tensors(sound.model), _tensors(faulty.model), fickle)
    names_of = _names_of(now)
    replaced = {name for name, module in now.items() if name not in before or _kind(before[name]) != _kind(module)}
    for name, module in now.items():
        if any(name.startswith(f"{above}.") for above in replaced):
            continue  # inside a module that is itself another
        if name in replaced or _settings(name, before[name], fickle) != _settings(name, module, fickle):
            yield _Place(names_of[id(module)])
        elif _hooks(before[name]) != _hooks(module):
            yield _Place(names_of[id(module)], hooked=True)


def _modules(model: nn.Module) -> dict[str, nn.Module]:
    """All modules by all their names."""
    return dict(model.named_modules(remove_duplicate=False))


def _names_of(modules: Mapping[str, nn.Module]) -> dict[int, Names]:
    found: dict[int, set[str]] = {}
    for name, module in modules.items():
        found.setdefault(id(module), set()).add(name)
    return {key: frozenset(names) for key, names in found.items()}


def _tensors(model: nn.Module) -> dict[str, torch.Tensor]:
    """Parameters and buffers by all their names."""
    return {
        **dict(model.named_parameters(remove_duplicate=False)),
        **dict(model.named_buffers(remove_duplicate=False)),
    }


def _kind(module: nn.Module) -> tuple[str, str]:
    """The class by its name: a builder that defines a class makes a new one every time."""
    return type(module).__module__, type(module).__qualname__


def _fickle(sound: Specimen) -> Names:
    """Buffers and attributes that a forward pass changes by itself, as running statistics.

    A fault may run the model to find its place, and what that leaves behind is not guilty.
    """
    modules, tensors = _modules(sound.model), _tensors(sound.model)
    buffers = {name: tensor.clone() for name, tensor in tensors.items()}
    settings = {name: _settings(name, module) for name, module in modules.items()}
    _run(sound)
    found = {name for name, tensor in tensors.items() if not _same(buffers[name], tensor)}
    for name, module in modules.items():
        now = _settings(name, module)
        found |= {key for key in now.keys() | settings[name].keys() if now.get(key) != settings[name].get(key)}
    with torch.no_grad():
        for name in found & tensors.keys():
            tensors[name].copy_(buffers[name])
    return frozenset(found)


def _changed_tensors(
    before: Mapping[str, torch.Tensor], now: Mapping[str, torch.Tensor], fickle: Names
) -> Iterator[_Place]:
    sharing: dict[int, set[str]] = {}
    for name, tensor in now.items():
        sharing.setdefault(id(tensor), set()).add(name)
    for names in sharing.values():
        # A name that the sound model lacks belongs to a new module, which is found as such.
        known = [name for name in names if name in before and name not in fickle]
        if not all(_same_parameter(before[name], now[name]) for name in known):
            yield _Place(frozenset(map(_owner, names)), frozenset(names))


def _owner(name: str) -> str:
    """The module that a parameter belongs to; of a parametrised weight, the one that uses it."""
    return name.partition(".parametrizations.")[0] if ".parametrizations." in name else name.rpartition(".")[0]


def _same_parameter(one: torch.Tensor, other: torch.Tensor) -> bool:
    return one.requires_grad == other.requires_grad and _same(one, other)


def _same(one: torch.Tensor, other: torch.Tensor) -> bool:
    """Equal shapes and values; what is no number equals itself."""
    if one.shape != other.shape or one.dtype != other.dtype:
        return False
    return bool(torch.eq(one, other).logical_or(one.isnan() & other.isnan()).all())


def _settings(name: str, module: nn.Module, without: Names = frozenset()) -> dict[str, Any]:
    """Plain attributes, as eps, a share of dropout, or the mode, by their full names."""
    found = {f"{name}.{key}": value for key, value in vars(module).items() if isinstance(value, _PLAIN)}
    return {key: value for key, value in found.items() if key not in without}


def _hooks(module: nn.Module) -> dict[str, list[str]]:
    return {
        name: [type(hook).__qualname__ for hook in table.values()]
        for name, table in vars(module).items()
        if name.endswith("_hooks")
    }


def _run(made: Specimen) -> None:
    with torch.no_grad(), torch.random.fork_rng(devices=[]):
        made.model(made.batch(seed=_SEED, step=0)[0])


def _merged(places: Iterable[_Place]) -> list[_Place]:
    """Changes of one module as one."""
    found: list[_Place] = []
    for place in places:
        touching = [one for one in found if one.modules & place.modules]
        joined = [place, *touching]
        found = [one for one in found if one not in touching]
        found.append(
            _Place(
                frozenset().union(*(one.modules for one in joined)),
                frozenset().union(*(one.parameters for one in joined)),
                any(one.hooked for one in joined),
            )
        )
    return found


def _outside(sound: Specimen, faulty: Specimen) -> Part:
    """What differs where the models do not: the loss, or the first of inputs and targets that does."""
    if len(sound.objectives) != len(faulty.objectives):
        return "loss"
    with torch.random.fork_rng(devices=[]):
        torch.default_generator.manual_seed(_SEED)
        for step in range(_STEPS):
            inputs, targets, _ = sound.batch(seed=_SEED, step=step)
            other_inputs, other_targets, _ = faulty.batch(seed=_SEED, step=step)
            if not _same(inputs, other_inputs):
                return "input"
            if not _same(targets, other_targets):
                return "targets"
    return "none"


def _alike(sound: Specimen, hooked: Sequence[str]) -> Names:
    """Names of modules at which a hook makes the same model as at the given ones."""
    if not hooked:
        return frozenset()
    modules = _modules(sound.model)
    returned = _returned(sound, modules)
    found = set(hooked)
    waiting = list(hooked)
    while waiting:
        name = waiting.pop()
        for near in _parent_and_children(name, modules):
            if near not in found and returned[near] and returned[near] == returned[name]:
                found.add(near)
                waiting.append(near)
    if "" in hooked:
        found |= _readout(sound, modules)
    return frozenset(found)


def _parent_and_children(name: str, modules: Mapping[str, nn.Module]) -> Iterator[str]:
    if name:
        yield name.rpartition(".")[0]
    start = f"{name}." if name else ""
    yield from (one for one in modules if one and one.startswith(start) and "." not in one.removeprefix(start))


def _returned(made: Specimen, modules: Mapping[str, nn.Module]) -> dict[str, list[tuple[int, int]]]:
    """Which tensors each module returns, call by call.

    The version tells a tensor from the same one after an operation in place.
    """
    found: dict[int, list[tuple[int, int]]] = {id(module): [] for module in modules.values()}
    kept: list[torch.Tensor] = []  # an object that is gone would give its identity to another

    def note(module: nn.Module, _: Any, output: Any) -> None:
        if isinstance(output, torch.Tensor):
            kept.append(output)
            found[id(module)].append((id(output), output._version))

    handles = [module.register_forward_hook(note) for module in dict.fromkeys(modules.values())]
    try:
        _run(made)
    finally:
        for handle in handles:
            handle.remove()
    return {name: found[id(module)] for name, module in modules.items()}


def _readout(made: Specimen, modules: Mapping[str, nn.Module]) -> Names:
    try:
        layer = readout_layer(made)
    except NotApplicable:
        return frozenset()
    return _names_of(modules)[id(layer)]
