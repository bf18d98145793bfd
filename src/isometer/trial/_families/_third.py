"""What the families of the third round share."""

from __future__ import annotations

from functools import partial

from isometer.trial._family import family

third = partial(family, round=3)
"""Registers a family of the third round."""
