"""Which sentences of a paper the ledger covers: a record per paper in papers/docs/sentences/.

    python tools/sentences.py --papers FOLDER --paper NNN             # sentences that nobody has read yet
    python tools/sentences.py --papers FOLDER --paper NNN --write [--decisions FILE]

FOLDER has the texts of the papers (see check_quotations.py). A sentence or displayed formula that an entry quotes is
covered by it. Of every other one a reader says what it is: the entries that check it although they quote another place,
or one of the words in `WORDS`. A line of FILE is a number of the list, or a range, and that decision: `17 background`,
`18-20 003/thm-1 003/cor-3`. Records keep decisions by the first words of the sentence.
"""

from __future__ import annotations

import argparse
import re
import sys
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

from check_quotations import WINDOW, normal
from isometer.files import write_whole
from isometer_papers import papers
from isometer_papers._papers import paper
from isometer_papers.claims._text import texts_of

RECORDS = Path(__file__).parents[1] / "papers" / "docs" / "sentences"
WORDS = {
    "definition": "fixes a notion or a notation",
    "background": "reports what others found",
    "plan": "says what the text does, or did",
    "comment": "interprets, motivates or conjectures, and states nothing that can be checked",
    "setting": "says how an experiment was made",
    "trained": "is about trained networks: a study, not a claim",
    "trivial": "follows at once from the sentence before it",
    "restated": "repeats a statement in other words",
    "reference": "points to a place, rightly or not",
    "connective": "joins other sentences",
    "unread": "nobody has decided yet",
}
CONNECTIVE = 25  # characters of the normal form: what is shorter only joins others
BEGINS = 60  # characters of a sentence by which a record names it
_REFERENCES = re.compile(r"^(#+ *)?(references|bibliography|list of (tables|figures|algorithms))\b", re.I)
_RESUMES = re.compile(r"^(#+ *)?(\d+\. *)?appendix\b", re.I)
_HEADING = re.compile(
    r"^(#+ |appendix [a-z]\b|[ivx]+\. [A-Z]|\*\*(?:[A-Z]\.)?\d|\d+(\.\d+)*\. [A-Z]|[A-I]\.\d\. "
    r"|[1-9A-C](\.\d){1,2} [A-Z])",
    re.I,
)
_CHAPTERS = frozenset(  # of the thesis, whose text has them without a number
    {
        "Batch Normalization Orthogonalizes Representations",
        "Briding mean field and finite width analysis",
        "Obtaining isometry with normalization",
        "Fixed-points and global convergence of deep representations",
        "Batch normalization without gradient explosion",
        "Discussion and Conclusion",
        "Detailed proofs of Chapter 2",
        "Proof of Chapter 3",
        "Supplemental proofs and experiments for",
        "Chapter 6",
    }
)
_STOP = re.compile(  # the end of a sentence, not of an abbreviation
    r"(?<=[.?!])(?<!\bi\.e\.)(?<!\be\.g\.)(?<!\bEq\.)(?<!\bFig\.)(?<!al\.)(?<!\bi\.i\.d\.)\s+(?=[A-Z\[“\"$*])"
)


@dataclass(frozen=True)
class Sentence:
    """A sentence or a displayed formula, and what is known of it."""

    place: str
    text: str
    entries: tuple[str, ...] = ()
    word: str = "unread"

    @property
    def begins(self) -> str:
        """The first words, on one line."""
        return re.sub(r"\s+", " ", self.text).strip()[:BEGINS].strip()


def sentences(text: str) -> Iterator[Sentence]:
    """The sentences of a paper with the formulas displayed in them, without its references and lists of figures."""
    found: list[Sentence] = []
    for place, piece in _pieces(text):
        # a formula belongs to the sentence that announces it, and what goes on below it in lower case does, too
        if found and place == found[-1].place and (_open(found[-1].text) or re.match(r"[a-z,.;]", piece)):
            found[-1] = replace(found[-1], text=f"{found[-1].text} {piece}")
        else:
            found.append(Sentence(place, piece))
    for one in found:
        yield replace(one, word="connective") if len(normal(one.text)) < CONNECTIVE else one


def _open(text: str) -> bool:
    """Whether a sentence goes on after this."""
    return not re.search(r"[.?!][*)”\"]*(\s*\\tag\{[^}]*\}\s*)?(\$\$)?(\s*\([A-Z]?\.?\d+[a-z]?\))?$", text.strip())


def _pieces(text: str) -> Iterator[tuple[str, str]]:
    """Parts of sentences and displayed formulas, each with its section."""
    place, skipping = "", False
    for block in _blocks(text):
        if _REFERENCES.match(block):
            skipping = True
        elif _RESUMES.match(block):
            skipping = False
        if skipping:
            continue
        if len(block) < 120 and not {"\n", "$"} & set(block) and (_HEADING.match(block) or block in _CHAPTERS):
            place = re.sub(r"[#*]", "", block).strip()[:50]
            continue
        pieces = [block] if block.startswith("$$") else _STOP.split(re.sub(r"\s+", " ", block))
        yield from ((place, piece.strip()) for piece in pieces if piece.strip())


def _blocks(text: str) -> Iterator[str]:
    """Paragraphs, and displayed formulas by themselves."""
    for number, part in enumerate(re.split(r"\$\$", text)):
        if number % 2:
            yield f"$${part}$$"
        else:
            yield from (block.strip() for block in re.split(r"\n\s*\n", part) if block.strip())


def covered(found: list[Sentence], number: str) -> list[Sentence]:
    """Sentences with the entries whose quotation touches them."""
    ends, whole = [], ""
    for one in found:
        whole += normal(one.text)
        ends.append(len(whole))
    touching: list[list[str]] = [[] for _ in found]
    for entry in texts_of(number).values():
        if entry.origin == "paper" and entry.quotation:
            for start, end in _places(entry.quotation, whole):
                for index in range(_sentence_at(ends, start), _sentence_at(ends, end - 1) + 1):
                    if entry.id not in touching[index]:
                        touching[index].append(entry.id)
    return [
        replace(one, entries=tuple(ids), word="quoted") if ids else one
        for one, ids in zip(found, touching, strict=True)
    ]


def _sentence_at(ends: list[int], position: int) -> int:
    return next(index for index, end in enumerate(ends) if position < end)


def _places(quotation: str, text: str) -> Iterator[tuple[int, int]]:
    """Where the parts of a quotation are in a text in normal form, at every place that has them in their order."""
    parts = [normal(part) for part in re.split(r"\[?…\]?|\[\.\.\.\]", quotation)]
    parts = [part for part in parts if part]
    start = text.find(parts[0]) if parts else -1
    while start >= 0:
        at, spans = start, []
        for part in parts:
            at = text.find(part, at, start + WINDOW)
            if at < 0:
                break
            spans.append((at, at + len(part)))
            at += len(part)
        else:
            yield from spans
        start = text.find(parts[0], start + 1)


def record(number: str) -> Path:
    """The file of a paper's sentences."""
    return RECORDS / f"{paper(number).key}.tsv"


def rows(number: str) -> list[tuple[str, str, str, tuple[str, ...]]]:
    """The record of a paper: place, first words, word, entries."""
    lines = record(number).read_text(encoding="utf-8").splitlines()[1:]
    parts = (line.split("\t") for line in lines)
    return [(place, begins, word, tuple(ids.split())) for place, begins, word, ids in parts]


def decided(found: list[Sentence], number: str) -> list[Sentence]:
    """Sentences with what the record says of those that no entry quotes."""
    if not record(number).is_file():
        return found
    known = {begins: (word, ids) for _, begins, word, ids in rows(number) if word != "quoted"}
    return [
        replace(one, word=known[one.begins][0], entries=known[one.begins][1])
        if one.word == "unread" and one.begins in known
        else one
        for one in found
    ]


def apply(found: list[Sentence], decisions: str, number: str) -> list[Sentence]:
    """Sentences with a reader's decisions; what an entry quotes, or only joins others, stays as it is."""
    known, result = texts_of(number), list(found)
    for line in decisions.splitlines():
        if not line.strip():
            continue
        span, *what = line.split()
        first, _, last = span.partition("-")
        for index in range(int(first), int(last or first) + 1):
            if result[index].word in {"quoted", "connective"}:
                continue
            if len(what) == 1 and what[0] in WORDS:
                result[index] = replace(result[index], word=what[0], entries=())
            elif unknown := [name for name in what if name not in known]:
                sys.exit(f"{line!r}: {unknown[0]} is neither an entry nor one of {', '.join(WORDS)}")
            else:
                result[index] = replace(result[index], word="elsewhere", entries=tuple(what))
    return result


def read(folder: Path, number: str) -> list[Sentence]:
    """The sentences of a paper with all that is known of them."""
    (file,) = folder.glob(f"{number}*")
    return decided(covered(list(sentences(file.read_text(encoding="utf-8"))), number), number)


def written(found: list[Sentence]) -> str:
    """The record as text."""
    lines = ["place\tbegins\tword\tentries"]
    lines += ["\t".join((one.place, one.begins.replace("\t", " "), one.word, " ".join(one.entries))) for one in found]
    return "\n".join(lines) + "\n"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--papers", type=Path, required=True, metavar="FOLDER")
    parser.add_argument("--paper", choices=list(papers()), required=True, metavar="NNN")
    parser.add_argument("--write", action="store_true")
    parser.add_argument("--decisions", type=Path, metavar="FILE")
    options = parser.parse_args()
    found = read(options.papers, options.paper)
    if options.decisions:
        found = apply(found, options.decisions.read_text(encoding="utf-8"), options.paper)
    if options.write:
        write_whole(record(options.paper), written(found))
    for index, one in enumerate(found):
        if one.word == "unread":
            print(index, one.place[:24], " ".join(one.text.split())[:400], sep="\t")
    print(", ".join(f"{word}: {count}" for word, count in Counter(one.word for one in found).most_common()))


if __name__ == "__main__":
    main()
