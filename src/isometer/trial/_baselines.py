"""What a few lines of code say about a model without the doctor: numbers at initialization, and a few plain steps.

Each score is larger for a sick model. A number that is no number counts as infinitely sick.
"""

from __future__ import annotations

import copy
import json
import math
from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any

import numpy as np
import torch
import xarray
from torch import nn

from isometer.doctor.training._loop import train
from isometer.serialize import json_data
from isometer.trial._family import Blueprint
from isometer.trial._members import specimen
from isometer.trial._specimen import Specimen, called

Tensor = torch.Tensor
_JACOBIAN_FLOOR = 1e-5


def gradient_norms(made: Specimen, batch: tuple[Tensor, Tensor]) -> tuple[float, float]:
    """log10 of the norm of the first gradient, and of the ratio of its norms in the first and the last third of the
    weight matrices."""
    model = copy.deepcopy(made.model)
    made.loss(model(batch[0]), batch[1]).backward()  # type: ignore[no-untyped-call]
    layers = [_log_norm([p.grad]) for p in model.parameters() if p.dim() > 1 and p.grad is not None]
    total = _log_norm([p.grad for p in model.parameters() if p.grad is not None])
    third = max(1, len(layers) // 3)
    ratio = float(np.mean(layers[:third]) - np.mean(layers[-third:])) if layers else math.nan
    return total, ratio


def _log_norm(tensors: list[Any]) -> float:
    square = sum(float(t.double().square().sum()) for t in tensors)
    return 0.5 * math.log10(square) if 0 < square < math.inf else (-400.0 if square == 0 else math.nan)


def synflow(made: Specimen, batch: tuple[Tensor, Tensor]) -> float:
    """log10 of SynFlow (Tanaka et al. 2020): Σ |θ ∂R/∂θ| with absolute weights and an input of ones."""
    model = copy.deepcopy(made.model).double().eval()
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.abs_()
    inputs = batch[0][:1]
    output = model(torch.ones_like(inputs, dtype=torch.float64) if inputs.is_floating_point() else inputs)
    if not output.requires_grad:
        return -400.0
    output.sum().backward()
    value = sum(float((p.detach() * p.grad).abs().sum()) for p in model.parameters() if p.grad is not None)
    return math.log10(value) if 0 < value < math.inf else (-400.0 if value == 0 else math.nan)


def naswot(made: Specimen, batch: tuple[Tensor, Tensor]) -> float:
    """log determinant of the kernel of activation patterns (Mellor et al. 2021), signs of what layers with weights
    return, so that it is defined for any nonlinearity."""
    model = Specimen(copy.deepcopy(made.model), made.task, made.samples, feeds=made.feeds)
    layers = [m for m in called(model) if next(m.parameters(recurse=False), None) is not None][:-1]
    kernel = torch.zeros(len(batch[0]), len(batch[0]), dtype=torch.float64)

    def add(module: nn.Module, _: Any, output: Tensor) -> None:
        if len(output) != len(kernel):
            return
        code = (output.detach().flatten(1) > 0).double()
        kernel.add_((code @ code.T + (1 - code) @ (1 - code).T) / code.shape[1])

    for layer in layers:
        layer.register_forward_hook(add)
    with torch.no_grad():
        model.model(batch[0])
    sign, value = np.linalg.slogdet(kernel.numpy())
    return float(value) / len(kernel) if sign > 0 else -1e4  # per sample: batches differ


def jacobian_covariance(made: Specimen, batch: tuple[Tensor, Tensor]) -> float:
    """Score of the correlations of the samples' input gradients (Mellor et al. 2020); by the embedding for tokens."""
    model, inputs = copy.deepcopy(made.model), batch[0]
    leaves: list[Tensor] = []
    if inputs.is_floating_point():
        inputs = inputs.clone().requires_grad_()
        leaves.append(inputs)
    else:

        def note(module: nn.Module, _: Any, output: Tensor) -> Tensor:
            leaves.append(output.detach().requires_grad_())
            return leaves[-1]

        for module in model.modules():
            if isinstance(module, nn.Embedding):
                module.register_forward_hook(note)
    output = model(inputs)
    leaves = [leaf for leaf in leaves if len(leaf) == len(inputs)]
    if not leaves or not output.requires_grad:
        return -1e12
    gradient = torch.autograd.grad(output.sum(), leaves[0], allow_unused=True)[0]
    if gradient is None or not bool(gradient.isfinite().all()):
        return -1e12
    rows = gradient.double().flatten(1)
    rows = rows - rows.mean(1, keepdim=True)
    lengths = rows.norm(dim=1, keepdim=True)
    rows = rows / torch.where(lengths > 0, lengths, torch.ones_like(lengths))
    values = torch.linalg.eigvalsh(rows @ rows.T).clamp(min=0)
    return -float((torch.log(values + _JACOBIAN_FLOOR) + 1 / (values + _JACOBIAN_FLOOR)).mean())  # as above


PLAIN_RATES: Mapping[str, tuple[float, ...]] = MappingProxyType({"adam": (1e-3, 1e-4, 1e-2), "sgd": (3e-2, 3e-3, 3e-1)})
"""Rates of plain training; the first is the one that a person would try."""


def plain_training(make: Callable[[], Specimen], optimizer: str, *, seed: int) -> dict[str, float]:
    """Loss over chance after 20 and 40 fresh steps: at one usual rate, and at the best of three."""
    scores: dict[str, float] = {}
    for place, rate in enumerate(PLAIN_RATES[optimizer]):
        made = make()
        targets: list[Tensor] = []

        def sampler(step: int, made: Specimen = made, targets: list[Tensor] = targets) -> tuple[Tensor, Tensor]:
            inputs, target, _ = made.batch(seed=seed, step=step)
            targets.append(target)
            return inputs, target

        curve = train(
            made.model,
            sampler,
            loss=made.loss,
            optimizer=optimizer,
            learning_rate=rate,
            steps=40,
            seed=seed,
            score=lambda output, step, made=made, targets=targets: made.score(output, targets.pop()),  # type: ignore[misc]
        )
        for steps in (20, 40):
            ended = curve.diverged and len(curve.losses) <= steps
            value = math.inf if ended else float(np.mean(curve.losses[max(0, steps - 5) : steps]))
            if place == 0:
                scores[f"{steps} steps"] = value
            scores[f"{steps} steps, best of 3 rates"] = min(
                value, scores.get(f"{steps} steps, best of 3 rates", math.inf)
            )
    return scores


def at_initialization(made: Specimen, *, seed: int) -> dict[str, float]:
    """The numbers that need no training, larger for sicker; `nan` where one cannot be had."""
    with torch.random.fork_rng(devices=[]):
        torch.default_generator.manual_seed(seed)  # some faults draw: noise, holes, exchanged targets
        inputs, targets, _ = made.batch(seed=seed, step=0)
    batch = (inputs, targets)

    def attempt(function: Callable[[Specimen, tuple[Tensor, Tensor]], Any]) -> Any:
        with torch.random.fork_rng(devices=[]):
            torch.default_generator.manual_seed(seed)
            try:
                return function(made, batch)
            except (RuntimeError, ValueError, TypeError, IndexError):  # not defined for this model
                return None

    norms = attempt(gradient_norms) or (math.nan, math.nan)
    negative = {
        name: -value if (value := attempt(function)) is not None else math.nan
        for name, function in (("SynFlow", synflow), ("NASWOT", naswot), ("Jacobian covariance", jacobian_covariance))
    }
    return {"gradient norm": -norms[0], "gradient ratio over depth": abs(norms[1]), **negative}


def _specimen(cell: Mapping[str, Any]) -> Specimen:
    return specimen(cell["family"], Blueprint(**cell["blueprint"]), cell["fault"], cell["severity"], cell["weights"])


def baseline_cell(cell: Mapping[str, Any], seed: int) -> xarray.Dataset:
    """Scores of the baselines: a cell as for `doctor_cell` without `batch`.

    Weights and batches are not those of the truth.

    Example:
        >>> from dataclasses import asdict
        >>> import numpy as np
        >>> from isometer.trial import family_named
        >>> drawn = family_named("additive-model").draw(np.random.default_rng(0), False)
        >>> cell = {"family": "additive-model", "blueprint": asdict(drawn), "fault": None, "severity": {}, "weights": 7}
        >>> found = json.loads(baseline_cell(cell, 0)["record"].item())
        >>> sorted(found)
        ['adam', 'initialization', 'sgd']
    """
    record: dict[str, Any] = {"initialization": at_initialization(_specimen(cell), seed=cell["weights"])}
    for optimizer in ("adam", "sgd"):
        record[optimizer] = plain_training(lambda: _specimen(cell), optimizer, seed=cell["weights"])
    return xarray.Dataset({"record": json.dumps(json_data(record))})
