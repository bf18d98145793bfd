"""One way to say which activation is meant: a name, an expression, a callable, a torch module."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from isometer.activations._activation import Activation
from isometer.activations._expression import Opaque, X
from isometer.activations._foreign import ForeignFunction
from isometer.activations._names import find_torch
from isometer.activations._parser import parse
from isometer.errors import ActivationError


def activation(
    source: str | Activation | Callable[..., Any],
    *,
    name: str | None = None,
    kinks: Sequence[float] | None = None,
) -> Activation:
    """An activation from a name, an expression, a Python callable on arrays, or a torch module or function.

    Text is parsed, never executed: registry names (`"relu"`, `"leaky_relu(0.1)"`) and torch's (`"ReLU"`, `"nn.GELU"`),
    the algebra (`"normalized(relu)"`, `"gain(tanh, 0.5)"`) and expressions in x (`"x * tanh(softplus(x))"`).

    Args:
        source: what to make an activation of.
        name: the name to show; by default the text, or the callable's own name.
        kinks: for callables, the points where it is not smooth. Found automatically when not given.

    Returns:
        An `Activation`.

    Example:
        >>> import numpy as np
        >>> from isometer import activation
        >>> soft = activation(lambda x: np.sign(x) * np.maximum(np.abs(x) - 0.5, 0), name="soft threshold")
        >>> soft.kinks
        (-0.5, 0.5)
    """
    if isinstance(source, Activation):
        return source if name is None else Activation(source.expression, name)
    if isinstance(source, str):
        if kinks is not None:
            raise ActivationError("kinks of an expression are found from its formula; declare them for callables only")
        parsed = parse(source)
        return parsed if name is None else Activation(parsed.expression, name)
    if not callable(source):
        raise ActivationError(
            f"expected a name, an expression, a callable or a torch module; got {type(source).__name__} {source!r}"
        )
    known = find_torch(source)
    if known is not None:
        return activation(known.text, name=name)
    label = name or getattr(source, "__name__", None) or type(source).__name__
    if label == "<lambda>":
        label = "lambda"
    return Activation(Opaque(ForeignFunction(source, label, kinks), X), label)
