"""The stress test: short trainings of a copy and of its reference, and what they say about training."""

from __future__ import annotations

import math
import time
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import torch
from torch import nn

from isometer.doctor.conditions._findings import Finding
from isometer.doctor.probe._subject import Subject
from isometer.doctor.stress._effects import StepEffects, effects
from isometer.doctor.stress._material import Batches, Material, material
from isometer.doctor.stress._objectives import NothingToLearn
from isometer.doctor.stress._optimizers import OptimizerChoice
from isometer.doctor.stress._outlook import NOTHING, Evidence, Outlook, outlook
from isometer.doctor.stress._plans import (
    PLANS,
    Cost,
    Plan,
    free_memory,
    measured,
    more_for_small_batches,
    plan_within,
)
from isometer.doctor.stress._race import WHO, On, StressRun, Track, Who, progress
from isometer.errors import IsometerError
from isometer.serialize import json_data

Tensor = torch.Tensor
Look = Callable[[Callable[[nn.Module], None]], tuple[Finding, ...]]
EFFECT_STEPS = 10
_WORKS = 0.5  # of the best rate's progress


@dataclass(frozen=True, eq=False)
class Stress:
    """What a stress test ran and what came of it.

    Example:
        >>> from isometer.doctor import diagnose
        >>> model = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 1))
        >>> report = diagnose(model, optimizer="adam", predict=False)
        >>> sorted({run.who for run in report.stress.runs}), report.stress.targets
        (['model', 'reference'], 'a random teacher')

    Attributes:
        outlooks: by the name of the optimizer.
        effects: what a step does, by the name of the optimizer.
        runs: everything that was run.
        targets: `yours`, `the model's own` or `a random teacher`; `none` where there is nothing to learn.
        chance: loss of the best constant answer, nan if unknown, minus infinity if the loss has no lower bound.
        batches: how many different ones there were.
        samples: in each.
        plan: how much was run.
        cost: of one step.
        seconds: that all of it took.
        in_place: why the model itself ran and was put back, instead of a copy; empty for a copy.
        kept: parameters that the reference took over as they are, since they belong to no known kind of layer.
        skipped: why nothing was run; empty if something was.
        after: what the probe finds after some steps of the optimizer that does best; `None` if it was not asked.
        chance_of_one: chance for the first batch alone.
    """

    outlooks: dict[str, Outlook]
    effects: dict[str, StepEffects]
    runs: tuple[StressRun, ...]
    targets: str
    chance: float
    batches: int
    samples: int
    plan: Plan | None
    cost: Cost | None
    seconds: float
    in_place: str = ""
    kept: tuple[str, ...] = ()
    skipped: str = ""
    after: tuple[Finding, ...] | None = None
    chance_of_one: float = math.nan

    @property
    def notes(self) -> list[str]:
        """What was run, line by line, for people."""
        if self.skipped:
            return [f"No stress test: {self.skipped}."]
        assert self.plan is not None
        assert self.cost is not None
        what = {
            "yours": "your targets",
            "the model's own": "the loss that the model returns",
            "a random teacher": "a random linear function of the input, since there are no targets",
        }[self.targets]
        batches = "one batch" if self.batches == 1 else f"{self.batches} batches"
        lines = [f"Trained to {what}, on {batches} of {self.samples} samples ({self.plan.name}, {self.seconds:.1f} s)."]
        lines += [self._ran(optimizer) for optimizer in dict.fromkeys(run.optimizer for run in self.runs)]
        peak = self.cost.weights + self.cost.training + self.cost.activations
        lines.append(
            f"Memory: {_bytes(self.cost.weights)} for {'a snapshot' if self.in_place else 'a copy'} of the weights, "
            f"{_bytes(peak - self.cost.weights)} for a training step."
        )
        if self.in_place:
            lines.append(f"The model itself ran and was put back: {self.in_place}.")
        if self.kept:
            named = ", ".join(self.kept[:3]) + (f" and {len(self.kept) - 3} more" if len(self.kept) > 3 else "")
            lines.append(f"The reference keeps what belongs to no known kind of layer as it is: {named}.")
        return lines

    def _ran(self, optimizer: str) -> str:
        """`adam: model 5 × 40 steps on fresh batches, 2 × 20 on one batch; reference …`."""
        parts = []
        for who in WHO:
            counts = Counter((run.on, run.steps) for run in self.runs if (run.optimizer, run.who) == (optimizer, who))
            kinds = [
                " and ".join(f"{count} × {steps}" for (one, steps), count in counts.items() if one == on) + f" on {on}"
                for on in dict.fromkeys(on for on, _ in counts)
            ]
            parts.append(f"{who} {', '.join(kinds)}")
        return f"{optimizer}, runs × steps: {'; '.join(parts)}."

    def to_dict(self) -> dict[str, Any]:
        """Ready for JSON."""
        return {
            "targets": self.targets,
            "chance": json_data(self.chance),
            "chance_of_one": json_data(self.chance_of_one),
            "batches": self.batches,
            "samples": self.samples,
            "plan": asdict(self.plan) if self.plan is not None else None,
            "cost": json_data(asdict(self.cost), digits=4) if self.cost is not None else None,
            "seconds": round(self.seconds, 2),
            "in_place": self.in_place,
            "kept": list(self.kept),
            "skipped": self.skipped,
            "notes": self.notes,
            "after": None if self.after is None else json_data([one.to_dict() for one in self.after]),
            "effects": json_data({name: asdict(one) for name, one in self.effects.items()}, digits=6),
            "runs": [json_data({**asdict(run), "losses": list(run.losses)}, digits=5) for run in self.runs],
        }


def _bytes(count: float) -> str:
    for unit in ("B", "KB", "MB"):
        if count < 1000:
            return f"{count:.3g} {unit}"
        count /= 1000
    return f"{count:.3g} GB"


def stress_test(
    subject: Subject,
    batches: Batches,
    *,
    loss: Callable[..., Tensor] | None,
    optimizers: Sequence[OptimizerChoice],
    samples: int,
    mode: str | None = "train",
    seed: int = 0,
    budget: float = 60.0,
    look: Look | None = None,
    told: Callable[[str], None] = lambda text: None,
) -> Stress:
    """Train a copy of a model, and the same architecture initialised by the book, for a few dozen steps.

    Args:
        subject: the model.
        batches: of inputs and targets; targets may be None.
        loss: of output and target; by the kind of target unless given.
        optimizers: the optimizers.
        samples: in a batch.
        mode: in which the model is trained.
        seed: of the reference, of dropout and of a teacher.
        budget: seconds.
        look: what is found in the model after a function has changed it; asked after some steps of the optimizer that
            does best.
        told: called with what is being run.

    Example:
        >>> from isometer.doctor.stress._optimizers import optimizer_choices
        >>> x = torch.randn(64, 8, generator=torch.Generator().manual_seed(0))
        >>> pairs = [(x[k : k + 16], x[k : k + 16, :1]) for k in range(0, 64, 16)]
        >>> subject = Subject(torch.nn.Sequential(torch.nn.Linear(8, 16), torch.nn.ReLU(), torch.nn.Linear(16, 1)))
        >>> adam = optimizer_choices("adam", None, None, subject)
        >>> found = stress_test(subject, Batches(pairs), loss=None, optimizers=adam, samples=16)
        >>> found.outlooks["adam"].verdict, found.targets
        ('trains', 'yours')
    """
    begun = time.perf_counter()

    def none(why: str, cost: Cost | None = None, kind: str = "none", chance: float = math.nan) -> Stress:
        outlooks = {one.name: Outlook.unknown(one.name) for one in optimizers}
        seconds = time.perf_counter() - begun
        return Stress(
            outlooks,
            {},
            (),
            kind,
            chance,
            len(batches),
            samples,
            None,
            cost,
            seconds,
            subject.reason,
            (),
            why,
        )

    try:
        return _tested(subject, batches, loss, optimizers, samples, mode, seed, budget, look, told, begun, none)
    except IsometerError:
        raise
    except Exception as problem:  # a model that can be run once may fail at a later step, in any way it likes
        lines = str(problem).strip().splitlines()
        return none(f"the model fails while it is trained: {type(problem).__name__}: {lines[0] if lines else ''}")


def _tested(
    subject: Subject,
    batches: Batches,
    loss: Callable[..., Tensor] | None,
    optimizers: Sequence[OptimizerChoice],
    samples: int,
    mode: str | None,
    seed: int,
    budget: float,
    look: Look | None,
    told: Callable[[str], None],
    begun: float,
    none: Callable[..., Stress],
) -> Stress:
    try:
        found = material(subject, batches, loss, samples=samples, mode=mode, seed=seed)
    except NothingToLearn as problem:
        return none(str(problem))
    track = Track(subject, found, mode=mode, seed=seed, told=told)
    cost = subject.run(
        lambda model: measured(model, lambda one: found.loss_of(one, found.batch(0))), seed=seed, mode=mode
    )
    track.threads = cost.threads
    memory = free_memory()
    if memory is not None and cost.training + cost.activations > 0.9 * memory:
        return none(
            f"a training step needs about {_bytes(cost.training + cost.activations)} and {_bytes(memory)} are free",
            cost,
            found.kind,
            found.chance,
        )
    left = budget - (time.perf_counter() - begun)
    plan = plan_within(left, cost.seconds, optimizers=len(optimizers), samples=samples)
    if plan is None:
        least = len(optimizers) * PLANS[-1].times(more_for_small_batches(samples)).most * cost.seconds
        return none(
            f"a step takes {cost.seconds:.2g} s, so that even the shortest test takes {least:.3g} s, more than what is "
            f"left of the budget ({max(0.0, left):.3g} s) — pass a larger budget, one optimizer, or a smaller batch",
            cost,
            found.kind,
            found.chance,
        )
    outlooks = {choice.name: _outlook(track, choice, plan) for choice in optimizers}
    best = max(optimizers, key=lambda one: outlooks[one.name].evidence.ability)
    after = None
    if look is not None:
        after = look(lambda model: track.steps(model, best, outlooks[best.name].best_rate, EFFECT_STEPS))
    return Stress(
        outlooks,
        {one.name: effects(track, one, outlooks[one.name].best_rate, EFFECT_STEPS) for one in optimizers},
        tuple(track.diary),
        found.kind,
        found.chance,
        len(batches),
        samples,
        plan,
        cost,
        time.perf_counter() - begun,
        subject.reason,
        tuple(track.kept),
        after=after,
        chance_of_one=found.chance_of_one,
    )


def _outlook(track: Track, choice: OptimizerChoice, plan: Plan) -> Outlook:
    chance = track.material.chance
    mine, theirs = (_raced(track, choice, plan, who) for who in WHO)
    own_fit, reference_fit = _fits(track, choice, plan, mine, theirs)
    early = mine[0].progress
    evidence = _evidence(track, early, mine[0], own_fit, theirs[0], reference_fit)
    if plan.long and not evidence.decided and chance != -math.inf:
        on = _main(track.material)
        # What was second best so far may do better in the long run.
        longer = track.longer(choice, [run.rate for run in mine[:2]], plan.long, who="model", on=on)
        beside = track.longer(choice, [theirs[0].rate], plan.long, who="reference", on=on)
        evidence = _evidence(track, early, longer[0], own_fit, beside[0], reference_fit)
        mine = longer
    works = {mine[0].rate} if mine[0].progress > NOTHING else set()
    rates = tuple(sorted(works.union(_working(track, choice, plan))))
    at_rate = None
    if choice.rate is not None:
        at_rate = choice.rate, _at(track, choice, mine[0].steps, plan, choice.rate)
    return outlook(choice.name, evidence, mine[0].rate, rates, at_rate)


def _main(material: Material) -> On:
    return "fresh batches" if material.fresh else "one batch"


def _raced(track: Track, choice: OptimizerChoice, plan: Plan, who: Who) -> list[StressRun]:
    """The runs at all rates, best first."""
    on = _main(track.material)
    return track.race(choice, who=who, on=on, rates=plan.rates, steps=plan.steps, beyond=plan.beyond)


def _fits(
    track: Track, choice: OptimizerChoice, plan: Plan, mine: list[StressRun], theirs: list[StressRun]
) -> tuple[StressRun | None, StressRun | None]:
    """The best runs of both on one batch, where the others were on fresh ones.

    Each runs at its own two best rates and at the other's best: on fresh batches that teach nothing, noise chose them.
    """
    if not track.material.fresh:
        return None, None
    model, reference = (
        track.longer(
            choice,
            list(dict.fromkeys([run.rate for run in (*own[:2], other[0])])),
            plan.fit,
            who=who,
            on="one batch",
        )[0]
        for who, own, other in zip(WHO, (mine, theirs), (theirs, mine), strict=True)
    )
    return model, reference


def _evidence(
    track: Track,
    early: float,
    main: StressRun,
    fit: StressRun | None,
    reference: StressRun,
    reference_fit: StressRun | None,
) -> Evidence:
    chance = track.material.chance
    broken = chance == -math.inf or all(
        run.diverged for run in track.diary if (run.optimizer, run.who, run.on) == (main.optimizer, main.who, main.on)
    )
    if fit is None or reference_fit is None:
        return Evidence(math.nan, main.progress, math.nan, reference.progress, broken, early)
    own, beside = ((run.progress, one.progress) for run, one in ((main, fit), (reference, reference_fit)))
    return Evidence(*own, *beside, broken, early)


def _at(track: Track, choice: OptimizerChoice, steps: int, plan: Plan, rate: float) -> Evidence:
    """The same at the caller's rate and schedule, of model and reference."""
    on = _main(track.material)

    def run(who: Who, on: On, steps: int) -> StressRun:
        return track.run(choice, rate, steps, who=who, on=on, own=True)

    fits = [run(who, "one batch", plan.fit) if on == "fresh batches" else None for who in WHO]
    main = run("model", on, steps)
    early = progress(main.losses[: plan.steps], on, track.chance(on))
    return _evidence(track, early, main, fits[0], run("reference", on, steps), fits[1])


def _working(track: Track, choice: OptimizerChoice, plan: Plan) -> tuple[float, ...]:
    """The rates that reach half of the best one's progress in the first round."""
    on = _main(track.material)
    first = {
        run.rate: run.progress
        for run in track.diary
        if (run.optimizer, run.who, run.on, run.steps) == (choice.name, "model", on, plan.steps)
    }
    most = max(first.values(), default=0.0)
    return tuple(sorted(rate for rate, value in first.items() if most > 0 and value >= _WORKS * most))
