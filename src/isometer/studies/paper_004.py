"""Studies of paper 004."""

from __future__ import annotations

from isometer.studies.study import Study

STUDIES: tuple[Study, ...] = ()
