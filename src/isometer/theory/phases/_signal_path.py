"""Length and cosine of two signals of one length, layer by layer, with biases, norms and skip connections."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from isometer.activations import Activation
from isometer.errors import IsometerError
from isometer.theory.kernels._depth_free import checked_depth
from isometer.theory.kernels._kernel_map import Norm
from isometer.theory.kernels._layer_maps import Layers, Place, cosine_of
from isometer.theory.kernels._length_map import SignalFamily

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class SignalPath:
    """Pre-activations of two inputs over layers 0 … L: log of their variance, cosine, and 1 − cosine.

    Example:
        >>> from isometer.theory.phases import signal_path
        >>> signal_path("unit(relu)", 2, cosine=0.0).cosine.round(6)
        array([0.      , 0.31831 , 0.493731])
    """

    log_variance: Floats  # (L + 1,)
    cosine: Floats
    gap: Floats  # 1 − ρ, to relative accuracy


def signal_path(
    source: str | Activation | SignalFamily | Any,
    depth: int,
    *,
    cosine: float | None = None,
    gap: float | None = None,
    squared_length: float = 1.0,
    bias: float = 0.0,
    norm: Norm = "none",
    norm_position: Place = "pre",
    residual: float | None = None,
    entry_bias: float | None = None,
) -> SignalPath:
    """The length and correlation maps iterated: K ↦ E φφ + V, or K ↦ K + γ²(E φφ + V) with skip connections.

    `KernelMap(residual=γ)` keeps the branch at strength γ relative to the skip in every layer; here the strength is
    that of h + γ(Wφ(h) + b) itself, whose share of the signal changes as the signal grows. For a homogeneous φ of
    unit second moment and no bias the two agree.

    Args:
        source: the activation as given.
        depth: number of layers L.
        cosine, gap: ρ of the two inputs, or 1 − ρ; one of them.
        squared_length: ‖x‖² of both.
        bias, norm, norm_position, residual: as in `kernel_matrices`.
        entry_bias: variance of the biases of the first weights, those of all others by default.

    Example:
        >>> from isometer.theory.phases import signal_path
        >>> path = signal_path("tanh", 10, gap=1e-20, residual=0.5)
        >>> bool(path.log_variance[10] > 0.7), bool(1e-20 < path.gap[10] < 1e-19)
        (True, True)
    """
    layers = checked_depth(depth)
    if (cosine is None) == (gap is None):
        raise IsometerError("give either the cosine or the gap 1 − ρ, not both or neither")
    near = np.array(1.0 - float(cosine) if cosine is not None else float(gap or 0.0))
    far = np.array(1.0 + float(cosine) if cosine is not None else 2.0 - float(gap or 0.0))
    if not (0.0 <= near <= 2.0):
        raise IsometerError(f"a cosine lies in [−1, 1] and a gap 1 − ρ in [0, 2]; got 1 − ρ = {float(near)!r}")
    network = Layers(
        source, squared_length=squared_length, bias=bias, norm=norm, norm_position=norm_position, residual=residual,
        entry_bias=entry_bias,
    )  # fmt: skip
    share = network.first_share
    # the bias is common to both inputs: it adds to 1 + ρ only
    near, far = share * near, share * far + 2.0 * (1.0 - share)
    transient, constant = network.stages(layers)
    out = np.empty((3, layers + 1))
    log_p, step = math.log(network.start), 0.0
    for layer in range(layers + 1):
        if layer:
            stage = transient[layer - 1] if layer <= len(transient) else constant
            assert stage is not None
            # a constant stage names the variance after its first use; later ones repeat the same factor
            if layer == len(transient) + 1:
                step = stage.log_variance - log_p
            near, far = stage.forward(near, far)
            log_p = stage.log_variance if layer <= len(transient) else log_p + step
        out[:, layer] = log_p, float(cosine_of(near, far)), float(near)
    return SignalPath(*out)
