"""Random convolutional chains: convolution, batch norm over batch and space, activation, layer after layer.

Stride 1 and padding that keeps the image size, so that every layer is a map of `(n, channels, height, width)` and a
metric reads the flattened `(n, channels · height · width)`.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
import xarray as xr
from numpy.typing import NDArray
from torch.nn import functional

from isometer.activations import activation
from isometer.activations._closed_forms import as_two_rays
from isometer.checks import MOST_RUNS, seed_number, whole_number
from isometer.errors import IsometerError, unknown_name
from isometer.metrics import METRICS, Metric, metric, names, soft_rank
from isometer.serialize import json_text
from isometer.trajectory import versions

__all__ = ["ConvolutionSpec", "convolution_matrix", "draw_kernel", "simulate_convolution"]

PADDINGS = ("circular", "zero", "reflect")
WEIGHTS = ("gaussian", "orthogonal", "uniform", "pytorch")
NORMS = (None, "batch", "batch-rescale")
POSITIONS = ("pre", "post")


@dataclass(frozen=True)
class ConvolutionSpec:
    """A random convolutional chain.

    Layer ℓ is `φ(norm(W_ℓ * H))`, or `norm(φ(W_ℓ * H))` with `norm_position="post"`, with stride 1, no bias and fresh
    weights. Batch norm takes its statistics over batch and space, one pair per channel, without affine parameters:
    `"batch"` recentres and divides by the (biased) standard deviation, `"batch-rescale"` divides by the root mean
    square; channels without variation become, or stay, zero.

    Weight laws, for `fan_in = channels_in · kernel_size²`: `gaussian` and `uniform` have variance gain²/fan_in,
    `pytorch` is uniform on ±gain/√fan_in, the default of `torch.nn.Conv2d`, and `orthogonal` is gain times a Haar
    frame on the unfolded kernel `(channels_out, fan_in)`: orthonormal rows, or columns where there are more rows.

    Args:
        channels: channels of every layer, or one number per layer.
        depth: layers; may be left out with one number of channels per layer.
        kernel_size: side of the kernel.
        padding: `circular`, `zero` or `reflect` (without the edge itself); kernels of even size get the extra pixel at
            the bottom and right.
        activation: text that `isometer.activation` reads.
        norm: None, `batch` or `batch-rescale`.
        norm_position: `pre` or `post` the activation.
        weights: `gaussian`, `orthogonal`, `uniform` or `pytorch`.
        gain: factor on all weights.

    Example:
        >>> spec = ConvolutionSpec(channels=16, depth=3, norm="batch")
        >>> spec.widths, spec.homogeneous
        ((16, 16, 16), False)

    Implements: 003/net-torch, 003/fig-5.
    """

    channels: int | tuple[int, ...]
    depth: int | None = None
    kernel_size: int = 3
    padding: str = "zero"
    activation: str = "relu"
    norm: str | None = None
    norm_position: str = "pre"
    weights: str = "gaussian"
    gain: float = 1.0

    def __post_init__(self) -> None:
        channels: int | tuple[int, ...]
        if isinstance(self.channels, Sequence):
            channels = tuple(_whole(width, "channels") for width in self.channels)
        else:
            channels = _whole(self.channels, "channels")
        object.__setattr__(self, "channels", channels)
        object.__setattr__(self, "depth", None if self.depth is None else _whole(self.depth, "depth"))
        object.__setattr__(self, "kernel_size", _whole(self.kernel_size, "kernel_size"))
        widths = self.widths
        if not widths or min(widths) < 1:
            raise IsometerError(f"channels are {self.channels!r} over {self.depth} layers; expected at least 1 of each")
        if self.kernel_size < 1:
            raise IsometerError(f"kernel_size is {self.kernel_size}; expected a whole number of at least 1")
        for name, value, allowed in (
            ("padding", self.padding, PADDINGS),
            ("weights", self.weights, WEIGHTS),
            ("norm", self.norm, NORMS),
            ("norm_position", self.norm_position, POSITIONS),
        ):
            if value not in allowed:
                raise unknown_name(name, value, allowed)
        if not (math.isfinite(self.gain) and self.gain > 0):
            raise IsometerError(f"gain is {self.gain}; expected a finite number above 0")
        activation(self.activation)  # raises an ActivationError of its own

    @property
    def widths(self) -> tuple[int, ...]:
        """Channels of each layer.

        Example:
            >>> ConvolutionSpec(channels=(8, 4)).widths
            (8, 4)
        """
        if isinstance(self.channels, tuple):
            if self.depth not in (None, len(self.channels)):
                raise IsometerError(
                    f"depth is {self.depth} and channels are given for {len(self.channels)} layers; expected the same "
                    "number — leave depth out"
                )
            return self.channels
        if self.depth is None or self.depth < 1:
            raise IsometerError(f"depth is {self.depth}; expected a whole number of at least 1, or channels per layer")
        return (self.channels,) * self.depth

    @property
    def homogeneous(self) -> bool:
        """Whether doubling the input doubles every layer, so that the scale can be carried as a logarithm.

        Example:
            >>> ConvolutionSpec(8, 2).homogeneous, ConvolutionSpec(8, 2, activation="tanh").homogeneous
            (True, False)
        """
        return self.norm is None and as_two_rays(activation(self.activation).expression) is not None


def _whole(value: Any, name: str) -> int:
    try:
        return operator.index(value)
    except TypeError:
        raise IsometerError(f"{name} is {value!r}; expected a whole number") from None


def draw_kernel(
    spec: ConvolutionSpec,
    channels_out: int,
    channels_in: int,
    generator: torch.Generator,
    *,
    dtype: torch.dtype = torch.float64,
) -> torch.Tensor:
    """One layer's weights by the law of the spec.

    Args:
        spec: names the law, the gain and the kernel size.
        channels_out: channels of this layer.
        channels_in: channels of the layer before.
        generator: source of the randomness, on the CPU; numbers are drawn in float64 whatever the dtype.
        dtype: dtype of the result.

    Returns:
        `(channels_out, channels_in, kernel_size, kernel_size)`.

    Example:
        >>> spec = ConvolutionSpec(channels=4, depth=1, weights="orthogonal")
        >>> rows = draw_kernel(spec, 4, 2, torch.Generator().manual_seed(0)).flatten(1)
        >>> bool(torch.allclose(rows @ rows.T, torch.eye(4, dtype=torch.float64)))
        True

    Implements: 003/alg-iter-conv (21) (the unfolded kernel), 001/init-gauss, 001/init-haar.
    """
    fan_in = channels_in * spec.kernel_size**2
    shape = (channels_out, fan_in)
    if spec.weights == "gaussian":
        matrix = torch.randn(shape, generator=generator, dtype=torch.float64) / math.sqrt(fan_in)
    elif spec.weights == "orthogonal":
        tall = torch.randn((max(shape), min(shape)), generator=generator, dtype=torch.float64)
        frame, triangle = torch.linalg.qr(tall)
        # Signs by the diagonal of R make the frame Haar; QR alone fixes them by convention.
        frame = frame * torch.where(torch.diagonal(triangle) < 0, -1.0, 1.0)
        matrix = frame if channels_out > fan_in else frame.T
    else:
        # Uniform on ±h has variance h²/3.
        half_width = math.sqrt((3.0 if spec.weights == "uniform" else 1.0) / fan_in)
        matrix = half_width * (2 * torch.rand(shape, generator=generator, dtype=torch.float64) - 1)
    side = spec.kernel_size
    return (spec.gain * matrix).reshape(channels_out, channels_in, side, side).to(dtype)


def convolution_matrix(kernel: torch.Tensor, height: int, width: int, *, padding: str = "circular") -> torch.Tensor:
    """The convolution as a dense layer: the matrix that acts on a flattened image.

    Block-circulant for circular padding, block-Toeplitz for zero padding.

    Args:
        kernel: `(channels_out, channels_in, k, k)`.
        height: of the image.
        width: width of the image.
        padding: `circular` or `zero`.

    Returns:
        `(channels_out · height · width, channels_in · height · width)`.

    Example:
        >>> kernel = torch.tensor([[[[0.0, 0.0, 0.0], [0.0, 0.0, 1.0], [0.0, 0.0, 0.0]]]])  # takes the right neighbour
        >>> convolution_matrix(kernel, 1, 3).tolist()
        [[0.0, 1.0, 0.0], [0.0, 0.0, 1.0], [1.0, 0.0, 0.0]]

    Implements: 003/alg-iter-conv (21).
    """
    if padding not in ("circular", "zero"):
        raise IsometerError(f"padding is {padding!r}; expected 'circular' or 'zero'")
    channels_out, channels_in, side, _ = kernel.shape
    before = (side - 1) // 2
    matrix = kernel.new_zeros((channels_out, height, width, channels_in, height, width))
    row, column = torch.arange(height)[:, None], torch.arange(width)[None, :]
    for i in range(side):
        for j in range(side):
            source_row, source_column = row + i - before, column + j - before
            inside = (source_row >= 0) & (source_row < height) & (source_column >= 0) & (source_column < width)
            kept = inside if padding == "zero" else torch.ones_like(inside)
            at = torch.nonzero(kept, as_tuple=True)
            source = (source_row % height)[at[0], 0], (source_column % width)[0, at[1]]
            # Added, not set: a kernel larger than a circular image meets a pixel twice, though never within one (i, j).
            # Advanced indices apart from each other move to the front: (places, channels_out, channels_in).
            matrix[:, at[0], at[1], :, source[0], source[1]] += kernel[:, :, i, j]
    return matrix.reshape(channels_out * height * width, channels_in * height * width)


def simulate_convolution(
    spec: ConvolutionSpec,
    batch: torch.Tensor | NDArray[Any],
    runs: int,
    metrics: Sequence[str],
    seed: int,
    *,
    at: str = "post",
    dtype: torch.dtype = torch.float64,
    device: str | torch.device = "cpu",
) -> xr.Dataset:
    """Random convolutional chains on one batch, independent in every run.

    Run r draws from a stream of its own, the r-th child of the seed, so that it does not depend on how many runs there
    are. Chains that are positively homogeneous carry their scale as a logarithm and cannot over- or underflow at any
    depth; others raise at the layer that does.

    Args:
        spec: the chain.
        batch: `(n, channels, height, width)`.
        runs: independent draws of all weights.
        metrics: names of `isometer.metrics.METRICS` that need no gradient, read off the flattened
            `(n, channels · height · width)`.
        seed: seed of all runs.
        at: `post`, what a layer passes to the next one, or `pre`, what its activation is given (after a norm in that
            place), the output of a block that begins with its activation (003/fig-5).
        dtype: dtype of the computation.
        device: device of the computation.

    Returns:
        `run × layer`, layer 0 being the input: every metric, and `log_norm`, the logarithm of the Frobenius norm;
        coordinates `layer`, `depth`, `name`, `op` and `site`, as `isometer.trajectory` has them.

    Example:
        >>> images = np.random.default_rng(0).normal(size=(4, 3, 6, 6))
        >>> spec = ConvolutionSpec(channels=8, depth=5, norm="batch")
        >>> chain = simulate_convolution(spec, images, 2, ["orthogonality_gap"], seed=1)
        >>> dict(chain.sizes), chain.name.values.tolist()[:2]
        ({'run': 2, 'layer': 6}, ['input', 'layer 1'])

    Implements: 003/fig-5, 003/net-torch.
    """
    images = _checked_batch(spec, batch, dtype, device)
    for name in metrics:
        metric(name, names("gram", "products", "representation"))
    runs, seed = whole_number(runs, "runs", high=MOST_RUNS, fix="pass the number of networks"), seed_number(seed)
    if at not in POSITIONS:
        raise IsometerError(f"at is {at!r}; expected 'post' (what the next layer gets) or 'pre' (what φ gets)")
    layers = len(spec.widths) + 1
    values: dict[str, NDArray[np.float64]] = {name: np.empty((runs, layers)) for name in (*metrics, "log_norm")}
    for run, child in enumerate(np.random.SeedSequence(seed).spawn(runs)):
        state = int(child.generate_state(1, np.uint64)[0] >> np.uint64(1))
        _one_run(spec, images, torch.Generator().manual_seed(state), values, run, at)
    order = {"pre": "convolution norm activation", "post": "convolution activation norm"}
    op = "convolution activation" if spec.norm is None else order[spec.norm_position]
    site = "output" if at == "post" else "pre-activation"
    return xr.Dataset(
        {name: (("run", "layer"), array) for name, array in values.items()},
        coords={
            "run": np.arange(runs),
            "layer": np.arange(layers),
            "depth": ("layer", np.arange(layers)),
            "name": ("layer", np.array(["input", *(f"layer {layer}" for layer in range(1, layers))], dtype=object)),
            "op": ("layer", np.array(["input", *[op] * (layers - 1)], dtype=object)),
            "site": ("layer", np.array(["output", *[site] * (layers - 1)], dtype=object)),
        },
        attrs={"spec": json_text(spec), "at": at, "seed": seed, "versions": versions()},
    )


def _one_run(
    spec: ConvolutionSpec,
    images: torch.Tensor,
    generator: torch.Generator,
    values: dict[str, NDArray[np.float64]],
    run: int,
    at: str,
) -> None:
    """Fill row `run` of every metric."""
    phi = activation(spec.activation)
    carried = spec.homogeneous
    state, log_scale = images, 0.0
    for layer in range(len(spec.widths) + 1):
        shown = state
        if layer > 0:
            kernel = draw_kernel(spec, spec.widths[layer - 1], state.shape[1], generator, dtype=state.dtype)
            hidden = _convolve(state, kernel.to(state.device), spec.padding)
            if spec.norm_position == "pre":
                hidden = _normalize(hidden, spec.norm)
            state = phi(hidden)
            if spec.norm_position == "post":
                state = _normalize(state, spec.norm)
            shown = state if at == "post" else hidden
            if not bool(torch.isfinite(shown).all()):
                raise IsometerError(
                    f"run {run} overflows at layer {layer}; expected finite representations — lower the gain, "
                    "normalise, or use a positively homogeneous activation"
                )
        _read(shown.flatten(1), log_scale, values, run, layer)
        if carried:
            # A power of two: no digit is lost.
            largest = float(state.abs().max())
            exponent = math.frexp(largest)[1] if largest > 0 else 0
            state = torch.ldexp(state, torch.tensor(-exponent, device=state.device))
            log_scale += exponent * math.log(2.0)


def _read(
    representation: torch.Tensor,
    log_scale: float,
    values: dict[str, NDArray[np.float64]],
    run: int,
    layer: int,
) -> None:
    for name, array in values.items():
        if name == "log_norm":
            largest = float(representation.abs().max())
            # By the largest entry first: squares of the entries may over- or underflow.
            norm = float(torch.linalg.vector_norm(representation / largest)) if largest > 0 else 0.0
            array[run, layer] = math.log(norm) + math.log(largest) + log_scale if largest > 0 else -math.inf
        elif name == "soft_rank":  # the one metric with a threshold in absolute units: τ = ½ of the unscaled batch
            # Eigenvalues go with the square of the scale; clamped to where e^x is a float.
            tau = 0.5 * math.exp(min(max(-2 * log_scale, -700.0), 700.0))
            array[run, layer] = float(soft_rank(representation, tau=tau))
        else:
            array[run, layer] = _number(METRICS[name], representation, log_scale)


def _number(metric: Metric, representation: torch.Tensor, log_scale: float) -> float:
    """A metric of `exp(log_scale) · representation`."""
    if metric.scaling == "absolute":
        return float(metric.of(representation * math.exp(min(max(log_scale, -700.0), 700.0))))
    value = float(metric.of(representation))
    return float(metric.at_scale(value, log_scale))


def _convolve(images: torch.Tensor, kernel: torch.Tensor, padding: str) -> torch.Tensor:
    side = kernel.shape[-1]
    before, after = (side - 1) // 2, side // 2
    mode = "constant" if padding == "zero" else padding
    padded = functional.pad(images, (before, after, before, after), mode=mode) if side > 1 else images
    return functional.conv2d(padded, kernel)


def _normalize(images: torch.Tensor, norm: str | None) -> torch.Tensor:
    if norm is None:
        return images
    axes = (0, 2, 3)
    if norm == "batch":
        centred = images - images.mean(dim=axes, keepdim=True)
        # A channel that is constant up to rounding has no direction to be scaled along.
        noise = 8 * torch.finfo(images.dtype).eps * images.abs().amax(dim=axes, keepdim=True)
        images = torch.where(centred.abs().amax(dim=axes, keepdim=True) <= noise, 0.0, centred)
    # By the largest entry first: squares may over- or underflow.
    largest = images.abs().amax(dim=axes, keepdim=True)
    images = images / torch.where(largest > 0, largest, 1.0)
    size = images.square().mean(dim=axes, keepdim=True).sqrt()
    return images / torch.where(size > 0, size, 1.0)


def _checked_batch(
    spec: ConvolutionSpec,
    batch: torch.Tensor | NDArray[Any],
    dtype: torch.dtype,
    device: str | torch.device,
) -> torch.Tensor:
    images = torch.as_tensor(batch).to(device=device, dtype=dtype)
    shape = tuple(images.shape)
    if len(shape) != 4 or 0 in shape:
        raise IsometerError(f"batch has shape {shape}; expected (n, channels, height, width), none of them 0")
    if not bool(torch.isfinite(images).all()):
        raise IsometerError("batch has NaN or infinite entries; expected finite numbers — drop those samples")
    n, _, height, width = shape
    if spec.norm == "batch" and n * height * width < 2:
        raise IsometerError(
            "batch has 1 sample of 1 pixel; batch statistics need at least 2 values — pass a larger batch or norm=None"
        )
    # Circular padding of torch wraps an image around at most once, and reflection has one pixel less.
    reach = spec.kernel_size // 2
    if spec.padding == "reflect" and reach >= min(height, width):
        raise IsometerError(
            f"kernel_size is {spec.kernel_size} on images of {height} × {width}; expected less than twice the smaller "
            "side with reflected padding — use a smaller kernel or zero padding"
        )
    if spec.padding == "circular" and reach > min(height, width):
        raise IsometerError(
            f"kernel_size is {spec.kernel_size} on images of {height} × {width}; expected at most twice the smaller "
            "side with circular padding — use a smaller kernel or zero padding"
        )
    return images
