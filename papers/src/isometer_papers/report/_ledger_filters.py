"""Filters of the ledger's page: class, verdicts and chapter by style sheet alone, words of a statement by script."""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Mapping
from html import escape

from isometer_papers.claims._policy import CLASSES
from isometer_papers.claims._result import VERDICTS

_CHOICES = {"class": tuple(CLASSES), "printed": VERDICTS, "intended": VERDICTS}
_LEGENDS = {"class": "class of failure", "printed": "as printed", "intended": "as intended"}

SCRIPT = """
const box = document.getElementById('statement');
const rows = [...document.querySelectorAll('tr[id]')].map(row => [row, row.textContent.toLowerCase()]);
function search() {
  const words = box.value.toLowerCase().split(/\\s+/).filter(Boolean);
  for (const [row, text] of rows) row.hidden = !words.every(word => text.includes(word));
}
box.addEventListener('input', search);
search();
"""
"""Hides the rows that lack one of the words; the page sends and loads nothing."""

POLICY = (
    "default-src 'none'; style-src 'unsafe-inline'; img-src data:; "
    f"script-src 'sha256-{base64.b64encode(hashlib.sha256(SCRIPT.encode()).digest()).decode()}'"
)
"""What the page may do: run that script, and nothing else."""


def filter_style(chapters: Mapping[str, str]) -> str:
    """Rules that hide what a chosen filter leaves out.

    Args:
        chapters: titles by anchor.

    Example:
        >>> "option[value='002-0']:checked" in filter_style({"002-0": "1 Introduction"})
        True
    """
    rules = [
        f"body:has(#{name}-{value}:checked) tr[data-{name}]:not([data-{name}='{value}']) {{ display: none; }}"
        for name, values in _CHOICES.items()
        for value in values
    ]
    rules += [
        f"body:has(#chapter option[value='{one}']:checked) section[data-chapter]:not([data-chapter='{one}']) "
        "{ display: none; }"
        for one in chapters
    ]
    return "\n".join(rules)


def filter_form(chapters: Mapping[str, str]) -> str:
    """The controls.

    Args:
        chapters: titles by anchor.

    Example:
        >>> filter_form({}).count("<fieldset>")
        3
    """
    found = []
    for name, values in _CHOICES.items():
        choices = [f"<label><input type='radio' name='{name}' checked> any</label>"]
        choices += [
            f"<label><input type='radio' name='{name}' id='{name}-{value}'> {value}</label>" for value in values
        ]
        found.append(f"<fieldset><legend>{_LEGENDS[name]}</legend>{''.join(choices)}</fieldset>")
    options = "".join(f"<option value='{one}'>{escape(title)}</option>" for one, title in chapters.items())
    found.append(f"<label>chapter <select id='chapter'><option value=''>any</option>{options}</select></label>")
    found.append("<label>statement <input type='search' id='statement' placeholder='words of it, or an ID'></label>")
    return f"<form>{''.join(found)}</form>"
