"""Treating a model by short trainings: what is cured learns, what cannot be cured is not called so."""

from __future__ import annotations

import copy
import math
import time
from collections.abc import Callable
from dataclasses import replace
from functools import cache
from typing import Any

import pytest
import torch
from torch import nn
from torch.nn.functional import mse_loss

from isometer.doctor import diagnose
from isometer.doctor.causes._explanation import CauseExplanation
from isometer.doctor.causes._repair import Repair
from isometer.doctor.causes._search import Cause
from isometer.doctor.diagnosis import Report
from isometer.doctor.probe._subject import Subject
from isometer.doctor.stress import Evidence, StressRun
from isometer.doctor.stress._budget import ENDLESS
from isometer.doctor.stress._optimizers import optimizer_choices
from isometer.doctor.stress._plans import PLANS
from isometer.doctor.treatment import Step, Treatment, redraw_, reset_norms_, treat, unfreeze_
from isometer.doctor.treatment._apply import _Room
from isometer.doctor.treatment._bench import Bench, Progress, _hints, _way
from isometer.doctor.treatment._judges import ProgressJudge
from isometer.doctor.treatment._search import Route, TreatmentSearch
from isometer.errors import IsometerError
from support.models import same, state

Batches = list[tuple[torch.Tensor, torch.Tensor]]
WIDTH, INPUTS = 24, 12


def mlp(act: Callable[[], nn.Module] = nn.ReLU, depth: int = 2) -> nn.Sequential:
    torch.manual_seed(0)
    hidden = [m for _ in range(depth) for m in (nn.Linear(WIDTH, WIDTH), act())]
    return nn.Sequential(nn.Linear(INPUTS, WIDTH), act(), *hidden, nn.Linear(WIDTH, 1))


def batches(count: int = 24, *, offset: float = 0.0, shuffled: bool = False, seed: int = 2) -> Batches:
    """A smooth function of the inputs to learn."""
    generator = torch.Generator().manual_seed(seed)
    weights = torch.randn(INPUTS, 1, generator=torch.Generator().manual_seed(1)) / math.sqrt(INPUTS)
    found = []
    for _ in range(count):
        x = torch.randn(32, INPUTS, generator=generator)
        y = torch.tanh(2 * x @ weights)
        found.append((x + offset, y[torch.randperm(32, generator=generator)] if shuffled else y))
    return found


def scaled() -> nn.Sequential:
    model = mlp()
    model[2].weight.data *= 1e4
    return model


def frozen() -> nn.Sequential:
    return mlp().requires_grad_(False)


SICK: dict[str, tuple[Callable[[], nn.Sequential], dict[str, float], str]] = {
    "scaled": (scaled, {}, "redraw"),
    "offset": (mlp, {"offset": 500.0}, "standardise-inputs"),
    "frozen": (frozen, {}, "unfreeze"),
    "softmax": (lambda: mlp(lambda: nn.Softmax(-1), depth=4), {}, "exchange-activation"),
}


@cache
def case(name: str) -> tuple[nn.Sequential, Batches, Treatment]:
    make, data, _ = SICK[name]
    model, given = make(), batches(**data)
    report = diagnose(model, given, optimizer="adam", predict=False)
    before = state(model)
    treatment = treat(model, report, batch=given)
    assert same(before, state(model)), "the original is left alone"
    return model, given, treatment


@cache
def healthy() -> tuple[nn.Sequential, Report]:
    model = mlp()
    return model, diagnose(model, batches(), optimizer="adam", predict=False)


def trained_loss(model: nn.Module, offset: float, steps: int = 160) -> float:
    """Of an ordinary training on other batches, the last steps; without learning it stays at about 0.5."""
    model = copy.deepcopy(model)
    own = [p for p in model.parameters() if p.requires_grad]
    optimizer = torch.optim.Adam(own, lr=5e-3) if own else None
    losses = []
    for x, y in batches(steps, offset=offset, seed=7):
        loss = mse_loss(model(x), y)
        losses.append(loss.item())
        if optimizer is not None:
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
    return sum(losses[-25:]) / 25


# --- cured means that it learns ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", SICK)
def test_what_is_called_cured_learns_in_a_training_of_its_own(name: str) -> None:
    model, _, treatment = case(name)
    _, data, expected = SICK[name]
    assert treatment.before.healthy is not True
    assert treatment.cured, treatment.summary
    assert treatment.applied[0] == expected
    assert treatment.after.trains["adam"].verdict == "trains"
    before, after = (trained_loss(one, data.get("offset", 0.0)) for one in (model, treatment.model))
    assert after < 0.1 < before


@pytest.mark.parametrize("name", SICK)
def test_steps_say_what_was_measured_and_code_does_the_same(name: str) -> None:
    model, given, treatment = case(name)
    first = treatment.steps[0]
    assert first.status == "applied"
    assert first.effect == first.after - first.before > 0.05
    assert f"progress {first.before:.2f} → {first.after:.2f}" in first.reason
    assert treatment.to_dict()["steps"][0]["effect"] == pytest.approx(first.effect, rel=1e-3)
    inputs = given[0][0]
    by_code = {"model": copy.deepcopy(model), "batch": inputs}
    exec(treatment.code, by_code)
    repeated = treatment.repeat(copy.deepcopy(model), inputs)
    for other in (by_code["model"], repeated):
        assert torch.allclose(other(inputs), treatment.model(inputs))
        assert [p.requires_grad for p in other.parameters()] == [p.requires_grad for p in treatment.model.parameters()]


@pytest.mark.slow
def test_thirty_layers_without_gain_are_cured_by_their_weights() -> None:
    model, given = mlp(depth=30), batches()
    treatment = treat(model, diagnose(model, given, optimizer="adam", predict=False), batch=given)
    assert treatment.cured, treatment.summary
    assert trained_loss(treatment.model, 0.0) < 0.1 < trained_loss(model, 0.0)


# --- nothing to treat, and nothing that can be ------------------------------------------------------------------------


def test_a_healthy_model_comes_back_unchanged() -> None:
    model, report = healthy()
    treatment = treat(model, report, batch=batches())
    assert treatment.model is not model
    assert same(state(model), state(treatment.model))
    assert (treatment.steps, treatment.code, treatment.cured) == ((), "", False)
    assert "nothing to treat" in treatment.summary
    assert treatment.after is report


def test_targets_that_do_not_belong_are_advised_about_and_nothing_is_called_cured() -> None:
    model, given = mlp(), batches(170, shuffled=True)
    report = diagnose(model, given, optimizer="adam", predict=False)
    treatment = treat(model, report, batch=given)
    assert not treatment.cured
    assert not treatment.applied
    assert [(step.id, step.status) for step in treatment.advice] == [("check-targets", "advised")]
    assert "same samples" in treatment.summary
    assert same(state(model), state(treatment.model))


def test_the_learning_rate_is_advised_where_another_one_works() -> None:
    model, given = mlp(), batches()
    report = diagnose(model, given, optimizer="sgd", lr=30.0, predict=False)
    assert report.healthy is False
    treatment = treat(model, report, batch=given)
    (step,) = treatment.steps
    assert (step.id, step.kind, step.status) == ("learning-rate", "training", "advised")
    assert f"{report.trains['sgd'].best_rate:.2g}" in step.reason
    assert not treatment.cured
    assert same(state(model), state(treatment.model))


def test_a_report_without_a_stress_test_is_made_anew() -> None:
    model, _ = healthy()
    treatment = treat(model, diagnose(model, batches(), stress=False, predict=False), batch=batches(), optimizer="adam")
    assert treatment.trained
    assert set(treatment.before.trains) == {"adam"}
    assert "nothing to treat" in treatment.summary


def test_findings_decide_where_nothing_can_be_trained() -> None:
    model, given = scaled(), batches(1)
    report = diagnose(model, given[0][0], stress=False, predict=False)
    nothing = replace(case("scaled")[2].before, stress=replace(case("scaled")[2].before.stress, skipped="no memory"))
    treatment = treat(model, replace(nothing, findings=report.findings), batch=given[0][0])
    assert not treatment.trained
    assert all(math.isnan(step.effect) for step in treatment.steps)


# --- whole or not at all ----------------------------------------------------------------------------------------------


def test_inplace_changes_the_model_itself_and_keeps_its_parameters() -> None:
    _, given, known = case("frozen")
    model = frozen()
    held = [id(parameter) for parameter in model.parameters()]
    treatment = treat(model, known.before, batch=given, inplace=True)
    assert treatment.model is model
    assert treatment.cured
    assert [id(parameter) for parameter in model.parameters()] == held


@pytest.mark.parametrize("moment", [1, 2])
def test_an_interruption_leaves_the_model_as_it_was(monkeypatch: pytest.MonkeyPatch, moment: int) -> None:
    _, given, known = case("softmax")
    model, runs = SICK["softmax"][0](), []
    before, run = state(model), Bench.progress

    def interrupted(self: Bench, *args: Any, **kwargs: Any) -> Progress:
        runs.append(1)
        if len(runs) == moment:
            raise KeyboardInterrupt
        return run(self, *args, **kwargs)

    monkeypatch.setattr(Bench, "progress", interrupted)
    with pytest.raises(KeyboardInterrupt):
        treat(model, known.before, batch=given, inplace=True)
    assert same(before, state(model))
    assert [type(one) for one in model] == [type(one) for one in SICK["softmax"][0]()]


def test_the_budget_is_kept() -> None:
    model, given = mlp(depth=12), batches()
    report = case("scaled")[2].before
    begun, worked = time.perf_counter(), time.thread_time()
    treatment = treat(model, replace(report, stress=None), batch=given, optimizer="sgd", budget=1.5)
    assert treatment.seconds <= time.perf_counter() - begun
    assert time.thread_time() - worked < 6


def test_wrong_budget() -> None:
    with pytest.raises(IsometerError, match="budget is 0"):
        treat(mlp(), healthy()[1], batch=batches(), budget=0)


# --- choices ----------------------------------------------------------------------------------------------------------


def test_named_changes_are_judged_by_training_too() -> None:
    model, given, known = case("softmax")
    treatment = treat(model, known.before, batch=given, choose=["zero-bias", "exchange-activation", "reset-norm"])
    assert [(step.id, step.status) for step in treatment.steps] == [
        ("zero-bias", "applied"),
        ("exchange-activation", "applied"),
        ("reset-norm", "refused"),
    ]
    assert treatment.steps[0].after == pytest.approx(treatment.steps[1].before)
    assert "zero_biases_(model)" in treatment.code


def test_an_optimizer_of_the_model_judges_the_treated_copy() -> None:
    _, given, known = case("softmax")
    model = SICK["softmax"][0]()
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3, weight_decay=0.01)
    treatment = treat(model, known.before, batch=given, optimizer=optimizer)
    assert "exchange-activation" in treatment.applied
    assert treatment.after.trains["adam"].at_rate.rate == 1e-3


class Quiet(nn.Module):
    """Multiplies what it is given by almost nothing."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return 1e-9 * x


def louder(model: nn.Module) -> None:
    model.get_submodule("1").register_forward_hook(lambda module, args, output: 1e9 * output)


def test_operations_are_taken_out_and_told_as_the_line_to_change() -> None:
    model, given = nn.Sequential(mlp(depth=1)[:2], Quiet(), *mlp(depth=1)[2:]), batches()
    report = diagnose(model, given, optimizer="sgd", predict=False)
    fix = Repair("operation", ("1",), "Leave out the factor 1e-09.", "it multiplies by 1e-09", 4.0, louder, "net.py:42")
    cause = Cause(("1",), fix.advice, 0.5, fix.evidence, "operation", fix.where, (fix,))
    explained = replace(report.explanation, causes=(cause,))
    treatment = treat(model, replace(report, stress=replace(report.stress, explanation=explained)), batch=given)
    assert treatment.applied[0] == "remove-operation"
    assert "net.py:42: Leave out the factor 1e-09." in treatment.steps[0].reason
    assert "# net.py:42: Leave out the factor 1e-09." in treatment.code.splitlines()
    assert treatment.cured
    assert treatment.repeat(copy.deepcopy(model), given[0][0])(given[0][0]).isfinite().all()


# --- the judge --------------------------------------------------------------------------------------------------------


class FakeBench:
    """Progress by optimizer, as somebody says."""

    late = False

    def __init__(self, **progress: float) -> None:
        self.values = progress

    def progress(self, optimizer: str, goal: float, *, last: bool = False) -> Progress:
        value = self.values[optimizer]
        return Progress(value, 0.1, goal, value)

    def warmed(self, optimizer: str, rate: float) -> tuple[float, float]:
        return self.values[optimizer], self.values["warm"]


def judge(best: float = 1.0, others: dict[str, float] | None = None, **progress: float) -> ProgressJudge:
    bench: Any = FakeBench(**progress)
    return ProgressJudge(bench, "adam", best, others or {}, healthy()[1])


def look(value: float) -> Progress:
    return Progress(value, 0.1, 0.75, value)


@pytest.mark.parametrize(
    ("before", "after", "gains", "harms"),
    [(0.0, 0.04, False, False), (0.0, 0.06, True, False), (0.8, 0.86, False, False), (0.5, 0.3, False, True)],
)
def test_small_gains_count_for_nothing(before: float, after: float, gains: bool, harms: bool) -> None:
    one = judge()
    assert (one.gains(look(before), look(after)), one.harms(look(before), look(after))) == (gains, harms)


def test_a_change_that_costs_another_optimizer_its_progress_is_not_made() -> None:
    assert judge(others={"sgd": 0.5}, sgd=0.1).objection() == "sgd learns less: progress 0.50 → 0.10"
    assert judge(others={"sgd": 0.5}, sgd=0.48).objection() == ""
    assert judge(others={"sgd": 0.0}, sgd=0.0).objection() == ""


def test_what_helps_one_optimizer_and_harms_another_is_undone() -> None:
    model, one = scaled(), judge(others={"sgd": 0.5}, adam=0.9, sgd=0.0)
    search = TreatmentSearch(model, batches()[0][0], 0, one)
    before = state(model)
    route = search.recommended(look(0.0), ())
    assert not route.calls
    assert any("sgd learns less" in step.reason for step in route.steps)
    assert same(before, state(model))


@pytest.mark.parametrize("trained", [True, False])
def test_weights_that_are_drawn_twice_are_written_down_once(trained: bool) -> None:
    model, inputs = scaled(), batches()[0][0]
    model[2].requires_grad_(trained)
    one = judge(adam=0.9)
    values = iter([0.2, 0.9])
    one.bench.progress = lambda *_, **__: look(next(values))  # type: ignore[method-assign]
    fix = Repair("weights", ("2",), "Redraw the weights of `2`.", "they are large", 3.0, lambda model: None)
    cause = Cause(("2",), fix.advice, 0.2, fix.evidence, "weights", fixes=(fix,))
    route = TreatmentSearch(model, inputs, 0, one).recommended(look(0.0), [cause])
    # What was frozen is drawn anew by its name only.
    assert len(route.calls) == (1 if trained else 2)
    assert {step.id: step.status for step in route.steps} == {
        "redraw": "undone" if trained else "applied",
        "by-the-book": "applied",
    }
    again = scaled()
    again[2].requires_grad_(trained)
    for call in route.calls:
        call.make(again, inputs, 0)
    assert torch.allclose(again(inputs), model(inputs))


@pytest.mark.parametrize(("after", "kept"), [(0.6, True), (0.42, False)])
def test_a_model_that_trains_slowly_gets_what_its_causes_ask_for_and_no_more(after: float, kept: bool) -> None:
    """Prescriptions may help it too; but nothing else is to blame."""
    model, one = scaled(), judge(adam=after)
    fix = Repair("operation", ("2",), "Remove it.", "it squashes", 3.0, lambda model: None)
    cause = Cause(("2",), fix.advice, 0.2, fix.evidence, "operation", fixes=(fix,))
    turned = Cause(("loss",), "Flip the sign.", 0.3, "it falls without end", "loss")
    route = TreatmentSearch(model, batches()[0][0], 0, one).causes_alone(look(0.4), [cause, turned])
    assert [(step.id, step.status) for step in route.steps] == [
        ("remove-operation", "applied" if kept else "undone"),
        ("turn-loss", "advised"),
    ]
    assert len(route.calls) == kept


def _slow_softmax(*, severe: bool) -> tuple[nn.Module, Any, Any, Report]:
    """A known case whose verdict is *slow* with every optimizer, with a severe finding or with moderate ones alone."""
    model, given, known = case("softmax")
    before = known.before
    assert before.stress is not None
    outlooks = {name: replace(one, verdict="slow") for name, one in before.trains.items()}
    findings = tuple(replace(one, severity="severe" if severe else "moderate") for one in before.findings)
    return model, given, known, replace(before, findings=findings, stress=replace(before.stress, outlooks=outlooks))


def test_slow_models_are_treated_for_their_causes_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    model, given, known, report = _slow_softmax(severe=False)
    monkeypatch.setattr(TreatmentSearch, "recommended", lambda *_: pytest.fail("more than the causes"))
    treatment = treat(model, report, batch=given)
    assert treatment.applied == known.applied[: len(treatment.applied)]
    assert treatment.applied


def test_slow_models_with_severe_findings_get_prescriptions_too(monkeypatch: pytest.MonkeyPatch) -> None:
    model, given, known, report = _slow_softmax(severe=True)
    assert report.findings
    monkeypatch.setattr(TreatmentSearch, "causes_alone", lambda *_: pytest.fail("the causes alone"))
    assert treat(model, report, batch=given).applied == known.applied


def test_without_time_nothing_is_tried() -> None:
    one = judge(adam=0.9)
    one.bench.late = True  # type: ignore[misc]
    route = TreatmentSearch(scaled(), batches()[0][0], 0, one).recommended(look(0.0), ())
    assert (route.steps, route.calls) == ([], [])


@pytest.mark.parametrize(
    ("short", "long", "fit", "on", "steps"),
    [(0.5, 0.6, 0.9, "fresh batches", 40), (0.0, 0.5, 0.9, "fresh batches", 160), (0.0, 0.0, 0.7, "one batch", 20)],
)
def test_models_are_trained_where_a_reference_shows_that_something_can_be_learned(
    short: float, long: float, fit: float, on: str, steps: int
) -> None:
    stress = healthy()[1].stress
    found = Evidence(0.0, 0.0, long, fit, early=0.0)
    runs = tuple(
        StressRun("adam", "reference", "fresh batches", 0.01, count, (1.0, 1.0 - value), value)
        for count, value in ((40, short), (160, long))
    )
    outlooks = {"adam": replace(stress.outlooks["adam"], evidence=found)}
    way = _way(replace(stress, outlooks=outlooks, runs=runs, plan=PLANS[0]), "adam")
    assert (way.on, way.steps, way.start) == (on, steps, 0.0)
    assert way.best == (fit if on == "one batch" else long)


def test_what_helped_the_search_for_causes_after_many_steps_is_tried_with_as_many() -> None:
    stress = healthy()[1].stress
    found = Evidence(0.01, 0.0, 0.01, 0.0, early=0.0, repaired=0.26)
    tested = replace(stress, outlooks={"sgd": replace(stress.outlooks["adam"], evidence=found)}, runs=(), plan=PLANS[0])
    explained = CauseExplanation("sgd", (), (), 0.01, 0.42, "", 4, 1.0, True, steps=160, rates=(0.03, 0.18))
    way = _way(tested, "sgd", explained)
    assert (way.on, way.steps, way.start, way.best) == ("fresh batches", 160, 0.01, 0.42)
    choice = next(one for one in optimizer_choices("sgd", None, None, Subject(mlp())))
    assert _hints(tested, choice, explained)[:2] == [0.03, 0.18]
    assert _hints(tested, choice, replace(explained, after=0.0)) == [choice.at(0)], "rates at which nothing helped"


@pytest.mark.parametrize(("warm", "advised"), [(0.5, True), (0.22, False)])
def test_a_warm_up_is_advised_only_if_it_helps(warm: float, advised: bool) -> None:
    one = judge(adam=0.2, warm=warm)
    one.bench.material = type("Material", (), {"chance": 1.0})  # type: ignore[assignment]
    given = batches(1)[0]
    room = _Room(mlp(), *given, None, None, None, None, healthy()[1], 0, math.inf, print)  # type: ignore[arg-type]
    steps = room._warm_up(one.bench, one, Route(look(0.2)))
    assert [step.id for step in steps] == (["warm-up"] if advised else [])
    assert room._warm_up(one.bench, one, Route(look(0.9))) == [], "what is enough needs none"


def test_a_warm_up_begins_with_a_small_rate() -> None:
    _, given, known = case("frozen")
    from isometer.doctor.stress._material import Batches as Given

    model = mlp()
    bench = Bench(
        model,
        Given(given),
        None,
        known.before.stress,
        optimizer_choices("adam", None, None, Subject(model)),
        mode="train",
        seed=0,
        budget=ENDLESS,
        told=lambda text: None,
    )
    without, with_it = bench.warmed("adam", 1.0)
    assert without < 0.1, "a rate of 1 is far too large"
    assert with_it != without or with_it < 0.1
    assert bench.tried == 2


# --- what puts causes right -------------------------------------------------------------------------------------------


def test_redrawing_leaves_statistics_generators_and_ties_alone() -> None:
    torch.manual_seed(0)
    embedding = nn.Embedding(9, 8)
    model = nn.Sequential(embedding, nn.Flatten(), nn.Linear(24, 8), nn.BatchNorm1d(8), nn.Dropout(0.5))
    readout = nn.Linear(8, 9, bias=False)
    readout.weight = embedding.weight
    model.append(readout)
    tokens = torch.randint(0, 9, (16, 3))
    old, generator = embedding.weight.clone(), torch.get_rng_state()
    redraw_(model, tokens)
    assert readout.weight is embedding.weight
    assert not torch.equal(old, embedding.weight)
    assert model[3].num_batches_tracked.item() == 0
    assert torch.equal(torch.get_rng_state(), generator)
    with pytest.raises(IsometerError, match="unknown module"):
        redraw_(model, tokens, modules=["7"])


def test_redrawing_keeps_what_is_frozen_unless_it_is_named() -> None:
    model, inputs = mlp(), batches(1)[0][0]
    model[2].requires_grad_(False)
    kept = model[2].weight.clone()
    assert "2" not in redraw_(model, inputs)
    assert torch.equal(model[2].weight, kept)
    redraw_(model, inputs, modules=["2"])
    assert not torch.equal(model[2].weight, kept)
    assert model[2].weight.requires_grad
    with pytest.raises(IsometerError, match="trained"):
        redraw_(frozen(), inputs)


def test_a_report_of_another_model_is_refused() -> None:
    report = case("scaled")[2].before
    with pytest.raises(IsometerError, match=r"blames module '.*', which this model does not have"):
        treat(nn.Sequential(nn.Linear(16, 2)), report)


def test_redraws_with_one_seed_differ_from_module_to_module() -> None:
    model, inputs = mlp(), batches(1)[0][0]
    for name in ("2", "4"):
        redraw_(model, inputs, modules=[name])
    first, second = (w / w.norm() for w in (model[2].weight, model[4].weight))
    assert abs((first * second).sum().item()) < 0.5


def test_a_redraw_that_fails_leaves_the_model_as_it_was() -> None:
    model = mlp()
    before = state(model)
    with pytest.raises(RuntimeError):
        redraw_(model, torch.ones(3, INPUTS + 1))
    assert same(before, state(model))


def test_norms_and_freezing() -> None:
    model = nn.Sequential(nn.Linear(2, 4), nn.BatchNorm1d(4, eps=1.0).eval())
    nn.init.constant_(model[1].weight, 9.0)
    reset_norms_(model, modules=["1"])
    assert (model[1].eps, model[1].training, model[1].weight.tolist()) == (1e-5, True, [1.0] * 4)
    with pytest.raises(IsometerError, match="no parameter is frozen"):
        unfreeze_(model)


def test_a_step_without_numbers_has_no_effect_in_json() -> None:
    assert Step("zero-bias", "weights", "refused", "why").to_dict()["effect"] is None
