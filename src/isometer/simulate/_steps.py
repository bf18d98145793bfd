"""The steps of a network at finite width: each forward, with the way back of a cotangent.

Representations are rows `(slots, n · positions, d)`, sample by sample. A step hands on its result and, for a backward
pass, a function that takes the cotangent of its result to that of its input; those of a sequence run in reverse.
Branches nest as the functions do.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

import torch

from isometer.errors import IsometerError
from isometer.simulate._attention import MeasuredAttention, attend, query_gain
from isometer.simulate._degrees import Degree, degree_after
from isometer.simulate._gradients import WeightGradient
from isometer.simulate._gram import Product, multiply_dense, multiply_gram, uses_frames
from isometer.simulate._layers import activate_backward, normalize, normalize_backward
from isometer.simulate._streams import GroupedNumbers, RandomNumbers, StepStreams
from isometer.simulate._weights import step_factor, stream_kind
from isometer.simulate._windows import Windows, coarser, parted, windows
from isometer.spec import (
    Act,
    Attention,
    Bias,
    Convolution,
    Dense,
    Dropout,
    Flatten,
    Join,
    Noise,
    Norm,
    Pool,
    Residual,
    Scaling,
    Shape,
    Spec,
    Step,
    Upsample,
)
from isometer.spec._activation import resolved
from isometer.spec._coverage import table_gap

Tensor = torch.Tensor
Engine = Literal["gram", "dense"]
Back = Callable[[Tensor], Tensor]
"""The way back of a cotangent through one step."""


def check_covered(spec: Spec, interpreter: str = "simulation dense") -> None:
    """Refuse networks with steps that have no simulation.

    Raises:
        IsometerError: it names the step and the reason.

    Example:
        >>> check_covered(Spec("input(8, [4]) > positions > attention(heads=2)"))
        Traceback (most recent call last):
        ...
        isometer.errors.IsometerError: finite width does not cover positions: vectors of positions are described, ...
    """
    gap = table_gap(spec, interpreter)
    if gap is not None:
        raise IsometerError(f"finite width does not cover {gap} — leave it out")


@dataclass(frozen=True)
class Seen:
    """A value inside a layer, for what is measured: rows, their shape, and how they scale with the layer's input."""

    rows: Tensor
    shape: Shape
    degree: Degree


class StepRunner:
    """Runs executed steps on rows; keeps what the way back needs.

    Args:
        engine: `"gram"` or `"dense"`.
        streams: of the steps.
        samples: n.
        twins: for every sample the first one equal to it, `(slots, n)`; None if all differ.
        backward: a backward pass will follow.
    """

    def __init__(
        self, engine: Engine, streams: StepStreams, samples: int, *, twins: Tensor | None, backward: bool
    ) -> None:
        self._engine, self._streams, self._samples = engine, streams, samples
        self._twins, self._backward = twins, backward
        self.known: tuple[Tensor, Tensor] | None = None
        """Rows and their triangle, where that has been computed for a metric."""
        self.activated: Seen | None = None
        """What entered the last activation."""
        self.attention: list[MeasuredAttention] | None = None
        """What attention reads; a list where it is requested."""
        self.gradients: list[WeightGradient] = []
        """Those of the weights that a cotangent has passed on its way back."""

    def run(self, steps: Sequence[Step], x: Tensor, shape: Shape, degree: Degree) -> tuple[Tensor, Shape, Back]:
        """A sequence of steps: its result, the shape of that, and the way back."""
        backs: list[Back] = []
        for step in steps:
            x, shape, back = self._step(step, x, shape, degree)
            degree = degree_after((step,), degree)
            if self._backward:
                backs.append(back)

        def way_back(cotangent: Tensor) -> Tensor:
            while backs:  # popped, so that memory is freed on the way
                cotangent = backs.pop()(cotangent)
            return cotangent

        return x, shape, way_back

    def _step(self, step: Step, x: Tensor, shape: Shape, degree: Degree) -> tuple[Tensor, Shape, Back]:
        match step:
            case Dense():
                return self._dense(step, x, shape)
            case Convolution():
                return self._convolution(step, x, shape)
            case Bias():
                offset = self._streams.following("bias", "normal", shape.width).take(1, shape.width)
                return x + math.sqrt(step.variance) * offset, shape, _same
            case Act():
                self.activated = Seen(x, shape, degree)
                return *_activated(step, x, shape), _activation_back(step, x)
            case Norm():
                return normalize(step, x), shape, lambda c: normalize_backward(step, x, c)
            case Scaling():
                factor = _number(step.factor)
                return x * factor, shape, lambda c: c * factor
            case Residual():
                return self._residual(step, x, shape, degree)
            case Join():
                return self._join(step, x, shape, degree)
            case Pool():
                return _pooled(step, x, shape)
            case Upsample():
                return _upsampled(step, x, shape)
            case Flatten():
                return self._flattened(x, shape)
            case Dropout():
                return self._dropped(step, x, shape)
            case Noise():
                numbers = self._streams.following("mask", "normal", x[0].numel()).take(*x.shape[-2:])
                self._twins = None  # from here on equal samples differ
                return x + math.sqrt(step.variance) * numbers, shape, _same
            case Attention():
                return self._attention(step, x, shape)
            case _:
                raise AssertionError(step)  # `check_covered` comes first

    # --- weights ------------------------------------------------------------------------------------------------------

    def _dense(self, step: Dense, x: Tensor, shape: Shape) -> tuple[Tensor, Shape, Back]:
        assert step.width is not None
        factor = step_factor(step.weights, shape.width, step.width, _number(step.gain), step.weight_scaling)
        z, product, noise = self._multiply(x, step.weights, factor, step.width, 1)

        def back(c: Tensor) -> Tensor:
            self._meet(lambda: product.factor, c, 1)
            return product.backward(c, noise())

        return z, replace(shape, width=step.width), back

    def _convolution(self, step: Convolution, x: Tensor, shape: Shape) -> tuple[Tensor, Shape, Back]:
        assert step.channels is not None
        slots, groups, wide = x.shape[0], step.groups, step.channels
        around = windows(shape.axes, step.kernel, step.stride, step.dilation, step.padding)
        read = around.only(centre(step.kernel)) if step.weights == "delta-orthogonal" else around
        law = "gaussian" if step.weights == "gaussian" else "orthogonal"
        patches = _patches(x, read, groups)
        factor = step_factor(law, patches.shape[-1], wide // groups, _number(step.gain))
        z, product, noise = self._multiply(patches, law, factor, wide // groups, groups)
        del patches
        small = product.factor if product.weights is None and read is around else None
        # patches are as many times larger as a kernel has offsets: they are made again where they are needed
        product = product if small is not None else replace(product, factor=x.new_empty(0))

        def back(c: Tensor) -> Tensor:
            c = _split(c, groups)
            self._meet(lambda: _patches(x, around, groups) if small is None else small, c, groups)
            found = product.backward(c, noise())  # (slots · groups, rows, offsets · d/groups)
            found = parted(parted(found, 2, read.offsets, -1), 0, slots, groups)
            return read.scatter(found.permute(0, 2, 3, 1, 4).flatten(3))

        return _joined(z, groups), Shape(wide, around.axes), back

    def _attention(self, step: Attention, x: Tensor, shape: Shape) -> tuple[Tensor, Shape, Back]:
        assert step.head_width is not None
        assert step.key_heads is not None
        inner, keyed, gain = step.heads * step.head_width, step.key_heads * step.head_width, query_gain(step)
        made = []
        for law, own, width in (
            ("gaussian", gain, inner),
            ("gaussian", gain, keyed),
            (step.weights, _number(step.value_gain), keyed),
        ):
            made.append(self._multiply(x, law, step_factor(law, shape.width, width, own), width, 1))
        q, k, v = (z for z, _, _ in made)
        heads = attend(step, q, k, v, shape.positions, read=self.attention is not None)
        if self.attention is not None and heads.reading is not None:
            self.attention.append(heads.reading)
        factor = step_factor(step.weights, inner, shape.width, _number(step.output_gain))
        out, product, noise = self._multiply(heads.value, step.weights, factor, shape.width, 1)

        def back(c: Tensor) -> Tensor:
            self._meet(lambda: product.factor, c, 1)
            total = None
            for by, (_, own, numbers) in zip(heads.back(product.backward(c, noise())), made, strict=True):
                self._meet(lambda own=own: own.factor, by, 1)  # type: ignore[misc]
                found = own.backward(by, numbers())
                total = found if total is None else total + found
            assert total is not None
            return total

        return out, shape, back

    def _multiply(
        self, a: Tensor, law: str, factor: float, fan_out: int, groups: int
    ) -> tuple[Tensor, Product, Callable[[], RandomNumbers]]:
        """`A Wᵀ` for `(slots · groups, rows, d_in)`: with its record, and what gives the numbers of the way back."""
        rows, fan_in = a.shape[-2:]
        coming = rows if self._backward else None
        framed = self._engine == "gram" and uses_frames(law, rows, fan_in, fan_out, coming)
        count = rows * (max(fan_in, fan_out) if law == "orthogonal" else fan_out) if framed else fan_in * fan_out
        place = self._streams.place("weights")
        streams = _grouped(self._streams.at("weights", place, stream_kind(law), groups * count), groups)
        if self._engine == "gram":
            r = self.known[1] if self.known is not None and self.known[0] is a else None
            z, product = multiply_gram(law, factor, a, fan_out, streams, r=r, rows=coming)
        else:
            z, product = multiply_dense(law, factor, a, fan_out, streams)
        if self._twins is not None:
            # equal samples stay equal to the last bit, see `LayerChain`
            same = parted(parted(z, 1, self._samples, -1), 0, -1, groups)
            z = torch.take_along_dim(same, self._twins[:, None, :, None, None], 2).reshape(z.shape)

        def noise() -> RandomNumbers:
            wanted = rows * max(fan_in, fan_out) if law == "orthogonal" else min(rows, fan_out) * fan_in
            return _grouped(self._streams.at("backward", place, "normal", groups * wanted), groups)

        return z, product, noise

    def _meet(self, factor: Callable[[], Tensor], cotangent: Tensor, groups: int) -> None:
        self.gradients.append(WeightGradient(factor, cotangent, self._samples, groups))

    # --- branches -----------------------------------------------------------------------------------------------------

    def _residual(self, step: Residual, x: Tensor, shape: Shape, degree: Degree) -> tuple[Tensor, Shape, Back]:
        scale, skip = _number(step.scale), _number(step.skip)
        value, after, through = self.run(step.branch, x, shape, degree)
        if math.isinf(scale):
            return value, after, through
        kept = x if skip == 1.0 else x * skip
        return torch.add(kept, value, alpha=scale), shape, lambda c: c * skip + through(c * scale)

    def _join(self, step: Join, x: Tensor, shape: Shape, degree: Degree) -> tuple[Tensor, Shape, Back]:
        ran = [self.run(branch, x, shape, degree) for branch in step.branches]
        values, backs, after = [one[0] for one in ran], [one[2] for one in ran], ran[0][1]
        if step.by == "concat":
            widths = [value.shape[-1] for value in values]

            def apart(c: Tensor) -> Tensor:
                return _total([back(part) for back, part in _reversed(backs, torch.split_with_sizes(c, widths, -1))])

            return torch.cat(values, -1), replace(after, width=sum(widths)), apart
        if step.by == "sum":
            return _total(values), after, lambda c: _total([back(c) for back in reversed(backs)])

        def gated(c: Tensor) -> Tensor:
            parts = [c * _product([v for j, v in enumerate(values) if j != i]) for i in range(len(values))]
            return _total([back(part) for back, part in _reversed(backs, parts)])

        return _product(values), after, gated

    # --- positions and masks ------------------------------------------------------------------------------------------

    def _flattened(self, x: Tensor, shape: Shape) -> tuple[Tensor, Shape, Back]:
        n, after = self._samples, Shape(shape.width * shape.positions)
        if not shape.axes:
            return x, after, _same
        return flattened(x, n), after, lambda c: unflattened(c, shape)

    def _dropped(self, step: Dropout, x: Tensor, shape: Shape) -> tuple[Tensor, Shape, Back]:
        if step.rate == 0.0:
            return x, shape, _same
        rows, features = x.shape[-2:]
        uniform = self._streams.following("mask", "uniform", rows * features).take(rows, features)
        mask = (uniform >= 2 * step.rate - 1).to(x.dtype) / (1 - step.rate)  # of numbers on [−1, 1)
        self._twins = None  # from here on equal samples differ
        return x * mask, shape, lambda c: c * mask


def centre(kernel: tuple[int, ...]) -> int:
    """The offset in the middle of a kernel, counted in the order of its axes.

    Example:
        >>> centre((3, 3)), centre((2,))
        (4, 0)
    """
    place = 0
    for size in kernel:
        place = place * size + (size - 1) // 2
    return place


def flattened(x: Tensor, samples: int) -> Tensor:
    """Rows `(slots, n · positions, d)` as `(slots, n, d · positions)`, features first as torch flattens images."""
    if x.shape[-2] == samples:
        return x
    return parted(x, 1, samples, -1).mT.flatten(2)


def unflattened(x: Tensor, shape: Shape) -> Tensor:
    """The inverse of `flattened`."""
    if not shape.axes:
        return x
    return parted(x, 2, shape.width, shape.positions).mT.flatten(1, 2)


def _same(cotangent: Tensor) -> Tensor:
    return cotangent


def _number(value: Any) -> float:
    """A number of an executed step, whose schedules are numbers."""
    assert isinstance(value, float)
    return value


def _activated(step: Act, x: Tensor, shape: Shape) -> tuple[Tensor, Shape]:
    gain = _number(step.gain)
    value: Tensor = resolved(step.activation)(x if gain == 1.0 else x * gain)
    return value, shape


def _activation_back(step: Act, x: Tensor) -> Back:
    phi, gain = resolved(step.activation), _number(step.gain)
    if gain == 1.0:
        return lambda c: activate_backward(phi, x, c)
    return lambda c: activate_backward(phi, x * gain, c) * gain


def _pooled(step: Pool, x: Tensor, shape: Shape) -> tuple[Tensor, Shape, Back]:
    size = shape.axes if step.size is None else step.size
    stride = size if step.stride is None else step.stride
    over = windows(shape.axes, size, stride, (1,) * len(size), "valid")
    after = Shape(shape.width, () if step.size is None else over.axes)
    found = over.gather(x)  # (slots, n · places, offsets, d)
    if step.by == "mean":

        def spread(c: Tensor) -> Tensor:
            return over.scatter((c / over.offsets)[:, :, None].expand(-1, -1, over.offsets, -1))

        return found.mean(2), after, spread
    value, place = found.max(2)

    def to_the_largest(c: Tensor) -> Tensor:
        rows = c.new_zeros(*c.shape[:2], over.offsets, c.shape[-1])
        return over.scatter(rows.scatter_(2, place[:, :, None], c[:, :, None]))

    return value, after, to_the_largest


def _upsampled(step: Upsample, x: Tensor, shape: Shape) -> tuple[Tensor, Shape, Back]:
    into = coarser(shape.axes, step.repeats)
    return into.gather(x).squeeze(2), replace(shape, axes=into.axes), lambda c: into.scatter(c[:, :, None])


def _patches(x: Tensor, read: Windows, groups: int) -> Tensor:
    """What a kernel multiplies, `(slots · groups, n · places, offsets · d/groups)`, offset by offset."""
    found = read.gather(x)
    if groups == 1:
        return found.flatten(2)
    return parted(found, 3, groups, -1).permute(0, 3, 1, 2, 4).flatten(3).flatten(0, 1)


def _joined(z: Tensor, groups: int) -> Tensor:
    """`(slots · groups, rows, d/groups)` as `(slots, rows, d)`."""
    return z if groups == 1 else parted(z, 0, -1, groups).transpose(1, 2).flatten(2)


def _split(z: Tensor, groups: int) -> Tensor:
    """The inverse of `_joined`."""
    return z if groups == 1 else parted(z, 2, groups, -1).transpose(1, 2).flatten(0, 1)


def _grouped(numbers: RandomNumbers, groups: int) -> RandomNumbers:
    return numbers if groups == 1 else GroupedNumbers(numbers, groups)


def _total(values: Sequence[Tensor]) -> Tensor:
    total = values[0]
    for value in values[1:]:
        total = total + value
    return total


def _product(values: Sequence[Tensor]) -> Tensor:
    found = values[0]
    for value in values[1:]:
        found = found * value
    return found


def _reversed(backs: Sequence[Back], parts: Sequence[Tensor]) -> list[tuple[Back, Tensor]]:
    return list(zip(backs, parts, strict=True))[::-1]
