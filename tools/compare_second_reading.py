"""Compares the blind readings with the ledger and writes papers/docs/second-reading.md.

    python tools/compare_second_reading.py LIST > papers/docs/second-reading.md
    python tools/compare_second_reading.py LIST --round 2

LIST is what `isometer claims list --json` prints now; --round prints one reading alone. In
`papers/docs/second-reading/` are, for each reading (names end in -N from the second on), the draw, the verdicts,
`ledger.json` (the drawn entries as the ledger had them when those verdicts were committed; agreement is counted on
these, and `named` are those that the list of known problems names), and `resolutions.json`, which says of every
disagreement who is right and why.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from scipy.stats import binomtest

FOLDER = Path(__file__).parents[1] / "papers" / "docs" / "second-reading"
FAILURES = frozenset({"refuted", "vacuous"})
Entry = dict[str, Any]
Pair = tuple[Entry, Entry]  # reader, ledger
HEADINGS = {
    1: "First reading",
    2: "Second reading",
    3: "Third reading",
    4: "Fourth reading",
    5: "Fifth reading",
    6: "Sixth reading",
    7: "Seventh reading",
    8: "Eighth reading",
}
GIVEN = {2: "paper, policy, place, quotation, formula"}
PLAIN = "paper, policy, place, quotation"  # what all other readers were given
MEASURES: tuple[tuple[str, Callable[[Entry], Any]], ...] = (
    ("verdict as printed", lambda entry: entry["as_printed"]),
    ("verdict as intended", lambda entry: entry["as_intended"]),
    ("both verdicts", lambda entry: (entry["as_printed"], entry["as_intended"])),
    ("class, with none for what does not fail", lambda entry: entry["class"]),
)


def agreement(pairs: Iterable[Pair], key: Callable[[Entry], Any]) -> str:
    """Share of pairs with equal keys, with the exact 95 % interval of Clopper and Pearson.

    >>> pairs = [({"class": "minor"}, {"class": "minor"}), ({"class": None}, {"class": "proof"})]
    >>> agreement(pairs, lambda entry: entry["class"])
    '1 of 2 = 50.0 % (1.3 to 98.7 %)'
    """
    equal = [key(reading) == key(entry) for reading, entry in pairs]
    if not equal:
        return "none"
    interval = binomtest(sum(equal), len(equal)).proportion_ci(0.95)
    share = 100 * sum(equal) / len(equal)
    return f"{sum(equal)} of {len(equal)} = {share:.1f} % ({100 * interval.low:.1f} to {100 * interval.high:.1f} %)"


def share(pairs: list[Pair], key: Callable[[Entry], Any]) -> float:
    """Of pairs with equal keys.

    >>> share([({"class": "minor"}, {"class": "minor"}), ({"class": None}, {"class": "proof"})], MEASURES[-1][1])
    0.5
    """
    return sum(key(reading) == key(entry) for reading, entry in pairs) / len(pairs)


def weighted(pairs: list[Pair], sizes: dict[bool, int], key: Callable[[Entry], Any]) -> float:
    """Agreement in percent, failures and others weighted by how many of each the whole ledger has (`sizes`).

    >>> pairs = [({"as_printed": "holds"}, {"as_printed": verdict}) for verdict in ("holds", "refuted")]
    >>> weighted(pairs, {True: 1, False: 3}, lambda entry: entry["as_printed"])
    75.0
    """
    total = 0.0
    for fails, size in sizes.items():
        half = [pair for pair in pairs if (pair[1]["as_printed"] in FAILURES) is fails]
        total += size * sum(key(reading) == key(entry) for reading, entry in half) / len(half)
    return 100 * total / sum(sizes.values())


def judged(entry: Entry) -> str:
    """Verdicts and class in one line.

    >>> judged({"as_printed": "refuted", "as_intended": "holds", "class": "corner"})
    'refuted, holds, corner'
    """
    return ", ".join(str(entry[key]) for key in ("as_printed", "as_intended", "class") if entry[key])


@dataclass(frozen=True)
class Reading:
    """One blind reading: the ledger as it was, the verdicts, and who is right where they differ."""

    heading: str
    introduction: str
    ledger: Entry
    verdicts: list[Entry]
    resolutions: dict[str, Entry]

    @classmethod
    def of(cls, number: int) -> Reading:
        """The files of a reading; those of the first have no number."""
        ending = "" if number == 1 else f"-{number}"
        text = (FOLDER / f"introduction{ending}.txt").read_text("utf-8").rstrip()
        names = ("ledger", "verdicts", "resolutions")
        files = (json.loads((FOLDER / f"{name}{ending}.json").read_text("utf-8")) for name in names)
        return cls(HEADINGS[number], text, *files)

    def pairs(self) -> list[Pair]:
        """Each verdict with the entry that the ledger had."""
        entries = {entry["id"]: entry for entry in self.ledger["entries"]}
        return [(reading, entries[reading["id"]]) for reading in self.verdicts]

    def table(self) -> str:
        """Agreement before resolution."""
        pairs, named = self.pairs(), self.ledger.get("named", [])
        sizes = {True: self.ledger["failing"], False: self.ledger["others"]}
        failing = [pair for pair in pairs if pair[0]["class"] and pair[1]["class"]]
        rows = [f"| {name} | {agreement(pairs, key)} | {weighted(pairs, sizes, key):.1f} % |" for name, key in MEASURES]
        rows.append(f"| class, where both see a failure | {agreement(failing, lambda entry: entry['class'])} | |")
        unnamed = [pair for pair in pairs if pair[0]["id"] not in named]
        if named:
            rows += [
                f"| {name}, without the {len(named)} named | {agreement(unnamed, key)} | |" for name, key in MEASURES
            ]
        return "| | of the draw (95 % interval) | weighted to the whole ledger |\n|---|---|---|\n" + "\n".join(rows)

    def section(self, now: dict[str, Entry]) -> str:
        """The reading in Markdown."""
        apart = [pair for pair in self.pairs() if judged(pair[0]) != judged(pair[1])]
        missing = {reading["id"] for reading, _ in apart} ^ set(self.resolutions)
        if missing:
            sys.exit(f"resolutions and disagreements differ in {sorted(missing)}; give each disagreement one")
        return "\n\n".join(
            [
                f"## {self.heading}",
                self.introduction,
                f"### Agreement before resolution: {self.heading.lower()}",
                self.table(),
                "Required are 95 % of verdicts and 85 % of classes.",
                f"### The {len(apart)} disagreements: {self.heading.lower()}",
                *(self.disagreement(reading, entry, now[reading["id"]]) for reading, entry in apart),
            ]
        )

    def disagreement(self, reading: Entry, entry: Entry, current: Entry) -> str:
        """Both sides, who is right, and what the ledger has now."""
        found, after = self.resolutions[reading["id"]], judged(current)
        return (
            f"#### {reading['id']}\n\n"
            f"- reader: {judged(reading)} (confidence {reading['confidence']}). {reading['reason']}\n"
            f"- ledger: {judged(entry)}. Reading: {entry['reading']}\n"
            f"- {found['right']}: {found['why']}\n"
            f"- the ledger now: {after}" + ("" if after != judged(entry) else " (unchanged)")
        )


def overview(readings: dict[int, Reading]) -> str:
    """Agreement by reading, and over all, in Markdown."""
    every = [(HEADINGS[number].lower(), GIVEN.get(number, PLAIN), one.pairs()) for number, one in readings.items()]
    without = [pairs for _, given, pairs in every if given == PLAIN]
    every.append((f"all {len(readings)}", "", [pair for _, _, pairs in every for pair in pairs]))
    every.append(("those without the formula", PLAIN, [pair for pairs in without for pair in pairs]))
    rows = [
        "| | what the readers had | as printed | as intended | both | class |",
        "|---|---|---|---|---|---|",
        "| required | | 95 % | 95 % | | 85 % |",
    ]
    for name, given, pairs in every:
        shares = [f"{100 * share(pairs, key):.1f} %" for _, key in MEASURES]
        rows.append(f"| {' | '.join([name, given, *shares])} |")
    return "\n".join(rows)


def main() -> None:
    """Print the page."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("list", type=Path, help="the output of `isometer claims list --json`")
    parser.add_argument("--round", type=int, choices=sorted(HEADINGS), help="one reading alone")
    arguments = parser.parse_args()
    now = {entry["id"]: entry for entry in json.loads(arguments.list.read_text("utf-8"))}
    if arguments.round:
        print(Reading.of(arguments.round).section(now))
        return
    readings = {number: Reading.of(number) for number in sorted(HEADINGS)}
    title = (FOLDER / "introduction-all.txt").read_text("utf-8").rstrip().replace("{overview}", overview(readings))
    print("\n\n".join([title, *(one.section(now) for one in readings.values())]))


if __name__ == "__main__":
    main()
