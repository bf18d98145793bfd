"""Text and verdicts fit together, quotations are in the papers, and every snippet shows what it says."""

from __future__ import annotations

import ast
import contextlib
import io
import os
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

import sentences
from check_quotations import found, normal, problems
from isometer.errors import IsometerError
from isometer_papers import papers
from isometer_papers.claims import Statement, causes, counted, findings, ledger, text_of
from isometer_papers.claims._counts import by_cause, failing
from isometer_papers.claims._evidence import certified_twice, contradictions, missing, unequal_twins, unused_snippets
from isometer_papers.claims._policy import CHARITY, CLASSES
from isometer_papers.claims._text import _check, folder, order, texts_of
from isometer_papers.claims._verdict import lacks_power
from support import ROOT

TEXTS = os.environ.get("ISOMETER_PAPERS")
CODE = {"numpy", "mpmath", "math", "fractions", "itertools", "scipy"}  # what a snippet may import
LINES = 10  # of code


def snippets() -> Iterator[tuple[str, Path]]:
    for number in papers():
        place = Path(str(folder(number))) / "snippets"
        yield from ((f"{number}/{path.stem}", path) for path in sorted(place.glob("*.py")))


SNIPPETS = dict(snippets())


# --- text and verdicts ------------------------------------------------------------


@pytest.mark.parametrize("paper", papers())
def test_text_fits_the_verdicts(paper: str) -> None:
    assert list(contradictions(paper)) == []
    assert unused_snippets(paper) == set()


@pytest.mark.parametrize("paper", papers())
def test_complete_papers_lack_nothing(paper: str) -> None:
    lacking = list(missing(paper))
    if order(paper)["complete"]:
        assert lacking == []
    elif not lacking:
        pytest.fail(f"nothing is missing in {paper}: set complete = true in its paper.toml")


def test_twins_have_equal_verdicts() -> None:
    assert list(unequal_twins()) == []


def test_the_same_words_in_two_papers_are_twins() -> None:
    """Equal readings in different papers are one statement, so that their verdicts are held equal."""
    groups: dict[str, list[Statement]] = {}
    for row in ledger():
        if row.origin == "paper":
            groups.setdefault(row.reading, []).append(row)
    for rows in groups.values():
        for row in rows:
            others = {one.id for one in rows if one.paper != row.paper}
            assert others <= set(row.twins), (row.id, others)


def test_results_that_fail_are_certified_twice() -> None:
    refuted = [row for row in ledger() if row.failure == "result" and row.verdict == "refuted"]
    assert len(refuted) > 20
    assert [row.id for row in refuted if not certified_twice(row)] == []
    assert not certified_twice(replace(refuted[0], certified_by="mpmath, 50 digits"))


def test_no_statistical_check_holds_without_power() -> None:
    held = [row for row in ledger() if row.verdict == "holds" and row.power is not None]
    assert len(held) > 200
    assert [row.id for row in held if lacks_power(row.power, row.resolution, row.relation)] == []
    assert all(row.excludes for row in held)


def test_every_cause_explains_several_statements() -> None:
    groups = by_cause(ledger())
    assert {name: len(groups.get(name, ())) for name in causes() if len(groups.get(name, ())) < 2} == {}


def test_counts_agree_with_the_statements() -> None:
    rows = ledger()
    whole = counted(rows)
    parts = [counted(ledger(number)) for number in papers()]
    assert whole.statements == sum(part.statements for part in parts) == sum(row.origin == "paper" for row in rows)
    assert whole.failures == len(failing(rows)) == sum(whole.classes.values())
    assert sum(whole.as_intended.values()) == whole.statements
    assert len(rows) == whole.statements + sum(whole.corrections.values()) + sum(whole.additions.values())


def test_intended_verdict_is_that_of_the_intended_check() -> None:
    rows = {row.id: row for row in ledger()}
    meant = [row for row in rows.values() if row.charity]
    assert meant
    for row in rows.values():
        if row.origin != "paper":
            assert (row.as_printed, row.as_intended) == (None, None)
        elif row.charity:
            assert row.intended is not None
            assert (row.as_printed, row.as_intended) == (row.verdict, rows[row.intended].verdict)
        else:
            assert row.as_printed == row.as_intended == row.verdict


def test_findings_rest_on_statements_that_fail() -> None:
    rows = {row.id: row for row in ledger()}
    assert len({one.id for one in findings()}) == len(findings())
    for one in findings():
        assert any(rows[name].fails for name in one.claims), one.id


def test_every_failing_result_belongs_to_a_finding() -> None:
    told = {name for one in findings() for name in one.claims}
    assert [row.id for row in ledger() if row.failure == "result" and row.id not in told] == []


def test_the_policy_is_documented() -> None:
    page = (ROOT / "papers" / "docs" / "claims.md").read_text(encoding="utf-8")
    for name, text in {**CLASSES, **CHARITY}.items():
        assert f"| `{name}` | {text} |" in page, name


# --- files ------------------------------------------------------------


@pytest.mark.parametrize(
    ("entry", "told"),
    [
        (
            {"reading": "x", "quote": "y"},
            "unknown key of 000/t in f.toml: 'quote'; expected one of place, reading, quotation",
        ),
        ({"reading": "x", "class": "wrong"}, "unknown class of 000/t in f.toml: 'wrong'"),
        ({"reading": "x", "charity": "mercy"}, "unknown charity of 000/t"),
        ({"reading": 3}, "`reading` of 000/t is 3; expected text"),
        ({"place": "eq. 1"}, "000/t has no `reading`"),
        ("x", "000/t is not an entry"),
    ],
)
def test_bad_entries_get_one_line(entry: object, told: str) -> None:
    with pytest.raises(IsometerError) as caught:
        _check("000/t", entry, "f.toml")
    assert told in str(caught.value)
    assert "\n" not in str(caught.value)


def test_corrections_take_the_place_of_what_they_correct() -> None:
    assert text_of("000/lem-2:eq-19#corrected").place == text_of("000/lem-2:eq-19").place
    assert text_of("004/thm-58").corrected is None
    assert all(text.chapter for number in papers() for text in texts_of(number).values())


# --- quotations ------------------------------------------------------------


def test_quotations_are_compared_in_a_normal_form() -> None:
    text = normal(r"We have $\mathbb{E}\left[y\right] \leq n/\gamma$, and the *odd* data point escapes.")
    assert found(r"$\mathbb{E}[y] \leq n/\gamma$", text)
    assert found("We have … the odd data\npoint", text)
    assert not found("the odd data point … We have", text)
    assert not found(r"$\mathbb{E}[y] \geq n/\gamma$", text)


def test_a_wrong_quotation_is_found(tmp_path: Path) -> None:
    (tmp_path / "000.txt").write_text("an empty paper", encoding="utf-8")
    assert any("not in the paper" in line for line in problems(tmp_path, "000"))
    assert "expected one file" in next(problems(tmp_path, "001"))


@pytest.mark.parametrize("paper", papers())
def test_quotations_are_in_the_papers(paper: str) -> None:
    if TEXTS is None:
        pytest.skip("the texts of the papers are not here; name their folder in ISOMETER_PAPERS")
    assert list(problems(Path(TEXTS), paper)) == []


# --- sentences ------------------------------------------------------------


@pytest.mark.parametrize("paper", papers())
def test_every_sentence_is_decided(paper: str) -> None:
    """Decisions are known words or entries; all papers are read to the end."""
    known = texts_of(paper)
    for place, begins, word, entries in sentences.rows(paper):
        told = (place, begins, word, entries)
        assert word in {"quoted", "elsewhere", *sentences.WORDS}, told
        assert bool(entries) == (word in {"quoted", "elsewhere"}), told
        assert set(entries) <= set(known), told
        assert word != "unread", told


@pytest.mark.parametrize("paper", papers())
def test_records_are_those_of_the_texts(paper: str) -> None:
    if TEXTS is None:
        pytest.skip("the texts of the papers are not here; name their folder in ISOMETER_PAPERS")
    found = sentences.read(Path(TEXTS), paper)
    assert sentences.written(found) == sentences.record(paper).read_text(encoding="utf-8")


def test_sentences_are_split_and_covered() -> None:
    text = (
        "## 1. Title\n\nWe define $y$. It is clear that\n\n$$E[y] = 1$$\n\nholds. Then it ends."
        "\n\nReferences\n\nA. Author. A title.\n\nAppendix A\n\nA proof."
    )
    found = list(sentences.sentences(text))
    assert [one.begins for one in found] == [
        "We define $y$.",
        "It is clear that $$E[y] = 1$$ holds.",
        "Then it ends.",
        "A proof.",
    ]
    assert {one.place for one in found} == {"1. Title", "Appendix A"}


def test_chapters_and_lists_of_the_thesis_are_known() -> None:
    text = (
        "Obtaining isometry with normalization\n\nA sentence.\n\n4.1 Gram matrices\n\nAnother one about $G$."
        "\n\nList of Figures\n\n4.1 A caption.\n\nBibliography\n\nA. Author. A title."
    )
    found = [(one.place, one.begins) for one in sentences.sentences(text)]
    assert found == [
        ("Obtaining isometry with normalization", "A sentence."),
        ("4.1 Gram matrices", "Another one about $G$."),
    ]


# --- snippets ------------------------------------------------------------


@pytest.mark.parametrize("name", SNIPPETS)
def test_snippet_shows_a_failure(name: str) -> None:
    """Plain NumPy or mpmath, ten lines, prints what fails and asserts it."""
    source = SNIPPETS[name].read_text(encoding="utf-8")
    tree = ast.parse(source)
    assert sum(bool(line.strip()) and not line.startswith("#") for line in source.splitlines()) <= LINES
    assert _imported(tree) <= CODE
    asserted = [node.test for node in tree.body if isinstance(node, ast.Assert)]
    assert asserted
    assert all({type(one) for one in ast.walk(test)} & {ast.Name, ast.Call} for test in asserted)
    told = io.StringIO()
    with contextlib.redirect_stdout(told):
        exec(compile(source, SNIPPETS[name].name, "exec"), {"__name__": "__main__"})
    assert told.getvalue().strip()


def _imported(tree: ast.AST) -> set[str]:
    modules = [alias.name for node in ast.walk(tree) if isinstance(node, ast.Import) for alias in node.names]
    modules += [node.module or "" for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)]
    return {module.partition(".")[0] for module in modules}
