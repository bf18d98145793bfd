"""What a simulation takes: memory and time from its sizes, before anything is drawn."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, replace

from isometer.simulate._gram import uses_frames
from isometer.simulate._measure import together
from isometer.simulate._streams import BLOCK
from isometer.spec import Chain
from isometer.work import Work, check_work

_SLOTS = 16  # runs computed together
_WORK = 1 << 18  # numbers in a layer of all slots beyond which fewer slots are as fast
_TINY = 1 << 14  # numbers in a layer below which more slots cost nothing
_MEMORY = 1 << 30  # bytes that a chunk may keep
# Measured on one core of a common computer, and rounded up.
CALL = 4e-4
"""Seconds that a layer of a chunk takes whatever its size, and again for every few metrics."""
_DRAW = 8e-9  # per random number
_FLOP = 1.5e-10  # per multiplication
_EIGEN = (5e-8, 2e-10)  # per n² and n³ of the eigenvalues of an n × n matrix
_SPECTRA = 3  # metrics beyond these share eigenvalues with them
_PAIR = 5e-9  # per pair of samples and metric of angles
ENTRY = 1e-8
"""Seconds per number that an activation or another step makes of one."""
COPIES = 8
"""Of a representation, and of the cosines of its samples, that are alive at a time."""
_LABELS = 600  # bytes per layer for its name and its place in the result


def layer_shapes(spec: Chain) -> dict[tuple[int, int], int]:
    """How many layers have which fan-in and fan-out.

    Example:
        >>> from isometer.spec import Spec
        >>> layer_shapes(Spec(width=8, depth=1000, input_width=3))
        {(3, 8): 1, (8, 8): 999}
    """
    if isinstance(spec.width, tuple):
        return dict(Counter(zip(spec.fan_in, spec.widths, strict=True)))
    assert spec.input_width is not None
    found = Counter({(spec.input_width, spec.width): 1})
    if spec.layers > 1:
        found[spec.width, spec.width] += spec.layers - 1
    return dict(found)


@dataclass(frozen=True)
class Sizes:
    """The sizes that decide about the work of a simulation."""

    shapes: tuple[tuple[tuple[int, int], int], ...]  # of layers, with their number
    law: str
    dense: bool
    samples: int
    runs: int
    metrics: int
    backward: bool
    bytes: int = 8

    @classmethod
    def of(
        cls, spec: Chain, engine: str, samples: int, runs: int, *, metrics: int, backward: bool, bytes: int = 8
    ) -> Sizes:
        """Those of a spec."""
        shapes = tuple(layer_shapes(spec).items())
        return cls(shapes, spec.weights, engine == "dense", samples, runs, metrics, backward, bytes)

    @property
    def layers(self) -> int:
        return sum(count for _, count in self.shapes)

    def deeper(self, layers: int) -> Sizes:
        """With another depth, the most common layer repeated."""
        shape, _ = max(self.shapes, key=lambda one: one[1])
        return replace(self, shapes=((shape, layers),))

    def wider(self, width: int) -> Sizes:
        """With another width of input and layers."""
        return replace(self, shapes=(((width, width), self.layers),))

    def full(self, fan_in: int, fan_out: int) -> bool:
        """Whether the weights of a layer are drawn."""
        return self.dense or not uses_frames(self.law, self.samples, fan_in, fan_out, self.samples)

    def kept(self) -> tuple[int, int]:
        """Bytes of a run that the largest layer needs, and those that all layers leave for a backward pass."""
        largest = kept = 0
        for (fan_in, fan_out), count in self.shapes:
            weights = fan_in * fan_out if self.full(fan_in, fan_out) else self.samples * (fan_in + fan_out)
            largest = max(largest, weights)
            kept += count * (weights + 3 * self.samples * fan_out)
        return largest * self.bytes, kept * self.bytes

    def slots(self) -> int:
        """How many runs are computed together: a function of the problem, never of the number of runs."""
        widest = max(max(shape) for shape, _ in self.shapes)
        largest, kept = self.kept()
        return chunk_slots(self.samples * widest, kept if self.backward else largest, backward=self.backward)


def product_seconds(law: str, rows: int, fan_in: int, fan_out: int, *, full: bool) -> float:
    """Seconds of one product of a run, its random numbers included; `full` if the weights are drawn."""
    larger, smaller = max(fan_in, fan_out), min(fan_in, fan_out)
    if not full:
        return _DRAW * rows * larger + _FLOP * 4 * rows * rows * larger
    decomposed = 4 * larger * smaller**2 if law in ("orthogonal", "orthogonalized-xavier") else 0
    return _DRAW * fan_in * fan_out + _FLOP * (rows * fan_in * fan_out + decomposed)


def metric_seconds(metrics: int, samples: int, features: int) -> float:
    """Seconds that metrics take for one layer of one run."""
    short = min(samples, features)
    spectrum = _EIGEN[0] * short**2 + _EIGEN[1] * short**3 + _FLOP * samples * features * short
    return min(_SPECTRA, metrics) * spectrum + min(2, metrics) * samples * samples * _PAIR


def measuring_memory(samples: int, features: int, slots: int, *, metrics: int, runs: int, layers: int) -> int:
    """Bytes of what is measured: cosines and spectra of a chunk, and the numbers of all runs."""
    side = min(samples, features)
    alive = COPIES * 8 * samples * max(samples, side) * min(slots * 64, together(samples, side)) + (1 << 25)
    return alive + 24 * metrics * runs * (layers + 1) + _LABELS * layers


def chunk_slots(widest: int, memory: float, *, backward: bool) -> int:
    """How many runs are computed together: a function of the problem, never of the number of runs.

    Args:
        widest: numbers of the largest representation of a run.
        memory: bytes of a run: of all layers for a backward pass, of the largest otherwise.
        backward: whether there is one.
    """
    slots = max(min(_SLOTS, _WORK // widest), min(4 * _SLOTS, _TINY // widest))
    # a backward pass keeps what every layer leaves; forward, one layer is alive at a time
    limit = _MEMORY if backward else _MEMORY >> 3
    return max(1, min(slots, int(limit // max(1, memory))))


def simulation_work(sizes: Sizes, *, slots: int | None = None) -> Work:
    """Memory and time of a simulation, both rather too large than too small.

    Args:
        sizes: of the simulation.
        slots: runs computed together, as many as `sizes` has by default.

    Example:
        >>> from isometer.spec import Spec
        >>> sizes = Sizes.of(Spec(width=100, depth=50), "gram", 10, 16, metrics=10, backward=False)
        >>> simulation_work(sizes).seconds < 5
        True
    """
    slots, n = sizes.slots() if slots is None else slots, sizes.samples
    chunks = -(-sizes.runs // slots)
    largest, kept = sizes.kept()
    widest = max(max(shape) for shape, _ in sizes.shapes)
    # random numbers come in blocks, and a block holds the numbers of one layer at least
    block = sizes.bytes * max(min(BLOCK, largest // sizes.bytes * sizes.layers), largest // sizes.bytes)
    memory = slots * (2 * block + COPIES * n * widest * sizes.bytes + (2 * kept if sizes.backward else 0))
    memory += measuring_memory(n, widest, slots, metrics=sizes.metrics, runs=sizes.runs, layers=sizes.layers)
    each = 0.0  # seconds of a layer and run, times the number of such layers
    for (fan_in, fan_out), count in sizes.shapes:
        product = product_seconds(sizes.law, n, fan_in, fan_out, full=sizes.full(fan_in, fan_out))
        activated = ENTRY * n * fan_out
        passes = 4 if sizes.backward else 1
        each += count * (passes * (product + activated) + metric_seconds(sizes.metrics, n, fan_out))
    seconds = chunks * sizes.layers * CALL * (1 + sizes.metrics / 4) * (2 if sizes.backward else 1)
    return Work(memory, 0.05 + seconds + chunks * slots * each)


def check_simulation_work(
    what: str, sizes: Sizes, knobs: tuple[str, ...] = ("samples", "layers", "runs", "features")
) -> None:
    """Refuse a simulation that takes more than is allowed, and say which sizes would fit."""
    others: dict[str, tuple[int, Callable[[int], Sizes]]] = {
        "samples": (sizes.samples, lambda value: replace(sizes, samples=value)),
        "layers": (sizes.layers, sizes.deeper),
        "runs": (sizes.runs, lambda value: replace(sizes, runs=value)),
        "features": (max(max(shape) for shape, _ in sizes.shapes), sizes.wider),
    }

    def estimate(name: str) -> Callable[[int], Work]:
        return lambda value: simulation_work(others[name][1](value))

    check_work(what, simulation_work(sizes), {name: (others[name][0], estimate(name)) for name in knobs})
