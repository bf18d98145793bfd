"""Write the tables of docs/theory/transformers.md from the rows in docs/transformers.

python tools/make_transformer_page.py
"""

from __future__ import annotations

from pathlib import Path

import check_transformer_sizes as sizes
import check_transformers as configurations

ROOT = Path(__file__).parents[1]
PAGE = ROOT / "docs/theory/transformers.md"


def filled(page: str, name: str, table: str) -> str:
    """The page with what is between two marks replaced."""
    begin, end = f"<!-- {name}: made by tools/make_transformer_page.py -->", f"<!-- end of {name} -->"
    before, rest = page.split(begin)
    return f"{before}{begin}\n{table}\n{end}{rest.split(end)[1]}"


def main() -> None:
    """Read the rows and write the page."""
    page = PAGE.read_text(encoding="utf-8")
    rows = ROOT / "docs/transformers"
    page = filled(
        page, "configurations", configurations.report(configurations.known_rows(rows / "configurations.jsonl"))
    )
    page = filled(page, "sizes", sizes.report(sizes.known(rows / "sizes.jsonl")))
    PAGE.write_text(page, encoding="utf-8")


if __name__ == "__main__":
    main()
