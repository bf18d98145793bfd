"""What finite width adds: the law of the Gram matrix of each layer, to leading order in 1/width.

Given the Gram matrix K that enters the weights, the d features of a layer are independent, h ~ N(0, V) with V = wK + b.
The next Gram matrix is a mean over them, `K' = T(K) + ξ/√d`, so that its covariance follows `Σ' = 𝒥Σ𝒥ᵀ + C/d`, 𝒥 the
derivative of T and C the covariance of ξ, and its mean `m' = E T(m + Δ)`, Δ of covariance Σ. 𝒥 is taken along paths:
a perturbation dV moves h by ½ dV V⁻¹h. Norms over features read means x̄ and mean squares of the features themselves;
what their fluctuation does to the layer is added to ξ and to 𝒥. Haar weights keep `Σ hhᵀ`: the part of ξ that is
linear in hhᵀ falls away.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from isometer.errors import IsometerError
from isometer.theory.prediction.columns import (
    Affine,
    Columns,
    NormalizeBatch,
    Operation,
    evaluate,
    evaluate_with_jacobian,
    seen_covariance,
)
from isometer.theory.prediction.forward import Forward
from isometer.theory.prediction.points import gaussian_batches, spectrum_of, standard_points

Floats = NDArray[np.float64]
LARGEST = 24
"""Samples beyond which the covariance of a Gram matrix is not computed."""

_POINTS = 1 << 12
_SHIFT_POINTS = 1 << 11
_SHIFT_DRAWS = 32
_SAME = 2e-2  # relative change of the mean Gram matrix, in any direction, beyond which derivatives are computed anew


@dataclass(frozen=True)
class Response:
    """𝒥 and C of a layer, over matrices flattened to n² entries."""

    derivative: Floats  # (n², n²), by V
    noise: Floats  # (n², n²), for one feature


@dataclass(frozen=True)
class GramLaw:
    """The law of the Gram matrix of a layer: `e^{s_i + s_j} C_ij`, C of given mean and covariance, s Gaussian.

    s is 0 unless the chain has no scale of its own (`Spec.homogeneity` 1). Then it is what depth over width makes a
    random walk: one s for all samples and C of trace n, or, where layers commute with the scale of each sample, one
    for each and C of unit diagonal.
    """

    mean: Floats  # (n, n)
    covariance: Floats  # (n², n²)
    log_scale: Floats  # (n,)
    log_covariance: Floats  # (n, n)
    cross: Floats  # (n², n)
    exact: Literal["trace", "diagonal"] | None = None  # what a norm keeps in every draw

    @classmethod
    def certain(cls, gram: Floats) -> GramLaw:
        """A Gram matrix that is known.

        Example:
            >>> GramLaw.certain(np.eye(2)).covariance.shape
            (4, 4)
        """
        n = len(gram)
        return cls(gram, np.zeros((n * n, n * n)), np.zeros(n), np.zeros((n, n)), np.zeros((n * n, n)))

    def resembles(self, other: GramLaw) -> bool:
        """Whether mean and covariance differ by little."""
        return _resembles(self.mean, other.mean) and _alike(self.covariance, other.covariance, 5e-2)

    def equals(self, other: GramLaw) -> bool:
        """Whether the two differ by no more than theory is good for."""
        scales = _alike(self.log_scale, other.log_scale, 1e-4) and _alike(
            self.log_covariance, other.log_covariance, 5e-3
        )
        return _resembles(self.mean, other.mean, 1e-3) and _alike(self.covariance, other.covariance, 5e-3) and scales

    def draws(self, count: int) -> tuple[Floats, Floats]:
        """Matrices of this law `(count, n, n)`, and the mean of s `(count,)`, which they leave out.

        Positive semi-definite ones: `m^{1/2} exp(S) m^{1/2}`, S Gaussian, which is Gaussian to leading order.

        Example:
            >>> GramLaw.certain(np.eye(2)).draws(4)[0].shape
            (4, 2, 2)
        """
        n = len(self.mean)
        values, vectors = np.linalg.eigh(self.mean)
        kept = values > 1e-12 * max(float(values[-1]), 0.0)
        if not kept.any():
            return np.zeros((count, n, n)), np.full(count, float(self.log_scale.mean()))
        k = int(kept.sum())
        root = vectors[:, kept] * np.sqrt(values[kept])
        inverse = vectors[:, kept] / np.sqrt(values[kept])
        both = np.kron(inverse, inverse)  # S = root⁺ Δ root⁺ᵀ, flattened
        joint = np.block(
            [
                [both.T @ self.covariance @ both, both.T @ self.cross],
                [self.cross.T @ both, self.log_covariance],
            ]
        )
        size, directions = np.linalg.eigh((joint + joint.T) / 2)
        alive = size > 1e-10 * max(float(size[-1]), 1e-290)
        drawn = _normals(count, int(alive.sum())) @ (directions[:, alive] * np.sqrt(size[alive])).T
        s = drawn[:, : k * k].reshape(count, k, k)
        s = (s + np.swapaxes(s, 1, 2)) / 2
        s = s - np.mean(s @ s, axis=0) / 2  # so that the mean stays, to second order
        eigenvalues, turned = np.linalg.eigh(s)
        grown = np.exp(np.clip(eigenvalues, -300.0, 300.0))
        left = root @ turned
        shapes = self._kept((left * grown[:, None, :]) @ np.swapaxes(left, 1, 2))
        scales = self.log_scale + drawn[:, k * k :]
        common = scales.mean(axis=1)
        own = np.exp(np.clip(scales - common[:, None], -300.0, 300.0))
        return shapes * own[:, :, None] * own[:, None, :], common

    def _kept(self, shapes: Floats) -> Floats:
        """Draws with the trace or the diagonal of the mean, where a norm fixes it."""
        if self.exact == "trace":
            traces = np.trace(shapes, axis1=1, axis2=2)
            return np.asarray(shapes * (np.trace(self.mean) / np.where(traces > 0, traces, 1.0))[:, None, None])
        if self.exact == "diagonal":
            own = np.diagonal(shapes, axis1=1, axis2=2)
            sizes = np.sqrt(np.diag(self.mean) / np.where(own > 0, own, 1.0))
            return np.asarray(shapes * sizes[:, :, None] * sizes[:, None, :])
        return shapes

    def unscaled(self, *, each: bool) -> GramLaw:
        """With the size of the matrix moved into s, to second order: of each sample, or of all together.

        With t the sizes, b = dt/t and a = dG_ij/√(t_i t_j): `dC_ij = a − ½C_ij(b_i + b_j)` and
        `E C_ij = C_ij − ½E a(b_i + b_j) + C_ij E(⅜b_i² + ⅜b_j² + ¼b_i b_j)`.
        """
        n = len(self.mean)
        sizes = np.diag(self.mean) if each else np.full(n, float(np.trace(self.mean)) / n)
        sizes = np.where(sizes > 0, sizes, 1.0)
        root = np.sqrt(np.outer(sizes, sizes))
        shape = self.mean / root
        read = np.zeros((n, n, n))  # b from dG
        if each:
            read[np.arange(n), np.arange(n), np.arange(n)] = 1.0 / sizes
        else:
            read[:] = np.eye(n) / (n * sizes[0])
        reading = read.reshape(n, n * n)
        spread = reading @ self.covariance @ reading.T  # of b
        mixed = (self.covariance @ reading.T).reshape(n, n, n) / root[:, :, None]  # of a and b
        diagonal = np.diag(spread)
        first = np.arange(n)[:, None]
        second = np.arange(n)[None, :]
        paired = mixed[first, second, first] + mixed[first, second, second]
        curved = 0.375 * (diagonal[:, None] + diagonal) + 0.25 * spread
        halves = np.zeros((n, n, n))  # ½C_ij(b_i + b_j), by b
        halves[first, second, first] += shape / 2
        halves[first, second, second] += shape / 2
        moved = np.diag(1.0 / root.ravel()) - halves.reshape(n * n, n) @ reading
        back = reading @ self.cross / 2  # of ½b and s
        return GramLaw(
            shape - 0.5 * paired + shape * curved,
            moved @ self.covariance @ moved.T,
            self.log_scale + 0.5 * (np.log(sizes) - 0.5 * diagonal),
            self.log_covariance + back + back.T + 0.25 * spread,
            moved @ self.cross + 0.5 * moved @ self.covariance @ reading.T,
        )


@lru_cache(maxsize=16)
def _normals(count: int, dimensions: int) -> Floats:
    """Normals that come with their negatives, and where there are enough of them with unit covariance."""
    half = np.random.default_rng(7).standard_normal((max(count // 2, 1), dimensions))
    if dimensions and len(half) > 2 * dimensions:
        values, vectors = np.linalg.eigh(half.T @ half / len(half))
        half = half @ (vectors / np.sqrt(values)) @ vectors.T
    return np.concatenate([half, -half])[:count] if count > 1 else half


def gram_laws(forward: Forward, start: Floats, *, is_gram: bool = True) -> list[GramLaw]:
    """The law of the Gram matrix of every layer of a network of the spec's own widths, the input first.

    Args:
        forward: the network, without skips.
        start: Gram matrix of the input, or the batch `(n, d)`.
        is_gram: which of the two.

    Returns:
        `layers + 1` laws.

    Example:
        >>> from isometer import Spec
        >>> laws = gram_laws(Forward(Spec(width=100, depth=2, activation="identity")), np.ones((1, 1)))
        >>> [round(float(4 * law.log_covariance[0, 0]), 3) for law in laws]  # of log ‖h‖²: 2/d per layer
        [0.0, 0.02, 0.04]

    Implements: 001/thm-3.2 (fluctuations of every layer), 001/claim-1.grad (depth over width).
    """
    reason = band_gap(forward)
    if reason is not None:
        raise IsometerError(f"no finite-width theory: {reason} — simulate it instead")
    spec = forward.spec
    gram = start if is_gram else start @ start.T / start.shape[-1]
    first = GramLaw.certain(gram)
    responses = _Responses(forward)
    state = responses.unscaled(first)
    laws = [state]
    if not is_gram and forward.early:
        given = start.T * np.exp(-state.log_scale)
        values = evaluate(forward.operations_of_given(given), given)
        state = replace(state, mean=values.T @ values / len(values))
    elif forward.early:
        state = replace(state, mean=forward.statistics(forward.after(Columns(state.mean), forward.early, 1))[0])
    for layer in range(1, spec.layers + 1):
        if not np.abs(state.mean).max() < 1e150:
            break
        observed = responses.step(state, layer, early=False)
        laws.append(observed)
        if layer < spec.layers:
            state = responses.step(state, layer, early=True) if forward.early else observed
    return laws


def band_gap(forward: Forward) -> str | None:
    """Why there is no law of Gram matrices at finite width; None if there is."""
    if forward.spec.has_skip:
        return "with skip connections the features of a layer are not independent given the Gram matrix before"
    if forward.spec.phi.jumps:
        return f"{forward.spec.phi.name} jumps, and the derivative of its Gram map is taken along paths"
    return None


class _Responses:
    """Steps from law to law; derivatives are kept while the mean stays where it is."""

    def __init__(self, forward: Forward) -> None:
        self.forward = forward
        self._kept: dict[bool, tuple[Floats, tuple[float, ...], Response]] = {}
        self._shifts: dict[bool, tuple[GramLaw, tuple[float, ...], Floats]] = {}

    def step(self, law: GramLaw, layer: int, *, early: bool) -> GramLaw:
        """From the law of what enters the weights to that of the output, or of what enters the next weights."""
        forward, spec = self.forward, self.forward.spec
        weight = forward.weight_variance(layer)
        covariance = weight * law.mean + spec.bias_variance
        pre = Columns(covariance)
        operations = forward.operations(pre, layer, early=early)
        response = self._response(covariance, operations, layer, early)
        width = spec.widths[layer - 1]
        moved = weight * response.derivative
        spread = moved @ law.covariance @ moved.T + response.noise / width
        mean = forward.statistics(_folded(pre, operations))[0] + self._shift(law, weight, layer, early)
        law = GramLaw(mean, spread, law.log_scale, law.log_covariance, moved @ law.cross, _exact(operations))
        return self.unscaled(law)

    def unscaled(self, law: GramLaw) -> GramLaw:
        """The law with scales apart if the chain has none of its own."""
        spec = self.forward.spec
        return law.unscaled(each=spec.norm is None) if spec.homogeneity == 1 else law

    def _setting(self, layer: int) -> tuple[float, ...]:
        """What a layer has of its own besides the batch that it sees."""
        spec = self.forward.spec
        fan_in, fan_out = spec.fan_in[layer - 1], spec.widths[layer - 1]
        haar = min(1.0, fan_out / fan_in) if spec.weights.startswith("orthogonal") else 0.0
        gains = spec.at("activation_gain", layer), spec.at("activation_gain", min(layer + 1, spec.layers))
        return haar, *gains, spec.output_scale(layer), self.forward.weight_variance(layer)

    def _response(self, covariance: Floats, operations: tuple[Operation, ...], layer: int, early: bool) -> Response:
        setting = self._setting(layer)
        known = self._kept.get(early)
        if known is None or known[1] != setting or not _resembles(known[0], covariance):
            known = covariance, setting, response_of(operations, covariance, setting[0])
            self._kept[early] = known
        return known[2]

    def _shift(self, law: GramLaw, weight: float, layer: int, early: bool) -> Floats:
        """E T(m + Δ) − T(m), by the same points for both."""
        forward, spec = self.forward, self.forward.spec
        n = len(law.mean)
        if not law.covariance.any() or (spec.is_linear and spec.norm is None):
            return np.zeros((n, n))
        setting = self._setting(layer)
        known = self._shifts.get(early)
        if known is not None and known[1] == setting and known[0].resembles(law):
            return known[2]
        z = standard_points(_SHIFT_POINTS, n)

        def sampled(gram: Floats) -> Floats:
            covariance = weight * gram + spec.bias_variance
            operations = forward.operations(Columns(covariance), layer, early=early)
            values, vectors = np.linalg.eigh(seen_covariance(operations, covariance))
            y = evaluate(operations, z @ ((vectors * np.sqrt(np.maximum(values, 0.0))) @ vectors.T))
            return np.asarray(y.T @ y / len(y))

        plain = replace(GramLaw.certain(law.mean), covariance=law.covariance)
        base = sampled(law.mean)
        found = np.asarray(np.mean([sampled(draw) - base for draw in plain.draws(_SHIFT_DRAWS)[0]], axis=0))
        self._shifts[early] = law, setting, found
        return found


def _alike(one: Floats, other: Floats, tolerance: float) -> bool:
    return bool(np.abs(one - other).max() <= tolerance * np.abs(other).max())


def _resembles(one: Floats, other: Floats, tolerance: float = _SAME) -> bool:
    """Whether two covariances differ by little in every direction, the small ones included."""
    values, vectors = spectrum_of(one)
    if not len(values):
        return not other.any()
    half = vectors / np.sqrt(values)
    return bool(np.abs(half.T @ other @ half - np.eye(len(values))).max() <= tolerance)


def _exact(operations: tuple[Operation, ...]) -> Literal["trace", "diagonal"] | None:
    """What the last step fixes whatever the draw: all of the trace, or the length of every sample."""
    rest = [o for o in operations if not isinstance(o, Affine) or o.statistics is not None]
    last = rest[-1] if rest else None
    if isinstance(last, NormalizeBatch):
        norm = last.norm
        fixed = norm.rescale and norm.eps == 0.0 and norm.shift == 0.0 and (norm.divisor == "std") == norm.recenter
        return "trace" if fixed else None
    if isinstance(last, Affine) and last.statistics is not None and last.offset == 0.0:
        read = last.statistics
        return "diagonal" if read.rescales and read.exact and read.deviates == read.recentres else None
    return None


def _folded(pre: Columns, operations: tuple[Operation, ...]) -> Columns:
    for operation in operations:
        pre = pre.then(operation)
    return pre


def response_of(operations: tuple[Operation, ...], covariance: Floats, haar: float) -> Response:
    """𝒥 and C of `V ↦ E yyᵀ`, y the operations applied to h ~ N(0, V).

    Args:
        operations: between two weights steps.
        covariance: V.
        haar: the share of the fluctuation of hhᵀ that the weights take away, 0 for independent entries.

    Example:
        >>> response = response_of((), np.eye(1), 0.0)
        >>> response.derivative.round(6).tolist(), response.noise.round(1).tolist()
        ([[1.0]], [[2.0]])
    """
    h, score = gaussian_batches(seen_covariance(operations, covariance), _POINTS)
    count, n = h.shape
    y, slope = evaluate_with_jacobian(operations, h)
    products = (y[:, :, None] * y[:, None, :]).reshape(count, n * n)
    derivative = _pathwise(slope, y, score, count, n)
    influence = products - products.mean(axis=0)
    place = next((k for k, operation in enumerate(operations) if _is_norm(operation)), None)
    if place is not None:
        norm = operations[place]
        assert isinstance(norm, Affine)
        x, x_slope = evaluate_with_jacobian(operations[:place], h)
        by_mean, by_square = _by_statistics(operations[place:], norm, x, y)
        square = x * x
        influence = influence + (x - x.mean(axis=0)) @ by_mean.T + (square - square.mean(axis=0)) @ by_square.T
        # how V moves the statistics themselves: E dx_a and E d(x_a²), dx_a = ½ x′_a dV_ab s_b
        first = np.zeros((n, n, n))
        second = np.zeros((n, n, n))
        each = np.arange(n)
        first[each, each] = 0.5 * x_slope.T @ score / count
        second[each, each] = (x_slope * x).T @ score / count
        derivative = derivative + by_mean @ first.reshape(n, n * n) + by_square @ second.reshape(n, n * n)
    derivative = derivative.reshape(n * n, n, n)
    derivative = ((derivative + np.swapaxes(derivative, 1, 2)) / 2).reshape(n * n, n * n)
    noise = influence.T @ influence / count
    if haar > 0.0:
        own = (h[:, :, None] * h[:, None, :]).reshape(count, n * n)
        own = own - own.mean(axis=0)
        cross = influence.T @ own / count
        noise = noise - haar * cross @ np.linalg.pinv(own.T @ own / count, rcond=1e-10, hermitian=True) @ cross.T
    return Response(derivative, (noise + noise.T) / 2)


def _is_norm(operation: Operation) -> bool:
    """Whether its constants are statistics of the features, not a plain factor."""
    return isinstance(operation, Affine) and operation.statistics is not None


def _pathwise(slope: Floats, y: Floats, score: Floats, count: int, n: int) -> Floats:
    """∂E y_i y_j/∂V_ab = ½ E J_ia y_j s_b + ½ E J_ja y_i s_b, `(n², n²)`."""
    right = (y[:, :, None] * score[:, None, :]).reshape(count, n * n)  # (j, b)
    if slope.ndim == 2:
        moments = (slope.T @ right).reshape(n, n, n) / count  # (i, j, b)
        half = np.zeros((n, n, n, n))  # (i, a, j, b)
        each = np.arange(n)
        half[each, each] = 0.5 * moments
    else:
        half = 0.5 * (slope.reshape(count, n * n).T @ right).reshape(n, n, n, n) / count
    return np.asarray((half.transpose(0, 2, 1, 3) + half.transpose(2, 0, 1, 3)).reshape(n * n, n * n))


def _by_statistics(operations: tuple[Operation, ...], norm: Affine, x: Floats, y: Floats) -> tuple[Floats, Floats]:
    """Derivatives `(n², n)` of E y_i y_j by the means and mean squares that a norm over features has read.

    With u = (x − m)c/s: `du = −(c/s) dm − u ds²/(2s²)`, ds² = d(mean square), less 2m dm where the mean is taken out.
    """
    n, read = x.shape[1], norm.statistics
    assert read is not None
    u = (x - norm.shift) * norm.scale
    rest = evaluate_with_jacobian(operations[1:], u + norm.offset)[1]  # entries, elementwise
    moved = -(rest * norm.scale).T @ y / len(x) * float(read.recentres)  # (a, j): E (dy_a/dm_a) y_j
    safe = np.where(read.square > 0, read.square, 1.0)[:, None]
    stretched = -(rest * u).T @ y / len(x) / (2 * safe) * float(read.rescales)
    if read.deviates:
        moved = moved - 2 * read.mean[:, None] * stretched
    by_mean, by_square = np.zeros((n, n, n)), np.zeros((n, n, n))  # (i, j, a)
    each = np.arange(n)
    for table, part in ((by_mean, moved), (by_square, stretched)):
        table[each, :, each] += part
        table[:, each, each] += part.T
    return by_mean.reshape(n * n, n), by_square.reshape(n * n, n)
