"""Multi-head self-attention of given queries, keys and values, forward and backward."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import NamedTuple

import torch

from isometer.simulate._windows import parted
from isometer.spec import Attention

Tensor = torch.Tensor
HeadsBack = Callable[[Tensor], tuple[Tensor, Tensor, Tensor]]
"""From the gradient by what heads hand on to those by queries, keys and values."""


class MeasuredAttention(NamedTuple):
    """Means over heads, samples and queries, per slot: the entropy in nats, and how many tokens a query reads."""

    entropy: Tensor
    participation: Tensor


class Heads(NamedTuple):
    """What heads hand on, `(slots, n · T, heads · head_width)`, the way back, and what softmax read."""

    value: Tensor
    back: HeadsBack
    reading: MeasuredAttention | None


def score_scale(step: Attention) -> float:
    """The factor of ⟨q, k⟩ of an executed step.

    Example:
        >>> score_scale(Attention(heads=2, head_width=16))
        0.25
    """
    assert step.head_width is not None
    return 1.0 / math.sqrt(step.head_width) if step.score_scale is None else step.score_scale


def query_gain(step: Attention) -> float:
    """The factor of query and key weights; with a norm behind them it is the norm's instead.

    Example:
        >>> query_gain(Attention(qk_gain=2.0)), query_gain(Attention(qk_gain=2.0, qk_norm=True))
        (2.0, 1.0)
    """
    assert isinstance(step.qk_gain, float)
    return 1.0 if step.qk_norm else step.qk_gain


def attend(step: Attention, q: Tensor, k: Tensor, v: Tensor, positions: int, *, read: bool = False) -> Heads:
    """Heads of an executed step.

    Args:
        step: the step.
        q: queries, `(slots, n · T, heads · head_width)`.
        k: keys, `(slots, n · T, key_heads · head_width)`.
        v: values, of the same shape.
        positions: T.
        read: whether entropies are requested.

    Example:
        >>> step = Attention(heads=1, head_width=1, key_heads=1)
        >>> x = torch.tensor([[[0.0], [4.0]]])
        >>> attend(step, torch.zeros(1, 2, 1), x, x, 2).value.flatten().tolist()
        [2.0, 2.0]
    """
    assert step.key_heads is not None
    groups = step.heads // step.key_heads
    query, query_back = _prepared(step, _apart(q, positions, step.heads))
    key, key_back = _prepared(step, _apart(k, positions, step.key_heads))
    value = _apart(v, positions, step.key_heads)
    keys, values = (one.repeat_interleave(groups, 2) for one in (key, value))
    scale = score_scale(step)
    a, scores_back = _weights(step, (query @ keys.mT) * scale)

    def back(c: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        c = _apart(c, positions, step.heads)
        by_scores = scores_back(c @ values.mT) * scale
        by_value, by_key = a.mT @ c, by_scores.mT @ query
        if groups > 1:
            by_value, by_key = (parted(one, 2, -1, groups).sum(3) for one in (by_value, by_key))
        return _together(query_back(by_scores @ keys)), _together(key_back(by_key)), _together(by_value)

    return Heads(_together(a @ values), back, _reading(a) if read and step.kind == "softmax" else None)


def _apart(x: Tensor, positions: int, heads: int) -> Tensor:
    """`(slots, n · T, heads · d)` as `(slots, n, heads, T, d)`."""
    return parted(parted(x, 1, -1, positions), 3, heads, -1).transpose(2, 3)


def _together(x: Tensor) -> Tensor:
    return x.transpose(2, 3).flatten(3).flatten(1, 2)


def _prepared(step: Attention, x: Tensor) -> tuple[Tensor, Callable[[Tensor], Tensor]]:
    """Queries or keys `(…, T, head_width)` behind their norm and their rotation, and the way back."""
    normed, back = _normed(step, x)
    if not step.rotary:
        return normed, back
    angles = torch.tensor(step.rotary_angles, dtype=x.dtype, device=x.device)
    turned = torch.arange(x.shape[-2], dtype=x.dtype, device=x.device)[:, None] * angles
    cos, sin = turned.cos(), turned.sin()
    return _turned(normed, cos, sin), lambda c: back(_turned(c, cos, -sin))


def _turned(x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
    """Pairs of the first and second half of the features turned."""
    first, second = x.chunk(2, -1)
    return torch.cat([first * cos - second * sin, second * cos + first * sin], -1)


def _normed(step: Attention, x: Tensor) -> tuple[Tensor, Callable[[Tensor], Tensor]]:
    if not step.qk_norm:
        return x, lambda c: c
    assert isinstance(step.qk_gain, float)
    gain = step.qk_gain
    square = (x * x).mean(-1, keepdim=True)
    inverse = torch.where(square > 0, 1.0, 0.0) / torch.where(square > 0, square, 1.0).sqrt()
    unit = x * inverse

    def back(c: Tensor) -> Tensor:
        return (c - unit * (unit * c).mean(-1, keepdim=True)) * (inverse * gain)

    return unit * gain, back


def _weights(step: Attention, scores: Tensor) -> tuple[Tensor, Callable[[Tensor], Tensor]]:
    """Attention matrices, and the way back from their gradient to that by scores."""
    positions = scores.shape[-1]
    hidden = None
    if step.causal:
        hidden = torch.ones(positions, positions, dtype=torch.bool, device=scores.device).triu(1)
    if step.kind == "linear":
        seen = torch.full((positions, 1), float(positions), dtype=scores.dtype, device=scores.device)
        if hidden is not None:
            seen = (positions - hidden.sum(-1, keepdim=True)).to(scores.dtype)

        def plain(c: Tensor) -> Tensor:
            return (c if hidden is None else c.masked_fill(hidden, 0.0)) / seen

        return plain(scores), plain
    a = (scores if hidden is None else scores.masked_fill(hidden, -math.inf)).softmax(-1)
    return a, lambda c: a * (c - (a * c).sum(-1, keepdim=True))


def _reading(a: Tensor) -> MeasuredAttention:
    tiny = torch.finfo(a.dtype).tiny
    entropy = -(a * a.clamp(min=tiny).log()).sum(-1)
    return MeasuredAttention(entropy.flatten(1).mean(-1), 1.0 / (a * a).sum(-1).flatten(1).mean(-1))
