"""The causes of a report in HTML, without scripts; every text is escaped."""

from __future__ import annotations

import re
from collections.abc import Mapping
from html import escape
from typing import Any

from isometer.report._cause_words import CauseWords, also_helps, cause_words, together, unexplained

_UNEXPLAINED = "Unexplained"


def causes_section(report: Mapping[str, Any]) -> str:
    """What keeps the model from training, as a section of the page; empty where there is nothing to say.

    Example:
        >>> causes_section({"schema": 1})
        ''
    """
    causes, helping, rest = cause_words(report), also_helps(report), unexplained(report)
    if not (causes or helping or rest):
        return ""
    parts = []
    if causes:
        parts.append(f'<ol class="causes">{"".join(map(_item, causes))}</ol>')
    if helping:
        heading = "<h3>What else helps</h3>" if causes else ""
        parts.append(f'{heading}<ul class="causes">{"".join(map(_item, helping))}</ul>')
    if together(report):
        parts.append(f"<p>{marked(together(report))}</p>")
    if rest:
        parts.append(f"<h3>{_UNEXPLAINED}</h3><p>{marked(rest)}</p>")
    return (
        '<section id="causes" class="why" aria-labelledby="causes-title">'
        f'<h2 id="causes-title">{"Causes" if causes or not helping else "What helps in short trainings"}</h2>'
        f'<div class="panel">{"".join(parts)}</div></section>'
    )


def marked(text: str) -> str:
    """Escaped, with names between backticks as code.

    Example:
        >>> marked("`blocks.3` < 1")
        '<code>blocks.3</code> &lt; 1'
    """
    return re.sub(r"`([^`]*)`", r"<code>\1</code>", escape(text))


def _item(one: CauseWords) -> str:
    where = f' <span class="place">{escape(one.where)}</span>' if one.where else ""
    effect = f' <span class="effect">{escape(one.effect)}</span>' if one.effect else ""
    return f"<li><strong>{marked(one.what)}</strong>{where}<p>→ {marked(one.repair)}{effect}</p></li>"


def notebook_causes(report: Mapping[str, Any]) -> str:
    """The same for a notebook, with all styles in place; empty where there is nothing to say.

    Example:
        >>> notebook_causes({"schema": 1})
        ''
    """
    lines = [_line(one) for one in cause_words(report)]
    lines += [f"Also helps: {_line(one)}" for one in also_helps(report)]
    rest = [marked(text) for text in (together(report), unexplained(report)) if text]
    if not lines and not rest:
        return ""
    items = "".join(f"<li>{line}</li>" for line in lines)
    listed = f'<ol style="margin:.2em 0;padding-left:1.5em">{items}</ol>' if items else ""
    return f'<div style="margin-top:.4em"><b>Causes</b>{listed}{"".join(f"<div>{text}</div>" for text in rest)}</div>'


def _line(one: CauseWords) -> str:
    where = f" ({escape(one.where)})" if one.where else ""
    effect = f" ({escape(one.effect)})" if one.effect else ""
    return f"<b>{marked(one.what)}</b>{where}<br>→ {marked(one.repair)}{effect}"
