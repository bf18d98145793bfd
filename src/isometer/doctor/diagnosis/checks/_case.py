"""What a check gets to see."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field

from isometer.doctor.diagnosis._findings import Finding
from isometer.doctor.diagnosis._redraws import Redraws, Statistic
from isometer.doctor.diagnosis._signal_path import View


@dataclass
class Case:
    """One model under examination.

    Attributes:
        view: what was measured.
        redraws: the same architecture with weights redrawn, examined when asked for.
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


Check = Callable[[Case], Iterable[Finding]]
