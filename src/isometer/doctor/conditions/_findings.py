"""What a diagnosis says: findings, each with numbers behind it and what to change."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from isometer.doctor.conditions._prescription import Prescription

SEVERITIES = ("severe", "moderate")
NOTE = "note"
"""In the place of a severity, where the model trains nevertheless. """


@dataclass(frozen=True)
class Finding:
    """One condition of a model.

    Example:
        >>> found = Finding("dead-units", "severe", (3,), {"dead_fraction": 0.97}, "Most units are silent. None learn.")
        >>> found.to_dict()["evidence"]
        {'dead_fraction': 0.97}

    Attributes:
        id: ID of the condition, one of `CONDITIONS`.
        severity: `severe` (beyond the limit where half of what a healthy sibling learns is lost in the calibration
            runs) or `moderate` (a quarter). What this is worth for other models is measured by the trial. `note` where
            the model trains all the same.
        layers: layers of the examination it concerns, in order.
        evidence: the numbers that triggered it, with the limits they crossed and the p-value where chance plays a part.
        explanation: two sentences: what was observed, and why it harms.
        references: inventory IDs of the statements behind it.
        prescriptions: what to change, best first.
    """

    id: str
    severity: str
    layers: tuple[int, ...]
    evidence: Mapping[str, Any]
    explanation: str
    references: tuple[str, ...] = ()
    prescriptions: tuple[Prescription, ...] = field(default=())

    def to_dict(self) -> dict[str, Any]:
        """Ready for JSON."""
        return {
            "id": self.id,
            "severity": self.severity,
            "layers": list(self.layers),
            "evidence": dict(self.evidence),
            "explanation": self.explanation,
            "references": list(self.references),
            "prescriptions": [p.to_dict() for p in self.prescriptions],
        }
