"""What the activation lab shows: the analysis of an activation, its kernel map, and the plane of variances."""

from __future__ import annotations

from typing import Any

import numpy as np

from isometer.activations import Activation
from isometer.activations import activation as parse
from isometer.spec import NormPosition
from isometer.theory import SignalFamily, explain, phase_diagram, phase_point
from isometer.theory.kernels._kernel_map import Norm

SPAN = 4.0  # the function is drawn on [−4, 4]
_POINTS = 401
_SIDE = 41  # points a side of the phase diagram


def shaped(text: str, gain: float) -> Activation:
    """The activation of a text, with a gain before it.

    Example:
        >>> shaped("tanh", 0.5).name
        'gain(tanh, 0.5)'
    """
    found = parse(text)
    return found if gain == 1.0 else found.gain(gain)


def cosines() -> Any:
    """The cosines at which kernel maps are drawn: dense by ±1, where they are steep.

    Example:
        >>> float(cosines()[0]), float(cosines()[-1]), len(cosines())
        (-1.0, 1.0, 401)
    """
    return np.clip(np.cos(np.linspace(np.pi, 0.0, _POINTS)), -1.0, 1.0)


def card(
    activation: str,
    norm: Norm = "none",
    position: NormPosition = "pre",
    residual: float | None = None,
    gain: float = 1.0,
) -> dict[str, Any]:
    """Everything `isometer explain` says, with the curves.

    Example:
        >>> found = card("relu")
        >>> found["case"], len(found["kappa"])
        (3, 401)
    """
    found = explain(shaped(activation, gain), norm=norm, norm_position=position, residual=residual)
    x, rho = np.linspace(-SPAN, SPAN, _POINTS), cosines()
    return {
        **found.to_dict(),
        "x": x.tolist(),
        "itself": _drawn(found.activation, x),
        "layer": _drawn(found.kernel.effective, x),
        "rho": rho.tolist(),
        "kappa": found.kernel(rho).tolist(),
        "gradient_sentence": found.gradient_sentence,
        "length_sentence": found.length_sentence,
    }


def _drawn(phi: Activation, x: Any) -> list[float]:
    """Values with a gap where the function jumps, so that no line is drawn across."""
    values = np.asarray(phi(x), dtype=float)
    step = x[1] - x[0]
    for at, _ in phi.jumps:
        # More than half a step, so that at least one point falls into the gap.
        values = np.where(np.abs(x - at) < 0.6 * step, np.nan, values)
    return [float(v) for v in values]


def path(
    activation: str,
    norm: Norm = "none",
    position: NormPosition = "pre",
    residual: float | None = None,
    gain: float = 1.0,
    rho: float = 0.0,
    layers: int = 60,
) -> dict[str, Any]:
    """The cosine of two inputs layer by layer.

    Example:
        >>> path("sign", rho=0.0, layers=2)["cosine"]
        [0.0, 0.0, 0.0]
    """
    card = explain(shaped(activation, gain), norm=norm, norm_position=position, residual=residual)
    found = card.follow(rho, layers)
    return {
        "layer": list(range(layers + 1)),
        "cosine": found.cosine.tolist(),
        "gap": found.gap.tolist(),
        "distance": found.distance.tolist(),
    }


def phase(activation: str, weight_limit: float, bias_limit: float) -> dict[str, Any]:
    """q*, χ and the edge of chaos over the plane.

    Example:
        >>> sorted(phase("relu", 4.0, 1.0))[:3]
        ['activation', 'bias_variances', 'chi']
    """
    found = phase_diagram(activation, weight_limit=weight_limit, bias_limit=bias_limit, points=_SIDE)
    return {key: value for key, value in found.to_dict().items() if key != "points"}


def at_point(activation: str, weight_variance: float, bias_variance: float) -> dict[str, Any]:
    """What depth does at one point of the plane.

    Example:
        >>> at_point("tanh", 2.0, 0.1)["phase"]
        'chaotic'
    """
    found = phase_point(SignalFamily(activation), weight_variance, bias_variance)
    return {
        "variance": found.variance,
        "chi": found.chi,
        "phase": found.phase,
        "cosine": found.cosine,
        "length_scale": found.length_scale,
        "correlation_scale": found.correlation_scale,
        "verdict": found.verdict,
    }
