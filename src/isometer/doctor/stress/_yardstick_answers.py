"""Answers of the learners of a yardstick: in the shape of a model's output, from the best constant on."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, Literal

import torch
from torch.nn import functional

from isometer.doctor.probe._tensor_trees import dense, map_tensors
from isometer.doctor.stress._material import Material, written
from isometer.doctor.stress._objectives import _axis_of_log_probabilities
from isometer.doctor.stress._yardstick_views import Views

Tensor = torch.Tensor
Form = Literal["position", "channels first", "rows", "grid", "sample"]
_MOST, _MOST_OF_ALL = 1 << 12, 1 << 22  # numbers per sample and per batch that a learner may be asked for
_MOST_POSITIONS = 1 << 15  # of a batch
_TRIED, _AS_GOOD = 8, 0.02  # batches that constants are tried on, and share of the loss that is no difference


@dataclass(frozen=True, eq=False)
class AnswerShape:
    """An output that the loss reads, and how numbers become one like it.

    Attributes:
        like: what the model returned.
        form: to what the numbers belong: samples, positions (with the positions on axis 1, on axis 2 or in rows with
            the samples), or places of an image.
        size: numbers to each of these.
        offset: the answer to start from.
        scale: scale of a number.
        along: the axis of log-probabilities, if it has one.
    """

    like: Tensor
    form: Form
    size: int
    offset: Tensor
    scale: Tensor
    along: int | None

    def __call__(self, x: Tensor) -> Tensor:
        """The answer: x has numbers on the last axis, after samples, positions, or rows and columns."""
        shape = self.like.shape
        if self.form == "position":
            x = x.reshape(*x.shape[:2], *shape[2:])
        elif self.form == "channels first":
            x = x.transpose(1, 2)
        elif self.form == "grid":
            x = x.permute(0, 3, 1, 2)
            x = x if x.shape[2:] == shape[2:] else functional.interpolate(x, tuple(shape[2:]))
        else:
            x = x.reshape(-1, *shape[1:])
        return _answered(self.offset + self.scale * x, self.like, self.along)


def _answered(x: Tensor, like: Tensor, along: int | None) -> Tensor:
    return (x if along is None else x.log_softmax(along)).to(like)


def used_outputs(material: Material, output: Any, target: Any) -> tuple[list[Tensor], bool]:
    """The tensors of an output that the loss reads, and whether it reads the last position of each."""
    found = dense(output)
    leaves = {id(one): one.detach().clone().requires_grad_() for one in found}
    value = material.loss(map_tensors(lambda one: leaves.get(id(one), one), output), written(target))
    slopes = torch.autograd.grad(value, list(leaves.values()), allow_unused=True)
    used = [(one, slope) for one, slope in zip(found, slopes, strict=True) if slope is not None]
    to_the_end = all(one.dim() < 3 or bool((slope[:, -1] != 0).any()) for one, slope in used)
    return [one for one, _ in used], to_the_end


def forms_of(like: Tensor, views: Views) -> dict[Form, int]:
    """The forms that an output may have, with the numbers to each place."""
    found: dict[Form, int] = {}
    shape, places = like.shape, views.get("tokens", views.get("line"))
    samples, length = len(next(iter(views.values()))), 0 if places is None else places.shape[1]
    if like.numel() > _MOST_OF_ALL:
        return found
    length = length if samples * length <= _MOST_POSITIONS else 0
    if length > 1 and shape[0] == samples * length:
        found["rows"] = shape[1:].numel()
    if shape[0] != samples:
        return found
    if length > 1 and like.dim() > 2 and shape[1] == length:
        found["position"] = shape[2:].numel()
    elif length > 1 and like.dim() == 3 and shape[2] == length:
        found["channels first"] = shape[1]
    if "full" in views and like.dim() == 4:
        found["grid"] = shape[1]
    if shape[1:].numel() <= _MOST and not (found and "tokens" in views):
        found["sample"] = shape[1:].numel()
    if length > 1 and like.dim() == 2 and shape[1] == length:
        found["position"] = 1
    return found


SHARED: dict[Form, tuple[int, ...]] = {
    "position": (0, 1),
    "channels first": (0, 2),
    "rows": (0,),
    "grid": (0, 2, 3),
    "sample": (0,),
}
"""The axes along which answers start alike."""


def _starts(like: Tensor, form: Form, targets: Sequence[Any]) -> Iterator[tuple[Tensor, Tensor]]:
    """Constants that may be the best one, each with a scale: what the targets suggest, and zero."""
    first, one = targets[0], torch.ones(())
    alike = [y.detach().cpu() for y in targets if isinstance(y, Tensor) and _shape(y)[1:] == _shape(first)[1:]]
    if isinstance(first, Tensor) and first.is_floating_point() and first.numel() == like.numel():
        y = torch.cat([y.double().reshape(-1, *like.shape[1:]) for y in alike])
        y = torch.where(y.isfinite(), y, math.nan)
        mean = y.nanmean(SHARED[form], keepdim=True).nan_to_num()
        spread = (y - mean).square().nanmean(SHARED[form], keepdim=True).nan_to_num().sqrt()
        usual = spread.square().mean().sqrt()
        yield mean.float(), torch.maximum(spread, 0.05 * usual).float() if usual > 0 else one
        if not bool(((y < 0) | (y > 1)).any()):  # maybe shares, or yes and no
            yield mean.clamp(1e-3, 1 - 1e-3).logit().float(), one
    elif isinstance(first, Tensor) and not first.is_floating_point():
        y = torch.cat([y.flatten() for y in alike]).long()
        for axis in {1, like.dim() - 1} if like.dim() > 1 else ():
            classes = like.shape[axis]
            if classes > 1 and classes * first.numel() == like.numel():
                counts = torch.bincount(y[(y >= 0) & (y < classes)], minlength=classes) + 0.5
                yield (counts / counts.sum()).log().reshape([-1 if a == axis else 1 for a in range(like.dim())]), one
    yield torch.zeros(()), one


def answer_like(
    material: Material, output: Any, like: Tensor, form: Form, size: int, targets: Sequence[Any]
) -> AnswerShape:
    """An answer in the place of one tensor of an output, which starts from the best constant."""
    along = _axis_of_log_probabilities(like)
    alike = [y for y in targets if _shape(y) == _shape(targets[0])][:_TRIED]
    found: list[tuple[float, Tensor, Tensor]] = []
    for offset, scale in _starts(like, form, targets):
        constant = _answered(offset.expand(like.shape), like, along)
        value = math.inf
        with suppress(Exception):  # a loss may not take every constant
            value = sum(float(material.loss(_replaced(output, like, constant), written(y)).detach()) for y in alike)
        found.append((value if math.isfinite(value) else math.inf, offset, scale))
    least = min(value for value, _, _ in found)
    # The first that is as good: it knows the scale best.
    _, offset, scale = next(one for one in found if one[0] <= least + _AS_GOOD * abs(least))
    return AnswerShape(like, form, size, offset, scale, along)


def _shape(target: Any) -> tuple[int, ...]:
    return tuple(target.shape) if isinstance(target, Tensor) else ()


def _replaced(output: Any, like: Tensor, other: Tensor) -> Any:
    return map_tensors(lambda one: other if one is like else one.detach(), output)
