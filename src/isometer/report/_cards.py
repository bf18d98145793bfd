"""What a person reads on a terminal about activations: the card, the comparison, the registry."""

from __future__ import annotations

import math
from collections.abc import Sequence

from rich.box import SIMPLE
from rich.console import Console, Group
from rich.panel import Panel
from rich.table import Table
from rich.text import Text

from isometer.activations import ENTRIES, Activation, activation
from isometer.report._numbers import number
from isometer.theory import Explanation, KernelMap, NetworkExplanation
from isometer.theory._network_explanation import NEARBY
from isometer.theory.chains import Approach

_CASES = {
    None: "linear: outside 001/thm-5.11",
    1: "case 1: κ(0) = 0",
    2: "case 2: κ(0) > 0, κ′(1) < 1",
    3: "case 3: κ(0) > 0, κ′(1) = 1",
    4: "case 4: κ(0) > 0, κ′(1) > 1",
}
FATES: dict[int | None, str] = {None: "unchanged", 1: "orthogonal", 2: "collapse", 3: "slow collapse", 4: "settles"}


def power_of_ten(log10: float | None) -> str:
    """×10^… in words a person takes in at a glance."""
    if log10 is None:
        return "–"
    if math.isinf(log10):
        return "0" if log10 < 0 else "∞"
    return f"×{10**log10:.3g}" if abs(log10) < 4 else f"×10^{log10:.0f}".replace("-", "−")


def _rate(way: Approach) -> str:
    if way.form == "exponential":
        return f"×{number(way.rate, 5)}"
    if way.form in ("algebraic", "logarithmic"):
        base = "L" if way.form == "algebraic" else "log L"
        if way.constant is not None:
            base = base if way.form == "algebraic" else f"({base})"
            return f"{number(way.constant, 4)}/{base}" + ("²" if way.exponent == 2 else "")
        return f"a power of {base}" if way.exponent is None else f"{base}^−{number(way.exponent, 4)}"
    if way.form == "superexponential":
        return f"power {number(way.exponent, 2)}"
    return "changes with L" if way.form == "varying" else "–"


def _kinks(phi: Activation) -> str:
    """Those where the Gaussian has mass."""
    seen = [number(x) for x in phi.kinks if abs(x) < 9]
    return (", ".join(seen[:8]) + (", …" if len(seen) > 8 else "")) or "none"


def network_card(card: NetworkExplanation) -> Panel:
    """The card of `isometer explain --network` for a network whose layers differ.

    Example:
        >>> import io
        >>> from rich.console import Console
        >>> from isometer import Spec
        >>> from isometer.theory import explain
        >>> page = io.StringIO()
        >>> Console(width=100, file=page).print(network_card(explain(Spec("preln_mlp(width=8, blocks=4)"))))
        >>> "gelu" in page.getvalue()
        True
    """
    table = Table(box=None, padding=(0, 2), header_style="dim")
    for column in (
        "layer",
        "mean square\nof a feature",
        "cos of two\northogonal inputs",
        f"1 − cos of two inputs\nthat start at {NEARBY:g}",
    ):
        table.add_column(column, justify="right")
    for row in card.outlook:
        table.add_row(
            str(row["layer"]),
            number(row["mean_square"], 4),
            number(row["cosine_of_orthogonal"], 4),
            number(row["gap_of_nearby"], 3),
        )
    facts = (
        f"{card.layers} layers; activations: {', '.join(card.activations) or 'none'}; χ = {number(card.point.chi, 5)}"
    )
    parts = Group(
        Text(str(card.spec)), Text(facts, style="dim"), Text(), table, Text(), Text(card.conclusion, style="bold")
    )
    return Panel(
        parts, title="Two inputs of unit mean square at infinite width", title_align="left", border_style="blue"
    )


def activation_card(card: Explanation) -> Panel:
    """The card of `isometer explain`.

    Example:
        >>> import io
        >>> from rich.console import Console
        >>> from isometer.report import activation_card
        >>> from isometer.theory import explain
        >>> page = io.StringIO()
        >>> Console(width=100, file=page).print(activation_card(explain("relu")))
        >>> "Slow rank collapse" in page.getvalue()
        True
    """
    phi, k = card.activation, card.kernel
    facts = Table.grid(padding=(0, 3))
    for _ in range(4):
        facts.add_column()
    rows = [
        ("mean E φ", number(phi.mean), "forward gain", number(phi.gain_forward)),
        ("second moment E φ²", number(phi.second_moment), "backward gain", number(phi.gain_backward)),
        ("variance", number(phi.variance), "unit-variance gamma", number(phi.unit_variance_gamma)),
        ("non-linearity μ", number(phi.nonlinearity), "error estimate", f"{k.error:.0e} ({phi.dual.method})"),
        ("kinks", _kinks(phi), "length-map slope Q′(1)", number(card.length_slope)),
    ]
    for left, a, right, b in rows:
        facts.add_row(Text(left, style="dim"), a, Text(right, style="dim"), b)

    spectrum = Table.grid(padding=(0, 1))
    largest = max(float(abs(card.hermite).max()), 1e-300)
    for order, coefficient in enumerate(card.hermite):
        share = abs(float(coefficient)) / largest
        shown = float(coefficient) if share >= 1e-12 else 0.0  # below, it is the rounding of a zero
        bar = "█" * round(28 * share) or ("·" if share < 1e-12 else "▏")
        spectrum.add_row(Text(f"c{order}", style="dim"), f"{shown:+.6f}".replace("-", "−"), Text(bar, style="cyan"))

    setting, way = card.setting, card.approach
    of_what = "" if card.layer.residual is None or k.residual is not None else "of the branch "
    kernel = Table.grid(padding=(0, 3))
    for _ in range(4):
        kernel.add_column()
    points = "every ρ" if k.case is None else ", ".join(number(p) for p in k.fixed_points)
    kernel.add_row(Text("κ(0)", style="dim"), number(k.at_zero), Text("classification", style="dim"), _CASES[k.case])
    kernel.add_row(Text("κ′(0)", style="dim"), number(k.slope_at_zero), Text("fixed points", style="dim"), points)
    kernel.add_row(
        Text("κ′(1)", style="dim"), number(k.slope_at_one), Text("attracting ρ*", style="dim"), number(way.fixed_point)
    )
    kernel.add_row(
        Text("κ′(ρ*)", style="dim"), number(k.slope_at_fixed_point), Text("rate per layer", style="dim"), _rate(way)
    )
    kernel.add_row("", "", Text("depth scale", style="dim"), f"{number(way.depth_scale, 4)} layers")

    depth = Table(box=None, padding=(0, 2), header_style="dim")
    depth.add_column("layers", justify="right")
    depth.add_column("cos of two\northogonal inputs", justify="right")
    depth.add_column(f"1 − cos of two inputs\nthat start at {NEARBY:g}", justify="right")
    depth.add_column("gradient norm,\ninput/output", justify="right")
    for row in card.outlook:
        depth.add_row(
            str(row.depth),
            number(row.cosine_of_orthogonal, 4),
            number(row.gap_of_nearby, 3),
            power_of_ten(row.log10_gradient_factor),
        )
    body = Group(
        facts,
        Text(f"\nHermite spectrum ({setting})", style="bold"),
        spectrum,
        Text(f"\nKernel map {of_what}({setting})", style="bold"),
        kernel,
        Text("\nWhat it means for depth (infinite width)", style="bold"),
        depth,
        Text(f"\n→ {card.conclusion}", style="bold green"),
        Text(f"→ {card.gradient_sentence}", style="bold green"),
        *([] if card.length_sentence is None else [Text(f"→ {card.length_sentence}", style="bold green")]),
        *(Text(f"warning: {words}", style="bold yellow") for words in k.warnings),
    )
    # Rich reads square brackets in a title as markup.
    return Panel(body, title=f"[bold]{phi.name.replace('[', '(')}[/bold]", title_align="left", border_style="blue")


def comparison_table(cards: Sequence[Explanation]) -> Table:
    """The table of `isometer compare`, one column per activation.

    Example:
        >>> from isometer.report import comparison_table
        >>> from isometer.theory import explain
        >>> comparison_table([explain("relu"), explain("tanh")]).row_count > 10
        True
    """
    table = Table(
        title="Activations side by side", title_justify="left", header_style="bold", box=SIMPLE, padding=(0, 1)
    )
    table.add_column("", no_wrap=True)
    for card in cards:
        table.add_column(Text(card.activation.name), justify="right", overflow="fold")
    rows: list[tuple[str, list[str]]] = [
        ("mean E φ", [number(c.activation.mean) for c in cards]),
        ("moment E φ²", [number(c.activation.second_moment) for c in cards]),
        ("forward gain", [number(c.activation.gain_forward) for c in cards]),
        ("backward gain", [number(c.activation.gain_backward) for c in cards]),
        ("non-linearity", [number(c.activation.nonlinearity) for c in cards]),
        ("κ(0)", [number(c.kernel.at_zero) for c in cards]),
        ("κ′(0)", [number(c.kernel.slope_at_zero) for c in cards]),
        ("κ′(1)", [number(c.kernel.slope_at_one) for c in cards]),
        ("case", [str(c.kernel.case or "linear") for c in cards]),
        ("cosines", [FATES[c.kernel.case] for c in cards]),
        ("attracting ρ*", [number(c.approach.fixed_point) for c in cards]),
        ("κ′(ρ*)", [number(c.kernel.slope_at_fixed_point) for c in cards]),
        ("rate per layer", [_rate(c.approach) for c in cards]),
        ("depth scale", [number(c.approach.depth_scale, 4) for c in cards]),
    ]
    for i in range(len(cards[0].outlook)):
        layers = cards[0].outlook[i].depth
        rows.append((f"cos, {layers} layers", [number(c.outlook[i].cosine_of_orthogonal, 4) for c in cards]))
        rows.append((f"grad, {layers} layers", [power_of_ten(c.outlook[i].log10_gradient_factor) for c in cards]))
    for label, values in rows:
        table.add_row(Text(label, style="dim"), *values)
    return table


def registry_rows() -> list[dict[str, object]]:
    """One row per built-in activation, for the table and the JSON of `isometer activations`.

    Example:
        >>> from isometer.report._cards import registry_rows
        >>> next(row for row in registry_rows() if row["name"] == "relu")["gain_forward"]
        1.4142135623730951
    """
    rows: list[dict[str, object]] = []
    for entry in ENTRIES.values():
        phi = activation(entry.name)
        kernel = KernelMap(phi)
        rows.append(
            {
                "name": entry.name,
                "formula": entry.formula,
                "parameters": list(entry.defaults),
                "aliases": list(entry.aliases),
                "kinks": list(phi.kinks),
                "mean": phi.mean,
                "second_moment": phi.second_moment,
                "gain_forward": phi.gain_forward,
                "nonlinearity": phi.nonlinearity,
                "case": kernel.case,
            }
        )
    return rows


def print_registry(console: Console, rows: Sequence[dict[str, object]]) -> None:
    """The table of `isometer activations`."""
    table = Table(
        title=f"{len(rows)} built-in activations", title_justify="left", header_style="bold", box=SIMPLE, padding=(0, 1)
    )
    table.add_column("name", no_wrap=True)
    table.add_column("formula", overflow="fold")
    for column in ("E φ", "E φ²", "gain"):
        table.add_column(column, justify="right", no_wrap=True)
    table.add_column("cosines", no_wrap=True)
    for row in rows:
        label = str(row["name"])
        parameters = row["parameters"]
        if isinstance(parameters, list) and parameters:
            label += "(" + ", ".join(number(p) for p in parameters) + ")"
        values = [number(float(str(row[key])), 4) for key in ("mean", "second_moment", "gain_forward")]
        case = row["case"]
        fate = FATES[case if isinstance(case, int) else None]
        table.add_row(Text(label, style="bold"), str(row["formula"]), *values, fate)
    console.print(table)
    console.print(
        "Write them as they are or inside the algebra: [bold]normalized(relu)[/], [bold]centered(gelu)[/], "
        "[bold]unit(relu)[/], [bold]gain(tanh, 0.5)[/], [bold]leaky_relu(0.1)[/] — or as an expression in x: "
        "[bold]'x * tanh(softplus(x))'[/]."
    )
