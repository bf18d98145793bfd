"""How cosines approach their limit as layers add up.

Where every layer does the same to a cosine (no skip, a norm after the addition, or a homogeneous activation without a
norm) that is the rate of its kernel map. With the norm inside the branch of a skip connection the branch adds the same
variance u = γ²·E at every layer, so that the skip's variance grows as v_ℓ = v₀ + ℓu and

    ρ′ − ρ* = (v(ρ − ρ*) + u(κ(ρ) − κ(ρ*)))/(v + u):

the fixed points are those of κ, but layer ℓ closes only the share (1 − κ′(ρ*))/ℓ of the distance. It falls like
ℓ^−(1 − κ′(ρ*)), an algebraic approach, and where κ′(1) = 1 by a power of log ℓ.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal

from isometer.errors import IsometerError
from isometer.theory.chains._layer import ChainLayer
from isometer.theory.chains._settled import Settled, settled
from isometer.theory.kernels._kernel_map import KernelMap

Form = Literal["exponential", "algebraic", "superexponential", "logarithmic", "varying", "none"]
"""The type of an approach: by a factor per layer, a power of depth, a power of the cosine, of log depth, or of none."""


@dataclass(frozen=True)
class Approach:
    """Which cosine the pairs of a chain approach, and how fast.

    Args:
        form: form of the approach; `"varying"` where signals grow with depth, so that no single map holds.
        fixed_point: ρ*, None where there is none or every cosine is one.
        rate: factor of the distance per layer, of an exponential approach.
        exponent: exponent of the depth, of its logarithm, or of the cosine.
        constant: C of 1 − ρ ≈ C/ℓ^p, where it is known.
        depth_scale: layers over which the distance falls by e; inf where it falls more slowly than exponentially.
        sentence: all of it in words.
        autonomous: every layer does the same.
        by_kernel_map: the kernel map of the layer has all of it.

    Example:
        >>> from isometer.theory import explain
        >>> way = explain("relu", norm="rms", norm_position="sum", residual=0.5).approach
        >>> way.form, way.autonomous
        ('algebraic', True)
    """

    form: Form
    fixed_point: float | None
    rate: float | None
    exponent: float | None
    constant: float | None
    depth_scale: float
    sentence: str
    autonomous: bool
    by_kernel_map: bool = False


def approach_of(layer: ChainLayer, kernel: KernelMap) -> Approach:
    """The approach of a chain.

    Args:
        layer: its layer.
        kernel: κ of the layer, or of its branch where the skip's share changes with depth.

    Returns:
        An `Approach`.

    Example:
        >>> from isometer.theory import explain
        >>> card = explain("tanh", norm="layer", residual=0.5)
        >>> round(card.approach.exponent, 4)  # 1 − κ′(0)
        0.0695
    """
    inside = layer.residual is not None and kernel.residual is None
    if layer.bias_variance > 0.0 or (layer.is_plain and not layer.has_principled_gain):
        return _growing_with_bias() if inside else _of_limit(layer)
    if not inside:
        return _of_map(kernel)
    if layer.norm != "none" and (layer.place == "pre" or layer.family.homogeneous):
        return _growing(kernel)
    return Approach(
        "varying", None, None, None, None, math.inf,
        "Signals grow along the skip connection, so the map of the activation changes from layer to layer: no single "
        "rate holds, and the table is exact.",
        autonomous=False,
    )  # fmt: skip


def _of_map(k: KernelMap) -> Approach:
    constant = None if k.asymptote is None else k.asymptote[0]
    return Approach(
        k.rate_form, k.fixed_point, k.rate, k.rate_exponent, constant, k.depth_scale, _map_sentence(k),
        autonomous=True, by_kernel_map=True,
    )  # fmt: skip


def _map_sentence(k: KernelMap) -> str:
    if k.case is None:
        return "A linear layer: cosines never change, depth adds nothing."
    if k.case == 1 and k.rate_form == "superexponential":
        return f"Different inputs become orthogonal: each layer raises the cosine to the power {k.rate_exponent:g}."
    if k.case == 1:
        return f"Different inputs become orthogonal: the cosine shrinks by a factor {k.rate:.4g} per layer."
    if k.case == 2:
        return f"Rank collapse: all inputs become alike, 1 − cos shrinks by a factor {k.rate:.4g} per layer."
    if k.case == 3 and k.asymptote is None:
        return "Slow rank collapse: all inputs become alike, slower than exponentially."
    if k.case == 3 and k.asymptote is not None:
        constant, exponent = k.asymptote
        square = "²" if exponent == 2 else ""
        return f"Slow rank collapse: all inputs become alike, 1 − cos ≈ {constant:.4g}/depth{square}."
    if k.fixed_point is not None and k.fixed_point < 1e-3:
        return (
            f"Different inputs become all but orthogonal: cosines settle at {k.fixed_point:.4g}, the distance "
            f"shrinking by a factor {k.rate:.4g} per layer."
        )
    return f"Cosines settle at {k.fixed_point:.4g}, the distance shrinking by a factor {k.rate:.4g} per layer."


def _growing(k: KernelMap) -> Approach:
    """The norm is inside the branch: algebraic in depth."""
    why = "the skip's variance grows with depth and each layer weighs less"
    if k.case is None:
        return Approach(
            "none", None, None, None, None, math.inf, "A linear layer: cosines never change, depth adds nothing.",
            autonomous=False,
        )  # fmt: skip
    if k.case == 3:
        constant, power = (None, None) if k.asymptote is None else k.asymptote
        law = "" if constant is None else f", 1 − cos ≈ {constant:.4g}/(log depth){'²' if power == 2 else ''}"
        return Approach(
            "logarithmic", 1.0, None, power, constant, math.inf,
            f"Very slow rank collapse: all inputs become alike{law}, since {why}.",
            autonomous=False,
        )  # fmt: skip
    exponent = 1.0 - k.slope_at_fixed_point
    target = k.fixed_point
    fall = f"like depth^−{exponent:.4g}, since {why}"
    if k.case == 1:
        words = f"Different inputs become orthogonal slowly: the cosine falls {fall}."
    elif k.case == 2:
        words = f"Slow rank collapse: all inputs become alike, 1 − cos falls {fall}."
    else:
        words = f"Cosines settle at {target:.4g}, the distance falling {fall}."
    return Approach("algebraic", target, None, exponent, None, math.inf, words, autonomous=False)


def _growing_with_bias() -> Approach:
    return Approach(
        "varying", None, None, None, None, math.inf,
        "The skip connection and the biases add up with depth: each layer weighs less than the one before, and the "
        "table is exact where no rate is.",
        autonomous=False,
    )  # fmt: skip


def _of_limit(layer: ChainLayer) -> Approach:
    """Biases or a gain of the user's own: where the layers settle."""
    try:
        found = settled(layer)
    except IsometerError as problem:
        words = str(problem).partition(" — ")[0]
        return Approach(
            "varying", None, None, None, None, math.inf, f"{words[0].upper()}{words[1:]}.", autonomous=False
        )
    rate = found.rate if 0.0 < found.rate < 1.0 and found.cosine is not None else None
    scale = math.inf if found.rate >= 1.0 else (0.0 if found.rate == 0.0 else -1.0 / math.log(found.rate))
    form: Form = "exponential" if rate is not None else "none"
    return Approach(form, found.cosine, rate, None, None, scale, _limit_sentence(found, rate), autonomous=False)


def _limit_sentence(found: Settled, rate: float | None) -> str:
    if math.isinf(found.variance):
        return "The variance grows without bound: signals overflow after finitely many layers."
    if found.variance == 0.0:
        return "Signals die out: the variance goes to zero layer by layer."
    if found.phase == "critical" or found.cosine is None or rate is None:
        return f"At the edge of chaos (χ = {found.chi:.6g}): cosines change slower than exponentially."
    if found.cosine == 1.0:
        shrinks = f"1 − cos shrinks by a factor {rate:.4g} per layer (χ = {found.chi:.4g})"
        return f"Rank collapse: all inputs become alike, {shrinks}."
    settle = f"Cosines settle at {found.cosine:.4g}"
    return f"{settle}, the distance shrinking by a factor {rate:.4g} per layer (χ = {found.chi:.4g})."
