"""The doctor's report on a terminal: the verdict, what a step does, findings and what to change, the layers."""

from __future__ import annotations

import io
import math
from collections.abc import Mapping, Sequence
from typing import Any

from rich.console import Console
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from isometer.metrics._catalogue import added
from isometer.metrics._metric import GAIN_RATIO
from isometer.report._advice import ranked_advice
from isometer.report._cause_words import CauseWords, also_helps, cause_words, together, unexplained
from isometer.report._doctor_fragments import compared, setting, verdict
from isometer.report._doctor_metrics import (
    checked,
    columns,
    concerns_tokens,
    elided,
    evidence_rows,
    layer_names,
    ordered,
    printable,
    where,
)
from isometer.report._kernel_page import kernel_rows
from isometer.report._numbers import number
from isometer.report._outlook_words import (
    after_words,
    because,
    has_verdicts,
    headline,
    next_step,
    note_words,
    outlook_table,
    remarks,
    run_notes,
    step_words,
    symptoms,
    trained,
)
from isometer.report._prediction_words import prediction_words
from isometer.report._similarity_words import similarity_words
from isometer.report._treatment import print_treatment, printable_lines

_STYLES = {"severe": "bold red", "moderate": "bold yellow"}
_STATES = {"healthy": "bold green", "unhealthy": "bold red", "undecided": "bold yellow", "untested": "bold"}
_VERDICTS = {"trains": "green", "slow": "yellow", "sick": "red", "unknown": "yellow"}
_KEY_NUMBERS = 4
_ADVICE = 3
_TOKENS = "token_mean_abs_cosine"  # shown where a finding is about tokens
_COLUMNS = (
    ("rms", "rms"),
    ("mean_abs_cosine", "|cos|"),
    (_TOKENS, "tokens"),
    ("effective_rank", "rank"),
    ("gradient_log_norm", "grad"),
    (GAIN_RATIO, "gain"),
)
_DECIMALS = {"mean_abs_cosine": 3, _TOKENS: 3, "effective_rank": 1, "gradient_log_norm": 2, GAIN_RATIO: 2}
_NOTES = {
    _TOKENS: "tokens: |cos| of tokens",
    "gradient_log_norm": "grad: log₁₀ ‖∂loss/∂W‖",
    GAIN_RATIO: "gain: relative to the principled gain",
}


def print_report(console: Console, report: Mapping[str, Any], *, layers: int | None = 24) -> None:
    """Print a doctor's report: the verdict and what to do first, then the layers.

    Args:
        console: where to print.
        report: the dictionary of a doctor's report, schema 1.
        layers: rows of the table at most, the first and the last ones; `None` for all, 0 for no table.

    Raises:
        IsometerError: if the report is of another schema or its metrics do not fit its layers.

    Example:
        >>> import io
        >>> from rich.console import Console
        >>> page = io.StringIO()
        >>> print_report(Console(width=80, file=page), {"schema": 1, "model": "tiny", "mode": "eval", "healthy": True,
        ...     "summary": "Fine.", "batch": {"samples": 2, "description": ""}, "findings": [], "layers": [],
        ...     "metrics": {}, "comparison": None})
        >>> print(page.getvalue().splitlines()[0])
        No stress test · tiny · nothing found
    """
    checked(report)
    _print_verdict(console, report)
    _print_causes(console, report)
    _print_steps(console, report)
    findings = ordered(report["findings"])
    names = layer_names(report)
    if findings and has_verdicts(report):
        console.print(Text(f"\n{symptoms(report)}", style="bold"))
        _print_dim(console, [report.get("reliability", "")])
    for index, finding in enumerate(findings, start=1):
        _print_finding(console, index, finding, names)
    _print_advice(console, report)
    harmless = note_words(report)
    if harmless:
        console.print(Text("\nNoted, harmless here: the model trains", style="dim"))
        _print_dim(console, [*harmless, similarity_words(report)])
    _print_kernel(console, report.get("kernel"))
    _print_comparison(console, report.get("comparison"))
    print_treatment(console, report.get("treatment"))
    table, flagged = report, findings
    if report.get("treated"):
        table, flagged = {**report, **report["treated"]}, ordered(report["treated"]["findings"])
        console.print(Text("\nThe layers of the treated model", style="bold"))
    if table["layers"] and layers != 0:
        _print_layers(console, table, flagged, layers)
    predicted = prediction_words(report)
    if predicted:
        console.print(Text("\nTheory and measurement", style="dim"))
        _print_dim(console, predicted)
    notes = run_notes(report)
    if notes:
        console.print(Text("\nWhat was run", style="dim"))
        _print_dim(console, notes)


def report_screen(report: Mapping[str, Any], *, lines: int = 22) -> str:
    """What `repr` says of a report: verdict, causes and the names of findings, at most a screen of 80 columns.

    Example:
        >>> print(report_screen({"schema": 1, "model": "tiny", "mode": "eval", "healthy": True, "summary": "Fine.",
        ...     "batch": {"samples": 2, "description": ""}, "findings": [], "layers": [], "metrics": {}}))
        No stress test · tiny · nothing found
          Fine.
          eval mode · 2 samples · 0 layers · depth 0
          → The stress test says whether it trains.
          more: report.plot(), report.findings, report.to_html("report.html")
    """
    checked(report)
    page = io.StringIO()
    console = Console(file=page, width=80, force_terminal=False, color_system=None)
    _print_verdict(console, report)
    _print_causes(console, report)
    findings = ordered(report["findings"])
    for index, finding in enumerate(findings, start=1):
        console.print(Text(f"  {index} {finding['severity']}: {printable(finding['id'])} · {where(finding['layers'])}"))
    written = [line.rstrip() for line in page.getvalue().splitlines() if line.strip()]
    kept = written if len(written) < lines else [*written[: lines - 2], f"  … {len(written) - lines + 2} lines more"]
    return "\n".join([*kept, '  more: report.plot(), report.findings, report.to_html("report.html")'])


def _print_verdict(console: Console, report: Mapping[str, Any]) -> None:
    """What a person reads first: the headline, the optimizers, what to do next."""
    told = headline(report)
    head = Text(printable(f"{told.mark} {told.word}".strip()), style=_STATES[told.state])
    head.append(f" · {printable(report['model'])} · {verdict(report)}", style="default not bold")
    console.print(head)
    console.print(Padding(Text(printable(report["summary"]), style="bold"), (0, 0, 0, 2)))
    if not report.get("causes") and because(report):  # the summary names causes
        console.print(Padding(Text(printable(because(report))), (0, 0, 0, 2)))
    _print_dim(console, [setting(report), "" if has_verdicts(report) else report.get("reliability", "")])
    if trained(report):
        _print_outlooks(console, report)
    for line in remarks(report):
        console.print(Padding(Text(printable(line)), (0, 0, 0, 2)))
    advice = next_step(report)
    if advice:
        console.print(Padding(Text.assemble(("→ ", "bold green"), printable(advice)), (0, 0, 0, 2)))


def _print_dim(console: Console, lines: Sequence[Any]) -> None:
    for line in lines:
        if line:
            console.print(Padding(Text(printable(line), style="dim"), (0, 0, 0, 2)))


def _print_outlooks(console: Console, report: Mapping[str, Any]) -> None:
    found = outlook_table(report)
    wide = sum(max(map(len, column)) + 2 for column in zip(found.headings, *found.rows, strict=True))
    narrow = wide > console.width
    table = Table(box=None, padding=(0, 1 if narrow else 2, 0, 0), pad_edge=False)
    for title in found.headings:
        table.add_column(Text(title, style="bold"))
    for row, one in zip(found.rows, found.verdicts, strict=True):
        # A percentage stays in one piece where a cell has to break.
        texts = [Text(printable(cell).replace(" (", "\n(" if narrow else " (")) for cell in row]
        texts[1].stylize(_VERDICTS[one])
        table.add_row(*texts)
    console.print(Padding(table, (1, 0, 0, 2)))
    _print_dim(console, [" ".join(found.legend)])
    console.print()


def _print_causes(console: Console, report: Mapping[str, Any]) -> None:
    causes, helping, rest = cause_words(report), also_helps(report), unexplained(report)
    if not (causes or helping or rest):
        return
    console.print(Text("\nCauses", style="bold"))
    for index, one in enumerate(causes, start=1):
        _print_cause(console, f"{index} ", one, "bold red")
    for one in helping:
        _print_cause(console, "also helps: " if causes else "helps: ", one, "bold")
    if together(report):
        console.print(Padding(Text(printable(together(report))), (0, 0, 0, 2)))
    if rest:
        console.print(Padding(Text.assemble(("unexplained: ", "bold"), printable(rest)), (0, 0, 0, 2)))


def _print_cause(console: Console, lead: str, one: CauseWords, style: str) -> None:
    head = Text.assemble((lead, style), printable(one.what))
    if one.where:
        head.append(f" · {printable(one.where)}", style="cyan")
    console.print(Padding(head, (0, 0, 0, 2)))
    advice = Text.assemble(("→ ", "bold green"), printable(one.repair))
    if one.effect:
        advice.append(f" ({printable(one.effect)})", style="green")
    console.print(Padding(advice, (0, 0, 0, 4)))


def _print_steps(console: Console, report: Mapping[str, Any]) -> None:
    steps, after = step_words(report), after_words(report)
    if steps or after:
        console.print(Text("\nWhat a step does", style="bold"))
    for title, lines in steps:
        for index, line in enumerate(lines):
            told = Text(printable(line))
            if index == 0:
                told = Text.assemble((f"{printable(title)}: ", "cyan"), told)
            console.print(Padding(told, (0, 0, 0, 2 if index == 0 else 4)))
    if after:
        console.print(Padding(Text(printable(after)), (0, 0, 0, 2)))


def _print_finding(console: Console, index: int, finding: Mapping[str, Any], names: Sequence[str]) -> None:
    style = _STYLES.get(finding["severity"], "bold")
    head = Text(f"\n{index} {printable(finding['severity']).upper()} ", style=style)
    head.append(printable(finding["id"]), style=style)
    head.append(f" · {where(finding['layers'])}", style="default not bold")
    known = [names[layer] for layer in finding["layers"] if 0 <= layer < len(names)]
    if known:
        ends = known if len(known) <= 2 else [known[0], known[-1]]
        joint = ", " if len(known) <= 2 else " … "
        head.append(f" · {joint.join(elided(name, 28) for name in ends)}", style="cyan not bold")
    console.print(head)
    rows = evidence_rows(finding["evidence"])
    if rows:
        line = Text()
        for i, (label, value) in enumerate(rows[:_KEY_NUMBERS]):
            line.append(("" if i == 0 else " · ") + f"{printable(label)} ", style="dim")
            line.append(printable(value))
        console.print(Padding(line, (0, 0, 0, 2)))
    console.print(Padding(Text(printable(finding["explanation"])), (0, 0, 0, 2)))


def _print_advice(console: Console, report: Mapping[str, Any]) -> None:
    """The most promising changes over all findings, with the lines of the first."""
    every = [] if report.get("treatment") else ranked_advice(report)
    if not every:
        return
    console.print(Text("\nWhat to change, most promising first", style="bold"))
    for index, one in enumerate(every[:_ADVICE], start=1):
        lead = Text.assemble((f"{index}. ", "bold green"), printable(one.text))
        lead.append(f" ({printable(', '.join(one.findings))})", style="dim")
        console.print(Padding(lead, (0, 0, 0, 2)))
        if index == 1 and one.code:
            console.print(Padding(Text(printable_lines(one.code), style="cyan"), (0, 0, 0, 6)))
    if len(every) > _ADVICE:
        _print_dim(console, [f"{len(every) - _ADVICE} more in the page that --html writes"])


def _print_kernel(console: Console, kernel: Mapping[str, Any] | None) -> None:
    if kernel is None:
        return
    console.print(Text("\nTangent kernel of the batch", style="bold"))
    if "skipped" in kernel:
        _print_dim(console, [f"not calculated: {kernel['skipped']}"])
        return
    for name, value in kernel_rows(kernel):
        console.print(Text.assemble((f"  {name}: ", "dim"), value))


def _print_comparison(console: Console, comparison: Mapping[str, Any] | None) -> None:
    if comparison is None:
        return
    console.print(Text(f"\nAgainst {printable(comparison['baseline'])}", style="bold"))
    changed = False
    for key, mark, style in (("worse", "▼", "red"), ("better", "▲", "green")):
        for line in comparison[key]:
            changed = True
            console.print(Padding(Text(f"{mark} {key}: {printable(line)}", style=style), (0, 0, 0, 2)))
    for quantity, before, after in compared(comparison):
        console.print(Padding(Text(printable(f"{quantity}: {before} → {after}")), (0, 0, 0, 2)))
    same = len(comparison["unchanged"])
    if same or not changed:
        console.print(Padding(Text(f"= {same} unchanged" if same else "= no change", style="dim"), (0, 0, 0, 2)))


def _print_layers(
    console: Console, report: Mapping[str, Any], findings: Sequence[Mapping[str, Any]], limit: int | None
) -> None:
    """First and last layers; names take the room that numbers leave."""
    rows, names, values = report["layers"], layer_names(report), columns(report)
    tokens = any(concerns_tokens(finding) for finding in findings)
    every = (*_COLUMNS, *((one.name, one.heading) for one in added()))
    shown = [(name, title) for name, title in every if name in values and (tokens or name != _TOKENS)]
    titles = ["layer", "op", "depth", *(title for _, title in shown), *(["flags"] if findings else [])]
    flags = _flags(findings)
    kept, left_out = _ends(len(rows), limit)
    lines = []
    for at in kept:
        cells = [str(at), elided(rows[at]["op"], 9), str(rows[at]["depth"])]
        cells += [_cell(name, values[name][at]) for name, _ in shown]
        lines.append([*cells, *([" ".join(map(str, flags.get(at, [])))] if findings else [])])
    taken = sum(max(len(cell) for cell in column) for column in zip(titles, *lines, strict=True))
    longest = min(48, max(len(names[at]) for at in kept))
    gap = 2 if taken + longest + 2 * (len(titles) + 1) <= console.width else 1
    room = max(8, min(longest, console.width - taken - gap * (len(titles) + 1)))
    table = Table(box=None, padding=(0, gap, 0, 0), header_style="bold underline", pad_edge=False)
    for title in (titles[0], "name", *titles[1:]):
        table.add_column(title, justify="left" if title in ("name", "op", "flags") else "right", no_wrap=True)
    for at, (layer, *cells) in zip(kept, lines, strict=True):
        style = _worst(findings, flags.get(at, []))
        table.add_row(Text(layer, style=style), Text(elided(names[at], room)), *map(Text, cells))
        if left_out and at == kept[(len(kept) - 1) // 2]:
            table.add_row("…", f"{left_out} more", style="dim")
    console.print(Padding(table, (1, 0, 0, 0)))
    notes = [_NOTES[name] for name, _ in shown if name in _NOTES]
    if findings:
        notes.append("flags: numbers of findings")
    if notes:
        console.print(Text("; ".join(notes), style="dim"))
    if left_out:
        console.print(Text(f"… {left_out} more layers: --layers {len(rows)} shows all", style="dim"))


def _ends(count: int, limit: int | None) -> tuple[list[int], int]:
    """The first and the last layers, and how many lie between."""
    keep = count if limit is None else max(1, min(limit, count))
    head = math.ceil(keep / 2)
    return [*range(head), *range(count - keep + head, count)], count - keep


def _cell(name: str, value: float) -> str:
    if math.isnan(value):
        return "–"
    digits = _DECIMALS.get(name)
    if digits is None or math.isinf(value):
        return number(value, 3)
    return f"{value:.{digits}f}".replace("-", "−")


def _flags(findings: Sequence[Mapping[str, Any]]) -> dict[int, list[int]]:
    flags: dict[int, list[int]] = {}
    for index, finding in enumerate(findings, start=1):
        for layer in set(finding["layers"]):
            flags.setdefault(int(layer), []).append(index)
    return flags


def _worst(findings: Sequence[Mapping[str, Any]], flags: Sequence[int]) -> str:
    return _STYLES.get(findings[flags[0] - 1]["severity"], "") if flags else ""
