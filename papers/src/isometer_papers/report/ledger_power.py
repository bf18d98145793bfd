"""What the statistical checks that found no violation would have seen: a table."""

from __future__ import annotations

from collections.abc import Iterable

from isometer_papers.claims import Statement

__all__ = ["power_markdown"]

_WORDS = {"==": "equality", "<": "bound", "<=": "bound", ">": "bound", ">=": "bound"}


def power_markdown(statements: Iterable[Statement]) -> str:
    """Statistical checks whose verdict is `holds`, with resolution, power and the alternative that they exclude.

    Args:
        statements: of which those are taken.

    Returns:
        A Markdown table.

    Example:
        >>> print(power_markdown([]))
        | statement | what is tested | resolution | sees | power | excludes |
        |---|---|---|---|---|---|
    """
    lines = ["| statement | what is tested | resolution | sees | power | excludes |", "|---|---|---|---|---|---|"]
    lines += [_line(row) for row in statements if row.verdict == "holds" and row.power is not None]
    return "\n".join(lines)


def _line(row: Statement) -> str:
    assert row.power is not None
    sign = row.relation != "==" and all(bound == 0 for _, _, bound in row.points)
    sees = "–" if row.sees is None else f"{row.sees:.2g}"
    told = [f"`{row.id}`", "sign" if sign else _WORDS[row.relation], f"{row.resolution:g}", sees]
    told += [f"{min(row.power, 0.9999):.4f}{'…' if row.power > 0.9999 else ''}", row.excludes]
    return "| " + " | ".join(cell.replace("|", "\\|") for cell in told) + " |"
