"""Three numbers per block: a length, the cosine of two tokens of a sample, and that of tokens of two samples."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from isometer.errors import IsometerError
from isometer.spec import Shape, Spec, Step
from isometer.theory.networks._covariance import Covariance
from isometer.theory.networks._expectations import Expectations
from isometer.theory.networks._gradient import Adjoint, Gradient, Squares, WeightSquares
from isometer.theory.networks._interpreter import walk
from isometer.theory.networks._layout import Layout
from isometer.theory.networks._state import FeatureState, compressed, gaussian
from isometer.theory.networks._weights import ExpectedAttention, Run
from isometer.work import Work, check_work

Floats = NDArray[np.float64]
Layers = Sequence[tuple[tuple[Step, ...], Shape]]
Numbers = Mapping[tuple[Step, str], Floats]
Progress = Callable[[int, int], None]
_LARGEST = 1e100  # variances beyond have diverged
_SAME = 1e-9  # relative spread of variances that counts as none
_INTEGRAL = 0.012  # seconds of one copy's expectations by integrals


class TokenPath(NamedTuple):
    """By layer, the input first, `(layers + 1, copies)`; nan from where on a copy has diverged.

    Attributes:
        rms: root mean square of a feature.
        token_gap: 1 − cosine of two tokens of a sample, accurate where it is small.
        sample_gap: 1 − cosine of tokens of two samples.
        attention_entropy: in nats, the mean over the attention steps of a layer; nan where it has none.
        attention_participation: how many tokens a query reads.
        score_strength: β, the standard deviation of scores over √log T; attention over many tokens condenses at √2.
        log_jacobian: log of the averaged partial Jacobian norm E ‖∂output/∂layer‖² per feature of the output; None
            unless requested.
        weights: the weight matrices of each layer in the order of execution, with log E ‖∂output/∂W‖² per feature and
            token of the output, one per copy; None unless requested.
        error: the sum of relative errors of all expectations.
    """

    rms: Floats
    token_gap: Floats
    sample_gap: Floats
    attention_entropy: Floats
    attention_participation: Floats
    score_strength: Floats
    log_jacobian: Floats | None
    weights: tuple[tuple[WeightSquares, ...], ...] | None
    error: float

    @property
    def token_cosine(self) -> Floats:
        """1 − gap."""
        return np.asarray(1.0 - self.token_gap)

    @property
    def sample_cosine(self) -> Floats:
        """1 − gap."""
        return np.asarray(1.0 - self.sample_gap)


def token_path(
    spec: Spec,
    *,
    cosine: ArrayLike = 0.0,
    sample_cosine: ArrayLike | None = None,
    mean_square: ArrayLike = 1.0,
    backward: bool = False,
) -> TokenPath:
    """How exchangeable tokens fare in a transformer with many wide heads: one recursion per starting value.

    All tokens have one length, all pairs of a sample one cosine, all pairs of two samples another.

    Args:
        spec: a network over a sequence, with full attention; its input counts as Gaussian.
        cosine: cosine of two tokens of a sample.
        sample_cosine: cosine of tokens of two samples; the same by default.
        mean_square: mean square of a feature of the input.
        backward: also the averaged partial Jacobian.

    Example:
        >>> spec = Spec("gpt(blocks=3, width=64, heads=8, tokens=16, hidden=0, norm='none', skip=0, causal=False)")
        >>> path = token_path(spec)  # attention alone: each block cubes the gap, up to a factor below 1
        >>> [f"{gap:.0e}" for gap in path.token_gap[:, 0]]
        ['1e+00', '5e-01', '3e-04', '7e-15']
    """
    layers = list(spec.executed_layers())
    across = cosine if sample_cosine is None else sample_cosine
    numbers = np.broadcast_arrays(*(np.atleast_1d(np.asarray(v, dtype=float)) for v in (cosine, across, mean_square)))
    start = starting_state(spec.shape, 1.0 - numbers[0], 1.0 - numbers[1], numbers[2])
    return follow(layers, start, backward=backward)


def starting_state(shape: Shape, gap: Floats, sample_gap: Floats, mean_square: Floats) -> FeatureState:
    """Exchangeable tokens of these gaps, one copy for each."""
    if len(shape.axes) != 1:
        raise IsometerError(
            f"the network has {len(shape.axes)} axes of positions; expected one, the sequence — "
            "begin it with input(64, [16])"
        )
    tokens = shape.axes[0]
    widest = tokens / max(tokens - 1, 1)
    if not ((gap >= 0.0) & (gap <= widest + 1e-12)).all():
        raise IsometerError(
            f"the cosine of {tokens} tokens is from {1 - widest:.4g} to 1; got {1 - float(gap.max()):.4g}"
        )
    least = gap * (1.0 - 1.0 / tokens)  # two samples' means cannot be more alike than one is to itself
    if not (sample_gap >= least - 1e-12).all() or not (sample_gap <= 2.0).all():
        raise IsometerError(
            "tokens of two samples cannot be more alike than those of one; pass a smaller sample_cosine"
        )
    if not ((mean_square > 0.0) & np.isfinite(mean_square)).all():
        raise IsometerError("mean_square must be a positive number; pass that of a feature of the input")
    gaps = np.zeros((len(gap), 3, 3))
    gaps[:, 0, 1] = gaps[:, 1, 0] = gap
    gaps[:, :2, 2] = gaps[:, 2, :2] = sample_gap[:, None]
    process = gaussian(Covariance(np.repeat(mean_square[:, None], 3, axis=1), gaps), None)
    return FeatureState.of(process, Layout(3, copies=len(gap), exchangeable=tokens), shape.width)


def follow(
    layers: Layers,
    state: FeatureState,
    *,
    backward: bool = False,
    numbers: Numbers | None = None,
    progress: Progress | None = None,
) -> TokenPath:
    """The path of a state through layers; `numbers` of steps may differ between copies.

    Raises:
        TooMuchWorkError: at the first layer with integrals for every copy, where the rest would take too long.
    """
    copies = state.layout.copies
    run = Run(Expectations(same=_SAME), backward=backward, attention=[], numbers=numbers)
    rms, gap, across, entropy, participation, strength = np.full((6, len(layers) + 1, copies), math.nan)
    backs: list[Adjoint] = []
    features = [state.width * state.layout.exchangeable]
    alive = np.ones(copies, dtype=bool)
    told = 0.0
    for layer in range(len(layers) + 1):
        if layer:
            before = run.moments.integrals
            assert run.attention is not None
            run.attention.clear()
            with np.errstate(over="ignore", invalid="ignore"):
                state, back = walk(layers[layer - 1][0], state, run)
            told = _check_rest(run.moments.integrals - before, len(layers) - layer, copies, told)
            if progress is not None:
                progress(layer, len(layers))
            state, lost = _kept(compressed(state, frozenset()))
            alive &= ~lost
            if back is not None:
                backs.append(back)
            features.append(state.width * state.layout.exchangeable)
            read = ((entropy, "entropy"), (participation, "participation"), (strength, "strength"))
            for table, name in read:
                table[layer] = _mean(run.attention, name, copies)
        second = state.second()
        rms[layer] = np.sqrt(second.variances[:, 0])
        gap[layer], across[layer] = second.gaps[:, 0, 1], second.gaps[:, 0, 2]
        for table in (rms, gap, across, entropy, participation, strength):
            table[layer, ~alive] = math.nan
    if not backward:
        return TokenPath(rms, gap, across, entropy, participation, strength, None, None, run.moments.error)
    jacobian, weights = _jacobians(backs, state.layout, features)
    jacobian[:, ~alive] = math.nan
    return TokenPath(rms, gap, across, entropy, participation, strength, jacobian, weights, run.moments.error)


def _check_rest(integrals: int, left: int, copies: int, told: float) -> float:
    """Refuse or announce what integrals of so many matrices per layer take; the seconds that were said."""
    seconds = _INTEGRAL * integrals * left
    if seconds <= 2.0 * told:
        return told
    work = {"points": (copies, lambda n: Work(0.0, seconds * n / copies))}
    what = "an activation without a norm before it has integrals at every point: the rest of the layers"
    check_work(what, Work(0.0, seconds), work if copies > 1 else None)
    return seconds


def _mean(readings: Sequence[ExpectedAttention], name: str, copies: int) -> Floats:
    if not readings:
        return np.full(copies, math.nan)
    return np.asarray(np.mean([getattr(one, name) for one in readings], axis=0))


def _kept(state: FeatureState) -> tuple[FeatureState, NDArray[np.bool_]]:
    """The state with copies that have diverged set to 1, and which they are."""
    second = state.second()
    lost = ~(second.variances[:, 0] < _LARGEST)  # negated, so that NaN counts as diverged too
    if not lost.any():
        return state, lost
    variances = np.where(lost[:, None], 1.0, second.variances)
    gaps = np.where(lost[:, None, None], 0.0, second.gaps)
    fresh = gaussian(Covariance(variances, gaps), None)
    return FeatureState.of(fresh, state.layout, state.width), lost


def _jacobians(
    backs: Sequence[Adjoint], layout: Layout, features: Sequence[int]
) -> tuple[Floats, tuple[tuple[WeightSquares, ...], ...]]:
    """log E ‖∂output/∂layer‖² per feature of the output, and by weights: unit cotangents of all tokens, taken back."""
    out = np.zeros((len(backs) + 1, layout.copies))
    weights: list[tuple[WeightSquares, ...]] = []
    gradient = Gradient.of(np.broadcast_to(np.eye(3), (layout.copies, 3, 3)).copy(), layout, 0.0)
    logs = np.zeros(layout.copies)
    for layer in range(len(backs) - 1, -1, -1):
        squares = Squares()
        found = backs[layer](gradient, squares)
        weights.append(
            tuple(one._replace(log=one.log + logs - math.log(features[-1])) for one in reversed(squares.found))
        )
        total = found.total()
        size = np.maximum(total[:, 0, 0], 1e-300)
        logs = logs + np.log(size)  # each copy by itself: they differ by more than numbers hold
        out[layer] = logs + math.log(features[layer] / features[-1])
        gradient = Gradient.of(total / size[:, None, None], found.layout, 0.0)
    return out, tuple(reversed(weights))
