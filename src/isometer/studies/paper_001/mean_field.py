"""Studies of paper 001."""

from __future__ import annotations

from isometer.studies.study import Study

STUDIES: tuple[Study, ...] = ()
