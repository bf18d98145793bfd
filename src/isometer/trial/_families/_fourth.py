"""What the families of the fourth round share."""

from __future__ import annotations

from functools import partial

from isometer.trial._family import family

fourth = partial(family, round=4)
"""Registers a family of the fourth round."""
