"""The truth after treatment: every seed is treated for itself, and what counts as cured or harmed."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

from isometer.doctor.causes import Repair
from isometer.doctor.causes._data import ScaledLoss
from isometer.errors import IsometerError
from isometer.trial import Blueprint, _treated
from isometer.trial._faults import FAULTS, SIZES
from isometer.trial._guilty import GUILTY
from isometer.trial._members import Member, specimen
from isometer.trial._records import read_records, sibling_name, treated, truths, write_records
from isometer.trial._specimen import Specimen
from isometer.trial._treated import repair_in_place, treated_record
from isometer.trial._treated_table import UNTREATABLE, TreatedCase, treatable, treatment_row, treatment_rows
from isometer.trial._truth import truth_cell

BLUEPRINT = Blueprint("friedman", 16, 2, 16, {"activation": "ReLU"})
NEGATE = Repair("loss", ("loss",), "Turn the sign.", "", 3.0, ScaledLoss(-1.0))


def cell(fault: str | None, **severity: Any) -> dict[str, Any]:
    how = {"optimizer": "adam", "seeds": [0, 1], "steps": [2, 6]}
    return {"family": "mlp-relu", "blueprint": asdict(BLUEPRINT), "fault": fault, "severity": severity, **how}


def sound_record() -> dict[str, Any]:
    return dict(json.loads(truth_cell(cell(None), 0)["record"].item()))


def restored(made: Specimen, *, optimizer: str, seed: int) -> Sequence[Repair]:
    """Puts back the weights that the sound model of this seed has."""
    weights = specimen("mlp-relu", BLUEPRINT, None, {}, seed).model.state_dict()
    return [Repair("weights", ("3",), "Restore it.", "", 3.0, lambda model: model.load_state_dict(weights))]


def unhooked(made: Specimen, *, optimizer: str, seed: int) -> Sequence[Repair]:
    def change(model: nn.Module) -> None:
        for module in model.modules():
            module._forward_hooks.clear()

    return [Repair("operation", ("2",), "Take it out.", "", 3.0, change)]


def negated(made: Specimen, *, optimizer: str, seed: int) -> Sequence[Repair]:
    return [NEGATE]


def nothing(made: Specimen, *, optimizer: str, seed: int) -> Sequence[Repair]:
    return ()


@pytest.mark.parametrize(
    ("broken", "decide"),
    [
        (cell("one-zero", place=0.5), restored),
        (cell("detached", place=0.3), unhooked),
        (cell("loss-negated"), negated),
    ],
)
def test_a_perfect_treatment_gives_the_record_of_the_sibling(broken: dict[str, Any], decide: Any) -> None:
    """To the last digit, from both seeds; without it the record is another."""
    found, sound = treated_record(broken, decide), sound_record()
    assert {key: found[key] for key in sound} == sound
    assert [[one["kind"] for one in plan] for plan in found["repairs"]] == [
        [decide(None, optimizer="", seed=0)[0].kind]
    ] * 2
    assert json.loads(truth_cell(broken, 0)["record"].item()) != sound


def test_a_treatment_is_decided_for_the_weights_of_every_seed() -> None:
    """Those of the first seed in every model are no treatment of the second: only the first agrees."""

    def careless(made: Specimen, *, optimizer: str, seed: int) -> Sequence[Repair]:
        return restored(made, optimizer=optimizer, seed=0)

    best, sound = treated_record(cell("one-zero", place=0.5), careless)["second"][0], sound_record()["second"][0]
    assert best["scores"][0] == sound["scores"][0]
    assert best["scores"][1] != sound["scores"][1]


def test_each_decision_meets_the_faulty_model_of_its_seed() -> None:
    met: dict[int, torch.Tensor] = {}

    def note(made: Specimen, *, optimizer: str, seed: int) -> Sequence[Repair]:
        assert optimizer == "adam"
        met[seed] = made.model[1].weight.detach().clone()  # type: ignore[index, union-attr]
        return ()

    treated_record(cell("one-zero", place=0.5), note)
    for seed in (0, 1):
        expected = specimen("mlp-relu", BLUEPRINT, "one-zero", {"place": 0.5}, seed).model[1].weight  # type: ignore[index]
        assert torch.equal(met[seed], expected)


def test_what_is_left_alone_is_not_trained(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_treated, "trained_score", lambda *_, **__: pytest.fail("trained"))
    found = treated_record(cell("one-zero", place=0.5), nothing)
    assert (found["first"], found["second"], found["repairs"], found["errors"]) == ([], [], [[], []], {})


def test_a_doctor_that_fails_leaves_the_model_as_it_is() -> None:
    def fails_once(made: Specimen, *, optimizer: str, seed: int) -> Sequence[Repair]:
        if seed == 1:
            raise IsometerError("no")
        return restored(made, optimizer=optimizer, seed=seed)

    broken = cell("one-zero", place=0.99)  # the readout: with it, nothing is learned at first
    found, sound = treated_record(broken, fails_once), sound_record()
    assert found["errors"] == {"1": "IsometerError: no"}
    assert [len(plan) for plan in found["repairs"]] == [1, 0]
    assert found["first"] == sound["first"]
    assert found["second"][0]["scores"][0] == sound["second"][0]["scores"][0]
    assert found["second"][0]["scores"][1] != sound["second"][0]["scores"][1]


def test_repairs_draw_the_same_in_every_copy_and_leave_the_generator() -> None:
    redrawn = Repair("weights", ("1",), "Draw it anew.", "", 3.0, lambda model: nn.init.orthogonal_(model[1].weight))
    state = torch.get_rng_state()
    drawn = [
        repair_in_place(specimen("mlp-relu", BLUEPRINT, None, {}, 0), [redrawn], seed=seed).model[1].weight  # type: ignore[index]
        for seed in (0, 0, 1)
    ]
    assert torch.equal(drawn[0], drawn[1])
    assert not torch.equal(drawn[0], drawn[2])
    assert torch.equal(torch.get_rng_state(), state)


def test_the_repair_of_a_loss_leaves_the_score() -> None:
    made = specimen("mlp-relu", BLUEPRINT, "loss-negated", {}, 0)
    output, target = torch.zeros(4, 1), torch.ones(4, 1)
    before = made.loss(output, target), made.score(output, target)
    repair_in_place(made, [NEGATE], seed=0)
    assert (made.loss(output, target), made.score(output, target)) == (-before[0], before[1])


def record(*scores: float) -> dict[str, Any]:
    return {"second": [{"rate": 0.1, "scores": list(scores)}]}


SOUND, SICK = record(0.40, 0.41, 0.42), record(1.0, 0.99, 1.0)


def outcome(name: str, before: dict[str, Any], after: dict[str, Any]) -> TreatedCase:
    return TreatedCase(name, "one-zero", before, after, SOUND)


def test_cured_is_three_quarters_of_the_sibling() -> None:
    sick = [
        outcome("a/0", SICK, record(0.55, 0.55, 0.55)),  # 0.45 of 0.59
        outcome("a/1", SICK, record(0.57, 0.57, 0.57)),
        outcome("a/2", SICK, SICK),
    ]
    row = treatment_row("adam", sick, [])
    assert (row.cured.found, row.cured.of, row.repaired.found) == (1, 3, 2)
    assert row.not_cured == ("a/1 (one-zero): 0.73", "a/2 (one-zero): 0.01")
    assert row.cured.low == pytest.approx(0.0615, abs=1e-4)  # Wilson, by hand
    assert row.cured.high == pytest.approx(0.7923, abs=1e-4)


def test_harm_is_more_than_noise() -> None:
    noisy = record(0.40, 0.50, 0.60)
    well = [
        outcome("a/0", SOUND, SOUND),  # nothing was repaired
        outcome("a/1", SOUND, record(0.60, 0.61, 0.62)),
        outcome("a/2", noisy, record(0.45, 0.55, 0.61)),
        outcome("a/3", SOUND, record(0.20, 0.21, 0.22)),
    ]
    row = treatment_row("adam", [], well)
    assert row.harmed == ("a/1 (one-zero): 0.66",)
    assert (row.worse.found, row.changed.found, row.worse.of) == (1, 3, 4)
    assert row.cured.of == 0


def member(number: int, fault: str | None, **severity: Any) -> Member:
    return Member(f"mlp-relu/{number}", "mlp-relu", "0", BLUEPRINT, BLUEPRINT, fault, severity, False, 0.01)


def test_the_untreatable_are_faults_and_the_rest_is_treatable() -> None:
    assert UNTREATABLE.keys() <= {*FAULTS, *SIZES}
    assert not treatable("targets-shuffled", "targets")
    assert not treatable(None, "none")
    assert not treatable("x", "structure")
    assert treatable("input-tiny", "input")
    assert treatable("loss-negated", "loss")
    assert treatable("pruned", "modules")


def test_rows_of_a_folder(tmp_path: Path) -> None:
    """Two treatable sick models, one of them cured, one untreatable, one that trains and is left alone, one unknown."""
    members = [
        member(0, "one-zero", place=0.5),
        member(1, "loss-negated"),
        member(2, "input-lost"),
        member(3, None),
        member(4, "negated", place=0.5),
    ]
    before = {0: SICK, 1: SICK, 2: SICK, 3: SOUND, 4: SOUND}
    after = {0: SOUND, 1: {"second": []}, 2: SICK, 3: {"second": []}}
    stages = truths(tmp_path, members), treated(tmp_path, members)
    for stage, found in zip(stages, (before, after), strict=True):
        rows = {f"{m.name} adam": found[place] for place, m in enumerate(members) if place in found}
        rows |= {f"{sibling_name(members[0])} adam": SOUND} if stage.name == "truths" else {}
        write_records(
            stage.path, {label: {"of": stage._digests[label], "code": "", **one} for label, one in rows.items()}
        )
    adam, sgd = treatment_rows(tmp_path, members)
    assert read_records(tmp_path / GUILTY).keys() == {"mlp-relu/0", "mlp-relu/1", "mlp-relu/2"}  # the sick ones
    assert [adam, sgd] == treatment_rows(tmp_path, members)  # now from the file
    assert (adam.cured.found, adam.cured.of) == (1, 2)
    assert adam.not_cured == ("mlp-relu/1 (loss-negated): 0.01",)
    assert (adam.worse.found, adam.worse.of, adam.changed.found) == (0, 1, 0)
    assert (sgd.cured.of, sgd.worse.of) == (0, 0)


def test_the_page_has_the_untreatable_with_their_reasons() -> None:
    page = (Path(__file__).parents[2] / "docs" / "trial.md").read_text(encoding="utf-8")
    for fault, reason in UNTREATABLE.items():
        assert f"| {fault} | {reason} |" in page or (fault in SIZES and "| too-narrow, too-deep |" in page)
