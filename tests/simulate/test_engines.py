"""The Gram engine and the dense engine have the same law, forward and backward.

Two-sample Kolmogorov–Smirnov tests, all together at level 1e-3 by Bonferroni, with fixed seeds. With 1000 runs per
engine and about 150 tests a shift of 0.45 standard deviations, or a standard deviation larger by a factor of 1.75, is
found with 99 % power (`test_the_stated_power`); the slow version with 8000 runs finds 0.16 and 1.25.
"""

import numpy as np
import pytest
from scipy import stats

from isometer.data import make_batch
from isometer.simulate import simulate
from isometer.spec import POST_NORM, Spec, recurrence
from support.power import rejections

FORWARD = ["orthogonality_gap", "mean_cosine", "effective_rank", "log_norm"]
BACKWARD = ["gradient_log_norm", "gradient_alignment"]
RUNS, LEVEL = 1000, 1e-3


def case(spec: Spec, kind: str, samples: int, loss: str = "gaussian") -> tuple[Spec, str, int, str]:
    return spec, kind, samples, loss


CASES = {
    "relu and batch norm": case(Spec(width=16, depth=3, norm="batch"), "gaussian", 4),
    "n = d": case(Spec(width=6, depth=3, activation="tanh", norm="batch-rescale"), "gaussian", 6),
    "n > d": case(Spec(width=5, depth=3, activation="tanh", norm="batch"), "gaussian", 9),
    "changing widths": case(Spec(width=(20, 5, 30), activation="tanh", norm="batch", input_width=12), "gaussian", 6),
    "vanilla he": case(Spec(width=12, depth=4, weights="he"), "correlated:0.5", 3, "squared"),
    "bias and post-norm": case(
        Spec(width=12, depth=3, activation="gelu", norm="layer", order=POST_NORM, bias_variance=0.3),
        "gaussian",
        4,
        "cross-entropy",
    ),
    "residual": case(
        recurrence("002/eq-5", width=12, depth=3, residual=0.5, weights="gaussian", activation="tanh"), "gaussian", 4
    ),
    "repeated samples": case(Spec(width=16, depth=3, norm="batch", activation="tanh"), "degenerate:3", 6),
    "norm first": case(recurrence("001/rec-3.1", width=12, depth=3, weights="xavier-normal"), "gaussian", 4),
    "whitened": case(Spec(width=12, depth=2, activation="tanh", norm="whiten"), "gaussian", 4),
    "grouped": case(Spec(width=12, depth=2, activation="tanh", norm="group:3"), "gaussian", 4),
    "haar": case(Spec(width=12, depth=3, activation="tanh", norm="batch", weights="orthogonal"), "gaussian", 4),
    "haar, narrow and wide": case(
        Spec(width=(14, 8, 16), activation="tanh", norm="batch", weights="orthogonal", input_width=10), "gaussian", 3
    ),
    "haar, n = d": case(recurrence("001/rec-6.3", width=6, depth=3), "gaussian", 6),
    "haar, d/2 < n < d": case(Spec(width=9, depth=3, norm="rms", weights="orthogonal"), "gaussian", 6),
    "haar, repeated samples, residual": case(
        Spec(width=12, depth=3, activation="tanh", weights="orthogonal", residual=0.7), "degenerate:2", 4
    ),
}  # fmt: skip


def samples_of(name: str, engine: str, runs: int, seed: int) -> dict[str, np.ndarray]:
    """Statistics of one case: forward metrics at the last layer, gradients at the input, first and last layer."""
    spec, kind, samples, loss = CASES[name]
    batch = make_batch(kind, samples, spec.fan_in[0], seed=1)
    data = simulate(spec, batch, runs=runs, metrics=FORWARD + BACKWARD, seed=seed, engine=engine, loss=loss)
    statistics = {metric: data[metric].values[:, -1] for metric in FORWARD}
    for metric in BACKWARD:
        for layer in (0, 1, spec.layers):
            statistics[f"{metric} {layer}"] = data[metric].values[:, layer]
    # a constant is a constant up to rounding
    return {key: np.round(values, 8) for key, values in statistics.items()}


def smallest_p(name: str, runs: int) -> tuple[float, str]:
    dense, gram = samples_of(name, "dense", runs, seed=1), samples_of(name, "gram", runs, seed=2)
    p = {key: stats.ks_2samp(dense[key], gram[key], method="asymp").pvalue for key in dense}
    worst = min(p, key=lambda key: p[key])
    return float(p[worst]), worst


TESTS = len(CASES) * (len(FORWARD) + 3 * len(BACKWARD))


@pytest.mark.parametrize("name", CASES)
def test_both_engines_have_the_same_law(name: str) -> None:
    p, statistic = smallest_p(name, RUNS)
    assert p > LEVEL / TESTS, f"{name}: {statistic} differs between the engines (p = {p:.2g})"


@pytest.mark.slow
@pytest.mark.parametrize("name", CASES)
def test_both_engines_have_the_same_law_with_more_power(name: str) -> None:
    p, statistic = smallest_p(name, 8000)
    assert p > LEVEL / TESTS, f"{name}: {statistic} differs between the engines (p = {p:.2g})"


@pytest.mark.parametrize(
    ("runs", "shift", "spread"),
    [
        (RUNS, 0.45, 1.0),
        (RUNS, 0.0, 1.75),
        *(pytest.param(8000, *other, marks=pytest.mark.slow) for other in ((0.16, 1.0), (0.0, 1.25))),
    ],
)
def test_the_stated_power(runs: int, shift: float, spread: float) -> None:
    assert rejections(runs, shift, spread, LEVEL / TESTS) >= 297


def test_the_comparison_can_fail() -> None:
    """Haar and Gaussian weights of the same variance differ."""
    spec = Spec(width=12, depth=3, activation="tanh", weights="orthogonal")
    batch = make_batch("gaussian", 4, 12, seed=1)
    haar = simulate(spec, batch, runs=RUNS, metrics=["gradient_log_norm"], seed=1)
    gaussian = simulate(spec.replace(weights="gaussian"), batch, runs=RUNS, metrics=["gradient_log_norm"], seed=2)
    first, second = (data["gradient_log_norm"].values[:, 0] for data in (haar, gaussian))
    assert stats.ks_2samp(first, second, method="asymp").pvalue < LEVEL / TESTS


@pytest.mark.parametrize("widths", [(12, 12), (14, 8), (20, 9)])
def test_haar_weights_keep_inner_products_of_cotangents_where_rows_are_orthonormal(widths: tuple[int, int]) -> None:
    import torch

    from isometer.simulate import Streams
    from isometer.simulate._gram import multiply_gram, uses_frames

    fan_in, fan_out = widths
    like = torch.zeros((), dtype=torch.float64)
    streams = Streams(0, range(3), 3, "weights", "normal", 4 * 20, like, keep=True)
    noise = Streams(0, range(3), 3, "backward", "normal", 4 * 20, like)
    a = torch.randn(3, 4, fan_in, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    a[0, 1] = a[0, 0]  # a rank-deficient one among them
    assert uses_frames("orthogonal", 4, fan_in, fan_out, 4)
    z, product = multiply_gram("orthogonal", 1.5, a, fan_out, streams, rows=4)
    delta = torch.randn(3, 4, fan_out, dtype=torch.float64, generator=torch.Generator().manual_seed(1))
    back = product.backward(delta, noise)
    torch.testing.assert_close(back @ back.mT, 2.25 * delta @ delta.mT, rtol=1e-10, atol=1e-10)
    # the same W forward and backward: ⟨δ, A Wᵀ⟩ = ⟨δ W, A⟩ entry by entry
    torch.testing.assert_close(delta @ z.mT, back @ a.mT, rtol=1e-10, atol=1e-10)


def test_gaussian_forward_and_backward_see_the_same_weights() -> None:
    import torch

    from isometer.simulate import Streams
    from isometer.simulate._gram import multiply_gram

    like = torch.zeros((), dtype=torch.float64)
    streams = Streams(0, range(2), 2, "weights", "normal", 200, like, keep=True)
    noise = Streams(0, range(2), 2, "backward", "normal", 200, like)
    a = torch.randn(2, 4, 10, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    z, product = multiply_gram("gaussian", 0.3, a, 13, streams, rows=4)
    delta = torch.randn(2, 4, 13, dtype=torch.float64, generator=torch.Generator().manual_seed(1))
    torch.testing.assert_close(delta @ z.mT, product.backward(delta, noise) @ a.mT, rtol=1e-10, atol=1e-10)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_the_law_is_right_to_working_precision_near_rank_collapse(dtype: str) -> None:
    """Two samples at a relative distance of a few ε²⁄³: the difference of their images has the law of W (x − y).

    `‖W(x − y)‖²/‖x − y‖²` is χ²_d/d, whatever the distance: its mean over 2000 draws is 1 ± 4 standard errors.
    """
    import torch

    from isometer.simulate import Streams
    from isometer.simulate._gram import multiply_gram

    kind = getattr(torch, dtype)
    distance = torch.finfo(kind).eps ** (2 / 3)
    generator = torch.Generator().manual_seed(3)
    d, runs = 30, 2000
    x = torch.randn(1, 1, d, dtype=kind, generator=generator)
    direction = torch.randn(1, 1, d, dtype=kind, generator=generator)
    batch = torch.cat([x, x + distance * direction], 1).expand(runs, 2, d).contiguous()
    exact = float((batch[0, 1].double() - batch[0, 0].double()).square().sum())
    streams = Streams(5, range(runs), runs, "weights", "normal", 2 * d, torch.zeros((), dtype=kind), total=2 * d)
    z, _ = multiply_gram("gaussian", d**-0.5, batch, d, streams)
    ratio = (z[:, 1].double() - z[:, 0].double()).square().sum(-1) / exact
    # float32 leaves ε^{1/3} = 0.5 % of rounding in the difference itself
    tolerance = 4 * (2 / (d * runs)) ** 0.5 + torch.finfo(kind).eps ** (1 / 3)
    assert abs(float(ratio.mean()) - 1) < tolerance
    assert abs(float(ratio.var()) / (2 / d) - 1) < 0.25
