"""Runs that take their steps together: each is as it would be alone, and none knows of the others."""

from __future__ import annotations

import copy
import dataclasses
import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
import xarray
from torch import nn

from isometer.errors import IsometerError
from isometer.run import Checkpoint
from isometer_papers.architectures import deep_alexnet, mlp, resnet, vgg
from isometer_papers.studies import Scale, find
from isometer_papers.studies._running import make_job
from isometer_papers.studies._settings import overridden
from isometer_papers.training import Recipe, Sets, fit, fit_together, image_sets, run_seeds
from isometer_papers.training._stack import Stack, applied_together
from isometer_papers.training.loop import optimizer, stepping
from isometer_papers.training.recipes import OPTIMIZERS

COLOUR = (3, 16, 16)
SMALL = {"channels": (3, 4, 4)}
DENSE: dict[str, Callable[[int], nn.Module]] = {
    "relu": lambda seed: mlp(12, 4, depth=3, width=8, seed=seed),
    "batch norm, bias, tanh": lambda seed: mlp(
        12, 4, depth=3, width=8, norm="batch", bias=True, activation="tanh", init="default", seed=seed
    ),
    "layer norm": lambda seed: mlp(12, 4, depth=3, width=8, norm="layer", bias=True, init="default", seed=seed),
    "sin with gains": lambda seed: mlp(
        12, 4, depth=3, width=8, norm="batch", activation="sin", init="orthogonal", gain_exponent=0.4, seed=seed
    ),
    "normrelu": lambda seed: mlp(12, 4, depth=2, width=8, activation="normrelu", init="gaussian", seed=seed),
}
CONVOLUTIONS: dict[str, Callable[[int], nn.Module]] = {
    "vgg": lambda seed: vgg(COLOUR, 4, plan=(4, "pool", 6), seed=seed),
    **{
        f"vgg, {norm}": lambda seed, norm=norm: vgg(COLOUR, 4, plan=(4, "pool", 6), norm=norm, seed=seed)
        for norm in ("none", "layer", "batch-rescale", "batch-rescale-std")
    },
    "resnet": lambda seed: resnet(COLOUR, 4, depth=8, seed=seed, **SMALL),
    "bottlenecks": lambda seed: resnet(COLOUR, 4, depth=50, channels=(1, 1, 2, 2), seed=seed),
    "normrelu": lambda seed: resnet(
        COLOUR, 4, depth=8, norm="none", activation="normrelu", init="gaussian", seed=seed, **SMALL
    ),
    "fixup": lambda seed: resnet(COLOUR, 4, depth=8, norm="none", fixup=True, seed=seed, **SMALL),
}


def noisy(model: nn.Module) -> nn.Module:
    """Every parameter off its first value: zeros and ones would hide mistakes."""
    made = torch.Generator().manual_seed(len(list(model.parameters())))
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(0.1 * torch.randn(parameter.shape, generator=made, dtype=parameter.dtype))
    return model.double()


def batch(*shape: int) -> tuple[torch.Tensor, torch.Tensor]:
    """Three runs, each with samples of its own."""
    made = torch.Generator().manual_seed(0)
    labels = torch.stack([torch.randperm(10, generator=made) % 4 for _ in range(3)])
    return torch.randn(3, 10, *shape, generator=made, dtype=torch.float64), labels


# optimisers act entry by entry: all with dense networks, one with most convolutional ones
CASES = [
    *(pytest.param(DENSE[name], (12,), how, id=f"{name}, {how}") for name in DENSE for how in OPTIMIZERS),
    *(pytest.param(CONVOLUTIONS[name], COLOUR, "sgd", id=f"convolutions: {name}") for name in CONVOLUTIONS),
    pytest.param(CONVOLUTIONS["fixup"], COLOUR, "momentum", id="convolutions: fixup, momentum"),
]


@pytest.mark.parametrize(("make", "shape", "how"), CASES)
def test_two_steps_together_are_those_of_autograd_alone(make: Any, shape: tuple[int, ...], how: str) -> None:
    """Parameters, running statistics, outputs and losses, in double precision."""
    models = [noisy(make(seed)) for seed in range(3)]
    others = [copy.deepcopy(model).train() for model in models]
    recipe = Recipe(0.05, 1, batch=10, optimizer=how, bias_factor=0.5)
    stack = Stack([model.train() for model in models])
    together = optimizer(stack, recipe)
    apart = [recipe.stepper(model.parameters()) for model in others]
    for stepper in (together, *apart):
        for group in stepper.param_groups:
            group["lr"] = 0.05 * group["factor"]
    step = stepping(stack, together, recipe, 10, False)
    inputs, labels = batch(*shape)
    for _ in range(2):
        outputs, losses = step(inputs, labels, False)
        for i, (model, stepper) in enumerate(zip(others, apart, strict=True)):
            expected = model(inputs[i])
            loss = nn.functional.cross_entropy(expected, labels[i])
            stepper.zero_grad()
            loss.backward()
            stepper.step()
            assert torch.allclose(outputs[i], expected, rtol=1e-7, atol=1e-9)
            assert losses[i].item() == pytest.approx(loss.item(), rel=1e-8)
    # before batch norm, gradients of biases are rounding, which Adam magnifies
    loose = how == "adam" and any(isinstance(module, nn.BatchNorm1d) for module in models[0].modules())
    for model, other in zip(models, others, strict=True):
        for (name, one), two in zip(model.named_parameters(), other.parameters(), strict=True):
            if not (loose and name.endswith("bias")):
                assert torch.allclose(one, two, rtol=1e-7, atol=1e-8), name
        for one, two in zip(model.buffers(), other.buffers(), strict=True):
            assert torch.allclose(one, two, rtol=1e-9)


@pytest.mark.parametrize("name", DENSE)
def test_dense_networks_without_written_steps_are_together_as_well(name: str) -> None:
    """As on a card, where steps are not written out."""
    models = [noisy(DENSE[name](seed)).train() for seed in range(3)]
    others = [copy.deepcopy(model) for model in models]
    together = applied_together(Stack(models))
    assert together is not None
    inputs, _ = batch(12)
    found = together(inputs.transpose(0, 1).flatten(1, 2)).view(10, 3, -1)
    for i, model in enumerate(others):
        assert torch.allclose(found[:, i], model(inputs[i]), rtol=1e-9)


@pytest.mark.parametrize("units", [False, True])
def test_clipping_takes_the_norms_of_each_network(units: bool) -> None:
    """Networks of very different size, which the norms of all together would treat alike."""
    models = [noisy(DENSE["relu"](seed)) for seed in range(3)]
    with torch.no_grad():
        for parameter in models[2].parameters():
            parameter.mul_(3.0)
    others = [copy.deepcopy(model) for model in models]
    recipe = Recipe(0.05, 1, batch=10, clip=0.01, clip_units=units)
    inputs, labels = batch(12)
    stack = Stack(models)
    stepping(stack, optimizer(stack, recipe), recipe, 10, False)(inputs, labels, False)
    for i, (model, other) in enumerate(zip(models, others, strict=True)):
        lone = Stack([other])
        stepping(lone, optimizer(lone, recipe), recipe, 10, False)(inputs[i : i + 1], labels[i : i + 1], False)
        for one, two in zip(model.parameters(), other.parameters(), strict=True):
            assert torch.allclose(one, two, rtol=1e-10)


@pytest.fixture(scope="module")
def sets() -> Sets:
    return image_sets("digits", 150, 60)


def three(sets: Sets, **how: Any) -> list[xarray.Dataset]:
    nets = [mlp(64, 10, depth=3, width=16, norm="batch", seed=seed) for seed in range(3)]
    norms = {"norms": lambda m: np.array([0.0 if p.grad is None else float(p.grad.norm()) for p in m.parameters()])}
    recipe = how.pop("recipe", Recipe(0.05, epochs=4, batch=50))
    return fit_together(nets, [sets] * 3, recipe, seeds=[5, 6, 7], measures=[norms] * 3, **how)


def test_runs_together_are_runs_alone_up_to_rounding_and_repeat_bit_by_bit(sets: Sets) -> None:
    found, again = three(sets), three(sets)
    assert all(one.identical(two) for one, two in zip(found, again, strict=True))
    norms = {"norms": lambda m: np.array([0.0 if p.grad is None else float(p.grad.norm()) for p in m.parameters()])}
    alone = fit(
        mlp(64, 10, depth=3, width=16, norm="batch", seed=1), sets, Recipe(0.05, 4, batch=50), seed=6, measures=norms
    )
    for name in ("train_loss", "norms"):
        assert found[1][name].values == pytest.approx(alone[name].values, rel=1e-3, abs=1e-6, nan_ok=True)
    assert (found[1]["norms"][0] == 0).all()
    assert not found[0]["train_loss"].equals(found[1]["train_loss"])


@pytest.mark.parametrize("fast", [True, False])
def test_an_interrupted_training_of_several_goes_on_to_the_same_numbers(sets: Sets, fast: bool) -> None:
    """Together, and one after the other where the recipe is not fast."""
    recipe = Recipe(0.05, epochs=4, batch=50, optimizer="momentum", fast=fast)
    whole = three(sets, recipe=recipe)
    saved: list[bytes] = []

    def interrupted(state: bytes) -> None:
        saved.append(state)
        if len(saved) == 3:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        three(sets, recipe=recipe, checkpoint=Checkpoint(write=interrupted), pause=0.0)
    rest = three(sets, recipe=recipe, checkpoint=Checkpoint(saved[-1]))
    assert all(one.identical(two) for one, two in zip(rest, whole, strict=True))


def test_one_that_diverges_leaves_the_others_alone(sets: Sets) -> None:
    nets = [mlp(64, 10, depth=3, width=16, seed=seed) for seed in range(3)]
    with torch.no_grad():
        for parameter in nets[1].parameters():
            parameter.mul_(1e4)
    recipe = Recipe(0.05, epochs=3, batch=50)
    found = fit_together(nets, [sets] * 3, recipe, seeds=[5, 6, 7], measures=[{}] * 3)
    assert found[1]["diverged_at"].item() >= 0
    assert "not finite" in found[1]["diverged_because"].item()
    assert math.isnan(found[1]["train_loss"][-1])
    for i in (0, 2):
        alone = fit(mlp(64, 10, depth=3, width=16, seed=i), sets, recipe, seed=5 + i)
        assert found[i]["diverged_at"].item() == -1
        assert found[i]["train_loss"].values == pytest.approx(alone["train_loss"].values, rel=1e-4, nan_ok=True)


def test_samples_of_each_are_its_own(sets: Sets) -> None:
    """Other images for every network, as in small data sets."""
    own = [
        dataclasses.replace(sets, inputs=sets.inputs.flip(0) * (i + 1), labels=sets.labels.flip(0)) for i in range(2)
    ]
    nets = [mlp(64, 10, depth=2, width=16, seed=0) for _ in range(2)]
    recipe = Recipe(0.05, epochs=2, batch=50)
    found = fit_together(nets, own, recipe, seeds=[1, 2], measures=[{}] * 2)
    for i in range(2):
        alone = fit(mlp(64, 10, depth=2, width=16, seed=0), own[i], recipe, seed=i + 1)
        assert found[i]["train_loss"].values == pytest.approx(alone["train_loss"].values, rel=1e-4, nan_ok=True)
    smaller = dataclasses.replace(sets, inputs=sets.inputs[:50], labels=sets.labels[:50])
    with pytest.raises(IsometerError, match="of one size"):
        fit_together(nets, [sets, smaller], recipe, seeds=[1, 2], measures=[{}] * 2)


def test_augmented_images_and_dropout_together(sets: Sets) -> None:
    colour = Sets(torch.rand(60, 3, 16, 16), torch.arange(60) % 10, torch.rand(10, 3, 16, 16), torch.arange(10))
    shape = {"convolutions": 4, "channels": (2, 4, 4), "hidden": 8}
    recipe = Recipe(0.05, epochs=2, batch=20, augment=True)
    both = [
        fit_together(
            [deep_alexnet(COLOUR, 10, seed=seed, **shape) for seed in range(2)],
            [colour] * 2,
            recipe,
            seeds=[1, 2],
            measures=[{}] * 2,
        )
        for _ in range(2)
    ]
    assert all(one.identical(two) for one, two in zip(*both, strict=True))


def test_what_cannot_be_together_is_trained_apart(sets: Sets) -> None:
    def net(seed: int) -> nn.Module:
        with torch.random.fork_rng():
            torch.manual_seed(seed)
            return nn.Sequential(nn.Flatten(), nn.Linear(64, 8), nn.GELU(), nn.Linear(8, 10))

    assert applied_together(Stack([net(0)])) is None
    recipe = Recipe(0.05, epochs=2, batch=50)
    found = fit_together([net(0), net(1)], [sets] * 2, recipe, seeds=[1, 2], measures=[{}] * 2)
    assert found[1].identical(fit(net(1), sets, recipe, seed=2))


def test_a_cell_of_several_runs_has_the_seeds_of_its_runs() -> None:
    study = find("002/fig-5")
    scale = overridden(study, "quick", {"depth": "1", "network": "BN", "learning_rate": "0.1", "run": "0,1,2"})
    (cell,) = make_job(study, scale).cells
    apart = make_job(study, dataclasses.replace(scale, together=1)).cells
    assert run_seeds(cell.configuration, cell.seed) == [one.seed for one in apart]
    blocks = make_job(study, overridden(study, "quick", {"run": "0,1,2,3", "together": "3"})).axes["run"]
    assert list(blocks) == ["0–1", "2–3"]


def test_results_of_several_runs_lie_on_the_grid_as_if_each_had_a_cell(sets: Sets) -> None:
    study = find("001/fig-2.5")
    small = {**study.quick.constants, "data": "digits", "shrink": 1, "width": 8, "train": 60, "batch": 20, "epochs": 2}
    scale = Scale({"scheme": ["Xavier", "iterative"], "depth": [3], "run": [0, 1, 2]}, small, together=2)
    results = []
    for one in (scale, dataclasses.replace(scale, together=1)):
        job = make_job(study, one)
        results.append(job.combine(job, {cell.label: study.cell(cell.configuration, cell.seed) for cell in job.cells}))
    together, apart = results
    assert dict(together.sizes) == dict(apart.sizes)
    assert together["run"].values.tolist() == [0, 1, 2]
    xarray.testing.assert_allclose(together.drop_attrs(), apart.drop_attrs(), rtol=1e-4, atol=1e-6)
