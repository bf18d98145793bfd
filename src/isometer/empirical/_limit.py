"""The kernel of a model beside that of its architecture at infinite width.

Theory trains ω in W = σω/√d, and a model trains W: each layer's part of its tangent kernel lacks the factor σ²/d. Here
every part gets the mean square of the layer's weights for it, outputs are averaged, and the readout's size is divided
out, since the readout of the theory has gain 1. Then the two agree in the limit, with no factor between them.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn

from isometer.doctor.prediction import ExtractedChain, extract, why_not
from isometer.doctor.probe import Examination, probe
from isometer.doctor.probe._examine import checked
from isometer.empirical._comparison import kernel_distance
from isometer.empirical._kernel import empirical_kernel
from isometer.empirical._result import Kind
from isometer.errors import IsometerError
from isometer.theory.chains import kernels_of

Tensor = torch.Tensor
Floats = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class LimitComparison:
    """A kernel of a model beside the one of its spec at infinite width.

    Attributes:
        kind: "ntk" or "nngp".
        measured: of the model, (n, n), in the parametrisation of the theory.
        limit: of the spec, (n, n).
        spec: the spec that was found in the model.
        note: what was assumed.
    """

    kind: Kind
    measured: Floats
    limit: Floats
    spec: str
    note: str

    @property
    def distance(self) -> float:
        """‖measured − limit‖/‖limit‖."""
        return float(np.linalg.norm(self.measured - self.limit) / np.linalg.norm(self.limit))

    @property
    def turned(self) -> float:
        """The same at the scale that fits best: what is left when only the size differs."""
        return kernel_distance(self.limit, self.measured)


def compare_with_limit(
    model: nn.Module,
    batch: Tensor,
    *,
    kind: Kind = "ntk",
    mode: Literal["train", "eval"] = "train",
    seed: int = 0,
) -> LimitComparison:
    """How far a model's kernel is from that of its architecture at infinite width, with weights of the same size.

    Args:
        model: a chain of fully connected layers, from the input to a linear readout.
        batch: (n, features).
        kind: "ntk", or "nngp" of what the readout reads.
        mode: "train" or "eval".
        seed: of dropout.

    Returns:
        `LimitComparison`. Gains and biases of norms are trained in models and not in the theory: they are left out.
        A spec has one variance of biases; a model whose layers differ in it is compared with the mean.

    Raises:
        IsometerError: the model is no such chain; the message says where it is not.

    Example:
        >>> _ = torch.manual_seed(0)
        >>> sizes = (4, 900, 900, 900)
        >>> layers = [one for a, b in zip(sizes, sizes[1:]) for one in (nn.Linear(a, b, bias=False), nn.ReLU())]
        >>> found = compare_with_limit(nn.Sequential(*layers, nn.Linear(900, 3)), torch.randn(5, 4))
        >>> found.distance < 0.2
        True
    """
    model = checked(model, target=None, loss=None, mode=mode)
    examination = probe(model, batch, mode=mode, seed=seed)
    chain = extract(model, examination)
    if chain is None:
        raise IsometerError(
            f"the model has no spec at infinite width: {why_not(model, examination)} — compare a chain of fully "
            "connected layers"
        )
    head = _readout(chain, examination)
    theory = kernels_of(chain.spec, _numpy(batch), kinds=(kind,)).matrices[kind]
    limit = theory.matrix * float(np.exp(theory.log_diagonal.max()))
    if kind == "nngp":
        h = empirical_kernel(model, batch, kind="nngp", mode=mode, seed=seed)
        return LimitComparison(kind, h.matrix, limit, str(chain.spec), chain.note)
    kernel = empirical_kernel(model, batch, mode=mode, by="parameter", seed=seed)
    measured = _in_theory_units(kernel.parts, dict(model.named_parameters()), chain, head)
    return LimitComparison(kind, measured, limit, str(chain.spec), chain.note)


def _readout(chain: ExtractedChain, examination: Examination) -> str:
    """The name of the linear readout; the chain must lead from the input to it."""
    if chain.layers[0] != 0:
        first = examination.sites[chain.layers[0]].name
        raise IsometerError(
            f"the chain that a spec describes begins after {first!r}; expected one from the input on — compare a model "
            "whose layers have equal blocks from the first one on"
        )
    if chain.head is None or chain.head != len(examination.sites) - 1:
        raise IsometerError("nothing but a linear readout may follow the chain; expected one — end the model with it")
    return examination.sites[chain.head].name


def _in_theory_units(
    parts: dict[str, Floats], parameters: dict[str, nn.Parameter], chain: ExtractedChain, head: str
) -> Floats:
    readout = parameters[f"{head}.weight"]
    outputs, width = readout.shape
    size = float(readout.detach().double().square().mean()) * width  # the readout's gain, squared
    if size == 0.0:
        raise IsometerError(f"the readout {head!r} is zero: no other layer has a gradient — draw its weights first")
    total = parts[f"{head}.weight"] / (width * outputs)
    for name in chain.modules:
        for kind in ("weight", "bias"):
            one = parameters.get(f"{name}.{kind}")
            if one is None or f"{name}.{kind}" not in parts:
                continue
            square = float(one.detach().double().square().mean()) if kind == "weight" else chain.spec.bias_variance
            total = total + square * parts[f"{name}.{kind}"] / (size * outputs)
    return total


def _numpy(batch: Any) -> Floats:
    if not isinstance(batch, Tensor) or batch.dim() != 2:
        came = f"shape {tuple(batch.shape)}" if isinstance(batch, Tensor) else f"a {type(batch).__name__}"
        raise IsometerError(f"batch has {came}; expected (samples, features) — flatten it")
    return np.asarray(batch.detach().double().cpu().numpy())
