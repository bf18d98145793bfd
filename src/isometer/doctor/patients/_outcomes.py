"""The truth about a patient: does it train?

Every batch is drawn once from more samples than a run uses, and its loss is read before the step that uses it: the
training loss is a held-out loss, in the very mode (batch statistics, dropout, batch size, defect) the patient trains
in. The final loss of a run is its mean over the last `WINDOW` steps.
"""

from __future__ import annotations

import math
import time
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from scipy import stats

from isometer.doctor.patients._inputs import CLASSES, Images, pick
from isometer.doctor.patients._patient import Patient
from isometer.doctor.training._loop import LEARNING_RATES, TrainingCurve, train
from isometer.errors import IsometerError

Tensor = torch.Tensor
CHANCE = math.log(CLASSES)
MATERIAL = 0.75
SIGNIFICANT = 0.01
LEARNED = 0.5


@dataclass(frozen=True)
class Trial:
    """The outcome of training a patient.

    Example:
        >>> done = Trial("x", (0.1, 0.01), (0, 1), ((1.0, 0.9), (0.5, 0.9)), ((False, False), (False, False)), 200, 1.0)
        >>> done.best_learning_rate, done.best_losses
        (0.1, (1.0, 0.5))

    Attributes:
        patient: its name.
        learning_rates: those that were tried.
        seeds: those that were tried.
        losses: final losses, one row per seed, one column per learning rate; a run that diverged or ended above chance
            has the loss of chance.
        diverged: which runs diverged.
        steps: steps per run.
        seconds: processor time that all of it took.
    """

    patient: str
    learning_rates: tuple[float, ...]
    seeds: tuple[int, ...]
    losses: tuple[tuple[float, ...], ...]
    diverged: tuple[tuple[bool, ...], ...]
    steps: int
    seconds: float

    @property
    def best(self) -> int:
        """Position of the learning rate with the lowest mean loss over seeds."""
        return int(np.argmin(np.mean(self.losses, axis=0)))

    @property
    def best_learning_rate(self) -> float:
        """The learning rate with the lowest mean loss over seeds."""
        return self.learning_rates[self.best]

    @property
    def best_losses(self) -> tuple[float, ...]:
        """Final loss of every seed at the best learning rate."""
        return tuple(row[self.best] for row in self.losses)

    @property
    def reductions(self) -> tuple[float, ...]:
        """By how much every seed got below chance at the best learning rate."""
        return tuple(CHANCE - loss for loss in self.best_losses)


def trial(
    patient: Patient,
    *,
    data: Images,
    steps: int = 200,
    learning_rates: Sequence[float] | None = None,
    seeds: Sequence[int] = (0, 1, 2),
) -> Trial:
    """Train a patient at several learning rates from several seeds, each run on fresh batches of its own size.

    Args:
        patient: the patient; its defect applies to every batch.
        data: images to draw the batches from, without replacement within a run.
        steps: steps per run.
        learning_rates: `LEARNING_RATES` of its optimizer by default.
        seeds: seeds of the weights, of the order of the data, and of dropout.

    Returns:
        The final losses.

    Raises:
        IsometerError: there are too few images for fresh batches.

    Example:
        >>> from isometer.doctor.patients import patient
        >>> rng = np.random.default_rng(0)
        >>> data = Images.of(rng.random((320, 1, 28, 28)), rng.integers(10, size=320))
        >>> trial(patient("mlp-relu-10"), data=data, steps=10, seeds=[0]).learning_rates
        (0.001, 0.01, 0.1)
    """
    needed = steps * patient.samples
    if len(data.labels) < needed:
        raise IsometerError(
            f"there are {len(data.labels)} images; expected {needed} for {steps} fresh batches of {patient.samples} — "
            "pass more images or fewer steps"
        )
    rates = tuple(learning_rates or LEARNING_RATES[patient.optimizer])
    start = time.process_time()
    curves = [[_run(patient, data, rate, steps, seed) for rate in rates] for seed in seeds]
    return Trial(
        patient.name,
        rates,
        tuple(seeds),
        tuple(tuple(min(curve.final, CHANCE) for curve in row) for row in curves),
        tuple(tuple(curve.diverged for curve in row) for row in curves),
        steps,
        time.process_time() - start,
    )


def _run(patient: Patient, data: Images, rate: float, steps: int, seed: int) -> TrainingCurve:
    order = torch.randperm(len(data.labels), generator=torch.Generator().manual_seed(seed))

    def sampler(step: int) -> tuple[Tensor, Tensor]:
        batch = pick(patient.input, data, order[step * patient.samples : (step + 1) * patient.samples])
        return batch if patient.defect is None else patient.defect(*batch)

    return train(
        patient.model(seed),
        sampler,
        loss=patient.loss,
        optimizer=patient.optimizer,
        learning_rate=rate,
        steps=steps,
        seed=seed,
    )


@dataclass(frozen=True)
class Truth:
    """Whether a patient trains.

    Example:
        >>> Truth(False, 0.02, 1e-5).trains
        False

    Attributes:
        trains: the verdict.
        ratio: its mean loss reduction over that of its sibling (of chance, if it has none).
        p_value: p-value of Welch's one-sided test that its reduction is smaller; 1 without a sibling.
    """

    trains: bool
    ratio: float
    p_value: float


def judge(own: Trial, sibling: Trial | None = None) -> Truth:
    """Whether a patient trains, in comparison with its healthy sibling.

    The reduction is log(classes) minus the final loss at the best learning rate. A patient fails to train if its mean
    reduction is below `MATERIAL` = 3/4 of its sibling's and Welch's one-sided t-test over seeds says that it is smaller
    with p < `SIGNIFICANT` = 0.01. A patient without a sibling trains if its mean reduction is at least `LEARNED` = half
    of log(classes).

    Args:
        own: the trial of the patient.
        sibling: the trial of its sibling.

    Returns:
        The verdict with its numbers.

    Example:
        >>> sick = Trial("sick", (0.1,), (0, 1), ((2.29,), (2.30,)), ((False,), (False,)), 200, 1.0)
        >>> well = Trial("well", (0.1,), (0, 1), ((0.61,), (0.62,)), ((False,), (False,)), 200, 1.0)
        >>> judge(sick, well).trains, judge(well).trains
        (False, True)
    """
    reduction = np.asarray(own.reductions)
    if sibling is None:
        ratio = float(reduction.mean()) / CHANCE
        return Truth(ratio >= LEARNED, ratio, 1.0)
    reference = np.asarray(sibling.reductions)
    ratio = float(reduction.mean() / reference.mean()) if reference.mean() > 0 else 1.0
    p_value = _smaller(reduction, reference)
    return Truth(not (ratio < MATERIAL and p_value < SIGNIFICANT), ratio, p_value)


def _smaller(first: np.ndarray, second: np.ndarray) -> float:
    """p-value of Welch's test; equal values within both have a defined answer."""
    spread = [float(x.var(ddof=1)) / len(x) if len(x) > 1 else math.inf for x in (first, second)]
    difference = float(second.mean() - first.mean())
    total = sum(spread)
    if total == 0 or math.isinf(total):
        return 0.0 if total == 0 and difference > 0 else 1.0
    # Welch's and Satterthwaite's degrees of freedom.
    freedom = total**2 / sum(v**2 / (len(x) - 1) for v, x in zip(spread, (first, second), strict=True))
    return float(stats.t.sf(difference / math.sqrt(total), freedom))
