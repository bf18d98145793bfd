"""The numbers of a preset that a diagram goes over: `qk_gain=0.1:10` of `gpt(…)`."""

from __future__ import annotations

import ast
import inspect
import math
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from isometer.errors import IsometerError, unknown_name
from isometer.spec import Attention, Composition, Dense, Residual, Shape, Spec, with_depth
from isometer.spec._edits import edited
from isometer.spec._parser import parse_network
from isometer.spec._presets import PRESETS
from isometer.spec._steps import Step, walk

Floats = NDArray[np.float64]
_FIELDS: dict[str, tuple[type, str]] = {
    "qk_gain": (Attention, "qk_gain"),
    "value_gain": (Attention, "value_gain"),
    "output_gain": (Attention, "output_gain"),
    "branch": (Residual, "scale"),
    "skip": (Residual, "skip"),
    "mlp_gain": (Dense, "gain"),
}
_SIZES = ("tokens", "blocks")
_WIDE = 10.0  # the ratio of ends from which on values are spaced evenly in the logarithm


class PresetAxis(NamedTuple):
    """A keyword of a preset, and values for it.

    Example:
        >>> read_axis("heads=4,8", 60).name
        'heads'
    """

    name: str
    values: Floats


def read_axis(text: str, points: int) -> PresetAxis:
    """An axis from text such as `qk_gain=0.1:10`, or `qk_gain=0.1:10:30` for 30 values, or `heads=4,8,16`.

    Values are spaced evenly, in the logarithm where both ends are positive and at least a factor of ten apart.

    Example:
        >>> read_axis("qk_gain=0.1:10", 3).values.round(6).tolist(), read_axis("branch=0:1", 3).values.tolist()
        ([0.1, 1.0, 10.0], [0.0, 0.5, 1.0])
    """
    name, _, rest = text.partition("=")
    parts = rest.split(":") if ":" in rest else rest.split(",")
    try:
        numbers = [float(part) for part in parts]
    except ValueError:
        numbers = []
    if not name.strip().isidentifier() or not numbers or not all(map(math.isfinite, numbers)):
        raise IsometerError(f"the axis is {text!r}; expected a keyword and its range — qk_gain=0.1:10, for example")
    if ":" not in rest:
        return PresetAxis(name.strip(), np.array(numbers))
    if len(numbers) not in (2, 3) or numbers[0] >= numbers[1]:
        raise IsometerError(f"the axis {text!r} has the range {rest}; expected low:high or low:high:points")
    low, high = numbers[:2]
    count = int(numbers[2]) if len(numbers) == 3 else points
    if not 2 <= count <= 1000:
        raise IsometerError(f"the axis {text!r} has {count} points; expected from 2 to 1000")
    spaced = np.geomspace if low > 0.0 and high / low >= _WIDE else np.linspace
    return PresetAxis(name.strip(), spaced(low, high, count))


class PresetPlane:
    """The networks that a preset makes as two of its keywords change.

    Example:
        >>> plane = PresetPlane("gpt(blocks=2, width=16, heads=4, tokens=5)", "qk_gain", "branch")
        >>> plane(0.5, 0.25).composition[0].body[0].scale
        0.25
    """

    def __init__(self, network: str, x: str, y: str) -> None:
        self._names = x, y
        found = _preset_call(network)
        if found is None:
            raise IsometerError(
                f"the network is {network[:60]!r}; expected a preset, whose keywords the axes set — "
                "for example gpt(blocks=24)"
            )
        self._preset, self._call = found
        for axis in (x, y):
            self._check(axis)
        if x == y:
            raise IsometerError(f"both axes are {x}; expected two keywords of {self._preset}")

    def _check(self, axis: str) -> None:
        known = _keywords(self._preset)
        if axis not in known:
            raise unknown_name(f"keyword of {self._preset}", axis, sorted(known), fix="pass one of them")
        if known[axis] in ("str", "bool"):
            raise IsometerError(f"{axis} is not a number; expected a keyword with a number — qk_gain, for example")

    def __call__(self, x: float, y: float) -> Spec:
        """The network at a point."""
        keywords = [one for one in self._call.keywords if one.arg not in self._names]
        known = _keywords(self._preset)
        for name, value in zip(self._names, (x, y), strict=True):
            number = round(value) if known[name].startswith("int") else float(value)
            keywords.append(ast.keyword(name, ast.Constant(number)))
        text = ast.unparse(ast.Call(self._call.func, self._call.args, keywords))
        steps, shape = parse_network(text)
        assert shape is not None
        return Composition(steps, shape)  # not Spec(text): a search for shorter spellings would take longest


class SpecPlane:
    """A network of any spelling as two numbers that its blocks share change, or its length in tokens or blocks.

    Example:
        >>> plane = SpecPlane(Spec("input(8, [4]) > repeat(residual(attention(2)), 3)"), "branch", "tokens")
        >>> print(plane(0.5, 6))
        input(8, [6]) > repeat(residual(attention(2), 0.5), 3)
    """

    def __init__(self, spec: Spec, x: str, y: str) -> None:
        self._spec, self._names = spec, (x, y)
        known = [*_FIELDS, *_SIZES]
        for name in (x, y):
            if name not in known:
                raise unknown_name("number of a transformer", name, known, fix="pass one of them")
            if name in _FIELDS and not any(isinstance(step, _FIELDS[name][0]) for step in walk(spec.composition)):
                raise IsometerError(f"the network has no step whose {name} could be set; expected one — add it")
        if x == y:
            raise IsometerError(f"both axes are {x}; expected two different numbers")

    def __call__(self, x: float, y: float) -> Spec:
        """The network at a point."""
        spec = self._spec
        for name, value in zip(self._names, (x, y), strict=True):
            spec = _with_number(spec, name, value)
        return spec


def _with_number(spec: Spec, name: str, value: float) -> Spec:
    if name == "blocks":
        return with_depth(spec, round(value))
    if name == "tokens":
        return Composition(spec.composition, Shape(spec.shape.width, (round(value), *spec.shape.axes[1:])))
    kind, attribute = _FIELDS[name]

    def edit(step: Step) -> Step:
        changed: dict[str, Any] = {attribute: float(value)}
        return replace(step, **changed) if isinstance(step, kind) else step

    return Composition(edited(spec.composition, edit), spec.shape)


def in_full(network: str) -> str:
    """A preset whose attention is causal by default, with attention in full unless it says so itself.

    Example:
        >>> in_full("gpt(blocks=2)"), in_full("gpt(blocks=2, causal=True)"), in_full("dense > act('relu')")
        ('gpt(blocks=2, causal=False)', 'gpt(blocks=2, causal=True)', "dense > act('relu')")
    """
    found = _preset_call(network)
    if found is None or any(one.arg == "causal" for one in found[1].keywords):
        return network
    causal = inspect.signature(PRESETS[found[0]]).parameters.get("causal")
    if causal is None or causal.default is not True:
        return network
    call = found[1]
    return ast.unparse(ast.Call(call.func, call.args, [*call.keywords, ast.keyword("causal", ast.Constant(False))]))


def _preset_call(network: str) -> tuple[str, ast.Call] | None:
    """The name and the call of a preset; None of other text."""
    try:
        tree = ast.parse(network.strip(), mode="eval").body
    except SyntaxError:
        return None
    if not isinstance(tree, ast.Call) or not isinstance(tree.func, ast.Name) or tree.func.id not in PRESETS:
        return None
    return tree.func.id, tree


def _keywords(preset: str) -> dict[str, str]:
    """Keywords of a preset and their types; `vit` takes those of `gpt` too."""
    names = (preset, "gpt") if preset == "vit" else (preset,)
    return {
        name: str(parameter.annotation)
        for one in names
        for name, parameter in inspect.signature(PRESETS[one]).parameters.items()
        if parameter.kind is parameter.KEYWORD_ONLY
    }
