"""What to change, as a section of the doctor's page: the most promising change first, with code to copy."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from html import escape
from typing import Any

from isometer.report._advice import Advice, ranked_advice
from isometer.report._citations import citations_html
from isometer.report._doctor_metrics import title_of

_KINDS = {"weights": "weights", "architecture": "architecture", "batch": "batch", "training": "training loop"}
_SHOWN = 3


def advice_section(report: Mapping[str, Any]) -> str:
    """Every change once, ranked; the first three are open. Empty where nothing is recommended.

    Example:
        >>> advice_section({"layers": [], "findings": []})
        ''
    """
    every = ranked_advice(report)
    if not every or report.get("treatment"):
        return ""
    items = [_item(index, one) for index, one in enumerate(every)]
    rest = ""
    if len(items) > _SHOWN:
        rest = (
            f"<details><summary>{len(items) - _SHOWN} more, less promising</summary>"
            f'<ol class="advice" start="{_SHOWN + 1}">{"".join(items[_SHOWN:])}</ol></details>'
        )
    return (
        '<section id="advice" aria-labelledby="advice-title"><h2 id="advice-title">What to change</h2>'
        '<p class="about">Ranked by how many findings a change addresses and how severe they are; changes that this '
        'model cannot use are left out. Make one change at a time, then examine again.</p><ol class="advice">'
        f"{''.join(items[:_SHOWN])}</ol>{rest}</section>"
    )


def _item(index: int, one: Advice) -> str:
    kind = escape(_KINDS.get(one.kind, one.kind))
    against = ", ".join(escape(title_of({"id": name}).lower()) for name in one.findings)
    effects = f'<p class="about">Side effects: {escape(_lowered(one.side_effects))}</p>' if one.side_effects else ""
    cites = f'<p class="references">{citations_html(one.references)}</p>' if one.references else ""
    return (
        f'<li id="advice-{index}"><p><span class="flag plain">{kind}</span> <strong>{escape(one.text)}</strong></p>'
        f'<p class="about">Against {against}.</p>{code_html(one.code)}{effects}{cites}</li>'
    )


def _lowered(text: str) -> str:
    return text[:1].lower() + text[1:]


def code_html(lines: str) -> str:
    """Python lines with a button that copies them; empty for none.

    Example:
        >>> code_html("")
        ''
    """
    if not lines:
        return ""
    return (
        f'<div class="code"><pre><code>{escape(lines)}</code></pre><button type="button" data-copy>Copy</button></div>'
    )


def addressed_by(finding: Mapping[str, Any], advice: Sequence[Advice]) -> str:
    """Links from a finding to the changes against it; empty without one."""
    links = [
        f'<a href="#advice-{index}" title="{escape(one.text)}">{index + 1}</a>'
        for index, one in enumerate(advice)
        if finding["id"] in one.findings
    ]
    return f'<p class="addressed">What to change: {", ".join(links)}</p>' if links else ""
