"""Everything worth saying about an activation, gathered once for the card, the picture and the JSON."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from isometer.activations import Activation
from isometer.serialize import json_data
from isometer.theory.kernels._kernel_map import KernelMap, Norm, Position
from isometer.theory.kernels._shaping import length_slope

DEPTHS = (10, 100, 1000)
NEARBY = 1e-3  # 1 − cos of the nearly equal pair of inputs whose fate is reported


@dataclass(frozen=True)
class DepthOutlook:
    """What a network of a given depth does at infinite width."""

    depth: int
    cosine_of_orthogonal: float  # two inputs that start at cosine 0
    gap_of_nearby: float  # 1 − cos of two inputs that start at 1 − cos = NEARBY
    log10_gradient_factor: float  # first-layer over last-layer gradient norm


@dataclass(frozen=True)
class Explanation:
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

    @property
    def conclusion(self) -> str:
        """One sentence: what depth does to two inputs.

        Example:
            >>> from isometer.theory import explain
            >>> explain("tanh").conclusion.startswith("Different inputs become orthogonal")
            True
        """
        k = self.kernel
        if k.case is None:
            return "A linear layer: cosines never change, depth adds nothing."
        if k.case == 1 and k.rate_form == "superexponential":
            power = f"{k.rate_exponent:g}"
            return f"Different inputs become orthogonal: each layer raises the cosine to the power {power}."
        if k.case == 1:
            return f"Different inputs become orthogonal: the cosine shrinks by a factor {k.rate:.4g} per layer."
        if k.case == 2:
            return f"Rank collapse: all inputs align, 1 − cos shrinks by a factor {k.rate:.4g} per layer."
        if k.case == 3 and k.asymptote is None:
            return "Slow rank collapse: all inputs align, slower than exponentially."
        if k.case == 3 and k.asymptote is not None:
            constant, exponent = k.asymptote
            square = "²" if exponent == 2 else ""
            return f"Slow rank collapse: all inputs align, 1 − cos ≈ {constant:.4g}/depth{square}."
        if k.fixed_point is not None and k.fixed_point < 1e-3:
            return (
                f"Different inputs become all but orthogonal: cosines settle at {k.fixed_point:.4g}, the distance "
                f"shrinking by a factor {k.rate:.4g} per layer."
            )
        return f"Cosines settle at {k.fixed_point:.4g}, the distance shrinking by a factor {k.rate:.4g} per layer."

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
            return "κ'(1) is infinite: the activation jumps, and nearby inputs are torn apart at once."
        factor = math.sqrt(slope)
        if abs(slope - 1.0) < 1e-9:
            return "Gradient norms are preserved (factor 1 per layer)."
        return (
            f"Gradient norms {'grow' if slope > 1 else 'shrink'} by a factor {factor:.4g} per layer toward the input."
        )

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
        if self.kernel.norm != "none" or self.kernel.residual is not None:
            return None
        slope = self.length_slope
        if abs(slope - 1.0) < 1e-9:
            return "Signal sizes neither grow nor shrink on average (Q′(1) = 1), but errors of width add up."
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
        constant = None if k.asymptote is None else k.asymptote[0]
        values: dict[str, Any] = {
            "name": phi.name,
            "norm": k.norm,
            "norm_position": k.norm_position,
            "residual": k.residual,
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
            "fixed_point": k.fixed_point,
            "fixed_points": None if k.case is None else list(k.fixed_points),
            "slope_at_fixed_point": k.slope_at_fixed_point,
            "rate_form": k.rate_form,
            "rate": k.rate,
            "rate_exponent": k.rate_exponent,
            "rate_constant": constant,
            "depth_scale": k.depth_scale,
            "nonlinearity": phi.nonlinearity,
            "error_estimate": k.error,
            "method": phi.dual.method,
            "depths": [vars(row) for row in self.outlook],
            "conclusion": self.conclusion,
            "warnings": list(k.warnings),
        }
        return {key: json_data(value) for key, value in values.items()}


def explain(
    source: str | Activation | Any,
    *,
    norm: Norm = "none",
    norm_position: Position = "pre",
    residual: float | None = None,
) -> Explanation:
    """Analyse an activation: moments, gains, Hermite spectrum, kernel map, fixed point, rate, outlook over depth.

    Args:
        source: a name, an expression, a callable or a torch module.
        norm, norm_position, residual: as in `KernelMap`.

    Returns:
        An `Explanation`.

    Example:
        >>> from isometer.theory import explain
        >>> round(explain("gelu").kernel.fixed_point, 6)
        0.760402
    """
    kernel = KernelMap(source, norm=norm, norm_position=norm_position, residual=residual)
    deepest = max(DEPTHS)
    orthogonal, nearby = kernel.iterate(0.0, deepest), kernel.iterate(gap=NEARBY, depth=deepest)
    growth = 0.5 * math.log10(kernel.slope_at_one) if kernel.slope_at_one > 0 else -math.inf
    if kernel.activation.gain_backward == math.inf:
        growth = -math.inf
    outlook = tuple(DepthOutlook(d, float(orthogonal.cosine[d]), float(nearby.gap[d]), growth * d) for d in DEPTHS)
    slope = length_slope(kernel.effective)
    return Explanation(kernel.activation, kernel, kernel.effective.hermite(10), slope, outlook)
