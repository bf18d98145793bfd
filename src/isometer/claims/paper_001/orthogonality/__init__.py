"""The claims of paper 001, chapters 1 and 2 and Appendix A."""

from __future__ import annotations

from isometer.claims.claim import Claim

CLAIMS: tuple[Claim, ...] = ()
