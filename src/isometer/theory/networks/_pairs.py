"""Kernels pair by pair: rectangular ones, and those of thousands of images, a few pairs of inputs at a time."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from isometer.errors import IsometerError
from isometer.spec import Act, Bias, Convolution, Dense, Flatten, Norm, Pool, Scaling, Shape, Spec, Step
from isometer.spec._coverage import gap_of
from isometer.spec._language import word_of
from isometer.spec._steps import parts
from isometer.spec._steps import walk as every_step
from isometer.theory.kernels._kernel_matrix import Kind
from isometer.theory.networks._inputs import checked_inputs
from isometer.theory.networks._interpreter import needs_pairs
from isometer.theory.networks._pair_state import Floats, NotByPairs, PairRun, PairState, Places, reduced_pairs
from isometer.theory.networks._pair_steps import walk_pairs
from isometer.work import Work, check_work

Precision = Literal["float64", "float32"]
_ENTRIES = 1 << 16  # of an array at a time: it stays in the cache
_FULL = 1 << 18  # of one with all pairs of positions
# Processor time of one core, seconds per entry: 1.2 to 1.6 times what CIFAR-10 takes with and without pooling.
_ACT, _WINDOW, _PASS = 5e-9, 5e-10, 1e-9
_HELD = 12  # arrays at a time


class PairKernels:
    """NNGP and NTK of pairs of inputs of one network, for any pairs in any order.

    A kernel of two inputs depends on nothing else unless a norm goes over samples. So blocks of pairs pass through the
    whole network one after the other, each within the processor's cache, and no matrix over positions of the whole
    batch is needed. Entries are accurate to rounding relative to the diagonal; those of tangent kernels to 1e-7 where
    two different inputs are nearly parallel.
    `network_kernels` keeps 1 − ρ to relative accuracy and takes any network.

    Args:
        spec: the network.
        inputs: `(n, features)`, or `(n, features, *positions)`, whose pairs are needed.
        kinds: which of "nngp" and "ntk".
        precision: "float32" takes half the time and memory, and has six digits.

    Raises:
        NotCovered: a step has no kernel of pairs: norms over samples, maxima, attention, depthwise convolutions,
            activations with kinks that are not homogeneous.

    Example:
        >>> spec = Spec("input(2) > dense(8, gain=2**0.5) > act('relu') > dense(1)")
        >>> found = PairKernels(spec, np.eye(2), kinds=("nngp",))(np.array([0, 0]), np.array([0, 1]))
        >>> found["nngp"].round(6).tolist()
        [0.5, 0.159155]
    """

    def __init__(
        self,
        spec: Spec,
        inputs: ArrayLike,
        *,
        kinds: Sequence[Kind] = ("nngp", "ntk"),
        precision: Precision = "float64",
    ) -> None:
        if precision not in ("float64", "float32"):
            raise IsometerError(f"precision is {precision!r}; expected 'float64' or 'float32'")
        for kind in kinds:
            if kind not in ("nngp", "ntk"):
                raise IsometerError(f"kind must be 'nngp' or 'ntk'; got {kind!r}")
        self.spec, self.kinds, self.precision = spec, tuple(kinds), precision
        self._x = checked_inputs(inputs, spec.shape)
        self._layers = [steps for steps, _ in spec.executed_layers()]
        self._shapes = [spec.shape, *(shape for _, shape in spec.executed_layers())]
        check_steps(spec)
        self._full = bool(spec.shape.axes) and needs_pairs(spec.composition)
        self._kept: list[tuple[Floats, ...]] | None = None

    @property
    def pairs_at_a_time(self) -> int:
        """How many pass through the network together."""
        largest = max(shape.positions ** (2 if self._full else 1) for shape in self._shapes)
        return max(1, (_FULL if self._full else _ENTRIES) // largest)

    def work(self, pairs: int) -> Work:
        """What a number of pairs takes."""
        return pair_work(self._layers, self._shapes, self._full, pairs, self.pairs_at_a_time, "ntk" in self.kinds)

    def __call__(self, first: ArrayLike, second: ArrayLike) -> dict[Kind, NDArray[np.float64]]:
        """Kernels of pairs of samples by their numbers, `(pairs,)` each."""
        one, other = (np.asarray(side, dtype=np.intp) for side in (first, second))
        kept = self._of_samples()
        out: dict[Kind, NDArray[np.float64]] = {kind: np.empty(len(one)) for kind in self.kinds}
        step = self.pairs_at_a_time
        for at in range(0, len(one), step):
            part = slice(at, at + step)
            run = PairRun(one[part], other[part], "ntk" in self.kinds, self.precision, kept=kept)
            last = self._walked(run, self._x)
            for kind in self.kinds:
                own = last.second if kind == "nngp" else last.tangent
                assert own is not None
                out[kind][part] = own.reshape(len(own), -1).mean(axis=1, dtype=np.float64)
        return out

    def _of_samples(self) -> list[tuple[Floats, ...]]:
        """What steps need of single samples, found once; pools need pairs of every sample with itself for it."""
        if self._kept is not None:
            return self._kept
        found: list[list[tuple[Floats, ...]]] = []
        pooled = self._full and squares_behind_pools(self.spec.composition)
        step = self.pairs_at_a_time
        for at in range(0, len(self._x), step):
            own = np.arange(min(step, len(self._x) - at))
            pairs = own if pooled else own[:0]
            run = PairRun(pairs, pairs, False, self.precision, records=True)
            self._walked(run, self._x[at : at + step])
            found.append(run.kept)
        self._kept = [
            tuple(np.concatenate(arrays) for arrays in zip(*sites, strict=True)) for sites in zip(*found, strict=True)
        ]
        return self._kept

    def _walked(self, run: PairRun, inputs: Floats) -> PairState:
        state = self._start(run, inputs)
        for number, steps in enumerate(self._layers):
            if state.is_full and not needs_pairs(step for left in self._layers[number:] for step in left):
                state = reduced_pairs(state)
            with np.errstate(over="ignore", invalid="ignore"):
                state = walk_pairs(steps, state, run)
        if not np.isfinite(state.second).all():
            raise IsometerError("the kernel overflows; expected a network whose variances stay finite — lower its gain")
        return state

    def _start(self, run: PairRun, inputs: Floats) -> PairState:
        features, axes = inputs.shape[1], self.spec.shape.axes
        one, other = (
            inputs[side].reshape(len(side), features, self.spec.shape.positions).astype(run.dtype, copy=False)
            for side in (run.first, run.second)
        )
        if self._full:
            products = np.matmul(np.swapaxes(one, 1, 2), other) / features
            order = [0] + [1 + a + side * len(axes) for a in range(len(axes)) for side in range(2)]
            second = np.ascontiguousarray(products.reshape(len(products), *axes, *axes).transpose(order))
        else:
            second = (np.einsum("qdp,qdp->qp", one, other) / features).reshape(len(one), *axes)
        tangent = np.zeros_like(second) if run.tangent else None
        squares, mean = ((inputs**2).mean(axis=1), inputs.mean(axis=1)) if run.records else (None, None)
        keys: frozenset[int] = frozenset({-1})
        return PairState(axes, self._full, features, squares, mean, second, tangent, "given", keys)


def pair_kernels(
    spec: Spec,
    inputs: ArrayLike,
    others: ArrayLike | None = None,
    *,
    kinds: Sequence[Kind] = ("nngp", "ntk"),
    precision: Precision = "float64",
    progress: Callable[[int, int], None] | None = None,
) -> dict[Kind, NDArray[np.float64]]:
    """NNGP and NTK between two batches, `(n, m)`, or within one, pair by pair; see `PairKernels`.

    Args:
        spec: the network.
        inputs: `(n, features)`, or `(n, features, *positions)`.
        others: the other batch; `inputs` itself by default.
        kinds: which of "nngp" and "ntk".
        precision: "float64" or "float32".
        progress: called as `progress(done, total)` in pairs.

    Returns:
        One matrix per kind.

    Raises:
        NotCovered: a step has no kernel of pairs.
        TooMuchWorkError: it would take more memory or time than is allowed; see `isometer.work`.

    Example:
        >>> spec = Spec("input(3, [8, 8]) > conv(3, 16, padding='zeros', gain=2**0.5) > act('relu') > pool > dense(1)")
        >>> images = np.random.default_rng(0).standard_normal((5, 3, 8, 8))
        >>> pair_kernels(spec, images[:2], images[2:])["ntk"].shape
        (2, 3)
    """
    x = np.asarray(inputs)
    rows = len(checked_inputs(x, spec.shape))
    if others is not None:
        x = np.concatenate([checked_inputs(x, spec.shape), checked_inputs(others, spec.shape)])
    engine = PairKernels(spec, x, kinds=kinds, precision=precision)
    first, second = block_pairs(rows, None if others is None else len(x) - rows)
    matrix = 8.0 * len(kinds) * rows * (rows if others is None else len(x) - rows)
    needed = engine.work(len(first))
    check_work("the kernel", Work(needed.memory + matrix, needed.seconds))
    out = {kind: np.empty((rows, rows if others is None else len(x) - rows)) for kind in kinds}
    step = max(engine.pairs_at_a_time, min(4096, -(-len(first) // 100)))
    for at in range(0, len(first), step):
        own = slice(at, at + step)
        one, other = first[own], second[own]
        found = engine(one, other)
        for kind in kinds:
            out[kind][one, other if others is None else other - rows] = found[kind]
            if others is None:
                out[kind][other, one] = found[kind]
        if progress is not None:
            progress(min(at + step, len(first)), len(first))
    return out


def block_pairs(rows: int, columns: int | None) -> tuple[Places, Places]:
    """Numbers of all pairs: of `rows` among themselves, each once, or with `columns` that come behind them.

    Example:
        >>> [side.tolist() for side in block_pairs(2, None)], [side.tolist() for side in block_pairs(1, 2)]
        ([[0, 0, 1], [0, 1, 1]], [[0, 0], [1, 2]])
    """
    if columns is None:
        one, other = np.triu_indices(rows)
        return one, other
    one, other = np.divmod(np.arange(rows * columns), columns)
    return one, other + rows


def check_steps(spec: Spec) -> None:
    """Raise an error about steps that have no kernel of pairs, as far as the words say."""
    for step in every_step(spec.composition):
        if gap_of(step, "theory") is not None:
            raise NotByPairs(word_of(step), str(gap_of(step, "theory")))
        if isinstance(step, Norm) and step.over == "batch":
            raise NotByPairs("batch norm", "its statistics are those of the whole batch")
        if isinstance(step, Pool) and step.by == "max":
            raise NotByPairs("pool('max')", "it is an expectation over all positions of a window together")


def squares_behind_pools(steps: Sequence[Step]) -> bool:
    """Whether some step behind a pool asks for mean squares: an activation or a norm.

    Example:
        >>> squares_behind_pools((Act("relu"), Pool(), Dense(1))), squares_behind_pools((Pool(), Act("relu")))
        (False, True)
    """
    seen = False
    for step in steps:
        inner = [squares_behind_pools(branch) for branch in parts(step)]
        pools = any(isinstance(one, Pool) for one in every_step((step,)))
        if seen and not isinstance(step, Dense | Bias | Scaling | Flatten | Convolution | Pool):
            return True
        if any(inner) or (pools and not isinstance(step, Pool)):
            return True
        seen = seen or pools
    return False


def pair_work(
    layers: Sequence[Sequence[Step]], shapes: Sequence[Shape], full: bool, pairs: int, at_a_time: int, tangent: bool
) -> Work:
    """Memory and time of a number of pairs.

    Example:
        >>> pair_work([(Act("relu"),)], [Shape(8), Shape(8)], False, 1000, 100, True).seconds < 1
        True
    """
    seconds, largest = 0.05, 1.0
    for steps, before, after in zip(layers, shapes, shapes[1:], strict=False):
        entries = float(max(before.positions, after.positions)) ** (2 if full else 1)
        largest = max(largest, entries)
        for step in every_step(steps):
            each = _PASS
            if isinstance(step, Act):
                each = _ACT
            elif isinstance(step, Convolution):
                each = _WINDOW * sum(step.kernel) * (1.5 if full else 1.0) + _PASS
            seconds += pairs * entries * each * (1.7 if tangent else 1.0) + 2e-5 * pairs / at_a_time
    return Work(8.0 * _HELD * largest * at_a_time + (1 << 24), seconds)
