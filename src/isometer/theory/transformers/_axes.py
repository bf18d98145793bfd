"""The numbers of a preset that a diagram goes over: `qk_gain=0.1:10` of `gpt(…)`."""

from __future__ import annotations

import ast
import inspect
import math
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from isometer.errors import IsometerError, unknown_name
from isometer.spec import Composition, Spec
from isometer.spec._parser import parse_network
from isometer.spec._presets import PRESETS

Floats = NDArray[np.float64]
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
        raise IsometerError(f"the axis is {text!r}; expected a keyword and its range — qk_gain=0.1:10, say")
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
        try:
            tree = ast.parse(network.strip(), mode="eval").body
        except SyntaxError:
            tree = ast.Name("")
        name = tree.func.id if isinstance(tree, ast.Call) and isinstance(tree.func, ast.Name) else ""
        if not isinstance(tree, ast.Call) or name not in PRESETS:
            raise IsometerError(
                f"the network is {network[:60]!r}; expected a preset, whose keywords the axes set — gpt(blocks=24), say"
            )
        self._preset, self._call = name, tree
        for axis in (x, y):
            self._check(axis)
        if x == y:
            raise IsometerError(f"both axes are {x}; expected two keywords of {name}")

    def _check(self, axis: str) -> None:
        known = _keywords(self._preset)
        if axis not in known:
            raise unknown_name(f"keyword of {self._preset}", axis, sorted(known), fix="pass one of them")
        if known[axis] in ("str", "bool"):
            raise IsometerError(f"{axis} is no number; expected a keyword with a number — qk_gain, say")

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


def _keywords(preset: str) -> dict[str, str]:
    """Keywords of a preset and their types; `vit` takes those of `gpt` too."""
    names = (preset, "gpt") if preset == "vit" else (preset,)
    return {
        name: str(parameter.annotation)
        for one in names
        for name, parameter in inspect.signature(PRESETS[one]).parameters.items()
        if parameter.kind is parameter.KEYWORD_ONLY
    }
