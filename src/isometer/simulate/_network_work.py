"""What the simulation of any network takes: memory and time from its sizes, before anything is drawn."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

from isometer.simulate._gram import uses_frames
from isometer.simulate._work import CALL, COPIES, ENTRY, chunk_slots, measuring_memory, metric_seconds, product_seconds
from isometer.spec import Attention, Convolution, Dense, Join, Residual, Shape, Spec, Step
from isometer.spec._program import executed
from isometer.work import Work, check_work


@dataclass(frozen=True)
class ProductSize:
    """One product with random weights: rows of a sample, and the sizes of a group."""

    law: str
    positions: int
    fan_in: int
    fan_out: int
    groups: int = 1

    def full(self, samples: int, *, dense: bool, backward: bool) -> bool:
        """Whether the weights are drawn."""
        rows = samples * self.positions
        return dense or not uses_frames(self.law, rows, self.fan_in, self.fan_out, rows if backward else None)

    def numbers(self, samples: int, *, full: bool) -> int:
        """Numbers that stand for the weights."""
        each = self.fan_in * self.fan_out if full else samples * self.positions * (self.fan_in + self.fan_out)
        return self.groups * each


@dataclass(frozen=True)
class LayerSize:
    """A layer: its products, its steps, and numbers of a sample.

    Attributes:
        products: with weights.
        steps: how many there are, those inside others included.
        entries: numbers that all steps hand on, with those inside.
        widest: numbers of the largest representation, patches of convolutions included.
        output: numbers that the layer hands on.
    """

    products: tuple[ProductSize, ...]
    steps: int
    entries: int
    widest: int
    output: int


def layer_size(steps: Sequence[Step], shape: Shape) -> LayerSize:
    """The sizes of executed steps.

    Example:
        >>> layer_size((Convolution((3,), 8),), Shape(4, (10,))).widest
        120
    """
    products: list[ProductSize] = []
    count = entries = 0
    widest = shape.width * shape.positions
    for step in steps:
        _, after = executed((step,), shape)
        inner: tuple[tuple[Step, ...], ...] = ()
        if isinstance(step, Residual):
            inner = (step.branch,)
        elif isinstance(step, Join):
            inner = step.branches
        found = [layer_size(one, shape) for one in inner]
        if isinstance(step, Dense):
            products.append(ProductSize(step.weights, after.positions, shape.width, after.width))
        elif isinstance(step, Convolution):
            products.append(_convolution_size(step, shape, after))
            widest = max(widest, after.positions * shape.width * math.prod(step.kernel))
        elif isinstance(step, Attention):
            products.extend(_attention_sizes(step, shape))
            widest = max(widest, step.heads * shape.positions**2)
        size = after.width * after.positions
        count += 1 + sum(one.steps for one in found)
        entries += size + sum(one.entries for one in found)
        widest = max(widest, size, *(one.widest for one in found))
        products.extend(product for one in found for product in one.products)
        shape = after
    return LayerSize(tuple(products), count, entries, widest, shape.width * shape.positions)


def _convolution_size(step: Convolution, shape: Shape, after: Shape) -> ProductSize:
    offsets = 1 if step.weights == "delta-orthogonal" else math.prod(step.kernel)
    law = "gaussian" if step.weights == "gaussian" else "orthogonal"
    fan_in, fan_out = shape.width * offsets // step.groups, after.width // step.groups
    return ProductSize(law, after.positions, fan_in, fan_out, step.groups)


def _attention_sizes(step: Attention, shape: Shape) -> list[ProductSize]:
    """Queries, keys, values and what leaves."""
    assert step.head_width is not None
    assert step.key_heads is not None
    inner, keyed = step.heads * step.head_width, step.key_heads * step.head_width
    read = [("gaussian", inner), ("gaussian", keyed), (step.weights, keyed)]
    found = [ProductSize(law, shape.positions, shape.width, width) for law, width in read]
    return [*found, ProductSize(step.weights, shape.positions, inner, shape.width)]


@dataclass(frozen=True)
class NetworkSizes:
    """The sizes that decide about the work of a simulation."""

    parts: tuple[tuple[LayerSize, int], ...]  # layers in a row that are alike, with their number
    dense: bool
    samples: int
    runs: int
    metrics: int
    backward: bool
    bytes: int = 8

    @classmethod
    def of(
        cls, spec: Spec, engine: str, samples: int, runs: int, *, metrics: int, backward: bool, bytes: int = 8
    ) -> NetworkSizes:
        """Those of a spec.

        Example:
            >>> spec = Spec("input(8) > repeat(residual(norm('layer') > dense(32) > act('gelu') > dense(8)), 50)")
            >>> NetworkSizes.of(spec, "gram", 4, 16, metrics=3, backward=False).parts[0][1]
            50
        """
        parts: list[tuple[LayerSize, int]] = []
        before: tuple[Step, ...] | None = None
        entering, shape = spec.shape, spec.shape
        for steps, after in spec.executed_layers():
            # turns of a repeat that are equal are one object
            if steps is before and entering == shape:
                parts[-1] = (parts[-1][0], parts[-1][1] + 1)
            else:
                parts.append((layer_size(steps, shape), 1))
            before, entering, shape = steps, shape, after
        return cls(tuple(parts), engine == "dense", samples, runs, metrics, backward, bytes)

    @property
    def layers(self) -> int:
        """The depth."""
        return sum(count for _, count in self.parts)

    @property
    def widest(self) -> int:
        """Numbers of a sample in the largest representation."""
        return max(layer.widest for layer, _ in self.parts)

    def _weights(self, layer: LayerSize) -> list[int]:
        full = {"dense": self.dense, "backward": self.backward}
        return [one.numbers(self.samples, full=one.full(self.samples, **full)) for one in layer.products]

    def kept(self) -> tuple[int, int]:
        """Bytes of a run that the largest product needs, and those that all layers leave for a backward pass."""
        largest = max((max(self._weights(layer), default=0) for layer, _ in self.parts), default=0)
        kept = sum(
            count * (sum(self._weights(layer)) + 2 * self.samples * layer.entries) for layer, count in self.parts
        )
        return largest * self.bytes, kept * self.bytes

    def slots(self) -> int:
        """How many runs are computed together: a function of the problem, never of the number of runs."""
        largest, kept = self.kept()
        alive = COPIES * self.samples * self.widest * self.bytes
        memory = kept + alive if self.backward else largest + alive // 2
        return chunk_slots(self.samples * self.widest, memory, backward=self.backward)


def network_work(sizes: NetworkSizes) -> Work:
    """Memory and time of a simulation, both rather too large than too small.

    Example:
        >>> spec = Spec("input(3, [8, 8]) > conv(3, 16) > act('relu') > pool > dense(10)")
        >>> sizes = NetworkSizes.of(spec, "gram", 10, 16, metrics=3, backward=False)
        >>> network_work(sizes).seconds < 5
        True
    """
    slots, n = sizes.slots(), sizes.samples
    chunks = -(-sizes.runs // slots)
    largest, kept = sizes.kept()
    memory = slots * (2 * largest + COPIES * n * sizes.widest * sizes.bytes + (kept if sizes.backward else 0))
    output = max(layer.output for layer, _ in sizes.parts)
    memory += measuring_memory(n, output, slots, metrics=sizes.metrics, runs=sizes.runs, layers=sizes.layers)
    seconds = 0.05
    for layer, count in sizes.parts:
        each = ENTRY * n * layer.entries
        for one in layer.products:
            full = one.full(n, dense=sizes.dense, backward=sizes.backward)
            rows = n * one.positions
            each += one.groups * product_seconds(one.law, rows, one.fan_in, one.fan_out, full=full)
            each += ENTRY * rows * one.fan_in * one.groups
        each = (4 if sizes.backward else 1) * each + metric_seconds(sizes.metrics, n, layer.output)
        calls = CALL * (len(layer.products) + layer.steps / 4 + sizes.metrics / 4) * (2 if sizes.backward else 1)
        seconds += chunks * count * (calls + slots * each)
    return Work(memory, seconds)


def check_network_work(what: str, sizes: NetworkSizes) -> None:
    """Refuse a simulation that takes more than is allowed, and say which sizes would fit."""
    knobs = {
        "samples": (sizes.samples, lambda value: network_work(replace(sizes, samples=value))),
        "runs": (sizes.runs, lambda value: network_work(replace(sizes, runs=value))),
    }
    check_work(what, network_work(sizes), knobs)
