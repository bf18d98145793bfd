"""The families as a whole: how many, of what, and which are sealed."""

from __future__ import annotations

import hashlib

import numpy as np

from isometer.trial._faults import FAULTS, SIZES
from isometer.trial._roster import families
from isometer.trial._tasks import TASKS

KNOWN = families()


def test_seal_is_the_hash_of_the_name() -> None:
    for name, family in KNOWN.items():
        assert family.sealed == (int(hashlib.sha256(name.encode()).hexdigest()[0], 16) >= 8)
    sealed = sum(family.sealed for family in KNOWN.values())
    assert len(KNOWN) >= 30
    assert min(sealed, len(KNOWN) - sealed) >= 12


def test_there_are_many_faults() -> None:
    assert len(FAULTS) + len(SIZES) >= 25
    assert sum(bool(family.structural) for family in KNOWN.values()) > 0.9 * len(KNOWN)
    kinds = {TASKS[family.draw(np.random.default_rng(0), False).task].kind for family in KNOWN.values()}
    assert kinds == {"images", "sequences", "regression"}
