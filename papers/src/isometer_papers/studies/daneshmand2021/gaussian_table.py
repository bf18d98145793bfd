"""Table 1 of paper 003, and table 2.1 of the thesis: which random networks are close to Gaussian."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import xarray

from isometer_papers.report.gallery import number
from isometer_papers.studies._comparisons import surely_less
from isometer_papers.studies._drawing import Figure
from isometer_papers.studies._readings import log_slope, measured
from isometer_papers.studies._study import Choice, Coordinate, Measured, Reading, Scale, Settings, Study
from isometer_papers.studies._tables import table_picture
from isometer_papers.studies.cells.gaussianity import NETWORKS, wasserstein_cell

PRINTED = {
    "vanilla MLP": "to a Gaussian as\nwidth → ∞, finite depth",
    "vanilla ConvNet": "to a Gaussian as\nwidth → ∞, finite depth",
    "batch norm MLP": "in a ball of O(width^−1/4)\nat any width and depth",
}


def draw_gaussian(result: xarray.Dataset, settings: Settings) -> Figure:
    shallow, deep = settings["depths"][0], settings["depths"][-1]
    widest = settings["width"][-1]
    header = [
        "network",
        "printed",
        f"exponent of W₂\nin the width, layer {shallow}",
        f"the same,\nlayer {deep}",
        f"W₂ at width {widest},\nlayer {shallow}",
        f"the same,\nlayer {deep}",
    ]
    rows = []
    for network in settings["network"]:
        slopes = [log_slope(settings["width"], _values(result, network, depth)) for depth in (shallow, deep)]
        ends = [measured(_values(result, network, depth)[:, -1]) for depth in (shallow, deep)]
        texts = [number(item.value, item.uncertainty).replace("-", "−") for item in (*slopes, *ends)]
        rows.append([network, PRINTED[network], *texts])
    return table_picture(header, rows)


def read_gaussian(result: xarray.Dataset, settings: Settings) -> Reading:
    """Distances of batch norm count as equal over depth if the interval of their log-ratio lies within 0.1."""
    shallow, deep = settings["depths"][0], settings["depths"][-1]
    numbers: dict[str, Measured] = {}
    statements: dict[str, bool | None] = {}
    for network in settings["network"]:
        numbers[f"exponent, {network}, layer {shallow}"] = log_slope(
            settings["width"], _values(result, network, shallow)
        )
    for network in settings["network"]:
        early, late = _values(result, network, shallow), _values(result, network, deep)
        if network == "batch norm MLP":
            slope = log_slope(settings["width"], late)
            numbers[f"exponent, {network}, layer {deep}"] = slope
            change = measured(np.log(late).mean(1) - np.log(early).mean(1))
            numbers["log of the ratio of distances, batch norm, deep over shallow"] = change
            statements[f"{network}: the distance does not depend on the depth"] = bool(
                abs(change.value) + change.uncertainty <= 0.1
            )
            statements[f"{network}: it falls at least as fast as width^−1/4"] = bool(
                slope.value + slope.uncertainty <= -0.25
            )
        else:
            statements[f"{network}: tends to a Gaussian as the width grows"] = surely_less(early[:, -1], early[:, 0])
            statements[f"{network}: further away the deeper"] = surely_less(early[:, -1], late[:, -1])
    return Reading(
        numbers,
        statements,
        "The table prints width^−1/4, which is what the corollary's bound on W₂² gives; the text below it says "
        "1/√width, and that is the measured exponent.",
    )


def _values(result: xarray.Dataset, network: str, depth: int) -> np.ndarray[Any, Any]:
    return np.asarray(result["distance"].sel(network=network, depth=depth).transpose("run", "width").values)


GRID: dict[str, Sequence[Coordinate]] = {"network": list(NETWORKS), "width": [32, 64, 128, 256, 512, 1024]}
QUICK_GRID: dict[str, Sequence[Coordinate]] = {"network": list(NETWORKS), "width": [32, 64, 128, 256]}
SETTINGS = {"samples": 4, "depths": [10, 100], "runs": 40, "side": 4, "share": 4}
CHOICES = {
    "distance": Choice(
        "W₂ between the law of W H for the H at hand, scaled to unit norm, and the isotropic Gaussian",
        "exact for a given H; its mean over H bounds the distance of the laws",
    ),
    "samples": Choice("4 orthogonal samples", "so that the limit is the isotropic Gaussian for all networks",
        {"8 samples": {"samples": 8}}),
    "convolution": Choice(
        "a quarter of the width as channels, images of 4 × 4 pixels, circular padding", "the table has no parameters",
        {"images of 6 × 6 pixels": {"side": 6}}),
}  # fmt: skip


def gaussian_table(identifier: str) -> Study:
    """The same table under its number in either text.

    Example:
        >>> gaussian_table("003/table-1").id
        '003/table-1'
    """
    return Study(
        identifier,
        "distance to a Gaussian of linear networks by width, vanilla and with batch norm",
        "Vanilla networks tend to a Gaussian as the width grows at a finite depth; a dense network with batch norm is "
        "in a Wasserstein ball of radius O(width^−1/4) around a Gaussian whatever its depth.",
        {"exponent, batch norm MLP, layer 100": "at most -1/4"},
        wasserstein_cell,
        Scale(QUICK_GRID, SETTINGS, "widths to 256 instead of 1024"),
        Scale(GRID, SETTINGS),
        draw_gaussian,
        read_gaussian,
        choices=CHOICES,
        seconds=(40, 130),
    )


STUDIES = (gaussian_table("003/table-1"),)
