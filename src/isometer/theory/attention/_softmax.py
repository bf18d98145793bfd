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
from collections.abc import Sequence
from functools import cache, lru_cache
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
_SMALL = 60_000  # pairs of x and g₀, up to which products of matrices are cheaper than transforms
_NEAR = 2e-3  # variance of what differs between rows, below which differences of moments cancel
_NARROW = (0.06, 0.09)  # widths of scores from which narrower ones are extrapolated


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


class OneRowMoments(NamedTuple):
    """Of one row A of attention.

    `participation`: E Σ A_j². `entropy`: E −Σ A_j log A_j in nats. `slope`: E tr J² of the Jacobian J = diag(A) − AAᵀ.
    """

    participation: float
    entropy: float
    slope: float


class TwoRowMoments(NamedTuple):
    """Of two rows A and B of attention.

    `distance`: ½ E |A − B|². `slope`: E tr(J_A J_B).
    """

    distance: float
    slope: float


def row_moments(width: float, tokens: int, rule: Rule = FINE) -> OneRowMoments:
    """Moments of the softmax of T independent Gaussian scores.

    Args:
        width: σ, the standard deviation of a score.
        tokens: T.
        rule: how finely the integrals are taken.

    Example:
        >>> row_moments(0.0, 4)
        OneRowMoments(participation=0.25, entropy=1.3862943611198906, slope=0.1875)
        >>> found = row_moments(1.0, 2)  # E tanh²(g/√2) = 2 E ΣA² − 1 for g ~ N(0, 1)
        >>> round(found.participation, 6)
        0.636838
    """
    sigma, count = _checked(width, tokens)
    uniform = OneRowMoments(1.0 / count, math.log(count), (count - 1) / count**2)
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
    return OneRowMoments(
        min(max(second, 1.0 / count), 1.0),
        min(max(entropy, 0.0), math.log(count)),
        max(second - 2 * third + fourth, 0.0),
    )


def pair_moments(width: float, gap: float, tokens: int, rule: Rule = FINE) -> TwoRowMoments:
    """Moments of two rows of attention whose scores for the same token correlate.

    Args:
        width: σ, the standard deviation of a score.
        gap: 1 − the correlation of the scores of one token in the two rows.
        tokens: T.
        rule: how finely the integrals are taken.

    Example:
        >>> found = pair_moments(1.0, 1.0, 8)  # independent rows: E Σ A_j B_j = 1/T
        >>> abs(found.distance - row_moments(1.0, 8).participation + 1 / 8) < 1e-12
        True
        >>> pair_moments(1.0, 0.0, 8).distance
        0.0
    """
    sigma, count = _checked(width, tokens)
    if not 0.0 <= gap <= 2.0:
        raise IsometerError(f"gap is {gap}; expected 1 − a correlation, from 0 to 2")
    row = row_moments(sigma, count, rule)
    apart = sigma**2 * gap
    if count == 1 or apart == 0.0:
        return TwoRowMoments(0.0, row.slope)
    if apart >= _NEAR:
        return _two_rows(sigma, gap, count, row, rule)
    return _near_rows(sigma, apart, count, row)


def _near_rows(sigma: float, apart: float, count: int, row: OneRowMoments) -> TwoRowMoments:
    """Rows that hardly differ: D/(a² Q) and Q₂/Q are smooth in a² and 1 at 0; their values further off are accurate."""
    widths = (sigma,) if sigma >= _NARROW[0] else _NARROW
    ratios = []
    for own in widths:
        places, distances, slopes = _further_off(own, count)
        ratios.append((_toward_zero(places, distances, 1.0, apart), _toward_zero(places, slopes, 1.0, apart)))
    if len(widths) == 1:
        [(distance, slope)] = ratios
    else:  # narrower scores: linear in σ² from two that are wide enough
        share = (sigma**2 - widths[0] ** 2) / (widths[1] ** 2 - widths[0] ** 2)
        distance, slope = (one + share * (two - one) for one, two in zip(*ratios, strict=True))
    return TwoRowMoments(distance * apart * row.slope, slope * row.slope)


@lru_cache(maxsize=4096)
def _further_off(width: float, count: int) -> tuple[tuple[float, ...], tuple[float, ...], tuple[float, ...]]:
    """Values of a² that are not small, and D/(a² Q) and Q₂/Q there. Under a norm all layers have the same width."""
    single = row_moments(width, count)
    places = tuple(min(16 * _NEAR, width**2) * k * k / 16 for k in (1, 2, 3, 4))
    found = [_two_rows(width, place / width**2, count, single, FINE) for place in places]
    distances = tuple(one.distance / (at * single.slope) for one, at in zip(found, places, strict=True))
    return places, distances, tuple(one.slope / single.slope for one in found)


def _checked(width: float, tokens: int) -> tuple[float, int]:
    count = whole_number(tokens, "tokens", high=MOST_TOKENS, fix="pass the length of the sequence")
    if not (math.isfinite(width) and width >= 0.0):
        raise IsometerError(f"the width of scores is {width}; expected a finite number of at least 0")
    return min(float(width), WIDEST), count


def _toward_zero(places: Sequence[float], values: Sequence[float], start: float, at: float) -> float:
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
    return step, np.arange(math.floor(low / step), math.ceil(high / step) + 1, dtype=np.float64) * step


def _laplace(x: Floats, width: float, orders: int, rule: Rule) -> Floats:
    """F_k(x) = E (t e^s)^k exp(−t e^s) for k = 0 … orders, s ~ N(0, width²): `(orders + 1, *x.shape)`."""
    if width == 0.0:
        nodes: Floats = np.zeros(1)
        weights: Floats = np.ones(1)
    else:
        gap = min(0.5, rule.step / width)
        reach = math.ceil(rule.reach / gap)
        nodes = np.arange(-reach, reach + 1, dtype=np.float64) * gap
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


def _two_rows(sigma: float, gap: float, tokens: int, row: OneRowMoments, rule: Rule) -> TwoRowMoments:
    """By integrals over both rows; s = a g + b g₀ and s′ = a g′ ± b g₀ with g₀ shared."""
    cosine = 1.0 - gap
    own = sigma * math.sqrt(min(gap, 2.0 - gap))
    shared = sigma * math.sqrt(abs(cosine))
    step, x = _lattice(sigma, own, tokens, rule)
    if shared < 1.5 * step:  # too narrow for a lattice of this step
        nodes, weights = _few_nodes()
        found = _products(_laplace(x[:, None] + shared * nodes, own, 2, rule), weights, cosine < 0.0)
        return _of_products(found, 1.0, step, tokens, row)
    reach = math.ceil(rule.reach * shared / step)
    shift = np.arange(-reach, reach + 1)
    weights = np.exp(-0.5 * (step * shift / shared) ** 2)
    weights /= weights.sum()
    table = _laplace(x[0] + step * np.arange(-reach, len(x) + reach), own, 2, rule)
    if cosine < 0.0 or len(x) * len(shift) < _SMALL:
        f = table[:, np.arange(len(x))[:, None] + shift[None, :] + reach]
        return _of_products(_products(f, weights, cosine < 0.0), 1.0, step, tokens, row)
    # log Z of two rows differ by what they do not share, so pairs (x, y) lie near the diagonal
    band = min(len(x) - 1, math.ceil((rule.tail + 1.5 * rule.reach * own) / step))
    twice = np.where(np.arange(band + 1) == 0, 1.0, 2.0)[:, None]
    return _of_products(_diagonals(table, weights, band, len(x)), twice, step, tokens, row)


@cache
def _few_nodes() -> tuple[Floats, Floats]:
    """Nodes and weights of an expectation over N(0, 1)."""
    nodes, weights = np.polynomial.hermite_e.hermegauss(_FEW_NODES)
    return nodes, weights / weights.sum()


def _products(f: Floats, weights: Floats, opposite: bool) -> tuple[Floats, ...]:
    """E[F_k(x) F_l(y)] for (k, l) = (0, 0), (1, 1), (2, 1), (2, 2), from `(order, x, g₀)`."""
    other = f[:, :, ::-1] if opposite else f
    weighted = f * weights
    return tuple(weighted[k] @ other[one].T for k, one in ((0, 0), (1, 1), (2, 1), (2, 2)))


def _diagonals(table: Floats, weights: Floats, band: int, count: int) -> tuple[Floats, ...]:
    """The same on the diagonals y = x + 0 … x + band steps, `(band + 1, x)`, symmetric in the two rows."""
    size = table.shape[1]
    padded = np.pad(table, ((0, 0), (0, band)))
    padded[0, size:] = table[0, -1]
    places = np.arange(size)[None, :] + np.arange(band + 1)[:, None]
    length = 1 << (size + len(weights) - 1).bit_length()
    kernel = np.fft.rfft(weights, length)
    first = len(weights) - 1

    def averaged(series: Floats) -> Floats:
        found = np.fft.irfft(np.fft.rfft(series, length, axis=-1) * kernel, length, axis=-1)
        return np.maximum(found[:, first : first + count], 0.0)

    f = padded[:, places]  # (order, offset, x)
    mixed = 0.5 * (table[2] * f[1] + table[1] * f[2])
    return averaged(table[0] * f[0]), averaged(table[1] * f[1]), averaged(mixed), averaged(table[2] * f[2])


def _of_products(
    found: tuple[Floats, ...], multiplicity: Floats | float, step: float, tokens: int, row: OneRowMoments
) -> TwoRowMoments:
    both, one, mixed, two = found
    power = np.minimum(both, 1.0) ** (tokens - 2)
    area = tokens * step**2
    whole = power * both * multiplicity
    overlap = area * float((one * whole).sum())
    cubic = area * float((mixed * whole).sum())  # E Σ A² B, and E Σ A B² is the same
    square = area * float((two * whole).sum() + (tokens - 1) * (one * one * power * multiplicity).sum())
    return TwoRowMoments(max(row.participation - overlap, 0.0), max(overlap - 2 * cubic + square, 0.0))
