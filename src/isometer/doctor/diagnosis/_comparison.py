"""What got better and what got worse between two reports."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from isometer.doctor.conditions._findings import SEVERITIES
from isometer.report._outlook_words import PHRASES

_RANK = {severity: index for index, severity in enumerate(SEVERITIES)}  # 0 is the worst
_ORDER = ("sick", "slow", "trains")  # the best last
_QUANTITIES = {
    # what it is called: (metric, first or last layer that has it)
    "size of the last representation": ("rms", "last"),
    "gradient near the input": ("output_gradient_log_norm", "first"),
    "mean |cosine| of samples at the output": ("mean_abs_cosine", "last"),
}


def compare(baseline: Mapping[str, Any], report: Mapping[str, Any], *, name: str = "baseline") -> dict[str, Any]:
    """Verdicts of stress tests that changed, and findings that came, went or changed in severity.

    A verdict that is unknown before or now is neither better nor worse.

    Args:
        baseline: an earlier report, as `Report.to_dict` gives it.
        report: the present one.
        name: name of the baseline.

    Returns:
        `baseline`, and sentences under `better`, `worse`, `unchanged`.

    Example:
        >>> old = {"findings": [{"id": "rank-collapse", "severity": "severe"}], "layers": [], "metrics": {}}
        >>> compare(old, {"findings": [], "layers": [], "metrics": {}})["better"]
        ['rank-collapse (severe) is gone']
        >>> sick, well = ({**old, "trains": {"adam": {"verdict": one, "at_rate": None}}} for one in ("sick", "trains"))
        >>> compare(sick, well)["better"]
        ['adam: does not train → trains']
    """
    better, worse, unchanged = _verdicts(baseline, report)
    before = {finding["id"]: finding["severity"] for finding in baseline["findings"]}
    after = {finding["id"]: finding["severity"] for finding in report["findings"]}
    for one, severity in before.items():
        if one not in after:
            better.append(f"{one} ({severity}) is gone")
        elif after[one] == severity:
            unchanged.append(f"{one} ({severity})")
        elif after[one] not in _RANK or severity not in _RANK:
            unchanged.append(f"{one}: {severity} → {after[one]}, which cannot be ordered")
        elif _RANK[after[one]] > _RANK[severity]:
            better.append(f"{one}: {severity} → {after[one]}")
        else:
            worse.append(f"{one}: {severity} → {after[one]}")
    worse.extend(f"{one} ({severity}) is new" for one, severity in after.items() if one not in before)
    if len(baseline["layers"]) != len(report["layers"]):
        unchanged.append(f"not comparable layer by layer: {len(baseline['layers'])} and {len(report['layers'])} layers")
    return {
        "baseline": name,
        "better": better,
        "worse": worse,
        "unchanged": unchanged,
        "numbers": _numbers(baseline, report),
    }


def _verdicts(baseline: Mapping[str, Any], report: Mapping[str, Any]) -> tuple[list[str], list[str], list[str]]:
    """What got better, worse and stayed, of what both reports judge: optimizers at their best rates, and at a rate."""
    better: list[str] = []
    worse: list[str] = []
    unchanged: list[str] = []
    before, after = _judged(baseline), _judged(report)
    for what in before:
        first, second = before[what], after.get(what)
        if second is None or (first == second and first not in _ORDER):
            continue
        if first not in _ORDER or second not in _ORDER:
            known = PHRASES[first if first in _ORDER else second]
            unchanged.append(f"{what}: {known} {'before' if first in _ORDER else 'now'}, not decided in the other")
        elif first == second:
            unchanged.append(f"{what}: {PHRASES[first]}")
        else:
            up = _ORDER.index(second) > _ORDER.index(first)
            (better if up else worse).append(f"{what}: {PHRASES[first]} → {PHRASES[second]}")
    return better, worse, unchanged


def _judged(document: Mapping[str, Any]) -> dict[str, str]:
    """Verdicts by what they are about; older reports have none."""
    found = {}
    for name, one in (document.get("trains") or {}).items():
        found[str(name)] = str(one["verdict"])
        at = one.get("at_rate")
        if at is not None:
            found[f"{name} at {float(at['rate']):.3g}"] = str(at["verdict"])
    return found


def _numbers(baseline: Mapping[str, Any], report: Mapping[str, Any]) -> list[dict[str, Any]]:
    rows = []
    for label, (metric, where) in _QUANTITIES.items():
        values = [_value(document, metric, where) for document in (baseline, report)]
        if None not in values:
            rows.append({"quantity": label, "metric": metric, "before": values[0], "after": values[1]})
    return rows


def _value(document: Mapping[str, Any], metric: str, where: str) -> float | None:
    """Of the first or last activation, norm or sum that has the number."""
    column = document["metrics"].get(metric)
    kinds = ("activation", "norm", "add", "attention")
    found = [
        float(value)  # infinities are text
        for value, layer in zip(column or (), document["layers"] if column else (), strict=True)
        if layer.get("kind") in kinds and value is not None
    ]
    if not found:
        return None
    return found[0] if where == "first" else found[-1]
