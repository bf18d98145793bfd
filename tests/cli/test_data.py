"""`isometer data` as a user runs it."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

import isometer.cli.data
from isometer.cli import app
from isometer.data import CATALOG, cache_folder
from isometer.errors import IsometerError
from support.command import printed
from support.data_files import cifar10_files, holds, small, write_archive, write_idx

pytestmark = pytest.mark.usefixtures("home")  # nothing of this computer is seen


# --- the command


def test_list(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_idx(home / "data" / "MNIST" / "raw", small("mnist", monkeypatch))
    record = json.loads(printed("data", "list", "--json"))
    sets = {row["name"]: row for row in record["data_sets"]}
    assert list(sets) == list(CATALOG)
    assert sets["mnist"]["found"] == str(home / "data" / "MNIST" / "raw")
    assert sets["mnist"]["get"] is None
    assert sets["cifar10"] == {
        "name": "cifar10",
        "title": CATALOG["cifar10"].title,
        "classes": 10,
        "images": {"train": 50000, "test": 10000},
        "shape": [3, 32, 32],
        "found": None,
        "get": "isometer data get cifar10 (139 MB)",
    }
    assert record["cache"] == str(cache_folder())
    monkeypatch.setenv("COLUMNS", "200")
    table = printed("data", "list")
    assert "cifar10: isometer data get cifar10 (139 MB)\n" in table
    assert "3×32×32" in table


def test_get(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    sets = small("mnist", monkeypatch)
    write_idx(home / "data" / "MNIST" / "raw", sets)
    record = json.loads(printed("data", "get", "MNIST", "--root", str(home / "kept"), "--json"))
    path = home / "kept" / "mnist.npz"
    assert record == {"name": "mnist", "path": str(path), "bytes": path.stat().st_size}
    holds(home / "kept", "mnist", sets)
    with pytest.raises(IsometerError, match="--from and --url were both given"):
        printed("data", "get", "mnist", "--from", "local", "--url", "http://127.0.0.1/")


def test_show(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    sets = small("cifar10", monkeypatch)
    write_archive(home / "data" / "cifar-10-binary.tar.gz", cifar10_files(sets, "bin"))
    picture = home / "grid.png"
    record = json.loads(printed("data", "show", "cifar-10", "--plot", str(picture), "--json"))
    assert picture.stat().st_size > 10_000
    images, labels = sets["train"]
    train = record["splits"]["train"]
    assert train["class_counts"] == [2] * 10
    assert train["first_labels"] == labels[:10].tolist()
    np.testing.assert_allclose(train["channel_means"], images.mean((0, 2, 3)) / 255, rtol=1e-12)
    np.testing.assert_allclose(train["channel_deviations"], images.std((0, 2, 3)) / 255, rtol=1e-9)
    rows = images.reshape(20, -1).astype(float)  # a batch of all of them, in some order
    unit = rows / np.linalg.norm(rows, axis=1, keepdims=True)
    cosine = ((unit @ unit.T).sum() - 20) / 380
    p = np.linalg.eigvalsh(rows @ rows.T)
    p = p / p.sum()
    shown = record["batch"]["by_centre"]["none"]
    assert record["batch"]["images"] == 20
    np.testing.assert_allclose(shown["mean_cosine"], cosine, rtol=1e-6)
    np.testing.assert_allclose(shown["effective_rank"], np.exp(-(p * np.log(p)).sum()), rtol=1e-5)
    card = printed("data", "show", "cifar10")
    assert "CIFAR-10" in card
    assert "effective rank" in card
    with pytest.raises(IsometerError, match="did you mean 'cifar10'"):
        printed("data", "show", "cifr10")


def test_the_command_is_registered() -> None:
    assert isometer.cli.data.group in [entry.typer_instance for entry in app.registered_groups]
