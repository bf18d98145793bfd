"""Networks as text, in the language that `Spec` reads."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import fields
from typing import Any

from isometer.spec._language import WORDS, norm_words, word_of
from isometer.spec._norm import Norm
from isometer.spec._program import Shape
from isometer.spec._schedule import PowerLaw
from isometer.spec._steps import Join, Step


def network_text(steps: Sequence[Step], shape: Shape | None = None) -> str:
    """Steps as text, the input first if its shape is given.

    Example:
        >>> from isometer.spec._steps import Act, Dense, Repeat
        >>> network_text((Repeat((Dense(), Act("tanh", gain=0.5)), 3),), Shape(64))
        "input(64) > repeat(dense > act('tanh', 0.5), 3)"
    """
    words = [_step_text(step) for step in steps]
    if shape is not None:
        axes = f", {list(shape.axes)}" if shape.axes else ""
        words = [f"input({shape.width}{axes})", *words]
    return " > ".join(words)


def _step_text(step: Step) -> str:
    word = word_of(step)
    if isinstance(step, Norm):
        name, rest = norm_words(step)
        given = ([_value_text(name)] if name else []) + [f"{key}={_value_text(value)}" for key, value in rest.items()]
        return f"norm({', '.join(given)})"
    if isinstance(step, Join):
        return f"{word}({', '.join(network_text(branch) or 'same' for branch in step.branches)})"
    entry, given, named = WORDS[word], [], False
    for name in entry.positional:
        value = getattr(step, name)
        if value == entry.default(name):
            named = True  # what follows needs its name
            continue
        text = network_text(value) if name in entry.steps else _value_text(value)
        given.append(f"{name}={text}" if named else text)
    for field in fields(step):
        value = getattr(step, field.name)
        if field.name not in entry.positional and value != field.default:
            given.append(f"{field.name}={_value_text(value)}")
    return f"{word}({', '.join(given)})" if given else word


def _value_text(value: Any) -> str:
    if isinstance(value, PowerLaw):
        given = [number_text(value.scale)] if value.scale != 1.0 else []
        given += [f"{name}={number_text(getattr(value, name))}" for name in ("layer", "depth") if getattr(value, name)]
        return f"power({', '.join(given)})"
    if isinstance(value, tuple):
        return _value_text(value[0]) if len(value) == 1 else f"[{', '.join(map(_value_text, value))}]"
    if isinstance(value, bool | str) or value is None:
        return repr(value)
    return number_text(value)


def number_text(value: float) -> str:
    """A number in as few characters as keep all of it.

    Example:
        >>> number_text(1.0), number_text(0.1), number_text(2**0.5)
        ('1', '0.1', '1.4142135623730951')
    """
    if math.isinf(value):
        return "inf" if value > 0 else "-inf"
    short = f"{value:g}"
    return short if float(short) == value else repr(value)
