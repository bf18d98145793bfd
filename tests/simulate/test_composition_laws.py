"""The Gram engine and the dense engine have the same law for compositions, and chains have theirs by the general walk.

Two-sample Kolmogorov–Smirnov tests, all together at level 1e-3 by Bonferroni, with fixed seeds. With 600 runs per side
and 110 tests a shift of 0.6 standard deviations, or a standard deviation larger by a factor of 2.2, is found with
99 % power (`test_the_stated_power`); the slow version has 6000 runs and finds 0.19 and 1.3.
"""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

from isometer.data import make_batch
from isometer.simulate import _engine, simulate
from isometer.simulate._network import NetworkWalk
from isometer.spec import Chain, Composition, Spec
from support.networks import input_batch
from support.power import rejections

FORWARD = ["orthogonality_gap", "mean_cosine", "effective_rank", "log_norm"]
BACKWARD = ["gradient_log_norm", "gradient_alignment"]
RUNS, MANY, LEVEL = 600, 6000, 1e-3
NETWORKS = {
    "pre-norm blocks": "input(10) > repeat(residual(norm('layer') > dense(20) > act('tanh') > dense(10), 0.7), 2) > "
    "dense(6)",
    "nested branches": "input(12) > residual(sum(dense > act('tanh'), product(dense, dense > act('sigmoid')) > "
    "residual(dense, 0.5))) > concat(dense(8), same) > act('relu') > dense(9, weights='orthogonal')",
    "more samples than features": "input(9) > dense(3) > act('tanh') > dense(7, weights='orthogonal') > dense(4)",
    # 5 samples at 2 places have fewer rows than 3 · 8 features of a patch: no weights are drawn
    "convolutions": "input(8, [2]) > conv(3, 10) > act('relu') > conv(3, 9, weights='orthogonal') > act('tanh') > "
    "conv(2, 12, weights='delta-orthogonal', padding='zeros') > flatten > dense(5)",
    "strides and dilation": "input(8, [5]) > conv(3, 10, stride=2, padding='zeros') > act('relu') > "
    "conv(2, 9, dilation=2, stride=2, padding='valid', weights='orthogonal') > act('tanh') > dense(5)",
    "batch norm over positions": "input(9, [2, 2]) > conv(2, 16) > norm('batch') > act('tanh') > conv(2, 8) > "
    "pool('max') > dense(6)",
    "groups": "input(12, [2]) > conv(3, 16, groups=2) > act('tanh') > conv(3, 8, groups=2, weights='orthogonal') > "
    "pool > dense(5)",
    "masks and biases": "input(12) > dropout(0.2) > dense(14) > bias(0.2) > act('relu') > dense(6)",
}
CHAINS = {
    "batch norm": Spec(width=12, depth=3, activation="tanh", norm="batch"),
    "residual, orthogonal": Spec(width=12, depth=3, activation="relu", weights="orthogonal", residual=0.5),
}


def statistics(spec: Spec, batch: np.ndarray, engine: str, runs: int, seed: int) -> dict[str, np.ndarray]:
    """Forward metrics at the last layer, gradients at the input, the first and the last layer."""
    data = simulate(spec, batch, runs=runs, metrics=FORWARD + BACKWARD, seed=seed, engine=engine)  # type: ignore[arg-type]
    found = {metric: data[metric].values[:, -1] for metric in FORWARD}
    for metric in BACKWARD:
        for layer in (0, 1, -1):
            found[f"{metric} {layer}"] = data[metric].values[:, layer]
    # a constant is a constant up to rounding
    return {key: np.round(values, 8) for key, values in found.items()}


def smallest_p(first: dict[str, np.ndarray], second: dict[str, np.ndarray]) -> tuple[float, str]:
    p = {key: float(stats.ks_2samp(first[key], second[key], method="asymp").pvalue) for key in first}
    worst = min(p, key=lambda key: p[key])
    return p[worst], worst


TESTS = (len(NETWORKS) + 2 * len(CHAINS)) * (len(FORWARD) + 3 * len(BACKWARD))
EVERY = [RUNS, pytest.param(MANY, marks=pytest.mark.slow)]


@pytest.mark.parametrize("runs", EVERY)
@pytest.mark.parametrize("name", NETWORKS)
def test_both_engines_have_the_same_law(name: str, runs: int) -> None:
    spec = Spec(NETWORKS[name])
    assert isinstance(spec, Composition)
    batch = input_batch(spec, 5)
    sides = [statistics(spec, batch, engine, runs, seed) for seed, engine in enumerate(("dense", "gram"))]
    p, statistic = smallest_p(*sides)
    assert p > LEVEL / TESTS, f"{name}: {statistic} differs between the engines (p = {p:.2g})"


@pytest.mark.parametrize("runs", EVERY)
@pytest.mark.parametrize("engine", ["gram", "dense"])
@pytest.mark.parametrize("name", CHAINS)
def test_chains_have_their_law_by_the_general_walk(
    name: str, engine: str, runs: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    spec = CHAINS[name]
    assert isinstance(spec, Chain)
    batch = make_batch("gaussian", 4, 12, seed=1)
    own = statistics(spec, batch, engine, runs, 1)

    def walk(spec, engine, batch, seed, runs, *, backward):  # type: ignore[no-untyped-def]
        return NetworkWalk(spec, engine, batch, seed=seed, runs=runs, backward=backward)

    monkeypatch.setattr(_engine, "walk_of", walk)
    p, statistic = smallest_p(own, statistics(spec, batch, engine, runs, 2))
    assert p > LEVEL / TESTS, f"{name}: {statistic} differs between chain and walk (p = {p:.2g})"


@pytest.mark.parametrize(
    ("runs", "shift", "spread"),
    [
        (RUNS, 0.6, 1.0),
        (RUNS, 0.0, 2.2),
        *(pytest.param(MANY, *other, marks=pytest.mark.slow) for other in ((0.19, 1.0), (0.0, 1.3))),
    ],
)
def test_the_stated_power(runs: int, shift: float, spread: float) -> None:
    assert rejections(runs, shift, spread, LEVEL / TESTS) >= 297


def test_the_comparison_can_fail() -> None:
    """Kernels with a fifth more weight differ."""
    sides = [Spec(NETWORKS["convolutions"].replace("conv(3, 10)", f"conv(3, 10, gain={g})")) for g in (1.0, 1.2)]
    batch = input_batch(sides[0], 5)
    p, _ = smallest_p(*(statistics(spec, batch, "gram", RUNS, seed) for seed, spec in enumerate(sides)))
    assert p < LEVEL / TESTS
