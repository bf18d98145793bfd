"""What is known of a site, in parts that never change: each is written once, by one module.

`ValueReading` comes from `_reductions`, `WeightReading` from `_weights`, `GradientReading` from `_backward`,
`AttentionReading` from `_attention`.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field

import torch


@dataclass(frozen=True, eq=False)
class ValueReading:
    """The output of a site.

    Attributes:
        shape: shape of the output.
        dtype: its name, without `torch.`.
        gram: inner products of (at most 64) samples, of the entries divided by `2^exponent`.
        exponent: exponent of that power of two.
        features: entries per sample, what the inner products are divided by.
        token_gram: the same of tokens within a few samples, `(samples, tokens, tokens)`.
        position_gram: the same of those samples at each of those tokens, `(tokens, samples, samples)`.
        rms: root mean square.
        largest: largest modulus.
        finite: whether all entries are.
        dead: share of units that are zero on the whole batch.
        metrics: those of the catalogue that need the representation itself.
    """

    shape: tuple[int, ...] = ()
    dtype: str = ""
    gram: torch.Tensor | None = None
    exponent: int = 0
    features: int = 1
    token_gram: torch.Tensor | None = None
    position_gram: torch.Tensor | None = None
    rms: float = math.nan
    largest: float = math.nan
    finite: bool = True
    dead: float = math.nan
    metrics: Mapping[str, float] = field(default_factory=dict)


@dataclass(frozen=True)
class WeightReading:
    """The weights that a site applies.

    Attributes:
        count: how many there are.
        fan_in: products that each entry of the output adds up.
        gain: `std · √fan_in`.
        asymmetry: `mean/std · √fan_in`.
        spectral_norm: of the matrix, where it was requested.
        isometry_gap: of its shorter side, likewise.
        parameters: identities of the parameters among them.
    """

    count: int = 0
    fan_in: int = 0
    gain: float = math.nan
    asymmetry: float = math.nan
    spectral_norm: float = math.nan
    isometry_gap: float = math.nan
    parameters: tuple[int, ...] = ()


@dataclass(frozen=True, eq=False)
class GradientReading:
    """What came back to a site.

    Attributes:
        output_log_norm: of the loss's gradient by the output, natural logarithm.
        weight_log_norm: by the weights.
        lost: a gradient came and was not finite.
        gram: inner products of the samples' contributions to the gradient of the weights.
        alignment: how those were taken: `exact` or `sketch`, empty where they were not.
    """

    output_log_norm: float = math.nan
    weight_log_norm: float = math.nan
    lost: bool = False
    gram: torch.Tensor | None = None
    alignment: str = ""
