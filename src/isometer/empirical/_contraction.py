"""From derivatives at taps to inner products of parameter gradients.

The gradient of one row (an output of a sample) by the weights of a layer is Σ_t g_t ⊗ x_t over positions t. The inner
product of two rows is Σ_{t,t′} ⟨g_t, g′_t′⟩⟨x_t, x′_t′⟩: a product of two Gram matrices, cheap for few positions. For
many positions the gradients themselves are cheaper. Where samples act on each other all of the batch are positions of
one row, and x is replaced by its coordinates in its own span. Weights used several times have more positions.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

import torch
from torch.nn import functional
from torch.nn.grad import conv1d_weight, conv2d_weight, conv3d_weight

from isometer.empirical._linearisation import Axis, Linearisation, Parameter, arranged
from isometer.empirical._taps import Rule, Tap, TapSite, Window, padded, patches

Tensor = torch.Tensor
_BLOCK = 1 << 20  # numbers in a temporary: what stays in cache
_STRIPS = 4  # of a symmetric matrix, of which those beyond the diagonal are calculated
_ROWS = 16  # of a matrix, of which fewer take a product as long
_BY_WEIGHTS: dict[int, Callable[..., Tensor]] = {1: conv1d_weight, 2: conv2d_weight, 3: conv3d_weight}
_FEW = 8  # positions that are not worth a look for zeros


@dataclass(frozen=True, eq=False)
class Convolved:
    """What a convolution without groups reads.

    Attributes:
        input: (n, m, channels, *space).
        window: how it is read.
        places: positions along each axis of the output.
    """

    input: Tensor
    window: Window
    places: tuple[int, ...]

    @cached_property
    def patches(self) -> Tensor:
        """(n, T, i)."""
        found = patches(self.input.flatten(0, 1), self.window)
        return found.reshape(len(self.input), -1, found.shape[-1])

    def gradients(self, sample: int, signal: Tensor) -> Tensor:
        """Gradients of one sample by the weights: (k, o, channels, *kernel), from (k, T, o)."""
        (k, _, o), x, window = signal.shape, self.input[sample], self.window
        stacked = signal.reshape(k, len(x), *self.places, o).movedim(-1, 1).flatten(0, 1).movedim(1, 0)
        padding = [before for before, _ in window.padding]
        if any(before != after for before, after in window.padding):
            x, padding = padded(x, window), [0] * len(padding)
        shape = (k * o, x.shape[1], *window.kernel)
        found = _BY_WEIGHTS[len(self.places)](x, shape, stacked, window.stride, padding, window.dilation)
        return found.reshape(k, o, *shape[1:])


@dataclass(frozen=True, eq=False)
class GradientFactors:
    """Gradients Σ_t g_t ⊗ x_t.

    Attributes:
        signal: g, (k, n, T, o).
        source: x, (n, T, i); or the index (n, T) of the only entry of x that is 1; or of what x are the patches.
    """

    signal: Tensor
    source: Tensor | Convolved

    @property
    def is_index(self) -> bool:
        return isinstance(self.source, Tensor) and not self.source.is_floating_point()

    @property
    def read(self) -> Tensor:
        """x, or the index."""
        return self.source.patches if isinstance(self.source, Convolved) else self.source

    @property
    def width(self) -> int:
        """Numbers of x at a position."""
        if isinstance(self.source, Convolved):
            return self.source.input.shape[2] * math.prod(self.source.window.kernel)
        return self.source.shape[-1]


@dataclass(frozen=True, eq=False)
class Gradients:
    """Gradients of k·n rows by one parameter: as factors, or whole (k, n, numbers)."""

    factors: GradientFactors | None
    whole: Tensor | None
    shape: torch.Size  # of the parameter
    rule: Rule = "linear"  # by which the factors make the parameter

    def written_out(self) -> Tensor:
        """The gradients whole."""
        if self.whole is not None:
            return self.whole
        assert self.factors is not None
        return _outer(self.factors, self.shape, self.rule).flatten(2)


def gradients_by(
    at: Linearisation, parameter: Parameter, found: Mapping[TapSite, Tensor], direct: Tensor | None, *, joint: bool
) -> Gradients:
    """Gradients by one parameter from the derivatives at its sites.

    Args:
        at: the pass.
        parameter: one of its parameters.
        found: (k, *site) for its sites.
        direct: (k, *parameter) of uses that no tap covers.
        joint: every cotangent is a row of its own; otherwise each has one row per sample.
    """
    factors: list[tuple[Rule, GradientFactors]] = []
    whole = None if direct is None else direct.reshape(len(direct), 1, -1)
    for tap in parameter.taps:
        gradient = found[tap.site]
        axis = None if joint else at.axes[tap.site]
        made = _factors(tap, gradient, axis, at.samples)
        if made is not None and tap.constant is parameter.tensor:
            factors.append((tap.rule, made))
            continue
        rows = _to_parameter(_rows(tap, gradient, axis, at.samples), tap.constant, parameter)
        whole = rows if whole is None else whole + rows
    shape = parameter.tensor.shape
    if whole is None and len({rule for rule, _ in factors}) == 1:
        return Gradients(_joined([one for _, one in factors]), None, shape, rule=factors[0][0])
    for rule, one in factors:
        rows = _outer(one, shape, rule).flatten(2)
        whole = rows if whole is None else whole + rows
    return Gradients(None, whole, shape)


def _joined(factors: Sequence[GradientFactors]) -> GradientFactors:
    if len(factors) == 1:
        return factors[0]
    return GradientFactors(torch.cat([one.signal for one in factors], 2), torch.cat([one.read for one in factors], 1))


def _factors(tap: Tap, gradient: Tensor, axis: Axis, samples: int) -> GradientFactors | None:
    """None where a tap's derivative is no sum of products."""
    if tap.rule == "sum" or tap.read is None or (tap.window is not None and tap.window.groups > 1):
        return None
    signal = arranged(gradient, axis, samples, lead=1)  # (k, n, m, …)
    read = arranged(tap.read, axis, samples)
    if tap.window is not None:
        source = Convolved(read, tap.window, tuple(tap.site.shape[2:]))
        return GradientFactors(signal.flatten(4).movedim(-1, 3).flatten(2, 3), source)
    if tap.rule == "embedding":
        index = read.flatten(1)
        signal = signal.flatten(2, -2)
        if tap.padding_index is not None:
            signal = signal * (index != tap.padding_index)[..., None]
        return GradientFactors(signal, index)
    return GradientFactors(signal.flatten(2, -2), read.flatten(1, -2))


def _convolution_parts(tap: Tap, signal: Tensor, axis: Axis, samples: int) -> tuple[Tensor, Tensor]:
    """(k, n, T, groups, o) and (n, T, groups, i)."""
    assert tap.window is not None
    assert tap.read is not None
    k, n, m, channels = signal.shape[:4]
    groups = tap.window.groups
    signal = signal.reshape(k, n, m, groups, channels // groups, -1).movedim(-1, 3)
    read = arranged(patches(tap.read, tap.window), axis, samples)
    return signal.flatten(2, 3), read.flatten(1, 2)


def _rows(tap: Tap, gradient: Tensor, axis: Axis, samples: int) -> Tensor:
    """(k, n, *constant): the derivatives by what a tap applies."""
    signal = arranged(gradient, axis, samples, lead=1)
    k, n = signal.shape[:2]
    if tap.rule == "convolution":
        parts = _convolution_parts(tap, signal, axis, samples)
        return _kernel_last(torch.einsum("kntgo,ntgi->kngoi", *parts), tap.constant.shape)
    made = _factors(tap, gradient, axis, samples)
    if made is not None:
        return _outer(made, tap.constant.shape, tap.rule)
    if tap.read is not None:
        signal = signal * arranged(tap.read.expand(tap.site.shape), axis, samples)
    sizes = tap.aligned if axis is None else (tap.aligned[0] if axis == 1 else 1, *tap.aligned[axis + 1 :])
    over = [place + 2 for place, size in enumerate(sizes) if size == 1 and signal.shape[place + 2] > 1]
    summed = signal.sum(over) if over else signal
    return tap.sign * summed.reshape(k, n, *tap.constant.shape)


def _outer(factors: GradientFactors, shape: Sequence[int], rule: Rule) -> Tensor:
    """(k, n, *shape) of what a rule makes of the factors."""
    k, n, t, o = factors.signal.shape
    if factors.is_index:
        rows = factors.signal.new_zeros(k, n * shape[0], o)
        offset = torch.arange(n, device=rows.device)[:, None] * shape[0]
        rows.index_add_(1, (factors.read + offset).flatten(), factors.signal.reshape(k, n * t, o))
        return rows.reshape(k, n, *shape)
    letters = "kntj,nti->knij" if rule == "transposed" else "kntj,nti->knji"
    found = torch.einsum(letters, factors.signal, factors.read)
    return _kernel_last(found, shape) if rule == "convolution" else found.reshape(k, n, *shape)


def _kernel_last(found: Tensor, shape: Sequence[int]) -> Tensor:
    """Gradients by a convolution, whose patches have the channels last, in the order of its weights: (k, n, *shape)."""
    return found.reshape(*found.shape[:2], shape[0], *shape[2:], shape[1]).movedim(-1, 3)


def _to_parameter(rows: Tensor, constant: Tensor, parameter: Parameter) -> Tensor:
    """Derivatives by a constant taken on to a parameter it is calculated from: (k, n, numbers)."""
    if constant is parameter.tensor:
        return rows.reshape(*rows.shape[:2], -1)
    stack = rows.flatten(0, 1)
    (found,) = torch.autograd.grad(constant, [parameter.tensor], stack, retain_graph=True, is_grads_batched=True)
    return found.reshape(*rows.shape[:2], -1)


# --- inner products ---------------------------------------------------------------------------------------------------


def inner_products(left: Gradients, right: Gradients, *, trace: bool) -> Tensor:
    """Inner products of gradients: (n, n′) summed over equal cotangents, or (k, n, k′, n′) for all pairs."""
    first, second = left.factors, right.factors
    if first is not None and second is not None and first.is_index == second.is_index:
        return _of_factors(*_same_read(first, second), trace=trace)
    whole = left.written_out()
    return _of_whole(whole, whole if right is left else right.written_out(), trace=trace)


def _of_whole(left: Tensor, right: Tensor, *, trace: bool) -> Tensor:
    if trace:
        return left.transpose(0, 1).flatten(1) @ right.transpose(0, 1).flatten(1).T
    product = left.flatten(0, 1) @ right.flatten(0, 1).T
    return product.reshape(*left.shape[:2], *right.shape[:2])


def _same_read(left: GradientFactors, right: GradientFactors) -> tuple[GradientFactors, GradientFactors]:
    """Indices as rows of the identity, over those that occur; reads in the span of the left ones if that is small."""
    same = right is left
    if left.is_index:
        read = torch.cat([left.read.flatten(), right.read.flatten()])
        used, place = torch.unique(read, return_inverse=True)
        ones = functional.one_hot(place, len(used)).to(left.signal)
        split = left.read.numel()
        left = GradientFactors(left.signal, ones[:split].reshape(*left.read.shape, -1))
        right = left if same else GradientFactors(right.signal, ones[split:].reshape(*right.read.shape, -1))
    n, t = left.signal.shape[1:3]
    if n > 1 or 2 * t > left.width:
        return left, right
    basis, triangle = torch.linalg.qr(left.read[0].T)  # x = triangleᵀ basisᵀ, basis (i, T)
    left = GradientFactors(left.signal, triangle.T[None])
    return left, left if same else GradientFactors(right.signal, right.read @ basis)


def _of_factors(left: GradientFactors, right: GradientFactors, *, trace: bool) -> Tensor:
    same = right is left
    left = _touched(left)
    right = left if same else _touched(right)
    (k, n, t, o), i = left.signal.shape, left.width
    h, m, s, _ = right.signal.shape
    # Multiplications; the kernel of a batch with itself needs half of the pairs, and its gradients once.
    pairs = float(n * t * m * s) * (0.5 if same else 1.0)
    formed = k * n * t + (0 if same else h * m * s)
    if trace:
        as_grams, as_rows = pairs * (i + k * o), float(o * i) * (formed + k * n * m)
    else:
        as_grams, as_rows = pairs * (i + k * h * o), float(o * i) * (formed + k * n * h * m)
    if as_grams <= as_rows:
        return _by_grams(left, right, trace=trace)
    return _by_rows(left, right, trace=trace)


def _touched(factors: GradientFactors) -> GradientFactors:
    """Without the positions at which every gradient is zero: most of them where a model reads its last token."""
    positions = factors.signal.shape[2]
    if positions < _FEW or all(bool(factors.signal[:, :, at].any()) for at in (0, positions // 2)):
        return factors  # two positions are looked at before all are
    kept = factors.signal.any(0).any(0).any(-1).nonzero().flatten()
    if 2 * len(kept) > positions:
        return factors
    kept = kept if len(kept) else kept.new_zeros(1)
    return GradientFactors(factors.signal[:, :, kept], factors.read[:, kept])


def _by_grams(left: GradientFactors, right: GradientFactors, *, trace: bool) -> Tensor:
    (k, n, t, _), (h, m, s, _) = left.signal.shape, right.signal.shape
    same = right is left
    total = left.signal.new_empty((n, m) if trace else (k, n, h, m))
    x, g = left.read.flatten(0, 1), left.signal.flatten(1, 2)
    y, f = (x, g) if same else (right.read.flatten(0, 1), right.signal.flatten(1, 2))
    size = t * m * s * (1 if trace else k * h)
    for rows, columns in _strips(n, m, max(1, _BLOCK // max(1, size)), 1, same=same):
        b, c = rows.stop - rows.start, m - columns.start
        here, there = slice(rows.start * t, rows.stop * t), slice(columns.start * s, m * s)
        reads = (x[here] @ y[there].T).reshape(b, t, c, s)
        if trace:
            signals = g[0, here] @ f[0, there].T
            for one, other in zip(g[1:], f[1:], strict=True):
                signals.addmm_(one[here], other[there].T)
            block = signals.reshape(b, t, c, s).mul_(reads).sum((1, 3))
            total[rows, columns] = block
            if same:
                total[columns, rows] = block.T
        else:
            product = (g[:, here].flatten(0, 1) @ f[:, there].flatten(0, 1).T).reshape(k, b, t, h, c, s)
            block = product.mul_(reads[None, :, :, None]).sum((2, 5))
            total[:, rows, :, columns] = block
            if same:
                total[:, columns, :, rows] = block.permute(2, 3, 0, 1)
    return total


def _strips(n: int, m: int, most: int, least: int, *, same: bool) -> Iterator[tuple[slice, slice]]:
    """Rows and columns of the strips of an (n, m) matrix; of a symmetric one, those up to the diagonal and beyond.

    Args:
        n, m: of the matrix.
        most: rows of a strip.
        least: fewer are not worth a product of their own.
        same: the matrix is symmetric.
    """
    step = min(most, max(least, -(-n // _STRIPS)) if same else n)
    for first in range(0, n, step):
        yield slice(first, min(first + step, n)), slice(first if same else 0, m)


def _by_rows(left: GradientFactors, right: GradientFactors, *, trace: bool) -> Tensor:
    """A slice of the layer's outputs at a time, so that the gradients of a large layer are never whole."""
    if trace and len(left.signal) > 1:  # a cotangent at a time is read where it is
        firsts = [GradientFactors(one, left.source) for one in torch.split(left.signal, 1)]
        seconds = (
            firsts if right is left else [GradientFactors(one, right.source) for one in torch.split(right.signal, 1)]
        )
        return torch.stack([_by_rows(a, b, trace=True) for a, b in zip(firsts, seconds, strict=True)]).sum(0)
    o, i = left.signal.shape[-1], left.width
    rows = max(math.prod(one.signal.shape[:2]) for one in (left, right))
    step = max(1, _BLOCK // max(1, rows * i))
    same, convolved = right is left, all(isinstance(one.source, Convolved) for one in (left, right))
    total: Tensor | None = None
    for first in range(0, o, step):
        part = slice(first, first + step)
        a = _formed(left, part, convolved=convolved)
        b = a if same else _formed(right, part, convolved=convolved)
        ends = (1,) if trace else (0, 1)
        product = _product(*(one.flatten(*ends) for one in (a, b)), same=same)
        total = product if total is None else total.add_(product)
    assert total is not None
    if trace:
        return total
    (k, n), (h, m) = left.signal.shape[:2], right.signal.shape[:2]
    return total.reshape(n, k, m, h).permute(1, 0, 3, 2)


def _product(left: Tensor, right: Tensor, *, same: bool) -> Tensor:
    """Inner products of rows; of a matrix with itself, little more than half of them."""
    if not same:
        return left @ right.T
    n = len(left)
    total = left.new_empty(n, n)
    for rows, columns in _strips(n, n, n, _ROWS, same=True):
        block = left[rows] @ left[columns].T
        total[rows, columns] = block
        total[columns, rows] = block.T
    return total


def _formed(factors: GradientFactors, part: slice, *, convolved: bool) -> Tensor:
    """Gradients by some of the layer's outputs, (n, k, outputs × reads), as one product a sample."""
    signal = factors.signal[..., part]
    k, n, t, o = signal.shape
    if convolved and isinstance(factors.source, Convolved):
        return torch.stack([factors.source.gradients(at, signal[:, at]).flatten(1) for at in range(n)])
    stacked = signal.permute(1, 0, 3, 2).reshape(n, k * o, t)
    return torch.bmm(stacked, factors.read).reshape(n, k, -1)
