"""The papers as people cite them, read from `papers.toml`."""

from __future__ import annotations

import tomllib
from collections.abc import Iterable
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
    """Every paper by number.

    Example:
        >>> list(papers())
        ['000', '001', '002', '003', '004']
    """
    text = (files("isometer_papers") / "papers.toml").read_text(encoding="utf-8")
    rows = [{**row, "authors": tuple(row["authors"])} for row in tomllib.loads(text)["paper"]]
    return {row["number"]: Paper(**row) for row in rows}


def paper(name: str) -> Paper:
    """The paper of a number or a citation key.

    Example:
        >>> paper("agarwal2021").number
        '004'
    """
    found = next((one for one in papers().values() if name in (one.number, one.key)), None)
    if found is None:
        raise unknown_name("paper", name, [text for one in papers().values() for text in (one.number, one.key)])
    return found


def bibtex(one: Paper) -> str:
    """The BibTeX entry of a paper.

    Example:
        >>> print(bibtex(paper("003")).splitlines()[0])
        @misc{daneshmand2021,
    """
    return _bibtex(one.key, one.title, one.authors, one.year, howpublished=one.venue, url=one.link)


def ledger_bibtex(identifier: str | None = None) -> str:
    """The BibTeX entry of the ledger, or of one statement in it.

    Example:
        >>> "note = {Statement 002/lem-1}" in ledger_bibtex("002/lem-1")
        True
    """
    from isometer_papers import __version__

    more = {} if identifier is None else {"note": f"Statement {identifier}"}
    title = "Isometer: a ledger of executable claims on signal propagation in deep networks"
    return _bibtex("isometer_ledger", title, ("{The Isometer authors}",), None, version=__version__, **more)


def _bibtex(key: str, title: str, authors: Iterable[str], year: int | None, **more: str) -> str:
    fields = {"title": title, "author": " and ".join(authors)} | ({} if year is None else {"year": str(year)}) | more
    lines = ",\n".join(f"  {name} = {{{value}}}" for name, value in fields.items())
    return f"@misc{{{key},\n{lines}\n}}"
