"""Kernels between two sets of samples of any network that has one."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from isometer.errors import IsometerError
from isometer.spec import Norm, Shape, Spec, Step
from isometer.spec._parser import parse_network
from isometer.spec._steps import walk
from isometer.theory.networks import NotCovered, network_kernels, pair_kernels

Floats = NDArray[np.float64]
Kind = Literal["nngp", "ntk"]
_POSITIONS = ("conv", "depthwise", "pool", "flatten", "upsample")  # words that need positions


def network_of(network: Spec | str, features: Sequence[int]) -> Spec:
    """The network for samples of a shape: `(features,)`, or `(channels, *positions)` where one is needed.

    A text that begins with `input(…)` is taken as it is. Otherwise positions are kept where a step needs them.

    Example:
        >>> network_of("conv(3, 8) > act('relu') > flatten > dense(1)", (3, 4, 4)).shape
        Shape(width=3, axes=(4, 4))
        >>> network_of("dense(8) > act('relu') > dense(1)", (3, 4, 4)).shape.width
        48
    """
    if isinstance(network, Spec):
        spec = network
    else:
        if not isinstance(network, str):
            raise IsometerError(
                f"network is a {type(network).__name__}; expected a Spec or its text — pass one of them"
            )
        steps, shape = parse_network(network)
        spec = Spec(network) if shape is not None else Spec(f"input({_words(steps, features)}) > {network}")
    if any(isinstance(step, Norm) and step.over == "batch" for step in walk(spec.composition)):
        raise IsometerError(
            "the network has a batch norm, whose kernel depends on the whole batch; expected a network with a kernel "
            "of two inputs — leave the norm out, or take norm('layer')"
        )
    return spec


def _words(steps: Sequence[Step], features: Sequence[int]) -> str:
    if len(features) > 1 and any(type(step).__name__.lower().startswith(_POSITIONS) for step in walk(steps)):
        return f"{features[0]}, [{', '.join(map(str, features[1:]))}]"
    return str(int(np.prod(features)))


def as_inputs(samples: ArrayLike, shape: Shape) -> Floats:
    """Samples with the axes that a network asks for; flat ones get their positions.

    Example:
        >>> as_inputs(np.ones((2, 12)), Shape(3, (2, 2))).shape
        (2, 3, 2, 2)
    """
    x: Any = np.asarray(samples)
    wanted = (shape.width, *shape.axes)
    if x.ndim < 2 or int(np.prod(x.shape[1:])) != int(np.prod(wanted)):
        raise IsometerError(
            f"samples have shape {x.shape}; the network takes (n, {', '.join(map(str, wanted))}) — reshape "
            "them, or begin the network with another input(…)"
        )
    return np.asarray(x, dtype=np.float64).reshape(len(x), *wanted)


def kernels_between(
    spec: Spec,
    first: Floats,
    second: Floats | None,
    kinds: Sequence[Kind],
    precision: Literal["float64", "float32"] = "float64",
) -> dict[Kind, Floats]:
    """Kernels between two sets, or within one; by the interpreter where pairs have no formula.

    Example:
        >>> spec = Spec("input(2) > dense(8) > act('hardtanh') > dense(1)")
        >>> kernels_between(spec, np.eye(2), np.ones((1, 2)), ("nngp",))["nngp"].shape
        (2, 1)
    """
    try:
        return dict(pair_kernels(spec, first, second, kinds=kinds, precision=precision))
    except NotCovered:
        whole = first if second is None else np.concatenate([first, second])
        found = network_kernels(spec, whole, kinds=kinds)
    rows, columns = len(first), slice(None) if second is None else slice(len(first), None)
    return {kind: _unscaled(one.matrix, one.log_diagonal)[:rows, columns] for kind, one in found.items()}


def _unscaled(matrix: Floats, logs: Floats) -> Floats:
    return np.asarray(matrix * np.exp(logs.max()))


def diagonal_of(spec: Spec, samples: Floats, kind: Kind, precision: Literal["float64", "float32"]) -> Floats:
    """K(x, x) of every sample.

    Example:
        >>> diagonal_of(Spec("input(2) > dense(1)"), np.eye(2), "nngp", "float64").round(12).tolist()
        [0.5, 0.5]
    """
    from isometer.theory.networks import PairKernels

    places = np.arange(len(samples))
    try:
        return PairKernels(spec, samples, kinds=(kind,), precision=precision)(places, places)[kind]
    except NotCovered:
        return np.diag(kernels_between(spec, samples, None, (kind,))[kind]).copy()
