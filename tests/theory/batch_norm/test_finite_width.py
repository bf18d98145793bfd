"""Fluctuations at finite width, orthogonal weights and shapes without rescaling, against chains sampled here."""

import math

import numpy as np
import pytest

from isometer.errors import IsometerError
from isometer.theory.batch_norm import (
    batch_norm_fixed_point,
    expected_hitting_time,
    gram_chain,
    gram_fluctuations,
    gram_map,
    haar_moment,
    isometry_gap_rate,
    isometry_gap_step,
    norm_walk,
    odd_shapes,
    simplex_rates,
    stationary_orthogonality_gap,
)
from support.batches import simplex_directions


def sampled_chain(phi, n, width, *, recenter, runs=20, layers=220, burn=40, seed=0):
    """Gram matrices of a stationary network, `(layers, runs, n, n)`: every neuron drawn from N(0, G)."""
    rng = np.random.default_rng(seed)
    gram = np.broadcast_to(np.eye(n), (runs, n, n)).copy()
    kept = []
    for layer in range(layers + burn):
        values, vectors = np.linalg.eigh(gram)
        root = vectors * np.sqrt(np.maximum(values, 0))[:, None, :]
        h = rng.normal(size=(runs, width, n)) @ root.transpose(0, 2, 1)
        if recenter:
            h = h - h.mean(-1, keepdims=True)
        y = phi(h / np.sqrt((h * h).mean(-1, keepdims=True)))
        gram = y.transpose(0, 2, 1) @ y / width
        if layer >= burn:
            kept.append(gram)
    return np.array(kept)


def mean_and_error(values):
    """Over runs, which are independent."""
    per_run = values.mean(0)
    return per_run.mean(), per_run.std(ddof=1) / math.sqrt(len(per_run))


@pytest.mark.parametrize(
    ("name", "phi"), [("identity", lambda x: x), ("relu", lambda x: np.maximum(x, 0)), ("tanh", np.tanh)]
)
def test_fluctuations_match_a_sampled_network(name, phi):
    n, width = 5, 400
    theory = gram_fluctuations(name, n, width)
    grams = sampled_chain(phi, n, width, recenter=True)
    deviation = grams - batch_norm_fixed_point(name, n).gram
    value, error = mean_and_error((deviation**2).sum((-1, -2)))
    # errors are about 2 %; corrections of order n/d = 1 % are allowed for
    assert error < 0.04 * value
    assert abs(value - theory.total) < 4 * error + 0.02 * value + theory.error
    # the trivial part: mean diagonal and mean off-diagonal entry
    diagonal = np.diagonal(deviation, axis1=-2, axis2=-1).mean(-1)
    off = (deviation.sum((-1, -2)) - n * diagonal) / (n * (n - 1))
    value, error = mean_and_error(n * diagonal**2 + n * (n - 1) * off**2)
    assert abs(value - theory.trivial) < 4 * error + 0.02 * value + theory.error


def test_linear_fluctuations_have_a_closed_form():
    for n in (4, 9):
        parts = gram_fluctuations("identity", n, 50)
        m, rate = n - 1, (n - 1) / (n + 1)
        assert parts.total == pytest.approx(n**2 * (1 - 1 / m) / (1 - rate**2) / 50, rel=1e-9)
        # isotropic in Sym²₀ of n − 1 dimensions: shares in proportion to dimensions n − 1 and n(n−3)/2
        assert parts.standard / parts.total == pytest.approx(2 * m / ((m - 1) * (m + 2)), rel=0.05)
        assert parts.trivial == pytest.approx(0.0, abs=1e-9)


def test_fluctuations_are_infinite_around_a_repelling_fixed_point():
    assert gram_fluctuations("square", 10, 100).total == math.inf


@pytest.mark.parametrize(("n", "width"), [(4, 400), (7, 800)])
def test_stationary_orthogonality_gap(n, width):
    grams = sampled_chain(lambda x: x / math.sqrt(n), n, width, recenter=False)
    value, error = mean_and_error(np.sqrt(((grams - np.eye(n) / n) ** 2).sum((-1, -2))))
    assert error < 0.02 * value
    assert abs(value - stationary_orthogonality_gap(n, width)) < 4 * error + 0.01 * value
    assert stationary_orthogonality_gap(n, 4 * width) == pytest.approx(stationary_orthogonality_gap(n, width) / 2)


def haar(rng, d):
    q, r = np.linalg.qr(rng.normal(size=(d, d)))
    return q * np.sign(np.diagonal(r))


def gap(x):
    values = np.linalg.svd(x, compute_uv=False) ** 2
    return math.log(values.mean()) - np.log(values).mean()


def test_isometry_gap_step_is_the_mean_over_haar_weights():
    rng = np.random.default_rng(4)
    d = 5
    x = rng.normal(size=(d, d))
    changes = []
    for _ in range(4000):
        h = haar(rng, d) @ x
        changes.append(gap(h / np.linalg.norm(h, axis=1, keepdims=True)) - gap(x))
    step = isometry_gap_step(np.linalg.svd(x, compute_uv=False) ** 2)
    error = np.std(changes) / math.sqrt(len(changes))
    assert error < 0.05 * abs(step.value)
    assert abs(np.mean(changes) - step.value) < 4 * error
    assert step.error < 1e-10


@pytest.mark.parametrize(("a", "b"), [(1.0, 1.0), (9.0, 1.0), (1e8, 1.0), (1.0, 0.0)])
def test_isometry_gap_step_in_two_dimensions(a, b):
    exact = 2 * math.log((math.sqrt(a) + math.sqrt(b)) / 2) - math.log((a + b) / 2)
    assert isometry_gap_step([a, b]).value == pytest.approx(exact, abs=1e-11)


def test_isometry_gap_rate():
    rng = np.random.default_rng(0)
    for d in (3, 8, 30):
        epsilon = rng.normal(size=d)
        values = 1 + 1e-3 * (epsilon - epsilon.mean())
        before = math.log(values.mean()) - np.log(values).mean()
        assert 1 + isometry_gap_step(values).value / before == pytest.approx(isometry_gap_rate(d), abs=2e-3)


def test_haar_moments():
    rng, d = np.random.default_rng(1), 4
    draws = np.array([haar(rng, d) for _ in range(20_000)])
    cases = [
        ([0, 0], [1, 1], 1 / d),
        ([0, 0, 0, 0], [0, 0, 0, 0], 3 / (d * (d + 2))),
        ([0, 0, 1, 1], [2, 2, 2, 2], 1 / (d * (d + 2))),
        ([0, 0, 1, 1], [2, 2, 3, 3], (d + 1) / (d * (d + 2) * (d - 1))),
        ([0, 0, 1, 1], [2, 3, 2, 3], -1 / (d * (d + 2) * (d - 1))),
        ([0, 1, 2], [0, 1, 2], 0.0),
        ([0, 1, 2, 3], [0, 1, 2, 3], 0.0),
    ]
    for rows, columns, expected in cases:
        assert haar_moment(d, rows, columns) == pytest.approx(expected, abs=1e-15)
        product = np.prod([draws[:, i, j] for i, j in zip(rows, columns, strict=True)], axis=0)
        assert abs(product.mean() - expected) < 4.5 * product.std() / math.sqrt(len(product)) + 1e-12
    assert haar_moment(1, [0] * 4, [0] * 4) == 1.0
    with pytest.raises(IsometerError, match="1 to 4"):
        haar_moment(4, [0] * 6, [0] * 6)


def test_simplex_rates_agree_with_differences_of_the_map():
    n = 7
    centring, standard, pair = simplex_directions(n)
    for name in ("relu", "leaky_relu(0.3)", "abs"):
        rates = simplex_rates(n, name)
        for direction, rate in ((centring, rates.growth), (standard, rates.standard), (pair, rates.pair)):
            up = gram_map(centring + 1e-5 * direction, name, recenter=True)
            down = gram_map(centring - 1e-5 * direction, name, recenter=True)
            change = centring @ (up - down) @ centring / 2e-5
            assert np.abs(change - rate * direction).max() < 1e-8


def test_odd_points_exist_from_seven_samples_on():
    assert [len(odd_shapes(n)) for n in (3, 4, 5, 6, 7, 8, 20, 100, 1000)] == [1, 1, 1, 1, 3, 3, 3, 3, 3]
    for n in (7, 20, 100):
        odd, threshold, simplex = odd_shapes(n)
        assert odd.rate < 1 < threshold.rate
        assert simplex.is_simplex
        rates = simplex_rates(n)
        assert simplex.rate == pytest.approx(rates.standard / rates.growth, rel=1e-7)
        assert simplex.growth == pytest.approx(rates.growth, rel=1e-12)


def test_a_random_batch_reaches_the_predicted_odd_point():
    n = 20
    batch = np.random.default_rng(1).normal(size=(n, 12))
    distances = gram_chain(batch @ batch.T / 12, 400).squared_distances[-1]
    odd = int(np.argmax(distances.sum(0)))
    others = np.array([k for k in range(n) if k != odd])
    among = distances[np.ix_(others, others)].sum() / ((n - 1) * (n - 2))
    assert among / distances[odd, others].mean() == pytest.approx(odd_shapes(n)[0].ratio, rel=1e-4)


def test_small_batches_keep_the_simplex():
    batch = np.random.default_rng(2).normal(size=(5, 5))
    distances = gram_chain(batch @ batch.T, 600).squared_distances[-1]
    off = distances[~np.eye(5, dtype=bool)]
    assert np.ptp(off) < 1e-6 * off.mean()


def test_shapes_need_homogeneous_activations():
    with pytest.raises(IsometerError, match="not positively homogeneous"):
        odd_shapes(10, "tanh")


@pytest.mark.parametrize(("name", "width"), [("relu", 4), ("relu", 40), ("identity", 7), ("abs", 7)])
def test_norms_without_normalisation_walk_as_predicted(name, width):
    rng, walk = np.random.default_rng(5), norm_walk(width, name)
    g = rng.normal(size=(100_000, width))
    squares = (2 * np.maximum(g, 0) ** 2 if name == "relu" else g * g).mean(1)
    dead = squares == 0
    assert abs(dead.mean() - walk.death) <= 5 * math.sqrt(walk.death / len(g))
    logs = np.log(squares[~dead])
    assert abs(logs.mean() - walk.drift) < 5 * logs.std() / math.sqrt(len(logs))
    assert logs.var() == pytest.approx(walk.variance, rel=0.05)
    with pytest.raises(IsometerError, match="no closed law"):
        norm_walk(width, "tanh")


def hitting_times(start, runs, seed):
    """Layers until the gap is below 1/(16d), dense Haar matrices, from diagonal starts (runs, d)."""
    rng, d = np.random.default_rng(seed), start.shape[1]
    x = np.sqrt(start)[:, :, None] * np.eye(d)
    time, layer = np.full(runs, -1), 0
    while (time < 0).any():
        values = np.linalg.svd(x, compute_uv=False) ** 2
        gap = np.log(values.mean(1)) - np.log(values).mean(1)
        time = np.where((time < 0) & (gap <= 1 / (16 * d)), layer, time)
        q, r = np.linalg.qr(rng.standard_normal((runs, d, d)))
        x = (q * np.sign(np.diagonal(r, axis1=1, axis2=2))[:, None, :]) @ x
        x, layer = x / np.linalg.norm(x, axis=2, keepdims=True), layer + 1
    return time


@pytest.mark.parametrize(("d", "runs", "allowed"), [(4, 300, 0.04), (8, 200, 0.03)])
def test_expected_hitting_times_from_two_levels(d, runs, allowed):
    # the assumption is of leading order in 1/d: a few per cent besides four standard errors
    start = np.where(np.arange(d) < d // 2, 1.0, 0.05)
    time = hitting_times(np.tile(start, (runs, 1)), runs, seed=1)
    error = time.std(ddof=1) / math.sqrt(runs)
    theory = expected_hitting_time(start)
    assert error < 0.02 * time.mean()
    assert abs(time.mean() - theory) < 4 * error + allowed * theory
    gap = math.log(start.mean()) - np.log(start).mean()
    local = math.log(gap * 16 * d) / -math.log(isometry_gap_rate(d))
    assert time.mean() - local > 6 * error  # the local rate alone is far off; at d = 4 by 9.8 of them


@pytest.mark.slow
@pytest.mark.parametrize(("d", "runs"), [(8, 60), (16, 40)])
def test_expected_hitting_times_from_gaussian_batches(d, runs):
    # paired run by run, so that the spread of the starts falls away
    rng = np.random.default_rng(d)
    x = rng.standard_normal((runs, d, d))
    x = x / np.linalg.norm(x, axis=2, keepdims=True)
    start = np.linalg.svd(x, compute_uv=False) ** 2
    time = hitting_times(start, runs, seed=2)
    theory = np.array([expected_hitting_time(values) for values in start])
    error = (time - theory).std(ddof=1) / math.sqrt(runs)
    assert abs((time - theory).mean()) < 4 * error + 0.06 * theory.mean()
    assert error < 0.03 * theory.mean()


def test_hitting_times_of_degenerate_batches():
    assert expected_hitting_time([1.0, 1.0, 1.0]) == 0.0
    assert math.isinf(expected_hitting_time([1.0, 1.0, 0.0]))
    with pytest.raises(IsometerError, match="at least 2 finite numbers"):
        expected_hitting_time([1.0])
    with pytest.raises(IsometerError, match="above 0"):
        expected_hitting_time([1.0, 0.5], target=0.0)
