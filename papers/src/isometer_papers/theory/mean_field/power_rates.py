"""Local rate of the batch-norm map around its exchangeable fixed point for φ(x) = x^p, from moments of the sphere.

v = √n Mh/‖Mh‖ is uniform on a sphere of dimension n − 2, so that E of a monomial of degree 2q is the Gaussian one with
covariance M times n^q/((n−1)(n+1)…(n+2q−3)). Everything is rational.
"""

from __future__ import annotations

from isometer.errors import IsometerError
from isometer_papers.float_or_mpmath import Numeric
from isometer_papers.theory.duals.hermite_identities import pair_moment

__all__ = ["power_local_rate", "sphere_moment"]


def sphere_moment(first: int, second: int, n: int, one: Numeric) -> Numeric:
    """E v_i^a v_j^b for two samples of a batch of n after full batch norm, h exchangeable.

    Implements: 001/map-3.3 for monomials.

    Example:
        >>> round(sphere_moment(2, 0, 5, 1.0), 12), round(sphere_moment(1, 1, 5, 1.0), 12)
        (1.0, -0.25)
    """
    if (first + second) % 2:
        return 0 * one
    half = (first + second) // 2
    # Mh has variances (n − 1)/n and correlations −1/(n − 1)
    gaussian = pair_moment(first, second, -one / (n - 1)) * (one * (n - 1) / n) ** half
    lengths = one  # E‖Mh‖^{2q}, a χ² of n − 1 degrees, independent of the direction
    for k in range(half):
        lengths = lengths * (n - 1 + 2 * k)
    return gaussian * (one * n) ** half / lengths


def power_local_rate(power: int, n: int, one: Numeric) -> Numeric:
    """Factor per layer of a small deviation of one sample from the others, φ(x) = x^p, p odd (the standard part).

    [E φ²(v²−1) − 2 (n−1)/(n−2) E φ_iφ_j(v_i²−1)]/(2a), a = E φ² − E φ_iφ_j; see `theory.batch_norm.local_rates`.

    Implements: 001/claim-3.global.

    Example:
        >>> round(power_local_rate(3, 6, 1.0), 12)  # above 1: the fixed point repels
        1.153846153846
    """
    if power < 1 or power % 2 == 0 or n < 3:
        raise IsometerError(f"power is {power} and n is {n}; expected an odd power and at least 3 samples")

    def at(a: int, b: int) -> Numeric:
        return sphere_moment(a, b, n, one)

    own = at(2 * power + 2, 0) - at(2 * power, 0)
    plain = at(power, power)
    cross = at(power + 2, power) - plain
    return (own - 2 * (one * (n - 1)) / (n - 2) * cross) / (2 * (at(2 * power, 0) - plain))
