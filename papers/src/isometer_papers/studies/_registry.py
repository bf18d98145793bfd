"""Which studies there are: one module per paper."""

from __future__ import annotations

from functools import cache
from importlib import import_module

from isometer.errors import IsometerError, unknown_name
from isometer_papers._papers import studied_paper, studied_papers
from isometer_papers.studies._study import Study


@cache
def studies_of(name: str) -> tuple[Study, ...]:
    """The studies of a paper, by its number or citation key, in its order.

    Example:
        >>> studies_of("003")[0].id
        '003/fig-1'
    """
    found = _studies(studied_paper(name).key)
    twice = {one.id for one in found if sum(other.id == one.id for other in found) > 1}
    if twice:
        raise IsometerError(f"two studies have the ID {sorted(twice)[0]!r} — rename one")
    return found


def _studies(key: str) -> tuple[Study, ...]:
    if key == "nachum2024":
        from isometer_papers.studies import nachum2024

        return nachum2024.STUDIES
    if key == "joudaki2024":
        from isometer_papers.studies import joudaki2024

        return joudaki2024.STUDIES
    if key == "daneshmand2020":
        from isometer_papers.studies import daneshmand2020

        return daneshmand2020.STUDIES
    if key == "daneshmand2021":
        from isometer_papers.studies import daneshmand2021

        return daneshmand2021.STUDIES
    if key == "agarwal2021":
        from isometer_papers.studies import agarwal2021

        return agarwal2021.STUDIES
    found: tuple[Study, ...] = import_module(f"isometer_papers.studies.transformers.{key}").STUDIES
    return found


def all_studies() -> tuple[Study, ...]:
    """Every study, paper by paper.

    Example:
        >>> len(all_studies()) > 3
        True
    """
    return tuple(study for number in studied_papers() for study in studies_of(number))


def find(identifier: str) -> Study:
    """The study of an ID.

    Example:
        >>> find("003/fig2b")
        Traceback (most recent call last):
        ...
        isometer.errors.IsometerError: unknown study '003/fig2b'; did you mean '003/fig-2b'? ...
    """
    number = identifier.partition("/")[0]
    known = {study.id: study for study in (studies_of(number) if number in studied_papers() else all_studies())}
    if identifier in known:
        return known[identifier]
    listing = f"isometer reproduce list --paper {number}" if number in studied_papers() else "isometer reproduce list"
    raise unknown_name("study", identifier, known, fix=f"`{listing}` shows all")
