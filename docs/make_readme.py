"""Fills the parts of README.md that follow from data: the counts of the ledger and of the figures.

    python docs/make_readme.py [--check]

--check only says whether README.md is up to date, by the exit code.
"""

from __future__ import annotations

import argparse
import re
import sys
from pathlib import Path

from isometer_papers.claims import ledger, tally
from isometer_papers.claims._registry import papers

README = Path(__file__).parent.parent / "README.md"
FIGURES = {"quick": "figures.md", "medium": "figures-medium.md", "paper": "figures-paper.md"}  # by scale


def claims_block() -> str:
    """How many statements have each verdict, by paper."""
    rows = [
        "| paper | statements | hold | refuted | vacuous | inconclusive | corrections that hold |",
        "|---|---|---|---|---|---|---|",
    ]
    total = [0] * 6
    for paper in papers():
        found = ledger(paper)
        printed = tally(row for row in found if "#" not in row.id)
        corrected = tally(row for row in found if "#" in row.id)
        numbers = [sum(printed.values()), *printed.values(), corrected["holds"]]
        total = [a + b for a, b in zip(total, numbers, strict=True)]
        rows.append(f"| {paper} | " + " | ".join(map(str, numbers)) + " |")
    rows.append("| all | " + " | ".join(map(str, total)) + " |")
    return "\n".join(rows)


def figures_block() -> str:
    """The lines of counts at the top of docs/figures*.md, which are the summaries of galleries as generated."""
    rows = []
    for scale, name in FIGURES.items():
        path = Path(__file__).with_name(name)
        if path.is_file():
            lines = path.read_text(encoding="utf-8").splitlines()
            counts = next(line for line in lines if re.match(r"\d+ studies:", line))
            rows.append(f"- [{scale}](docs/{name}): {counts}")
    return "\n".join(rows) or "No figures have been made yet."


def filled(text: str) -> str:
    """The text with its generated parts made anew."""
    for name, block in (("ledger", claims_block()), ("figures", figures_block())):
        pattern = rf"(<!-- {name}: made by docs/make_readme.py -->\n).*?(\n<!-- end -->)"
        if not re.search(pattern, text, flags=re.S):
            raise SystemExit(f"README.md has no part {name!r} to fill")
        text = re.sub(pattern, lambda match, block=block: match[1] + block + match[2], text, flags=re.S)  # type: ignore[misc]
    return text


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--check", action="store_true")
    options = parser.parse_args()
    before = README.read_text(encoding="utf-8")
    after = filled(before)
    if options.check:
        sys.exit(0 if after == before else 1)
    README.write_text(after, encoding="utf-8")


if __name__ == "__main__":
    main()
