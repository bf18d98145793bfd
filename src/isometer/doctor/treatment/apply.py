"""`treat`: try prescriptions one after the other, keep what helps, and say what was done."""

from __future__ import annotations

import copy
import difflib
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import torch
from torch import nn

from isometer.doctor.diagnosis import diagnose
from isometer.doctor.prescriptions import PRESCRIPTIONS
from isometer.doctor.report import Report
from isometer.doctor.treatment.record import Step, Treatment
from isometer.doctor.treatment.remedies import ELSEWHERE, REMEDIES, Call, code
from isometer.doctor.treatment.surgery import Snapshot, inner
from isometer.errors import IsometerError

_WEIGHT_OF = {"severe": 3, "moderate": 1}


def treat(
    model: nn.Module,
    report: Report,
    *,
    batch: Any,
    target: Any = None,
    loss: Callable[..., torch.Tensor] | None = None,
    choose: str | Sequence[str] = "recommended",
    inplace: bool = False,
    seed: int = 0,
) -> Treatment:
    """Carry out prescriptions of a report, examine the model again, and keep what helps.

    Every prescription is tried by itself on the model as it then is. It is undone if it leaves as many findings as
    there were (a severe one counts like three moderate ones), and nothing is ever half applied.

    Args:
        model: the model of the report; of a compiled or distributed one, the model within.
        report: what `diagnose` said about it.
        batch: what it is called with; schemes that set weights from data need more samples than features.
        target: second argument of the loss, as for `diagnose`.
        loss: as for `diagnose`.
        choose: `"recommended"` tries what sets weights first, and changes of architecture only if something is still
            found, until nothing is; `"all"` tries everything that the findings list and also keeps what changes
            nothing; or ids of prescriptions, which are tried in that order and undone only if they make things worse.
        inplace: change the model itself instead of a copy.
        seed: of all draws.

    Returns:
        A `Treatment`.

    Raises:
        IsometerError: the model cannot be copied, is quantised or has no memory, or an id is not known. The model is
            then as it was.

    Example:
        >>> layers = [m for _ in range(10) for m in (nn.Linear(32, 32, bias=False), nn.ReLU())]
        >>> model, batch = nn.Sequential(*layers, nn.Linear(32, 4)), torch.randn(16, 32)
        >>> treatment = treat(model, diagnose(model, batch), batch=batch)
        >>> treatment.applied, treatment.cured
        (('principled-gain',), True)
    """
    chosen = _chosen(choose)
    working = inner(model) if isinstance(model, nn.Module) else model
    _check(working, report)
    working = working if inplace else _copied(working)

    def examine() -> Report:
        return diagnose(
            working,
            batch,
            target=target,
            loss=loss,
            mode=report.mode,
            predict=False,
            name=report.model,
            description=report.batch,
            seed=seed,
        )

    keep_equal = chosen is not None or choose == "all"
    steps: list[Step] = []
    calls: list[Call] = []
    whole = Snapshot(working)
    try:
        now = report
        queue = _order(chosen, choose, lambda: now)
        for one in queue:
            step, made, after = _try(working, one, now, batch, seed, examine, keep_equal)
            steps.append(step)
            calls += made
            now = after
        last = diagnose(
            working,
            batch,
            target=target,
            loss=loss,
            mode=report.mode,
            name=report.model,
            description=report.batch,
            seed=seed,
        )
    except BaseException:
        whole.restore()
        raise
    return Treatment(working, tuple(steps), report, last if calls else report, code(calls, seed))


def _chosen(choose: str | Sequence[str]) -> tuple[str, ...] | None:
    """Ids that were asked for, `None` if they are to be found."""
    if choose in ("recommended", "all"):
        return None
    ids = tuple(part.strip() for part in choose.split(",")) if isinstance(choose, str) else tuple(choose)
    for one in ids:
        if one not in PRESCRIPTIONS:
            near = difflib.get_close_matches(str(one), [*PRESCRIPTIONS, "all", "recommended"], 1, 0.4)
            hint = f"did you mean {near[0]!r}? " if near else ""
            raise IsometerError(
                f"there is no prescription {one!r}; {hint}expected 'recommended', 'all' or some of "
                f"{', '.join(PRESCRIPTIONS)}"
            )
    if not ids:
        raise IsometerError("choose names no prescription; expected 'recommended', 'all' or at least one id")
    return ids


def _check(model: Any, report: Any) -> None:
    if not isinstance(model, nn.Module):
        raise IsometerError(f"model is a {type(model).__name__}; expected a torch.nn.Module — pass one")
    if not isinstance(report, Report):
        raise IsometerError(f"report is a {type(report).__name__}; expected what isometer.diagnose(model, batch) gives")
    for name, module in model.named_modules():
        if type(module).__module__.startswith(("torch.ao.", "torch.nn.quantized", "torch.nn.qat")):
            raise IsometerError(
                f"module {name or type(module).__name__!r} is quantised; expected floating point weights — treat the "
                "model before quantising it"
            )
    for name, tensor in [*model.named_parameters(), *model.named_buffers()]:
        if tensor.is_meta:
            raise IsometerError(
                f"{name!r} is on the meta device and has no values; expected memory — call "
                "model.to_empty(device='cpu') and initialise it"
            )
        if tensor.is_quantized:
            raise IsometerError(f"{name!r} is quantised; expected floating point — treat the model before quantising it")


def _copied(model: nn.Module) -> nn.Module:
    try:
        return copy.deepcopy(model)
    except Exception as problem:  # whatever the model's own code raises
        raise IsometerError(
            f"the model cannot be copied ({type(problem).__name__}: {problem}); expected one that copy.deepcopy takes "
            "— pass inplace=True"
        ) from problem


def _order(chosen: tuple[str, ...] | None, choose: Any, now: Callable[[], Report]) -> Iterator[str]:
    """Ids to try next, given what is found now; each at most once."""
    if chosen is not None:
        yield from chosen
        return
    tried: set[str] = set()
    kinds = ("weights", "architecture", "batch", "training")
    if choose == "all":
        listed = [p.id for finding in now().findings for p in finding.prescriptions]
        yield from sorted(dict.fromkeys(listed), key=lambda one: kinds.index(PRESCRIPTIONS[one].kind))
        return
    for kind in kinds:
        while True:
            ranks: dict[str, tuple[int, int]] = {}
            for position, finding in enumerate(now().findings):
                for rank, prescription in enumerate(finding.prescriptions):
                    if prescription.kind == kind and prescription.id not in tried:
                        best = ranks.get(prescription.id, (rank, position))
                        ranks[prescription.id] = min(best, (rank, position))
            if not ranks:
                break
            following = min(ranks, key=lambda one: ranks[one])
            tried.add(following)
            yield following


def _try(
    model: nn.Module,
    one: str,
    now: Report,
    batch: Any,
    seed: int,
    examine: Callable[[], Report],
    keep_equal: bool,
) -> tuple[Step, tuple[Call, ...], Report]:
    """Carry out one prescription; what it cannot do or does not help is undone."""
    kind = PRESCRIPTIONS[one].kind
    if one not in REMEDIES:
        return Step(one, kind, "refused", ELSEWHERE[one]), (), now
    before = Snapshot(model)
    calls: tuple[Call, ...] = ()
    refusal = ""
    for alternative in REMEDIES[one].calls:
        try:
            for call in alternative:
                call.make(model, batch, seed)
            calls = alternative
            break
        except IsometerError as problem:
            refusal = refusal or str(problem)
            before.restore()
    if not calls:
        return Step(one, kind, "refused", refusal), (), now
    try:
        after = examine()
    except Exception as problem:
        before.restore()
        return Step(one, kind, "undone", f"the model no longer runs: {type(problem).__name__}: {problem}"), (), now
    change = _burden(after) - _burden(now)
    told = _told(now, after)
    if change > 0 or (change == 0 and not keep_equal):
        before.restore()
        return Step(one, kind, "undone", f"{'it makes things worse' if change > 0 else 'it does not help'}: {told}"), (), now
    return Step(one, kind, "applied", told), calls, after


def _burden(report: Report) -> int:
    return sum(_WEIGHT_OF[finding.severity] for finding in report.findings)


def _told(before: Report, after: Report) -> str:
    """What happened to the findings."""
    old, new = ({finding.id: finding.severity for finding in one.findings} for one in (before, after))
    parts = [f"{one} gone" for one in old if one not in new]
    parts += [f"{one} {old[one]} → {new[one]}" for one in old if one in new and new[one] != old[one]]
    parts += [f"{one} ({severity}) new" for one, severity in new.items() if one not in old]
    return ", ".join(parts) or "nothing that was found changes"
