"""The tangent kernel from blocks of cotangents: only as many derivatives at a time as memory has room for."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
import torch
from numpy.typing import NDArray

from isometer.empirical._contraction import Gradients, gradients_by, inner_products
from isometer.empirical._linearisation import Linearisation, Parameter
from isometer.work import allowance, free_memory

Tensor = torch.Tensor
Floats = NDArray[np.float64]
Parts = dict[str, Floats]
_SHARE = 0.25  # of the memory that is allowed, for derivatives at a time
_FEW_BYTES = 1 << 26  # of derivatives, for sums over cotangents: more at a time take memory and are hardly faster
_FLOPS = 1e10  # a second, of one core


@dataclass(frozen=True, eq=False)
class PassPair:
    """Two passes whose Jacobians are multiplied; the same one twice for the kernel of a batch with itself.

    Attributes:
        left, right: the passes.
        group: names the part of the kernel that a parameter belongs to.
    """

    left: Linearisation
    right: Linearisation
    group: Callable[[str], str]

    @property
    def same(self) -> bool:
        return self.right is self.left

    def common(self, *, joint: bool) -> list[tuple[Parameter, Parameter]]:
        """Parameters that both reach, told apart by whether each row needs a pass of its own."""
        others = {one.name: one for one in self.right.parameters}
        both = [(one, others[one.name]) for one in self.left.parameters if one.name in others]
        return [(a, b) for a, b in both if (a.separate and b.separate) is not joint]

    def seconds(self, vectors: int, *, trace: bool) -> float:
        """An estimate of the time that a kernel takes, for some cotangents per sample."""
        n, m = self.left.samples, self.right.samples
        pairs = vectors * (1 if trace else vectors) * n * m
        total = 0.0
        for joint in (False, True):
            common = self.common(joint=joint)
            if not common:
                continue
            for side, rows in ((self.left, n), (self.right, m)):
                total += side.pass_flops * vectors * (rows if joint else 1)
            total += 2.0 * pairs * sum(one.tensor.numel() for one, _ in common)
        return total / _FLOPS


def trace_kernel(pair: PassPair, vectors: Tensor) -> Parts:
    """Σ_v of the inner products of ∂⟨v, f_i⟩ and ∂⟨v, f_j⟩: (n, n′) for each group of parameters.

    Args:
        pair: the passes.
        vectors: (k, outputs); the identity gives the trace over outputs.
    """
    parts: Parts = {}
    n, m = pair.left.samples, pair.right.samples
    common = pair.common(joint=False)
    if common:
        for chunk in _chunks(vectors, _room(pair, common, joint=False, most=_FEW_BYTES)):
            for name, block in _block(pair, common, _everywhere(chunk, n), _everywhere(chunk, m), joint=False).items():
                _add(parts, name, block, (n, m))
    common = pair.common(joint=True)
    if common:
        step = _room(pair, common, joint=True)
        for vector in vectors:
            for rows, columns, name, block in _row_blocks(pair, common, vector[None], step):
                _put(parts, name, block, rows, columns, (n, m), mirrored=pair.same)
    return parts


def full_kernel(pair: PassPair) -> Parts:
    """All inner products of rows of the Jacobians: (n, C, n′, C) for each group of parameters."""
    n, m, c = pair.left.samples, pair.right.samples, pair.left.width
    parts: Parts = {}
    unit = torch.eye(c, dtype=pair.left.outputs.dtype, device=pair.left.outputs.device)
    common = pair.common(joint=False)
    if common:
        step = _room(pair, common, joint=False)
        for a, b, left, right in _pairs_of_chunks(unit, step, pair.same):
            first = _everywhere(left, n)
            second = first if pair.same and a == b else _everywhere(right, m)
            for name, block in _block(pair, common, first, second, joint=False, trace=False).items():
                whole = parts.setdefault(name, np.zeros((n, c, m, c)))
                turned = _numpy(block).transpose(1, 0, 3, 2)  # (n, k, m, l)
                whole[:, a, :, b] += turned
                if pair.same and a != b:
                    whole[:, b, :, a] += turned.transpose(2, 3, 0, 1)
    common = pair.common(joint=True)
    if common:
        for rows, columns, name, block in _row_blocks(pair, common, unit, _room(pair, common, joint=True)):
            flat = {name: parts.setdefault(name, np.zeros((n, c, m, c))).reshape(n * c, m * c)}
            _put(flat, name, block, rows, columns, (n * c, m * c), mirrored=pair.same)
    return parts


def _row_blocks(
    pair: PassPair, common: Sequence[tuple[Parameter, Parameter]], vectors: Tensor, step: int
) -> Iterator[tuple[slice, slice, str, Tensor]]:
    """Blocks of the kernel of single rows, samples first and then vectors: (rows, columns, group, (k, 1, l, 1))."""
    lefts = _slices(pair.left.samples * len(vectors), step)
    rights = _slices(pair.right.samples * len(vectors), step)
    for rows in lefts:
        left = _single(vectors, rows, pair.left.samples)
        for columns in rights:
            if pair.same and columns.start < rows.start:
                continue
            same = pair.same and columns == rows
            right = left if same else _single(vectors, columns, pair.right.samples)
            for name, block in _block(pair, common, left, right, joint=True, trace=False).items():
                yield rows, columns, name, block


def _block(
    pair: PassPair,
    common: Sequence[tuple[Parameter, Parameter]],
    left: Tensor,
    right: Tensor,
    *,
    joint: bool,
    trace: bool = True,
) -> dict[str, Tensor]:
    """Inner products of two stacks of cotangents, by group."""
    same = pair.same and (right is left or trace)
    first = _derived(pair.left, [a for a, _ in common], left, joint=joint)
    second = first if same else _derived(pair.right, [b for _, b in common], right, joint=joint)
    found: dict[str, Tensor] = {}
    for a, b in common:
        mine = first.gradients(a)
        product = inner_products(mine, mine if same else second.gradients(b), trace=trace).double()
        name = pair.group(a.name)
        found[name] = found[name] + product if name in found else product
    return found


@dataclass(frozen=True, eq=False)
class _Derived:
    """Derivatives at the sites of some parameters, from which those by each parameter are made one at a time."""

    at: Linearisation
    sites: dict[object, Tensor]
    direct: dict[str, Tensor]
    joint: bool

    def gradients(self, parameter: Parameter) -> Gradients:
        found = {tap.site: self.sites[tap.site] for tap in parameter.taps}
        return gradients_by(self.at, parameter, found, self.direct.get(parameter.name), joint=self.joint)


def _derived(at: Linearisation, parameters: Sequence[Parameter], cotangents: Tensor, *, joint: bool) -> _Derived:
    sites = list({tap.site: None for one in parameters for tap in one.taps})
    direct = [one for one in parameters if one.direct]
    found = at.gradients(cotangents, [*(site.edge for site in sites), *(one.tensor for one in direct)])
    k = len(cotangents)
    filled = [
        torch.zeros(k, *shape, dtype=cotangents.dtype, device=cotangents.device) if gradient is None else gradient
        for gradient, shape in zip(
            found, [*(site.shape for site in sites), *(one.tensor.shape for one in direct)], strict=True
        )
    ]
    return _Derived(
        at,
        dict(zip(sites, filled, strict=False)),
        {one.name: gradient for one, gradient in zip(direct, filled[len(sites) :], strict=True)},
        joint,
    )


# --- cotangents -------------------------------------------------------------------------------------------------------


def _everywhere(vectors: Tensor, samples: int) -> Tensor:
    """The same cotangent for every sample: (k, samples, outputs)."""
    return vectors[:, None, :].expand(-1, samples, -1)


def _single(vectors: Tensor, rows: slice, samples: int) -> Tensor:
    """Cotangents with one sample each: row (i, b) has vector b at sample i."""
    index = torch.arange(rows.start, rows.stop, device=vectors.device)
    found = vectors.new_zeros(len(index), samples, vectors.shape[1])
    found[torch.arange(len(index)), index // len(vectors)] = vectors[index % len(vectors)]
    return found


def _slices(count: int, step: int) -> list[slice]:
    return [slice(a, b) for a, b in pairwise([*range(0, count, step), count])]


def _chunks(vectors: Tensor, step: int) -> Iterator[Tensor]:
    """As few parts as there may be, of about the same size."""
    yield from vectors.tensor_split(-(-len(vectors) // step))


def _pairs_of_chunks(vectors: Tensor, step: int, same: bool) -> Iterator[tuple[slice, slice, Tensor, Tensor]]:
    for a in _slices(len(vectors), step):
        left = vectors[a]
        for b in _slices(len(vectors), step):
            if same and b.start < a.start:
                continue
            yield a, b, left, left if a == b else vectors[b]


def _room(pair: PassPair, common: Sequence[tuple[Parameter, Parameter]], *, joint: bool, most: float = math.inf) -> int:
    """Cotangents at a time."""
    size = pair.left.outputs.element_size()
    numbers = 1.0
    for side, parameters in ((pair.left, [a for a, _ in common]), (pair.right, [b for _, b in common])):
        whole = [p for p in parameters if p.direct or any(not tap.constant.is_leaf for tap in p.taps)]
        per_row = sum(p.tensor.numel() for p in whole) * (1 if joint else side.samples)
        numbers = max(numbers, 1.5 * side.site_numbers + 4.0 * per_row)
    budget = min(_SHARE * min(allowance().memory, free_memory()), most)
    return max(1, int(budget / (size * numbers)))


# --- sums -------------------------------------------------------------------------------------------------------------


def _numpy(tensor: Tensor) -> Floats:
    return np.asarray(tensor.detach().double().cpu().numpy())


def _add(parts: Parts, name: str, block: Tensor, shape: tuple[int, int]) -> None:
    parts.setdefault(name, np.zeros(shape))
    parts[name] += _numpy(block)


def _put(
    parts: Parts, name: str, block: Tensor, rows: slice, columns: slice, shape: tuple[int, int], *, mirrored: bool
) -> None:
    """Add a block (k, 1, l, 1) of single rows, on both sides of the diagonal where only one was calculated."""
    whole = parts.setdefault(name, np.zeros(shape))
    found = _numpy(block)[:, 0, :, 0]
    whole[rows, columns] += found
    if mirrored and rows != columns:
        whole[columns, rows] += found.T
