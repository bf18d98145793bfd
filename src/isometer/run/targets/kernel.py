"""One kernel at infinite width as a cell. The rooms it needs are imported when it is computed."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import xarray


def kernel_cell(cell: Mapping[str, Any], seed: int) -> xarray.Dataset:
    """The spectrum of one kernel: `activation`, `inputs` (an array), `depth`, `kind` and the options of
    `isometer.theory.kernel_matrix`. Nothing is random.

    Example:
        >>> import numpy as np
        >>> data = kernel_cell({"activation": "relu", "inputs": np.eye(3), "depth": 2, "kind": "nngp"}, seed=0)
        >>> sorted(map(str, data.data_vars))
        ['condition_number', 'effective_rank', 'largest_eigenvalue', 'log_diagonal', 'smallest_eigenvalue']
    """
    from isometer.theory.kernels._kernel_matrix import kernel_matrix

    options = {name: value for name, value in cell.items() if name != "activation"}
    kernel = kernel_matrix(cell["activation"], **options)
    names = ("condition_number", "smallest_eigenvalue", "largest_eigenvalue", "effective_rank")
    numbers = {name: float(getattr(kernel, name)) for name in names}
    return xarray.Dataset({**numbers, "log_diagonal": float(kernel.log_diagonal.max())})


def check_kernel(cell: Mapping[str, Any]) -> None:
    """Raise what `kernel_cell` would raise about its input, at the cost of one pair of inputs.

    Example:
        >>> import numpy as np
        >>> check_kernel({"activation": "rleu", "inputs": np.eye(3), "depth": 2, "kind": "nngp"})
        Traceback (most recent call last):
        ...
        isometer.errors.ActivationError: unknown activation or name 'rleu'; did you mean 'relu'? ...
    """
    from isometer.activations import activation
    from isometer.theory import Batch
    from isometer.theory.kernels import SignalFamily
    from isometer.theory.kernels._depth_free import checked_depth
    from isometer.theory.kernels._work import check_kernel_work, check_mixed_work

    activation(cell["activation"])
    depth = checked_depth(cell["depth"])
    batch = Batch.of(cell["inputs"])
    inputs, features = len(batch.directions), batch.directions.shape[1]
    check_kernel_work(inputs, features, 1)
    if batch.common_length is None and cell.get("norm", "none") == "none":
        family = SignalFamily(cell["activation"])
        if not family.homogeneous:
            check_mixed_work(family, inputs, features, depth, tangent=cell["kind"] == "ntk")
    shallow = {**cell, "inputs": cell["inputs"][:1], "depth": min(cell["depth"], 1)}
    kernel_cell(shallow, 0)
