"""The layer of a chain as the maps of lengths and cosines take it.

Those maps know layers of weights of unit variance and one norm over features. A `Chain` has gains, scales and laws of
its own, and they all reduce to two numbers: g², the variance of what leaves the weights for an activation (or norm)
output of unit mean square, and the same for the input of the network.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

from isometer.activations import Activation
from isometer.spec import Chain, Norm, PowerLaw, SpecError
from isometer.spec._options import layer_place
from isometer.theory.kernels._kernel_map import Norm as NormName
from isometer.theory.kernels._layer_maps import Layers, Place
from isometer.theory.kernels._length_map import SignalFamily
from isometer.theory.prediction._forward import Forward

LEAST_OWN = 1e-12
"""Share of a variance that is not the bias's, below which the cosine of the weights' part has too few digits."""


@dataclass(frozen=True)
class ChainLayer:
    """What one layer does at infinite width, in the words of the short options.

    Args:
        activation: φ, with the gain before it.
        norm: `"none"`, `"layer"` or `"rms"`.
        place: place of the norm: before φ, after φ, or after the addition of the skip.
        residual: γ, None for no skip.
        weight_variance: g², as the module says.
        entry_variance: the same for what enters the first weights, the input as it is.
        bias_variance: variance of the biases that are added after the weights.

    Example:
        >>> from isometer.spec import chain_from_options
        >>> layer = ChainLayer.of(chain_from_options(activation="tanh", norm="layer", gamma=0.5))
        >>> layer.norm, layer.place, layer.residual, round(layer.weight_variance, 6)
        ('layer', 'pre', 0.5, 2.536175)
    """

    activation: Activation
    norm: NormName
    place: Place
    residual: float | None
    weight_variance: float
    entry_variance: float
    bias_variance: float

    @classmethod
    def of(cls, spec: Chain) -> ChainLayer:
        """The layer of a chain.

        Raises:
            SpecError: the layers differ, or the maps of two inputs do not know them.
        """
        problem = uncovered(spec)
        if problem:
            raise SpecError(
                f"{problem}; expected one layer over features, the same at every depth — predict it instead"
            )
        place = layer_place(spec)
        assert place is not None
        forward, norm = Forward(spec), spec.norm
        size = 1.0 if norm is None or norm.size == "mean-square" else 1.0 / spec.widths[0]
        gain = spec.at("activation_gain", 1) * (math.sqrt(size) if place == "pre" else 1.0)
        phi = spec.phi if gain == 1.0 else spec.phi.gain(gain)
        skip = spec.at("residual", 1) if spec.has_skip else None
        variance = forward.weight_variance(min(2, spec.layers)) * spec.output_scale(1) ** 2
        return cls(
            phi,
            "none" if norm is None else ("layer" if norm.recenter else "rms"),
            place,
            skip,
            variance * (size if place == "post" else 1.0),
            forward.weight_variance(1),
            spec.bias_variance,
        )

    @property
    def is_plain(self) -> bool:
        """Whether there is neither norm nor skip: lengths go where the length map takes them."""
        return self.norm == "none" and self.residual is None

    @property
    def has_principled_gain(self) -> bool:
        """Whether the weights return unit variance where φ sees unit variance."""
        return self.bias_variance == 0.0 and abs(self._handed_on - 1.0) <= 1e-12

    @property
    def _handed_on(self) -> float:
        """The variance after the weights where φ sees unit variance."""
        rescaled = self.norm != "none" and self.place == "post"
        return self.weight_variance * (1.0 if rescaled else self.activation.second_moment)

    @property
    def branch_strength(self) -> float | None:
        """γ of a branch of unit variance: the strength times the size of what the branch's weights return."""
        return None if self.residual is None else self.residual * math.sqrt(self._handed_on)

    @cached_property
    def family(self) -> SignalFamily:
        """φ times g where it enters the weights as it is, for the maps have weights of unit variance."""
        phi = self.activation
        if self._normalised_after:
            # its size is lost in the norm; without a skip it is g that φ sees
            return SignalFamily(phi if self.residual is not None else _gained(phi, self._gain))
        return SignalFamily(phi.unit() if abs(self._handed_on - 1.0) <= 1e-12 else _scaled(phi, self._gain))

    @property
    def _gain(self) -> float:
        return math.sqrt(self.weight_variance)

    @property
    def _normalised_after(self) -> bool:
        return self.norm != "none" and self.place == "post"

    @property
    def state_factor(self) -> float:
        """Variance of the input over the variance that the maps begin with."""
        if self.residual is not None:
            return 1.0
        return self.entry_variance / self.weight_variance if self._normalised_after else self.entry_variance

    @property
    def layout(self) -> dict[str, Any]:
        """The arguments of `Layers`, `SphereKernel` and `kernel_matrices` beside activation and input."""
        after = self._normalised_after
        bias = self.bias_variance / (self.weight_variance if after else 1.0)
        residual = self.residual if self.residual is None or not after else self.residual * self._gain
        entry = {} if self.residual is None else {"entry_bias": 0.0}  # the input is what the skip adds to
        return {"norm": self.norm, "norm_position": self.place, "bias": bias, "residual": residual, **entry}

    @property
    def resting_square(self) -> float:
        """The mean square of an input that the chain neither grows nor shrinks, where there is one; 1 otherwise."""
        return self.activation.second_moment if self.is_plain and self.has_principled_gain else 1.0

    def layers(self, mean_square: float = 1.0) -> Layers:
        """The layers for inputs of one mean square."""
        return Layers(self.family, squared_length=mean_square * self.state_factor, **self.layout)

    def with_values(self, **changes: Any) -> ChainLayer:
        """The same layer with other numbers."""
        return replace(self, **changes)


def _gained(phi: Activation, factor: float) -> Activation:
    return phi if factor == 1.0 else phi.gain(factor)


def _scaled(phi: Activation, factor: float) -> Activation:
    return phi if factor == 1.0 else phi.scaled(factor)


def uncovered(spec: Chain) -> str:
    """Why the maps of two inputs do not know a chain; empty if they do.

    Example:
        >>> from isometer import Spec
        >>> uncovered(Spec(width=4, depth=2, norm="batch"))
        'a norm over samples has no map of two inputs'
    """
    norm = spec.norm
    if norm is not None and norm.over != "features":
        return f"a norm over {'samples' if norm.over == 'batch' else 'groups'} has no map of two inputs"
    if norm is not None and not _is_plain(norm):
        return f"the norm {norm} has an ε, an affine part or statistics of its own"
    if layer_place(spec) is None:
        return f"a layer of the order {' > '.join(spec.operations)} has no short name"
    for name in ("gain", "residual", "activation_gain"):
        value = getattr(spec, name)
        if isinstance(value, tuple | PowerLaw) and len({spec.at(name, at) for at in range(1, spec.layers + 1)}) > 1:
            return f"{name} changes from layer to layer"
    if len(set(spec.widths)) > 1 and (spec.weights not in ("gaussian", "uniform", "he") or isinstance(spec.scale, str)):
        return "widths change from layer to layer"
    if spec.weights == "asymmetric":
        return "weights of the law asymmetric have a mean"
    if spec.has_skip and spec.scale != 1.0:
        return "a factor follows the skip connection"
    if spec.at("gain", 1) == 0.0:
        return "the gain is 0"
    return ""


def _is_plain(norm: Norm) -> bool:
    usual = norm.divisor == ("std" if norm.recenter else "rms")
    return norm.rescale and usual and (norm.eps, norm.scale, norm.shift) == (0.0, 1.0, 0.0)
