"""All families, registered by the modules that define them."""

from __future__ import annotations

from collections.abc import Mapping

import isometer.trial._families  # noqa: F401 — its modules register what they define
from isometer.errors import unknown_name
from isometer.trial._family import FAMILIES, Family


def families(round: int | None = None) -> Mapping[str, Family]:
    """The families of a round of the trial by name, in alphabetical order; of all rounds unless one is given.

    Example:
        >>> len(families(1)) >= 30, all(family.sealed for family in families(2).values())
        (True, True)
    """
    return {name: one for name, one in sorted(FAMILIES.items()) if round in (None, one.round)}


def family_named(name: str) -> Family:
    """The family of that name.

    Raises:
        IsometerError: there is none; the nearest is named.

    Example:
        >>> family_named("mlp-relu").name
        'mlp-relu'
    """
    known = families()
    if name not in known:
        raise unknown_name("family", name, known)
    return known[name]
