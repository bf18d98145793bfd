"""Doctor's reports as files: compared with another one, and loaded into the clinic, which shows every part of them."""

from __future__ import annotations

import json
import tempfile
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

from isometer.report import doctor_page
from support.doctor_reports import HOSTILE, finding, long_report, outlook, stressed
from support.fuzz.mutation import document
from support.fuzz.target import PromiseBroken, Target


@cache
def _wholes() -> tuple[dict[str, Any], ...]:
    plain = long_report(9)
    plain["metrics"] = {name: plain["metrics"][name] for name in list(plain["metrics"])[:10]}
    plain["grams"] = {"layers": [0, 8], "matrices": [[[1.0, 0.5], [0.5, 1.0]]] * 2}
    plain["findings"] = [finding("rank-collapse", "severe", [1, 3], rms=1e-30, isometry_gap="inf", of="tokens")]
    at = {"rate": 0.001, "verdict": "slow", "progress": 0.1}
    tested = stressed(plain, None, adam=outlook("trains", fresh=0.5, at_rate=at), sgd=outlook("sick"))
    tested["stress"]["runs"] = []
    band = {"mean": [1.0, 0.9], "low": [0.5, 0.4], "high": ["inf", 2.0]}
    tested["prediction"] = {"layers": [0, 2], "metrics": {"rms": band}, "note": HOSTILE[0], "spec": {"width": 3}}
    early = {key: plain[key] for key in ("schema", "healthy", "findings", "layers", "metrics")}
    return plain, tested, early


def draw(rng: np.random.Generator) -> str:
    """The text of a report, bytes as Latin-1."""
    wholes = _wholes()
    return document(rng, wholes[int(rng.integers(len(wholes)))])


def _words(value: Any) -> None:
    """What people get: lists of text, nothing else."""
    for key in ("better", "worse", "unchanged"):
        if not all(isinstance(line, str) for line in value[key]):
            raise PromiseBroken(f"{key} holds {value[key]!r}")
    for row in value["numbers"]:
        if np.isnan(row["before"]) or np.isnan(row["after"]):
            raise PromiseBroken(f"{row} is not a number")


def check_compared(case: str) -> None:
    """`isometer doctor --compare` has words about it, or says in one line what it is instead."""
    from isometer.doctor._loading import load_baseline
    from isometer.doctor.diagnosis._comparison import compare
    from isometer.report._doctor_fragments import compared

    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "baseline.json"
        path.write_bytes(case.encode("latin-1"))
        baseline = load_baseline(path)
    found = compare(baseline, _wholes()[1], name="baseline.json")
    _words(found)
    assert all(isinstance(text, str) for row in compared(found) for text in row)


def check_shown(case: str) -> None:
    """The clinic shows it, all of it, or says in one line what it is instead."""
    from isometer.explore._reports import parsed
    from isometer.explore._state import ClinicState
    from isometer.explore.labs import _clinic, _clinic_pieces
    from isometer.explore.pictures._clinic import metric_picture
    from isometer.explore.pictures._depth import gram_picture
    from isometer.report._doctor_metrics import columns

    report = parsed(case.encode("latin-1"))
    shown: list[Any] = [_clinic_pieces.verdict_card(report), _clinic_pieces.layer_table(report, ClinicState(find="f"))]
    shown += [_clinic_pieces.finding_card(one, report) for one in report["findings"]]
    for layer in range(min(3, len(report["layers"]))):
        shown.append(_clinic_pieces.layer_facts(report, layer))
        gram = _clinic._nearest_gram(report, layer)
        shown += [] if gram is None else [gram_picture(gram[1], "light", "")]
    shown.append(_clinic_pieces.metric_choice(report, _clinic._metric(report, ClinicState())))
    for metric in [*columns(report)][:4]:
        for axis in ("layer", "depth"):
            shown.append(metric_picture([("a", report), ("b", report)], metric, axis, 1, [], "dark"))
    json.dumps(shown, default=lambda one: one.to_plotly_json(), allow_nan=False).encode()  # as the server sends it


def check_page(case: str) -> None:
    """A page is made of it, or one line says what is wrong with it."""
    try:
        report = json.loads(case.encode("latin-1"))
    except (ValueError, RecursionError):
        return  # a page is made of a value
    doctor_page(report).encode("utf-8", "replace")


TARGETS = [
    Target("reports-compared", 5_000, 60, draw, check_compared),
    Target("reports-shown", 5_000, 12, draw, check_shown),
    Target("reports-page", 2_000, 5, draw, check_page),
]
