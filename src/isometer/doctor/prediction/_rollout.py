"""Draws of a chain from the Gram matrix that was measured at its start: the numbers a probe would have found in them.

Layer by layer with the exact-in-law engine, in the precision of the model (float32 for half precision), and read off
Gram matrices as a probe does, so that what rounding does to a collapsed batch is alike on both sides.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, Literal

import numpy as np
import torch
from numpy.typing import NDArray

from isometer.metrics._catalogue import probed
from isometer.simulate._chain import LayerChain
from isometer.simulate._engine import checked_engine, one_thread
from isometer.simulate._gradients import log_norm
from isometer.simulate._weights import haar_frame
from isometer.spec import Chain

Floats = NDArray[np.float64]
Tensor = torch.Tensor
GRADIENT = "output_gradient_log_norm"
_SCHEDULES: tuple[Literal["gain", "residual", "activation_gain"], ...] = ("gain", "residual", "activation_gain")
_BLOCK = 32  # layers whose metrics are evaluated together
_SLOTS = 16
_MEMORY = 1 << 30  # bytes that the representations of a chunk of runs may take for the backward pass


@dataclass(frozen=True, eq=False)
class Draws:
    """Numbers of independent draws, `(runs, places)` each."""

    values: dict[str, Floats]


def rollout(
    spec: Chain,
    gram: Floats,
    *,
    at: Sequence[int],
    runs: int,
    seed: int,
    dtype: torch.dtype,
    resolution: float,
    backward: bool,
    cotangent: Floats | None = None,
) -> Draws:
    """Draw the chain of a spec from a Gram matrix.

    A batch with that Gram matrix, rotated at random, starts every run: for weights of a rotation-invariant law the
    rotation does not matter, and where something elementwise comes first it is what Gaussian weights before it leave.

    Args:
        spec: the chain.
        gram: `H Hᵀ / d` at its start.
        at: the layers to read, from 0 to the last, increasing.
        runs: number of draws.
        seed: seed of the draws.
        dtype: float32 or float64.
        resolution: relative precision of Gram matrices; samples whose squared distance is below it are taken as equal.
        backward: also draw gradients by the outputs of layers, up to a common factor per run.
        cotangent: Gram matrix of the gradients by the outputs of the weights which read the chain's end; independent
            gradients by default.

    Returns:
        `Draws`: the metrics of Gram matrices (the isometry gap nan where it is made of rounding), `rms`, and the
        gradient's log-norm.

    Example:
        >>> from isometer import Spec
        >>> spec = Spec(width=64, depth=3, weights="orthogonal", activation="identity")
        >>> drawn = rollout(
        ...     spec, np.eye(2), at=[0, 1, 3], runs=2, seed=0, dtype=torch.float64, resolution=1e-12, backward=False
        ... )
        >>> drawn.values["rms"].round(6).tolist()
        [[1.0, 1.0, 1.0], [1.0, 1.0, 1.0]]
    """
    samples, width = len(gram), int(spec.input_width or 0)
    kept = sum(samples * (fan_in + 4 * fan_out) for fan_in, fan_out in zip(spec.fan_in, spec.widths, strict=True))
    slots = min(runs, _SLOTS)
    if backward:
        slots = max(1, min(slots, _MEMORY // max(1, kept * dtype.itemsize)))
    root, twins = _root(gram, width, resolution)
    stretches = _stretches(spec, at)
    pieces = []
    with one_thread(), torch.no_grad():
        for start in range(0, runs, slots):
            chunk = range(start, min(start + slots, runs))
            pieces.append(_chunk(stretches, root, twins, chunk, seed, dtype, resolution, backward, cotangent))
    return Draws({name: np.concatenate([piece[name] for piece in pieces]) for name in pieces[0]})


def _root(gram: Floats, width: int, resolution: float) -> tuple[Floats, list[int]]:
    """F `(n, min(n, width))` with `F Fᵀ = width · gram` as far as the width allows; for each sample its first equal."""
    # Not Cholesky: the Gram matrix of a collapsed or repeated batch is singular.
    values, vectors = np.linalg.eigh((gram + gram.T) / 2)
    rank = min(len(gram), width)
    kept = np.sqrt(np.clip(values[::-1][:rank], 0.0, None) * width)
    root: Floats = vectors[:, ::-1][:, :rank] * kept
    squares = np.diag(gram)
    # Samples equal within rounding get the very same row, as they have in the model.
    distances = squares[:, None] + squares[None, :] - 2 * gram
    equal = distances <= resolution * np.maximum(squares[:, None], squares[None, :])
    return root, [int(np.argmax(row)) for row in equal | np.eye(len(gram), dtype=bool)]


def _generator(seed: int, run: int, role: int) -> torch.Generator:
    state = np.random.SeedSequence(seed, spawn_key=(run, role)).generate_state(1, np.uint64)[0]
    return torch.Generator().manual_seed(int(state >> np.uint64(1)))


def _chunk(
    stretches: Sequence[Chain],
    root: Floats,
    twins: list[int],
    runs: range,
    seed: int,
    dtype: torch.dtype,
    resolution: float,
    backward: bool,
    cotangent: Floats | None,
) -> dict[str, Floats]:
    samples, rank = root.shape
    width = int(stretches[0].input_width or 0)
    frames = [
        haar_frame(torch.randn(width, rank, dtype=torch.float64, generator=_generator(seed, run, 100))) for run in runs
    ]
    value = torch.matmul(torch.from_numpy(root), torch.stack(frames).mT).to(dtype)[:, twins]
    recorder = _RolloutRecorder(len(runs), len(stretches) + 1, samples, resolution)
    log_scale = torch.zeros(len(runs), dtype=torch.float64)
    lost = torch.zeros(len(runs), dtype=torch.bool)
    recorder.record(0, value, log_scale, lost)
    chains: list[LayerChain] = []
    engine, rows = checked_engine(stretches[0], "auto"), samples if backward else None
    for place, stretch in enumerate(stretches, start=1):
        # A seed per stretch: each chain starts its streams anew, and would draw the same weights.
        own = int(np.random.SeedSequence(seed, spawn_key=(place,)).generate_state(1)[0])
        chain = LayerChain(stretch, engine, value, seed=own, runs=runs, rows=rows)
        for layer in range(1, stretch.layers + 1):
            chain.step(layer)
        value, log_scale = chain.value, log_scale + chain.log_scale
        lost = lost | (chain.nonfinite_layer >= 0)
        recorder.record(place, value, log_scale, lost)
        if backward:
            chains.append(chain)
    recorder.flush()
    values = recorder.values
    if backward:
        values[GRADIENT] = _gradients(chains, _top(value, cotangent, runs, seed), lost)
    return values


def _stretches(spec: Chain, at: Sequence[int]) -> list[Chain]:
    """The layers between two that are read, as specs of their own."""
    found = []
    known: dict[tuple[object, ...], Chain] = {}
    for before, after in pairwise(at):
        inside = range(before + 1, after + 1)
        widths = tuple(spec.widths[before:after])
        schedules = [tuple(spec.at(name, layer) for layer in inside) for name in _SCHEDULES]
        key = (widths, spec.fan_in[before], *schedules)
        if key not in known:
            changes: dict[str, Any] = {
                name: values[0] if len(set(values)) == 1 else values
                for name, values in zip(_SCHEDULES, schedules, strict=True)
            }
            known[key] = spec.replace(width=widths, input_width=spec.fan_in[before], **changes)
        found.append(known[key])
    return found


def _top(value: Tensor, gram: Floats | None, runs: Sequence[int], seed: int) -> Tensor:
    """The gradient by the last representation: independent rows, or rows with the inner products of δ Wᵀ."""
    shape = value.shape[1:]
    normals = torch.stack([torch.randn(shape, generator=_generator(seed, run, 101)) for run in runs]).to(value)
    if gram is None:
        return normals
    values, vectors = np.linalg.eigh((gram + gram.T) / 2)
    root = (vectors * np.sqrt(np.clip(values, 0.0, None))) @ vectors.T
    return torch.from_numpy(root).to(value) @ normals


def _gradients(chains: list[LayerChain], cotangent: Tensor, lost: Tensor) -> Floats:
    logs = torch.zeros(len(cotangent), dtype=torch.float64)
    out = np.full((len(cotangent), len(chains) + 1), math.nan)
    out[:, -1] = (log_norm(cotangent) + logs).numpy()
    for place in range(len(chains) - 1, -1, -1):
        scale: list[Tensor] = []

        def visit(step: int, product: object, delta: Tensor, log: Tensor, scale: list[Tensor] = scale) -> None:
            if step == 0:
                scale.append(log)

        # Popped, so that the representations of a chain are freed once they are used.
        cotangent = chains.pop().backward(cotangent, logs, visit)
        logs = scale[0]
        out[:, place] = (log_norm(cotangent) + logs).numpy()
    out[lost.numpy()] = math.nan
    return out


class _RolloutRecorder:
    """Metrics of Gram matrices, gathered over a block of layers."""

    def __init__(self, runs: int, places: int, samples: int, resolution: float) -> None:
        self._resolution = resolution
        self._metrics = [one for one in probed("gram") if one.scaling == "invariant"] if samples > 1 else []
        names = ("rms", *(one.name for one in self._metrics))
        self.values: dict[str, Floats] = {name: np.full((runs, places), math.nan) for name in names}
        self._pending: list[tuple[int, Tensor, Tensor]] = []

    def record(self, layer: int, value: Tensor, log_scale: Tensor, lost: Tensor) -> None:
        # Squares may leave the range of float32: the factor comes back as a logarithm.
        largest = value.abs().amax((-2, -1), keepdim=True)
        scaled = value / torch.where(largest > 0, largest, 1.0)
        gram = scaled @ scaled.mT
        square = gram.diagonal(dim1=-2, dim2=-1).sum(-1).to(torch.float64) / (value.shape[-2] * value.shape[-1])
        logs = 0.5 * square.log() + largest.flatten().to(torch.float64).log() + log_scale
        # Beyond 709 exp gives infinity.
        self.values["rms"][:, layer] = torch.where(lost, math.nan, logs.clamp(max=709.0).exp()).numpy()
        self._pending.append((layer, gram, lost))
        if len(self._pending) >= _BLOCK:
            self.flush()

    def flush(self) -> None:
        if not self._pending or not self._metrics:
            return
        layers = [layer for layer, _, _ in self._pending]
        stacked = torch.stack([gram for _, gram, _ in self._pending])
        stacked = (stacked + stacked.mT) / 2
        bad = torch.stack([lost for _, _, lost in self._pending])
        for one in self._metrics:
            numbers = one.of_gram(stacked).to(torch.float64)
            if one.name == "isometry_gap":
                numbers = torch.where(_resolved(stacked, self._resolution), numbers, math.nan)
            self.values[one.name][:, layers] = torch.where(bad, math.nan, numbers).numpy().T
        self._pending = []


def _resolved(grams: Tensor, resolution: float) -> Tensor:
    """Whether the smallest eigenvalues are more than rounding."""
    values: Tensor = torch.linalg.eigvalsh(grams)
    return torch.gt(values[..., 0], values[..., -1] * (grams.shape[-1] * resolution))
