"""The families as a whole: how many, of what, and which are sealed."""

from __future__ import annotations

import hashlib
from collections import Counter

import numpy as np
import pytest

from isometer.trial._faults import FAULTS, SIZES
from isometer.trial._roster import families
from isometer.trial._rounds import ROUNDS
from isometer.trial._tasks import TASKS

KNOWN = families(1)


@pytest.mark.parametrize(("round", "least", "share"), [(2, 40, 0.25), (3, 40, 0.1)])
def test_families_of_a_later_round_are_all_sealed_and_of_every_kind(round: int, least: int, share: float) -> None:
    own = families(round)
    assert len(own) >= least
    assert all(family.sealed and family.structural for family in own.values())
    kinds = Counter(TASKS[family.draw(np.random.default_rng(0), False).task].kind for family in own.values())
    assert min(kinds[kind] for kind in ("images", "sequences", "regression")) >= share * len(own)
    before = {family.kin for family in families().values() if family.round < round}
    assert len({family.kin for family in own.values()} - before) >= 8


def test_every_family_belongs_to_a_round() -> None:
    assert families() == {name: family for number in ROUNDS for name, family in families(number).items()}


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
