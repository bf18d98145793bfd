"""Many checks: in this process, or over workers through a store that makes them resumable."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import xarray

from isometer.documents import parse_json
from isometer.errors import IsometerError
from isometer.run import Failure, Job, Store, results, run
from isometer.serialize import json_text
from isometer_papers.claims._claim import Claim, Effort, index_of
from isometer_papers.claims._registry import find
from isometer_papers.claims._result import Result, ResultRecord
from isometer_papers.claims._verdict import check


def claim_cell(cell: Mapping[str, Any], seed: int) -> xarray.Dataset:
    """One check as a cell: `claim` and `effort`. The seed comes from the claim's ID.

    Example:
        >>> data = claim_cell({"claim": "002/lem-1", "effort": "quick"}, seed=0)
        >>> import json
        >>> json.loads(data.attrs["result"])["verdict"]
        'refuted'
    """
    chosen = next(claim for claim in find(cell["claim"]) if claim.id == cell["claim"])
    result = check(chosen, effort=cell["effort"])
    return xarray.Dataset({"seconds": result.seconds}, attrs={"result": json_text(result.to_dict())})


def check_here(
    claims: Sequence[Claim],
    *,
    effort: Effort = "quick",
    progress: Callable[[int, int, str], None] | None = None,
) -> list[Result]:
    """Check claims one after the other in this process.

    Args:
        claims: which.
        effort: quick or thorough.
        progress: called as `progress(done, total, id)` before each check.

    Returns:
        Their results, in order.

    Example:
        >>> [result.verdict for result in check_here(find("002/lem-1"))]
        ['refuted', 'holds', 'refuted', 'holds']
    """
    found = []
    for i, claim in enumerate(claims):
        if progress is not None:
            progress(i, len(claims), claim.id)
        found.append(check(claim, effort=effort))
    return found


def check_many(
    claims: Sequence[Claim],
    store: str | Path,
    *,
    effort: Effort = "quick",
    workers: int | None = None,
    dask: str | None = None,
    observer: Any = None,
) -> tuple[list[Result], tuple[Failure, ...]]:
    """Check claims on workers; what is finished stays in the store and is not done again.

    Args:
        claims: which.
        store: folder of the store, made if there is none.
        effort: quick or thorough.
        workers: processes.
        dask: address of a Dask scheduler, or `"local"`.
        observer: see `isometer.run.run`.

    Returns:
        Results in the order of the claims, without those that failed, and the failures.

    Example:
        >>> check_many([], "nowhere")
        Traceback (most recent call last):
        ...
        isometer.errors.IsometerError: no claims were chosen; expected at least one
    """
    index_of(effort)
    if not claims:
        raise IsometerError("no claims were chosen; expected at least one")
    job = Job(claim_cell, {"claim": [claim.id for claim in claims], "effort": [effort]})
    place = Store.create(store)
    outcome = run(job, place, name=f"claims-{effort}", workers=workers, dask=dask, observer=observer)
    by_label = results(job, place)
    found = [_result(by_label[cell.label]) for cell in job.cells if cell.label in by_label]
    return found, outcome.failures


def _result(cell: xarray.Dataset) -> Result:
    fix = "remove the store and check again"
    return Result.from_dict(parse_json(cell.attrs["result"], ResultRecord, what="the result of a check", fix=fix))
