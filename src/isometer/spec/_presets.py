"""Networks by name, with keywords: the papers' chains, MLP blocks with the norm before or after, ResNet blocks."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from isometer.spec._program import Shape
from isometer.spec._recurrences import recurrence
from isometer.spec._schedule import Schedule
from isometer.spec._steps import Act, Convolution, Dense, Pool, Repeat, Residual
from isometer.spec._transformers import Network, blocks_of, gpt, mlp, norm_steps, vit


def chain(*, width: Any = 100, depth: int | None = 50, **fields: Any) -> Network:
    """One layer repeated: the fields of `Chain`.

    Example:
        >>> chain(width=8, depth=2)[1].width
        8
    """
    from isometer.spec._chain import Chain

    made = Chain(width=width, depth=depth, **fields)
    return made.composition, made.shape


def paper(*, id: str, width: Any = 100, depth: int | None = 50, **fields: Any) -> Network:
    """A recurrence of the papers by its inventory ID.

    Example:
        >>> paper(id="002/eq-5", width=32, depth=9, residual=0.1)[0][0].times
        9
    """
    made = recurrence(id, width=width, depth=depth, **fields)
    return made.composition, made.shape


def preln_mlp(
    *,
    width: int = 256,
    blocks: int = 24,
    hidden: int | None = None,
    activation: str = "gelu",
    norm: str = "layer",
    branch: Schedule = 1.0,
    gain: Schedule = 1.0,
) -> Network:
    """Residual blocks x + branch · W₂ φ(W₁ norm(x)), as in transformers since 2019.

    Args:
        width: features between blocks.
        blocks: how many.
        hidden: features inside a block, four times the width by default.
        activation: φ.
        norm: its name.
        branch: factor of the branch.
        gain: factor of the weights.

    Example:
        >>> preln_mlp(width=8, blocks=3)[0][0].times
        3
    """
    inner = mlp(width, hidden, activation, gain)
    return blocks_of((inner,), blocks, "pre", norm_steps(norm), branch), Shape(width)


def postln_mlp(
    *,
    width: int = 256,
    blocks: int = 24,
    hidden: int | None = None,
    activation: str = "gelu",
    norm: str = "layer",
    branch: Schedule = 1.0,
    gain: Schedule = 1.0,
) -> Network:
    """Residual blocks norm(x + branch · W₂ φ(W₁ x)), as in the first transformers; arguments as for `preln_mlp`.

    Example:
        >>> len(postln_mlp(width=8, blocks=3)[0][0].body)
        2
    """
    inner = mlp(width, hidden, activation, gain)
    return blocks_of((inner,), blocks, "post", norm_steps(norm), branch), Shape(width)


def resnet(
    *,
    channels: int = 64,
    blocks: int = 8,
    size: int = 8,
    inputs: int = 3,
    activation: str = "relu",
    norm: str = "none",
    branch: Schedule = 1.0,
    gain: Schedule = 2**0.5,
    classes: int = 10,
) -> Network:
    """Pre-activation residual blocks of two 3 × 3 convolutions on `size` × `size` positions, mean pooling, a readout.

    Args:
        channels: features at every position.
        blocks: how many.
        size: positions along each axis.
        inputs: features of the input.
        activation: φ.
        norm: its name; `none`, `layer` or `rms` (over channels) or `batch`.
        branch: factor of the branch.
        gain: factor of the weights.
        classes: outputs.

    Example:
        >>> resnet(blocks=2)[1].axes
        (8, 8)
    """
    half = (*norm_steps(norm), Act(activation), Convolution((3, 3), channels, gain=gain))
    body = Residual((*half, *half), branch)
    stem = Convolution((3, 3), channels)
    return (stem, Repeat((body,), blocks), Act(activation), Pool(), Dense(classes)), Shape(inputs, (size, size))


PRESETS: dict[str, Callable[..., Network]] = {
    one.__name__: one for one in (chain, paper, preln_mlp, postln_mlp, resnet, gpt, vit)
}
"""The presets by name."""
