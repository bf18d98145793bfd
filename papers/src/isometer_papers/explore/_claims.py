"""Claims and findings on the page of the ledger."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

from dash import html

from isometer.explore.labs import parts
from isometer.report import number as shown
from isometer.serialize import json_text
from isometer_papers.explore._lab import LedgerState

_ROWS = 25
TIPS: Mapping[str, str] = {
    "As printed": "The verdict about the statement exactly as the paper prints it.",
    "As intended": "The verdict about what the paper evidently means, by a written policy of charity.",
    "Class of failure": "How much a failure matters: a result, a detail, a proof, a misprint or a corner case.",
    "Cause": "Statements that fail for one reason share a cause.",
    "The same statement": "Other places where the papers state it.",
    "Kind": "Deterministic checks compare both sides; statistical ones estimate an expectation or a probability.",
    "Tried": "Instances by family: random, extreme, and those that a search for the worst case visited.",
    "Smallest margin": "Least room seen, relative to the larger side; 0 if the bound is attained, below 0 if it fails.",
    "Power": "The chance that the check sees a violation of the stated size.",
    "Excludes": "The alternative that a statistical check rules out.",
    "Corrected by": "Our corrected statement, checked in the same way.",
    "Seconds": "How long the thorough check took.",
    "margin": "The least room seen, relative to the larger side; 0 if the bound is attained, below 0 if it fails.",
}
"""What the rows of a claim mean."""
Row = Mapping[str, Any]


def badge(verdict: str) -> html.Span:
    """A verdict in its colour."""
    return html.Span(verdict, className=f"badge verdict-{verdict.replace(' ', '-')}")


def claim_table(rows: Sequence[Row], state: LedgerState) -> list[Any]:
    """A page of claims, and buttons to the others."""
    count = max(1, math.ceil(len(rows) / _ROWS))
    page = min(state.page, count)
    body = [
        html.Tr(
            [
                html.Td(parts.give(row["id"], "chosen", row["id"], className="inline")),
                html.Td([badge(row["verdict"]), *_meant(row)]),
                html.Td(
                    [
                        html.Span(row["statement"]),
                        html.Br(),
                        html.Small(f"{row['place']} · {row['kind']}", className="about"),
                    ]
                ),
                html.Td("–" if row["margin"] is None else _number(row["margin"]), className="number"),
            ],
            className="marked" if row["id"] == state.chosen else "",
        )
        for row in rows[(page - 1) * _ROWS : page * _ROWS]
    ]
    columns = ("claim", "verdict", "statement", "margin")
    head = html.Thead(html.Tr([html.Th(_name(text), scope="col") for text in columns]))
    table = html.Div(html.Table([head, html.Tbody(body)], className="claims"), className="card scroll")
    return [table, html.Div(parts.pages(page, count), className="pages")]


def _name(text: str) -> Any:
    return parts.explained(text, TIPS[text]) if text in TIPS else text


def _number(value: Any) -> str:
    return shown(float(value), 3) if isinstance(value, int | float) else str(value)


def claim_card(row: Row) -> html.Section:
    """Everything about one claim."""
    tried = ", ".join(f"{count} {family}" for family, count in dict(row["instances"]).items())
    facts = [
        ("Paper", parts.citations([f"{row['id'].partition('/')[0]}/"])),
        ("Place", f"{row['chapter']}; {row['place']}"),
        ("As printed", row["as_printed"] or f"– ({row['origin']})"),
        ("As intended", _intended(row)),
        ("Class of failure", row["class"]),
        ("Cause", row["cause"]),
        ("The same statement", ", ".join(row["twins"])),
        ("Kind", row["kind"]),
        ("Tried", tried),
        ("Smallest margin", "" if row["margin"] is None else _number(row["margin"])),
        ("Power", "" if row["power"] is None else _number(row["power"])),
        ("Excludes", row["excludes"]),
        ("Corrected by", row["corrected"]),
        ("Seconds", _number(row["seconds"])),
    ]
    parts_of = [part for name, value in facts if value for part in (html.Dt(_name(name)), html.Dd(value))]
    said = [html.Blockquote(f"“{row['quotation']}”")] if row["quotation"] and row["origin"] == "paper" else []
    lines = [
        *said,
        html.P(row["statement"], className="statement"),
        html.P(row["note"], className="about"),
        html.Dl(parts_of, className="pairs"),
    ]
    example = row["counterexample"]
    if example is not None:
        text = "\n".join(_spelt(example))
        certified = f"Counterexample, certified by {row['certified_by']}" if row["certified_by"] else "Counterexample"
        cut = text if len(text) < 4000 else f"{text[:4000]} …"
        lines.append(html.Details([html.Summary(certified), html.Pre(cut, tabIndex="0")], open=len(text) < 600))
    if row["snippet"]:
        lines.append(html.Details([html.Summary("In plain Python"), html.Pre(row["snippet"], tabIndex="0")]))
    lines.append(html.P(html.Code(f"isometer claims check {row['id']}")))
    head = html.Header([html.H3([row["id"], " ", badge(row["verdict"])]), parts.give("Close", "chosen", "")])
    return html.Section([head, *lines], className="card")


def _spelt(example: Mapping[str, Any]) -> list[str]:
    """A line per entry; those of the instance first."""
    instance = example.get("instance")
    entries = {**instance, **example} if isinstance(instance, Mapping) else dict(example)
    return [
        f"{name} = {json_text(value, ensure_ascii=False)}"
        for name, value in entries.items()
        if name != "instance" or not isinstance(instance, Mapping)
    ]


def _meant(row: Row) -> list[Any]:
    """The other verdict, if there is one, and the class."""
    told = [f"intended: {row['as_intended']}"] if row["as_intended"] not in (None, row["as_printed"]) else []
    told += [row["class"]] if row["class"] else []
    return [part for text in told for part in (html.Br(), html.Small(text, className="about"))]


def _intended(row: Row) -> str:
    if row["as_intended"] is None:
        return "–"
    return f"{row['as_intended']} ({row['charity']}; {row['intended']})" if row["charity"] else str(row["as_intended"])


def finding_list(rows: Sequence[Row]) -> html.Ol:
    """The findings that matter; a statement's button leads to it."""
    items = []
    for row in rows:
        told = [html.P([html.B(f"{name.capitalize()}: "), text]) for name, text in row["parts"].items()]
        links = [html.A(name, href=f"/ledger?chosen={name}") for name in row["claims"]]
        items.append(
            html.Li([html.B(row["title"]), *told, html.P(links, className="links")], id=f"finding-{row['id']}")
        )
    return html.Ol(items, className="card")
