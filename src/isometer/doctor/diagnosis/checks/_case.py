"""What a check gets to see, and what it says."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from isometer.doctor.conditions._findings import Finding

if TYPE_CHECKING:  # checks read numbers: reports are drawn from the table of conditions where torch is missing
    from isometer.doctor.diagnosis._redraws import Redraws, Statistic
    from isometer.doctor.diagnosis._signal_path import View

SIGNIFICANCE = 1e-3
"""Largest p-value of a finding that chance could produce, after correction for the number of layers looked at."""


@dataclass
class Case:
    """One model under examination.

    Attributes:
        view: what was measured.
        redraws: the same architecture with weights redrawn, examined when requested.
        found: what earlier checks found.
    """

    view: View
    redraws: Redraws
    found: list[Finding] = field(default_factory=list)

    def has(self, *ids: str) -> bool:
        """Whether one of these was found already."""
        return any(finding.id in ids for finding in self.found)

    def p_value(self, value: float, neutral: float, statistic: Statistic) -> float:
        """See `Redraws.p_value`."""
        return self.redraws.p_value(value, neutral, statistic)

    def name(self, layer: int) -> str:
        """How people call a layer."""
        return self.view.sites[layer].name

    def where(self, layers: Sequence[int]) -> str:
        """`'a' to 'b'`, or `'a'`."""
        first, last = self.name(layers[0]), self.name(layers[-1])
        return f"{first!r}" if first == last else f"{first!r} to {last!r}"


@dataclass(frozen=True)
class Sign:
    """What a check saw; id, references and prescriptions of the finding come from its condition.

    Attributes:
        severity: `severe` or `moderate`.
        layers: layers of the examination it concerns, in order.
        evidence: the numbers that triggered it, with the limits they crossed.
        seen: what is seen, one sentence.
        harm: why it harms, where that sentence has numbers; the condition's own otherwise.
        variant: name of the form of the condition, if it is not the usual one.
    """

    severity: str
    layers: tuple[int, ...]
    evidence: Mapping[str, Any]
    seen: str
    harm: str = ""
    variant: str = ""
