"""How much one step of an optimizer moves the function that a transformer computes before training.

Let the loss be −c·F with a random unit vector c over the features of one output token F. A step of gradient descent
of rate η moves c·F by η Σ_W ‖∂(c·F)/∂W‖², the mean of the tangent kernel. The first step of Adam moves every weight by
η against the sign of its gradient, and c·F by η Σ|∂(c·F)/∂w|: at most η Σ_W √(entries · ‖∂(c·F)/∂W‖²), and √(2/π) of
that where gradients are Gaussian. Biases and affine parts of norms are left out.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from isometer.spec import Attention, Convolution, Dense, Shape, Spec
from isometer.spec._edits import edited
from isometer.spec._reading import spec_of_steps
from isometer.spec._steps import Step
from isometer.theory.transformers._paths import TokenPath, token_path

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class FunctionGrowth:
    """Per unit of learning rate, for one token of the output and a unit cotangent.

    Attributes:
        sgd: by a step of gradient descent.
        adam: by the first step of Adam, at most; Gaussian gradients give √(2/π) of it.
        sgd_exponent: exponent of the width in `sgd`, from here to twice the width.
        adam_exponent: the same of `adam`.
        sgd_by_layer: what each layer adds to `sgd`.
        sgd_by_kind: what weights of a kind add: `query`, `key`, `value`, `output`, `dense`.
        error: relative error of the expectations.

    Example:
        >>> found = function_growth(Spec("input(8, [4]) > dense(16)"))  # ‖x‖² of tokens with entries of size one
        >>> round(found.sgd, 9), round(found.sgd_exponent, 9), round(found.adam_exponent, 9)
        (8.0, 1.0, 1.5)
    """

    sgd: float
    adam: float
    sgd_exponent: float
    adam_exponent: float
    sgd_by_layer: Floats
    sgd_by_kind: dict[str, float]
    error: float

    def to_dict(self) -> dict[str, Any]:
        """For JSON."""
        return dict(vars(self))


def function_growth(spec: Spec, *, cosine: ArrayLike = 0.0) -> FunctionGrowth:
    """How much one step of an optimizer moves what a network with exchangeable tokens computes.

    Args:
        spec: a network over a sequence, with full attention.
        cosine: cosine of two tokens at the input.

    Example:
        >>> text = "gpt(blocks={}, width=64, heads=8, tokens=16, causal=False, norm='{}')"
        >>> post, deep = (function_growth(Spec(text.format(48, norm))).sgd for norm in ("post", "deep"))
        >>> post > 20 * deep
        True
    """
    path = token_path(spec, cosine=cosine, backward=True)
    wider = token_path(_wider(spec), cosine=cosine, backward=True)
    assert path.weights is not None
    by_kind: dict[str, float] = {}
    for layer in path.weights:
        for one in layer:
            by_kind[one.kind] = by_kind.get(one.kind, 0.0) + math.exp(one.log[0])
    by_layer = np.array([sum(math.exp(one.log[0]) for one in layer) for layer in path.weights])
    (sgd,), (adam,) = growth_logs(path)
    (wide_sgd,), (wide_adam,) = growth_logs(wider)
    return FunctionGrowth(
        math.exp(sgd),
        math.exp(adam),
        float(wide_sgd - sgd) / math.log(2),
        float(wide_adam - adam) / math.log(2),
        by_layer,
        by_kind,
        path.error,
    )


def growth_logs(path: TokenPath) -> tuple[Floats, Floats]:
    """Logarithms of `sgd` and `adam`, one per copy of a path that was followed back.

    Example:
        >>> path = token_path(Spec("input(8, [4]) > dense(16)"), backward=True)
        >>> [round(float(one[0]), 6) for one in growth_logs(path)]  # log 8, and log √(8 · 16 · 8)
        [2.079442, 3.465736]
    """
    assert path.weights is not None
    weights = [one for layer in path.weights for one in layer]
    squares = np.stack([one.log for one in weights])
    roots = np.stack([0.5 * (one.log + math.log(one.entries)) for one in weights])
    return np.logaddexp.reduce(squares, axis=0), np.logaddexp.reduce(roots, axis=0)


def _wider(spec: Spec) -> Spec:
    """Twice as many features everywhere, and heads of the same width."""

    def edit(step: Step) -> Step:
        match step:
            case Dense() if step.width is not None:
                return replace(step, width=2 * step.width)
            case Convolution() if step.channels is not None:
                return replace(step, channels=2 * step.channels)
            case Attention():
                return replace(step, heads=2 * step.heads, key_heads=step.key_heads and 2 * step.key_heads)
        return step

    return spec_of_steps(edited(spec.composition, edit), Shape(2 * spec.shape.width, spec.shape.axes))
