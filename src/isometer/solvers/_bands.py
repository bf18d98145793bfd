"""The largest depth that keeps cosines or gradients in a band."""

from __future__ import annotations

import math
from typing import Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from isometer.checks import whole_number
from isometer.errors import IsometerError
from isometer.solvers._answer import Answer
from isometer.spec import Chain, Spec, with_depth
from isometer.theory.chains import chain_path
from isometer.theory.chains._layer import uncovered
from isometer.theory.networks._expectations import Expectations
from isometer.theory.networks._inputs import gram_state, input_state
from isometer.theory.networks._interpreter import passage
from isometer.theory.networks._weights import Run
from isometer.theory.prediction import predict
from isometer.theory.prediction._coverage import check_covered
from isometer.theory.prediction._forward import Forward
from isometer.theory.prediction._trajectories import checked_start

Floats = NDArray[np.float64]
Kept = Literal["cosines", "gradients"]
"""The type of what a band is about."""
_SETTLED = 1e-14  # relative change of the Gram matrix from which on layers do nothing more


def largest_depth(
    spec: Spec,
    batch: ArrayLike | None = None,
    *,
    gram: ArrayLike | None = None,
    keep: Kept = "cosines",
    band: tuple[float, float],
    most: int = 1000,
) -> Answer:
    """The largest depth up to which all cosines of a batch, or the size of gradients, stay in a band.

    Args:
        spec: a chain, or a network with one repeat; its own depth does not matter.
        batch: the input `(n, d)`.
        gram: or its Gram matrix `H Hᵀ / d`.
        keep: `"cosines"` of all pairs of samples at every layer up to the depth; `"gradients"`, the norm of the
            gradient at the input over that at the output of a network of that depth.
        band: lowest and highest value.
        most: the largest depth that is looked at.

    Gradients of inputs of several lengths are computed one depth at a time: beyond 16 layers in steps of a quarter, and
    between two steps they count as monotone.

    Returns:
        An `Answer`; `inf` where the layers have settled inside the band.

    Example:
        >>> from isometer.spec import chain_from_options
        >>> answer = largest_depth(chain_from_options(), gram=np.eye(2), band=(-0.5, 0.9))
        >>> answer.value, answer.rows[-1][0]
        (12, 13)
    """
    low, high = map(float, band)
    if not low < high:
        raise IsometerError(f"the band is {low:g} to {high:g}; expected the lower end first — swap them")
    limit = whole_number(most, "the largest depth", high=100_000, fix="pass fewer layers")
    start, is_gram = checked_start(spec, batch, gram)
    check_covered(spec, len(start), backward=keep == "gradients")
    if keep == "gradients":
        if low < 0:
            raise IsometerError(
                f"the band of gradients begins at {low:g}; expected positive factors — 0.1 to 10, for example"
            )
        return _gradients(spec, start, is_gram, low, high, limit)
    if len(start) < 2:
        raise IsometerError("one sample has no cosines; expected at least two samples — pass a larger batch")
    return _cosines(spec, start, is_gram, low, high, limit)


def _cosines(spec: Spec, start: Floats, is_gram: bool, low: float, high: float, limit: int) -> Answer:
    rows: list[tuple[int, float, float]] = []
    depth, ended, diverged = min(16, limit), False, -1
    while True:
        grams, diverged = _grams(with_depth(spec, depth), start, is_gram)
        rows = [(layer, *_extremes(gram)) for layer, gram in enumerate(grams)]
        outside = next((row[0] for row in rows if not (low <= row[1] and row[2] <= high)), None)
        ended = isinstance(spec, Chain) and len(rows) - 1 < depth and diverged < 0
        if outside is not None or ended or diverged >= 0 or depth >= limit:
            break
        depth = min(4 * depth, limit)
    question = f"largest depth that keeps all cosines between {low:g} and {high:g}"
    columns = ("layer", "lowest cosine", "highest cosine")
    shown = _some(rows, outside)
    if outside is not None:
        return _left(spec, question, columns, shown, outside, rows[outside][1:], low, high, "cosine")
    if diverged >= 0:
        words = f"Depth {diverged - 1}: cosines are in the band, but the signal overflows in layer {diverged}."
        return Answer(
            "depth", question, str(spec), diverged - 1, 0.0, words, "use --gain forward, or a norm", columns, shown
        )
    if ended:
        words = f"Any depth: the layers have settled, with cosines from {rows[-1][1]:.4g} to {rows[-1][2]:.4g}."
        return Answer("depth", question, str(spec), math.inf, 0.0, words, _NOTHING, columns, shown)
    words = f"At least {limit}: cosines are from {rows[-1][1]:.4g} to {rows[-1][2]:.4g} there, and still moving."
    step = "look deeper with --most, or see their limit with isometer explain"
    return Answer("depth", question, str(spec), float(limit), None, words, step, columns, shown)


def _grams(spec: Spec, start: Floats, is_gram: bool) -> tuple[list[Floats], int]:
    """The Gram matrix of every layer, up to where layers do nothing more; and the layer that overflows, −1 if none."""
    if isinstance(spec, Chain):
        path = Forward(spec).path(start, is_gram=is_gram, settled=_SETTLED)
        return [gram for gram, _ in path.grams("post")], path.diverged
    state = gram_state(spec, start) if is_gram else input_state(spec, start)
    found = passage(list(spec.executed_layers()), state, Run(Expectations()))
    return [gram for gram, _ in found.grams("post")], found.diverged


_NOTHING = "no action needed: any depth will do"


def _extremes(gram: Floats) -> tuple[float, float]:
    root = np.sqrt(np.diag(gram))
    apart = ~np.eye(len(gram), dtype=bool)
    with np.errstate(invalid="ignore"):
        cosines = (gram / np.outer(root, root))[apart]
    cosines = np.clip(np.nan_to_num(cosines, nan=0.0), -1.0, 1.0)  # a sample that died has no direction
    return float(cosines.min()), float(cosines.max())


def _left(
    spec: Spec,
    question: str,
    columns: tuple[str, ...],
    rows: tuple[tuple[float, ...], ...],
    outside: int,
    values: tuple[float, ...],
    low: float,
    high: float,
    what: str,
) -> Answer:
    worst = next(value for value in values if not low <= value <= high)
    side = f"below {low:g}" if worst < low else f"above {high:g}"
    if outside == 0:
        words = f"No depth: the input itself has a {what} of {worst:.4g}, {side}."
        return Answer("depth", question, str(spec), None, None, words, "widen the band", columns, rows)
    depth = outside - 1
    words = f"Depth {depth}: in layer {outside} a {what} is {worst:.4g}, {side}."
    step = "isometer explain, with the same options, shows the limit; a skip connection (--gamma) or a norm changes it"
    solved = str(with_depth(spec, depth)) if depth else str(spec)
    return Answer("depth", question, solved, depth, 0.0, words, step, columns, rows)


def _some(rows: list[tuple[int, float, float]], outside: int | None) -> tuple[tuple[int, float, float], ...]:
    """Powers of two, and the layers around the end of the band."""
    near = {len(rows) - 1} if outside is None else {outside - 1, outside}
    keep = [row for row in rows if row[0] in near or row[0] & (row[0] - 1) == 0]
    return tuple(row for row in keep if outside is None or row[0] <= outside)


def _gradients(spec: Spec, start: Floats, is_gram: bool, low: float, high: float, limit: int) -> Answer:
    factors = _factors(spec, start, is_gram, low, high, limit)
    outside = next((at for at in sorted(factors) if not low <= factors[at] <= high), None)
    question = f"largest depth that keeps the gradient at the input between {low:g} and {high:g} of that at the output"
    columns = ("depth", "gradient, input over output")
    rows = tuple((at, factors[at]) for at in sorted(factors))
    shown = tuple(
        row
        for row in rows
        if (row[0] & (row[0] - 1) == 0 or row[0] in (rows[-1][0], (outside or 1) - 1, outside))
        and (outside is None or row[0] <= outside)
    )
    if outside is not None:
        return _left(spec, question, columns, shown, outside, (factors[outside],), low, high, "gradient factor")
    last = rows[-1]
    words = f"At least {last[0]}: the gradient at the input is {last[1]:.4g} of that at the output there."
    return Answer("depth", question, str(spec), float(last[0]), None, words, "look deeper with --most", columns, shown)


def _factors(spec: Spec, start: Floats, is_gram: bool, low: float, high: float, limit: int) -> dict[int, float]:
    """The gradient norm at the input over that at the output, by depth.

    All depths where one pass has them. Otherwise those up to 16, then in steps of a quarter; where the band is left
    between two of them, those of a bisection: the last inside and the first outside are neighbours.
    """
    squares = np.diag(start) if is_gram else (start**2).mean(axis=1)
    one_size = float(np.ptp(squares)) <= 1e-12 * float(squares.max())
    if one_size and isinstance(spec, Chain) and not uncovered(spec):
        path = chain_path(spec, depth=limit, cosine=0.0, mean_square=float(squares.mean()))
        return {at: math.exp(min(700.0, float(path.log_gradient[at]) / 2)) for at in range(limit + 1)}
    found: dict[int, float] = {0: 1.0}
    inside, depth = 0, 1
    while low <= found[inside] <= high and inside < limit:
        found[depth] = _factor(with_depth(spec, depth), start, is_gram)
        if not low <= found[depth] <= high:
            break
        inside, depth = depth, min(depth + 1 if depth < 16 else math.ceil(1.25 * depth), limit)
    outside = max(found)
    while outside - inside > 1:
        middle = (inside + outside) // 2
        found[middle] = _factor(with_depth(spec, middle), start, is_gram)
        inside, outside = (middle, outside) if low <= found[middle] <= high else (inside, middle)
    return found


def _factor(spec: Spec, start: Floats, is_gram: bool) -> float:
    width = list(spec.executed_layers())[-1][1].width
    batch, gram = (None, start) if is_gram else (start, None)
    log = float(predict(spec, batch, gram=gram, metrics=["gradient_log_norm"])["gradient_log_norm"].values[0, 0])
    return math.exp(min(700.0, log - 0.5 * math.log(len(start) * width)))
