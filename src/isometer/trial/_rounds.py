"""The rounds of the trial: each has families of its own, written after the seal of the round before was opened."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from types import MappingProxyType

from isometer.errors import IsometerError


@dataclass(frozen=True)
class TrialRound:
    """How the models of a round are drawn and trained.

    Attributes:
        sound: share of the models that are drawn without a fault.
        structural: share of the faults that are drawn from those of the family, where it has any.
        per_base: models that share an architecture, and with it the sound sibling they are compared with.
        slowest: seconds of processor time that one step may take, except in the stratum of large models.
        seldom: faults of any family that are drawn half as often as the others.
        rates: how many rates are trained for longer: the best two, or the best and its neighbours.
        patience: how many times as many steps SGD gets while five rates are compared; it often learns nothing at first.
    """

    sound: float
    structural: float
    per_base: int
    slowest: float
    seldom: frozenset[str]
    rates: int
    patience: int


# Each was put into three models of the first round or more, and none of them was sick with either optimizer; parameters
# that are not used can do no harm.
_HARMLESS = [
    "activations-left-out",
    "activations-twice",
    "batch-tiny",
    "low-rank",
    "negated",
    "one-too-small",
    "one-zero",
    "softmax-inside",
    "too-deep",
    "too-narrow",
    "unused",
]

_THIRD = TrialRound(
    sound=0.1,
    structural=0.25,
    per_base=2,
    slowest=0.015,
    seldom=frozenset(_HARMLESS),
    rates=3,
    patience=2,
)

ROUNDS: Mapping[int, TrialRound] = MappingProxyType(
    {
        1: TrialRound(sound=0.3, structural=0.35, per_base=4, slowest=0.040, seldom=frozenset(), rates=2, patience=1),
        2: replace(_THIRD, sound=0.08, per_base=3),
        3: _THIRD,
        4: replace(_THIRD, per_base=3),
    }
)
"""The rounds by number."""


def round_numbered(number: int) -> TrialRound:
    """The round of that number.

    Raises:
        IsometerError: there is none.

    Example:
        >>> round_numbered(2).rates
        3
    """
    if number not in ROUNDS:
        raise IsometerError(f"there is no round {number} of the trial; expected one of {[*ROUNDS]} — pass --round 1")
    return ROUNDS[number]
