"""Checks the quotations of the ledger against the texts of the papers, which are not in the repository.

    python tools/check_quotations.py --papers FOLDER [--paper NNN]

FOLDER has a text per paper whose name begins with its number (000….txt). Both sides are compared in a normal form:
without white space, emphasis and the commands of LaTeX that only change the look. `…` in a quotation stands for words
that are left out; the parts have to come in their order, within a page of text.
"""

from __future__ import annotations

import argparse
import re
import sys
import unicodedata
from collections.abc import Iterator
from pathlib import Path

from isometer_papers import papers
from isometer_papers.claims._text import texts_of

WINDOW = 4000  # characters of the normal form in which all parts of a quotation lie
SHORT = 12  # characters of the normal form: what is shorter is found by chance
_LOOKS = re.compile(
    r"\\(?:left|right|middle|[bB]ig+[lr]?|boldsymbol|mathbf|mathrm|mathsf|mathit|mathcal|mathbb|operatorname|text(?:bf|it|rm)?"
    r"|displaystyle|textstyle|limits|quad|qquad|[,;:!> ])(?![a-zA-Z])"
)
_DROPPED = str.maketrans("", "", "*_$`{}~&")
_SAME = str.maketrans({"“": '"', "”": '"', "’": "'", "‘": "'", "–": "-", "—": "-", "−": "-"})


def normal(text: str) -> str:
    """The form in which texts are compared.

    >>> normal(r"the *odd* point $\\mathbf{x}_1$") == normal("the odd point x_1")
    True
    """
    plain = unicodedata.normalize("NFKC", text).translate(_SAME)
    plain = re.sub(r"(?<![A-Za-z\\])rac(?=\{)", r"\\frac", plain)  # extractions take \f for a form feed
    return re.sub(r"\s+", "", _LOOKS.sub("", plain).translate(_DROPPED)).lower()


def found(quotation: str, text: str) -> bool:
    """Whether the parts of a quotation come in their order in a text in normal form.

    >>> found("one … three", normal("one, two, three")), found("three … one", normal("one, two, three"))
    (True, False)
    """
    pieces = [normal(piece) for piece in re.split(r"\[?…\]?|\[\.\.\.\]", quotation)]
    pieces = [piece for piece in pieces if piece]
    start = text.find(pieces[0]) if pieces else -1
    while start >= 0:
        at = start
        for piece in pieces:
            at = text.find(piece, at, start + WINDOW)
            if at < 0:
                break
            at += len(piece)
        else:
            return True
        start = text.find(pieces[0], start + 1)
    return False


def problems(folder: Path, number: str) -> Iterator[str]:
    """What is wrong with the quotations of a paper, a line each."""
    files = sorted(folder.glob(f"{number}*"))
    if len(files) != 1:
        yield f"{number}: expected one file {number}… in {folder}, found {len(files)}"
        return
    text = normal(files[0].read_text(encoding="utf-8"))
    for one in texts_of(number).values():
        if one.quotation and one.origin == "paper":
            if len(normal(one.quotation)) < SHORT:
                yield f"{one.id}: the quotation {one.quotation!r} is too short to be found for certain"
            elif not found(one.quotation, text):
                yield f"{one.id}: not in the paper: {one.quotation!r}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--papers", type=Path, required=True, metavar="FOLDER")
    parser.add_argument("--paper", choices=list(papers()), metavar="NNN")
    options = parser.parse_args()
    numbers = [options.paper] if options.paper else list(papers())
    wrong = [line for number in numbers for line in problems(options.papers, number)]
    print("\n".join(wrong) or "all quotations are in the papers")
    sys.exit(bool(wrong))


if __name__ == "__main__":
    main()
