"""Kernels of thousands of samples as a job of blocks: resumable, in processes or on a cluster."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any, Literal

import numpy as np
import xarray
from numpy.typing import ArrayLike, NDArray

from isometer.regression._kernels import Kind, as_inputs
from isometer.run import Cell, Job
from isometer.spec import Spec

Floats = NDArray[np.float64]
_SECONDS = 20.0  # of a block, by estimate


def block_cell(cell: Mapping[str, Any], seed: int) -> xarray.Dataset:
    """Kernels of one block: `spec` (JSON data), `first` and `second` (arrays; the second None for a block with itself).

    Example:
        >>> spec = json.loads(Spec("input(2) > dense(4) > act('relu') > dense(1)").to_json())
        >>> cell = {"spec": spec, "first": np.eye(2), "second": None, "kinds": ["nngp"], "precision": "float64"}
        >>> block_cell(cell, seed=0)["nngp"].shape
        (2, 2)
    """
    from isometer.theory.networks import pair_kernels

    spec = Spec.from_json(json.dumps(cell["spec"]))
    found = pair_kernels(spec, cell["first"], cell["second"], kinds=cell["kinds"], precision=cell["precision"])
    return xarray.Dataset({kind: (("row", "column"), matrix) for kind, matrix in found.items()})


def kernel_job(
    spec: Spec,
    samples: ArrayLike,
    others: ArrayLike | None = None,
    *,
    kinds: Sequence[Kind] = ("nngp", "ntk"),
    precision: Literal["float64", "float32"] = "float64",
    block: int | None = None,
) -> Job:
    """Kernels among samples, and between others and them, as a job for `isometer.run`.

    Args:
        spec: the network.
        samples: `(n, …)`, among which every pair is computed once.
        others: `(m, …)`, computed with the samples, not among themselves.
        kinds: which of "nngp" and "ntk".
        precision: "float64" or "float32".
        block: samples along a side of a block; such that one takes about 20 seconds by default.

    Example:
        >>> spec = Spec("input(2) > dense(4) > act('relu') > dense(1)")
        >>> [cell.label for cell in kernel_job(spec, np.eye(2).repeat(2, 0), block=2).cells]
        ['block=samples 0:2 × 0:2', 'block=samples 0:2 × 2:4', 'block=samples 2:4 × 2:4']
    """
    from isometer.theory.networks import PairKernels

    x = as_inputs(samples, spec.shape)
    z = np.empty((0, *x.shape[1:])) if others is None else as_inputs(others, spec.shape)
    engine = PairKernels(spec, x[:1], kinds=kinds, precision=precision)
    engine([0], [0])  # refuses what has no kernel of pairs
    if block is None:
        each = engine.work(10_000).seconds / 10_000
        block = int(np.clip(np.sqrt(_SECONDS / each), 4, 1000))
    cells = []
    record = json.loads(spec.to_json())
    rows, more = _cut(x, block), _cut(z, block)
    shared = {"spec": record, "kinds": list(kinds), "precision": precision}
    for at, (start, own) in enumerate(rows):
        for later, (column, other) in enumerate(rows[at:]):
            label = _label("samples", start, own, column, other)
            cells.append(Cell({"block": label}, {**shared, "first": own, "second": None if later == 0 else other}))
    for start, own in more:
        for column, other in rows:
            cells.append(
                Cell({"block": _label("others", start, own, column, other)}, {**shared, "first": own, "second": other})
            )
    axes = {"block": [str(cell.coordinates["block"]) for cell in cells]}
    return Job(block_cell, axes, tuple(cells), combine=nothing_combined)


def nothing_combined(job: Job, results: Mapping[str, xarray.Dataset]) -> xarray.Dataset:
    """Blocks are put together by `kernels_of_job`, which says where they go."""
    return xarray.Dataset()


def kernels_of_job(
    results: Mapping[str, xarray.Dataset], samples: int, others: int = 0
) -> dict[Kind, tuple[Floats, Floats]]:
    """Of each kind the kernel among samples `(n, n)` and of others with them `(m, n)`, from all blocks.

    Args:
        results: the value of `isometer.run.results`, by label.
        samples: n.
        others: m.

    Example:
        >>> import tempfile
        >>> from isometer.run import Store, results, run
        >>> spec, x = Spec("input(2) > dense(4) > act('relu') > dense(1)"), np.eye(2)
        >>> job = kernel_job(spec, x, kinds=("nngp",))
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     _ = run(job, folder, workers=1)
        ...     kernels_of_job(results(job, Store.create(folder)), 2)["nngp"][0].round(4).tolist()
        [[0.25, 0.0796], [0.0796, 0.25]]
    """
    out: dict[Kind, tuple[Floats, Floats]] = {}
    for label, data in results.items():
        name, place, _, other = label.removeprefix("block=").split(" ")
        rows, columns = (slice(*map(int, text.split(":"))) for text in (place, other))
        for kind, values in data.data_vars.items():
            square, beside = out.setdefault(
                str(kind),  # type: ignore[arg-type]
                (np.full((samples, samples), np.nan), np.full((others, samples), np.nan)),
            )
            if name == "samples":
                square[rows, columns] = values.values
                square[columns, rows] = values.values.T
            else:
                beside[rows, columns] = values.values
    return out


def _cut(array: Floats, block: int) -> list[tuple[int, Floats]]:
    """Blocks of samples that cannot change, so that each is digested once."""
    found = []
    for at in range(0, len(array), block):
        own = np.ascontiguousarray(array[at : at + block])
        own.flags.writeable = False
        found.append((at, own))
    return found


def _label(name: str, start: int, own: Floats, column: int, other: Floats) -> str:
    return f"{name} {start}:{start + len(own)} × {column}:{column + len(other)}"
