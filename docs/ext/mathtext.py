"""Formulas as SVG, drawn at build time by matplotlib's mathtext, in the colour of the text."""

from __future__ import annotations

import html
from typing import Any

import numpy as np
from docutils.nodes import SkipNode
from matplotlib.font_manager import FontProperties
from matplotlib.mathtext import MathTextParser
from matplotlib.textpath import text_to_path
from sphinx.application import Sphinx
from sphinx.util.logging import getLogger

SIZE = 10.0  # units per em
PAD = 0.5
FONT = FontProperties(size=SIZE, math_fontfamily="cm")
STROKES = {1: ("M", 1), 2: ("L", 1), 3: ("Q", 2), 4: ("C", 3), 79: ("Z", 1)}  # code of matplotlib: command, points
LOGGER = getLogger(__name__)


def svg(tex: str) -> str:
    """A formula as one `<svg>` element whose label is its TeX.

    Raises:
        ValueError: mathtext does not know a command of the formula.
    """
    source = f"${' '.join(tex.split())}$"
    parsed = MathTextParser("path").parse(source, dpi=72, prop=FONT)
    width, height, depth = parsed.width, parsed.height, parsed.depth
    vertices, codes = text_to_path.get_text_path(FONT, source, ismath=True)
    vertices = np.asarray(vertices) * (SIZE / text_to_path.FONT_SCALE)
    strokes, at = [], 0
    while at < len(codes):
        letter, count = STROKES[int(codes[at])]
        points = vertices[at : at + count] if letter != "Z" else ()
        strokes.append(letter + " ".join(f"{x:.2f} {height - depth - y:.2f}" for x, y in points))
        at += count
    label = html.escape(tex.strip(), quote=True)
    box = f"{-PAD} {-PAD} {width + 2 * PAD:.2f} {height + 2 * PAD:.2f}"
    style = (
        f"width:{(width + 2 * PAD) / SIZE:.3f}em;height:{(height + 2 * PAD) / SIZE:.3f}em;"
        f"vertical-align:{-(depth + PAD) / SIZE:.3f}em"
    )
    return (
        f'<svg class="formula" role="img" aria-label="{label}" viewBox="{box}" style="{style}">'
        f'<path fill="currentColor" d="{"".join(strokes)}"/></svg>'
    )


def _drawn(tex: str, node: Any) -> str:
    try:
        return svg(tex)
    except ValueError as problem:
        LOGGER.warning("formula %r: %s", tex, str(problem).strip().splitlines()[-1], location=node)
        return f"<code>{html.escape(tex)}</code>"


def _inline(self: Any, node: Any) -> None:
    self.body.append(_drawn(node.astext(), node))
    raise SkipNode


def _block(self: Any, node: Any) -> None:
    """One row per line of the formula; `\\\\` ends a line."""
    lines = [line for line in node.astext().split("\\\\") if line.strip()]
    rows = "".join(f"<div>{_drawn(line, node)}</div>" for line in lines)
    self.body.append(f'<div class="formula-block">{rows}</div>\n')
    raise SkipNode


def setup(app: Sphinx) -> dict[str, Any]:
    app.add_html_math_renderer("mathtext", (_inline, None), (_block, None))
    return {"version": "1", "parallel_read_safe": True, "parallel_write_safe": True}
