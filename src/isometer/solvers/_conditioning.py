"""The least depth at which the kernel of a batch is as well conditioned as requested."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import linalg

from isometer.checks import real_number
from isometer.solvers._answer import Answer, Published
from isometer.spec import Chain, Spec, with_depth
from isometer.theory.chains import ChainLayer, NetworkKernels, kernels_of
from isometer.theory.kernels import (
    SphereKernel,
    tangent_condition_bound,
    tangent_condition_bound_separated,
    top_layer_condition_bound,
    top_layer_condition_bound_separated,
)
from isometer.theory.kernels._kernel_matrix import ACCURACY, KernelMatrix, Kind
from isometer.theory.kernels._layer_maps import coordinates

Floats = NDArray[np.float64]
DEEPEST = 1 << 20
"""Depths are searched up to here where the cost does not grow with depth."""
_SHALLOW = 300  # and up to here where it does
_GENERAL = 128  # and for networks that are no chains
_ALL = 32  # depths that are looked at one by one: the condition number need not be monotone
_BOUND = 10**7  # depths at which published bounds are looked at
_PAPER = "Agarwal et al. 2021"


class Ends(NamedTuple):
    """The largest and smallest eigenvalue of a kernel over its diagonal, and how far each may be off.

    Example:
        >>> Ends(3.0, 1.0, 0.1).condition, round(Ends(3.0, 1.0, 0.1).at_most, 3)
        (3.0, 3.444)
    """

    largest: float
    smallest: float
    error: float

    @property
    def condition(self) -> float:
        """λ_max/λ_min; inf beyond what float64 resolves."""
        return _ratio(self.largest, self.smallest)

    @property
    def at_least(self) -> float:
        """The least condition number that the error leaves room for."""
        return max(1.0, _ratio(self.largest - self.error, self.smallest + self.error))

    @property
    def at_most(self) -> float:
        """The largest one."""
        return _ratio(self.largest + self.error, self.smallest - self.error)


def _ratio(largest: float, smallest: float) -> float:
    return largest / smallest if smallest > 0.0 else math.inf


class Conditions:
    """Condition numbers of one kernel over depth, each computed once.

    Example:
        >>> from isometer.spec import chain_from_options
        >>> found = Conditions(chain_from_options(activation="normalized(relu)"), np.eye(4) * 2, "nngp")
        >>> round(found.at(3), 6)
        1.0
    """

    def __init__(self, spec: Spec, inputs: ArrayLike, kind: Kind) -> None:
        self.spec, self.inputs, self.kind = spec, inputs, kind
        self.first: NetworkKernels = kernels_of(spec, inputs, 1, kinds=(kind,))
        self.known: dict[int, Ends] = {1: _ends(self.first.matrices[kind])}
        self.network = None
        self.deepest = _GENERAL
        if self.first.layout is not None and isinstance(spec, Chain):
            self.network = self._on_sphere(ChainLayer.of(spec))
            cheap = self.network is not None and self.network.constant is not None
            self.deepest = DEEPEST if cheap else _SHALLOW

    def _on_sphere(self, layer: ChainLayer) -> SphereKernel | None:
        """The kernel as a function of the angle, for inputs of one length."""
        batch = self.first.matrices[self.kind].batch
        if batch.common_length is None:
            return None
        everything = slice(0, len(batch.directions))
        self.s = coordinates(*batch.gaps(everything, everything))
        np.fill_diagonal(self.s, -np.inf)
        return SphereKernel(
            layer.family,
            64,
            squared_length=batch.common_length,
            **layer.layout,
            tangent=self.kind == "ntk",
        )

    def ends(self, depth: int) -> Ends:
        """Of the spectrum at a depth."""
        if depth not in self.known:
            self.known[depth] = self._computed(depth)
        return self.known[depth]

    def at(self, depth: int) -> float:
        """The condition number at a depth; inf beyond what float64 resolves."""
        return self.ends(depth).condition

    def _computed(self, depth: int) -> Ends:
        if self.network is None or self.first.matrices[self.kind].singular is not None:
            return _ends(kernels_of(self.spec, self.inputs, depth, kinds=(self.kind,)).matrices[self.kind])
        deep = self.network.at_depth(depth)
        channel = 0 if self.kind == "nngp" else 1
        matrix: Any = deep.tabulated(self.s, self.kind)[0] if self.s.size > 6000 else deep.values(self.s)[channel]
        matrix = np.where(np.isneginf(self.s), 1.0, matrix)
        assert self.first.layout is not None
        shift = self.first.layout["bias"] if self.first.layout["residual"] is None else 0.0
        if shift > 0.0:  # the readout has no bias
            part = shift * math.exp(-deep.log_diagonal(self.kind))
            matrix = (matrix - part) / (1.0 - part)
        values = linalg.eigvalsh((matrix + matrix.T) / 2)
        floor = len(values) * np.finfo(float).eps * values[-1]
        smallest = float(values[0]) if values[0] > floor else 0.0
        return Ends(float(values[-1]), smallest, len(values) * ACCURACY)


def _ends(kernel: KernelMatrix) -> Ends:
    """Entries that are off by ε move eigenvalues of n samples by nε at most."""
    smallest = kernel.smallest_eigenvalue if math.isfinite(kernel.condition_number) else 0.0
    return Ends(kernel.largest_eigenvalue, smallest, len(kernel.matrix) * kernel.error)


def least_depth(spec: Spec, inputs: ArrayLike, *, condition: float, kind: Kind = "nngp") -> Answer:
    """The least depth at which the condition number of a kernel of the batch is at most `condition`.

    Depths up to 32 are looked at one by one; beyond, the condition number counts as monotone between a depth and its
    double.

    Args:
        spec: a chain, or a network with one repeat; its own depth does not matter.
        inputs: (n, d), samples by features.
        condition: the required condition number, above 1.
        kind: "nngp" or "ntk".

    Returns:
        An `Answer`; its table has the condition number over depth, and `published` the depth of printed bounds.

    Example:
        >>> from isometer.spec import chain_from_options
        >>> inputs = np.array([[1.0, 0.0], [0.8, 0.6]]) * 2**0.5
        >>> answer = least_depth(chain_from_options(activation="normalized(relu)"), inputs, condition=2.0)
        >>> answer.value
        7
    """
    target = real_number(condition, "the condition number", low=1.0, fix="pass a number above 1")
    conditions = Conditions(spec, inputs, kind)
    depth = _least(conditions, lambda at: conditions.at(at) <= target)
    kernel = conditions.first.matrices[kind]
    n = len(kernel.matrix)
    what = f"the condition number of the {kind.upper()} of {n} samples"
    published = _published(conditions.first, kind, target)
    rows = tuple((at, conditions.at(at)) for at in sorted(conditions.known))
    question = f"least depth at which {what} is at most {target:g}"
    shown = _chosen(rows, depth)
    if depth is None:
        best = min(rows, key=lambda row: row[1])
        looked = max(row[0] for row in rows)
        reason = f"No depth up to {looked} does: {what} is smallest at depth {best[0]}, {_said(best[1])}."
        if kernel.singular is not None:
            reason = f"No depth does: {kernel.singular.partition(' — ')[0]}."
        step = "try an activation of mean zero, such as normalized(relu), or --norm layer --norm-position post"
        step = "drop the duplicates" if kernel.singular is not None else step
        return Answer("depth", question, str(spec), None, None, reason, step, _COLUMNS, shown, published=published)
    before = "" if depth == 1 else f" ({_said(conditions.at(depth - 1))} at depth {depth - 1})"
    error = _depth_error(conditions, depth, target)
    words = f"Depth {depth} is enough: {what} is {_said(conditions.at(depth))}{before}."
    if error > 0.0:
        sure = "the error of the kernel leaves it open" if math.isinf(error) else f"{error:.0f} layers more or fewer"
        words = f"Depth {depth} is enough, or {sure}: {what} is {_said(conditions.at(depth))}{before}."
    known = [one for one in published if one.depth is not None]
    if known:
        asked = min(known, key=lambda one: one.depth or 0)
        words += f" The published bound ({asked.paper}, {asked.reference}) needs depth {asked.depth}."
    solved = with_depth(spec, depth)
    return Answer(
        "depth", question, str(solved), depth, error, words,
        f"isometer kernel --depth {depth}, with the same options, shows the kernel",
        _COLUMNS, shown, published=published,
    )  # fmt: skip


_COLUMNS = ("depth", "condition number")


def _said(value: float) -> str:
    return "beyond float64" if math.isinf(value) else f"{value:.4g}"


def _chosen(rows: tuple[tuple[int, float], ...], depth: int | None) -> tuple[tuple[int, float], ...]:
    """Powers of two, and the depths around the answer."""
    near = set() if depth is None else {depth - 1, depth, depth + 1}
    return tuple(row for row in rows if row[0] in near or row[0] & (row[0] - 1) == 0)


def _depth_error(conditions: Conditions, depth: int, target: float) -> float:
    """How many layers off the depth may be, given the errors of kernels; 0 where they do not matter."""
    if conditions.ends(depth).at_most <= target and (depth == 1 or conditions.ends(depth - 1).at_least > target):
        return 0.0
    early = _least(conditions, lambda at: conditions.ends(at).at_least <= target)
    late = _least(conditions, lambda at: conditions.ends(at).at_most <= target)
    assert early is not None
    return math.inf if late is None else float(max(depth - early, late - depth))


def _least(conditions: Conditions, reached: Callable[[int], bool]) -> int | None:
    if conditions.first.matrices[conditions.kind].singular is not None:
        return None
    for depth in range(1, _ALL + 1):
        if reached(depth):
            return depth
    before, depth = _ALL, 2 * _ALL
    while depth <= conditions.deepest:
        if reached(depth):
            break
        if math.isinf(conditions.at(depth)) and math.isinf(conditions.at(before)):
            return None  # collapsed: float64 resolves nothing from here on
        before, depth = depth, 2 * depth
    else:
        return None
    while depth - before > 1:
        middle = (before + depth) // 2
        before, depth = (before, middle) if reached(middle) else (middle, depth)
    return depth


def _published(found: NetworkKernels, kind: Kind, target: float) -> tuple[Published, ...]:
    """The least depth of every printed bound on the condition number; of chains, which they are about."""
    if found.layout is None:
        return ()
    quantities, n = found.quantities(kind), len(found.matrices[kind].matrix)
    mu, separation, gram = (quantities[name] or 0.0 for name in ("nonlinearity", "delta_A", "delta_B"))
    bounds: dict[str, Any] = {
        "004/cor-4": lambda depth: top_layer_condition_bound(n, depth, separation, mu),
        "004/cor-8": lambda depth: top_layer_condition_bound_separated(n, depth, gram, mu),
        "004/cor-6": lambda depth: tangent_condition_bound(n, depth, separation, mu),
        "004/cor-10": lambda depth: tangent_condition_bound_separated(n, depth, gram, mu),
    }
    out = []
    for check in found.bounds(kind):
        if check.reference not in bounds:
            continue
        early = "depth" in check.reason  # it starts deeper: no failed hypothesis
        if not check.applies and not early:
            out.append(Published(check.reference, _PAPER, None, check.reason))
            continue
        depth = _first(bounds[check.reference], target)
        reason = "" if depth is not None else f"it stays above {target:g} up to depth {_BOUND}"
        out.append(Published(check.reference, _PAPER, depth, reason))
    return tuple(out)


def _first(bound: Any, target: float) -> int | None:
    """The first depth at which a bound that falls with depth is at most the target."""
    low, high = 0, 1
    while bound(high) > target:
        low, high = high, 2 * high
        if high > _BOUND:
            return None
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if bound(middle) <= target else (middle, high)
    return high
