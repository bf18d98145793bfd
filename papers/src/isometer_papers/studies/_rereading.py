"""Reading a gallery again: new words, rules and pictures for numbers that are there."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import xarray

from isometer.errors import IsometerError
from isometer_papers._study_record import RECORD
from isometer_papers.studies._records import (
    RESULT,
    Made,
    folder_name,
    keep_picture,
    keep_record,
    read_of,
    record_in,
    rules_of,
    settings_of,
    words_of,
)
from isometer_papers.studies._registry import all_studies
from isometer_papers.studies._study import Scale, Study
from isometer_papers.studies._training_records import training_records
from isometer_papers.studies._two_draws import power_of, read_twice


def read_again(
    out: str | Path, studies: Sequence[Study] | None = None, *, finished: Callable[[Made], None] | None = None
) -> list[Made]:
    """Read and draw again what a gallery holds; nothing is computed and no cells are needed.

    For a gallery that was computed on another machine or by another version, after the words, rules or pictures of
    studies have changed. Settings, times and the verdicts of variants stay as they were written; a setting that the
    record does not have yet is read with today's value.

    Args:
        out: folder of the gallery.
        studies: which; all that the folder has a result of unless told.
        finished: called with each study that is done.

    Returns:
        What was written, in order.

    Raises:
        IsometerError: the folder has no result of a study, or one that lacks what the study now reads.

    Example:
        >>> import tempfile
        >>> from concurrent.futures import ThreadPoolExecutor
        >>> from isometer_papers.studies import find, reproduce
        >>> with tempfile.TemporaryDirectory() as folder, ThreadPoolExecutor(1) as pool:
        ...     made = reproduce([find("001/tab-5.1")], folder, executor=pool)
        ...     again = read_again(folder)
        >>> again[0].record == made[0].record
        True
    """
    from isometer_papers.report.gallery import write_gallery

    folder = Path(out)
    chosen = [one for one in all_studies() if _there(folder, one)] if studies is None else list(studies)
    absent = [one.id for one in chosen if not _there(folder, one)]
    if absent or not chosen:
        raise IsometerError(
            f"{str(folder)!r} has no result of {', '.join(absent) or 'any study'}; expected {RECORD} and {RESULT} in a "
            "folder for each — run it first, or pass the gallery with --out"
        )
    made = []
    for study in chosen:
        one = _read_again(study, folder / folder_name(study.id))
        made.append(one)
        if finished is not None:
            finished(one)
    write_gallery(folder)
    return made


def _scale_of(study: Study, name: str, settings: Mapping[str, Any]) -> Scale:
    """The scale that a record was made with, which changes by hand may have made another than the study's."""
    base = study.scale(name)
    axes, constants = ({key: settings[key] for key in of} for of in (base.axes, base.constants))
    return Scale(axes, constants, together=base.together)


def _there(out: Path, study: Study) -> bool:
    folder = out / folder_name(study.id)
    return (folder / RECORD).is_file() and (folder / RESULT).is_file()


def _read_again(study: Study, folder: Path) -> Made:
    record = record_in(folder)
    try:
        result = xarray.load_dataset(folder / RESULT, engine="h5netcdf")
        settings = settings_of(study.scale(record["scale"])) | record["settings"]
        reading, halves = read_twice(study, result, settings)
        record |= words_of(study) | read_of(study, reading) | training_records(result)
        record |= {"rules": rules_of(study)} | ({"halves": halves} if halves else {})
        for name in ("undecided", "undecidable"):
            record.pop(name, None)
        record |= power_of(study, _scale_of(study, record["scale"], settings), reading, record["seconds"])
        keep_picture(study, result, settings, record, folder)
    except (OSError, KeyError, ValueError, TypeError, AttributeError) as problem:
        raise IsometerError(
            f"the result of {study.id} lacks what the study reads today ({problem!r}); it is of another version or "
            "damaged — run the study again"
        ) from problem
    return keep_record(study, folder, record)
