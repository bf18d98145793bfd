"""The laws of random weights, drawn in full."""

from __future__ import annotations

import torch

from isometer.simulate._streams import RandomNumbers
from isometer.spec._weight_laws import step_factor, stream_kind, weight_factor

__all__ = ["GRAM_LAWS", "draw_weights", "haar_frame", "step_factor", "stream_kind", "weight_factor"]

GRAM_LAWS = ("gaussian", "he", "xavier-normal", "orthogonal")
"""Laws that are invariant under rotations of the input, which the Gram engine needs."""


def draw_weights(law: str, streams: RandomNumbers, fan_out: int, fan_in: int) -> torch.Tensor:
    """Unit weights of a layer for every slot, `(slots, fan_out, fan_in)`; `weight_factor` is left to the caller.

    Args:
        law: a law of `isometer.spec.WEIGHT_LAWS`.
        streams: the random numbers, of the `stream_kind` of the law.
        fan_out: rows.
        fan_in: columns.

    Returns:
        The weights.

    Example:
        >>> from isometer.simulate import Streams
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
        return numbers + 1.0  # from [−1, 1) to [0, 2): the mean that 002/init-asym is about
    if law == "orthogonalized-xavier":
        # every singular value becomes their mean (001/init-orthxavier)
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
    # not torch.sign, whose 0 at a zero of the diagonal would erase a column
    sign = torch.where(torch.diagonal(r, dim1=-2, dim2=-1) < 0, -1.0, 1.0).to(q.dtype)
    return torch.mul(q, sign[..., None, :])
