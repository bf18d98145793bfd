"""What a doctor's report in a file must look like: what comparisons and pages read of it, and nothing else.

Reports of earlier versions lack fields; those have defaults here. Fields that nobody reads are passed over.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Annotated, Any, Literal

import msgspec
from msgspec import Meta

from isometer.documents import MOST, converted, parse_json
from isometer.errors import IsometerError

SCHEMA = 1
WRITE = "write one with `isometer doctor MODEL --json > report.json`"

Number = float | Literal["inf", "-inf"] | None
"""A number of a report; None where it is not defined."""
_Count = Annotated[int, Meta(ge=0, le=2**53)]
_Share = Annotated[float, Meta(ge=0, le=1)] | None
_Verdict = Literal["trains", "slow", "sick", "unknown"]
_Scalar = bool | Annotated[int, Meta(ge=-(2**63), le=2**63 - 1)] | float | str | None
_Evidence = _Scalar | list[_Scalar | list[_Scalar]] | dict[str, _Scalar | list[_Scalar]]


class _Batch(msgspec.Struct):
    samples: _Count | None = 0
    description: str | None = ""


class _Layer(msgspec.Struct):
    name: str = ""
    op: str = ""
    kind: str = ""
    depth: _Count | None = 0
    shape: list[_Count] | None = None
    dtype: str | None = ""


class _Prescription(msgspec.Struct):
    text: str = ""
    kind: str = ""
    references: list[str] = []


class _Finding(msgspec.Struct):
    id: str
    severity: str
    layers: list[_Count] = []
    explanation: str = ""
    evidence: dict[str, _Evidence] | None = None
    references: list[str] = []
    prescriptions: list[_Prescription] = []


class _AtRate(msgspec.Struct):
    rate: Annotated[float, Meta(gt=0)]
    verdict: _Verdict
    progress: Number = None


class _Progress(msgspec.Struct):
    fresh: Number = None
    fit: Number = None
    reference_fresh: Number = None
    reference_fit: Number = None
    broken: bool = False


class _Outlook(msgspec.Struct):
    verdict: _Verdict
    probability: _Share = None
    rates: list[Number] = []
    best_rate: Number = None
    at_rate: _AtRate | None = None
    evidence: _Progress = msgspec.field(default_factory=_Progress)


class _Effects(msgspec.Struct):
    rate: Number = None
    steps: _Count = 0
    output_change: Number = None
    predicted: Number = None
    actual: Number = None
    grown: list[tuple[str, Number]] = []
    moved: list[tuple[str, Number]] = []
    unmoved: list[str] = []
    frozen: list[str] = []


class _Plan(msgspec.Struct):
    rounds: list[_Count] = []


class _AfterTraining(msgspec.Struct):
    id: str
    severity: str


class _Stress(msgspec.Struct):
    """What is told of a stress test: no loss curves."""

    targets: str = ""
    chance: Number = None
    batches: _Count | None = 0
    plan: _Plan | None = None
    skipped: str | None = ""
    notes: list[str] | None = None
    after: list[_AfterTraining] | None = None
    effects: dict[str, _Effects] | None = None


class _Band(msgspec.Struct):
    mean: list[Number]
    low: list[Number]
    high: list[Number]


class _Prediction(msgspec.Struct):
    layers: list[_Count] = []
    metrics: dict[str, _Band] | None = None
    note: str | None = ""
    network: str | None = ""


class _Grams(msgspec.Struct):
    layers: list[_Count] = []
    matrices: list[list[list[float | None]]] = []


class DoctorReport(msgspec.Struct):
    """A report as `isometer doctor --json` prints it, as far as it is read."""

    layers: list[_Layer]
    metrics: dict[str, list[Number]]
    findings: list[_Finding]
    schema: int = SCHEMA
    model: str = ""
    mode: str = ""
    healthy: bool | None = False
    summary: str = ""
    batch: _Batch | None = None
    trains: Annotated[dict[str, _Outlook], Meta(max_length=100)] | None = None
    stress: _Stress | None = None
    prediction: _Prediction | None = None
    grams: _Grams | None = None


class _PageLayer(_Layer, kw_only=True):
    name: str
    op: str
    kind: str
    site: str
    depth: _Count
    call: _Count
    shape: list[_Count]
    dtype: str
    where: str | None = None


class _PageBatch(_Batch, kw_only=True):
    samples: _Count


class _PagePrescription(_Prescription, kw_only=True):
    text: str
    kind: str
    references: list[str]


class _PageFinding(_Finding, kw_only=True):
    evidence: dict[str, _Evidence]
    explanation: str
    layers: list[_Count]
    references: list[str]
    prescriptions: list[_PagePrescription]  # type: ignore[assignment]


class _PageProgress(_Progress, kw_only=True):
    fresh: Number
    fit: Number
    reference_fresh: Number
    reference_fit: Number


class _PageAtRate(_AtRate, kw_only=True):
    progress: Number


class _PageOutlook(_Outlook, kw_only=True):
    probability: _Share
    rates: list[Number]
    at_rate: _PageAtRate | None
    evidence: _PageProgress


class _PageEffects(_Effects, kw_only=True):
    rate: Number
    steps: _Count
    output_change: Number
    predicted: Number
    actual: Number
    grown: list[tuple[str, Number]]
    moved: list[tuple[str, Number]]
    unmoved: list[str]
    frozen: list[str]


class _PageBand(msgspec.Struct):
    mean: list[Number] = []
    low: list[Number] = []
    high: list[Number] = []


class _Outside(msgspec.Struct):
    metric: str
    layer: _Count


class _PagePrediction(msgspec.Struct):
    layers: list[_Count]
    metrics: dict[str, _PageBand]
    infinite: dict[str, list[Number]] = {}
    leaves_band: list[_Outside] = []
    network: str | None = ""


class _PageRun(msgspec.Struct):
    optimizer: str
    who: str
    on: str
    rate: Number
    steps: _Count
    losses: list[Number] | None = None


class _PageStress(_Stress):
    effects: dict[str, _PageEffects] | None = None  # type: ignore[assignment]
    runs: list[_PageRun] | None = None


class _Row(msgspec.Struct):
    quantity: str
    metric: str
    before: Number
    after: Number


class _Comparison(msgspec.Struct):
    baseline: str
    better: list[str]
    worse: list[str]
    unchanged: list[str]
    numbers: list[_Row] = []


class _PageReport(DoctorReport, kw_only=True):
    """What the page reads of a report besides causes and treatments, which only this process makes."""

    schema: int
    layers: list[_PageLayer]  # type: ignore[assignment]
    findings: list[_PageFinding]  # type: ignore[assignment]
    model: str
    mode: str
    summary: str
    healthy: bool | None
    batch: _PageBatch
    trains: dict[str, _PageOutlook] | None = None  # type: ignore[assignment]
    prediction: _PagePrediction | None = None  # type: ignore[assignment]
    stress: _PageStress | None = None
    comparison: _Comparison | None = None
    notes: list[_Finding] = []


def checked_page(report: Mapping[str, Any]) -> None:
    """Raise what a page cannot show of a report, in one line.

    Example:
        >>> checked_page({"schema": 1})
        Traceback (most recent call last):
        ...
        isometer.errors.IsometerError: the report has no 'metrics'; expected one — write one with ...
    """
    found = converted(report, _PageReport, what="the report", fix=WRITE)
    _check_together(found, "the report")


def parse_report(content: bytes, *, what: str, most: int = MOST) -> dict[str, Any]:
    """A doctor's report from the bytes of a file, with all fields and no others.

    Args:
        content: content of the file.
        what: it is, for errors.
        most: bytes that are read.

    Returns:
        The report as `Report.to_dict` gives it, cut to what is read.

    Raises:
        IsometerError: it is too large, no JSON, or no report.

    Example:
        >>> parse_report(b'{"layers": [], "metrics": {}, "findings": [{"id": 3}]}', what="the baseline")
        Traceback (most recent call last):
        ...
        isometer.errors.IsometerError: the baseline has 3 at findings[0].id; expected text — write one with ...
    """
    report: DoctorReport = parse_json(content, DoctorReport, what=what, fix=WRITE, most=most)
    _check_together(report, what)
    return msgspec.to_builtins(report)  # type: ignore[no-any-return]


def _check_together(report: DoctorReport, what: str) -> None:
    layers = len(report.layers)
    if report.schema != SCHEMA:
        raise IsometerError(f"{what} is of schema {report.schema}; expected {SCHEMA} — {WRITE}")
    for name, column in report.metrics.items():
        _check_count(f"{what}: the metric {name[:40]!r}", column, layers)
    at = [] if report.prediction is None else report.prediction.layers
    for name, band in ((report.prediction and report.prediction.metrics) or {}).items():
        for column in filter(None, (band.mean, band.low, band.high)):
            _check_count(f"{what}: the prediction of {name[:40]!r}", column, len(at))
    grams = report.grams or _Grams()
    _check_count(f"{what}: the list of Gram matrices", grams.matrices, len(grams.layers))
    for matrix in grams.matrices:
        for row in matrix:
            _check_count(f"{what}: a row of a Gram matrix", row, len(matrix))
    beyond = [layer for layer in (*at, *grams.layers) if layer >= layers]
    if beyond:
        raise IsometerError(f"{what} has {layers} layers and names layer {beyond[0]}; expected one of them — {WRITE}")


def _check_count(name: str, column: Sequence[Any], layers: int) -> None:
    if len(column) != layers:
        raise IsometerError(f"{name} has {len(column)} numbers for {layers} layers; expected one per layer — {WRITE}")
