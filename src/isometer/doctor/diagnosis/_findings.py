"""What a diagnosis says: findings, each with numbers behind it and what to change."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

FINDINGS = (
    "rank-collapse",
    "activation-explosion",
    "activation-vanishing",
    "gradient-explosion",
    "gradient-vanishing",
    "gradient-alignment",
    "odd-point",
    "degenerate-batch",
    "small-batch-bn",
    "asymmetric-init",
    "wrong-gain",
    "dead-units",
    "saturation",
    "effectively-linear",
)
"""Every finding there is, by its id."""

SEVERITIES = ("severe", "moderate")


@dataclass(frozen=True)
class Prescription:
    """One thing to change.

    Example:
        >>> Prescription("orthogonal-init", "Initialise the weights as random orthogonal matrices.", "weights").kind
        'weights'

    Attributes:
        id: short name, the same wherever the same change is meant.
        text: what to do, one sentence.
        kind: what it touches: `weights`, `architecture`, `batch` or `training`.
        references: inventory IDs of the statements behind it.
    """

    id: str
    text: str
    kind: str
    references: tuple[str, ...] = ()

    def to_dict(self) -> dict[str, Any]:
        """Ready for JSON."""
        return {"id": self.id, "text": self.text, "kind": self.kind, "references": list(self.references)}


@dataclass(frozen=True)
class Finding:
    """One condition of a model.

    Example:
        >>> found = Finding("dead-units", "severe", (3,), {"dead_fraction": 0.97}, "Most units are silent. None learn.")
        >>> found.to_dict()["evidence"]
        {'dead_fraction': 0.97}

    Attributes:
        id: one of `FINDINGS`.
        severity: `severe` (not expected to train) or `moderate` (expected to train worse than a healthy sibling).
        layers: layers of the examination it concerns, in order.
        evidence: the numbers that triggered it, with the limits they crossed and the p-value where chance plays a part.
        explanation: two sentences: what is seen, and why it harms.
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
