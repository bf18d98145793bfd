"""Softmax of independent Gaussian scores, exactly: one row of attention, and two rows that share keys.

A row of attention over T exchangeable tokens has scores s_j = σ g_j up to a constant that softmax does not see, and
two rows have scores that correlate by c for the same token. With Z = Σ e^{s_j} and 1/Z^k = ∫ t^k e^{−tZ} dx/(k−1)!,
t = e^x, tokens separate: with F(x) = E e^{−t e^s} and F_k(x) = E (t e^s)^k e^{−t e^s},

    E Σ A_j² = T ∫ F_2 F^{T−1} dx,   E log Z = ∫ (F − F^T) dx,

and for two rows the same with integrals over x and y and expectations of products, such as

    E Σ A_j B_j = T ∫∫ E[F_1(x) F_1(y)] (E[F(x) F(y)])^{T−1} dx dy.

Integrands are analytic and decay at both ends, so the trapezoidal rule converges exponentially.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from isometer.checks import whole_number
from isometer.errors import IsometerError

Floats = NDArray[np.float64]
MOST_TOKENS = 1 << 20
WIDEST = 300.0
"""The largest standard deviation of scores: beyond, moments are those at this width up to a few in a thousand."""
_FEW_NODES = 24  # of Gauss and Hermite, where what the rows share is narrow
_NEAR = 2e-3  # variance of what differs between rows, below which differences of moments cancel


class Rule(NamedTuple):
    """Of the trapezoidal sums: where Gaussians and e^x end, and the step in units of the narrowest feature.

    A Gumbel shape is analytic in a strip of half-width π/2, so its error is e^(−π²/step).
    """

    reach: float
    tail: float
    step: float


FINE = Rule(8.5, 34.0, 0.28)
"""To rounding."""
COARSE = Rule(6.0, 20.0, 0.45)
"""To about 1e-6 of what is largest."""


class RowMoments(NamedTuple):
    """Of one row A of attention.

    `participation`: E Σ A_j². `entropy`: E −Σ A_j log A_j in nats. `slope`: E tr J² of the Jacobian J = diag(A) − AAᵀ.
    """

    participation: float
    entropy: float
    slope: float


class PairMoments(NamedTuple):
    """Of two rows A and B of attention.

    `distance`: ½ E |A − B|². `slope`: E tr(J_A J_B).
    """

    distance: float
    slope: float


def row_moments(width: float, tokens: int, rule: Rule = FINE) -> RowMoments:
    """Moments of the softmax of T independent Gaussian scores.

    Args:
        width: σ, the standard deviation of a score.
        tokens: T.
        rule: how finely the integrals are taken.

    Example:
        >>> row_moments(0.0, 4)
        RowMoments(participation=0.25, entropy=1.3862943611198906, slope=0.1875)
        >>> found = row_moments(1.0, 2)  # E tanh²(g/√2) = 2 E ΣA² − 1 for g ~ N(0, 1)
        >>> round(found.participation, 6)
        0.636838
    """
    sigma, count = _checked(width, tokens)
    uniform = RowMoments(1.0 / count, math.log(count), (count - 1) / count**2)
    if sigma == 0.0 or count == 1:
        return uniform
    step, x = _lattice(sigma, sigma, count, rule)
    f = _laplace(x, sigma, 4, rule)  # F, F_1 … F_4
    power = f[0] ** (count - 1)
    second = count * step * float(f[2] @ power)
    third = count * step * float(f[3] @ power) / 2
    fourth = count * step * float(f[4] @ power + (count - 1) * (f[2] ** 2) @ f[0] ** (count - 2)) / 6
    log_total = step * float((f[0] - f[0] ** count).sum())
    entropy = log_total - sigma**2 * (1.0 - second)  # E Σ A s = σ² E Σ ∂A/∂s
    return RowMoments(
        min(max(second, 1.0 / count), 1.0),
        min(max(entropy, 0.0), math.log(count)),
        max(second - 2 * third + fourth, 0.0),
    )


def pair_moments(width: float, cosine: float, tokens: int, rule: Rule = FINE) -> PairMoments:
    """Moments of two rows of attention whose scores for the same token correlate.

    Args:
        width: σ, the standard deviation of a score.
        cosine: correlation of the scores of one token in the two rows.
        tokens: T.
        rule: how finely the integrals are taken.

    Example:
        >>> found = pair_moments(1.0, 0.0, 8)  # independent rows: E Σ A_j B_j = 1/T
        >>> abs(found.distance - row_moments(1.0, 8).participation + 1 / 8) < 1e-12
        True
        >>> pair_moments(1.0, 1.0, 8).distance
        0.0
    """
    sigma, count = _checked(width, tokens)
    if not -1.0 <= cosine <= 1.0:
        raise IsometerError(f"cosine is {cosine}; expected a correlation from -1 to 1")
    row = row_moments(sigma, count, rule)
    apart = sigma**2 * (1.0 - cosine)
    if sigma == 0.0 or count == 1 or apart == 0.0:
        return PairMoments(0.0, row.slope)
    if apart >= _NEAR:
        return _two_rows(sigma, cosine, count, row, rule)
    # the distance over what differs is smooth: its value at 0 is the slope of one row, others are far enough from it
    places = [k * k * _NEAR for k in (1, 2, 3, 4)]
    if places[-1] > sigma**2 * 0.75:  # narrow scores: the same by the variance, at this correlation
        widths = [math.sqrt(place / (1.0 - cosine)) for place in places] if cosine < 1.0 else []
        found = [_two_rows(own, cosine, count, row_moments(own, count), FINE) for own in widths]
        start = (count - 1) / count**2
        ratio = _toward_zero(places, [one.distance / at for one, at in zip(found, places, strict=True)], start, apart)
        slope = _toward_zero(places, [one.slope for one in found], start, apart)
        return PairMoments(ratio * apart, slope)
    found = [_two_rows(sigma, 1.0 - place / sigma**2, count, row, FINE) for place in places]
    ratio = _toward_zero(places, [one.distance / at for one, at in zip(found, places, strict=True)], row.slope, apart)
    slope = _toward_zero(places, [one.slope for one in found], row.slope, apart)
    return PairMoments(ratio * apart, slope)


def _checked(width: float, tokens: int) -> tuple[float, int]:
    count = whole_number(tokens, "tokens", high=MOST_TOKENS, fix="pass the length of the sequence")
    if not (math.isfinite(width) and width >= 0.0):
        raise IsometerError(f"the width of scores is {width}; expected a finite number of at least 0")
    return min(float(width), WIDEST), count


def _toward_zero(places: list[float], values: list[float], start: float, at: float) -> float:
    """The polynomial through (0, start) and these points."""
    nodes, heights = [0.0, *places], [start, *values]
    total = 0.0
    for i, node in enumerate(nodes):
        weight = 1.0
        for j, other in enumerate(nodes):
            if i != j:
                weight *= (at - other) / (node - other)
        total += weight * heights[i]
    return total


# --- integrals --------------------------------------------------------------------------------------------------------


def _lattice(sigma: float, own: float, tokens: int, rule: Rule) -> tuple[float, Floats]:
    """Step and places of x = log t; `own` is the width by which the Gumbel shape of one token is smoothed."""
    # the largest of T scores is narrower than one of them by √(2 log T)
    step = rule.step * max(1.0, own / math.sqrt(2 * math.log(tokens) + 2))
    low, high = -(math.log(tokens) + rule.reach * sigma + rule.tail), rule.reach * sigma + 4.0
    return step, step * np.arange(math.floor(low / step), math.ceil(high / step) + 1)


def _laplace(x: Floats, width: float, orders: int, rule: Rule) -> Floats:
    """F_k(x) = E (t e^s)^k exp(−t e^s) for k = 0 … orders, s ~ N(0, width²): `(orders + 1, *x.shape)`."""
    if width == 0.0:
        nodes, weights = np.zeros(1), np.ones(1)
    else:
        gap = min(0.5, rule.step / width)
        nodes = gap * np.arange(-math.ceil(rule.reach / gap), math.ceil(rule.reach / gap) + 1)
        weights = np.exp(-0.5 * nodes**2)
        weights /= weights.sum()
    out = np.empty((orders + 1, *x.shape))
    flat = x.reshape(-1)
    rows = out.reshape(orders + 1, -1)
    size = max(1, (1 << 20) // len(nodes))
    for start in range(0, len(flat), size):
        own = slice(start, start + size)
        energy = np.exp(np.minimum(flat[own, None] + width * nodes, 7.0))  # e^−e^7 is 0
        part = np.exp(-energy)
        for k in range(orders + 1):
            rows[k, own] = part @ weights
            part *= energy
    return out


def _two_rows(sigma: float, cosine: float, tokens: int, row: RowMoments, rule: Rule) -> PairMoments:
    """By integrals over both rows; s = a g + b g₀ and s′ = a g′ ± b g₀ with g₀ shared."""
    own, shared = sigma * math.sqrt(1.0 - abs(cosine)), sigma * math.sqrt(abs(cosine))
    step, x = _lattice(sigma, own, tokens, rule)
    if shared >= 1.5 * step:  # a lattice of the same step resolves the Gaussian
        reach = math.ceil(rule.reach * shared / step)
        shift = np.arange(-reach, reach + 1)
        weights = np.exp(-0.5 * (step * shift / shared) ** 2)
        weights /= weights.sum()
        wide = x[0] + step * np.arange(-reach, len(x) + reach)
        table = _laplace(wide, own, 2, rule)
        f = table[:, np.arange(len(x))[:, None] + shift[None, :] + reach]
    else:
        nodes, weights = np.polynomial.hermite_e.hermegauss(_FEW_NODES)
        weights = weights / weights.sum()
        f = _laplace(x[:, None] + shared * nodes, own, 2, rule)
    other = f if cosine >= 0.0 else f[:, :, ::-1]  # (order, x, g₀)
    weighted = f * weights
    both = weighted[0] @ other[0].T
    one, mixed, two = weighted[1] @ other[1].T, weighted[2] @ other[1].T, weighted[2] @ other[2].T
    power = both ** max(tokens - 2, 0)
    whole = power * both if tokens > 1 else power
    area = tokens * step**2
    overlap = area * float((one * whole).sum())
    cubic = area * float((mixed * whole).sum())  # E Σ A² B, and E Σ A B² is the same
    square = area * float((two * whole).sum() + (tokens - 1) * (one * one * power).sum())
    return PairMoments(max(row.participation - overlap, 0.0), overlap - 2 * cubic + square)
