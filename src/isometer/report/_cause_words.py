"""Why a model does not train, in words: what is odd, what to change, what that brings, and what stays unexplained."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from isometer.report._doctor_metrics import elided, real

_OUTSIDE = {"input": "the input", "targets": "the targets", "loss": "the loss"}
_NAMED = 3
_REMOVE = "Remove "
_SOME = 0.02  # progress that is more than nothing
_LONG = 48  # characters of a module's name


@dataclass(frozen=True)
class CauseWords:
    """One cause, or one change that helps as well.

    Attributes:
        what: the parts, and what is odd about them.
        repair: what to change.
        effect: what short trainings reach with it, empty where that was not measured.
        where: file and line, empty if it is a module.
    """

    what: str
    repair: str
    effect: str
    where: str


def cause_words(report: Mapping[str, Any]) -> list[CauseWords]:
    """The causes of a report, most effective repair first.

    Example:
        >>> cause = {"modules": ["blocks.3"], "repair": "Redraw the weights of `blocks.3`.", "effect": 0.59,
        ...          "evidence": "its weights are 98 times as large as those of its siblings", "where": ""}
        >>> told = cause_words({"causes": [cause], "explanation": {"before": 0.02, "optimizer": "sgd"}})[0]
        >>> print(told.what)
        `blocks.3` — its weights are 98 times as large as those of its siblings
        >>> told.effect
        'progress 0.02 → 0.61 with sgd'
    """
    return [_words(one, report.get("explanation") or {}) for one in report.get("causes") or ()]


def also_helps(report: Mapping[str, Any]) -> list[CauseWords]:
    """Changes of parts that are as usual, or are not to blame, that help as well."""
    explained = report.get("explanation") or {}
    return [_words(one, explained) for one in explained.get("treatments") or ()]


def together(report: Mapping[str, Any]) -> str:
    """What everything put right comes to, a sentence; empty for a single cause, which says so itself.

    Example:
        >>> both = [{"modules": ["0"], "effect": 0.0}, {"modules": ["2"], "effect": 0.3}]
        >>> together({"causes": both, "explanation": {"before": 0.0, "after": 0.9, "optimizer": "adam"}})
        'With everything repaired: progress 0.00 → 0.90 with adam.'
    """
    explained = report.get("explanation") or {}
    after = real(explained.get("after"))
    count = len(report.get("causes") or ()) + len(explained.get("treatments") or ())
    if count < 2 or math.isnan(after) or after < real(explained["before"]) + _SOME:
        return ""
    return f"With everything repaired: {_grown(explained, after)}."


def _grown(explained: Mapping[str, Any], after: float) -> str:
    return f"progress {real(explained['before']):.2f} → {after:.2f} with {explained.get('optimizer', '')}".strip()


def unexplained(report: Mapping[str, Any]) -> str:
    """What remains unexplained, a sentence; empty if nothing does."""
    text = str((report.get("explanation") or {}).get("unexplained") or "")
    return f"{text[:1].upper()}{text[1:]}." if text else ""


def first_cause(causes: Sequence[Mapping[str, Any]]) -> str:
    """The first cause in a few words, for the conclusion; empty without one.

    Example:
        >>> first_cause([{"modules": ["input"], "evidence": "the inputs have mean 5e+02"}])
        'the inputs have mean 5e+02'
    """
    return _what(causes[0]) if causes else ""


def _words(one: Mapping[str, Any], explained: Mapping[str, Any]) -> CauseWords:
    before, effect = real(explained.get("before")), real(one.get("effect"))
    brings = ""
    if not math.isnan(before + effect):
        brings = _grown(explained, before + effect) if effect >= _SOME else "helps only together with the others"
    what, where = _what(one), str(one.get("where") or "")
    return CauseWords(what, str(one["repair"]), brings, "" if where in what else where)


def _what(one: Mapping[str, Any]) -> str:
    """The parts with what is odd about them; clauses about inputs and targets name these themselves."""
    names, evidence = [str(name) for name in one["modules"]], str(one.get("evidence") or "")
    repair = str(one.get("repair") or "")
    if one.get("kind") == "operation" and repair.startswith(_REMOVE):  # it names the call, the module and the line
        return f"{repair.removeprefix(_REMOVE).removesuffix('.')} — {evidence}"
    if evidence and all(name in _OUTSIDE for name in names) and not evidence.startswith("nothing"):
        return evidence
    listed = [_OUTSIDE.get(name) or (f"`{elided(name, _LONG)}`" if name else "the model itself") for name in names]
    more = f" and {len(listed) - _NAMED} more" if len(listed) > _NAMED else ""
    if len(listed) > 1 and evidence.startswith("its "):
        evidence = f"their {evidence.removeprefix('its ')}"
    return f"{', '.join(listed[:_NAMED])}{more}" + (f" — {evidence}" if evidence else "")
