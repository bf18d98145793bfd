"""What the exponents mean: each beside those of theory, and what to change where they differ."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

from isometer.doctor.scaling._fitting import Exponent, by_key
from isometer.doctor.scaling._rules import (
    FIXED,
    GRADIENT,
    GROUPS,
    OUTPUT,
    PARAMETRISATIONS,
    VECTOR,
    Parametrisation,
)

ROOM = 0.25
"""Exponents of theory are multiples of ½; a measured one belongs to the nearest."""
Fits = Mapping[tuple[str, str, str, bool], Exponent]


@dataclass(frozen=True)
class ScalingVerdict:
    """One exponent beside those of theory.

    Example:
        >>> measured = Exponent("width", "update", "hidden", "all", 0.98, 0.04, 9)
        >>> ScalingVerdict(measured, 0.0, {"standard": 1.0, "mup": 0.0}).state
        'grows'

    Attributes:
        measured: the exponent.
        asked: the exponent of the parametrisation that is aimed at; None where theory says nothing.
        theory: exponents of the parametrisations by name.
        at_most: smaller ones are fine too.
    """

    measured: Exponent
    asked: float | None
    theory: Mapping[str, float | None] = field(default_factory=dict)
    at_most: bool = False

    @property
    def state(self) -> str:
        """`fits`, `grows` or `shrinks` faster than required, `unclear`, or `not judged`."""
        value, error = self.measured.value, self.measured.error
        if self.asked is None or not math.isfinite(value):
            return "not judged"
        off = value - self.asked
        if abs(off) <= ROOM or (self.at_most and off < 0):
            return "fits"
        if not math.isfinite(error) or abs(off) - error <= ROOM:  # two points have no error
            return "unclear"
        return "grows" if off > 0 else "shrinks"

    def to_dict(self) -> dict[str, Any]:
        """As JSON data."""
        return {
            **self.measured.to_dict(),
            "asked": self.asked,
            "at_most": self.at_most,
            "theory": dict(self.theory),
            "state": self.state,
        }


@dataclass(frozen=True)
class Correction:
    """What to change about a group of parameters, as exponents of the width and of the depth.

    Attributes:
        group: group of parameters.
        repeated: whether it is about those of which deeper models have more.
        labels: their names with `*` for numbers.
        init_width: multiply initial weights by width^this.
        rate_width: multiply the rate by width^this.
        rate_depth: multiply the rate by depth^this.
    """

    group: str
    repeated: bool
    labels: tuple[str, ...]
    init_width: float = 0.0
    rate_width: float = 0.0
    rate_depth: float = 0.0

    @property
    def empty(self) -> bool:
        """Whether there is nothing to change."""
        return not (self.init_width or self.rate_width or self.rate_depth)

    def to_dict(self) -> dict[str, Any]:
        """As JSON data."""
        return asdict(self)


@dataclass(frozen=True)
class Opinion:
    """All verdicts with one aim, and what to change.

    Attributes:
        aim: name of the parametrisation.
        verdicts: one per exponent that is judged.
        corrections: corrections of initial weights and rates.
        branch_depth: multiply residual branches by depth^this.
        output_width: multiply the output by width^this, where its weights are those of the embedding.
    """

    aim: str
    verdicts: tuple[ScalingVerdict, ...]
    corrections: tuple[Correction, ...]
    branch_depth: float = 0.0
    output_width: float = 0.0

    @property
    def changes(self) -> bool:
        """Whether there is something to change."""
        return bool(self.corrections or self.branch_depth or self.output_width)

    @property
    def unclear(self) -> tuple[ScalingVerdict, ...]:
        """Verdicts that more seeds or larger sizes could change."""
        return tuple(one for one in self.verdicts if one.state == "unclear")

    @property
    def wrong(self) -> tuple[ScalingVerdict, ...]:
        """Verdicts that do not fit."""
        return tuple(one for one in self.verdicts if one.state in ("grows", "shrinks"))


def opinion(exponents: Sequence[Exponent], aim: str | None, kind: str, residual: bool | None) -> Opinion:
    """Judge exponents.

    Args:
        exponents: that were measured.
        aim: a parametrisation; None for muP where depth was not varied or has no skips, otherwise CompleteP, or
            depth-muP where the model already fits that.
        kind: kind of optimizer.
        residual: whether blocks have skip connections; None where depth was not varied.
    """
    if aim is not None:
        return _opinion(exponents, aim, kind, residual)
    if not residual:
        return _opinion(exponents, "mup", kind, residual)
    usual, other = (_opinion(exponents, name, kind, residual) for name in ("completep", "depth-mup"))
    return other if usual.wrong and not [one for one in other.wrong if one.measured.axis == "depth"] else usual


def _opinion(exponents: Sequence[Exponent], aim: str, kind: str, residual: bool | None) -> Opinion:
    fits, rules = by_key(exponents), PARAMETRISATIONS[aim]
    verdicts = [*_over_widths(fits, rules, kind), *_over_depths(fits, rules, kind, residual)]
    return Opinion(aim, tuple(verdicts), *_corrections(exponents, verdicts, kind, residual))


def _over_widths(fits: Fits, rules: Parametrisation, kind: str) -> list[ScalingVerdict]:
    found = []
    for (axis, quantity, group, _), one in fits.items():
        judged = quantity in ("update", "logits", "logits_change") or (
            quantity == "activation" and group not in (OUTPUT, VECTOR, FIXED)
        )
        if axis != "width" or not judged:
            continue
        theory = {name: each.width(quantity, group, kind) for name, each in PARAMETRISATIONS.items()}
        asked = rules.width(quantity, group, kind)
        found.append(ScalingVerdict(one, asked, theory, at_most=quantity == "logits"))
    return found


def _over_depths(fits: Fits, rules: Parametrisation, kind: str, residual: bool | None) -> list[ScalingVerdict]:
    found = []
    for (axis, quantity, group, repeated), one in fits.items():
        judged = quantity in ("update", "branch", "stream", "stream_change", "logits_change")
        if axis != "depth" or not judged or (group not in GROUPS and not residual and quantity != "logits_change"):
            continue
        if residual:
            theory = {name: each.depth(quantity, repeated, kind) for name, each in PARAMETRISATIONS.items()}
            asked = rules.depth(quantity, repeated, kind)
        else:  # without skips there is no limit of great depth; logits that move as much are all one can ask for
            theory, asked = {}, 0.0 if quantity == "logits_change" else None
        found.append(ScalingVerdict(one, asked, theory))
    return found


def _needed(
    fits: Mapping[tuple[str, str, str, bool], ScalingVerdict],
    *key: Any,
    states: Sequence[str] = ("grows", "shrinks"),
) -> float:
    """The exponent that is missing; zero where it fits or is not known well enough."""
    one = fits.get(key)
    if one is None or one.asked is None or one.state not in states:
        return 0.0
    return float(one.asked - one.measured.nearest)


def _corrections(
    exponents: Sequence[Exponent],
    verdicts: Sequence[ScalingVerdict],
    kind: str,
    residual: bool | None,
) -> tuple[tuple[Correction, ...], float, float]:
    known = {(v.measured.axis, v.measured.quantity, v.measured.group, v.measured.repeated): v for v in verdicts}
    # A smaller output at the start does no harm, so that a doubt is no reason to leave it; other rates depend on it.
    output = _needed(known, "width", "logits", "model", False, states=("grows", "unclear"))
    branch = _needed(known, "depth", "branch", "stream", True) if residual else 0.0
    plain = 0.0 if residual is not False else _needed(known, "depth", "logits_change", "model", False)
    found = []
    for group, repeated in dict.fromkeys((e.group, e.repeated) for e in exponents if e.quantity == "update"):
        labels = [e.label for e in exponents if (e.group, e.repeated, e.quantity) == (group, repeated, "update")]
        init = output if group == OUTPUT else _needed(known, "width", "activation", group, repeated)
        width, depth = (_needed(known, axis, "update", group, repeated) for axis in ("width", "depth"))
        if kind == GRADIENT:  # gradients below the output layer shrink with it, and those in branches with these
            width -= output if group not in (OUTPUT, FIXED) else 0.0
            depth -= branch if repeated else 0.0
        names = tuple(dict.fromkeys(label for label in labels if label != "all"))
        found.append(Correction(group, repeated, names, init, width, depth + plain))
    tied = not any(e.group == OUTPUT for e in exponents)
    return tuple(one for one in found if not one.empty), branch, output if tied else 0.0


def resembles(verdicts: Sequence[ScalingVerdict]) -> str | None:
    """The parametrisation whose exponents are nearest to those measured; the simplest of several that are equal.

    Example:
        >>> measured = Exponent("width", "update", "hidden", "all", 0.98, 0.04, 9)
        >>> resembles([ScalingVerdict(measured, 0.0, {"standard": 1.0, "mup": 0.0})])
        'standard'
    """
    distances = {}
    for name in PARAMETRISATIONS:
        judged = [(v.measured.value, v.theory.get(name)) for v in verdicts if math.isfinite(v.measured.value)]
        both = [(value, asked) for value, asked in judged if asked is not None]
        if both:
            distances[name] = sum((value - asked) ** 2 for value, asked in both) / len(both)
    if not distances:
        return None
    nearest = min(distances.values())
    return next(name for name, distance in distances.items() if distance <= nearest + 1e-9)
