"""Activations and normalisations that a model writes out in elementary operations."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache

import numpy as np

from isometer.activations import activation
from isometer.doctor.prediction._waists import Routes
from isometer.doctor.probe._trace import TraceStep
from isometer.errors import IsometerError

_FUNCTIONS = frozenset({"tanh", "sigmoid", "relu", "erf", "exp", "sin", "cos", "softplus", "silu", "gelu"})
_KNOWN = ("gelu", "gelu_tanh", "silu", "mish", "relu", "tanh", "gelu(approximate='tanh')", "x*sigmoid(1.702*x)")
_PRODUCTS = frozenset({"mul", "__mul__", "__rmul__", "multiply"})
_QUOTIENTS = frozenset({"div", "__truediv__", "true_divide", "divide"})
_SUMS = frozenset({"add", "__add__", "__radd__", "sub", "__sub__", "__rsub__", "rsub"})
_LONGEST = 40  # steps of an activation that is written out


def expression(trace: Sequence[TraceStep], ways: Routes, end: int, start: int) -> str | None:
    """What the steps from one to another compute entry by entry, in the words of the registry; `None` if they do more.

    Example:
        >>> steps = [
        ...     TraceStep("input", "input"),
        ...     TraceStep("sigmoid", "activation", (0,), activation="sigmoid"),
        ...     TraceStep("mul", "other", (0, 1)),
        ... ]
        >>> from isometer.doctor.prediction._waists import ways
        >>> expression(steps, ways(steps), 2, 0)
        'silu'
    """
    if len(ways.inside(start, end)) > _LONGEST:
        return None
    text = _text(trace, ways, end, start)
    return None if text is None else _named(text)


def _text(trace: Sequence[TraceStep], ways: Routes, node: int, start: int) -> str | None:
    if node == start:
        return "x"
    step, read = trace[node], ways.reads[node]
    if ways.fixed[node]:
        return None
    inner = [_text(trace, ways, one, start) for one in read]
    if not inner or any(one is None for one in inner):
        return None
    first = inner[0]
    if step.kind == "scale":
        factor = step.settings.get("factor")
        power = step.settings.get("power", 1.0)
        return None if factor is None or not factor else f"({factor if power > 0 else 1 / factor!r})*({first})"
    if len(inner) == 2:
        sign = step.settings.get("alpha", 1.0)
        if step.name in _PRODUCTS:
            return f"({first})*({inner[1]})"
        if step.name in _SUMS:
            return f"({first})+({sign})*({inner[1]})"
        return None
    if len(inner) > 2:
        return None
    if step.name in _FUNCTIONS or (step.kind == "activation" and step.activation in _FUNCTIONS):
        return f"{step.name if step.name in _FUNCTIONS else step.activation}({first})"
    if "exponent" in step.settings and float(step.settings["exponent"]).is_integer():
        return f"({first})**{int(step.settings['exponent'])}"
    if step.name == "square":
        return f"({first})**2"
    if step.name in _SUMS and "number" in step.settings:
        number, alpha = step.settings["number"], step.settings.get("alpha", 1.0)
        if step.settings.get("reverse"):
            return f"({number})-({first})"
        return f"({first})+({number * alpha})"
    return None


@lru_cache(maxsize=128)
def _named(text: str) -> str | None:
    """The registry's own name of a function, if it has one; the text if it can be read at all."""
    grid = np.linspace(-6.0, 6.0, 97)
    try:
        values = activation(text)(grid)
    except (IsometerError, ArithmeticError):
        return None
    for name in _KNOWN:
        try:
            if np.allclose(activation(name)(grid), values, rtol=1e-5, atol=1e-6):
                return name
        except IsometerError:
            continue
    return text


def written_norm(trace: Sequence[TraceStep], ways: Routes, node: int) -> tuple[int, float, bool] | None:
    """What a step normalises over the features, ε, and whether it subtracts the mean; `None` if it is no norm.

    `x · rsqrt(mean(x²) + ε)`, `x / sqrt(…)` and the same of `x − mean(x)`.
    """
    read, name = ways.reads[node], trace[node].name
    if len(read) != 2 or ways.fixed[node]:
        return None
    orders = [(read[0], read[1])] if name in _QUOTIENTS else [read, read[::-1]] if name in _PRODUCTS else []
    for signal, size in orders:
        found = _root(trace, ways, size, inverse=name in _PRODUCTS)
        if found is None:
            continue
        square, eps = _eps(trace, ways, found)
        centred = _centred(trace, ways, signal)
        of = _mean_square(trace, ways, square)
        if of == signal:
            return (signal, eps, False) if centred is None else (centred, eps, True)
        if centred is not None and of == centred and trace[square].name == "var":
            return centred, eps, True
    return None


def _root(trace: Sequence[TraceStep], ways: Routes, node: int, *, inverse: bool) -> int | None:
    step, read = trace[node], ways.reads[node]
    if len(read) != 1:
        return None
    exponent = step.settings.get("exponent")
    if inverse:
        if step.name == "rsqrt" or exponent == -0.5:
            return read[0]
        return _root(trace, ways, read[0], inverse=False) if step.name == "reciprocal" else None
    return read[0] if step.name == "sqrt" or exponent == 0.5 else None


def _eps(trace: Sequence[TraceStep], ways: Routes, node: int) -> tuple[int, float]:
    step = trace[node]
    if step.name in _SUMS and "number" in step.settings and len(ways.reads[node]) == 1:
        return ways.reads[node][0], float(step.settings["number"])
    return node, 0.0


def _last_axis(step: TraceStep) -> bool:
    axes = step.settings.get("axes")
    return axes is not None and tuple(axes) in ((-1,), (len(step.read_shape) - 1,)) and bool(step.settings["keepdim"])


def _mean_square(trace: Sequence[TraceStep], ways: Routes, node: int) -> int | None:
    step, read = trace[node], ways.reads[node]
    if step.name == "var" and len(read) == 1 and _last_axis(step):
        return read[0]
    if step.name != "mean" or not _last_axis(step):
        return None
    square = trace[read[0]]
    inner = ways.reads[read[0]]
    if square.settings.get("exponent") == 2.0 or square.name == "square":
        return inner[0]
    return inner[0] if square.name in _PRODUCTS and len(inner) == 2 and inner[0] == inner[1] else None


def _centred(trace: Sequence[TraceStep], ways: Routes, node: int) -> int | None:
    """What a step subtracts the mean over features from."""
    step, read = trace[node], ways.reads[node]
    if step.name not in ("sub", "__sub__") or len(read) != 2:
        return None
    mean = trace[read[1]]
    alike = mean.name == "mean" and _last_axis(mean) and ways.reads[read[1]] == (read[0],)
    return read[0] if alike else None
