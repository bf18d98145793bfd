"""Compositions at finite width: repeatability, scales, positions, masks, bad input, and what a simulation takes."""

from __future__ import annotations

import json
import math
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import torch

from isometer.doctor._loading import load_target
from isometer.errors import IsometerError
from isometer.metrics import names
from isometer.metrics._metric import SIMULATED
from isometer.run.targets.simulation import check_simulation, simulate_cell
from isometer.simulate import simulate
from isometer.simulate._engine import chunk_size
from isometer.simulate._network import NetworkWalk
from isometer.simulate._windows import windows
from isometer.spec import Composition, Spec
from isometer.work import TooMuchWorkError, allow
from support.networks import input_batch, random_network

BLOCKS = "input(8) > repeat(residual(norm('layer') > dense(16) > act('gelu') > dense(8), 0.5), 3) > norm('layer')"
IMAGES = "input(2, [5, 5]) > conv(3, 6) > norm('batch') > act('relu') > conv(3, 4, padding='zeros') > pool > dense(3)"
METRICS = ["orthogonality_gap", "log_norm", "gradient_log_norm", "gradient_alignment"]


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("engine", ["gram", "dense"])
@pytest.mark.parametrize("text", [BLOCKS, IMAGES])
def test_a_run_does_not_depend_on_how_many_there_are(text: str, engine: str, dtype: str) -> None:
    spec = Spec(text)
    batch = input_batch(spec, 4)
    many = simulate(spec, batch, runs=9, metrics=METRICS, seed=3, dtype=dtype, engine=engine)
    few = simulate(spec, batch, runs=4, metrics=METRICS, seed=3, dtype=dtype, engine=engine)
    other = simulate(spec, batch, runs=4, metrics=METRICS, seed=4, dtype=dtype, engine=engine)
    for name in METRICS:
        np.testing.assert_array_equal(few[name].values, many[name].values[:4], err_msg=name)
        assert not np.array_equal(few[name].values[:, 1:], other[name].values[:, 1:])


def test_more_than_one_chunk() -> None:
    spec = Spec("input(3, [16, 16]) > conv(3, 24) > act('relu') > conv(3, 24) > pool > dense(2)")
    batch = input_batch(spec, 6)
    slots = chunk_size(spec, "gram", torch.as_tensor(batch).flatten(1), False)
    assert 1 <= slots < 4
    many = simulate(spec, batch, runs=2 * slots + 1, metrics=["stable_rank"])
    few = simulate(spec, batch, runs=slots, metrics=["stable_rank"])
    np.testing.assert_array_equal(few["stable_rank"].values, many["stable_rank"].values[:slots])


def test_spellings_of_one_network_give_the_same_numbers() -> None:
    once = Spec("input(6) > dense(8) > repeat(residual(dense > act('tanh')), 2) > dense(3)")
    twice = Spec(
        "input(6) > dense(8) > scale(1) > residual(dense > act('tanh')) > residual(dense > act('tanh'), 1) > dense(3)"
    )
    assert once == twice
    first, second = (simulate(spec, input_batch(once), runs=2, metrics=METRICS, seed=1) for spec in (once, twice))
    for name in METRICS:
        np.testing.assert_allclose(first[name].values, second[name].values, rtol=1e-13, atol=1e-13)


@pytest.mark.parametrize(
    "text", [BLOCKS, "input(8) > repeat(dense > bias(0.1) > residual(dense > act('relu')), 4) > dense(3)"]
)
def test_what_is_measured_does_not_change_the_numbers(text: str) -> None:
    spec = Spec(text)
    alone = simulate(spec, input_batch(spec), runs=3, metrics=["log_norm"], seed=1)["log_norm"].values
    beside = simulate(spec, input_batch(spec), runs=3, metrics=["activity_sparsity"], seed=1)

    def log_norm_too(h: torch.Tensor) -> torch.Tensor:
        return h.flatten(1).norm(dim=1).log()

    other = simulate(spec, input_batch(spec), runs=3, metrics=[log_norm_too], seed=1)["log_norm_too"].values
    assert beside.sizes["layer"] == spec.depth + 1
    np.testing.assert_allclose(alone, other, rtol=1e-13, atol=1e-13)


def test_cells_of_a_sweep_and_files_of_the_doctor_take_compositions(tmp_path: Path) -> None:
    record = {"runs": 2, "metrics": ["rank"], "engine": "auto", "at": "post", "loss": "gaussian", "dtype": "float64"}
    network = json.loads(Spec(IMAGES).to_json())
    cell = {"spec": network, "input": {"kind": "gaussian", "samples": 3}, **record}
    check_simulation(cell)
    assert simulate_cell(cell, seed=0)["rank"].shape == (2, 4)
    with pytest.raises(IsometerError, match="does not cover positions"):
        check_simulation({**cell, "spec": {"network": "input(4, [3]) > positions > attention(heads=2) > dense"}})
    path = tmp_path / "images.json"
    path.write_text(Spec(IMAGES).to_json())
    target = load_target(str(path), seed=1)
    assert target.shape == (2, 5, 5)
    assert target.model(torch.zeros(3, 2, 5, 5)).shape == (3, 3)


def test_layers_names_and_depth() -> None:
    data = simulate(Spec(BLOCKS), input_batch(Spec(BLOCKS)), runs=2, metrics=names(*SIMULATED))
    assert data["layer"].values.tolist() == [0, 1, 2, 3, 4]
    assert data["depth"].values.tolist() == [0, 2, 4, 6, 6]
    assert data["name"].values.tolist()[:2] == ["input", "layer 1"]
    assert data["op"].values.tolist() == ["input", *["residual(norm dense act dense)"] * 3, "norm"]
    assert Spec.from_json(data.attrs["spec"]) == Spec(BLOCKS)
    # the last layer has no weights
    assert (data["gradient_log_norm"].values[:, 4] == -math.inf).all()
    assert np.isfinite(data["gradient_log_norm"].values[:, :4]).all()
    assert np.isfinite(data["stable_rank"].values).all()


def test_what_enters_the_last_activation() -> None:
    spec = Spec("input(6) > dense(8) > norm('batch') > act('relu') > dense(5) > scale(3) > dense(2) > act('tanh')")
    batch = input_batch(spec)

    def mean(h: torch.Tensor) -> torch.Tensor:
        return h.mean(-2).abs().amax(-1)

    pre = simulate(spec, batch, runs=2, metrics=[mean, "log_norm"], at="pre", engine="dense")
    post = simulate(spec, batch, runs=2, metrics=[mean, "log_norm"], engine="dense")
    assert pre["mean"].values[:, 1].max() < 1e-12 < post["mean"].values[:, 1].min()
    assert pre["log_norm"].values[:, 2].tolist() == post["log_norm"].values[:, 2].tolist()  # no activation
    assert (pre["log_norm"].values[:, 3] > post["log_norm"].values[:, 3]).all()
    assert pre["site"].values.tolist() == ["output", *["pre-activation"] * 3]


# --- scales -----------------------------------------------------------------------------------------------------------


def test_scales_are_carried_apart_where_layers_allow_it() -> None:
    """Homogeneous layers to beyond 1e360, a norm that forgets the scale, then layers at the scale there is."""
    text = (
        "input(6) > {0} > act('relu') > {0} > {0} > {0} > residual(dense, 2) > norm('rms') > dense > act('sin') > dense"
    )
    wild, calm = (
        simulate(spec, input_batch(spec), runs=3, metrics=METRICS, seed=1)
        for spec in (Spec(text.format(f"dense(8, gain={gain})")) for gain in ("1e90", "1"))
    )
    assert (wild.attrs["first_nonfinite_layer"] == -1).all()
    far = 90 * math.log(10)
    shift = wild["log_norm"].values - calm["log_norm"].values
    np.testing.assert_allclose(shift, [[0, far, 2 * far, 3 * far, 4 * far, 0, 0, 0]] * 3, atol=1e-9)
    # the norm forgets what is before it: gradients by weights of gain g shrink as 1/g, others do not change
    shift = wild["gradient_log_norm"].values - calm["gradient_log_norm"].values
    np.testing.assert_allclose(shift, [[0, -far, -far, -far, -far, 0, 0, 0]] * 3, atol=1e-9)
    np.testing.assert_allclose(wild["gradient_alignment"].values, calm["gradient_alignment"].values, atol=1e-9)


def taken_back(walk: NetworkWalk, cotangent: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """The cotangent of the input, and the logarithm of its scale."""
    scales: list[torch.Tensor] = []
    back = walk.backward(cotangent, torch.zeros(len(cotangent), dtype=torch.float64), lambda *a: scales.append(a[-1]))
    return back, scales[-1]


def test_deep_homogeneous_networks_keep_their_norm_and_gradients() -> None:
    """By Euler's identity ⟨δ, h⟩ is the same at every layer of a homogeneous network: checked across 10^±600."""
    for gain in (20.0, 0.01):
        spec = Spec(f"input(6) > repeat(residual(dense(12, gain={gain}) > act('relu') > dense(6)) > scale(1), 400)")
        batch = input_batch(spec, 1)
        walk = NetworkWalk(spec, "dense", torch.tensor(batch)[None], seed=0, runs=[0], backward=True)
        with torch.no_grad():
            for layer in range(1, 401):
                walk.step(layer)
            cotangent = torch.ones(1, 1, 6, dtype=torch.float64)
            out = float((walk.value * cotangent).sum().abs().log() + walk.log_scale)
            back, scale = taken_back(walk, cotangent)
        into = float((back * torch.tensor(batch)).sum().abs().log() + scale)
        assert out == pytest.approx(into, rel=1e-10)


def test_other_networks_report_where_they_overflow() -> None:
    spec = Spec("input(6) > repeat(dense > product(act('x**3'), dense), 9) > norm('rms') > dense(2)")
    assert isinstance(spec, Composition)
    data = simulate(spec, 5 * input_batch(spec), runs=2, metrics=["log_norm", "gradient_log_norm"])
    for run, layer in enumerate(data.attrs["first_nonfinite_layer"]):
        assert 2 < layer < 10
        assert np.isfinite(data["log_norm"].values[run, :layer]).all()
        assert np.isnan(data["log_norm"].values[run, layer:]).all()
    assert np.isnan(data["gradient_log_norm"].values).all()


@pytest.mark.parametrize("engine", ["gram", "dense"])
def test_repeated_samples_stay_repeated(engine: str) -> None:
    spec = Spec("input(2, [3]) > repeat(conv(3, 10) > dense > norm('batch-rescale'), 40) > flatten > dense(30)")
    batch = input_batch(spec, 3)[[0, 1, 2, 0, 1]]
    assert (simulate(spec, batch, runs=2, metrics=["rank"], engine=engine)["rank"].values == 3).all()


# --- positions and masks ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("padding", ["circular", "zeros", "reflect", "valid"])
@pytest.mark.parametrize("geometry", [((7,), (3,), (2,), (2,)), ((6, 5), (2, 3), (1, 2), (2, 1))])
def test_scattering_is_the_adjoint_of_gathering(padding: str, geometry: tuple) -> None:
    axes, size, stride, dilation = geometry
    over = windows(axes, size, stride, dilation, padding)
    rng = np.random.default_rng(0)
    x = torch.tensor(rng.standard_normal((2, 3 * math.prod(axes), 4)))
    cotangent = torch.tensor(rng.standard_normal((2, 3 * over.places, over.offsets, 4)))
    assert float((over.gather(x) * cotangent).sum()) == pytest.approx(
        float((x * over.scatter(cotangent)).sum()), rel=1e-12
    )


def test_a_circular_kernel_may_be_longer_than_the_axis() -> None:
    """Position by position: y_p = Σ_k w_k x_{(p + k − 2) mod 2}."""
    assert windows((2,), (5,), (1,), (1,), "circular").index.tolist() == [[0, 1, 0, 1, 0], [1, 0, 1, 0, 1]]


def test_layouts_of_the_batch() -> None:
    spec = Spec(IMAGES)
    batch = input_batch(spec, 4)
    whole = simulate(spec, batch, runs=3, metrics=["log_norm"])
    flat = simulate(spec, batch.reshape(4, -1), runs=3, metrics=["log_norm"])
    own = simulate(spec, np.stack([batch, batch, 2 * batch]), runs=3, metrics=["log_norm"])
    np.testing.assert_array_equal(whole["log_norm"].values, flat["log_norm"].values)
    np.testing.assert_array_equal(whole["log_norm"].values[:2], own["log_norm"].values[:2])
    # batch norm forgets the scale
    np.testing.assert_allclose(own["log_norm"].values[2, 0], whole["log_norm"].values[2, 0] + math.log(2))
    np.testing.assert_allclose(own["log_norm"].values[2, 1:], whole["log_norm"].values[2, 1:])


def test_dropout_keeps_the_mean_and_has_the_gradient_of_its_mask() -> None:
    spec = Spec("input(40) > dropout(0.3) > scale(2) > dense(4)")
    x, rng = torch.tensor(input_batch(spec, 50)), np.random.default_rng(5)

    def output(at: torch.Tensor) -> torch.Tensor:
        walk = NetworkWalk(spec, "dense", at.expand(20, 50, 40), seed=0, runs=range(20))
        walk.step(1)
        return walk.value * walk.log_scale.exp()[:, None, None]

    with torch.no_grad():
        # the layer is linear, and the masks are those of the seed: a difference is the derivative
        direction = torch.tensor(rng.standard_normal((50, 40)))
        change = (output(x + direction) - output(x)).sum((1, 2))
        walk = NetworkWalk(spec, "dense", x.expand(20, 50, 40), seed=0, runs=range(20), backward=True)
        walk.step(1)
        back, scale = taken_back(walk, torch.ones(20, 50, 4, dtype=torch.float64))
        torch.testing.assert_close((back * scale.exp()[:, None, None] * direction).sum((1, 2)), change)
    spec = Spec("input(40) > dropout(0.3) > dropout(0)")
    data = simulate(spec, x, runs=20, metrics=["log_norm"])
    # E (m/(1 − p))² = 1/(1 − p); over 40 000 entries of x² the mean square is within 2 % of it (4 deviations)
    growth = np.exp(2 * (data["log_norm"].values[:, 1] - data["log_norm"].values[:, 0])).mean()
    assert growth == pytest.approx(1 / 0.7, rel=0.02)


# --- what it takes ----------------------------------------------------------------------------------------------------

MEASURE = r"""
import re
from pathlib import Path
import numpy as np
from isometer.run.targets.simulation import check_simulation, simulate_cell
from isometer.simulate import simulate
from isometer.simulate._engine import checked_batch, checked_engine, sizes_of
from isometer.simulate._network_work import network_work
from isometer.spec import Spec

def kilobytes(name):
    return int(re.search(name + r":\s+(\d+) kB", Path("/proc/self/status").read_text())[1])

def measure(text, metrics):
    spec = Spec(text)
    batch = np.random.default_rng(0).standard_normal((8, spec.shape.width, *spec.shape.axes))
    Path("/proc/self/clear_refs").write_text("5")  # the peak begins anew
    before = kilobytes("VmRSS")
    simulate(spec, batch, runs=16, metrics=metrics)
    used = 1024 * (kilobytes("VmHWM") - before)
    inputs, backward = checked_batch(spec, batch, 16, "cpu", "float64"), "gradient_log_norm" in metrics
    sizes = sizes_of(spec, checked_engine(spec, "auto"), inputs, backward, runs=16, metrics=len(metrics))
    print(used, network_work(sizes).memory)

both = ["log_norm", "stable_rank", "gradient_log_norm"]
simulate(Spec("input(4) > dense > act('relu') > dense(2)"), np.eye(4), runs=2, metrics=both)  # what is loaded once
measure("input(3, [24, 24]) > conv(3, 32) > repeat(residual(act('relu') > conv(3)), 2) > pool > dense", both[:2])
measure("input(3, [16, 16]) > conv(3, 32) > repeat(residual(act('relu') > conv(3)), 6) > pool > dense", both)
measure("preln_mlp(width=400, blocks=6)", both)
"""


@pytest.mark.skipif(sys.platform != "linux", reason="Linux tells the peak of a process, and lets it begin anew")
def test_estimates_of_memory_hold_and_are_not_wasteful() -> None:
    ran = subprocess.run([sys.executable, "-c", MEASURE], capture_output=True, text=True, check=True)
    for line in ran.stdout.splitlines():
        used, estimated = map(float, line.split())
        assert 0.1 * estimated < used < estimated


def test_too_much_work_is_refused_with_what_fits() -> None:
    spec = Spec("input(3, [32, 32]) > conv(3, 64) > repeat(residual(act('relu') > conv(3)), 50) > pool > dense(10)")
    with pytest.raises(TooMuchWorkError, match=r"use at most \d+ (samples|runs)"), allow(seconds=60):
        simulate(spec, np.zeros((64, 3, 32, 32)), runs=1000, metrics=["gradient_log_norm"])


@pytest.mark.parametrize(
    ("text", "shape", "options", "message"),
    [
        ("input(8, [4]) > positions > attention(heads=2) > dense", (3, 8, 4), {}, "does not cover positions"),
        (IMAGES, (3, 5, 5, 2), {}, r"expected \(samples, 2, 5, 5\) or \(runs, samples, 2, 5, 5\)"),
        (IMAGES, (3, 51), {}, r"or one flattened to 50 numbers per sample"),
        (
            "input(4) > dense > act('relu') > dense(2)",
            (3, 5),
            {},
            r"batch has 5 features, the spec expects 4 — pass input\(5\)",
        ),
        ("input(4) > dense > norm('batch') > dense(2)", (1, 4), {}, "batch statistics need at least 2"),
        (
            "input(4) > dense > dense(2, weights='uniform')",
            (3, 4),
            {"engine": "gram"},
            "weights='uniform'; expected one",
        ),
        ("input(4) > dense > dense(2)", (3, 4), {"loss": np.ones((3, 4))}, r"shape \(3, 4\); expected \(3, 2\)"),
    ],
)
def test_bad_input_is_named(text: str, shape: tuple, options: dict, message: str) -> None:
    options = {"metrics": ["gradient_log_norm"], **options}
    with pytest.raises(IsometerError, match=message):
        simulate(Spec(text), np.random.default_rng(0).standard_normal(shape), runs=1, **options)


def test_random_networks_run_in_both_engines_with_every_step() -> None:
    for seed in range(12):
        spec = random_network(seed, length=3, also=("dropout", "groups", "noise", "upsample"))
        for engine in ("gram", "dense"):
            data = simulate(spec, input_batch(spec), runs=2, metrics=METRICS, engine=engine, dtype="float32")
            assert np.isfinite(data["log_norm"].values).all(), str(spec)


@pytest.mark.parametrize("engine", ["gram", "dense"])
def test_noise_adds_its_variance(engine: str) -> None:
    """Equal samples: cosine 1 without noise, 1/(1 + v) with it. 200 runs of 300 features, 6 standard errors."""
    spec = Spec("input(300) > noise(0.5) > dense(300) > act('identity') > residual(dense > act('tanh') > dense, 0.0)")
    batch = np.ones((2, 300))
    found = simulate(spec, batch, runs=200, metrics=["mean_cosine"], engine=engine, seed=1)["mean_cosine"].values[:, 1]
    assert abs(found.mean() - 1 / 1.5) < 6 * found.std() / math.sqrt(200) + 1 / 300
