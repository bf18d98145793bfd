"""The same architecture initialised by the book: what a model is measured against."""

from __future__ import annotations

import math
from collections.abc import Callable, Collection
from contextlib import suppress
from typing import Any, cast

import torch
from torch import nn
from torch.nn.utils import parametrize

Tensor = torch.Tensor
_NORMS = (
    nn.modules.batchnorm._NormBase,
    nn.LayerNorm,
    nn.GroupNorm,
    nn.RMSNorm,
    nn.LocalResponseNorm,
)
_WEIGHTED = (nn.Linear, nn.modules.conv._ConvNd, nn.Bilinear)
_READOUT = 0.1
_LEFT = 0.3  # of their size that values may be below zero behind a ReLU and its smooth relatives


def by_the_book_(
    model: nn.Module,
    forward: Callable[[nn.Module], Any],
    *,
    seed: int,
    only: Collection[str] | None = None,
    alone: bool = False,
) -> list[str]:
    """Initialise a model by the book, in place.

    Matrices are Gaussian with variance 1 / fan-in and then scaled, in one pass over a batch, so that what each layer
    returns has mean square 1; biases are zero, norms have gain 1, recurrent weights are orthogonal with open forget
    gates, embeddings have variance 1, or unit length where they are the readout too. The last layer returns a tenth of
    that: the model starts at chance. All parameters are trained. What belongs to no known module stays as it is.

    Args:
        model: to be changed.
        forward: runs the model on a batch.
        seed: seed of the weights.
        only: names of the modules to initialise, all by default; the others stay as they are.
        alone: scale layers so that outputs are as large as inputs, instead of size 1; they then do not compensate for
            what others do.

    Returns:
        Names of parameters that stayed as they were.

    Example:
        >>> blocks = [m for _ in range(30) for m in (nn.Linear(64, 64), nn.Tanh())]
        >>> model = nn.Sequential(*blocks, nn.Linear(64, 4))
        >>> x = torch.randn(16, 64, generator=torch.Generator().manual_seed(0))
        >>> by_the_book_(model, lambda m: m(1000 * x), seed=0)
        []
        >>> hidden = nn.Sequential(*blocks[:-1])(1000 * x)
        >>> round(hidden.square().mean().item(), 2), 0.05 < model(1000 * x).std().item() < 0.2
        (1.0, True)
    """
    generator = torch.Generator().manual_seed(seed)
    known: set[int] = set()
    with torch.no_grad():
        chosen = [module for name, module in model.named_modules() if only is None or name in only]
        for parameter in (p for module in chosen for p in module.parameters(recurse=False)):
            if parameter.is_floating_point():
                parameter.requires_grad_()
        layers = {id(p) for m in model.modules() if isinstance(m, _WEIGHTED) for p in m.parameters(recurse=False)}
        for module in chosen:
            if _redrawn(module, generator, layers):
                known.update(id(p) for p in module.parameters())
        for module in chosen:  # not before: a readout that shares the weight is drawn after the embedding
            if isinstance(module, (nn.Embedding, nn.EmbeddingBag)) and module.padding_idx is not None:
                module.weight.data[module.padding_idx].zero_()
        _scaled(model, forward, {id(module) for module in chosen}, alone=alone)
    return [name for name, parameter in model.named_parameters() if id(parameter) not in known]


def is_known(module: nn.Module) -> bool:
    """Whether the book says how to initialise a module's own parameters.

    Example:
        >>> is_known(nn.Linear(2, 2)), is_known(nn.ParameterList([torch.ones(2, 2)]))
        (True, False)
    """
    known = (*_NORMS, *_WEIGHTED, nn.RNNBase, nn.RNNCellBase, nn.MultiheadAttention, nn.Embedding, nn.EmbeddingBag)
    return isinstance(module, known) or type(module).__name__.endswith(("LayerNorm", "RMSNorm", "Conv1D"))


def _redrawn(module: nn.Module, generator: torch.Generator, layers: set[int]) -> bool:
    """Draw the module's own parameters anew; whether it is of a known kind. `layers` are the parameters of layers."""
    if isinstance(module, _NORMS) or type(module).__name__.endswith(("LayerNorm", "RMSNorm")):
        _fill(getattr(module, "weight", None), 1.0)
        _fill(getattr(module, "bias", None), 0.0)
        return True
    if isinstance(module, nn.RNNBase):
        for name, parameter in module.named_parameters(recurse=False):
            _recurrent(name, parameter, module, generator)
        return True
    if isinstance(module, nn.MultiheadAttention):
        for name, parameter in module.named_parameters(recurse=False):
            if parameter.dim() > 1:
                _gaussian(parameter, parameter.shape[-1], generator)
            elif name.endswith("bias"):
                _fill(parameter, 0.0)
        return True
    if isinstance(module, (nn.Embedding, nn.EmbeddingBag)):
        _gaussian(module.weight, module.weight.shape[1] if id(module.weight) in layers else 1, generator)
        return True
    if isinstance(module, (*_WEIGHTED, nn.RNNCellBase)) or type(module).__name__ == "Conv1D":
        for name, parameter in module.named_parameters(recurse=False):
            if parameter.dim() > 1:
                _gaussian(parameter, _fan_in(module, parameter), generator)
            elif "bias" in name:
                _fill(parameter, 0.0)
        if parametrize.is_parametrized(module, "weight"):
            fresh = torch.empty_like(cast(Tensor, module.weight))
            _gaussian(fresh, _fan_in(module, fresh), generator)
            with suppress(Exception):  # not every parametrization can be given a weight
                module.weight = fresh
        return True
    return False


def _fill(parameter: Any, value: float) -> None:
    if isinstance(parameter, Tensor) and parameter.is_floating_point():
        parameter.data.fill_(value)


def _gaussian(parameter: Tensor, fan_in: int, generator: torch.Generator) -> None:
    if parameter.is_floating_point():
        drawn = torch.randn(parameter.shape, generator=generator) / math.sqrt(max(1, fan_in))
        parameter.data.copy_(drawn.to(parameter))


def _fan_in(module: nn.Module, weight: Tensor) -> int:
    if isinstance(module, nn.modules.conv._ConvTransposeNd):
        return weight[:, 0].numel() // math.prod(module.stride)
    if type(module).__name__ == "Conv1D":  # of transformers: inputs first
        return weight.shape[0]
    return weight[0].numel()


def _recurrent(name: str, parameter: Tensor, module: nn.RNNBase, generator: torch.Generator) -> None:
    size = module.hidden_size
    if name.startswith("weight_hh"):
        for block in torch.split(parameter.data, size):
            square = torch.linalg.qr(torch.randn(max(block.shape), max(block.shape), generator=generator))[0]
            block.copy_(square[: block.shape[0], : block.shape[1]].to(block))
    elif parameter.dim() > 1:
        _gaussian(parameter, parameter.shape[1], generator)
    else:
        _fill(parameter, 0.0)
        if isinstance(module, nn.LSTM) and name.startswith("bias_ih"):
            parameter.data[size : 2 * size] = 1.0  # the forget gate


def _scaled(model: nn.Module, forward: Callable[[nn.Module], Any], chosen: set[int], *, alone: bool) -> None:
    """Scale each chosen layer in the order in which they are called, all in one pass; the last of all to a tenth.

    What a layer returns gets mean square 1, or, `alone`, that of what it is given.
    """
    done: dict[int, nn.Module] = {}

    def scale(module: nn.Module, given: Any, output: Any) -> Any:
        if id(module) in done or not isinstance(output, Tensor) or not output.is_floating_point():
            return None
        done[id(module)] = module
        if id(module) not in chosen:
            return None
        try:
            size = float(output.float().square().mean().sqrt())
            if alone and given and isinstance(given[0], Tensor) and given[0].is_floating_point():
                size /= _size_given(given[0]) or math.inf
        except RuntimeError:  # under vmap there is no number to read
            return None
        if not math.isfinite(size) or size <= 0 or not _times(module, 1 / size):
            return None
        return output / size

    handles = [
        module.register_forward_hook(scale)
        for module in model.modules()
        if not isinstance(module, torch.jit.ScriptModule)  # these take no hooks
        and (isinstance(module, _WEIGHTED) or type(module).__name__ == "Conv1D")
    ]
    try:
        forward(model)
    finally:
        for handle in handles:
            handle.remove()
    if done and id(last := list(done.values())[-1]) in chosen:
        _times(last, _READOUT)


def _size_given(values: Tensor) -> float:
    """Root mean square of what a layer is given, before a nonlinearity that left only one side of it."""
    size = float(values.float().square().mean().sqrt())
    one_sided = float(values.min()) > -_LEFT * size
    return math.sqrt(2) * size if one_sided else size


def _times(module: nn.Module, factor: float) -> bool:
    """Multiply a layer's weight; whether that was possible. Its bias is zero."""
    layer: Any = module
    try:
        if parametrize.is_parametrized(layer, "weight"):
            layer.weight = layer.weight * factor
        elif "weight_g" in layer._parameters:  # torch.nn.utils.weight_norm makes the weight anew in every pass
            layer.weight_g.data.mul_(factor)
        else:
            layer.weight.data.mul_(factor)
    except Exception:  # a parametrization that admits no other scale
        return False
    return True
