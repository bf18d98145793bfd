"""The tree model against brute force, exact fractions and the statements about it (000/model-tree … 000/thm-11)."""

import itertools
import math
import time
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from isometer.errors import IsometerError
from isometer_papers.simulate.tree import (
    brute_force_tree,
    cluster_values,
    evolve_tree,
    exact_tree_grams,
    negative_transformation,
    positive_transformation,
    two_cluster_energy,
    two_cluster_row,
)

# Small whole numbers: coinciding samples and entries equal to the mean are frequent.
tied_batches = st.lists(st.integers(-4, 4), min_size=1, max_size=6)
rationals = st.fractions(-50, 50, max_denominator=40)
distinct_batches = st.lists(rationals, min_size=3, max_size=9, unique=True)


def gram_of_rows(rows):
    return np.array([[sum(a * b for a, b in zip(x, y, strict=True)) for y in rows.T] for x in rows.T], dtype=object)


@given(tied_batches)
@settings(max_examples=40, deadline=None)
def test_fractions_agree_with_brute_force_on_ties_and_repeated_samples(values):
    grams = exact_tree_grams(values, 6)
    exact = np.array([Fraction(v) for v in values], dtype=object)
    for depth in (0, 1, 2, 6):
        assert (grams[depth] == gram_of_rows(brute_force_tree(exact, depth))).all()


def relative_error(tree, layer, reference):
    """Largest relative error of a Gram matrix against fractions, with the log scale taken exactly."""
    gram, scale = tree.gram(layer), tree.log_scale(layer)
    trace = sum(np.diagonal(reference))
    shift = trace.numerator.bit_length() - trace.denominator.bit_length()
    logarithm = math.log(trace / Fraction(2) ** shift) + shift * math.log(2)
    worst = abs(scale - logarithm) / max(1.0, abs(scale))
    for mine, exact in zip(gram.ravel(), (reference / trace).ravel(), strict=True):
        if exact < Fraction(1, 10**280):  # may be below what a float can hold
            worst = max(worst, float(mine) if mine > 1e-279 or exact == 0 else 0.0)
        else:
            worst = max(worst, abs(float(Fraction(float(mine)) / exact - 1)))
    return worst


@given(st.lists(st.integers(-4, 4) | st.floats(-1e3, 1e3), min_size=2, max_size=7))
@settings(max_examples=20, deadline=None)
def test_floats_agree_with_fractions_in_every_entry(values):
    tree, exact = evolve_tree(values, 25), exact_tree_grams(values, 25)
    for layer in (1, 2, 7, 25):
        if not np.diagonal(exact[layer]).any():
            assert not tree.gram(layer).any()
            assert tree.log_scale(layer) == -math.inf
        else:
            assert relative_error(tree, layer, exact[layer]) < 1e-13


@pytest.mark.parametrize(
    "values",
    [
        [0.0, 1e-200, 1.0, 2.0, 3.0],  # gap² = 1e−400 underflows, and still decides the limit
        [1.0, 1.0 + 2**-52, 1.0 + 2**-51, 5.0],
        [1e-150, 1e150, -1e150, 3.0, 0.0],
        [-2.0, -1.0, 0.0, 1.0, 2.0],
    ],
)
def test_extreme_inputs_agree_with_fractions_at_depth_120(values):
    tree, exact = evolve_tree(values, 120), exact_tree_grams(values, 120)
    for layer in (1, 10, 40, 120):
        assert relative_error(tree, layer, exact[layer]) < 1e-12


def test_floats_agree_with_brute_force_at_twelve_layers():
    values = np.random.default_rng(0).normal(size=9)
    rows = brute_force_tree(values, 12)
    tree = evolve_tree(values, 12)
    assert rows.shape == (4096, 9)
    np.testing.assert_allclose(tree.gram(12) * math.exp(tree.log_scale(12)), rows.T @ rows, rtol=1e-12, atol=1e-18)
    assert tree.clusters[12] == max(len(cluster_values(row, tolerance=1e-12)) for row in rows)
    # Angles and lengths, from the columns themselves
    unit = rows / np.linalg.norm(rows, axis=0)
    gap = np.linalg.norm(unit[:, :, None] - unit[:, None, :], axis=0)
    np.testing.assert_allclose(tree.angles(12), 2 * np.arcsin(gap / 2), atol=1e-14)
    lengths = np.linalg.norm(rows, axis=0)
    np.testing.assert_allclose(tree.norm_ratios(12), lengths[:, None] / lengths, rtol=1e-12)


def test_deep_and_wide_in_seconds_without_over_or_underflow():
    values = np.random.default_rng(1).normal(size=40)
    start = time.perf_counter()
    tree = evolve_tree(values, 1500)
    assert time.perf_counter() - start < 15
    for layer in (0, 1, 500, 1500):
        assert np.isfinite(tree.gram(layer)).all()
        assert np.trace(tree.gram(layer)) == pytest.approx(1, abs=1e-14)
    # In the end every layer multiplies the energy by (1 + (n − 1)²)/n²: 000/eq-39-40
    rate = math.log((1 + 39**2) / 1600)
    assert tree.log_scale(1500) - tree.log_scale(1499) == pytest.approx(rate, rel=1e-11)


@given(distinct_batches, st.randoms(use_true_random=False))
@settings(max_examples=15, deadline=None)
def test_order_scale_and_offset_of_the_samples(values, random):
    order = list(range(len(values)))
    random.shuffle(order)
    tree, other = evolve_tree(values, 12), evolve_tree([3 * values[i] + 7 for i in order], 12)
    for layer in (1, 5, 12):
        np.testing.assert_allclose(other.gram(layer), tree.gram(layer)[np.ix_(order, order)], rtol=1e-12)
        assert other.log_scale(layer) - tree.log_scale(layer) == pytest.approx(2 * math.log(3), abs=1e-10)
    # A mirrored batch has the same tree with all signs swapped.
    mirrored = evolve_tree([-value for value in values], 12)
    np.testing.assert_allclose(mirrored.gram(12), tree.gram(12), rtol=1e-12)


def test_repeated_samples_have_repeated_representations():
    tree = evolve_tree([2.0, 0.0, 2.0, 5.0, 0.0, 0.0], 300)
    for layer in (0, 1, 9, 300):
        gram, angles = tree.gram(layer), tree.angles(layer)
        assert (gram[0] == gram[2]).all()
        assert (gram[1] == gram[4]).all()
        if layer:
            assert angles[0, 2] == angles[4, 5] == 0.0


def test_constant_batch_and_zero_samples_have_documented_values():
    constant = evolve_tree([3.0, 3.0, 3.0], 4)
    assert constant.clusters.tolist() == [1, 1, 1, 1, 1]
    assert not constant.gram(2).any()
    assert constant.log_scale(2) == -math.inf
    assert np.isnan(constant.angles(2)).all()
    assert np.isnan(constant.norm_ratios(2)).all()
    # The middle sample is the mean: zero at layer 1, back at layer 2
    middle = evolve_tree([-1.0, 0.0, 1.0], 2)
    assert np.isnan(middle.angles(1)[1]).all()
    assert middle.norm_ratios(1)[0, 1] == math.inf
    assert middle.angles(1)[0, 2] == pytest.approx(math.pi / 2, abs=1e-16)
    assert np.isfinite(middle.angles(2)).all()
    single = evolve_tree([4.0], 3)
    assert single.gram(0).tolist() == [[1.0]]
    assert single.gram(3).tolist() == [[0.0]]


# --- definitions and lemmas ------------------------------------------------------------------------------------------


@given(distinct_batches)
@settings(max_examples=30, deadline=None)
def test_transformations_keep_or_reverse_the_order_and_touch_zero(values):
    row = np.array(sorted(values), dtype=object)
    up, down = positive_transformation(row), negative_transformation(row)
    assert list(up) == sorted(up)
    assert list(down) == sorted(down, reverse=True)
    assert min(up) == min(down) == 0
    assert all(a * b == 0 for a, b in zip(up, down, strict=True))
    mean = sum(row) / len(row)
    assert [a - b for a, b in zip(up, down, strict=True)] == [value - mean for value in row]


@given(st.lists(st.integers(-3, 3), min_size=1, max_size=12), st.dictionaries(st.integers(-3, 3), st.integers(-2, 2)))
@settings(max_examples=40, deadline=None)
def test_no_function_makes_more_clusters(row, table):  # 000/lem-7
    image = [table.get(value, 0) for value in row]
    assert len(cluster_values(image)) <= len(cluster_values(row))
    for transformed in (positive_transformation(row), negative_transformation(row)):
        assert len(cluster_values(transformed, tolerance=1e-12)) <= len(cluster_values(row))


def test_cluster_values_with_a_tolerance():
    assert cluster_values([1.0, 1.0 + 1e-13, 2.0]).size == 3
    assert cluster_values([1.0, 1.0 + 1e-13, 2.0], tolerance=1e-12).tolist() == [1.0, 2.0]
    assert cluster_values([5.0, 5.0]).tolist() == [5.0]


@given(st.fractions(Fraction(1, 9), 9), st.integers(1, 6), st.integers(1, 6))
@settings(max_examples=25, deadline=None)
def test_two_cluster_rows(height, zeros, others):  # 000/eq-36-38, 000/eq-39-40, fig-7
    n = zeros + others
    row = np.array([Fraction(0)] * zeros + [height] * others, dtype=object)
    first_positive = last_positive = Fraction(0)
    for word in itertools.product([1, -1], repeat=5):
        image = row
        count = 0
        for sign in word:
            image = positive_transformation(image) if sign == 1 else negative_transformation(image)
            count += image[0] == 0
        predicted, zeros_left = two_cluster_row(height, zeros, n, word)
        assert max(image) == predicted
        assert sum(value == 0 for value in image) == zeros_left
        assert predicted == height * Fraction(zeros, n) ** count * Fraction(others, n) ** (5 - count)
        first_positive += image[0] ** 2
        last_positive += image[-1] ** 2
    assert two_cluster_energy(height, zeros, n, 5) == first_positive
    assert two_cluster_energy(height, others, n, 5) == last_positive


@given(
    st.lists(st.integers(0, 30), min_size=3, max_size=3, unique=True),
    st.lists(st.integers(1, 4), min_size=3, max_size=3),
)
@settings(max_examples=40, deadline=None)
def test_three_cluster_rows_have_one_child_of_three_unless_the_mean_is_met(heights, sizes):  # 000/fig-8
    values = np.array([Fraction(h) for h, size in zip(sorted(heights), sizes, strict=True) for _ in range(size)])
    children = sorted(len(cluster_values(f(values))) for f in (positive_transformation, negative_transformation))
    met = sum(values) / len(values) in values
    assert children == ([2, 2] if met else [2, 3])


# --- theorem 10 ------------------------------------------------------------------------------------------------------


def time_to_three_clusters(values, signs):
    """Transformations until a row has at most three clusters; nothing if `signs` end before."""
    row = np.array(values, dtype=object)
    for time_needed, sign in enumerate([*signs, 0]):
        if len(cluster_values(row)) <= 3:
            return time_needed
        row = positive_transformation(row) if sign == 1 else negative_transformation(row)
    return None


@given(distinct_batches, st.lists(st.sampled_from([1, -1]), min_size=1, max_size=6))
@settings(max_examples=30, deadline=None)
def test_every_sequence_of_signs_ends_with_three_clusters(values, period):  # 000/thm-10
    assert time_to_three_clusters(values, itertools.islice(itertools.cycle(period), 1000)) is not None


@given(distinct_batches)
@settings(max_examples=20, deadline=None)
def test_whole_tree_is_stable_after_the_longest_sequence(values):  # 000/thm-10
    tree = evolve_tree(values, 120)
    stable = tree.stable_layer
    assert stable is not None
    assert (np.diff(tree.clusters) <= 0).all()
    if 0 < stable <= 7:
        times = [time_to_three_clusters(values, word) for word in itertools.product([1, -1], repeat=stable)]
        assert max(times) == stable


def test_gap_of_the_printed_proof_is_not_constant():  # 000/thm-10, eq (31)
    # Five clusters before and after a negative transformation, but c₃ − c₂ goes from 1 to 2: the proof needs the
    # smallest of the inner gaps, which is kept.
    row = np.array([Fraction(v) for v in (0, 1, 2, 4, 100)])
    before, after = cluster_values(row), cluster_values(negative_transformation(row))
    assert len(before) == len(after) == 5
    assert before[2] - before[1] == 1
    assert after[2] - after[1] == 2
    assert min(np.diff(before[1:-1])) == min(np.diff(after[1:])[:-1]) == 1


# --- theorem 11 ------------------------------------------------------------------------------------------------------


def families(n):
    rng = np.random.default_rng(n)
    yield rng.normal(size=n)
    yield np.exp(3 * rng.normal(size=n))
    yield 1 + 1e-9 * rng.permutation(n) + (np.arange(n) == 0)  # nearly tied but for one
    yield np.arange(n) - (n - 1) / 2  # symmetric: both extremes leave


@pytest.mark.parametrize(("n", "depth"), [(4, 200), (6, 250), (9, 400)])
def test_limit_geometry_of_theorem_11(n, depth):
    for values in families(n):
        tree = evolve_tree(np.sort(values), depth)
        for layer in (*range(1, 12), depth):  # item 1
            assert tree.angles(layer)[0, -1] == pytest.approx(math.pi / 2, abs=1e-15)
        angles, ratios = tree.angles(depth), tree.norm_ratios(depth)
        middle = slice(1, n - 1)
        assert angles[middle, middle].max() < 1e-9  # item 2
        # Items 3 and 4 in their sharp form: with r = lim A/B, the energies of the two extreme splits, of which only
        # the larger of r and 1/r matters, the worst case is r = 1.
        nearest = np.minimum(ratios[middle, 0], ratios[middle, -1])
        assert nearest.max() <= math.sqrt(2 / ((n - 1) ** 2 + 1)) * (1 + 1e-9)
        assert nearest.max() <= 3 / (n - 2)
        widest = np.maximum(angles[middle, 0], angles[middle, -1])
        assert widest.min() >= math.acos(1 / math.sqrt(2 * ((n - 1) ** 2 + 1))) - 1e-9
        assert widest.min() >= math.pi / 2 - math.sqrt(2 * math.pi) / (n - 2)
        assert widest.max() <= math.pi / 2 + 1e-15


def test_limit_is_read_off_the_energies_of_the_extreme_splits():  # 000/eq-45-50, 000/eq-53-58
    n = 7
    tree = evolve_tree(np.sort(np.random.default_rng(3).normal(size=n)), 500)
    lower, upper = tree.split_energies(500)
    first, second = (lower + upper)[[0, -1]]
    r = first / second
    ratios, angles = tree.norm_ratios(500), tree.angles(500)
    assert ratios[3, 0] ** 2 == pytest.approx((1 + 1 / r) / ((n - 1) ** 2 + 1 / r), rel=1e-10)
    assert ratios[3, -1] ** 2 == pytest.approx((1 + r) / ((n - 1) ** 2 + r), rel=1e-10)
    assert math.cos(angles[3, 0]) == pytest.approx(1 / math.sqrt((1 + r) * (1 + (n - 1) ** 2 * r)), rel=1e-10)


def test_symmetric_batches_attain_the_sharp_bound():
    n = 11
    tree = evolve_tree(np.arange(n) - 5.0, 900)
    assert tree.norm_ratios(900)[4, 0] == pytest.approx(math.sqrt(2 / ((n - 1) ** 2 + 1)), rel=1e-10)


def test_small_angles_keep_relative_precision():
    # Middle samples differ by the split (2 | n − 2) alone in the end: θ² falls by 8/10 a layer for n = 4
    tree = evolve_tree([0.0, 1.0, 2.5, 7.0], 900)
    angles = [tree.angles(layer)[1, 2] for layer in (600, 900)]
    assert 0 < angles[1] < 1e-40
    assert angles[1] / angles[0] == pytest.approx(0.8**150, rel=1e-9, abs=0)


# --- refusals --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: evolve_tree([], 1), r"shape \(0,\); expected \(n,\)"),
        (lambda: evolve_tree([[1.0, 2.0]], 1), r"shape \(1, 2\); expected \(n,\)"),
        (lambda: evolve_tree([1.0, math.nan], 1), "1 NaN or infinite entries of 2"),
        (lambda: evolve_tree([1.0, 2.0], -1), "depth is -1"),
        (lambda: evolve_tree(["a", "b"], 1), "expected real numbers"),
        (lambda: evolve_tree([1.0, 2.0], 3).gram(4), "layer is 4; expected 0 to 3"),
        (lambda: brute_force_tree([1.0, 2.0], 17), "2\\^17 rows; expected 0 to 16 — use evolve_tree"),
        (lambda: two_cluster_row(1.0, 4, 4, [1]), "zeros is 4 of n = 4"),
        (lambda: two_cluster_row(1.0, 1, 4, [0]), "sign is 0"),
        (lambda: two_cluster_energy(1.0, 1, 4, 0), "layers is 0"),
    ],
)
def test_errors_say_what_was_expected(call, message):
    with pytest.raises(IsometerError, match=message):
        call()
