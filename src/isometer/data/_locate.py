"""Where data sets lie on this computer; nothing here reaches out of it."""

from __future__ import annotations

import importlib.util
import os
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from isometer.data._catalog import Facts, facts_of

_MARKS = {
    "idx": ("train-images-idx3-ubyte", "train-images-idx3-ubyte.gz", "train-images.idx3-ubyte"),
    "cifar10": ("data_batch_1.bin", "data_batch_1", "data_batch_1.png"),
    "cifar100": ("train.bin", "train"),
    "scikit-learn": (),
}


@dataclass(frozen=True)
class FoundData:
    """A data set that is here: in what form, and where."""

    kind: Literal["npz", "folder", "archive", "scikit-learn"]
    path: Path | None

    def __str__(self) -> str:
        return str(self.path) if self.path is not None else self.kind


def cache_folder() -> Path:
    """The user's folder for what `isometer data get` obtains: `ISOMETER_DATA`, or the platform's cache folder.

    Example:
        >>> cache_folder().is_absolute()
        True
    """
    chosen = os.environ.get("ISOMETER_DATA")
    return Path(chosen).expanduser().absolute() if chosen else _platform_cache()


def _home() -> Path:
    return Path(os.path.expanduser("~"))  # unlike Path.home, has an answer for users without a home


def _platform_cache() -> Path:
    home = _home()
    if sys.platform == "win32":
        base = Path(os.environ.get("LOCALAPPDATA") or home / "AppData" / "Local")
    elif sys.platform == "darwin":
        base = home / "Library" / "Caches"
    else:
        base = Path(os.environ.get("XDG_CACHE_HOME") or home / ".cache")
    return base / "isometer" / "data"


def find(name: str, *, root: str | Path | None = None) -> FoundData | None:
    """The path of a data set, found without reading it.

    Looked at in turn: the folder `ISOMETER_DATA`; the user's cache folder; `data`, `~/data` and `~/datasets`, where
    torchvision is usually told to keep its sets; Keras' folder; the folder of Debian's packages; scikit-learn for
    `digits`. In each of them: `NAME.npz`, the folders of torchvision and of the publishers, their archives.

    Args:
        name: name of the data set.
        root: look here instead, also for bare files.

    Returns:
        None if it is not found.

    Raises:
        IsometerError: if the name is unknown.

    Example:
        >>> find("mnist", root="/nowhere") is None
        True
    """
    facts = facts_of(name)
    bases = [Path(root).expanduser()] if root is not None else list(_bases())
    bare = bases[:1] if root is not None or os.environ.get("ISOMETER_DATA") else []
    for base in bases:
        for candidate in _candidates(facts, base, bare=base in bare):
            return candidate
    if root is None and facts.family == "scikit-learn" and importlib.util.find_spec("sklearn") is not None:
        return FoundData("scikit-learn", None)
    return None


def _bases() -> Iterator[Path]:
    yield from dict.fromkeys((cache_folder(), _platform_cache()))
    home = _home()
    yield from (Path("data").absolute(), home / "data", home / "datasets")
    yield Path(os.environ.get("KERAS_HOME") or home / ".keras") / "datasets"
    yield Path("/usr/share/datasets")


# os.path.isfile, unlike Path.is_file, says no to a folder that may not be read
def _candidates(facts: Facts, base: Path, *, bare: bool) -> Iterator[FoundData]:
    if os.path.isfile(file := base / f"{facts.name}.npz"):
        yield FoundData("npz", file)
    for name in (*facts.folders, *([""] if bare else [])):
        folder = base / name
        if any(os.path.isfile(folder / mark) for mark in _MARKS[facts.family]):
            yield FoundData("folder", folder)
    for name in facts.archives:
        if os.path.isfile(archive := base / name):
            yield FoundData("archive", archive)
