"""Fills the parts of pages that follow from data: papers as people cite them, counts of ledger and figures, the trial.

    python tools/make_pages.py [--check]

A part begins with `<!-- NAME: made by tools/make_pages.py -->` and ends with `<!-- end -->`; the names are in `parts`.
--check only says whether all pages are up to date, by the exit code.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import sys
from collections import Counter
from pathlib import Path

from isometer.files import write_whole
from isometer.serialize import json_text
from isometer_papers import Paper, papers
from isometer_papers.claims import counted, findings, ledger
from isometer_papers.claims._counts import UNCLASSIFIED
from isometer_papers.claims._policy import CLASSES
from isometer_papers.report.ledger_markdown import findings_markdown
from isometer_papers.report.ledger_power import power_markdown
from made import made_line
from sentences import rows as sentence_rows
from trial_parts import doctor_parts, fitted, reliability, trial_parts, trial_sentence

ROOT = Path(__file__).parents[1]
DOCS = ROOT / "papers" / "docs"
PAGES = (ROOT / "README.md", ROOT / "papers" / "README.md", DOCS / "index.md", DOCS / "notation.md")
PAGES += (DOCS / "findings.md", DOCS / "power.md", DOCS / "sentences.md", *sorted((DOCS / "ledger").glob("*.md")))
TRIAL = ROOT / "docs" / "trial.md"
DOCTOR = ROOT / "docs" / "doctor.md"
RELIABILITY_PAGE, FUZZ = ROOT / "docs" / "reliability.md", ROOT / "docs" / "reliability.json"
PROBING = ROOT / "docs" / "probing.json"
PAGES += (ROOT / "docs" / "why.md", TRIAL, DOCTOR, RELIABILITY_PAGE)
FITTED = ROOT / "src" / "isometer" / "doctor" / "stress" / "fitted.json"
RELIABILITY = ROOT / "src" / "isometer" / "doctor" / "diagnosis" / "reliability.json"
FIGURES = {"quick": "figures.md", "medium": "figures-medium.md", "paper": "figures-paper.md"}  # by scale
PART = re.compile(r"(<!-- ([\w ]+): made by tools/make_pages.py -->\n).*?(<!-- end -->)", flags=re.S)


def title(paper: Paper) -> str:
    """Heading and reference of a paper's page."""
    return f"# {paper.label}\n\n{reference(paper)}"


def reference(paper: Paper) -> str:
    """Authors, linked title and venue."""
    return f"{', '.join(paper.authors)}: [{paper.title}]({paper.link}). {paper.venue}."


def papers_table(page: Path) -> str:
    """How each paper is cited, with its number and its ledger."""
    rows = ["| IDs | cited as | paper |", "|---|---|---|"]
    for number, paper in papers().items():
        rows.append(f"| `{number}/…` | {_ledger_link(paper, page)} | {reference(paper)} |")
    return "\n".join(rows)


def ledger_table(page: Path) -> str:
    """How many statements hold as printed and as intended, and failures by class, by paper."""
    whole = counted(ledger())
    classes = [*CLASSES, *([UNCLASSIFIED] if whole.classes[UNCLASSIFIED] else [])]
    head = ["paper", "statements", "hold as printed", "fail", "undecided", "hold as intended", *classes]
    rows = ["| " + " | ".join(head) + " |", "|---" * len(head) + "|"]
    lines = {f"{_ledger_link(paper, page)} ({number})": counted(ledger(number)) for number, paper in papers().items()}
    for name, one in {**lines, "all": whole}.items():
        printed = one.as_printed
        numbers = [one.statements, printed["holds"], printed["refuted"] + printed["vacuous"], printed["inconclusive"]]
        numbers += [one.as_intended["holds"], *(one.classes[label] for label in classes)]
        rows.append(f"| {name} | " + " | ".join(map(str, numbers)) + " |")
    held = whole.corrections["holds"]
    ours = f"{sum(whole.corrections.values())} corrections and intended readings, of which {held} hold"
    behind = f"{whole.causes} causes are behind the {whole.failures} failures."
    rows += ["", f"{behind} Counted separately, because they are ours:"]
    return "\n".join([*rows, f"{ours}, and {sum(whole.additions.values())} additions."])


def findings_list(page: Path) -> str:
    """The titles of the findings that matter, each with a link to its text."""
    target = _link(DOCS / "findings.md", page)
    return "\n".join(
        f"{number}. [{one.title}]({target}#{_anchor(one.title)})" for number, one in enumerate(findings(), 1)
    )


def _anchor(heading: str) -> str:
    """The anchor of a heading, as the site and GitHub make it."""
    return re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-")


def figures_list(page: Path) -> str:
    """The lines of counts at the top of the figure tables, which `isometer reproduce` wrote."""
    rows = []
    for scale, name in FIGURES.items():
        lines = (DOCS / name).read_text(encoding="utf-8").splitlines()
        counts = next(line for line in lines if re.match(r"\d+ studies:", line))
        rows.append(f"- [{scale}]({_link(DOCS / name, page)}): {counts}")
    return "\n".join(rows)


def sentences_table() -> str:
    """How many sentences of each paper the ledger covers."""
    head = ["paper", "sentences", "quoted", "checked elsewhere", "no claim", "about trained networks", "unread"]
    rows = ["| " + " | ".join(head) + " |", "|---" * len(head) + "|"]
    for number, paper in papers().items():
        words = Counter(row[2] for row in sentence_rows(number))
        known = [words[word] for word in ("quoted", "elsewhere", "trained", "unread")]
        numbers = [words.total(), *known[:2], words.total() - sum(known), *known[2:]]
        rows.append(f"| {paper.cited} ({number}) | " + " | ".join(map(str, numbers)) + " |")
    return "\n".join(rows)


def fuzz_table() -> str:
    """What random input came to in the last whole run."""
    if not FUZZ.is_file():
        return "There has been none yet."
    found = json.loads(FUZZ.read_text(encoding="utf-8"))
    rows = ["| target | cases | answered | refused | broken | broken before repairs | longest, seconds | revision |"]
    rows.append("|---|---|---|---|---|---|---|---|")
    for one in found["targets"]:
        cases = f"{one['cases']}" + ("" if one["cases"] == one["planned"] else f" of {one['planned']}")
        answered, refused = (one["outcomes"].get(name, 0) for name in ("answered", "refused"))
        before = len({index for _, index, *_ in one["bad_before"]})
        revisions = one["revisions"]
        ran = ", ".join(f"{name}" + (f" ({count})" if len(revisions) > 1 else "") for name, count in revisions.items())
        rows.append(
            f"| `{one['target']}` | {cases} | {answered} | {refused} | {len(one['bad'])} | {before} "
            f"| {one['longest']:.1f} | {ran} |"
        )
    told = f"{found['date']}, Python {found['python']}, {found['seconds'] / 3600:.1f} hours of one core."
    rows += ["", f"{told} *Broken before repairs*: failed with an earlier revision, mended, and ran again."]
    broken = [f"{one['target']}:{index} ({word})" for one in found["targets"] for index, _, word in one["bad"]]
    return "\n".join([*rows, *(["", f"Broken: {'; '.join(broken)}."] if broken else [])])


def probing_table() -> str:
    """What became of difficult models, as `tools/check_probing.py` found."""
    found = json.loads(PROBING.read_text(encoding="utf-8"))
    names = {
        "difficult": "difficult models",
        "lines": "at every line",
        "transformers": "architectures of `transformers`",
    }
    shown = ("models", "cases", "unchanged", "refused", "beyond", "irreproducible")
    rows = ["| models | operation | how many | cases | unchanged | refused | out of scope | not reproducible |"]
    rows[0] += " not as promised |"
    rows.append("|---" * 9 + "|")
    groups: dict[tuple[str, str], Counter[str]] = {}
    for one in found["totals"]:
        counts = groups.setdefault((one["suite"], one["operation"]), Counter())
        counts.update({key: value for key, value in one.items() if isinstance(value, int) and key != "models"})
        counts["models"] = max(counts["models"], one["models"])
    for (suite, operation), counts in groups.items():
        bad = sum(counts[key] for key in ("changed", "error", "hung", "crashed"))
        numbers = [*(counts[key] for key in shown), bad]
        rows.append(f"| {names[suite]} | `{operation}` | " + " | ".join(map(str, numbers)) + " |")
    if again := found.get("ran_again", []):
        total = sum(one["cases"] for one in again)
        rows += ["", f"{total} of these cases ran again after the whole run. {made_line(again)}"]
    return "\n".join(rows)


def _ledger_link(paper: Paper, page: Path) -> str:
    return f"[{paper.cited}]({_link(DOCS / 'ledger' / f'{paper.key}.md', page)})"


def _link(target: Path, page: Path) -> str:
    return Path(os.path.relpath(target, page.parent)).as_posix()


def parts(page: Path) -> dict[str, str]:
    """Every part that a page can have, as it should be on this page."""
    if page == TRIAL:
        return trial_parts()
    if page == DOCTOR:
        return doctor_parts()
    if page == RELIABILITY_PAGE:
        return {"reliability": fuzz_table(), "probing": probing_table()}
    made = {"papers": papers_table(page), "ledger": ledger_table(page), "figures": figures_list(page)}
    made["trial sentence"] = trial_sentence()
    made |= {"findings": findings_list(page), "findings in full": findings_markdown(findings(), level=2)}
    made |= {"power": power_markdown(ledger()), "sentences": sentences_table()}
    return made | {f"title {number}": title(paper) for number, paper in papers().items()}


def filled(page: Path) -> str:
    """The page with its generated parts made anew."""
    made = parts(page)
    return PART.sub(lambda match: f"{match[1]}{made[match[2]]}\n{match[3]}", page.read_text(encoding="utf-8"))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--check", action="store_true")
    options = parser.parse_args()
    files = {page: filled(page) for page in PAGES}
    files |= {RELIABILITY: json_text(reliability()) + "\n", FITTED: json_text(fitted(), indent=2) + "\n"}
    stale = [page for page, text in files.items() if text != page.read_text(encoding="utf-8")]
    if options.check:
        sys.exit(f"out of date: {', '.join(page.name for page in stale)}" if stale else 0)
    for page in stale:
        write_whole(page, files[page])


if __name__ == "__main__":
    main()
