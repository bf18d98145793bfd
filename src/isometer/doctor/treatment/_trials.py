"""Does it help? Both models trained briefly, on the same batches, at several learning rates, from several seeds."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn

from isometer.doctor.probe._subject import left_alone, working_copy
from isometer.doctor.training._loop import LEARNING_RATES, WINDOW, TrainingCurve, train
from isometer.errors import IsometerError, unknown_name
from isometer.serialize import json_data

Sampler = Callable[[int, int], tuple[Any, Any]]
Loss = Callable[[Any, Any], torch.Tensor]
Make = Callable[[int], nn.Module]
_POINTS = 200


@dataclass(frozen=True)
class Arm:
    """The runs of one of the two models.

    Example:
        >>> Arm(((2.0, 1.0), (2.0, 1.2)), 1, ((2.3, 1.0), (2.3, 1.2))).best_losses
        (1.0, 1.2)

    Attributes:
        final: mean loss of the last 40 steps, one row per seed, one column per learning rate; infinity for a run that
            diverged, nan for one whose loss was no longer a number.
        best: position of the learning rate with the lowest mean of the final losses; both of these are the worst.
        curves: losses of every step at the best learning rate, one row per seed; infinite from where a run diverged,
            nan from where its loss was not a number.
    """

    final: tuple[tuple[float, ...], ...]
    best: int
    curves: tuple[tuple[float, ...], ...]

    @property
    def best_losses(self) -> tuple[float, ...]:
        """Final loss of every seed at the best learning rate."""
        return tuple(row[self.best] for row in self.final)


@dataclass(frozen=True)
class TreatmentTrial:
    """The outcome of training before and after treatment.

    Example:
        >>> sick, well = (Arm(((x,), (x + 0.1,)), 0, ((x,), (x + 0.1,))) for x in (2.2, 0.5))
        >>> TreatmentTrial(1, (0.1,), (0, 1), sick, well, 2.3).better
        True

    Attributes:
        steps: per run.
        learning_rates: the rates that were tried.
        seeds: the seeds that were tried.
        before: runs of the untreated model.
        after: runs of the treated one.
        start: loss that a run is measured against, of the untreated model at its first step.
    """

    steps: int
    learning_rates: tuple[float, ...]
    seeds: tuple[int, ...]
    before: Arm
    after: Arm
    start: float

    @property
    def better(self) -> bool:
        """Whether the worst seed of the treated model ends below the best of the untreated one."""
        return max(_ranked(self.after)) < min(_ranked(self.before))

    @property
    def summary(self) -> str:
        """One line."""
        before, after = (float(np.mean(arm.best_losses)) for arm in (self.before, self.after))
        if self.better:
            word = "beats the untreated one beyond the bands"
        elif min(_ranked(self.after)) > max(_ranked(self.before)):
            word = "is worse beyond the bands"
        else:
            word = "does not differ beyond the bands"
        losses = f"loss {before:.3g} untreated, {after:.3g} treated"
        if not math.isfinite(before + after):
            losses = f"the loss {_in_words(before)} untreated and {_in_words(after)} treated"
        return f"{self.steps} steps: {losses}; the treated model {word}."

    def to_dict(self) -> dict[str, Any]:
        """Ready for JSON; curves are means of neighbours, at most 200 points, with the lowest and highest seed."""
        return {
            "steps": self.steps,
            "learning_rates": list(self.learning_rates),
            "seeds": list(self.seeds),
            "better": self.better,
            "summary": self.summary,
            "before": _arm(self.before, self.learning_rates),
            "after": _arm(self.after, self.learning_rates),
        }


def trial(
    before: nn.Module | Make,
    after: nn.Module | Make,
    batch: Any = None,
    *,
    sampler: Sampler | None = None,
    target: Any = None,
    samples: int | None = None,
    loss: Loss,
    steps: int = 200,
    optimizer: str = "sgd",
    learning_rates: Sequence[float] | None = None,
    seeds: Sequence[int] = (0, 1, 2),
    progress: Callable[[int, int], None] | None = None,
) -> TreatmentTrial:
    """Train an untreated and a treated model on the same batches and compare.

    Args:
        before: the untreated model, or a function of the seed that makes it. A model is copied for every run and stays
            as it is; seeds then differ in batches and dropout only.
        after: the treated one, likewise.
        batch: inputs, from which every step draws samples at random. Or give a sampler.
        sampler: function of step and seed that gives inputs and targets.
        target: what the loss compares with, one entry per sample of the batch.
        samples: samples per step, half of the batch by default.
        loss: a function of output and target.
        steps: per run.
        optimizer: `sgd` (momentum 0.9) or `adam`.
        learning_rates: three that suit the optimizer by default.
        seeds: seeds of the runs.
        progress: called with the number of runs that are done and that there are.

    Returns:
        A `TreatmentTrial`.

    Raises:
        IsometerError: neither or both of batch and sampler are given, or a number is out of range.

    Example:
        >>> def make(gain: float) -> nn.Module:
        ...     torch.manual_seed(0)
        ...     model = nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Linear(16, 2))
        ...     for parameter in model[0].parameters():
        ...         parameter.data.mul_(gain)
        ...     return model
        >>> batch = torch.randn(64, 8, generator=torch.Generator().manual_seed(0))
        >>> done = trial(make(0.0), make(1.0), batch, target=(batch[:, 0] > 0).long(), steps=20, seeds=[0, 1],
        ...              loss=nn.functional.cross_entropy)
        >>> done.better
        True
    """
    if (batch is None) == (sampler is None):
        raise IsometerError("expected either a batch or a sampler — pass trial(before, after, batch, …) or sampler=…")
    if steps < 1 or not seeds:
        raise IsometerError(f"steps is {steps} and there are {len(seeds)} seeds; expected at least one of each")
    if sampler is None and target is None:
        raise IsometerError("target was not given; expected the targets of the loss — pass target=labels")
    if optimizer not in LEARNING_RATES:
        raise unknown_name("optimizer", optimizer, LEARNING_RATES)
    draw = sampler or _from_batch(batch, target, samples)
    rates = tuple(learning_rates or LEARNING_RATES[optimizer])
    total = 2 * len(rates) * len(seeds)
    done = 0
    arms: list[list[list[TrainingCurve]]] = []
    for source in (before, after):
        rows = []
        for seed in seeds:
            row = []
            for rate in rates:
                row.append(_run(source, draw, loss, optimizer, rate, steps, seed))
                done += 1
                if progress is not None:
                    progress(done, total)
            rows.append(row)
        arms.append(rows)
    start = arms[0][0][0].losses[0]
    return TreatmentTrial(steps, rates, tuple(seeds), _summed(arms[0]), _summed(arms[1]), start)


def _run(
    source: nn.Module | Make, draw: Sampler, loss: Loss, optimizer: str, rate: float, steps: int, seed: int
) -> TrainingCurve:
    def trained(model: nn.Module) -> TrainingCurve:
        model.train()
        return train(
            model,
            lambda step: draw(step, seed),
            loss=loss,
            optimizer=optimizer,
            learning_rate=rate,
            steps=steps,
            seed=seed,
        )

    if isinstance(source, nn.Module):
        return left_alone(source, lambda: trained(working_copy(source)))
    return trained(source(seed))


def _from_batch(batch: Any, target: Any, samples: int | None) -> Sampler:
    """Some of the samples, drawn anew for every step."""
    from isometer.doctor.probe._tensor_trees import map_tensors, tensors

    count = next(tensors(batch)).shape[0]
    size = min(count, samples or max(2, count // 2))

    def draw(step: int, seed: int) -> tuple[Any, Any]:
        # From seed and step alone, so that both models meet the same batches.
        rng = np.random.default_rng(np.random.SeedSequence(seed, spawn_key=(step,)))
        chosen = torch.as_tensor(np.sort(rng.choice(count, size, replace=False)))

        def some(tensor: torch.Tensor) -> torch.Tensor:
            return tensor[chosen.to(tensor.device)] if tensor.dim() and tensor.shape[0] == count else tensor

        return map_tensors(some, batch), map_tensors(some, target)

    return draw


def _summed(rows: Sequence[Sequence[TrainingCurve]]) -> Arm:
    means = np.mean([[curve.final for curve in row] for row in rows], axis=0)
    best = int(np.argmin(means))
    final = tuple(tuple(curve.losses[-1] if curve.diverged else curve.final for curve in row) for row in rows)
    curves = tuple(_padded(row[best]) for row in rows)
    return Arm(final, best, curves)


def _padded(curve: TrainingCurve) -> tuple[float, ...]:
    return (*curve.losses, *[curve.losses[-1]] * (curve.steps - len(curve.losses)))


def _ranked(arm: Arm) -> list[float]:
    """The losses of all seeds for comparisons, in which one that is not a number is as bad as an infinite one."""
    return [math.inf if math.isnan(loss) else loss for loss in arm.best_losses]


def _in_words(loss: float) -> str:
    if math.isnan(loss):
        return "is not a number"
    return "diverges" if math.isinf(loss) else f"is {loss:.3g}"


def _arm(arm: Arm, rates: Sequence[float]) -> dict[str, Any]:
    lines: NDArray[np.float64] = np.asarray(arm.curves)
    width = -(-lines.shape[1] // _POINTS)
    edges = range(0, lines.shape[1], width)
    binned = np.stack([lines[:, at : at + width].mean(axis=1) for at in edges], axis=1)
    return {
        "best_learning_rate": rates[arm.best],
        "best_losses": _rounded(arm.best_losses),
        "final": _rounded(arm.final),
        "curve": {
            "step": [min(at + (width - 1) / 2, lines.shape[1] - 1) for at in edges],
            "mean": _rounded(binned.mean(axis=0)),
            "low": _rounded(np.fmin.reduce(binned, axis=0)),  # of the seeds whose loss is a number
            "high": _rounded(binned.max(axis=0)),
        },
    }


_rounded = partial(json_data, digits=6)  # more than a picture shows

__all__ = ["WINDOW", "Arm", "TreatmentTrial", "trial"]
