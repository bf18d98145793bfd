"""One network, several commands: what stands behind them says the same, for every step and every place of the norm.

`predict`, `kernel`, `explain`, `phase` and the doctor are exact here and agree to 1e-10. A simulation has the error of
its runs and of its width, which is stated.
"""

from __future__ import annotations

import math
from itertools import product
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from isometer.doctor.prediction._infinite_width import infinite_width
from isometer.simulate import simulate
from isometer.spec import Spec, chain_from_options, with_ends
from isometer.theory import _explanation, explain
from isometer.theory._network_explanation import NetworkExplanation
from isometer.theory.chains import chain_path, kernels_of, network_phase
from isometer.theory.networks import exchangeable_path
from isometer.theory.prediction import predict

EXACT = 1e-10
PAIR = np.array([[1.0, 0.4], [0.4, 1.0]])
PLACES = [
    (norm, place, gamma)
    for norm, place, gamma in product(("none", "layer", "rms"), ("pre", "post", "sum"), (None, 0.6))
    if gamma is not None or place != "sum"
]


def features(gram: NDArray[np.float64], width: int) -> NDArray[np.float64]:
    """A batch `(n, width)` with this Gram matrix."""
    root = np.linalg.cholesky(gram)
    return np.pad(root, ((0, 0), (0, width - len(gram)))) * math.sqrt(width)


LAYERS = [  # with an activation and a bias variance each
    (*one, *(("tanh", 0.1), ("gelu", 0.0), ("relu", 0.2))[k % 3]) for k, one in enumerate(PLACES)
]


@pytest.fixture(autouse=True)
def short_outlook(monkeypatch: pytest.MonkeyPatch) -> None:
    """`explain` tells of 1000 layers too, which takes most of its time and is not what is asked here."""
    monkeypatch.setattr(_explanation, "DEPTHS", (10,))


@pytest.mark.parametrize(("norm", "place", "gamma", "activation", "bias"), LAYERS)
def test_commands_agree_wherever_the_norm_stands(
    norm: Any, place: Any, gamma: float | None, activation: str, bias: float
) -> None:
    spec = chain_from_options(
        width=24, depth=4, activation=activation, norm=norm, norm_position=place, gamma=gamma, bias_variance=bias
    )
    found = predict(spec, gram=PAIR, metrics=["mean_cosine", "second_moment"])
    cosines, squares = found["mean_cosine"].values[0], found["second_moment"].values[0]
    kernel = kernels_of(spec, features(PAIR, 24), kinds=("nngp",)).matrices["nngp"]
    assert kernel.matrix[0, 1] / kernel.matrix[0, 0] == pytest.approx(cosines[-1], abs=EXACT)
    assert kernel.log_diagonal == pytest.approx(math.log(squares[-1]), abs=EXACT)
    assert chain_path(spec, cosine=0.4).cosine == pytest.approx(cosines, abs=EXACT)
    doctor = infinite_width(spec, PAIR)
    assert doctor["mean_abs_cosine"] == pytest.approx(np.abs(cosines), abs=EXACT)
    assert doctor["rms"] == pytest.approx(np.sqrt(squares), rel=EXACT)
    card = explain(activation, norm=norm, norm_position=place, residual=gamma, bias_variance=bias)
    assert card.path(0.4, 4).cosine == pytest.approx(cosines, abs=EXACT)


@pytest.mark.parametrize(("norm", "place", "gamma"), PLACES)
def test_phase_is_where_the_others_lead(norm: str, place: Any, gamma: float | None) -> None:
    """χ is the factor of squared gradients per layer, and where cosines go is where they are after 400 layers."""
    spec = chain_from_options(
        width=24, depth=400, activation="tanh", norm=norm, norm_position=place, gamma=gamma, gain=1.6, bias_variance=0.1
    )
    point = network_phase(spec)
    assert point.growing == (gamma is not None and (place != "sum" or norm == "none"))
    if point.growing:  # no layer is the last word: χ = 1 is where factors per layer tend to
        assert point.chi == 1.0
        return
    path = chain_path(spec, cosine=0.4)
    assert math.exp(path.log_gradient[-1] - path.log_gradient[-2]) == pytest.approx(point.chi, abs=EXACT)
    assert path.cosine[-1] == pytest.approx(point.cosine, abs=EXACT + 2 * math.exp(-400 / point.depth_scale))


@pytest.mark.parametrize(("norm", "place", "gamma"), [*PLACES, ("batch", "pre", None), ("batch", "post", None)])
def test_simulations_agree_wherever_the_norm_stands(norm: str, place: Any, gamma: float | None) -> None:
    """32 networks of width 1000 and depth 3: five standard errors, and 3/1000 of bias.

    The same network with half the strength of its branch, the norm at its other place, or 30 % more gain is found.
    """
    draw = np.random.default_rng(5).standard_normal
    batch = math.sqrt(0.4) * draw((1, 1000)) + math.sqrt(0.6) * draw((4, 1000))
    names = ["mean_cosine", "second_moment"]

    def network(place: Any = place, gamma: float | None = gamma, gain: float = 1.2) -> Spec:
        return chain_from_options(
            width=1000, depth=3, activation="tanh", norm=norm, norm_position=place, gamma=gamma, gain=gain,
            bias_variance=0.1,
        )  # fmt: skip

    drawn = simulate(network(), batch, runs=32, metrics=names, seed=7)
    values = np.stack([drawn[name].values[:, 1:] for name in names])
    middle, error = values.mean(axis=1), values.std(axis=1, ddof=1) / math.sqrt(32)

    def departure(spec: Spec) -> float:
        said = predict(spec, batch, metrics=names)
        theory = np.stack([said[name].values[0, 1:] for name in names])
        return float((np.abs(middle - theory) / (5 * error + 3e-3 * np.abs(theory) + 1e-3)).max())

    assert departure(network()) < 1.0
    if gamma is not None:
        assert departure(network(gamma=0.5 * gamma)) > 1.0
    elif norm == "none":
        assert departure(network(gain=1.56)) > 1.0
    else:
        assert departure(network(place="post" if place == "pre" else "pre")) > 1.0


STEPS = {
    "dense": "dense(32, gain=1.3) > dense(8, gain=0.7, weights='orthogonal')",
    "bias": "dense > bias(0.2) > act('tanh') > bias(0.1)",
    "act": "dense > act('gelu', 0.7) > dense > act('relu')",
    "layer norm": "dense > act('relu') > norm('layer') > dense > norm('rms')",
    "unit norm": "dense > norm('unit') > act('tanh') > dense > norm('group:4')",
    "scale": "dense > scale(0.5) > act('tanh') > scale('1/sqrt(width)')",
    "residual": "dense > residual(norm('layer') > act('gelu') > dense, 0.4, skip=0.8)",
    "sum": "sum(dense, dense > act('tanh') > dense, scale(0.3) > dense) > act('relu')",
    "product": "dense > product(dense, dense > act('tanh')) > dense",
    "concat": "dense > concat(dense(8) > act('tanh') > dense(8), dense(24)) > dense",
    "repeat": "dense > repeat(residual(act('tanh') > dense, power(depth=-0.5)), 4)",
    "dropout": "dense > act('relu') > dropout(0.3) > dense > act('tanh')",
    "noise": "dense > noise(0.2) > act('tanh') > dense",
}


@pytest.mark.parametrize("step", STEPS)
def test_commands_agree_for_every_step(step: str) -> None:
    spec = Spec(f"input(16) > {STEPS[step]}")
    said = predict(spec, gram=PAIR, metrics=["mean_cosine", "second_moment"])
    cosine, square = (said[name].values[0, -1] for name in ("mean_cosine", "second_moment"))
    kernel = kernels_of(spec, features(PAIR, 16), kinds=("nngp",)).matrices["nngp"]
    assert kernel.matrix[0, 1] / kernel.matrix[0, 0] == pytest.approx(cosine, abs=EXACT)
    whole = predict(with_ends(spec), features(PAIR, 16), metrics=["second_moment"])["second_moment"].values[0, -1]
    assert math.exp(kernel.log_diagonal[0]) == pytest.approx(whole, rel=EXACT)
    path = exchangeable_path(spec, [0.6])
    assert path.cosine[-1, 0] == pytest.approx(cosine, abs=EXACT)
    assert path.variance[-1, 0] == pytest.approx(square, rel=EXACT)
    card = explain(spec)
    assert isinstance(card, NetworkExplanation)
    assert card.path(0.4).cosine[-1, 0] == pytest.approx(cosine, abs=EXACT)


POSITIONS = {
    "conv": "conv(3, 16, padding='zeros') > act('relu') > conv(2, stride=2) > act('tanh') > flatten > dense(4)",
    "pool": "conv(3, 16) > act('relu') > pool('mean', 2) > conv(3) > act('tanh') > pool > dense(4)",
    "upsample": "conv(3, 16) > act('relu') > upsample(2) > conv(3) > act('relu') > pool > dense(4)",
    "batch norm that is sampled": "conv(3, 16) > norm('batch') > act('tanh') > flatten > dense(4)",
    "an activation behind repeated batch norm": "repeat(conv(1) > norm('batch'), 2) > act('tanh') > flatten > dense(4)",
}


@pytest.mark.parametrize("step", POSITIONS)
def test_commands_agree_for_every_step_over_positions(step: str) -> None:
    """Where batch norm is sampled, both read the same points."""
    spec = Spec(f"input(6, [4]) > {POSITIONS[step]}")
    batch = np.random.default_rng(1).standard_normal((5, 6, 4))
    cosine = predict(spec, batch, metrics=["mean_cosine"])["mean_cosine"].values[0, -1]
    kernel = kernels_of(spec, batch, kinds=("nngp",)).matrices["nngp"].matrix
    roots = np.sqrt(np.diag(kernel))
    apart = ~np.eye(5, dtype=bool)
    assert (kernel / np.outer(roots, roots))[apart].mean() == pytest.approx(cosine, abs=EXACT)
