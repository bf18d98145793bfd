"""One kernel at infinite width as a cell. The rooms it needs are imported when it is computed."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import xarray

if TYPE_CHECKING:
    from isometer.spec import Chain


def kernel_cell(cell: Mapping[str, Any], seed: int) -> xarray.Dataset:
    """The spectrum of one kernel: `spec` (JSON data), `inputs` (an array) and `kind`. Nothing is random.

    Example:
        >>> import numpy as np
        >>> data = kernel_cell({"spec": {"width": 3, "depth": 2}, "inputs": np.eye(3), "kind": "nngp"}, seed=0)
        >>> sorted(map(str, data.data_vars))
        ['condition_number', 'effective_rank', 'largest_eigenvalue', 'log_diagonal', 'smallest_eigenvalue']
    """
    from isometer.theory.chains import chain_kernels

    kernel = chain_kernels(_spec(cell), cell["inputs"], kinds=(cell["kind"],)).matrices[cell["kind"]]
    names = ("condition_number", "smallest_eigenvalue", "largest_eigenvalue", "effective_rank")
    numbers = {name: float(getattr(kernel, name)) for name in names}
    return xarray.Dataset({**numbers, "log_diagonal": float(kernel.log_diagonal.max())})


def check_kernel(cell: Mapping[str, Any]) -> None:
    """Raise what `kernel_cell` would raise about its input, at the cost of one pair of inputs.

    Example:
        >>> import numpy as np
        >>> check_kernel({"spec": {"width": 3, "depth": 2, "norm": "batch"}, "inputs": np.eye(3), "kind": "nngp"})
        Traceback (most recent call last):
        ...
        isometer.spec._checks.SpecError: a norm over samples has no map of two inputs; expected ...
    """
    from isometer.theory import Batch
    from isometer.theory.chains import ChainLayer, chain_kernels
    from isometer.theory.kernels._work import check_kernel_work, check_mixed_work

    spec = _spec(cell)
    layer, batch = ChainLayer.of(spec), Batch.of(cell["inputs"])
    inputs, features = batch.directions.shape
    check_kernel_work(inputs, features, 1)
    if batch.common_length is None and layer.norm == "none" and not layer.family.homogeneous:
        check_mixed_work(layer.family, inputs, features, spec.layers, tangent=cell["kind"] == "ntk")
    chain_kernels(spec, cell["inputs"][:1], 1, kinds=(cell["kind"],))


def _spec(cell: Mapping[str, Any]) -> Chain:
    from isometer.spec import Chain

    return Chain.from_json(json.dumps(cell["spec"]))
