"""The ledger: claims with verdicts, figures and tables reproduced."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from dash import Dash, Input, Output, State, html

from isometer.errors import IsometerError
from isometer.explore import Computation, Desk
from isometer.explore.labs import parts
from isometer_papers import papers
from isometer_papers.explore import _pictures as pictures
from isometer_papers.explore._claims import Row, badge, claim_card, claim_table, finding_list
from isometer_papers.explore._lab import CLASSES, VERDICTS, VIEWS, LedgerState
from isometer_papers.report.gallery import damaged_records, number, order, read_records

PARTS = {
    "list": ("view", "paper", "verdict", "intended", "failure", "chapter", "find", "page", "chosen"),
    "chosen": ("view", "chosen"),
}
"""Which values each part of the page depends on."""

_CARDS = 12
_SEARCHED = ("id", "place", "statement", "quotation", "note", "cause", "title", "shows")


def layout(state: LedgerState) -> html.Div:
    """The page of a state."""
    t = state.texts()
    verdicts = {"": "any"}
    groups: dict[str, tuple[str, ...]] = {"claims": ("holds", "refuted", "vacuous", "inconclusive")}
    groups["studies"] = ("agree", "partly", "disagree", "unclear", "not run", "not made")
    for group, words in groups.items():
        verdicts |= {word: f"{word} ({group})" for word in words}
    controls = [
        parts.select("view", "Show", t["view"], VIEWS),
        parts.select(
            "paper",
            "Paper",
            t["paper"],
            {"": "all", **{number: f"{one.label}: {one.title}" for number, one in papers().items()}},
        ),
        parts.select("verdict", "Verdict", t["verdict"], verdicts),
        parts.select("intended", "As intended", t["intended"], {"": "any", **{one: one for one in VERDICTS}}),
        parts.select("failure", "Class of failure", t["failure"], {"": "any", **{one: one for one in CLASSES}}),
        parts.text("chapter", "Chapter", t["chapter"], example="Appendix C"),
        parts.text("find", "Find", t["find"], example="words of an ID or a statement"),
        parts.hidden("page", t["page"]),
        parts.hidden("chosen", t["chosen"]),
    ]
    body = [
        parts.notice("ledger-notice"),
        html.Div(id="ledger-chosen"),
        html.Div(
            [parts.picture("ledger-points", "Bound against value", "A sample of the instances that were tried.")],
            id="ledger-picture",
            hidden=True,
        ),
        html.Div(id="ledger-list"),
    ]
    lead = "Every claim of the five papers with the verdict of its check, and every figure and table reproduced."
    return parts.lab_page("ledger", "Ledger", lead, controls, body)


def register(app: Dash, desk: Desk, gallery: Path | None) -> None:
    """Let the page react."""

    @app.callback(
        Output("ledger-notice", "children"),
        Output("ledger-list", "children"),
        Input("ledger-part-list", "data"),
        State("ledger-notes", "data"),
        State("tab", "data"),
    )
    def listed(values: Any, notes: Any, tab: str) -> tuple[Any, Any]:
        state, _ = LedgerState.read(values or {})
        rows, problem = _rows(desk, tab, state.view, gallery)
        found = [row for row in rows if _wanted(row, state)]
        if state.view == "findings":
            return parts.messages([problem, *(notes or [])]), [finding_list(rows)]
        told = html.P(_tally(found, len(rows)), className="about")
        show = claim_table if state.view == "claims" else _studies
        return parts.messages([problem, *(notes or [])]), [told, *show(found, state)]

    @app.callback(
        Output("ledger-chosen", "children"),
        Output("ledger-points", "figure"),
        Output("ledger-picture", "hidden"),
        Input("ledger-part-chosen", "data"),
        Input("theme", "data"),
        State("tab", "data"),
    )
    def chosen(values: Any, theme: str, tab: str) -> tuple[Any, Any, bool]:
        state, _ = LedgerState.read(values or {})
        if not state.chosen or state.view == "findings":
            return [], parts.blank(), True
        rows, _ = _rows(desk, tab, state.view, gallery, slot="chosen")
        row = next((one for one in rows if one["id"] == state.chosen), None)
        if row is None:
            return parts.messages([f"There is no {state.chosen!r} here."]), parts.blank(), True
        if state.view == "studies":
            return _study(row), parts.blank(), True
        points = row.get("points") or []
        return claim_card(row), pictures.claim_picture(points, row["relation"], theme), not points


def _rows(desk: Desk, tab: str, view: str, gallery: Path | None, slot: str = "list") -> tuple[list[Row], str]:
    """Claims, or studies with what the gallery has of them; and why something is missing."""
    [found] = parts.asked(desk, tab, f"ledger-{slot}", [Computation(view, {})])
    problem = str(found) if isinstance(found, IsometerError) else ""
    rows: list[Row] = [] if problem else found
    if view != "studies":
        return rows, problem
    made = {record["id"]: {**record, "folder": name} for name, record in read_records(gallery)} if gallery else {}
    merged = {row["id"]: {**row, "verdict": "not made", **made.get(row["id"], {})} for row in rows}
    merged |= {name: record for name, record in made.items() if name not in merged}
    left_out = [f"Left out: {why}." for why in damaged_records(gallery).values()] if gallery else []
    return sorted(merged.values(), key=lambda row: order(row["id"])), " ".join(filter(None, [problem, *left_out]))


def _wanted(row: Row, state: LedgerState) -> bool:
    if state.paper and not row["id"].startswith(f"{state.paper}/"):
        return False
    if state.verdict and row["verdict"] != state.verdict:
        return False
    if state.view == "claims" and not _in_class(row, state):
        return False
    text = " ".join(str(row.get(key, "")) for key in _SEARCHED).lower()
    return all(word in text for word in state.find.lower().split())


def _in_class(row: Row, state: LedgerState) -> bool:
    if state.intended and row["as_intended"] != state.intended:
        return False
    if state.failure and row["class"] != state.failure:
        return False
    return state.chapter.lower() in row["chapter"].lower()


def _tally(rows: Sequence[Row], total: int) -> str:
    told = [f"{len(rows)} of {total}"]
    for key, name in (("verdict", ""), ("class", "failures by class: ")):
        counts = Counter(row[key] for row in rows if row.get(key))
        if counts:
            told.append(name + ", ".join(f"{count} {word}" for word, count in counts.most_common()))
    return "; ".join(told)


def _studies(rows: Sequence[Row], state: LedgerState) -> list[Any]:
    count = max(1, math.ceil(len(rows) / _CARDS))
    page = min(state.page, count)
    cards = [_study(row, small=True) for row in rows[(page - 1) * _CARDS : page * _CARDS]]
    return [html.Div(cards, className="pictures studies"), html.Div(parts.pages(page, count), className="pages")]


def _study(row: Row, small: bool = False) -> html.Section:
    names = list(dict.fromkeys([*row["published"], *row.get("measured", {})]))
    told = []
    for name in names[:3] if small else names:
        there = name in row.get("measured", {})
        measured = number(row["measured"][name], row.get("uncertainty", {}).get(name)) if there else "–"
        published = number(row["published"][name]) if name in row["published"] else "–"
        told.append(html.Tr([html.Th(name, scope="row"), html.Td(published), html.Td(measured)]))
    columns = html.Thead(html.Tr([html.Th(text, scope="col") for text in ("quantity", "published", "measured")]))
    image = []
    if "folder" in row:
        source = f"/gallery/{row['folder']}/figure.png"
        image = [html.A(html.Img(src=source, alt=row["title"]), href=source)]
    marks = {True: "seen", False: "not seen", None: "undecided"}
    statements = [html.Li(f"{marks[seen]}: {text}") for text, seen in row.get("statements", {}).items()]
    title = [row["id"], " ", badge(row["verdict"])]
    button = parts.give("Details", "chosen", row["id"]) if small else parts.give("Close", "chosen", "")
    body: list[Any] = [
        html.Header([html.H3(title), button]),
        html.P(row["title"]),
        *image,
        html.P(row["shows"], className="about") if not small or not image else None,
    ]
    if told:
        body.append(html.Div(html.Table([columns, html.Tbody(told)]), className="scroll"))
    if not small:
        body += [html.Ul(statements), html.P(row.get("why", "")), html.P(row.get("reduced", ""), className="about")]
        body.append(html.P(html.Code(f"isometer reproduce {row['id']}")))
    return html.Section(body, className="card study")
