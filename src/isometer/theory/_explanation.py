"""Everything worth saying about an activation, gathered once for the card, the picture and the JSON."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Literal, overload

import numpy as np
from numpy.typing import NDArray

from isometer._display import Drawn
from isometer.activations import Activation, activation
from isometer.errors import IsometerError
from isometer.serialize import json_data
from isometer.spec import Chain, Composition, NormPosition, Spec, SpecError
from isometer.spec._options import forward_gain_of, layer_order
from isometer.theory._network_explanation import NEARBY, NetworkExplanation, explain_network
from isometer.theory.chains._approach import Approach, approach_of
from isometer.theory.chains._layer import ChainLayer, uncovered
from isometer.theory.chains._path import ChainPath, chain_path
from isometer.theory.kernels._kernel_map import KernelMap, KernelPath, Norm
from isometer.theory.kernels._length_map import checked_variance
from isometer.theory.kernels._shaping import length_slope

DEPTHS = (10, 100, 1000)
_SLOW = 5  # layers of the outlook that may take long


@dataclass(frozen=True)
class DepthOutlook:
    """What a network of a given depth does at infinite width; None where the signal is lost or too costly to follow."""

    depth: int
    cosine_of_orthogonal: float | None  # two inputs that start at cosine 0
    gap_of_nearby: float | None  # 1 − cos of two inputs that start at 1 − cos = NEARBY
    log10_gradient_factor: float | None  # gradient norm at the input over that at the output


@dataclass(frozen=True, repr=False)
class Explanation(Drawn):
    """An activation's Gaussian analysis and the fate of signals in a deep network of it.

    Example:
        >>> from isometer.theory import explain
        >>> card = explain("relu")
        >>> card.kernel.case, card.to_dict()["rate_exponent"]
        (3, 2.0)
    """

    activation: Activation
    kernel: KernelMap
    hermite: NDArray[np.float64]
    length_slope: float  # Q'(1) of the unit-second-moment version
    outlook: tuple[DepthOutlook, ...]
    layer: ChainLayer

    def __repr__(self) -> str:
        return f"Explanation({self.activation.name!r}: {self.conclusion} {self.gradient_sentence})"

    @property
    def conclusion(self) -> str:
        """One sentence: what depth does to two inputs.

        Example:
            >>> from isometer.theory import explain
            >>> explain("tanh").conclusion.startswith("Different inputs become orthogonal")
            True
        """
        return self.approach.sentence

    @cached_property
    def approach(self) -> Approach:
        """How cosines change with depth in this chain.

        Example:
            >>> from isometer.theory import explain
            >>> explain("gelu", norm="layer", residual=0.5).approach.form
            'algebraic'
        """
        return approach_of(self.layer, self.kernel)

    def follow(self, cosine: float, depth: int) -> KernelPath:
        """Two inputs layer by layer, from the size that signals have deep in the network where they have one.

        Example:
            >>> from isometer.theory import explain
            >>> explain("sign").follow(0.0, 2).cosine
            array([0., 0., 0.])
        """
        if self.approach.by_kernel_map:
            return self.kernel.iterate(cosine, depth)
        found = chain_path(self.layer, cosine=cosine, depth=depth, mean_square=self.layer.resting_square)
        target = self.approach.fixed_point
        if target is None:
            distance = np.full_like(found.gap, math.nan)
        else:
            distance = found.gap if target == 1.0 else np.abs(found.cosine - target)
        return KernelPath(found.cosine, found.gap, distance)

    def path(self, cosine: float, depth: int) -> ChainPath:
        """Two inputs of unit mean square and this cosine, layer by layer: what `predict` and kernels say of them.

        Example:
            >>> from isometer.theory import explain
            >>> round(float(explain("tanh", norm="layer", residual=0.5).path(0.5, 20).cosine[20]), 6)
            0.454525
        """
        return chain_path(self.layer, cosine=cosine, depth=depth)

    @property
    def gradient_sentence(self) -> str:
        """One sentence: what depth does to gradients.

        Example:
            >>> from isometer.theory import explain
            >>> explain("relu").gradient_sentence
            'Gradient norms are preserved (factor 1 per layer).'
        """
        slope = self.kernel.slope_at_one
        if self.activation.gain_backward == math.inf:
            return "No gradient passes: the derivative is zero almost everywhere."
        if math.isinf(slope):
            return "κ'(1) is infinite: the activation jumps, and nearby inputs decorrelate at once."
        if not self.approach.autonomous or self.layer.residual is not None:
            return self._gradients_over_depth
        factor = math.sqrt(slope)
        if abs(slope - 1.0) < 1e-9:
            return "Gradient norms are preserved (factor 1 per layer)."
        return (
            f"Gradient norms {'grow' if slope > 1 else 'shrink'} by a factor {factor:.4g} per layer toward the input."
        )

    @property
    def _gradients_over_depth(self) -> str:
        known = [(row.depth, log10) for row in self.outlook if (log10 := row.log10_gradient_factor) is not None]
        if not known:
            return "What gradients do over depth is not known here."
        factors = ", ".join(f"{_factor(log10)} over {depth}" for depth, log10 in known[:2])
        return f"Gradient norms change toward the input by a factor {factors} layers."

    @property
    def setting(self) -> str:
        """The layer in a few words.

        Example:
            >>> from isometer.theory import explain
            >>> explain("relu", norm="layer", residual=0.5).setting
            'layer norm before the activation, inside a residual branch of strength 0.5'
        """
        layer, words = self.layer, []
        places = {"pre": "before the activation", "post": "after the activation", "sum": "after the addition"}
        if layer.norm != "none":
            words.append(f"{layer.norm} norm {places[layer.place]}")
        if layer.residual is not None:
            inside = "inside a residual branch" if layer.norm != "none" and layer.place != "sum" else "residual branch"
            words.append(f"{inside} of strength {layer.residual:g}")
        if layer.bias_variance > 0.0:
            words.append(f"biases of variance {layer.bias_variance:g}")
        if not layer.has_principled_gain and layer.bias_variance == 0.0:
            words.append(f"gain {math.sqrt(layer.weight_variance):.6g}")
        return ", ".join(words) or "unit second moment"

    @property
    def length_sentence(self) -> str | None:
        """One sentence on the signal's size where nothing normalises it; None where something does.

        Example:
            >>> from isometer.theory import explain
            >>> explain("tanh").length_sentence is None
            False
            >>> explain("gelu", norm="rms").length_sentence is None
            True
        """
        if not self.layer.is_plain or not self.layer.has_principled_gain:
            return None
        slope = self.length_slope
        if abs(slope - 1.0) < 1e-9:
            return "Signal sizes neither grow nor shrink on average (Q′(1) = 1), but finite-width errors accumulate."
        if slope < 1.0:
            return f"The signal's size is stable: a deviation shrinks by a factor {slope:.4g} per layer."
        return (
            f"The signal's size is unstable: a deviation grows by a factor {slope:.4g} per layer, "
            "so cosines follow the map above only with a norm layer."
        )

    def to_dict(self) -> dict[str, Any]:
        """Plain values for JSON; infinities as the string "inf".

        Example:
            >>> from isometer.theory import explain
            >>> explain("sign").to_dict()["kernel_slope_at_one"]
            'inf'
        """
        phi, k = self.activation, self.kernel
        way = self.approach
        values: dict[str, Any] = {
            "name": phi.name,
            "norm": self.layer.norm,
            "norm_position": self.layer.place,
            "residual": self.layer.residual,
            "gain": math.sqrt(self.layer.weight_variance),
            "bias_variance": self.layer.bias_variance,
            "mean": phi.mean,
            "second_moment": phi.second_moment,
            "variance": phi.variance,
            "gain_forward": phi.gain_forward,
            "gain_backward": phi.gain_backward,
            "unit_variance_gamma": phi.unit_variance_gamma,
            "kinks": list(phi.kinks),
            "length_slope": self.length_slope,
            "hermite": [float(c) for c in self.hermite],
            "kernel_at_zero": k.at_zero,
            "kernel_slope_at_zero": k.slope_at_zero,
            "kernel_slope_at_one": k.slope_at_one,
            "case": k.case,
            "fixed_point": way.fixed_point,
            "fixed_points": None if k.case is None else list(k.fixed_points),
            "slope_at_fixed_point": k.slope_at_fixed_point,
            "rate_form": way.form,
            "rate": way.rate,
            "rate_exponent": way.exponent,
            "rate_constant": way.constant,
            "depth_scale": way.depth_scale,
            "nonlinearity": phi.nonlinearity,
            "error_estimate": k.error,
            "method": phi.dual.method,
            "depths": [vars(row) for row in self.outlook],
            "conclusion": self.conclusion,
            "warnings": list(k.warnings),
        }
        return {key: json_data(value) for key, value in values.items()}


@overload
def explain(source: Composition) -> NetworkExplanation: ...
@overload
def explain(
    source: str | Activation | Chain | Any,
    *,
    norm: Norm = ...,
    norm_position: NormPosition = ...,
    residual: float | None = ...,
    gain: float | Literal["forward"] | None = ...,
    bias_variance: float = ...,
) -> Explanation: ...
def explain(
    source: str | Activation | Spec | Any,
    *,
    norm: Norm = "none",
    norm_position: NormPosition = "pre",
    residual: float | None = None,
    gain: float | Literal["forward"] | None = None,
    bias_variance: float = 0.0,
) -> Explanation | NetworkExplanation:
    """Analyse an activation: moments, gains, Hermite spectrum, kernel map, fixed point, rate, outlook over depth.

    Args:
        source: a name, an expression, a callable, a torch module; or a network, which determines everything else.
        norm: "none", "layer" or "rms".
        norm_position: `"pre"` or `"post"` the activation, or after the `"sum"` with the skip, as everywhere.
        residual: γ, the strength of the branch beside a skip connection; None for no skip.
        gain: factor of the weights, the principled one by default.
        bias_variance: variance of the biases.

    Returns:
        An `Explanation`; for a network that is not one layer repeated, or whose layers differ, a `NetworkExplanation`.

    Example:
        >>> from isometer.theory import explain
        >>> round(explain("gelu").kernel.fixed_point, 6)
        0.760402
    """
    if isinstance(source, Spec):
        if not isinstance(source, Chain) or uncovered(source):
            return explain_network(source)
        layer = ChainLayer.of(source)
    else:
        layer = _layer(activation(source), norm, norm_position, residual, gain, bias_variance)
    kernel = _kernel(layer)
    slope = length_slope(kernel.effective)
    return Explanation(layer.activation, kernel, kernel.effective.hermite(10), slope, _outlook(layer, kernel), layer)


def _layer(
    phi: Activation,
    norm: Norm,
    norm_position: NormPosition,
    residual: float | None,
    gain: float | Literal["forward"] | None,
    bias_variance: float,
) -> ChainLayer:
    """The layer of the short options for any activation, a callable of the user's included."""
    if norm not in ("none", "layer", "rms"):
        raise IsometerError(
            f"norm must be 'none', 'layer' or 'rms'; got {norm!r} — batch norm has no kernel map of two samples"
        )
    if residual is not None and not residual > 0:
        raise IsometerError(f"residual strength must be positive, or None for no skip; got {residual!r}")
    strength = None if residual is None or math.isinf(residual) else float(residual)
    layer_order(norm_position if norm != "none" else "pre", skip=strength is not None)  # says what is wrong with them
    place: NormPosition = norm_position if norm != "none" else "pre"
    if gain is None or gain == "forward":
        gain = forward_gain_of(phi, rescaled=norm != "none" and place == "post")
    variance = gain**2
    if not 0.0 < variance < math.inf:
        raise SpecError(f"the gain is {gain!r}; expected a number other than 0 — pass 1.0, for example")
    return ChainLayer(
        phi, norm, place, strength, variance, variance, checked_variance(bias_variance, "the bias variance")
    )


def _kernel(layer: ChainLayer) -> KernelMap:
    """κ of the layer where it is one map for all layers, and of its branch where the skip's share changes."""
    place: Literal["pre", "post"] = "post" if layer.place == "post" else "pre"
    renewed = layer.norm != "none" and layer.place == "sum"
    mixed = renewed or (layer.norm == "none" and layer.family.homogeneous)
    strength = layer.branch_strength if mixed else None
    return KernelMap(layer.activation, norm=layer.norm, norm_position=place, residual=strength)


def _factor(log10: float) -> str:
    """A factor in three digits, as a power of ten where no float holds it."""
    return f"{10**log10:.3g}" if abs(log10) < 300 or math.isinf(log10) else f"10^{log10:.0f}"


def _outlook(layer: ChainLayer, kernel: KernelMap) -> tuple[DepthOutlook, ...]:
    if approach_of(layer, kernel).by_kernel_map:
        deepest = max(DEPTHS)
        orthogonal, nearby = kernel.iterate(0.0, deepest), kernel.iterate(gap=NEARBY, depth=deepest)
        growth = 0.5 * math.log10(kernel.slope_at_one) if kernel.slope_at_one > 0 else -math.inf
        if kernel.residual is not None and layer.norm == "none":  # the signal grows, and gradients with it
            growth += 0.5 * math.log10(1.0 + kernel.residual**2)
        if kernel.activation.gain_backward == math.inf and layer.residual is None:
            growth = -math.inf
        return tuple(DepthOutlook(d, float(orthogonal.cosine[d]), float(nearby.gap[d]), growth * d) for d in DEPTHS)
    known: list[DepthOutlook] = []
    for deepest in sorted(DEPTHS, reverse=True):
        try:
            far = chain_path(layer, cosine=0.0, depth=deepest, slow_layers=_SLOW)
            near = chain_path(layer, gap=NEARBY, depth=deepest, slow_layers=_SLOW)
        except IsometerError:  # variances diverge, or each layer needs a quadrature of its own
            continue
        growths = far.log_gradient / (2 * math.log(10))
        known = [
            DepthOutlook(d, float(far.cosine[d]), float(near.gap[d]), float(growths[d])) for d in DEPTHS if d <= deepest
        ]
        break
    return (*known, *(DepthOutlook(d, None, None, None) for d in DEPTHS[len(known) :]))
