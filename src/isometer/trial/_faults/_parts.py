"""The parts of a model that faults change; `NotApplicable` where it has none."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from torch import nn

from isometer.trial._faults._fault import NotApplicable
from isometer.trial._specimen import Specimen, called

EMBEDDINGS = (nn.Embedding, nn.EmbeddingBag)


def at(things: Sequence[Any], place: float) -> Any:
    """The thing at a share of the way through a list."""
    if not things:
        raise NotApplicable
    return things[min(int(place * len(things)), len(things) - 1)]


def weight_matrices(specimen: Specimen) -> list[nn.Parameter]:
    """Weights of layers: everything with two or more dimensions that is no table of embeddings, each once."""
    tables = {id(m.weight) for m in specimen.model.modules() if isinstance(m, EMBEDDINGS)}
    found = dict.fromkeys(
        p for p in specimen.model.parameters() if p.dim() > 1 and id(p) not in tables and p.numel() > 8
    )
    if len(found) < 2:
        raise NotApplicable
    return list(found)


def _has_matrix(module: nn.Module) -> bool:
    weight = getattr(module, "weight", None)
    return isinstance(weight, nn.Parameter) and weight.dim() > 1


def layer_biases(specimen: Specimen) -> list[nn.Parameter]:
    """Biases of layers with weights, not of norms."""
    found = [
        bias
        for m in specimen.model.modules()
        if isinstance(bias := getattr(m, "bias", None), nn.Parameter) and _has_matrix(m)
    ]
    if not found:
        raise NotApplicable
    return found


def readout_layer(specimen: Specimen) -> nn.Module:
    """The last layer with weights that is called."""
    layers = [m for m in called(specimen) if _has_matrix(m)]
    if not layers:
        raise NotApplicable
    return layers[-1]


def replace(specimen: Specimen, old: nn.Module, new: nn.Module) -> None:
    """Put another module in the place of one, wherever it is."""
    for parent in list(specimen.model.modules()):
        for name, child in parent.named_children():
            if child is old:
                setattr(parent, name, new)
