"""The statements behind findings and changes as people cite them: author, year, title, place, link."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from html import escape


@dataclass(frozen=True)
class CitedPaper:
    """A paper as people cite it.

    Attributes:
        cited: authors and year.
        title: title of the paper.
        link: where to read it.
    """

    cited: str
    title: str
    link: str


PAPERS = {
    "000": CitedPaper("Nachum et al. 2024", "Batch Normalization Decomposed", "https://arxiv.org/abs/2412.02843"),
    "001": CitedPaper(
        "Joudaki 2024",
        "On a Mathematical Understanding of Deep Neural Networks",
        "https://www.research-collection.ethz.ch",
    ),
    "002": CitedPaper(
        "Daneshmand et al. 2020",
        "Theoretical Understanding of Batch-Normalization: A Markov Chain Perspective",
        "https://arxiv.org/abs/2003.01652",
    ),
    "003": CitedPaper(
        "Daneshmand et al. 2021",
        "Batch Normalization Orthogonalizes Representations in Deep Random Networks",
        "https://arxiv.org/abs/2106.03970",
    ),
    "004": CitedPaper(
        "Agarwal et al. 2021",
        "A Deep Conditioning Treatment of Neural Networks",
        "https://proceedings.mlr.press/v132/agarwal21b.html",
    ),
}
"""The papers by the first part of an inventory ID. A test compares them with the companion's table."""

_PLACES = {
    "thm": "Theorem",
    "lem": "Lemma",
    "prop": "Proposition",
    "cor": "Corollary",
    "def": "Definition",
    "eq": "Equation",
    "fig": "Figure",
    "tab": "Table",
    "fact": "Fact",
}


def place(identifier: str) -> str:
    """The place in a paper that an inventory ID names; empty where the ID names a subject, not a number in print.

    Example:
        >>> place("001/thm-5.11"), place("001/eq-6.1-6.2"), place("001/act-gain"), place("001/thm-A.2")
        ('Theorem 5.11', 'Equation 6.1–6.2', '', 'Theorem A.2')
    """
    found = re.fullmatch(r"\d+/([a-z]+)-((?:[A-Z]\.)?\d[\d.]*(?:-[\d.]+)?)", identifier)
    kind = _PLACES.get(found[1], "") if found else ""
    return f"{kind} {found[2].replace('-', '–')}" if found and kind else ""


def cited(ids: Sequence[str]) -> list[tuple[CitedPaper, list[str]]]:
    """The papers of inventory IDs with the places in them, in the order in which they first appear.

    Example:
        >>> [(paper.cited, places) for paper, places in cited(["001/thm-5.11", "000/def-12", "001/act-gain"])]
        [('Joudaki 2024', ['Theorem 5.11']), ('Nachum et al. 2024', ['Definition 12'])]
    """
    found: dict[str, list[str]] = {}
    for one in ids:
        number = str(one).partition("/")[0]
        if number in PAPERS:
            places = found.setdefault(number, [])
            places += [name for name in [place(str(one))] if name and name not in places]
    return [(PAPERS[number], places) for number, places in found.items()]


def citations_html(ids: Sequence[str]) -> str:
    """The papers as links with the places in them; IDs of other papers stay as they are, escaped.

    Example:
        >>> print(citations_html(["000/def-12"]))
        <cite>Nachum et al. 2024, <a href="https://arxiv.org/abs/2412.02843" rel="noopener noreferrer"><q>Batch \
Normalization Decomposed</q></a>, Definition 12</cite>
    """
    known = [
        f'<cite>{escape(paper.cited)}, <a href="{escape(paper.link)}" rel="noopener noreferrer">'
        f"<q>{escape(paper.title)}</q></a>{''.join(f', {escape(name)}' for name in places)}</cite>"
        for paper, places in cited(ids)
    ]
    other = [f"<cite>{escape(str(one))}</cite>" for one in ids if str(one).partition("/")[0] not in PAPERS]
    return "; ".join([*known, *other])
