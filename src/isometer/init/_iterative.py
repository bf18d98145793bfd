"""Iterative orthogonalisation: each layer undoes part of the spectrum of the representation that reaches it."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any, Literal

import torch
from torch import nn

from isometer.errors import IsometerError
from isometer.init._orthogonal import haar_matrices
from isometer.init._outcome import InitOutcome, LayerOutcome
from isometer.init._targets import WeightTarget, finite, run, targets, unwrapped

Tensor = torch.Tensor
Frame = Literal["polar", "qr", "slice", "haar"]
_CHUNK = 1 << 24  # entries of unfolded patches at a time
_FLOOR = 1e-7  # singular values below this share of the largest are rounding: the Gram matrix holds their squares


def iterative_orthogonalization_(
    model: nn.Module,
    batch: Any,
    *,
    exponent: float = 0.5,
    frame: Frame = "polar",
    output_norm: float | None = None,
    rectangular: bool = False,
    leading: bool = False,
    seed: int = 0,
    layers: Sequence[str] | str | None = None,
) -> InitOutcome:
    """Set the weights of each layer from the singular values of what reaches it, in one run of the model.

    With the batch at a layer written as H = U Σ Vᵀ (features × samples; unfolded patches for a convolution):

        W = V′ Σ^{−e} Uᵀ / c,   so that   W H = V′ Σ^{1−e} Vᵀ / c.

    For e = ½ (the paper) the singular values of W H are the roots of those of H, and the orthogonality gap falls unless
    it is 0; e = 1 makes them equal. c is such that W H has the requested norm. Biases of these layers are set
    to zero. Layers whose inputs and outputs differ in number (of channels, for convolutions) are left alone unless
    `rectangular`; so are grouped convolutions.

    Args:
        model: the model, run once in the mode it is in; buffers and generators are left as they were.
        batch: what the model is called with; at each layer that is set, at least as many samples (patches) as features.
        exponent: e, from 0 to 1.
        frame: V′: from evenly spaced rows of V, made orthogonal by the polar factor (`"polar"`) or by QR (`"qr"`), the
            rows as they are (`"slice"`, not orthogonal: the gap may then rise), or a Haar draw (`"haar"`). With the
            polar factor neuron i responds most to the sample of row i, and fresh samples stay distinct as well; with QR
            or a Haar draw their lengths drift apart from layer to layer.
        output_norm: Frobenius norm of W H over the batch, 1 in the paper; by default that of mean square 1.
        rectangular: set layers that are not square too.
        leading: keep only as many singular directions as the layer has outputs, the leading ones; the others are
            lost. It matters to convolutions, whose patches have k² times the directions. With `frame="slice"` this is
            what the public code of 003 does to convolutions.
        seed: seed of the Haar draws, and of the generators while the model runs.
        layers: patterns of module names to which the model is restricted.

    Returns:
        What was done; for each layer the orthogonality gap of H and of W H (`gap_before`, `gap_after`), `norm` of W H,
        and `clamped`, how many singular values were raised to 1e-7 of the largest.

    Raises:
        IsometerError: too few samples, nothing square, a layer used twice, or as `haar_orthogonal_`. The model is then
            as it was.

    Example:
        >>> model = nn.Sequential(*[part for _ in range(5) for part in (nn.Linear(8, 8), nn.ReLU())])
        >>> batch = torch.randn(24, 8, generator=torch.Generator().manual_seed(0))
        >>> outcome = iterative_orthogonalization_(model, batch)
        >>> all(layer.numbers["gap_after"] < layer.numbers["gap_before"] for layer in outcome.layers)
        True

    Implements: 001/alg-2.6, 003/alg-iter-mlp, 003/alg-iter-conv.
    """
    if not isinstance(model, nn.Module):
        raise IsometerError(f"model is a {type(model).__name__}; expected a torch.nn.Module — pass one")
    if not 0 <= finite(exponent, "exponent", positive=False) <= 1:
        raise IsometerError(f"exponent is {exponent!r}; expected a number from 0 to 1 — the paper uses 0.5")
    if frame not in ("polar", "qr", "slice", "haar"):
        raise IsometerError(f"frame is {frame!r}; expected polar, qr, slice or haar — pass one of them")
    if output_norm is not None:
        finite(output_norm, "output_norm")
    found, skipped = targets(model, layers)
    chosen, left = _eligible(found, rectangular)
    reached: dict[str, LayerOutcome] = {}

    def prepare(index: int, t: WeightTarget) -> Callable[..., None]:
        def before(module: nn.Module, inputs: tuple[Tensor, ...]) -> None:
            if t.name in reached:
                raise IsometerError(
                    f"layer {t.name!r} runs more than once; expected one input to set its weights from — "
                    "leave it out with layers=[…]"
                )
            weight, numbers = _solve(t, inputs[0].detach(), exponent, frame, output_norm, seed, index, leading=leading)
            t.write(weight)
            if t.bias is not None:
                t.bias.zero_()
            reached[t.name] = t.outcome(**numbers)

        return before

    visit(model, batch, chosen, prepare, seed)
    missed = tuple((t.name, "the batch does not reach it") for t in chosen if t.name not in reached)
    return InitOutcome("iterative-orthogonalization", tuple(reached.values()), (*skipped, *left, *missed))


def visit(
    model: nn.Module,
    batch: Any,
    chosen: Sequence[WeightTarget],
    prepare: Callable[[int, WeightTarget], Callable[..., None]],
    seed: int,
) -> None:
    """Run a model once with a function before each layer that may set it; all or nothing.

    The weights are found on a copy of the model where it has one, and written to the model at the end.

    Args:
        model: the model.
        batch: what it is called with.
        chosen: layers of the model.
        prepare: gives the function that runs before a layer, from its position and the layer as it runs.
        seed: seed of the generators.
    """
    from isometer.doctor.probe._signals import uninterrupted
    from isometer.doctor.probe._subject import examined
    from isometer.doctor.probe._tensor_trees import map_tensors

    model = unwrapped(model)

    def work(copy: nn.Module) -> list[tuple[Tensor, Tensor]]:
        handles, running = [], []
        try:
            for index, t in enumerate(chosen):
                assert t.module is not None
                module = subject.twin(t.module)
                weight, bias = module._parameters["weight"], module._parameters.get("bias")
                assert weight is not None
                running.append(replace(t, weight=weight, bias=bias, module=module))
                handles.append(module.register_forward_pre_hook(prepare(index, running[-1])))
            with torch.no_grad():
                run(copy, map_tensors(torch.clone, batch))
        finally:
            for handle in handles:
                handle.remove()
        pairs = [p for t, r in zip(chosen, running, strict=True) for p in ((t.weight, r.weight), (t.bias, r.bias))]
        return [(mine, found.detach().clone()) for mine, found in pairs if mine is not None and found is not None]

    with examined(model) as subject:
        found = subject.run(work, seed=seed)

    def write() -> None:
        with torch.no_grad():
            for tensor, value in found:
                if not torch.equal(tensor, value):
                    tensor.copy_(value)

    uninterrupted(write)


def _eligible(found: Sequence[WeightTarget], rectangular: bool) -> tuple[list[WeightTarget], list[tuple[str, str]]]:
    chosen, left = [], []
    for t in found:
        rows, columns = t.weight.shape[:2]
        if t.groups > 1:
            left.append((t.name, f"a convolution with {t.groups} groups"))
        elif rows != columns and not rectangular:
            left.append((t.name, f"not square: {columns} inputs, {rows} outputs"))
        else:
            chosen.append(t)
    if not chosen:
        raise IsometerError(
            f"no layer is square ({left[0][0]!r} is {left[0][1]}); expected as many inputs as outputs — pass "
            "rectangular=True or a model of constant width"
        )
    return chosen, left


def _solve(
    t: WeightTarget,
    inputs: Tensor,
    exponent: float,
    frame: Frame,
    output_norm: float | None,
    seed: int,
    index: int,
    *,
    leading: bool,
) -> tuple[Tensor, dict[str, float]]:
    """The weights `(out, in · k …)` in float64, and what was measured."""
    rows, columns = t.weight.shape[0], t.fan_in
    second, samples, some = second_moments(t, inputs, rows)
    if samples < max(columns, rows if frame != "haar" else 0):
        raise IsometerError(
            f"layer {t.name!r} sees {samples} samples of {columns} features; expected at least as many samples as "
            "features and outputs — pass a larger batch (the paper's code has three times the width)"
        )
    total = float(second.trace())
    if not (total > 0 and math.isfinite(total)):
        raise IsometerError(
            f"layer {t.name!r} sees {'zeros' if total == 0 else 'numbers that are not finite'}; expected a "
            "representation to set its weights from — check the batch and the layers before it"
        )
    # U and Σ² from the features × features matrix, however many samples or patches there are
    squares, vectors = torch.linalg.eigh(second)
    sizes = squares.clamp_min(0).sqrt()  # rounding leaves eigenvalues below 0
    if leading:
        columns = min(rows, columns)
        sizes, vectors = sizes[-columns:], vectors[:, -columns:]  # in rising order
    largest = float(sizes[-1])
    clamped = int((sizes < _FLOOR * largest).sum())
    sizes = sizes.clamp_min(_FLOOR * largest)
    # V = Hᵀ U Σ⁻¹: the rows of V for some samples
    mixing = _frame(frame, some @ vectors / sizes, rows, columns, seed, index).to(vectors)
    weight = (mixing * sizes**-exponent) @ vectors.mT
    half = mixing * sizes ** (1 - exponent)  # W H = half Vᵀ
    produced = half @ half.mT
    norm = math.sqrt(float(produced.trace()))
    wanted = math.sqrt(samples * rows) if output_norm is None else output_norm
    return weight * (wanted / norm), {
        "gap_before": _gap(second, samples),
        "gap_after": _gap(produced, samples),
        "norm": wanted,
        "clamped": float(clamped),
    }


def second_moments(t: WeightTarget, inputs: Tensor, rows: int) -> tuple[Tensor, int, Tensor]:
    """`Σ x xᵀ` over samples or patches x, their number, and `rows` evenly spaced ones, all in float64."""
    module = t.module
    if isinstance(module, nn.Linear):
        flat = inputs.flatten(0, -2).double()
        step = max(1, flat.shape[0] // rows)
        return flat.mT @ flat, flat.shape[0], flat[::step][:rows]
    positions = 0
    second = inputs.new_zeros(t.fan_in, t.fan_in, dtype=torch.float64)
    per_sample = patches(module, inputs[:1]).numel()
    size = max(1, _CHUNK // max(1, per_sample))
    kept = []
    for chunk in torch.split(inputs, size):
        unfolded = patches(module, chunk).double()
        second += unfolded.mT @ unfolded
        positions += unfolded.shape[0]
        # evenly spaced over the whole batch, not over the chunk
        kept.append(unfolded[:: max(1, inputs.shape[0] * (unfolded.shape[0] // chunk.shape[0]) // rows)])
    return second, positions, torch.cat(kept)[:rows]


def patches(module: nn.Module | None, images: Tensor) -> Tensor:
    """What a convolution without groups multiplies, `(samples · positions, channels · k …)`.

    Example:
        >>> patches(nn.Conv2d(1, 4, 2), torch.arange(6.0).reshape(1, 1, 2, 3)).tolist()
        [[0.0, 1.0, 3.0, 4.0], [1.0, 2.0, 4.0, 5.0]]
    """
    assert isinstance(module, (nn.Conv1d, nn.Conv2d, nn.Conv3d))
    axes = len(module.kernel_size)
    reach = [d * (k - 1) for d, k in zip(module.dilation, module.kernel_size, strict=True)]
    if isinstance(module.padding, str):
        # torch puts the odd pixel of "same" at the end
        sides = [(r // 2, r - r // 2) if module.padding == "same" else (0, 0) for r in reach]
    else:
        sides = [(int(p), int(p)) for p in module.padding]
    mode = "constant" if module.padding_mode == "zeros" else module.padding_mode
    padded = images
    if any(a or b for a, b in sides):
        # pad takes the last axis first
        padded = nn.functional.pad(images, [side for pair in reversed(sides) for side in pair], mode=mode)
    for axis in range(axes):  # one window axis after the other: (samples, channels, positions …, k …)
        padded = padded.unfold(2 + axis, reach[axis] + 1, module.stride[axis])
    # unfold has no dilation: the windows are whole, and every step-th entry is kept
    for axis, step in enumerate(module.dilation):
        if step > 1:
            padded = padded.index_select(2 + axes + axis, torch.arange(0, reach[axis] + 1, step, device=padded.device))
    order = [0, *range(2, 2 + axes), 1, *range(2 + axes, 2 + 2 * axes)]
    return padded.permute(order).flatten(1 + axes).flatten(0, axes)


def _frame(kind: Frame, rows_of_v: Tensor, rows: int, columns: int, seed: int, index: int) -> Tensor:
    """V′, `(rows, columns)`."""
    if kind == "slice":
        return rows_of_v
    if kind == "haar":
        return haar_matrices(rows, columns, seed, index)
    if kind == "qr":
        tall: Tensor = torch.linalg.qr(rows_of_v if rows >= columns else rows_of_v.mT).Q
        return tall if rows >= columns else tall.mT
    # any orthogonal matrix near the rows will do: single precision, then a Newton–Schulz step to double
    left, _, right = torch.linalg.svd(rows_of_v.float(), full_matrices=False)
    near = torch.matmul(left, right).double()
    square = near @ near.mT if rows <= columns else near.mT @ near
    step = 1.5 * torch.eye(len(square), dtype=near.dtype, device=near.device) - 0.5 * square
    return step @ near if rows <= columns else near @ step


def _gap(second: Tensor, samples: int) -> float:
    """Orthogonality gap of the samples from the second moments of the features."""
    # ‖G/tr G − I/n‖_F² = ‖G‖_F²/(tr G)² − 1/n, and G has the nonzero eigenvalues of the second moments
    square = float(second.square().sum()) / float(second.trace()) ** 2 - 1 / samples
    return math.sqrt(max(square, 0.0))
