"""Networks with batch or layer norm, sample by sample: what replacing σ by (σ − c)/s does to them (004, Appendix B).

Inputs are `(n, d)`; a hidden layer is σ of pre-activations, scaled by 1/√m. Arrays of mpmath numbers go through.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from isometer_papers.float_or_mpmath import Numeric, sqrt

__all__ = ["batch_norm_network", "layer_norm_network", "printed_mean_gap", "standardized"]

Function = Callable[[Any], Any]


def standardized(values: Numeric, axis: int) -> Numeric:
    """(v − mean)/√(mean square of v − mean) along an axis: BN over samples (0), LN over units (1).

    Example:
        >>> import numpy as np
        >>> standardized(np.array([[1.0], [3.0]]), 0).ravel().tolist()
        [-1.0, 1.0]

    Implements: 004/lem-1.
    """
    size = values.shape[axis]
    centred = values - values.sum(axis=axis, keepdims=True) / size
    return centred / sqrt((centred * centred).sum(axis=axis, keepdims=True) / size)


def batch_norm_network(inputs: Numeric, weights: Sequence[Any], function: Function, *, last: bool = True) -> Numeric:
    """f of 004/eq-1 with BN of the pre-activations of every hidden layer and, with `last`, of the output.

    Args:
        inputs: (n, d).
        weights: W_1 … W_L and the output weights (1, m), each (units, inputs).
        function: σ.
        last: whether the output layer is normalised too.

    Example:
        >>> import numpy as np
        >>> x, w = np.array([[1.0], [2.0], [4.0]]), [np.array([[1.0], [-2.0]]), np.array([[1.0, 3.0]])]
        >>> plain, moved = (batch_norm_network(x, w, f) for f in (np.tanh, lambda z: 5 * np.tanh(z) + 1))
        >>> bool(np.allclose(plain, moved))
        True

    Implements: 004/lem-1, 004/lem-17.
    """
    h = inputs
    for k, w in enumerate(weights):
        z = h @ w.T
        final = k == len(weights) - 1
        if final:
            return standardized(z, 0) if last else z
        h = function(standardized(z, 0)) / sqrt(z[:1, :1] * 0 + w.shape[0])  # √m in the precision of z
    return h


def layer_norm_network(inputs: Numeric, weights: Sequence[Any], function: Function) -> Numeric:
    """f of 004/eq-1 with LN of the post-activation outputs of every hidden layer.

    Example:
        >>> import numpy as np
        >>> x, w = np.array([[1.0], [2.0]]), [np.array([[1.0], [-2.0]]), np.array([[1.0, 3.0]])]
        >>> plain, moved = (layer_norm_network(x, w, f) for f in (np.tanh, lambda z: 5 * np.tanh(z) + 1))
        >>> bool(np.allclose(plain, moved))
        True

    Implements: 004/lem-1, 004/lem-17.
    """
    h = inputs
    for w in weights[:-1]:
        h = standardized(function(h @ w.T) / sqrt(h[:1, :1] * 0 + w.shape[0]), 1)
    return h @ weights[-1].T


def printed_mean_gap(values: Numeric, weights: Numeric, shift: Numeric, scale: Numeric) -> tuple[Numeric, Numeric]:
    """(μ̃, (μ − c)/s) for v = wᵀσ/√m and ṽ = wᵀ(σ − c)/(s√m) over a batch; the proof of 004/lem-1 has them equal.

    Args:
        values: σ of the units below, (b, m).
        weights: w, (m,).
        shift: c.
        scale: s.

    Example:
        >>> import numpy as np
        >>> left, right = printed_mean_gap(np.ones((2, 1)), np.array([2.0]), 1.0, 1.0)
        >>> float(left), float(right)  # v = 2 and ṽ = 0, but μ − c = 1
        (0.0, 1.0)

    Implements: 004/lem-1.
    """
    root = sqrt(values[0, 0] * 0 + values.shape[1])
    plain = (values @ weights / root).sum() / len(values)
    moved = ((values - shift) / scale @ weights / root).sum() / len(values)
    return moved, (plain - shift) / scale
