"""Studies of paper 003: batch norm orthogonalises representations."""

from __future__ import annotations

from isometer_papers.studies.daneshmand2021 import (
    conjecture,
    depth_and_width,
    gaussian_table,
    networks,
    notation,
    rising_gap,
    trained,
    trained_convolutions,
)

STUDIES = (
    *depth_and_width.STUDIES,
    *networks.STUDIES,
    *rising_gap.STUDIES,
    *conjecture.STUDIES,
    *gaussian_table.STUDIES,
    *notation.STUDIES,
    *trained.STUDIES,
    *trained_convolutions.STUDIES,
)
