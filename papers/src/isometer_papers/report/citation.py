"""How to cite the papers and the ledger: BibTeX."""

from __future__ import annotations

from collections.abc import Iterable

from isometer_papers import Paper, __version__


def bibtex(one: Paper) -> str:
    """The BibTeX entry of a paper.

    Example:
        >>> from isometer_papers import papers
        >>> print(bibtex(papers()["003"]).splitlines()[0])
        @misc{daneshmand2021,
    """
    return _bibtex(one.key, one.title, one.authors, one.year, howpublished=one.venue, url=one.link)


def ledger_bibtex(identifier: str | None = None) -> str:
    """The BibTeX entry of the ledger, or of one statement in it.

    Example:
        >>> "note = {Statement 002/lem-1}" in ledger_bibtex("002/lem-1")
        True
    """
    more = {} if identifier is None else {"note": f"Statement {identifier}"}
    title = "Isometer: a ledger of executable claims on signal propagation in deep networks"
    return _bibtex("isometer_ledger", title, ("{The Isometer authors}",), None, version=__version__, **more)


def _bibtex(key: str, title: str, authors: Iterable[str], year: int | None, **more: str) -> str:
    fields = {"title": title, "author": " and ".join(authors)} | ({} if year is None else {"year": str(year)}) | more
    lines = ",\n".join(f"  {name} = {{{value}}}" for name, value in fields.items())
    return f"@misc{{{key},\n{lines}\n}}"
