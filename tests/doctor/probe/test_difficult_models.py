"""Probing changes nothing in a model, whatever it does and whenever it is interrupted: a slice of the whole check.

`tools/check_probing.py` runs everything.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch
from torch import nn

from support import ROOT
from support.difficult import DifficultModel, Subject, corpus, named
from support.difficult.subject import TRAITS
from support.probing.fingerprint import Fingerprint, differences
from support.probing.harness import CONDITIONS, OPERATIONS, Patient, Result, examine
from support.probing.suites import INTERRUPTED_EVERYWHERE
from support.probing.tables import amended, summary

# An interruption may come in a callback of the garbage collector, which cannot raise.
pytestmark = pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
# One trait of each class and way of changing things; probed by every `make test`.
SLICE = (
    "mlp",
    "conv",
    "recurrent",
    "embedding:embedding_max_norm",
    "mlp:renormalised",
    "mlp:foreach_scaled",
    "mlp:data_assigned",
    "attention:set_to_another",
    "mlp:numpy_view_held",
    "mlp:storage_written",
    "mlp:swapped",
    "mlp:spectral_norm_old",
    "attention:spectral_norm",
    "mlp:buffer_grows",
    "mlp:buffer_resized",
    "mlp:buffer_deleted",
    "conv:batch_norm_cumulative",
    "mlp:views_of_one_storage",
    "mlp:tied_and_written",
    "mlp:viewed_from_outside",
    "mlp:counts_calls",
    "mlp:cache_of_keys_and_values",
    "mlp:nested_containers",
    "mlp:slots_written",
    "mlp:own_generators",
    "mlp:lock_held",
    "mlp:submodule_created",
    "mlp:submodules_reordered",
    "mlp:class_changed",
    "mlp:mixed_modes",
    "mlp:forward_hook_removes_itself",
    "mlp:backward_hooks_count",
    "mlp:installed_on_first_call",
    "mlp:tensor_hook_writes_the_weight",
    "mlp:forward_is_a_closure",
    "mlp:forward_counts_by_nonlocal",
    "mlp:state_in_default_arguments",
    "mlp:state_in_slots",
    "mlp:generator_advanced",
    "mlp:cached_methods",
    "mlp:queue_filled",
    "mlp:train_raises",
    "mlp:setattr_counts",
    "mlp:deepcopy_gives_itself",
    "mlp:modules_hidden",
    "mlp:sparse_gradient",
    "mlp:backward_inside",
    "mlp:gradients_in_one_buffer",
    "mlp:sets_default_dtype",
    "mlp:draws_from_numpy",
    "mlp:float64",
    "mlp:checkpointed_and_counting",
    "mlp:raises_in_forward",
    "mlp:raises_in_backward",
    "embedding:writes_to_its_input",
)
PATIENTS = {name: Patient(named(name).name, named(name).groups, named(name).build) for name in SLICE}


def told(result: Result) -> str:
    """For a failing test: what was changed."""
    lines = [
        f"{result.operation} of {result.model}, {result.condition}: {result.ended} {result.message} {result.where}"
    ]
    return "\n  ".join([*lines, *result.changed])


def as_promised(result: Result) -> bool:
    """Nothing in the model is different; it was examined, refused, or raised what it always raises."""
    return result.outcome in ("unchanged", "refused", "beyond")


@pytest.mark.parametrize("name", SLICE)
def test_a_probe_changes_nothing(name: str) -> None:
    result = examine(PATIENTS[name], "probe", "gradients")
    assert as_promised(result), told(result)


@pytest.mark.parametrize("kind", ["signal", "line", "operation"])
@pytest.mark.parametrize("name", SLICE[3::5])
def test_an_interrupted_probe_changes_nothing(name: str, kind: str) -> None:
    result = examine(PATIENTS[name], "probe", kind)
    assert as_promised(result), told(result)


@pytest.mark.parametrize(
    ("name", "operation"),
    [
        ("conv:batch_norm_cumulative", "diagnose"),
        ("mlp:counts_calls", "diagnose"),
        ("mlp:counts_calls", "monitor"),
        ("embedding:embedding_max_norm", "monitor"),
        ("mlp:cache_of_keys_and_values", "treat"),
        ("attention:empty_parameters+expanded_parameter+scripted_part", "diagnose"),
        ("mlp:averaged_model", "treat"),
        ("mlp:buffer_set", "treat"),
    ],
)
def test_the_other_operations_change_nothing(name: str, operation: str) -> None:
    patient = Patient(named(name).name, named(name).groups, named(name).build)
    result = examine(patient, operation, "plain")
    assert as_promised(result), told(result)


def test_the_corpus_is_large_and_spans_all_classes() -> None:
    models = corpus()
    assert len({one.name for one in models}) == len(models) >= 300
    assert {one for model in models for one in model.traits} == set(TRAITS)
    assert len({one.base for one in models}) == 5
    assert [one.name for one in models] == [one.name for one in corpus.__wrapped__()]


@pytest.mark.parametrize(
    ("name", "changed", "expected"),
    [
        ("mlp:file_written", ["model.file has another position"], "beyond"),
        ("mlp:file_written", ["model.file has another position", "model.calls has another value"], "changed"),
        ("mlp:queue_filled", ["model.file has another position"], "changed"),
        ("mlp:file_written", [], "unchanged"),
    ],
)
def test_control_out_of_scope_is_what_a_trait_is_known_for(name: str, changed: list[str], expected: str) -> None:
    assert Result(name, (), "probe", "plain", "returned", changed).outcome == expected


@pytest.mark.parametrize("name", SLICE[::4])
def test_control_nothing_done_nothing_found(name: str) -> None:
    result = examine(PATIENTS[name], "nothing", "gradients")
    assert result.outcome == "unchanged", told(result)


@pytest.mark.parametrize("name", SLICE[::4])
def test_control_a_call_is_noticed_where_it_changes_something(name: str) -> None:
    result = examine(PATIENTS[name], "forward", "gradients")
    # a generator, a gradient mode or a hook on the way back is no change in the model after a call alone
    assert (result.outcome == "changed") == named(name).changes, told(result)


def _holder() -> nn.Module:
    model = nn.Sequential(nn.Linear(2, 2), nn.BatchNorm1d(2))
    model[0].weight.grad = torch.ones(2, 2)
    model.items, model.tensor = [torch.zeros(2)], torch.zeros(3)
    model.register_forward_hook(print)
    model.register_forward_hook(repr)
    return model


def _assign(model: nn.Module) -> None:
    model[0].weight.data = model[0].weight.data.clone()


def _negative_zero(model: nn.Module) -> None:
    model.tensor[0] = -0.0


CHANGES = {
    "has other values": lambda model: model[0].weight.data.add_(1),
    "has another storage": _assign,
    "is another object": lambda model: setattr(model[0], "bias", nn.Parameter(model[0].bias.detach())),
    "weight'].grad": lambda model: setattr(model[0].weight, "grad", model[0].weight.grad.clone()),
    "requires gradients": lambda model: model[0].bias.requires_grad_(False),
    "_forward_hooks has other keys": lambda model: model._forward_hooks.move_to_end(next(iter(model._forward_hooks))),
    "has other hooks": lambda model: model[0].weight.register_hook(print),
    "items has another length": lambda model: model.items.append(1),
    "items[0] has other values": lambda model: model.items[0].add_(1),
    "tensor has other values": _negative_zero,
    "training has another value": lambda model: model[1].eval(),
    "_modules has other keys": lambda model: model._modules.update({"0": model._modules.pop("0")}),
    "has another type": lambda model: setattr(model, "__class__", type("Other", (nn.Sequential,), {})),
    "state of torch's generator": lambda model: torch.rand(1),
    "has another default dtype": lambda model: torch.set_default_dtype(torch.float64),
    "has another grad mode": lambda model: torch.set_grad_enabled(False),
    "has other attributes": lambda model: setattr(model, "extra", 1),
}


@pytest.fixture
def process() -> Iterator[None]:
    from support.probing.surroundings import surroundings

    with surroundings():
        yield


@pytest.mark.usefixtures("process")
@pytest.mark.parametrize("expected", CHANGES)
def test_the_fingerprint_notices(expected: str) -> None:
    model = _holder()
    before = Fingerprint(model=model)
    assert differences(before, Fingerprint(model=model)) == []
    CHANGES[expected](model)
    found = differences(before, Fingerprint(model=model))
    assert any(expected in one for one in found), found


def test_the_harness_notices_another_output() -> None:
    """State that no walk over objects reaches still shows in what the model computes."""
    calls = [0]

    class Hidden(nn.Linear):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            globals()["_CALLS"] = globals().get("_CALLS", 0) + 1
            return super().forward(x) * globals()["_CALLS"]

    def build() -> Subject:
        globals().pop("_CALLS", None)
        calls[0] += 1
        torch.manual_seed(0)
        return Subject(Hidden(3, 3), torch.ones(4, 3))

    result = examine(Patient("hidden", (), build), "forward", "plain")
    assert result.changed == ["the model gives another output", "the model gives another second output",
                              "the model gives other gradients"]  # fmt: skip
    assert result.outcome == "changed"
    assert calls[0] > 3  # instances that nobody examines, too


_HIDDEN = [1.0]


class _Hides(nn.Linear):
    """Computes with what no walk over objects reaches."""

    def __init__(self, step: float) -> None:
        super().__init__(3, 3)
        self.step = step

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        _HIDDEN[0] += self.step
        return super().forward(x) * _HIDDEN[0]


def _hidden(step: float) -> Patient:
    def build() -> Subject:
        torch.manual_seed(0)
        return Subject(_Hides(step), torch.ones(4, 3))

    return Patient("hidden", (), build)


def test_a_model_that_nobody_reproduces_is_no_evidence() -> None:
    result = examine(_hidden(1.0), "nothing", "plain")
    assert result.outcome == "irreproducible"
    assert result.unsteady.startswith("without any examination it gives another output")
    assert result.changed == []


def test_what_the_process_computes_otherwise_is_a_change() -> None:
    patient = _hidden(0.0)
    patient.expected(gradients=False)
    _HIDDEN[0] += 1.0
    result = examine(patient, "nothing", "plain")
    assert result.outcome == "changed"
    assert result.changed[-1] == "the process computes something else for a new instance, too"


def test_too_little_memory_is_no_evidence() -> None:
    patient, left = _hidden(0.0), [2]

    def build() -> Subject:
        subject = _hidden(0.0).subject(gradients=False)

        def hook(*_: object) -> None:
            left[0] -= 1
            if left[0] < 0:
                raise RuntimeError("DefaultCPUAllocator: can't allocate memory: you tried to allocate 90316800 bytes")

        subject.model.register_forward_hook(hook)
        return subject

    patient = Patient("large", (), build)
    result = examine(patient, "nothing", "plain")
    assert (result.outcome, result.unsteady) == ("irreproducible", "there is not enough memory to compute it")


def _row(model: str, outcome: str, condition: str = "plain", suite: str = "lines") -> dict[str, str]:
    return {"suite": suite, "model": model, "operation": "probe", "condition": condition, "outcome": outcome,
            "message": "no" if outcome == "refused" else ""}  # fmt: skip


def test_cases_that_ran_again_take_the_place_of_earlier_ones() -> None:
    kept = [_row("bert", "unchanged", suite="transformers"), _row("mlp", "refused", suite="difficult")]
    kept.append(_row("mlp", "unchanged", "line"))
    found = [_row("t5", "changed", suite="transformers"), _row("conv", "error", suite="difficult")]
    old = summary([*kept, *found, _row("mlp", "changed"), _row("mlp", "unchanged")])
    again = [_row("t5", "irreproducible", suite="transformers"), _row("conv", "unchanged", suite="difficult")]
    again += [_row("mlp", "unchanged")] * 4
    new = amended(old, again, whole={("lines", "probe", "plain")})
    assert {name: new[name] for name in old} == summary([*kept, *again])
    assert [(line["suite"], line["condition"], line["cases"]) for line in new["ran_again"]] == [
        ("difficult", "plain", 1),
        ("lines", "plain", 4),
        ("transformers", "plain", 1),
    ]
    with pytest.raises(ValueError, match="has many results"):
        amended(old, again, whole=())
    with pytest.raises(ValueError, match="lacks cases"):
        amended(summary(kept), [_row("mlp", "changed", suite="difficult")], whole=())


# Half precision runs in a process of its own, where the instructions for it can be chosen.
WHOLE = [one for one in corpus() if not {"float16", "bfloat16"} & set(one.traits)]


@pytest.mark.slow
@pytest.mark.parametrize("model", WHOLE, ids=lambda one: one.name)
def test_every_model_in_every_way(model: DifficultModel) -> None:
    patient = Patient(model.name, model.groups, model.build)
    found = [examine(patient, operation, condition) for operation in OPERATIONS for condition in CONDITIONS]
    assert all(map(as_promised, found)), "\n".join(told(one) for one in found if not as_promised(one))


@pytest.mark.slow
@pytest.mark.parametrize("name", INTERRUPTED_EVERYWHERE)
def test_interrupted_at_every_line(name: str) -> None:
    patient = Patient(name, named(name).groups, named(name).build)
    moments = sorted({one for pair in patient.survey("probe", "line").places for one in pair})
    found = [examine(patient, "probe", "line", moment=moment) for moment in moments]
    assert len(found) > 200
    assert all(map(as_promised, found)), "\n".join(told(one) for one in found if not as_promised(one))


@pytest.mark.slow
def test_the_tool_and_half_precision(tmp_path: Path) -> None:
    rows, out = tmp_path / "rows.jsonl", tmp_path / "probing.json"
    command = [sys.executable, str(ROOT / "tools" / "check_probing.py"), "--suites", "difficult", "--jobs", "1"]
    command += ["--models", "*float16*", "--rows", str(rows), "--out", str(out)]
    first = subprocess.run(command, capture_output=True, text=True, check=True)
    again = subprocess.run(command, capture_output=True, text=True, check=True)
    names = [one.name for one in corpus() if one not in WHOLE]
    number = len(names) * len(OPERATIONS) * len(CONDITIONS)
    assert f"{number} cases, 0 of them known" in first.stderr
    assert f"{number} cases, {number} of them known" in again.stderr
    assert first.stdout == again.stdout
    found = json.loads(out.read_text(encoding="utf-8"))
    assert sum(line["cases"] for line in found["totals"]) == number
    assert [row for row in found["not_as_promised"] if row["outcome"] != "beyond"] == []
