"""Pictures of the network language as SVG: one small picture for each step, and diagrams of whole networks.

A diagram is drawn from the steps themselves: boxes from left to right, the skip of a residual as an arc, joins as
branches above each other, a repeat as a frame. Pictures of single steps show what happens to features (dots) and
positions (cells).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from html import escape
from pathlib import Path

from isometer.report._pictures import PALETTE
from isometer.spec import Step
from isometer.spec._parser import parse_network
from isometer.spec._steps import Join, Repeat, Residual
from isometer.spec._text import network_text

BLUE, ORANGE, GREEN = PALETTE[:3]
INK, SOFT, PALE = "#333333", "#999999", "#eef4f8"
_LETTER, _HIGH, _GAP = 7.3, 30.0, 16.0  # width of a letter, height of a box, space between boxes
_FONT = 'font-family="DejaVu Sans Mono, Menlo, Consolas, monospace" font-size="12"'


def _line(x1: float, y1: float, x2: float, y2: float, color: str = INK, width: float = 1.2, more: str = "") -> str:
    return f'<line x1="{x1:g}" y1="{y1:g}" x2="{x2:g}" y2="{y2:g}" stroke="{color}" stroke-width="{width:g}" {more}/>'


def _dot(x: float, y: float, color: str = BLUE, radius: float = 4.5) -> str:
    return f'<circle cx="{x:g}" cy="{y:g}" r="{radius:g}" fill="{color}"/>'


def _box(x: float, y: float, wide: float, high: float, color: str = BLUE, fill: str = PALE, more: str = "") -> str:
    return (
        f'<rect x="{x:g}" y="{y:g}" width="{wide:g}" height="{high:g}" rx="4" fill="{fill}" stroke="{color}" '
        f'stroke-width="1.2" {more}/>'
    )


def _text(x: float, y: float, words: str, color: str = INK, anchor: str = "middle") -> str:
    return f'<text x="{x:g}" y="{y:g}" text-anchor="{anchor}" fill="{color}" {_FONT}>{escape(words)}</text>'


def _arrow(x1: float, y1: float, x2: float, y2: float, color: str = INK) -> str:
    return _line(x1, y1, x2, y2, color, 1.2, 'marker-end="url(#head)"')


def page(inside: str, wide: float, high: float, title: str) -> str:
    """A whole SVG file on white, so that it can be read on a dark page too."""
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {wide:g} {high:g}" width="{wide:g}" height="{high:g}" '
        f'role="img" aria-label="{escape(title)}"><defs><marker id="head" viewBox="0 0 8 8" refX="7" refY="4" '
        f'markerWidth="7" markerHeight="7" orient="auto"><path d="M0 0 L8 4 L0 8 z" fill="{INK}"/></marker></defs>'
        f'<rect width="{wide:g}" height="{high:g}" rx="6" fill="#ffffff"/>{inside}</svg>\n'
    )


# --- diagrams ---------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Piece:
    """Part of a diagram: what is drawn around the origin of its middle line, its width, and how far it reaches."""

    drawn: str
    wide: float
    up: float
    down: float

    def at(self, x: float, y: float) -> str:
        """The piece with its left end on this point."""
        return f'<g transform="translate({x:g} {y:g})">{self.drawn}</g>'


def diagram(steps: Sequence[Step]) -> Piece:
    """Steps side by side, joined by arrows."""
    drawn, x, up, down = "", 0.0, _HIGH / 2, _HIGH / 2
    for place, step in enumerate(steps):
        if place:
            drawn += _arrow(x, 0, x + _GAP, 0)
            x += _GAP
        one = _step(step)
        drawn += one.at(x, 0)
        x, up, down = x + one.wide, max(up, one.up), max(down, one.down)
    return Piece(drawn, x, up, down)


def _step(step: Step) -> Piece:
    match step:
        case Repeat():
            inside = diagram(step.body)
            wide, up, down = inside.wide + 2 * _GAP, inside.up + 10, inside.down + 24
            frame = _box(4, -up, wide - 8, up + down, GREEN, "none", 'stroke-dasharray="5 4"')
            ends = _line(0, 0, _GAP, 0) + _line(_GAP + inside.wide, 0, wide, 0)
            words = _text(wide / 2, down - 8, f"{step.times} ×", GREEN)
            return Piece(frame + ends + inside.at(_GAP, 0) + words, wide, up + 2, down + 2)
        case Residual():
            return _residual(step)
        case Join():
            return _join(step)
        case _:
            words = network_text((step,))
            wide = max(44.0, len(words) * _LETTER + 14)
            return Piece(_box(0, -_HIGH / 2, wide, _HIGH) + _text(wide / 2, 4, words), wide, _HIGH / 2, _HIGH / 2)


def _circle(x: float, sign: str) -> str:
    return f'<circle cx="{x:g}" cy="0" r="9" fill="#ffffff" stroke="{ORANGE}" stroke-width="1.4"/>' + _text(
        x, 4.5, sign, ORANGE
    )


def _residual(step: Residual) -> Piece:
    branch = diagram(step.branch)
    scaled = "" if step.scale == 1.0 else f"× {step.scale:g}" if isinstance(step.scale, float) else "× γ"
    room = len(scaled) * _LETTER + 12 if scaled else 0.0
    end = _GAP + branch.wide + _GAP + room
    top = -(branch.up + 14)
    drawn = _line(0, 0, _GAP, 0) + branch.at(_GAP, 0) + _arrow(_GAP + branch.wide, 0, end, 0) + _circle(end + 9, "+")
    if scaled:
        drawn += _text(_GAP + branch.wide + (_GAP + room) / 2, -5, scaled, ORANGE)
    drawn += (
        f'<path d="M6 0 V{top + 10:g} Q6 {top:g} 16 {top:g} H{end - 1:g} Q{end + 9:g} {top:g} {end + 9:g} {top + 10:g} '
        f'V-10" fill="none" stroke="{ORANGE}" stroke-width="1.4" marker-end="url(#head)"/>'
    )
    return Piece(drawn, end + 18, -top + 4, branch.down)


def _join(step: Join) -> Piece:
    branches = [diagram(branch) for branch in step.branches]
    widest, high = max(one.wide for one in branches), sum(one.up + one.down for one in branches) + 12 * len(branches)
    end, y, drawn = _GAP + widest + _GAP, -high / 2, ""
    for one in branches:
        middle = y + 6 + one.up
        drawn += f'<path d="M0 0 L{_GAP:g} {middle:g}" fill="none" stroke="{INK}" stroke-width="1.2"/>'
        drawn += one.at(_GAP, middle) + _line(_GAP + one.wide, middle, _GAP + widest, middle)
        drawn += f'<path d="M{_GAP + widest:g} {middle:g} L{end:g} 0" fill="none" stroke="{INK}" stroke-width="1.2"/>'
        y += one.up + one.down + 12
    sign = {"sum": "+", "product": "×", "concat": "‖"}[step.by]
    return Piece(drawn + _circle(end + 9, sign), end + 18, high / 2, high / 2)


def network_picture(text: str, *, begin: str = "x") -> str:
    """The diagram of a network by its text.

    Example:
        >>> network_picture("dense > act('relu')").startswith("<svg")
        True
    """
    found = diagram(parse_network(text)[0])
    wide, middle = found.wide + 84, found.up + 12
    inside = _text(14, middle + 4, begin) + _arrow(24, middle, 42, middle) + found.at(42, middle)
    inside += _arrow(42 + found.wide, middle, 42 + found.wide + 22, middle)
    return page(inside, wide, found.up + found.down + 24, text)


# --- single steps -----------------------------------------------------------------------------------------------------


def _column(x: float, count: int, color: str = BLUE, first: float = 20.0) -> str:
    return "".join(_dot(x, first + 16 * k, color) for k in range(count))


def _grid(x: float, y: float, wide: int, high: int, marked: Sequence[tuple[int, int]] = (), color: str = ORANGE) -> str:
    cells = [
        f'<rect x="{x + 13 * i:g}" y="{y + 13 * j:g}" width="12" height="12" fill="'
        f'{color if (i, j) in marked else PALE}" stroke="{SOFT}" stroke-width="0.8"/>'
        for i in range(wide)
        for j in range(high)
    ]
    return "".join(cells)


def _dense() -> str:
    lines = "".join(_line(40, 20 + 16 * i, 120, 28 + 16 * j, SOFT, 0.7) for i in range(4) for j in range(3))
    return lines + _column(40, 4) + _column(120, 3, GREEN, 28)


def _bias() -> str:
    plus = "".join(_text(80, 25 + 16 * k, "+") for k in range(4))
    return _column(45, 4) + plus + _column(112, 4, ORANGE)


def _act() -> str:
    curve = f'<path d="M84 60 C98 60 100 20 116 20" fill="none" stroke="{ORANGE}" stroke-width="2"/>'
    axes = _line(82, 40, 120, 40, SOFT, 0.8) + _line(100, 14, 100, 66, SOFT, 0.8)
    return _column(30, 4) + _arrow(42, 44, 74, 44) + axes + curve + _arrow(126, 44, 142, 44) + _column(152, 4, GREEN)


def _norm() -> str:
    rows = "".join(_dot(30 + 16 * i, 20 + 16 * j) for i in range(4) for j in range(4))
    sample = _box(20, 12, 68, 16, ORANGE, "none") + _text(92, 25, "layer, rms", ORANGE, "start")
    feature = _box(22, 10, 16, 66, GREEN, "none") + _text(92, 73, "batch", GREEN, "start")
    return rows + sample + feature


def _scale() -> str:
    return _column(45, 4) + _text(80, 48, "× c", ORANGE) + _column(115, 4, GREEN)


def _conv() -> str:
    window = [(i, j) for i in (1, 2, 3) for j in (1, 2, 3)]
    return _grid(16, 10, 5, 5, window) + _arrow(86, 42, 106, 42) + _grid(110, 10, 5, 5, [(2, 2)], GREEN)


def _pool() -> str:
    window = [(0, 0), (1, 0), (0, 1), (1, 1)]
    return _grid(26, 16, 4, 4, window) + _arrow(84, 42, 106, 42) + _grid(112, 29, 2, 2, [(0, 0)], GREEN)


def _upsample() -> str:
    window = [(0, 0), (1, 0), (0, 1), (1, 1)]
    return _grid(26, 29, 2, 2, [(0, 0)]) + _arrow(60, 42, 84, 42) + _grid(100, 16, 4, 4, window, GREEN)


def _flatten() -> str:
    marked = [(i, j) for i in range(2) for j in range(2)]
    row = "".join(_dot(100 + 15 * k, 42, GREEN) for k in range(4))
    return _grid(26, 29, 2, 2, marked) + _arrow(60, 42, 84, 42) + row


def _attention() -> str:
    pairs = [(i, j) for i in range(4) for j in range(4)]
    lines = "".join(_line(36, 18 + 16 * i, 126, 18 + 16 * j, SOFT, 0.4 + 0.5 * ((i + 2 * j) % 4)) for i, j in pairs)
    rows = range(12, 76, 16)
    return lines + "".join(_grid(30, y, 1, 1) + _grid(120, y, 1, 1, [(0, 0)], GREEN) for y in rows)


def _embedding() -> str:
    tokens = _text(40, 32, "17") + _text(40, 62, "4")
    rows = ["".join(_dot(98 + 15 * k, y, GREEN) for k in range(4)) for y in (28, 58)]
    return tokens + _arrow(54, 28, 84, 28) + _arrow(54, 58, 84, 58) + "".join(rows)


def _positions() -> str:
    wave = f'<path d="M20 66 q14 -22 28 0 t28 0 t28 0 t28 0" fill="none" stroke="{ORANGE}" stroke-width="1.6"/>'
    return "".join(_dot(28 + 22 * k, 26) for k in range(5)) + _text(76, 48, "+") + wave


def _dropout() -> str:
    out = _column(45, 4) + _arrow(60, 44, 100, 44)
    return out + "".join(_dot(115, 20 + 16 * k, "#dddddd" if k in (1, 3) else GREEN) for k in range(4))


def _noise() -> str:
    lines = "".join(_line(78, 20 + 16 * k, 90, 20 + 16 * k + (-1) ** k * 5, ORANGE, 1.6) for k in range(4))
    return _column(45, 4) + _text(66, 48, "+") + lines + _column(120, 4, GREEN)


STEPS = {
    "dense": _dense,
    "bias": _bias,
    "act": _act,
    "norm": _norm,
    "scale": _scale,
    "conv": _conv,
    "pool": _pool,
    "upsample": _upsample,
    "flatten": _flatten,
    "attention": _attention,
    "embedding": _embedding,
    "positions": _positions,
    "dropout": _dropout,
    "noise": _noise,
}
NETWORKS = {
    "residual": "residual(act('relu') > dense, 0.5)",
    "repeat": "repeat(dense > act('relu'), 10)",
    "sum": "sum(dense, dense > act('tanh') > dense)",
    "product": "product(dense, dense > act('sigmoid'))",
    "concat": "concat(dense(8), dense(4))",
    "option-plain": "repeat(dense > act('relu'), 50)",
    "option-pre": "repeat(dense > norm('layer') > act('relu'), 50)",
    "option-post": "repeat(dense > act('relu') > norm('layer'), 50)",
    "option-skip-pre": "repeat(residual(norm('layer') > act('relu') > dense, 0.5), 50)",
    "option-skip-post": "repeat(residual(act('relu') > norm('layer') > dense, 0.5), 50)",
    "option-skip-sum": "repeat(residual(act('relu') > dense, 0.5) > norm('layer'), 50)",
    "preset-preln": "repeat(residual(norm('layer') > dense(1024) > act('gelu') > dense(256)), 24) > norm('layer')",
    "preset-postln": "repeat(residual(dense(1024) > act('gelu') > dense(256)) > norm('layer'), 24)",
}


def make(folder: Path) -> list[Path]:
    """Write every picture; the same bytes every time."""
    folder.mkdir(parents=True, exist_ok=True)
    made = {name: page(draw(), 180, 86, f"the step {name}") for name, draw in STEPS.items()}
    made |= {name: network_picture(text) for name, text in NETWORKS.items()}
    for name, svg in made.items():
        (folder / f"{name}.svg").write_text(svg, encoding="utf-8")
    return [folder / f"{name}.svg" for name in made]


if __name__ == "__main__":
    print(*make(Path(__file__).parents[1] / "docs" / "pictures" / "networks"), sep="\n")
