"""What width adds to the theory of batch norm: fluctuations of the Gram matrix around its fixed point.

With d neurons, `G_{ℓ+1} = T(G_ℓ) + ξ/√d + O(1/d)`, ξ the fluctuation of φφᵀ over neurons. Around G* this is an
autoregression, Δ' = 𝓛Δ + ξ/√d, that permutations of samples split. In the trivial part 𝓛 = 0. In the pair part 𝓛 is
the rate ρ₂ and the variance is that of the noise over 1 − ρ₂². The standard part has two coordinates per sample,
`δ_k = Δ_kk` and `ε_k = Σ_{j≠k} Δ_kj` minus their means, of which the layer reads t = δ − 2ε/(n−2) and writes
(δ, ε) = (p/(2a), (n−1)q/(2a)) t, p = E φ²(v²−1), q = E φ_iφ_j(v_i²−1).
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from scipy.special import gammaln

from isometer.activations import Activation
from isometer.errors import IsometerError
from isometer.theory.batch_norm._fixed_points import local_rates
from isometer.theory.batch_norm._moments import batch_moments
from isometer.theory.batch_norm._parts import Parts, checked_samples
from isometer.theory.batch_norm._sampling import normalised, quasi_expectation
from isometer.theory.batch_norm._sphere import Floats

__all__ = ["GramFluctuations", "gram_fluctuations", "stationary_orthogonality_gap"]


class GramFluctuations(NamedTuple):
    """Stationary E ‖P(G_ℓ − G*)‖_F² for the three symmetry parts, to leading order in 1/d, and the error of the sum."""

    trivial: float
    standard: float
    pair: float
    error: float

    @property
    def total(self) -> float:
        """E ‖G_ℓ − G*‖_F²."""
        return self.trivial + self.standard + self.pair


def gram_fluctuations(source: str | Activation, n: int, width: int, *, samples: int = 1 << 15) -> GramFluctuations:
    """Mean squared distance of the Gram matrix from G* in a deep network of finite width, full batch norm before φ.

    The concentration term of 001/thm-3.2 with its constant: the distance is √(total) ~ 1/√d, Gaussian weights.

    Args:
        source: the activation.
        n: samples, at least 4.
        width: d.
        samples: points of quasi-Monte Carlo for the noise, whose fourth moments involve four samples.

    Returns:
        `GramFluctuations`; parts are inf where the fixed point is not attracting.

    Example:
        >>> parts = gram_fluctuations("identity", 5, 100, samples=1 << 12)
        >>> round(parts.total, 6)  # linear: n² (1 − 1/(n−1)) / (d (1 − ρ²)), ρ = (n−1)/(n+1)
        0.3375

    Implements: 001/thm-3.2, 001/eq-3.9, 001/lem-3.3 (Gaussian limit).
    """
    count = checked_samples(n, 4)
    if width < 1:
        raise IsometerError(f"width is {width}; expected a whole number of at least 1 — pass the number of neurons")
    phi = Parts.of(source).phi
    moments, rates = batch_moments(phi, count), local_rates(phi, count)
    if rates.largest >= 1.0:
        return GramFluctuations(math.inf, math.inf, math.inf, 0.0)
    value, error = quasi_expectation(
        lambda h: _noise(np.asarray(phi(normalised(h, "full")))), np.eye(count) - 1 / count, samples=samples
    )
    mean_trivial = value[4:6]
    # only the trivial part of yyᵀ has a mean, and that is no fluctuation
    trivial = value[0] - float(mean_trivial[0] ** 2 * count + mean_trivial[1] ** 2 * count * (count - 1))
    delta, mixed, epsilon, pair = value[1], value[2], value[3], value[6]
    spread, gap = moments.spread.value, count - 2
    read = delta - 4 / gap * mixed + 4 / gap**2 * epsilon  # E t² per network of width 1, summed over samples
    own, cross = _writes(phi, count)
    # ‖Δ‖_F² of the standard part is Σδ² + 2Σε²/(n−2)
    write = (own / (2 * spread)) ** 2 + 2 / gap * ((count - 1) * cross / (2 * spread)) ** 2
    standard_rate, pair_rate = rates.standard or 0.0, rates.pair or 0.0
    # the layer's own noise, plus what t carries over from all layers before: Σ ρ^{2k}
    standard = delta + 2 / gap * epsilon + write * read / (1 - standard_rate**2)
    total = (trivial / width, standard / width, pair / (1 - pair_rate**2) / width)
    slack = float(error[:4].sum() + error[6]) / (1 - rates.largest**2) / width
    return GramFluctuations(float(total[0]), float(total[1]), float(total[2]), slack)


def _writes(phi: Activation, n: int) -> tuple[float, float]:
    """p = E φ²(v²−1) and q = E φ_iφ_j(v_i²−1)."""
    moments = batch_moments(phi, n)

    def uncentred(v: Floats) -> Floats:
        return np.asarray(phi(v))

    def weighted(v: Floats) -> Floats:
        return np.asarray((v * v - 1.0) * phi(v))

    own = moments.rule.single(lambda v: (v * v - 1.0) * np.asarray(phi(v)) ** 2).value
    return own, moments.rule.pairs([weighted, uncentred], [(0, 1)])[0].value


def _noise(y: Floats) -> Floats:
    """Means over draws of the squared symmetry parts of yyᵀ.

    Trivial, Σδ², Σδε, Σε², then the mean diagonal and off-diagonal entry, then pair.
    """
    n = y.shape[1]
    squares = y * y
    total = squares.sum(axis=1)
    diagonal = total / n
    off = (y.sum(axis=1) ** 2 - total) / (n * (n - 1))
    delta = squares - diagonal[:, None]
    rows = y * y.sum(axis=1, keepdims=True) - squares
    epsilon = rows - rows.mean(axis=1, keepdims=True)
    trivial = n * diagonal**2 + n * (n - 1) * off**2
    d2, de, e2 = (delta**2).sum(axis=1), (delta * epsilon).sum(axis=1), (epsilon**2).sum(axis=1)
    pair = total**2 - trivial - d2 - 2 / (n - 2) * e2
    return np.array([part.mean() for part in (trivial, d2, de, e2, diagonal, off, pair)])


def stationary_orthogonality_gap(n: int, width: int) -> float:
    """E ‖HᵀH/‖H‖_F² − I/n‖_F of a deep linear network with batch norm (no recentring), Gaussian weights, d ≫ n².

    Around the orthogonal batch a layer contracts deviations by n/(n+2) and adds the fluctuation of d uniform unit
    vectors, E ‖uuᵀ − I/n‖² = 1 − 1/n, so that `E V² = (n−1)(n+2)²/(4n(n+1)d)`; the deviation is isotropic Gaussian in
    D = (n−1)(n+2)/2 dimensions, which makes the mean √(2/D) Γ((D+1)/2)/Γ(D/2) of the root mean square.

    Args:
        n: samples, at least 2.
        width: d.

    Returns:
        The gap to leading order in n/√d.

    Example:
        >>> round(stationary_orthogonality_gap(4, 512), 4)
        0.0499

    Implements: 001/fig-2.2b, 001/thm-2.1 (stationary term), 003/thm-1.
    """
    count = checked_samples(n)
    if width < 1:
        raise IsometerError(f"width is {width}; expected a whole number of at least 1 — pass the number of neurons")
    square = (count - 1) * (count + 2) ** 2 / (4 * count * (count + 1) * width)
    dimensions = (count - 1) * (count + 2) / 2
    shape = math.exp(float(gammaln((dimensions + 1) / 2) - gammaln(dimensions / 2)))
    return math.sqrt(square * 2 / dimensions) * shape
