"""Activations written as text, sound and mangled: read, or refused in one line."""

from __future__ import annotations

from typing import Any

import numpy as np

from isometer import activation
from isometer.activations import ENTRIES
from isometer.errors import IsometerError
from support.fuzz.target import PromiseBroken, Target

_CURVED = (
    "tanh", "sigmoid", "erf", "sin", "cos", "arctan", "softplus", "exp", "relu", "abs", "sqrt", "log", "log1p", "sinh",
    "cosh", "arcsinh", "expm1", "step", "sign",
)  # fmt: skip
_ALGEBRA = ("normalized", "centered", "unit", "derivative")
_RUBBISH = [
    *"()[]{}*/+-^.,;:@#$%&!?~`'\"\\|<>=",
    "\0",
    "\n",
    "∞",
    "é",
    "λ",
    "²",
    "lambda",
    "__import__",
    "1e",
    "nan",
    "0x",
    " ",
]


def number(rng: np.random.Generator, *, extreme: bool = True) -> str:
    """A constant, round or not, now and then of an extreme size."""
    kind = rng.integers(6 if extreme else 4)
    if kind < 2:
        return str(int(rng.integers(1, 10)))
    if kind < 4:
        return f"{rng.uniform(0.05, 3):.3g}"
    return f"{10.0 ** rng.uniform(-100, 100):.3g}" if kind == 4 else f"{10.0 ** rng.integers(-12, 13):g}"


def expression(rng: np.random.Generator, depth: int = 3, *, extreme: bool = True) -> str:
    """A formula in x."""
    if depth == 0 or rng.random() < 0.15:
        return "x" if rng.random() < 0.8 else number(rng, extreme=extreme)
    kind = rng.integers(8)
    inner = expression(rng, depth - 1, extreme=extreme)
    if kind < 3:
        return f"{rng.choice(_CURVED)}({inner})"
    if kind == 3:
        return f"({inner})**{rng.integers(1, 9)}"
    if kind == 4:
        return f"{number(rng, extreme=extreme)}*({inner})"
    if kind == 5:
        return f"{rng.choice(list(ENTRIES))}({inner})"
    other = expression(rng, depth - 1, extreme=extreme)
    if kind == 6:
        return f"{rng.choice(['max', 'min'])}({inner}, {other})"
    return f"({inner}) {rng.choice(list('+-*/'))} ({other})"


def mangled(rng: np.random.Generator, text: str) -> str:
    """The text with a few characters gone, doubled, swapped or replaced by rubbish."""
    letters = list(text)
    for _ in range(int(rng.integers(1, 5))):
        at = int(rng.integers(len(letters))) if letters else 0
        kind = rng.integers(4)
        if kind == 0 and letters:
            del letters[at]
        elif kind == 1:
            letters.insert(at, str(rng.choice(_RUBBISH)))
        elif kind == 2 and letters:
            letters.insert(at, letters[at])
        elif letters:
            letters[at] = letters[int(rng.integers(len(letters)))]
    return "".join(letters)


def _draw(rng: np.random.Generator) -> Any:
    text = expression(rng, int(rng.integers(1, 5)))
    if rng.random() < 0.3:
        text = f"{rng.choice(_ALGEBRA)}({text})"
    if rng.random() < 0.02:
        text = "(" * int(rng.integers(1, 200)) + text + ")" * int(rng.integers(1, 200))
    return mangled(rng, text) if rng.random() < 0.6 else text


def _check(text: Any) -> None:
    try:
        phi = activation(text)
        values = np.asarray(phi(np.array([-1.5, 0.25, 2.0])))
    except IsometerError as problem:
        if "\n" in str(problem):
            raise PromiseBroken(f"an error of several lines: {str(problem)[:80]!r}") from None
        raise
    if values.shape != (3,):
        raise PromiseBroken(f"values of shape {values.shape}")


TARGETS = (Target("expressions", 20_000, 100, _draw, _check),)
