"""Numbers of transformers at which exchangeable tokens do what you ask for."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from itertools import pairwise
from typing import Any, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import brentq

from isometer.checks import whole_number
from isometer.errors import IsometerError
from isometer.solvers._answer import Answer
from isometer.spec import Attention, Dense, Norm, Repeat, Residual, Shape, Spec, with_depth
from isometer.spec._edits import edited
from isometer.spec._program import executed, turns_of, varies
from isometer.spec._reading import spec_of_steps
from isometer.spec._steps import Step
from isometer.spec._steps import walk as every_step
from isometer.theory.transformers import token_path
from isometer.theory.transformers._growth import growth_logs
from isometer.theory.transformers._paths import follow, starting_state

Floats = NDArray[np.float64]
Layer = tuple[tuple[Step, ...], Shape]
TokenNumber = Literal["skip", "branch", "qk_gain"]
"""The type of a number that all blocks of a transformer share."""
TOKEN_NUMBERS: tuple[TokenNumber, ...] = ("skip", "branch", "qk_gain")
COLLAPSED = 0.1
"""Share of the largest entropy below which attention has collapsed."""
_FIELDS: dict[TokenNumber, tuple[type, str]] = {
    "skip": (Residual, "skip"),
    "branch": (Residual, "scale"),
    "qk_gain": (Attention, "qk_gain"),
}
_WORDS = {"skip": "skip strength", "branch": "branch strength", "qk_gain": "query-key gain"}
_RANGES: dict[TokenNumber, tuple[float, float]] = {
    "skip": (0.01, 100.0),
    "branch": (1e-3, 10.0),
    "qk_gain": (0.1, 10.0),
}
_POINTS = 13  # that run side by side; few enough for integrals of their own
_CLOSE = 1e-7  # relative distance at which a root is found
_TINY = 1e-9  # a gap that is linear in the map of gaps


class _Found(NamedTuple):
    """Where a function of a number crosses 0 upwards or downwards, by how much that may be off, and a first scan."""

    roots: tuple[float, ...]
    error: float
    scan: tuple[tuple[float, float], ...]


def critical_number(spec: Spec, unknown: TokenNumber, *, between: tuple[float, float] | None = None) -> Answer:
    """The number at which tokens that are nearly alike neither part nor merge: the angle exponent is 0.

    Attention makes tokens alike, an MLP of a large gain parts them, and a skip connection weakens both.

    Args:
        spec: a network of equal blocks that end with a norm.
        unknown: `"skip"`, `"branch"` or `"qk_gain"`; what it is now does not matter.
        between: where to look.

    Example:
        >>> spec = Spec("gpt(width=64, heads=8, tokens=16, norm='post', activation='tanh', mlp_gain=3, causal=False)")
        >>> answer = critical_number(spec, "skip")
        >>> round(answer.value, 3), answer.error < 1e-3
        (1.023, True)
    """
    block, shape = _block(spec)
    question = f"{_WORDS[unknown]} at which nearly equal tokens neither separate nor merge"
    one = np.ones(2)
    lengths = follow([block], starting_state(shape, 0.1 * one, 0.1 * one, np.array([1.0, 4.0]))).rms[1]
    if abs(lengths[1] - lengths[0]) > 1e-9 * lengths[0]:
        words = "The signal grows, since no norm follows the addition: tokens separate or merge ever more slowly."
        step = "write norm='post' in the network, or solve for a depth with --token-cosine"
        return Answer(unknown, question, str(spec), None, None, words, step)
    square = float(lengths[0]) ** 2

    def exponent(values: Floats) -> tuple[Floats, float]:
        like = np.ones_like(values)
        start = starting_state(shape, _TINY * like, _TINY * like, square * like)
        path = follow([block], start, numbers=_numbers([block], unknown, values))
        return np.log(np.maximum(path.token_gap[1], 1e-300) / _TINY), path.error + _TINY

    found = _crossings(exponent, between or _RANGES[unknown])
    columns = (unknown.replace("_", " "), "angle exponent")
    if not found.roots:
        values = [value for _, value in found.scan]
        what = "merge" if max(values) < 0.0 else "part" if min(values) > 0.0 else "are kept as they are"
        words = (
            f"No {_WORDS[unknown]} is critical: tokens {what} at every one, with exponents from {min(values):.3g} to "
            f"{max(values):.3g}."
        )
        step = "raise mlp_gain: the MLP separates what attention merges; or solve for a depth with --token-cosine"
        return Answer(unknown, question, str(spec), None, None, words, step, columns, found.scan)
    value = found.roots[0]
    words = f"The critical {_WORDS[unknown]} is {value:.6g}: the exponent changes sign there."
    made = with_token_number(spec, unknown, value)
    rows = tuple(sorted((*found.scan, (value, 0.0))))
    step = "stay near it, so that depth neither merges tokens nor makes them independent of the input"
    return Answer(unknown, question, str(made), value, found.error, words, step, columns, rows, found.roots)


def entropy_collapse(
    spec: Spec, *, share: float = COLLAPSED, cosine: float = 0.0, between: tuple[float, float] | None = None
) -> Answer:
    """The gain of queries and keys at which the entropy of attention falls to a share of its largest value.

    Args:
        spec: a network over a sequence, with full attention.
        share: of log T, in the block with the least entropy.
        cosine: cosine of two tokens at the input.
        between: where to look.

    Example:
        >>> spec = Spec("gpt(blocks=4, width=64, heads=8, tokens=16, branch=0.2, causal=False)")
        >>> round(entropy_collapse(spec).value, 2)
        3.37
    """
    if not 0.0 < share < 1.0:
        raise IsometerError(f"entropy is {share:g}; expected a share of its largest value, above 0 and below 1")
    layers, shape = list(spec.executed_layers()), spec.shape
    most = math.log(max(shape.axes[0], 2)) if shape.axes else 0.0

    def excess(values: Floats) -> tuple[Floats, float]:
        like = np.ones_like(values)
        start = starting_state(shape, (1.0 - cosine) * like, (1.0 - cosine) * like, like)
        path = follow(layers, start, numbers=_numbers(layers, "qk_gain", values))
        return np.nanmin(path.attention_entropy, axis=0) / most - share, path.error

    starting_state(shape, np.ones(1), np.ones(1), np.ones(1))  # says what is wrong with the shape
    found = _crossings(excess, between or _RANGES["qk_gain"])
    question = f"query-key gain at which the entropy of attention falls to {100 * share:.0f} % of log {shape.axes[0]}"
    columns = ("qk gain", "least entropy / log T")
    scan = tuple((at, value + share) for at, value in found.scan)
    if not found.roots:
        words = f"No query-key gain in this range does: the least entropy is {min(v for _, v in scan):.3g} of log T."
        step = "look elsewhere with --between LOW:HIGH"
        return Answer("qk_gain", question, str(spec), None, None, words, step, columns, scan)
    value = found.roots[0]
    words = f"Entropy collapses at query-key gains above {value:.6g} (variance {value**2:.4g}/width of each weight)."
    rows = tuple(sorted((*scan, (value, share))))
    made = with_token_number(spec, "qk_gain", value)
    return Answer(
        "qk_gain",
        question,
        str(made),
        value,
        found.error,
        words,
        "stay well below it, or normalise queries and keys: qk_norm=True",
        columns,
        rows,
        found.roots,
    )


def depth_of_cosine(spec: Spec, token_cosine: float, *, cosine: float = 0.0, most: int = 1000) -> Answer:
    """The least number of blocks at which the cosine of two tokens reaches a value.

    Args:
        spec: a network with one repeat, the blocks; how many it has does not matter.
        token_cosine: 1 − ε.
        cosine: cosine of two tokens at the input.
        most: the largest number that is looked at.

    Example:
        >>> spec = Spec("gpt(width=64, heads=8, tokens=16, norm='post', causal=False)")
        >>> depth_of_cosine(spec, 0.99).value
        11
    """
    if not cosine < token_cosine < 1.0:
        raise IsometerError(
            f"the cosine of tokens is {token_cosine:g}; expected one between that of the input, {cosine:g}, and 1"
        )
    limit = whole_number(most, "the largest depth", high=10_000, fix="pass fewer blocks")
    seen: dict[int, tuple[float, float]] = {}

    def gap(blocks: int) -> float:
        if blocks not in seen:
            path = token_path(with_depth(spec, blocks), cosine=cosine)
            seen[blocks] = float(path.token_gap[-1, 0]), path.error
        return seen[blocks][0]

    epsilon, low, high = 1.0 - token_cosine, 0, 1
    while high < limit and not gap(high) <= epsilon:
        low, high = high, min(2 * high, limit)
    question = f"least number of blocks at which the cosine of tokens reaches {token_cosine:g}"
    columns = ("blocks", "1 − cosine")
    if not gap(high) <= epsilon:
        rows = tuple((depth, seen[depth][0]) for depth in sorted(seen))
        words = f"More than {limit} blocks: there the cosine of tokens is {1 - gap(high):.4g}."
        return Answer("depth", question, str(spec), math.inf, None, words, "no action needed", columns, rows)
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if gap(middle) <= epsilon else (middle, high)
    near = any(abs(seen[at][0] - epsilon) <= 2 * seen[at][1] * epsilon for at in (low, high) if at in seen)
    rows = tuple((depth, seen[depth][0]) for depth in sorted(seen))
    words = f"{high} blocks: 1 − cosine of tokens is {gap(high):.4g} there."
    step = "take fewer blocks, weaker branches (branch=0.2), or branches that fall with depth: power(depth=-0.5)"
    made = with_depth(spec, high)
    return Answer("depth", question, str(made), high, 1.0 if near else 0.0, words, step, columns, rows)


def bounded_update(
    spec: Spec, unknown: TokenNumber, update: float, *, cosine: float = 0.0, between: tuple[float, float] | None = None
) -> Answer:
    """The number at which one step of gradient descent moves the function by so much per unit of learning rate.

    Args:
        spec: a network over a sequence, with full attention.
        unknown: `"branch"`, say.
        update: c·ΔF over the rate, as `isometer.theory.transformers.function_growth` has it.
        cosine: cosine of two tokens at the input.
        between: where to look.

    Example:
        >>> spec = Spec("gpt(blocks=8, width=64, heads=8, tokens=16, norm='post', causal=False)")
        >>> round(bounded_update(spec, "branch", 100.0).value, 3)
        0.264
    """
    if not (math.isfinite(update) and update > 0.0):
        raise IsometerError(f"update is {update:g}; expected a positive number, the growth per unit of learning rate")
    layers, shape = list(spec.executed_layers()), spec.shape

    def excess(values: Floats) -> tuple[Floats, float]:
        like = np.ones_like(values)
        start = starting_state(shape, (1.0 - cosine) * like, (1.0 - cosine) * like, like)
        path = follow(layers, start, backward=True, numbers=_numbers(layers, unknown, values))
        return growth_logs(path)[0] - math.log(update), path.error

    found = _crossings(excess, between or _RANGES[unknown])
    question = f"{_WORDS[unknown]} at which a step of rate η moves the function by {update:g} η"
    columns = (unknown.replace("_", " "), "growth per rate")
    scan = tuple((at, update * math.exp(min(value, 700.0))) for at, value in found.scan)
    if not found.roots:
        sizes = [value for _, value in scan]
        words = (
            f"No {_WORDS[unknown]} in this range does: the function moves by {min(sizes):.4g} to {max(sizes):.4g} "
            "times the rate."
        )
        step = "pass an --update in between"
        return Answer(unknown, question, str(spec), None, None, words, step, columns, scan)
    value = found.roots[0]
    words = f"At {_WORDS[unknown]} {value:.6g}, one step moves the function by {update:g} times the rate."
    made = with_token_number(spec, unknown, value)
    rows = tuple(sorted((*scan, (value, update))))
    step = "keep the rate times this update well below the size of the output"
    return Answer(unknown, question, str(made), value, found.error, words, step, columns, rows, found.roots)


def deepnorm(spec: Spec, *, cosine: float = 0.0) -> Answer:
    """α beside branches and β of weights by DeepNorm's criterion, with the growth that follows.

    Of n branches, all of them in a row, the bound of an update is Σ (v² + w²)/α² with v = w = β the sizes of a branch's
    two weights; the criterion asks it to be 1, and α β = 1/√2 shares the burden: α = n^(1/4), β = 1/(√2 α).

    Args:
        spec: a network of equal blocks with the norm after the addition.
        cosine: cosine of two tokens at the input.

    Example:
        >>> spec = Spec("gpt(blocks=8, width=32, heads=4, tokens=8, norm='post', causal=False)")
        >>> [round(one, 6) for one in deepnorm(spec).solutions]  # (2 · 8)^(1/4) and (8 · 8)^(−1/4)
        [2.0, 0.353553]
    """
    place = _place(spec)
    body = spec.composition[place]
    assert isinstance(body, Repeat)
    branches = [step for step in body.body if isinstance(step, Residual)]
    after = [two for one, two in pairwise((*body.body, None)) if isinstance(one, Residual)]
    if not branches or not all(isinstance(step, Norm) for step in after):
        raise IsometerError("DeepNorm is for norms that follow the addition; expected norm='post' — pass it")

    def made(blocks: int) -> Spec:
        alpha, beta = _deep_numbers(len(branches) * blocks)
        return with_depth(_deepened(spec, alpha, beta), blocks)

    plain = with_token_number(with_token_number(spec, "skip", 1.0), "branch", 1.0)
    rows = []
    for blocks in (body.times, 4 * body.times):
        grown = [
            math.exp(float(growth_logs(token_path(one, cosine=cosine, backward=True))[0][0]))
            for one in (made(blocks), with_depth(plain, blocks))
        ]
        rows.append((blocks, *_deep_numbers(len(branches) * blocks), *grown))
    alpha, beta = _deep_numbers(len(branches) * body.times)
    words = f"α = {alpha:.6g} scales the skips; β = {beta:.6g} scales the weights of values, output and MLP."
    columns = ("blocks", "α", "β", "growth per rate", "without")
    question = f"DeepNorm's α and β of {body.times} blocks"
    step = "write norm='deep' in gpt(…) for blocks of attention and an MLP"
    return Answer(
        "deepnorm", question, str(made(body.times)), alpha, 0.0, words, step, columns, tuple(rows), (alpha, beta)
    )


def with_token_number(spec: Spec, name: TokenNumber, value: float) -> Spec:
    """The network with one number set in all its blocks.

    Example:
        >>> print(with_token_number(Spec("input(8, [4]) > residual(attention(2))"), "skip", 0.5))
        input(8, [4]) > residual(attention(2), skip=0.5)
    """
    kind, attribute = _FIELDS[name]

    def edit(step: Step) -> Step:
        changed: dict[str, Any] = {attribute: value}
        return replace(step, **changed) if isinstance(step, kind) else step

    return spec_of_steps(edited(spec.composition, edit), spec.shape)


def _deep_numbers(branches: int) -> tuple[float, float]:
    alpha = float(branches) ** 0.25
    return alpha, 1.0 / (math.sqrt(2.0) * alpha)


def _deepened(spec: Spec, alpha: float, beta: float) -> Spec:
    def edit(step: Step) -> Step:
        match step:
            case Residual():
                return replace(step, skip=alpha, scale=1.0)
            case Attention():
                return replace(step, value_gain=beta, output_gain=beta)
            case Dense():
                return replace(step, gain=beta)
        return step

    place = _place(spec)
    body = edited(spec.composition[place : place + 1], edit)
    return spec_of_steps((*spec.composition[:place], *body, *spec.composition[place + 1 :]), spec.shape)


def _place(spec: Spec) -> int:
    place = next((at for at, step in enumerate(spec.composition) if isinstance(step, Repeat)), None)
    if place is None:
        raise IsometerError("the question is about blocks, but the network repeats none — write repeat(…, times)")
    return place


def _block(spec: Spec) -> tuple[Layer, Shape]:
    """One turn of the blocks, which must be alike, and the shape of what enters it."""
    place = _place(spec)
    body = spec.composition[place]
    assert isinstance(body, Repeat)
    _, shape = executed(spec.composition[:place], spec.shape)
    block = next(turns_of(body, shape))
    if any(map(varies, body.body)) or block[1] != shape:
        raise IsometerError("blocks differ from each other; expected equal ones — leave out schedules such as power(…)")
    return block, shape


def _numbers(layers: Sequence[Layer], unknown: TokenNumber, values: Floats) -> dict[tuple[Step, str], Floats]:
    """The number in every executed step that has it, one per copy."""
    kind, attribute = _FIELDS[unknown]
    column = values.reshape(-1, 1)
    found = {(step, attribute): column for steps, _ in layers for step in every_step(steps) if isinstance(step, kind)}
    if not found:
        what = "attention" if unknown == "qk_gain" else "residual"
        raise IsometerError(f"the network has no {what} step whose {unknown} could be set; expected one — add it")
    return found


def _crossings(function: Callable[[Floats], tuple[Floats, float]], between: tuple[float, float]) -> _Found:
    """Roots on a logarithmic scale: a scan with all points side by side, and each change of sign by itself."""
    low, high = map(float, between)
    if not 0.0 < low < high:
        raise IsometerError(f"the range is {low:g} to {high:g}; expected two positive numbers, the smaller first")
    grid = np.geomspace(low, high, _POINTS)
    values, stated = function(grid)
    scan = tuple((float(at), float(value)) for at, value in zip(grid[::2], values[::2], strict=True))
    roots, errors = [], [0.0]

    def alone(log: float) -> float:
        return float(function(np.array([math.exp(log)]))[0][0])

    for place in range(_POINTS - 1):
        pair = values[place : place + 2]
        if not (np.isfinite(pair).all() and (pair[0] > 0.0) != (pair[1] > 0.0)) or np.abs(pair).max() <= stated:
            continue
        ends = math.log(grid[place]), math.log(grid[place + 1])
        root = math.exp(brentq(alone, *ends, xtol=_CLOSE, rtol=_CLOSE))
        slope = abs(pair[1] - pair[0]) / float(grid[place + 1] - grid[place])
        roots.append(root)
        errors.append(_CLOSE * root + 2.0 * stated / max(slope, 1e-300))
    return _Found(tuple(roots), float(max(errors)), scan)
