"""Which studies there are: one module per paper."""

from __future__ import annotations

import difflib
from functools import cache

from isometer.errors import IsometerError
from isometer_papers.studies._study import Study

PAPERS = ("000", "001", "002", "003", "004")


@cache
def studies_of(paper: str) -> tuple[Study, ...]:
    """The studies of a paper, in its order.

    Example:
        >>> studies_of("003")[0].id
        '003/fig-1'
    """
    if paper not in PAPERS:
        raise IsometerError(f"there are no studies of paper {paper!r}; expected one of {', '.join(PAPERS)}")
    found = _module(paper)
    twice = {one.id for one in found if sum(other.id == one.id for other in found) > 1}
    if twice:
        raise IsometerError(f"two studies have the ID {sorted(twice)[0]!r} — rename one")
    return found


def _module(paper: str) -> tuple[Study, ...]:
    if paper == "000":
        from isometer_papers.studies.nachum2024 import STUDIES as STUDIES_000

        return STUDIES_000
    if paper == "001":
        from isometer_papers.studies.joudaki2024 import STUDIES as STUDIES_001

        return STUDIES_001
    if paper == "002":
        from isometer_papers.studies.daneshmand2020 import STUDIES as STUDIES_002

        return STUDIES_002
    if paper == "003":
        from isometer_papers.studies.daneshmand2021 import STUDIES as STUDIES_003

        return STUDIES_003
    from isometer_papers.studies.agarwal2021 import STUDIES as STUDIES_004

    return STUDIES_004


def all_studies() -> tuple[Study, ...]:
    """Every study, paper by paper.

    Example:
        >>> len(all_studies()) > 3
        True
    """
    return tuple(study for paper in PAPERS for study in studies_of(paper))


def find(identifier: str) -> Study:
    """The study of an ID.

    Example:
        >>> find("003/fig2b")
        Traceback (most recent call last):
        ...
        isometer.errors.IsometerError: there is no study '003/fig2b'; did you mean '003/fig-2b'?
    """
    known = {study.id: study for study in all_studies()}
    if identifier in known:
        return known[identifier]
    near = difflib.get_close_matches(identifier, known, 1, 0.5)
    hint = f"did you mean {near[0]!r}?" if near else "`isometer reproduce list` shows all"
    raise IsometerError(f"there is no study {identifier!r}; {hint}")
