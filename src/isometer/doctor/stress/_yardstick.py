"""A yardstick: how much small generic learners, which share nothing with a model, make of the same batches.

Where a model and its reference learn nothing, either there is nothing to learn or both have the same fault: in the
architecture, or in inputs that both take as they come. The learners here bring inputs to one scale first, whatever
their units, offsets and outliers, and start from the best constant answer. What they learn can be learned.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

import torch
from torch.nn import functional

from isometer.doctor.probe._signals import guarded
from isometer.doctor.probe._tensor_trees import map_tensors
from isometer.doctor.probe._world import World
from isometer.doctor.stress._material import Material, Pair, written
from isometer.doctor.stress._race import progress
from isometer.doctor.stress._yardstick_answers import SHARED, AnswerShape, answer_like, forms_of, used_outputs
from isometer.doctor.stress._yardstick_learners import Learner, LearnerWeights, learners
from isometer.doctor.stress._yardstick_views import KNOWN, InputReader, Unfit, Views, moved_ahead

Tensor = torch.Tensor
RATES = (3e-3, 2e-2)
"""Rates of Adam at which every learner is tried; in the second half they fall to a tenth."""
_FIRST, _KEPT = 12, 4  # steps after which the better half goes on, and runs that are enough
_LEAST = 4  # losses that say something
_MOST_SAMPLES = 128  # that are learned from at a time


@dataclass(frozen=True)
class Yardstick:
    """What the best of the learners made of the batches.

    Example:
        >>> Yardstick(0.8, "linear", (1.0, 0.5, 0.2)).learner
        'linear'

    Attributes:
        progress: share of the loss of the best constant that is gone at the end; nan where nothing can be said.
        learner: the best one; empty where nothing was learned from.
        losses: losses of the best one, on every batch before it was learned from.
    """

    progress: float
    learner: str
    losses: tuple[float, ...]


def yardstick(material: Material, *, steps: int, seed: int) -> Yardstick:
    """Train small learners on the batches of a material, each batch once, and report the best.

    They are a linear function and a small network of all numbers, convolutions over images, series and sets, and
    embeddings of tokens with their neighbours; each answers in the shape of the output and minimises the material's
    loss. Generators and gradients are left as they were.

    Args:
        material: batches, loss, chance and an output of the model, of which only structure, shapes and types matter.
        steps: at most; fewer where there are fewer batches, since a batch that was learned from tells nothing new.
        seed: seed of the learners, and of a loss that draws numbers.

    Returns:
        The best learner; its progress is nan for targets that are not the caller's, an unknown chance, a single batch,
        targets that are the inputs, and shapes that no learner takes.

    Example:
        >>> from isometer.doctor.stress._material import Batches
        >>> x = 1e4 + torch.randn(40, 32, 8, generator=torch.Generator().manual_seed(0))
        >>> batches = Batches([(one, one[:, :1] - one[:, 1:2]) for one in x])
        >>> given = Material(batches, functional.mse_loss, "yours", 2.0, 2.0, 32, torch.zeros(32, 1))
        >>> yardstick(given, steps=40, seed=0).progress > 0.8
        True
    """
    found: list[_LearnerRun] = []
    levels: list[float] = []
    world = World()

    def train() -> None:
        world.seed(seed)
        torch.set_num_threads(1)  # for so little work more of them only cost time
        torch.set_default_dtype(torch.float32)
        with torch.inference_mode(False), torch.enable_grad(), torch.autocast("cpu", enabled=False):
            found.extend(_trained(material, steps, seed))
            levels.extend(material.level(step) for step in range(max((len(run.losses) for run in found), default=0)))

    try:
        guarded(train, world.restore)
    except Exception:  # data and losses may be odd in any way they like; then nothing can be said
        found.clear()
    best = max(found, key=lambda run: run.progress(material.chance, levels), default=None)
    if best is None:
        return Yardstick(math.nan, "", ())
    return Yardstick(best.progress(material.chance, levels), best.name, tuple(best.losses))


def _trained(material: Material, steps: int, seed: int) -> list[_LearnerRun]:
    """Train all learners at all rates; those that went on to the end."""
    count = material.batches.read(steps)
    if material.kind != "yours" or not math.isfinite(material.chance) or not material.fresh:
        raise Unfit
    known = [_batch(material, step) for step in range(min(count, -(-KNOWN // max(1, material.samples))))]
    if known[0][1] is None:
        raise Unfit
    output = _some(material.output, material.samples)
    used, to_the_end = used_outputs(material, output, known[0][1])
    reader = InputReader([inputs for inputs, _ in known], used)
    ahead = moved_ahead(known[0])
    if 0 in ahead and to_the_end:
        raise Unfit  # what has only to be passed on is no measure for a model that must squeeze it
    runs = list(_runs(material, output, used, known, reader, causal=bool(ahead), seed=seed))
    adam = _adam(runs)
    for step in range(min(steps, count)):
        if step == max(_FIRST, steps // 4):
            runs = sorted(runs, key=lambda run: sum(run.losses[-_FIRST // 2 :]))[: min(_KEPT, -(-len(runs) // 2))]
        inputs, target = _batch(material, step)
        for group, rate in zip(adam.param_groups, RATES, strict=True):
            group["lr"] = rate * min(1.0, 1.9 - 1.8 * step / steps)
        runs = _stepped(runs, adam, reader.views(inputs), material, target)
    return [run for run in runs if len(run.losses) >= min(_LEAST, steps)]


def _batch(material: Material, step: int) -> Pair:
    inputs, target = material.batch(step)
    return _some(inputs, material.samples), _some(target, material.samples)


def _some(tree: Any, samples: int) -> Any:
    """The first samples of a large batch, whose further ones would cost time."""
    if samples <= _MOST_SAMPLES:
        return tree
    return map_tensors(lambda one: one[:_MOST_SAMPLES] if one.dim() and len(one) == samples else one, tree)


def _stepped(
    runs: list[_LearnerRun], adam: torch.optim.Optimizer, views: Views, material: Material, target: Any
) -> list[_LearnerRun]:
    """One step of every run; those that went well. A batch that no learner has a finite loss on is left out."""
    adam.zero_grad()
    tried, learned = False, list[_LearnerRun]()
    for run in runs:
        with suppress(Exception):  # a loss may refuse the answer to another shape of inputs
            value = material.loss(run.output(views), written(target)).float().reshape(())
            tried = True
            if math.isfinite(float(value.detach())):
                run.learn(value / (abs(material.chance) or 1.0))
                run.losses.append(float(value.detach()))
                learned.append(run)
    adam.step()
    return learned or (runs if tried else [])


def _adam(runs: Sequence[_LearnerRun]) -> torch.optim.Optimizer:
    groups = [[one for run in runs if run.rate == rate for one in run.weights.parameters] for rate in RATES]
    return torch.optim.Adam([{"params": one} for one in groups], betas=(0.9, 0.99), eps=1e-12, fused=True)


class _LearnerRun:
    """A learner at one rate, with heads that start at zero: its first answer is the best constant."""

    def __init__(
        self, learner: Learner, rate: float, views: Views, answers: Sequence[AnswerShape], output: Any, seed: int
    ) -> None:
        self.name, self.rate, self._view, self._output = learner.name, rate, learner.view, output
        self.weights, self.losses = LearnerWeights(seed), list[float]()
        self._body = learner.build(self.weights, views[learner.view])
        with torch.no_grad():
            size = self._body(views[learner.view][:1]).shape[-1]
        self._heads = [
            (one, (self.weights.drawn(one.size, size, deviation=0.0), self.weights.drawn(one.size, deviation=0.0)))
            for one in answers
        ]

    def output(self, views: Views) -> Any:
        """What a model would return."""
        features = self._body(views[self._view])
        found = {id(answer.like): answer(functional.linear(features, *head)) for answer, head in self._heads}
        return map_tensors(lambda one: found.get(id(one), one.detach()), self._output)

    def learn(self, value: Tensor) -> None:
        """Note the gradient of a loss."""
        # Not backward(): the loss may hold parameters, whose gradients are the caller's.
        slopes = torch.autograd.grad(value, self.weights.parameters, allow_unused=True)
        for one, slope in zip(self.weights.parameters, slopes, strict=True):
            one.grad = slope

    def progress(self, chance: float, levels: Sequence[float]) -> float:
        """As of a model on fresh batches."""
        losses = tuple(loss / level for loss, level in zip(self.losses, levels, strict=False))
        return progress(losses, "fresh batches", chance)


def _runs(
    material: Material,
    output: Any,
    used: Sequence[Tensor],
    known: Sequence[Pair],
    reader: InputReader,
    *,
    causal: bool,
    seed: int,
) -> Iterator[_LearnerRun]:
    views = reader.views(known[0][0])
    forms = [forms_of(one, views) for one in used]
    for form in SHARED:
        if not forms or not all(form in one for one in forms):
            continue
        targets = [target for _, target in known]
        answers = [
            answer_like(material, output, one, form, its[form], targets) for one, its in zip(used, forms, strict=True)
        ]
        for learner in learners(views, form, reader.vocabulary, causal=causal):
            for rate in RATES:
                yield _LearnerRun(learner, rate, views, answers, output, seed)
