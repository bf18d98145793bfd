"""Products of polynomials of a normalised Gaussian batch: one integral per Gram entry.

With h ~ N(0, G) and x = h/√(‖h‖²/n + ε), a monomial of even degree 2m is `n^m h_i^a h_j^b / (‖h‖² + nε)^m`, and
`1/s^m = ∫ t^{m−1} e^{−ts} dt / Γ(m)` tilts the Gaussian: its covariance becomes S = (G⁻¹ + 2t)⁻¹, its mass
det(I + 2tG)^{−1/2}. Under it, E h_i^a h_j^b is a sum over the k pairs that Wick's theorem puts across. The integral is
a trapezoidal sum in log t, as in `_laplace.py`.
"""

from __future__ import annotations

import math

import numpy as np

from isometer.theory.batch_norm._sphere import Floats

_STEP = 0.35  # 1e-10 up to degree 12, for which 0.5 leaves 6e-7
_NEGLIGIBLE = 30.0  # logarithm of the largest term over those left out
_RANK = 1e-14  # eigenvalues below this share of the largest are rounding


def polynomial_moments(gram: Floats, coefficients: Floats, *, eps: float = 0.0) -> tuple[Floats, Floats]:
    """E p_i(x_i) p_j(x_j) and E p_i(x_i) for x = h/√(‖h‖²/n + ε), h ~ N(0, gram).

    Args:
        gram: `(n, n)`, of what is divided: centred before if the batch norm recentres.
        coefficients: of x⁰, x¹, … in p_i, `(n, degree + 1)`.
        eps: ε.

    Example:
        >>> second, mean = polynomial_moments(np.eye(3), np.tile([0.0, 0.0, 1.0], (3, 1)))  # x², ‖x‖² = 3
        >>> second.round(12).tolist()[0], mean.round(12).tolist()  # 9·3/15 and 9·1/15; 1
        ([1.8, 0.6, 0.6], [1.0, 1.0, 1.0])
    """
    n, terms = coefficients.shape
    constants = coefficients[:, 0]
    total, mean = np.outer(constants, constants), constants.copy()
    values, vectors = np.linalg.eigh((gram + gram.T) / 2)
    kept = values > n * _RANK * max(float(values[-1]), 0.0)
    values, vectors = values[kept], vectors[:, kept]
    if not len(values):
        return total, mean  # what has no size is normalised to 0
    scale = float(values[-1])
    values = values / scale
    times, masses = _nodes(values, n * eps / scale)
    # nt·S: the factor n^m t^m of a monomial goes to the m entries of S that it is a product of
    tilted = 0.5 * n * times[:, None] * values / (1.0 + times[:, None] * values)
    covariance = (vectors * tilted[:, None, :]) @ vectors.T  # (nodes, n, n)
    diagonal = np.diagonal(covariance, axis1=1, axis2=2)
    powers = [np.ones_like(diagonal)]
    for _ in range((terms - 1) // 2):
        powers.append(powers[-1] * diagonal)
    across = masses[:, None, None]
    for pairs in range(terms):
        degrees = range(pairs, terms, 2)
        weights = [_ways(degree, pairs) for degree in degrees]
        parts = [own * coefficients[:, d] * powers[(d - pairs) // 2] for own, d in zip(weights, degrees, strict=True)]
        rows = np.stack(parts, axis=-1)  # (nodes, n, degrees)
        shares = _inverse_gamma(degrees)
        total += ((rows @ shares @ np.swapaxes(rows, 1, 2)) * across).sum(axis=0)
        if pairs == 0:
            mean += masses @ (rows @ shares[0])
        across = across * covariance
    return total, mean


def _ways(degree: int, pairs: int) -> float:
    """a!/(√k! 2^m m!), m = (a − k)/2: how often k of a factors pair across, split evenly between both sides."""
    own = (degree - pairs) // 2
    return math.factorial(degree) / (math.sqrt(math.factorial(pairs)) * 2.0**own * math.factorial(own))


def _inverse_gamma(degrees: range) -> Floats:
    """1/Γ((a + b)/2), 0 for a = b = 0: that term is no integral."""
    return np.array([[1.0 / math.gamma((a + b) / 2) if a + b else 0.0 for b in degrees] for a in degrees])


def _nodes(values: Floats, eps: float) -> tuple[Floats, Floats]:
    """2t, and step · det(I + 2tG)^{−1/2} e^{−nεt} at these places; they end where terms are negligible."""
    low = -_NEGLIGIBLE - math.log(len(values)) - 2.0
    high = -math.log(float(values[0])) + 2 * _NEGLIGIBLE / len(values) + 4.0
    logs = np.arange(low, high, _STEP)
    heights = -0.5 * np.logaddexp(0.0, logs[:, None] + np.log(values)).sum(axis=1) - 0.5 * eps * np.exp(logs)
    first = heights + np.minimum(logs, 0.0)  # of a product of two
    alive = first > first.max() - _NEGLIGIBLE
    return np.exp(logs[alive]), _STEP * np.exp(heights[alive])
