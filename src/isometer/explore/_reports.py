"""Doctor's reports that were loaded into the clinic: checked before anything is shown, and a few kept."""

from __future__ import annotations

import base64
import binascii
import hashlib
import threading
from collections import OrderedDict
from typing import Any

from isometer.errors import IsometerError
from isometer.explore._state import LIMITS
from isometer.report._document import WRITE, parse_report

__all__ = ["Shelf", "parsed"]

Report = dict[str, Any]
_TEXT = 2000  # characters of a text that are kept
_SHAPE, _ENTRIES = 8, 50  # numbers of a shape, entries of evidence that are shown


def parsed(content: bytes) -> Report:
    """A doctor's report from the bytes of a file, with nothing in it that a report does not have.

    Args:
        content: of the file.

    Returns:
        The report; texts are cut at 2000 characters.

    Raises:
        IsometerError: it is too large, no JSON, or no report.

    Example:
        >>> parsed(b"[1, 2]")
        Traceback (most recent call last):
        ...
        isometer.errors.IsometerError: the report is a list; expected an object — write one with ...
    """
    report = parse_report(content, what="the report", most=int(LIMITS["upload"].high))
    layers, most = report["layers"], LIMITS["report_layers"].high
    if len(layers) > most:
        raise IsometerError(f"the report has {len(layers)} layers; expected at most {most:g} — {WRITE}")
    numbers = {
        "metrics": {name[:_TEXT]: column for name, column in report["metrics"].items()},
        "grams": report["grams"],
    }
    report = _shortened({name: value for name, value in report.items() if name not in numbers})
    return {
        **report,
        **numbers,
        "batch": {"samples": 0, "description": ""} | (report["batch"] or {}),
        "trains": report["trains"] or {},
        "layers": [_layer(index, row) for index, row in enumerate(report["layers"])],
        "findings": [_finding(one, len(layers)) for one in report["findings"]],
        "prediction": _prediction(report["prediction"]),
    }


def _shortened(value: Any) -> Any:
    if isinstance(value, str):
        return value[:_TEXT]
    if isinstance(value, dict):
        return {key[:_TEXT]: _shortened(item) for key, item in value.items()}
    return [_shortened(item) for item in value] if isinstance(value, list | tuple) else value


def _layer(index: int, row: dict[str, Any]) -> dict[str, Any]:
    more = {"layer": index, "depth": row["depth"] or 0, "shape": (row["shape"] or [])[:_SHAPE]}
    return {**row, **more, "dtype": row["dtype"] or ""}


def _finding(one: dict[str, Any], layers: int) -> dict[str, Any]:
    evidence = {key: _few(value) for key, value in (one["evidence"] or {}).items()}
    return {**one, "layers": [layer for layer in one["layers"] if layer < layers], "evidence": evidence}


def _few(value: Any) -> Any:
    """Evidence: a number, a text, or a short list of them."""
    if isinstance(value, list):
        return [item for item in value[:_ENTRIES] if not isinstance(item, list)]
    if isinstance(value, dict):
        return {key: item for key, item in list(value.items())[:_ENTRIES] if not isinstance(item, list)}
    return value


def _prediction(one: dict[str, Any] | None) -> dict[str, Any] | None:
    return None if one is None else {**one, "metrics": one["metrics"] or {}, "note": one["note"] or ""}


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
            raw = base64.b64decode(encoded, validate=True)
        except (binascii.Error, ValueError):  # the latter for letters that are not ASCII
            raise IsometerError(f"{name[:80]} did not arrive whole — load it again") from None
        return self.put(name, raw)

    def get(self, key: str) -> Report | None:
        """The report of a key."""
        with self._lock:
            found = self._held.get(key)
        return None if found is None else found[1]

    def titles(self) -> dict[str, str]:
        """File names by key."""
        with self._lock:
            return {key: name for key, (name, _) in self._held.items()}
