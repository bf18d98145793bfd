"""From a verdict to its causes: what is odd, what is tried, what helps, and what stays unexplained."""

from __future__ import annotations

import math
import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import nn

from isometer.doctor.causes._activations import activation_repairs, is_linear
from isometer.doctor.causes._data import input_repairs, loss_repairs, same_for_all, target_repairs
from isometer.doctor.causes._operations import operation_repairs
from isometer.doctor.causes._repair import INPUT, LOSS, TARGETS, Repair
from isometer.doctor.causes._search import ODD, Cause, RepairSearch, SearchOutcome, made, search
from isometer.doctor.causes._weights import weight_repairs
from isometer.doctor.probe._calling import call
from isometer.doctor.probe._subject import Subject
from isometer.doctor.probe._tensor_trees import owned
from isometer.doctor.stress._budget import ENDLESS, Budget
from isometer.doctor.stress._material import Material, material
from isometer.doctor.stress._optimizers import OptimizerChoice
from isometer.doctor.stress._outlook import LEARNED, Outlook
from isometer.doctor.stress._plans import Plan
from isometer.doctor.stress._race import Change, Track
from isometer.serialize import json_data

Tensor = torch.Tensor
_SOME = 16  # batches whose units are looked at
_OWN_EFFECT = 0.05  # progress that an odd part must bring by itself, where others are needed too
_BEHIND = 0.5  # of what a simple learner reaches
_FAR_BEHIND = 0.25  # the same, where something is mended: networks begin more slowly than simple learners


@dataclass(frozen=True, eq=False)
class CauseExplanation:
    """Why a model does not train, as far as short trainings show.

    Example:
        >>> from isometer.doctor import diagnose
        >>> _ = torch.manual_seed(0)
        >>> model, x = nn.Sequential(nn.Linear(8, 32), nn.ReLU(), nn.Linear(32, 2)), torch.randn(512, 8)
        >>> pairs = [(500 + x[k : k + 32], (x[k : k + 32, 0] > 0).long()) for k in range(0, 512, 32)]
        >>> report = diagnose(model, pairs, optimizer="sgd", predict=False)
        >>> [(one.modules, one.evidence) for one in report.explanation.causes]
        [(('input',), 'the inputs have mean 5e+02 and standard deviation 1')]

    Attributes:
        optimizer: the optimizer of the short trainings.
        causes: unusual parts whose repair makes the model learn, most effective first.
        treatments: changes of other parts that help as well.
        before: progress of the model as it is.
        after: progress with everything that helps.
        unexplained: what remains unexplained; empty if nothing does.
        tried: how many sets of repairs were tried.
        seconds: how long it took.
        complete: whether time was enough.
        steps: number of steps of the short trainings in which the repairs help.
        rates: at which they were run, the best first.
    """

    optimizer: str
    causes: tuple[Cause, ...]
    treatments: tuple[Cause, ...]
    before: float
    after: float
    unexplained: str
    tried: int
    seconds: float
    complete: bool
    steps: int = 0
    rates: tuple[float, ...] = ()

    def to_dict(self) -> dict[str, Any]:
        """Ready for JSON."""
        return {
            "optimizer": self.optimizer,
            "treatments": [one.to_dict() for one in self.treatments],
            "before": json_data(self.before, digits=4),
            "after": json_data(self.after, digits=4),
            "unexplained": self.unexplained,
            "tried": self.tried,
            "seconds": round(self.seconds, 2),
            "complete": self.complete,
        }


class CauseFinder:
    """Repairs of one model, and the search among them.

    Args:
        seed: seed of what is redrawn.
        searches: whether to look for causes; otherwise only what is odd is repaired, for the verdict.

    Attributes:
        repairs: everything that can be repaired; empty before `change` is called.
    """

    def __init__(self, *, seed: int = 0, searches: bool = True) -> None:
        self._seed, self._searches = seed, searches
        self.repairs: list[Repair] = []

    def change(self, subject: Subject, found: Material, mode: str | None) -> Change | None:
        """Everything odd that is no matter of drawing weights, put right; `None` where there is nothing."""
        if not self.repairs:
            self.repairs = repairs_of(subject, found, mode=mode, seed=self._seed)
        odd = [one for one in self.repairs if one.deviation >= ODD and one.kind not in ("weights", "norm", "frozen")]
        return made(odd) if odd else None

    def explain(
        self,
        track: Track,
        choice: OptimizerChoice,
        outlook: Outlook,
        plan: Plan,
        *,
        yardstick: float,
        learnable: float,
        budget: Budget,
    ) -> CauseExplanation | None:
        """Look for causes with one optimizer, whose verdict is not good.

        Args:
            track: where runs are made.
            choice: the optimizer.
            outlook: its verdict.
            plan: how long runs are.
            yardstick: progress of simple learners in as many steps, nan if there are none.
            learnable: the most that anything made of the batches, with any optimizer.
            budget: for the search.
        """
        if not self._searches:
            return None
        begun = time.perf_counter()
        runs = RepairSearch(
            track,
            choice,
            plan,
            before=(outlook.evidence.start, outlook.evidence.ability),
            rate=outlook.best_rate,
            budget=budget,
        )
        if track.material.chance == -math.inf:
            return _of_loss(track, choice, plan, runs, begun)
        outcome = search(runs, choice.name, self.repairs)
        # The best of many short runs learns noise; what learns in few steps learns in more.
        learned = [one for one in (yardstick, outlook.evidence.yardstick) if not math.isnan(one)]
        return _explained(outcome, track, min(learned, default=math.nan), learnable, begun)


def repairs_of(subject: Subject, found: Material, *, mode: str | None, seed: int) -> list[Repair]:
    """Everything that can be repaired in a model and what it is fed with.

    Args:
        subject: the model.
        found: what it is trained on.
        mode: in which it runs.
        seed: seed of what is redrawn.
    """
    inputs, _ = found.batch(0)

    def forward(model: nn.Module) -> Any:
        return call(model, owned(inputs))

    def work(model: nn.Module) -> list[Repair]:
        weights = weight_repairs(model, forward, seed=seed)
        activations = activation_repairs(model, linear=is_linear(model, inputs))
        exchanged = {name for one in activations for name in one.modules}
        # An activation module is exchanged rather than taken out.
        operations = [
            one
            for one in operation_repairs(model, forward, samples=found.samples)
            if one.where or not exchanged.issuperset(one.modules)
        ]
        return [*weights, *operations, *activations]

    inside = subject.run(work, seed=seed, mode=mode)
    pairs = [found.batch(step) for step in range(min(_SOME, len(found.batches)))]
    outside = input_repairs([x for x, _ in pairs])
    if found.kind == "yours":
        outside += target_repairs([y for _, y in pairs], found.output, found.loss)
        outside += loss_repairs(found.loss, pairs[0][1], found.output)
    return [*inside, *outside]


def _of_loss(track: Track, choice: OptimizerChoice, plan: Plan, runs: RepairSearch, begun: float) -> CauseExplanation:
    """A loss that falls without end: does the model learn when its sign is turned?"""
    loss = track.material.loss

    def turned(output: Any, target: Any) -> Tensor:
        return -loss(output, target)

    other = material(
        track.subject, track.material.batches, turned, samples=track.material.samples, mode=track.mode, seed=track.seed
    )
    after = 0.0
    if math.isfinite(other.chance):
        beside = RepairSearch(
            Track(track.subject, other, mode=track.mode, seed=track.seed),
            choice,
            plan,
            before=(0.0, 0.0),
            rate=choice.middle,
            budget=ENDLESS,
        )
        after = beside.race([])
    learns = after >= LEARNED
    causes = [
        Cause(
            (LOSS,),
            "Flip the sign of the loss, or maximise it." if learns else "Use a loss that has a lowest value.",
            after if learns else math.nan,
            "the loss falls without bound as outputs grow, so lower is not better",
            "loss",
        )
    ]
    seconds = time.perf_counter() - begun
    return CauseExplanation(choice.name, tuple(causes), (), runs.before, after, "", 1, seconds, True)


def _explained(
    outcome: SearchOutcome, track: Track, yardstick: float, learnable: float, begun: float
) -> CauseExplanation:
    needed = [_cause(repairs, effect) for repairs, effect in outcome.needed]
    odd = [one for one in needed if one.fixes[0].deviation >= ODD]
    # Beside parts that are as usual, an odd part that does nothing by itself is no cause.
    causes = odd if len(odd) == len(needed) else [one for one in odd if one.effect >= _OWN_EFFECT]
    treatments = [one for one in needed if one not in causes]
    treatments += [_cause((repair,), effect) for repair, effect in outcome.helpful]
    unexplained = ""
    if not causes:
        pairs = [track.material.batch(step)[0] for step in range(min(_SOME, len(track.material.batches)))]
        alike = same_for_all(pairs)
        if alike:
            causes.append(Cause((INPUT,), "Pass batches of different samples.", math.nan, alike, "input"))
        elif not treatments:
            unexplained, blamed = _left_over(outcome, yardstick, learnable, track.material.kind)
            causes += blamed
    elif yardstick > LEARNED and outcome.repaired < _FAR_BEHIND * yardstick:
        unexplained = (
            f"even then the model's progress is {outcome.repaired:.2f}, a simple learner's {yardstick:.2f}: "
            "something in its architecture holds it back"
        )
    return CauseExplanation(
        outcome.optimizer,
        tuple(causes),
        tuple(treatments),
        outcome.before,
        outcome.repaired,
        unexplained,
        outcome.tried,
        time.perf_counter() - begun,
        outcome.complete,
        outcome.steps,
        outcome.rates,
    )


def _cause(repairs: Sequence[Repair], effect: float) -> Cause:
    first = repairs[0]
    modules = tuple(dict.fromkeys(name for one in repairs for name in one.modules))
    advice = first.advice
    # One repair may be all places of a line, beside one for each of its places.
    covered = set(first.modules)
    others = sum(one.where != first.where or not covered.issuperset(one.modules) for one in repairs[1:])
    if others:
        advice += f" Likewise in {others} other{'s' if others > 1 else ''}."
    where = ", ".join(dict.fromkeys(one.where for one in repairs if one.where))
    return Cause(modules, advice, effect, first.evidence, first.kind, where, tuple(repairs))


def _left_over(outcome: SearchOutcome, yardstick: float, learnable: float, targets: str) -> tuple[str, list[Cause]]:
    """What is left where no repair helps: the architecture, or the data."""
    if not outcome.complete:
        return "the budget ran out before every repair was tried — pass a larger budget", []
    if yardstick >= max(LEARNED, outcome.repaired / _BEHIND):
        return (
            f"no repair of a part helps, and a simple learner makes a progress of {yardstick:.2f} on the same batches, "
            f"the model {outcome.repaired:.2f}: the architecture does not suit the task, or loses what matters",
            [],
        )
    # Longer runs than those of the search, or another optimizer, may have learned something.
    if max(outcome.repaired, learnable) >= LEARNED or targets != "yours":
        return f"no repair of a part helps with {outcome.optimizer}", []
    simple = "" if math.isnan(yardstick) else ", nor a simple learner"
    return (
        f"neither the model, nor the model with everything repaired{simple} learns from these batches",
        [
            Cause(
                (TARGETS, INPUT),
                "Check that the inputs contain what the targets depend on, and that both belong to the same samples.",
                math.nan,
                "nothing learns from them",
                "targets",
            )
        ],
    )
