"""The claims of paper 001, chapters 3 to 5 and Appendix B."""

from __future__ import annotations

from isometer.claims.claim import Claim

CLAIMS: tuple[Claim, ...] = ()
