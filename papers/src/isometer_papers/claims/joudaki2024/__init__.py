"""The claims of paper 001, in its order."""

from __future__ import annotations

from isometer_papers.claims._claim import Claim, with_second
from isometer_papers.claims.joudaki2024 import isometry, mean_field, orthogonality, second

CLAIMS: tuple[Claim, ...] = with_second((*orthogonality.CLAIMS, *mean_field.CLAIMS, *isometry.CLAIMS), second.SECOND)
