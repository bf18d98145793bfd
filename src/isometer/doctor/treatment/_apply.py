"""`treat`: make the changes that causes and findings ask for, keep what helps, and say what was done."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import nn

from isometer.checks import seed_number
from isometer.doctor.causes._search import Cause
from isometer.doctor.conditions._prescription import code
from isometer.doctor.conditions._prescriptions import PRESCRIPTIONS
from isometer.doctor.diagnosis._batches import given_batches
from isometer.doctor.diagnosis._diagnose import diagnose
from isometer.doctor.diagnosis._report import Report
from isometer.doctor.probe._calling import call
from isometer.doctor.probe._subject import Subject, all_or_nothing, examined, left_alone, working_copy
from isometer.doctor.probe._tensor_trees import owned
from isometer.doctor.stress._budget import USUAL, Budget, clock_of
from isometer.doctor.stress._material import Batches
from isometer.doctor.stress._objectives import NothingToLearn, usual_loss
from isometer.doctor.stress._optimizers import OptimizerChoice, optimizer_choices
from isometer.doctor.stress._outlook import LEARNED, Outlook
from isometer.doctor.stress._stress import Stress
from isometer.doctor.treatment._bench import Bench, own_verdict
from isometer.doctor.treatment._causes import FIXES, advised, candidate, loss_factor, outside
from isometer.doctor.treatment._judges import FindingsJudge, ProgressJudge
from isometer.doctor.treatment._portable import portable
from isometer.doctor.treatment._record import Step, Treatment
from isometer.doctor.treatment._search import Route, TreatmentSearch, everything, ranked
from isometer.doctor.treatment._surgery import inner
from isometer.errors import IsometerError, unknown_name

_WARM_UP = 0.05  # progress that a warm-up must bring
_KEEPS_UP = 0.5  # of what is known to be reachable
_SPARE = 1.3  # times what the first stress test took, for the last one


def treat(
    model: nn.Module,
    report: Report | None = None,
    batch: Any = None,
    target: Any = None,
    *,
    loss: Callable[..., torch.Tensor] | None = None,
    fresh: Iterable[Any] | None = None,
    optimizer: Any = None,
    choose: str | Sequence[str] = "recommended",
    budget: float | None = None,
    stress: bool = True,
    inplace: bool = False,
    seed: int = 0,
    told: Callable[[str], None] = lambda text: None,
) -> Treatment:
    """Repair what keeps a model from training, and keep what helps, judged by short trainings of the model.

    The repairs of the causes in the report come first. If they are not enough, prescriptions follow, each time the one
    with which the model learns most. At the end the treated model is diagnosed like any other. A model that trains is
    left as it is, and so is a slow one unless a part of it is to blame or something severe was found; one that trains
    well with one of the usual optimizers keeps its architecture. A change is applied completely or not at all.

    Args:
        model: the model of the report; for a compiled or distributed one, the model within.
        report: what `diagnose` said about it; by default the model is diagnosed here. A report without a stress test,
            or with other optimizers, is replaced by a new one.
        batch: as for `diagnose`, the batches of the report by default; schemes that set weights from data take the
            first of many batches, and need more samples than features.
        target: as for `diagnose`.
        loss: as for `diagnose`.
        fresh: as for `diagnose`.
        optimizer: as for `diagnose`; by the name in the report by default.
        choose: `"recommended"` as described. `"all"` carries out everything that the causes and findings list, weights
            first. Or ids of prescriptions, in order. With `"all"` and ids, only changes that make things worse are
            undone.
        budget: seconds of work that all of it may take. By default, the stress tests before and after run in full, and
            the trials between them have a minute, or twice as long as the first stress test took.
        stress: judge by short trainings. If not, or where nothing can be trained, findings decide: `"recommended"` then
            looks for the shortest way to no finding, with what sets weights alone, else with changes of architecture,
            else with both; a severe finding counts like three moderate ones.
        inplace: change the model itself instead of a copy.
        seed: seed of all draws.
        told: called with what is being run.

    Returns:
        A `Treatment`.

    Raises:
        IsometerError: the model cannot be copied, has a hook that refers to the model itself, is quantised, scripted or
            has no memory, or an id is not known. The model is then as it was.

    Example:
        >>> _ = torch.manual_seed(0)
        >>> layers = [m for _ in range(4) for m in (nn.Linear(16, 16), nn.Softmax(-1))]
        >>> model, x = nn.Sequential(*layers, nn.Linear(16, 2)), torch.randn(256, 16)
        >>> batches = [(x[k : k + 32], (x[k : k + 32, 0] > 0).long()) for k in range(0, 256, 32)]
        >>> treatment = treat(model, diagnose(model, batches, optimizer="sgd"))
        >>> treatment.applied[0], treatment.cured
        ('exchange-activation', True)
    """
    begun = time.perf_counter()
    seed_number(seed)
    if budget is not None and not budget > 0:
        raise IsometerError(f"budget is {budget}; expected a positive number of seconds")
    chosen = chosen_ids(choose)
    whole = Budget(budget, clock_of(model) if isinstance(model, nn.Module) else time.thread_time)
    working = inner(model) if isinstance(model, nn.Module) else model
    if report is None:
        first = {"target": target, "loss": loss, "fresh": fresh, "optimizer": optimizer, "seed": seed, "told": told}
        third = None if budget is None else budget / 3
        report = diagnose(working, batch, stress=stress, budget=third, **first)
        batch, target, fresh = None, None, None
    _check(working, report)
    original, working = working, working if inplace else _copied(working)
    if batch is None and fresh is None and target is None and report.given is not None:
        given, loss = report.given, report.given.loss if loss is None else loss
    else:
        given = given_batches(working, batch, target, fresh, seed)
    if not inplace:
        _check_copy(original, working, given.inputs)
    asked, rate = portable(optimizer, report)
    room = _Room(working, given.inputs, given.target, loss, given.batches, asked, rate, report, seed, whole, told)

    def work() -> Treatment:
        treated = room.by_training(choose, chosen) if stress else None
        found = treated or room.by_findings(choose, chosen)
        return replace(found, seconds=time.perf_counter() - begun)

    # A copy may be left half treated: nobody has it.
    return all_or_nothing(working, work) if inplace else left_alone(original, work)


@dataclass
class _Room:
    """One treatment; attributes as the arguments of `treat`, batches as the stress test takes them."""

    model: nn.Module
    inputs: Any
    target: Any
    loss: Callable[..., torch.Tensor] | None
    batches: Batches
    optimizer: Any
    rate: float | None
    report: Report
    seed: int
    budget: Budget
    told: Callable[[str], None]

    def examine(self, *, stress: bool = False, predict: bool = False, budget: float | None = None) -> Report:
        """The report of the model as it is."""
        again: Any = self.batches  # those that were read already come first
        return diagnose(
            self.model,
            self.inputs,
            target=self.target,
            loss=self.loss,
            fresh=again,
            optimizer=self.optimizer,
            lr=self.rate,
            stress=stress,
            budget=None if budget is None else max(1.0, budget),
            mode=self.report.mode,
            predict=predict,
            name=self.report.model,
            description=self.report.batch,
            seed=self.seed,
            told=self.told,
        )

    def by_findings(self, choose: str | Sequence[str], chosen: tuple[str, ...] | None) -> Treatment:
        """Findings decide."""
        search = TreatmentSearch(self.model, self.inputs, self.seed, FindingsJudge(self.examine))
        if chosen is None and choose == "recommended":
            route = search.recommended(self.report, ())
        else:
            route = search.listed(chosen or everything(self.report), self.report, self.report.causes)
        after = self.examine(predict=self.report.prediction is not None) if route.calls else self.report
        return Treatment(
            self.model, tuple(route.steps), self.report, after, code(route.calls, self.seed), tuple(route.calls)
        )

    def by_training(self, choose: str | Sequence[str], chosen: tuple[str, ...] | None) -> Treatment | None:
        """Short trainings decide; `None` where nothing can be trained."""
        choices = optimizer_choices(self.optimizer, self.rate, None, Subject(self.model))
        tested = self.report.stress
        if tested is None or not self._fits(tested, choices):
            self.report = self.examine(stress=True, budget=self.budget.left / 3 if self.budget.given else None)
            tested = self.report.stress
        assert tested is not None
        if tested.skipped or tested.plan is None:
            return None
        before = self.report
        if chosen is None and choose == "recommended" and not _to_do(before):
            return Treatment(self.model, _rates(before), before, before, "", trained=True)
        try:
            bench = self._bench(tested, choices)
            judge = self._judge(bench)
            start = judge.look()
        except NothingToLearn:
            return None
        search = TreatmentSearch(self.model, self.inputs, self.seed, judge)
        if chosen is None and choose == "recommended":
            route = self._recommended(search, judge, start)
        else:
            route = search.listed(chosen or everything(before), start, before.causes)
        advice = self._warm_up(bench, judge, route)
        after = self._after(before) if route.calls else before
        return Treatment(
            self.model,
            tuple(ranked([*route.steps, *advice, *_rates(after)]) if chosen is None else [*route.steps, *advice]),
            before,
            after,
            code(route.calls, self.seed),
            tuple(route.calls),
            trained=True,
            optimizer=judge.optimizer,
            progress=judge.numbers(start, route.look),
        )

    def _fits(self, tested: Stress, choices: Sequence[OptimizerChoice]) -> bool:
        """Whether a stress test was made with these optimizers, on as few or many batches."""
        same = {one.name for one in choices} == set(tested.outlooks)
        return same and (bool(tested.skipped) or (tested.batches > 1) == (self.batches.read(2) > 1))

    def _recommended(self, search: TreatmentSearch, judge: ProgressJudge, start: Any) -> Route:
        material = judge.bench.material
        # Targets that the doctor made up belong to their inputs.
        causes = [one for one in self.report.causes if one.fixes or one.kind != "targets" or material.kind == "yours"]
        hopeless = material.chance == -math.inf or (judge.best < LEARNED and _nothing_learns(causes))
        if hopeless:  # no change of the model helps where nothing can be learned
            return Route(start, [advised(cause) for cause in causes if outside(cause)])
        explained = self.report.explanation
        if "sick" not in {own_verdict(one) for one in self.report.trains.values()} and not _held_up(self.report):
            return search.causes_alone(start, causes)  # it trains: nothing is changed that is not to blame
        return search.recommended(start, causes, () if explained is None else explained.treatments)

    def _bench(self, tested: Stress, choices: Sequence[OptimizerChoice]) -> Bench:
        loss = usual_loss if self.loss is None and self.target is not None else self.loss
        return Bench(
            self.model,
            self.batches,
            _times(loss_factor(self.report.causes), loss),
            tested,
            choices,
            mode=self.report.mode,
            seed=self.seed,
            budget=self._for_changes(tested),
            told=self.told,
            explained=self.report.explanation,
        )

    def _for_changes(self, tested: Stress) -> Budget:
        """What is left for trying changes: the last stress test takes about as long as the first."""
        if not self.budget.given:
            return self.budget.part(max(USUAL, 2 * tested.seconds))
        left = self.budget.left
        return self.budget.part(left - min(_SPARE * tested.seconds, left / 2))

    def _judge(self, bench: Bench) -> ProgressJudge:
        """The optimizer of the explanation decides, or the one that is furthest from training."""
        outlooks, explained = self.report.trains, self.report.explanation
        name = explained.optimizer if explained is not None else min(outlooks, key=lambda one: _hope(outlooks[one]))
        others = {one: bench.start(one) for one in outlooks if one != name}
        helpful = () if explained is None else explained.treatments
        extra = tuple(candidate(one, self.model) for one in helpful if not outside(one))
        kinds = _to_do(self.report) or ("weights", "architecture")  # what is chosen by name may be anything
        return ProgressJudge(bench, name, bench.best(name), others, self.report, extra, (kinds,))

    def _warm_up(self, bench: Bench, judge: ProgressJudge, route: Route) -> list[Step]:
        """A warm-up, where nothing else is enough and a short training learns more with one."""
        if route.look.enough or bench.late or bench.material.chance == -math.inf or judge.best < LEARNED:
            return []
        rate = self.report.trains[judge.optimizer]
        chosen = route.look.rate if rate.at_rate is None else rate.at_rate.rate
        without, with_it = bench.warmed(judge.optimizer, chosen)
        if with_it < without + _WARM_UP:
            return []
        text = f"Warm up: raise the rate to {chosen:.2g} over the first steps; progress {without:.2f} → {with_it:.2f}."
        return [Step("warm-up", "training", "advised", text, without, with_it)]

    def _after(self, before: Report) -> Report:
        tested = before.stress
        assert tested is not None
        # What the first test took is enough for a verdict; a model that is cured needs no search for causes.
        needed = 5.0 + max(2 * tested.seconds, _SPARE * tested.most_seconds)
        budget = min(needed, max(1.0, self.budget.left)) if self.budget.given else needed
        return self.examine(stress=True, predict=before.prediction is not None, budget=budget)


def _times(factor: float, loss: Callable[..., torch.Tensor] | None) -> Callable[..., torch.Tensor] | None:
    """The loss as it is advised to be."""
    if loss is None or factor == 1:
        return loss
    return lambda *given: factor * loss(*given)


def _hope(one: Outlook) -> float:
    return -1.0 if math.isnan(one.probability) else one.probability


def _to_do(report: Report) -> tuple[str, ...]:
    """Kinds of changes that a verdict calls for.

    A model that trains well with one of the usual optimizers and not with another keeps its architecture.
    """
    verdicts = {one.verdict for one in report.trains.values()}
    if verdicts == {"trains"}:
        return ()
    if report.asked or not any(map(_well, report.trains.values())):
        return ("weights", "architecture")
    return ("weights",) if "sick" in verdicts else ()


def _held_up(report: Report) -> bool:
    """Whether a model is slow with every optimizer, and something severe was found in it."""
    slow = all(own_verdict(one) == "slow" for one in report.trains.values())
    return slow and any(finding.severity == "severe" for finding in report.findings)


def _well(one: Outlook) -> bool:
    """Whether a model trains and keeps up with what is known to be reachable."""
    return one.verdict == "trains" and one.evidence.ability >= _KEEPS_UP * one.evidence.best


def _nothing_learns(causes: Sequence[Cause]) -> bool:
    return bool(causes) and not any(cause.fixes for cause in causes)


def _rates(report: Report) -> tuple[Step, ...]:
    """Advice for optimizers with which the model trains at another rate than the caller's."""
    return tuple(
        Step(
            "learning-rate",
            "training",
            "advised",
            f"Use {name} at rate {one.best_rate:.2g}: at {one.at_rate.rate:.2g} the model "
            f"{'does not train' if one.at_rate.verdict == 'sick' else 'trains slowly'}.",
            one.at_rate.progress,
            one.evidence.ability,
        )
        for name, one in report.trains.items()
        if one.at_rate is not None and one.verdict == "trains" and own_verdict(one) in ("sick", "slow")
    )


def chosen_ids(choose: str | Sequence[str]) -> tuple[str, ...] | None:
    """Ids that were asked for, `None` if they are to be found.

    Example:
        >>> chosen_ids("zero-bias, pre-norm"), chosen_ids("all")
        (('zero-bias', 'pre-norm'), None)
    """
    if choose in ("recommended", "all"):
        return None
    ids = tuple(part.strip() for part in choose.split(",")) if isinstance(choose, str) else tuple(choose)
    for one in ids:
        if one not in PRESCRIPTIONS and one not in FIXES:
            raise unknown_name("prescription", one, ["recommended", "all", *PRESCRIPTIONS, *FIXES])
    if not ids:
        raise IsometerError("choose names no prescription; expected 'recommended', 'all' or at least one id")
    return ids


def _check(model: Any, report: Any) -> None:
    if not isinstance(model, nn.Module):
        raise IsometerError(f"model is a {type(model).__name__}; expected a torch.nn.Module — pass one")
    if not isinstance(report, Report):
        raise IsometerError(
            f"report is a {type(report).__name__}; expected what isometer.diagnose(model, batch) returns"
        )
    known = {"input", "targets", "loss", *dict(model.named_modules(remove_duplicate=False))}
    strange = next((name for cause in report.causes for name in cause.modules if name not in known), None)
    if strange is not None:
        raise IsometerError(
            f"the report blames module {strange!r}, which this model does not have; expected the report of this model "
            "— call isometer.diagnose(model, batch) again"
        )
    for name, module in model.named_modules():
        if type(module).__module__.startswith(("torch.ao.", "torch.nn.quantized", "torch.nn.qat")):
            raise IsometerError(
                f"module {name or type(module).__name__!r} is quantised; expected floating point weights — treat the "
                "model before quantising it"
            )
        if isinstance(module, torch.jit.ScriptModule):
            raise IsometerError(
                f"module {name or type(module).__name__!r} is scripted, so its weights cannot be replaced; expected "
                "Python modules — treat the model before scripting it"
            )
    for name, tensor in [*model.named_parameters(), *model.named_buffers()]:
        if tensor.is_meta:
            raise IsometerError(
                f"{name!r} is on the meta device and has no values; expected memory — call "
                "model.to_empty(device='cpu') and initialise it"
            )
        if tensor.is_quantized:
            raise IsometerError(
                f"{name!r} is quantised; expected floating point — treat the model before quantising it"
            )


def _copied(model: nn.Module) -> nn.Module:
    try:
        return working_copy(model)
    except IsometerError as problem:
        raise IsometerError(f"{problem}, or pass inplace=True") from problem
    except Exception as problem:  # whatever the model's own code raises
        raise IsometerError(
            f"the model cannot be copied ({type(problem).__name__}: {problem}); expected one that copy.deepcopy "
            "can copy — pass inplace=True"
        ) from problem


def _check_copy(model: nn.Module, copied: nn.Module, inputs: Any) -> None:
    """Copying can lose what a class keeps outside its attributes; what the model itself raises is its own."""

    def run(one: nn.Module) -> None:
        call(one, owned(inputs))

    try:
        left_alone(model, lambda: Subject(copied).run(run, seed=0))
    except Exception as problem:
        with examined(model) as subject:
            subject.run(run, seed=0)
        raise IsometerError(
            f"a copy of the model does not run ({type(problem).__name__}: {problem}); expected one that copy.deepcopy "
            "copies whole — pass inplace=True"
        ) from problem
