"""Kernels of a network spec, or of an activation in the network that `isometer.theory.kernels` documents."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from numpy.typing import ArrayLike

from isometer.activations import Activation
from isometer.errors import IsometerError
from isometer.spec import Spec
from isometer.theory.kernels import Batch, KernelMatrix
from isometer.theory.kernels import kernel_matrices as activation_kernels
from isometer.theory.kernels._kernel_matrix import Kind
from isometer.theory.networks import network_kernels


def kernel_matrices(
    source: Spec | str | Activation | Any,
    inputs: ArrayLike | Batch,
    depth: int | None = None,
    *,
    kinds: Sequence[Kind] = ("nngp", "ntk"),
    **options: Any,
) -> dict[Kind, KernelMatrix]:
    """NNGP and NTK of a batch: of a network as it is written, or of an activation at a depth.

    Args:
        source: a `Spec`, see `isometer.theory.networks.network_kernels`; or an activation, see
            `isometer.theory.kernels.kernel_matrices`, which has an input layer and a readout of its own.
        inputs: `(n, features)`; with a spec also `(n, features, *positions)`.
        depth: hidden layers of the activation's network; a spec has its own.
        kinds: which of "nngp" and "ntk".
        options: `progress`; for an activation also `bias`, `norm`, `norm_position` and `residual`.

    Returns:
        One `KernelMatrix` per kind.

    Example:
        >>> import numpy as np
        >>> from isometer import Spec
        >>> spec = Spec("input(2, [4]) > conv(3, 8, gain=2**0.5) > act('relu') > pool > dense(1)")
        >>> kernel_matrices(spec, np.ones((1, 2, 4)))["nngp"].log_diagonal.round(12) + 0.0
        array([0.])
    """
    if isinstance(source, Spec):
        odd = sorted({*options, *(["depth"] if depth is not None else [])} - {"progress"})
        if odd:
            raise IsometerError(f"{', '.join(odd)} given beside a spec, which says it itself — change the spec")
        points: Any = inputs
        return network_kernels(source, points, kinds=kinds, **options)
    if depth is None:
        raise IsometerError("the depth of an activation's network is missing; expected a number of hidden layers")
    return activation_kernels(source, inputs, depth, kinds=kinds, **options)
