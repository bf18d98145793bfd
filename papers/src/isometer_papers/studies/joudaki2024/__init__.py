"""Studies of paper 001, in its order."""

from __future__ import annotations

from isometer_papers.studies.joudaki2024 import (
    data_ranks,
    isometry,
    kernels,
    mean_field,
    orthogonality,
    shaping,
    trained_depth,
    trained_isometry,
    trained_weights,
)

STUDIES = (
    *orthogonality.STUDIES,
    *trained_depth.STUDIES,
    *mean_field.STUDIES,
    *kernels.STUDIES,
    *isometry.STUDIES,
    *shaping.STUDIES,
    *data_ranks.STUDIES,
    *trained_isometry.STUDIES,
    *trained_weights.STUDIES,
)
