"""`simulate`: what a random network of finite width does to a batch."""

from __future__ import annotations

import contextlib
import math
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, Literal, overload

import numpy as np
import torch

from isometer.checks import MOST_RUNS, check_entries, seed_number, whole_number
from isometer.data._batches import batch_for
from isometer.errors import IsometerError, unknown_name
from isometer.metrics._catalogue import describe
from isometer.metrics._sequences import check_sequences
from isometer.simulate._chain import Engine, LayerChain
from isometer.simulate._cotangents import check_loss, output_cotangent
from isometer.simulate._degrees import degree_after
from isometer.simulate._measure import Measured, Recorder
from isometer.simulate._network import NetworkWalk
from isometer.simulate._network_work import NetworkSizes, check_network_work
from isometer.simulate._steps import check_covered
from isometer.simulate._streams import Streams
from isometer.simulate._weights import GRAM_LAWS
from isometer.simulate._work import Sizes, check_simulation_work
from isometer.spec import Chain, Composition, Dense, Norm, Spec
from isometer.spec._steps import walk
from isometer.trajectory import DEFAULT_METRICS, trajectory

if TYPE_CHECKING:
    import xarray


def simulate(
    spec: Spec,
    batch: Any = None,
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

    In a network with positions, metrics read samples flattened to `(n, features · positions)`; those of sequences
    (`isometer.metrics.SEQUENCE_METRICS`) read tokens one by one.

    Samples that are equal in the input stay equal, exactly. Other linear dependencies hold up to rounding, which
    normalisation amplifies from layer to layer; gradients that vanish identically show as rounding, not as −inf.

    Args:
        spec: the network.
        batch: the input, `(n, d)` for all runs or `(runs, n, d)`, `(n, features, *positions)` for a network with
            positions, as torch has images, or the same flattened; half precision and integers are converted to `dtype`.
            Or ten samples by name, `"correlated:0.9"` (see `isometer.data.make_batch`); Gaussian ones by default.
        runs: number of independent networks.
        metrics: names of `isometer.metrics.METRICS`, those of sites and tokens excepted, or functions of a tensor
            `(runs, n, d)` with one number per run.
        seed: seed of the weights.
        engine: `"gram"`, `"dense"`, or `"auto"` for Gram wherever the law allows.
        at: measure what a layer returns (`"post"`) or what enters its activation (`"pre"`; the last of several, and
            what the layer returns if it has none).
        loss: for gradients: `"gaussian"` (a Gaussian cotangent), `"squared"`, `"cross-entropy"`, or an array of the
            shape of the output, `(n, d)`.
        device: torch device.
        dtype: `"float32"` or `"float64"`.
        progress: called as `progress(done, total)` in layers of chunks of runs; a backward pass counts as layers too.

    Returns:
        A trajectory, see `isometer.trajectory`; layer 0 is the input. `gradient_log_norm` at layer ℓ ≥ 1 is
        `log ‖∂loss/∂W_ℓ‖_F` of all weights of the layer (−inf if it has none), at layer 0 `log ‖∂loss/∂input‖_F`.
        Attributes: `spec`, `engine`, `seed`, `dtype`, `loss`, `versions`, and `first_nonfinite_layer`, per run the
        layer whose representation overflowed (−1: none), from which on all metrics are nan. Positively homogeneous
        layers, which carry their scale as a logarithm, never overflow.

    Raises:
        IsometerError: the batch or a number is not what was expected; `isometer.work.TooMuchWorkError`: it would take
            more memory or time than allowed.

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
    check_covered(spec)
    if batch is None or isinstance(batch, str):
        batch = batch_for(spec.shape.width, spec.shape.axes, batch, seed=seed)
    inputs = checked_batch(spec, batch, runs, device, dtype)
    chosen = checked_engine(spec, engine)
    check_loss(loss)
    if at not in ("post", "pre"):
        raise IsometerError(f"at is {at!r}; expected 'post' or 'pre' — pass one of them")
    seed = seed_number(seed)
    # a recorder to throw away: it refuses unknown metrics before anything is computed
    backward = Recorder(metrics, 1, 1, at).needs_backward
    check_sequences([name for name in metrics if isinstance(name, str)], spec.shape.axes, inputs.shape[-2])
    check_sizes("the simulation", sizes_of(spec, chosen, inputs, backward, runs=runs, metrics=len(metrics)))
    slots = chunk_size(spec, chosen, inputs, backward)
    pieces: list[dict[str, np.ndarray[Any, Any]]] = []
    overflow: list[int] = []
    starts = range(0, runs, slots)
    layers = depth_of(spec)
    with one_thread(), torch.no_grad():
        for chunk, start in enumerate(starts):
            indices = range(start, min(start + slots, runs))
            report = None
            if progress is not None:
                size = layers * (2 if backward else 1)
                report = _reporter(progress, chunk * size, len(starts) * size)
            recorder, chain = _run_chunk(
                spec, chosen, inputs, indices, slots, metrics, seed, at, loss, backward, report
            )
            layer = chain.nonfinite_layer[: len(indices)].cpu().numpy()
            after = (layer[:, None] >= 0) & (np.arange(layers + 1) >= layer[:, None])
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
) -> tuple[Recorder, LayerChain | NetworkWalk]:
    own = inputs[runs.start : runs.stop] if inputs.dim() == 3 else inputs.expand(len(runs), *inputs.shape)
    # all chunks have one shape, so that the bits of a run do not depend on how many runs there are
    batch = torch.cat([own, own[:1].expand(slots - len(runs), *own.shape[1:])]).contiguous()
    layers = depth_of(spec)
    chain = walk_of(spec, engine, batch, seed, runs, backward=backward)
    recorder = Recorder(metrics, slots, layers, at)
    if recorder.reads_attention and isinstance(chain, NetworkWalk):
        chain.read_attention()
    recorder.record(chain, 0)
    for layer in range(1, layers + 1):
        chain.step(layer)
        recorder.record(chain, layer)
        if report is not None:
            report(layer)
    recorder.flush()
    if backward:
        size = math.prod(chain.value.shape[1:])
        streams = Streams(seed, runs, slots, "cotangent", "normal", size, batch.new_empty(0), total=size)
        cotangent, log_scale = output_cotangent(loss, chain, streams)
        visit = recorder.visit if isinstance(chain, LayerChain) else recorder.visit_layer
        chain.backward(cotangent, log_scale, _visitor(visit, layers, report))
    return recorder, chain


def walk_of(
    spec: Spec, engine: Engine, batch: torch.Tensor, seed: int, runs: Sequence[int], *, backward: bool
) -> LayerChain | NetworkWalk:
    """One layer repeated has an engine of its own, which draws and decomposes less."""
    if isinstance(spec, Chain):
        rows = batch.shape[-2] if backward else None
        return LayerChain(spec, engine, batch, seed=seed, runs=runs, rows=rows)
    return NetworkWalk(spec, engine, batch, seed=seed, runs=runs, backward=backward)


def depth_of(spec: Spec) -> int:
    """How many layers a network has.

    Example:
        >>> depth_of(Spec("input(8) > dense(4) > act('relu') > dense(2)"))
        2
    """
    assert isinstance(spec, Chain | Composition)
    assert spec.depth is not None
    return spec.depth


def _visitor(measure: Callable[..., None], layers: int, report: Callable[[int], None] | None) -> Any:
    def visit(layer: int, gradients: Any, cotangent: torch.Tensor, log_scale: torch.Tensor) -> None:
        measure(layer, gradients, cotangent, log_scale)
        if report is not None and layer < layers:
            report(2 * layers - layer)

    return visit


def _reporter(progress: Callable[[int, int], None], done: int, total: int) -> Callable[[int], None]:
    return lambda layer: progress(done + layer, total)


def checked_batch(
    spec: Spec, batch: Any, runs: int, device: str | torch.device, dtype: str | torch.dtype
) -> torch.Tensor:
    """The input as a tensor `(n, d)` or `(runs, n, d)`, or an error that says what is wrong with it.

    With positions d is features · positions, features first, as torch flattens images.

    Example:
        >>> checked_batch(Spec(width=3, depth=1), np.eye(3), 1, "cpu", "float64").shape
        torch.Size([3, 3])
    """
    runs = whole_number(runs, "runs", high=MOST_RUNS, fix="pass the number of networks")
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
    if spec.shape.axes:
        tensor = _without_axes(spec, tensor)
    shape = tuple(tensor.shape)
    if len(shape) not in (2, 3) or 0 in shape:
        raise IsometerError(
            f"batch has shape {shape}; expected (samples, features) or (runs, samples, features), none 0"
        )
    if len(shape) == 3 and shape[0] != runs:
        raise IsometerError(f"batch has {shape[0]} inputs for {runs} runs; expected one per run — pass runs={shape[0]}")
    if not bool(torch.isfinite(tensor).all()):
        bad = int((~torch.isfinite(tensor)).sum())
        raise IsometerError(
            f"batch has {bad} NaN or infinite entries of {tensor.numel()}; expected finite numbers — drop those samples"
        )
    if not _scale_apart(spec):
        check_entries(float(tensor.abs().amax()), single=name == "float32")
    if shape[-1] != spec.shape.width * spec.shape.positions:
        fix = f"Spec(…, input_width={shape[-1]})" if isinstance(spec, Chain) else f"input({shape[-1]})"
        raise IsometerError(
            f"batch has {shape[-1]} features, the spec expects {spec.shape.width} — pass {fix} or another batch"
        )
    if shape[-2] * spec.shape.positions < 2 and _normalizes_over_batch(spec):
        raise IsometerError("batch has 1 sample; batch statistics need at least 2 — pass a larger batch or norm=None")
    return tensor


def _without_axes(spec: Spec, tensor: torch.Tensor) -> torch.Tensor:
    """Positions flattened: `(…, n, features, *positions)` as `(…, n, features · positions)`."""
    own, shape = (spec.shape.width, *spec.shape.axes), tuple(tensor.shape)
    if shape[-len(own) :] == own and len(shape) - len(own) in (1, 2):
        return tensor.flatten(-len(own))
    if len(shape) in (2, 3) and shape[-1] == math.prod(own):
        return tensor
    said = ", ".join(map(str, own))
    raise IsometerError(
        f"batch has shape {shape}; expected (samples, {said}) or (runs, samples, {said}), features before positions — "
        f"pass such a batch, or one flattened to {math.prod(own)} numbers per sample"
    )


def _scale_apart(spec: Spec) -> bool:
    """Whether the input's scale is carried as a logarithm from the start."""
    if isinstance(spec, Chain):
        return spec.homogeneity == 1
    return degree_after(next(spec.executed_layers())[0], 1) is not None


def _normalizes_over_batch(spec: Spec) -> bool:
    return any(isinstance(step, Norm) and step.over == "batch" for step in walk(spec.composition))


def checked_engine(spec: Spec, engine: str) -> Engine:
    """The engine to use, or an error if it cannot draw the law of the weights.

    Example:
        >>> checked_engine(Spec(width=3, depth=1, weights="uniform"), "auto")
        'dense'
    """
    if engine not in ("auto", "gram", "dense"):
        raise unknown_name("engine", engine, ("auto", "gram", "dense"), fix="pass one of them")
    # every law of convolutions is one that the Gram engine draws
    laws = {step.weights for step in walk(spec.composition) if isinstance(step, Dense)}
    others = sorted(laws - {*GRAM_LAWS})
    if engine == "gram" and others:
        raise IsometerError(
            f"engine='gram' with weights={others[0]!r}; expected one of {', '.join(GRAM_LAWS)}, whose law is "
            "invariant under rotations — pass engine='dense'"
        )
    return "dense" if engine == "dense" or others else "gram"


@overload
def sizes_of(
    spec: Chain, engine: Engine, inputs: torch.Tensor, backward: bool, *, runs: int = ..., metrics: int = ...
) -> Sizes: ...
@overload
def sizes_of(
    spec: Spec, engine: Engine, inputs: torch.Tensor, backward: bool, *, runs: int = ..., metrics: int = ...
) -> Sizes | NetworkSizes: ...
def sizes_of(
    spec: Spec, engine: Engine, inputs: torch.Tensor, backward: bool, *, runs: int = 1, metrics: int = 1
) -> Sizes | NetworkSizes:
    """The sizes of a simulation of these inputs."""
    samples, size = inputs.shape[-2], inputs.element_size()
    if isinstance(spec, Chain):
        return Sizes.of(spec, engine, samples, runs, metrics=metrics, backward=backward, bytes=size)
    return NetworkSizes.of(spec, engine, samples, runs, metrics=metrics, backward=backward, bytes=size)


def check_sizes(what: str, sizes: Sizes | NetworkSizes) -> None:
    """Refuse a simulation that takes more than is allowed, and say which sizes would fit."""
    if isinstance(sizes, Sizes):
        check_simulation_work(what, sizes)
    else:
        check_network_work(what, sizes)


def chunk_size(spec: Spec, engine: Engine, inputs: torch.Tensor, backward: bool) -> int:
    """How many runs are computed together: a function of the problem, never of the number of runs."""
    return sizes_of(spec, engine, inputs, backward).slots()


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
