"""The papers as people cite them, read from `papers.toml`."""

from __future__ import annotations

import tomllib
from dataclasses import dataclass
from functools import cache
from importlib.resources import files

from isometer.errors import unknown_name


@dataclass(frozen=True)
class Paper:
    """A paper of the ledger.

    Attributes:
        number: first part of its IDs, such as `001`.
        key: its citation key, which names folders.
        title: its title.
        authors: all of them.
        cited: how a sentence cites it.
        year: of publication.
        venue: where it was published.
        link: where it can be read.

    Example:
        >>> paper("003").cited
        'Daneshmand et al. 2021'
    """

    number: str
    key: str
    title: str
    authors: tuple[str, ...]
    cited: str
    year: int
    venue: str
    link: str

    @property
    def label(self) -> str:
        """How headings and menus name it: as it is cited, with the number of its IDs.

        Example:
            >>> paper("003").label
            'Daneshmand et al. 2021 (003)'
        """
        return f"{self.cited} ({self.number})"


@cache
def papers() -> dict[str, Paper]:
    """Every paper of the ledger by number.

    Example:
        >>> list(papers())
        ['000', '001', '002', '003', '004']
    """
    return _read("paper")


@cache
def studied_papers() -> dict[str, Paper]:
    """Every paper with studies, by number: those of the ledger first.

    Example:
        >>> list(studied_papers())[-2:], studied_papers()["005"].cited
        (['008', '009'], 'Dong et al. 2021')
    """
    return papers() | _read("studied")


def _read(table: str) -> dict[str, Paper]:
    text = (files("isometer_papers") / "papers.toml").read_text(encoding="utf-8")
    rows = [{**row, "authors": tuple(row["authors"])} for row in tomllib.loads(text)[table]]
    return {row["number"]: Paper(**row) for row in rows}


def studied_paper(name: str) -> Paper:
    """The paper of a number or a citation key, with or without a ledger.

    Example:
        >>> studied_paper("dong2021").number
        '005'
    """
    return _named(name, studied_papers())


def paper(name: str) -> Paper:
    """The paper of a number or a citation key.

    Example:
        >>> paper("agarwal2021").number
        '004'
    """
    return _named(name, papers())


def _named(name: str, known: dict[str, Paper]) -> Paper:
    found = next((one for one in known.values() if name in (one.number, one.key)), None)
    if found is None:
        raise unknown_name("paper", name, [text for one in known.values() for text in (one.number, one.key)])
    return found
