"""Data sets in memory: loading, checking, and batches prepared for a network."""

from __future__ import annotations

import hashlib
import importlib
import math
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, Literal, get_args

import numpy as np
from numpy.typing import NDArray

from isometer.data._catalog import SPLITS, Facts, facts_of
from isometer.data._files import Archive, Files, Folder
from isometer.data._formats import READERS, Bytes, Pair, read_npz
from isometer.data._locate import FoundData, cache_folder, find
from isometer.errors import IsometerError, unknown_name
from isometer.extras import MissingExtraError
from isometer.extras import missing as extra_missing

Centre = Literal["none", "pixel", "channel", "sample"]
Scale = Literal["none", "unit", "standard", "norm"]
Seed = int | np.random.SeedSequence | np.random.Generator
CENTRES: tuple[Centre, ...] = get_args(Centre)
SCALES: tuple[Scale, ...] = get_args(Scale)
_CHUNK = 2048


@dataclass(frozen=True, eq=False)
class DataSet:
    """One split of a data set.

    Attributes:
        name: name of the set.
        split: `train` or `test`.
        images: uint8 `(N, C, H, W)`, read-only.
        labels: int64 `(N,)`, read-only.
        classes: their names.
        levels: the largest grey level, 255 (16 for the digits of scikit-learn).
        source: where it was read from.

    Example:
        >>> pixels = np.arange(8, dtype=np.uint8).reshape(2, 1, 2, 2)
        >>> tiny = DataSet("example", "train", pixels, np.arange(2), ("a", "b"))
        >>> tiny.batch(2, seed=1, centre="none", scale="none")[0].shape
        (2, 1, 2, 2)
        >>> tiny.prepare(tiny.images, centre="sample", scale="none", flat=True).tolist()
        [[-1.5, -0.5, 0.5, 1.5], [-1.5, -0.5, 0.5, 1.5]]
    """

    name: str
    split: str
    images: Bytes
    labels: NDArray[np.int64]
    classes: tuple[str, ...]
    levels: int = 255
    source: str = ""

    def __len__(self) -> int:
        return len(self.images)

    @property
    def shape(self) -> tuple[int, int, int]:
        """(C, H, W) of an image."""
        _, channels, height, width = self.images.shape
        return channels, height, width

    @property
    def features(self) -> int:
        """C·H·W."""
        return math.prod(self.shape)

    @cached_property
    def channel_means(self) -> NDArray[np.float64]:
        """Mean grey level of each channel over the split, 0 to `levels`; exact, from counts of levels."""
        return self._channel_moments[0]

    @cached_property
    def channel_deviations(self) -> NDArray[np.float64]:
        """Standard deviation of each channel over the split, 0 to `levels`."""
        return self._channel_moments[1]

    @cached_property
    def pixel_means(self) -> NDArray[np.float64]:
        """Mean image over the split `(C, H, W)`."""
        return np.asarray(self.images.mean(0, dtype=np.float64))

    @cached_property
    def _channel_moments(self) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        # counts of 256 levels are exact and take no float copy of the images
        counts = np.stack([np.bincount(self.images[:, c].ravel(), minlength=256) for c in range(self.shape[0])])
        weights, levels = counts / counts.sum(1, keepdims=True), np.arange(256.0)
        means = weights @ levels
        return means, np.sqrt((weights * (levels - means[:, None]) ** 2).sum(1))

    def class_counts(self) -> list[int]:
        """How many images each class has."""
        return [int(count) for count in np.bincount(self.labels, minlength=len(self.classes))]

    def batch(
        self, n: int, *, seed: Seed = 0, centre: Centre = "channel", scale: Scale = "standard", flat: bool = False
    ) -> tuple[NDArray[np.float32], NDArray[np.int64]]:
        """Different images drawn at random, prepared as `prepare` says.

        Args:
            n: how many.
            seed: seed of the draw.
            centre: as for `prepare`.
            scale: as for `prepare`.
            flat: as for `prepare`.

        Returns:
            The images, `(n, C, H, W)` or `(n, C·H·W)` in float32, and their labels.

        Raises:
            IsometerError: if there are fewer than n images, or an option is unknown.
        """
        if isinstance(n, bool) or not isinstance(n, int | np.integer) or not 1 <= n <= len(self):
            raise IsometerError(
                f"{n!r} images requested; expected 1 to {len(self)}, as {self.name} ({self.split}) has — request fewer"
            )
        chosen = np.random.default_rng(seed).choice(len(self), size=int(n), replace=False)
        return self.prepare(self.images[chosen], centre=centre, scale=scale, flat=flat), self.labels[chosen]

    def prepare(
        self, images: Bytes, *, centre: Centre = "channel", scale: Scale = "standard", flat: bool = False
    ) -> NDArray[np.float32]:
        """Images as a network takes them: centred first, then scaled.

        Centre: `none`; `pixel` subtracts this split's mean image; `channel` this split's mean of each channel; `sample`
        each image's own mean over all its values.

        Scale: `none` leaves grey levels (0 to 255); `unit` divides by the largest level, so that uncentred values lie
        in [0, 1]; `standard` divides each channel by its standard deviation over this split (a constant channel is left
        as it is); `norm` gives every image the length √(C·H·W), mean square 1 (an image that is zero stays zero).

        Statistics are those of the split this is called on: prepare test images with the training split's
        `train.prepare(test.images)`.

        Args:
            images: uint8 `(n, C, H, W)`.
            centre: `none`, `pixel`, `channel` or `sample`.
            scale: `none`, `unit`, `standard` or `norm`.
            flat: `(n, C·H·W)` instead of `(n, C, H, W)`.

        Raises:
            IsometerError: if an option is unknown or the images have another shape.
        """
        for value, known, what in ((centre, CENTRES, "centre"), (scale, SCALES, "scale")):
            if value not in known:
                raise unknown_name(what, value, known, fix="choose one of these")
        if images.ndim != 4 or images.shape[1:] != self.shape:
            raise IsometerError(f"images have shape {images.shape}; expected (n, {str(self.shape)[1:]} — reshape them")
        result = np.empty(images.shape, dtype=np.float32)
        for start in range(0, len(images), _CHUNK):  # float64 on the way, never for all images at once
            result[start : start + _CHUNK] = self._prepared(images[start : start + _CHUNK], centre, scale)
        return result.reshape(len(result), -1) if flat else result

    def _prepared(self, images: Bytes, centre: Centre, scale: Scale) -> NDArray[np.float64]:
        values = images.astype(np.float64)
        if centre == "pixel":
            values -= self.pixel_means
        elif centre == "channel":
            values -= self.channel_means[:, None, None]
        elif centre == "sample":
            values -= values.mean((1, 2, 3), keepdims=True)
        if scale == "unit":
            values /= self.levels
        elif scale == "standard":
            values /= np.where(self.channel_deviations > 0, self.channel_deviations, 1.0)[:, None, None]
        elif scale == "norm":
            square = np.mean(values**2, axis=(1, 2, 3), keepdims=True)
            values /= np.sqrt(np.where(square > 0, square, 1.0))
        return values


def load(name: str, *, split: str = "train", root: str | Path | None = None) -> DataSet:
    """A split of a data set from files of this computer; nothing is downloaded.

    Sizes, images per class and checksums are compared with those of the published set.

    Args:
        name: `fashion-mnist`, `mnist`, `cifar10`, `cifar100` or `digits`; loosely spelt.
        split: `train` or `test`.
        root: look here only; otherwise where `find` looks.

    Raises:
        IsometerError: if the name is unknown, the set is not found (the message says how to get it), or a file is
            damaged, truncated, hostile or belongs to another data set.

    Example:
        >>> load("fashion-mnits")
        Traceback (most recent call last):
        ...
        isometer.errors.IsometerError: unknown data set 'fashion-mnits'; did you mean 'fashion-mnist'? ...
    """
    facts = facts_of(name)
    facts.split(split)
    found = find(facts.name, root=root)
    if found is None:
        raise missing(facts, root)
    return read(facts, found, split)


def missing(facts: Facts, root: str | Path | None) -> IsometerError:
    """The error of a data set that is nowhere, with the way to get it."""
    if facts.family == "scikit-learn":
        return MissingExtraError(extra_missing("sklearn", facts.name))
    where = f"in {str(root)!r}" if root is not None else "on this computer"
    if facts.debian or facts.npm:
        return IsometerError(f"{facts.name} is not {where} — run `isometer data get {facts.name}` to obtain it")
    return IsometerError(
        f"{facts.name} is not {where} — put {' or '.join(facts.archives)} into {str(root or cache_folder())!r}, or run "
        f"`isometer data get {facts.name} --url` with the archive's address"
    )


def read(facts: Facts, found: FoundData, split: str) -> DataSet:
    """Read and check one split where it was found."""
    if found.kind == "scikit-learn":
        return checked(facts, split, _digits(facts, split), str(found))
    assert found.path is not None
    if found.kind == "npz":
        return checked(facts, split, read_npz(found.path, facts, split), str(found))
    files: Files = Folder(found.path) if found.kind == "folder" else Archive(found.path)
    for reader in READERS[facts.family]:
        pair = reader(files, facts, split)
        if pair is not None:
            return checked(facts, split, pair, str(found))
    raise IsometerError(
        f"{str(found)!r} does not hold all files of the {split} split of {facts.name} — complete it or remove it"
    )


def checked(facts: Facts, split: str, pair: Pair, source: str) -> DataSet:
    """A data set whose numbers are those of the catalogue.

    Raises:
        IsometerError: naming the file and what differs.
    """
    images, labels = (np.ascontiguousarray(part) for part in pair)  # checksums are of the bytes in this order
    expected = facts.split(split)
    fix = f"it is damaged or another data set; remove it and obtain {facts.name} again"
    if images.shape != (expected.images, *facts.shape) or labels.shape != (expected.images,):
        raise IsometerError(
            f"{source!r} holds images {images.shape} and labels {labels.shape} as {split} split; expected "
            f"{(expected.images, *facts.shape)} — {fix}"
        )
    counts = tuple(np.bincount(labels, minlength=len(facts.classes)).tolist())
    if counts != expected.per_class:
        raise IsometerError(
            f"{source!r} does not have the numbers of images per class of {facts.name} ({split}) — {fix}"
        )
    for array, checksum, what in (
        (images, expected.images_sha256, "images"),
        (labels, expected.labels_sha256, "labels"),
    ):
        if checksum is not None and hashlib.sha256(array.data).hexdigest() != checksum:
            raise IsometerError(f"{source!r}: the checksum of the {split} {what} is not {facts.name}'s — {fix}")
    result = DataSet(facts.name, split, images, labels.astype(np.int64), facts.classes, facts.levels, source)
    if expected.means is not None and np.abs(result.channel_means / facts.levels - expected.means).max() > 1e-6:
        raise IsometerError(f"{source!r}: the channel means of the {split} images are not {facts.name}'s — {fix}")
    images.flags.writeable = False
    result.labels.flags.writeable = False
    return result


def _digits(facts: Facts, split: str) -> Pair:
    images, labels = importlib.import_module("sklearn.datasets").load_digits(return_X_y=True)
    part = slice(None, facts.train.images) if split == "train" else slice(facts.train.images, None)
    return images[part].astype(np.uint8).reshape(-1, *facts.shape), labels[part].astype(np.uint8)


def source_from_text(text: str) -> tuple[DataSet, dict[str, Any]]:
    """A data set and options of its batches by text: `fashion-mnist`, or `cifar10:centre=pixel,scale=unit,split=test`.

    Args:
        text: a name, and options of `DataSet.batch` or a split after a colon. Without options batches are centred by
            channel and standardised: mean 0 and mean square 1 over the split.

    Returns:
        The loaded split and keyword arguments for its `batch`.

    Raises:
        IsometerError: as `load`, and for unknown options.

    Example:
        >>> source_from_text("mnist:center=pixel")
        Traceback (most recent call last):
        ...
        isometer.errors.IsometerError: 'mnist:center=pixel' has the option 'center=pixel'; expected centre=…, ...
    """
    name, _, tail = text.partition(":")
    choices: dict[str, tuple[str, ...]] = {"centre": CENTRES, "scale": SCALES, "split": SPLITS}
    options: dict[str, Any] = {}
    for part in filter(None, (part.strip() for part in tail.split(","))):
        key, _, value = part.partition("=")
        known = choices.get(key, ())
        if value not in known:
            wanted = f"{key}={'|'.join(known)}" if known else "centre=…, scale=… or split=…"
            raise IsometerError(f"{text!r} has the option {part!r}; expected {wanted} — correct it")
        options[key] = value
    return load(name, split=options.pop("split", "train")), options
