"""Minimum-norm interpolation with a deep kernel: exact excess risk beside the bounds of paper 004 (§6, Appendix G).

The population is a finite set of inputs of equal weight, so that every expectation is a sum and nothing is estimated:
Σ has the eigenvalues of K_N/N, the optimal predictor v* fits the mean labels wherever K_N is non-singular, and the
excess risk is the mean squared distance of the interpolant to them.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import linalg
from scipy.special import betainc, betaincinv

from isometer.errors import IsometerError
from isometer.theory.kernels import SphereKernel, separation_depth

Floats = NDArray[np.float64]


# --- how close inputs come --------------------------------------------------------------------------------------------


def sphere_separation(dimension: int, count: int, failure: float) -> float:
    """A lower bound on Δ(m, γ) for the uniform law on the sphere S^{d−1}, by the union bound over pairs.

    (x·x′)² has the law Beta(½, (d − 1)/2), so P(|x·x′| > 1 − δ) is known and m(m − 1)/2 times it is set to γ.

    Implements 004/def-Delta.

    Example:
        >>> from isometer_papers.theory.kernel_learning.interpolation import sphere_separation
        >>> 0.001 < sphere_separation(10, 100, 0.1) < 0.5
        True
    """
    if dimension < 2 or count < 1 or not 0.0 < failure < 1.0:
        raise IsometerError(f"Δ(m, γ) takes d ≥ 2, m ≥ 1 and γ in (0, 1); got {dimension!r}, {count!r}, {failure!r}")
    if count == 1:
        return 1.0
    pairs = count * (count - 1) / 2
    share = min(failure / pairs, 1.0)
    # 1 − (x·x′)² has the law Beta((d − 1)/2, ½): its lower tail, where it is small
    sine = float(betaincinv((dimension - 1) / 2, 0.5, share))
    return sine / (1.0 + math.sqrt(1.0 - sine))  # 1 − |cos| = sin²/(1 + |cos|), without cancellation


def pair_probability(dimension: int, delta: float) -> float:
    """P(|x·x′| > 1 − δ) for two uniform points of the sphere S^{d−1}.

    Example:
        >>> from isometer_papers.theory.kernel_learning.interpolation import pair_probability
        >>> round(pair_probability(3, 0.25), 12)  # Archimedes: x·x′ is uniform on [−1, 1]
        0.25
    """
    return float(betainc((dimension - 1) / 2, 0.5, delta * (2.0 - delta)))  # |cos| > 1 − δ is sin² < δ(2 − δ)


def sample_separation(inputs: ArrayLike, count: int, failure: float, *, runs: int = 200, seed: int = 0) -> float:
    """Δ(m, γ) of the law that draws from given unit vectors without replacement: the γ-quantile of 1 − max |x·x′|.

    Example:
        >>> import numpy as np
        >>> from isometer_papers.theory.kernel_learning.interpolation import sample_separation
        >>> sample_separation(np.eye(10), 5, 0.1, runs=20)
        1.0
    """
    x = np.asarray(inputs, dtype=float)
    if x.ndim != 2 or not 2 <= count <= len(x):
        raise IsometerError(f"a sample of {count} needs an (n, d) array of at least as many inputs; got {x.shape}")
    rng = np.random.default_rng(seed)
    found = np.empty(runs)
    for run in range(runs):
        chosen = x[rng.choice(len(x), size=count, replace=False)]
        overlap = np.abs(chosen @ chosen.T)
        np.fill_diagonal(overlap, 0.0)
        found[run] = 1.0 - overlap.max()
    return max(0.0, float(np.quantile(found, failure, method="lower")))


def interpolation_depth(n: int, nonlinearity: float, separation: float) -> int:
    """L = ⌈log n²/(−log(1 − μ/2))⌉ + L₀(Δ(n², γ)) of 004/thm-16; with n for n², the depth of 004/lem-54 for N = n.

    Example:
        >>> from isometer_papers.theory.kernel_learning.interpolation import interpolation_depth
        >>> interpolation_depth(16, 1.0, 0.6)
        8
    """
    # 1e-12: a quotient that is whole up to rounding is not rounded up
    return math.ceil(2 * math.log(n) / -math.log1p(-nonlinearity / 2) - 1e-12) + separation_depth(
        separation, nonlinearity
    )


# --- the covariance ---------------------------------------------------------------------------------------------------


def covariance_norm_bound(count: int) -> float:
    """8 ln(N)/N of 004/lem-54, on ‖Σ‖ for L ≥ ⌈log N/(−log(1 − μ/2))⌉ + L₀(Δ(N, γ)).

    Printed for every positive N; at N = 1 it is zero, which no covariance attains, and up to N = 26 it exceeds 1 ≥ ‖Σ‖.

    Implements 004/lem-54.

    Example:
        >>> from isometer_papers.theory.kernel_learning.interpolation import covariance_norm_bound
        >>> covariance_norm_bound(1), round(covariance_norm_bound(1000), 4)
        (0.0, 0.0553)
    """
    return 8.0 * math.log(count) / count


def sphere_covariance_spectrum(kernel: SphereKernel, dimension: int, degrees: int = 12) -> Floats:
    """Eigenvalues of Σ for inputs uniform on S^{d−1}, one for each degree of spherical harmonics (Funk–Hecke).

    λ_l = ∫k(t)P_l(t)dμ(t), P_l the Gegenbauer polynomial with P_l(1) = 1 and μ the law of a coordinate; the
    multiplicity of degree l is that of the harmonics. ‖Σ‖ is their maximum.

    Example:
        >>> from isometer.theory.kernels import SphereKernel
        >>> from isometer_papers.theory.kernel_learning.interpolation import sphere_covariance_spectrum
        >>> sphere_covariance_spectrum(SphereKernel("identity", 5), 4, 3).round(12) + 0.0  # x·x′: degree one only
        array([0.  , 0.25, 0.  , 0.  ])
    """
    if dimension < 2:
        raise IsometerError(f"a sphere needs d ≥ 2; got {dimension!r}")
    # s = log tan(θ/2): deep kernels vary over orders of magnitude of the angle; dμ ∝ sin^{d−1}θ ds
    s = np.linspace(-40.0, 40.0, 8001)
    weight = np.cosh(s) ** (1.0 - dimension)
    weight /= weight.sum()
    cosine = -np.tanh(s)
    values, _ = kernel.values(s)
    out = np.empty(degrees + 1)
    before, here = np.ones_like(s), cosine
    for degree in range(degrees + 1):
        out[degree] = np.sum(weight * values * before)
        # (l + d − 2) P_{l+1} = (2l + d − 2) t P_l − l P_{l−1} with l = degree + 1
        ahead = ((2 * degree + dimension) * cosine * here - (degree + 1) * before) / (degree + dimension - 1)
        before, here = here, ahead
    return out


# --- interpolants -----------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Interpolation:
    """The minimum-norm interpolant of a sample, its exact excess risk over a finite population, and the bounds on it.

    Example:
        >>> import numpy as np
        >>> from isometer_papers.theory.kernel_learning.interpolation import interpolate
        >>> noise = interpolate(np.eye(10), np.zeros(10), [0, 1], [1.0, -1.0])
        >>> noise.excess_risk, noise.optimal_norm  # positive with v* = 0, where 004/thm-16 prints a bound of zero
        (0.2, 0.0)
    """

    predictions: Floats  # (N,), of the interpolant on the population
    excess_risk: float
    optimal_norm: float  # ‖v*‖²
    norm: float  # ‖v_S‖²
    covariance_norm: float  # ‖Σ‖
    smallest_eigenvalue: float  # λ_min of the sample's kernel
    approximation: float  # v*ᵀBv*
    noise: float  # εᵀCε
    sample_size: int

    @property
    def lemma(self) -> float:
        """2v*ᵀBv* + 2εᵀCε of 004/lem-55."""
        return 2.0 * self.approximation + 2.0 * self.noise

    @property
    def approximation_bound(self) -> float:
        """‖Σ‖‖v*‖² of 004/eq-25, on v*ᵀBv*."""
        return self.covariance_norm * self.optimal_norm

    @property
    def noise_bound(self) -> float:
        """2n(1 + ‖v*‖²)‖Σ‖ of 004/eq-26, on εᵀCε, for λ_min ≥ ½ and labels in [−1, 1].

        Its step |y − v*ᵀΦ|² ≤ 1 + ‖v*‖² lacks a factor: (a + b)² ≤ 2(a² + b²).
        """
        return 2.0 * self.sample_size * (1.0 + self.optimal_norm) * self.covariance_norm

    @property
    def bound(self) -> float:
        """What the two give together: 2·(004/eq-25) + 2·(004/eq-26), on the excess risk."""
        return 2.0 * self.approximation_bound + 2.0 * self.noise_bound


def interpolate(kernel: ArrayLike, means: ArrayLike, sample: ArrayLike, labels: ArrayLike) -> Interpolation:
    """Interpolate labels of a sample with the smallest norm, and measure the excess risk over the population.

    Implements 004/def-interp, 004/thm-16, 004/lem-55.

    Args:
        kernel: (N, N), the NNGP over its diagonal on all inputs of the population.
        means: (N,), E[y | x].
        sample: indices of the sample, without repetition.
        labels: labels of the sample.

    Example:
        >>> import numpy as np
        >>> from isometer_papers.theory.kernel_learning.interpolation import interpolate
        >>> from isometer.theory.kernels import kernel_matrix
        >>> x = np.random.default_rng(0).standard_normal((40, 8))
        >>> x /= np.linalg.norm(x, axis=1, keepdims=True)
        >>> found = interpolate(kernel_matrix("unit(tanh)", x, 3).matrix, x[:, 0], range(10), x[:10, 0])
        >>> bool(np.allclose(found.predictions[:10], x[:10, 0])), found.excess_risk <= found.lemma <= found.bound
        (True, True)
    """
    matrix, target = np.asarray(kernel, dtype=float), np.asarray(means, dtype=float)
    chosen, y = np.asarray(sample, dtype=np.intp).ravel(), np.asarray(labels, dtype=float)
    n, size = len(chosen), len(matrix)
    if matrix.shape != (size, size) or target.shape != (size,) or y.shape != (n,) or n == 0:
        raise IsometerError(
            f"expected an (N, N) kernel, N means and as many labels as sample indices; got {matrix.shape}, "
            f"{target.shape}, {n} indices and {y.shape}"
        )
    if len(np.unique(chosen)) < n or chosen.min() < 0 or chosen.max() >= size:
        raise IsometerError(f"sample indices must be different and lie in 0 … {size - 1}")
    own = matrix[np.ix_(chosen, chosen)]
    own_low = float(linalg.eigvalsh(own)[0])
    values = linalg.eigvalsh(matrix)
    # eigenvalues this small are rounding, and their inverses noise
    if min(own_low, float(values[0])) <= size * np.finfo(float).eps * float(values[-1]):
        raise IsometerError(
            "the kernel is singular: no interpolant exists for all labels — go deeper or drop duplicates"
        )
    solve = linalg.cho_factor(own)
    weights = linalg.cho_solve(solve, y)
    predictions = matrix[:, chosen] @ weights
    optimal = linalg.solve(matrix, target, assume_a="pos")
    fitted = matrix[:, chosen] @ linalg.cho_solve(solve, target[chosen])
    error = y - target[chosen]
    return Interpolation(
        predictions=predictions,
        excess_risk=float(np.mean((predictions - target) ** 2)),
        optimal_norm=float(target @ optimal),
        norm=float(y @ weights),
        covariance_norm=float(values[-1]) / size,
        smallest_eigenvalue=own_low,
        approximation=float(np.mean((target - fitted) ** 2)),
        noise=float(np.mean((matrix[:, chosen] @ linalg.cho_solve(solve, error)) ** 2)),
        sample_size=n,
    )


def excess_risk_bound(n: int, failure: float, optimal_norm: float) -> dict[str, float]:
    """004/thm-16: (log(n/γ)/n)‖v*‖² as printed, its constant taken as one, and what its proof gives.

    The proof's constants: ‖Σ‖ ≤ 16 ln(n)/n² in 004/eq-25 and 004/eq-26, doubled by 004/lem-55. It keeps a term without
    ‖v*‖² that the printed bound has lost: labels of pure noise have v* = 0 and a positive excess risk.

    Example:
        >>> from isometer_papers.theory.kernel_learning.interpolation import excess_risk_bound
        >>> noise = excess_risk_bound(1000, 0.1, 0.0)
        >>> noise["printed"], round(noise["proved"], 4)
        (0.0, 0.4421)
    """
    if n < 2 or not 0.0 < failure < 0.5 or optimal_norm < 0.0:
        raise IsometerError(f"004/thm-16 takes n ≥ 2 and γ in (0, ½); got {n!r}, {failure!r}, ‖v*‖² = {optimal_norm!r}")
    covariance = 16.0 * math.log(n) / n**2
    proved = 2.0 * covariance * optimal_norm + 4.0 * n * (1.0 + optimal_norm) * covariance
    return {"printed": math.log(n / failure) / n * optimal_norm, "proved": proved}
