"""Pictures of activations and their kernel maps, drawn with matplotlib without a display."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from isometer.errors import IsometerError
from isometer.files import existing_folder, write_whole
from isometer.theory import Explanation, KernelMap
from isometer.theory.kernels._bounds import global_convergence_bound

if TYPE_CHECKING:
    from matplotlib.figure import Figure

PALETTE = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000", "#F0E442")
"""The colours of curves (Okabe and Ito), distinguishable with any colour vision."""
FORMATS = (".png", ".pdf", ".svg")
_LAYERS = 100
_UNDATED: dict[str, dict[str, None]] = {"pdf": {"CreationDate": None}, "svg": {"Date": None}}


def new_figure(columns: int, rows: int = 1, *, width: float = 4.6, height: float = 4.0) -> tuple[Figure, Any]:
    """A figure on the off-screen canvas with the project's look."""
    from isometer.report._picture import Picture

    figure = Picture(width * columns, height * rows)
    axes = figure.subplots(rows, columns, squeeze=False)
    for axis in axes.ravel():
        axis.grid(True, color="#dddddd", linewidth=0.6)
        axis.spines[["top", "right"]].set_visible(False)
    return figure, axes


def legend_below(axis: Any, *, columns: int = 2, size: float = 8, title: str | None = None) -> None:
    """A legend under the panel and its axis label, where it covers no curve; none without labels."""
    from matplotlib.transforms import ScaledTranslation

    if not axis.get_legend_handles_labels()[0]:
        return
    below = ScaledTranslation(0, -36 / 72, axis.figure.dpi_scale_trans)
    axis.legend(
        loc="upper center",
        bbox_to_anchor=(0.5, 0),
        bbox_transform=axis.transAxes + below,
        ncols=columns,
        fontsize=size,
        title=title,
        frameon=False,
    )


def save_figure(figure: Figure, path: str | Path) -> Path:
    """Write to a temporary name, then rename: a picture is complete or absent.

    Example:
        >>> import tempfile, pathlib
        >>> from isometer.report import new_figure, save_figure
        >>> figure, _ = new_figure(1)
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     save_figure(figure, pathlib.Path(folder) / "empty.png").exists()
        True
    """
    target = Path(path)
    if target.suffix.lower() not in FORMATS:
        raise IsometerError(
            f"a picture is written as {', '.join(FORMATS)}; got {str(path)!r} — add one of these endings"
        )
    existing_folder(target.parent)
    kind = target.suffix[1:].lower()  # no dates inside: the same picture is the same file
    write_whole(target, lambda partial: figure.savefig(partial, dpi=130, format=kind, metadata=_UNDATED.get(kind)))
    return target


def _draw_function(axis: Any, card: Explanation, color: str, *, slope: bool) -> None:
    x = np.linspace(-4, 4, 1601)
    y = card.kernel.effective(x)
    for kink, _ in card.kernel.effective.jumps:  # a gap in the line, not a vertical stroke
        y = np.where(np.abs(x - kink) < 3e-3, np.nan, y)
    axis.plot(x, y, color=color, label=card.activation.name if not slope else "φ")
    if slope:
        axis.plot(x, card.kernel.effective.derivative(x), color=color, alpha=0.55, linestyle="--", label="φ′")
    low, high = np.nanquantile(y, 0.02), np.nanquantile(y, 0.98)
    bottom, top = axis.get_ylim() if axis.has_data() and not slope else (low, high)
    pad = 0.15 * max(high - low, 1e-9)
    axis.set_ylim(max(min(bottom, low - pad), -8), min(max(top, high + pad), 8))
    axis.set_xlim(-4, 4)
    axis.set_xlabel("x")


def _cobweb(axis: Any, kernel: KernelMap, start: float, color: str, steps: int = 60) -> None:
    rho = kernel.iterate(start, steps).cosine
    xs, ys = np.repeat(rho, 2)[:-1], np.repeat(rho, 2)[1:]
    axis.plot(xs, np.concatenate([[rho[0]], ys[1:]]), color=color, linewidth=0.9, alpha=0.9)
    axis.plot([start], [start], "o", color=color, markersize=4)


def _draw_kernel(axis: Any, card: Explanation, color: str, label: str) -> None:
    rho = np.cos(np.linspace(np.pi, 0, 801))  # dense by ±1, where kernel maps are steep
    axis.plot(rho, card.kernel(np.clip(rho, -1, 1)), color=color, label=label)
    if card.kernel.fixed_point is not None:
        axis.plot([card.kernel.fixed_point], [card.kernel.fixed_point], "*", color=color, markersize=13, zorder=5)


def _kernel_axis(axis: Any) -> None:
    axis.plot([-1, 1], [-1, 1], color="#888888", linewidth=0.8, linestyle=":")
    axis.set_xlim(-1.03, 1.03)
    axis.set_xlabel("cosine before the layer, ρ")
    axis.set_ylabel("cosine after the layer, κ(ρ)")


def _draw_distance(axis: Any, card: Explanation, start: float, color: str, label: str) -> None:
    distance = card.follow(start, _LAYERS).distance
    axis.plot(np.arange(_LAYERS + 1), np.where(distance > 1e-300, distance, np.nan), color=color, label=label)


def _distance_axis(axis: Any) -> None:
    axis.set_yscale("log")
    bottom, _ = axis.get_ylim()
    if bottom < 1e-18:
        axis.set_ylim(bottom=1e-18)
    axis.set_xlabel("layer")
    axis.set_ylabel("distance |ρ − ρ*|")


def activation_picture(card: Explanation, start: float = 0.6) -> Figure:
    """Activation, kernel map with cobweb, and distance to the fixed point over depth (as 001/fig-5.2).

    Example:
        >>> from isometer.report import activation_picture
        >>> from isometer.theory import explain
        >>> len(activation_picture(explain("relu")).axes)
        3
    """
    figure, axes = new_figure(3)
    left, middle, right = axes[0]
    blue, orange, green = PALETTE[:3]
    _draw_function(left, card, blue, slope=True)
    left.set_title(f"φ scaled as in the kernel map ({card.kernel.effective.name})", fontsize=9)
    legend_below(left)

    _kernel_axis(middle)
    _draw_kernel(middle, card, blue, "κ")
    for begin, color in ((start, orange), (-0.8, green)):
        _cobweb(middle, card.kernel, begin, color)
    fixed = card.kernel.fixed_point
    middle.set_title("every cosine is fixed" if fixed is None else f"kernel map, ρ* = {fixed:.4g} (★)", fontsize=9)

    if card.approach.fixed_point is None:
        why = (
            "a linear layer:\ncosines never change" if fixed is None else "no single limit:\nsee the table of the card"
        )
        right.text(0.5, 0.5, why, ha="center", va="center", transform=right.transAxes)
        right.set_axis_off()
    else:
        for begin, color in ((start, orange), (-0.8, green)):
            _draw_distance(right, card, begin, color, f"from ρ₀ = {begin:g}".replace("-", "−"))
        if card.approach.by_kernel_map:
            _draw_bound(right, card, start)
        _distance_axis(right)
        legend_below(right, columns=1)
        right.set_title(f"{card.approach.form} convergence", fontsize=9)
    figure.suptitle(f"{card.activation.name}: {card.conclusion}", fontsize=11, x=0.01, ha="left")
    return figure


def _draw_bound(axis: Any, card: Explanation, start: float) -> None:
    bound = global_convergence_bound(card.kernel, start, np.arange(_LAYERS + 1))
    # Case 1 of 001/thm-5.11 bounds Ψ = |ρ|/(1 − |ρ|); drawn is |ρ| = Ψ/(1 + Ψ).
    values = bound.values / (1 + bound.values) if bound.case == 1 else bound.values
    axis.plot(
        np.arange(_LAYERS + 1), np.where(values > 1e-300, values, np.nan), color="#666666", linestyle="--",
        linewidth=1.0, label=f"printed bound (case {bound.case}, ρ₀ = {start:g})",
    )  # fmt: skip


def comparison_picture(cards: Sequence[Explanation], start: float = 0.6) -> Figure:
    """Several activations in the same three panels.

    Example:
        >>> from isometer.report._pictures import comparison_picture
        >>> from isometer.theory import explain
        >>> len(comparison_picture([explain("relu"), explain("tanh")]).axes)
        3
    """
    figure, axes = new_figure(3)
    left, middle, right = axes[0]
    _kernel_axis(middle)
    for card, color in zip(cards, _colors(len(cards)), strict=True):
        _draw_function(left, card, color, slope=False)
        _draw_kernel(middle, card, color, card.activation.name)
        if card.approach.fixed_point is not None:
            _draw_distance(right, card, start, color, card.activation.name)
    if right.has_data():
        _distance_axis(right)
    left.set_title("activations, scaled as in the kernel map", fontsize=9)
    middle.set_title("kernel maps, attracting fixed points ★", fontsize=9)
    right.set_title(f"two inputs at cosine {start:g}, layer by layer", fontsize=9)
    legend_below(left)
    return figure


def _colors(count: int) -> list[str]:
    return [PALETTE[i % len(PALETTE)] for i in range(count)]
