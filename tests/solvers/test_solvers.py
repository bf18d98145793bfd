"""Solvers against closed forms, brute force and simulations."""

from __future__ import annotations

import json
import math

import numpy as np
import pytest

from isometer import IsometerError, Spec, solve
from isometer.solvers import _solve
from isometer.solvers._answer import Check
from isometer.solvers._check import _extrapolated
from isometer.solvers._conditioning import Ends
from isometer.spec import chain_from_options
from isometer.theory.chains import chain_kernels, chain_path
from isometer.theory.prediction import predict
from support.batches import sphere
from support.command import as_json, error, printed
from support.solving import tanh_edge


def test_the_least_depth_is_the_least() -> None:
    """Every depth below has a larger condition number, by the whole kernel."""
    inputs = sphere(9, 7) * math.sqrt(7)
    for kind, activation, bias in (
        ("nngp", "normalized(relu)", 0.0),
        ("ntk", "unit(tanh)", 0.0),
        ("nngp", "tanh", 0.01),
    ):
        spec = chain_from_options(activation=activation, bias_variance=bias, gain=1.6 if bias else None)
        answer = solve("depth", spec, inputs, condition=3.0, kind=kind)  # type: ignore[arg-type]
        assert answer.value is not None

        def condition(depth: int) -> float:
            return chain_kernels(spec, inputs, depth, kinds=(kind,)).matrices[kind].condition_number  # type: ignore  # noqa: B023

        assert condition(int(answer.value)) <= 3.0
        assert all(condition(depth) > 3.0 for depth in range(1, int(answer.value)))
        assert answer.rows[-1][1] == pytest.approx(condition(int(answer.rows[-1][0])), rel=1e-9)


def test_published_depths_are_the_first_where_the_bound_says_so() -> None:
    from isometer.theory.kernels import top_layer_condition_bound

    inputs = sphere(6, 8) * math.sqrt(8)
    answer = solve("depth", chain_from_options(activation="normalized(relu)"), inputs, condition=2.0)
    bound = next(one for one in answer.published if one.reference == "004/cor-4")
    found = chain_kernels(chain_from_options(activation="normalized(relu)"), inputs, 1, kinds=("nngp",))
    quantities = found.quantities("nngp")
    mu, delta = quantities["nonlinearity"], quantities["delta_A"]
    assert bound.depth is not None
    assert mu is not None
    assert delta is not None
    assert (
        top_layer_condition_bound(6, bound.depth, delta, mu)
        <= 2.0
        < top_layer_condition_bound(6, bound.depth - 1, delta, mu)
    )
    assert answer.value is not None
    assert answer.value < bound.depth
    plain = solve("depth", chain_from_options(activation="tanh"), inputs, condition=2.0)
    assert all(one.depth is None and one.reason for one in plain.published)


def test_where_no_depth_does() -> None:
    inputs = sphere(5, 6) * math.sqrt(6)
    answer = solve("depth", chain_from_options(), inputs, condition=1.5)  # relu aligns inputs
    assert answer.value is None
    assert "is smallest at depth 1" in answer.conclusion
    twice = solve("depth", chain_from_options(), np.ones((2, 3)), condition=10)
    assert "No depth does: inputs 0 and 1 are the same" in twice.conclusion


def test_bands_of_cosines() -> None:
    spec = chain_from_options(activation="relu")
    gram = np.array([[1.0, 0.2], [0.2, 1.0]])
    answer = solve("depth", spec, gram=gram, cosines=(0.0, 0.9))
    cosine = chain_path(spec, cosine=0.2, depth=60).cosine
    assert answer.value == int(np.flatnonzero(cosine > 0.9)[0]) - 1
    settles = solve("depth", chain_from_options(activation="gelu", norm="rms"), gram=gram, cosines=(0.0, 0.9))
    assert settles.value == math.inf
    assert "have settled" in settles.conclusion
    assert solve("depth", spec, gram=gram, cosines=(0.5, 0.9)).value is None  # the input is outside
    batch = np.random.default_rng(0).standard_normal((5, 30))
    normed = solve("depth", chain_from_options(width=30, norm="batch"), batch, cosines=(-0.9, 0.6), most=40)
    assert normed.value is not None


def test_bands_of_gradients() -> None:
    spec = chain_from_options(width=20, activation="tanh")
    answer = solve("depth", spec, gram=np.eye(2), gradients=(0.5, 2.0))
    assert answer.value is not None
    depth = int(answer.value)
    logs = [
        predict(spec.replace(depth=at), gram=np.eye(2), metrics=["gradient_log_norm"])["gradient_log_norm"].values[0, 0]
        for at in (depth, depth + 1)
    ]
    factors = np.exp(np.array(logs) - 0.5 * math.log(2 * 20))
    assert factors[0] <= 2.0 < factors[1]


@pytest.mark.parametrize("bias", [0.05, 0.3])
def test_the_edge_of_tanh(bias: float) -> None:
    answer = solve("gain", Spec(width=10, depth=5, activation="tanh", bias_variance=bias))
    assert answer.value == pytest.approx(tanh_edge(bias), abs=1e-9)
    assert answer.error is not None
    assert answer.error < 1e-9


def test_the_other_numbers_lead_to_the_same_edge() -> None:
    """φ(αx), gain and biases: one edge seen from three sides."""
    gain = tanh_edge(0.1)
    spec = Spec(width=10, depth=5, activation="tanh", gain=gain, bias_variance=0.1)
    assert solve("bias_variance", spec.replace(bias_variance=0.0)).value == pytest.approx(0.1, rel=1e-8)
    assert solve("activation_gain", spec.replace(activation_gain=3.0)).value == pytest.approx(1.0, rel=1e-8)
    curve = solve("gain", spec, along={"bias_variance": [0.05, 0.1]})
    assert [row[1] for row in curve.rows] == pytest.approx([tanh_edge(0.05), gain], abs=1e-9)


def test_edges_that_are_not_there() -> None:
    skip = chain_from_options(activation="tanh", norm="rms", norm_position="sum", gamma=1.0)
    none = solve("gamma", skip)
    assert none.value is None
    assert "No skip strength" in none.conclusion
    inside = skip.replace(order=("norm", "activation", "weights", "residual"))
    assert "grows with depth" in solve("gamma", inside).conclusion
    relu = chain_from_options(activation="relu", norm="rms", norm_position="sum", gamma=1.0)
    assert solve("gamma", relu).value == math.inf  # χ = 1 whatever γ is
    with pytest.raises(IsometerError, match="no skip connection whose strength"):
        solve("gamma", Spec(width=4, depth=2))
    with pytest.raises(IsometerError, match="expected condition, cosines or gradients"):
        solve("depth", Spec(width=4, depth=2))


@pytest.mark.parametrize("kind", ["nngp", "ntk"])
def test_checks_by_simulation(kind: str) -> None:
    inputs = sphere(5, 6) * math.sqrt(6)
    options = {} if kind == "nngp" else {"norm": "rms", "norm_position": "post", "gamma": 1.0}
    spec = chain_from_options(activation="normalized(relu)", **options)  # type: ignore[arg-type]
    answer = solve("depth", spec, inputs, condition=6.0, kind=kind, check=True, width=256, runs=8)  # type: ignore[arg-type]
    assert answer.check is not None
    assert answer.check.agrees, answer.check
    wrong = answer.check.__class__(**{**vars(answer.check), "predicted": 3 * answer.check.predicted})
    assert not wrong.agrees


def test_a_check_of_the_edge() -> None:
    spec = Spec(width=10, depth=20, activation="tanh", bias_variance=0.1)
    answer = solve("gain", spec, check=True, width=256, runs=16)
    assert answer.check is not None
    assert answer.check.agrees, answer.check


def test_the_command(tmp_path: object) -> None:
    record = as_json(
        "solve", "depth", "--condition", "4", "--activation", "normalized(relu)", "--input", "data:digits:scale=norm",
        "--batch", "12",
    )  # fmt: skip
    assert record["unknown"] == "depth"
    assert record["value"] == json.loads(json.dumps(record["table"]))[-1]["depth"]
    assert record["published"][0]["depth"] > record["value"]
    out = printed("solve", "depth", "--cosines", "0:0.9", "--input", "cosine:0.2")
    assert out.startswith("→ Depth")
    assert "next:" in out
    curve = as_json("solve", "gain", "--activation", "tanh", "--along", "bias-variance=0.05,0.3")
    assert curve["table"][0]["gain"] == pytest.approx(tanh_edge(0.05), abs=1e-9)
    text = as_json("solve", "gain", "--network", "repeat(dense > bias(0.3) > act('tanh'), 4)")
    assert text["value"] == pytest.approx(tanh_edge(0.3), abs=1e-9)
    assert "two numbers" in error("solve", "depth", "--cosines", "0.9")
    assert "expected one of" in error("solve", "gain", "--along", "width=1,2")


def test_bands_of_gradients_of_several_lengths_end_between_neighbours() -> None:
    """One depth at a time, in growing steps: the answer is the last depth inside, found by bisection."""
    spec = chain_from_options(width=16, activation="tanh", gain=1.5)
    batch = np.random.default_rng(2).standard_normal((3, 16)) * np.array([[0.5], [1.0], [2.0]])
    answer = solve("depth", spec, batch, gradients=(0.1, 5.0))
    assert answer.value is not None
    depth = int(answer.value)
    assert depth > 16  # where depths are no longer looked at one by one
    factors = dict(answer.rows)
    assert factors[depth] <= 5.0 < factors[depth + 1]


def test_data_decide_the_mean_square_of_the_edge(monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[float] = []

    def edge(*_: object, mean_square: float, **__: object) -> str:
        seen.append(mean_square)
        return "answer"

    monkeypatch.setattr(_solve, "edge_of", edge)
    spec = Spec(width=4, depth=2, activation="tanh")
    solve("gain", spec)
    solve("gain", spec, np.full((2, 4), 3.0))
    solve("gain", spec, gram=np.diag([2.0, 4.0]))
    assert seen == [1.0, 9.0, 3.0]


def test_sampled_kernels_say_how_far_the_depth_may_be_off() -> None:
    """Batch norm acts on the batch as a whole: no published bound is about it, and its kernels have an error."""
    batch = np.random.default_rng(0).standard_normal((4, 12))
    answer = solve("depth", chain_from_options(width=12, activation="tanh", norm="batch"), batch, condition=30.0)
    assert answer.published == ()
    assert answer.value is not None
    assert answer.error == 0.0
    exact = Ends(4.0, 1.0, 0.0)
    assert exact.at_least == exact.condition == exact.at_most == 4.0
    rough = Ends(4.0, 1.0, 0.5)
    assert (rough.at_least, rough.at_most) == (3.5 / 1.5, 9.0)
    assert Ends(4.0, 1.0, 1.0).at_most == math.inf


def test_departures_that_fall_with_the_width_are_those_of_finite_width() -> None:
    def check(apart: float) -> Check:
        return Check("number", 1.0, 1.0 + apart, 1.0 + apart - 0.1, 1.0 + apart + 0.1, 64, 8, slack=0.05)

    falls = _extrapolated(lambda width: check(64.0 / width), 64)
    assert falls.agrees
    assert falls.slack == pytest.approx(1.0)  # 2 at half the width, 1 at this one
    assert not _extrapolated(lambda width: check(1.0), 64).agrees
    assert not _extrapolated(lambda width: check(width / 64), 64).agrees  # it grows


def test_the_strength_of_a_skip_needs_no_strength() -> None:
    record = as_json("solve", "gamma", "--activation", "relu", "--norm", "rms", "--norm-position", "sum")
    assert record["value"] == "inf" or record["value"] == math.inf  # χ = 1 whatever γ is
