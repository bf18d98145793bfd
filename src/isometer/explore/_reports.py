"""Doctor's reports that were loaded into the clinic: checked before anything is shown, and a few kept."""

from __future__ import annotations

import base64
import binascii
import hashlib
import json
import math
import threading
from collections import OrderedDict
from collections.abc import Mapping
from typing import Any

from isometer.errors import IsometerError
from isometer.explore._state import LIMITS
from isometer.report._doctor_metrics import checked

__all__ = ["Shelf", "parsed"]

Report = dict[str, Any]
_TEXT = 2000  # characters of a text that are kept
_OPTIMIZERS = 20
_WRITE = "write one with `isometer doctor MODEL --json > report.json`"


def parsed(content: bytes) -> Report:
    """A doctor's report from the bytes of a file, with nothing in it that a report does not have.

    Args:
        content: of the file.

    Returns:
        The report; texts are cut at 2000 characters, what is not a number is None.

    Raises:
        IsometerError: it is too large, no JSON, or no report.

    Example:
        >>> parsed(b"[1, 2]")
        Traceback (most recent call last):
        ...
        isometer.errors.IsometerError: this is JSON but no doctor's report — write one with ...
    """
    most = int(LIMITS["upload"].high)
    if len(content) > most:
        raise IsometerError(f"the file has {len(content) / 1e6:.1f} MB; at most {most / 1e6:.0f} MB are read")
    try:
        raw = json.loads(content.decode("utf-8-sig"))  # some programs put a byte order mark in front
    except (ValueError, RecursionError):  # the latter for lists nested too deeply
        raise IsometerError(f"this is not JSON — {_WRITE}") from None
    if not isinstance(raw, dict) or not {"schema", "layers", "metrics", "findings"} <= set(raw):
        raise IsometerError(f"this is JSON but no doctor's report — {_WRITE}")
    try:
        return _report(raw)
    except (KeyError, TypeError, ValueError, AttributeError, RecursionError) as problem:
        raise IsometerError(f"the report is damaged ({type(problem).__name__}: {problem}) — {_WRITE}"[:300]) from None


def _report(raw: Mapping[str, Any]) -> Report:
    layers = _list(raw["layers"], "layers")
    if len(layers) > LIMITS["report_layers"].high:
        raise IsometerError(f"the report has {len(layers)} layers; at most {LIMITS['report_layers'].high:g} are shown")
    metrics = {_text(name): [_number(v) for v in _list(column, name)] for name, column in dict(raw["metrics"]).items()}
    batch = raw.get("batch") or {}
    report: Report = {
        "schema": raw["schema"],
        "model": _text(raw.get("model", "")),
        "mode": _text(raw.get("mode", "")),
        "healthy": None if raw.get("healthy", False) is None else bool(raw.get("healthy")),
        "trains": _trains(raw.get("trains")),
        "stress": _stress(raw.get("stress")),
        "summary": _text(raw.get("summary", "")),
        "batch": {"samples": int(batch.get("samples") or 0), "description": _text(batch.get("description") or "")},
        "layers": [_layer(i, dict(row)) for i, row in enumerate(layers)],
        "metrics": metrics,
        "findings": [_finding(dict(one), len(layers)) for one in _list(raw["findings"], "findings")],
        "prediction": _prediction(raw.get("prediction"), len(layers)),
        "grams": _grams(raw.get("grams"), len(layers)),
    }
    checked(report)
    return report


def _list(value: Any, name: Any) -> list[Any]:
    if not isinstance(value, list):
        raise TypeError(f"{str(name)[:40]} is not a list")
    return value


def _text(value: Any) -> str:
    return str(value)[:_TEXT]


def _number(value: Any) -> float | None:
    """A number, infinities included; None for anything else."""
    if isinstance(value, bool) or value is None:
        return None
    if value in ("inf", "-inf"):
        return float(value)
    return float(value) if isinstance(value, int | float) and not math.isnan(value) else None


def _layer(index: int, row: Mapping[str, Any]) -> dict[str, Any]:
    shape = row.get("shape")
    return {
        "layer": index,
        "name": _text(row.get("name", "")),
        "op": _text(row.get("op", "")),
        "kind": _text(row.get("kind", "")),
        "depth": int(row.get("depth") or 0),
        "shape": [int(v) for v in shape[:8]] if isinstance(shape, list) else [],
        "dtype": _text(row.get("dtype", "")),
    }


def _finding(one: Mapping[str, Any], layers: int) -> dict[str, Any]:
    return {
        "id": _text(one["id"]),
        "severity": _text(one["severity"]),
        "layers": [int(v) for v in one.get("layers", ()) if 0 <= int(v) < layers],
        "explanation": _text(one.get("explanation", "")),
        "evidence": {_text(key): _plain(value) for key, value in dict(one.get("evidence") or {}).items()},
        "references": [_text(v) for v in one.get("references", ())],
        "prescriptions": [
            {
                "text": _text(p.get("text", "")),
                "kind": _text(p.get("kind", "")),
                "references": [_text(v) for v in p.get("references", ())],
            }
            for p in one.get("prescriptions", ())
        ],
    }


def _plain(value: Any) -> Any:
    """Evidence: a number, a text, or a short list of them."""
    if isinstance(value, list):
        return [_plain(item) for item in value[:50] if not isinstance(item, list | dict)]
    if isinstance(value, dict):
        return {_text(k): _plain(v) for k, v in list(value.items())[:20] if not isinstance(v, list | dict)}
    return value if isinstance(value, bool | int | float) or value is None else _text(value)


def _trains(raw: Any) -> dict[str, Any]:
    """Verdicts by optimizer; reports without a stress test, and older ones, have none."""
    if not isinstance(raw, Mapping):
        return {}
    return {_text(name)[:80]: _outlook(dict(one)) for name, one in list(raw.items())[:_OPTIMIZERS]}


def _outlook(one: Mapping[str, Any]) -> dict[str, Any]:
    at, evidence = one.get("at_rate"), dict(one.get("evidence") or {})
    return {
        "verdict": _verdict(one["verdict"]),
        "probability": _number(one.get("probability")),
        "rates": [_number(rate) for rate in _list(one.get("rates", []), "rates")[:50]],
        "best_rate": _number(one.get("best_rate")),
        "at_rate": None
        if at is None
        else {
            "rate": _number(at["rate"]),
            "verdict": _verdict(at["verdict"]),
            "progress": _number(at.get("progress")),
        },
        "evidence": {
            **{key: _number(evidence.get(key)) for key in ("fresh", "fit", "reference_fresh", "reference_fit")},
            "broken": bool(evidence.get("broken")),
        },
    }


def _verdict(value: Any) -> str:
    return value if value in ("trains", "slow", "sick") else "unknown"


def _stress(raw: Any) -> dict[str, Any] | None:
    """What the clinic tells of a stress test: no loss curves."""
    if not isinstance(raw, Mapping):
        return None
    after, rounds = raw.get("after"), (raw.get("plan") or {}).get("rounds") or ()
    effects = list(dict(raw.get("effects") or {}).items())[:_OPTIMIZERS]
    return {
        "targets": _text(raw.get("targets", "")),
        "chance": _number(raw.get("chance")),
        "batches": int(raw.get("batches") or 0),
        "plan": {"rounds": [int(v) for v in rounds[:2]]},
        "skipped": _text(raw.get("skipped") or ""),
        "notes": [_text(line) for line in _list(raw.get("notes") or [], "notes")[:200]],
        "after": None
        if after is None
        else [{"id": _text(one["id"]), "severity": _text(one["severity"])} for one in _list(after, "after")],
        "effects": {_text(name)[:80]: _effects(dict(one)) for name, one in effects},
    }


def _effects(one: Mapping[str, Any]) -> dict[str, Any]:
    pairs = {key: [(_text(name), _number(v)) for name, v in one.get(key) or ()] for key in ("grown", "moved")}
    names = {key: [_text(name) for name in one.get(key) or ()] for key in ("unmoved", "frozen")}
    numbers = {key: _number(one.get(key)) for key in ("rate", "output_change", "predicted", "actual")}
    return {"steps": int(one.get("steps") or 0), **numbers, **pairs, **names}


def _prediction(raw: Any, layers: int) -> dict[str, Any] | None:
    if not isinstance(raw, Mapping):
        return None
    at = [int(v) for v in _list(raw.get("layers", []), "prediction.layers")]
    if any(not 0 <= v < layers for v in at):
        raise ValueError("the prediction has layers that the report does not have")
    bands = {}
    for name, band in dict(raw.get("metrics") or {}).items():
        columns = {key: [_number(v) for v in _list(band[key], key)] for key in ("mean", "low", "high")}
        if all(len(column) == len(at) for column in columns.values()):
            bands[_text(name)] = columns
    return {"layers": at, "metrics": bands, "note": _text(raw.get("note", ""))}


def _grams(raw: Any, layers: int) -> dict[str, Any] | None:
    if not isinstance(raw, Mapping):
        return None
    at = [int(v) for v in _list(raw.get("layers", []), "grams.layers")]
    matrices = [[[_number(v) for v in row] for row in matrix] for matrix in _list(raw.get("matrices", []), "matrices")]
    if len(at) != len(matrices) or any(not 0 <= v < layers for v in at):
        raise ValueError("Gram matrices and their layers do not match")
    return {"layers": at, "matrices": matrices}


class Shelf:
    """The reports that were loaded, by a key made of their content; the oldest make room.

    Example:
        >>> shelf = Shelf()
        >>> key = shelf.put("a.json", b'{"schema": 1, "layers": [], "metrics": {}, "findings": []}')
        >>> shelf.get(key)["healthy"], shelf.titles()[key]
        (False, 'a.json')
    """

    def __init__(self) -> None:
        self._held: OrderedDict[str, tuple[str, Report]] = OrderedDict()
        self._lock = threading.Lock()

    def put(self, name: str, content: bytes) -> str:
        """Keep a report and return its key."""
        report = parsed(content)
        key = hashlib.sha256(content).hexdigest()[:16]
        with self._lock:
            self._held[key] = (name[:80], report)
            self._held.move_to_end(key)
            while len(self._held) > LIMITS["uploads"].high:
                self._held.popitem(last=False)
        return key

    def put_encoded(self, name: str, content: str) -> str:
        """As `put`, from what a browser's file field hands over: `data:…;base64,…`."""
        _, _, encoded = content.partition(",")
        try:
            return self.put(name, base64.b64decode(encoded, validate=True))
        except binascii.Error:
            raise IsometerError(f"{name[:80]} did not arrive whole — load it again") from None

    def get(self, key: str) -> Report | None:
        """The report of a key."""
        with self._lock:
            found = self._held.get(key)
        return None if found is None else found[1]

    def titles(self) -> dict[str, str]:
        """File names by key."""
        with self._lock:
            return {key: name for key, (name, _) in self._held.items()}
