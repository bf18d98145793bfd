"""Where a backward pass starts: the derivative of a loss by the last representation."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch

from isometer.errors import IsometerError, unknown_name
from isometer.simulate._chain import LayerChain
from isometer.simulate._network import NetworkWalk
from isometer.simulate._streams import Streams

LOSSES = ("gaussian", "squared", "cross-entropy")
"""Losses by name; any array of the shape of the output is a cotangent too."""


def output_cotangent(loss: Any, chain: LayerChain | NetworkWalk, streams: Streams) -> tuple[torch.Tensor, torch.Tensor]:
    """The cotangent at the output of a chain, and the logarithm of its scale.

    `"gaussian"`: independent standard normals. `"squared"`: of `mean_i ½‖h_i − y_i‖²`, y standard normal.
    `"cross-entropy"`: of the mean over the batch, the output as logits, labels uniformly random. An array: itself.

    Args:
        loss: one of `LOSSES` or an array of the shape of the output.
        chain: a chain at its last layer.
        streams: normals for targets, one draw of the output's size.

    Returns:
        `(slots, n, d)` and `(slots,)`.

    Implements: 001/rem-6.6 (losses of 001/thm-6.5), 002/eq-12.
    """
    output = chain.value
    samples, features = output.shape[-2:]
    zero = torch.zeros_like(chain.log_scale)
    if not isinstance(loss, str):
        given = torch.as_tensor(np.asarray(loss), dtype=output.dtype, device=output.device)
        with_axes = (samples, *chain.output_shape)
        if tuple(given.shape) not in ((samples, features), with_axes):
            raise IsometerError(
                f"the cotangent has shape {tuple(given.shape)}; expected {with_axes}, that of the output — "
                "pass one row per sample"
            )
        given = given.reshape(samples, features)
        if not bool(torch.isfinite(given).all()):
            raise IsometerError("the cotangent has NaN or infinite entries; expected finite numbers — drop them")
        return given.expand_as(output).clone(), zero
    normals = streams.take(samples, features)
    if loss == "gaussian":
        return normals, zero
    if loss == "squared":
        # (h − y)/n with h = value·e^s, at the larger of the two scales
        scale = chain.log_scale.clamp(min=0.0)
        shrink_output = (chain.log_scale - scale).exp().to(output.dtype)[:, None, None]
        shrink_target = (-scale).exp().to(output.dtype)[:, None, None]
        return (output * shrink_output - normals * shrink_target) / samples, scale
    if loss == "cross-entropy":
        # beyond e^limit, still finite, softmax changes no more: it is one-hot, or even over exact ties
        limit = 700.0 if output.dtype == torch.float64 else 80.0
        logits = output - output.amax(-1, keepdim=True)
        logits = logits * chain.log_scale.clamp(max=limit).exp().to(output.dtype)[:, None, None]
        labels = normals.argmax(-1)  # uniform over the classes
        return (logits.softmax(-1) - torch.nn.functional.one_hot(labels, features).to(output.dtype)) / samples, zero
    raise unknown_name("loss", loss, LOSSES, fix="pass one of them or an array")


def check_loss(loss: Any) -> None:
    """Raise early for a loss that does not exist."""
    if isinstance(loss, str) and loss not in LOSSES:
        raise unknown_name("loss", loss, LOSSES, fix="pass one of them or an array")
