"""Paper 000: the formulas behind its claims against references of their own, and the verdicts."""

from __future__ import annotations

import math
from fractions import Fraction
from itertools import product
from typing import Any

import mpmath
import numpy as np
import pytest
from scipy import integrate, optimize, stats

from isometer.errors import IsometerError
from isometer.theory.batch_norm import gram_map
from isometer_papers.claims import claims_of, ledger
from isometer_papers.simulate.tree import brute_force_tree, evolve_tree
from isometer_papers.theory.odd_point.chain import cluster_spread, sampled_last_layer
from isometer_papers.theory.odd_point.layer import (
    centred_batch,
    expected_length,
    expected_product,
    expected_square,
    expected_squared_distance,
    invariance_factor,
    invariant_batch,
    invariant_defects,
    mean_image_product,
    odd_distance,
    recentred_relu_gram,
    stability_factor,
)
from isometer_papers.theory.odd_point.tree import (
    cosine_limit,
    inner_gaps,
    norm_ratio_limit,
    pair_energy_bound,
    pair_energy_sum,
    split_energies_after,
    split_gram,
    three_cluster_energies,
    two_cluster_sum,
)
from isometer_papers.theory.rank.relu import (
    chernoff_exponent,
    circle_batch,
    circle_cell_volumes,
    full_rank_exponent,
    full_rank_exponent_simple,
    image_points,
    least_cell_volume,
    nearest_column,
    neurons_until_full_rank,
    pair_step_tail,
    pair_steps_joint,
    plane_cells,
    rank_gain_probability,
    sampled_least_cell_volume,
    sign_flip,
)


def relu(x: Any) -> Any:
    return np.maximum(x, 0.0)


# --- cells and ranks ------------------------------------------------------------


def test_cells_against_sign_patterns() -> None:
    """Frequencies of sign patterns of Gaussian weights, within five standard errors of the arcs."""
    rng = np.random.default_rng(0)
    x = rng.standard_normal((4, 2))
    cells = plane_cells(x)
    assert cells.volumes.sum() == pytest.approx(1)
    assert len(cells.volumes) == 8  # central arrangement of 4 lines
    signs = rng.standard_normal((100_000, 2)) @ x.T > 0
    for volume, inner in zip(cells.volumes, cells.inside, strict=True):
        share = (signs == (x @ inner > 0)).all(axis=1).mean()
        assert abs(share - volume) < 5 * math.sqrt(volume / 100_000)
    estimate = sampled_least_cell_volume(x, draws=100_000, rng=rng)
    assert estimate == pytest.approx(least_cell_volume(x), rel=0.1)


@pytest.mark.parametrize("n", [1, 3, 5, 9])
def test_circle_has_2n_cells_of_one_volume(n: int) -> None:
    assert circle_cell_volumes(n) == [Fraction(1, 2 * n)] * (2 * n)
    assert plane_cells(circle_batch(n)).volumes == pytest.approx([1 / (2 * n)] * (2 * n))


def test_zero_samples_have_no_cells() -> None:
    with pytest.raises(IsometerError, match="without a zero sample"):
        plane_cells([[0.0, 0.0]])


@pytest.mark.parametrize("seed", [0, 1, 2, 3])
def test_rank_gain_against_draws(seed: int) -> None:
    """Share of new neurons that raise the rank by NumPy's matrix_rank; mpmath gives the same number."""
    rng = np.random.default_rng(seed)
    x, w = rng.standard_normal((4, 2)), np.zeros((0, 2))
    while len(w) == 0 or np.linalg.matrix_rank(relu(w @ x[:3].T)) < 3:
        w = np.concatenate([w, rng.standard_normal((1, 2))])
    chance = float(rank_gain_probability(x, w))
    new = rng.standard_normal((1500, 2))
    hits = [np.linalg.matrix_rank(relu(np.concatenate([w, row[None]]) @ x.T)) == 4 for row in new]
    assert abs(np.mean(hits) - chance) < 5 * math.sqrt(max(chance * (1 - chance), 1e-3) / 1500)
    lift = np.vectorize(mpmath.mpf, otypes=[object])
    with mpmath.workdps(50):
        assert float(rank_gain_probability(lift(x), lift(w))) == pytest.approx(chance)


def test_exponent_is_the_best_chernoff_bound() -> None:
    for alpha, gamma in ((2.5, 0.3), (4.0, 0.05), (1.2, 0.5)):
        top = -math.log(1 - gamma)
        found = optimize.minimize_scalar(
            lambda s, a=alpha, g=gamma: -chernoff_exponent(a, g, s), bounds=(0, top - 1e-9)
        )
        assert -found.fun == pytest.approx(full_rank_exponent(alpha, gamma), rel=1e-6)
        assert full_rank_exponent(alpha, 1e-6) == pytest.approx(full_rank_exponent_simple(alpha), rel=1e-4)


def test_two_steps_against_a_plain_simulation() -> None:
    """Two samples at the angle π/4: rows are added and ranks taken by NumPy."""
    rng = np.random.default_rng(5)
    share, x = 0.25, np.array([[1.0, 0.0], [math.sqrt(0.5), math.sqrt(0.5)]])
    steps = []
    for _ in range(4000):
        w = rng.standard_normal((60, 2))
        hidden = relu(w @ x.T)
        first = int(np.argmax(hidden[:, 0] > 0)) + 1
        second = next(r for r in range(1, 61) if np.linalg.matrix_rank(hidden[:r]) == 2)
        steps.append((first, second - first))
    steps = np.array(steps)
    together, apart = pair_steps_joint(share)
    assert np.mean((steps[:, 0] == 1) & (steps[:, 1] == 0)) == together == 0
    assert np.mean(steps[:, 0] == 1) * np.mean(steps[:, 1] == 0) == pytest.approx(apart, abs=0.02)
    for first, more in ((1, 1), (1, 3), (2, 0), (2, 1)):
        chosen = steps[steps[:, 0] == first, 1]
        tail = pair_step_tail(share, first, more)
        assert abs(np.mean(chosen > more) - tail) < 5 * math.sqrt(tail * (1 - tail) / len(chosen)) + 1e-9
    mine = np.array([neurons_until_full_rank(x, rng=rng, limit=500) for _ in range(2000)])
    assert stats.ks_2samp(mine, steps.sum(axis=1)).pvalue > 1e-4
    parts = np.array([neurons_until_full_rank(x, rng=rng, limit=500, steps=True) for _ in range(1000)])
    assert stats.ks_2samp(parts[:, 1], steps[:, 1]).pvalue > 1e-4


def test_centred_batches_can_lose_rank() -> None:
    rng = np.random.default_rng(0)
    line = np.array([[1.0, 1.0], [2.0, 1.0], [-3.0, 1.0]])
    assert neurons_until_full_rank(line, rng=rng, limit=200, recenter=True) == 200
    assert neurons_until_full_rank(line, rng=rng, limit=200) < 200


def test_image_of_the_plane() -> None:
    w = np.random.default_rng(1).standard_normal((6, 2))
    dense = relu(circle_batch(2000) @ w.T)
    assert np.linalg.matrix_rank(image_points(w)) == np.linalg.matrix_rank(dense) == 6


def test_flip_of_the_nearest_sign() -> None:
    x, w = np.array([[0.5, 0.0], [4.0, -2.0]]), np.array([1.0, 1.0])
    assert nearest_column(x, w, normalized=False) == 0
    assert (sign_flip(x, w, 0, squared=True) < 0).all()  # both signs change
    after = sign_flip(x, w, nearest_column(x, w, normalized=True), squared=True)
    assert (after > 0).tolist() == [True, False]


# --- the tree ------------------------------------------------------------


def test_split_energies_against_all_rows() -> None:
    """Two rows of five samples, five layers, every descendant computed."""
    rows = [np.array([0.0, 0.0, 3.0, 3.0, 3.0]), np.array([2.0, 2.0, 2.0, 2.0, 0.0])]
    lower, upper = np.zeros(4), np.zeros(4)
    upper[1], lower[3] = 9.0, 4.0
    below = np.concatenate([brute_force_tree(row, 5) for row in rows])
    unit = ((1 + 16) / 25) ** 4
    gram = split_gram(*split_energies_after(lower, upper, 5)) * unit
    np.testing.assert_allclose(gram, below.T @ below, rtol=1e-12)
    assert two_cluster_sum(3.0, 2, 5, 5) == pytest.approx((brute_force_tree(rows[0], 5)[:, 0] ** 2).sum())


def test_limits_of_a_symmetric_tree() -> None:
    """Equal energies at both ends: the sharp constants of Theorem 11."""
    n = 6
    tree = evolve_tree([-5.0, -2.0, -1.0, 1.0, 2.0, 5.0], 300)
    gram = tree.gram(300)
    assert gram[2, 2] / gram[0, 0] == pytest.approx(norm_ratio_limit(1.0, n), rel=1e-9)
    assert norm_ratio_limit(1.0, n) == pytest.approx(2 / (25 + 1))
    cosine = gram[2, 0] / math.sqrt(gram[2, 2] * gram[0, 0])
    assert cosine == pytest.approx(cosine_limit(1.0, n), rel=1e-9)


@pytest.mark.parametrize(("middle", "n"), [(0.3, 4), (0.9, 6), (0.05, 5)])
def test_three_clusters_against_all_rows(middle: float, n: int) -> None:
    row = np.array([0.0, middle] + [1.0] * (n - 2))
    for layers in (1, 2, 6):
        below = brute_force_tree(row, layers)
        pairs = [r for r in below if abs(r[0] - r[1]) < 1e-14 and r.max() > 0 and abs(r[1] - r[2]) > 1e-14]
        second, other, largest = three_cluster_energies(middle, 1.0, n, layers)
        assert second == pytest.approx(sum(r[1] ** 2 for r in pairs), abs=1e-14)
        assert other == pytest.approx(sum(r[2] ** 2 for r in pairs), abs=1e-14)
        three = [r.max() for r in below if len(np.unique(r.round(13))) == 3]
        assert largest == pytest.approx(max(three))
        if layers > 1:
            assert max(second, other) <= pair_energy_sum(n, layers) <= pair_energy_bound(n, layers)


def test_inner_gaps_survive_a_negative_transformation() -> None:
    row = np.array([0, 1, 2, 4, 100])
    image = relu(row.mean() - row)
    assert inner_gaps(row.tolist()) == inner_gaps(image.round(9).tolist()) == [1, 2]


# --- the invariant geometry ------------------------------------------------------------


def test_invariant_representation() -> None:
    turn, _ = np.linalg.qr(np.random.default_rng(0).standard_normal((5, 5)))
    batch = invariant_batch(7, 5) @ turn
    assert max(abs(float(v)) for v in invariant_defects(batch)) < 1e-12
    assert float(odd_distance(batch)) == pytest.approx(math.sqrt(1 + 1 / 36))
    assert float(odd_distance(batch)) < 7 / 6  # what 000/thm-14 asks for is out of reach
    with pytest.raises(IsometerError, match="at least 2"):
        invariant_batch(1)


def test_expectations_against_draws() -> None:
    """Mean matrix, mean square and mean length of relu(Wx̃), within five standard errors."""
    rng = np.random.default_rng(2)
    n, d = 4, 3
    tilde = np.asarray(centred_batch(invariant_batch(n)))
    energy = 2 * invariance_factor(n)
    w = rng.standard_normal((60_000, d, 2)) * math.sqrt(energy / d)
    odd, centre = relu(w @ tilde[0]), relu(w @ tilde[-1])
    square = (odd**2).sum(axis=1)
    assert abs(square.mean() - 1) < 5 * square.std() / math.sqrt(60_000)
    assert expected_square(tilde[0], energy) == pytest.approx(1)
    length = np.sqrt(square)
    exact = float(expected_length(tilde[0], d, energy / d))
    assert abs(length.mean() - exact) < 5 * length.std() / math.sqrt(60_000)
    assert exact < 1
    assert odd.mean(axis=0) @ centre.mean(axis=0) == pytest.approx(
        float(mean_image_product(tilde[0], tilde[-1], energy)), rel=0.03
    )
    assert float(mean_image_product(tilde[0], tilde[0], energy)) == pytest.approx(1 / math.pi)
    assert (odd * centre).sum() == 0


@pytest.mark.parametrize("rho", [-0.7, 0.0, 0.4, 0.95])
def test_kernel_against_quadrature(rho: float) -> None:
    """E relu(u)relu(v) in polar coordinates: ½ E r² times a mean over the circle."""
    x, y = np.array([1.0, 0.0]), np.array([rho, math.sqrt(1 - rho**2)])
    turn = math.acos(rho)
    ends = sorted({-math.pi / 2, math.pi / 2, turn - math.pi / 2, min(turn + math.pi / 2, math.pi)})
    value, _ = integrate.quad(
        lambda t: max(math.cos(t), 0) * max(math.cos(t - turn), 0), -math.pi, math.pi, points=ends, epsabs=1e-12
    )
    assert float(expected_product(x, y, 2.0)) == pytest.approx(2 * 2 * value / (2 * math.pi), abs=1e-9)
    distance = float(expected_squared_distance(x, y, 2.0))
    assert distance == pytest.approx(2 - 2 * float(expected_product(x, y, 2.0)))
    assert distance < (x - y) @ (x - y)


def test_gram_step_in_two_ways() -> None:
    x = np.random.default_rng(3).standard_normal((6, 4))
    other = gram_map(x @ x.T, "relu", recenter=True)
    np.testing.assert_allclose(recentred_relu_gram(x @ x.T), other / np.trace(other), rtol=1e-9)
    lift = np.vectorize(mpmath.mpf, otypes=[object])
    np.testing.assert_allclose(recentred_relu_gram(lift(x @ x.T)).astype(float), other / np.trace(other), rtol=1e-12)


def test_chain_in_law() -> None:
    """Mean Gram matrix of one layer against the kernel map, for k below and above n; five standard errors."""
    rng = np.random.default_rng(4)
    for k in (2, 9):
        x = rng.standard_normal((5, k))
        last = sampled_last_layer(np.repeat(x[None], 3000, axis=0), width=40, depth=1, rng=rng)
        grams = last @ np.swapaxes(last, 1, 2)
        ratio = grams[:, 0, 1].mean() / grams[:, 0, 0].mean()
        exact = gram_map(x @ x.T, "relu", recenter=True)
        error = grams[:, 0, 1].std() / math.sqrt(3000) / grams[:, 0, 0].mean()
        assert abs(ratio - exact[0, 1] / exact[0, 0]) < 6 * error + 5e-3
    normalized = sampled_last_layer(x[None], width=50, depth=3, rng=rng, rescale=True)
    assert ((normalized**2).mean(axis=1) <= 1 + 1e-9).all()
    with pytest.raises(IsometerError, match="expected \\(runs, n, k\\)"):
        sampled_last_layer(x, width=5, depth=1, rng=rng)


def test_spread_by_hand() -> None:
    batch = np.array([[[10.0, 0.0], [0.0, 2.0], [0.0, -2.0], [0.0, 0.0]]])
    assert cluster_spread(batch) == pytest.approx([0.2])


# --- verdicts ------------------------------------------------------------

REFUTED = {
    "000/K-gt-ip",
    "000/appE-mid:exactly-one",
    "000/cor-4:item-1",
    "000/cor-4:item-2",
    "000/eq-112-117:115",
    "000/eq-112-117:last",
    "000/eq-26-28:independence",
    "000/eq-35:d",
    "000/eq-41-43:sets",
    "000/eq-45-50:48",
    "000/eq-63-73:positive",
    "000/eq-81-94:87-step",
    "000/eq-81-94:92",
    "000/example-circle:cells",
    "000/example-circle:gamma",
    "000/fig-8",
    "000/init-one-neuron-per-sample:every",
    "000/intuition-3steps:effect",
    "000/lem-2:eq-19",
    "000/lem-2:eq-20",
    "000/odd-emergence:cluster",
    "000/odd-emergence:far",
    "000/odd-emergence:infinite-width",
    "000/odd-emergence:one-point",
    "000/thm-10:eq-31-mixed",
    "000/thm-13:item-1",
    "000/thm-13:item-2",
    "000/thm-13:item-3",
    "000/thm-14:item-1-unsquared",
    "000/thm-14:item-2-unsquared",
}
VACUOUS = {f"000/thm-14:item-{item}" for item in (1, 2, 3, 4)}


def test_shipped_verdicts() -> None:
    shipped = {row.id: row.verdict for row in ledger("000")}
    assert set(shipped) == {claim.id for claim in claims_of("000")}
    assert {i for i, verdict in shipped.items() if verdict == "refuted"} == REFUTED
    assert {i for i, verdict in shipped.items() if verdict == "vacuous"} == VACUOUS
    assert not {i for i, verdict in shipped.items() if verdict == "inconclusive"}


@pytest.fixture(scope="module")
def found() -> dict[str, Any]:
    return {row.id: row.counterexample["instance"] for row in ledger("000") if row.counterexample is not None}


def test_tree_counterexamples_by_hand(found: dict[str, Any]) -> None:
    """The shipped ones, recomputed with nothing but NumPy."""
    row = np.array(found["000/fig-8"]["x"])
    assert [len(np.unique(relu(s * (row - row.mean())))) for s in (1, -1)] == [2, 2]
    deep = np.array(found["000/appE-mid:exactly-one"]["x"])
    for signs in product((1, -1), repeat=found["000/appE-mid:exactly-one"]["T"]):
        image = deep
        for sign in signs:
            image = relu(sign * (image - image.mean()))
        assert len(np.unique(image.round(12))) < 3
    mixed = found["000/thm-10:eq-31-mixed"]
    rows = [np.array(mixed["x"])]
    for sign in mixed["signs"]:
        rows.append(relu(sign * (rows[-1] - rows[-1].mean())))
    gaps = [np.diff(np.unique(r.round(9)))[1] for r in rows[1:]]
    assert len({len(np.unique(r.round(9))) for r in rows}) == 1
    assert abs(gaps[-1] - gaps[0]) > 1e-6
    twice = np.array(found["000/eq-35:d"]["x"])
    assert found["000/eq-35:d"]["signs"] == [-1, -1]
    once = relu(twice.mean() - twice)
    assert len(np.unique(relu(once.mean() - once).round(9))) == len(twice) > 3


def test_other_counterexamples_by_hand(found: dict[str, Any]) -> None:
    n = found["000/example-circle:gamma"]["n"]
    x = np.stack([[math.cos(2 * math.pi * i / n), math.sin(2 * math.pi * i / n)] for i in range(n)])
    t = 2 * np.pi * (np.arange(20_000) + 0.5) / 20_000
    patterns, counts = np.unique(np.stack([np.cos(t), np.sin(t)], 1) @ x.T > 0, axis=0, return_counts=True)
    assert len(patterns) == 2 * n
    assert counts.min() / 20_000 == pytest.approx(1 / (2 * n), abs=1e-3)
    batch = np.array(found["000/cor-4:item-1"]["X"])
    z = (batch - batch.mean(axis=0)) @ np.random.default_rng(0).standard_normal((2, 500))
    assert np.linalg.matrix_rank(relu(z)) < len(batch)
    assert np.linalg.matrix_rank(np.stack([batch[0], batch[1]])) == 2
    pair = found["000/K-gt-ip"]
    a, b = np.array(pair["x"]), np.array(pair["y"])
    assert np.linalg.norm(a) * np.linalg.norm(b) == a @ b  # parallel and different
    assert not np.array_equal(a, b)
    points = np.array(found["000/init-one-neuron-per-sample:every"]["x"])
    own = points[found["000/init-one-neuron-per-sample:every"]["index"]]
    assert points.min() < own < points.max()


def test_no_odd_point_in_three_samples(found: dict[str, Any]) -> None:
    """The layer by its integral in closed form, iterated in NumPy: all three lengths become equal."""
    x = np.array(found["000/odd-emergence:infinite-width"]["X"])
    gram = x @ x.T
    centring = np.eye(len(x)) - 1 / len(x)
    for _ in range(found["000/odd-emergence:infinite-width"]["depth"]):
        inner = centring @ gram @ centring
        size = np.sqrt(np.diag(inner))
        rho = np.clip(inner / np.outer(size, size), -1, 1)
        gram = np.outer(size, size) * (np.sqrt(1 - rho**2) + (np.pi - np.arccos(rho)) * rho)
        gram /= np.trace(gram)
    assert np.diag(gram) == pytest.approx(np.full(len(x), 1 / len(x)), rel=1e-6)


def test_stability_factor_of_the_theorem() -> None:
    """α‖x̃_1‖² = 1 for any place of the cluster."""
    x = np.array([[5.0, 1.0], [0.2, 0.1], [0.1, 0.2]])
    assert stability_factor(3, odd_distance(x)) * (centred_batch(x)[0] ** 2).sum() == pytest.approx(1)
