"""What a person sees of the kernel of a model: a card for the terminal, and a picture."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
from rich.box import SIMPLE
from rich.console import Group, RenderableType
from rich.panel import Panel
from rich.table import Table
from rich.text import Text

from isometer.report._numbers import number
from isometer.report._pictures import PALETTE, new_figure

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_RATES = {"sgd": "gradient descent", "sgd_momentum": "with momentum 0.9", "adam": "Adam"}
_LISTED = 24  # layers of a table and of a picture


def model_kernel_card(document: Mapping[str, Any]) -> Panel:
    """The card of `isometer kernel --model`.

    Args:
        document: what the command prints as JSON.

    Example:
        >>> import io
        >>> from rich.console import Console
        >>> page = io.StringIO()
        >>> numbers = {"condition_number": 2.0, "smallest_eigenvalue": 1.0, "largest_eigenvalue": 2.0}
        >>> more = {"effective_rank": 1.9, "error_estimate": 1e-7, "inputs": 2, "kind": "ntk", "note": "exact"}
        >>> rest = {"shares": {"0": 1.0}, "alignment": {"labels": 0.3}, "rates": {}, "model": "mine", "mode": "eval"}
        >>> Console(width=100, file=page).print(model_kernel_card({**numbers, **more, **rest}))
        >>> "condition number" in page.getvalue()
        True
    """
    facts = Table.grid(padding=(0, 3))
    for row in (
        ("condition number", number(document["condition_number"]), "smallest eigenvalue",
         number(document["smallest_eigenvalue"])),
        ("effective rank", f"{number(document['effective_rank'], 4)} of {document['inputs']}", "largest eigenvalue",
         number(document["largest_eigenvalue"])),
        ("error estimate", number(document["error_estimate"], 2), "alignment with",
         ", ".join(f"{name} {value:.2f}" for name, value in document["alignment"].items()) or "–"),
    ):  # fmt: skip
        facts.add_row(*(Text(cell, style="dim" if i % 2 == 0 else "bold") for i, cell in enumerate(row)))
    parts: list[RenderableType] = [facts]
    rates = [(name, document["rates"][key]) for key, name in _RATES.items() if key in document["rates"]]
    if rates:
        parts.append(_rates_table(rates, document["rates"]["loss"]))
    if len(document["shares"]) > 1:
        parts.append(_shares_table(document["shares"]))
    if document.get("drift"):
        parts.append(_drift_table(document["drift"]))
    if document.get("limit"):
        parts.append(Text(_limit_words(document["limit"])))
    parts.append(Text(document["note"], style="dim"))
    mode = {"train": "training mode", "eval": "evaluation mode"}.get(document["mode"], "")
    title = f"{document['kind'].upper()} of {document['model']}, {document['inputs']} samples, {mode}"
    return Panel(Group(*parts), title=title, title_align="left", border_style="blue")


def _rates_table(rates: list[tuple[str, Any]], loss: str) -> Table:
    table = Table(box=SIMPLE, title=f"largest stable rate here, for {loss}", title_justify="left")
    for column in ("optimizer", "rate", "curvature"):
        table.add_column(column, justify="left" if column == "optimizer" else "right")
    for name, one in rates:
        table.add_row(name, "any" if one["rate"] is None else number(one["rate"], 3), number(one["curvature"], 3))
    return table


def _shares_table(shares: Mapping[str, float]) -> Table:
    table = Table(box=SIMPLE, title="share of the trace", title_justify="left")
    table.add_column("layer")
    table.add_column("share", justify="right")
    for name, share in largest_shares(shares).items():
        table.add_row(name, f"{100 * share:.1f} %", style=None if name in shares else "dim")
    return table


def largest_shares(shares: Mapping[str, float], most: int = _LISTED) -> dict[str, float]:
    """The layers with the largest shares, in the order of the model, and what the others have together.

    Example:
        >>> largest_shares({"a": 0.2, "b": 0.1, "c": 0.6, "d": 0.1}, most=2)
        {'a': 0.2, 'c': 0.6, '2 others': 0.2}
    """
    largest = sorted(shares, key=lambda name: -shares[name])[:most]
    found = {name: share for name, share in shares.items() if name in largest}
    if len(shares) > most:
        found[f"{len(shares) - most} others"] = sum(share for name, share in shares.items() if name not in found)
    return found


def _drift_table(drift: Mapping[str, Any]) -> Table:
    table = Table(box=SIMPLE, title="moved since the earlier checkpoint", title_justify="left")
    for column in ("layer", "moved", "apart from its size", "size"):
        table.add_column(column, justify="left" if column == "layer" else "right")
    layers = sorted((name for name in drift if name != "total"), key=lambda name: -drift[name]["relative"])
    shown = set(layers[:_LISTED])
    for name in ["total", *(name for name in drift if name in shown)]:
        one = drift[name]
        cells = (_percent(one["relative"]), _percent(one["turned"]), f"× {number(one['growth'], 3)}")
        table.add_row("all layers" if name == "total" else name, *cells)
    return table


def _percent(value: float) -> str:
    return f"{number(100 * value, 3)} %"


def _limit_words(limit: Mapping[str, Any]) -> str:
    return (
        f"{_percent(limit['distance'])} from the kernel at infinite width of {limit['spec']}, "
        f"{_percent(limit['turned'])} apart from its size"
    )


def model_kernel_picture(document: Mapping[str, Any], matrix: np.ndarray[Any, Any]) -> Figure:
    """The matrix over its largest diagonal entry, its spectrum, and the layers' shares of the trace.

    Example:
        >>> numbers = {"spectrum": np.ones(2), "condition_number": 1.0, "kind": "ntk", "model": "mine"}
        >>> len(model_kernel_picture({**numbers, "shares": {"0": 1.0}}, np.eye(2)).axes)  # three panels, a colour bar
        4
    """
    figure, axes = new_figure(3)
    left, middle, right = axes[0][:3]
    top = float(np.max(np.diag(matrix)))
    image = left.imshow(matrix / top if top > 0 else matrix, cmap="PuOr", vmin=-1.0, vmax=1.0)
    left.grid(False)
    left.set(xlabel="sample", ylabel="sample")
    for axis in (left.xaxis, left.yaxis):
        axis.get_major_locator().set_params(integer=True)
    left.set_title("kernel over its largest diagonal entry", fontsize=9)
    figure.colorbar(image, ax=left, shrink=0.85)
    values = np.asarray(document["spectrum"])[::-1]
    shown = values > 0
    middle.plot(np.arange(1, len(values) + 1)[shown], values[shown], "o-", color=PALETTE[0], markersize=3, linewidth=1)
    if shown.any():
        middle.set_yscale("log")
    middle.set(xlabel="rank of the eigenvalue", ylabel="eigenvalue")
    middle.set_title(f"condition number {number(document['condition_number'], 4)}", fontsize=9)
    shares = largest_shares(document["shares"]) or {"whole model": 1.0}
    right.barh(range(len(shares)), list(shares.values()), color=PALETTE[1])
    right.set_yticks(range(len(shares)), list(shares), fontsize=7)
    right.invert_yaxis()
    right.set_title("share of the trace by layer", fontsize=9)
    figure.suptitle(f"{document['kind'].upper()} of {document['model']}", fontsize=11, x=0.01, ha="left")
    return figure
