"""Where a model is looked at: which operations are sites, what kind each is, and what is kept of it."""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import TYPE_CHECKING, Any

import torch

from isometer.activations import activation
from isometer.activations._names import find_call, is_activation_call
from isometer.errors import IsometerError

if TYPE_CHECKING:
    from isometer.doctor.probe._attention import AttentionReading

CONVOLUTIONS = frozenset({"conv1d", "conv2d", "conv3d", "conv_transpose1d", "conv_transpose2d", "conv_transpose3d"})
PRODUCTS = frozenset({"matmul", "__matmul__", "__rmatmul__", "mm", "bmm", "addmm", "baddbmm", "einsum", "mv", "addmv"})
RECURRENT = frozenset(
    {"lstm", "gru", "rnn_tanh", "rnn_relu", "lstm_cell", "gru_cell", "rnn_tanh_cell", "rnn_relu_cell"}
)
WEIGHTS = frozenset({"linear", "bilinear", "embedding", "embedding_bag", *CONVOLUTIONS})
NORMS = frozenset(
    {"batch_norm", "layer_norm", "group_norm", "instance_norm", "rms_norm", "local_response_norm", "normalize"}
)
ATTENTION = frozenset({"scaled_dot_product_attention", "multi_head_attention_forward", "softmax", "log_softmax"})
POOLS = frozenset(
    f"{kind}pool{d}d" for kind in ("max_", "avg_", "adaptive_avg_", "adaptive_max_", "lp_") for d in (1, 2, 3)
)
ADDITIONS = frozenset({"add", "__add__", "__radd__", "add_", "__iadd__", "sub", "sub_", "__sub__", "__isub__"})
DROPOUTS = frozenset({"dropout", "dropout1d", "dropout2d", "dropout3d", "alpha_dropout", "feature_alpha_dropout"})
# What hands on each entry or reorders them: layout and the weights behind a tensor stay known.
ELEMENTWISE = frozenset({"mul", "mul_", "div", "div_", "clone", "contiguous", "to", "float", "double", "half", "neg"})

# Elementary functions that make a module which is written out in them nonlinear; a call alone is no activation.
_NONLINEAR = frozenset({"exp", "pow", "__pow__", "square", "clamp", "abs", "log", "cos", "where", "maximum", "minimum"})

SATURATION = 0.05
"""An entry of a bounded activation is saturated where |φ′| is at most this share of its largest value."""


def kind_of(name: str) -> str | None:
    """What an operation is, `None` where it is no site by its name alone.

    Example:
        >>> kind_of("conv2d"), kind_of("relu_"), kind_of("reshape")
        ('weight', 'activation', None)
    """
    plain = name[:-1] if name.endswith("_") and not name.endswith("__") else name
    return "activation" if is_activation_call(plain) else _KINDS.get(name)


def is_nonlinear(functions: Collection[str]) -> bool:
    """Whether one of the functions is an activation or bends what it is given.

    Example:
        >>> is_nonlinear({"tanh", "mul"}), is_nonlinear({"clamp"}), is_nonlinear({"mul", "add"})
        (True, True, False)
    """
    return any(name in _NONLINEAR or is_activation_call(name) for name in functions)


_KINDS: dict[str, str] = {
    **dict.fromkeys(WEIGHTS, "weight"),
    **dict.fromkeys(RECURRENT, "recurrent"),
    **dict.fromkeys(NORMS, "norm"),
    **dict.fromkeys(ATTENTION, "attention"),
    **dict.fromkeys(POOLS, "pool"),
    **dict.fromkeys(DROPOUTS, "dropout"),
}


def saturation_limits(name: str, args: Sequence[Any], kwargs: Mapping[str, Any]) -> tuple[float, float] | None:
    """Outputs at or beyond these are saturated, `None` for activations which are not bounded.

    Example:
        >>> [round(limit, 4) for limit in saturation_limits("tanh", (), {})]
        [-0.9747, 0.9747]
    """
    found = find_call(name, args, kwargs)
    flat = None if found is None else found.entry.flat
    return None if found is None or flat is None else flat(SATURATION, *found.parameters)


@lru_cache(maxsize=256)
def principled_gain(text: str) -> float:
    """`1/√(E φ²)`, the gain of weights that keeps the second moment through φ; nan where there is none.

    Example:
        >>> round(principled_gain("relu"), 6)
        1.414214

    Implements: 001/act-gain (through `Activation.gain_forward`).
    """
    try:
        return float(activation(text).gain_forward)
    except IsometerError:
        return math.nan


@dataclass
class Site:
    """One place of the model at one call: what was read in the hooks. Filled forward, then backward."""

    name: str
    op: str
    kind: str
    depth: int
    call: int = 0
    where: str = ""  # file and line of a function that the model's own code calls
    pre_activation: bool = False
    shape: tuple[int, ...] = ()
    dtype: str = ""
    # forward
    gram: torch.Tensor | None = None  # inner products of (subsampled) samples, of the entries divided by 2^exponent
    exponent: int = 0
    features: int = 1  # entries per sample, what the inner products are divided by
    token_gram: torch.Tensor | None = None  # (samples, tokens, tokens)
    rms: float = math.nan
    largest: float = math.nan
    finite: bool = True
    dead: float = math.nan
    saturated: float = math.nan
    input_rms: float = math.nan  # of what an activation reads
    readings: dict[str, float] = field(default_factory=dict)  # metrics of the representation
    attention: AttentionReading | None = None
    statistics: int = 0  # values behind each statistic of a normalisation that uses those of the batch
    # weights
    weight_count: int = 0
    fan_in: int = 0
    activation: str | None = None  # of the site itself or, for weights, what follows them
    followed: bool = False  # an activation follows the weights
    normalized: bool = False  # a normalisation stands between the weights and it
    weight_gain: float = math.nan
    weight_asymmetry: float = math.nan
    weight_spectral_norm: float = math.nan
    weight_isometry_gap: float = math.nan
    parameters: tuple[int, ...] = ()  # ids of leaf weights
    # backward
    output_log_norm: float = math.nan
    weight_log_norm: float = math.nan
    factored: int | None = None  # id of the weight whose gradient's norm is read off the samples' inner products
    gradient_lost: bool = False  # a gradient came and was not finite
    gradient_gram: torch.Tensor | None = None
    alignment: str = ""  # "exact" or "sketch"
