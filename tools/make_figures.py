"""Tables of figures from galleries, with the cells they are made of; says which are of the present code.

    python tools/make_figures.py GALLERY...   takes over what the galleries hold, scale by scale
    python tools/make_figures.py --check      lists what was made by other code than the present

`papers/docs/results/SCALE.json` keeps the records: verdict, statements, power, halves, numbers, seconds, seeds, date,
the keys of the cells, which change with what computes them and with the settings, and the version of the rules that
read the verdict. The pages are written from them. Rows whose records were not kept stay as they were and are marked,
as are those whose rules have changed since: `isometer reproduce --read-again` applies the present ones to a gallery.
"""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

from isometer.serialize import json_text
from isometer_papers.report.gallery import gallery_markdown, order, read_records
from isometer_papers.studies import find
from isometer_papers.studies._records import provenance, rules_of
from isometer_papers.studies._running import make_job

ROOT = Path(__file__).parents[1]
DOCS = ROOT / "papers" / "docs"
PAGES = {"quick": "figures.md", "medium": "figures-medium.md", "paper": "figures-paper.md"}
EARLIER = "earlier code"
_LEFT_OUT = ("choices", "shows", "variants", "versions")


def results(scale: str) -> dict[str, dict[str, Any]]:
    """Records by ID; of a scale without a file, the rows of its page."""
    path = DOCS / "results" / f"{scale}.json"
    if path.is_file():
        found: dict[str, dict[str, Any]] = json.loads(path.read_text("utf-8"))
        return found
    return _rows(scale, (DOCS / PAGES[scale]).read_text("utf-8"))


def _rows(scale: str, page: str) -> dict[str, dict[str, Any]]:
    """The rows of a page that was written before records were kept."""
    found: dict[str, dict[str, Any]] = {}
    parts = re.split(r"^## ", page, flags=re.M)
    lists = [dict(re.findall(r"^- (\S+): (.*)$", part, flags=re.M)) for part in parts[1:]]
    whys, reduced = lists if len(lists) == 2 else ({}, lists[0] if lists else {})
    for line in parts[0].splitlines():
        cells = [cell.strip().replace("\\|", "|") for cell in re.split(r"(?<!\\)\|", line)[1:-1]]
        if len(cells) == 6 and re.match(r"\d{3}/", cells[0]):
            identifier, title, _, summary, verdict, seconds = cells
            row = {"id": identifier, "title": title, "scale": scale, "summary": summary, "verdict": verdict}
            notes = {"why": whys.get(identifier, ""), "reduced": reduced.get(identifier, "").removesuffix(".")}
            found[identifier] = {**row, **notes, "seconds": float(seconds), "made": EARLIER, "measured": {}}
    return found


def current(record: dict[str, Any]) -> bool:
    """Whether the cells of a record are those of the present code and settings."""
    if "key" not in record:
        return False
    study = find(record["id"])
    return bool(record["key"] == provenance(make_job(study, study.scale(record["scale"])), "")["key"])


def by_present_rules(record: dict[str, Any]) -> bool:
    """Whether the verdict of a record was read by the present rules."""
    return record["verdict"] == "not run" or record.get("rules") == rules_of(find(record["id"]))


def take_over(galleries: list[Path]) -> None:
    """Keep what galleries hold and write the pages."""
    command = ["git", "-C", str(ROOT), "rev-parse", "--short", "HEAD"]
    revision = subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()
    kept = {scale: results(scale) for scale in PAGES}
    for gallery in galleries:
        for _, record in read_records(gallery):
            small = {name: value for name, value in record.items() if name not in _LEFT_OUT}
            kept[record["scale"]][record["id"]] = {**small, "revision": revision}
    for scale, records in kept.items():
        listed = [records[name] for name in sorted(records, key=order)]
        for record in listed:
            for name in ("made", "earlier_rules"):
                record.pop(name, None)
            if record["verdict"] != "not run" and not current(record):
                record["made"] = EARLIER
            elif not by_present_rules(record):
                record["earlier_rules"] = True
        (DOCS / "results").mkdir(exist_ok=True)
        text = json_text({one["id"]: one for one in listed}, nonfinite="sign", indent=1, ensure_ascii=False)
        (DOCS / "results" / f"{scale}.json").write_text(text + "\n", encoding="utf-8")
        (DOCS / PAGES[scale]).write_text(gallery_markdown(listed), encoding="utf-8")


def check() -> int:
    """Print what is not of the present code; the number of such records."""
    stale = 0
    for scale in PAGES:
        records = results(scale)
        old = [name for name, record in records.items() if record["verdict"] != "not run" and not current(record)]
        stale += len(old)
        print(f"{scale}: {len(records) - len(old)} of {len(records)} are of the present code", end="")
        print(f"; not so: {', '.join(old)}" if old else "")
        ruled = [name for name, record in records.items() if name not in old and not by_present_rules(record)]
        print(f"{scale}: read by earlier rules: {', '.join(ruled)}" if ruled else "", end="\n" if ruled else "")
    return stale


if __name__ == "__main__":
    if sys.argv[1:] == ["--check"]:
        sys.exit(1 if check() else 0)
    if not sys.argv[1:]:
        sys.exit(__doc__)
    take_over([Path(name) for name in sys.argv[1:]])
