"""Batches of images: centring, scaling, draws and their text form."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from isometer.data import DataSet, load, source_from_text
from isometer.errors import IsometerError
from support.data_files import small, write_idx


def example() -> DataSet:
    rng = np.random.default_rng(5)
    images = rng.integers(0, 256, (50, 3, 4, 4), dtype=np.uint8)
    images[:, 2] = 7  # a constant channel
    images[0, :2] = 7  # a constant image
    return DataSet("example", "train", images, np.arange(50) % 3, ("a", "b", "c"))


@pytest.mark.parametrize("centre", ["none", "pixel", "channel", "sample"])
@pytest.mark.parametrize("scale", ["none", "unit", "standard", "norm"])
def test_centring_and_scaling(centre: Any, scale: Any) -> None:
    """Against the definitions, image by image."""
    data = example()
    found = data.prepare(data.images, centre=centre, scale=scale)
    everything = data.images.astype(float)
    for image, prepared in zip(everything, found, strict=True):
        value = image.copy()
        for c in range(3):
            if centre == "channel":
                value[c] = image[c] - everything[:, c].mean()
            elif centre == "pixel":
                value[c] = image[c] - everything[:, c].mean(0)
            elif centre == "sample":
                value[c] = image[c] - image.mean()
        if scale == "unit":
            value = value / 255
        elif scale == "standard":
            value[:2] = value[:2] / everything[:, :2].std((0, 2, 3))[:, None, None]
        elif scale == "norm" and np.linalg.norm(value) > 1e-9:
            value = value * np.sqrt(48) / np.linalg.norm(value)
        np.testing.assert_allclose(prepared, value, rtol=3e-7, atol=1e-5 if scale == "none" else 1e-6)
    assert found.dtype == np.float32
    assert np.isfinite(found).all()


def test_batches_are_different_images_by_seed() -> None:
    data = example()
    batch, labels = data.batch(50, seed=3, centre="none", scale="none", flat=True)
    assert batch.shape == (50, 48)
    rows = {row.tobytes() for row in batch}
    assert rows == {row.tobytes() for row in data.images.reshape(50, -1).astype(np.float32)}
    index = {image.tobytes(): label for image, label in zip(data.images, data.labels, strict=True)}
    assert [index[row.astype(np.uint8).tobytes()] for row in batch] == labels.tolist()
    assert np.array_equal(data.batch(5, seed=3)[0], data.batch(5, seed=3)[0])
    assert not np.array_equal(data.batch(5, seed=3)[0], data.batch(5, seed=4)[0])
    with pytest.raises(IsometerError, match="51 images requested; expected 1 to 50"):
        data.batch(51)
    with pytest.raises(IsometerError, match="unknown centre 'mean'; expected one of none, pixel, channel, sample"):
        data.batch(2, centre="mean")  # type: ignore[arg-type]
    with pytest.raises(IsometerError, match="images have shape"):
        data.prepare(data.images[:, :1])


def test_statistics_of_one_split_prepare_another() -> None:
    data = example()
    other = dataclasses.replace(data, images=data.images[:10])
    assert not np.array_equal(data.prepare(other.images), other.prepare(other.images))


def test_many_images_are_prepared_like_few(monkeypatch: pytest.MonkeyPatch) -> None:
    data = example()
    whole = data.prepare(data.images, centre="sample", scale="norm")
    monkeypatch.setattr("isometer.data._datasets._CHUNK", 7)
    assert np.array_equal(data.prepare(data.images, centre="sample", scale="norm"), whole)


def test_loaded_arrays_are_read_only(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_idx(home / "data" / "mnist", small("mnist", monkeypatch))
    data = load("mnist")
    with pytest.raises(ValueError, match="read-only"):
        data.images[0] = 0


def test_source_from_text(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_idx(home / "data" / "mnist", small("mnist", monkeypatch))
    data, options = source_from_text("MNIST:centre=pixel, scale=unit,split=test")
    assert (data.split, options) == ("test", {"centre": "pixel", "scale": "unit"})
    with pytest.raises(IsometerError, match=r"option 'scale=big'; expected scale=none\|unit\|standard\|norm"):
        source_from_text("mnist:scale=big")
