"""What a person sees of the singular values of a Jacobian: a card for the terminal, and a picture."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
from rich.box import SIMPLE
from rich.console import Group, RenderableType
from rich.panel import Panel
from rich.table import Table
from rich.text import Text

from isometer.report._numbers import number, rounded
from isometer.report._pictures import PALETTE, new_figure

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_LISTED = 32  # layers of a table
_ISOMETRIC, _SPREAD = 0.95, 0.5  # isometry: squares of one size, and within a factor of about e


def jacobian_card(document: Mapping[str, Any]) -> Panel:
    """The card of `isometer jacobian`, of a network in theory or of a model.

    Args:
        document: what the command prints as JSON.

    Example:
        >>> import io
        >>> from rich.console import Console
        >>> from isometer.theory import jacobian_spectrum
        >>> page = io.StringIO()
        >>> law = jacobian_spectrum("input(8) > repeat(dense(weights='orthogonal') > act('relu'), 2)")
        >>> Console(width=100, file=page).print(jacobian_card(law.to_dict()))
        >>> "isometry" in page.getvalue()
        True
    """
    facts = Table.grid(padding=(0, 3))
    log_mean = document.get("log_mean_square")
    mean = document["mean_square"] if log_mean is None else math.exp(min(log_mean, 709.0))
    for row in (
        ("mean σ²", number(mean), "isometry (Eσ²)²/Eσ⁴", number(document["isometry"], 3)),
        ("partial Jacobian norm", number(document["partial_norm"]), "zeros", f"{100 * document['zeros']:.1f} %"),
        ("error estimate", number(document["error_estimate"], 2), "", ""),
    ):
        facts.add_row(*(Text(cell, style="dim" if i % 2 == 0 else "bold") for i, cell in enumerate(row)))
    parts: list[RenderableType] = [Text(headline(document), style="bold"), facts, _quantiles(document["quantiles"])]
    if document.get("layers"):
        parts.append(_layers(document["layers"]))
    parts.extend(Text(note, style="dim") for note in _notes(document))
    title = "Jacobian of " + (document.get("model") or rounded(document.get("network") or "") or "a model")
    return Panel(Group(*parts), title=Text(title), title_align="left", border_style="blue")


def headline(document: Mapping[str, Any]) -> str:
    """What the spread of the singular values means, in a sentence.

    Example:
        >>> headline({"isometry": 1.0}), headline({"isometry": 0.1})[:31]
        ('Dynamical isometry: all singular values are nearly equal.', 'The singular values spread wide')
    """
    isometry = document["isometry"]
    if isometry > _ISOMETRIC:
        return "Dynamical isometry: all singular values are nearly equal."
    if isometry > _SPREAD:
        return f"The singular values differ moderately: isometry {number(isometry, 2)}, where 1 means all equal."
    return (
        f"The singular values spread widely: isometry {number(isometry, 2)}, where 1 means all equal. Some directions "
        "grow while others vanish."
    )


def _quantiles(quantiles: Mapping[str, float]) -> Table:
    table = Table(box=SIMPLE, title="singular values by share", title_justify="left")
    for share in quantiles:
        table.add_column(f"{100 * float(share):g} %", justify="right")
    table.add_row(*(number(value, 3) for value in quantiles.values()))
    return table


def _layers(layers: Mapping[str, Mapping[str, float]]) -> Table:
    table = Table(box=SIMPLE, title="partial Jacobian norm from a module to the output", title_justify="left")
    for column in ("module", "norm", "± error"):
        table.add_column(column, justify="left" if column == "module" else "right")
    for name in list(layers)[:_LISTED]:
        table.add_row(name, number(layers[name]["value"], 3), number(layers[name]["error"], 2))
    if len(layers) > _LISTED:
        table.add_row(f"{len(layers) - _LISTED} more", "", "", style="dim")
    return table


def _notes(document: Mapping[str, Any]) -> list[str]:
    found = []
    if "note" in document:
        found.append(f"from {document['start']} to {document['end']}: {document['note']}")
    if document.get("exact") is False:
        found.append("branches end with activations: their slopes are treated as free, which is an approximation")
    if document.get("lost"):
        found.append(f"norms project out at most {100 * document['lost']:.2g} % of the directions at this width")
    if document.get("batch_lost"):
        found.append(f"for large batches: batch norm projects out {document['batch_lost']} directions per feature")
    if document.get("atom"):
        place, share = document["atom"]["singular_value"], document["atom"]["share"]
        found.append(f"{100 * share:.3g} % of the singular values are {place:.4g}")
    return found


def jacobian_picture(value: Any) -> Figure:
    """The density of log σ and the distribution, of a law or of a model's Jacobian.

    Args:
        value: a `JacobianLaw` or an `EmpiricalJacobian`.

    Example:
        >>> from isometer.theory import jacobian_spectrum
        >>> len(jacobian_picture(jacobian_spectrum("input(8) > repeat(dense > act('tanh'), 3)")).axes)
        2
    """
    figure, axes = new_figure(2)
    left, right = axes[0][:2]
    if hasattr(value, "log_squares"):
        _draw_law(left, right, value)
    else:
        _draw_model(left, right, value)
    left.set(xlabel="log₁₀ σ", ylabel="density of log₁₀ σ")
    left.set_ylim(bottom=0.0)
    right.set(xlabel="log₁₀ σ", ylabel="share of singular values below", ylim=(0.0, 1.02))
    words = f"isometry {number(value.isometry, 3)}"
    if value.zeros > 0:
        words += f", {100 * value.zeros:.3g} % zeros"
    left.set_title(words, fontsize=9)
    right.set_title(f"mean σ² {number(value.mean_square, 4)}", fontsize=9)
    name = rounded(str(value.spec)) if hasattr(value, "spec") else f"{value.start} → {value.end}"
    name = name if len(name) <= 90 else f"{name[:89]}…"
    figure.suptitle(f"Jacobian: {name}", fontsize=11, x=0.01, ha="left")
    return figure


_TENS = 0.5 / math.log(10.0)  # from log σ² to log₁₀ σ


def _draw_law(left: Any, right: Any, value: Any) -> None:
    place, share = value.atom
    if share < 1.0 - value.zeros - 1e-12:
        at = _TENS * value.log_squares
        shown = value.density > 1e-4 * value.density.max()
        window = slice(max(0, int(np.argmax(shown)) - 1), len(shown) - int(np.argmax(shown[::-1])) + 1)
        left.plot(at[window], value.density[window] / _TENS, color=PALETTE[0])
        right.plot(at[window], value.cdf(np.exp(value.log_squares))[window], color=PALETTE[0])
    if share > 0:
        for axis in (left, right):
            axis.axvline(math.log10(place), color=PALETTE[1], linewidth=1, linestyle="--")


def _draw_model(left: Any, right: Any, value: Any) -> None:
    kept = value.nodes[value.nodes > 1e-14 * value.nodes.max()] if value.nodes.max() > 0 else np.ones(1)
    low, high = float(np.log(kept.min())), float(np.log(kept.max()))
    grid = np.linspace(low - 0.7, high + 0.7, 300)
    height, error = value.density(grid)
    at = _TENS * grid
    left.fill_between(at, (height - 2 * error) / _TENS, (height + 2 * error) / _TENS, color=PALETTE[0], alpha=0.25)
    left.plot(at, height / _TENS, color=PALETTE[0])
    shares, spread = value.cdf(np.exp(grid)), value.cdf_error(np.exp(grid))
    right.fill_between(at, shares - 2 * spread, shares + 2 * spread, color=PALETTE[0], alpha=0.25)
    right.step(at, shares, where="post", color=PALETTE[0])
