"""The generated parts of docs/trial.md, from the records in docs/trial and in the folders of later rounds."""

from __future__ import annotations

import json
import math
from collections import Counter
from collections.abc import Mapping, Sequence
from functools import cache, cached_property
from pathlib import Path
from typing import Any

from isometer.trial._causes_table import EITHER, NamingRow, accused, naming_rows
from isometer.trial._doubtful import doubtful, worth_treating
from isometer.trial._faults import FAULTS, SIZES
from isometer.trial._members import Member
from isometer.trial._records import (
    MEMBERS,
    OPTIMIZERS,
    causes,
    checks,
    read_members,
    sibling_name,
    stresses,
    treated,
    truths,
)
from isometer.trial._roster import families
from isometer.trial._rounds import ROUNDS
from isometer.trial._seal import development, fitted_to, openings
from isometer.trial._table import DOCTOR, FINDINGS, distinct, fitted_verdict, summary, verdicts
from isometer.trial._treated_table import treatment_rows
from isometer.trial._truth import compare
from isometer.trial._verdict_table import VerdictCounts, verdict_counts

ROOT = Path(__file__).parents[1]
FOLDER, COSTS = ROOT / "docs" / "trial", ROOT / "benchmarks" / "results" / "doctor.json"
ORDINALS = {1: "first", 2: "second", 3: "third", 4: "fourth", 5: "fifth"}
LATER = tuple(number for number in ROUNDS if number > 1)
"""The rounds whose families are all sealed."""
FITTED = 3
"""The last round to which the doctor's numbers are fitted; the next one judges them."""
UNDRAWN = "The models have not been drawn yet."
VERDICTS = ("trains", "slow", "sick", "unknown")


def folder_of(number: int) -> Path:
    """Where the records of a round are; it need not exist yet."""
    return FOLDER if number == 1 else FOLDER.with_name(f"{FOLDER.name}-{number}")


@cache
def _members(folder: Path = FOLDER) -> tuple[Member, ...]:
    """The models of a trial, none before they are drawn."""
    return tuple(read_members(folder)) if (folder / MEMBERS).exists() else ()


class Half:
    """The models of a trial that are sealed, or those that are not."""

    def __init__(self, folder: Path, *, sealed: bool) -> None:
        self.folder = folder
        everyone = _members(folder)
        self.members = [one for one in everyone if one.sealed] if sealed else development(everyone)

    @cached_property
    def summary(self) -> dict[str, Any]:
        return summary(self.folder, self.members)

    @cached_property
    def verdicts(self) -> list[VerdictCounts]:
        return verdict_counts(self.folder, self.members)

    @cached_property
    def naming(self) -> list[NamingRow]:
        return naming_rows(accused(self.folder, self.members))

    @cached_property
    def told(self) -> bool:
        """Whether the seal was opened and there are verdicts about all but the large models."""
        known = stresses(self.folder, self._small, ["fresh"]).records() if openings(self.folder) else {}
        return bool(known) and all(f"{one.name} fresh" in known for one in self._small)

    @cached_property
    def explained(self) -> bool:
        """Whether there are causes and treatments, too."""
        doubted, worth = doubtful(self.folder, self._small), worth_treating(self.folder, self._small)
        stages = causes(self.folder, self._small, doubted), treated(self.folder, self._small, worth)
        return self.told and all(len(stage.records()) == len(stage.cells) for stage in stages)

    @property
    def _small(self) -> list[Member]:
        return [one for one in self.members if not one.large]


@cache
def open_half() -> Half:
    return Half(FOLDER, sealed=False)


@cache
def sealed_half() -> Half:
    return Half(FOLDER, sealed=True)


@cache
def later_round(number: int) -> Half:
    return Half(folder_of(number), sealed=True)


def draw_part(number: int) -> str:
    """How many models of a round there are, of what."""
    folder = folder_of(number)
    members = _members(folder)
    if not members:
        return UNDRAWN
    sentences, free = [_counted(members)], development(members)
    large = sum(member.large for member in members)
    if large:
        sentences.append(f"{large} are large.")
    if free:
        known = truths(folder, members)
        sentences += [
            f"{len(free)} models of {len({m.family for m in free})} families are in the development half.",
            f"{len(known.records())} of {len(known.cells)} training cells are done.",
        ]
    else:
        own = sum(member.fault in families()[member.family].structural for member in members)
        sentences.append(f"{own} of the faults are of the family itself.")
    return " ".join([*sentences, _by_task(members)])


def _counted(members: Sequence[Member]) -> str:
    sound = sum(member.fault is None for member in members)
    faults = len({member.fault for member in members} - {None})
    copies = len(members) - len(distinct(members))
    return (
        f"{len(members)} models of {len({m.family for m in members})} families were drawn, {sound} of them without a "
        f"fault, the others with {faults} kinds of fault. {copies} are the same model once more and do not count."
    )


def _by_task(members: Sequence[Member]) -> str:
    counts = sorted(Counter(member.sound.task for member in members).items())
    return f"Models by task: {', '.join(f'{name} {count}' for name, count in counts)}."


def truth_part(half: Half) -> str:
    """Verdicts of training, and how sure they are."""
    if not half.members:
        return UNDRAWN
    known = truths(half.folder, half.members)
    done, cells = len(known.records()), len(known.cells)
    if not done:
        return "No model has been trained yet."
    found = verdicts(half.folder, distinct(half.members))
    rows = ["| optimizer | " + " | ".join(VERDICTS) + " | median width of the 90 % interval | best rate inside |"]
    rows.append("|---" * (len(VERDICTS) + 3) + "|")
    for optimizer, by_name in found.items():
        counts = Counter(one.verdict for one in by_name.values())
        widths = sorted(one.high - one.low for one in by_name.values() if math.isfinite(one.high))
        inside = sum(one.inside for one in by_name.values())
        middle = f"{widths[len(widths) // 2]:.2f}" if widths else "—"
        numbers = " | ".join(str(counts[name]) for name in VERDICTS)
        rows.append(f"| {optimizer} | {numbers} | {middle} | {inside} of {len(by_name)} |")
    if done < cells:
        rows += ["", f"So far, {done} of {cells} training cells are done."]
    return "\n".join(rows)


def check_part() -> str:
    """What ten times as many steps say about the truth of forty models of both halves."""
    members = _members()
    stage = checks(FOLDER, members)
    longer, short = stage.records(), truths(FOLDER, members).records()
    table: Counter[tuple[str, str]] = Counter()
    for member in members:
        for optimizer in OPTIMIZERS:
            names = [f"{name} {optimizer}" for name in (member.name, sibling_name(member))]
            if all(name in longer and name in short for name in names):
                before = compare(short[names[0]], short[names[1]])
                after = compare(longer[names[0]], longer[names[1]])
                table[before.verdict, after.verdict] += 1
    if not table:
        return "The check with ten times as many steps has not been run yet."
    rows = ["| after 160 steps | " + " | ".join(f"{name} after 1600" for name in VERDICTS) + " |"]
    rows.append("|---" * (len(VERDICTS) + 1) + "|")
    for before in VERDICTS:
        rows.append(f"| {before} | " + " | ".join(str(table[before, after]) for after in VERDICTS) + " |")
    crossed = table["sick", "trains"] + table["trains", "sick"]
    clear = sum(table[before, after] for before in ("sick", "trains") for after in VERDICTS)
    rows.append("")
    rows.append(f"{crossed} of {clear} clear verdicts turn into the opposite.")
    return "\n".join(rows)


def table_part(half: Half) -> str:
    """The table of today's rules and of the baselines."""
    found = half.summary
    lines = []
    for optimizer in OPTIMIZERS:
        rows = sorted((row for row in found["rows"] if row["optimizer"] == optimizer), key=lambda row: -row["auc"])
        if not rows:
            continue
        sick, well = max(row["models"] for row in rows)
        lines += [f"**{optimizer}**, {sick} sick models and {well} that train:", ""]
        lines += [
            "| opinion | area under the curve | 95 % | difference to the doctor | 95 % |",
            "|---|---|---|---|---|",
        ]
        for row in rows:
            difference = "" if math.isnan(row["difference"]) else f"{row['difference']:+.2f}"
            ends = (
                ""
                if math.isnan(row["difference"])
                else f"{row['difference_low']:+.2f} to {row['difference_high']:+.2f}"
            )
            interval = f"{row['low']:.2f} to {row['high']:.2f}"
            fewer = "" if tuple(row["models"]) == (sick, well) else f" ({sum(row['models'])} models)"
            lines.append(f"| {row['opinion']}{fewer} | {row['auc']:.2f} | {interval} | {difference} | {ends} |")
        lines.append("")
    lines += verdict_lines(half)
    for one in found["findings"]:
        (caught, sick), (alarms, well) = one["found"], one["alarms"]
        if not sick or not well:
            continue
        lines.append(
            f"- {one['optimizer']}, {one['batch']} batches: severe findings in {caught} of {sick} sick models "
            f"({caught / sick:.0%}) and in {alarms} of {well} that train ({alarms / well:.0%})."
        )
    return "\n".join(lines).rstrip()


NAMES = {"adam": "Adam", "sgd": "SGD"}
BATCHES = {"fresh": "stress test", "one": "stress test on one batch", "gaussian": "stress test without targets"}


def _said(counts: Mapping[str, int], total: int) -> str:
    """`9 *sick* (90%), 1 *unknown* (10%)`, the most frequent first."""
    order = sorted(counts, key=lambda name: -counts[name])
    return ", ".join(f"{counts[name]} *{name}* ({counts[name] / total:.0%})" for name in order)


def verdict_lines(half: Half) -> list[str]:
    """What the verdicts say about models with a clear truth."""
    lines = []
    for one in half.verdicts:
        sick, well = one.found.of, one.alarms.of
        if sick and well:
            ill, fine = _said(one.sick, sick), _said(one.trains, well)
            who = f"{one.optimizer}, {BATCHES[one.batch]}"
            lines.append(f"- {who}: of {sick} sick models it calls {ill}; of {well} that train, {fine}.")
        if sick and well and one.batch == "fresh":
            lines += [
                f"  - found {one.found}, false alarms {one.alarms};",
                f"  - of architectures of `transformers` that train, {one.library} are called sick, of those without a "
                f"fault {one.library_sound};",
                f"  - missed: {', '.join(one.missed) or 'none'}; false alarms: {', '.join(one.alarmed) or 'none'}.",
            ]
    return lines


def causes_part(half: Half) -> str:
    """How often the guilty part is named."""
    rows = half.naming
    if not rows:
        return "Nothing yet."
    either = [row for row in rows if row.optimizer == EITHER]
    lines = ["Models that are sick with one of the optimizers, by what is guilty:", ""]
    lines += ["| guilty | named first | among the first two |", "|---|---|---|"]
    lines += [f"| {row.part} | {row.first} | {row.first_two} |" for row in either]
    missed = [one for row in either for one in row.missed]
    if missed:
        lines += ["", "Not named: " + "; ".join(missed) + "."]
    return "\n".join(lines)


def treated_part(half: Half) -> str:
    """What treatment is worth."""
    rows = treatment_rows(half.folder, half.members)
    if not any(row.cured.of or row.worse.of for row in rows):
        return "Nothing yet."
    lines = []
    for row in rows:
        lines.append(
            f"- {row.optimizer}: of the treatable sick models {row.cured} are cured; something was changed in "
            f"{row.repaired}. Of those that train and that the doctor does not trust, something was changed in "
            f"{row.changed}, and {row.worse} are worse."
        )
        if row.not_cured:
            lines.append(f"  - not cured: {'; '.join(row.not_cured)}.")
        if row.harmed:
            lines.append(f"  - worse: {'; '.join(row.harmed)}.")
    return "\n".join(lines)


def cost_part() -> str:
    """What a diagnosis costs, from the benchmark."""
    found = json.loads(COSTS.read_text(encoding="utf-8"))
    rows = ["| model | findings | passes | processor time, in forward and backward passes |", "|---|---|---|---|"]
    for name, one in found.items():
        if isinstance(one, dict) and "passes" in one:
            rows.append(
                f"| {name} | {one['findings']} | {one['passes']:.1f} | {one['time_ratio_without_prediction']:.1f} |"
            )
    return "\n".join(rows)


def doctor_parts() -> dict[str, str]:
    """The parts of the doctor's page by name."""
    return {
        "trial fit": fit_part(),
        "trial verdicts": "\n".join(verdict_lines(open_half())) or "Nothing yet.",
        "doctor cost": cost_part(),
    }


def fit_part() -> str:
    """The fitted numbers and their reliability curve."""
    lines = []
    for kind, one in fitted().items():
        sick, well = one["cases"]
        weights = ", ".join(f"{value:g}" for value in one["weights"])
        lines += [
            f"**{kind}**: constant {one['constant']:g}, weights {weights}; fitted to {sick} sick cases and {well} that "
            f"train (a case is a model with one optimizer). Brier score {one['brier']:.3f}.",
            "",
            "| probability of training | cases | expected to train | train | 95 % |",
            "|---|---|---|---|---|",
        ]
        for row in one["reliability"]:
            low, high = row["interval"]
            lines.append(
                f"| {row['low']:.2f} to {row['high']:.2f} | {row['models']} | {row['expected']:.2f} | "
                f"{row['trains'] / row['models']:.2f} | {low:.2f} to {high:.2f} |"
            )
        lines.append("")
    return "\n".join(lines).rstrip() or "Nothing is fitted yet."


@cache
def fitted() -> dict[str, Any]:
    """What the doctor's verdict is made of."""
    opened = [folder_of(number) for number in ROUNDS if openings(folder_of(number)) and number <= FITTED]
    return fitted_verdict({folder: fitted_to(folder, _members(folder)) for folder in opened})


def families_part(number: int) -> str:
    """Every family of a round, its source, and its half unless all are sealed."""
    own = families(number).values()
    halves = any(not one.sealed for one in own)
    rows = [f"| family |{' half |' if halves else ''} source | faults of its own |", "|---" * (3 + halves) + "|"]
    for one in own:
        half = (" sealed |" if one.sealed else " development |") if halves else ""
        rows.append(f"| {one.name} |{half} {one.source} | {', '.join(sorted(one.structural))} |")
    return "\n".join(rows)


def faults_part() -> str:
    """Every fault that any family can have."""
    drawn = Counter(member.fault for member in _members())
    rows = ["| fault | group | what it is | models |", "|---|---|---|---|"]
    rows += [f"| {one.name} | {one.group} | {one.about} | {drawn[one.name]} |" for one in FAULTS.values()]
    rows += [f"| {name} | size | {about} | {drawn[name]} |" for name, about in SIZES.items()]
    own = sum(count for name, count in drawn.items() if name is not None and name not in FAULTS and name not in SIZES)
    rows.append(f"| faults of the family | structure | see the families | {own} |")
    return "\n".join(rows)


def seal_part(half: Half) -> str:
    """Every opening of the seal, and what was found."""
    if not half.members:
        return UNDRAWN
    found = openings(half.folder)
    if not found:
        return "The seal has not been opened."
    lines = [f"- {date}: {one['reason']} (rules {one['rules'][:12]})" for date, one in found.items()]
    if not half.told:
        return "\n".join([*lines, "", "What the doctor says about it is being computed."])
    parts = (table_part, *((causes_part, treated_part) if half.explained else ()))
    return "\n\n".join(["\n".join(lines), *(part(half) for part in parts)])


def trial_parts() -> dict[str, str]:
    """The parts by name."""
    return {
        "trial draw": draw_part(1),
        "trial truth": truth_part(open_half()),
        "trial check": check_part(),
        "trial table": table_part(open_half()),
        "trial causes": causes_part(open_half()),
        "trial treated": treated_part(open_half()),
        "trial families": families_part(1),
        "trial faults": faults_part(),
        "trial sealed truth": truth_part(sealed_half()),
        "trial seal": seal_part(sealed_half()),
        **{name: part for number in LATER for name, part in later_parts(number).items()},
    }


def later_parts(number: int) -> dict[str, str]:
    """The parts of a round all of whose families are sealed; before it has records, they say so."""
    ordinal, half = ORDINALS[number], later_round(number)
    return {
        f"trial {ordinal} draw": draw_part(number),
        f"trial {ordinal} truth": truth_part(half),
        f"trial {ordinal} seal": seal_part(half),
        f"trial {ordinal} families": families_part(number),
    }


def reliability() -> dict[str, list[int]]:
    """What the doctor's reports say about their own worth."""
    one = next(
        one for one in open_half().summary["findings"] if one["batch"] == "real" and one["optimizer"] == "either"
    )
    return {key: list(one[key]) for key in ("found", "alarms")}


def _chosen_on(number: int) -> str:
    """How many models the rules had met that a later round judges, and how many they had not."""
    known = [one for earlier in range(1, number) for one in _members(folder_of(earlier))]
    new = later_round(number).members
    families, others = (len({one.family for one in members}) for members in (known, new))
    return (
        f"Its rules were chosen on {len(known)} models of {families} families; then {len(new)} models of {others} new "
        "families were examined, once."
    )


@cache
def trial_sentence() -> str:
    """The same for people who have not read the page."""
    # The last models that nobody had met count most.
    number = next((number for number in reversed(LATER) if later_round(number).told), None)
    half = open_half() if number is None else later_round(number)
    sentences = [] if number is None else [_chosen_on(number)]
    for one in half.verdicts:
        if one.batch != "fresh":
            continue
        rows = {row["opinion"]: row["auc"] for row in half.summary["rows"] if row["optimizer"] == one.optimizer}
        area = f"; area under the curve {rows[DOCTOR]:.3f}" if DOCTOR in rows else ""
        alone = f" ({rows[FINDINGS]:.3f} by findings alone)" if FINDINGS in rows else ""
        sentences.append(
            f"With {NAMES[one.optimizer]}, the doctor calls {one.found.found} of {one.found.of} sick models sick, and "
            f"{one.alarms.found} of {one.alarms.of} that train{area}{alone}."
        )
    for row in half.naming if half is open_half() or half.explained else ():
        if row.optimizer == EITHER and row.part == "module":
            sentences.append(
                f"Where one module is at fault, it is among the first two causes named in {row.first_two.found} of "
                f"{row.first_two.of} sick models."
            )
    if half.explained:
        rows = treatment_rows(half.folder, half.members)
        cured, sick = sum(row.cured.found for row in rows), sum(row.cured.of for row in rows)
        worse = sum(row.worse.found for row in rows) or "none"
        sentences.append(f"Treatment cures {cured} of {sick} sick cases that can be treated, and makes {worse} worse.")
    return "> " + " ".join(sentences) if sentences else "The table is not complete yet."
