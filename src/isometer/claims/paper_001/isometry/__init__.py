"""The claims of paper 001, chapter 6 and Appendix C."""

from __future__ import annotations

from isometer.claims.claim import Claim

CLAIMS: tuple[Claim, ...] = ()
