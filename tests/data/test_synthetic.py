"""Synthetic batches against their definitions, and `make_batch` with real images."""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np
import pytest
from scipy import stats

from isometer.data import _synthetic as synthetic
from isometer.data import make_batch
from isometer.errors import IsometerError
from support.command import as_json
from support.data_files import small, write_idx


def test_orthogonal_directions_are_uniform() -> None:
    """A coordinate q of a uniform unit vector in five dimensions has (q + 1)/2 ~ Beta(2, 2); without the signs of R
    every first coordinate has one sign, and the test fails with certainty at this size."""
    rng = np.random.default_rng(0)
    first = [synthetic.orthogonal(3, 5, rng)[0, 0] / math.sqrt(5) for _ in range(1000)]
    assert stats.kstest((np.array(first) + 1) / 2, stats.beta(2, 2).cdf).pvalue > 1e-3


@pytest.mark.parametrize(("n", "d"), [(4, 9), (9, 4), (5, 5), (1, 3), (3, 1)])
def test_orthogonal(n: int, d: int) -> None:
    batch = synthetic.orthogonal(n, d, np.random.default_rng(1))
    gram = batch @ batch.T / d if n <= d else batch.T @ batch / n
    np.testing.assert_allclose(gram, np.eye(min(n, d)), atol=1e-13)


@pytest.mark.parametrize("cosine", [-0.2, 0.0, 0.5, 1 - 1e-9, 1.0])
def test_correlated(cosine: float) -> None:
    batch = synthetic.correlated(6, 8, np.random.default_rng(1), cosine=cosine)
    np.testing.assert_allclose(batch @ batch.T / 8, (1 - cosine) * np.eye(6) + cosine, atol=1e-13)


@pytest.mark.parametrize("angle", [1e-4, 1e-2, 0.4])
def test_near_collinear(angle: float) -> None:
    """More samples than features determine the common direction: ⟨x, u⟩ = √d cos(angle) for all of them."""
    d = 6
    batch = synthetic.near_collinear(40, d, np.random.default_rng(2), angle=angle)
    np.testing.assert_allclose(np.linalg.norm(batch, axis=1), math.sqrt(d), rtol=1e-14)
    direction, *_ = np.linalg.lstsq(batch, np.ones(40))
    np.testing.assert_allclose(1 / np.linalg.norm(direction), math.sqrt(d) * math.cos(angle), rtol=1e-8)
    direction /= np.linalg.norm(direction)
    away = batch - np.outer(batch @ direction, direction)
    np.testing.assert_allclose(np.linalg.norm(away, axis=1), math.sqrt(d) * math.sin(angle), rtol=1e-6)
    assert np.linalg.matrix_rank(away, tol=1e-3 * angle) == d - 1


def test_nearly_collinear_samples_differ_as_they_should() -> None:
    """Two samples at a tiny angle a from one direction differ by 2 d a² (1 − c) in square, c the cosine of two uniform
    directions: 2 d a² on average, here over 780 pairs of 40 directions in 200 dimensions."""
    angle, d = 1e-7, 200
    batch = synthetic.near_collinear(40, d, np.random.default_rng(2), angle=angle)
    square = np.array([((batch[i] - batch[j]) ** 2).sum() for i in range(40) for j in range(i)])
    np.testing.assert_allclose(square.mean(), 2 * d * angle**2, rtol=0.02)
    assert square.min() > d * angle**2


def test_no_angle_at_all_repeats_one_sample() -> None:
    batch = synthetic.near_collinear(3, 5, np.random.default_rng(2), angle=0.0)
    assert (batch == batch[0]).all()


@pytest.mark.parametrize(("n", "d"), [(5, 12), (12, 5), (6, 6)])
@pytest.mark.parametrize("exponent", [0.0, 1.0, 2.5])
def test_power_law(n: int, d: int, exponent: float) -> None:
    batch = synthetic.power_law(n, d, np.random.default_rng(3), exponent=exponent)
    eigenvalues = np.linalg.eigvalsh(batch @ batch.T / d)[::-1]
    k = min(n, d)
    expected = np.arange(1, k + 1) ** -exponent
    np.testing.assert_allclose(eigenvalues[:k], n * expected / expected.sum(), rtol=1e-11)
    np.testing.assert_allclose(eigenvalues[k:], 0, atol=1e-12)
    np.testing.assert_allclose((batch**2).mean(), 1.0, rtol=1e-12)


def test_repeated_samples_are_equal_to_the_last_bit() -> None:
    batch = synthetic.repeated(7, 4, np.random.default_rng(4), distinct=3)
    assert len(np.unique(batch, axis=0)) == 3
    assert (batch[0] == batch[3]).all()


@pytest.mark.parametrize(
    ("kind", "message"),
    [
        ("collinear:2", "angle is 2.0; expected 0 to π/2"),
        ("collinear:nan", "angle is nan"),
        ("power-law:-1", "exponent is -1.0; expected a number of at least 0"),
        ("power-law:x", "expected a number after the colon"),
        ("power-law", "expected a number after the colon"),
        ("degenerate:9", "9.0 distinct samples requested; expected 1 to 4"),
        ("correlated:-0.9", "4 samples can have -0.333 to 1"),
        ("gaussian:3", "input is 'gaussian:3'; expected gaussian, orthogonal"),
        ("powerlaw:1", "input is 'powerlaw:1'"),
        ("data:mnits", "did you mean 'mnist'"),
    ],
)
def test_bad_names(kind: str, message: str) -> None:
    with pytest.raises(IsometerError, match=message):
        make_batch(kind, 4, 8)


@pytest.mark.parametrize("kind", ["gaussian", "orthogonal", "correlated:0.5", "collinear:0.1", "power-law:1"])
def test_a_run_does_not_depend_on_the_others(kind: str) -> None:
    three, five = (make_batch(kind, 4, 8, seed=2, runs=runs) for runs in (3, 5))
    assert np.array_equal(three, five[:3])
    assert not np.array_equal(five[0], five[1])


# --- real images as input


@pytest.fixture
def mnist(monkeypatch: pytest.MonkeyPatch, home: Path) -> np.ndarray:
    sets = small("mnist", monkeypatch)
    write_idx(home / "data" / "MNIST" / "raw", sets)
    return sets["train"][0].reshape(20, 784)


def test_images_as_a_batch(mnist: np.ndarray) -> None:
    batch = make_batch("data:mnist:centre=none,scale=none", 20, 30)
    assert batch.dtype == np.float64
    assert sorted(row.tobytes() for row in batch.astype(np.uint8)) == sorted(row.tobytes() for row in mnist)
    standard = make_batch("data:mnist", 20)
    np.testing.assert_allclose([standard.mean(), (standard**2).mean()], [0, 1], atol=1e-6)
    runs = make_batch("data:MNIST", 5, runs=3)
    assert runs.shape == (3, 5, 784)
    assert not np.array_equal(runs[0], runs[1])
    assert np.array_equal(runs[:2], make_batch("data:mnist", 5, runs=2))


@pytest.mark.torch
def test_simulate_takes_images_of_any_size(mnist: np.ndarray) -> None:
    options = ["--width", "30", "--depth", "2", "--runs", "2", "--batch", "6", "--metric", "rank"]
    record = as_json("simulate", "--input", "data:mnist:scale=unit", *options)
    assert record["spec"]["input_width"] == 784
    assert record["spec"]["width"] == 30
    assert record["metrics"]["rank"]["mean"] == [6.0, 6.0, 6.0]
