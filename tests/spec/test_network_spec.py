"""The network spec: what it accepts, what it refuses and why, and its JSON."""

import json
import math
import subprocess
import sys
import tracemalloc
from pathlib import Path

import pytest

from isometer import activation
from isometer.errors import IsometerError
from isometer.spec import RECURRENCES, Norm, OldSpecWarning, PowerLaw, Spec, SpecError, read_spec, recurrence

SPECS = [
    Spec(width=8, depth=3),
    Spec(width=(8, 4), activation="leaky_relu(0.1)", norm="group:2", weights="orthogonal", input_width=5),
    Spec(width=8, depth=2, residual=(0.5, math.inf), gain=PowerLaw(2.0, layer=-0.5), bias_variance=0.1),
    Spec(width=8, depth=2, norm=Norm(eps=1e-5, scale=0.3, shift=-1.0), activation_gain=(1.0, 0.1), scale=0.1),
    Spec(width=8, depth=2, activation="normalized(relu)"),
    *(recurrence(name, width=6, depth=4) for name in RECURRENCES),
]  # fmt: skip


@pytest.mark.parametrize("spec", SPECS)
def test_json_round_trip_is_lossless(spec: Spec) -> None:
    again = Spec.from_json(spec.to_json())
    assert again == spec
    assert hash(again) == hash(spec)
    assert again.to_json() == spec.to_json()


def test_a_callable_is_written_by_its_import_path() -> None:
    spec = Spec(width=8, depth=2, activation="import:numpy:tanh")
    assert Spec.from_json(spec.to_json()) == spec
    assert spec.phi(0.5) == pytest.approx(math.tanh(0.5))


def test_an_activation_value_is_written_as_text() -> None:
    assert Spec(width=8, depth=2, activation=activation("gelu")).activation == "gelu"
    with pytest.raises(SpecError, match=r"cannot be written as text.*import:package.module:function"):
        Spec(width=8, depth=2, activation=activation(lambda x: x + 1, name="mine"))


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"depth": 0}, "depth is 0; expected a whole number from 1 to 10000000"),
        ({"depth": 2.5}, "depth is 2.5; expected a whole number"),
        ({"width": 0}, "width is 0; expected a whole number from 1 to 10000000 — pass the number of features"),
        ({"width": (8, 4), "depth": 3}, "width has 2 numbers, depth is 3; expected the same number — drop depth"),
        ({"weights": "normal"}, "unknown weights 'normal'; did you mean .xavier-normal.* expected one of gaussian"),
        ({"norm": "bacth"}, "unknown norm 'bacth'; did you mean 'batch'"),
        ({"norm": 3}, "norm is 3; expected a Norm, a name or None"),
        ({"activation": 3}, "activation is 3; expected text such as 'relu'"),
        ({"activation": "import:nowhere:f"}, "cannot be imported .*expected import:package.module:function"),
        ({"gain": float("nan")}, "gain is nan; expected a finite number"),
        ({"gain": "big"}, "gain is 'big'; expected a finite number"),
        ({"activation_gain": (1.0,)}, "activation_gain has 1 numbers; expected 3, one per layer"),
        ({"bias_variance": -1.0}, "bias_variance is -1.0; expected a finite number from 0 to"),
        ({"residual": -math.inf}, "residual is -inf; expected a finite number"),
        ({"order": ("weights", "norm")}, "order is .*; expected 'weights', 'norm' and 'activation' once each"),
        ({"order": ("residual", "weights", "norm", "activation")}, "expected 'residual' after 'weights'"),
        ({"residual": 1.0, "input_width": 4}, "widths are \\[4, 8\\]; expected equal widths"),
        ({"norm": "group:3"}, "width 8 does not split into 3 groups; expected a multiple"),
        ({"weights": "he", "weight_scaling": "unit"}, "weight_scaling='unit' with weights='he'; expected gaussian"),
        ({"scale": "large"}, "scale is 'large'; expected a finite number"),
    ],
)
def test_what_does_not_fit_is_refused_with_the_reason(fields: dict[str, object], message: str) -> None:
    with pytest.raises(SpecError, match=message):
        Spec(**{"width": 8, "depth": 3, **fields})  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"over": "time"}, "unknown norm.over 'time'; expected one of batch, features, groups"),
        ({"recenter": False, "rescale": False}, "neither recentres nor rescales; expected at least one of them"),
        ({"eps": -1.0}, "norm.eps is -1.0; expected a number of at least 0"),
        ({"groups": 4}, "norm.groups is 4 over 'batch'; expected 1"),
        ({"rescale": False, "eps": 1e-5}, "but does not rescale"),
        ({"whiten": True, "over": "features"}, "norm.whiten needs over='batch'"),
    ],
)
def test_norms_that_do_not_exist_are_refused(fields: dict[str, object], message: str) -> None:
    with pytest.raises(SpecError, match=message):
        Norm(**fields)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("{", "the spec is not JSON"),
        ("[1]", "the spec is a list; expected an object — write an object such as"),
        ('{"width": 8, "deepth": 3}', "unknown field 'deepth'; did you mean 'depth'"),
        ('{"depth": 3}', "the spec has no width"),
        ('{"width": 8, "depth": 3, "norm": {"axis": 1}}', "the unknown field 'axis' in norm"),
        ('{"width": 8, "depth": 3, "gain": {"slope": 1}}', "the unknown field 'slope' in gain"),
        ('{"width": 8, "depth": 1000000000}', "depth is 1000000000; expected a whole number from 1 to 10000000"),
        (
            '{"width": 9007199254740993, "depth": 1}',
            "width is 9007199254740993; expected a whole number from 1 to 10000000",
        ),
        ('{"width": [8, 2.5]}', r"the spec has 2.5 at width\[1\]; expected a whole number"),
        (
            '{"width": 8, "depth": 2, "norm": {"recenter": 1}}',
            "the spec has 1 at norm.recenter; expected true or false",
        ),
        ('{"width": 8, "depth": 2, "bias_variance": 1e999}', "the spec in bias_variance: number out of range"),
        (
            '{"width": 8, "depth": 9, "gain": {"layer": 1e6}}',
            "beyond float64 at layer 9 of 9; expected a finite number",
        ),
        ('{"width": 8, "depth": 2, "order": "weights"}', "has 'weights' at order; expected a list"),
        ("[" * 100_000, "the spec is nested too deeply"),
        ('{"width": 8, "depth": 1, "norm": "group:' + "9" * 5000 + '"}', "unknown norm 'group:999"),
    ],
)
def test_bad_json_is_explained(text: str, message: str) -> None:
    with pytest.raises(SpecError, match=message):
        Spec.from_json(text)


@pytest.mark.parametrize(
    ("fields", "degree"),
    [
        ({}, 1),
        ({"activation": "identity"}, 1),
        ({"activation": "leaky_relu(0.2)"}, 1),
        ({"activation": "tanh"}, None),
        ({"bias_variance": 0.1}, None),
        ({"norm": "batch-recenter"}, 1),
        ({"norm": "batch"}, 0),
        ({"norm": "batch", "activation": "tanh"}, 0),
        ({"norm": "batch", "activation": "tanh", "order": ("weights", "activation", "norm")}, None),
        ({"norm": Norm(eps=1e-5)}, None),
        ({"residual": 0.5}, 1),
        ({"residual": 0.5, "norm": "batch", "order": ("norm", "activation", "weights")}, None),
        ({"residual": 0.5, "norm": "batch", "order": ("activation", "weights", "residual", "norm")}, 0),
        ({"norm": "batch", "bias_variance": 0.1, "order": ("norm", "activation", "weights")}, 0),
    ],
)
def test_homogeneity(fields: dict[str, object], degree: int | None) -> None:
    assert Spec(**{"width": 8, "depth": 3, **fields}).homogeneity == degree  # type: ignore[arg-type]


def test_a_spec_is_immutable_and_can_be_changed_by_replacing() -> None:
    spec = Spec(width=8, depth=3, norm="batch")
    with pytest.raises(AttributeError):
        spec.width = 9  # type: ignore[misc]
    assert spec.replace(width=(4, 2)).widths == (4, 2)
    assert spec.replace(width=16).input_width == 16
    assert spec.replace(input_width=5).replace(width=16).input_width == 5


def test_a_spec_does_not_need_torch() -> None:
    code = "import sys, isometer.spec; sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
    # and the check can fail
    code = "import sys, torch, isometer.spec; sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 1


def test_repeated_layers_stay_a_count() -> None:
    """A spec of ten million layers is made, written and read without a list of them."""
    tracemalloc.start()
    spec = Spec(width=8, depth=10_000_000, norm="group:2", residual=0.1, gain=PowerLaw(depth=-0.5))
    assert Spec.from_json(spec.to_json()) == spec
    assert spec.has_skip
    assert tracemalloc.get_traced_memory()[1] < 1_000_000
    tracemalloc.stop()


def test_old_files_load_with_a_warning(tmp_path: Path) -> None:
    old, new, none = tmp_path / "old.json", tmp_path / "new.json", tmp_path / "none.json"
    old.write_text(Spec(width=4, depth=2).to_json())
    new.write_text(json.dumps({"network": "input(4) > repeat(dense > act('relu'), 2)"}))
    with pytest.warns(OldSpecWarning, match=r"reads input\(4\) > repeat\(dense > act\('relu'\), 2\)"):
        found = read_spec(old)
    assert found == read_spec(str(new))  # warnings are errors here: the new form has none
    with pytest.raises(IsometerError, match="cannot read the spec"):
        read_spec(none)
