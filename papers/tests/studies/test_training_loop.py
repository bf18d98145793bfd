"""The training loop of the studies, against a loop written out."""

from __future__ import annotations

import copy
import dataclasses
import itertools
import math
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

from isometer.doctor import SignalMonitor
from isometer.errors import IsometerError
from isometer.run import Checkpoint
from isometer_papers.architectures import mlp
from isometer_papers.training import Recipe, Sets, fit, image_sets
from isometer_papers.training.loop import accuracy_of, augmented
from isometer_papers.training.watching import divergence_reason

# --- networks ------------------------------------------------------------


# --- the loop ------------------------------------------------------------


@pytest.fixture(scope="module")
def sets() -> Sets:
    return image_sets("digits", 150, 60)


def net(seed: int = 0) -> nn.Module:
    return nn.Sequential(*mlp(64, 10, depth=2, width=24, norm="batch", seed=seed), nn.Dropout(0.1))


def equal(a: Any, b: Any) -> bool:
    return bool(a.identical(b))


def test_against_a_loop_written_out(sets: Sets) -> None:
    """Two epochs of plain SGD without dropout, step by step."""
    model = mlp(64, 10, depth=2, width=24, seed=1)
    other = copy.deepcopy(model)
    curves = fit(model, sets, Recipe(0.05, epochs=2, batch=50, milestones=(1,)), seed=7)
    losses: list[list[float]] = []
    for epoch in range(2):
        order = np.random.default_rng(np.random.SeedSequence(7, spawn_key=(epoch,))).permutation(150)
        losses.append([])
        for chosen in np.split(order, 3):
            loss = nn.functional.cross_entropy(other(sets.inputs[chosen]), sets.labels[chosen])
            grads = torch.autograd.grad(loss, list(other.parameters()))
            with torch.no_grad():
                for parameter, grad in zip(other.parameters(), grads, strict=True):
                    parameter.sub_(0.05 * 0.1**epoch * grad)
            losses[-1].append(loss.item())
    assert curves["train_loss"].values[1:] == pytest.approx(np.mean(losses, axis=1), rel=1e-5)
    assert curves["test_accuracy"][-1].item() == accuracy_of(other, sets.test_inputs, sets.test_labels)


def test_resumes_to_the_same_numbers(sets: Sets) -> None:
    recipe = Recipe(0.01, epochs=4, batch=50, optimizer="adam")
    measures = {"size": lambda m: np.array([p.norm().item() for p in m.parameters()][:3])}
    whole = fit(net(), sets, recipe, seed=5, measures=measures)
    saved: list[bytes] = []
    fit(
        net(),
        sets,
        Recipe(0.01, epochs=2, batch=50, optimizer="adam"),
        seed=5,
        measures=measures,
        checkpoint=Checkpoint(write=saved.append),
        pause=0.0,
    )
    rest = fit(net(9), sets, recipe, seed=5, measures=measures, checkpoint=Checkpoint(saved[-1]))
    assert equal(rest, whole)
    assert whole["size"].shape == (5, 3)


def test_divergence_ends_the_run_and_says_when_and_why(sets: Sets) -> None:
    model = mlp(64, 10, depth=8, width=24)
    curves = fit(model, sets, Recipe(1e4, epochs=3, batch=50), seed=0)
    step = curves["diverged_at"].item()
    assert step >= 1
    assert np.isnan(curves["train_loss"].values[-1])
    bad = [name for name, value in model.named_parameters() if not value.isfinite().all()]
    told = curves["diverged_because"].item()
    assert told == f"the step before left {len(bad)} of 10 parameters not finite, the first {bad[0]}" if bad else told
    assert "not finite" in told
    fine = fit(mlp(64, 10, depth=2, width=24), sets, Recipe(0.01, epochs=1, batch=50), seed=0)
    assert (fine["diverged_at"].item(), fine["diverged_because"].item()) == (-1, "")


def test_reasons_for_divergence_name_the_place() -> None:
    """An overflow in the third of five layers, one in the loss alone, and a parameter that is lost."""
    inputs, labels = torch.ones(4, 8), torch.zeros(4).long()
    model = nn.Sequential(*(nn.Linear(8, 8, bias=False) for _ in range(5)))
    with torch.no_grad():
        for layer in model:
            layer.weight.copy_(torch.eye(8))  # type: ignore[union-attr]
        model[1].weight.mul_(1e25)  # type: ignore[operator]
        model[2].weight.mul_(1e25)  # type: ignore[operator]
        before = copy.deepcopy(model.state_dict())
        assert divergence_reason(model, inputs, labels) == (
            "values are not finite from 2 (Linear) on, layer 3 of 5; largest before: 1e+25"
        )
        assert all(torch.equal(value, before[name]) for name, value in model.state_dict().items())
        model[2].weight.copy_(torch.eye(8))  # type: ignore[operator]
        model[4].weight.mul_(torch.tensor([-1e13] + [1e13] * 7)[:, None])  # type: ignore[operator]
        assert nn.functional.cross_entropy(model(inputs), labels).isinf()
        assert divergence_reason(model, inputs, labels) == "the outputs are finite, up to 1e+38, and the loss is not"
        model[3].weight[0, 0] = math.inf  # type: ignore[index]
    assert divergence_reason(model, inputs, labels).endswith("1 of 5 parameters not finite, the first 3.weight")


def test_a_network_that_cannot_be_examined_keeps_its_curves() -> None:
    class Moody(nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            raise RuntimeError("not today")

    told = divergence_reason(Moody(), torch.ones(2, 3), torch.zeros(2).long())
    assert told == "the loss is not finite; the network could not be examined: RuntimeError: not today"


def test_the_monitor_watches_without_a_trace(sets: Sets) -> None:
    """The same run, watched or not, to the last bit; what is seen is what a monitor of one's own sees."""
    recipe = Recipe(0.1, epochs=2, batch=50)
    plain, seen = net(), net()
    curves = fit(plain, sets, recipe, seed=3)
    watched = fit(seen, sets, dataclasses.replace(recipe, watch=True), seed=3)
    assert all(torch.equal(a, b) for a, b in zip(plain.parameters(), seen.parameters(), strict=True))
    assert equal(watched.drop_vars(["monitor", "signal"]), curves)
    monitor = SignalMonitor(seen, when=1, samples=32, budget=None)
    monitor.step(batch=sets.inputs[:32], target=sets.labels[:32], criterion=nn.functional.cross_entropy)
    last = watched["monitor"].sel(signal="effective_rank/last").values
    assert last[-1] == pytest.approx(monitor.latest["effective_rank/last"], rel=1e-6)
    assert last.shape == (3,)
    assert np.isfinite(last).all()


def test_steps_end_inside_an_epoch_and_the_global_generator_is_kept(sets: Sets) -> None:
    before = torch.get_rng_state()
    curves = fit(net(), sets, Recipe(0.1, epochs=5, batch=50, steps=4), seed=0, every=2)
    assert torch.equal(torch.get_rng_state(), before)
    assert np.isfinite(curves["train_loss"].values).tolist() == [False, True, True, False, False, False]
    assert np.isnan(curves["test_accuracy"].values[1])


def test_recipes() -> None:
    recipe = Recipe.of({"learning_rate": 0.1, "epochs": 3, "milestones": [1, 2], "width": 3, "clip": 0.1})
    assert [recipe.rate(e) for e in range(3)] == pytest.approx([0.1, 0.01, 0.001])
    with pytest.raises(IsometerError, match="expected one of sgd"):
        Recipe(0.1, epochs=1, optimizer="lion")
    with pytest.raises(IsometerError, match="positive"):
        Recipe(0.0, epochs=1)


def test_images_are_prepared_by_the_training_split() -> None:
    sets = image_sets("digits", 1000, 100, shrink=2)
    assert sets.shape == (1, 4, 4)
    assert len(torch.unique(image_sets("digits", 50, 20).labels)) > 5


def test_clipping_bounds_every_step() -> None:
    """A step moves a weight by at most rate · λ of its norm (momentum none)."""
    sets = image_sets("digits", 100, 50)
    model = mlp(64, 10, depth=2, width=16, init="he")
    before = [w.detach().clone() for w in model.parameters() if w.dim() == 2]
    fit(model, sets, Recipe(1.0, epochs=1, batch=100, clip=0.01), seed=0, test=False)
    after = [w.detach() for w in model.parameters() if w.dim() == 2]
    moved = [float((b - a).norm() / a.norm()) for a, b in zip(before, after, strict=True)]
    assert max(moved) <= 0.01 * (1 + 1e-5)
    assert min(moved) == pytest.approx(0.01, rel=1e-5)  # the raw steps are larger at this rate


def test_scalars_may_learn_at_another_rate() -> None:
    class Scaled(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.weight, self.scale = nn.Parameter(torch.eye(64, 2)), nn.Parameter(torch.ones(1))

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return self.scale * (x.flatten(1) @ self.weight)

    data = torch.Generator().manual_seed(0)
    inputs, labels = torch.randn(8, 1, 8, 8, generator=data), torch.arange(8) % 2
    sets = Sets(inputs, labels, inputs, labels, 2)
    moves = []
    for factor in (1.0, 0.25):
        model = Scaled()
        fit(model, sets, Recipe(0.1, epochs=1, batch=8, bias_factor=factor, milestones=(0,)), seed=0, test=False)
        moves.append((model.scale.item() - 1, (model.weight - torch.eye(64, 2)).norm().item()))
    assert moves[1][0] == pytest.approx(0.25 * moves[0][0], rel=1e-4)
    assert moves[0][0] != 0
    assert moves[1][1] == pytest.approx(moves[0][1])


def test_augmented_images_are_shifted_and_mirrored_ones() -> None:
    """Every result is one of the 2 · 9 · 9 images that shifts and mirroring can make, and many of them occur."""
    image = torch.rand(2, 6, 6, generator=torch.Generator().manual_seed(1))
    possible = []
    for flip, up, left in itertools.product((False, True), range(9), range(9)):
        page = np.zeros((2, 14, 14), dtype=np.float32)
        page[:, 4:10, 4:10] = image.numpy()
        cut = page[:, up : up + 6, left : left + 6]
        possible.append(cut[:, :, ::-1] if flip else cut)
    found = augmented(image.expand(600, 2, 6, 6), np.random.default_rng(0)).numpy()
    which = [next((i for i, one in enumerate(possible) if np.array_equal(one, got)), -1) for got in found]
    assert min(which) >= 0
    assert len(set(which)) > 140  # 162 · (1 − e^(−600/162)) ≈ 158 are expected
    assert 0.4 < np.mean([i >= 81 for i in which]) < 0.6


def test_tells_its_pace() -> None:
    said: list[str] = []
    recipe = Recipe(0.1, epochs=1, batch=20)
    fit(
        mlp(64, 10, depth=1, width=8),
        image_sets("digits", 100, 50),
        recipe,
        seed=0,
        checkpoint=Checkpoint(note=said.append),
    )
    assert said
    assert said[0].startswith("epoch 1 of 1, ")
    assert said[0].endswith(" images/s")
