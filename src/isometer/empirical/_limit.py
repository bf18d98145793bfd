"""The kernel of a model beside that of its architecture at infinite width.

Theory trains ω in W = σω/√d, and a model trains W: each layer's part of its tangent kernel lacks the factor σ²/d. Here
every part gets the mean square of the layer's weights for it, and outputs are averaged. Then the two agree in the
limit, with no factor between them.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn

from isometer.doctor.prediction import ExtractedNetwork, extract_network, why_no_network
from isometer.doctor.probe import Examination, probe
from isometer.doctor.probe._examine import checked
from isometer.empirical._comparison import kernel_distance
from isometer.empirical._kernel import empirical_kernel
from isometer.empirical._result import Kind
from isometer.errors import IsometerError
from isometer.spec import Bias, Composition, Dense
from isometer.spec._language import word_of
from isometer.theory.chains import kernels_of

Tensor = torch.Tensor
Floats = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class LimitComparison:
    """A kernel of a model beside the one of its spec at infinite width.

    Attributes:
        kind: "ntk" or "nngp".
        measured: kernel of the model, (n, n), in the parametrisation of the theory.
        limit: kernel of the spec at infinite width, (n, n).
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
        model: what `extract_network` describes as a whole, from the input to a linear readout: chains, residual and
            convolutional networks.
        batch: (n, features), or (n, channels, *positions).
        kind: "ntk", or "nngp" of what the readout reads.
        mode: "train" or "eval".
        seed: seed of dropout.

    Returns:
        `LimitComparison`. Gains and biases of norms are trained in models and not in the theory: they are left out.

    Raises:
        IsometerError: the language of networks does not describe the whole model, or theory has no such kernel.
        TooMuchWorkError: positions squared times pairs of samples are too many; see `isometer.work`.

    Example:
        >>> _ = torch.manual_seed(0)
        >>> sizes = (4, 900, 900, 900)
        >>> layers = [one for a, b in zip(sizes, sizes[1:]) for one in (nn.Linear(a, b, bias=False), nn.ReLU())]
        >>> found = compare_with_limit(nn.Sequential(*layers, nn.Linear(900, 3)), torch.randn(5, 4))
        >>> found.distance < 0.2
        True
    """
    model = checked(model, target=None, loss=None, mode=mode)
    inputs = _numpy(batch)
    network = _whole_network(model, probe(model, batch, mode=mode, seed=seed))
    spec = network.spec if kind == "ntk" else _without_readout(network.spec)
    theory = kernels_of(spec, inputs, kinds=(kind,)).matrices[kind]
    limit = theory.matrix * float(np.exp(theory.log_diagonal.max()))
    if kind == "nngp":
        measured = empirical_kernel(model, batch, kind="nngp", mode=mode, seed=seed).matrix
    else:
        kernel = empirical_kernel(model, batch, mode=mode, by="parameter", seed=seed)
        with torch.no_grad():
            measured = _in_theory_units(kernel.parts, model) / network.spec.output.width
    return LimitComparison(kind, measured, limit, network.text, network.note)


def _whole_network(model: nn.Module, examination: Examination) -> ExtractedNetwork:
    """The network, which must lead from the input to a linear readout."""
    network = extract_network(model, examination)
    if network is None:
        raise IsometerError(
            f"the model has no spec at infinite width: {why_no_network(model, examination)} — compare a model of steps "
            "that `isometer.doctor.extract_network` reads"
        )
    if network.rest or network.modules[0] != "input":
        why = network.rest[0] if network.rest else f"it begins at {network.modules[0]!r}"
        raise IsometerError(
            f"a spec describes only a part of the model: {why} — compare a model that it describes from the input on"
        )
    _without_readout(network.spec)
    return network


def _without_readout(spec: Composition) -> Composition:
    steps = list(spec.steps)
    while steps and isinstance(steps[-1], Bias):
        steps.pop()
    if not steps or not isinstance(steps[-1], Dense):
        last = word_of(steps[-1]) if steps else "nothing"
        raise IsometerError(f"the model ends with {last}; expected a linear readout — end the model with one")
    return replace(spec, steps=tuple(steps[:-1]))


def _in_theory_units(parts: dict[str, Floats], model: nn.Module) -> Floats:
    """Parts times the mean squares of what is trained; those of norms are no parameters of the theory."""
    norms = {
        f"{name}.{own}"
        for name, module in model.named_modules()
        if "norm" in type(module).__name__.lower()
        for own, _ in module.named_parameters(recurse=False)
    }
    total = np.zeros_like(next(iter(parts.values())))
    for name, part in parts.items():
        if name not in norms:
            total = total + float(model.get_parameter(name).double().square().mean()) * part
    return total


def _numpy(batch: Any) -> Floats:
    if not isinstance(batch, Tensor) or batch.dim() < 2 or not batch.is_floating_point():
        came = f"shape {tuple(batch.shape)}" if isinstance(batch, Tensor) else f"a {type(batch).__name__}"
        raise IsometerError(f"batch has {came}; expected numbers, (samples, features) or (samples, channels, …)")
    return np.asarray(batch.detach().double().cpu().numpy())
