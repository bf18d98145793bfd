"""Checks claims at effort thorough and puts the results into the shipped ledger, beside those of the other claims.

    python tools/update_ledger.py ID…

An ID names itself or all parts of a statement, as `isometer claims check` takes them. Claims that are new come where
their paper has them; results of claims that are gone are dropped.
"""

from __future__ import annotations

import argparse
from pathlib import Path

from isometer_papers.claims import check, claims_of, find
from isometer_papers.claims._ledger import save, shipped

LEDGER = Path(__file__).parents[1] / "papers" / "src" / "isometer_papers" / "claims" / "ledger"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("ids", nargs="+", metavar="ID")
    chosen = {claim.id: claim for name in parser.parse_args().ids for claim in find(name)}
    for number in sorted({claim.paper for claim in chosen.values()}):
        before = dict(shipped(number))
        found = {}
        for claim in claims_of(number):
            if claim.id in chosen:
                found[claim.id] = check(claim, effort="thorough")
                was = before[claim.id].verdict if claim.id in before else "new"
                print(f"{claim.id}: {was} → {found[claim.id].verdict}; {found[claim.id].note}", flush=True)
            elif claim.id in before:
                found[claim.id] = before[claim.id]
        save(found.values(), LEDGER / f"{number}.json")


if __name__ == "__main__":
    main()
