"""Studies of paper 002, in its order."""

from __future__ import annotations

from isometer_papers.studies.daneshmand2020.averages import FIGURE_2, FIGURE_4, FIGURE_9, FIGURE_10
from isometer_papers.studies.daneshmand2020.depth import FIGURE_1, FIGURE_3, TABLE_1
from isometer_papers.studies.daneshmand2020.trained import FIGURE_5, FIGURE_6
from isometer_papers.studies.daneshmand2020.trained_vision import FIGURE_7, FIGURE_8, FIGURE_11

STUDIES = (
    FIGURE_1,
    TABLE_1,
    FIGURE_2,
    FIGURE_3,
    FIGURE_4,
    FIGURE_5,
    FIGURE_6,
    FIGURE_7,
    FIGURE_8,
    FIGURE_9,
    FIGURE_10,
    FIGURE_11,
)
