"""What got better and what got worse between two reports."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from isometer.doctor.conditions._findings import SEVERITIES

_RANK = {severity: index for index, severity in enumerate(SEVERITIES)}  # 0 is the worst
_QUANTITIES = {
    # what it is called: (metric, first or last layer that has it)
    "scale of the last representation": ("rms", "last"),
    "gradient by the input side": ("output_gradient_log_norm", "first"),
    "mean |cosine| of samples at the end": ("mean_abs_cosine", "last"),
}


def compare(baseline: Mapping[str, Any], report: Mapping[str, Any], *, name: str = "baseline") -> dict[str, Any]:
    """Findings that came, went or changed in severity.

    Args:
        baseline: an earlier report, as `Report.to_dict` gives it.
        report: the present one.
        name: of the baseline.

    Returns:
        `baseline`, and sentences under `better`, `worse`, `unchanged`.

    Example:
        >>> old = {"findings": [{"id": "rank-collapse", "severity": "severe"}], "layers": [], "metrics": {}}
        >>> compare(old, {"findings": [], "layers": [], "metrics": {}})["better"]
        ['rank-collapse (severe) is gone']
    """
    before = {finding["id"]: finding["severity"] for finding in baseline["findings"]}
    after = {finding["id"]: finding["severity"] for finding in report["findings"]}
    better, worse, unchanged = [], [], []
    for one, severity in before.items():
        if one not in after:
            better.append(f"{one} ({severity}) is gone")
        elif after[one] == severity:
            unchanged.append(f"{one} ({severity})")
        elif _RANK.get(after[one], 0) > _RANK.get(severity, 0):
            better.append(f"{one}: {severity} → {after[one]}")
        else:
            worse.append(f"{one}: {severity} → {after[one]}")
    worse.extend(f"{one} ({severity}) is new" for one, severity in after.items() if one not in before)
    if len(baseline["layers"]) != len(report["layers"]):
        unchanged.append(f"the models differ: {len(baseline['layers'])} layers before, {len(report['layers'])} now")
    return {
        "baseline": name,
        "better": better,
        "worse": worse,
        "unchanged": unchanged,
        "numbers": _numbers(baseline, report),
    }


def _numbers(baseline: Mapping[str, Any], report: Mapping[str, Any]) -> list[dict[str, Any]]:
    rows = []
    for label, (metric, where) in _QUANTITIES.items():
        values = [_value(document, metric, where) for document in (baseline, report)]
        if None not in values:
            rows.append({"quantity": label, "metric": metric, "before": values[0], "after": values[1]})
    return rows


def _value(document: Mapping[str, Any], metric: str, where: str) -> float | None:
    """Of the first or last activation, norm or sum that has the number."""
    column = document["metrics"].get(metric, [])
    kinds = ("activation", "norm", "add", "attention")
    found = [
        value
        for value, layer in zip(column, document["layers"], strict=False)
        if layer.get("kind") in kinds and isinstance(value, (int, float))
    ]
    if not found:
        return None
    return float(found[0] if where == "first" else found[-1])
