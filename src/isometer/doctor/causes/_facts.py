"""What has to be noted of a call while its numbers are there: factors, limits, shares, axes, orders."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import torch

from isometer.doctor.causes._bypass import dropout_place, reduced_axes
from isometer.doctor.causes._flow import Fact, Facts

Tensor = torch.Tensor
Arguments = Sequence[Any]
Options = Mapping[str, Any]

ROUNDINGS = frozenset({"round", "floor", "ceil", "trunc", "sign", "sgn", "heaviside"})
DROPOUTS = frozenset({"dropout", "dropout1d", "dropout2d", "dropout3d", "alpha_dropout", "feature_alpha_dropout"})
ACTIVATIONS = frozenset(
    {"relu", "gelu", "silu", "mish", "elu", "selu", "celu", "leaky_relu", "prelu", "rrelu", "glu", "hardswish"}
    | {"sigmoid", "hardsigmoid", "logsigmoid", "tanh", "hardtanh", "relu6", "softplus", "softsign", "tanhshrink"}
    | {"softmax", "log_softmax", "softmin"}
)
_WITH_DROPOUT = ("multi_head_attention_forward", "lstm", "gru", "rnn_tanh", "rnn_relu")
INTEGERS = frozenset({"long", "int", "short", "char", "byte", "to", "type"})


def _argument(args: Arguments, kwargs: Options, place: int, *names: str, default: Any = None) -> Any:
    if len(args) > place:
        return args[place]
    return next((kwargs[name] for name in names if name in kwargs), default)


def _input(args: Arguments, kwargs: Options) -> Any:
    return _argument(args, kwargs, 0, "input", "self")


def _plain(args: Arguments, kwargs: Options, output: Any) -> Facts:
    return {}


def _cast(args: Arguments, kwargs: Options, output: Any) -> Facts | None:
    given = _input(args, kwargs)
    turned = isinstance(output, Tensor) and given.is_floating_point() and not output.is_floating_point()
    return {} if turned and output.dtype != torch.bool else None


def _factor(args: Arguments, kwargs: Options, output: Any, *, divides: bool = False) -> Facts | None:
    """A product with a number, or with one that is no tensor of the input's size."""
    first, second = _input(args, kwargs), _argument(args, kwargs, 1, "other")
    if isinstance(first, Tensor) and first.numel() == 1 and isinstance(second, Tensor) and second.numel() > 1:
        first, second = (first, second) if divides else (second, first)
    number = _number(second)
    if number is None or not isinstance(first, Tensor) or not first.is_floating_point() or not first.numel():
        return None
    if divides:
        number = 1 / number if number else math.inf
    return {"factor": number, "rms": _rms(first)}


def _number(value: Any) -> float | None:
    if isinstance(value, Tensor):
        plain = value.numel() == 1 and value.is_floating_point() and not value.requires_grad
        return float(value.detach()) if plain else None
    return float(value) if isinstance(value, (int, float)) and not isinstance(value, bool) else None


def _rms(tensor: Tensor) -> float:
    return float(tensor.detach().double().square().mean().sqrt())


def _quotient(args: Arguments, kwargs: Options, output: Any) -> Facts | None:
    return None if kwargs.get("rounding_mode") else _factor(args, kwargs, output, divides=True)


def _clamp(args: Arguments, kwargs: Options, output: Any) -> Facts | None:
    return _limited(args, kwargs, _argument(args, kwargs, 1, "min"), _argument(args, kwargs, 2, "max"))


def _hardtanh(args: Arguments, kwargs: Options, output: Any) -> Facts | None:
    low, high = _argument(args, kwargs, 1, "min_val", default=-1.0), _argument(args, kwargs, 2, "max_val", default=1.0)
    return _limited(args, kwargs, low, high)


def _relu6(args: Arguments, kwargs: Options, output: Any) -> Facts | None:
    return _limited(args, kwargs, 0.0, 6.0)


def _clamp_min(args: Arguments, kwargs: Options, output: Any) -> Facts | None:
    return _limited(args, kwargs, _argument(args, kwargs, 1, "min"), None)


def _clamp_max(args: Arguments, kwargs: Options, output: Any) -> Facts | None:
    return _limited(args, kwargs, None, _argument(args, kwargs, 1, "max"))


def _limited(args: Arguments, kwargs: Options, low: Any, high: Any) -> Facts | None:
    """The share of the entries that limits change; those below a limit of zero are what a ReLU is for."""
    tensor = _input(args, kwargs)
    if isinstance(low, Tensor) or isinstance(high, Tensor) or not tensor.is_floating_point() or not tensor.numel():
        return None
    low, high, x = -math.inf if low is None else low, math.inf if high is None else high, tensor.detach()
    rectifies = 0 <= low <= 0.01 * _rms(x)
    if rectifies:
        x = x[x > low]
    changed = ((x < low) | (x > high)).double().mean().item() if x.numel() else 0.0
    return {"changed": changed, "rectifies": rectifies, "width": high - low}


def _dropped(args: Arguments, kwargs: Options, output: Any) -> Facts | None:
    share, training = _argument(args, kwargs, 1, "p", default=0.5), _argument(args, kwargs, 2, "training", "train")
    return {"share": float(share)} if training is None or training else None


def _dropped_inside(op: str) -> Fact:
    def fact(args: Arguments, kwargs: Options, output: Any) -> Facts | None:
        place = dropout_place(op, args)
        share = kwargs.get("dropout_p", args[place] if place is not None and place < len(args) else 0.0)
        if op == "multi_head_attention_forward" and not kwargs.get("training", True):
            return None
        if op in ("lstm", "gru", "rnn_tanh", "rnn_relu") and place is not None and not args[place + 1]:
            return None
        return {"share": float(share)} if share else None

    return fact


def _attention(args: Arguments, kwargs: Options, output: Any) -> Facts | None:
    query, scale = _argument(args, kwargs, 0, "query"), kwargs.get("scale")
    ratio = 1.0 if scale is None else abs(float(scale)) * math.sqrt(query.shape[-1])
    return {"share": float(_argument(args, kwargs, 4, "dropout_p", default=0.0)), "ratio": ratio, "scale": scale}


def _rolled(args: Arguments, kwargs: Options, output: Any) -> Facts:
    axes = _argument(args, kwargs, 2, "dims", default=())
    return {"axes": reduced_axes(_input(args, kwargs), (None, axes), {})}


def _flipped(args: Arguments, kwargs: Options, output: Any) -> Facts:
    axes = kwargs.get("dims", args[1] if len(args) == 2 else tuple(args[1:]))
    return {"axes": reduced_axes(_input(args, kwargs), (None, axes), {})}


def _selected(args: Arguments, kwargs: Options, output: Any) -> Facts | None:
    return _order(_argument(args, kwargs, 2, "index")) if _argument(args, kwargs, 1, "dim") == 0 else None


def _indexed(args: Arguments, kwargs: Options, output: Any) -> Facts | None:
    """A permutation of the first axis, or its first entries alone."""
    index = args[1][0] if isinstance(args[1], tuple) and args[1] else args[1]
    if isinstance(index, Tensor):
        return _order(index)
    if isinstance(index, (list, range)) and all(isinstance(one, int) for one in index):
        return _order(torch.as_tensor(list(index)))
    if isinstance(index, slice) and isinstance(output, Tensor) and output.dim() and output.shape[0] == 1:
        return {"one": True}
    return {"one": True} if isinstance(index, int) and not isinstance(index, bool) else None


def _narrowed(args: Arguments, kwargs: Options, output: Any) -> Facts | None:
    return {"one": True} if _argument(args, kwargs, 1, "dim") == 0 and output.shape[:1] == (1,) else None


def _order(index: Any) -> Facts | None:
    if not isinstance(index, Tensor) or index.dtype not in (torch.int64, torch.int32) or index.dim() != 1:
        return None
    order = index.detach()
    upwards = torch.arange(len(order), device=order.device)
    if len(order) < 2 or torch.equal(order, upwards) or not torch.equal(order.sort().values, upwards):
        return None
    return {"order": order.tolist()}


def _reduced(args: Arguments, kwargs: Options, output: Any) -> Facts | None:
    given = _input(args, kwargs)
    if not given.is_floating_point():
        return None
    keeps = bool(_argument(args, kwargs, 2, "keepdim", default=False))
    return {"axes": reduced_axes(given, args, kwargs), "keeps": keeps}


def _softmax(args: Arguments, kwargs: Options, output: Any) -> Facts:
    given, axis = _input(args, kwargs), _argument(args, kwargs, 1, "dim", "axis")
    return {"axis": axis % max(1, given.dim()) if isinstance(axis, int) else max(0, given.dim() - 1)}


FACTS: Mapping[str, Fact] = {
    **dict.fromkeys((*ROUNDINGS, *ACTIVATIONS, "detach", "data", "zeros_like", "zero"), _plain),
    **dict.fromkeys(INTEGERS, _cast),
    **dict.fromkeys(DROPOUTS, _dropped),
    **{op: _dropped_inside(op) for op in _WITH_DROPOUT},
    **dict.fromkeys(("softmax", "log_softmax", "softmin"), _softmax),
    **dict.fromkeys(("mean", "sum"), _reduced),
    "scaled_dot_product_attention": _attention,
    "mul": _factor,
    "div": _quotient,
    "clamp": _clamp,
    "clamp_min": _clamp_min,
    "clamp_max": _clamp_max,
    "hardtanh": _hardtanh,
    "relu6": _relu6,
    "roll": _rolled,
    "flip": _flipped,
    "index_select": _selected,
    "getitem": _indexed,
    "narrow": _narrowed,
}
"""What is noted of a call, by the name of the function."""
