"""Infinite-width maps against 30-digit integrals, closed forms and the statements about them."""

import math

import mpmath as mp
import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from isometer import activation
from isometer.errors import IsometerError
from isometer.theory.batch_norm import (
    gram_chain,
    gram_map,
    ratio_expectation,
    smallest_share_bound,
    spectrum_chain,
    spectrum_map,
)

eigenvalues = st.floats(-24, 0).map(lambda exponent: 10.0**exponent)
spectra = st.lists(eigenvalues | st.just(0.0) | st.sampled_from([1.0, 1e-3]), min_size=1, max_size=12).filter(any)


def exact_share(spectrum, index):
    """p_i by Gauss–Legendre panels in t = log 2θ at 30 digits, with mpmath's own error estimate."""
    with mp.workdps(30):
        values = [mp.mpf(float(value)) for value in spectrum if value > 0]
        own = mp.mpf(float(spectrum[index]))
        left, right = -mp.log(sum(values)) - 50, -mp.log(min(values)) + mp.mpf(100) / len(values) + 5
        panels = mp.linspace(left, right, int((right - left) / 4) + 2)
        powers = [(value, -mp.mpf(values.count(value)) / 2) for value in set(values)]

        def integrand(t):  # of p_i/λ_i, so that mpmath's absolute tolerance is a relative one
            x = mp.exp(t)
            return x / (1 + x * own) * mp.fprod((1 + x * value) ** power for value, power in powers) / 2

        value, error = mp.quad(integrand, panels, method="gauss-legendre", error=True)
        assert error < 1e-16 * value
        return own * value


# --- the spectrum map ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("spectrum", "indices"),
    [
        ([1.0, 1e-12, 1e-24], (0, 1, 2)),
        ([1.0, 1.0, 0.5, 1e-24, 1e-24, 0.0], (0, 2, 3)),
        ([3.0, 2.0, 1.0, 0.5], (0, 3)),
        ([1.0] + [1e-12] * 30, (0, 1)),
        (list(np.geomspace(1e-24, 1, 16)), (0, 15)),
        ([1.0] * 150 + [1e-6] * 50, (0, 199)),
    ],
)
def test_shares_match_30_digit_integrals_within_their_error(spectrum, indices):
    shares, errors = spectrum_map(spectrum)
    for index in indices:
        exact = exact_share(spectrum, index)
        difference = abs(mp.mpf(float(shares[index])) - exact)
        assert difference <= 1e-12 * exact
        assert difference <= errors[index]
        assert errors[index] <= 1e-12 * shares[index]


@given(st.floats(-300, 300), st.floats(-300, 300))
@settings(max_examples=40, deadline=None)
def test_two_samples_have_a_closed_form(first, second):
    roots = np.array([10 ** (first / 2), 10 ** (second / 2)])
    shares, errors = spectrum_map([10.0**first, 10.0**second])
    exact = roots / roots.sum()
    np.testing.assert_allclose(shares, exact, rtol=1e-11)  # 10^x/2 against the root of 10^x: rounding of the inputs
    assert (errors <= 1e-12 * shares).all()


def test_error_of_a_truncated_integral_is_reported(monkeypatch):
    # Both rules miss the same tail; Σ p_i = 1 shows it.
    monkeypatch.setattr("isometer.theory.batch_norm._gram_maps._NEGLIGIBLE", 8.0)
    shares, errors = spectrum_map([4.0, 1.0])
    missing = np.abs(shares - np.array([2, 1]) / 3)
    assert (missing > 1e-6).all()
    assert (missing <= errors).all()


@given(spectra)
@settings(max_examples=40, deadline=None)
def test_shares_sum_to_one_and_keep_the_order(spectrum):
    spectrum = np.array(spectrum)
    shares, errors = spectrum_map(spectrum)
    assert shares.sum() == pytest.approx(1, abs=1e-13)
    assert ((shares == 0) == (spectrum == 0)).all()
    order = np.argsort(spectrum, kind="stable")
    assert (np.diff(shares[order]) >= 0).all()
    assert (errors <= 1e-12 * shares).all()
    # Ratios contract: log p_i/p_j is between 0 and log λ_i/λ_j
    positive = spectrum > 0
    logs, before = np.log(shares[positive]), np.log(spectrum[positive])
    assert (np.abs(logs[:, None] - logs) <= np.abs(before[:, None] - before) + 1e-12).all()


@given(spectra, st.floats(-200, 200), st.randoms(use_true_random=False))
@settings(max_examples=40, deadline=None)
def test_scale_order_and_zeros_do_not_matter(spectrum, exponent, random):
    shares = spectrum_map(spectrum).eigenvalues
    order = list(range(len(spectrum)))
    random.shuffle(order)
    moved = spectrum_map([spectrum[i] * 2.0 ** int(exponent) for i in order] + [0.0]).eigenvalues
    np.testing.assert_allclose(moved[:-1], shares[order], rtol=1e-12)
    assert moved[-1] == 0


def test_equal_eigenvalues_are_fixed_and_leading_dimensions_kept():
    for n in (1, 2, 7, 200):
        np.testing.assert_allclose(spectrum_map(np.full(n, 3.0)).eigenvalues, 1 / n, rtol=1e-14)
    batch = np.random.default_rng(0).exponential(size=(2, 3, 4))
    result = spectrum_map(batch)
    assert result.eigenvalues.shape == result.error.shape == (2, 3, 4)
    assert (result.eigenvalues[1, 2] == spectrum_map(batch[1, 2]).eigenvalues).all()


def test_definition_by_monte_carlo():
    # 4·10⁵ draws: standard error below 8e-4; a share that is off by 4e-3 fails with probability above 0.99.
    spectrum = np.array([1.0, 0.3, 0.02])
    weights = np.random.default_rng(7).normal(size=(400_000, 3)) ** 2 * spectrum
    ratios = weights / weights.sum(axis=1, keepdims=True)
    standard_error = ratios.std(axis=0) / math.sqrt(len(ratios))
    assert (standard_error < 8e-4).all()
    assert (np.abs(ratios.mean(axis=0) - spectrum_map(spectrum).eigenvalues) < 4.5 * standard_error).all()


def test_chain_of_two_samples_halves_the_logarithm_of_the_ratio():
    chain = spectrum_chain([1.0, 1e-20], 30).eigenvalues
    for layer in range(31):
        ratio = 10 ** (-20 / 2**layer)
        np.testing.assert_allclose(chain[layer], [1 / (1 + ratio), ratio / (1 + ratio)], rtol=1e-12)


def test_chain_orthogonalises_what_has_full_rank():
    chain, errors = spectrum_chain([1.0, 1e-12, 1e-12, 0.0], 200)
    assert chain.shape == errors.shape == (201, 4)
    np.testing.assert_allclose(chain[-1], [1 / 3, 1 / 3, 1 / 3, 0], rtol=1e-12)
    batch = spectrum_chain(np.array([[1.0, 2.0], [1e300, 1e300]]), 3).eigenvalues
    assert batch.shape == (2, 4, 2)
    assert np.isfinite(batch).all()


@given(st.lists(st.floats(-6, 0).map(lambda e: 10.0**e), min_size=2, max_size=16))
@settings(max_examples=40, deadline=None)
def test_drift_of_the_smallest_eigenvalue(values):  # 003/lem-8, 001/lem-A.5, 001/eq-A.11
    spectrum = np.sort(values)[::-1] / np.sum(values)
    n, smallest = len(values), float(np.sort(values)[0] / np.sum(values))
    share = float(spectrum_map(spectrum).eigenvalues[-1])
    deficit = 1 / n - smallest
    assert 1 / n - share <= (1 - 2 * n / (n + 2) * smallest) * deficit + 1e-14
    assert 1 / n - share <= (1 - 2 / 3 * smallest) * deficit + 1e-14
    assume(deficit >= 0)
    bound = smallest_share_bound(min(deficit, 1 / n), n)
    if smallest > 1e-9:  # the deficit is rounded to 1e−16, the smallest eigenvalue that it stands for likewise
        assert share >= smallest * bound * (1 - 1e-6)


# --- its helpers -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("n", [2, 3, 40])
def test_smallest_share_bound(n):
    assert smallest_share_bound(0.0, n) == pytest.approx(1, rel=1e-13, abs=0)
    h = 1e-4 / n
    slope = (smallest_share_bound(h, n) - smallest_share_bound(0.0, n)) / h
    assert slope == pytest.approx(2 * n / (n + 2), rel=2e-3)
    grid = np.array([smallest_share_bound(d, n) for d in np.linspace(0, 0.98 / n, 25)])
    assert (np.diff(grid, 2) > 0).all()  # 001/lem-A.7
    assert (grid >= 1 + 2 * n / (n + 2) * np.linspace(0, 0.98 / n, 25) - 1e-13).all()
    assert smallest_share_bound(1 / n, n) == (math.inf if n <= 3 else (n - 1) / (n - 3))
    with mp.workdps(22):
        a, b = mp.mpf(1) / n - mp.mpf(0.3 / n), mp.mpf(1) / n + mp.mpf(0.3 / n) / (n - 1)
        exact = mp.quad(
            lambda t: mp.exp(t) / 2 * (1 + mp.exp(t) * a) ** -1.5 * (1 + mp.exp(t) * b) ** (-mp.mpf(n - 1) / 2),
            mp.linspace(-45, 90, 34),
        )
        assert abs(smallest_share_bound(0.3 / n, n) / exact - 1) < 1e-13


def test_integrand_of_the_bound_is_convex_for_each_theta():  # 003/lem-10
    for n in (2, 5, 32):
        delta = np.linspace(0, 1 / n, 101)
        for theta in 10.0 ** np.arange(-3, 5):
            a, b = 1 + 2 * theta * (1 / n - delta), 1 + 2 * theta * (1 / n + delta / (n - 1))
            values = a**-1.5 * b ** (-(n - 1) / 2)
            assert (np.diff(values, 2) >= -1e-14 * values[1:-1]).all()


@pytest.mark.parametrize(("numerator", "denominator"), [(1, 3), (4, 3), (7, 12), (2, 50)])
def test_ratio_of_independent_chi_squares(numerator, denominator):
    # X₂ ~ χ²_m independent of X₁ ~ χ²_k: E[X₂ exp(θX₁)] = m (1 − 2θ)^{−k/2} and E[X₂/X₁] = m/(k − 2)
    ratio = ratio_expectation(lambda t: numerator * (1 - 2 * t) ** (-denominator / 2))
    assert abs(ratio.value - numerator / (denominator - 2)) <= ratio.error <= 1e-10 * ratio.value


def test_ratio_expectation_is_the_spectrum_map():
    spectrum = np.array([1.0, 0.4, 0.1])

    def slope(theta):
        product = np.prod(1 - 2 * np.multiply.outer(theta, spectrum), axis=-1)
        return spectrum[1] / (1 - 2 * theta * spectrum[1]) / np.sqrt(product)

    assert ratio_expectation(slope).value == pytest.approx(spectrum_map(spectrum).eigenvalues[1], rel=1e-12)


@pytest.mark.parametrize("power", [-1.0, -0.5])
def test_infinite_expectation_is_refused(power):
    with pytest.raises(IsometerError, match="did not converge"):
        ratio_expectation(lambda t: (1 - 2 * t) ** power)


# --- the Gram map ----------------------------------------------------------------------------------------------------


def exact_pair(first, second, inner, right, left):
    """E φ(X)φ(Y) at 22 digits by one integral: the conditional mean of φ(Y) given X has a closed form."""
    with mp.workdps(22):
        p, q, c = mp.mpf(first), mp.mpf(second), mp.mpf(inner)
        rest = mp.sqrt(q - c * c / p)

        def conditional(x):
            mean = c / p * x
            positive = mean * mp.ncdf(mean / rest) + rest * mp.npdf(mean / rest)
            return right * positive + left * (mean - positive)

        def integrand(x):
            return (right if x > 0 else left) * x * conditional(x) * mp.npdf(x, 0, mp.sqrt(p))

        reach = 11 * mp.sqrt(p)
        return mp.quad(integrand, mp.linspace(-reach, 0, 8)) + mp.quad(integrand, mp.linspace(0, reach, 8))


@pytest.mark.parametrize(
    ("text", "right", "left"),
    [("leaky_relu(0.25)", 1, 0.25), ("abs", 1, -1), ("scaled(relu, 3)", 3, 0)],
)
@pytest.mark.parametrize("gram", [[[1.0, 0.25], [0.25, 0.5]], [[2.0, -0.875], [-0.875, 0.5]]])
def test_homogeneous_activations_match_22_digit_integrals(text, right, left, gram):
    result = gram_map(gram, text)
    exact = exact_pair(gram[0][0], gram[1][1], gram[0][1], right, left)
    assert abs(float(result[0, 1] - exact)) <= 4e-15 * math.sqrt(gram[0][0] * gram[1][1]) * right**2
    np.testing.assert_allclose(np.diagonal(result), (right**2 + left**2) / 2 * np.diagonal(gram), rtol=1e-15)
    assert result[0, 1] == result[1, 0]


def arc_cosine(first, second, inner):
    """E relu relu by the arc-cosine kernel at 60 digits."""
    with mp.workdps(60):
        size = mp.sqrt(mp.mpf(first) * mp.mpf(second))
        theta = mp.acos(mp.mpf(inner) / size)
        return size * (mp.sin(theta) + (mp.pi - theta) * mp.cos(theta)) / (2 * mp.pi)


@given(st.floats(-15, -0.1), st.sampled_from([1, -1]), st.floats(-8, 8))
@settings(max_examples=50, deadline=None)
def test_relu_near_parallel_and_antiparallel_samples(exponent, sign, scale):
    cosine = sign * (1 - 10.0**exponent)
    other = 4.0 ** int(scale)
    inner = cosine * math.sqrt(other)  # exact: a power of two
    result = gram_map([[1.0, inner], [inner, other]], "relu")[0, 1]
    exact = float(arc_cosine(1.0, other, inner))
    gap = 1 - abs(cosine)
    if sign > 0:
        assert result == pytest.approx(exact, rel=4e-15, abs=0)
    else:  # E relu relu ≈ (π − θ)³/(6π): what rounding 1 + ρ to 2⁻⁵³ leaves of it
        assert result == pytest.approx(exact, rel=1e-14 + 4e-16 / gap, abs=0)


def test_agrees_with_the_kernel_of_the_activation():
    rho = np.array([-1.0, -0.7, 0.0, 0.3, 1.0])
    for text in ("relu", "leaky_relu(0.1)", "abs"):
        for r in rho:
            assert gram_map([[1.0, r], [r, 1.0]], text)[0, 1] == pytest.approx(activation(text).kernel(r), abs=1e-15)


def random_gram(n, d=12, seed=0):
    batch = np.random.default_rng(seed).normal(size=(n, d)) * np.random.default_rng(seed + 1).exponential(size=(n, 1))
    return batch @ batch.T / d


def exact_chain(gram, depth):
    """Recentring and ReLU at 60 digits, as matrices of mpf divided by their trace, with log traces and distances."""
    with mp.workdps(60):
        n = len(gram)
        state, scale, out = [[mp.mpf(float(x)) for x in row] for row in gram], mp.mpf(0), []
        for _ in range(depth + 1):
            trace = mp.fsum(state[i][i] for i in range(n))
            state, scale = [[x / trace for x in row] for row in state], scale + mp.log(trace)
            out.append((state, scale))
            rows = [mp.fsum(row) / n for row in state]
            mean = mp.fsum(rows) / n
            centred = [[state[i][j] - rows[i] - rows[j] + mean for j in range(n)] for i in range(n)]
            state = [
                [
                    centred[i][i] / 2 if i == j else arc_cosine(centred[i][i], centred[j][j], centred[i][j])
                    for j in range(n)
                ]
                for i in range(n)
            ]
        return out


def clustered_batch(offsets):
    """An odd sample and a tight cluster orthogonal to it, whose Gram matrix is exact in floats."""
    batch = np.array([[0, 0, 1.0], *([0.25, 2.0**-26 * a, 2.0**-26 * b] for a, b in offsets)])
    return batch @ batch.T


@pytest.mark.parametrize("gram", [random_gram(4, seed=4), clustered_batch([(0, 0), (1, 1), (1, -1)])])
def test_chain_matches_60_digits(gram):
    n, depth = 4, 20
    chain, exact = gram_chain(gram, depth), exact_chain(gram, depth)
    for layer in range(depth + 1):
        state, scale = exact[layer]
        assert chain.log_scale[layer] == pytest.approx(float(scale), abs=1e-12)
        for i in range(n):
            for j in range(i):
                assert chain.gram[layer, i, j] == pytest.approx(float(state[i][j]), rel=1e-11, abs=1e-15)
                with mp.workdps(60):
                    distance = float(state[i][i] + state[j][j] - 2 * state[i][j])
                # 1e−15 of the squared lengths in a tight cluster: the Gram matrix alone would have lost it
                assert chain.squared_distances[layer, i, j] == pytest.approx(distance, rel=1e-12, abs=0)


def test_chain_is_the_iterated_map():
    gram = random_gram(6)
    for text, recenter in (("relu", True), ("leaky_relu(0.1)", False), ("abs", True)):
        chain = gram_chain(gram, 4, text, recenter=recenter)
        state = gram
        for layer in range(5):
            np.testing.assert_allclose(chain.gram[layer] * math.exp(chain.log_scale[layer]), state, atol=1e-13)
            state = gram_map(state, text, recenter=recenter)


@given(st.integers(3, 12))
@settings(max_examples=6, deadline=None)
def test_symmetric_batch_stays_symmetric_for_ever(n):  # 000/remark-symmetric
    gram = np.full((n, n), 0.2) + 0.8 * np.eye(n)
    last = gram_chain(gram, 200).gram[-1]
    assert len(np.unique(np.diagonal(last))) == 1
    assert len(np.unique(last[~np.eye(n, dtype=bool)])) == 1


def test_permuting_samples_permutes_to_the_last_bit():
    gram = random_gram(9, seed=2)
    order = np.random.default_rng(0).permutation(9)
    chain, moved = gram_chain(gram, 100), gram_chain(gram[np.ix_(order, order)], 100)
    assert (moved.gram[-1] == chain.gram[-1][np.ix_(order, order)]).all()
    assert moved.log_scale[-1] == chain.log_scale[-1]


@pytest.mark.parametrize("n", [3, 5, 30])
def test_invariant_representation_is_invariant(n):  # 000/def-12, 000/thm-13 in squared lengths
    gram = np.zeros((n, n))
    gram[0, 0], gram[1:, 1:] = 1.0, 1 / (n - 1) ** 2
    alpha = n**2 / (n**2 - 2 * n + 2)
    np.testing.assert_allclose(2 * alpha * gram_map(gram, "relu", recenter=True), gram, atol=1e-15)


@pytest.mark.parametrize("n", [5, 12, 30])
def test_cluster_of_the_invariant_representation_expands_at_infinite_width(n):  # 000/def-12, 000/thm-14 item 4
    # In units of the odd sample's squared length, squared distances in a tight cluster grow by n²/(n² − 2n + 2) a
    # layer: D' = D/2 (1 − O(θ)), while the odd sample keeps half of its squared distance to the mean. What contracts is
    # the un-normalised distance of thm-14, for α < 1 only.
    batch = np.zeros((n, 3))
    batch[0, 2], batch[1:, 0], batch[1:, 1] = 1.0, 1 / (n - 1), 1e-7 * np.arange(n - 1)
    chain = gram_chain(batch @ batch.T, 3)
    relative = chain.squared_distances[:, 1, -1] / np.diagonal(chain.gram, axis1=1, axis2=2)[:, 0]
    assert relative[2] / relative[1] == pytest.approx(n**2 / (n**2 - 2 * n + 2), rel=1e-3)


def test_small_batches_have_no_odd_sample_at_infinite_width_and_larger_ones_do():  # 000/odd-emergence
    small = np.sqrt(np.diagonal(gram_chain(random_gram(5, seed=4), 300).gram[-1]))
    assert small.min() / small.max() > 0.999
    rng = np.random.default_rng(1)
    batch = rng.normal(size=(20, 12))
    last = gram_chain(batch @ batch.T, 300)
    lengths = np.sort(np.sqrt(np.diagonal(last.gram[-1])))
    assert lengths[-2] / lengths[-1] == pytest.approx(1 / 19, rel=0.1)


def test_deep_chains_and_extreme_scales_are_finite():
    gram = random_gram(8, seed=5)
    base = gram_chain(gram, 1500)
    assert np.isfinite(base.gram).all()
    assert np.isfinite(base.log_scale).all()
    assert base.log_scale[-1] < -900
    for factor in (2.0**900, 2.0**-900):
        scaled = gram_chain(gram * factor, 50)
        np.testing.assert_array_equal(scaled.gram, base.gram[:51])
        np.testing.assert_allclose(scaled.log_scale, base.log_scale[:51] + math.log(factor), rtol=1e-13)
    large = gram_map(gram * 2.0**900, "relu")
    np.testing.assert_array_equal(large, gram_map(gram, "relu") * 2.0**900)


def test_collapsed_and_zero_batches():
    chain = gram_chain(np.ones((3, 3)), 2)
    assert chain.log_scale.tolist() == [pytest.approx(math.log(3)), -math.inf, -math.inf]
    assert not chain.gram[1:].any()
    assert not gram_map(np.zeros((2, 2)), "relu").any()
    np.testing.assert_array_equal(gram_map(np.zeros((2, 2)), "sigmoid"), np.full((2, 2), 0.25))
    zero_sample = gram_map([[0.0, 0.0], [0.0, 4.0]], "leaky_relu")
    assert zero_sample[0].tolist() == [0.0, 0.0]


@pytest.mark.parametrize("variance", [1.0, 0.3, 7.0])
def test_other_activations_on_equal_variances(variance):
    gram = variance * np.array([[1.0, 0.4, -1.0], [0.4, 1.0, -0.4], [-1.0, -0.4, 1.0]])
    result = gram_map(gram, "tanh")
    gained = activation("tanh").gain(math.sqrt(variance))
    np.testing.assert_allclose(result, gained.kernel(gram / variance), atol=1e-14)
    # erf has a formula: (2/π) arcsin(2 c / (1 + 2 v))
    closed = 2 / math.pi * np.arcsin(2 * gram / (1 + 2 * variance))
    np.testing.assert_allclose(gram_map(gram, "erf"), closed, atol=1e-14)


def test_recentring_before_other_activations():
    gram = 0.5 * np.eye(4) + 0.5
    assert gram_map(gram, "tanh", recenter=True) == pytest.approx(gram_map(0.5 * (np.eye(4) - 0.25), "tanh"), abs=1e-14)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: spectrum_map([0.0, 0.0]), "all eigenvalues of a spectrum are 0"),
        (lambda: spectrum_map([1.0, -1e-3]), "an eigenvalue is -0.001"),
        (lambda: spectrum_map([1.0, math.nan]), "an eigenvalue is nan"),
        (lambda: spectrum_map(1.0), r"expected \(…, n\)"),
        (lambda: spectrum_chain([1.0], -1), "depth is -1"),
        (lambda: smallest_share_bound(0.5, 4), "deficit is 0.5 with n = 4"),
        (lambda: gram_map([[1.0, 0.2], [0.2, 2.0]], "tanh"), "variances from 1 to 2 .* expected equal variances"),
        (lambda: gram_map([[1.0, 0.2], [0.3, 2.0]], "relu"), "not symmetric"),
        (lambda: gram_map([[1.0, 2.0], [2.0, 1.0]], "relu"), "eigenvalue -1; expected a positive semi-definite"),
        (lambda: gram_map([[1.0, math.inf], [math.inf, 1.0]], "relu"), "NaN or infinite"),
        (lambda: gram_map([1.0, 2.0], "relu"), r"shape \(2,\); expected \(n, n\)"),
        (lambda: gram_chain(np.eye(2), 3, "tanh"), "tanh is not positively homogeneous"),
    ],
)
def test_errors_say_what_was_expected(call, message):
    with pytest.raises(IsometerError, match=message):
        call()
