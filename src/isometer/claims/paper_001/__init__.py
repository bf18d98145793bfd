"""The claims of paper 001, in its order."""

from __future__ import annotations

from isometer.claims.paper_001 import isometry, mean_field, orthogonality

CLAIMS = (*orthogonality.CLAIMS, *mean_field.CLAIMS, *isometry.CLAIMS)
