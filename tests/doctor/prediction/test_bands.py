"""Bands around a prediction hold for all layers at once; measured networks stay in them at the stated rate."""

from __future__ import annotations

import dataclasses
import json
import math
from typing import Any

import numpy as np
import pytest
import torch
from scipy import stats
from torch import nn
from torch.nn import functional

from isometer.doctor import probe
from isometer.doctor.prediction import ExtractedChain, extract, predict_chain
from isometer.doctor.prediction._bands import bands
from isometer.errors import IsometerError
from isometer.spec import Spec
from support.chains import DEPTH, WIDTH, Net, chain_of, draw

# --- bands ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("correlation", "runs"),
    [pytest.param(0.0, 16, marks=pytest.mark.slow), (0.97, 12), pytest.param(0.97, 32, marks=pytest.mark.slow)],
)
def test_bands_hold_for_all_layers_at_once(correlation: float, runs: int) -> None:
    """400 new draws of autoregressive trajectories of two metrics; 95 % expected, five deviations allowed."""
    rng = np.random.default_rng(5)
    steps = rng.standard_normal((400, runs + 1, 2, 40))
    paths = steps.copy()
    for k in range(1, 40):
        paths[..., k] = correlation * paths[..., k - 1] + math.sqrt(1 - correlation**2) * steps[..., k]
    inside = 0
    for path in paths:
        draws = {"rms": np.exp(0.3 * path[:runs, 0]), "output_gradient_log_norm": path[:runs, 1]}
        found = bands(draws, samples=4, resolution=0.0)
        out = found["rms"].leaves(np.exp(0.3 * path[runs, 0])).any()
        inside += not (out or found["output_gradient_log_norm"].leaves(path[runs, 1]).any())
    assert inside / 400 > 0.95 - 5 * math.sqrt(0.05 * 0.95 / 400)
    assert inside / 400 < 0.999  # and they are not so wide that nothing ever leaves them


# --- predictions against networks of the law --------------------------------------------------------------------------

LAWS: dict[str, dict[str, Any]] = {
    "relu": {"gain": math.sqrt(2)},
    "tanh with biases": {"phi": torch.tanh, "gain": 1.3, "bias": 0.05},
    "batch norm": {"norm": "batch"},
    "layer norm": {"phi": functional.gelu, "norm": "layer"},
    "rms norm after relu": {"norm": "rms", "form": "post"},
    "skips": {"form": "skip", "gamma": 0.3},
    "skips with layer norm": {"form": "skip", "norm": "layer", "gamma": 0.5},
    "orthogonal": {"phi": torch.tanh, "orthogonal": True},
}


QUICK_LAWS = ("relu", "batch norm", "skips with layer norm")


@pytest.mark.parametrize(
    "law", [law if law in QUICK_LAWS else pytest.param(law, marks=pytest.mark.slow) for law in LAWS]
)
def test_means_are_those_of_networks_of_the_law(law: str) -> None:
    """Means of 24 torch networks against means of 24 draws at the last layer: no difference beyond 4.5 deviations.

    Shared start, so a wrong place or a wrong norm (30 % in rms, 0.1 in cosine) is tens of deviations.
    """
    batch = draw(8, seed=3)
    measured: dict[str, list[float]] = {}
    chain: ExtractedChain | None = None
    for seed in range(24):
        model = Net(**LAWS[law], seed=seed)
        model.stem.load_state_dict(Net(**LAWS[law], seed=99).stem.state_dict())
        found = probe(model, batch)
        if chain is None:
            chain, first = extract(model, found), found
        assert chain is not None
        for name in ("rms", "mean_abs_cosine", "effective_rank", "output_gradient_log_norm"):
            values = found.values[name][list(chain.layers)]
            value = values[0] - values[-1] if name == "output_gradient_log_norm" else values[-1]
            measured.setdefault(name, []).append(math.log(value) if name == "rms" else value)
    assert chain is not None
    exact = chain.spec.replace(gain=LAWS[law].get("gain", 1.0), bias_variance=LAWS[law].get("bias", 0.0))
    predicted = predict_chain(dataclasses.replace(chain, spec=exact), first, runs=24)
    for name, values in measured.items():
        band = predicted.metrics[name]
        place = 0 if name == "output_gradient_log_norm" else -1
        mean = band.mean[place] - (band.mean[-1] if place == 0 else 0.0)
        error = np.std(values, ddof=1) * math.sqrt(2 / 24)
        mean = math.log(mean) if name == "rms" else mean
        bias = 0.5 * np.var(values) if name == "rms" else 0.0  # the logarithm of a mean is not the mean of logarithms
        assert abs(np.mean(values) + bias - mean) < 4.5 * error + 1e-3, name


def alarms(law: str, seeds: range, *, factor: float = 1.0, runs: int = 16, **options: Any) -> int:
    """How many networks of a law leave the bands of a spec whose gain is too small by a factor."""
    count = 0
    for seed in seeds:
        model = Net(**LAWS[law], **options, seed=seed)
        chain, found = chain_of(model, draw(8, options.get("width", WIDTH), seed=seed))
        assert isinstance(chain.spec.gain, float)
        spec = chain.spec.replace(gain=chain.spec.gain / factor)
        predicted = predict_chain(dataclasses.replace(chain, spec=spec), found, runs=runs, seed=seed)
        count += bool(predicted.leaves_band)
    return count


def test_networks_of_the_law_stay_in_their_bands() -> None:
    """24 networks at 5 %: more than 6 has a chance below 1e-4; bands that fail 40 % of them pass with 10 %."""
    assert sum(alarms(law, range(3)) for law in LAWS) <= 6


def test_a_gain_wrong_by_five_percent_at_depth_30_is_seen() -> None:
    """The mean log-length moves by 30 log 1.05 = 1.46, its deviation at width 256 is about ½ √(30 · 5 / 256) = 0.38."""
    assert alarms("relu", range(4), factor=1.05, depth=30, width=256) >= 3


@pytest.mark.slow
@pytest.mark.parametrize("law", LAWS)
def test_networks_of_the_law_stay_in_their_bands_at_the_stated_rate(law: str) -> None:
    """60 networks at 5 %: at most 9 with probability 0.999; bands that fail 25 % of them pass with 4 %."""
    assert alarms(law, range(100, 160), runs=32) <= 9


@pytest.mark.slow
@pytest.mark.parametrize("law", ["relu", "tanh with biases"])
def test_power_against_a_gain_wrong_by_five_percent(law: str) -> None:
    """Stated power 0.8 at depth 30 and width 256: 24 networks, at least 15 with probability 0.99."""
    assert alarms(law, range(24), factor=1.05, depth=30, width=256, runs=32) >= 15


# --- edges ------------------------------------------------------------------------------------------------------------


def test_predictions_are_ready_for_json() -> None:
    chain, found = chain_of(Net(norm="batch"), draw(4))
    record = predict_chain(chain, found, runs=8).to_dict()
    assert json.loads(json.dumps(record, allow_nan=False)) == record
    assert Spec.from_json(json.dumps(record["spec"])) == chain.spec
    assert record["layers"] == list(chain.layers)
    assert set(record["infinite"]) == {"rms", "mean_abs_cosine", "mean_angle_deg", "orthogonality_gap", "stable_rank"}
    assert set(record["metrics"]) >= {"rms", "isometry_gap", "effective_rank", "output_gradient_log_norm"}
    # batch norm leaves n − 1 dimensions to what it normalises, relu gives the last one back; layer 0 has all of them
    assert all(len(part) == DEPTH + 1 for band in record["metrics"].values() for part in band.values())


def test_same_seed_same_prediction() -> None:
    chain, found = chain_of(Net(), draw())
    one, two, other = (predict_chain(chain, found, runs=8, seed=seed) for seed in (1, 1, 2))
    assert one.to_dict() == two.to_dict()
    assert one.to_dict() != other.to_dict()


@pytest.mark.parametrize("samples", [1, 2, 40])
def test_batches_of_one_and_batches_wider_than_the_chain(samples: int) -> None:
    model = Net(width=16, gain=math.sqrt(2))
    chain, found = chain_of(model, draw(samples, 16))
    predicted = predict_chain(chain, found, runs=16)
    first = predicted.metrics["rms"].mean[0]
    assert first == pytest.approx(found.values["rms"][0], rel=1e-5)
    assert ("mean_abs_cosine" in predicted.metrics) == (samples > 1)
    assert np.isfinite(predicted.metrics["rms"].low).all()


def test_equal_samples_stay_equal_under_batch_norm() -> None:
    batch = draw(3).repeat(2, 1)
    chain, found = chain_of(Net(norm="batch"), batch)
    predicted = predict_chain(chain, found, runs=16)
    assert predicted.metrics["effective_rank"].mean[-1] <= 3.0
    assert not [leaf for leaf in predicted.leaves_band if leaf[0] == "effective_rank"]


@pytest.mark.parametrize("bias", [True, False])
def test_a_batch_of_zeros_is_predicted_exactly(bias: bool) -> None:
    """Without biases nothing ever comes of it; with them all samples are one."""
    torch.manual_seed(0)
    model = nn.Sequential(*[part for _ in range(4) for part in (nn.Linear(16, 16, bias=bias), nn.Tanh())]).double()
    chain, found = chain_of(model, torch.zeros(4, 16, dtype=torch.float64))
    predicted = predict_chain(chain, found, runs=8)
    assert predicted.leaves_band == ()
    assert predicted.metrics["stable_rank"].mean[-1] == pytest.approx(1.0 if bias else 0.0, abs=1e-9)
    assert (predicted.metrics["rms"].mean[-1] > 0) == bias


def test_chains_that_overflow_have_no_band_from_there_on() -> None:
    torch.manual_seed(0)
    model = nn.Sequential(*[part for _ in range(60) for part in (nn.Linear(32, 32), nn.ELU())])
    for part in model[::2]:
        nn.init.normal_(part.weight, 0.0, 6.0)
    chain, found = chain_of(model, draw(4, 32))
    predicted = predict_chain(chain, found, runs=8)
    assert found.nonfinite_layer is not None
    assert np.isnan(predicted.metrics["rms"].high[-1])
    assert json.dumps(predicted.to_dict(), allow_nan=False)


def test_deep_chains_are_read_at_evenly_spaced_layers() -> None:
    chain, found = chain_of(Net(torch.tanh, depth=140, width=12), draw(3, 12))
    predicted = predict_chain(chain, found, runs=8)
    assert len(predicted.layers) == 129
    assert (predicted.layers[0], predicted.layers[-1]) == (chain.layers[0], chain.layers[-1])
    assert len(predicted.infinite["rms"]) == 129


def test_more_samples_than_the_probe_keeps() -> None:
    chain, found = chain_of(Net(gain=math.sqrt(2)), draw(100))
    predicted = predict_chain(chain, found, runs=8)
    assert "64 or fewer" in predicted.note
    assert "output_gradient_log_norm" not in predicted.metrics


def test_double_precision_is_drawn_in_double_precision() -> None:
    model = Net(form="pre", gain=math.sqrt(2), depth=40, width=64).double()
    chain, found = chain_of(model, draw(4, 64, dtype=torch.float64))
    assert predict_chain(chain, found, runs=16).leaves_band == ()


def test_errors_name_the_fix() -> None:
    chain, found = chain_of(Net(), draw())
    with pytest.raises(IsometerError, match="at least 8"):
        predict_chain(chain, found, runs=3)
    broken = probe(Net(), torch.full((3, WIDTH), math.nan))
    with pytest.raises(IsometerError, match="no finite Gram matrix"):
        predict_chain(chain, broken)


def test_effective_comparisons_of_independent_normals() -> None:
    """One number per draw: the band is Student's prediction interval, or the range that the ranks ask for."""
    draws = np.random.default_rng(0).standard_normal((400, 1))
    found = bands({"output_gradient_log_norm": draws}, samples=1, resolution=0.0)["output_gradient_log_norm"]
    assert (found.high - found.low)[0] / 2 == pytest.approx(stats.norm.ppf(0.975), rel=0.15)
