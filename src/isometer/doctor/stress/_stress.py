"""The stress test: short trainings of a copy and of its reference, and what they say about training."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any, Protocol

import torch
from torch import nn

from isometer.doctor.conditions._findings import Finding
from isometer.doctor.probe._subject import Subject
from isometer.doctor.stress._budget import USUAL, WHOLE, Budget, clock_of
from isometer.doctor.stress._effects import StepEffects, effects
from isometer.doctor.stress._material import Batches, Material, material
from isometer.doctor.stress._objectives import NothingToLearn
from isometer.doctor.stress._optimizers import OptimizerChoice
from isometer.doctor.stress._outlook import LEARNED, NOTHING, Evidence, Outlook, judged, outlook
from isometer.doctor.stress._plans import (
    PLANS,
    SECOND_LOOK,
    Cost,
    Plan,
    measured,
    more_for_small_batches,
    plan_within,
)
from isometer.doctor.stress._race import WHO, Change, On, StressRun, Track, Who
from isometer.doctor.stress._yardstick import yardstick
from isometer.errors import IsometerError
from isometer.serialize import json_data
from isometer.work import free_memory

Tensor = torch.Tensor
Look = Callable[[Callable[[nn.Module], None]], tuple[Finding, ...]]
EFFECT_STEPS = 10
_NOISE = 0.02  # of losses of runs that have learned nothing
_WORKS = 0.5  # of the best rate's progress
_NAMES: dict[Who, str] = {
    "model": "model",
    "reference": "reference",
    "repaired": "reference without what is odd",
}


@dataclass(frozen=True, eq=False)
class Stress:
    """What a stress test ran, and its outcome.

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
        cost: cost of one step.
        seconds: work time that all of it took.
        in_place: why the model itself ran and was put back, instead of a copy; empty for a copy.
        kept: parameters that the reference took over as they are, since they belong to no known kind of layer.
        skipped: why nothing was run; empty if something was.
        after: what the probe finds after some steps of the optimizer that does best; `None` if it was not asked.
        chance_of_one: chance for the first batch alone.
        explanation: what the finder of causes says, `None` if it was not asked.
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
    explanation: SearchNote | None = None

    @property
    def most_seconds(self) -> float:
        """Seconds of work that the plan takes at most, 0 where nothing was run."""
        if self.plan is None or self.cost is None:
            return 0.0
        return len(self.outlooks) * self.plan.most * self.cost.seconds

    @property
    def whole(self) -> bool:
        """Whether the plan is the one that verdicts were fitted with."""
        return self.plan is not None and self.plan.name == PLANS[0].name

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
        if not self.whole:
            lines.append(
                "The verdict is less certain than with the whole plan, which the trial used — pass a larger budget."
            )
        lines += [self._ran(optimizer) for optimizer in dict.fromkeys(run.optimizer for run in self.runs)]
        if any(not math.isnan(one.evidence.yardstick) for one in self.outlooks.values()):
            lines.append("Small generic learners were trained on the same batches, as a yardstick.")
        if self.explanation is not None:
            tried = self.explanation.tried
            lines.append(
                f"Looking for causes with {self.explanation.optimizer}: {tried} set{'s' if tried != 1 else ''} of "
                f"repairs tried ({self.explanation.seconds:.1f} s)."
            )
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
        ran = [run for run in self.runs if run.optimizer == optimizer]
        for who in dict.fromkeys(run.who for run in ran):
            counts = Counter((run.on, run.steps) for run in ran if run.who == who)
            kinds = [
                " and ".join(f"{count} × {steps}" for (one, steps), count in counts.items() if one == on) + f" on {on}"
                for on in dict.fromkeys(on for on, _ in counts)
            ]
            parts.append(f"{_NAMES[who]} {', '.join(kinds)}")
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


class SearchNote(Protocol):
    """What a finder of causes says; what it ran is told with the rest."""

    @property
    def optimizer(self) -> str:
        """Whose short trainings tell."""

    @property
    def tried(self) -> int:
        """How many sets of repairs were trained."""

    @property
    def seconds(self) -> float:
        """That it took."""


class Finder(Protocol):
    """Who looks for causes: repairs to run beside the model, and a search among them where the verdict is not good."""

    def change(self, subject: Subject, found: Material, mode: str | None) -> Change | None:
        """Makes the repairs of everything odd but the weights; `None` where nothing is."""

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
    ) -> SearchNote | None:
        """What keeps the model from training with one optimizer."""


def stress_test(
    subject: Subject,
    batches: Batches,
    *,
    loss: Callable[..., Tensor] | None,
    optimizers: Sequence[OptimizerChoice],
    samples: int,
    mode: str | None = "train",
    seed: int = 0,
    budget: float | None = None,
    look: Look | None = None,
    finder: Finder | None = None,
    told: Callable[[str], None] = lambda text: None,
) -> Stress:
    """Train a copy of a model, and the same architecture initialised by the book, for a few dozen steps.

    Args:
        subject: the model.
        batches: of inputs and targets; targets may be None.
        loss: of output and target; by the kind of target by default.
        optimizers: the optimizers.
        samples: in a batch.
        mode: in which the model is trained.
        seed: seed of the reference, of dropout and of a teacher.
        budget: seconds of work. By default, the whole plan is run, up to ten minutes of it, and the search for causes
            has the rest of a minute, or as long as the test took.
        look: what is found in the model after a function has changed it; asked after some steps of the optimizer that
            does best.
        finder: looks for causes where a verdict is not good.
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
    test = _StressTest(subject, batches, loss, optimizers, samples, mode, seed, budget, look, finder, told)
    try:
        return test.run()
    except IsometerError:
        raise
    except Exception as problem:  # a model that can be run once may fail at a later step, in any way it likes
        lines = str(problem).strip().splitlines()
        return test.none(f"the model fails while it is trained: {type(problem).__name__}: {lines[0] if lines else ''}")


@dataclass
class _StressTest:
    """One stress test; attributes as the arguments of `stress_test`."""

    subject: Subject
    batches: Batches
    loss: Callable[..., Tensor] | None
    optimizers: Sequence[OptimizerChoice]
    samples: int
    mode: str | None
    seed: int
    budget: float | None
    look: Look | None
    finder: Finder | None
    told: Callable[[str], None]

    def __post_init__(self) -> None:
        self._budget = Budget(self.budget, clock_of(self.subject.original))

    def none(self, why: str, cost: Cost | None = None, kind: str = "none", chance: float = math.nan) -> Stress:
        """A test in which nothing could be run."""
        outlooks = {one.name: Outlook.unknown(one.name) for one in self.optimizers}
        return Stress(
            outlooks,
            {},
            (),
            kind,
            chance,
            len(self.batches),
            self.samples,
            None,
            cost,
            self._budget.spent,
            self.subject.reason,
            (),
            why,
        )

    def run(self) -> Stress:
        try:
            found = material(
                self.subject, self.batches, self.loss, samples=self.samples, mode=self.mode, seed=self.seed
            )
        except NothingToLearn as problem:
            return self.none(str(problem))
        track = Track(self.subject, found, mode=self.mode, seed=self.seed, told=self.told)
        cost = self.subject.run(
            lambda model: measured(model, lambda one: found.loss_of(one, found.batch(0))),
            seed=self.seed,
            mode=self.mode,
        )
        track.threads = cost.threads
        plan = self._plan(cost)
        if isinstance(plan, str):
            return self.none(plan, cost, found.kind, found.chance)
        change = None if self.finder is None else self.finder.change(self.subject, found, self.mode)
        rival = Rival(track, change, plan)
        outlooks = {choice.name: _outlook(track, choice, plan, rival) for choice in self.optimizers}
        best = max(self.optimizers, key=lambda one: outlooks[one.name].evidence.ability)
        after = None
        if self.look is not None:
            after = self.look(lambda model: track.steps(model, best, outlooks[best.name].best_rate, EFFECT_STEPS))
        return Stress(
            outlooks,
            {one.name: effects(track, one, outlooks[one.name].best_rate, EFFECT_STEPS) for one in self.optimizers},
            tuple(track.diary),
            found.kind,
            found.chance,
            len(self.batches),
            self.samples,
            plan,
            cost,
            self._budget.spent,
            self.subject.reason,
            tuple(track.kept),
            after=after,
            chance_of_one=found.chance_of_one,
            explanation=self._explained(track, outlooks, plan, rival),
        )

    def _plan(self, cost: Cost) -> Plan | str:
        """How much to run, or why nothing can be run."""
        memory = free_memory()
        if cost.training + cost.activations > 0.9 * memory:
            return (
                f"a training step needs about {_bytes(cost.training + cost.activations)} and {_bytes(memory)} are free"
            )
        left = self._budget.left if self._budget.given else WHOLE
        plan = plan_within(left, cost.seconds, optimizers=len(self.optimizers), samples=self.samples)
        if plan is not None:
            return plan
        least = len(self.optimizers) * PLANS[-1].times(more_for_small_batches(self.samples)).most * cost.seconds
        return (
            f"a step takes {cost.seconds:.2g} s, so that even the shortest test takes {least:.3g} s, more than what is "
            f"left of the budget ({max(0.0, left):.3g} s) — pass a larger budget, one optimizer, or a smaller batch"
        )

    def _explained(self, track: Track, outlooks: Mapping[str, Outlook], plan: Plan, rival: Rival) -> SearchNote | None:
        """Causes with the optimizer that is furthest behind its reference, where a verdict is not good."""
        sick = [one for one in self.optimizers if outlooks[one.name].verdict in ("sick", "slow", "unknown")]
        if self.finder is None or not sick:
            return None
        worst = max(sick, key=lambda one: outlooks[one.name].evidence.headroom)
        beside = Track(self.subject, track.material, mode=self.mode, seed=self.seed, told=self.told)
        beside.threads = track.threads
        spent = self._budget.spent
        return self.finder.explain(
            beside,
            worst,
            outlooks[worst.name],
            plan,
            yardstick=rival.yardstick(plan.steps),
            learnable=max(one.evidence.best for one in outlooks.values()),
            budget=self._budget if self._budget.given else self._budget.part(max(USUAL - spent, spent)),
        )


def _progress_of_yardstick(track: Track, steps: int) -> float:
    found = track.material
    found.batches.read(steps)
    # As if the model ran: whatever a loss holds is put back.
    return track.subject.run(lambda _: yardstick(found, steps=steps, seed=track.seed).progress, seed=track.seed)


class Rival:
    """What else learns from the same batches: the model with what is odd repaired, and a simple learner.

    Args:
        track: where runs are made.
        change: makes the repairs, `None` if nothing is odd.
        plan: how long runs are.
    """

    def __init__(self, track: Track, change: Change | None, plan: Plan) -> None:
        self._track, self._change, self._plan = track, change, plan
        self._yardsticks: dict[int, float] = {}

    def yardstick(self, steps: int) -> float:
        """Progress of a simple learner after so many steps, nan where there is none."""
        if steps not in self._yardsticks:
            self._yardsticks[steps] = _progress_of_yardstick(self._track, steps)
        return self._yardsticks[steps]

    def repaired(self, choice: OptimizerChoice, steps: int) -> float:
        """Progress of the reference with what is odd repaired, nan where nothing is."""
        if self._change is None:
            return math.nan
        on = _main(self._track.material)
        mend = self._change

        def change(model: nn.Module) -> None:
            mend(model)
            self._track.book(model)

        found = self._track.race(
            choice, who="repaired", on=on, rates=3, steps=self._plan.steps, beyond=1, change=change
        )
        if steps > self._plan.steps:
            found = self._track.longer(choice, [found[0].rate], steps, who="repaired", on=on, change=change)
        return found[0].progress


def _outlook(track: Track, choice: OptimizerChoice, plan: Plan, rival: Rival) -> Outlook:
    chance = track.material.chance
    mine, theirs = (_raced(track, choice, plan, who) for who in WHO)
    own_fit, reference_fit = _fits(track, choice, plan, mine, theirs)
    early = mine[0].progress
    evidence = _evidence(track, early, mine[0], own_fit, theirs[0], reference_fit)
    if not evidence.decided and chance != -math.inf:
        steps = plan.long or plan.steps
        repaired, standard = rival.repaired(choice, steps), rival.yardstick(steps)
        if plan.long:
            on = _main(track.material)
            # What was second best so far may do better in the long run.
            longer = track.longer(choice, _promising(mine), plan.long, who="model", on=on)
            beside = track.longer(choice, [theirs[0].rate], plan.long, who="reference", on=on)
            evidence = _evidence(track, early, longer[0], own_fit, beside[0], reference_fit)
            if judged(replace(evidence, repaired=repaired, yardstick=standard))[0] == "sick":
                longer += track.longer(choice, _unseen(mine, longer), plan.long, who="model", on=on)
                longer.sort(key=lambda run: run.end)
                evidence = _evidence(track, early, longer[0], own_fit, beside[0], reference_fit)
            mine = longer
        evidence = replace(evidence, repaired=repaired, yardstick=standard)
    works = {mine[0].rate} if mine[0].progress > NOTHING else set()
    rates = tuple(sorted(works.union(_working(track, choice, plan))))
    at_rate = None
    if choice.rate is not None:
        own = _at(track, choice, mine[0].steps, plan, choice.rate)
        at_rate = choice.rate, replace(own, repaired=evidence.repaired, yardstick=evidence.yardstick)
    return outlook(choice.name, evidence, mine[0].rate, rates, at_rate)


def _promising(runs: list[StressRun]) -> list[float]:
    """Rates of two runs to go on with: the best two; where none has learned yet, the best and the largest as good."""
    if runs[0].progress >= LEARNED:
        return [run.rate for run in runs[:2]]
    level = [run.rate for run in runs[1:] if run.end <= runs[0].end + _NOISE * abs(runs[0].end)]
    return [runs[0].rate, *sorted(level, reverse=True), *(run.rate for run in runs[1:])][:2]


def _unseen(runs: list[StressRun], longer: list[StressRun]) -> list[float]:
    """Rates of the first round that nobody took further, the largest first, without those that diverged.

    A model is called sick only after them: where nothing moves in the first steps, as is common with SGD, which rates
    looked best was noise.
    """
    known = {run.rate for run in longer}
    return sorted((run.rate for run in runs if run.rate not in known and not run.diverged), reverse=True)[:SECOND_LOOK]


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
    early = track.progress(main.losses[: plan.steps], on)
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
