"""Inputs of a network as the state that its first step sees."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from isometer.checks import check_entries
from isometer.errors import IsometerError
from isometer.spec import Shape, Spec
from isometer.theory.networks._covariance import Covariance
from isometer.theory.networks._interpreter import needs_pairs
from isometer.theory.networks._layout import Layout
from isometer.theory.networks._state import FeatureState, gaussian

Floats = NDArray[np.float64]


def checked_inputs(inputs: ArrayLike, shape: Shape) -> Floats:
    """A batch `(n, features, *axes)` of a network's input shape, as an array.

    Example:
        >>> checked_inputs([[1.0, 2.0]], Shape(2)).shape
        (1, 2)
    """
    try:
        array = np.asarray(inputs)
    except ValueError as problem:
        raise IsometerError(f"inputs must be an array of numbers: {problem}") from None
    expected = (shape.width, *shape.axes)
    if array.dtype.kind not in "fiub" or array.ndim == 0 or array.shape[1:] != expected or len(array) == 0:
        said = ", ".join(["n", *map(str, expected)])
        raise IsometerError(
            f"inputs have shape {array.shape}; the network expects ({said}) — pass samples, then features, then "
            "positions, or change the network's input"
        )
    values = array.astype(np.float64)
    if not np.isfinite(values).all():
        raise IsometerError("inputs have NaN or infinite entries; expected finite numbers — drop those samples")
    check_entries(float(np.abs(values).max()), name="inputs")
    return values


def input_state(spec: Spec, inputs: ArrayLike, *, tangent: bool = False, pairs: bool = False) -> FeatureState:
    """A batch at the start of a network, with pairs of positions where some step needs them, or `pairs` asks for them.

    Example:
        >>> spec = Spec("input(3, [4]) > conv(3, 8) > act('relu') > pool")
        >>> input_state(spec, np.ones((2, 3, 4))).layout.full
        True
    """
    array = checked_inputs(inputs, spec.shape)
    axes = spec.shape.axes
    layout = Layout(len(array), axes, full=bool(axes) and (pairs or needs_pairs(spec.composition)))
    features = array.reshape(len(array), array.shape[1], -1)  # (n, d, P)
    if not axes:
        features = np.moveaxis(features, 2, 0)  # (1, n, d)
    elif layout.full:
        features = np.moveaxis(features, 1, 2).reshape(1, -1, array.shape[1])
    else:
        features = np.transpose(features, (2, 0, 1))
    return FeatureState.of_features(np.ascontiguousarray(features), layout, tangent=tangent)


def gram_state(spec: Spec, gram: Floats, *, tangent: bool = False) -> FeatureState:
    """A Gram matrix `H Hᵀ / d` at the start of a network without positions; its features count as Gaussian.

    Example:
        >>> gram_state(Spec("input(3) > dense(4) > act('relu') > dense"), np.eye(2)).is_gaussian
        True
    """
    if spec.shape.axes:
        raise IsometerError(
            f"gram is given for an input with {spec.shape.positions} positions; expected the batch itself — pass it"
        )
    matrix = np.asarray(gram, dtype=np.float64)[None]
    zeros: Any = np.zeros_like(matrix) if tangent else None
    return FeatureState.of(gaussian(Covariance.of_gram(matrix), zeros), Layout(len(gram)), spec.shape.width)
