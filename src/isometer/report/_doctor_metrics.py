"""Which numbers of a doctor's report are shown, in which order, and how a person reads them."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from isometer.doctor.conditions._conditions import CONDITIONS
from isometer.errors import IsometerError
from isometer.metrics import METRICS
from isometer.metrics._catalogue import added, describe
from isometer.metrics._metric import GAIN_RATIO, GROUPS
from isometer.report._document import SCHEMA, WRITE
from isometer.report._evidence_words import evidence_label
from isometer.report._numbers import number

_SEVERITY = {"severe": 0, "moderate": 1}


_FIRST = ("mean_abs_cosine", "effective_rank", "stable_rank", "token_mean_abs_cosine", "token_stable_rank")
"""What leads its group where quantities are offered; the others follow as in the catalogue."""

OVERVIEW = (
    "rms",
    "mean_abs_cosine",
    "effective_rank",
    "output_gradient_log_norm",
    "gradient_log_norm",
    GAIN_RATIO,
    "dead_fraction",
)
"""Columns of the table of layers unless a reader asks for others."""

VITALS = (
    ("rms", "Signal size"),
    ("mean_abs_cosine", "Similarity of samples"),
    ("effective_rank", "Directions used"),
    ("token_mean_abs_cosine", "Similarity of tokens"),
    ("output_gradient_log_norm", "Gradient size"),
)
"""What the small curves at the top show."""

_LEAST = 1e-12  # of a p-value that is worth its digits


def checked(report: Mapping[str, Any]) -> Mapping[str, Any]:
    """The report itself, if it can be drawn.

    Raises:
        IsometerError: if it is of another schema, or a metric does not have one number per layer.
    """
    schema = report.get("schema")
    if schema != SCHEMA:
        raise IsometerError(f"the report is of schema {schema!r}; expected {SCHEMA} — {WRITE}")
    layers = len(report["layers"])
    for name, values in report["metrics"].items():
        if len(values) != layers:
            raise IsometerError(
                f"the report's metric {name[:40]!r} has {len(values)} numbers for {layers} layers; expected one per "
                "layer — pass null where it is not defined"
            )
    return report


def layer_names(report: Mapping[str, Any]) -> list[str]:
    """The module of each layer, with the place in its code where several functions of the module are layers.

    Example:
        >>> rows = [{"name": "fc"}, {"name": "block", "where": "net.py:7"}, {"name": "block", "where": "net.py:9"}]
        >>> layer_names({"layers": rows})
        ['fc', 'block net.py:7', 'block net.py:9']
    """
    places: dict[str, set[str]] = {}
    for layer in report["layers"]:
        if layer.get("where"):
            places.setdefault(str(layer["name"]), set()).add(str(layer["where"]))
    names = []
    for layer in report["layers"]:
        name, place = str(layer["name"]), layer.get("where")
        names.append(f"{name} {place}" if place and len(places[name]) > 1 else name)
    return names


def real(value: Any) -> float:
    """A number of the report: `None` is nan, `"inf"` and `"-inf"` are infinities."""
    return math.nan if value is None else float(value)


def shown(name: str, values: Iterable[Any]) -> list[float]:
    """The numbers of a metric in the unit in which they are shown.

    Example:
        >>> shown("dead_fraction", [0.5, None]), shown("rms", ["inf"])
        ([50.0, nan], [inf])
    """
    factor = describe(name).factor
    return [real(value) * factor for value in values]


def columns(report: Mapping[str, Any]) -> dict[str, list[float]]:
    """Every metric which is defined somewhere, in the unit in which it is shown, by group."""
    metrics = dict(report["metrics"])
    if "weight_gain" in metrics and "principled_gain" in metrics:
        pairs = zip(metrics["weight_gain"], metrics["principled_gain"], strict=True)
        metrics[GAIN_RATIO] = [_ratio(real(gain), real(best)) for gain, best in pairs]
    known = sorted((name for name in METRICS if name in metrics), key=_place)
    order = [*known, *(name for name in metrics if name not in METRICS)]
    every = {name: shown(name, metrics[name]) for name in order}
    return {name: values for name, values in every.items() if not all(map(math.isnan, values))}


def _place(name: str) -> tuple[int, int]:
    return GROUPS.index(METRICS[name].group), _FIRST.index(name) if name in _FIRST else len(_FIRST)


def overview(names: Iterable[str]) -> list[str]:
    """Which of these quantities the table of layers shows: the usual ones, and those registered at run time.

    Example:
        >>> overview(["stable_rank", "effective_rank", "rms"])
        ['rms', 'effective_rank']
    """
    known = set(names)
    return [name for name in (*OVERVIEW, *(one.name for one in added())) if name in known]


def _ratio(gain: float, best: float) -> float:
    return gain / best if best > 0 and math.isfinite(best) else math.nan


def reading(value: float, unit: str = "", digits: int = 4) -> str:
    """A number with its unit.

    Example:
        >>> reading(50.0, "%"), reading(float("nan")), reading(-3.2, "log₁₀")
        ('50 %', '–', '0.000631')
    """
    if math.isnan(value):
        return "–"
    if unit == "log₁₀":
        return _power_of_ten(value)
    text = number(value, digits)
    return f"{text}{unit}" if unit == "°" else f"{text} {unit}".rstrip()


def _power_of_ten(value: float) -> str:
    """10^value, also where that is not a number of the machine any more."""
    if math.isinf(value):
        return "∞" if value > 0 else "0"
    exponent = math.floor(value)
    if -4 <= exponent < 5:
        return number(10**value, 3)
    return f"{10 ** (value - exponent):.2f}e{exponent}".replace("-", "−")


def evidence_rows(evidence: Mapping[str, Any]) -> list[tuple[str, str]]:
    """Labels and readings of a finding's numbers; what is `None` does not apply and is left out.

    Example:
        >>> evidence_rows({"dead_fraction": 0.97, "p_value": 1e-6, "first_layers": [1, 2]})
        [('dead units', '97 %'), ('p-value', '1e−06'), ('first layers', '1, 2')]
    """
    return [(evidence_label(key), _evidence(key, value)) for key, value in evidence.items() if value is not None]


def _evidence(key: str, value: Any) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, Sequence) and not isinstance(value, str):
        listed = ", ".join(_evidence(key, item) for item in value[:8])
        return f"{listed}, … ({len(value)} in all)" if len(value) > 8 else listed or "none"
    if isinstance(value, Mapping):
        return ", ".join(f"{name}: {_evidence(str(name), item)}" for name, item in value.items())
    if isinstance(value, str) and value not in ("inf", "-inf"):
        return value
    if key in METRICS:
        return reading(shown(key, [value])[0], METRICS[key].unit)
    if key == "p_value" and real(value) < _LEAST:
        return f"below {number(_LEAST, 1)}"
    if "cosine" in key and 0.999 < real(value) < 1:
        return number(real(value), 6)  # it is the distance to 1 that matters
    if "factor" in key.split("_"):
        return f"×{reading(real(value))}"
    unit = "%" if key.endswith(("_fraction", "_share")) else "°" if key.endswith("_deg") else ""
    return reading(real(value) * (100.0 if unit == "%" else 1.0), unit)


def ordered(findings: Iterable[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
    """Severe findings first, among equals those that name a cause, otherwise as they came."""
    return sorted(findings, key=lambda one: (_SEVERITY.get(one["severity"], len(_SEVERITY)), not names_cause(one)))


def names_cause(finding: Mapping[str, Any]) -> bool:
    """Whether a finding is about something that was set, such as weights, and not about a symptom in the signal."""
    condition = CONDITIONS.get(finding["id"])
    return condition is not None and condition.cause


def title_of(finding: Mapping[str, Any]) -> str:
    """What a finding is called; one of a condition that is not known here is called by its id."""
    text = str(finding["id"])
    return CONDITIONS[text].title if text in CONDITIONS else (text[:1].upper() + text[1:]).replace("-", " ")


def look_at(finding: Mapping[str, Any], available: Iterable[str]) -> str | None:
    """The metric whose curve shows a finding best, of those available."""
    known = list(available)
    condition = CONDITIONS.get(finding["id"])
    usual = condition.metrics[0] if condition is not None and condition.metrics else ""
    if concerns_tokens(finding):
        usual = f"token_{usual}"
    if usual in known:
        return usual
    return next((name for name in finding["evidence"] if name in known), None)


def concerns_tokens(finding: Mapping[str, Any]) -> bool:
    """Whether a finding is about tokens within a sample, not about samples."""
    return bool(finding["evidence"].get("of") == "tokens")


def layer_runs(layers: Sequence[int], gap: int = 3) -> list[tuple[int, int]]:
    """First and last layers of stretches; sites between two that concern it (a norm, an activation) break none.

    Example:
        >>> layer_runs([1, 3, 5, 20])
        [(1, 5), (20, 20)]
    """
    runs: list[tuple[int, int]] = []
    for layer in sorted(set(layers)):
        if runs and layer - runs[-1][1] <= gap:
            runs[-1] = (runs[-1][0], layer)
        else:
            runs.append((layer, layer))
    return runs


def where(layers: Sequence[int], shown_runs: int = 4) -> str:
    """The layers of a finding in a few words.

    Example:
        >>> where([1, 3, 5]), where([4]), where([])
        ('layers 1–5 (3 of them)', 'layer 4', 'the whole model')
    """
    runs = layer_runs(layers)
    if not runs:
        return "the whole model"
    if len(layers) == 1:
        return f"layer {layers[0]}"
    parts = [str(a) if a == b else f"{a}–{b}" for a, b in runs[:shown_runs]]
    more = ", …" if len(runs) > shown_runs else ""
    exact = sum(b - a + 1 for a, b in runs) == len(set(layers))
    return f"layers {', '.join(parts)}{more}" + ("" if exact and not more else f" ({len(set(layers))} of them)")


def printable(text: Any) -> str:
    """One line without control characters, which become spaces."""
    return "".join(c if c.isprintable() else " " for c in str(text))


def elided(text: str, width: int) -> str:
    """A long name on one line with its middle left out.

    Example:
        >>> elided("encoder.blocks.11.attention.proj", 18)
        'encoder.…tion.proj'
    """
    text = printable(text)
    if len(text) <= width:
        return text
    head = (width - 1) // 2
    return f"{text[:head]}…{text[len(text) - (width - 1 - head) :]}"
