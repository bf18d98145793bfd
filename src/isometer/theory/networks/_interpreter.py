"""The interpreter: a composition at infinite width, step by step.

One walk serves three uses. Signals alone give the Gram matrices of a batch; with tangent kernels beside them the NTK;
and every step hands back the way that gradients take through it.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from isometer.activations._closed_forms import as_two_rays
from isometer.errors import InfiniteMomentError
from isometer.spec import (
    Act,
    Attention,
    Bias,
    Convolution,
    Dense,
    Dropout,
    Flatten,
    Join,
    Noise,
    Norm,
    Pool,
    Residual,
    Scaling,
    Shape,
    Step,
    Upsample,
)
from isometer.spec._activation import resolved
from isometer.spec._coverage import gap_of, others_that_cover
from isometer.spec._language import word_of
from isometer.spec._steps import parts
from isometer.spec._steps import walk as every_step
from isometer.theory.networks._attention import attend
from isometer.theory.networks._branches import join, residual
from isometer.theory.networks._convolution import convolve
from isometer.theory.networks._entries import activate
from isometer.theory.networks._expectations import TooManyPairs
from isometer.theory.networks._gradient import Adjoint, Gradient, Squares
from isometer.theory.networks._layout import Layout
from isometer.theory.networks._masks import disturb, drop
from isometer.theory.networks._maxima import pool_maxima
from isometer.theory.networks._norms import normalise, scale
from isometer.theory.networks._pooling import flatten, pool, upsample
from isometer.theory.networks._state import FeatureState, NotCovered, compressed, pending_pairs, reduced
from isometer.theory.networks._weights import ExpectedAttention, Run, Stepped, bias, dense

Floats = NDArray[np.float64]
Layers = Sequence[tuple[tuple[Step, ...], Shape]]
LIMIT = 1e150  # variances beyond have diverged


def walk(steps: Sequence[Step], state: FeatureState, run: Run, held: frozenset[int] = frozenset()) -> Stepped:
    """Steps one after the other; `held` are processes that a skip around them adds again."""
    backs: list[Adjoint] = []
    for step in steps:
        state, back = _stepped(step, state, run, held)
        if back is not None:
            backs.append(back)
    if not run.backward:
        return state, None

    def whole(gradient: Gradient, squares: Squares) -> Gradient:
        for one in reversed(backs):
            gradient = one(gradient, squares)
        return gradient

    return state, whole


def _stepped(step: Step, state: FeatureState, run: Run, held: frozenset[int]) -> Stepped:
    _check_step(step)
    match step:
        case Dense():
            return dense(step, state, run)
        case Bias():
            return bias(step, state, run)
        case Act():
            return activate(step, state, run)
        case Norm():
            return normalise(step, state, run)
        case Scaling():
            return scale(step, state, run)
        case Residual():
            return residual(step, state, run, held, walk)
        case Join():
            return join(step, state, run, held, walk)
        case Convolution():
            return convolve(step, state, run)
        case Pool(by="max"):
            return pool_maxima(step, state, run)
        case Pool():
            return pool(step, state, run)
        case Upsample():
            return upsample(step, state, run)
        case Flatten():
            return flatten(step, state, run)
        case Dropout():
            return drop(step, state, run)
        case Noise():
            return disturb(step, state, run)
        case Attention():
            return attend(step, state, run)
        case _:
            raise AssertionError(f"{word_of(step)} is refused before, and repeats are unrolled")


def _check_step(step: Step) -> None:
    reason = gap_of(step, "theory")
    if reason is not None:
        others = others_that_cover(step, "theory")
        fix = f"{' and '.join(others[-2:])} cover it" if others else "leave it out"
        raise NotCovered(word_of(step), reason, fix)


@dataclass
class Passage:
    """A batch on its way: the state after every layer, the input's first.

    `diverged` is the layer at which variances left the range of numbers, or expectations would have taken longer than
    was allowed; −1 if none did.
    """

    states: list[FeatureState]
    seen: list[FeatureState] = field(default_factory=list)  # what entered the last activation of each layer
    backs: list[Adjoint | None] = field(default_factory=list)
    attention: list[tuple[ExpectedAttention, ...]] = field(default_factory=list)  # of each layer
    diverged: int = -1

    @property
    def last(self) -> FeatureState:
        """What leaves."""
        return self.states[-1]

    def grams(self, at: str = "post") -> list[tuple[Floats, float]]:
        """Gram matrices over samples, means over positions, and log-scales; `at` as in `predict`."""
        chosen = self.states if at == "post" else [self.states[0], *self.seen]
        return [(sample_gram(state.second().gram(), state.layout), state.log_scale) for state in chosen]

    def features(self, at: str = "post") -> list[int]:
        """How many features the states have, positions included."""
        chosen = self.states if at == "post" else [self.states[0], *self.seen]
        return [state.width * state.layout.positions for state in chosen]


def passage(
    layers: Layers,
    start: FeatureState,
    run: Run,
    *,
    progress: Callable[[int, int], None] | None = None,
) -> Passage:
    """Follow a state through layers.

    Args:
        layers: what is executed, as `Spec.executed_layers()` has it.
        start: the input, in full where `needs_pairs` says so.
        run: what is requested.
        progress: called as `progress(done, total)` in layers.
    """
    keeps_scale = homogeneous(step for steps, _ in layers for step in steps)
    state = start.rescaled() if keeps_scale else start
    out = Passage([state])
    for number, (steps, _) in enumerate(layers, start=1):
        entering = state.layout
        later = (step for steps_left, _ in layers[number - 1 :] for step in steps_left)
        # an activation may still follow a norm over all pairs, which it must then see
        if state.layout.is_full and not run.pairs and not needs_pairs(later) and not pending_pairs(state):
            state = reduced(state)
        for collected in (run.watched, run.attention):
            if collected is not None:
                collected.clear()
        try:
            with np.errstate(over="ignore", invalid="ignore"):  # what overflows has diverged, and is judged below
                state, back = walk(steps, state, run)
                size = state.size()
        except (np.linalg.LinAlgError, InfiniteMomentError, OverflowError, TooManyPairs):
            out.diverged = number
            break
        if not size < LIMIT:  # negated, so that NaN counts as diverged too
            out.diverged = number
            break
        state = compressed(state, frozenset())
        if keeps_scale:
            state = state.rescaled()
        out.states.append(state)
        if run.watched is not None:
            out.seen.append(run.watched[-1] if run.watched else state)
        if run.attention is not None:
            out.attention.append(tuple(run.attention))
        out.backs.append(_with_pairs(back, entering))
        if progress is not None:
            progress(number, len(layers))
    return out


def _with_pairs(back: Adjoint | None, layout: Layout) -> Adjoint | None:
    """Where pairs of positions were dropped on the way, gradients have none."""
    if back is None:
        return None

    def whole(gradient: Gradient, squares: Squares) -> Gradient:
        found = back(gradient, squares)
        if layout.is_full and not found.layout.is_full:
            return Gradient.of(layout.embedded(found.total()), layout, found.log)
        return found

    return whole


def sample_gram(matrices: Floats, layout: Layout) -> Floats:
    """The mean over positions of pairs of samples at the same one, `(n, n)`; `(copies, n, n)` for several copies."""
    if not layout.axes:
        return matrices[0] if layout.copies == 1 else matrices
    return np.asarray(layout.diagonal(matrices).mean(axis=0))


def needs_pairs(steps: Iterable[Step]) -> bool:
    """Whether some step mixes positions that weights do not treat alike: a pool, attention, or a norm over the batch.

    What comes after positions have become features mixes none.

    Example:
        >>> needs_pairs((Pool(),)), needs_pairs((Convolution(3),)), needs_pairs((Attention(),))
        (True, False, True)
        >>> needs_pairs((Convolution(3), Norm())), needs_pairs((Convolution(3), Flatten(), Norm()))
        (True, False)
    """
    for step in steps:
        if isinstance(step, Flatten):
            return False
        if isinstance(step, Attention | Pool) or (isinstance(step, Norm) and step.over == "batch"):
            return True
        if any(needs_pairs(inner) for inner in parts(step)):
            return True
    return False


def homogeneous(steps: Iterable[Step]) -> bool:
    """Whether the network doubles what it hands on if its input doubles, so that its scale can be a logarithm.

    Example:
        >>> homogeneous((Dense(), Act("relu"))), homogeneous((Dense(), Bias(0.1)))
        (True, False)
    """
    seen: set[Step] = set()
    for step in steps:
        for one in every_step((step,)):
            if one in seen:
                continue
            seen.add(one)
            match one:
                case Act():
                    if as_two_rays(resolved(one.activation).expression) is None:
                        return False
                case Join(by="product") | Norm() | Attention():
                    return False
                case Bias() | Noise():
                    if one.variance > 0.0:
                        return False
                case _:
                    pass
    return True


class GradientNorms(NamedTuple):
    """Logarithms of root mean square norms for a Gaussian cotangent at the output; −inf where no gradient passes.

    `weights`: of ∂loss/∂W over all weights of a layer ℓ = 1 … together; nan at 0. `outputs`: of the gradient by what a
    layer hands on, by the input at 0; nan between a batch norm and an activation behind it.
    """

    weights: Floats
    outputs: Floats


def gradient_norms(found: Passage) -> GradientNorms:
    """Gradients of a passage that was asked for the way back, layer by layer towards the input."""
    layers = len(found.backs)
    weights, outputs = np.full((2, layers + 1), math.nan)
    stack, size = found.last.layout.size
    gradient = Gradient.of(np.broadcast_to(np.eye(size), (stack, size, size)), found.last.layout, 0.0)
    for layer in range(layers, -1, -1):
        if not gradient.is_pending:
            total = float(np.trace(gradient.total(), axis1=-2, axis2=-1).sum())
            if not math.isfinite(total):
                weights[: layer + 1] = outputs[: layer + 1] = math.inf
                break
            width = found.states[layer].width
            outputs[layer] = 0.5 * (math.log(total) + gradient.log + math.log(width)) if total > 0.0 else -math.inf
        if layer:
            back, squares = found.backs[layer - 1], Squares()
            assert back is not None
            gradient = back(gradient, squares).normalised()
            weights[layer] = 0.5 * squares.log
    return GradientNorms(weights, outputs)


def gradient_log_norms(found: Passage) -> Floats:
    """What trajectories call `gradient_log_norm`: by the weights of each layer, by the input at 0."""
    norms = gradient_norms(found)
    return np.concatenate([norms.outputs[:1], norms.weights[1:]])
