"""Which claims there are: one module per paper, and the inventory that they answer."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from typing import Any

from isometer.errors import IsometerError, unknown_name
from isometer_papers._papers import paper, papers
from isometer_papers.claims._claim import Claim
from isometer_papers.claims._text import ClaimText, texts_of


@dataclass(frozen=True)
class Entry:
    """An ID of a paper's inventory.

    Args:
        id: the ID.
        checkable: whether a claim answers it.
        reason: why not, otherwise empty.

    Example:
        >>> Entry("002/eq-2", False, "definition").checkable
        False
    """

    id: str
    checkable: bool
    reason: str


@cache
def claims_of(name: str) -> tuple[Claim, ...]:
    """The claims of a paper, by its number or citation key, in its order.

    Example:
        >>> claims_of("002")[0].paper
        '002'
    """
    found = _claims(paper(name).key)
    check_consistent(found, texts_of(name))
    return found


def _claims(key: str) -> tuple[Claim, ...]:
    """Imported when asked for, and by name, so that the code version of a check covers it."""
    if key == "nachum2024":
        from isometer_papers.claims import nachum2024

        return nachum2024.CLAIMS
    if key == "joudaki2024":
        from isometer_papers.claims import joudaki2024

        return joudaki2024.CLAIMS
    if key == "daneshmand2020":
        from isometer_papers.claims import daneshmand2020

        return daneshmand2020.CLAIMS
    if key == "daneshmand2021":
        from isometer_papers.claims import daneshmand2021

        return daneshmand2021.CLAIMS
    from isometer_papers.claims import agarwal2021

    return agarwal2021.CLAIMS


def all_claims() -> tuple[Claim, ...]:
    """Every claim.

    Example:
        >>> len(all_claims()) > 50
        True
    """
    return tuple(claim for number in papers() for claim in claims_of(number))


def find(identifier: str) -> tuple[Claim, ...]:
    """The claims that an ID names: itself, or all parts of an inventory ID, corrections included.

    Example:
        >>> [claim.id for claim in find("002/lem-1")]
        ['002/lem-1', '002/lem-1#corrected', '002/lem-1:eigenvalues', '002/lem-1:eigenvalues#corrected']
    """
    number = identifier.partition("/")[0]
    known = claims_of(number) if number in papers() else all_claims()
    exact = tuple(claim for claim in known if claim.id == identifier)
    if exact and ("#" in identifier or ":" in identifier):
        return exact
    family = tuple(claim for claim in known if claim.inventory == identifier)
    if family:
        return family
    listing = f"isometer claims list --paper {number}" if number in papers() else "isometer claims list"
    raise unknown_name("claim", identifier, [claim.id for claim in known], fix=f"`{listing}` shows all")


def check_consistent(claims: Iterable[Claim], texts: Mapping[str, ClaimText]) -> None:
    """Raise where IDs repeat, a claim has no text or a text no claim, or a correction is absent or nobody's.

    Example:
        >>> check_consistent(claims_of("002"), texts_of("002"))
    """
    ids: set[str] = set()
    for claim in claims:
        if claim.id in ids:
            raise IsometerError(f"two claims have the ID {claim.id!r} — give one of them a part")
        ids.add(claim.id)
    for identifier in sorted(ids - set(texts)):
        raise IsometerError(f"the claim {identifier!r} has no text — add an entry to the file of its chapter")
    for identifier in sorted(set(texts) - ids):
        raise IsometerError(f"the entry {identifier!r} has no check — write the claim, or remove the entry")
    named = {one for text in texts.values() for one in (text.corrected, text.intended) if one is not None}
    for identifier in sorted(named - ids):
        raise IsometerError(f"the correction {identifier!r} is named but does not exist — add it")
    for identifier in ids:
        if "#" in identifier and identifier not in named:
            raise IsometerError(f"no claim names the correction {identifier!r} — name it in the entry it corrects")


@cache
def inventory(number: str) -> tuple[Entry, ...]:
    """The IDs of a paper, with the reason where one cannot be checked.

    Example:
        >>> {entry.id: entry for entry in inventory("002")}["002/eq-2"].checkable
        False
    """
    text = (files("isometer_papers.claims") / "inventory" / f"{number}.json").read_text(encoding="utf-8")
    rows: list[dict[str, Any]] = json.loads(text)["ids"]
    return tuple(Entry(row["id"], bool(row["checkable"]), str(row.get("reason", ""))) for row in rows)
