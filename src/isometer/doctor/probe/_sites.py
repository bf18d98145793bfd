"""Where a model is looked at: which operations are sites, what kind each is, and what is kept of it."""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from typing import TYPE_CHECKING

import torch

from isometer.activations import activation
from isometer.activations._names import Found, is_activation_call
from isometer.doctor.probe._readings import GradientReading, ValueReading, WeightReading
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


def saturation_limits(found: Found | None) -> tuple[float, float] | None:
    """Outputs at or beyond these are saturated, `None` for activations which are not bounded, or not known.

    Example:
        >>> from isometer.activations._names import find_call
        >>> [round(limit, 4) for limit in saturation_limits(find_call("tanh", (), {}))]
        [-0.9747, 0.9747]
    """
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


@dataclass(frozen=True, eq=False)
class Site:
    """One place of the model at one call, and what was read there.

    Attributes:
        name: path of the module.
        op: the function, or the class of a module of torch's.
        kind: what it is: `input`, `weight`, `norm`, `activation`, `add`, `attention`, `recurrent`, `pool`, `dropout` or
            `other`.
        depth: layers of weights on the way to it.
        call: counts the calls of one operation in one module.
        where: file and line of a function that the model's own code calls.
        pre_activation: whether an activation reads it.
        activation: of the site itself or, for weights, what follows them.
        followed: whether an activation follows the weights.
        normalized: whether a normalisation stands between the weights and it.
        input_rms: of what an activation reads.
        saturated: share of the entries of a bounded activation where it is flat.
        statistics: values behind each statistic of a normalisation that uses those of the batch.
        value: its output.
        weight: its weights.
        gradient: what came back to it.
        attention: how it spreads over keys, `None` for what is no attention.
    """

    name: str
    op: str
    kind: str
    depth: int
    call: int = 0
    where: str = ""
    pre_activation: bool = False
    activation: str | None = None
    followed: bool = False
    normalized: bool = False
    input_rms: float = math.nan
    saturated: float = math.nan
    statistics: int = 0
    value: ValueReading = field(default_factory=ValueReading)
    weight: WeightReading = field(default_factory=WeightReading)
    gradient: GradientReading = field(default_factory=GradientReading)
    attention: AttentionReading | None = None

    @property
    def shape(self) -> tuple[int, ...]:
        return self.value.shape

    @property
    def dtype(self) -> str:
        return self.value.dtype

    @property
    def gram(self) -> torch.Tensor | None:
        return self.value.gram

    @property
    def exponent(self) -> int:
        return self.value.exponent

    @property
    def features(self) -> int:
        return self.value.features

    @property
    def token_gram(self) -> torch.Tensor | None:
        return self.value.token_gram

    @property
    def position_gram(self) -> torch.Tensor | None:
        return self.value.position_gram

    @property
    def attention_entropy(self) -> float:
        return math.nan if self.attention is None else self.attention.nats

    @property
    def rms(self) -> float:
        return self.value.rms

    @property
    def largest(self) -> float:
        return self.value.largest

    @property
    def finite(self) -> bool:
        return self.value.finite

    @property
    def dead(self) -> float:
        return self.value.dead

    @property
    def readings(self) -> Mapping[str, float]:
        return self.value.metrics

    @property
    def weight_count(self) -> int:
        return self.weight.count

    @property
    def fan_in(self) -> int:
        return self.weight.fan_in

    @property
    def weight_gain(self) -> float:
        return self.weight.gain

    @property
    def weight_asymmetry(self) -> float:
        return self.weight.asymmetry

    @property
    def weight_spectral_norm(self) -> float:
        return self.weight.spectral_norm

    @property
    def weight_isometry_gap(self) -> float:
        return self.weight.isometry_gap

    @property
    def parameters(self) -> tuple[int, ...]:
        return self.weight.parameters

    @property
    def output_log_norm(self) -> float:
        return self.gradient.output_log_norm

    @property
    def weight_log_norm(self) -> float:
        return self.gradient.weight_log_norm

    @property
    def gradient_lost(self) -> bool:
        return self.gradient.lost

    @property
    def gradient_gram(self) -> torch.Tensor | None:
        return self.gradient.gram

    @property
    def alignment(self) -> str:
        return self.gradient.alignment


class Draft:
    """A site while the model runs: what is read of it comes in parts, and what follows it is not known yet."""

    def __init__(self, name: str, op: str, kind: str, depth: int, call: int = 0, where: str = "") -> None:
        self.name, self.op, self.kind, self.depth, self.call, self.where = name, op, kind, depth, call, where
        self.pre_activation = self.followed = self.normalized = False
        self.activation: str | None = None
        self.input_rms = self.saturated = math.nan
        self.statistics = 0
        self.value, self.weight = ValueReading(), WeightReading()
        self.attention: AttentionReading | None = None
        # Identity of the weight whose gradient's norm is read off the samples' inner products.
        self.factored: int | None = None

    def finished(self, gradient: GradientReading) -> Site:
        """The site, once the backward pass is over."""
        return Site(
            self.name,
            self.op,
            self.kind,
            self.depth,
            self.call,
            self.where,
            self.pre_activation,
            self.activation,
            self.followed,
            self.normalized,
            self.input_rms,
            self.saturated,
            self.statistics,
            self.value,
            self.weight,
            gradient,
            self.attention,
        )
