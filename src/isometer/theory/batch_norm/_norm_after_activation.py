"""Rescaling after the activation, x = BN(φ(h)), on exchangeable batches: the Gram map and the growth of gradients.

With φ = φ(h), c = Mφ, D = diag φ′(h) and s the length of b that divides, x = √n y/s has by h the Jacobian
`J D = √n/s (C − y bᵀ/s²) D`: y and b are φ or c, C is I or M. The gradient's Gram matrix over features becomes
`E D JᵀΓJ D`; its parts along M and along P = 11ᵀ/n form a 2×2 matrix, of which traces are ratios of sums over samples
(`SharedMean`).
"""

from __future__ import annotations

import math
from typing import Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from isometer.activations import NumericalEstimate
from isometer.errors import IsometerError
from isometer.theory.batch_norm._shared_mean import Powers, SharedMean, Sums, Term, flat_pieces
from isometer.theory.batch_norm._sphere import Floats

Complex = NDArray[np.complex128]
Terms = tuple[list[tuple[Powers, ...]], list[Term]]
_GRAM = {(0, 0), (1, 0)}


class PairAfter(NamedTuple):
    """Diagonal and off-diagonal entry of E xxᵀ, and a bound on their error."""

    diagonal: float
    off_diagonal: float
    error: float


def chance_of_no_size(law: SharedMean, kind: str) -> float:
    """Probability that what divides is 0: all activations equal, or, for the root mean square, all 0.

    Example:
        >>> from isometer import activation
        >>> chance_of_no_size(SharedMean(activation("relu"), 4, 1.0, 1.0), "rms")  # all four negative
        0.0625
    """
    flat = flat_pieces(law.phi, law.reach)
    if kind == "rms":
        return round(law.chance_of(flat.get(0.0, [])), 15)
    return round(sum(law.chance_of(pieces) for pieces in flat.values()), 15)


def pair_after(law: SharedMean, kind: Literal["full", "rms", "std"]) -> PairAfter:
    """E xxᵀ for x = φ(h) rescaled; a batch that has no size becomes 0.

    Centred or not, the entries that the norm fixes follow from the chance p that there is nothing to divide by: under
    full batch norm all of them, 1 − p and −(1 − p)/(n − 1); otherwise one number, an integral, is left.

    Example:
        >>> from isometer import activation
        >>> pair_after(SharedMean(activation("tanh"), 5, 1.0, 1.0), "full")[:2]
        (1.0, -0.25)
    """
    n, dead = law.n, chance_of_no_size(law, kind)
    if kind == "full":
        return PairAfter(1.0 - dead, -(1.0 - dead) / (n - 1), 1e-14)
    if kind == "rms":
        off = law.integral([lambda s: n * s.table[1, 0] ** 2 * s.table[0, 0] ** (n - 2)], _GRAM, centred=False)[0]
        return PairAfter(1.0 - dead, off.value, off.error + 1e-14)

    def product(s: Sums) -> Complex:
        return np.asarray(n * (s.table[1, 0] + s.m * s.table[0, 0]) ** 2 * s.table[0, 0] ** (n - 2))

    off = law.integral([product], _GRAM, centred=True)[0] if n > 3 else NumericalEstimate(math.inf, 0.0)
    if math.isinf(off.value):
        raise IsometerError(
            f"{law.phi.name} divided by the deviation with the mean kept has no second moment for batches of {n}: the "
            "deviation vanishes too often where the mean does not — use a larger batch or recentre"
        )
    return PairAfter(off.value + n / (n - 1) * (1.0 - dead), off.value, off.error + 1e-14)


def has_pole(law: SharedMean, kind: Literal["full", "rms", "std"]) -> bool:
    """Whether a dead zone of φ makes the mean square of gradients infinite.

    Where all samples but two are in one flat piece of φ and these two are ε beyond its edge, the size that divides is
    of order ε while both still pass a gradient: `E 1/ε²` in two dimensions diverges like log 1/ε. (One alone passes
    nothing: the Jacobian projects it out.) Chances below 1e−12 count as none.

    Example:
        >>> from isometer import activation
        >>> relu = activation("relu")
        >>> has_pole(SharedMean(relu, 6, 1.0, 1.0), "rms"), has_pole(SharedMean(relu, 6, 1.2, 0.0), "full")
        (True, False)
    """
    for value, pieces in flat_pieces(law.phi, law.reach).items():
        if kind == "rms" and value != 0.0:
            continue
        ends = [(end, side) for low, high in pieces for end, side in ((low, -1.0), (high, 1.0)) if abs(end) < law.reach]
        close = any(abs(float(law.phi(end + side * 1e-9)) - value) < 1e-6 for end, side in ends)
        if close and law.chance_of(pieces) > 1e-12:
            return True
    return False


def backward_matrix(law: SharedMean, kind: Literal["full", "rms", "std"]) -> tuple[Floats, float]:
    """What a layer makes of (α, β), Γ = αM + βP: a 2×2 matrix, inf where it is infinite, and a bound on its error.

    Example:
        >>> from isometer import activation
        >>> matrix, error = backward_matrix(SharedMean(activation("identity"), 8, 1.0, 1.0), "rms")
        >>> bool(abs(matrix[0, 0] - 8 / 6 * (1 - 2 / 8 + 9 / 80)) < 1e-9)  # n/(n − 2) · (1 − 2/n + (n + 1)/(n(n + 2)))
        True
    """
    n = law.n
    if n <= (2 if kind == "rms" else 3) or has_pole(law, kind):
        return np.full((2, 2), math.inf), 0.0
    products, terms = _rms_terms(n) if kind == "rms" else _centred_terms(n, kind)
    found = law.integral(terms, Sums.needs(*products), centred=kind != "rms")
    if any(math.isinf(part.value) for part in found):
        return np.full((2, 2), math.inf), 0.0
    # full batch norm passes nothing along P: its column is 0
    all_m, mean_m, all_p, mean_p = ([part.value for part in found] + [0.0, 0.0])[:4]
    matrix = np.array([[(all_m - mean_m) / (n - 1), (all_p - mean_p) / (n - 1)], [mean_m, mean_p]])
    return matrix, sum(part.error for part in found)


def _rms_terms(n: int) -> Terms:
    """Traces with I and P of the images of M and of P: y = b = φ, C = I."""
    products: list[tuple[Powers, ...]] = [
        ((0, 2),), ((2, 2),), ((1, 1), (1, 1)), ((1, 2), (1, 0)), ((2, 2), (1, 0), (1, 0)),
        ((0, 1), (0, 1)), ((0, 1), (1, 1), (1, 0)), ((1, 1), (1, 1), (1, 0), (1, 0)),
    ]  # fmt: skip

    def all_mean(s: Sums) -> Complex:
        # ∫ exp(−ts²) dt is 1/s²; a further factor 1/s² is t, and 1/s⁴ is t²/2
        return s.of((0, 2)) - 2 * s.t * s.of((1, 2), (1, 0)) + s.t**2 / 2 * s.of((2, 2), (1, 0), (1, 0))

    def mean_mean(s: Sums) -> Complex:
        last = s.t**2 / 2 * s.of((1, 1), (1, 1), (1, 0), (1, 0))
        return (s.of((0, 1), (0, 1)) - 2 * s.t * s.of((0, 1), (1, 1), (1, 0)) + last) / n

    def all_all(s: Sums) -> Complex:
        return n * (s.of((0, 2)) - s.t * s.of((2, 2))) - all_mean(s)

    def mean_all(s: Sums) -> Complex:
        return s.of((0, 2)) - s.t * s.of((1, 1), (1, 1)) - mean_mean(s)

    return products, [all_all, mean_all, all_mean, mean_mean]


def _centred_terms(n: int, kind: str) -> Terms:
    """As `_rms_terms` for b = c. Polynomials in the mean φ̄ are read at m ~ N(φ̄, 1/(2tn)) by exp(−∂²/(4tn))."""
    products: list[tuple[Powers, ...]] = [
        ((0, 2),), ((2, 2),), ((1, 2),), ((0, 1), (0, 1)), ((1, 1), (1, 1)), ((0, 1), (1, 1)),
    ]  # fmt: skip

    def all_centred(s: Sums) -> Complex:
        own = s.of((0, 2))
        return n * (own * (1 - 1 / n) - s.t * s.of((2, 2)) + own / (2 * n))

    def mean_centred(s: Sums) -> Complex:
        both = s.of((0, 1), (0, 1))
        return s.of((0, 2)) - both / n - s.t * s.of((1, 1), (1, 1)) + both / (2 * n)

    def kept(s: Sums, square: Complex, cross: Complex, plain: Complex) -> Complex:
        """E (Σd²(1 − cS/s²)²)/s² from Σu²d², Σud², Σd²; also for (Σud)², ΣudΣd, (Σd)²."""
        spread, m = 1 / (2 * s.t * n), s.m
        once = n * m * cross + spread * n * plain
        twice = m * m * square - spread * (square - 4 * m * cross + m * m * plain) + 3 * spread**2 * plain
        return np.asarray(plain - 2 * s.t * once + s.t**2 / 2 * n * n * twice)

    def all_mean(s: Sums) -> Complex:
        return kept(s, s.of((2, 2)), s.of((1, 2)), s.of((0, 2)))

    def mean_mean(s: Sums) -> Complex:
        return kept(s, s.of((1, 1), (1, 1)), s.of((0, 1), (1, 1)), s.of((0, 1), (0, 1))) / n

    return products, [all_centred, mean_centred] if kind == "full" else [all_centred, mean_centred, all_mean, mean_mean]
