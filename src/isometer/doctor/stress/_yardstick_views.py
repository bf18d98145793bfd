"""What the learners of a yardstick see of inputs: arranged, robustly scaled, and no larger than need be."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import torch
from torch.nn import functional

from isometer.doctor.probe._tensor_trees import tensors
from isometer.doctor.stress._material import Pair

Tensor = torch.Tensor
Views = dict[str, Tensor]
"""One batch of inputs, in as many ways as it can be seen: `tokens`; numbers `flat`; as a `line` of positions, some
of them (`points`), neighbours taken together (`patches`), or the other way round (`lane`); as images, averaged (`grid`)
or not (`full`)."""
KNOWN = 512
"""Samples that statistics are made from."""
SIDE = 16
"""Rows and columns of images that are averaged."""
_FEWEST, _NUMBERS = 32, 1 << 20  # samples that are enough if each has many numbers, and numbers of all
_CLIPPED = 5.0  # deviations; what is farther away counts as that far
_TAIL = 0.01  # share of samples on either side that may be anything
_FLOOR = 0.1  # of a channel's usual deviation: places that vary less count as nearly constant
_FULL = 64  # rows, columns and channels that are read
_PATCHES, _POINTS, _FEATURES, _VOCABULARY = 64, 128, 1024, 4096  # what longer inputs are reduced to
_LANE = 8  # positions that are enough to be some
_AHEAD = 2  # positions that targets may be ahead of inputs
_SAME = 0.9  # share of targets that are inputs, if they are to be passed on


class Unfit(Exception):
    """Inputs, targets or outputs that no learner takes."""


def moved_ahead(pair: Pair) -> list[int]:
    """By how many places the targets are inputs moved ahead, as in language modelling: 0 for the inputs themselves.

    Example:
        >>> x = torch.arange(30).reshape(3, 10) % 7
        >>> moved_ahead((x[:, :-1], x[:, 1:])), moved_ahead((x, x)), moved_ahead((x, x.flip(0)))
        ([1], [0], [])
    """
    inputs, target = pair
    if not isinstance(target, Tensor) or target.dim() < 1:
        return []
    target, found = target.detach().cpu(), set[int]()
    for one in tensors(inputs):
        x = one.detach().cpu()
        if x.numel() != target.numel() or x.layout is not torch.strided or x.dtype is torch.bool:
            continue
        x = x.reshape(target.shape)
        if _share(x == target, _uncommon(target)) > _SAME:
            found.add(0)
        for axis in {1, target.dim() - 1} - {0}:
            for shift in range(1, min(_AHEAD, target.shape[axis] - 1) + 1):
                length = target.shape[axis] - shift
                if _alike(x.narrow(axis, shift, length), target.narrow(axis, 0, length)):
                    found.add(shift)
    return sorted(found)


def _alike(x: Tensor, y: Tensor) -> bool:
    """Whether y is x, far more than that of another sample; most of x may be blank, and what is not counts."""
    own, other = (_share(one == y, _uncommon(one) & _uncommon(y)) for one in (x, x.roll(1, 0)))
    return own - other > 0.5 * (1 - other)


def _uncommon(x: Tensor) -> Tensor:
    """All but the most frequent value: padding and background are alike without a reason."""
    return x != x.flatten().mode().values


def _share(same: Tensor, where: Tensor) -> float:
    return float(same[where].float().mean()) if bool(where.any()) else 0.0


def sized(x: Tensor, shape: Sequence[int]) -> Tensor:
    """Cropped, or filled up with zeros, to this shape of all axes but the first."""
    if x.shape[1:] == tuple(shape):
        return x
    x = x[(slice(None), *(slice(size) for size in shape))]
    missing = [size - have for size, have in zip(shape, x.shape[1:], strict=True)]
    return functional.pad(x, [side for size in reversed(missing) for side in (0, size)])


class Standards:
    """Centre and deviation of every number of a sample, from all samples but the most extreme.

    Args:
        x: samples, then features, or channels and places. Places of one channel have one unit.

    Example:
        >>> x = torch.tensor([[1e6, 5.0], [1e6 + 2, math.nan], [1e6 + 1, 5.0]], dtype=torch.float64)
        >>> Standards(x)(x)[:, 0].tolist(), Standards(x)(x)[:, 1].tolist()
        ([-1.2247..., 1.2247..., 0.0], [0.0, 0.0, 0.0])
    """

    def __init__(self, x: Tensor) -> None:
        rows = torch.where(x.isfinite(), x, math.nan).flatten(1).T.contiguous()
        count = rows.isfinite().sum(1, keepdim=True)
        ordered, cut = rows.sort(dim=1).values, (_TAIL * count).long()  # nan comes last
        rows = rows.clamp(ordered.gather(1, cut), ordered.gather(1, (count - 1 - cut).clamp(min=0)))
        centre = rows.nanmean(1)
        spread = (rows - centre[:, None]).square().nanmean(1).sqrt()
        spread = torch.where(spread > 1e-7 * centre.abs(), spread, 0.0)  # otherwise rounding
        if x.dim() > 2:
            places = spread.reshape(x.shape[1], -1)
            usual = torch.where(places > 0, places, math.nan).nanmedian(1, keepdim=True).values.nan_to_num()
            spread = torch.maximum(places, _FLOOR * usual)
        self._centre = centre.nan_to_num().reshape(1, *x.shape[1:])
        self._factor = torch.where(spread > 0, 1 / spread, 0.0).reshape(1, *x.shape[1:])

    def __call__(self, x: Tensor) -> Tensor:
        """Numbers of about unit size; what is missing or infinite is zero, as is what was not seen before."""
        centre, factor = (sized(one, x.shape[1:]) for one in (self._centre, self._factor))
        return ((x - centre) * factor).nan_to_num(0.0, 0.0, 0.0).clamp(-_CLIPPED, _CLIPPED).float()


def _arranged(x: Tensor, outputs: Sequence[Tensor]) -> Tensor:
    """Samples with features, with channels and positions, or with channels, rows and columns.

    Example:
        >>> [tuple(_arranged(torch.ones(shape), []).shape) for shape in [(5,), (5, 9, 2), (5, 8, 8, 3)]]
        [(5, 1), (5, 2, 9), (5, 3, 8, 8)]
    """
    if x.dim() == 1:
        return x[:, None]
    if x.dim() == 3:
        matched = any(one.dim() > 2 and one.shape[1] == x.shape[1] and one.shape[2] != x.shape[2] for one in outputs)
        return x.transpose(1, 2) if matched or x.shape[1] >= x.shape[2] else x
    if x.dim() == 4 and x.shape[3] < x.shape[1]:
        x = x.permute(0, 3, 1, 2)
    if x.dim() > 4:
        x = x.flatten(1, -3)
    return x.flatten(2) if x.dim() == 4 and min(x.shape[2:]) == 1 else x


class InputReader:
    """Makes views of inputs.

    The largest tensor counts as what there is to look at; others are added to the flat view.

    Args:
        batches: inputs of the first batches, which statistics come from.
        outputs: what the answers look like, since positions may be recognised by them.
    """

    def __init__(self, batches: Sequence[Any], outputs: Sequence[Tensor]) -> None:
        self._outputs, self._shapes = outputs, dict[str, tuple[int, ...]]()
        self._main: int | None = None
        whole = [list(tensors(batch)) for batch in batches]
        size = {place: one.numel() for place, one in enumerate(whole[0]) if one.dim() and not one.is_nested}
        if not any(size.values()):
            raise Unfit
        samples = len(whole[0][max(size, key=lambda place: size[place])])
        places = [place for place in size if len(whole[0][place]) == samples]
        kinds = {p: max(_kinds(parts[p]) for parts in whole[:4]) for p in places if _are_tokens(whole[0][p])}
        self._tokens = max(kinds, key=lambda place: kinds[place], default=None)  # masks have fewer kinds
        numbers = [p for p in places if p not in kinds]
        if numbers:
            largest = max(numbers, key=lambda place: size[place])
            if self._tokens is None or size[largest] >= size[self._tokens]:
                self._main = largest
        self.vocabulary = 0
        if self._tokens is not None:
            most = max(int(parts[self._tokens].max()) for parts in whole)
            self.vocabulary = min(_VOCABULARY, max(1, most + 1))
        self._standards = {p: self._known([parts[p] for parts in whole], p) for p in places if p != self._tokens}

    def _known(self, parts: Sequence[Tensor], place: int) -> Standards:
        found = [self._numbers(one, place) for one in parts]
        enough = min(KNOWN, max(_FEWEST, _NUMBERS // found[0][0].numel()))
        return Standards(torch.cat([sized(one, found[0].shape[1:]) for one in found])[:enough])

    def _numbers(self, x: Tensor, place: int) -> Tensor:
        x = x.detach().to_dense() if x.layout is not torch.strided else x.detach()
        x = torch.view_as_real(x).flatten(-2) if x.is_complex() else x
        x = _arranged(x, self._outputs) if place == self._main else x.reshape(len(x), -1)
        if x.dim() == 4:
            x = x[(slice(None), *(slice(None, None, -(-n // _FULL)) for n in x.shape[1:]))]
        return x.cpu().double()

    def views(self, inputs: Any) -> Views:
        """The views of a batch."""
        parts, found, flat = list(tensors(inputs)), Views(), list[Tensor]()
        for place, standards in self._standards.items():
            x = standards(self._numbers(parts[place], place))
            if place == self._main:
                found |= _scenes(x)
                x = found.get("grid", x)
            if x.dim() == 3 and x[0].numel() > _FEATURES:
                x = functional.adaptive_avg_pool1d(x, max(1, _FEATURES // x.shape[1]))
            flat.append(sized(x, self._shapes.setdefault(f"{place}", tuple(x.shape[1:]))).flatten(1))
        if flat:
            found["flat"] = _sketched(torch.cat(flat, 1))
        if self._tokens is not None:
            tokens = parts[self._tokens].detach().cpu().long() % self.vocabulary
            found["tokens"] = tokens if tokens.dim() > 1 else tokens[:, None]
        return found


def _kinds(x: Tensor) -> int:
    return len(set(x.flatten().tolist()))


def _are_tokens(x: Tensor) -> bool:
    whole = not x.is_floating_point() and not x.is_complex() and x.dtype is not torch.bool
    return whole and x.dim() <= 2 and x.layout is torch.strided


def _scenes(x: Tensor) -> Views:
    """Images, whole and averaged; positions with their channels, and the other way round if it may be."""
    if x.dim() == 4:
        sides = (min(SIDE, x.shape[2]), min(SIDE, x.shape[3]))
        return {"full": x, "grid": x if sides == x.shape[2:] else functional.adaptive_avg_pool2d(x, sides)}
    if x.dim() == 3:
        line = x.transpose(1, 2)
        found = {"line": line, "points": line[:, :: -(-x.shape[2] // _POINTS)], "patches": _patched(x)}
        return found | ({"lane": x} if x.shape[1] >= _LANE and x.shape[2] <= _FEATURES else {})
    return {}


def _patched(x: Tensor) -> Tensor:
    """Channels and positions as positions with features, neighbours taken together where there are many.

    Example:
        >>> _patched(torch.ones(2, 3, 1000)).shape
        torch.Size([2, 62, 48])
    """
    size = -(-x.shape[2] // _PATCHES)
    count = x.shape[2] // size
    return x[:, :, : count * size].reshape(*x.shape[:2], count, size).transpose(1, 2).flatten(2)


def _sketched(x: Tensor) -> Tensor:
    """At most so many features: more are added up in random groups with random signs, which keeps distances."""
    if x.shape[1] <= _FEATURES:
        return x
    generator = torch.Generator().manual_seed(0)
    group = torch.randint(_FEATURES, (x.shape[1],), generator=generator)
    sign = 2.0 * torch.randint(2, (x.shape[1],), generator=generator) - 1
    return torch.zeros(len(x), _FEATURES).index_add_(1, group, x * sign) * math.sqrt(_FEATURES / x.shape[1])
