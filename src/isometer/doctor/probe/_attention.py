"""Attention from the inside: what the scores are like, and how far each query spreads.

Where scores are an operation's own (`softmax(Q Kᵀ)` written out) they are read; where they are fused with the rest
(`scaled_dot_product_attention`, `nn.MultiheadAttention`) they are calculated once more, for at most 8 samples and 64
queries each.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import torch

from isometer.doctor.probe._call_facts import MASKED
from isometer.doctor.probe._reductions import TOKEN_SAMPLES, every
from isometer.doctor.probe._tensor_tags import Operation
from isometer.doctor.probe._trace import TraceStep

Tensor = torch.Tensor
MOST_SAMPLES, MOST_QUERIES = 8, 64
SATURATED, UNIFORM = 0.1, 0.99
"""Relative entropy below which a head picks single keys, and above which it averages over all of them."""
ATTENTION = frozenset(
    {"softmax", "scaled_dot_product_attention", "multi_head_attention_forward"}
    | {"transformer_encoder_layer_fwd", "native_multi_head_attention"}
)
"""Operations that are attention or, for a softmax, may be part of one."""
_HOPS = 8  # operations between a product and its softmax: scales, masks, views


class Unscored(Exception):
    """The scores of a fused attention cannot be calculated again."""


@dataclass(frozen=True)
class AttentionReading:
    """How one attention spreads over its keys.

    Example:
        >>> q = torch.zeros(1, 1, 3, 4)  # no query prefers any key
        >>> reading_of_scores(q @ q.mT).entropy
        1.0

    Attributes:
        heads: how many there are.
        keys: how many each query can choose from, at most.
        score_std: deviation of the scores of one query, root mean square over queries.
        score_largest: the largest modulus of a score.
        entropy: of the weights of a query over that of uniform ones, the mean over queries: 1 uniform, 0 one key alone.
        saturated_heads: share of the heads whose entropy is at most 0.1.
        uniform_heads: share of the heads whose entropy is at least 0.99.
        nats: the entropy itself, the mean over all queries of the samples that token metrics read.
    """

    heads: int
    keys: int
    score_std: float
    score_largest: float
    entropy: float
    saturated_heads: float
    uniform_heads: float
    nats: float = math.nan


def reading_of_scores(scores: Tensor, allowed: Tensor | None = None, samples: int = 0) -> AttentionReading | None:
    """The reading of scores `(samples, heads, queries, keys)`; `None` where no query has a choice.

    Args:
        scores: before the softmax; masks may have been added.
        allowed: where a query may look, of a shape that broadcasts; all that is not masked in the scores by default.
        samples: in the batch, if these are all of them or evenly spaced ones.
    """
    scores = scores.detach().float()
    open_ = scores > MASKED
    if allowed is not None:
        open_ = open_ & allowed
    counts = open_.sum(-1)
    chosen = counts > 1
    if not bool(chosen.any()):
        return None
    # Masked ones get a finite score, since 0 · ∞ is nan; their weight is zero.
    kept = torch.where(open_, scores, 0.0)
    logits = torch.where(open_, scores, -math.inf)
    logits = torch.where(chosen[..., None], logits, 0.0)
    log_weights = torch.log_softmax(logits, -1)
    entropy = -(log_weights.exp() * torch.where(open_, log_weights, 0.0)).sum(-1)
    relative = torch.where(chosen, entropy / counts.clamp_min(2).log(), 0.0)
    per_head = relative.sum((0, 2)) / chosen.sum((0, 2)).clamp_min(1)
    seen = chosen.any(0).any(-1)
    mean = kept.sum(-1, keepdim=True) / counts.clamp_min(1)[..., None]
    variance = torch.where(open_, scores - mean, 0.0).square().sum(-1) / counts.clamp_min(1)
    per_head = per_head[seen]
    return AttentionReading(
        int(scores.shape[1]),
        int(counts.max()),
        math.sqrt(float(variance[chosen].mean())),
        float(kept.abs().max()),
        float(relative[chosen].mean()),
        float((per_head <= SATURATED).float().mean()),
        float((per_head >= UNIFORM).float().mean()),
        _nats(torch.where(chosen, entropy, 0.0), samples or scores.shape[0]),
    )


def _nats(entropies: Tensor, samples: int) -> float:
    """The mean over the samples that token metrics read; nan where they are not among those of the reading."""
    wanted, read = every(samples, TOKEN_SAMPLES), every(samples, MOST_SAMPLES)
    return float(entropies[:: wanted // read].mean()) if wanted % read == 0 else math.nan


def fused_reading(call: Operation) -> AttentionReading | None:
    """What is read of a fused attention, `None` where no query has a choice.

    Raises:
        Unscored: its scores cannot be calculated again.
    """
    read = _FUSED.get(call.name)
    if read is None:
        raise Unscored(call.name)
    try:
        return read(call)
    except (RuntimeError, TypeError, ValueError, IndexError) as problem:  # of forms that torch takes and this does not
        raise Unscored(str(problem)) from problem


def softmax_reading(call: Operation, samples: int) -> AttentionReading | None:
    """What is read of a softmax over the last axis of scores `(…, queries, keys)`."""
    scores = call.given[0]
    axis = call.argument(1, "dim")
    if scores.dim() < 3 or axis not in (-1, scores.dim() - 1):
        return None
    if scores.dim() == 3:  # heads folded into the samples, or none
        heads = scores.shape[0] // samples if samples and scores.shape[0] % samples == 0 else 1
        scores = scores.reshape(-1, heads, *scores.shape[1:])
    elif scores.dim() > 4:
        scores = scores.flatten(1, -3)
    count = scores.shape[0]
    scores = scores[:: every(count, MOST_SAMPLES), :, :: every(scores.shape[2], MOST_QUERIES)]
    return reading_of_scores(scores, None, count)


def follows_product(trace: Sequence[TraceStep], step: int | None) -> bool:
    """Whether a step is a product of two signals, or a few scales, masks and views behind one."""
    for _ in range(_HOPS):
        if step is None:
            return False
        found = trace[step]
        if found.kind == "product":
            return True
        # The signal is what a mask is added to: the first that is read.
        step = found.inputs[0] if found.inputs and found.kind in ("scale", "add", "other", "dropout") else None
    return False


def _dot_product(call: Operation) -> AttentionReading | None:
    q, k = call.argument(0, "query"), call.argument(1, "key")
    if q.is_nested or k.is_nested:
        raise Unscored("nested tensors")
    mask, causal = call.argument(3, "attn_mask"), bool(call.argument(5, "is_causal", False))
    factor = call.argument(6, "scale")
    factor = 1.0 / math.sqrt(max(1, q.shape[-1])) if factor is None else float(factor)
    q, k = _four(q), _four(k)
    masks = []
    if isinstance(mask, Tensor):
        masks.append(_four(mask).expand(*q.shape[:3], k.shape[2]))
    return _scored(q, k, factor, masks, causal=causal)


def _four(x: Tensor) -> Tensor:
    """`(samples, heads, positions, features)` of a query, a key or a mask of any number of axes."""
    x = x.detach()
    if x.dim() == 2:
        return x[None, None]
    return x.unsqueeze(1) if x.dim() == 3 else x.flatten(1, -3)


def _scored(
    q: Tensor, k: Tensor, factor: float, masks: Sequence[Tensor], *, causal: bool = False
) -> AttentionReading | None:
    """The reading of `factor · q kᵀ` for some samples and queries.

    Args:
        q: queries `(samples, heads, queries, features)`.
        k: keys, of the same form; fewer heads are shared by several of the queries'.
        factor: factor of the scores.
        masks: `(samples, heads, queries, keys)`, to be added, or `True` where a query may look.
        causal: whether a query may look at no later key.
    """
    samples = q.shape[0]
    rows, queries = every(samples, MOST_SAMPLES), every(q.shape[2], MOST_QUERIES)
    positions = torch.arange(q.shape[2], device=q.device)[::queries]
    q, k = q[::rows, :, ::queries].float(), k[::rows].float()
    if k.shape[1] != q.shape[1]:
        k = k.repeat_interleave(q.shape[1] // k.shape[1], 1)
    scores, allowed = (q @ k.mT) * factor, None
    parts = [mask[::rows, :, ::queries] for mask in masks]
    if causal:
        parts.append(positions[:, None] >= torch.arange(k.shape[2], device=q.device))
    for part in parts:
        if part.dtype is torch.bool:
            allowed = part if allowed is None else allowed & part
        else:
            scores = scores + part.float()
    return reading_of_scores(scores, allowed, samples)


def _multi_head(call: Operation) -> AttentionReading | None:
    """Queries and keys projected once more, as `multi_head_attention_forward` does; tokens come before samples."""
    query, key, heads = call.argument(0, "query"), call.argument(1, "key"), int(call.argument(4, "num_heads"))
    extra = (call.argument(7, "bias_k"), call.argument(9, "add_zero_attn"), call.argument(21, "static_k"))
    if any(one is not None and one is not False for one in extra) or query.is_nested or key.is_nested:
        raise Unscored("keys other than those of the input, or nested tensors")
    query, key = (x.detach().unsqueeze(1) if x.dim() == 2 else x.detach() for x in (query, key))
    length, samples, width = query.shape
    weights, biases = _projections(call, width)
    rows = every(samples, MOST_SAMPLES)
    q, k = (
        torch.nn.functional.linear(x[:, ::rows], weight.to(x.dtype), None if bias is None else bias.to(x.dtype))
        for x, weight, bias in zip((query, key), weights, biases, strict=True)
    )
    q, k = (x.reshape(*x.shape[:2], heads, -1).permute(1, 2, 0, 3) for x in (q, k))
    masks = [mask[::rows] for mask in _multi_head_masks(call, (samples, heads, length, key.shape[0]))]
    return _scored(q, k, 1.0 / math.sqrt(max(1, width // heads)), masks)


def _projections(call: Operation, width: int) -> tuple[list[Tensor], list[Tensor | None]]:
    """Weights and biases of queries and keys."""
    packed, bias = call.argument(5, "in_proj_weight"), call.argument(6, "in_proj_bias")
    if call.argument(17, "use_separate_proj_weight", False):
        weights = [call.argument(18, "q_proj_weight"), call.argument(19, "k_proj_weight")]
    else:
        weights = [packed[:width], packed[width : 2 * width]]
    biases = [None, None] if bias is None else [bias[:width].detach(), bias[width : 2 * width].detach()]
    return [weight.detach() for weight in weights], biases


def _multi_head_masks(call: Operation, shape: tuple[int, int, int, int]) -> list[Tensor]:
    """The masks of `multi_head_attention_forward`, in which `True` is where a query may not look."""
    mask, padding = call.argument(16, "attn_mask"), call.argument(14, "key_padding_mask")
    _, heads, length, keys = shape
    masks = []
    if isinstance(mask, Tensor):
        folded = (-1, heads) if mask.dim() == 3 else (1, 1)  # heads stand within samples
        masks.append(mask.detach().reshape(*folded, length, keys).expand(shape))
    if isinstance(padding, Tensor):
        masks.append(padding.detach().reshape(-1, 1, 1, keys).expand(shape))
    return [~one if one.dtype is torch.bool else one for one in masks]


_FUSED = {"scaled_dot_product_attention": _dot_product, "multi_head_attention_forward": _multi_head}
