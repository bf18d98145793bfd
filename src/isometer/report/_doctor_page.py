"""The doctor's report as one HTML file that opens offline: verdict, curves, heat maps and a table of layers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from html import escape
from pathlib import Path
from string import Template
from typing import Any

import numpy as np
from numpy.typing import NDArray

from isometer.doctor.conditions._conditions import CONDITIONS
from isometer.metrics._catalogue import describe
from isometer.metrics._metric import GROUPS
from isometer.report._advice import ranked_advice, repair_code
from isometer.report._advice_page import advice_section, code_html
from isometer.report._cause_page import causes_section, marked
from isometer.report._doctor_fragments import (
    compared,
    finding_cards,
    notebook_html,
    setting,
    verdict,
    vitals,
)
from isometer.report._doctor_metrics import (
    columns,
    layer_names,
    look_at,
    ordered,
    overview,
    real,
    shown,
    title_of,
    where,
)
from isometer.report._document import checked_page
from isometer.report._kernel_page import kernel_section
from isometer.report._offline_page import asset, embedded, plotly_script, policy, program_of, saved
from isometer.report._outlook_page import training_section
from isometer.report._outlook_words import (
    because,
    has_verdicts,
    headline,
    next_step,
    note_words,
    nothing_found,
    remarks,
    symptoms,
)
from isometer.report._similarity_words import similarity_words
from isometer.report._treatment import treatment_section
from isometer.serialize import json_data

__all__ = ["doctor_page", "notebook_html", "save_page"]

_SCRIPTS = ("model.js", "curves.js", "grams.js", "table.js", "main.js")
_GRAM_ENTRIES = 250_000  # about 1.3 MB of cosines
_COSINE_STEPS = 10_000
_MISSING = -2 * _COSINE_STEPS  # cosine with a zero vector


def doctor_page(report: Mapping[str, Any], *, title: str | None = None) -> str:
    """The report as one self-contained HTML document.

    It makes no requests, and a content security policy forbids them: only the scripts whose hashes the policy lists
    run. Texts of the report are data, escaped in markup and in the embedded JSON.

    Args:
        report: the dictionary of a doctor's report, schema 1.
        title: title of the document; the model's name if not given.

    Returns:
        The document.

    Raises:
        IsometerError: if the report is of another schema or its metrics do not fit its layers.

    Example:
        >>> page = doctor_page({"schema": 1, "model": "tiny", "mode": "train", "healthy": True, "summary": "Fine.",
        ...     "batch": {"samples": 2, "description": ""}, "findings": [], "layers": [], "metrics": {},
        ...     "prediction": None, "grams": None, "comparison": None})
        >>> page.startswith("<!doctype html>"), "src=" in page.split("<body")[0]
        (True, False)
    """
    checked_page(report)
    told = headline(report)
    advice = next_step(report)
    heading = title or str(report["model"])
    trust = escape(str(report.get("reliability", "")))
    plotly, program = plotly_script(), program_of(*_SCRIPTS)
    return Template(asset("page.html")).substitute(
        policy=policy(plotly, program),
        title=escape(f"{heading} · {told.word[:1].lower()}{told.word[1:]}"),
        heading=escape(heading),
        style=asset("page.css"),
        state=told.state,
        mark=told.mark or "–",
        word=escape(told.word),
        counts=escape(verdict(report)),
        summary=marked(_told_first(report)),
        setting=escape(setting(report)),
        reliability="" if has_verdicts(report) or not trust else f'<p class="setting">{trust}</p>',
        next=f'<p class="next">{marked(advice)}</p>{_first_code(report)}' if advice else "",
        causes=causes_section(report),
        training=training_section(report) + kernel_section(report.get("kernel")),
        symptoms=escape(symptoms(report)),
        trust=f'<p class="about">{trust}</p>' if trust and has_verdicts(report) and report["findings"] else "",
        comparison=_comparison(report.get("comparison")) + treatment_section(report.get("treatment")),
        vitals=_vitals(report),
        similarity=escape(similarity_words(report)),
        advice=advice_section(report),
        findings=finding_cards(report) or _no_findings(report, told.state),
        data=embedded(_payload(report)),
        plotly=plotly,
        program=program,
    )


def save_page(report: Mapping[str, Any], path: Path, *, title: str | None = None) -> Path:
    """Write the page; a reader of the file sees the old one or the new one, never a part.

    Args:
        report: the dictionary of a doctor's report, schema 1.
        path: path of the file, in a folder that exists.
        title: title of the document; the model's name if not given.

    Returns:
        The path.

    Raises:
        IsometerError: if the folder does not exist or cannot be written to.

    Example:
        >>> save_page({}, Path("/no/such/folder/report.html"))
        Traceback (most recent call last):
        ...
        isometer.errors.IsometerError: the folder '/no/such/folder' does not exist — create it or name a file elsewhere
    """
    return saved(Path(path), lambda: doctor_page(report, title=title))


def _told_first(report: Mapping[str, Any]) -> str:
    """Why it does not train, after why that is not known; what there is to say otherwise."""
    unclear = remarks(report) if headline(report).state == "undecided" else []
    return " ".join([*unclear, because(report)]).strip() or str(report["summary"])


def _first_code(report: Mapping[str, Any]) -> str:
    """The lines of the first step, where there are any."""
    if headline(report).state == "healthy":
        return ""
    causes = report.get("causes") or ()
    return code_html(repair_code(causes[0]) if causes else next((one.code for one in ranked_advice(report)), ""))


def _no_findings(report: Mapping[str, Any], state: str) -> str:
    listed = "".join(f"<li>{escape(line)}</li>" for line in note_words(report))
    return f'<p class="clean {state}">{escape(nothing_found(report))}</p>' + (f"<ul>{listed}</ul>" if listed else "")


def _comparison(comparison: Mapping[str, Any] | None) -> str:
    if comparison is None:
        return ""
    words = (("better", "▲ Better"), ("worse", "▼ Worse"), ("unchanged", "Unchanged"))
    parts = []
    for key, word in words:
        if comparison[key]:
            items = "".join(f"<li>{escape(str(text))}</li>" for text in comparison[key])
            parts.append(f'<div class="{key}"><h3>{word}</h3><ul>{items}</ul></div>')
    rows = "".join(
        f'<tr><th scope="row">{escape(name)}</th><td>{escape(before)} → {escape(after)}</td></tr>'
        for name, before, after in compared(comparison)
    )
    if rows:
        parts.append(f'<table class="evidence"><caption>Before → now</caption><tbody>{rows}</tbody></table>')
    body = "".join(parts) or "<p>Nothing changed.</p>"
    return (
        '<section class="comparison" aria-labelledby="comparison-title"><h2 id="comparison-title">Against '
        f'{escape(str(comparison["baseline"]))}</h2><div class="columns">{body}</div></section>'
    )


def _vitals(report: Mapping[str, Any]) -> str:
    return "".join(
        f'<button type="button" class="vital {one.state}" data-vital="{escape(one.metric)}" aria-pressed="false">'
        f'<span class="label">{escape(one.heading)}</span><span class="value">{escape(one.reading)}</span>{one.curve}'
        f'<span class="label small">{escape(describe(one.metric).title)}</span>'
        f'<span class="judged">{escape(one.word)}</span></button>'
        for one in vitals(report)
    )


def _guilty(report: Mapping[str, Any]) -> int | None:
    """The layer to look at first: that of the first cause, or the first one of the leading finding."""
    names = [str(layer["name"]) for layer in report["layers"]]
    modules = [str(name) for cause in report.get("causes") or () for name in cause["modules"]]
    named = next((names.index(module) for module in modules if module and module in names), None)
    if named is not None:
        return named
    layers = (layer for finding in ordered(report["findings"]) for layer in finding["layers"])
    return next((int(layer) for layer in layers if 0 <= layer < len(names)), None)


def _levels() -> dict[str, list[float]]:
    """Where harm begins and where it is severe, for the quantities that have such a level."""
    collapse = CONDITIONS["rank-collapse"]
    tokens = collapse.variants["tokens"].limits or collapse.limits
    ones = {"mean_abs_cosine": collapse.limits, "token_mean_abs_cosine": tokens}
    shares = {"dead_fraction": "dead-units", "saturated_fraction": "saturation"}
    levels = {name: [1 - limits.moderate, 1 - limits.severe] for name, limits in ones.items()}
    for name, condition in shares.items():
        limits = CONDITIONS[condition].limits
        levels[name] = shown(name, [limits.moderate, limits.severe])
    return levels


def _payload(report: Mapping[str, Any]) -> dict[str, Any]:
    """Everything the scripts need, numbers in the units in which they are shown."""
    layers = report["layers"]
    table, levels = columns(report), _levels()
    metrics = []
    for name, values in table.items():
        known = describe(name)
        metrics.append(
            {
                "name": name,
                "title": known.title,
                "group": known.group,
                "unit": known.unit,
                "axis": known.axis,
                "about": known.sentence,
                "companion": known.companion if known.companion in table else None,
                "reference": known.reference,
                "limits": levels.get(name, []),
                "values": _rounded(values),
            }
        )
    texts = {key: [str(layer[key]) for layer in layers] for key in ("op", "kind", "site", "dtype")}
    return {
        "name": layer_names(report),
        **texts,
        "depth": [int(layer["depth"]) for layer in layers],
        "call": [int(layer["call"]) for layer in layers],
        "shape": ["×".join(map(str, layer["shape"])) for layer in layers],
        "groups": list(GROUPS),
        "overview": overview(table),
        "guilty": _guilty(report),
        "metrics": metrics,
        "findings": [
            {
                "title": title_of(finding),
                "severity": "severe" if finding["severity"] == "severe" else "moderate",
                "layers": [int(layer) for layer in finding["layers"] if 0 <= layer < len(layers)],
                "metric": look_at(finding, table),
            }
            for finding in ordered(report["findings"])
        ],
        "prediction": _prediction(report.get("prediction")),
        "no_prediction": str(report.get("no_prediction") or ""),
        "grams": _grams(report.get("grams")),
    }


_rounded = partial(json_data, digits=6)  # more than a screen shows


def _prediction(prediction: Mapping[str, Any] | None) -> dict[str, Any] | None:
    if prediction is None:
        return None
    metrics: dict[str, dict[str, Any]] = {}
    for name, band in prediction["metrics"].items():
        metrics[name] = {key: _rounded(shown(name, band[key])) for key in ("mean", "low", "high") if key in band}
    for name, values in prediction.get("infinite", {}).items():
        metrics.setdefault(name, {})["infinite"] = _rounded(shown(name, values))
    outside: dict[str, list[int]] = {}
    for place in prediction.get("leaves_band", ()):
        outside.setdefault(place["metric"], []).append(int(place["layer"]))
    return {
        "layers": [int(layer) for layer in prediction["layers"]],
        "metrics": metrics,
        "note": str(prediction.get("note") or ""),
        "network": str(prediction.get("network") or ""),
        "outside": {name: where(layers) for name, layers in outside.items()},
    }


def _grams(grams: Mapping[str, Any] | None) -> dict[str, Any] | None:
    """Cosines as whole numbers, upper triangles only, evenly thinned where there are too many for a page."""
    if grams is None or not grams["layers"]:
        return None
    sizes = [len(matrix) for matrix in grams["matrices"]]
    count = len(sizes)
    room = max(2, _GRAM_ENTRIES // max(1, max(sizes) * (max(sizes) + 1) // 2))
    kept = range(count) if count <= room else sorted({round(i * (count - 1) / (room - 1)) for i in range(room)})
    return {
        "layers": [int(grams["layers"][i]) for i in kept],
        "sizes": [sizes[i] for i in kept],
        "cosines": [_cosines(grams["matrices"][i]) for i in kept],
        "steps": _COSINE_STEPS,
        "missing": _MISSING,
        "stored": count,
    }


def _cosines(matrix: Sequence[Sequence[Any]]) -> list[int]:
    """Cosines between samples in steps, row by row from the diagonal on."""
    gram: NDArray[np.float64] = np.array([[real(entry) for entry in row] for row in matrix], dtype=np.float64)
    lengths = np.sqrt(np.clip(np.diagonal(gram), 0.0, None))
    known = np.isfinite(lengths) & (lengths > 0)
    safe = np.where(known, lengths, 1.0)
    with np.errstate(all="ignore"):
        cosines = gram / safe[:, None] / safe[None, :]  # one after the other: the product of two lengths may overflow
    usable = known[:, None] & known[None, :] & np.isfinite(cosines)
    steps = np.round(np.clip(np.where(usable, cosines, 0.0), -1.0, 1.0) * _COSINE_STEPS)
    whole = np.where(usable, steps, _MISSING).astype(int)
    return [int(entry) for entry in whole[np.triu_indices(len(gram))]]
