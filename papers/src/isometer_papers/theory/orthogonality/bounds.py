"""How far deep batch-normalised linear networks are from orthogonal: the bounds of 003 and of the thesis, as printed.

A spectrum is the squared singular values of a batch of n samples; functions scale it to sum 1, as batch norm without
mean subtraction does to every layer. Arrays of mpmath numbers go through unchanged. A width of `inf` leaves out the
terms that vanish with the width.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from isometer.errors import IsometerError
from isometer_papers.float_or_mpmath import Numeric, library_of
from isometer_papers.theory.rank.bounds import numeric

__all__ = [
    "averaged_drift_bound",
    "gap_bound",
    "gap_of",
    "gaussian_distance",
    "gaussian_distance_bound",
    "gram_spread",
    "lyapunov_bound",
    "lyapunov_drift_bound",
    "lyapunov_of",
    "orthogonal_spread",
    "share_contraction",
    "spectral_gap",
    "survival_bound",
    "unit_features",
    "unit_trace",
]


def unit_trace(squares: ArrayLike) -> Numeric:
    """Squared singular values scaled to sum 1.

    Example:
        >>> unit_trace([3.0, 1.0]).tolist()
        [0.75, 0.25]

    Implements: 003/eq-10, 001/eq-A.4.
    """
    values = numeric(squares)
    return values / values.sum()


def unit_features(representation: ArrayLike) -> Numeric:
    """BN(M) = diag(MMᵀ)^{−1/2} M: every feature of a batch `(n, d)` scaled to length 1; zero features stay zero.

    Example:
        >>> unit_features([[3.0, 0.0], [4.0, 0.0]]).tolist()
        [[0.6, 0.0], [0.8, 0.0]]

    Implements: 003/def-bn (1), (9), 001/op-bn-nomean.
    """
    h = numeric(representation)
    size = (h * h).sum(axis=0)
    return h / np.where(size > 0, size, 1) ** 0.5


def spectral_gap(squares: ArrayLike) -> Numeric:
    """V = √Σ(σ_i² − 1/n)² for Σσ_i² = 1.

    Example:
        >>> round(float(spectral_gap([1.0, 0.0])), 6)  # √½
        0.707107

    Implements: 003/def-V, 003/lem-4 (its first display), 001/def-2.2.
    """
    values = unit_trace(squares)
    return ((values * len(values) - 1) ** 2).sum() ** 0.5 / len(values)


def gap_of(representation: ArrayLike) -> Numeric:
    """V(H) = ‖HᵀH/‖H‖_F² − I/n‖_F from the entries of a batch `(n, d)`, in any precision.

    Example:
        >>> float(gap_of([[1.0, 0.0], [0.0, 1.0]]))
        0.0

    Implements: 003/def-V (2), 001/def-2.2.
    """
    h = numeric(representation)
    n, gram = len(h), h @ h.T
    centred = gram / np.trace(gram) - np.eye(n, dtype=int) / (gram[0, 0] * 0 + n)
    return (centred**2).sum() ** 0.5


def lyapunov_of(squares: ArrayLike) -> Numeric:
    """V̂ = 1/n − σ_n² for Σσ_i² = 1.

    Example:
        >>> float(lyapunov_of([3.0, 1.0]))
        0.25

    Implements: 003/def-Vhat (11), 001/eq-A.5.
    """
    values = unit_trace(squares)
    smallest = min(values)
    return (1 - len(values) * smallest) / len(values)


def gaussian_distance(squares: ArrayLike) -> Numeric:
    """W₂² = Σ(σ_i − 1/√n)² between W H, W Gaussian of variance 1/d, and its isotropic counterpart, for ‖H‖_F = 1.

    Example:
        >>> round(float(gaussian_distance([1.0, 0.0])), 6)  # 2 − √2
        0.585786

    Implements: 003/lem-2, 001/lem-2.2.
    """
    values = unit_trace(squares)
    return ((values**0.5 - (values[0] * 0 + 1) / len(values) ** 0.5) ** 2).sum()


def gap_bound(layer: int, alpha: Numeric, n: int, width: Numeric, *, power: int = 1, spread: Numeric = 3) -> Numeric:
    """2(1 − ⅔α^k)^ℓ + s n/(α^k √d): the printed bound of E V(H_{ℓ+1}) has k = 1, s = 3; its proof gives k = 2.

    Args:
        layer: ℓ.
        alpha: least singular value of H_1, …, H_ℓ.
        n: samples.
        width: d, `inf` for the limit.
        power: k.
        spread: s; the last line of the printed proof has 3/2.

    Example:
        >>> gap_bound(2, 0.75, 2, 64), gap_bound(2, 0.75, 2, math.inf)
        (1.5, 0.5)

    Implements: 003/thm-1 (3), 001/thm-2.1 (2.3), 003/appB-induction.
    """
    rate = alpha**power
    return 2 * (1 - 2 * rate / 3) ** layer + spread * n / (rate * width**0.5)


def gaussian_distance_bound(layer: int, alpha: Numeric, n: int, width: Numeric, *, power: int = 1) -> Numeric:
    """4n(1 − ⅔α^k)^ℓ + 6n²/(α^k √d); printed with k = 1.

    Example:
        >>> gaussian_distance_bound(1, 0.75, 1, 64)
        3.0

    Implements: 003/cor-3 (5), 001/cor-2.3 (2.5).
    """
    return 2 * n * gap_bound(layer, alpha, n, width, power=power)


def lyapunov_bound(layer: int, alpha: Numeric, first: Numeric, width: Numeric, *, power: int = 1) -> Numeric:
    """(1 − ⅔α^k)^ℓ E V̂(H_1) + 3/(2α^k √d); printed with k = 1.

    Example:
        >>> lyapunov_bound(1, 0.75, 0.5, 16)
        0.75

    Implements: 003/appB-induction, 001/eq-A.6 (iterated).
    """
    rate = alpha**power
    return (1 - 2 * rate / 3) ** layer * first + 3 / (2 * rate * width**0.5)


def lyapunov_drift_bound(lyapunov: Numeric, inside: Numeric, n: int, width: Numeric) -> Numeric:
    """(1 − ⅔(1/n − x)) V̂ + 1/√d with x = V̂ (Theorem 5) or x = V (eq. 14 of 003).

    Example:
        >>> lyapunov_drift_bound(0.25, 0.25, 1, 16)
        0.375

    Implements: 003/thm-5, 003/eq-14, 001/thm-A.2, 001/eq-A.9.
    """
    return (1 - 2 * ((lyapunov * 0 + 1) / n - inside) / 3) * lyapunov + 1 / width**0.5


def share_contraction(squares: ArrayLike, *, sharp: bool = False) -> Numeric:
    """(1 − cσ_n²)(1/n − σ_n²), which bounds 1/n − p_n, with c = ⅔ (Lemma 8) or 2n/(n+2) (its proof).

    Example:
        >>> round(float(share_contraction([3.0, 1.0])), 6)
        0.208333

    Implements: 003/lem-8, 001/lem-A.5.
    """
    values = unit_trace(squares)
    n, smallest = len(values), min(values)
    factor = 2 * n / (smallest * 0 + n + 2) if sharp else (smallest * 0 + 2) / 3
    return (1 - factor * smallest) * lyapunov_of(values)


def averaged_drift_bound(first: Numeric, layers: int, width: Numeric) -> Numeric:
    """3V̂(H_0)/(2ℓ) + 3/(2√d).

    Example:
        >>> averaged_drift_bound(0.5, 3, 9)
        0.75

    Implements: 003/appB1-average, 001/claim-A.stab.
    """
    return 3 * first / (2 * layers) + 3 / (2 * width**0.5)


def gram_spread(shares: ArrayLike, width: Numeric) -> Numeric:
    """E‖C − E C‖_F² = (1 − Σp_i²)/d for the mean C of d independent uuᵀ, ‖u‖ = 1, E uuᵀ = diag(p).

    Example:
        >>> float(gram_spread([0.5, 0.5], 10))
        0.05

    Implements: 003/lem-6, 001/lem-A.3 (exact).
    """
    return (1 - (numeric(shares) ** 2).sum()) / width


class OrthogonalSpread(NamedTuple):
    """Second moments of C after one layer from an orthogonal batch."""

    total: Numeric
    off_diagonal: Numeric
    smallest: Numeric


def orthogonal_spread(n: int, width: Numeric) -> OrthogonalSpread:
    """Fluctuation of C = (1/d) Σ uuᵀ for u uniform on the sphere, which is the layer after an orthogonal batch.

    `E‖C − I/n‖_F² = (1 − 1/n)/d`; off the diagonal `E Σ_{i≠j} C_ij² = (n−1)/((n+2)d)`, since E u_i⁴ = 3/(n(n+2)); and
    for two samples, whose eigenvalues are ½ ± V/√2, `E (λ_2 − ½)² = 1/(4d)` (None for other n).

    Example:
        >>> [float(value) for value in orthogonal_spread(2, 4.0)]
        [0.125, 0.0625, 0.0625]

    Implements: 003/lem-6, 003/lem-7, 001/lem-A.3, 001/lem-A.4 (exact, V̂ = 0).
    """
    total = gram_spread([width * 0 + (width * 0 + 1) / n] * n, width)
    off = (width * 0 + n - 1) / (n + 2) / width
    return OrthogonalSpread(total, off, total / 2 if n == 2 else None)


def survival_bound(width: int, alpha: Numeric, layers: Numeric) -> Numeric:
    """Upper bound of the chance that two samples keep σ_2(H_k) ≥ α for k = 1, …, ℓ, whatever the input.

    Given σ_2(H_k) ≥ α the direction of each of the d rows of H_{k+1} has a density of at least
    α/(2π√(1−α²)) on the circle. All of them fall within an angle ε = arcsin α of one axis with probability at least
    q = (2εα/(π√(1−α²)))^d, and then σ_2(H_{k+1}) ≤ sin ε = α. So the chance is at most (1 − q)^{ℓ−1}, which tends to 0.

    Args:
        width: d.
        alpha: α in (0, √½).
        layers: ℓ.

    Example:
        >>> survival_bound(2, 0.5, 1), round(survival_bound(2, 0.5, 1000), 12)
        (1.0, 0.0)

    Implements: 003/def-A1, 003/claim-rank-preserved, 001/ass-2.A1.
    """
    if not 0 < alpha < math.sqrt(0.5):
        raise IsometerError(f"alpha is {alpha}; expected a number between 0 and √½, the largest that two samples allow")
    library = library_of(alpha)
    angle = library.asin(alpha)
    chance = (2 * angle * alpha / (library.pi * library.sqrt(1 - alpha**2))) ** width
    # the chance is a d-th power, which 1 − q would lose
    return library.exp((layers - 1) * library.log1p(-chance))
