"""What was loaded into the clinic: reports, checked before anything is shown, and models, kept as files."""

from __future__ import annotations

import base64
import binascii
import hashlib
import shutil
import tempfile
import threading
import weakref
from collections import OrderedDict
from pathlib import Path
from typing import Any

from isometer.errors import IsometerError
from isometer.explore._state import LIMITS
from isometer.report._document import WRITE, parse_report

__all__ = ["ModelFiles", "Shelf", "decoded", "parsed"]

Report = dict[str, Any]
_TEXT = 2000  # characters of a text that are kept
_SHAPE, _ENTRIES = 8, 50  # numbers of a shape, entries of evidence that are shown


def parsed(content: bytes) -> Report:
    """A doctor's report from the bytes of a file, with nothing in it that a report does not have.

    Args:
        content: content of the file.

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


def decoded(name: str, content: str) -> bytes:
    """The bytes of a file as a browser's file field passes them on: `data:…;base64,…`.

    Example:
        >>> decoded("a.json", "data:application/json;base64,e30=")
        b'{}'
    """
    _, _, encoded = content.partition(",")
    try:
        return base64.b64decode(encoded, validate=True)
    except (binascii.Error, ValueError):  # the latter for letters that are not ASCII
        raise IsometerError(f"{name[:80]} arrived incomplete — load it again") from None


class ModelFiles:
    """The models that were loaded, as files in a folder that ends with the program; the oldest make room.

    Their names are made of their content: what a browser calls a file is only ever shown.

    Example:
        >>> models = ModelFiles()
        >>> key = models.put("mine.safetensors", b"weights")
        >>> models.get(key).read_bytes(), models.titles()[key]
        (b'weights', 'mine.safetensors')
    """

    def __init__(self) -> None:
        self._folder: Path | None = None
        self._held: OrderedDict[str, str] = OrderedDict()
        self._lock = threading.Lock()

    def put(self, name: str, content: bytes) -> str:
        """Keep a model and return its key."""
        most = int(LIMITS["upload"].high)
        if len(content) > most:
            raise IsometerError(f"the model has {len(content)} bytes; expected at most {most} — load a smaller one")
        key = hashlib.sha256(content).hexdigest()[:16]
        with self._lock:
            if self._folder is None:
                self._folder = Path(tempfile.mkdtemp(prefix="isometer-"))
                weakref.finalize(self, shutil.rmtree, self._folder, ignore_errors=True)
            self._path(key).write_bytes(content)
            self._held[key] = name[:80]
            self._held.move_to_end(key)
            while len(self._held) > LIMITS["uploads"].high:
                dropped, _ = self._held.popitem(last=False)
                self._path(dropped).unlink(missing_ok=True)
        return key

    def get(self, key: str) -> Path | None:
        """The file of a key."""
        with self._lock:
            return self._path(key) if key in self._held else None

    def titles(self) -> dict[str, str]:
        """File names by key."""
        with self._lock:
            return dict(self._held)

    def _path(self, key: str) -> Path:
        assert self._folder is not None
        return self._folder / f"{key}.safetensors"


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

    def get(self, key: str) -> Report | None:
        """The report of a key."""
        with self._lock:
            found = self._held.get(key)
        return None if found is None else found[1]

    def titles(self) -> dict[str, str]:
        """File names by key."""
        with self._lock:
            return {key: name for key, (name, _) in self._held.items()}
