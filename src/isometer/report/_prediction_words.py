"""How the measurement compares with theory, in a few lines."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from isometer.metrics._catalogue import describe
from isometer.report._doctor_metrics import where
from isometer.report._numbers import rounded

_LONGEST = 400  # characters of a network's text; all of it is in --json


def prediction_words(report: Mapping[str, Any]) -> list[str]:
    """The extracted network, and where the measurement leaves its band; why there is none, where there is none.

    Example:
        >>> prediction_words({"no_prediction": "values are not finite"})
        ['No prediction: values are not finite.']
    """
    found = report.get("prediction")
    if found is None:
        reason = str(report.get("no_prediction") or "")
        return [f"No prediction: {reason}."] if reason else []
    text = rounded(str(found.get("network") or ""))
    lines = [f"Network: {text if len(text) <= _LONGEST else text[:_LONGEST] + ' …'}"] if text else []
    return [*lines, _inside(found)]


def _inside(found: Mapping[str, Any]) -> str:
    readings = sum(_number(low) for band in found["metrics"].values() for low in band["low"])
    if not readings:
        return str(found.get("note") or "")
    outside: dict[str, list[int]] = {}
    for place in found.get("leaves_band", ()):
        outside.setdefault(str(place["metric"]), []).append(int(place["layer"]))
    count = readings - sum(map(len, outside.values()))
    told = f"The measurement is inside the band of theory at {count} of {readings} readings"
    if not outside:
        return f"{told}."
    places = "; ".join(f"{describe(name).heading} {where(layers)}" for name, layers in outside.items())
    return f"{told}; outside: {places}."


def _number(value: Any) -> bool:
    return isinstance(value, int | float) and math.isfinite(value)
