"""Fills the tables of docs/architecture.md from docs/arrows.toml, the one source of which package may import which.

    python tools/make_architecture.py [--check]

--check only says whether the page is up to date, by the exit code.
"""

from __future__ import annotations

import argparse
import re
import sys
import tomllib
from pathlib import Path
from typing import Any

from isometer.files import write_whole

DOCS = Path(__file__).parents[1] / "docs"
ARROWS = DOCS / "arrows.toml"
PAGE = DOCS / "architecture.md"


def tables(arrows: dict[str, Any]) -> dict[str, str]:
    """Both tables by the name of their place in the page.

    >>> room = {"name": "spec", "what": "the spec", "imports": ["errors", "activations"]}
    >>> print(tables({"room": [room], "companion": []})["rooms"])
    | package | contents | may import |
    |---|---|---|
    | `spec` | the spec | `activations`, `errors` |
    """
    rooms = ["| package | contents | may import |", "|---|---|---|"]
    for room in arrows["room"]:
        imports = ", ".join(f"`{name}`" for name in sorted(room["imports"])) or "–"
        rooms.append(f"| `{room['name']}` | {room['what']} | {imports} |")
    companion = ["| part | contents |", "|---|---|"]
    companion += [f"| `{part['name'].replace(', ', '`, `')}` | {part['what']} |" for part in arrows["companion"]]
    return {"rooms": "\n".join(rooms), "companion": "\n".join(companion)}


def filled(text: str, arrows: dict[str, Any]) -> str:
    """The page with its tables made anew."""
    made = tables(arrows)
    pattern = r"(<!-- (\w+): made by tools/make_architecture.py -->\n).*?(<!-- end -->)"
    return re.sub(pattern, lambda match: f"{match[1]}{made[match[2]]}\n{match[3]}", text, flags=re.S)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--check", action="store_true")
    options = parser.parse_args()
    before = PAGE.read_text(encoding="utf-8")
    after = filled(before, tomllib.loads(ARROWS.read_text(encoding="utf-8")))
    if options.check:
        sys.exit(0 if after == before else f"out of date: {PAGE.name}")
    write_whole(PAGE, after)


if __name__ == "__main__":
    main()
