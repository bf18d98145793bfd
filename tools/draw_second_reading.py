"""Draws the entries of the ledger for a blind second reading.

    python tools/draw_second_reading.py LIST [--size 84] [--seed 20261118] > papers/docs/second-reading/draw.json

LIST is what `isometer claims list --json` prints. Half of the draw comes from the papers' statements that fail as
printed, half from all others, so that a reading of moderate size meets enough failures. The draw is shuffled and holds
nothing but the identifier, the place and the quotation: the reader learns neither a verdict nor the half an entry
comes from.
"""

from __future__ import annotations

import argparse
import json
import random
from pathlib import Path
from typing import Any

FAILURES = frozenset({"refuted", "vacuous"})
SHOWN = ("id", "place", "quotation")


def draw(entries: list[dict[str, Any]], size: int, seed: int) -> list[dict[str, Any]]:
    """The shuffled draw, without verdicts.

    >>> ledger = [{"id": f"9/{i}", "place": "p", "quotation": "q", "origin": "paper", "as_printed": v}
    ...           for i, v in enumerate(["holds", "refuted"] * 5)]
    >>> sorted(draw(ledger, 2, 0)[0])
    ['id', 'place', 'quotation']
    """
    printed = sorted((entry for entry in entries if entry["origin"] == "paper"), key=lambda entry: entry["id"])
    failing = [entry for entry in printed if entry["as_printed"] in FAILURES]
    others = [entry for entry in printed if entry["as_printed"] not in FAILURES]
    generator = random.Random(seed)
    drawn = generator.sample(failing, size // 2) + generator.sample(others, size - size // 2)
    generator.shuffle(drawn)
    return [{key: entry[key] for key in SHOWN} for entry in drawn]


def main() -> None:
    """Print the draw as JSON."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("list", type=Path, help="the output of `isometer claims list --json`")
    parser.add_argument("--size", type=int, default=84)
    parser.add_argument("--seed", type=int, default=20261118)
    arguments = parser.parse_args()
    entries = json.loads(arguments.list.read_text(encoding="utf-8"))
    print(json.dumps(draw(entries, arguments.size, arguments.seed), indent=1, ensure_ascii=False))


if __name__ == "__main__":
    main()
