"""The claims of paper 001, in its order."""

from __future__ import annotations

from isometer_papers.claims.joudaki2024 import isometry, mean_field, orthogonality

CLAIMS = (*orthogonality.CLAIMS, *mean_field.CLAIMS, *isometry.CLAIMS)
