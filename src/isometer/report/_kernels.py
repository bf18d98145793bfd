"""What a person sees of kernels and phases: tables for the terminal and pictures."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from rich.box import SIMPLE
from rich.console import Group, RenderableType
from rich.panel import Panel
from rich.table import Table
from rich.text import Text

from isometer.report._numbers import number, rounded
from isometer.report._pictures import PALETTE, legend_below, new_figure
from isometer.theory.chains import PhasePlane, Settled
from isometer.theory.kernels._conditioning import BoundCheck
from isometer.theory.kernels._kernel_diagnosis import KernelDiagnosis
from isometer.theory.kernels._kernel_matrix import KernelMatrix
from isometer.theory.phases._phase import PhaseDiagram

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_SHOWN = 400  # rows of a kernel in a picture


def kernel_card(
    kernel: KernelMatrix,
    checks: Sequence[BoundCheck],
    diagnosis: KernelDiagnosis | None,
    curve: Sequence[KernelMatrix] = (),
    name: str | None = None,
) -> Panel:
    """The card of `isometer kernel`; `name` is what to call the activation.

    Example:
        >>> import io
        >>> import numpy as np
        >>> from rich.console import Console
        >>> from isometer.report import kernel_card
        >>> from isometer.theory.kernels import kernel_matrix
        >>> page = io.StringIO()
        >>> Console(width=100, file=page).print(kernel_card(kernel_matrix("tanh", np.eye(3), 2), [], None))
        >>> "condition number" in page.getvalue()
        True
    """
    facts = Table.grid(padding=(0, 3))
    low, high = float(kernel.log_diagonal.min()), float(kernel.log_diagonal.max())
    diagonal = number(low) if low == high or high - low < 1e-9 else f"{number(low)} … {number(high)}"
    for row in (
        ("condition number", number(kernel.condition_number), "smallest eigenvalue",
         number(kernel.smallest_eigenvalue)),
        ("effective rank", f"{number(kernel.effective_rank, 4)} of {len(kernel.matrix)}", "largest eigenvalue",
         number(kernel.largest_eigenvalue)),
        ("log of the diagonal", diagonal, "error of entries", number(kernel.error, 1)),
    ):  # fmt: skip
        facts.add_row(*(Text(cell, style="dim" if i % 2 == 0 else "bold") for i, cell in enumerate(row)))
    parts: list[RenderableType] = [facts, Text("Eigenvalues are those of the kernel over its largest diagonal entry.")]
    if curve:
        parts.append(_curve_table(curve))
    reasons = {check.reason for check in checks if not check.applies}
    if checks and len(reasons) == 1 and not any(check.applies for check in checks):
        names = ", ".join(check.reference for check in checks)
        parts.append(Text(f"No published bound applies ({names}): {reasons.pop()}.", style="dim"))
    elif checks:
        parts.append(_bounds_table(checks))
    if diagnosis is not None:
        parts.append(Text(diagnosis.text, style="bold yellow"))
    of = name or kernel.activation.name
    title = f"{kernel.kind.upper()} of {of}, depth {kernel.depth}, {len(kernel.matrix)} inputs"
    return Panel(Group(*parts), title=title, title_align="left", border_style="blue")


def _curve_table(curve: Sequence[KernelMatrix]) -> Table:
    table = Table(box=SIMPLE, padding=(0, 1), title="over depth", title_justify="left")
    for column in ("depth", "condition number", "smallest eigenvalue", "effective rank", "log of the diagonal"):
        table.add_column(column, justify="right")
    for kernel in curve:
        table.add_row(
            str(kernel.depth), number(kernel.condition_number, 5), number(kernel.smallest_eigenvalue, 5),
            number(kernel.effective_rank, 4), number(float(kernel.log_diagonal.max()), 6),
        )  # fmt: skip
    return table


def _bounds_table(checks: Sequence[BoundCheck]) -> Table:
    table = Table(box=SIMPLE, padding=(0, 1), title="published bounds, as printed", title_justify="left")
    for column in ("statement", "about", "bound", "measured", ""):
        table.add_column(column)
    for check in checks:
        if check.applies:
            verdict = Text("holds", style="green") if check.holds else Text("fails", style="bold red")
            table.add_row(
                check.reference, check.quantity, f"{check.relation} {number(check.value, 4)}",
                number(check.measured, 4), verdict,
            )  # fmt: skip
        else:
            reason = Text(check.reason, style="dim")
            table.add_row(check.reference, check.quantity, "–", number(check.measured, 4), reason)
    return table


def kernel_picture(kernel: KernelMatrix, curve: Sequence[KernelMatrix] = (), name: str | None = None) -> Figure:
    """The matrix, its spectrum, and (given several depths) the condition number over depth.

    Example:
        >>> import numpy as np
        >>> from isometer.report import kernel_picture
        >>> from isometer.theory.kernels import kernel_matrix
        >>> len(kernel_picture(kernel_matrix("tanh", np.eye(3), 2)).axes)  # two panels and a colour bar
        3
    """
    figure, axes = new_figure(3 if curve else 2)
    left, middle = axes[0][:2]
    step = max(1, math.ceil(len(kernel.matrix) / _SHOWN))
    shown = kernel.matrix[::step, ::step]
    low = float(shown.min())
    signed = low < -1e-3  # rounding below zero asks for no second colour
    image = left.imshow(shown, cmap="PuOr" if signed else "cividis", vmin=-1.0 if signed else min(low, 0.0), vmax=1.0)
    left.grid(False)
    left.locator_params(integer=True)
    left.set_xlabel("input")
    left.set_ylabel("input")
    left.set_title("kernel over its largest diagonal entry", fontsize=9)
    figure.colorbar(image, ax=left, shrink=0.85)

    values = kernel.eigenvalues[::-1]
    place = np.arange(1, len(values) + 1)
    real = values > kernel.resolution
    middle.plot(place[real], values[real], "o-", color=PALETTE[0], markersize=3, linewidth=1, label="eigenvalues")
    middle.axhline(
        kernel.resolution,
        color="#666666",
        linestyle="--",
        linewidth=1,
        label=r"rounding, $n\,\varepsilon\,\lambda_{\max}$",
    )
    middle.set_yscale("log")
    middle.locator_params(axis="x", integer=True)
    middle.set_xlabel("rank of the eigenvalue")
    middle.set_ylabel("eigenvalue")
    middle.set_title(f"condition number {number(kernel.condition_number, 4)}", fontsize=9)
    legend_below(middle)
    if curve:
        _draw_curve(axes[0][2], curve)
    title = f"{kernel.kind.upper()} of {name or kernel.activation.name}, depth {kernel.depth}"
    figure.suptitle(title, fontsize=11, x=0.01, ha="left")
    return figure


def _draw_curve(axis: Any, curve: Sequence[KernelMatrix]) -> None:
    depths = np.array([kernel.depth for kernel in curve], dtype=float)
    conditions = np.array([kernel.condition_number for kernel in curve])
    fine = np.isfinite(conditions)
    axis.plot(depths[fine], conditions[fine], "o-", color=PALETTE[1], markersize=4)
    for name, level, style in (("float16", 2.0**10, ":"), ("float32", 2.0**23, "--"), ("float64", 2.0**52, "-.")):
        if fine.any() and level < 1e3 * conditions[fine].max():
            axis.axhline(level, color="#666666", linewidth=1, linestyle=style, label=f"1/ε of {name}")
    if (~fine).any() and fine.any():
        top = axis.get_ylim()[1]
        beyond = np.full(int((~fine).sum()), top)
        axis.plot(depths[~fine], beyond, "^", color=PALETTE[6], label="not resolved in float64")
    if depths.min() > 0:
        axis.set_xscale("log")
    axis.set_yscale("log")
    axis.set_xlabel("depth")
    axis.set_ylabel("condition number")
    axis.set_title("over depth", fontsize=9)
    legend_below(axis)


def phase_card(diagram: PhaseDiagram) -> Panel:
    """The card of `isometer phase`.

    Example:
        >>> import io
        >>> from rich.console import Console
        >>> from isometer.report import phase_card
        >>> from isometer.theory.phases import phase_diagram
        >>> page = io.StringIO()
        >>> Console(width=120, file=page).print(phase_card(phase_diagram("tanh", points=5)))
        >>> "chaotic" in page.getvalue()
        True
    """
    table = Table(box=SIMPLE, padding=(0, 1))
    for column in ("σ_w²", "σ_b²", "phase", "q*", "χ", "c*", "ξ of q", "ξ of c"):
        table.add_column(column, justify="left" if column == "phase" else "right", no_wrap=True)
    for p in diagram.table:
        table.add_row(
            number(p.weight_variance, 4), number(p.bias_variance, 4), Text(p.phase, style=_COLOURS[p.phase]),
            number(p.variance, 4, beside=1.0), number(p.chi, 4, beside=1.0), number(p.cosine, 4, beside=1.0),
            number(p.length_scale, 4), number(p.correlation_scale, 4),
        )  # fmt: skip
    edge = diagram.edge
    if edge.weight_variance.size == 0:
        words = "There is no edge of chaos with σ_b² ≥ 0 and a stable variance."
    elif edge.weight_variance.size == 1:
        words = f"The edge of chaos is the single point σ_w² = {number(float(edge.weight_variance[0]), 6)}, σ_b² = 0."
    else:
        low, middle = float(edge.bias_variance.min()), float(diagram.bias_variances[-1]) / 2
        words = f"Edge of chaos: σ_w² = {number(edge.weight_at(low), 6)} at σ_b² = {number(low, 4)}"
        if math.isfinite(edge.weight_at(middle)):
            words += f", {number(edge.weight_at(middle), 6)} at σ_b² = {number(middle, 4)}"
        words += "."
    legend = (
        "q*: variance of pre-activations; c*: the cosine that all pairs approach; ξ: layers in which the distance "
        "to them falls by a factor e."
    )
    notes = [Text(words), Text(legend, style="dim")]
    title = f"Order and chaos of {diagram.activation}: dense > act"
    return Panel(Group(table, *notes), title=title, title_align="left", border_style="blue")


def point_line(network: str, point: Settled) -> Text:
    """Where a network is: the verdict, and the network that it is about.

    Example:
        >>> from isometer.theory.chains import PhasePlane, Settled
        >>> print(point_line("input(8) > dense", Settled(1.2, 1.0, 0.0, 0.9)).plain)
        → χ = 1.2. Chaotic: nearby inputs separate to cosine 0 within about 9.49 layers, and squared gradients grow ...
        network: input(8) > dense
    """
    head = "" if point.growing else f"χ = {number(point.chi, 5, beside=1.0)}. "
    return Text.assemble((f"→ {head}{point.verdict}", "bold"), (f"\nnetwork: {rounded(network)}", "dim"))


_COLOURS = {"ordered": "blue", "critical": "green", "chaotic": "yellow", "unbounded": "red"}
_COLUMNS = 5  # of a plane in a table


def plane_card(plane: PhasePlane) -> Panel:
    """χ over a plane of two numbers of a network, at a few of its points.

    Example:
        >>> import io
        >>> from rich.console import Console
        >>> from isometer import Spec
        >>> from isometer.theory.chains import Axis, phase_plane
        >>> spec, page = Spec(width=8, depth=4, activation="tanh", bias_variance=0.1), io.StringIO()
        >>> plane = phase_plane(spec, Axis("gain", 0.5, 2.0), Axis("sigma_b", 0.1, 0.5), points=3)
        >>> Console(width=120, file=page).print(plane_card(plane))
        >>> "sigma_b" in page.getvalue()
        True
    """
    rows, columns = (np.unique(np.linspace(0, size - 1, _COLUMNS).astype(int)) for size in plane.chi.shape)
    table = Table(box=SIMPLE, title=f"χ; columns: {plane.x.name}", title_justify="left")
    table.add_column(plane.y.name, justify="right")
    for column in columns:
        table.add_column(number(float(plane.x_values[column]), 4), justify="right")
    for row in rows:
        cells = [plane.points[row][column] for column in columns]
        values = [Text(number(cell.chi, 4, beside=1.0), style=_COLOURS[cell.phase]) for cell in cells]
        table.add_row(number(float(plane.y_values[row]), 4), *values)
    phases = [point.phase for row in plane.points for point in row]
    shares = [(name, phases.count(name) / len(phases)) for name in _COLOURS if name in phases]
    parts: list[tuple[str, str]] = [("→ ", "bold")]
    for name, share in shares:
        parts += [(name, _COLOURS[name]), (f" at {100 * share:.0f} % of the points  ", "")]
    notes = [Text.assemble(*parts), Text(f"network: {rounded(plane.network)}", style="dim")]
    return Panel(Group(table, *notes), title="Order and chaos", title_align="left", border_style="blue")


def plane_picture(plane: PhasePlane) -> Figure:
    """log χ over the plane, with the edge of chaos.

    Example:
        >>> from isometer import Spec
        >>> from isometer.theory.chains import Axis, phase_plane
        >>> spec = Spec(width=8, depth=4, activation="tanh", bias_variance=0.1)
        >>> plane = phase_plane(spec, Axis("gain", 0.5, 2.0), Axis("sigma_b", 0.1, 0.5), points=3)
        >>> len(plane_picture(plane).axes)  # a panel and a colour bar
        2
    """
    figure, axes = new_figure(1, width=5.4)
    axis = axes[0][0]
    chi = plane.chi
    with np.errstate(divide="ignore", invalid="ignore"):
        logs = np.where(np.isfinite(chi) & (chi > 0.0), np.log(np.where(chi > 0.0, chi, 1.0)), np.nan)
    seen = np.abs(logs[np.isfinite(logs)])
    reach = float(np.clip(seen.max() if seen.size else 1.0, 0.1, 1.0))
    axis.set_facecolor("#c8c8c8")  # shows through where variances diverge or die
    image = axis.pcolormesh(
        plane.x_values, plane.y_values, logs, cmap="PuOr", vmin=-reach, vmax=reach, shading="nearest"
    )
    if seen.size and np.nanmin(logs) < 0.0 < np.nanmax(logs):
        axis.contour(plane.x_values, plane.y_values, logs, levels=[0.0], colors="black", linewidths=1.5)
    figure.colorbar(image, ax=axis, label="log χ")
    axis.set_xlabel(plane.x.name)
    axis.set_ylabel(plane.y.name)
    axis.set_title(plane.network if len(plane.network) <= 70 else f"{plane.network[:69]}…", fontsize=9)
    return figure


def phase_picture(diagram: PhaseDiagram, point: tuple[float, float] | None = None) -> Figure:
    """χ over the plane of (σ_w², σ_b²), with the edge of chaos and the region where variances diverge.

    `point` is a network's place in it.

    Example:
        >>> from isometer.report import phase_picture
        >>> from isometer.theory.phases import phase_diagram
        >>> len(phase_picture(phase_diagram("tanh", points=5)).axes)  # two panels, two colour bars
        4
    """
    figure, axes = new_figure(2, width=5.4)
    left, right = axes[0]
    w, b = diagram.weight_variances, diagram.bias_variances
    bounded = np.isfinite(diagram.variance)
    with np.errstate(divide="ignore", invalid="ignore"):
        log_chi = np.where(bounded & np.isfinite(diagram.chi), np.log(diagram.chi), np.nan)
        log_q = np.where(bounded & (diagram.variance > 1e-8), np.log10(diagram.variance), np.nan)
    seen = np.abs(log_chi[np.isfinite(log_chi)])
    reach = float(np.clip(seen.max() if seen.size else 1.0, 0.1, 1.0))
    panels = (
        (left, log_chi, "PuOr", -reach, reach, "log χ"),
        (right, log_q, "cividis", None, None, "log₁₀ q*"),
    )
    for axis, values, colours, low, high, label in panels:
        axis.set_facecolor("#c8c8c8")  # shows through where values are nan
        axis.grid(False)
        mesh = axis.pcolormesh(w, b, values, cmap=colours, vmin=low, vmax=high, shading="nearest")
        figure.colorbar(mesh, ax=axis, label=label, shrink=0.85)
        axis.set_xlabel(r"weight variance $\sigma_w^2$")
        axis.set_ylabel(r"bias variance $\sigma_b^2$")
        edge = diagram.edge
        if edge.weight_variance.size == 1:
            place = (edge.weight_variance, edge.bias_variance)
            axis.plot(*place, "o", color="black", label="edge of chaos", clip_on=False)
        elif edge.weight_variance.size:
            axis.plot(edge.weight_variance, edge.bias_variance, color="black", linewidth=2, label="edge of chaos")
        if point is not None and point[0] <= w[-1] and point[1] <= b[-1]:
            axis.plot(*point, "X", color="#d62728", markersize=9, label="this network", clip_on=False)
        axis.set_xlim(0, w[-1])
        axis.set_ylim(0, b[-1])
        legend_below(axis)
    left.set_title("χ: ordered left of the edge (orange), chaotic right of it (purple)", fontsize=9)
    grey = "; grey: diverges" if not bounded.all() else ""
    right.set_title(f"where the variance settles{grey or '; grey: dies out'}", fontsize=9)
    figure.suptitle(f"Order and chaos of {diagram.activation}", fontsize=11, x=0.01, ha="left")
    return figure
