"""Studies of paper 004: conditioning by depth and activation, and NormReLU in training."""

from __future__ import annotations

from isometer_papers.studies.agarwal2021 import kernels, residual, table, trained

STUDIES = (*kernels.STUDIES, *trained.STUDIES, *residual.STUDIES, *table.STUDIES)
