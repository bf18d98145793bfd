"""All families, registered by the modules that define them."""

from __future__ import annotations

from collections.abc import Mapping

import isometer.trial._families  # noqa: F401 — its modules register what they define
from isometer.errors import unknown_name
from isometer.trial._family import FAMILIES, Family


def families() -> Mapping[str, Family]:
    """All families by name, in alphabetical order.

    Example:
        >>> len(families()) >= 30
        True
    """
    return dict(sorted(FAMILIES.items()))


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
