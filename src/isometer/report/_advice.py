"""What to change, over all findings of a report: only what applies to the model, the most promising first, with code.

A change counts for every finding that recommends it: three times as much for a severe finding, twice as much for one
that names a cause (weights, batch) and not a symptom, and less the further down the finding lists it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import Any

from isometer.doctor.conditions._conditions import CONDITIONS
from isometer.doctor.conditions._prescription import Call, code
from isometer.doctor.conditions._prescriptions import PRESCRIPTIONS

_SEVERE = 3.0  # moderate findings that a severe one counts for, as in a treatment by findings
_CAUSE = 2.0
_TREATMENT = "isometer.doctor.treatment"


@dataclass(frozen=True)
class Advice:
    """One change that a model can use.

    Attributes:
        id: ID of the prescription.
        text: what to do, one sentence.
        kind: what it touches.
        references: inventory IDs.
        code: Python lines that do it to `model` (and `batch`); empty where no function does.
        side_effects: what else changes.
        findings: ids of the findings that recommend it, in the order of the report.
    """

    id: str
    text: str
    kind: str
    references: tuple[str, ...]
    code: str
    side_effects: str
    findings: tuple[str, ...]


@dataclass(frozen=True)
class _Facts:
    """What the layers of a report say about the architecture."""

    sums: int
    norms: int
    batch_norm: bool
    bare: bool  # weights with an activation behind them and no normalisation between
    activations: bool
    tokens: bool
    samples: int
    width: int


_NEEDS: Mapping[str, Callable[[_Facts], bool]] = {
    "principled-gain": lambda facts: facts.activations,
    "symmetric-init": lambda facts: facts.activations,
    "normalize-activation": lambda facts: facts.activations,
    "shape-activation": lambda facts: facts.activations,
    "add-batch-norm": lambda facts: facts.bare and not facts.tokens,
    "add-layer-norm": lambda facts: facts.bare,
    "add-residual": lambda facts: not facts.sums,
    "scale-branches": lambda facts: facts.sums >= 2,
    "fixup": lambda facts: facts.sums >= 2 and not facts.norms,
    "pre-norm": lambda facts: bool(facts.sums and facts.norms),
    "batch-free-norm": lambda facts: facts.batch_norm,
    "larger-batch": lambda facts: facts.batch_norm,
    "iterative-orthogonalization": lambda facts: facts.samples >= facts.width,
    "rank-pretraining": lambda facts: facts.samples >= 2,
}
"""What a prescription needs of the architecture; one that is not here always applies."""


def ranked_advice(report: Mapping[str, Any]) -> list[Advice]:
    """Every change that the findings recommend and the model can use, the most promising first.

    Example:
        >>> weight = {"name": "0", "kind": "weight", "op": "Linear", "shape": [8, 4], "activation": "relu"}
        >>> listed = [PRESCRIPTIONS[one].to_dict() for one in ("scale-branches", "zero-bias", "principled-gain")]
        >>> found = {"id": "rank-collapse", "severity": "severe", "prescriptions": listed}
        >>> gain = {"id": "wrong-gain", "severity": "severe", "prescriptions": listed[2:]}
        >>> model = {"layers": [weight], "batch": {"samples": 8}, "findings": [found, gain]}
        >>> [one.id for one in ranked_advice(model)]  # no branches to scale in a chain
        ['principled-gain', 'zero-bias']
        >>> print(ranked_advice(model)[1].code)
        from isometer.doctor.treatment import zero_biases_
        <BLANKLINE>
        zero_biases_(model)
    """
    facts = _facts(report)
    scores: dict[str, float] = {}
    first: dict[str, Mapping[str, Any]] = {}
    behind: dict[str, list[str]] = {}
    for finding in report["findings"]:
        usable = [one for one in finding["prescriptions"] if _applies(str(one.get("id", "")), facts)]
        for rank, one in enumerate(usable):
            name = str(one.get("id") or one["text"])
            first.setdefault(name, one)
            scores[name] = scores.get(name, 0.0) + _weight(finding) / (1 + rank)
            behind.setdefault(name, []).append(str(finding["id"]))
    best = sorted(scores, key=lambda name: -scores[name])  # stable: otherwise as the findings list them
    return [_advice(name, first[name], behind[name]) for name in best]


def _weight(finding: Mapping[str, Any]) -> float:
    condition = CONDITIONS.get(finding["id"])
    severe = _SEVERE if finding["severity"] == "severe" else 1.0
    return severe * (_CAUSE if condition is not None and condition.cause else 1.0)


def _advice(name: str, one: Mapping[str, Any], findings: Sequence[str]) -> Advice:
    known = PRESCRIPTIONS.get(name)
    lines = code(known.calls[0], 0) if known is not None and known.calls else ""
    return Advice(
        name,
        str(one["text"]),
        str(one["kind"]),
        tuple(map(str, one["references"])),
        lines,
        known.side_effects if known is not None else "",
        tuple(dict.fromkeys(findings)),
    )


_REPAIRS = {
    "weights": Call(_TREATMENT, "redraw_", batch=True, seeded=True),
    "norm": Call(_TREATMENT, "reset_norms_"),
    "frozen": Call(_TREATMENT, "unfreeze_"),
    "input": Call(_TREATMENT, "standardise_inputs_", batch=True),
}
"""By the kind of a cause, the function that repairs it."""


def repair_code(cause: Mapping[str, Any]) -> str:
    """Python lines that repair a cause; empty where no function does.

    Example:
        >>> print(repair_code({"kind": "weights", "modules": ["blocks.3"]}))
        from isometer.doctor.treatment import redraw_
        <BLANKLINE>
        redraw_(model, batch, modules=['blocks.3'], seed=0)
        >>> repair_code({"kind": "loss", "modules": ["loss"]})
        ''
    """
    call = _REPAIRS.get(str(cause.get("kind", "")))
    if call is None:
        return ""
    if cause["kind"] != "input":
        call = replace(call, options=MappingProxyType({"modules": [str(name) for name in cause["modules"]]}))
    return code([call], 0)


def _applies(name: str, facts: _Facts | None) -> bool:
    return facts is None or name not in _NEEDS or _NEEDS[name](facts)


def _facts(report: Mapping[str, Any]) -> _Facts | None:
    """`None` for reports of versions that did not say what follows the weights."""
    rows = [row for row in report["layers"] if "activation" in row]
    if not rows:
        return None
    kinds = [str(row["kind"]) for row in rows]
    weights = [row for row in rows if row["kind"] == "weight"]
    return _Facts(
        sums=kinds.count("add"),
        norms=kinds.count("norm"),
        batch_norm=any(str(row["op"]).lower().replace("_", "").startswith("batchnorm") for row in rows),
        bare=any(row["activation"] and not row.get("normalized") for row in weights),
        activations=any(row["activation"] for row in rows),
        tokens="attention" in kinds,
        samples=int(report["batch"]["samples"] or 0),
        width=max((int(row["shape"][-1]) for row in weights if row.get("shape")), default=0),
    )
