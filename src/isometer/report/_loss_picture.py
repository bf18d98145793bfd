"""Loss against step as SVG that needs no scripts: curves, bands around them, and the loss of a constant answer."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from html import escape

_LEFT, _RIGHT, _BOTTOM, _TOP = 56, 8, 34, 12
_POINTS = 120
_WIDEST = 640  # pixels


@dataclass(frozen=True)
class LossCurve:
    """One curve.

    Attributes:
        name: for the legend within the picture; nothing is written if empty.
        colour: any colour of CSS.
        steps: where the losses are.
        losses: what is not finite is drawn at the upper edge.
        low: lower edge of a band, as long as the losses, or empty.
        high: its upper edge.
        dash: of the line, as SVG has it.
    """

    name: str
    colour: str
    steps: Sequence[float]
    losses: Sequence[float]
    low: Sequence[float] = ()
    high: Sequence[float] = ()
    dash: str = ""


def loss_picture(
    curves: Sequence[LossCurve],
    *,
    label: str,
    chance: float = math.nan,
    width: int = 640,
    height: int = 260,
    last: float | None = None,
) -> str:
    """Curves on common axes.

    Args:
        curves: what to draw.
        label: for people who do not see it.
        chance: a horizontal line, unless it is not finite; the axis ends at three times of it.
        width: in pixels.
        height: in pixels.
        last: step at the right edge; that of the longest curve by default.

    Example:
        >>> picture = loss_picture([LossCurve("a", "red", [0, 1], [2.0, math.inf])], label="losses", chance=2.0)
        >>> picture.count("<polyline"), "inf" in picture
        (1, False)
    """
    end = max([1.0, *(one.steps[-1] for one in curves if one.steps)]) if last is None else max(1.0, last)
    paper = _Paper(width, height, end, *_range(curves, chance))
    drawn = [*paper.axes(), *paper.level(chance)]
    for index, one in enumerate(curves):
        drawn += [*paper.band(one), paper.curve(one), *paper.name(one, index)]
    return (
        f'<svg viewBox="0 0 {width} {height}" role="img" aria-label="{escape(label)}" '
        f'style="max-width:{_WIDEST}px;width:100%;font-size:12px;fill:currentColor">{"".join(drawn)}</svg>'
    )


@dataclass(frozen=True)
class _Paper:
    """Where things are, and the elements that show them."""

    width: int
    height: int
    end: float
    low: float
    top: float

    def at(self, step: float, value: float) -> str:
        x = _LEFT + (self.width - _LEFT - _RIGHT) * step / self.end
        held = self.top if math.isnan(value) else min(max(value, self.low), self.top)
        share = (held - self.low) / (self.top - self.low)
        return f"{x:.1f},{_TOP + (self.height - _TOP - _BOTTOM) * (1 - share):.1f}"

    def axes(self) -> Iterator[str]:
        for value in _ticks(self.low, self.top):
            y = float(self.at(0, value).split(",")[1])
            yield f'<path d="M{_LEFT},{y}H{self.width - _RIGHT}" stroke="currentColor" opacity=".15"/>'
            yield f'<text x="{_LEFT - 6}" y="{y + 4:.1f}" text-anchor="end">{value:.3g}</text>'
        for step, anchor in ((0, "middle"), (int(self.end) // 2, "middle"), (int(self.end), "end")):
            x = self.at(step, self.low).split(",")[0]
            yield f'<text x="{x}" y="{self.height - 16}" text-anchor="{anchor}">{step}</text>'
        yield f'<text x="{self.width / 2:.0f}" y="{self.height - 3}" text-anchor="middle">step</text>'

    def level(self, value: float) -> Iterator[str]:
        if math.isfinite(value):
            ends = f"{self.at(0, value)} {self.at(self.end, value)}"
            yield f'<path class="chance" d="M{ends}" stroke="currentColor" stroke-dasharray="2 4"/>'

    def band(self, one: LossCurve) -> Iterator[str]:
        if one.low and one.high:
            edge = [self.at(s, v) for s, v in zip(one.steps, one.high, strict=True)]
            edge += [self.at(s, v) for s, v in reversed(list(zip(one.steps, one.low, strict=True)))]
            yield f'<polygon points="{" ".join(edge)}" fill="{one.colour}" opacity=".18"/>'

    def curve(self, one: LossCurve) -> str:
        points = " ".join(self.at(s, v) for s, v in _thinned(list(zip(one.steps, one.losses, strict=True))))
        dash = f' stroke-dasharray="{one.dash}"' if one.dash else ""
        return f'<polyline points="{points}" fill="none" stroke="{one.colour}" stroke-width="2"{dash}/>'

    def name(self, one: LossCurve, index: int) -> Iterator[str]:
        if one.name:
            place = f'x="{self.width - 12}" y="{_TOP + 14 + 16 * index}"'
            yield f'<text {place} text-anchor="end" fill="{one.colour}">{escape(one.name)}</text>'


def _range(curves: Sequence[LossCurve], chance: float) -> tuple[float, float]:
    """From zero, or the lowest of all, to above 97 of 100 losses; chance does not lie at the very bottom."""
    low = min([0.0, *(v for one in curves for side in (one.losses, one.low) for v in side if math.isfinite(v))])
    ordered = sorted(v for one in curves for v in one.losses if math.isfinite(v))
    top = 1.1 * max(ordered[min(len(ordered) - 1, int(0.97 * len(ordered)))], 1e-6) if ordered else 1.0
    if math.isfinite(chance) and chance > 0:
        top = min(max(top, 1.1 * chance), 3 * chance)
    return min(low, chance) if math.isfinite(chance) else low, top


def _ticks(low: float, top: float) -> list[float]:
    """Round numbers between the two, three to seven."""
    rough = (top - low) / 5
    power = 10.0 ** math.floor(math.log10(rough))
    step = next(m * power for m in (1, 2, 5, 10) if m * power >= rough)
    return [n * step for n in range(math.ceil(low / step), math.floor(top / step) + 1)]


def _thinned(points: list[tuple[float, float]]) -> list[tuple[float, float]]:
    step = max(1, math.ceil(len(points) / _POINTS))
    return points[::step] if (len(points) - 1) % step == 0 or not points else [*points[::step], points[-1]]
