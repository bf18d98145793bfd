"""Reducing an activation to a few numbers while it is there.

Two views of an activation, both as inner products divided by the number of entries:

- samples: `G_ij = Σ_t ⟨x_it, x_jt⟩ / (T d)` over tokens or pixels t, which is the Gram matrix of the flattened samples;
- tokens: `⟨x_t, x_s⟩ / d` between the tokens or pixels of one sample, for a few samples.

At most 64 samples take part, evenly spaced, and of tokens at most 64 in each of 4 samples. Entries are divided by a
power of two first where their squares would leave the range of the precision; half precision is read in float32, and no
product is ever taken in it.
"""

from __future__ import annotations

import math
from functools import lru_cache
from typing import Any

import torch

from isometer import metrics
from isometer.doctor.probe._readings import ValueReading
from isometer.metrics._catalogue import probed

MAX_SAMPLES = 64
MAX_TOKENS = 64
TOKEN_SAMPLES = 4
_SAFE = (1e-12, 1e12)  # squares of numbers in between, summed, stay inside float32

Tensor = torch.Tensor


def single(x: Tensor) -> Tensor:
    """In at least float32."""
    return x.float() if x.dtype.itemsize < 4 else x


def every(count: int, most: int) -> int:
    """The stride that leaves at most `most` of `count`, evenly spaced.

    Example:
        >>> every(100, 64), every(64, 64), len(range(0, 100, every(100, 64)))
        (2, 1, 50)
    """
    return -(-count // most)


def samples_first(x: Tensor, samples: int, *, tokens_first: bool = False) -> Tensor | None:
    """`x` with the samples on axis 0, or `None` where they cannot be told.

    Axis 0 if it has their number (or axis 1 if `tokens_first` and that has it), else axis 1, else axis 0 if it holds a
    multiple of it (tokens or heads folded into the batch).

    Example:
        >>> samples_first(torch.zeros(7, 4, 3), 4).shape, samples_first(torch.zeros(8, 5), 4).shape
        (torch.Size([4, 7, 3]), torch.Size([4, 2, 5]))
    """
    if x.dim() == 0 or not samples or not x.numel():
        return None
    if x.dim() > 1 and x.shape[1] == samples and (tokens_first or x.shape[0] != samples):
        return x.transpose(0, 1)
    if x.shape[0] == samples:
        return x
    if x.shape[0] % samples == 0:  # sample by sample: that is how attention folds its heads
        return x.reshape(samples, -1, *x.shape[1:])
    return None


def largest_modulus(x: Tensor) -> float:
    """`max |x|` without a copy; nan if there is one, 0 for no entries."""
    if not x.numel():
        return 0.0
    low, high = torch.aminmax(x)
    return max(abs(low.item()), abs(high.item()))


def power_of_two(largest: float) -> int:
    """Exponent to divide by so that squares stay in range; 0 for numbers of ordinary size.

    Example:
        >>> power_of_two(3.0), power_of_two(1e30), power_of_two(0.0)
        (0, 100, 0)
    """
    if largest == 0 or not math.isfinite(largest) or _SAFE[0] < largest < _SAFE[1]:
        return 0
    # A power of two: to divide by it changes exponents and no digits.
    return math.frexp(largest)[1]


def scaled(x: Tensor, exponent: int) -> Tensor:
    """`x / 2^exponent`, in two steps so that the factor itself is in range."""
    if exponent == 0:
        return x
    half = exponent // 2
    return x * 2.0**-half * 2.0 ** (half - exponent)


def _samples(x: Tensor) -> Tensor:
    """Samples `(n, …)` as rows, at most 64 of them, in at least float32."""
    x = single(x if x.shape[0] <= MAX_SAMPLES else x[:: every(x.shape[0], MAX_SAMPLES)])
    if x.dim() != 2:
        x = x.flatten(1) if x.dim() > 2 else x[:, None]
    return x


def inner_products(x: Tensor) -> Tensor:
    """`x xᵀ` of samples `(n, …)`, at most 64 of them."""
    x = _samples(x)
    return x @ x.mT


def _token_view(x: Tensor, channels_first: bool) -> Tensor | None:
    """`(samples, tokens, features)` of a few samples and tokens, `None` where there are no tokens."""
    x = x[:: every(x.shape[0], TOKEN_SAMPLES)]
    if x.dim() < 3:
        return None
    if channels_first:
        x = x.flatten(2)
        return single(x[:, :, :: every(x.shape[2], MAX_TOKENS)]).mT
    if x.dim() > 3:  # heads: their features belong to the same token
        x = x.movedim(-2, 1).flatten(2)
    return single(x[:, :: every(x.shape[1], MAX_TOKENS)])


def measure(x: Tensor, samples: int, *, units: bool = False, channels_first: bool, tokens_first: bool) -> ValueReading:
    """Scale, Gram matrices and (for activations, with `units`) dead units of the output of a site."""
    known: dict[str, Any] = {"shape": tuple(x.shape), "dtype": _name(x.dtype)}
    count = x.numel()
    if x.layout is not torch.strided or not count:
        return ValueReading(**known)
    x = x.detach()
    view = samples_first(x, samples, tokens_first=tokens_first)
    low, high = torch.aminmax(x)  # one pass for size, finiteness and sign
    smallest = low.item()
    known["largest"] = largest = max(abs(smallest), abs(high.item()))
    if units and view is not None and view.dim() > 1:
        known["dead"] = _dead_fraction(view, 1 if channels_first else view.dim() - 1, signed=smallest < 0)
    if not math.isfinite(largest):
        return ValueReading(**known, finite=False)
    if view is not None and view.shape[0] > 1:
        known["metrics"] = {one.name: float(one.of(_samples(view))) for one in probed("products", "representation")}
    exponent = power_of_two(largest)
    if view is None:
        norm = float(torch.linalg.vector_norm(scaled(single(x), exponent)))
        return ValueReading(**known, rms=math.ldexp(norm, exponent) / math.sqrt(count))
    if exponent:
        view = scaled(single(view), exponent)
    gram = inner_products(view)
    if samples <= MAX_SAMPLES:  # the diagonal has all samples, so no second pass is needed
        square = gram.diagonal().sum().item()
    else:
        square = float(torch.linalg.vector_norm(single(view))) ** 2
    tokens = _token_view(view, channels_first) if view.dim() > 2 else None
    several = tokens is not None and tokens.shape[1] > 1
    across = None if tokens is None else tokens.transpose(0, 1)  # (tokens, samples, features)
    return ValueReading(
        **known,
        gram=gram,
        exponent=exponent,
        features=max(1, count // samples),
        token_gram=tokens @ tokens.mT if tokens is not None and several else None,
        position_gram=across @ across.mT if across is not None and several else None,
        rms=math.ldexp(math.sqrt(square / count), exponent),
    )


@lru_cache(maxsize=64)
def _name(dtype: torch.dtype) -> str:
    return str(dtype).removeprefix("torch.")


def _dead_fraction(x: Tensor, units: int, *, signed: bool) -> float:
    """Share of the units on axis `units` which are zero everywhere; `signed` if there are negative entries."""
    most = x.amax(0)  # samples first: the other axes have few entries left
    if signed:
        most = torch.maximum(most, -x.amin(0))
    axes = [axis for axis in range(most.dim()) if axis != units - 1]
    most = most.amax(axes) if axes else most
    return 1.0 - int(torch.count_nonzero(most)) / most.numel()


def saturated_fraction(x: Tensor, limits: tuple[float, float]) -> float:
    """Share of the entries at or beyond the limits.

    Example:
        >>> saturated_fraction(torch.tensor([-1.0, 0.0, 0.5, 0.99]), (-0.97, 0.97))
        0.5
    """
    inside = (x > limits[0]) & (x < limits[1])
    return 1.0 - inside.sum().item() / max(1, x.numel())


def weight_moments(weight: Tensor, fan_in: int) -> tuple[float, float]:
    """Gain `std · √fan_in` and asymmetry `mean/std · √fan_in` of the weights.

    The asymmetry is the size of the common part `mean · Σx` of a pre-activation against its random part, for inputs
    whose entries all have one sign. It is `inf` (with sign) for weights that are all the same, 0 if they are all 0.

    Example:
        >>> weight_moments(torch.tensor([[1.0, -1.0], [1.0, -1.0]]), 2)
        (1.4142135623730951, 0.0)
    """
    weight = single(weight.detach())
    count = weight.numel()
    if not count:
        return math.nan, math.nan
    mean = weight.sum().item() / count
    square = torch.linalg.vector_norm(weight).item() ** 2 / count
    variance = square - mean * mean
    if not variance > 1e-3 * square:  # the difference has lost digits, or something is not finite
        deviation, average = (t.item() for t in torch.std_mean(weight.double(), correction=0))
        mean, variance = average, deviation**2
    deviation = math.sqrt(variance) if variance >= 0 else math.nan
    root = math.sqrt(fan_in)
    if deviation == 0:
        return 0.0, math.copysign(math.inf, mean) if mean else 0.0
    return deviation * root, mean / deviation * root


def weight_spectrum(weight: Tensor) -> tuple[float, float]:
    """Spectral norm of the weights as a matrix `(out, in · kernel)`, and the isometry gap of its shorter side.

    Example:
        >>> weight_spectrum(2 * torch.eye(3))
        (2.0, 0.0)

    Implements: 001/metric-isogap (of weights).
    """
    matrix = single(weight.detach())
    matrix = matrix.flatten(1) if matrix.dim() > 1 else matrix[None]
    if not matrix.numel() or not bool(torch.isfinite(matrix).all()):
        return math.nan, math.nan
    if matrix.shape[0] > matrix.shape[1]:
        matrix = matrix.mT
    return float(torch.linalg.matrix_norm(matrix, 2)), float(metrics.isometry_gap(matrix))


def log_norm(x: Tensor) -> float:
    """`log ‖x‖`, natural logarithm, without over- or underflow; −inf for zeros, nan where entries are not finite.

    Example:
        >>> round(log_norm(torch.tensor([3e-30, 4e-30])), 6)  # log(5e-30)
        -67.468115
    """
    x = single(x)
    norm = torch.linalg.vector_norm(x).item() if x.numel() else 0.0
    # Within these bounds no square that matters left the range of float32.
    if 1e-15 < norm < 1e18:
        return math.log(norm)
    largest = largest_modulus(x)
    if largest == 0:
        return -math.inf
    if not math.isfinite(largest):
        return math.nan
    exponent = math.frexp(largest)[1]
    return math.log(torch.linalg.vector_norm(scaled(x, exponent)).item()) + exponent * math.log(2.0)
