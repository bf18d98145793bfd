"""Growth of gradients per layer under batch norm, at the exchangeable fixed point of infinite width.

Write x = φ(BN(h)), h = Wx' with x' of Gram matrix G* = aI + b11ᵀ, and Γ for the Gram matrix (over features) of the
gradient by x. Per neuron the gradient by h is `√n/‖Mh‖ (M − uuᵀ) D δ`, D = diag φ′(√n u), δ ~ N(0, Γ) independent of
h, and ‖Mh‖² = a χ²_{n−1} is independent of u with E 1/χ²_{n−1} = 1/(n−3), so that the gradient by x' has

    Γ' = n/(a(n−3)) E[(M − uuᵀ) D Γ D (M − uuᵀ)].

The map is positive and commutes with permutations, and its image annihilates 1: its Perron eigenvector is Γ ∝ M, and
the eigenvalue is the trace of the image of M over n−1.
"""

from __future__ import annotations

import math

import numpy as np
from scipy.special import gammainc, gammaincinv

from isometer.activations import Activation
from isometer.activations._closed_forms import as_two_rays
from isometer.errors import IsometerError
from isometer.spec import Norm
from isometer.theory.batch_norm._fixed_points import batch_norm_fixed_point
from isometer.theory.batch_norm._mixture import Mixture
from isometer.theory.batch_norm._moments import batch_moments, is_flat, slope_of
from isometer.theory.batch_norm._norm_after_activation import backward_matrix
from isometer.theory.batch_norm._parts import Kind, Parts, Position, checked_samples
from isometer.theory.batch_norm._sampling import quasi_expectation
from isometer.theory.batch_norm._shared_mean import SharedMean
from isometer.theory.batch_norm._sphere import Floats, SphereRule

__all__ = ["gradient_growth"]

_ROUGH = 1e-3  # relative error of the squared factor that integrals may have


def gradient_growth(
    source: str | Activation, n: int | float, *, norm: str | Norm = "batch", position: Position = "pre"
) -> float:
    """Log of the factor by which the norm of the gradient grows per layer towards the input, at infinite width.

    Half the log of `n/(a(n−1)(n−3)) E tr[D M D (M − uuᵀ)]`, D = diag φ′(√n u), for full batch norm before the
    activation, weights of variance 1/width, at the fixed point G* = aI + b11ᵀ. For the identity the squared norm grows
    by (n−2)/(n−3); for any φ with n → ∞ by E φ′(X)²/Var φ(X), which is π/(π−1) for ReLU. The parts of batch norm have
    counterparts at their own fixed points: recentring alone ((n−1) E φ′² + E φ′φ′)/n, and without recentring the larger
    eigenvalue of a 2×2 matrix, since gradients along 1 then pass.

    Where a local rate around G* exceeds 1 (`local_rates`; GELU, SiLU and softplus in batches of a few dozen and more,
    powers and exp earlier) deep networks leave G* and the value holds for layers before they do.

    Args:
        source: the activation.
        n: samples in the batch, at least 2, or `inf` for the limit under full batch norm. Two samples pass no gradient
            through full batch norm (−inf): both are ±1 whatever they were. With three the mean square of the gradient
            is infinite (inf), as 1/‖Mh‖² has no mean; a network of finite width d grows by a factor that rises with d.
        norm: `"batch"`, `"batch-recenter"`, `"batch-rescale"`, `"batch-rescale-std"` or a `Norm` of these.
        position: the norm before (`"pre"`) or after (`"post"`) the activation. After it, integrals are good to six
            digits and more from about n = 12; in smaller batches full batch norm is sampled (three digits).

    Returns:
        The log-factor: −inf if no gradient passes (step functions), inf if its mean square is infinite: φ′ is not
        square-integrable, or a rescaling norm follows an activation with a dead zone in which all samples can be but
        two close to its edge, so that the norm divides by next to nothing (ReLU and no recentring; with recentring the
        features that enter ReLU sum to 0 over the batch, and the value is finite). Raises `IsometerError` where there
        is no fixed point.

    Example:
        >>> round(2 * gradient_growth("identity", 10), 12) == round(math.log(8 / 7), 12)
        True
        >>> gradient_growth("relu", 3), gradient_growth("sign", 10)
        (inf, -inf)
        >>> round(2 * gradient_growth("identity", 10, norm="batch-rescale"), 9) == round(math.log(9 / 8), 9)
        True
        >>> gradient_growth("relu", 12, norm="batch-rescale", position="post")
        inf

    Implements: 001/claim-6.gauss, 001/map-3.3 (backward).
    """
    if n == math.inf:
        parts = Parts.of(source, norm, position)
        if parts.kind != "full":
            raise IsometerError(f"n is inf with norm {norm!r}; expected norm 'batch' for it — pass a number n")
        slope = parts.phi.moments["slope_second"].value
        return _half_log(slope / parts.phi.variance) if slope > 0 else -math.inf
    count = checked_samples(int(n) if int(n) == n else n)  # type: ignore[arg-type]
    parts = Parts.of(source, norm, position, count)
    if parts.kind == "recenter":
        return _recentred(parts, count)
    if parts.kind == "full":
        return _full_before(parts.phi, count) if position == "pre" else _full_after(parts.phi, count)
    if position == "post":
        return _rescaled_after(parts.phi, parts.kind, count, norm)
    return _rescaled(parts.phi, parts.kind, count)


def _full_before(phi: Activation, n: int) -> float:
    if n == 2:
        return -math.inf
    moments = batch_moments(phi, n)
    backward = moments.backward.value
    if backward == 0.0:
        return -math.inf
    if n == 3 or math.isinf(backward):
        return math.inf
    return _half_log(backward / (moments.spread.value * (n - 3)))


def _full_after(phi: Activation, n: int) -> float:
    """x = BN(φ(h)), h ~ N(0, n/(n−1) M): Γ' = E[D J Γ J D], the M-part of which is Γ'_ii − Γ'_ij."""
    if n == 2 or is_flat(phi, 9.0):
        return -math.inf
    rays = as_two_rays(phi.expression)
    if rays is not None and rays[0] == rays[1]:
        return _full_before(phi, n)  # linear: before and after are the same
    matrix, error = backward_matrix(SharedMean(phi, n, n / (n - 1), 0.0), "full")
    value = float(matrix[0, 0])
    return _half_log(value) if error < _ROUGH * value else _full_after_sampled(phi, n)


def _rescaled_after(phi: Activation, kind: Kind, n: int, norm: str | Norm) -> float:
    """The larger eigenvalue of what a layer makes of the parts of Γ along M and 11ᵀ, at the fixed point."""
    point = batch_norm_fixed_point(phi, n, norm=norm, position="post")
    if is_flat(phi, 9.0):
        return -math.inf
    law = SharedMean(phi, n, *point.eigenvalues, 1e-12 if kind == "rms" else 1e-7)
    matrix, error = backward_matrix(law, "rms" if kind == "rms" else "std")
    if not np.isfinite(matrix).all():
        return math.inf
    value = float(np.max(np.linalg.eigvals(matrix).real))
    if not error < _ROUGH * value:
        raise IsometerError(
            f"the integrals for {phi.name} with norm after it in batches of {n} did not converge (error {error:.2g} of "
            f"{value:.4g}); expected a larger batch or a smoother activation — simulate it instead"
        )
    return _half_log(value)


def _full_after_sampled(phi: Activation, n: int, samples: int = 1 << 16) -> float:
    """As `_full_after`, by quasi-Monte Carlo: three digits.

    1/‖Mφ(h)‖² has a pole at h = 0. With R² ~ χ²_{n−1} the squared length, E f = E R² f/(n−3) under χ²_{n−3} cancels it.
    """

    def difference(batch: Floats) -> Floats:
        length = np.maximum((batch * batch).sum(axis=1, keepdims=True) * (n - 1) / n, 1e-300)
        # the same quantile under χ²_{n−3}: directions stay as they are
        shorter = 2 * gammaincinv((n - 3) / 2, gammainc((n - 1) / 2, length / 2))
        # far out gammainc rounds to 1, and its inverse is inf
        shorter = np.where(np.isfinite(shorter), shorter, length)
        h = batch * np.sqrt(shorter / length)
        d = slope_of(phi, h)
        centred = np.asarray(phi(h))
        centred = centred - centred.mean(axis=1, keepdims=True)
        square = (centred * centred).sum(axis=1)
        inverse = np.where(square > 0, 1.0 / np.where(square > 0, square, 1.0), 0.0)
        # trace and sum of all entries of D(M − ccᵀ/‖c‖²)D
        own = (d * d).sum(axis=1) * (1 - 1 / n) - (centred * centred * d * d).sum(axis=1) * inverse
        total = (d * d).sum(axis=1) - d.sum(axis=1) ** 2 / n - (centred * d).sum(axis=1) ** 2 * inverse
        return np.asarray([np.mean(shorter[:, 0] / (n - 3) * inverse * (own - (total - own) / (n - 1)))])

    value = float(quasi_expectation(difference, n / (n - 1) * (np.eye(n) - 1 / n), samples=samples)[0][0])
    return _half_log(value)


def _recentred(parts: Parts, n: int) -> float:
    """Γ' = E[M D Γ D M] (or D M Γ M D): both multiply the M-part by ((n−1) E φ′² + E φ′φ′)/n."""
    phi, variance = parts.phi, 1.0
    if as_two_rays(phi.expression) is None:
        point = batch_norm_fixed_point(phi, n, norm="batch-recenter")
        variance = max(point.eigenvalues[0], 1e-12) * (n - 1) / n
    root = math.sqrt(variance)

    def slope(x: Floats) -> Floats:
        return slope_of(phi, root * x)

    rule = SphereRule(math.inf, -1.0 / (n - 1), [slope], [kink / root for kink in phi.kinks], phi.name)
    own = rule.single(lambda x: slope(x) ** 2).value
    opposite = n == 2  # two centred samples are each other's negative
    cross = rule.single(lambda x: slope(x) * slope(-x)) if opposite else rule.pairs([slope], [(0, 0)])[0]
    return _half_log(((n - 1) * own + cross.value) / n)


def _rescaled(phi: Activation, kind: Kind, n: int) -> float:
    """Without recentring Γ = αM + β11ᵀ/n stays of this form; (α, β) are multiplied by a positive matrix.

    `tr(X Γ'(Y)) = E[n/‖Bh‖² tr(J X Jᵀ D Y D)]` for X, Y among I and P = 11ᵀ/n, with `J X Jᵀ` as follows. Divided by the
    root mean square: I ↦ I − yyᵀ/n, P ↦ wwᵀ, w = cos γ (cos γ − sin γ v)/√n. By the centred deviation: P ↦ P and
    M ↦ M − vvᵀ/n + tan² γ P.
    """
    if kind == "rms" and n == 2:
        return math.inf
    if kind == "std" and n <= 3:
        return math.inf
    point = batch_norm_fixed_point(phi, n, norm="batch-rescale" if kind == "rms" else "batch-rescale-std")
    across, along = point.eigenvalues
    powers = [(0, 0), (0, 1), (1, 1)]
    table = Mixture(
        n, "rms" if kind == "rms" else "std", lambda y: slope_of(phi, y), phi.kinks, (powers, powers), phi.name, 1e-8
    )
    tau, gamma, weight = table.rule(along / across)
    own = n * table.given(gamma)[:, :3].T  # Σ d², Σ v d², Σ v² d²
    sums = own + n * (n - 1) * table.given(gamma)[:, 3:].T  # (Σ d)², Σ d Σ v d, (Σ v d)²
    c, k = np.sin(gamma), np.cos(gamma)
    if kind == "rms":
        inverse = n / ((n - 2) * across) * (k / np.cos(tau)) ** 2  # n E 1/‖h‖² given the direction
        squares = c * c * own[0] + 2 * c * k * own[1] + k * k * own[2]  # Σ y² d²
        sum_square = c * c * sums[0] + 2 * c * k * sums[1] + k * k * sums[2]  # (Σ y d)²
        all_all, all_mean = own[0] - squares / n, own[0] / n - sum_square / n**2
        mean_all = k * k / n * (k * k * own[0] - 2 * c * k * own[1] + c * c * own[2])
        mean_mean = k * k / n**2 * (k * k * sums[0] - 2 * c * k * sums[1] + c * c * sums[2])
    else:
        inverse = n / ((n - 2) * across) / np.cos(tau) ** 2  # n E 1/‖Mh‖²
        mean_all, mean_mean = own[0] / n, sums[0] / n**2
        shifted = (c / k) ** 2 + 1.0
        all_all = own[0] * (1 - 1 / n) - own[2] / n + shifted * mean_all
        all_mean = own[0] / n - sums[0] / n**2 - sums[2] / n**2 + shifted * mean_mean
    parts = [float(np.sum(weight * inverse * term)) for term in (all_all, all_mean, mean_all, mean_mean)]
    to_all = parts[0] - parts[1], parts[1]  # from M, from P
    to_mean = parts[2] - parts[3], parts[3]
    matrix = np.array([[(to_all[0] - to_mean[0]) / (n - 1), (to_all[1] - to_mean[1]) / (n - 1)], to_mean])
    # a positive matrix: its largest eigenvalue is real (Perron)
    return _half_log(float(np.max(np.linalg.eigvals(matrix).real)))


def _half_log(square: float) -> float:
    return 0.5 * math.log(square) if square > 0 else -math.inf
