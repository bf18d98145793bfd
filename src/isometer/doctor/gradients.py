"""Per-sample gradients of weights, as their n × n matrix of inner products, never formed where that can be helped.

Sample i contributes `∇_i = Σ_t δ_it x_itᵀ` to the gradient of a linear layer, t over tokens. What enters is the
cotangent δ of the whole loss, so that under batch normalisation ∇_i is the sample's contribution to the summed
gradient, and the contributions always add up to it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch.nn import functional

from isometer import metrics
from isometer.doctor.reduce import MAX_SAMPLES, every, largest_modulus, power_of_two, samples_first, scaled, single

Tensor = torch.Tensor
EXACT_TOKENS = 2048
"""Up to this many tokens in a batch the inner products of a linear layer are exact."""
SKETCH_CHANNELS = 32
"""Groups in which the channels of a convolution are added up with random signs, on either side."""
SKETCH_GROUPS = 8
SKETCH_FEATURES = 32
_UNFOLDED = 1 << 22  # entries of an unfolded activation held at a time


def _ordinary(x: Tensor) -> Tensor:
    """`x` divided by a power of two so that products of two such stay in range."""
    x = single(x)
    return scaled(x, power_of_two(largest_modulus(x)))


def _sketch(x: Tensor, buckets: int, generator: torch.Generator) -> Tensor:
    """Features on axis −2 added up in `buckets` groups with random signs: inner products stay the same on average."""
    features = x.shape[-2]
    signs = (torch.randint(0, 2, (features,), generator=generator) * 2 - 1).to(x)
    size = -(-features // buckets)
    if features % size:
        whole = features // size * size
        rest = signs[whole:] @ x[..., whole:, :]
        return torch.cat([_add_up(x[..., :whole, :], signs[:whole], size), rest.unsqueeze(-2)], -2)
    return _add_up(x, signs, size)


def _add_up(x: Tensor, signs: Tensor, size: int) -> Tensor:
    grouped = x.reshape(*x.shape[:-2], -1, size, x.shape[-1])
    return (signs.view(-1, 1, size) @ grouped).squeeze(-2)


def token_gradient_gram(inputs: Tensor, cotangents: Tensor, generator: torch.Generator) -> tuple[Tensor, str]:
    """Inner products of `Σ_t δ_it x_itᵀ`, for inputs `(n, T, d_in)` and cotangents `(n, T, d_out)`.

    With one token a Hadamard product of two Gram matrices (002/prop-8). Up to `EXACT_TOKENS` tokens in all exact,
    either from inner products of all tokens or from blocks of rows of the gradients, whichever is less work. Beyond
    that the features of the cotangents are added up with random signs in 32 groups: inner products are right on
    average, with a relative error of about 1/4 where gradients have rank one, less where they do not; cosines of
    collinear gradients are exact.

    Example:
        >>> x, d = torch.randn(3, 5, 4), torch.randn(3, 5, 2)
        >>> gram, method = token_gradient_gram(x, d, torch.Generator())
        >>> whole = torch.einsum("nto,nti->noi", d, x).flatten(1)
        >>> torch.allclose(gram, whole @ whole.mT, atol=1e-4), method
        (True, 'exact')
    """
    samples, tokens, fan_in = inputs.shape
    fan_out = cotangents.shape[2]
    if tokens == 1:
        return metrics.linear_gradient_gram(inputs[:, 0], cotangents[:, 0]) * (fan_in * fan_out), "exact"
    method = "exact"
    if samples * tokens > EXACT_TOKENS:
        if fan_out > SKETCH_FEATURES:
            cotangents, method = _sketch(cotangents.mT, SKETCH_FEATURES, generator).mT, "sketch"
            fan_out = cotangents.shape[2]
    elif samples * tokens * tokens * (fan_in + fan_out) < (tokens + samples) * fan_in * fan_out:
        x, d = inputs.flatten(0, 1), cotangents.flatten(0, 1)
        return ((x @ x.mT) * (d @ d.mT)).view(samples, tokens, samples, tokens).sum((1, 3)), method
    gram = inputs.new_zeros(samples, samples)
    block = max(1, _UNFOLDED // max(1, samples * fan_in))
    for start in range(0, fan_out, block):
        part = (cotangents[:, :, start : start + block].mT @ inputs).flatten(1)
        gram += part @ part.mT
    return gram, method


def linear_alignment(
    inputs: Tensor, cotangents: Tensor, samples: int, generator: torch.Generator, *, tokens_first: bool
) -> tuple[Tensor, str] | None:
    """`token_gradient_gram` of what enters and comes back to a linear layer, in whichever shape; `None` if unclear."""
    x = samples_first(inputs, samples, tokens_first=tokens_first)
    d = samples_first(cotangents, samples, tokens_first=tokens_first)
    if x is None or d is None or x.dim() < 2 or d.dim() < 2:
        return None
    stride = every(samples, MAX_SAMPLES)
    x, d = x[::stride], d[::stride]
    x, d = x.reshape(x.shape[0], -1, x.shape[-1]), d.reshape(d.shape[0], -1, d.shape[-1])
    if x.shape[1] != d.shape[1]:
        return None
    return token_gradient_gram(_ordinary(x), _ordinary(d), generator)


def convolution_alignment(
    name: str,
    inputs: Tensor,
    cotangents: Tensor,
    kernel: Sequence[int],
    arguments: Mapping[str, Any],
    generator: torch.Generator,
) -> tuple[Tensor, str] | None:
    """Inner products of the samples' contributions to the gradient of a convolution's weights, sketched.

    The channels on both sides are added up with random signs in `SKETCH_CHANNELS` groups (kept where there are no
    more); kernel positions are kept. Inner products are right on average, cosines of orthogonal gradients are off by
    about 1/32 for 1×1 kernels and less for larger ones, those of collinear gradients not at all. Of grouped
    convolutions at most `SKETCH_GROUPS` groups take part, drawn at random.
    `None` for three-dimensional convolutions. A transposed convolution is one with input and cotangent exchanged.
    """
    dims = int(name[-2])
    if dims == 3 or inputs.dim() != dims + 2 or cotangents.dim() != dims + 2:
        return None
    stride_samples = every(inputs.shape[0], MAX_SAMPLES)
    x, d = single(inputs[::stride_samples]), single(cotangents[::stride_samples])
    if "transpose" in name:
        x, d = d, x
    groups = int(arguments["groups"])
    x = x.reshape(x.shape[0], groups, -1, *x.shape[2:])  # (n, groups, channels, *positions)
    d = d.reshape(d.shape[0], groups, -1, *d.shape[2:])
    exact = groups <= SKETCH_GROUPS
    if not exact:
        chosen = torch.randperm(groups, generator=generator)[:SKETCH_GROUPS].to(x.device)
        x, d = x[:, chosen], d[:, chosen]
    if dims == 1:
        x, d = x.unsqueeze(-2), d.unsqueeze(-2)
    samples, groups, fan_in = x.shape[:3]
    plane = x.shape[3:]
    x, d = x.reshape(samples * groups, fan_in, -1), d.flatten(3).flatten(0, 1)  # (n · groups, channels, positions)
    if fan_in > SKETCH_CHANNELS:
        x, exact = _sketch(x, SKETCH_CHANNELS, generator), False
    if d.shape[1] > SKETCH_CHANNELS:
        d, exact = _sketch(d, SKETCH_CHANNELS, generator), False
    x, d = _ordinary(x), _ordinary(d)

    def pair(value: Any, other: int) -> tuple[int, int]:
        values = (value,) if isinstance(value, int) else tuple(value)
        return (values[0], values[-1]) if dims == 2 else (other, values[0])

    size = (int(kernel[0]), int(kernel[1])) if dims == 2 else (1, int(kernel[0]))
    dilation, stride = pair(arguments["dilation"], 1), pair(arguments["stride"], 1)
    padding = arguments["padding"]
    if isinstance(padding, str):
        total = [dilation[i] * (size[i] - 1) if padding == "same" else 0 for i in (0, 1)]
        before = [t // 2 for t in total]
        around = (before[1], total[1] - before[1], before[0], total[0] - before[0])
    else:
        high, wide = pair(padding, 0)
        around = (wide, wide, high, high)
    images = x.view(samples * groups, -1, *plane)
    if size == (1, 1) and stride == (1, 1) and not any(around):
        gradients = x @ d.mT
    else:
        parts, positions = [], d.shape[2]
        block = max(1, _UNFOLDED // max(1, images.shape[1] * size[0] * size[1] * positions))
        for start in range(0, samples * groups, block):
            padded = functional.pad(images[start : start + block], around)
            patches = _patches(padded, size, dilation, stride, positions)
            if patches is None:
                return None
            parts.append(patches @ d[start : start + block].mT)
        gradients = torch.cat(parts)
    flat = gradients.reshape(samples, -1)
    return flat @ flat.mT, "exact" if exact else "sketch"


def _patches(
    images: Tensor, size: tuple[int, int], dilation: tuple[int, int], stride: tuple[int, int], positions: int
) -> Tensor | None:
    unfolded = functional.unfold(images, size, dilation=dilation, stride=stride)
    return unfolded if unfolded.shape[2] == positions else None
