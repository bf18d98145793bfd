"""NNGP and NTK of a chain on a batch.

A chain is a stack of hidden layers; a kernel is that of a function. So the chain gets a linear readout (a dense step of
gain 1 without bias), and where its first step is not a dense one, as beside a skip connection, an input layer of the
same kind. The NNGP is then the Gram matrix of what the chain hands on, the one that `predict` follows.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from isometer.errors import IsometerError
from isometer.spec import Chain, Repeat, Spec, with_depth, with_ends
from isometer.theory.chains._layer import ChainLayer, uncovered
from isometer.theory.kernels._conditioning import BoundCheck, bound_quantities, conditioning_bounds
from isometer.theory.kernels._inputs import Batch
from isometer.theory.kernels._kernel_diagnosis import KernelDiagnosis, diagnose_kernel
from isometer.theory.kernels._kernel_matrix import KernelMatrix, Kind, kernel_matrices
from isometer.theory.kernels._length_map import UNIT
from isometer.theory.networks import network_kernels


@dataclass(frozen=True)
class NetworkKernels:
    """Kernels of one network; of a chain also the layout that bounds and diagnoses of kernels need.

    Example:
        >>> import numpy as np
        >>> from isometer.spec import chain_from_options
        >>> found = chain_kernels(chain_from_options(depth=3), np.eye(4))
        >>> sorted(found.matrices), found.layout["norm"]
        (['nngp', 'ntk'], 'none')
    """

    matrices: dict[Kind, KernelMatrix]
    layout: dict[str, Any] | None

    def bounds(self, kind: Kind) -> list[BoundCheck]:
        """The published bounds beside what is measured."""
        return [] if self.layout is None else conditioning_bounds(self.matrices[kind], **self._plain)

    def quantities(self, kind: Kind) -> dict[str, float | None]:
        """What the bounds are made of."""
        return {} if self.layout is None else bound_quantities(self.matrices[kind], **self._plain)

    def diagnosis(self, kind: Kind) -> KernelDiagnosis | None:
        """Why the kernel is close to singular, if it is."""
        if self.layout is None:
            return None
        return diagnose_kernel(self.matrices[kind], **self.layout, readout_bias=False)

    @property
    def _plain(self) -> dict[str, Any]:
        return {name: value for name, value in (self.layout or {}).items() if name != "entry_bias"}


def chain_kernels(
    spec: Chain,
    inputs: ArrayLike,
    depth: int | None = None,
    *,
    kinds: Sequence[Kind] = ("nngp", "ntk"),
    progress: Callable[[int, int], None] | None = None,
) -> NetworkKernels:
    """Kernels of a chain with a linear readout, at a cost that does not grow with depth for inputs of one length.

    Args:
        spec: the chain, with a norm over features or none.
        inputs: (n, d), samples by features; the first weights have the variance gain²/d, as everywhere in a `Spec`.
        depth: layers, those of the chain by default.
        kinds: which of "nngp" and "ntk".
        progress: called as `progress(done, total)` in layers, where the cost grows with depth.

    Returns:
        `NetworkKernels`.

    Example:
        >>> import numpy as np
        >>> from isometer.spec import chain_from_options
        >>> found = chain_kernels(chain_from_options(depth=1), np.sqrt(2) * np.eye(2), kinds=("nngp",))
        >>> found.matrices["nngp"].matrix.round(6)
        array([[1.     , 0.31831],
               [0.31831, 1.     ]])
    """
    layer = ChainLayer.of(spec)
    batch = Batch.of(inputs)
    features = batch.directions.shape[1]
    layers = spec.layers if depth is None else depth
    layout = layer.layout if layers else {**layer.layout, "bias": 0.0}
    factor = layer.state_factor if layers else 1.0  # without layers the readout sees the input
    scaled = Batch(batch.directions, _snapped(batch.squared_lengths * (factor / features)))
    found = kernel_matrices(layer.family, scaled, layers, kinds=kinds, **layout, progress=progress)
    shift = layout["bias"] if layer.residual is None else 0.0
    own = _output_factor(layer) if layers else 0.0
    return NetworkKernels(
        {kind: _without_readout_bias(matrix, shift, own) for kind, matrix in found.items()},
        layout,
    )


def kernels_of(
    spec: Spec,
    inputs: ArrayLike,
    depth: int | None = None,
    *,
    kinds: Sequence[Kind] = ("nngp", "ntk"),
    progress: Callable[[int, int], None] | None = None,
) -> NetworkKernels:
    """Kernels of any network with a linear readout, and with an input layer where its first step has no weights.

    Args:
        spec: the network.
        inputs: `(n, features)`, or `(n, features, *positions)`.
        depth: layers of a chain, or repetitions of the one repeat of another network; its own depth by default.
        kinds: which of "nngp" and "ntk".
        progress: called as `progress(done, total)` in layers.

    Returns:
        `NetworkKernels`, without a layout where the network is not a chain with a norm over features or none.

    Example:
        >>> import numpy as np
        >>> from isometer import Spec
        >>> spec = Spec("input(2) > repeat(residual(dense(8) > act('gelu') > dense(2)), 3) > norm('layer')")
        >>> kernels_of(spec, np.eye(2), kinds=("nngp",)).matrices["nngp"].depth
        3
    """
    if isinstance(spec, Chain) and not uncovered(spec):
        return chain_kernels(spec, inputs, depth, kinds=kinds, progress=progress)
    network = spec if depth is None else with_depth(spec, depth)
    found = network_kernels(with_ends(network), inputs, kinds=kinds, progress=progress)
    layers = depth if depth is not None else _turns(spec)
    return NetworkKernels({kind: replace(matrix, depth=layers) for kind, matrix in found.items()}, None)


def _turns(spec: Spec) -> int:
    """Turns of the one repeat, or layers."""
    turns = [step.times for step in spec.composition if isinstance(step, Repeat)]
    return turns[0] if len(turns) == 1 else sum(1 for _ in spec.executed_layers())


def _snapped(squares: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """One where it is one up to rounding: bounds are about unit lengths."""
    return np.where(np.abs(squares - 1.0) <= UNIT, 1.0, squares)


_FEW_DIGITS = 1e-13  # of the largest entry: less than that is rounding


def _output_factor(layer: ChainLayer) -> float:
    """log of the mean square that a layer hands on, over the variance that the maps have in its place."""
    if layer.residual is not None or (layer.norm != "none" and layer.place == "post"):
        return 0.0
    return -math.log(layer.weight_variance)


def _without_readout_bias(kernel: KernelMatrix, shift: float, log_factor: float) -> KernelMatrix:
    """The kernel of a readout of gain 1 without a bias, from one that is a layer like the others."""
    logs = kernel.log_diagonal + log_factor
    if shift == 0.0:
        return KernelMatrix(
            kernel.kind, kernel.depth, kernel.activation, kernel.matrix, logs, kernel.batch, kernel.singular
        )
    top = float(kernel.log_diagonal.max())
    matrix = kernel.matrix - shift * math.exp(-top)  # over the old largest entry of the diagonal
    diagonal = np.exp(kernel.log_diagonal - top) - shift * math.exp(-top)
    if not np.all(diagonal > _FEW_DIGITS):
        raise IsometerError(
            f"a bias of variance {shift:.3g} outweighs the rest of the signal by more than float64 resolves; "
            "expected one that leaves digits for the rest — pass a smaller bias variance"
        )
    matrix = matrix / diagonal.max()
    logs = np.log(diagonal) + top + log_factor
    return KernelMatrix(kernel.kind, kernel.depth, kernel.activation, matrix, logs, kernel.batch, kernel.singular)
