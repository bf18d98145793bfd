"""The scaling check: known exponents, corrections that work, and what it refuses."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

import isometer
from isometer.doctor.scaling import PARAMETRISATIONS, ScalingCheck, Size, scaling_check
from isometer.doctor.scaling._corrected import Corrections
from isometer.doctor.scaling._trainings import Trainings
from isometer.errors import IsometerError
from support import ROOT
from support.scaled_models import BASE, DATA, FACTORIES, PLAIN, SCALED, gpt, resnet

# --- theory -----------------------------------------------------------------------------------------------------------


def test_exponents_of_theory_are_those_of_the_tables() -> None:
    """By the tables 3 and 8 of Tensor Programs V, and by table 1 of CompleteP."""
    standard, mup = PARAMETRISATIONS["standard"], PARAMETRISATIONS["mup"]
    groups = ("input", "hidden", "output", "vector")
    assert [standard.width("update", one, "adaptive") for one in groups] == [0, 1, 1, 0]
    assert [standard.width("update", one, "gradient") for one in groups] == [-0.5, 0.5, 1, -0.5]
    for kind in ("adaptive", "gradient"):
        assert [mup.width("update", one, kind) for one in groups] == [0, 0, 0, 0]
        assert mup.width("logits_change", "", kind) == 0
    assert (standard.width("logits", "", "adaptive"), mup.width("logits", "", "adaptive")) == (0, -0.5)
    deep = [PARAMETRISATIONS[name] for name in ("standard", "depth-mup", "completep")]
    assert [one.depth("branch", True, "adaptive") for one in deep] == [0, -0.5, -1]
    assert [one.depth("stream_change", True, "adaptive") for one in deep] == [1, 0, 0]
    # only in CompleteP do the layers themselves change by as much at every depth
    assert [one.depth("update", True, kind) for one in deep[1:] for kind in ("adaptive", "gradient")] == [
        -0.5,
        -0.5,
        0,
        0,
    ]


# --- exponents --------------------------------------------------------------------------------------------------------


def scaled_weights(power: float) -> Any:
    """Hidden weights of standard deviation width^power: outputs of size width^(power + ½)."""

    def factory(width: int) -> nn.Module:
        model = nn.Sequential(nn.Linear(8, width, bias=False), nn.Tanh(), nn.Linear(width, width, bias=False))
        nn.init.normal_(model[2].weight, std=width**power)
        return model

    return factory


@pytest.mark.parametrize("power", [-0.5, 0.0, -1.0])
def test_exponent_of_initial_activations(power: float) -> None:
    check = scaling_check(scaled_weights(power), [32, 64, 128, 256], steps=0, metrics=["rms"])
    for found in (check.exponent("width", "activation", "hidden"), check.exponent("width", "rms", "site", "2")):
        assert found.value == pytest.approx(power + 0.5, abs=max(0.05, 2 * found.error))
    assert check.scales == (power == -0.5)
    assert check.to_dataset()["value"].sizes["seed"] == 3
    assert check.sweep is None


def test_training_shows_what_initialisation_hides() -> None:
    """The first step of Adam moves every parameter by the rate: an output of zero becomes rate · Σ |h|."""

    def factory(width: int) -> nn.Module:
        model = nn.Sequential(nn.Linear(8, width), nn.ReLU(), nn.Linear(width, width), nn.ReLU(), nn.Linear(width, 1))
        nn.init.zeros_(model[4].weight)
        nn.init.zeros_(model[4].bias)
        return model

    x = torch.randn(32, 8, generator=torch.Generator().manual_seed(0))
    widths = [32, 64, 128]
    check = scaling_check(factory, widths, batch=(x, torch.ones(32, 1)), steps=1, rates=[], seeds=[0])
    sums = []
    for width in widths:
        torch.manual_seed(0)
        sums.append(factory(width)[:4](x).sum(1).detach().double())
    step = check.rate * check.share
    data = check.to_dataset()
    for quantity, group, label, values in (
        ("logits_change_rms", "model", "model", [one + 1 for one in sums]),  # the bias adds 1
        ("update_rms", "output", "*.weight", sums),
    ):
        row = (data.quantity == quantity) & (data.group == group) & (data.label == label)
        found = data["value"].isel(measurement=np.flatnonzero(row), seed=0, step=1).to_numpy()[0]
        assert np.allclose(found, [step * one.square().mean().sqrt() for one in values], rtol=1e-3)
    slope = np.polyfit(np.log(widths), np.log([one.square().mean().sqrt() for one in sums]), 1)[0]
    assert check.exponent("width", "update_rms", "output").value == pytest.approx(slope, abs=1e-3)
    assert check.exponent("width", "update", "output").value == pytest.approx(1.0, abs=0.25)
    assert np.isnan(check.exponent("width", "logits").value)


@pytest.mark.parametrize("kind", [PLAIN, SCALED])
def test_gpt_by_the_tables(kind: str) -> None:
    check = scaling_check(
        lambda width, depth: gpt(width, depth, kind),
        [32, 64, 128],
        [2, 4, 8],
        batch=DATA["gpt"](8),
        seeds=[0],
        steps=2,
        rates=[],
    )
    assert check.residual is True
    theory = PARAMETRISATIONS["standard" if kind == PLAIN else "completep"]
    assert check.resembles == ("standard" if kind == PLAIN else "completep")
    for group in ("embedding", "hidden", "output", "vector"):
        asked = theory.width("update", group, "adaptive")
        assert check.exponent("width", "update", group).value == pytest.approx(asked, abs=0.15)
    assert check.exponent("width", "logits").value == pytest.approx(0.0 if kind == PLAIN else -0.5, abs=0.1)
    assert check.exponent("depth", "branch", "stream").value == pytest.approx(0.0 if kind == PLAIN else -1.0, abs=0.1)
    assert check.exponent("depth", "update", "hidden").value == pytest.approx(0.0, abs=0.1)
    change = check.exponent("depth", "stream_change", "stream").value
    assert change > 0.8 if kind == PLAIN else abs(change) < 0.2
    corrections = {one.group: one for one in check.opinion.corrections}
    if kind == PLAIN:
        assert (corrections["hidden"].rate_width, check.opinion.branch_depth) == (-1.0, -1.0)
        assert (corrections["output"].init_width, corrections["output"].rate_width) == (-0.5, -1.0)
    else:
        assert not corrections


@pytest.mark.slow
@pytest.mark.parametrize("kind", [PLAIN, SCALED])
@pytest.mark.parametrize("name", ["mlp", "resnet"])
def test_other_models_by_the_tables(name: str, kind: str) -> None:
    make = FACTORIES[name]
    factory = (lambda width: make(width, kind)) if name == "mlp" else (lambda width, depth: make(width, depth, kind))
    seeds = range(16 if name == "mlp" else 4)
    check = scaling_check(
        factory, [32, 64, 128], None if name == "resnet" else [], batch=DATA[name](64), seeds=seeds, rates=[]
    )
    aim = "mup" if name == "mlp" else "completep"
    assert check.resembles == ("standard" if kind == PLAIN else aim)
    theory = PARAMETRISATIONS[check.resembles]
    for group in ("input", "hidden", "output", "vector"):
        found = check.exponent("width", "update", group)
        assert found.value == pytest.approx(theory.width("update", group, check.kind), abs=max(0.25, found.error))
    if kind == SCALED:
        assert not check.opinion.wrong


# --- corrections ------------------------------------------------------------------------------------------------------


def small_mlp(width: int) -> nn.Module:
    model = nn.Sequential(nn.Linear(16, width), nn.ReLU(), nn.Linear(width, width), nn.ReLU(), nn.Linear(width, 10))
    nn.init.zeros_(model[4].bias)
    return model


def corrected_code(check: ScalingCheck) -> dict[str, Any]:
    names: dict[str, Any] = {}
    exec(check.code, names)
    assert all(len(line) <= 88 for line in check.code.splitlines())
    return names


@pytest.mark.parametrize("optimizer", ["adam", "sgd"])
def test_printed_code_makes_a_model_that_scales(optimizer: str) -> None:
    data, seeds = DATA["mlp"](16), range(4)
    before = scaling_check(small_mlp, [32, 64, 128], batch=data, optimizer=optimizer, rates=[], seeds=seeds, steps=2)
    assert before.scales is False
    names = corrected_code(before)
    kind: Any = torch.optim.Adam if optimizer == "adam" else torch.optim.SGD

    def corrected(width: int) -> Any:
        model = small_mlp(width)
        return model, kind(names["scaled_groups"](model, width, lr=0.01))

    after = scaling_check(corrected, [32, 64, 128], batch=data, optimizer=optimizer, rates=[], seeds=seeds, steps=2)
    assert not after.opinion.wrong, after.conclusion
    assert after.resembles == "mup"


def test_what_is_tried_is_what_the_code_does() -> None:
    """The sweep's corrections, made from outside, train a model exactly as the printed code does."""
    data = DATA["resnet"](16)

    def factory(width: int, depth: int) -> nn.Module:
        model: nn.Module = resnet(width, depth, PLAIN)[0]
        return model

    check = scaling_check(factory, [8, 16, 32], [2, 4, 8], batch=data, seeds=[0, 1], steps=1, rates=[])
    names = corrected_code(check)

    def by_code(width: int, depth: int) -> Any:
        model: Any = factory(width, depth)
        for block in model.blocks:
            block.branch = names["branch_multiplier"](depth)
        return model, torch.optim.Adam(names["scaled_groups"](model, width, depth, lr=0.01))

    size, base = Size(16, 4), Size(8, 2)
    outside = Trainings(factory, *data, None, "adam", 0.01, other_width=lambda width: 2 * width)
    outside.find_repeats(base, Size(8, 4))
    found = outside.final(size, 0, 1.0, 8, Corrections(check.opinion, base, "adaptive"))
    own = Trainings(by_code, *data, None, "adam", None).final(size, 0, 1.0, 8)
    assert found == pytest.approx(own, rel=1e-3)  # Adam amplifies rounding where gradients are nearly zero
    plain = Trainings(factory, *data, None, "adam", 0.01).final(size, 0, 1.0, 8)
    assert abs(plain / own - 1) > 0.1


def test_output_of_tied_weights_gets_a_multiplier() -> None:
    def tied(width: int, depth: int) -> nn.Module:
        model = gpt(width, depth, PLAIN)[0]
        model.head.weight = model.tokens.weight
        return model

    check = scaling_check(tied, [32, 64, 128], [2], batch=DATA["gpt"](8)[0], seeds=[0], steps=1, rates=[])
    assert check.opinion.output_width == -1.0  # sums of n products of unit size are √n, in muP it is 1/√n
    assert corrected_code(check)["output_multiplier"](64) == 0.5


# --- the sweep --------------------------------------------------------------------------------------------------------


def test_sweep_of_rates() -> None:
    data = [DATA["mlp"](seed=seed) for seed in range(10)]
    check = scaling_check(
        small_mlp, [16, 32, 64], batch=data, seeds=[0, 1], steps=1, rates=[1e-3, 1e-2, 1e-1], sweep_steps=10
    )
    assert check.sweep is not None
    assert check.corrected_sweep is not None
    assert check.sweep.losses.shape == (2, 3, 2)
    assert np.allclose(check.sweep.rates, [1e-3, 1e-2, 1e-1])
    assert np.array_equal(check.sweep.losses[0], check.corrected_sweep.losses[0])  # the base size is not changed
    assert not np.array_equal(check.sweep.losses[1], check.corrected_sweep.losses[1])
    assert "rate" in check.conclusion


def test_committed_results_transfer_by_the_tables_and_as_corrected() -> None:
    """`tools/make_scaling.py`: at four times the width and depth, the best rate is within a step of a grid of 2."""
    results = json.loads((ROOT / "docs" / "scaling.json").read_text())
    assert set(results) == {f"{name}/{kind}" for name in FACTORIES for kind in (PLAIN, SCALED)}
    for key, one in results.items():
        sweep = one["corrected_sweep"] if key.endswith(PLAIN) else one["sweep"]
        assert all(abs(step) <= 1 for step in sweep["steps_apart"]), key
        ratios = np.diff(np.log2(sweep["rates"]))
        assert np.allclose(ratios, 1.0)
        assert sweep["sizes"][1]["width"] == 4 * BASE.width
    assert all(max(map(abs, results[f"{name}/{PLAIN}"]["sweep"]["steps_apart"])) >= 2 for name in ("mlp", "gpt"))


# --- the rest ---------------------------------------------------------------------------------------------------------


def test_nothing_around_it_changes() -> None:
    x = torch.randn(8, 16)
    before, kept, state = torch.get_rng_state(), x.clone(), np.random.get_state()[1].copy()  # noqa: NPY002
    scaling_check(small_mlp, [8, 16], batch=x, seeds=[0], steps=1, rates=[])
    assert torch.equal(torch.get_rng_state(), before)
    assert np.array_equal(np.random.get_state()[1], state)  # noqa: NPY002
    assert torch.equal(x, kept)


def test_values_show_themselves() -> None:
    check = isometer.scaling_check(small_mlp, [8, 16], seeds=[0], steps=1, rates=[])
    assert "exponents of the width" in check._repr_html_()
    assert len(check.plot().axes) == 1
    assert json.dumps(check.to_dict()["corrections"])


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"widths": [32]}, "at least two"),
        ({"widths": [32, 0]}, "expected a whole number from 1"),
        ({"metrics": ["rank"], "steps": 0}, "unknown metric"),
        ({"optimizer": "lion"}, "unknown optimizer"),
        ({"aim": "ntk"}, "unknown parametrisation"),
        ({"depths": [2, 4]}, "takes width"),
        ({"steps": -1}, "steps is -1"),
        ({"rates": [1e-3]}, "at least three"),
        ({"seeds": []}, "there are 0 seeds"),
        ({"target": torch.ones(4)}, "without batch"),
    ],
)
def test_refusals(options: dict[str, Any], words: str) -> None:
    with pytest.raises(IsometerError, match=words):
        scaling_check(small_mlp, **{"widths": [8, 16], "seeds": [0], "rates": [], **options})


def test_refuses_factories_that_do_not_fit() -> None:
    with pytest.raises(IsometerError, match="same inputs at every size"):
        scaling_check(lambda width: nn.Linear(width, 1), [8, 16], seeds=[0], rates=[])
    with pytest.raises(IsometerError, match="returned a int"):
        scaling_check(lambda width: width, [8, 16])
    with pytest.raises(IsometerError, match="expected width, depth or both"):
        scaling_check(lambda: nn.Linear(1, 1))
    with pytest.raises(IsometerError, match="first loss"):
        scaling_check(
            small_mlp, [8, 16], batch=(torch.full((4, 16), torch.nan), torch.zeros(4, 10)), seeds=[0], rates=[]
        )
    check = scaling_check(small_mlp, [8, 16], seeds=[0], steps=0)
    with pytest.raises(IsometerError, match="no exponent of 'update'"):
        check.exponent("width", "update", "hidden")
