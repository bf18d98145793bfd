"""Results of cells laid out over their grid."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
import xarray

from isometer.errors import IsometerError
from isometer.serialize import json_text

if TYPE_CHECKING:
    from isometer.run._cells import Job


def combine_grid(job: Job, results: Mapping[str, xarray.Dataset]) -> xarray.Dataset:
    """One dataset whose first dimensions are the axes of the job.

    Dimensions of the cells are joined by their coordinates, or by position without them; what a cell does not have, and
    cells that failed, are NaN (empty for text). Coordinates beside the dimensions are kept where all cells agree and
    their name is not an axis.

    Args:
        job: the job.
        results: datasets by the label of their cell.

    Returns:
        The combined dataset, with the attributes that all cells share and the JSON of the axes.

    Example:
        >>> from isometer.run import Job
        >>> from isometer.run.example import power
        >>> job = Job(power, {"base": [2, 3], "exponent": [1, 2]})
        >>> results = {cell.label: power(cell.configuration, cell.seed) for cell in job.cells}
        >>> combine_grid(job, results)["value"].values.tolist()
        [[2.0, 4.0], [3.0, 9.0]]
    """
    axes = {name: list(values) for name, values in job.axes.items()}
    shape = tuple(len(values) for values in axes.values())
    found = [(np.unravel_index(i, shape), results.get(cell.label)) for i, cell in enumerate(job.cells)]
    present = [(place, data) for place, data in found if data is not None]
    for _, data in present:
        clash = sorted(set(axes) & (set(data.data_vars) | set(data.dims)))
        if clash:
            raise IsometerError(
                f"a cell's result has {clash[0]!r} as a variable or dimension, which is also an "
                "axis of the grid — rename one"
            )
    datasets = [data for _, data in present]
    indexes = {dim: _joined_index(datasets, dim) for dim in _union([data.dims for data in datasets])}
    coordinates: dict[Any, Any] = {name: _axis(values) for name, values in axes.items()}
    coordinates |= {dim: index for dim, index in indexes.items() if any(dim in data.coords for data in datasets)}
    variables = {
        name: _filled(name, present, axes, shape, indexes) for name in _union([data.data_vars for data in datasets])
    }
    combined = xarray.Dataset(variables, coords=coordinates, attrs=_shared_attributes(datasets))
    combined.attrs["axes"] = json_text(axes, nonfinite="text")
    return combined.assign_coords(_shared_coordinates(datasets, combined, set(axes)))


def _union(groups: list[Any]) -> list[Any]:
    """Names in order of appearance."""
    return list(dict.fromkeys(name for group in groups for name in group))


def _axis(values: list[Any]) -> np.ndarray[Any, Any]:
    return np.array(values, dtype=object) if any(isinstance(v, str) for v in values) else np.asarray(values)


def _joined_index(datasets: list[xarray.Dataset], dim: Any) -> np.ndarray[Any, Any]:
    """The union of a dimension's coordinate over the cells, in order; positions where it has none."""
    holders = [data for data in datasets if dim in data.dims]
    if not all(dim in data.coords for data in holders):
        return np.arange(max(data.sizes[dim] for data in holders))
    values = [np.asarray(data[dim].values) for data in holders]
    if all(v.dtype.kind in "iufb" for v in values):
        return np.unique(np.concatenate(values))
    return np.array(_union([v.tolist() for v in values]), dtype=object)


def _filled(
    name: Any,
    present: list[tuple[Any, xarray.Dataset]],
    axes: Mapping[str, Any],
    shape: tuple[int, ...],
    indexes: Mapping[Any, np.ndarray[Any, Any]],
) -> tuple[list[Any], np.ndarray[Any, Any]]:
    holders = [(place, data) for place, data in present if name in data]
    inner = holders[0][1][name].dims
    if any(set(data[name].dims) != set(inner) for _, data in holders):
        raise IsometerError(f"the variable {name!r} has other dimensions in other cells; expected {inner} in all")
    kind = np.result_type(*(data[name].dtype for _, data in holders)) if len(holders) else np.dtype(float)
    size = (*shape, *(len(indexes[dim]) for dim in inner))
    text = kind.kind in "OUS"
    whole = kind.kind in "iub" and sum(data[name].size for _, data in holders) == math.prod(size)
    if whole:
        full = np.empty(size, dtype=kind)  # none is missing; as floats, numbers above 2⁵³ would be rounded
    elif text:
        full = np.full(size, "", dtype=object)
    else:
        full = np.full(size, np.nan, dtype=np.result_type(kind, np.float32))  # NaN marks what is missing
    for place, data in holders:
        variable = data[name].transpose(*inner)
        where = [_positions(data, dim, indexes[dim]) for dim in inner]
        full[(*place, *np.ix_(*where))] = variable.values[()]  # a lone text as such, not as an array of none
    return [*axes, *inner], full


def _positions(data: xarray.Dataset, dim: Any, index: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    if dim not in data.coords:
        return np.arange(data.sizes[dim])
    values = np.asarray(data[dim].values)
    if index.dtype == object:
        place = {value: i for i, value in enumerate(index.tolist())}
        return np.array([place[value] for value in values.tolist()], dtype=int)
    return np.searchsorted(index, values)  # exact: the index is the sorted union of all coordinates


def _shared_attributes(datasets: list[xarray.Dataset]) -> dict[str, Any]:
    first = datasets[0].attrs if datasets else {}
    return {
        key: value
        for key, value in first.items()
        if all(key in data.attrs and np.array_equal(data.attrs[key], value) for data in datasets[1:])
    }


def _shared_coordinates(datasets: list[xarray.Dataset], combined: xarray.Dataset, taken: set[str]) -> dict[Any, Any]:
    """Coordinates beside the dimensions, from the cell that has all of each dimension, where no other disagrees."""
    kept = {}
    for name in _union([data.coords for data in datasets]):
        holders = [data for data in datasets if name in data.coords]
        if name in taken or name in combined.dims:
            continue
        dims = holders[0][name].dims
        whole = next((d for d in holders if all(d.sizes.get(x) == combined.sizes[x] for x in dims)), None)
        if whole is None or any(data[name].dims != dims for data in holders):
            continue
        where = [[_positions(data, dim, np.asarray(combined[dim].values)) for dim in dims] for data in holders]
        values = np.asarray(whole[name].values)
        if all(np.array_equal(values[np.ix_(*w)], d[name].values) for w, d in zip(where, holders, strict=True)):
            kept[name] = (dims, values)
    return kept
