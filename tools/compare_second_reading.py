"""Compares the blind second reading with the ledger and writes papers/docs/second-reading.md.

    python tools/compare_second_reading.py LIST > papers/docs/second-reading.md

LIST is what `isometer claims list --json` prints now. In `papers/docs/second-reading/` are the draw, the verdicts of
the second reading, `ledger.json` (the drawn entries as the ledger had them when those verdicts were committed;
agreement is counted on these), and `resolutions.json`, which says of every disagreement who is right and why.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

from scipy.stats import binomtest

FOLDER = Path(__file__).parents[1] / "papers" / "docs" / "second-reading"
FAILURES = frozenset({"refuted", "vacuous"})
Entry = dict[str, Any]
Pair = tuple[Entry, Entry]  # second reading, ledger


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


def page(ledger: Entry, now: list[Entry], verdicts: list[Entry], resolutions: dict[str, Entry]) -> str:
    """The page in Markdown."""
    entries, current = ({entry["id"]: entry for entry in entries} for entries in (ledger["entries"], now))
    sizes = {True: ledger["failing"], False: ledger["others"]}
    pairs = [(reading, entries[reading["id"]]) for reading in verdicts]
    failing = [pair for pair in pairs if pair[0]["class"] and pair[1]["class"]]
    apart = [pair for pair in pairs if judged(pair[0]) != judged(pair[1])]
    missing = {reading["id"] for reading, _ in apart} ^ set(resolutions)
    if missing:
        sys.exit(f"resolutions.json and the disagreements differ in {sorted(missing)}; give each disagreement one")
    measures: tuple[tuple[str, Callable[[Entry], Any]], ...] = (
        ("verdict as printed", lambda entry: entry["as_printed"]),
        ("verdict as intended", lambda entry: entry["as_intended"]),
        ("class, with none for what does not fail", lambda entry: entry["class"]),
    )
    rows = [f"| {name} | {agreement(pairs, key)} | {weighted(pairs, sizes, key):.1f} % |" for name, key in measures]
    rows.append(f"| class, where both see a failure | {agreement(failing, lambda entry: entry['class'])} | |")
    parts = [
        (FOLDER / "introduction.txt").read_text(encoding="utf-8").rstrip(),
        "## Agreement before resolution\n\n"
        "| | of the draw (95 % interval) | weighted to the whole ledger |\n|---|---|---|\n" + "\n".join(rows),
        "Required were 95 % of verdicts and 85 % of classes.",
        f"## The {len(apart)} disagreements",
    ]
    for reading, entry in apart:
        found = resolutions[reading["id"]]
        after = judged(current[reading["id"]])
        parts.append(
            f"### {reading['id']}\n\n"
            f"- second reading: {judged(reading)} (confidence {reading['confidence']}). {reading['reason']}\n"
            f"- ledger: {judged(entry)}. Reading: {entry['reading']}\n"
            f"- {found['right']}: {found['why']}\n"
            f"- the ledger now: {after}" + ("" if after != judged(entry) else " (unchanged)")
        )
    return "\n\n".join(parts) + "\n"


def main() -> None:
    """Print the page."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("list", type=Path, help="the output of `isometer claims list --json`")
    now = json.loads(parser.parse_args().list.read_text("utf-8"))
    names = ("ledger", "verdicts", "resolutions")
    ledger, verdicts, resolutions = (json.loads((FOLDER / f"{name}.json").read_text("utf-8")) for name in names)
    print(page(ledger, now, verdicts, resolutions), end="")


if __name__ == "__main__":
    main()
