"""Studies of paper 001, in its order."""

from __future__ import annotations

from isometer.studies.paper_001 import data_ranks, isometry, kernels, mean_field, orthogonality, shaping

STUDIES = (
    *orthogonality.STUDIES,
    *mean_field.STUDIES,
    *kernels.STUDIES,
    *isometry.STUDIES,
    *shaping.STUDIES,
    *data_ranks.STUDIES,
)
