"""The families as a whole: how many, of what, and which are sealed."""

from __future__ import annotations

import hashlib
from collections import Counter

import numpy as np

from isometer.trial._faults import FAULTS, SIZES
from isometer.trial._roster import families
from isometer.trial._tasks import TASKS

KNOWN = families(1)


def test_families_of_the_second_round_are_all_sealed_and_of_every_kind() -> None:
    second = families(2)
    assert len(second) >= 40
    assert all(family.sealed and family.structural for family in second.values())
    assert families() == {**KNOWN, **second, **families(3)}
    kinds = Counter(TASKS[family.draw(np.random.default_rng(0), False).task].kind for family in second.values())
    assert min(kinds[kind] for kind in ("images", "sequences", "regression")) >= 0.25 * len(second)
    assert len({family.kin for family in second.values()} - {family.kin for family in KNOWN.values()}) >= 8


def test_seal_of_the_first_round_is_the_hash_of_the_name() -> None:
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
