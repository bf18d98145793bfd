"""What the stress test of a report says about training, in words: headline, table, what a step does, what to do next.

Reports without a stress test, and older ones that know of none, have no table and no words about steps.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from isometer.report._advice import ranked_advice
from isometer.report._cause_words import first_cause
from isometer.report._doctor_metrics import elided, ordered, real
from isometer.report._numbers import number

ANSWERS = {"trains": "yes", "slow": "slowly", "sick": "no", "doubtful": "doubtful", "unknown": "unclear"}
"""What stands in the table for a verdict, as `outcome` has it."""
PHRASES = {
    "sick": "does not train",
    "doubtful": "may not train",
    "slow": "trains slowly",
    "trains": "trains",
    "unknown": "not decided",
}
"""What sentences say about it, the worst first."""
_DOUBT = 0.3  # chance of training from which on "does not train" would claim too much
_STATES = {True: ("healthy", "✓"), False: ("unhealthy", "✗"), None: ("undecided", "?")}
_LEAD = {  # which verdicts the headline names first
    "healthy": ("trains", "slow", "doubtful", "sick", "unknown"),
    "unhealthy": ("sick", "doubtful", "slow", "trains", "unknown"),
    "undecided": ("unknown", "sick", "doubtful", "slow", "trains"),
}
_LEARNS = 0.3  # progress of a reference that is worth imitating
_UNEVEN = 100.0  # times as much as the next module: worth naming
_NAMED = 3


@dataclass(frozen=True)
class Headline:
    """The verdict in a few words.

    Attributes:
        state: `healthy`, `unhealthy`, `undecided`, or `untested` without a stress test.
        mark: one character, empty without a stress test.
        word: what to print after it.
    """

    state: str
    mark: str
    word: str


@dataclass(frozen=True)
class OutlookTable:
    """A row per optimizer.

    Attributes:
        headings: of the columns.
        rows: texts of the cells.
        verdicts: `trains`, `slow`, `sick` or `unknown`, by row.
        legend: what the columns mean, a sentence each.
    """

    headings: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    verdicts: tuple[str, ...]
    legend: tuple[str, ...]


def has_verdicts(report: Mapping[str, Any]) -> bool:
    """Whether the report has verdicts of a stress test."""
    return bool(report.get("trains"))


def trained(report: Mapping[str, Any]) -> bool:
    """Whether the stress test ran anything, so that there is a table to show."""
    return has_verdicts(report) and not (report.get("stress") or {}).get("skipped")


def headline(report: Mapping[str, Any]) -> Headline:
    """The verdict; where optimizers differ, it says with which the model trains and with which it does not.

    Example:
        >>> adam, sgd = {"verdict": "trains", "at_rate": None}, {"verdict": "sick", "at_rate": None}
        >>> headline({"healthy": True, "trains": {"adam": adam, "sgd": sgd}}).word
        'Trains with adam, does not train with sgd'
        >>> headline({"healthy": True, "trains": {"adam": adam}})
        Headline(state='healthy', mark='✓', word='Trains')
        >>> headline({"healthy": True}).word
        'No stress test'
    """
    if not has_verdicts(report):
        return Headline("untested", "", "No stress test")
    state, mark = _STATES[report["healthy"]]
    groups: dict[str, list[str]] = {}
    for name, one in report["trains"].items():
        groups.setdefault(_outcome(one), []).append(_asked(name, one))
    if len(groups) == 1:
        word = PHRASES[next(iter(groups))] + _own_rate(report["trains"].values())
    else:
        word = ", ".join(f"{PHRASES[kind]} with {_listed(groups[kind])}" for kind in _LEAD[state] if kind in groups)
    return Headline(state, mark, word[:1].upper() + word[1:])


def outcome(verdict: str, probability: Any) -> str:
    """The verdict, or `doubtful` for a sick model that has a fair chance of training.

    Among models, few are sick: one that probably trains can still deserve the warning.

    Example:
        >>> outcome("sick", 0.02), outcome("sick", 0.56), outcome("slow", 0.75)
        ('sick', 'doubtful', 'slow')
    """
    return "doubtful" if verdict == "sick" and real(probability) >= _DOUBT else verdict


def _outcome(one: Mapping[str, Any]) -> str:
    """At the caller's rate where there is one."""
    judged = one.get("at_rate") or one
    return outcome(str(judged["verdict"]), judged.get("probability"))


def _asked(name: str, one: Mapping[str, Any]) -> str:
    at = one.get("at_rate")
    return name if at is None else f"{name} at {rate_text(at['rate'])}"


def _own_rate(outlooks: Any) -> str:
    """Named where the caller's rate makes the difference."""
    own = [at["rate"] for one in outlooks if (at := one.get("at_rate")) and at["verdict"] != one["verdict"]]
    return f" at rate {rate_text(own[0])}" if own else ""


def _listed(names: Sequence[str]) -> str:
    return " and ".join((", ".join(names[:-1]), names[-1])) if len(names) > 1 else names[0]


def rate_text(value: Any) -> str:
    """A learning rate for reading.

    Example:
        >>> rate_text(0.1024), rate_text(None)
        ('0.1', '–')
    """
    rate = real(value)
    return "–" if math.isnan(rate) else number(rate, 2)


def outlook_table(report: Mapping[str, Any]) -> OutlookTable:
    """Verdict, probability, rates and progress by optimizer.

    Example:
        >>> evidence = {"fresh": None, "fit": 0.9, "reference_fresh": None, "reference_fit": 1.0, "broken": False}
        >>> table = outlook_table({"trains": {"adam": {"verdict": "trains", "probability": 0.97, "rates": [0.001, 0.01],
        ...     "best_rate": 0.01, "at_rate": None, "evidence": evidence}}})
        >>> table.rows
        (('adam', 'yes', '97 %', '0.001, 0.01', '90 %', '100 %'),)
    """
    outlooks = report.get("trains") or {}
    own = any(one.get("at_rate") for one in outlooks.values())
    fresh = any(not math.isnan(real(one["evidence"]["fresh"])) for one in outlooks.values())
    headings = ["optimizer", "trains?", "probability", "rates that work", *(["at your rate"] if own else [])]
    headings += ["learned fresh / one batch" if fresh else "learned, one batch", "reference"]
    rows = tuple(
        (
            name,
            ANSWERS[outcome(one["verdict"], one["probability"])],
            _probability(one["probability"]),
            _rates(one),
            *([_at_rate(one.get("at_rate"))] if own else []),
            *(_progress(one["evidence"], prefix, fresh) for prefix in ("", "reference_")),
        )
        for name, one in outlooks.items()
    )
    on = "fresh batches / on one repeated batch" if fresh else "one repeated batch"
    legend = (
        "probability: that it trains at the best rate found.",
        f"learned: progress of the loss from that of a constant answer (0 %) to zero (100 %), on {on}.",
        "reference: the same architecture, initialised by the book.",
    )
    return OutlookTable(tuple(headings), rows, tuple(str(one["verdict"]) for one in outlooks.values()), legend)


def _probability(value: Any) -> str:
    share = real(value)
    if math.isnan(share):
        return "–"
    return "> 99 %" if share > 0.99 else "< 1 %" if share < 0.01 else f"{100 * share:.0f} %"


def _rates(one: Mapping[str, Any]) -> str:
    rates = [rate_text(rate) for rate in one["rates"]]
    if outcome(one["verdict"], one["probability"]) == "sick":
        return "none"
    if not rates:
        return "–"
    return ", ".join(rates) if len(rates) <= 2 else f"{rates[0]}–{rates[-1]}"


def _at_rate(at: Mapping[str, Any] | None) -> str:
    if at is None:
        return "–"
    answer = ANSWERS[outcome(at["verdict"], at.get("probability"))]
    return f"{rate_text(at['rate'])}: {answer} ({_share(at['progress'])} %)"


def _progress(evidence: Mapping[str, Any], prefix: str, fresh: bool) -> str:
    both = [evidence[f"{prefix}fresh"], evidence[f"{prefix}fit"]][0 if fresh else 1 :]
    return f"{' / '.join(map(_share, both))} %" if not all(math.isnan(real(v)) for v in both) else "–"


def _share(value: Any) -> str:
    share = real(value)
    return "–" if math.isnan(share) else f"{100 * share:.0f}"


def remarks(report: Mapping[str, Any]) -> list[str]:
    """Why there is no progress to compare, where there is none."""
    stress = report.get("stress") or {}
    if stress.get("skipped"):
        return [f"Nothing was trained: {stress['skipped']}."]
    broken = [name for name, one in (report.get("trains") or {}).items() if one["evidence"].get("broken")]
    if not broken:
        return []
    if real(stress.get("chance")) == -math.inf:
        return ["The loss has no lower bound, so a lower loss does not mean that something is learned."]
    return [f"With {_listed(broken)}, the loss stops being finite at every rate."]


def step_words(report: Mapping[str, Any]) -> list[tuple[str, list[str]]]:
    """What a step does, by optimizer: loss and outputs, then only what is worth naming.

    Example:
        >>> effects = {"rate": 0.1, "steps": 10, "output_change": 0.5, "predicted": -0.2, "actual": 0.3, "grown": [],
        ...            "moved": [["head", 0.6]], "unmoved": ["0", "2"], "frozen": []}
        >>> for line in step_words({"stress": {"effects": {"sgd": effects}}})[0][1]:
        ...     print(line)
        One step changes the loss by +0.3; the gradient predicts −0.2: the step is too long. Outputs change by 50 %.
        2 modules do not move in 10 steps: 0, 2.
    """
    effects = (report.get("stress") or {}).get("effects") or {}
    return [
        (f"{name} at rate {rate_text(one['rate'])}", [_loss_words(one), *filter(None, (_moving(one), _growing(one)))])
        for name, one in effects.items()
    ]


def _loss_words(one: Mapping[str, Any]) -> str:
    predicted, actual, change = (real(one[key]) for key in ("predicted", "actual", "output_change"))
    if predicted == actual == change == 0:
        return "One step changes neither the loss nor the outputs."
    if not math.isfinite(actual):
        return f"After one step the loss is not finite; the gradient predicts {_signed(predicted)}."
    judged = ""
    if actual > 0 > predicted:
        judged = ": the step is too long"
    elif predicted < 0 and actual > 0.5 * predicted:
        judged = ": less than half of that happens"
    return (
        f"One step changes the loss by {_signed(actual)}; the gradient predicts {_signed(predicted)}{judged}. "
        f"Outputs change by {_relative(change)}{' their size' if change >= 0.995 else ''}."
    )


def _signed(value: float) -> str:
    if math.isnan(value):
        return "–"
    return ("+" if value > 0 else "") + number(value, 3)


def _moving(one: Mapping[str, Any]) -> str:
    steps, parts = int(one["steps"]), []
    if one["unmoved"]:
        parts.append(f"{_counted(one['unmoved'], 'do not move', 'does not move')} in {steps} steps: {_few(one)}.")
    if one["frozen"]:
        parts.append(f"{_counted(one['frozen'], 'are frozen', 'is frozen')}: {_few(one, 'frozen')}.")
    moved = [(str(name), real(change)) for name, change in one["moved"]]
    if len(moved) > 1 and moved[0][1] > _UNEVEN * moved[1][1]:
        first, second = (f"{_name(name)} by {_relative(change)}" for name, change in moved[:2])
        parts.append(f"Only one module moves: {first} in {steps} steps, the next, {second}.")
    elif moved and moved[0][1] >= 1:
        far = f"by {_relative(moved[0][1])} their size in {steps} steps"
        whose = f"'{_name(moved[0][0])}'" if moved[0][0] else _name("")
        parts.append(f"The weights of {whose} move far: {far}.")
    return " ".join(parts)


def _relative(change: float) -> str:
    """In percent of what there was, or in times of it."""
    if math.isnan(change):
        return "an unknown amount"
    return f"{number(100 * change, 2)} %" if change < 0.995 else f"{number(change, 2 if change < 100 else 3)} times"


def _growing(one: Mapping[str, Any]) -> str:
    if not one["grown"]:
        return ""
    named = ", ".join(f"{_name(name)} {_factor(real(factor))}" for name, factor in one["grown"][:_NAMED])
    return f"The largest values grow in {int(one['steps'])} steps: {named}."


def _factor(value: float) -> str:
    return "to NaN" if math.isnan(value) else f"×{number(value, 3)}"


def _counted(names: Sequence[str], many: str, one: str) -> str:
    return f"1 module {one}" if len(names) == 1 else f"{len(names)} modules {many}"


def _few(one: Mapping[str, Any], key: str = "unmoved") -> str:
    names = [_name(name) for name in one[key]]
    return ", ".join(names) if len(names) <= _NAMED else f"{', '.join(names[: _NAMED - 1])} … {names[-1]}"


def _name(name: Any) -> str:
    return elided(str(name), 32) or "the model itself"


def after_words(report: Mapping[str, Any]) -> str:
    """Findings that come, go or change in severity by some steps of training; empty where that was not looked at.

    Example:
        >>> old = {"id": "rank-collapse", "severity": "severe"}
        >>> after_words({"findings": [old], "stress": {"after": [], "plan": {"rounds": [10, 40]}}})
        'After 10 steps: rank-collapse (severe) is gone.'
    """
    stress = report.get("stress") or {}
    if stress.get("after") is None:
        return ""
    rounds = (stress.get("plan") or {}).get("rounds") or ()
    when = f"After {int(rounds[0])} steps" if rounds else "After some steps"
    before, after = (
        {str(one["id"]): str(one["severity"]) for one in side} for side in (report["findings"], stress["after"])
    )
    changes = [f"{one} ({severity}) appears" for one, severity in after.items() if one not in before]
    changes += [f"{one} ({severity}) is gone" for one, severity in before.items() if one not in after]
    both = [(one, severity) for one, severity in before.items() if one in after]
    changes += [f"{one} is {after[one]} instead of {severity}" for one, severity in both if after[one] != severity]
    if changes:
        return f"{when}: {'; '.join(changes)}."
    return f"{when}, the findings are the same." if before else f"{when}, still nothing is found."


def symptoms(report: Mapping[str, Any]) -> str:
    """A heading for the findings that says what they are beside the verdict."""
    state = headline(report).state
    slow = any(_outcome(one) == "slow" for one in (report.get("trains") or {}).values())
    if state == "untested":
        return "Findings"
    if report.get("notes") and not report["findings"]:
        return "Notes: unusual, but harmless here"
    if state == "unhealthy" or (state == "healthy" and slow):
        return "Findings: symptoms that may explain the verdict"
    return "Findings: symptoms, though it trains" if state == "healthy" else "Findings: symptoms"


def note_words(report: Mapping[str, Any]) -> list[str]:
    """What was found and is harmless here, line by line; empty if there is nothing.

    Example:
        >>> note_words({"notes": [{"id": "rank-collapse", "explanation": "Samples look alike. They cannot be told."}]})
        ['rank-collapse: Samples look alike.']
    """
    return [f"{one['id']}: {first_sentence(str(one['explanation']))}" for one in report.get("notes") or ()]


def nothing_found(report: Mapping[str, Any]) -> str:
    """What to say where the probe found nothing, or nothing that matters."""
    if report.get("notes"):
        return "No findings. The probe notes what is unusual; it does no harm here, because the model trains."
    return {
        "untested": "The probe found nothing that harms training at this depth. The curves below show why.",
        "healthy": "The probe found nothing that harms training at this depth. The curves below show why.",
        "unhealthy": "The probe found nothing: what keeps the model from training does not show in one pass.",
        "undecided": "The probe found nothing.",
    }[headline(report).state]


def next_step(report: Mapping[str, Any]) -> str:
    """One line: what to do about the verdict; empty where a treatment of the report answers that.

    Example:
        >>> adam = {"verdict": "trains", "at_rate": None, "probability": 0.9, "best_rate": 0.01,
        ...         "evidence": {"fresh": 0.5, "fit": 0.9}}
        >>> next_step({"healthy": True, "trains": {"adam": adam}, "findings": []})
        'Train it with adam at learning rate 0.01.'
    """
    if report.get("treatment"):
        return ""
    if not has_verdicts(report):
        first = next((f"First step: {one.text} " for one in ranked_advice(report)), "")
        return f"{first}The stress test says whether it trains."
    state = headline(report).state
    if state == "undecided":
        return _cure(report) if report.get("causes") else _more_to_go_by(report)
    elsewhere = _better_rate(report)
    if elsewhere:
        return elsewhere
    if state == "unhealthy":
        return _cure(report)
    name, one = _best(report)
    at = one.get("at_rate")
    if _outcome(one) == "slow":
        return f"The best learning rate found for {name} is {rate_text(one['best_rate'])}. {_cure(report)}"
    if at is not None:
        return f"Train it with {name}: your rate {rate_text(at['rate'])} works, the best found is " + (
            f"{rate_text(one['best_rate'])}."
        )
    return f"Train it with {name} at learning rate {rate_text(one['best_rate'])}."


def _best(report: Mapping[str, Any]) -> tuple[str, Mapping[str, Any]]:
    """The optimizer with the best verdict, then the one that learns most."""

    def merit(item: tuple[str, Mapping[str, Any]]) -> tuple[int, float]:
        evidence = item[1]["evidence"]
        learned = [real(evidence[key]) for key in ("fresh", "fit")]
        return -_LEAD["healthy"].index(_outcome(item[1])), next((v for v in learned if not math.isnan(v)), -1.0)

    outlooks: Mapping[str, Mapping[str, Any]] = report["trains"]
    return max(outlooks.items(), key=merit)


def _better_rate(report: Mapping[str, Any]) -> str:
    """Where the caller's rate is what keeps it from training."""
    name, one = _best(report)
    at = one.get("at_rate")
    if at is None or at["verdict"] not in ("sick", "slow") or one["verdict"] != "trains":
        return ""
    return f"Change the learning rate: {name} trains at {rate_text(one['best_rate'])}, not at {rate_text(at['rate'])}."


def _cure(report: Mapping[str, Any]) -> str:
    """What the first cause needs, else the most promising change that the findings recommend."""
    repair = next((str(one["repair"]) for one in report.get("causes") or ()), "")
    text = repair or next((one.text for one in ranked_advice(report)), "")
    if text:
        return f"First step: {text} Or run the doctor with --treat, which tries repairs on a copy."
    if any(_reference(one) >= _LEARNS for one in (report.get("trains") or {}).values()):
        return "First step: initialise it by the book (`redraw_`): the same architecture then learns."
    return "First step: check the data and the loss, and what one step does."


def because(report: Mapping[str, Any]) -> str:
    """Why a model does not train, one sentence: its first cause, or else what the leading finding saw.

    Example:
        >>> found = {"id": "wrong-gain", "severity": "severe", "explanation": "The gain is 0.5; ReLU needs 1.41. So."}
        >>> because({"healthy": False, "findings": [found]})
        'The gain is 0.5; ReLU needs 1.41.'
    """
    text = first_cause(report.get("causes") or ())
    if not text and report["findings"]:
        text = first_sentence(str(ordered(report["findings"])[0]["explanation"]))
    return f"{text[:1].upper()}{text[1:].rstrip('.')}." if text else ""


def first_sentence(text: str) -> str:
    """What stands before the first full stop that ends a sentence."""
    return f"{text.split('. ')[0].rstrip('.')}."


def _reference(one: Mapping[str, Any]) -> float:
    found = [real(one["evidence"].get(key)) for key in ("reference_fresh", "reference_fit")]
    return next((value for value in found if not math.isnan(value)), 0.0)


def _more_to_go_by(report: Mapping[str, Any]) -> str:
    stress = report.get("stress") or {}
    if stress.get("skipped"):  # where time is short, it says itself what to do
        return _cure(report) if report["findings"] else "" if "—" in str(stress["skipped"]) else "Pass a smaller batch."
    wanted = [
        *(["labels"] if stress.get("targets") == "a random teacher" else []),
        *(["more batches"] if stress.get("batches", 1) == 1 else []),
        "a larger --budget",
    ]
    fits = [real(one["evidence"].get(key)) for one in report["trains"].values() for key in ("fit", "reference_fit")]
    severe = any(one["severity"] == "severe" for one in report["findings"])
    if severe and all(value < _LEARNS for value in fits if not math.isnan(value)):
        # Any sound network fits one batch.
        return (
            "Neither the model nor its reference fits even one batch, so the architecture itself is suspect. "
            f"{_cure(report)}"
        )
    return f"Neither the model nor its reference learned enough to tell: pass {_or(wanted)}."


def _or(words: Sequence[str]) -> str:
    return words[0] if len(words) == 1 else f"{', '.join(words[:-1])} or {words[-1]}"


def run_notes(report: Mapping[str, Any]) -> list[str]:
    """What was run, line by line."""
    return [str(line) for line in (report.get("stress") or {}).get("notes") or ()]
