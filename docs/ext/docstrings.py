"""Docstrings are plain text with `code`: whatever reStructuredText would read into them is escaped."""

from __future__ import annotations

import re
from itertools import groupby
from typing import Any

from docutils import nodes
from sphinx.application import Sphinx

CODE = re.compile(r"`((?:[^`\n]|\n(?!\s*\n))+)`")  # may go on in the next line, not in the next paragraph
BOLD = re.compile(r"(?<!\S)\*\*(?=\S)|(?<=[\w`.)])\*\*(?=[\s,.;:)]|$)")
MARKUP = re.compile(r"([*|_\\])")


def escaped(lines: list[str]) -> list[str]:
    """Lines without accidental markup; doctests stay as they are.

    >>> escaped(["|x| of `a_b`, see fixup_", ">>> x_"])
    ['\\\\|x\\\\| of \\\\ ``a_b``\\\\ , see fixup\\\\_', '>>> x_']
    """
    found: list[str] = []
    for doctest, run in groupby(zip(lines, _in_doctest(lines), strict=True), key=lambda pair: pair[1]):
        text = "\n".join(line for line, _ in run)
        if not doctest:
            parts = CODE.split(BOLD.sub("", text))
            parts[::2] = [MARKUP.sub(r"\\\1", part) for part in parts[::2]]
            parts[1::2] = [f"\\ ``{part}``\\ " for part in parts[1::2]]  # an escaped space is none, but ends markup
            text = "".join(parts)
        found.extend(text.split("\n"))
    return found


def _in_doctest(lines: list[str]) -> list[bool]:
    inside, found = False, []
    for line in lines:
        inside = line.strip().startswith(">>>") or (inside and bool(line.strip()))
        found.append(inside)
    return found


def _process(app: Sphinx, what: str, name: str, obj: object, options: Any, lines: list[str]) -> None:
    lines[:] = escaped(lines)


def _skip(app: Sphinx, what: str, name: str, value: object, skip: bool, options: Any) -> bool | None:
    """Fields of named tuples: what Python says of them is nothing."""
    return True if str(getattr(value, "__doc__", "")).startswith("Alias for field number") else None


def _dashes(app: Sphinx, doctree: nodes.document) -> None:
    """Sphinx writes `name -- text` for a parameter and leaves the dash to smart quotes, which are off."""
    for text in list(doctree.findall(nodes.Text)):
        if text == " -- ":
            text.parent.replace(text, nodes.Text(" – "))


def setup(app: Sphinx) -> dict[str, Any]:
    app.connect("autodoc-process-docstring", _process, priority=100)  # before napoleon
    app.connect("autodoc-skip-member", _skip)
    app.connect("doctree-read", _dashes)
    return {"version": "1", "parallel_read_safe": True, "parallel_write_safe": True}
