"""`simulate`: what a random network of finite width does to a batch."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
import torch

from isometer.errors import IsometerError, unknown_name
from isometer.metrics._catalogue import describe
from isometer.simulate._chain import Engine, LayerChain
from isometer.simulate._cotangents import check_loss, output_cotangent
from isometer.simulate._gram import uses_frames
from isometer.simulate._measure import Measured, Recorder
from isometer.simulate._streams import Streams
from isometer.simulate._weights import GRAM_LAWS
from isometer.spec import Spec
from isometer.trajectory import DEFAULT_METRICS, trajectory

if TYPE_CHECKING:
    import xarray

_SLOTS = 16  # runs computed together
_WORK = 1 << 18  # numbers in a layer of all slots beyond which fewer slots are as fast
_TINY = 1 << 14  # numbers in a layer below which more slots cost nothing
_MEMORY = 1 << 30  # bytes that a chunk may keep


def simulate(
    spec: Spec,
    batch: Any,
    *,
    runs: int = 16,
    metrics: Sequence[Measured] = DEFAULT_METRICS,
    seed: int = 0,
    engine: Literal["auto", "gram", "dense"] = "auto",
    at: Literal["post", "pre"] = "post",
    loss: Any = "gaussian",
    device: str | torch.device = "cpu",
    dtype: str | torch.dtype = "float64",
    progress: Callable[[int, int], None] | None = None,
) -> xarray.Dataset:
    """Run a batch through independent draws of a random network and measure every layer.

    The Gram engine draws pre-activations in law without drawing the weights, for Gaussian and orthogonal weights (see
    `_gram.py`); the dense engine draws the weights, of any law. Every run has random streams of its own,
    so a run's numbers do not depend on how many there are, bit for bit (on one CPU type and one set of versions). The
    computation uses one thread. Gradients cost a backward pass, whose memory grows with depth; nothing else does.

    Samples that are equal in the input stay equal, exactly. Other linear dependencies hold up to rounding, which
    normalisation amplifies from layer to layer; gradients that vanish identically show as rounding, not as −inf.

    Args:
        spec: the network.
        batch: the input, `(n, d)` for all runs or `(runs, n, d)`; half precision and integers are converted to `dtype`.
        runs: number of independent networks.
        metrics: names of `isometer.metrics.METRICS`, those of sites and tokens excepted, or functions of a tensor
            `(runs, n, d)` with one number per run.
        seed: seed of the weights.
        engine: `"gram"`, `"dense"`, or `"auto"` for Gram wherever the law allows.
        at: measure what a layer hands on (`"post"`) or what enters its activation (`"pre"`).
        loss: for gradients: `"gaussian"` (a Gaussian cotangent), `"squared"`, `"cross-entropy"`, or an array `(n, d)`.
        device: torch device.
        dtype: `"float32"` or `"float64"`.
        progress: called as `progress(done, total)` in layers of chunks of runs.

    Returns:
        A trajectory, see `isometer.trajectory`; layer 0 is the input. `gradient_log_norm` at layer ℓ ≥ 1 is
        `log ‖∂loss/∂W_ℓ‖_F`, at layer 0 `log ‖∂loss/∂input‖_F`. Attributes: `spec`, `engine`, `seed`, `dtype`, `loss`,
        `versions`, and `first_nonfinite_layer`, per run the layer whose representation overflowed (−1: none), from
        which on all metrics are nan. Chains without a scale of their own never overflow (`Spec.homogeneity` 1).

    Example:
        >>> from isometer.data import make_batch
        >>> from isometer.trajectory import summarize
        >>> spec = Spec(width=100, depth=20, activation="identity", norm="batch-rescale")
        >>> data = simulate(spec, make_batch("correlated:0.9", 4, 100), metrics=["orthogonality_gap"], runs=4)
        >>> gap = summarize(data)["orthogonality_gap"].sel(statistic="mean")
        >>> bool(gap.sel(layer=20) < 0.3 < 0.7 < gap.sel(layer=0))
        True

    Implements: 000/def-layer, 001/rec-2.1, 001/rec-3.1, 001/rec-6.3, 001/rec-6.11, 002/def-2, 003/net-act, 004/eq-1,
        004/eq-3 and every other spec.
    """
    inputs = checked_batch(spec, batch, runs, device, dtype)
    chosen = checked_engine(spec, engine)
    check_loss(loss)
    if at not in ("post", "pre"):
        raise IsometerError(f"at is {at!r}; expected 'post' or 'pre' — pass one of them")
    # a recorder to throw away: it refuses unknown metrics before anything is computed
    backward = Recorder(metrics, 1, 1, at).needs_backward
    slots = chunk_size(spec, chosen, inputs, backward)
    pieces: list[dict[str, np.ndarray[Any, Any]]] = []
    overflow: list[int] = []
    starts = range(0, runs, slots)
    with one_thread(), torch.no_grad():
        for chunk, start in enumerate(starts):
            indices = range(start, min(start + slots, runs))
            report = None
            if progress is not None:
                report = _reporter(progress, chunk * spec.layers, len(starts) * spec.layers)
            recorder, chain = _run_chunk(
                spec, chosen, inputs, indices, slots, metrics, seed, at, loss, backward, report
            )
            layer = chain.nonfinite_layer[: len(indices)].cpu().numpy()
            after = (layer[:, None] >= 0) & (np.arange(spec.layers + 1) >= layer[:, None])
            piece = {}
            for name, values in recorder.values.items():
                kept = values[: len(indices)]
                # every gradient comes back from the output, so one overflow spoils those of all layers
                lost = (layer[:, None] >= 0) & np.ones_like(after) if describe(name).reads == "gradient" else after
                piece[name] = np.where(lost, np.nan, kept)
            pieces.append(piece)
            overflow += [int(value) for value in layer]
    merged = {name: np.concatenate([piece[name] for piece in pieces]) for name in pieces[0]}
    return trajectory(
        merged,
        spec,
        at=at,
        engine=chosen,
        seed=seed,
        dtype=str(inputs.dtype).removeprefix("torch."),
        loss=(loss if isinstance(loss, str) else "given") if backward else "none",
        first_nonfinite_layer=np.array(overflow),
    )


def _run_chunk(
    spec: Spec,
    engine: Engine,
    inputs: torch.Tensor,
    runs: range,
    slots: int,
    metrics: Sequence[Measured],
    seed: int,
    at: str,
    loss: Any,
    backward: bool,
    report: Callable[[int], None] | None,
) -> tuple[Recorder, LayerChain]:
    own = inputs[runs.start : runs.stop] if inputs.dim() == 3 else inputs.expand(len(runs), *inputs.shape)
    # all chunks have one shape, so that the bits of a run do not depend on how many runs there are
    batch = torch.cat([own, own[:1].expand(slots - len(runs), *own.shape[1:])]).contiguous()
    samples = batch.shape[-2]
    chain = LayerChain(spec, engine, batch, seed=seed, runs=runs, rows=samples if backward else None)
    recorder = Recorder(metrics, slots, spec.layers, at)
    recorder.record(chain, 0)
    for layer in range(1, spec.layers + 1):
        chain.step(layer)
        recorder.record(chain, layer)
        if report is not None:
            report(layer)
    recorder.flush()
    if backward:
        size = samples * spec.widths[-1]
        streams = Streams(seed, runs, slots, "cotangent", "normal", size, batch.new_empty(0), total=size)
        cotangent, log_scale = output_cotangent(loss, chain, streams)
        chain.backward(cotangent, log_scale, recorder.visit)
    return recorder, chain


def _reporter(progress: Callable[[int, int], None], done: int, total: int) -> Callable[[int], None]:
    return lambda layer: progress(done + layer, total)


def checked_batch(
    spec: Spec, batch: Any, runs: int, device: str | torch.device, dtype: str | torch.dtype
) -> torch.Tensor:
    """The input as a tensor `(n, d)` or `(runs, n, d)`, or an error that says what is wrong with it.

    Example:
        >>> checked_batch(Spec(width=3, depth=1), np.eye(3), 1, "cpu", "float64").shape
        torch.Size([3, 3])
    """
    if isinstance(runs, bool) or not isinstance(runs, int) or runs < 1:
        raise IsometerError(f"runs is {runs!r}; expected a whole number of at least 1 — pass the number of networks")
    name = str(dtype).removeprefix("torch.")
    if name not in ("float32", "float64"):
        raise IsometerError(f"dtype is {name}; expected float32 or float64 — half precision loses the small angles")
    if not isinstance(batch, torch.Tensor):
        array = np.asarray(batch)
        if array.dtype.kind not in "fiub":
            raise IsometerError(f"batch has dtype {array.dtype}; expected real numbers — pass a real array")
        batch = torch.as_tensor(np.ascontiguousarray(array))  # torch refuses negative strides
    if batch.is_complex():
        raise IsometerError(f"batch has dtype {batch.dtype}; expected real numbers — pass a real tensor")
    tensor: torch.Tensor = batch.detach().to(device=device, dtype=getattr(torch, name))
    shape = tuple(tensor.shape)
    if len(shape) not in (2, 3) or 0 in shape:
        raise IsometerError(
            f"batch has shape {shape}; expected (samples, features) or (runs, samples, features), none 0"
        )
    if len(shape) == 3 and shape[0] != runs:
        raise IsometerError(f"batch has {shape[0]} inputs for {runs} runs; expected as many — pass runs={shape[0]}")
    if not bool(torch.isfinite(tensor).all()):
        bad = int((~torch.isfinite(tensor)).sum())
        raise IsometerError(
            f"batch has {bad} NaN or infinite entries of {tensor.numel()}; expected finite numbers — drop those samples"
        )
    if shape[-1] != spec.input_width:
        raise IsometerError(
            f"batch has {shape[-1]} features, the spec expects {spec.input_width} — pass "
            f"Spec(…, input_width={shape[-1]}) or another batch"
        )
    if spec.norm is not None and spec.norm.over == "batch" and shape[-2] < 2:
        raise IsometerError("batch has 1 sample; batch statistics need at least 2 — pass a larger batch or norm=None")
    return tensor


def checked_engine(spec: Spec, engine: str) -> Engine:
    """The engine to use, or an error if it cannot draw the law of the weights.

    Example:
        >>> checked_engine(Spec(width=3, depth=1, weights="uniform"), "auto")
        'dense'
    """
    if engine not in ("auto", "gram", "dense"):
        raise unknown_name("engine", engine, ("auto", "gram", "dense"), fix="pass one of them")
    if engine == "gram" and spec.weights not in GRAM_LAWS:
        raise IsometerError(
            f"engine='gram' with weights={spec.weights!r}; expected one of {', '.join(GRAM_LAWS)}, whose law is "
            "invariant under rotations — pass engine='dense'"
        )
    if engine == "auto":
        return "gram" if spec.weights in GRAM_LAWS else "dense"
    return "gram" if engine == "gram" else "dense"


def chunk_size(spec: Spec, engine: Engine, inputs: torch.Tensor, backward: bool) -> int:
    """How many runs are computed together: a function of the problem, never of the number of runs."""
    samples, size = inputs.shape[-2], inputs.element_size()
    widest = max(*spec.fan_in, *spec.widths)
    slots = max(min(_SLOTS, _WORK // (samples * widest)), min(4 * _SLOTS, _TINY // (samples * widest)))
    kept, largest = 0, 0
    for fan_in, fan_out in zip(spec.fan_in, spec.widths, strict=True):
        full = engine == "dense" or not uses_frames(spec.weights, samples, fan_in, fan_out, samples)
        weights = fan_in * fan_out if full else samples * (fan_in + fan_out)
        largest = max(largest, weights)
        kept += weights + 3 * samples * fan_out
    # a backward pass keeps what every layer leaves; forward, one layer is alive at a time
    memory = (kept if backward else largest) * size
    if memory > 8 * _MEMORY:
        raise IsometerError(
            f"the backward pass would keep {memory / 2**30:.1f} GiB per run; expected at most {8 * _MEMORY >> 30} — "
            "use the Gram engine, float32, fewer layers or a smaller batch"
        )
    limit = _MEMORY if backward else _MEMORY >> 3
    return max(1, min(slots, limit // max(1, memory)))


@contextlib.contextmanager
def one_thread() -> Iterator[None]:
    """One torch thread: faster for small matrices, and the condition of bit-identical results.

    Example:
        >>> with one_thread():
        ...     torch.get_num_threads()
        1
    """
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(before)
