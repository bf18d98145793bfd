"""Studies of paper 000."""

from __future__ import annotations

from isometer.studies.study import Study

STUDIES: tuple[Study, ...] = ()
