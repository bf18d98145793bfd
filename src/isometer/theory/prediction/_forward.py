"""The Gram matrices of a network of infinite width, layer by layer."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field, replace

import numpy as np
from numpy.typing import NDArray

from isometer.errors import InfiniteMomentError
from isometer.spec import Chain, Norm
from isometer.theory.kernels._length_map import SignalFamily
from isometer.theory.networks._activation_moments import ActivationMoments
from isometer.theory.networks._columns import (
    Activate,
    Affine,
    Columns,
    NormalizeBatch,
    Operation,
    Statistics,
    evaluate,
)
from isometer.theory.networks._grouped import affine_gram, batch_norm_formula
from isometer.theory.networks._sampled import sampled_statistics
from isometer.theory.networks._weights import weight_variance

Floats = NDArray[np.float64]
_LIMIT = 1e150  # variances beyond have diverged


@dataclass(frozen=True)
class LayerMoments:
    """One layer at infinite width.

    `entering`: Gram matrix of what enters the weights. `pre`: the Gaussians behind it. `output`: Gram matrix of what
    the layer hands on, `exp(log_scale)` left out of its features. `before`: Gram matrix of what enters the activation.
    `mean`: of the output's features, which a skip keeps. `late`: a norm over features after a skip.
    """

    entering: Floats
    pre: Columns
    output: Floats
    before: Floats
    log_scale: float
    before_log_scale: float
    mean: Floats
    late: Affine | None = None


@dataclass
class Path:
    """A batch on its way through a network of infinite width: the input's Gram matrix and one `LayerMoments` per layer.

    `diverged` is the layer at which variances left the range of numbers, −1 if none did.
    """

    start: Floats
    start_log_scale: float
    start_mean: Floats
    layers: list[LayerMoments] = field(default_factory=list)
    diverged: int = -1

    def grams(self, at: str) -> list[tuple[Floats, float]]:
        """Gram matrices and log-scales of the features, the input first."""
        rest = [
            (layer.output, layer.log_scale) if at == "post" else (layer.before, layer.before_log_scale)
            for layer in self.layers
        ]
        return [(self.start, self.start_log_scale), *rest]


class Forward:
    """The map of a spec at infinite width; `path` follows a batch.

    Args:
        spec: a covered spec.
        before: what enters activations is asked for, also behind a batch norm, where it costs most and cannot diverge;
            without, the layer's output stands there.

    Example:
        >>> from isometer import Spec
        >>> path = Forward(Spec(width=8, depth=1, gain=2**0.5)).path(np.eye(2))
        >>> path.layers[0].output.round(6).tolist()  # κ(0) = 1/π
        [[1.0, 0.31831], [0.31831, 1.0]]
    """

    def __init__(self, spec: Chain, *, before: bool = True) -> None:
        self.spec = spec
        self._skips_before = not before and spec.norm is not None and spec.norm.over == "batch" and spec.norm.rescale
        steps = spec.steps
        weights, residual = steps.index("weights"), steps.index("residual")
        self.early = self._present(steps[:weights])
        self.branch = self._present(steps[weights:residual]) if spec.has_skip else ()
        self.late = self._present(steps[(residual if spec.has_skip else weights) :])
        self.moments = ActivationMoments(SignalFamily(spec.phi))
        self.error = 0.0  # relative, of all expectations that were sampled
        self._kept: tuple[Columns, tuple[Floats, Floats]] | None = None

    def _present(self, steps: tuple[str, ...]) -> tuple[str, ...]:
        absent = {"weights", "residual"}
        absent |= {"norm"} if self.spec.norm is None else set()
        absent |= {"activation"} if self.spec.is_linear else set()
        return tuple(step for step in steps if step not in absent)

    # --- operations ---------------------------------------------------------------------------------------------------

    def weight_variance(self, layer: int) -> float:
        """The factor from the Gram matrix that enters the weights to the covariance of what leaves them.

        Example:
            >>> from isometer import Spec
            >>> Forward(Spec(width=8, depth=1, weights="he")).weight_variance(1)
            2.0
        """
        spec = self.spec
        sizes = spec.fan_in[layer - 1], spec.widths[layer - 1]
        return weight_variance(spec.weights, *sizes, spec.at("gain", layer), spec.weight_scaling)

    def operation(self, step: str, columns: Columns, layer: int) -> Operation:
        """A step of a layer as an operation on features that have these statistics."""
        if step == "activation":
            return Activate(self.spec.phi, self.spec.at("activation_gain", layer))
        norm = self.spec.norm
        assert norm is not None
        if norm.over == "batch":
            return NormalizeBatch(norm)
        gram, mean = self.statistics(columns)
        return feature_norm(norm, np.diag(gram), mean, self.spec.widths[layer - 1])

    def after(self, columns: Columns, steps: tuple[str, ...], layer: int) -> Columns:
        """Features after some steps of a layer."""
        for step in steps:
            columns = columns.then(self.operation(step, columns, layer))
        return columns

    def output(self, columns: Columns, layer: int) -> Columns:
        """Features of a layer's output from those that leave its weights (without skips)."""
        return scaled(self.after(columns, self.late, layer), self.spec.output_scale(layer))

    def operations(
        self, pre: Columns, layer: int, *, early: bool, until_activation: bool = False
    ) -> tuple[Operation, ...]:
        """What happens to Gaussians between two weights steps (without skips), none of it folded into a covariance.

        With `early` up to what enters the weights of the next layer, otherwise up to the layer's output; with
        `until_activation` no further than what enters the activation.
        """
        found: list[Operation] = []
        columns = pre
        for step in _until_activation(self.late) if until_activation and not early else self.late:
            found.append(self.operation(step, columns, layer))
            columns = columns.then(found[-1])
        if until_activation and not early:
            return tuple(found)
        size = self.spec.output_scale(layer)
        if size != 1.0:
            n = len(pre.covariance)
            found.append(Affine(np.zeros(n), np.full(n, size)))
            columns = columns.then(found[-1])
        next_steps = _until_activation(self.early) if until_activation else self.early
        for step in next_steps if early else ():
            found.append(self.operation(step, columns, layer + 1))
            columns = columns.then(found[-1])
        return tuple(found)

    # --- expectations -------------------------------------------------------------------------------------------------

    def statistics(self, columns: Columns) -> tuple[Floats, Floats]:
        """E yyᵀ and E y of features y; exact where there is a formula, sampled otherwise."""
        # what a layer hands on is what the next one is given
        if self._kept is None or self._kept[0] is not columns:
            self._kept = columns, self._statistics(columns)
        return self._kept[1]

    def _statistics(self, columns: Columns) -> tuple[Floats, Floats]:
        operations, covariance = columns.operations, columns.covariance
        if not operations:
            return covariance, np.zeros(len(covariance))
        last = operations[-1]
        if isinstance(last, Affine):
            gram, mean = self.statistics(Columns(covariance, operations[:-1]))
            return affine_gram(gram, mean, last), last(mean)
        if len(operations) == 1 and isinstance(last, Activate):
            found = self.moments.activated(last.gain**2 * covariance)
            return self._sampled(columns) if found is None else found
        gram_found = batch_norm_formula(columns)
        if gram_found is None:
            return self._sampled(columns)
        return gram_found, np.full(len(covariance), math.nan)  # means after a batch norm are asked for by nobody

    def _sampled(self, columns: Columns) -> tuple[Floats, Floats]:
        gram, mean, error = sampled_statistics(columns)
        self.error += error
        return gram, mean

    # --- the path -----------------------------------------------------------------------------------------------------

    def path(
        self,
        batch: Floats,
        *,
        is_gram: bool = True,
        settled: float = 0.0,
        progress: Callable[[int, int], None] | None = None,
    ) -> Path:
        """Follow a Gram matrix `H Hᵀ / d`, or a batch `(n, d)`, whose first operations are then exact.

        Layers after one that changes the Gram matrix by a share below `settled` are left out.
        """
        gram = batch if is_gram else batch @ batch.T / batch.shape[-1]
        scale = 1.0
        if self.spec.homogeneity == 1 and gram.max() > 0:
            # the chain has no scale of its own: carried as a logarithm it cannot overflow
            scale = math.sqrt(float(np.diag(gram).max()))
        given = None if is_gram else batch.T / scale
        mean = np.zeros(len(gram)) if given is None else given.mean(axis=0)
        path = Path(gram / scale**2, math.log(scale), mean)
        state = Columns(path.start)
        step = self._skip_step if self.spec.has_skip else self._step
        for layer in range(1, self.spec.layers + 1):
            log_scale = path.layers[-1].log_scale if path.layers else path.start_log_scale
            try:
                with np.errstate(all="ignore"):  # what overflows has diverged, and is judged below
                    done, state, mean = step(layer, state, mean, given if layer == 1 else None, log_scale)
            except (np.linalg.LinAlgError, InfiniteMomentError, OverflowError):
                path.diverged = layer
                break
            # negated, so that NaN counts as diverged too
            if not max(np.abs(done.output).max(), np.abs(done.before).max()) < _LIMIT:
                path.diverged = layer
                break
            path.layers.append(done)
            if progress is not None:
                progress(layer, self.spec.layers)
            before = path.layers[-2].output if len(path.layers) > 1 else path.start
            if np.abs(done.output - before).max() < settled * np.abs(done.output).max():
                break
        return path

    def _entering(self, state: Columns, mean: Floats, given: Floats | None, layer: int) -> tuple[Floats, Columns]:
        """The Gram matrix that enters the weights, and the features behind it."""
        if given is None or not self.early:
            if not self.spec.has_skip:
                columns = self.after(state, self.early, layer)
            else:
                columns, operations = self.early_operations(state.covariance, mean, layer)
                for operation in operations:
                    columns = columns.then(operation)
            return self.statistics(columns)[0], columns
        operations = self.operations_of_given(given)
        values = evaluate(operations, given)
        return values.T @ values / len(values), Columns(state.covariance, operations)

    def early_operations(self, gram: Floats, mean: Floats, layer: int) -> tuple[Columns, tuple[Operation, ...]]:
        """The steps between a skip's sum and the weights behind it, and the Gaussians that they see.

        What the sum hands on has Gram matrix and means that are known, and counts as Gaussian of that Gram matrix;
        only a norm over features that comes first tells means from deviations.
        """
        norm, base = self.spec.norm, Columns(gram)
        first = () if norm is None or norm.over == "batch" or self.early[:1] != ("norm",) else self.early[:1]
        found: list[Operation] = []
        if first:
            assert norm is not None
            own = feature_norm(norm, np.diag(gram), mean, self.spec.widths[layer - 1])
            if norm.recenter:
                base, own = Columns(gram - np.outer(mean, mean)), replace(own, shift=np.zeros_like(mean))
            found.append(own)
        columns = base.then(found[0]) if found else base
        for step in self.early[len(first) :]:
            found.append(self.operation(step, columns, layer))
            columns = columns.then(found[-1])
        return base, tuple(found)

    def operations_of_given(self, given: Floats) -> tuple[Operation, ...]:
        """The steps before the first weights, for an input whose features `(d, n)` are known."""
        found: tuple[Operation, ...] = ()
        norm = self.spec.norm
        for step in self.early:
            own: Operation
            if step == "norm" and norm is not None and norm.over != "batch":
                x = evaluate(found, given)
                own = feature_norm(norm, (x * x).mean(axis=0), x.mean(axis=0), len(given))
            else:
                own = self.operation(step, Columns(np.eye(given.shape[1])), 1)
            found = (*found, own)
        return found

    def _step(
        self, layer: int, state: Columns, mean: Floats, given: Floats | None, log_scale: float
    ) -> tuple[LayerMoments, Columns, Floats]:
        entering, early = self._entering(state, mean, given, layer)
        pre = Columns(self.weight_variance(layer) * entering + self.spec.bias_variance)
        out = self.output(pre, layer)
        gram = self.statistics(out)[0]
        if self._skips_before:
            before = gram
        elif "activation" in self.early:
            before = self._before_early(early, given)
        else:
            before = self.statistics(self.after(pre, _until_activation(self.late), layer))[0]
        after_scale, after_log = log_scale, log_scale
        if self.spec.homogeneity == 1 and float(np.diag(gram).max()) > 0:
            size = math.sqrt(float(np.diag(gram).max()))
            gram, after_log = gram / size**2, log_scale + math.log(size)
            out = scaled(out, 1 / size)
        return LayerMoments(entering, pre, gram, before, after_log, after_scale, mean), out, mean

    def _before_early(self, early: Columns, given: Floats | None) -> Floats:
        place = next((k for k, o in enumerate(early.operations) if isinstance(o, Activate)), len(early.operations))
        operations = early.operations[:place]
        if given is not None:
            x = evaluate(operations, given)
            return np.asarray(x.T @ x / len(x))
        return self.statistics(Columns(early.covariance, operations))[0]

    def _skip_step(
        self, layer: int, state: Columns, mean: Floats, given: Floats | None, log_scale: float
    ) -> tuple[LayerMoments, Columns, Floats]:
        """H + γ·branch: the Gram matrices add up, and with branches of mean m so do γ(μmᵀ + mμᵀ)."""
        entering, early = self._entering(state, mean, given, layer)
        pre = Columns(self.weight_variance(layer) * entering + self.spec.bias_variance)
        branch, shift = self.statistics(self.after(pre, self.branch, layer))
        gamma = self.spec.at("residual", layer)
        if math.isinf(gamma):
            total, mean = branch, shift
        else:
            cross = gamma * np.outer(mean, shift)
            total, mean = state.covariance + gamma**2 * branch + cross + cross.T, mean + gamma * shift
        if "activation" in self.early:
            before = self._before_early(early, given)
        elif "activation" in self.branch:
            before = self.statistics(self.after(pre, _until_activation(self.branch), layer))[0]
        else:
            before = total
        own: Affine | None = None
        if self.late:  # a norm over features; nothing else is covered there
            assert self.spec.norm is not None
            own = feature_norm(self.spec.norm, np.diag(total), mean, self.spec.widths[layer - 1])
            total, mean = affine_gram(total, mean, own), own(mean)
        size = self.spec.output_scale(layer)
        total, mean = total * size**2, mean * size
        before_log = log_scale
        if self.spec.homogeneity == 1 and float(np.diag(total).max()) > 0:
            own_size = math.sqrt(float(np.diag(total).max()))
            total, mean, log_scale = total / own_size**2, mean / own_size, log_scale + math.log(own_size)
        return LayerMoments(entering, pre, total, before, log_scale, before_log, mean, own), Columns(total), mean


def scaled(columns: Columns, factor: float) -> Columns:
    """All features multiplied by a number."""
    if factor == 1.0:
        return columns
    n = len(columns.covariance)
    return columns.then(Affine(np.zeros(n), np.full(n, factor)))


def feature_norm(norm: Norm, squares: Floats, mean: Floats, width: int) -> Affine:
    """A norm over features of these mean squares and means.

    Example:
        >>> feature_norm(Norm.named("layer"), np.array([5.0]), np.array([1.0]), 8)(np.array([3.0])).tolist()
        [1.0]
    """
    deviates = norm.divisor == "std"
    size = (np.maximum(squares - mean**2, 0.0) if deviates else squares) + norm.eps
    inverse = np.where(size > 0, 1.0, 0.0) / np.sqrt(np.where(size > 0, size, 1.0))
    factor = norm.scale if norm.size == "mean-square" else norm.scale / math.sqrt(width / norm.groups)
    if not norm.rescale:
        inverse = np.ones_like(squares)
    read = Statistics(mean.copy(), size, norm.recenter, norm.rescale, deviates, norm.eps == 0.0)
    return Affine(mean.copy() if norm.recenter else np.zeros_like(mean), inverse * factor, norm.shift, read)


def _until_activation(steps: tuple[str, ...]) -> tuple[str, ...]:
    return steps[: steps.index("activation")] if "activation" in steps else steps
