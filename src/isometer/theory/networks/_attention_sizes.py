"""The factors that the weights of attention bring."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from isometer.spec import Attention
from isometer.theory.networks._weights import Run, weight_variance

Floats = NDArray[np.float64]


class AttentionSizes(NamedTuple):
    """Numbers, or one per copy `(copies, 1)`.

    Attributes:
        score: τ, with cov(S_ij, S_kl) = τ² U_ik U_jl.
        per_query: τ² over the variance that query weights bring: what scores hand back to queries.
        value: from second moments of tokens to those of values.
        output: from second moments of heads to the covariance of what leaves.
        inner: features of all heads together.
        keyed: those of keys, and of values.
    """

    score: Floats | float
    per_query: Floats | float
    value: Floats | float
    output: Floats | float
    inner: int
    keyed: int


def attention_sizes(step: Attention, width: int, run: Run) -> AttentionSizes:
    """Those of an executed step on tokens of `width` features."""
    assert step.head_width is not None
    assert step.key_heads is not None
    inner = step.heads * step.head_width
    gain = run.number(step, "qk_gain")
    unit = 1.0 if step.score_scale is None else abs(step.score_scale) * float(np.sqrt(step.head_width))
    score = unit * gain**2
    return AttentionSizes(
        score,
        score**2 if step.qk_norm else unit**2 * gain**2,
        run.number(step, "value_gain") ** 2 * weight_variance(step.weights, width, inner, 1.0),
        run.number(step, "output_gain") ** 2 * weight_variance(step.weights, inner, width, 1.0),
        inner,
        step.key_heads * step.head_width,
    )
