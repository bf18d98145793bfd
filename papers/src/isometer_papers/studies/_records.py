"""What is kept of a study: `study.json`, the numbers as netCDF, the picture in two formats."""

from __future__ import annotations

import dataclasses
import hashlib
import json
import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import xarray

from isometer.files import write_whole
from isometer.report import save_figure
from isometer.run import Cell, Failure, Job, code_version, library_versions, netcdf
from isometer.serialize import json_text
from isometer_papers._study_record import RECORD, read_record
from isometer_papers.studies._drawing import captioned
from isometer_papers.studies._study import Reading, Scale, Study

RESULT = "result.nc"


@dataclass(frozen=True)
class Made:
    """A study that was run.

    Args:
        study: which.
        folder: where its files are.
        record: what `study.json` holds.
        failures: cells that failed.

    Example:
        >>> from isometer_papers.studies import find
        >>> Made(find("003/fig-1"), Path("x"), {"verdict": "agree"}).record["verdict"]
        'agree'
    """

    study: Study
    folder: Path
    record: Mapping[str, Any]
    failures: tuple[Failure, ...] = ()


def folder_name(identifier: str) -> str:
    """The name of a study's folder.

    Example:
        >>> folder_name("003/fig-2b")
        '003-fig-2b'
    """
    return identifier.replace("/", "-").replace(":", "-")


def settings_of(scale: Scale) -> dict[str, Any]:
    """Axes and constants together, as `draw` and `read` get them.

    Example:
        >>> settings_of(Scale({"width": [1, 2]}, {"runs": 3}))
        {'width': [1, 2], 'runs': 3}
    """
    return {**{name: list(values) for name, values in scale.axes.items()}, **scale.constants, **scale.reading}


def declared(study: Study, scale_name: str, scale: Scale) -> dict[str, Any]:
    """What is known of a study before it is run.

    Example:
        >>> from isometer_papers.studies import find
        >>> study = find("003/fig-1")
        >>> declared(study, "quick", study.quick)["verdict"]
        'unclear'
    """
    return {
        "id": study.id,
        "scale": scale_name,
        **words_of(study),
        "measured": {},
        "uncertainty": {},
        "verdict": "unclear",
        "why": "",
        "statements": {},
        "reduced": scale.reduced,
        "settings": settings_of(scale),
        "variants": [],
        "seconds": 0.0,
        "cells": 0,
        "versions": json.loads(library_versions()),
    }


def words_of(study: Study) -> dict[str, Any]:
    """What a study says of itself, whatever its numbers.

    Example:
        >>> from isometer_papers.studies import find
        >>> sorted(words_of(find("003/fig-1")))
        ['choices', 'published', 'shows', 'title']
    """
    return {
        "title": study.title,
        "shows": study.shows,
        "published": dict(study.published),
        "choices": {name: {"value": one.value, "why": one.why} for name, one in study.choices.items()},
        **({} if study.decisive is None else {"decisive": dataclasses.asdict(study.decisive)}),
    }


def read_of(study: Study, reading: Reading) -> dict[str, Any]:
    """Numbers, statements and verdict, with reasons for what is not seen.

    Example:
        >>> from isometer_papers.studies import find
        >>> read_of(find("003/fig-1"), Reading({}, {"it falls": True}))["verdict"]
        'agree'
    """
    missed = [name for name, seen in reading.statements.items() if not seen]
    reasons = [study.because[name] for name in missed if name in study.because]
    powers = {name: dataclasses.asdict(one) for name, one in reading.compared.items() if one.gap is not None}
    return {
        **({"power": powers} if powers else {}),
        "measured": {name: item.value for name, item in reading.measured.items()},
        "uncertainty": {name: item.uncertainty for name, item in reading.measured.items()},
        "statements": dict(reading.statements),
        "verdict": reading.verdict,
        "why": " ".join(part for part in (*dict.fromkeys(reasons), reading.remark) if part),
    }


def provenance(job: Job, day: str) -> dict[str, Any]:
    """By what a result was computed: the source code, the cells, the seeds and the day.

    Example:
        >>> from isometer_papers.studies import find
        >>> from isometer_papers.studies._running import make_job
        >>> study = find("003/fig-1")
        >>> sorted(provenance(make_job(study, study.quick), "2024-05-01"))
        ['code', 'date', 'key', 'seeds']
    """
    seeds = sorted(seed for cell in job.cells for seed in _seeds(cell))
    runs = dict.fromkeys(run for cell in job.cells for run in _runs(cell))
    return {
        "code": job.code,
        "key": _digest(job.keys),
        "seeds": {"count": len(set(seeds)), "digest": _digest(map(str, seeds)), "runs": list(runs)},
        "date": day,
    }


def rules_of(study: Study) -> str:
    """A digest of the code that reads verdicts off results.

    Example:
        >>> from isometer_papers.studies import find
        >>> rules_of(find("003/fig-1")) == rules_of(find("003/fig-2b"))
        False
    """
    return code_version(study.read).partition("+")[2]


def _runs(cell: Cell) -> list[Any]:
    """The numbers of the runs of a cell: several, one or none."""
    run = cell.configuration.get("run", [])
    return list(run) if isinstance(run, list) else [run]


def _seeds(cell: Cell) -> list[int]:
    """Of its runs where it has several, each as in a cell of its own."""
    if not isinstance(cell.configuration.get("run"), list):
        return [cell.seed]
    return [Cell({"run": run}, {**cell.configuration, "run": run}).seed for run in _runs(cell)]


def _digest(texts: Iterable[str]) -> str:
    return hashlib.sha256("\n".join(sorted(texts)).encode()).hexdigest()[:16]


def keep_picture(
    study: Study, result: xarray.Dataset, settings: Mapping[str, Any], record: Mapping[str, Any], folder: Path
) -> None:
    """Draw a result and write the picture, with what it is below it."""
    reduced = f" (reduced: {record['reduced']})" if record["reduced"] else ""
    caption = f"{study.id} · {study.title} · scale {record['scale']}{reduced}"
    picture = captioned(study.draw(result, settings), caption)
    for ending in ("png", "pdf"):
        save_figure(picture, folder / f"figure.{ending}")


def keep_result(study: Study, result: xarray.Dataset, settings: Mapping[str, Any], folder: Path) -> None:
    """Write the numbers."""
    described = result.assign_attrs(study=study.id, settings=json_text(settings, nonfinite="sign"))
    write_whole(folder / RESULT, netcdf(described))


def keep_record(study: Study, folder: Path, record: Mapping[str, Any], failures: tuple[Failure, ...] = ()) -> Made:
    """Write `study.json`; what it holds is what was made."""
    text = json_text(record, nonfinite="sign", indent=1, ensure_ascii=False)
    write_whole(folder / RECORD, text + "\n")
    return Made(study, folder, json.loads(text), failures)


def record_in(folder: Path) -> dict[str, Any]:
    """What `study.json` holds, infinite settings as numbers."""
    record = read_record(folder)
    record["settings"] = _as_numbers(record["settings"])
    return record


def _as_numbers(value: Any) -> Any:
    """Infinities, which are text in the file, as numbers."""
    if isinstance(value, Mapping):
        return {key: _as_numbers(item) for key, item in value.items()}
    if isinstance(value, list):
        return [_as_numbers(item) for item in value]
    return math.inf if value == "∞" else value
