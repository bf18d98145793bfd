"""What a person sees of a scaling check: tables for the terminal, and one picture."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from rich.box import SIMPLE
from rich.console import Console
from rich.syntax import Syntax
from rich.table import Table
from rich.text import Text

from isometer.report._pictures import PALETTE, new_figure

if TYPE_CHECKING:
    from matplotlib.figure import Figure

NAMES = {"standard": "standard", "mup": "muP", "depth-mup": "depth-muP", "completep": "CompleteP"}
_QUANTITIES = {
    "activation": "activations",
    "update": "updates",
    "logits": "output at start",
    "logits_change": "change of the output",
    "branch": "what a block adds",
    "stream": "stream at start",
    "stream_change": "change of the stream",
}
_STATES = {"fits": ("fits", "green"), "grows": ("too high", "bold red"), "shrinks": ("too low", "bold red"),
           "unclear": ("unclear", "yellow"), "not judged": ("–", "dim")}  # fmt: skip
# In width the three agree, in depth standard and muP do.
_COLUMNS = {"width": ("standard", "mup"), "depth": ("standard", "depth-mup", "completep")}
_ORDER = ("activation", "stream", "branch", "logits", "update", "stream_change", "logits_change")


def quantity_words(one: Mapping[str, Any], both: bool = False) -> str:
    """What an exponent is about.

    Args:
        one: an exponent as a dictionary.
        both: whether the group has parameters inside and outside of the repeated blocks.

    Example:
        >>> quantity_words({"quantity": "update", "group": "hidden", "repeated": True}, both=True)
        'updates: hidden (blocks)'
    """
    words: str = _QUANTITIES.get(one["quantity"], one["quantity"])
    if one["group"] in ("model", "stream"):
        return words
    inside = " (blocks)" if both and one["repeated"] else ""
    return f"{words}: {one['group']}{inside}"


def print_scaling(page: Console, document: Mapping[str, Any]) -> None:
    """Tables of exponents and of the sweep, the conclusion, and the corrections as code.

    Args:
        page: where to.
        document: `ScalingCheck.to_dict()`.
    """
    for axis in ("width", "depth"):
        rows = [one for one in document["verdicts"] if one["axis"] == axis]
        if rows:
            page.print(_exponents(document, axis, rows))
    if document["sweep"] is not None:
        page.print(_sweep(document))
    page.print(Text(f"\n→ {document['conclusion']}", style="bold"))
    if document["code"]:
        aim = NAMES[document["aim"]]
        page.print(Text(f"\nThe changes that lead to {aim}, to copy into your code:\n", style="dim"))
        page.print(Syntax(document["code"], "python", background_color="default", word_wrap=False), soft_wrap=True)


def _exponents(document: Mapping[str, Any], axis: str, rows: Sequence[Mapping[str, Any]]) -> Table:
    sizes = ", ".join(map(str, document[f"{axis}s"]))
    columns = _COLUMNS[axis]
    table = _table(f"exponents of the {axis}: {sizes}")
    table.add_column("size of", no_wrap=True)
    table.add_column("measured", justify="right", no_wrap=True)
    for name in columns:
        table.add_column(NAMES[name], justify="right", style="dim", no_wrap=True)
    table.add_column("verdict", no_wrap=True)
    for one in sorted(rows, key=lambda row: _ORDER.index(row["quantity"])):
        both = any(other["group"] == one["group"] and other["repeated"] != one["repeated"] for other in rows)
        word, style = _STATES[one["state"]]
        table.add_row(
            quantity_words(one, both),
            _with_error(one["value"], one["error"]),
            *(_exponent(one["theory"].get(name)) for name in columns),
            Text(word, style=style),
        )
    return table


def _table(title: str) -> Table:
    """Seven columns have to fit into 80 letters."""
    settings: dict[str, Any] = {"title_justify": "left", "padding": (0, 1, 0, 0), "show_edge": False}
    return Table(box=SIMPLE, title=f"\n{title}\n", **settings)


def _with_error(value: float, error: float) -> str:
    if not math.isfinite(value):
        return "–"
    told = f"{value + 0.0:.2f}".replace("-", "−").replace("−0.00", "0.00")
    return told if not math.isfinite(error) else f"{told}±{error:.2f}"


def _exponent(value: float | None) -> str:
    return "–" if value is None else f"{value:g}".replace("-", "−")


def _size(one: Mapping[str, Any]) -> str:
    known = [str(one[name]) for name in ("width", "depth") if one[name] is not None]
    return " × ".join(known)


def _sweep(document: Mapping[str, Any]) -> Table:
    """Losses by rate; the base size is not corrected."""
    sweeps = [(document["sweep"], 0, "")]
    if document["corrected_sweep"] is not None:
        sweeps.append((document["corrected_sweep"], 1, "\ncorrected"))
    table = _table(f"loss after {document['sweep']['steps']} steps, by rate; * is the best")
    table.add_column("rate", justify="right")
    columns = []
    for sweep, start, note in sweeps:
        for place in range(start, len(sweep["sizes"])):
            table.add_column(f"{_size(sweep['sizes'][place])}{note}", justify="right", no_wrap=True)
            columns.append((sweep, place))
    for rate in sorted({rate for sweep, _ in columns for rate in sweep["rates"]}):
        table.add_row(f"{rate:.2g}", *(_loss(sweep, place, rate) for sweep, place in columns))
    return table


def _loss(sweep: Mapping[str, Any], place: int, rate: float) -> Text:
    if rate not in sweep["rates"]:
        return Text("")
    value = sweep["losses"][place][sweep["rates"].index(rate)]
    best = sweep["best_rates"][place] == rate
    told = "∞" if not math.isfinite(value) else f"{value:.3g}"
    return Text(f"{told}*" if best else f"{told} ", style="bold green" if best else "")


# --- the picture ------------------------------------------------------------------------------------------------------


def scaling_picture(document: Mapping[str, Any]) -> Figure:
    """Sizes over width and over depth, each over its first value, beside theory; losses over rates.

    Args:
        document: `ScalingCheck.to_dict()`.
    """
    axes_of = [axis for axis in ("width", "depth") if document[f"{axis}s"]]
    sweep = document["sweep"]
    figure, axes = new_figure(len(axes_of) + (sweep is not None), width=5.4, height=5.2)
    for panel, axis in zip(axes[0], axes_of, strict=False):
        _panel(panel, document, axis)
    if sweep is not None:
        _rates_panel(axes[0][-1], document)
    figure.suptitle(_title(document), fontsize=11, x=0.01, ha="left")
    return figure


def _title(document: Mapping[str, Any]) -> str:
    near = NAMES.get(document["resembles"] or "", "no known parametrisation")
    return f"Scaling with {document['optimizer']}: resembles {near}, judged by {NAMES[document['aim']]}"


def _panel(panel: Any, document: Mapping[str, Any], axis: str) -> None:
    verdicts = [one for one in document["verdicts"] if one["axis"] == axis]
    series = [one for one in document["series"] if one["axis"] == axis]
    shown = [(v, s) for v, s in zip(verdicts, series, strict=True) if s["values"] and math.isfinite(v["value"])]
    shown = [(v, s) for v, s in shown if v["state"] != "not judged"]
    shown.sort(key=lambda one: one[0]["state"] not in ("grows", "shrinks"))  # the strongest colours are for these
    for place, (verdict, one) in enumerate(shown):
        ratio = [value / one["values"][0] for value in one["values"]]
        both = any(o["group"] == verdict["group"] and o["repeated"] != verdict["repeated"] for o in verdicts)
        wrong = verdict["state"] in ("grows", "shrinks")
        label = f"{quantity_words(verdict, both)}: {_with_error(verdict['value'], verdict['error'])}"
        panel.plot(
            one["sizes"],
            ratio,
            "o-" if wrong else "o:",
            color=PALETTE[place % len(PALETTE)],
            linewidth=2.2 if wrong else 1.0,
            markersize=4,
            label=label,
        )
    sizes = document[f"{axis}s"]
    for power in sorted({v["asked"] for v, _ in shown if v["asked"] is not None}):
        line = [(size / sizes[0]) ** power for size in sizes]
        panel.plot(sizes, line, color="#888888", linewidth=5, alpha=0.25, zorder=0)
        panel.annotate(f"{axis}^{power:g}", (sizes[-1], line[-1]), fontsize=7, color="#555555")
    panel.set(xscale="log", xlabel=axis, ylabel="size, relative to the smallest model")
    panel.set_yscale("log", base=2)
    panel.yaxis.set_major_formatter(lambda value, _: f"{value:g}")
    panel.set_xticks(sizes, [str(size) for size in sizes])
    panel.set_xticks([], minor=True)
    panel.set_title("thick lines differ from theory (grey bands)", fontsize=9)
    panel.legend(fontsize=6.5, frameon=False, loc="upper center", bbox_to_anchor=(0.5, -0.13), ncols=2)


def _rates_panel(panel: Any, document: Mapping[str, Any]) -> None:
    for name, style, note in (("sweep", "o-", ""), ("corrected_sweep", "s--", ", corrected")):
        sweep = document[name]
        for place, size in enumerate(sweep["sizes"] if sweep is not None else ()):
            if name == "corrected_sweep" and place == 0:
                continue
            points = [(r, v) for r, v in zip(sweep["rates"], sweep["losses"][place], strict=True) if math.isfinite(v)]
            colour = PALETTE[place % len(PALETTE)]
            rates, losses = [rate for rate, _ in points], [loss for _, loss in points]
            panel.plot(rates, losses, style, color=colour, markersize=3, linewidth=1.2, label=f"{_size(size)}{note}")
            best = sweep["best_rates"][place]
            panel.plot([best], [losses[rates.index(best)]], style[0], color=colour, markersize=9, alpha=0.6)
    panel.set(xscale="log", yscale="log", xlabel="learning rate at the smallest size", ylabel="loss")
    panel.set_title("the best rate of each size is marked", fontsize=9)
    panel.legend(fontsize=7, frameon=False, loc="upper center", bbox_to_anchor=(0.5, -0.13), ncols=2)
