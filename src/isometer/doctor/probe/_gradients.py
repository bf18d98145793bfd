"""Per-sample gradients of weights, as their n × n matrix of inner products, never formed where that can be helped.

Sample i contributes `∇_i = Σ_t δ_it x_itᵀ` to the gradient of a linear layer, t over tokens. What enters is the
cotangent δ of the whole loss, so that under batch normalisation ∇_i is the sample's contribution to the summed
gradient, and the contributions always add up to it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import torch
from torch.nn import functional

from isometer import metrics
from isometer.doctor.probe._reductions import (
    MAX_SAMPLES,
    every,
    largest_modulus,
    power_of_two,
    samples_first,
    scaled,
    single,
)

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
    # Independent signs have E s_i s_j = δ_ij, so that E ⟨Sx, Sy⟩ = ⟨x, y⟩.
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
        # The metric divides by the number of weights; here the products themselves are wanted.
        return metrics.linear_gradient_gram(inputs[:, 0], cotangents[:, 0]) * (fan_in * fan_out), "exact"
    method = "exact"
    if samples * tokens > EXACT_TOKENS:
        if fan_out > SKETCH_FEATURES:
            cotangents, method = _sketch(cotangents.mT, SKETCH_FEATURES, generator).mT, "sketch"
            fan_out = cotangents.shape[2]
    # All pairs of tokens cost (nT)²(d_in + d_out); to form gradients and multiply them nT d_in d_out + n² d_in d_out.
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
    geometry = _Geometry.of(dims, kernel, arguments)
    if dims == 1:
        x, d = x.unsqueeze(-2), d.unsqueeze(-2)
    x, geometry = geometry.thinned(x)
    groups = int(arguments["groups"])
    plane, positions = x.shape[2:], d.shape[2:]
    x = x.reshape(x.shape[0], groups, -1, plane.numel())  # (n, groups, channels, positions)
    d = d.reshape(d.shape[0], groups, -1, positions.numel())
    exact = groups <= SKETCH_GROUPS
    if not exact:
        chosen = torch.randperm(groups, generator=generator)[:SKETCH_GROUPS].to(x.device)
        x, d = x[:, chosen], d[:, chosen]
    samples = x.shape[0]
    x, d = x.flatten(0, 1), d.flatten(0, 1)  # (n · groups, channels, positions)
    if x.shape[1] > SKETCH_CHANNELS:
        x, exact = _sketch(x, SKETCH_CHANNELS, generator), False
    if d.shape[1] > SKETCH_CHANNELS:
        d, exact = _sketch(d, SKETCH_CHANNELS, generator), False
    x, d = _ordinary(x), _ordinary(d)
    gradients = geometry.correlated(x.reshape(*x.shape[:2], *plane), d.reshape(*d.shape[:2], *positions))
    if gradients is None:
        return None
    flat = gradients.reshape(samples, -1)
    return flat @ flat.mT, "exact" if exact else "sketch"


class _Geometry(NamedTuple):
    """Where the kernel of a two-dimensional convolution looks."""

    size: tuple[int, int]
    stride: tuple[int, int]
    dilation: tuple[int, int]
    around: tuple[int, int, int, int]  # padding: left, right, above, below

    @classmethod
    def of(cls, dims: int, kernel: Sequence[int], arguments: Mapping[str, Any]) -> _Geometry:
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
        return cls(size, stride, dilation, around)

    def thinned(self, x: Tensor) -> tuple[Tensor, _Geometry]:
        """Only those pixels which a kernel of one pixel looks at."""
        if self.size != (1, 1) or any(self.around) or self.stride == (1, 1):
            return x, self
        return x[..., :: self.stride[0], :: self.stride[1]], self._replace(stride=(1, 1))

    def correlated(self, x: Tensor, d: Tensor) -> Tensor | None:
        """Gradients by the kernel, of each image: `Σ_p x[stride · p + dilation · k] d[p]ᵀ` at its positions k.

        Images are split by the remainder of their coordinates modulo the stride. Within such a part, and with rows of d
        as long as its rows, a position of the kernel is an offset into all pixels in a row, which needs no copy.

        Args:
            x: `(images, channels, high, wide)`, what entered.
            d: `(images, channels, high, wide)`, the gradient by what came out.

        Returns:
            `(images, kernel positions, channels of x, channels of d)`, `None` for shapes which do not fit.
        """
        (high, wide), (down, across) = d.shape[2:], self.stride
        left, right, above, below = self.around
        rows, columns = x.shape[2] + above + below, x.shape[3] + left + right
        reach = [dilation * (size - 1) for dilation, size in zip(self.dilation, self.size, strict=True)]
        if ((rows - 1 - reach[0]) // down + 1, (columns - 1 - reach[1]) // across + 1) != (high, wide):
            return None
        # Sides become multiples of the stride, so that all parts have one size.
        around = (left, right + -columns % across, above, below + -rows % down)
        x = functional.pad(x, around) if any(around) else x
        width = x.shape[3] // across
        # The padding of d's last row is left off: with it the largest offset would run past the end.
        length = (high - 1) * width + wide
        # Zeros at the ends of rows add nothing to the sums.
        d = functional.pad(d, (0, width - wide)) if width > wide else d
        cotangents = d.flatten(2)[:, :, :length].mT
        parts: dict[tuple[int, int], Tensor] = {}
        products = []
        for row in range(0, reach[0] + 1, self.dilation[0]):
            for column in range(0, reach[1] + 1, self.dilation[1]):
                part = (row % down, column % across)
                if part not in parts:
                    parts[part] = x[:, :, part[0] :: down, part[1] :: across].flatten(2)
                start = row // down * width + column // across
                products.append(parts[part][:, :, start : start + length] @ cotangents)
        return torch.stack(products, 1)
