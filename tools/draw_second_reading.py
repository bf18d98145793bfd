"""Draws the entries of the ledger for a blind second reading.

    python tools/draw_second_reading.py LIST > papers/docs/second-reading/draw.json
    python tools/draw_second_reading.py LIST --seed 20261119 --show reading --without EARLIER > …/draw-2.json

LIST is what `isometer claims list --json` prints. Half of the draw comes from the papers' statements that fail as
printed, half from all others, so that a reading of moderate size meets enough failures. The draw is shuffled and holds
nothing but the identifier, the place and the quotation: the reader learns neither a verdict nor the half an entry
comes from. `--without` leaves out the entries of earlier draws. `--show reading` adds the formula that an entry is
about, because several entries may share one quotation.
"""

from __future__ import annotations

import argparse
import json
import random
from collections.abc import Collection
from pathlib import Path
from typing import Any

FAILURES = frozenset({"refuted", "vacuous"})
SHOWN = ("id", "place", "quotation")


def draw(
    entries: list[dict[str, Any]], size: int, seed: int, without: Collection[str] = (), show: Collection[str] = ()
) -> list[dict[str, Any]]:
    """The shuffled draw, without verdicts and without the entries whose identifiers are in `without`.

    >>> ledger = [{"id": f"9/{i}", "place": "p", "quotation": "q", "origin": "paper", "as_printed": v}
    ...           for i, v in enumerate(["holds", "refuted"] * 5)]
    >>> sorted(draw(ledger, 2, 0)[0])
    ['id', 'place', 'quotation']
    >>> {entry["id"] for entry in draw(ledger, 8, 0, without={"9/0", "9/1"})} & {"9/0", "9/1"}
    set()
    """
    left = (entry for entry in entries if entry["origin"] == "paper" and entry["id"] not in without)
    printed = sorted(left, key=lambda entry: entry["id"])
    failing = [entry for entry in printed if entry["as_printed"] in FAILURES]
    others = [entry for entry in printed if entry["as_printed"] not in FAILURES]
    generator = random.Random(seed)
    drawn = generator.sample(failing, size // 2) + generator.sample(others, size - size // 2)
    generator.shuffle(drawn)
    return [{key: entry[key] for key in (*SHOWN, *show)} for entry in drawn]


def main() -> None:
    """Print the draw as JSON."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("list", type=Path, help="the output of `isometer claims list --json`")
    parser.add_argument("--size", type=int, default=84)
    parser.add_argument("--seed", type=int, default=20261118)
    parser.add_argument("--without", type=Path, nargs="+", default=[], metavar="FILE", help="earlier draws")
    parser.add_argument("--show", action="append", choices=["reading"], default=[], help="show this field, too")
    arguments = parser.parse_args()
    entries = json.loads(arguments.list.read_text(encoding="utf-8"))
    earlier = {entry["id"] for file in arguments.without for entry in json.loads(file.read_text(encoding="utf-8"))}
    drawn = draw(entries, arguments.size, arguments.seed, earlier, arguments.show)
    print(json.dumps(drawn, indent=1, ensure_ascii=False))


if __name__ == "__main__":
    main()
