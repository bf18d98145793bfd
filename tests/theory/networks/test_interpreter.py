"""The interpreter of compositions: step by step against formulas, and on chains against their own engine."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import integrate

from isometer import Spec, activation, kernel_map
from isometer.errors import IsometerError
from isometer.spec import Composition, Repeat
from isometer.theory.networks import NotCovered, coverage, exchangeable_path
from isometer.theory.networks._expectations import Expectations
from isometer.theory.networks._inputs import gram_state, input_state
from isometer.theory.networks._interpreter import Passage, gradient_log_norms, passage
from isometer.theory.networks._layout import Layout
from isometer.theory.networks._state import reduced
from isometer.theory.networks._weights import Run
from isometer.theory.prediction import coverage as predicted
from isometer.theory.prediction import predict
from isometer.theory.prediction._backward import gradient_log_norms as chain_gradients
from isometer.theory.prediction._forward import Forward
from support.networks import random_network


def followed(spec: Spec, batch: np.ndarray, *, gram: bool = False, backward: bool = True) -> Passage:
    start = gram_state(spec, batch) if gram else input_state(spec, batch)
    return passage(list(spec.executed_layers()), start, Run(Expectations(), backward=backward))


def final(text: str, batch: np.ndarray) -> np.ndarray:
    gram, log_scale = followed(Spec(text), batch, backward=False).grams()[-1]
    return gram * np.exp(2 * log_scale)


def unit_batch(samples: int = 6, features: int = 32, seed: int = 0) -> np.ndarray:
    batch = np.random.default_rng(seed).standard_normal((samples, features))
    return batch / np.sqrt((batch**2).mean(axis=1, keepdims=True))


BRANCH = ("norm", "activation", "weights", "residual")
CHAINS = [
    {},
    {"activation": "gelu", "gain": 1.2, "bias_variance": 0.1},
    {"activation": "tanh", "norm": "layer"},
    {"activation": "gelu", "norm": "layer", "order": ("weights", "activation", "norm")},
    {"activation": "gelu", "norm": "rms", "order": BRANCH, "residual": 0.5},
    {"order": BRANCH, "residual": 0.5, "gain": 1.4},
    {"activation": "tanh", "norm": "rms", "order": ("activation", "weights", "residual", "norm"), "residual": 0.5},
    {"order": ("weights", "norm", "activation", "residual"), "residual": 0.5},
    {"norm": "batch"},
    {"norm": "batch", "activation": "gelu"},
    {"norm": "batch-rescale", "activation": "tanh", "order": ("weights", "activation", "norm")},
    {"activation": "hardtanh", "bias_variance": 0.1},
    {"activation": "sin", "weights": "orthogonal", "scale": 0.9},
    {"activation": "relu", "weights": "pytorch", "width": (16, 24, 8)},
]


@pytest.mark.parametrize("fields", CHAINS, ids=str)
@pytest.mark.parametrize("start", ["batch", "gram"])
def test_chains_equal_their_own_engine(fields: dict[str, object], start: str) -> None:
    """Signals and gradients, to 1e-10 (batch norm by the same sampled points)."""
    spec = Spec(
        **{"width": 32, "depth": 5, "input_width": 32, **fields}
        if "width" not in fields
        else {"input_width": 32, **fields}
    )
    batch = unit_batch()
    given = batch @ batch.T / 32 if start == "gram" else batch
    found = followed(spec, given, gram=start == "gram")
    forward = Forward(spec)
    path = forward.path(given, is_gram=start == "gram")
    for (gram, log), (expected, expected_log) in zip(found.grams(), path.grams("post"), strict=True):
        assert np.abs(gram * np.exp(2 * (log - expected_log)) - expected).max() < 1e-10 * np.abs(expected).max()
    logs = chain_gradients(forward, path, None if start == "gram" else batch.T)
    assert np.abs(gradient_log_norms(found) - logs).max() < 1e-10


def test_a_spec_of_one_layer_spelled_otherwise_predicts_the_same() -> None:
    batch = unit_batch()
    chain = Spec("input(32) > repeat(dense > act('gelu'), 4)")
    other = Composition((Repeat(chain.composition[0].body, 4),), chain.shape)  # type: ignore[union-attr]
    names = ["second_moment", "mean_cosine", "gradient_log_norm"]
    for at in ("post", "pre"):
        one, two = (predict(spec, batch, metrics=names, at=at) for spec in (chain, other))  # type: ignore[arg-type]
        for name in names:
            assert np.abs(one[name].values - two[name].values).max() < 1e-10


def test_nested_skips_count_a_signal_once() -> None:
    batch = unit_batch()
    gram = batch @ batch.T / 32
    found = final("input(32) > residual(residual(dense, 0.5, skip=2.0), 3.0)", batch)
    # x + 3(2x + ½Wx) = 7x + 1.5Wx
    assert np.abs(found - (49 + 2.25) * gram).max() < 1e-12


def test_sums_and_products_of_branches() -> None:
    batch = unit_batch()
    gram = batch @ batch.T / 32
    assert np.abs(final("input(32) > sum(dense(8), dense(8, gain=2))", batch) - 5 * gram).max() < 1e-12
    assert np.abs(final("input(32) > product(dense(8), dense(8, gain=2))", batch) - 4 * gram**2).max() < 1e-12
    assert np.abs(final("input(32) > concat(dense(8), dense(24, gain=2))", batch) - 3.25 * gram).max() < 1e-12
    twice = final("input(32) > dense > sum(scale(2), scale(3))", batch)
    assert np.abs(twice - 25 * gram).max() < 1e-12


def test_a_function_of_a_function_is_integrated_as_one() -> None:
    """tanh(½ gelu(h) + 0.2) through a scaling and a shifting norm without division."""
    phi, batch = activation("gelu"), unit_batch(2)
    found = final("input(32) > dense > act('gelu') > scale(0.5) > act('tanh')", batch)
    cosine = float(batch[0] @ batch[1]) / 32

    def inner(x: float, y: float) -> float:
        density = np.exp(-(x * x - 2 * cosine * x * y + y * y) / (2 * (1 - cosine**2)))
        return float(np.tanh(0.5 * phi(x)) * np.tanh(0.5 * phi(y)) * density)

    total = integrate.dblquad(inner, -9, 9, -9, 9, epsabs=1e-10)[0] / (2 * np.pi * np.sqrt(1 - cosine**2))
    assert abs(found[0, 1] - total) < 1e-8


def test_norms_of_features_keep_their_affine_part() -> None:
    batch = unit_batch()
    gram = batch @ batch.T / 32
    found = final("input(32) > dense > act('relu') > norm('layer', scale=2.0, shift=0.3) > dense(4)", batch)
    kappa = activation("relu").dual
    centred = (kappa.value(np.clip(gram, -1, 1)) - kappa.at_zero) / (0.5 - kappa.at_zero)
    assert np.abs(found - (4 * centred + 0.09)).max() < 1e-12
    shifted = final("input(32) > dense > norm('layer', shift=0.3) > act('gelu')", batch)
    other = activation("gelu").shifted(0.3).dual
    assert np.abs(shifted - other.value(np.clip(gram, -1, 1))).max() < 1e-12


def test_pairs_of_positions_are_dropped_without_loss() -> None:
    """The diagonal layout is the diagonal of the full one."""
    spec = Spec("input(3, [4, 5]) > conv(3, 8) > act('gelu') > conv([2, 3], 8, stride=2, dilation=2, padding='zeros')")
    batch = np.random.default_rng(1).standard_normal((3, 3, 4, 5))
    start = input_state(spec, batch, tangent=True)
    features = np.moveaxis(batch.reshape(3, 3, 20), 1, 2).reshape(1, 60, 3)
    full = type(start).of_features(features, Layout(3, (4, 5), full=True), tangent=True)
    run = Run(Expectations(), tangent=True)
    for steps, _ in spec.executed_layers():
        from isometer.theory.networks._interpreter import walk

        start, full = walk(steps, start, run)[0], walk(steps, full, run)[0]
    less = reduced(full)
    assert less.layout == start.layout
    assert np.abs(less.second().gram() - start.second().gram()).max() < 1e-13
    one, two = less.tangent(), start.tangent()
    assert one is not None
    assert two is not None
    assert np.abs(one - two).max() < 1e-13


def test_two_numbers_follow_the_kernel_map() -> None:
    kappa = kernel_map("tanh")
    spec = Spec("input(8) > repeat(dense > norm('rms') > act('tanh'), 12) > norm('rms')")
    gaps = np.array([1.0, 0.3, 1e-3, 1e-9, 1e-15])
    found = exchangeable_path(spec, gaps)
    for start, gap in zip(gaps, found.gap[-1], strict=True):
        for _ in range(12):
            start = kappa.gap_after(start)
        assert gap == pytest.approx(start, rel=1e-11)
    assert found.variance[-1] == pytest.approx(np.ones(5))


def test_two_numbers_run_side_by_side() -> None:
    """Each column is the recursion of its own start, lengths included; also behind batch norm."""
    text = "input(8) > dense(gain=1.3) > bias(0.1) > repeat(residual(norm('layer') > act('gelu') > dense), 3) > dense"
    gaps, variances = np.array([0.8, 0.1, 1e-6]), np.array([1.0, 4.0, 0.2])
    whole = exchangeable_path(Spec(text), gaps, variances)
    for place in range(3):
        one = exchangeable_path(Spec(text), gaps[place], variances[place])
        assert one.gap[:, 0] == pytest.approx(whole.gap[:, place], rel=1e-12)
        assert one.variance[:, 0] == pytest.approx(whole.variance[:, place], rel=1e-12)
    normed = Spec("input(8) > repeat(dense > norm('batch') > act('relu'), 2) > dense(8)")
    gram = 0.5 * np.eye(6) + 0.5
    found = exchangeable_path(normed, 0.5, samples=6)
    expected = predict(normed, gram=gram, metrics=["mean_cosine"])["mean_cosine"].values[0]
    assert found.cosine[:, 0] == pytest.approx(expected, abs=1e-10)


def test_deep_networks_neither_overflow_nor_slow_down() -> None:
    spec = Spec("input(8) > dense > repeat(residual(act('relu') > dense(gain=2)), 2000) > dense(2)")
    data = predict(spec, unit_batch(3, 8), metrics=["log_norm", "mean_cosine", "gradient_log_norm"])
    assert np.isfinite(data["log_norm"].values).all()
    # each block multiplies lengths by 1 + 4/2
    growth = np.diff(data["log_norm"].values[0, 2:-1])
    assert growth == pytest.approx(np.full(1999, 0.5 * np.log(3.0)), rel=1e-9)
    assert int(data.attrs["first_nonfinite_layer"][0]) == -1


def test_diverging_networks_name_their_layer() -> None:
    data = predict(Spec("input(4) > dense > repeat(residual(act('exp') > dense), 9) > dense"), unit_batch(3, 4))
    assert 2 <= int(data.attrs["first_nonfinite_layer"][0]) <= 5
    assert np.isnan(data["rank"].values[0, -1])


@pytest.mark.parametrize(
    ("text", "step", "reason"),
    [
        ("input(8) > dense > residual(act('relu')) > dense", "residual", "such as x and φ"),
        ("input(8) > dense > residual(dense > act('relu')) > act('relu') > dense(2)", "act", "not Gaussian"),
        ("input(8) > dense > product(act('relu'), scale(2)) > dense", "product", "same features"),
        ("input(8, [4]) > conv(1) > conv(3, groups=8) > act('relu') > dense", "act", "not Gaussian"),
        ("input(8, [4]) > concat(conv(1), conv(1)) > conv(3, groups=2)", "conv", "several laws"),
        ("input(8) > dense > dropout(0.5) > act('relu') > dense", "act", "not Gaussian"),
        ("input(8) > dense(weights='asymmetric') > act('relu') > dense", "dense", "mean"),
        ("input(8, [4]) > conv(3) > flatten > act('relu') > dense", "act", "not Gaussian"),
    ],
)
def test_what_is_not_covered_is_named_beforehand(text: str, step: str, reason: str) -> None:
    spec = Spec(text)
    said = coverage(spec)
    assert said["theory"] is not None
    assert said["theory"].startswith(step)
    assert reason in said["theory"]
    assert not predicted(spec).is_covered
    batch = np.random.default_rng(0).standard_normal((5, 8, *spec.shape.axes))
    with pytest.raises(NotCovered, match=reason) as caught:
        predict(spec, batch)
    assert caught.value.step.startswith(step)


def test_coverage_says_what_predict_does() -> None:
    """On random networks, gradients included."""
    refused = 0
    for seed in range(40):
        spec = random_network(
            seed,
            width=8,
            axes=(3,) if seed % 2 else (),
            length=4,
            without=("conv",) * (seed % 2 == 0),
            also=("dropout", "groups", "noise", "upsample"),
        )
        batch = np.random.default_rng(seed).standard_normal((5, spec.shape.width, *spec.shape.axes))
        expected = predicted(spec, 5).reason
        try:
            predict(spec, batch, metrics=["mean_cosine"])
            said = None
        except NotCovered as problem:
            said = f"{problem.step}: {problem.reason}"
        assert said == expected, spec
        refused += said is not None
    assert 5 < refused < 35


def test_inputs_are_checked() -> None:
    spec = Spec("input(3, [4, 4]) > conv(3, 8) > act('relu') > pool > dense(2)")
    with pytest.raises(IsometerError, match=r"expects \(n, 3, 4, 4\)"):
        predict(spec, np.ones((2, 3, 4)))
    with pytest.raises(IsometerError, match="pass it"):
        predict(spec, gram=np.eye(2))
    assert predict(spec).sizes["layer"] > 1, "ten Gaussian samples unless some are given"
    with pytest.raises(IsometerError, match="expected none"):
        exchangeable_path(spec, 0.5)
    with pytest.raises(IsometerError, match="from 0 to"):
        exchangeable_path(Spec("input(3) > dense > act('relu') > dense"), 2.5)
