"""`fit`: train a network, measure it by epoch, keep its state; `fit_together`: several at once."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch
import xarray
from torch import nn

from isometer.errors import IsometerError
from isometer.nn import AdaptiveClipping
from isometer.run import Checkpoint
from isometer_papers.training._stack import Apply, Stack, applied_together
from isometer_papers.training._written import WrittenSteps, covers
from isometer_papers.training.images import Sets
from isometer_papers.training.recipes import Recipe
from isometer_papers.training.watching import MONITORED, divergence_reason, watched

Tensor = torch.Tensor
Measure = Callable[[nn.Module], float | np.ndarray[Any, Any]]
Step = Callable[[Tensor, Tensor, bool], tuple[Tensor, Tensor]]
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
        pause: least number of seconds between checkpoints; slow ones are further apart, so that they cost about 3 %.
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
    [curves] = fit_together(
        [model],
        [sets],
        recipe,
        seeds=[seed],
        measures=[measures or {}],
        every=every,
        test=test,
        checkpoint=checkpoint,
        pause=pause,
        device=device,
    )
    return curves


def fit_together(
    models: Sequence[nn.Module],
    sets: Sequence[Sets],
    recipe: Recipe,
    *,
    seeds: Sequence[int],
    measures: Sequence[Mapping[str, Measure]],
    every: int = 1,
    test: bool = True,
    checkpoint: Checkpoint | None = None,
    pause: float = 60.0,
    device: str = "cpu",
) -> list[xarray.Dataset]:
    """Train networks of one shape, each as `fit` would, their steps taken together where that is faster.

    Each has its own samples, order and measures, and none knows of the others. Numbers are those of `fit` up to
    rounding, and the same every time for the same networks together. Networks whose layers are not written for that,
    or a recipe that is not `fast`, are trained one after the other.

    Args:
        models: trained in place.
        sets: what each is trained on, as many samples for all.
        recipe: how.
        seeds: of the orders of the samples; of dropout the first.
        measures: of each.
        every: see `fit`, as for what follows.
        test: whether to test.
        checkpoint: where the states are kept.
        pause: seconds between checkpoints.
        device: of torch.

    Returns:
        The curves of each, see `fit`.

    Example:
        >>> from isometer_papers.architectures import mlp
        >>> from isometer_papers.training import image_sets
        >>> sets, nets = image_sets("digits", 200, 100), [mlp(64, 10, depth=2, width=32, seed=i) for i in range(2)]
        >>> recipe = Recipe(0.1, epochs=2, batch=20)
        >>> curves = fit_together(nets, [sets, sets], recipe, seeds=[0, 1], measures=[{}, {}])
        >>> alone = fit(mlp(64, 10, depth=2, width=32, seed=1), sets, recipe, seed=1)
        >>> len(curves), bool(abs(curves[1]["train_loss"] - alone["train_loss"])[1:].max() < 1e-4)
        (2, True)
    """
    if len({len(models), len(sets), len(seeds), len(measures)}) > 1 or not models:
        given = f"{len(models)} networks, {len(sets)} sets, {len(seeds)} seeds and measures of {len(measures)}"
        raise IsometerError(f"there are {given}; expected the same number of each, at least one")
    training = _Training(models, sets, recipe, seeds, measures, every, test, checkpoint, pause, device)
    if len(models) == 1 or training.together:
        return training.complete()
    parts = _Parts(checkpoint, len(models))
    found = list[xarray.Dataset]()
    for i, one in enumerate(zip(models, sets, seeds, measures, strict=True)):
        model, own, seed, measured = one
        lone = _Training([model], [own], recipe, [seed], [measured], every, test, parts.part(i), pause, device)
        found += lone.complete()
    return found


class _Parts:
    """The checkpoint of networks that are trained one after the other: finished ones and the present one, by number."""

    def __init__(self, whole: Checkpoint | None, count: int) -> None:
        self._whole = whole
        saved = None if whole is None else whole.load()
        self._states: list[Any] = [None] * count if saved is None else saved["parts"]

    def part(self, i: int) -> Checkpoint | None:
        return None if self._whole is None else _Part(self, i)

    def state(self, i: int) -> Any:
        return self._states[i]

    def save(self, i: int, state: Any) -> None:
        assert self._whole is not None
        self._states[i] = state
        self._whole.save({"parts": self._states})

    def tell(self, text: str) -> None:
        assert self._whole is not None
        self._whole.tell(text)


class _Part(Checkpoint):
    def __init__(self, parts: _Parts, i: int) -> None:
        super().__init__()
        self._parts, self._i = parts, i

    def load(self) -> Any:
        return self._parts.state(self._i)

    def save(self, state: Any) -> None:
        self._parts.save(self._i, state)

    def tell(self, text: str) -> None:
        self._parts.tell(text)


@dataclass
class _Course:
    """What is known of one network's training so far."""

    history: dict[str, list[Any]] = field(default_factory=dict)
    diverged: int = -1
    because: str = ""


class _Training:
    """Networks on their way."""

    def __init__(
        self,
        models: Sequence[nn.Module],
        sets: Sequence[Sets],
        recipe: Recipe,
        seeds: Sequence[int],
        measures: Sequence[Mapping[str, Measure]],
        every: int,
        test: bool,
        checkpoint: Checkpoint | None,
        pause: float,
        device: str,
    ) -> None:
        self.models, self.recipe, self.seeds = list(models), recipe, list(seeds)
        self.every, self.test, self.checkpoint, self.pause, self.device = every, test, checkpoint, pause, device
        self.channels_last = recipe.fast and _wants_channels_last(models[0], sets[0], device)
        # A monitor hangs on the modules, which a stack does not call.
        self.together = recipe.fast and not recipe.watch and can_be_together(models[0])
        self.sets, self.measures = list(sets), [dict(one) for one in measures]

    def complete(self) -> list[xarray.Dataset]:
        """The curves of all."""
        self._prepare()
        saved = None if self.checkpoint is None else self.checkpoint.load()
        with torch.random.fork_rng(devices=_cards(self.device)):
            # torch.manual_seed would reseed every card, also those that fork_rng does not put back
            torch.default_generator.manual_seed(self.seeds[0] % (1 << 63))
            for card in _cards(self.device):
                with torch.cuda.device(card):
                    torch.cuda.manual_seed(self.seeds[0] % (1 << 63))
            start = 0 if saved is None else self._resume(saved)
            if saved is None:
                self._record([(math.nan, math.nan)] * len(self.models), now=True)
            self.step = stepping(self.stack, self.stepper, self.recipe, self.samples, self.channels_last)
            self._epochs(start)
        return [_dataset(one.history, self.recipe.epochs, one.diverged, one.because) for one in self.courses]

    def _prepare(self) -> None:
        for model in self.models:
            model.to(self.device)
            if self.channels_last:
                model.to(memory_format=torch.channels_last)  # type: ignore[call-overload]
        self.stack = Stack(self.models)
        self.stepper = optimizer(self.stack, self.recipe)
        self.sets = [one.to(self.device) for one in self.sets]
        self.pool = _Pool(self.sets)
        self.samples = min(self.recipe.batch, self.pool.count)
        self.courses = [_Course() for _ in self.models]
        self.done = 0
        if self.recipe.watch:
            for own, on in zip(self.measures, self.sets, strict=True):
                own["monitor"] = watched(on.inputs, on.labels)

    def _epochs(self, start: int) -> None:
        kept_at, wait = time.monotonic(), self.pause
        for epoch in range(start, self.recipe.epochs):
            if (self.recipe.steps is not None and self.done >= self.recipe.steps) or not self._alive():
                break
            for group in self.stepper.param_groups:
                group["lr"] = self.recipe.rate(epoch) * group["factor"]
            results = self._epoch(epoch)
            self.stack.share_gradients()
            now = (epoch + 1) % self.every == 0 or epoch + 1 == self.recipe.epochs
            self._record(results, now=now)
            if self.checkpoint is not None and time.monotonic() - kept_at >= wait:
                began = time.monotonic()
                self.checkpoint.save(self._state(epoch + 1))
                kept_at = time.monotonic()
                wait = max(self.pause, 30 * (kept_at - began)) if self.pause else 0.0

    def _alive(self) -> list[int]:
        return [i for i, one in enumerate(self.courses) if one.diverged < 0]

    def _epoch(self, epoch: int) -> list[tuple[float, float]]:
        """One pass of all; the mean loss and accuracy of each."""
        for model in self.models:
            model.train()
        # generators per epoch: a run that goes on needs no replay of the epochs before
        drawn = [np.random.default_rng(np.random.SeedSequence(seed, spawn_key=(epoch,))) for seed in self.seeds]
        batches = self._batches(drawn)
        losses = list[Tensor]()
        right = torch.zeros(len(self.models), dtype=torch.long, device=self.device)
        began, seen = time.monotonic(), 0
        for i, chosen in enumerate(batches):
            inputs, labels = self.pool.batch(chosen)
            if self.recipe.augment:
                inputs = torch.stack([augmented(*one) for one in zip(inputs, drawn, strict=True)])
            outputs, loss = self.step(inputs, labels, i + 1 == len(batches))
            if not bool(loss.isfinite().all()):
                self._lose(loss, inputs, labels)
                if not self._alive():
                    break
            losses.append(loss)
            right += (outputs.argmax(2) == labels).sum(1)
            seen += chosen.numel()
            self.done += 1
            if self.checkpoint is not None:
                pace = seen / max(time.monotonic() - began, 1e-9)
                self.checkpoint.tell(f"epoch {epoch + 1} of {self.recipe.epochs}, {pace:.0f} images/s")
        if not losses:
            return [(math.nan, math.nan)] * len(self.models)
        each, count = torch.stack(losses).double().cpu().numpy(), len(losses) * batches[0].shape[1]
        return [(math.fsum(each[:, i]) / len(losses), int(right[i]) / count) for i in range(len(self.models))]

    def _batches(self, drawn: Sequence[np.random.Generator]) -> list[Tensor]:
        """Numbers of samples, networks by samples of a batch."""
        orders = torch.from_numpy(np.stack([one.permutation(self.pool.count) for one in drawn])).to(self.device)
        batches = list(torch.split(orders, self.recipe.batch, dim=1))
        if len(batches) > 1 and batches[-1].shape[1] < self.recipe.batch:
            batches = batches[:-1]  # batch statistics of a rest are another network
        if self.recipe.steps is not None:
            batches = batches[: max(self.recipe.steps - self.done, 0)]
        return batches

    def _lose(self, losses: Tensor, inputs: Tensor, labels: Tensor) -> None:
        """Note which networks have diverged; the others go on."""
        for i in self._alive():
            if not math.isfinite(losses[i]):
                self.courses[i].diverged = self.done
                self.courses[i].because = divergence_reason(self.models[i], inputs[i], labels[i])

    def _record(self, results: Sequence[tuple[float, float]], *, now: bool) -> None:
        """Measure every network that has not diverged."""
        for i in self._alive():
            loss, accuracy = results[i]
            _record(
                self.courses[i].history,
                self.models[i],
                self.sets[i],
                self.measures[i],
                loss,
                accuracy,
                test=self.test,
                now=now,
            )

    def _state(self, epoch: int) -> dict[str, Any]:
        return {
            "models": [model.state_dict() for model in self.models],
            "stepper": self.stepper.state_dict(),
            "generators": _generators(self.device),
            "courses": [[one.history, one.diverged, one.because] for one in self.courses],
            "epoch": epoch,
            "steps": self.done,
        }

    def _resume(self, saved: Mapping[str, Any]) -> int:
        """The state of a checkpoint; the epoch to begin with."""
        for model, state in zip(self.models, saved["models"], strict=True):
            model.load_state_dict(state)
        self.stepper.load_state_dict(saved["stepper"])
        _set_generators(saved["generators"], self.device)  # over the seed: dropout goes on where the run stopped
        self.courses = [_Course(*one) for one in saved["courses"]]
        self.done = saved["steps"]
        return int(saved["epoch"])


class _Pool:
    """The samples of all networks in one tensor, those that they share once."""

    def __init__(self, sets: Sequence[Sets]) -> None:
        distinct = list({id(one.inputs): one for one in sets}.values())
        self.inputs, self.labels = distinct[0].inputs, distinct[0].labels
        self.count = len(self.inputs)
        if len(distinct) > 1:
            self.inputs, self.labels = (
                torch.cat([getattr(one, name) for one in distinct]) for name in ("inputs", "labels")
            )
        places = {id(one.inputs): i * self.count for i, one in enumerate(distinct)}
        self._offsets = torch.tensor([[places[id(one.inputs)]] for one in sets], device=self.inputs.device)
        if any(len(one.inputs) != self.count for one in sets):
            raise IsometerError("networks that are trained together have training sets of one size; expected the same")

    def batch(self, chosen: Tensor) -> tuple[Tensor, Tensor]:
        """Inputs and labels of these samples of every network, networks first."""
        places = (chosen + self._offsets).reshape(-1)
        # 8 times the pace of indexing with brackets
        inputs, labels = self.inputs.index_select(0, places), self.labels.index_select(0, places)
        return inputs.view(*chosen.shape, *inputs.shape[1:]), labels.view(chosen.shape)


# --- steps ---------------------------------------------------------------


def optimizer(stack: Stack, recipe: Recipe) -> torch.optim.Optimizer:
    """The optimiser of a stack; gradients are clipped before its steps by the norms of each network, where requested.

    Example:
        >>> len(optimizer(Stack([nn.Linear(2, 2)]), Recipe(0.1, 1)).param_groups)
        2
    """
    stepper = recipe.stepper(stack.parameters.values())
    if recipe.clip is not None:
        each = [parameter for model in stack.models for parameter in model.parameters()]
        clipping = AdaptiveClipping(torch.optim.SGD(each, lr=0.0), recipe.clip, units=recipe.clip_units)

        def before(*_: Any) -> None:
            stack.share_gradients()
            clipping.clip()

        stepper.register_step_pre_hook(before)
    return stepper


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


def can_be_together(model: nn.Module) -> bool:
    """Whether networks like this one can take their steps together.

    Example:
        >>> can_be_together(nn.Sequential(nn.Linear(2, 2))), can_be_together(nn.Bilinear(2, 2, 2))
        (True, False)
    """
    return covers(model) or applied_together(Stack([model])) is not None


def stepping(stack: Stack, stepper: Any, recipe: Recipe, samples: int, channels_last: bool) -> Step:
    """One step of all networks of a stack: a function of batches `(networks, samples, …)`, their labels, and whether
    gradients are looked at after it, to outputs `(networks, samples, classes)` and losses before it.

    Example:
        >>> stack, recipe = Stack([nn.Linear(2, 2)]), Recipe(0.1, 1)
        >>> step = stepping(stack, optimizer(stack, recipe), recipe, 3, False)
        >>> [tuple(one.shape) for one in step(torch.ones(1, 3, 2), torch.zeros(1, 3).long(), False)]
        [(1, 3, 2), (1,)]
    """
    (model, *others) = stack.models
    if recipe.fast and covers(model):
        written = WrittenSteps(stack, samples, stepper)
        return lambda inputs, labels, last: written(inputs, labels, keep=last)
    if others:
        together = applied_together(stack)
        assert together is not None  # `can_be_together` has looked
        return lambda inputs, labels, _: _step_together(together, stepper, inputs, labels, channels_last)

    def alone(inputs: Tensor, labels: Tensor, _: bool) -> tuple[Tensor, Tensor]:
        batch = inputs[0].contiguous(memory_format=torch.channels_last) if channels_last else inputs[0]
        output, loss = autograd_step(model, stepper, batch, labels[0])
        return output[None], torch.tensor([loss])

    return alone


def _step_together(
    together: Apply, stepper: Any, inputs: Tensor, labels: Tensor, channels_last: bool
) -> tuple[Tensor, Tensor]:
    """A step of all: the networks share no parameter, so the gradients of the sum of losses are those of each."""
    networks, samples = labels.shape
    if channels_last:  # at once, in one copy
        joined = inputs.permute(1, 3, 4, 0, 2).flatten(3).permute(0, 3, 1, 2)
    else:
        joined = inputs.transpose(0, 1).flatten(1, 2)
    logits = together(joined).view(samples, networks, -1).transpose(0, 1)
    each = nn.functional.cross_entropy(logits.flatten(0, 1), labels.flatten(), reduction="none")
    losses = each.view(networks, samples).mean(1)
    if bool(losses.isfinite().any()):
        stepper.zero_grad()
        losses.sum().backward()  # type: ignore[no-untyped-call]
        stepper.step()
    return logits.detach(), losses.detach()


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
