"""Why samples that look alike harm one model and not another, in a sentence or two."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from isometer.doctor.conditions._conditions import CONDITIONS
from isometer.report._doctor_metrics import columns, concerns_tokens, real
from isometer.report._numbers import number

_COLLAPSE = "rank-collapse"
_NOTABLE = 0.8  # mean |cosine| from which a reader wonders


def similarity_words(report: Mapping[str, Any]) -> str:
    """Why the cosines between samples are harmless here; empty where they are small, or a finding explains them.

    Example:
        >>> same = {"metrics": {"mean_abs_cosine": [0.02, 0.93]}, "layers": [{}, {}], "findings": []}
        >>> print(similarity_words(same).split(": ")[0])
        The samples end at mean |cosine| 0.93, which is harmless here
        >>> similarity_words({**same, "metrics": {"mean_abs_cosine": [0.02, 0.1]}})
        ''
    """
    noted = next((one for one in report.get("notes") or () if _of_samples(one)), None)
    if noted is not None:
        end = real(noted["evidence"].get("mean_abs_cosine_at_end"))
        return (
            f"The samples end at mean |cosine| {number(end, 5)}, which is severe in models that do not learn and "
            f"harmless here: {_learned(report)}. The difference that is left is small, but the optimizer amplifies it; "
            "the short trainings decide, the cosine alone does not."
        )
    if any(_of_samples(one) for one in report["findings"]):
        return ""
    cosines = [value for value in columns(report).get("mean_abs_cosine", ()) if not math.isnan(value)]
    if not cosines or cosines[-1] < _NOTABLE:
        return ""
    limit = 1.0 - CONDITIONS[_COLLAPSE].limits.moderate
    lead = f"The samples end at mean |cosine| {number(cosines[-1], 3)}, which is harmless here: "
    if cosines[-1] < limit:
        share = number(100 * (1 - cosines[-1]), 2)
        return f"{lead}{share} % of the signal still distinguishes them, and harm begins at {number(limit, 3)}."
    if cosines[0] >= _NOTABLE:
        return f"{lead}they are that alike at the input already ({number(cosines[0], 3)}); the network adds nothing."
    return f"{lead}another path to the readout keeps them distinct, or redrawn networks vary as much."


def _of_samples(finding: Mapping[str, Any]) -> bool:
    return bool(finding["id"] == _COLLAPSE) and not concerns_tokens(finding)


def _learned(report: Mapping[str, Any]) -> str:
    """What the best optimizer reached in the short trainings."""
    reached = {
        name: next((v for key in ("fresh", "fit") if not math.isnan(v := real(one["evidence"].get(key)))), math.nan)
        for name, one in (report.get("trains") or {}).items()
    }
    known = {name: value for name, value in reached.items() if not math.isnan(value)}
    if not known:
        return "this model trains"
    best = max(known, key=lambda name: known[name])
    return f"this model trains, and {best} removes {100 * known[best]:.0f} % of the loss in a few dozen steps"
