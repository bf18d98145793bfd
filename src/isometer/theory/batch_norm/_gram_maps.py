"""Layers of infinite width as deterministic maps: of a spectrum under batch norm, of a Gram matrix without rescaling.

Both are followed through any number of layers. The spectrum map is an integral that a trapezoidal rule in log θ gives
to machine precision, its integrand being analytic in a strip. The Gram map of positively homogeneous activations is the
arc-cosine kernel; iterated, it acts on squared distances, which keep their digits when samples collapse, and the scale
is carried as a logarithm.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import NamedTuple, TypeAlias

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import expit

from isometer.activations import Activation, NumericalEstimate, activation
from isometer.activations._closed_forms import as_two_rays
from isometer.errors import IsometerError

__all__ = [
    "GramChain",
    "SpectrumMap",
    "gram_chain",
    "gram_map",
    "ratio_expectation",
    "smallest_share_bound",
    "spectrum_chain",
    "spectrum_map",
]

Floats: TypeAlias = NDArray[np.float64]
_EPS = float(np.finfo(float).eps)
_STEP = 0.25  # of each of the two trapezoidal rules; the error of one is below exp(−π²/_STEP) ≈ 1e−17
_NEGLIGIBLE = 42.0  # e^−42 of the integrand's peak ends the integration
_EQUAL = 1e-12  # relative spread of a Gram matrix's diagonal that counts as none


# --- spectra under batch norm without mean ---------------------------------------------------------------------------


class SpectrumMap(NamedTuple):
    """Eigenvalues after one layer and a bound on the error of each, both `(…, n)`."""

    eigenvalues: Floats
    error: Floats


def spectrum_map(eigenvalues: ArrayLike) -> SpectrumMap:
    """Spectrum of the Gram matrix after one linear layer of infinite width with batch norm (no recentring).

    `p_i = E[λ_i w_i² / Σ_k λ_k w_k²] = ∫_0^∞ λ_i / (1 + 2θ λ_i) Π_j (1 + 2θ λ_j)^{−1/2} dθ` with λ = σ², w standard
    Gaussian. The p_i sum to 1, have the order of the λ_i and do not depend on their scale; zeros stay zero. For n = 2,
    `p_i = √λ_i / (√λ_1 + √λ_2)`. The integral is taken in t = log 2θ by two shifted trapezoidal rules, whose
    difference and whose defect in Σ p_i = 1 bound the error.

    Args:
        eigenvalues: `(…, n)`, λ ≥ 0 in any order and of any scale, not all zero.

    Returns:
        The p_i in the order of the λ_i, each precise to about 1e−14 of itself, and their errors.

    Example:
        >>> spectrum_map([16.0, 9.0]).eigenvalues.round(12).tolist()  # 4 / 7 and 3 / 7
        [0.571428571429, 0.428571428571]

    Implements: 001/eq-A.10, 003/p-map (13), (15), 001/lem-A.3.
    """
    array = np.asarray(eigenvalues, dtype=np.float64)
    if array.ndim == 0 or array.shape[-1] == 0:
        raise IsometerError(f"eigenvalues have shape {array.shape}; expected (…, n) with n ≥ 1")
    if not np.isfinite(array).all() or (array < 0).any():
        worst = array[~(np.isfinite(array) & (array >= 0))].ravel()[0]
        raise IsometerError(f"an eigenvalue is {worst}; expected finite numbers ≥ 0 — pass σ² or clip rounding errors")
    if not (array > 0).any(axis=-1).all():
        raise IsometerError("all eigenvalues of a spectrum are 0; expected at least one above — the batch is zero")
    rows = [_one_spectrum(row) for row in array.reshape(-1, array.shape[-1])]
    shares = np.array([value for value, _ in rows]).reshape(array.shape)
    return SpectrumMap(shares, np.array([error for _, error in rows]).reshape(array.shape))


def _one_spectrum(row: Floats) -> tuple[Floats, Floats]:
    # equal eigenvalues share one integral, and permuting them permutes the result exactly
    distinct, where, counts = np.unique(row, return_inverse=True, return_counts=True)
    positive = distinct > 0
    shares, error = np.zeros_like(distinct), np.zeros_like(distinct)
    shares[positive], error[positive] = _shares(np.log(distinct[positive]), counts[positive])
    # A defect of Σ p_i = 1 is an error that the two rules share; it need not be spread in proportion.
    defect = abs(float(counts @ shares) - 1.0)
    bound = error + 4 * shares * defect
    return np.asarray(shares[where]), np.asarray(bound[where], dtype=np.float64)


def _shares(logs: Floats, counts: NDArray[np.int64]) -> tuple[Floats, Floats]:
    """p of each distinct value with these logarithms (ascending) and multiplicities, and a bound on their errors."""
    # shares do not depend on scale: the largest λ becomes 1
    logs = logs - logs[-1]
    rank = int(counts.sum())

    def integrand(t: Floats) -> tuple[Floats, Floats]:
        shifted = t[:, None] + logs  # log of 2θλ
        return shifted, np.asarray(-0.5 * (np.logaddexp(0.0, shifted) @ counts), dtype=np.float64)

    # To the left the integrand falls like e^t, to the right like e^{−rank·t/2}; then cut what is negligible for all i.
    t = np.arange(-math.log(rank) - _NEGLIGIBLE - 8, -logs[0] + 2 * (_NEGLIGIBLE + 8) / rank + 2)
    shifted, product = integrand(t)
    height = -np.logaddexp(0.0, -shifted) + product[:, None]  # log of expit · Π
    kept = np.flatnonzero((height > height.max(axis=0) - _NEGLIGIBLE).any(axis=1))
    t = np.arange(t[kept[0]] - 1, t[kept[-1]] + 1 + _STEP, _STEP / 2)
    shifted, product = integrand(t)
    # λ dθ/(1 + 2θλ) = ½ expit(t + log λ) dt
    values = expit(shifted) * np.exp(product)[:, None]
    first, second = 0.5 * _STEP * values[::2].sum(axis=0), 0.5 * _STEP * values[1::2].sum(axis=0)
    # Rounding: exp(a + b) has the absolute errors of a and b as its relative error.
    rounding = 0.25 * _STEP * _EPS * (values * (np.abs(product)[:, None] + np.abs(shifted) + 8.0)).sum(axis=0)
    error: Floats = 0.5 * np.abs(first - second) + rounding
    return 0.5 * (first + second), error


def spectrum_chain(eigenvalues: ArrayLike, depth: int) -> SpectrumMap:
    """The spectrum through layers of infinite width with batch norm: `λ ← p(λ)` iterated.

    Layer 0 is the input scaled to trace 1. A spectrum of rank r tends to r eigenvalues of 1/r: the infinitely wide
    network orthogonalises.

    Args:
        eigenvalues: `(…, n)`, λ ≥ 0, not all zero.
        depth: layers.

    Returns:
        Eigenvalues and errors, both `(…, depth + 1, n)`. An error is that of its own layer's map; the map contracts
        differences of logarithms, so that errors of earlier layers fade.

    Example:
        >>> chain = spectrum_chain([1.0, 1e-12], 12).eigenvalues
        >>> chain[1].round(9).tolist(), chain[12].round(3).tolist()
        ([0.999999, 1e-06], [0.502, 0.498])

    Implements: 003/p-map, 001/eq-A.10, 003/thm-1 (d = ∞).
    """
    check_depth(depth)
    state = np.asarray(eigenvalues, dtype=np.float64)
    spectrum_map(state)  # checks the input
    # By the largest first, so that the sum of huge numbers is finite.
    state = state / state.max(axis=-1, keepdims=True)
    state = state / state.sum(axis=-1, keepdims=True)
    layers, errors = [state], [np.zeros_like(state)]
    for _ in range(depth):
        state, error = spectrum_map(state)
        layers.append(state)
        errors.append(error)
    return SpectrumMap(np.stack(layers, axis=-2), np.stack(errors, axis=-2))


def ratio_expectation(slope: Callable[[Floats], Floats]) -> NumericalEstimate:
    """Expectation of a ratio from the joint moment generating function.

    `E[X₂ / X₁] = ∫_{−∞}^0 ∂φ/∂θ₂ (θ₁, 0) dθ₁` with `φ(θ₁, θ₂) = E exp(θ₁ X₁ + θ₂ X₂)`, X₁ > 0.

    Args:
        slope: θ₁ ↦ ∂φ/∂θ₂ (θ₁, 0) on arrays of θ₁ < 0, which is `E[X₂ exp(θ₁ X₁)]`.

    Returns:
        The expectation and an estimate of its error.

    Example:
        >>> # X₁ = χ² with 5 degrees of freedom, X₂ one of its five squares: E = 1/5
        >>> share = ratio_expectation(lambda t: (1 - 2 * t) ** -1.5 * (1 - 2 * t) ** -2.0)
        >>> abs(share.value - 0.2) < 1e-13
        True

    Implements: 001/lem-A.6, 003/lem-9.
    """

    from scipy.integrate import tanhsinh  # takes longer to load than the rest of a diagnosis

    def mirrored(theta: Floats) -> Floats:
        return np.asarray(slope(-theta), dtype=np.float64)

    with np.errstate(all="ignore"):
        result = tanhsinh(mirrored, 0.0, math.inf, rtol=1e-14, atol=1e-300, maxlevel=12)
    value, error = float(result.integral), float(result.error)
    # Past 1e−14 the rule's own estimate is all that rounding leaves; an integral that diverges never gets near.
    if not math.isfinite(value) or not error <= 1e-8 * max(abs(value), 1e-300):
        raise IsometerError(
            f"the integral of the slope over θ₁ < 0 did not converge (value {value:.3g}, error {error:.3g}); "
            "expected a finite expectation E[X₂/X₁] and a slope smooth in θ₁ — check that the expectation exists"
        )
    return NumericalEstimate(value, max(error, 8 * _EPS * abs(value)))


def smallest_share_bound(deficit: float, n: int) -> float:
    """Lower bound of `p_n / σ_n²`, attained where all other eigenvalues are equal.

    `g(δ) = ∫_0^∞ (1 + 2θ (1/n − δ))^{−3/2} (1 + 2θ (1/n + δ/(n − 1)))^{−(n−1)/2} dθ` with δ = 1/n − σ_n², for a
    spectrum of trace 1. Convex, `g(0) = 1`, `g′(0) = 2n/(n + 2)`; at δ = 1/n it is `(n − 1)/(n − 3)`, infinite for
    n ≤ 3.

    Args:
        deficit: δ in [0, 1/n].
        n: samples, at least 2.

    Returns:
        g(δ), to about 1e−14 of itself.

    Example:
        >>> round(smallest_share_bound(0.0, 5), 12), smallest_share_bound(0.2, 5)
        (1.0, 2.0)

    Implements: 001/eq-A.11, 001/lem-A.7, 003/eq-16, 003/lem-10.
    """
    if n < 2 or not 0 <= deficit <= (1 + 4 * _EPS) / n:
        raise IsometerError(f"deficit is {deficit} with n = {n}; expected 0 ≤ deficit ≤ 1/n and n ≥ 2")
    smallest = 1 / n - deficit
    # the limit at δ = 1/n, where the ratio below would be 0/0
    if smallest <= _EPS / n:
        return (n - 1) / (n - 3) if n > 3 else math.inf
    others = 1 / n + deficit / (n - 1)
    shares, _ = _shares(np.log(np.array([smallest, others])), np.array([1, n - 1]))
    return float(shares[0]) / smallest


# --- Gram matrices without rescaling ---------------------------------------------------------------------------------


class GramChain(NamedTuple):
    """A batch through layers of infinite width, every layer in its own scale.

    The Gram matrix of layer ℓ is `exp(log_scale[ℓ]) · gram[ℓ]`, and likewise the squared distances between samples,
    which keep their relative precision where those read off the Gram matrix have lost it.
    """

    gram: Floats  # (depth + 1, n, n), of trace 1
    log_scale: Floats  # (depth + 1,)
    squared_distances: Floats  # (depth + 1, n, n)


def gram_map(gram: ArrayLike, activation: str | Activation, *, recenter: bool = False) -> Floats:
    """Gram matrix after one layer of infinite width without rescaling.

    `G ↦ E φ(h) φ(h)ᵀ` for h ~ N(0, G), or h ~ N(0, P G P) with `P = I − 11ᵀ/n` if the layer recentres. Multiply by
    `d σ²` for d neurons with weights of variance σ². For φ of slopes r, l on the two sides of 0,
    `√(q_i q_j) [(r − l)² (sin θ + (π − θ) cos θ)/(2π) + r l cos θ]`, θ the angle of h_i and h_j and q their variances;
    near θ = π the bracket is computed as sin ψ − ψ cos ψ, ψ = π − θ.

    Args:
        gram: `(n, n)`, positive semi-definite.
        activation: text or `Activation`. Positively homogeneous ones (`relu`, `leaky_relu(…)`, `abs`, `identity`, and
            multiples) take any Gram matrix, all others one whose diagonal is constant.
        recenter: subtract the batch mean before the activation.

    Returns:
        `(n, n)`.

    Example:
        >>> gram_map([[1.0, 0.0], [0.0, 1.0]], "relu").round(6).tolist()  # 1/2 and 1/(2π)
        [[0.5, 0.159155], [0.159155, 0.5]]
        >>> gram_map([[1.0, 0.0], [0.0, 1.0]], "relu", recenter=True).round(6).tolist()
        [[0.25, 0.0], [0.0, 0.25]]

    Implements: 000/eq-8, 000/eq-111.
    """
    phi = _activation(activation)
    matrix, scale = _checked_gram(gram)
    distances = _distances_of(matrix)
    if recenter:
        matrix = _recentred(distances)
    rays = as_two_rays(phi.expression)
    if rays is None:
        return _equal_variances(matrix * scale, phi)
    return scale * _two_ray_layer(np.diagonal(matrix), matrix, distances, *rays)[0]


def gram_chain(
    gram: ArrayLike, depth: int, activation: str | Activation = "relu", *, recenter: bool = True
) -> GramChain:
    """A batch through layers of infinite width without rescaling, the scale carried as a logarithm.

    `G ← K(P G P)`, the network of recentring and ReLU, by default. The state is the squared distances
    `D' = ((r² + l²)/2) D − ((r − l)²/π) √(q_i q_j) (sin θ − θ cos θ)`, which is free of cancellation for samples that
    approach each other, and recentring is a function of D alone. Samples may be permuted: results are permuted with
    them to the last bit, so that a symmetric batch stays symmetric.

    Args:
        gram: `(n, n)`, the input's, positive semi-definite.
        depth: layers.
        activation: a positively homogeneous one, text or `Activation`.
        recenter: subtract the batch mean before the activation.

    Returns:
        A `GramChain` over layers 0 … depth. A batch that becomes zero (all samples equal, recentred) stays so, with
        `log_scale` −inf.

    Example:
        >>> batch = np.random.default_rng(1).normal(size=(20, 12))
        >>> chain = gram_chain(batch @ batch.T / 12, 300)
        >>> lengths = np.sort(np.sqrt(np.diagonal(chain.gram[-1])))
        >>> bool(lengths[-1] > 17 * lengths[-2])  # one sample has left the others
        True

    Implements: 000/eq-8, 000/net-rc-relu, 000/odd-emergence, 000/remark-symmetric.
    """
    check_depth(depth)
    phi = _activation(activation)
    rays = as_two_rays(phi.expression)
    if rays is None:
        raise IsometerError(
            f"{phi.name} is not positively homogeneous; expected φ(c·x) = c·φ(x) for c > 0, which the logarithmic "
            "scale needs — use relu, leaky_relu, abs, identity or a multiple, or iterate gram_map"
        )
    kernel, size = _checked_gram(gram)
    distances = _distances_of(kernel)
    grams, scales, spreads, scale = [], [], [], math.log(size) if size > 0 else -math.inf
    for layer in range(depth + 1):
        # exactly rounded: the order of the samples must not show in the last bit
        trace = math.fsum(np.diagonal(kernel))
        factor = 1.0 / trace if trace > 0 else 0.0
        scale = scale + math.log(trace) if trace > 0 else -math.inf
        kernel, distances = kernel * factor, distances * factor
        grams.append(kernel)
        spreads.append(distances)
        scales.append(scale)
        if layer < depth:
            inner = _recentred(distances) if recenter else kernel
            kernel, distances = _two_ray_layer(np.diagonal(inner), inner, distances, *rays)
    return GramChain(np.array(grams), np.array(scales), np.array(spreads))


def _two_ray_layer(
    squares: Floats, inner: Floats, distances: Floats, right: float, left: float
) -> tuple[Floats, Floats]:
    """(Gram matrix, squared distances) after φ of these slopes."""
    size = np.sqrt(squares)[:, None] * np.sqrt(squares)[None, :]
    theta = _angles(squares, inner, distances)
    # (sin θ + (π − θ) cos θ)/(2π) = E relu relu
    rectified = _excess(math.pi - theta) / (2 * math.pi)
    kernel = size * ((right - left) ** 2 * rectified + right * left * np.cos(theta))
    np.fill_diagonal(kernel, (right**2 + left**2) / 2 * squares)
    drop = (right - left) ** 2 / math.pi * size * _excess(theta)
    spread = np.maximum((right**2 + left**2) / 2 * distances - drop, 0.0)
    np.fill_diagonal(spread, 0.0)
    return kernel, spread


def _angles(squares: Floats, inner: Floats, distances: Floats) -> Floats:
    """Angles between vectors with these squared lengths, inner products and squared distances.

    From the cosine, or for neighbours of similar length from sin²(θ/2) = (D − (‖x‖ − ‖y‖)²) / (4 ‖x‖‖y‖), whichever
    loses less. Zero vectors get π/2; whatever is made of it is multiplied by their length.
    """
    lengths = np.sqrt(squares)
    size = np.outer(lengths, lengths)
    cosine = np.clip(inner / np.where(size > 0, size, 1.0), -1.0, 1.0)
    difference = lengths[:, None] - lengths[None, :]
    # in units of ε the chord has the error D + |‖x‖² − ‖y‖²|, the cosine ‖x‖‖y‖
    near = distances + np.abs(difference) * (lengths[:, None] + lengths[None, :]) < size
    chord = np.clip((distances - difference**2) / np.where(size > 0, 4 * size, 1.0), 0.0, 1.0)
    sine, cosine_half = np.where(near, chord, (1 - cosine) / 2), np.where(near, 1 - chord, (1 + cosine) / 2)
    return np.asarray(2 * np.arctan2(np.sqrt(sine), np.sqrt(cosine_half)))


def _excess(theta: Floats) -> Floats:
    """sin θ − θ cos θ without cancellation at small θ, where it is θ³/3."""
    square = theta * theta
    series, term = np.zeros_like(theta), theta * square
    for k in range(1, 9):  # Σ (−1)^{k+1} 2k θ^{2k+1} / (2k + 1)!
        series = series + term * (2 * k / math.factorial(2 * k + 1))
        term = -term * square
    # below 0.7 eight terms are exact to rounding
    return np.asarray(np.where(theta < 0.7, series, np.sin(theta) - theta * np.cos(theta)))


def _recentred(distances: Floats) -> Floats:
    """Gram matrix of the samples minus their mean, from their squared distances: −½ P D P.

    ‖x_i − x̄‖² = mean_j D_ij − ½ mean_jk D_jk. Rows are summed in the order of their size, so that permuting the samples
    permutes the result exactly.
    """
    means = np.sort(distances, axis=1).sum(axis=1) / len(distances)
    squares = np.maximum(means - math.fsum(means) / (2 * len(means)), 0.0)
    return np.asarray((squares[:, None] + squares[None, :] - distances) / 2)


def _distances_of(gram: Floats) -> Floats:
    squares = np.diagonal(gram)
    # two differences: each is exact for samples close to each other
    values = np.maximum((squares[:, None] - gram) + (squares[None, :] - gram), 0.0)
    values = (values + values.T) / 2
    np.fill_diagonal(values, 0.0)
    return np.asarray(values)


def _equal_variances(matrix: Floats, phi: Activation) -> Floats:
    squares = np.diagonal(matrix)
    variance = float(squares.mean())
    spread = float(squares.max() - squares.min())
    if spread > _EQUAL * variance:
        raise IsometerError(
            f"the pre-activations have variances from {squares.min():.6g} to {squares.max():.6g} and {phi.name} is not "
            "positively homogeneous; expected equal variances for such activations — scale the samples to one length, "
            "or use relu, leaky_relu, abs or identity"
        )
    if variance == 0:
        return np.full_like(matrix, float(phi(0.0)) ** 2)
    correlations = np.clip(matrix / variance, -1.0, 1.0)
    np.fill_diagonal(correlations, 1.0)
    return np.asarray(phi.gain(math.sqrt(variance)).kernel(correlations), dtype=np.float64)


def _activation(given: str | Activation) -> Activation:
    return given if isinstance(given, Activation) else activation(given)


def _checked_gram(gram: ArrayLike) -> tuple[Floats, float]:
    """The matrix divided by its largest entry, and that entry."""
    matrix = np.array(gram, dtype=np.float64)
    if matrix.ndim != 2 or matrix.shape[0] != matrix.shape[1] or matrix.size == 0:
        raise IsometerError(f"gram has shape {matrix.shape}; expected (n, n) — pass H Hᵀ / d")
    if not np.isfinite(matrix).all():
        raise IsometerError("gram has NaN or infinite entries; expected finite numbers — drop those samples")
    size = float(np.abs(matrix).max())
    if size == 0:
        return matrix, 0.0
    matrix = matrix / size
    if float(np.abs(matrix - matrix.T).max()) > 1e-10:
        raise IsometerError("gram is not symmetric; expected H Hᵀ / d — symmetrise it as (G + Gᵀ)/2 if rounding did it")
    matrix = (matrix + matrix.T) / 2
    smallest = float(np.linalg.eigvalsh(matrix)[0])
    if smallest < -1e-10 * len(matrix):
        raise IsometerError(
            f"gram has the eigenvalue {smallest * size:.3g}; expected a positive semi-definite matrix — pass H Hᵀ / d"
        )
    return np.asarray(matrix), size


def check_depth(depth: int) -> None:
    """Refuse a depth below 0."""
    if depth < 0:
        raise IsometerError(f"depth is {depth}; expected a whole number of at least 0")
