"""Weights, biases and norms that are not as anybody draws them: each module beside the book and beside its siblings."""

from __future__ import annotations

import math
import statistics
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import torch
from torch import nn

from isometer.doctor.causes._repair import Repair, RepairKind
from isometer.doctor.stress._reference import by_the_book_, is_known

Tensor = torch.Tensor
Forward = Callable[[nn.Module], Any]
_USUAL = (0.08, 2.5)  # root mean square times √fan-in that initialisers of common libraries give
_TABLES = (0.01, 3.0)  # the same of embeddings, whose entries are not divided by a fan-in
_SPREAD = 0.3  # decades between siblings that mean nothing
_BIAS = 0.5  # entries of biases, where the signal is of size 1
_EPS = 1e-2  # of norms, beside a variance of 1
_MOST = 256  # rows and columns of a matrix whose rank is looked at


@dataclass(frozen=True)
class _Oddity:
    """What is odd about a module: how much, and in words."""

    deviation: float
    words: str


def weight_repairs(model: nn.Module, forward: Forward, *, seed: int) -> list[Repair]:
    """A repair for every module with parameters of its own: initialised by the book, norms reset, everything trained.

    Args:
        model: the model; it is only read.
        forward: runs a model on a batch, for the scales of redrawn layers.
        seed: seed of what is drawn.

    Example:
        >>> model = nn.Sequential(*[nn.Linear(16, 16) for _ in range(6)])
        >>> model[3].weight.data *= 100
        >>> found = weight_repairs(model, lambda m: m(torch.randn(8, 16)), seed=0)
        >>> worst = max(found, key=lambda one: one.deviation)
        >>> worst.modules, worst.deviation > 3
        (('3',), True)
    """
    modules = {name: module for name, module in model.named_modules() if _own(module)}
    typical = _typical(modules)
    found = []
    for name, module in modules.items():
        odd = max(_oddities(module, typical), key=lambda one: one.deviation, default=_Oddity(0.0, ""))
        kind: RepairKind = "norm" if _is_norm(module) else "weights"
        verb = "Reset" if kind == "norm" else "Redraw the weights of"
        redraw = Redraw(frozenset({name}), forward, seed)
        found.append(Repair(kind, (name,), f"{verb} {shown(name)}.", odd.words, odd.deviation, redraw))
        if not all(p.requires_grad for p in module.parameters(recurse=False) if p.is_floating_point()):
            found.append(
                Repair(
                    "frozen",
                    (name,),
                    f"Train {shown(name)}: set requires_grad.",
                    "its parameters are not trained",
                    1.0,
                    _Train(name),
                )
            )
    return found


def shown(name: str) -> str:
    """A module's name for people.

    Example:
        >>> shown("blocks.3"), shown("")
        ('`blocks.3`', 'the model itself')
    """
    return f"`{name}`" if name else "the model itself"


@dataclass(frozen=True)
class Redraw:
    """Initialise modules by the book, all at once, and put settings of norms back to the usual ones.

    At once, since the scale of a layer follows from what reaches it.

    Attributes:
        names: of the modules.
        forward: runs a model on a batch.
        seed: seed of what is drawn.
    """

    names: frozenset[str]
    forward: Forward
    seed: int

    def __call__(self, model: nn.Module) -> None:
        generator = torch.Generator().manual_seed(self.seed)
        for module in (module for name, module in model.named_modules() if name in self.names):
            if _is_norm(module):
                _usual_settings(module, model.training)
            if not is_known(module):
                for parameter in module.parameters(recurse=False):
                    # Nobody knows on which side of such a matrix its inputs are, so take the longer one.
                    if parameter.dim() > 1 and parameter.is_floating_point():
                        drawn = torch.randn(parameter.shape, generator=generator) / math.sqrt(max(parameter.shape[-2:]))
                        parameter.data.copy_(drawn.to(parameter))
        by_the_book_(model, self.forward, seed=self.seed, only=self.names, alone=True)


@dataclass(frozen=True)
class _Train:
    """Have a module's parameters trained."""

    name: str

    def __call__(self, model: nn.Module) -> None:
        for parameter in model.get_submodule(self.name).parameters(recurse=False):
            if parameter.is_floating_point():
                parameter.requires_grad_()


def _usual_settings(module: Any, training: bool) -> None:
    for name in ("eps", "variance_epsilon"):
        if isinstance(getattr(module, name, None), float) and getattr(module, name) > _EPS:
            setattr(module, name, 1e-5)
    module.train(training)


def _own(module: nn.Module) -> bool:
    return any(p.is_floating_point() for p in module.parameters(recurse=False)) or (
        _is_norm(module) and not any(module.children())
    )


def _is_norm(module: nn.Module) -> bool:
    return "norm" in type(module).__name__.lower() and not any(p.dim() > 1 for p in module.parameters(recurse=False))


def _matrices(module: nn.Module) -> Iterator[Tensor]:
    for parameter in module.parameters(recurse=False):
        if parameter.dim() > 1 and parameter.is_floating_point() and parameter.numel() and not parameter.is_meta:
            yield parameter.detach().float()


def _size(module: nn.Module, weight: Tensor) -> float:
    """Root mean square times √fan-in: 1 by the book."""
    root = float(weight.double().square().mean().sqrt())
    if isinstance(module, (nn.Embedding, nn.EmbeddingBag)):
        return root
    if isinstance(module, nn.modules.conv._ConvTransposeNd):
        return root * math.sqrt(weight[:, 0].numel() / math.prod(module.stride))
    fan_in = weight.shape[0] if type(module).__name__ == "Conv1D" else weight[0].numel()
    return root * math.sqrt(fan_in)


def _group(module: nn.Module) -> tuple[Any, ...]:
    """Siblings: modules of one class, whatever their width."""
    return (type(module),)


def _typical(modules: Mapping[str, nn.Module]) -> dict[tuple[Any, ...], tuple[float, int]]:
    """The middle size of the matrices of each group of siblings, and how many there are."""
    sizes: dict[tuple[Any, ...], list[float]] = defaultdict(list)
    for module in modules.values():
        sizes[_group(module)] += [size for w in _matrices(module) if 0 < (size := _size(module, w)) < math.inf]
    return {group: (statistics.median(found), len(found)) for group, found in sizes.items() if found}


def _oddities(module: nn.Module, typical: Mapping[tuple[Any, ...], tuple[float, int]]) -> Iterator[_Oddity]:
    for parameter in module.parameters(recurse=False):
        if parameter.is_floating_point() and not bool(parameter.detach().isfinite().all()):
            yield _Oddity(6.0, "its parameters are not finite")
            return
    if _is_norm(module):
        yield from _odd_norm(module)
        return
    for weight in _matrices(module):
        yield from _odd_scale(module, weight, typical.get(_group(module)))
        yield from _odd_shape(module, weight)
    bias = getattr(module, "bias", None)
    if isinstance(bias, Tensor) and bias.numel():
        size = float(bias.detach().double().square().mean().sqrt())
        if size > _BIAS:
            yield _Oddity(2 * math.log10(size / _BIAS), f"its biases are of size {size:.2g}")


def _odd_scale(module: nn.Module, weight: Tensor, typical: tuple[float, int] | None) -> Iterator[_Oddity]:
    size = _size(module, weight)
    if size == 0:
        yield _Oddity(1.5, "its weights are all zero")  # often on purpose: training tells
        return
    low, high = _TABLES if isinstance(module, (nn.Embedding, nn.EmbeddingBag)) else _USUAL
    outside = max(math.log10(size / high), math.log10(low / size))
    if outside > 0:
        times, bound = (size / high, "largest") if size > high else (size / low, "smallest")
        yield _Oddity(2 * outside + 0.3, f"its weights are {times:.2g} times the {bound} that initialisers give")
    if typical is not None and typical[1] > 2:
        ratio = size / typical[0]
        away = abs(math.log10(ratio)) - _SPREAD
        if away > 0:
            yield _Oddity(2 * away + 0.3, f"its weights are {ratio:.2g} times as large as those of its siblings")


def _odd_shape(module: nn.Module, weight: Tensor) -> Iterator[_Oddity]:
    """Oddities of a matrix whatever its scale: rows, signs, zeros, rank."""
    flat = weight.reshape(weight.shape[0], -1).double()
    if min(flat.shape) < 4 or isinstance(module, (nn.Embedding, nn.EmbeddingBag)):
        return
    rows = flat.norm(dim=1)
    middle = float(rows.median())
    if middle > 0 and (largest := float(rows.max()) / middle) > 4:
        yield _Oddity(2 * math.log10(largest / 4) + 1, f"one of its rows is {largest:.2g} times as large as the others")
    root = float(flat.square().mean().sqrt())
    if root > 0 and (leaning := abs(float(flat.mean())) / root) > 0.5:
        yield _Oddity(3 * leaning, "its weights have one sign")
    zeros = float((flat == 0).double().mean())
    if root > 0 and zeros > 0.5:
        yield _Oddity(0.5 + 3 * (zeros - 0.5), f"{zeros:.0%} of its weights are zero")
    corner = flat[:_MOST, :_MOST]
    values = torch.linalg.svdvals(corner)
    if min(corner.shape) >= 8 and float(values[0]) > 0:
        rank = int((values > 1e-4 * values[0]).sum())
        if rank <= min(corner.shape) / 3 and zeros < 0.5:
            yield _Oddity(3.0, f"its weights have rank {rank}")


def _odd_norm(module: Any) -> Iterator[_Oddity]:
    gain = getattr(module, "weight", None)
    if isinstance(gain, Tensor) and gain.numel():
        size = float(gain.detach().double().square().mean().sqrt())
        if size == 0:
            yield _Oddity(1.0, "its gain is zero")
        elif abs(math.log10(size)) > _SPREAD:
            yield _Oddity(2 * (abs(math.log10(size)) - _SPREAD) + 0.3, f"its gain is {size:.2g}")
    shift = getattr(module, "bias", None)
    if isinstance(shift, Tensor) and shift.numel():
        size = float(shift.detach().double().square().mean().sqrt())
        if size > 2 * _BIAS:
            yield _Oddity(2 * math.log10(size / _BIAS), f"its shift is of size {size:.2g}")
    for name in ("eps", "variance_epsilon"):
        eps = getattr(module, name, None)
        if isinstance(eps, float) and eps > _EPS:
            yield _Oddity(min(4.0, math.log10(eps / _EPS)), f"its eps is {eps:.2g}, so it hardly normalises")
    if isinstance(module, nn.modules.batchnorm._NormBase) and not module.training:
        yield _Oddity(1.5, "it uses running statistics while the model is trained")


__all__ = ["Redraw", "shown", "weight_repairs"]
