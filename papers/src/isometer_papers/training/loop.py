"""`fit`: train one network, measure it by epoch, keep its state."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import torch
import xarray
from torch import nn

from isometer.run import Checkpoint
from isometer_papers.training._written import WrittenSteps, covers
from isometer_papers.training.images import Sets
from isometer_papers.training.recipes import Recipe
from isometer_papers.training.watching import MONITORED, divergence_reason, watched

Tensor = torch.Tensor
Measure = Callable[[nn.Module], float | np.ndarray[Any, Any]]
Step = Callable[[Tensor, Tensor, bool], tuple[Tensor, float]]
_CHUNK = 1000  # samples of an evaluation at a time
_SHIFT = 4  # pixels


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
    pause: float = 60.0,
    device: str = "cpu",
) -> xarray.Dataset:
    """Train a classifier with cross-entropy and return its curves.

    Training losses and accuracies are means over the epoch's batches, in training mode, before each step. A loss that
    is not finite ends the run: what comes after is missing, and `diverged_at` and `diverged_because` tell the step and
    what stopped being finite.

    Args:
        model: trained in place.
        sets: what on.
        recipe: how.
        seed: seed of the order of the samples and of dropout.
        measures: functions of the model by name, called before training and after every epoch; each gives a number
            or an array whose dimension takes the name of the measure with `_index`.
        every: epochs between measurements and tests.
        test: whether to test.
        checkpoint: where the state is kept after epochs, and found at the start.
        pause: seconds between checkpoints at least; they are further apart where they are slow, to cost about 3 %.
        device: device of torch.

    Returns:
        Over `epoch` (0 is before training): `train_loss`, `train_accuracy`, `test_accuracy`, every measure, and with
        `recipe.watch` `monitor` over `signal`, what `SignalMonitor` logs; `diverged_at`, the step at which the loss was
        not finite, or −1, and `diverged_because`.

    Example:
        >>> from isometer_papers.architectures import mlp
        >>> from isometer_papers.training import image_sets
        >>> sets = image_sets("digits", 200, 100)
        >>> curves = fit(mlp(64, 10, depth=2, width=32), sets, Recipe(0.1, epochs=3, batch=20), seed=0)
        >>> curves["train_loss"].sizes["epoch"], bool(curves["train_loss"][-1] < curves["train_loss"][1])
        (4, True)
    """
    model.to(device)
    channels_last = recipe.fast and _wants_channels_last(model, sets, device)
    if channels_last:
        model.to(memory_format=torch.channels_last)  # type: ignore[call-overload]
    stepper = recipe.stepper(model)
    on = sets.to(device)
    saved = None if checkpoint is None else checkpoint.load()
    history: dict[str, list[Any]] = {}
    measures = dict(measures or {})
    if recipe.watch:
        measures["monitor"] = watched(on.inputs, on.labels)
    start, done, diverged, because = 0, 0, -1, ""
    kept_at, wait = time.monotonic(), pause
    with torch.random.fork_rng(devices=_cards(device)):
        # torch.manual_seed would reseed every card, also those that fork_rng does not put back
        torch.default_generator.manual_seed(seed % (1 << 63))
        for card in _cards(device):
            with torch.cuda.device(card):
                torch.cuda.manual_seed(seed % (1 << 63))
        if saved is not None:
            model.load_state_dict(saved["model"])
            stepper.load_state_dict(saved["stepper"])
            _set_generators(saved["generators"], device)  # over the seed: dropout goes on where the run stopped
            history, start, done = saved["history"], saved["epoch"], saved["steps"]
        else:
            _record(history, model, on, measures, math.nan, math.nan, test=test, now=True)
        step = _stepping(model, stepper, recipe, min(recipe.batch, len(on.inputs)), channels_last)
        for epoch in range(start, recipe.epochs):
            if recipe.steps is not None and done >= recipe.steps:
                break
            for group in stepper.param_groups:
                group["lr"] = recipe.rate(epoch) * group["factor"]
            loss, accuracy, done, because = _epoch(model, on, recipe, step, seed, epoch, done, checkpoint)
            if because:
                diverged = done
                break
            now = (epoch + 1) % every == 0 or epoch + 1 == recipe.epochs
            _record(history, model, on, measures, loss, accuracy, test=test, now=now)
            if checkpoint is not None and time.monotonic() - kept_at >= wait:
                began = time.monotonic()
                checkpoint.save(_state(model, stepper, history, epoch + 1, done, device))
                kept_at = time.monotonic()
                wait = max(pause, 30 * (kept_at - began)) if pause else 0.0
    return _dataset(history, recipe.epochs, diverged, because)


def _epoch(
    model: nn.Module,
    on: Sets,
    recipe: Recipe,
    step: Step,
    seed: int,
    epoch: int,
    done: int,
    checkpoint: Checkpoint | None,
) -> tuple[float, float, int, str]:
    """One pass; mean loss and accuracy, steps so far, and why the next one diverged, if it did."""
    model.train()
    count = len(on.inputs)
    # a generator per epoch: a run that goes on needs no replay of the epochs before
    drawn = np.random.default_rng(np.random.SeedSequence(seed, spawn_key=(epoch,)))
    order = drawn.permutation(count)
    batches = torch.split(torch.from_numpy(order).to(on.inputs.device), recipe.batch)
    if len(batches) > 1 and len(batches[-1]) < recipe.batch:
        batches = batches[:-1]  # batch statistics of a rest are another network
    if recipe.steps is not None:
        batches = batches[: max(recipe.steps - done, 0)]
    losses: list[float] = []
    right = torch.zeros((), dtype=torch.long, device=on.inputs.device)
    seen = 0
    began = time.monotonic()
    for i, chosen in enumerate(batches):
        inputs, labels = on.inputs.index_select(0, chosen), on.labels.index_select(0, chosen)  # 8 times [chosen]'s pace
        if recipe.augment:
            inputs = augmented(inputs, drawn)
        output, loss = step(inputs, labels, i + 1 == len(batches))
        if not math.isfinite(loss):
            return math.nan, math.nan, done, divergence_reason(model, inputs, labels)
        losses.append(loss)
        right += (output.argmax(1) == labels).sum()
        seen += len(chosen)
        done += 1
        if checkpoint is not None:
            pace = seen / max(time.monotonic() - began, 1e-9)
            checkpoint.tell(f"epoch {epoch + 1} of {recipe.epochs}, {pace:.0f} images/s")
    return math.fsum(losses) / len(losses), int(right) / seen, done, ""


def autograd_step(model: nn.Module, stepper: Any, inputs: Tensor, labels: Tensor) -> tuple[Tensor, float]:
    """Forward, backward, update; outputs and loss before it. Where the loss is not finite, nothing is updated.

    Example:
        >>> model = nn.Linear(2, 2)
        >>> stepper = torch.optim.SGD(model.parameters(), lr=0.1)
        >>> output, loss = autograd_step(model, stepper, torch.ones(1, 2), torch.tensor([0]))
        >>> tuple(output.shape), autograd_step(model, stepper, torch.full((1, 2), math.inf), torch.tensor([0]))[1]
        ((1, 2), nan)
    """
    output = model(inputs)
    loss = nn.functional.cross_entropy(output, labels)
    value = loss.item()
    if math.isfinite(value):
        stepper.zero_grad()
        loss.backward()  # type: ignore[no-untyped-call]
        stepper.step()
    return output.detach(), value


def _stepping(model: nn.Module, stepper: Any, recipe: Recipe, samples: int, channels_last: bool) -> Step:
    """One step as a function of a batch, its labels, and whether gradients are looked at after it."""
    if recipe.fast and covers(model):
        assert isinstance(model, nn.Sequential)
        written = WrittenSteps(model, samples, stepper)
        return lambda inputs, labels, last: written(inputs, labels, keep=last)
    if channels_last:
        return lambda inputs, labels, _: autograd_step(
            model, stepper, inputs.contiguous(memory_format=torch.channels_last), labels
        )
    return lambda inputs, labels, _: autograd_step(model, stepper, inputs, labels)


def _wants_channels_last(model: nn.Module, sets: Sets, device: str) -> bool:
    """Convolutions of colour images on a CPU; the layouts of one channel cannot be told apart."""
    convolutional = any(isinstance(module, nn.Conv2d) for module in model.modules())
    return convolutional and device == "cpu" and sets.inputs.dim() == 4 and sets.inputs.shape[1] > 1


def augmented(images: Tensor, generator: np.random.Generator) -> Tensor:
    """Every image shifted by up to four pixels each way, over zeros, and mirrored with probability one half.

    Example:
        >>> augmented(torch.ones(2, 3, 8, 8), np.random.default_rng(0)).shape
        torch.Size([2, 3, 8, 8])
    """
    count, _, height, width = images.shape
    device = images.device
    shifts = torch.from_numpy(generator.integers(0, 2 * _SHIFT + 1, (2, count, 1))).to(device)
    mirrored = torch.from_numpy(generator.random((count, 1)) < 0.5).to(device)
    rows = torch.arange(height, device=device) + shifts[0]
    columns = torch.arange(width, device=device).expand(count, width)
    columns = torch.where(mirrored, width - 1 - columns, columns) + shifts[1]
    padded = nn.functional.pad(images, (_SHIFT,) * 4)
    samples = torch.arange(count, device=device)[:, None, None]
    chosen: Tensor = padded.permute(0, 2, 3, 1)[samples, rows[:, :, None], columns[:, None, :]]
    # a copy, not contiguous(), which keeps the strides of a single channel; convolutions write out of bounds with them
    return chosen.permute(0, 3, 1, 2).clone(memory_format=torch.contiguous_format)


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


def _cards(device: str) -> list[torch.device]:
    """The device, if it has a generator of its own, which dropout then draws from."""
    return [torch.device(device)] if device.startswith("cuda") else []


def _generators(device: str) -> list[Tensor]:
    states = [torch.get_rng_state(), *(torch.cuda.get_rng_state(card) for card in _cards(device))]
    return [state.to(torch.int64) for state in states]


def _set_generators(states: list[Tensor], device: str) -> None:
    """Those of `_generators`; a run that goes on on another kind of device keeps the first alone."""
    torch.set_rng_state(states[0].to(torch.uint8))
    for card, state in zip(_cards(device), states[1:], strict=False):
        torch.cuda.set_rng_state(state.to(torch.uint8), card)


def _state(
    model: nn.Module, stepper: Any, history: dict[str, list[Any]], epoch: int, steps: int, device: str
) -> dict[str, Any]:
    return {
        "model": model.state_dict(),
        "stepper": stepper.state_dict(),
        "generators": _generators(device),
        "history": history,
        "epoch": epoch,
        "steps": steps,
    }


def _dataset(history: Mapping[str, list[Any]], epochs: int, diverged: int, because: str) -> xarray.Dataset:
    variables: dict[str, Any] = {"diverged_at": diverged, "diverged_because": because}
    for name, rows in history.items():
        values = np.stack([np.asarray(row, dtype=float) for row in rows])
        full = np.full((epochs + 1, *values.shape[1:]), math.nan)
        full[: len(values)] = values
        variables[name] = (("epoch", *[f"{name}_index"] * (values.ndim - 1)), full)
    curves = xarray.Dataset(variables, coords={"epoch": np.arange(epochs + 1)})
    return (
        curves.rename(monitor_index="signal").assign_coords(signal=list(MONITORED)) if "monitor" in curves else curves
    )
