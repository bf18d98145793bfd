"""Lists what the ledger still lacks: failures without class, quotation or snippet, and checks without power.

    python tools/missing_evidence.py [NNN …]

The exit code says whether anything is missing in the papers that were named, or in all.
"""

from __future__ import annotations

import argparse
import sys

from isometer_papers import papers
from isometer_papers.claims._evidence import missing


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("papers", nargs="*", choices=[*papers(), []], metavar="NNN")
    lines = [line for number in parser.parse_args().papers or papers() for line in missing(number)]
    print("\n".join(lines) or "nothing is missing")
    sys.exit(bool(lines))


if __name__ == "__main__":
    main()
