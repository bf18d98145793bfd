"""Command lines that are sound but for one option, which has a value that nobody expects.

A line with many odd values ends at the first; one odd value gets as far as the code that uses it. Values are within
what an option may be typed as, so that the parser lets them through, or just outside.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from isometer.work import allow
from support.fuzz.commands import BY_NAME, PATHS, TEXTS, kind_of, leaves
from support.fuzz.commands import check as check_command
from support.fuzz.target import Target

_NETWORK = ["--width", "6", "--depth", "2", "--batch", "4"]
SOUND: dict[str, list[list[str]]] = {
    "explain": [["relu"], ["--network", "input(4) > repeat(dense > act('relu'), 3)"]],
    "compare": [["relu", "tanh"]],
    "predict": [[*_NETWORK, "--runs", "2"], [*_NETWORK, "--norm", "batch", "--runs", "2"]],
    "simulate": [[*_NETWORK, "--runs", "2"], [*_NETWORK, "--runs", "2", "--backward"]],
    "kernel": [_NETWORK, ["--model", "model.py:make", "--batch", "4"]],
    "regress": [["digits", "--network", "dense(1)", "--train", "20", "--test", "20", "--workers", "1"]],
    "jacobian": [_NETWORK, ["--model", "model.py:make", "--batch", "4"]],
    "phase": [["--points", "3"], ["--gain", "1.2"]],
    "solve": [["depth", "--condition", "3"], ["gain"], ["gamma", "--norm", "layer"]],
    "doctor": [
        ["mlp-relu-5", "--no-stress"],
        ["model.py:make", "--no-stress"],
        ["--network", "input(8) > repeat(dense > act('relu'), 3)", "--no-stress"],
    ],
    "scaling": [["model.py:sized", "--widths", "4,8", "--depths", "none", "--rates", "none", "--steps", "2"]],
    "trial draw": [["new", "--families", "mlp", "--per-family", "1", "--rounds", "1,1"]],
    "sweep simulate": [["width=2,4", "--depth", "2", "--batch", "3", "--runs", "2", "--workers", "1"]],
    "sweep predict": [["width=2,4", "--depth", "2", "--batch", "3", "--workers", "1"]],
    "sweep kernel": [["depth=1,2", "--width", "4", "--batch", "3", "--workers", "1"]],
    "data show": [["digits"]],
    "claims list": [[]],
    "explore": [[]],
}
"""Short lines of each command that takes numbers, files or text of its own."""
WHOLE = [-(10**18), -3, -1, 0, 1, 7, 10**4, 10**6, 10**9, 2**31, 2**63, 2**64, 10**18, 10**30, 10**400]
REAL = ["nan", "inf", "-inf", "0", "-0.0", "-1", "1e-320", "1e-150", "1e-30", "1e8", "1e30", "1e150", "1e308", "1e400"]
LISTS = ["1,{}", "{},{}", "{}", "{},2", "{}:{}", "{},"]
_ALLOWED = 4.0  # seconds that a line may be estimated at; ten are what it may take
_SHAPED = ("shape", "depths", "widths", "rates", "rounds", "along", "between", "ridge", "cosines", "gradients", "axes")


def draw(rng: np.random.Generator) -> list[str]:
    """A command line."""
    path = str(rng.choice(sorted(SOUND)))
    words = SOUND[path][int(rng.integers(len(SOUND[path])))]
    known = [one for one in leaves()[path] if one.name != "help"]
    weights = np.array([4.0 if kind_of(one) in (int, float) or one.name in _SHAPED else 1.0 for one in known])
    parameter = known[int(rng.choice(len(known), p=weights / weights.sum()))]
    return [*path.split(), *words, *_given(rng, parameter)]  # of an option that comes twice, the last counts


def _given(rng: np.random.Generator, parameter: Any) -> list[str]:
    if parameter.param_type_name == "argument":
        return [_odd(rng, parameter)]
    name = max(parameter.opts, key=len)
    return [name] if kind_of(parameter) is bool else [f"{name}={_odd(rng, parameter)}"]


def _odd(rng: np.random.Generator, parameter: Any) -> str:
    kind = kind_of(parameter)
    if kind is int:
        return str(WHOLE[int(rng.integers(len(WHOLE)))])
    if kind is float:
        return str(rng.choice(REAL))
    if parameter.name in _SHAPED and rng.random() < 0.8:
        number = str(WHOLE[int(rng.integers(len(WHOLE)))]) if rng.random() < 0.6 else str(rng.choice(REAL))
        return str(rng.choice(LISTS)).replace("{}", number)
    if parameter.name in BY_NAME and rng.random() < 0.6:
        return str(rng.choice(BY_NAME[parameter.name]))
    return str(rng.choice([*PATHS, *TEXTS, *REAL]))


def check(words: list[str]) -> None:
    """As for any command line; what is estimated to take long is refused."""
    with allow(seconds=_ALLOWED):
        check_command(words)


TARGETS = (Target("options", 2000, 4, draw, check, everything=True),)
