"""One kernel at infinite width as a cell. The rooms it needs are imported when it is computed."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import xarray

if TYPE_CHECKING:
    from isometer.spec import Spec


def kernel_cell(cell: Mapping[str, Any], seed: int) -> xarray.Dataset:
    """The spectrum of one kernel: `spec` (JSON data), `inputs` (an array) and `kind`. Nothing is random.

    Example:
        >>> import numpy as np
        >>> data = kernel_cell({"spec": {"width": 3, "depth": 2}, "inputs": np.eye(3), "kind": "nngp"}, seed=0)
        >>> sorted(map(str, data.data_vars))
        ['condition_number', 'effective_rank', 'largest_eigenvalue', 'log_diagonal', 'smallest_eigenvalue']
    """
    from isometer.theory.chains import kernels_of

    kernel = kernels_of(_spec(cell), cell["inputs"], kinds=(cell["kind"],)).matrices[cell["kind"]]
    names = ("condition_number", "smallest_eigenvalue", "largest_eigenvalue", "effective_rank")
    numbers = {name: float(getattr(kernel, name)) for name in names}
    return xarray.Dataset({**numbers, "log_diagonal": float(kernel.log_diagonal.max())})


def check_kernel(cell: Mapping[str, Any]) -> None:
    """Raise what `kernel_cell` would raise about its input, at the cost of one pair of inputs.

    Example:
        >>> import numpy as np
        >>> check_kernel({"spec": {"width": 3, "depth": 0}, "inputs": np.eye(3), "kind": "nngp"})
        Traceback (most recent call last):
        ...
        isometer.spec._checks.SpecError: depth is 0; expected a whole number from 1 to 10000000 — ...
    """
    from isometer.spec import Chain
    from isometer.theory import Batch
    from isometer.theory.chains import ChainLayer, kernels_of
    from isometer.theory.chains._layer import uncovered
    from isometer.theory.kernels._work import check_kernel_work, check_mixed_work

    spec = _spec(cell)
    flat = cell["inputs"].reshape(len(cell["inputs"]), -1)
    batch = Batch.of(flat)
    inputs, features = batch.directions.shape
    check_kernel_work(inputs, features, 1)
    if not isinstance(spec, Chain) or uncovered(spec):
        kernels_of(spec, cell["inputs"][:2], kinds=(cell["kind"],))
        return
    layer = ChainLayer.of(spec)
    if batch.common_length is None and layer.norm == "none" and not layer.family.homogeneous:
        check_mixed_work(layer.family, inputs, features, spec.layers, tangent=cell["kind"] == "ntk")
    kernels_of(spec, flat[:1], 1, kinds=(cell["kind"],))


def _spec(cell: Mapping[str, Any]) -> Spec:
    from isometer.spec import Spec

    return Spec.from_json(json.dumps(cell["spec"]))
