"""Corrections as Python code: parameter groups, initial weights and the multiplier of residual branches."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from isometer.doctor.scaling._rules import ADAPTIVE, parametrisation
from isometer.doctor.scaling._sizes import Size
from isometer.doctor.scaling._verdicts import Correction, Opinion

Names = Mapping[tuple[str, bool, str], Sequence[str]]


def code_of(found: Opinion, base: Size, names: Names, kind: str) -> str:
    """The lines to put into one's own code; empty if there is nothing to change.

    Args:
        found: what is to change.
        base: the size at which rates were tuned.
        names: of the parameters in the largest model, by group, whether they repeat, and label.
        kind: kind of optimizer.

    Example:
        >>> change = Correction("hidden", True, ("blocks.*.weight",), rate_width=-1.0)
        >>> text = code_of(Opinion("mup", (), (change,)), Size(64, None), {}, "adaptive")
        >>> 'wide**-1' in text, r"blocks\\.\\d+\\.weight" in text
        (True, True)
    """
    if not found.changes:
        return ""
    rules = parametrisation(found.aim)
    sizes = [("width", base.width), ("depth", base.depth)]
    arguments = ", ".join(name for name, value in sizes if value is not None)
    lines = [f"# {rules.name}: {rules.reference}", "import re", "", "import torch", ""]
    lines += [
        f"BASE_{name.upper()} = {value}  # where you tune the learning rate"
        for name, value in sizes
        if value is not None
    ]
    lines += ["", ""]
    rates = {key: _power(one.rate_width, one.rate_depth) for one in found.corrections for key in _keys(one, names)}
    inits = {key: _power(one.init_width, 0.0) for one in found.corrections for key in _keys(one, names)}
    about = "Factors of the learning rate, by names of parameters."
    lines += _function("learning_rates", arguments, base, rates, about)
    lines += _function("initial_scales", arguments, base, inits, "Factors of the initial weights.")
    if found.branch_depth:
        lines += [
            "def branch_multiplier(depth):",
            '    """In each residual block: h + branch_multiplier(depth) * branch(h)."""',
            f"    return (depth / BASE_DEPTH) ** {found.branch_depth:g}",
            "",
            "",
        ]
    if found.output_width:
        lines += [
            "def output_multiplier(width):",
            '    """At the end of the model: output_multiplier(width) * output."""',
            f"    return (width / BASE_WIDTH) ** {found.output_width:g}",
            "",
            "",
        ]
    return "\n".join([*lines, *_tail(arguments, kind)])


def _keys(one: Correction, names: Names) -> list[str]:
    """Regular expressions of the names; whole names where a pattern would also match other groups."""
    found = []
    for label in one.labels:
        groups = {(group, repeated) for group, repeated, other in names if other == label}
        if len(groups) > 1:
            found += [re.escape(name) for name in names[one.group, one.repeated, label]]
        else:
            found.append(re.escape(label).replace(r"\*", r"\d+"))
    return found


def _power(width: float, depth: float) -> str:
    parts = [f"{name}**{power:g}" for name, power in (("wide", width), ("deep", depth)) if power]
    return " * ".join(parts)


def _function(name: str, arguments: str, base: Size, factors: Mapping[str, str], words: str) -> list[str]:
    kept = {key: factor for key, factor in factors.items() if factor}
    used = " ".join(kept.values())
    lines = [f"def {name}({arguments}):", f'    """{words}"""']
    lines += ["    wide = width / BASE_WIDTH"] if base.width is not None and "wide" in used else []
    lines += ["    deep = depth / BASE_DEPTH"] if base.depth is not None and "deep" in used else []
    if not kept:
        return [*lines, "    return {}", "", ""]
    return [*lines, "    return {", *(f'        r"{key}": {factor},' for key, factor in kept.items()), "    }", "", ""]


def _tail(arguments: str, kind: str) -> list[str]:
    settings = ", weight_decay=0.0" if kind == ADAPTIVE else ""
    lines = [
        "def factor(table, name):",
        "    found = [table[key] for key in table if re.fullmatch(key, name)]",
        "    return found[0] if found else 1.0",
        "",
        "",
        f"def scaled_groups(model, {arguments}, lr{settings}):",
        '    """Parameter groups for your optimizer. Scales initial weights: call it once."""',
        f"    rates = learning_rates({arguments})",
        f"    scales = initial_scales({arguments})",
        "    groups = []",
        "    for name, parameter in model.named_parameters():",
        "        with torch.no_grad():",
        "            parameter.mul_(factor(scales, name))",
        "        rate = factor(rates, name)",
        '        group = {"params": [parameter], "lr": lr * rate}',
    ]
    if kind == ADAPTIVE:
        lines.append('        group["weight_decay"] = weight_decay / rate  # lr * decay stays')
    return [*lines, "        groups.append(group)", "    return groups", ""]
