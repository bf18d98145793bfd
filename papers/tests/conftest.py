"""What tests of several parts of the companion share."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import xarray
from matplotlib.figure import Figure

from isometer.run.example import power
from isometer_papers.report.gallery import read_records
from isometer_papers.studies import Choice, Measured, Reading, Scale, Study
from isometer_papers.studies._drawing import new_figure
from support.fixtures import browser  # noqa: F401


def draw(result: xarray.Dataset, settings: Mapping[str, Any]) -> Figure:
    figure, axes = new_figure(1)
    axes[0, 0].plot(settings["base"], result["value"].values)
    return figure


def read(result: xarray.Dataset, settings: Mapping[str, Any]) -> Reading:
    grows = bool((np.diff(result["value"].values) > 0).all())
    return Reading({"last": Measured(float(result["value"][-1]))}, {"powers grow": grows})


@pytest.fixture(scope="session")
def toy() -> Study:
    """A study that takes no time: powers of a few numbers."""
    return Study(
        "000/toy",
        "powers",
        "Powers of larger numbers are larger.",
        {"last": 9.0},
        power,
        Scale({"base": [1, 2, 3]}, {"exponent": 2}, "three bases instead of five"),
        Scale({"base": [1, 2, 3, 4, 5]}, {"exponent": 2}),
        draw,
        read,
        choices={"exponent": Choice("2", "none is given", {"−1": {"exponent": -1}})},
        because={"powers grow": "Negative powers fall."},
    )


@pytest.fixture
def pool() -> Iterator[ThreadPoolExecutor]:
    with ThreadPoolExecutor(2) as executor:
        yield executor


@pytest.fixture(scope="session")
def files() -> Callable[[Path], dict[str, bytes]]:
    """Everything a reader of a gallery sees, without the times."""

    def seen(folder: Path) -> dict[str, bytes]:
        found = {}
        for path in sorted(folder.rglob("*")):
            if path.is_file() and "cells" not in path.parts and not path.name.startswith("."):
                text = path.read_bytes()
                if path.suffix in (".html", ".md", ".json"):
                    text = b"\n".join(line for line in text.splitlines() if b'"seconds"' not in line)
                    for _, one in read_records(folder):
                        seconds = f"{one['seconds']:.0f}".encode()  # whole words: "1 study" is no time
                        text = re.sub(rb"\b%s s\b" % seconds, b"T", text).replace(b"| %s |" % seconds, b"| T |")
                found[str(path.relative_to(folder))] = text
        return found

    return seen
