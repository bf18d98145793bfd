"""README and pages state the papers, the counts of the ledger and those of the figures as the data has them."""

from __future__ import annotations

import subprocess
import sys

from isometer_papers import papers
from support import ROOT
from support.site import COMPANION


def test_generated_parts_of_pages_are_up_to_date() -> None:
    call = [sys.executable, str(ROOT / "tools" / "make_pages.py"), "--check"]
    assert subprocess.run(call, check=False).returncode == 0, "run python tools/make_pages.py"


def test_every_paper_has_a_ledger_page_and_is_in_the_readme() -> None:
    there = {path.stem for path in (COMPANION / "ledger").glob("*.md")} - {"index"}
    assert there == {paper.key for paper in papers().values()}
    for readme in (ROOT / "README.md", ROOT / "papers" / "README.md"):
        text = readme.read_text(encoding="utf-8")
        assert [paper.title for paper in papers().values() if paper.title not in text] == []
