"""What a later reading of the trace needs of a call besides its shapes: sizes, axes, masks, tables of rotations."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any

import torch

from isometer.doctor.probe import _sites as room
from isometer.doctor.probe._tensor_tags import Operation

Tensor = torch.Tensor
Facts = dict[str, Any]
MASKED = -5e3
"""Scores below this are masks: −1e4, −1e9, the smallest number of a dtype, −∞."""
_LARGEST = 1 << 20  # entries of a tensor that is looked at
_POWERS = frozenset({"pow", "__pow__", "float_power"})
_MEANS = frozenset({"mean", "sum", "var", "std"})


def facts_of(name: str, call: Operation) -> Facts:
    """What is written down of a call; empty for most functions."""
    read = _READERS.get(name)
    if read is None:
        return {}
    try:
        return read(call)
    except (IndexError, TypeError, ValueError, RuntimeError):  # a form that torch takes and this does not
        return {}


def mask_of(mask: Tensor | None) -> str:
    """What a mask of scores `(…, queries, keys)` lets a query see: `open`, `causal`, or `other`; `bias` if it weighs.

    Example:
        >>> mask_of(torch.zeros(3, 3)), mask_of(torch.ones(3, 3).tril().bool()), mask_of(torch.full((2, 2), 0.5))
        ('open', 'causal', 'bias')
    """
    if mask is None:
        return "open"
    if mask.dim() < 2 or not 0 < mask.numel() <= _LARGEST:
        return "other"
    seen = mask if mask.dtype is torch.bool else mask > MASKED
    if mask.dtype is not torch.bool and bool((mask.masked_fill(~seen, 0.0) != 0).any()):
        return "bias"
    return _pattern(seen)


def _pattern(seen: Tensor) -> str:
    flat = seen.reshape(-1, *seen.shape[-2:])
    if bool(flat.all()):
        return "open"
    causal = torch.ones(seen.shape[-2:], dtype=torch.bool, device=seen.device).tril()
    return "causal" if bool((flat == causal).all()) else "other"


def rotation_of(table: Tensor) -> tuple[float, ...]:
    """By how much each feature turns per position, if a table `(…, positions, features)` has the cosines of that.

    Example:
        >>> [round(one, 6) for one in rotation_of(torch.outer(torch.arange(3.0), torch.tensor([1.0, 0.5])).cos())]
        [1.0, 0.5]
        >>> rotation_of(torch.randn(3, 2))
        ()
    """
    if table.dim() < 2 or table.shape[-2] < 3 or not 0 < table.numel() <= _LARGEST or not table.is_floating_point():
        return ()
    rows = table.detach().reshape(-1, *table.shape[-2:])
    first = rows[0].double()
    if not bool((rows == rows[:1]).all()) or not bool((first[0] - 1).abs().max() < 1e-4):
        return ()
    angles = first[1].clamp(-1.0, 1.0).arccos()
    expected = torch.outer(torch.arange(len(first), dtype=angles.dtype, device=angles.device), angles).cos()
    # An angle is read off a cosine: at small ones its error is the root of the table's.
    if float((expected - first)[:8].abs().max()) > 1e-2:
        return ()
    return tuple(round(_sharp(angle, column), 9) for angle, column in zip(angles.tolist(), first.mT, strict=True))


def _sharp(angle: float, column: Tensor) -> float:
    """The angle from the furthest position that it is still unique at."""
    far = min(len(column) - 1, max(1, int(2.5 / angle))) if angle > 1e-6 else len(column) - 1
    return math.acos(min(1.0, max(-1.0, float(column[far])))) / far


def _power(call: Operation) -> Facts:
    exponent = call.argument(1, "exponent")
    return {"exponent": float(exponent)} if isinstance(exponent, (int, float)) else {}


def _mean(call: Operation) -> Facts:
    axes = call.argument(1, "dim")
    kept = bool(call.argument(2, "keepdim", False))
    return {"axes": None if axes is None else _several(axes), "keepdim": kept}


def _several(value: Any) -> tuple[int, ...]:
    return (int(value),) if isinstance(value, int) else tuple(int(one) for one in value)


def _addition(call: Operation) -> Facts:
    numbers = [value for value in call.args[:2] if isinstance(value, (int, float)) and not isinstance(value, bool)]
    if numbers:
        reverse = isinstance(call.args[0], (int, float)) and "sub" in call.name
        return {"number": float(numbers[0]), "reverse": reverse or call.name == "__rsub__"}
    return {}


def _axes(call: Operation) -> Facts:
    given = call.args[1:] if len(call.args) > 1 else tuple(call.kwargs.values())
    axes = given[0] if len(given) == 1 and not isinstance(given[0], int) else given
    rank = call.given[0].dim()
    return {"axes": tuple(int(axis) % rank for axis in axes)}


def _convolution(call: Operation) -> Facts:
    padding = call.argument(4, "padding", 0)
    return {
        "stride": _several(call.argument(3, "stride", 1)),
        "padding": padding if isinstance(padding, str) else _several(padding),
        "dilation": _several(call.argument(5, "dilation", 1)),
        "groups": int(call.argument(6, "groups", 1)),
    }


def _pool(call: Operation) -> Facts:
    if "adaptive" in call.name:
        size = call.argument(1, "output_size")
        return {"output": () if size is None else _several(size)}
    size = call.argument(1, "kernel_size")
    stride = call.argument(2, "stride")
    dilated = "max" in call.name and any(one != 1 for one in _several(call.argument(4, "dilation", 1)))
    rounded = bool(call.argument(5 if "max" in call.name else 4, "ceil_mode", False))
    return {
        "size": _several(size),
        "stride": _several(size if stride is None or stride == [] else stride),
        "padding": _several(call.argument(3, "padding", 0)),
        "other": dilated or rounded,
    }


def _dot_product(call: Operation) -> Facts:
    q, k = call.argument(0, "query"), call.argument(1, "key")
    mask = call.argument(3, "attn_mask")
    seen = "causal" if call.argument(5, "is_causal", False) else mask_of(mask)
    factor = call.argument(6, "scale")
    return {
        "heads": int(q.shape[-3]),
        "key_heads": int(k.shape[-3]),
        "head_width": int(q.shape[-1]),
        "square": q.shape[-2] == k.shape[-2],
        "mask": seen,
        "dropout": float(call.argument(4, "dropout_p", 0.0)),
        "scale": 1.0 / math.sqrt(q.shape[-1]) if factor is None else float(factor),
    }


def _softmax(call: Operation) -> Facts:
    scores = call.given[0].detach()
    axis = call.argument(1, "dim")
    last = axis in (-1, scores.dim() - 1)
    small = scores.dim() > 2 and scores.numel() <= 4 * _LARGEST
    return {"last": last, "mask": _pattern(scores > MASKED) if last and small else "other"}


def _multi_head(call: Operation) -> Facts:
    query, key, value = (call.argument(i, name) for i, name in enumerate(("query", "key", "value")))
    mask, padding = call.argument(16, "attn_mask"), call.argument(14, "key_padding_mask")
    if isinstance(mask, Tensor) and mask.dtype is torch.bool:
        mask = ~mask
    training = bool(call.argument(13, "training", True))
    extra = call.argument(7, "bias_k") is not None or bool(call.argument(9, "add_zero_attn"))
    return {
        "heads": int(call.argument(4, "num_heads")),
        "mask": "other" if isinstance(padding, Tensor) and bool(padding.any()) else mask_of(mask),
        "dropout": float(call.argument(10, "dropout_p", 0.0)) if training else 0.0,
        "separate": bool(call.argument(17, "use_separate_proj_weight", False)) or extra,
        "self": query.shape == key.shape == value.shape,
        "parameters": {
            name: call.argument(position, name)
            for position, name in (
                (5, "in_proj_weight"),
                (6, "in_proj_bias"),
                (11, "out_proj_weight"),
                (12, "out_proj_bias"),
            )
        },
    }


_READERS: Mapping[str, Callable[[Operation], Facts]] = {
    **dict.fromkeys(_POWERS, _power),
    **dict.fromkeys(_MEANS, _mean),
    **dict.fromkeys({*room.ADDITIONS, "__rsub__", "rsub"}, _addition),
    **dict.fromkeys(("transpose", "permute", "movedim", "swapaxes"), _axes),
    **dict.fromkeys(room.CONVOLUTIONS, _convolution),
    **dict.fromkeys(room.POOLS, _pool),
    "scaled_dot_product_attention": _dot_product,
    "softmax": _softmax,
    "multi_head_attention_forward": _multi_head,
}
