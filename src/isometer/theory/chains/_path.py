"""Two inputs on their way through a chain of infinite width."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from isometer.errors import IsometerError
from isometer.spec import Chain
from isometer.theory.chains._layer import LEAST_OWN, ChainLayer
from isometer.theory.kernels._layer_maps import Layers, Stage, cosine_of

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class ChainPath:
    """What layers 0 … L return for two inputs of one mean square; layer 0 is the input.

    Example:
        >>> from isometer.spec import chain_from_options
        >>> chain_path(chain_from_options(depth=2), cosine=0.0).cosine.round(6)  # κ(0) = 1/π, κ(1/π)
        array([0.      , 0.31831 , 0.493731])
    """

    cosine: Floats  # (L + 1,)
    gap: Floats  # 1 − ρ, to relative accuracy
    log_gradient: Floats  # log of the squared gradient norm at the input over that at layer ℓ


def chain_path(
    spec: Chain | ChainLayer,
    *,
    depth: int | None = None,
    cosine: float | None = None,
    gap: float | None = None,
    mean_square: float = 1.0,
    slow_layers: int | None = None,
) -> ChainPath:
    """The cosine of two inputs and the growth of gradients, layer by layer.

    The features of the input count as Gaussian, which matters only where an activation is the first to see them.

    Args:
        spec: the chain, with a norm over features or none.
        depth: layers, those of the chain by default.
        cosine, gap: ρ of the two inputs, or 1 − ρ; one of them.
        mean_square: mean square of both inputs.
        slow_layers: layers that may take a quadrature of their own, about 0.1 s each; 300 by default.

    Returns:
        A `ChainPath`.

    Example:
        >>> from isometer.spec import chain_from_options
        >>> spec = chain_from_options(activation="tanh", norm="layer", gamma=0.5, depth=20)
        >>> round(float(chain_path(spec, cosine=0.5).cosine[20]), 6)
        0.454525
    """
    if isinstance(spec, ChainLayer):
        if depth is None:
            raise IsometerError("a layer has no depth; expected one — pass depth=…")
        layer, layers = spec, depth
    else:
        layer, layers = ChainLayer.of(spec), spec.layers if depth is None else depth
    if (cosine is None) == (gap is None):
        raise IsometerError("give either the cosine or the gap 1 − ρ, not both or neither")
    near = np.array(1.0 - cosine if cosine is not None else float(gap or 0.0))
    far = np.array(1.0 + cosine if cosine is not None else 2.0 - float(gap or 0.0))
    if not 0.0 <= near <= 2.0:
        raise IsometerError(f"a cosine lies in [−1, 1] and a gap 1 − ρ in [0, 2]; got 1 − ρ = {float(near)!r}")
    network, transient, constant = _staged(layer, mean_square, layers, slow_layers)
    out = np.empty((3, layers + 1))
    out[:, 0] = float(cosine_of(near, far)), float(near), 0.0
    share = network.first_share
    # a bias is common to both inputs: it adds to 1 + ρ only
    near, far = share * near, share * far + 2.0 * (1.0 - share)
    log_p, step, carried = math.log(network.start), 0.0, 0.0
    for at in range(1, layers + 1):
        stage = transient[at - 1] if at <= len(transient) else constant
        assert stage is not None
        if at > len(transient) + 1:  # a constant stage names the variance after its first use
            log_p += step
        else:
            step = stage.log_variance - log_p
            log_p = stage.log_variance
        near, far = stage.forward(near, far)
        carried += _log_carried(stage) + step
        out[:, at] = _handed_on(network, near, far, log_p, carried)
    if cosine == 0.0 and layer.activation.is_odd and layer.bias_variance == 0.0:
        out[0], out[1] = 0.0, 1.0  # κ(−ρ) = −κ(ρ): what is left is rounding
    return ChainPath(*out)


@lru_cache(maxsize=2)
def _staged(
    layer: ChainLayer, mean_square: float, depth: int, slow_layers: int | None
) -> tuple[Layers, list[Stage], Stage | None]:
    """The layers and what they do; kept, since pairs of several cosines take the same way."""
    network = layer.layers(mean_square)
    network.slow_layers = network.slow_layers if slow_layers is None else slow_layers
    return network, *network.stages(depth)


def _log_carried(stage: Stage) -> float:
    """log of the squared gradient's factor, relative to that of the variance."""
    if stage.growth == 0.0:
        return -math.inf
    return math.inf if math.isinf(stage.growth) else math.log(stage.growth)


def _handed_on(network: Layers, near: Floats, far: Floats, log_p: float, carried: float) -> tuple[float, float, float]:
    """Cosine and gap of a layer's output: the maps follow what its weights make of it next, a bias included."""
    if network.residual is not None or network.bias == 0.0:
        return float(cosine_of(near, far)), float(near), carried
    own = -math.expm1(math.log(network.bias) - log_p)  # the part of the variance that is not the bias's
    if not own > LEAST_OWN:
        raise IsometerError(
            f"the bias variance {network.bias:g} is so large that float64 keeps no digit of the cosine of the rest of "
            "the signal; expected less than 1e12 times its variance — pass a smaller bias variance"
        )
    gap = float(near) / own
    return 1.0 - gap, gap, carried
