"""`fit`: train one network, measure it by epoch, keep its state."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import torch
import xarray
from torch import nn

from isometer.run.checkpoints import Checkpoint
from isometer.studies.training.images import Sets
from isometer.studies.training.recipes import Recipe

Tensor = torch.Tensor
Measure = Callable[[nn.Module], float | np.ndarray[Any, Any]]
_CHUNK = 1000  # samples of an evaluation at a time


def fit(
    model: nn.Module,
    sets: Sets,
    recipe: Recipe,
    *,
    seed: int,
    measures: Mapping[str, Measure] | None = None,
    every: int = 1,
    test: bool = True,
    checkpoint: Checkpoint | None = None,
    device: str = "cpu",
) -> xarray.Dataset:
    """Train a classifier with cross-entropy and return its curves.

    Training losses and accuracies are means over the epoch's batches, in training mode, before each step. A loss that
    is not finite ends the run: what comes after is missing, and `diverged_at` is the step.

    Args:
        model: trained in place.
        sets: what on.
        recipe: how.
        seed: of the order of the samples and of dropout.
        measures: functions of the model by name, called before training and after every epoch; each gives a number
            or an array whose dimension takes the name of the measure with `_index`.
        every: epochs between measurements and tests.
        test: whether to test.
        checkpoint: where the state is kept after each epoch, and found at the start.
        device: of torch.

    Returns:
        Over `epoch` (0 is before training): `train_loss`, `train_accuracy`, `test_accuracy`, every measure; and
        `diverged_at`, the step at which the loss was not finite, or −1.

    Example:
        >>> from isometer.nn.architectures import mlp
        >>> from isometer.studies.training import image_sets
        >>> sets = image_sets("digits", 200, 100)
        >>> curves = fit(mlp(64, 10, depth=2, width=32), sets, Recipe(0.1, epochs=3, batch=20), seed=0)
        >>> curves["train_loss"].sizes["epoch"], bool(curves["train_loss"][-1] < curves["train_loss"][1])
        (4, True)
    """
    model.to(device)
    stepper = recipe.stepper(model)
    on = sets.to(device)
    saved = None if checkpoint is None else checkpoint.load()
    history: dict[str, list[Any]] = {}
    start, done, diverged = 0, 0, -1
    with torch.random.fork_rng(devices=[]):
        torch.default_generator.manual_seed(seed % (1 << 63))
        if saved is not None:
            model.load_state_dict(saved["model"])
            stepper.load_state_dict(saved["stepper"])
            torch.set_rng_state(saved["generator"].to(torch.uint8))
            history, start, done, diverged = saved["history"], saved["epoch"], saved["steps"], saved["diverged"]
        else:
            _record(history, model, on, measures or {}, math.nan, math.nan, test=test, now=True)
        for epoch in range(start, recipe.epochs):
            for group in stepper.param_groups:
                group["lr"] = recipe.rate(epoch)
            loss, accuracy, done, diverged = _epoch(model, on, recipe, stepper, seed, epoch, done)
            if diverged >= 0:
                break
            now = (epoch + 1) % every == 0 or epoch + 1 == recipe.epochs
            _record(history, model, on, measures or {}, loss, accuracy, test=test, now=now)
            if checkpoint is not None:
                checkpoint.save(_state(model, stepper, history, epoch + 1, done, diverged))
            if recipe.steps is not None and done >= recipe.steps:
                break
    return _dataset(history, recipe.epochs, diverged)


def _epoch(
    model: nn.Module, on: Sets, recipe: Recipe, stepper: Any, seed: int, epoch: int, done: int
) -> tuple[float, float, int, int]:
    """One pass; mean loss and accuracy, steps so far, and the step that diverged or −1."""
    model.train()
    count = len(on.inputs)
    order = np.random.default_rng(np.random.SeedSequence(seed, spawn_key=(epoch,))).permutation(count)
    batches = torch.split(torch.from_numpy(order).to(on.inputs.device), recipe.batch)
    if len(batches) > 1 and len(batches[-1]) < recipe.batch:
        batches = batches[:-1]  # batch statistics of a rest are another network
    losses: list[Tensor] = []
    right = torch.zeros((), dtype=torch.long, device=on.inputs.device)
    seen = 0
    for chosen in batches:
        if recipe.steps is not None and done >= recipe.steps:
            break
        labels = on.labels[chosen]
        output = model(on.inputs[chosen])
        loss = nn.functional.cross_entropy(output, labels)
        if not math.isfinite(loss.item()):
            return math.nan, math.nan, done, done
        stepper.zero_grad()
        loss.backward()  # type: ignore[no-untyped-call]
        stepper.step()
        losses.append(loss.detach())
        right += (output.detach().argmax(1) == labels).sum()
        seen += len(chosen)
        done += 1
    return float(torch.stack(losses).mean()), int(right) / seen, done, -1


@torch.no_grad()
def accuracy_of(model: nn.Module, inputs: Tensor, labels: Tensor) -> float:
    """Share of samples that are classified correctly, in evaluation mode; the mode is put back.

    Example:
        >>> accuracy_of(nn.Identity(), torch.eye(3), torch.tensor([0, 1, 0]))
        0.666...
    """
    training = model.training
    model.eval()
    pieces = zip(torch.split(inputs, _CHUNK), torch.split(labels, _CHUNK), strict=True)
    right = sum(int((model(x).argmax(1) == y).sum().item()) for x, y in pieces)
    model.train(training)
    return right / len(labels)


def _record(
    history: dict[str, list[Any]],
    model: nn.Module,
    on: Sets,
    measures: Mapping[str, Measure],
    loss: float,
    accuracy: float,
    *,
    test: bool,
    now: bool,
) -> None:
    row: dict[str, Any] = {"train_loss": loss, "train_accuracy": accuracy}
    if test:
        row["test_accuracy"] = accuracy_of(model, on.test_inputs, on.test_labels) if now else math.nan
    for name, measure in measures.items():
        before = history.get(name)
        row[name] = np.asarray(measure(model), dtype=float) if now else np.full_like(before[-1], math.nan)  # type: ignore[index]
    for name, value in row.items():
        history.setdefault(name, []).append(value)


def _state(
    model: nn.Module, stepper: Any, history: dict[str, list[Any]], epoch: int, steps: int, diverged: int
) -> dict[str, Any]:
    return {
        "model": model.state_dict(),
        "stepper": stepper.state_dict(),
        "generator": torch.get_rng_state().to(torch.int64),
        "history": history,
        "epoch": epoch,
        "steps": steps,
        "diverged": diverged,
    }


def _dataset(history: Mapping[str, list[Any]], epochs: int, diverged: int) -> xarray.Dataset:
    variables: dict[str, Any] = {"diverged_at": diverged}
    for name, rows in history.items():
        values = np.stack([np.asarray(row, dtype=float) for row in rows])
        full = np.full((epochs + 1, *values.shape[1:]), math.nan)
        full[: len(values)] = values
        variables[name] = (("epoch", *[f"{name}_index"] * (values.ndim - 1)), full)
    return xarray.Dataset(variables, coords={"epoch": np.arange(epochs + 1)})
