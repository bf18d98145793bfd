"""What an initialiser did."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType


@dataclass(frozen=True)
class LayerOutcome:
    """One layer that was set.

    Attributes:
        name: path of the module, empty for a bare tensor.
        shape: shape of the weights.
        gain: standard deviation of the weights times √fan_in, as they are now.
        numbers: what else the scheme measured there.

    Example:
        >>> LayerOutcome("0", (4, 3), 1.0).numbers
        mappingproxy({})
    """

    name: str
    shape: tuple[int, ...]
    gain: float
    numbers: Mapping[str, float] = field(default_factory=lambda: MappingProxyType({}))


@dataclass(frozen=True)
class InitOutcome:
    """What an initialiser did: the layers that it set, in order, and those which it left alone and why.

    Example:
        >>> import torch
        >>> from isometer.init import haar_orthogonal_
        >>> outcome = haar_orthogonal_(torch.nn.Sequential(torch.nn.Linear(3, 5), torch.nn.ReLU()))
        >>> outcome.scheme, [layer.name for layer in outcome.layers], outcome.skipped
        ('haar-orthogonal', ['0'], ())
    """

    scheme: str
    layers: tuple[LayerOutcome, ...]
    skipped: tuple[tuple[str, str], ...] = ()
