"""Repeatability, scales, bad input and the format of what `simulate` returns."""

import json
import math

import numpy as np
import pytest
import torch
import xarray

from isometer.data import make_batch
from isometer.errors import IsometerError
from isometer.metrics import names
from isometer.metrics._metric import SIMULATED
from isometer.simulate import simulate
from isometer.simulate._engine import chunk_size
from isometer.spec import WEIGHT_LAWS, Spec, recurrence
from isometer.trajectory import DEFAULT_METRICS, summarize

EVERY = names(*SIMULATED)


def same(first: xarray.Dataset, second: xarray.Dataset, runs: int) -> None:
    for name in first.data_vars:
        np.testing.assert_array_equal(first[name].values[:runs], second[name].values[:runs], err_msg=str(name))


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("weights", ["gaussian", "orthogonal", "uniform"])
@pytest.mark.parametrize("width", [20, 700])
def test_a_run_does_not_depend_on_how_many_there_are(dtype: str, weights: str, width: int) -> None:
    if weights == "uniform":
        width = min(width, 60)
    spec = Spec(width=width, depth=4, activation="tanh", norm="batch", weights=weights, bias_variance=0.1)
    batch = make_batch("gaussian", 10, width)
    metrics = [*DEFAULT_METRICS, "gradient_log_norm", "gradient_alignment", "activity_sparsity"]
    many = simulate(spec, batch, runs=16, metrics=metrics, seed=3, dtype=dtype)
    same(simulate(spec, batch, runs=7, metrics=metrics, seed=3, dtype=dtype), many, 7)
    same(simulate(spec, batch, runs=16, metrics=metrics, seed=3, dtype=dtype), many, 16)
    other = simulate(spec, batch, runs=16, metrics=metrics, seed=4, dtype=dtype)
    assert not np.array_equal(other["orthogonality_gap"].values, many["orthogonality_gap"].values)


def test_more_than_one_chunk() -> None:
    spec = Spec(width=300, depth=3, norm="batch")
    batch = make_batch("gaussian", 100, 300)
    slots = chunk_size(spec, "gram", torch.as_tensor(batch), False)
    assert 1 < slots < 20
    many = simulate(spec, batch, runs=2 * slots + 3, metrics=["stable_rank"])
    same(simulate(spec, batch, runs=slots + 1, metrics=["stable_rank"]), many, slots + 1)


def test_each_run_may_have_its_own_input() -> None:
    spec = Spec(width=12, depth=2, norm="batch")
    batch = make_batch("gaussian", 4, 12, runs=5)
    data = simulate(spec, batch, runs=5, metrics=["stable_rank"])
    alone = simulate(spec, batch[0], runs=1, metrics=["stable_rank"])
    assert data["stable_rank"].values[0].tolist() == alone["stable_rank"].values[0].tolist()
    assert len(set(data["stable_rank"].values[:, 0])) == 5


def test_threads_of_the_caller_are_left_alone() -> None:
    before = torch.get_num_threads()
    simulate(Spec(width=4, depth=1), make_batch("gaussian", 2, 4), runs=1, metrics=["log_norm"])
    assert torch.get_num_threads() == before


def test_the_format_is_that_of_a_trajectory(tmp_path: object) -> None:
    spec = Spec(width=(12, 9, 12), activation="tanh", norm="batch", input_width=7)
    data = simulate(spec, make_batch("gaussian", 5, 7), runs=3, metrics=EVERY, seed=5)
    assert dict(data.sizes) == {"run": 3, "layer": 4}
    assert set(data.data_vars) == set(EVERY)
    assert all(
        np.isfinite(data[name].values).all() for name in EVERY if name not in ("isometry_gap", "condition_number")
    )
    assert data["layer"].values.tolist() == data["depth"].values.tolist() == [0, 1, 2, 3]
    assert data["name"].values.tolist() == ["input", "layer 1", "layer 2", "layer 3"]
    assert data["op"].values[1] == "weights norm activation"
    assert data["site"].values.tolist() == ["output"] * 4
    assert Spec.from_json(data.attrs["spec"]) == spec
    assert (data.attrs["engine"], data.attrs["seed"], data.attrs["dtype"]) == ("gram", 5, "float64")
    assert "torch" in json.loads(data.attrs["versions"])
    path = f"{tmp_path}/trajectory.nc"
    data.to_netcdf(path, engine="h5netcdf")
    with xarray.open_dataset(path, engine="h5netcdf") as again:
        xarray.testing.assert_allclose(again.load(), xarray.Dataset(data.data_vars, data.coords))


def test_metrics_read_off_the_factor_are_those_of_the_representation() -> None:
    from isometer import metrics as room

    def gap(h: torch.Tensor) -> torch.Tensor:
        return room.orthogonality_gap(h)

    def soft(h: torch.Tensor) -> torch.Tensor:
        return room.soft_rank(h)

    def hard(h: torch.Tensor) -> torch.Tensor:
        return room.rank(h)

    def angle(h: torch.Tensor) -> torch.Tensor:
        return room.mean_angle_deg(h)

    for samples, norm in ((5, "batch"), (14, "batch"), (5, None)):
        spec = Spec(width=12, depth=3, norm=norm, weights="he")
        names = ["orthogonality_gap", "soft_rank", "rank", "mean_angle_deg"]
        for at in ("post", "pre"):
            data = simulate(
                spec, make_batch("gaussian", samples, 12), runs=3, metrics=[*names, gap, soft, hard, angle], at=at
            )
            for name, function in zip(names, (gap, soft, hard, angle), strict=True):
                np.testing.assert_allclose(data[name].values, data[function.__name__].values, rtol=1e-9, err_msg=name)


def test_pre_activations_of_a_relu_network_with_batch_norm_are_centred() -> None:
    def largest_mean(h: torch.Tensor) -> torch.Tensor:
        return h.mean(-2).abs().amax(-1)

    spec, batch = Spec(width=30, depth=3, norm="batch"), make_batch("gaussian", 6, 30)
    pre = simulate(spec, batch, runs=2, metrics=[largest_mean], at="pre")["largest_mean"].values
    post = simulate(spec, batch, runs=2, metrics=[largest_mean])["largest_mean"].values
    assert pre[:, 1:].max() < 1e-12
    assert post[:, 1:].min() > 0.1
    # without a nonlinearity it is the place of the activation that counts
    linear = spec.replace(activation="identity", order=("activation", "weights", "norm"))
    data = simulate(linear, batch, runs=2, metrics=["log_norm"], at="pre")["log_norm"].values
    shifted = simulate(linear, batch, runs=2, metrics=["log_norm"])["log_norm"].values
    np.testing.assert_allclose(data[:, 1:], shifted[:, :-1])


@pytest.mark.parametrize(
    ("gain", "dtype", "layers"),
    [
        (0.05, "float32", 2_000),
        (40.0, "float64", 1_000),
        pytest.param(0.05, "float32", 10_000, marks=pytest.mark.slow),
        pytest.param(40.0, "float64", 10_000, marks=pytest.mark.slow),
    ],
)
def test_deep_vanilla_chains_keep_their_norm(gain: float, dtype: str, layers: int) -> None:
    """log ‖H‖ of a linear chain is a random walk with the mean of log χ_d per layer (one sample), exactly."""
    from scipy.special import digamma

    d = 8
    spec = Spec(width=d, depth=layers, activation="identity", gain=gain)
    data = simulate(spec, make_batch("gaussian", 1, d), runs=1, metrics=["log_norm", "gradient_log_norm"], dtype=dtype)
    growth = data["log_norm"].values[0, -1] / layers
    mean = 0.5 * (digamma(d / 2) + math.log(2 / d)) + math.log(gain)
    deviation = math.sqrt(0.25 * (2 / d + 2 / d**2)) / math.sqrt(layers)  # of log χ, about
    assert abs(growth - mean) < 5 * deviation
    assert np.isfinite(data["gradient_log_norm"].values).all()
    # the same log-norm in and out: for one sample ⟨δ, H⟩ is the same at every layer; so |log‖δ‖ + log‖H‖| is bounded
    total = data["gradient_log_norm"].values[0, 0]
    assert abs(total / layers - mean) < 10 * deviation


def test_homogeneous_chains_ignore_the_scale_of_the_input() -> None:
    spec, batch = Spec(width=20, depth=5, norm="batch-recenter"), make_batch("gaussian", 5, 20)
    small = simulate(spec, 2.0**-300 * batch, runs=2, metrics=["stable_rank", "log_norm"])
    usual = simulate(spec, batch, runs=2, metrics=["stable_rank", "log_norm"])
    np.testing.assert_array_equal(small["stable_rank"].values, usual["stable_rank"].values)
    np.testing.assert_allclose(small["log_norm"].values, usual["log_norm"].values - 300 * math.log(2))


@pytest.mark.parametrize("engine", ["gram", "dense"])
def test_repeated_samples_stay_repeated(engine: str) -> None:
    """Batch norm expands differences by a factor per layer: rounding would separate equal samples within 40 layers."""
    spec = Spec(width=30, depth=100, activation="identity", norm="batch-rescale")
    data = simulate(spec, make_batch("degenerate:3", 6, 30), runs=2, metrics=["rank"], engine=engine)
    assert (data["rank"].values == 3).all()


def test_other_chains_report_where_they_overflow() -> None:
    spec = Spec(width=20, depth=12, activation="x**3", gain=5.0)
    data = simulate(spec, make_batch("gaussian", 3, 20), runs=2, metrics=["stable_rank", "gradient_log_norm"])
    layers = data.attrs["first_nonfinite_layer"]
    for run, layer in enumerate(layers):
        assert 2 < layer < 12
        values = data["stable_rank"].values[run]
        assert np.isfinite(values[:layer]).all()
        assert np.isnan(values[layer:]).all()
    assert np.isnan(data["gradient_log_norm"].values).all()
    calm = simulate(Spec(width=20, depth=3), make_batch("gaussian", 3, 20), runs=2, metrics=["stable_rank"])
    assert calm.attrs["first_nonfinite_layer"].tolist() == [-1, -1]


@pytest.mark.parametrize("weights", WEIGHT_LAWS)
def test_every_law_has_the_variance_it_says(weights: str) -> None:
    from isometer.simulate import Streams, draw_weights, weight_factor
    from isometer.simulate._weights import stream_kind

    fan_in, fan_out, runs = 12, 9, 400
    spec = Spec(width=fan_out, depth=1, input_width=fan_in, weights=weights, gain=1.3)
    streams = Streams(0, range(runs), runs, "weights", stream_kind(weights), 144, torch.zeros((), dtype=torch.float64))
    w = (draw_weights(weights, streams, fan_out, fan_in) * weight_factor(spec, 1)).numpy()
    expected = {
        "gaussian": 1.69 / fan_in,
        "uniform": 1.69 / fan_in,
        "he": 2 * 1.69 / fan_in,
        "xavier-normal": 2 * 1.69 / (fan_in + fan_out),
        "xavier-uniform": 2 * 1.69 / (fan_in + fan_out),
        "pytorch": 1.69 / (3 * fan_in),
        "asymmetric": 1.69 / (3 * fan_in),
        "orthogonal": 1.69 / fan_in,
    }
    mean = 1.3 / math.sqrt(fan_in) if weights == "asymmetric" else 0.0
    error = w.std() / math.sqrt(w.size)
    assert abs(w.mean() - mean) < 5 * error
    if weights in expected:
        assert w.var() == pytest.approx(expected[weights], rel=5 * math.sqrt(2 / w.size))
    if weights.startswith("orthogonal"):
        gram = w @ np.swapaxes(w, 1, 2)
        np.testing.assert_allclose(gram, gram[:, :1, :1] * np.eye(fan_out), atol=1e-12)


BAD = {
    "one sample": (np.ones((1, 8)), {}, "batch has 1 sample; batch statistics need at least 2 — pass a larger batch"),
    "no sample": (np.ones((0, 8)), {}, r"batch has shape \(0, 8\)"),
    "a vector": (np.ones(8), {}, r"batch has shape \(8,\); expected \(samples, features\)"),
    "nan": (np.full((3, 8), np.nan), {}, "batch has 24 NaN or infinite entries of 24; expected finite numbers"),
    "width": (np.ones((3, 5)), {}, "batch has 5 features, the spec expects 8 — pass Spec"),
    "complex": (np.ones((3, 8), complex), {}, "batch has dtype complex128; expected real numbers"),
    "words": (np.array([["a"] * 8] * 3), {}, "expected real numbers"),
    "half": (np.ones((3, 8)), {"dtype": "float16"}, "dtype is float16; expected float32 or float64"),
    "runs": (np.ones((3, 8)), {"runs": 0}, "runs is 0; expected a whole number from 1 to"),
    "batches": (np.ones((2, 3, 8)), {"runs": 3}, "batch has 2 inputs for 3 runs"),
    "metric": (np.ones((3, 8)), {"metrics": ["rnak"]}, "unknown metric 'rnak'; did you mean 'rank'"),
    "lambda": (np.ones((3, 8)), {"metrics": [lambda h: h]}, "has no name; expected a name or a function"),
    "engine": (np.ones((3, 8)), {"engine": "fast"}, "unknown engine 'fast'; expected one of auto, gram, dense"),
    "at": (np.ones((3, 8)), {"at": "middle"}, "at is 'middle'; expected 'post' or 'pre'"),
    "loss": (np.ones((3, 8)), {"loss": "hinge"}, "unknown loss 'hinge'; expected one of gaussian"),
    "cotangent": (
        np.random.default_rng(0).standard_normal((3, 8)),
        {"loss": np.ones((2, 8)), "metrics": ["gradient_log_norm"]},
        r"the cotangent has shape \(2, 8\); expected \(3, 8\)",
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", BAD)
def test_bad_input_is_explained(name: str) -> None:
    batch, options, message = BAD[name]
    with pytest.raises(IsometerError, match=message):
        simulate(Spec(width=8, depth=2, norm="batch"), batch, **{"runs": 2, **options})


def test_the_gram_engine_refuses_laws_that_are_not_invariant() -> None:
    with pytest.raises(IsometerError, match="engine='gram' with weights='uniform'; expected one of gaussian"):
        simulate(Spec(width=8, depth=2, weights="uniform"), np.ones((3, 8)), engine="gram")


def test_a_backward_pass_that_cannot_fit_is_refused() -> None:
    spec = Spec(width=4000, depth=1000, weights="uniform")
    with pytest.raises(IsometerError, match=r"needs about .* GiB of memory; 2 GiB are allowed — use at most"):
        simulate(spec, np.ones((3, 4000)), metrics=["gradient_log_norm"], dtype="float32")


@pytest.mark.parametrize("weights", ["gaussian", "orthogonal"])
@pytest.mark.parametrize("norm", ["batch", "batch-rescale", "batch-recenter", "layer", "rms", "whiten", None])
def test_degenerate_batches_have_an_answer(weights: str, norm: str | None) -> None:
    rng = np.random.default_rng(0)
    repeated = rng.standard_normal((2, 16))[[0, 1, 0, 1]]
    with_zero = rng.standard_normal((4, 16)) * np.array([[1.0], [0.0], [1.0], [1.0]])
    for batch in (repeated, with_zero, np.zeros((4, 16)), np.ones((4, 16))):
        spec = Spec(width=16, depth=3, norm=norm, weights=weights)
        data = simulate(spec, batch, runs=2, metrics=EVERY)
        for name in EVERY:
            assert not np.isnan(data[name].values).any(), name
        if batch is not with_zero or norm not in ("batch", "batch-recenter"):  # which give a zero sample a direction
            assert (data["isometry_gap"].values == math.inf).all()


def test_half_precision_and_integers_are_converted() -> None:
    spec = Spec(width=8, depth=2, norm="batch")
    exact = np.arange(24).reshape(3, 8) % 7
    first = simulate(spec, exact, runs=2, metrics=["stable_rank"])
    second = simulate(spec, exact.astype(np.float16), runs=2, metrics=["stable_rank"])
    third = simulate(spec, torch.as_tensor(exact, dtype=torch.bfloat16), runs=2, metrics=["stable_rank"])
    assert first.equals(second)
    assert first.equals(third)


def test_progress_is_reported() -> None:
    seen: list[tuple[int, int]] = []
    spec = Spec(width=300, depth=3)
    batch = make_batch("gaussian", 100, 300)
    simulate(spec, batch, runs=9, metrics=["log_norm"], progress=lambda done, total: seen.append((done, total)))
    assert seen[-1][0] == seen[-1][1] == len(seen)


def test_summary_of_huge_and_tiny_values() -> None:
    from isometer.trajectory import trajectory

    values = np.random.default_rng(0).normal(size=(6, 5))
    spec = Spec(width=4, depth=4)
    ordinary = summarize(trajectory({"x": values}, spec, at="post"))["x"].values
    for power in (1000, -1000):
        summary = summarize(trajectory({"x": np.ldexp(values, power)}, spec, at="post"))["x"].values
        np.testing.assert_array_equal(summary, np.ldexp(ordinary, power))
    largest = np.array([[1.7e308, 1.0], [-1.7e308, 1.0]])
    summary = summarize(trajectory({"x": largest}, Spec(width=4, depth=1), at="post"))["x"].values[:, 0]
    assert summary.tolist() == [0.0, -math.inf, math.inf]


def test_summary_of_infinite_and_undefined_values() -> None:
    from isometer.trajectory import trajectory

    inf, nan = math.inf, math.nan
    values = np.array([[1.0, inf, inf, nan, 1.0], [3.0, 1.0, -inf, 1.0, 1.0]])
    summary = summarize(trajectory({"x": values}, Spec(width=4, depth=4), at="post"))["x"]
    half = 12.7062047361747 * math.sqrt(2) / math.sqrt(2)
    np.testing.assert_allclose(summary.sel(statistic="mean"), [2.0, inf, nan, nan, 1.0])
    np.testing.assert_allclose(summary.sel(statistic="low"), [2.0 - half, inf, nan, nan, 1.0])
    np.testing.assert_allclose(summary.sel(statistic="high"), [2.0 + half, inf, nan, nan, 1.0])
    one = summarize(trajectory({"x": values[1:]}, Spec(width=4, depth=4), at="post"))["x"]
    assert one.sel(statistic="low").values[0] == -inf
    with pytest.raises(IsometerError, match="no dimension 'run'"):
        summarize(xarray.Dataset())


def test_losses_agree_with_their_definitions() -> None:
    """One linear layer without norm: δ at the output is read off the gradient at the input for orthogonal weights."""
    spec = Spec(width=6, depth=1, activation="identity", weights="orthogonal")
    batch = make_batch("gaussian", 3, 6)
    given = simulate(spec, batch, runs=2, metrics=["gradient_log_norm"], loss=np.full((3, 6), 0.5))
    np.testing.assert_allclose(given["gradient_log_norm"].values[:, 0], math.log(0.5 * math.sqrt(18)))
    for loss in ("cross-entropy", "squared", "gaussian"):
        data = simulate(spec, batch, runs=200, metrics=["gradient_log_norm"], loss=loss)
        size = np.exp(2 * data["gradient_log_norm"].values[:, 0])
        if loss == "gaussian":
            assert size.mean() == pytest.approx(18, rel=0.1)
        elif loss == "squared":  # E‖H − Y‖²/n² = (‖H‖² + nd)/n²
            assert size.mean() == pytest.approx((np.sum(batch**2) + 18) / 9, rel=0.15)
        else:
            assert (size <= 2 / 3).all()


def test_recurrences_keep_the_invariants_of_the_papers() -> None:
    batch = make_batch("gaussian", 6, 10)

    def frobenius(h: torch.Tensor) -> torch.Tensor:
        return h.square().sum((-2, -1))

    data = simulate(recurrence("001/rec-2.1", width=10, depth=3), batch, runs=2, metrics=[frobenius])
    np.testing.assert_allclose(data["frobenius"].values[:, 1:], 1.0, rtol=1e-12)  # 001/eq-A.4
    data = simulate(recurrence("002/eq-5", width=10, depth=3), batch, runs=2, metrics=[frobenius])
    np.testing.assert_allclose(data["frobenius"].values[:, 1:], 60.0, rtol=1e-12)  # rows of length √N
    data = simulate(recurrence("004/eq-3", width=10, depth=3), batch, runs=2, metrics=[frobenius])
    np.testing.assert_allclose(data["frobenius"].values[:, 1:], 0.6, rtol=1e-12)  # samples of length 1/√m
    # 001/thm-6.3: the isometry gap never grows under orthogonal weights with n = d
    square = make_batch("correlated:0.7", 10, 10)
    gap = simulate(recurrence("001/rec-6.3", width=10, depth=30), square, runs=4, metrics=["isometry_gap"])
    assert (np.diff(gap["isometry_gap"].values, axis=1) < 1e-12).all()


@pytest.mark.slow
def test_the_slope_of_the_gap_against_the_width() -> None:
    """003/fig-2b: n = 4, 20 runs, log of the average of V over layers 100 to 600 against log d; published −0.46."""
    widths = [16, 32, 64, 128, 256, 512]
    means = []
    for width in widths:
        start = np.zeros((4, width))
        np.fill_diagonal(start, [1.0, 1e-6, 1e-6, 1e-6])
        spec = recurrence("003/net-bn-linear", width=width, depth=600)
        data = simulate(spec, start, runs=20, metrics=["orthogonality_gap"])
        means.append(float(data["orthogonality_gap"].values[:, 100:].mean()))
    slope = np.polyfit(np.log(widths), np.log(means), 1)[0]
    assert abs(slope + 0.5) < 0.05


@pytest.mark.slow
def test_orthogonal_weights_with_as_many_samples_as_features_keep_gradients_bounded() -> None:
    """001/fig-6.3 at d = n = 100, without its input layer: flat for Haar weights, growing for Gaussian ones."""
    batch = make_batch("gaussian", 100, 100)
    first = {}
    for weights in ("orthogonal", "gaussian"):
        for depth in (50, 1000):
            spec = recurrence("001/rec-6.3", width=100, depth=depth, weights=weights)
            data = simulate(spec, batch, runs=4, metrics=["gradient_log_norm"], loss="cross-entropy", dtype="float32")
            first[weights, depth] = float(data["gradient_log_norm"].values[:, 1].mean())
    assert abs(first["orthogonal", 1000] - first["orthogonal", 50]) < 1.0
    # 001/claim-6.gauss: about ½ log((n − 1)/(n − 2)) per layer and more at finite width
    assert first["gaussian", 1000] - first["gaussian", 50] > 4.0


def test_functions_must_not_take_the_name_of_a_metric() -> None:
    def rank(batch: torch.Tensor) -> torch.Tensor:
        return batch.sum((-2, -1))

    with pytest.raises(IsometerError, match="rename it"):
        simulate(Spec(width=4, depth=1), make_batch("gaussian", 2, 4), metrics=[rank])
