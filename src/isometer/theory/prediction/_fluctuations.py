"""What finite width adds: the law of the Gram matrix of each layer, to leading order in 1/width.

Given the Gram matrix K that enters the weights, the d features of a layer are independent, h ~ N(0, V) with V = wK + b.
The next Gram matrix is a mean over them, `K' = T(K) + ξ/√d`, so that its covariance follows `Σ' = 𝒥Σ𝒥ᵀ + C/d`, 𝒥 the
derivative of T and C the covariance of ξ, and its mean `m' = E T(m + Δ)`, Δ of covariance Σ. 𝒥 is taken along paths:
a perturbation dV moves h by ½ dV V⁻¹h; for activations that jump it is the derivative of the density instead. Norms
over features read means x̄ and mean squares of the features themselves; what their fluctuation does to the layer is
added to ξ and to 𝒥. Haar weights keep `Σ hhᵀ`: the part of ξ that is linear in hhᵀ falls away.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from isometer.errors import InfiniteMomentError, IsometerError
from isometer.theory.networks._columns import (
    Activate,
    Affine,
    Columns,
    NormalizeBatch,
    Operation,
    SplitJacobian,
    evaluate,
    evaluate_with_jacobian,
    evaluate_with_split_jacobian,
    seen_covariance,
)
from isometer.theory.networks._points import gaussian_batches, standard_points
from isometer.theory.prediction._forward import Forward
from isometer.theory.prediction._laws import GramLaw, resembles
from isometer.theory.prediction._symmetric import packed, packed_operator, pairs_of, unpacked

Floats = NDArray[np.float64]
LARGEST = 24
"""Samples beyond which the covariance of a Gram matrix is not computed."""

Site = tuple[bool, bool]
_POINTS = 1 << 11  # what they leave is less than what the draws behind a band do
_JUMP_POINTS = 1 << 14  # derivatives of the density are noisier than those along paths
_BLOCK = 1 << 9
_SHIFT_PAIRS = 64  # opposite Gram matrices behind a shift,
_SHIFT_POINTS = 1 << 12  # and points, each with one pair


@dataclass(frozen=True)
class Response:
    """𝒥 and C of a layer, over packed matrices (`_symmetric.py`)."""

    derivative: Floats  # by V
    noise: Floats  # for one feature


def gram_laws(
    forward: Forward,
    start: Floats,
    *,
    is_gram: bool = True,
    at: Literal["post", "pre"] = "post",
    progress: Callable[[int], None] | None = None,
) -> list[GramLaw]:
    """The law of the Gram matrix of every layer of a network of the spec's own widths, the input first.

    Args:
        forward: the network, without skips.
        start: Gram matrix of the input, or the batch `(n, d)`.
        is_gram: which of the two.
        at: of what layers hand on, or of what enters their activation.
        progress: called with the number of every layer that is done.

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
    turned = "activation" in forward.early  # what enters the activation of a layer is there before its weights
    before = state
    if not is_gram and forward.early:
        given = start.T * np.exp(-state.log_scale)
        operations = forward.operations_of_given(given)
        values = evaluate(operations, given)
        place = next((k for k, o in enumerate(operations) if isinstance(o, Activate)), len(operations))
        seen = evaluate(operations[:place], given)
        before = replace(state, mean=seen.T @ seen / len(seen))
        state = replace(state, mean=values.T @ values / len(values))
    elif forward.early:
        steps = forward.early[: forward.early.index("activation")] if turned else forward.early
        before = replace(state, mean=forward.statistics(forward.after(Columns(state.mean), steps, 1))[0])
        state = replace(state, mean=forward.statistics(forward.after(Columns(state.mean), forward.early, 1))[0])
    for layer in range(1, spec.layers + 1):
        if not np.abs(state.mean).max() < 1e150:
            break
        try:
            if at == "post":
                laws.append(responses.step(state, layer, early=False))
            else:
                laws.append(before if turned else responses.step(state, layer, early=False, until_activation=True))
                before = responses.step(state, layer, early=True, until_activation=True) if turned else before
            if progress is not None:
                progress(layer)
            if layer < spec.layers:
                own = laws[-1] if at == "post" else None
                state = (
                    own
                    if own is not None and not forward.early
                    else responses.step(state, layer, early=bool(forward.early))
                )
        except (np.linalg.LinAlgError, InfiniteMomentError, OverflowError):  # no numbers are left
            break
    return laws


def band_gap(forward: Forward) -> str | None:
    """Why there is no law of Gram matrices at finite width; None if there is."""
    if forward.spec.has_skip:
        return "with skip connections the features of a layer are not independent given the Gram matrix before"
    norm = forward.spec.norm
    if forward.spec.phi.jumps and norm is not None and norm.over != "batch":
        return f"{forward.spec.phi.name} jumps, and how it answers to the statistics of a norm over features is unknown"
    return None


class _Responses:
    """Steps from law to law; derivatives are kept while the mean stays where it is."""

    def __init__(self, forward: Forward) -> None:
        self.forward = forward
        self._kept: dict[Site, tuple[Floats, tuple[float, ...], Response]] = {}
        self._shifts: dict[Site, tuple[GramLaw, tuple[float, ...], Floats]] = {}

    def step(self, law: GramLaw, layer: int, *, early: bool, until_activation: bool = False) -> GramLaw:
        """From the law of what enters the weights to that of the output, or of what enters the next weights.

        With `until_activation` no further than what enters the activation.
        """
        forward, spec = self.forward, self.forward.spec
        weight = forward.weight_variance(layer)
        covariance = weight * law.mean + spec.bias_variance
        pre = Columns(covariance)
        site = early, until_activation
        operations = forward.operations(pre, layer, early=early, until_activation=until_activation)
        response = self._response(covariance, operations, layer, site)
        width = spec.widths[layer - 1]
        moved = weight * response.derivative
        spread = moved @ law.covariance @ moved.T + response.noise / width
        shift, exact = self._shift(law, moved, weight, layer, site), _exact(operations)
        if exact == "diagonal":
            shift = shift - np.diag(np.diag(shift))  # what a norm fixes does not move
        mean = forward.statistics(_folded(pre, operations))[0] + shift
        law = GramLaw(mean, spread, law.log_scale, law.log_covariance, moved @ law.cross, exact)
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

    def _response(self, covariance: Floats, operations: tuple[Operation, ...], layer: int, site: Site) -> Response:
        setting = self._setting(layer)
        known = self._kept.get(site)
        if known is None or known[1] != setting or not resembles(known[0], covariance):
            known = covariance, setting, response_of(operations, covariance, setting[0])
            self._kept[site] = known
        return known[2]

    def _shift(self, law: GramLaw, moved: Floats, weight: float, layer: int, site: Site) -> Floats:
        """E T(m + Δ) − T(m), by the same points for both."""
        spec = self.forward.spec
        n = len(law.mean)
        # a linear T has no shift
        if not law.covariance.any() or (spec.is_linear and spec.norm is None):
            return np.zeros((n, n))
        setting = self._setting(layer)
        known = self._shifts.get(site)
        if known is not None and known[1] == setting and known[0].resembles(law):
            return known[2]
        found = self._sampled_shift(law, moved, weight, layer, site)
        self._shifts[site] = law, setting, found
        return found

    def _sampled_shift(self, law: GramLaw, moved: Floats, weight: float, layer: int, site: Site) -> Floats:
        """Mean of T at opposite Gram matrices around m less T(m), every pair with points of its own.

        The mean of so few matrices is not m; what the difference does to T is taken out by its derivative, `moved`.
        """
        forward, bias = self.forward, self.forward.spec.bias_variance
        middle, *sides = law.opposite_draws(_SHIFT_PAIRS)
        n, k = middle.shape
        points = _SHIFT_POINTS // _SHIFT_PAIRS
        # consecutive points of a Sobol sequence are spread well; their negatives stay with them
        z = standard_points(_SHIFT_POINTS, k + (bias > 0)).reshape(2, _SHIFT_PAIRS, points // 2, -1)
        z = np.concatenate([z[0], z[1]], axis=1)  # (pairs, points, dimensions)

        def sampled(factors: Floats) -> Floats:
            """E yyᵀ for Gram matrices FFᵀ `(pairs, n, k)`, over all pairs."""
            roots = np.sqrt(weight) * factors
            if bias > 0:
                roots = np.concatenate([roots, np.full((*roots.shape[:-1], 1), np.sqrt(bias))], axis=-1)
            given = [forward.operations(Columns(roots[0] @ roots[0].T), layer, early=site[0], until_activation=site[1])]
            if any(_is_norm(operation) for operation in given[0]):  # its statistics are those of each Gram matrix
                for root in roots[1:]:
                    covariance = Columns(root @ root.T)
                    given.append(forward.operations(covariance, layer, early=site[0], until_activation=site[1]))
            if isinstance(first := given[0][0] if given[0] else None, NormalizeBatch) and first.norm.recenter:
                roots = roots - roots.mean(axis=-2, keepdims=True)
            h = z @ np.swapaxes(roots, -1, -2)
            if len(given) == 1:
                y = evaluate(given[0], h)
            else:
                y = np.stack([evaluate(own, x) for own, x in zip(given, h, strict=True)])
            flat = y.reshape(-1, n)
            return np.asarray(flat.T @ flat / len(flat))

        at_mean = sampled(np.broadcast_to(middle, sides[0].shape))
        drawn = sum(np.einsum("pik,pjk->ij", side, side) for side in sides) / (2 * _SHIFT_PAIRS)
        drift = unpacked(moved @ packed(np.asarray(drawn) - middle @ middle.T))
        return np.asarray((sampled(sides[0]) + sampled(sides[1])) / 2 - at_mean - drift)


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
    jumps = any(isinstance(operation, Activate) and operation.phi.jumps for operation in operations)
    h, score = gaussian_batches(seen_covariance(operations, covariance), _JUMP_POINTS if jumps else _POINTS)
    count = len(h)
    if jumps:
        y = evaluate(operations, h)
        derivative = _by_score(y, score)
    else:
        y, jacobian = evaluate_with_split_jacobian(operations, h)
        # points come with their negatives; what a norm that acts first divides by changes sign with them
        odd = count > 1 and bool(operations) and isinstance(operations[0], NormalizeBatch)
        derivative = _pathwise(jacobian, y, score, odd=odd)
    influences = _Influences(y)
    place = next((k for k, operation in enumerate(operations) if _is_norm(operation)), None)
    if place is not None:
        norm = operations[place]
        assert isinstance(norm, Affine)
        x, x_slope = evaluate_with_jacobian(operations[:place], h)
        by_mean, by_square = _by_statistics(operations[place:], norm, x, y)
        influences.add(by_mean, x)
        influences.add(by_square, x * x)
        # how V moves the statistics themselves: E dx_a and E d(x_a²), dx_a = ½ x′_a dV_ab s_b
        derivative = derivative + by_mean @ _on_row(0.5 * x_slope.T @ score / count)
        derivative = derivative + by_square @ _on_row((x_slope * x).T @ score / count)
    noise = influences.mean_product(influences)
    if haar > 0.0:
        own = _Influences(h)
        cross, inner = influences.mean_product(own), own.mean_product(own)
        # regression on hhᵀ, whose covariance is singular where V is
        noise = noise - haar * cross @ np.linalg.pinv(inner, rcond=1e-10, hermitian=True) @ cross.T
    return Response(derivative, (noise + noise.T) / 2)


class _Influences:
    """What each point contributes to the fluctuation of E yyᵀ: yyᵀ less its mean, and statistics that it moves."""

    def __init__(self, y: Floats) -> None:
        self.y = y
        self.mean = packed(y.T @ y / len(y))[:, None]
        self.terms: list[tuple[Floats, Floats]] = []

    def add(self, by: Floats, x: Floats) -> None:
        """What E yyᵀ does with the mean of x `(points, n)`, times x less that mean."""
        self.terms.append((by, x - x.mean(axis=0)))

    def at(self, points: slice) -> Floats:
        """Packed, `(n(n+1)/2, points)`."""
        found = _products(self.y[points], self.y[points])
        found -= self.mean
        for by, x in self.terms:
            found += by @ x[points].T
        return found

    def mean_product(self, other: _Influences) -> Floats:
        """The mean over points of one times the other."""
        total = np.zeros((1, 1))
        for points in _blocks(len(self.y)):
            left = self.at(points)
            total = total + left @ (left if other is self else other.at(points)).T
        return np.asarray(total / len(self.y))


def _blocks(count: int) -> Iterator[slice]:
    """Points in blocks that stay in the cache."""
    return (slice(start, min(start + _BLOCK, count)) for start in range(0, count, _BLOCK))


def _products(one: Floats, other: Floats) -> Floats:
    """The symmetric part of xyᵀ at every point, packed: `(n(n+1)/2, points)`."""
    rows, columns, factors = pairs_of(one.shape[1])
    left, right = np.ascontiguousarray(one.T), np.ascontiguousarray(other.T)  # rows are gathered whole
    found = left[rows] * right[columns]
    if one is not other:
        found += left[columns] * right[rows]
        factors = factors / 2
    found *= factors[:, None]
    return found


def _on_row(forms: Floats) -> Floats:
    """The forms `dV ↦ Σ_b f_ab dV_ab` `(n, n)`, one per a, over packed matrices."""
    n = len(forms)
    whole = np.zeros((n, n, n))
    each = np.arange(n)
    whole[each, each] = forms
    return packed((whole + np.swapaxes(whole, 1, 2)) / 2)


def _is_norm(operation: Operation) -> bool:
    """Whether its constants are statistics of the features, not a plain factor."""
    return isinstance(operation, Affine) and operation.statistics is not None


def _by_score(y: Floats, score: Floats) -> Floats:
    """∂E y_i y_j/∂V_ab = ½ E y_i y_j (s_a s_b − E s_a s_b), s = V⁻¹h: also for functions that jump."""
    return np.asarray(0.5 * _Influences(y).mean_product(_Influences(score)))


def _pathwise(jacobian: SplitJacobian, y: Floats, score: Floats, *, odd: bool) -> Floats:
    """∂E y_i y_j/∂V_ab = ½ E J_ia y_j s_b + ½ E J_ja y_i s_b.

    J is a diagonal less few products L_i R_a. The diagonal takes moments of three indices, and of four only their
    symmetric part is needed: `E (L_i y_j)(R_a s_b)`, symmetric in i, j and in a, b; with `odd` R changes sign from the
    first half of the points to the second.
    """
    n = y.shape[1]
    each = np.arange(n)
    whole = np.zeros((n, n, n, n))  # (i, j, a, b)
    moments = _triple_moments(jacobian.diagonal, y, score)
    whole[each, :, each] = moments
    found = np.zeros((1, 1))
    for left, row in jacobian.parts:
        if row.ndim == 1:  # the same at every point
            own = moments if left is jacobian.diagonal else _triple_moments(left, y, score)
            whole -= own[:, :, None, :] * row[:, None]
        else:
            found = found - _mixed_moments(left, y, row, score, odd=odd)
    return found + packed_operator(whole)


def _triple_moments(left: Floats, y: Floats, score: Floats) -> Floats:
    """E L_i y_j s_b, `(n, n, n)`."""
    n, total = y.shape[1], np.zeros((1, 1))
    for points in _blocks(len(y)):
        right = y[points, :, None] * score[points, None, :]
        total = total + left[points].T @ right.reshape(-1, n * n)
    return np.asarray(total.reshape(n, n, n) / len(y))


def _mixed_moments(left: Floats, y: Floats, row: Floats, score: Floats, *, odd: bool) -> Floats:
    """E (L_i y_j)(R_a s_b), packed on both sides."""
    count, total = len(y), np.zeros((1, 1))
    half = count // 2 if odd else 0
    for points in _blocks(half or count):
        both = _products(left[points], y[points])
        if odd:
            behind = slice(points.start + half, points.stop + half)
            both += _products(left[behind], y[behind])
        total = total + both @ _products(row[points], score[points]).T
    return np.asarray(total / count)


def _by_statistics(operations: tuple[Operation, ...], norm: Affine, x: Floats, y: Floats) -> tuple[Floats, Floats]:
    """Derivatives `(n(n+1)/2, n)` of E yyᵀ, packed, by the means and mean squares that a norm over features has read.

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
    by_mean, by_square = np.zeros((n, n, n)), np.zeros((n, n, n))  # (a, i, j)
    each = np.arange(n)
    for table, part in ((by_mean, moved), (by_square, stretched)):
        table[each, each, :] += part
        table[each, :, each] += part
    return packed(by_mean).T, packed(by_square).T
