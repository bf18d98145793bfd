"""The laws of random weights, drawn in full."""

from __future__ import annotations

import math

import torch

from isometer.simulate.streams import Kind, Streams
from isometer.spec import Spec

GRAM_LAWS = ("gaussian", "he", "xavier-normal", "orthogonal")
"""Laws that are invariant under rotations of the input, which the Gram engine needs."""


def stream_kind(law: str) -> Kind:
    """Whether a law is made of uniform or of normal numbers."""
    return "uniform" if law in ("uniform", "xavier-uniform", "pytorch", "asymmetric") else "normal"


def weight_factor(spec: Spec, layer: int) -> float:
    """What the unit weights of a layer (counted from 1) are multiplied by.

    Unit weights are standard normal, uniform on [−1, 1) (on [0, 2) if asymmetric), or orthogonal.

    Args:
        spec: the network.
        layer: from 1 to the depth.

    Returns:
        The factor, `gain` included.

    Example:
        >>> weight_factor(Spec(width=4, depth=1), 1), weight_factor(Spec(width=3, depth=1, weights="uniform"), 1)
        (0.5, 1.0)

    Implements: 000/init-he, 001/init-gauss, 001/init-haar, 001/init-xavier, 002/def-1, 002/init-asym.
    """
    fan_in, fan_out, gain = spec.fan_in[layer - 1], spec.widths[layer - 1], spec.at("gain", layer)
    if spec.weights == "orthogonal":
        return gain
    if spec.weights in ("pytorch", "asymmetric"):
        return gain / math.sqrt(fan_in)
    if spec.weight_scaling == "unit":
        deviation = 1.0
    elif spec.weights in ("gaussian", "uniform"):
        deviation = 1 / math.sqrt(fan_in)
    elif spec.weights == "he":
        deviation = math.sqrt(2 / fan_in)
    else:
        deviation = math.sqrt(2 / (fan_in + fan_out))
    return gain * deviation * (math.sqrt(3) if stream_kind(spec.weights) == "uniform" else 1.0)


def draw_weights(law: str, streams: Streams, fan_out: int, fan_in: int) -> torch.Tensor:
    """Unit weights of a layer for every slot, `(slots, fan_out, fan_in)`; `weight_factor` is left to the caller.

    Args:
        law: a law of `isometer.spec.WEIGHT_LAWS`.
        streams: the random numbers, of the `stream_kind` of the law.
        fan_out: rows.
        fan_in: columns.

    Returns:
        The weights.

    Example:
        >>> streams = Streams(0, [0], 1, "weights", "normal", 6, torch.zeros((), dtype=torch.float64))
        >>> w = draw_weights("orthogonal", streams, 2, 3)[0]
        >>> torch.allclose(w @ w.T, torch.eye(2, dtype=w.dtype))
        True

    Implements: 001/init-haar, 001/init-orthxavier (A.5), 002/init-asym.
    """
    if law == "orthogonal":
        tall = haar_frame(streams.take(max(fan_in, fan_out), min(fan_in, fan_out)))
        return tall if fan_out >= fan_in else tall.mT
    numbers = streams.take(fan_out, fan_in)
    if law == "asymmetric":
        return numbers + 1.0
    if law == "orthogonalized-xavier":
        left, values, right = torch.linalg.svd(numbers, full_matrices=False)
        return torch.matmul(left * values.mean(-1)[..., None, None], right)
    return numbers


def haar_frame(normals: torch.Tensor) -> torch.Tensor:
    """Orthonormal columns, uniform over all frames, from a matrix of independent normals `(…, rows, columns)`.

    QR with the signs of R made positive, without which the law is not the Haar law.

    Args:
        normals: `(…, rows, columns)`, at least as many rows.

    Returns:
        The frame, of the same shape.

    Example:
        >>> frame = haar_frame(torch.randn(5, 2, dtype=torch.float64, generator=torch.Generator().manual_seed(0)))
        >>> torch.allclose(frame.T @ frame, torch.eye(2, dtype=torch.float64))
        True

    Implements: 001/init-haar.
    """
    q, r = torch.linalg.qr(normals)
    sign = torch.where(torch.diagonal(r, dim1=-2, dim2=-1) < 0, -1.0, 1.0).to(q.dtype)
    return torch.mul(q, sign[..., None, :])
