"""Diagrams over two numbers of a transformer: all points run side by side."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from isometer.errors import IsometerError
from isometer.spec import Shape, Spec, Step
from isometer.spec._program import _SCHEDULES
from isometer.spec._steps import walk as every_step
from isometer.theory.transformers._paths import Numbers, Progress, TokenPath, follow, starting_state

Floats = NDArray[np.float64]
Made = Callable[[float, float], Spec]
PHASES = ("open", "rank collapse", "entropy collapse", "vanishing gradients", "exploding gradients", "diverged")
"""What a point of a diagram may be; the first that applies of the others, in this order."""
_ALIKE = 1e-2  # 1 − cosine of tokens below which they have collapsed
_SHARP = 0.1  # share of the largest entropy below which attention has collapsed
_FAR = 2 * math.log(1e3)  # log of E ‖J‖² beyond which gradients vanish or explode


@dataclass(frozen=True)
class TokenDiagram:
    """What a transformer does to tokens at its last layer, over two numbers: arrays `(y, x)`.

    Attributes:
        x: values of the first number.
        y: values of the second.
        rms: root mean square of a feature.
        token_cosine: cosine of two tokens of a sample.
        sample_cosine: cosine of tokens of two samples.
        attention_entropy: entropy of attention in the last block that has it, in nats.
        attention_participation: how many tokens a query reads there.
        score_strength: β there, the standard deviation of scores over √log T; many tokens condense at √2.
        log_jacobian: log of the averaged partial Jacobian norm from input to output.
        tokens: T, at every point.
        error: relative error of the expectations, summed over layers.

    Example:
        >>> from isometer.theory.transformers import PresetPlane
        >>> plane = PresetPlane("gpt(blocks=2, width=32, heads=2, tokens=4, causal=False)", "qk_gain", "branch")
        >>> token_diagram(plane, [0.5, 2.0], [0.0, 0.5]).token_cosine.shape
        (2, 2)
    """

    x: Floats
    y: Floats
    rms: Floats
    token_cosine: Floats
    sample_cosine: Floats
    attention_entropy: Floats
    attention_participation: Floats
    score_strength: Floats
    log_jacobian: Floats
    tokens: NDArray[np.int_]
    error: float

    @property
    def phase(self) -> NDArray[np.int_]:
        """Indices into `PHASES`."""
        with np.errstate(invalid="ignore"):
            tests = [
                1.0 - self.token_cosine < _ALIKE,
                self.attention_entropy < _SHARP * np.log(np.maximum(self.tokens, 2)),
                self.log_jacobian < -_FAR,
                self.log_jacobian > _FAR,
                ~np.isfinite(self.rms),
            ]
        return np.select(tests, [1, 2, 3, 4, 5], 0)

    def to_dict(self) -> dict[str, Any]:
        """For JSON."""
        names = (
            "x",
            "y",
            "rms",
            "token_cosine",
            "sample_cosine",
            "attention_entropy",
            "attention_participation",
            "score_strength",
            "log_jacobian",
            "tokens",
            "error",
        )
        return {**{name: getattr(self, name) for name in names}, "phase": self.phase, "phases": list(PHASES)}


def token_diagram(
    made: Made,
    x: Sequence[float],
    y: Sequence[float],
    *,
    cosine: float = 0.0,
    backward: bool = True,
    progress: Progress | None = None,
) -> TokenDiagram:
    """The last layer of a transformer over two of its numbers, for exchangeable tokens and full attention.

    Args:
        made: the network for a pair of numbers.
        x: values of the first.
        y: values of the second.
        cosine: cosine of two tokens at the input.
        backward: whether gradients are followed too.
        progress: called as `progress(done, total)`, in layers of all points or in lines of points.

    Example:
        >>> def made(qk_gain, branch):
        ...     return Spec(f"gpt(blocks=20, width=64, heads=8, tokens=16, norm='post', qk_gain={qk_gain}, "
        ...                 f"branch={branch}, causal=False)")
        >>> found = token_diagram(made, [0.3, 3.0], [0.1, 1.0])
        >>> [[PHASES[k] for k in row] for row in found.phase]
        [['open', 'open'], ['rank collapse', 'rank collapse']]
    """
    across, along = np.asarray(x, dtype=float), np.asarray(y, dtype=float)
    if across.ndim != 1 or along.ndim != 1 or not across.size or not along.size:
        raise IsometerError("the axes of a diagram are lists of numbers; pass at least one value for each")
    rows, error = _plane(made, across, along, cosine, backward, progress)
    tokens = np.array([[made(float(a), float(b)).shape.axes[0] for a in across] for b in along])
    return TokenDiagram(across, along, **rows, tokens=tokens, error=error)


def _plane(
    made: Made, x: Floats, y: Floats, cosine: float, backward: bool, progress: Progress | None
) -> tuple[dict[str, Floats], float]:
    """Values `(y, x)` and their error: all points side by side, or line by line where more than numbers changes."""
    base = made(float(x[0]), float(y[0]))
    numbers = _numbers(base, made, x, y)
    if numbers is not None:
        path = _run(base, numbers, np.full(x.size * y.size, cosine), backward, progress)
        return {name: values.reshape(y.size, x.size) for name, values in _last(path).items()}, path.error
    along_y = y.size > 1 and (x.size == 1 or _numbers(base, made, x, y[:1]) is not None)
    lines = [(x, y[k : k + 1]) for k in range(y.size)] if along_y else [(x[k : k + 1], y) for k in range(x.size)]
    found = []
    for done, line in enumerate(lines, 1):
        found.append(_plane(made, *line, cosine, backward, None))
        if progress is not None:
            progress(done, len(lines))
    rows = {name: np.concatenate([one[name] for one, _ in found], axis=0 if along_y else 1) for name in found[0][0]}
    return rows, max(error for _, error in found)


def _run(
    spec: Spec, numbers: Numbers | None, cosine: Floats, backward: bool, progress: Progress | None = None
) -> TokenPath:
    ones = np.ones_like(cosine)
    start = starting_state(spec.shape, 1.0 - cosine, 1.0 - cosine, ones)
    return follow(list(spec.executed_layers()), start, backward=backward, numbers=numbers, progress=progress)


def _last(path: TokenPath) -> dict[str, Floats]:
    known = np.flatnonzero(~np.isnan(path.attention_entropy).all(axis=1))
    unknown = np.full(path.rms.shape[1], math.nan)
    attention = ("attention_entropy", "attention_participation", "score_strength")
    return {
        **{name: getattr(path, name)[-1] for name in ("rms", "token_cosine", "sample_cosine")},
        **{name: getattr(path, name)[known[-1]] if len(known) else unknown for name in attention},
        "log_jacobian": path.log_jacobian[0] if path.log_jacobian is not None else unknown,
    }


def _numbers(base: Spec, made: Made, x: Floats, y: Floats) -> Numbers | None:
    """Numbers of steps that change over the plane, one per point `(points, 1)`; None where more than that changes."""
    plain = _flat(base)
    found: dict[tuple[Step, str], Floats] = {}
    for axis, specs in (
        (1, [made(float(a), float(y[0])) for a in x]),
        (0, [made(float(x[0]), float(b)) for b in y]),
    ):
        columns = [_flat(spec) for spec in specs]
        if any(spec.shape != base.shape for spec in specs) or any(len(one) != len(plain) for one in columns):
            return None
        for place, step in enumerate(plain):
            own = [column[place] for column in columns]
            changed = _changed(step, own)
            if changed is None:
                return None
            for name in changed:
                values = np.array([float(getattr(one, name)) for one in own])
                grid = np.broadcast_to(values[None, :] if axis else values[:, None], (y.size, x.size))
                before = found.get((step, name))
                column_values = grid.reshape(-1, 1)
                if before is not None and not np.array_equal(before, column_values):
                    return None  # both axes set it, or steps that are equal here change in different ways
                found[step, name] = column_values
    return found


def _flat(spec: Spec) -> list[Step]:
    """All executed steps, those of turns that are one object once."""
    out: list[Step] = []
    before: tuple[tuple[Step, ...], Shape] | None = None
    for layer in spec.executed_layers():
        if before is None or layer[0] is not before[0]:
            out.extend(every_step(layer[0]))
            before = layer
        else:
            out.append(layer[0][0])  # a turn more: the number of layers counts too
    return out


def _changed(step: Step, others: Sequence[Step]) -> set[str] | None:
    """Fields that are numbers and differ; None where anything else does."""
    names: set[str] = set()
    for other in others:
        if type(other) is not type(step):
            return None
        for name in step.__dataclass_fields__:
            one, two = getattr(step, name), getattr(other, name)
            if one == two or name in ("branch", "branches"):  # their steps are compared one by one
                continue
            if name not in _SCHEDULES or not all(isinstance(v, float) and math.isfinite(v) for v in (one, two)):
                return None
            names.add(name)
    return names
