"""Studies of paper 000, in its order."""

from __future__ import annotations

from isometer_papers.studies.nachum2024.batches import (
    FIGURE_3A,
    FIGURE_3B,
    FIGURE_5A,
    FIGURE_5B,
    FIGURE_6A,
    FIGURE_6B,
)
from isometer_papers.studies.nachum2024.small_data import SMALL_DATA
from isometer_papers.studies.nachum2024.trained import FIGURE_2
from isometer_papers.studies.nachum2024.trees import FIGURE_4, FIGURE_7, FIGURE_8

STUDIES = (
    FIGURE_2,
    FIGURE_3A,
    FIGURE_3B,
    FIGURE_4,
    FIGURE_5A,
    FIGURE_5B,
    FIGURE_6A,
    FIGURE_6B,
    FIGURE_7,
    FIGURE_8,
    SMALL_DATA,
)
