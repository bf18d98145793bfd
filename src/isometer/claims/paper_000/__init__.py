"""The claims of paper 000."""

from __future__ import annotations

from isometer.claims.claim import Claim

CLAIMS: tuple[Claim, ...] = ()
