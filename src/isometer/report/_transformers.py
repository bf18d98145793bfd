"""Diagrams of transformers: a picture, and a card of what their corners are."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from rich.box import SIMPLE
from rich.table import Table

from isometer.report._numbers import number
from isometer.report._pictures import new_figure
from isometer.theory.transformers import CRITICAL, PHASES, TokenDiagram

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_PANELS = (
    ("token_cosine", "cosine of tokens", "viridis"),
    ("attention_entropy", "entropy of attention (nats)", "cividis"),
    ("log_jacobian", "log E ‖∂output/∂input‖²", "PuOr"),
)


def token_diagram_picture(diagram: TokenDiagram, x: str, y: str) -> Figure:
    """Cosines, entropies and gradients over the plane, with the border of the points that no collapse rules out.

    Example:
        >>> from isometer.spec import Spec
        >>> from isometer.theory.transformers import token_diagram
        >>> text = "gpt(blocks=2, width=16, heads=4, tokens=4, causal=False, hidden=0, qk_gain={}, branch={})"
        >>> found = token_diagram(lambda a, b: Spec(text.format(a, b)), [0.5, 1.0], [0.5, 1.0])
        >>> len(token_diagram_picture(found, "qk_gain", "branch").axes)  # three panels, three colour bars
        6
    """
    figure, axes = new_figure(3, width=4.6)
    closed = (diagram.phase != 0).astype(float)
    for axis, (name, label, colours) in zip(np.ravel(axes), _PANELS, strict=True):
        values = getattr(diagram, name)
        axis.set_facecolor("#c8c8c8")  # shows through where values are nan
        axis.grid(False)
        reach = float(np.nanmax(np.abs(values))) if name == "log_jacobian" and np.isfinite(values).any() else None
        limits = {} if reach is None else {"vmin": -max(reach, 0.1), "vmax": max(reach, 0.1)}
        mesh = axis.pcolormesh(diagram.x, diagram.y, values, cmap=colours, shading="nearest", **limits)
        figure.colorbar(mesh, ax=axis, label=label, shrink=0.85)
        if 0.0 < closed.mean() < 1.0 and min(closed.shape) > 1:
            axis.contour(diagram.x, diagram.y, closed, levels=[0.5], colors="black", linewidths=1.5)
        if name == "attention_entropy":
            _draw_condensation(axis, diagram)
        if diagram.x[0] > 0 and diagram.x[-1] >= 10 * diagram.x[0]:
            axis.set_xscale("log")
        if diagram.y[0] > 0 and diagram.y[-1] >= 10 * diagram.y[0]:
            axis.set_yscale("log")
        axis.set_xlabel(x)
        axis.set_ylabel(y)
    return figure


def _draw_condensation(axis: Any, diagram: TokenDiagram) -> None:
    """A dashed line where scores have the size at which attention over many tokens condenses."""
    strength = np.nan_to_num(diagram.score_strength)
    if min(strength.shape) > 1 and strength.min() < CRITICAL < strength.max():
        axis.contour(diagram.x, diagram.y, strength, levels=[CRITICAL], colors="white", linestyles="--", linewidths=1.2)


def token_diagram_card(diagram: TokenDiagram, x: str, y: str) -> Table:
    """How much of the plane each phase takes, and the values at its corners.

    Example:
        >>> from isometer.spec import Spec
        >>> from isometer.theory.transformers import token_diagram
        >>> text = "gpt(blocks=2, width=16, heads=4, tokens=4, causal=False, hidden=0, qk_gain={}, branch={})"
        >>> found = token_diagram(lambda a, b: Spec(text.format(a, b)), [0.5, 1.0], [0.5, 1.0])
        >>> token_diagram_card(found, "qk_gain", "branch").row_count
        4
    """
    shares = [f"{name} {100 * float((diagram.phase == k).mean()):.0f} %" for k, name in enumerate(PHASES)]
    shown = [one for k, one in enumerate(shares) if (diagram.phase == k).any()]
    table = Table(box=SIMPLE, padding=(0, 1), title=f"→ {', '.join(shown)}; at the corners:", title_justify="left")
    for column in (x, y, "phase", "token cosine", "entropy", "tokens read", "log E‖J‖²"):
        table.add_column(column, justify="left" if column == "phase" else "right")
    for j in (0, -1):
        for i in (0, -1):
            numbers = (
                diagram.token_cosine,
                diagram.attention_entropy,
                diagram.attention_participation,
                diagram.log_jacobian,
            )
            table.add_row(
                number(float(diagram.x[i]), 4),
                number(float(diagram.y[j]), 4),
                PHASES[int(diagram.phase[j, i])],
                *(number(float(values[j, i]), 4, beside=1.0) for values in numbers),
            )
    return table
