"""`treat`: try prescriptions one after the other, keep what helps, and say what was done."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import nn

from isometer.doctor.conditions._prescription import code
from isometer.doctor.conditions._prescriptions import PRESCRIPTIONS
from isometer.doctor.diagnosis._diagnose import diagnose
from isometer.doctor.diagnosis._report import Report
from isometer.doctor.probe._snapshot import Snapshot
from isometer.doctor.probe._subject import all_or_nothing, working_copy
from isometer.doctor.treatment._record import Treatment
from isometer.doctor.treatment._search import TreatmentSearch, everything
from isometer.doctor.treatment._surgery import inner
from isometer.errors import IsometerError, unknown_name


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

    Every prescription is tried by itself on the model as it then is, and undone where it does not help; a severe
    finding counts like three moderate ones. Nothing is ever half applied.

    Args:
        model: the model of the report; of a compiled or distributed one, the model within.
        report: what `diagnose` said about it.
        batch: what it is called with; schemes that set weights from data need more samples than features.
        target: second argument of the loss, as for `diagnose`.
        loss: as for `diagnose`.
        choose: `"recommended"` looks for the shortest way to no finding: with what sets weights alone, else with
            changes of architecture, else with both. `"all"` carries out everything that the findings list, weights
            first. Or ids of prescriptions, in order. Those two undo only what makes things worse.
        inplace: change the model itself instead of a copy.
        seed: of all draws.

    Returns:
        A `Treatment`.

    Raises:
        IsometerError: the model cannot be copied, has a hook that holds the model itself, is quantised or has no
            memory, or an id is not known. The model is then as it was.

    Example:
        >>> layers = [m for _ in range(10) for m in (nn.Linear(32, 32, bias=False), nn.ReLU())]
        >>> model, batch = nn.Sequential(*layers, nn.Linear(32, 4)), torch.randn(16, 32)
        >>> treatment = treat(model, diagnose(model, batch), batch=batch)
        >>> treatment.applied, treatment.cured
        (('principled-gain',), True)
    """
    chosen = chosen_ids(choose)
    working = inner(model) if isinstance(model, nn.Module) else model
    _check(working, report)
    working = working if inplace else _copied(working)

    def examine(predict: bool = False) -> Report:
        return diagnose(
            working,
            batch,
            target=target,
            loss=loss,
            mode=report.mode,
            predict=predict,
            name=report.model,
            description=report.batch,
            seed=seed,
            stress=False,
        )

    def work() -> Treatment:
        search = TreatmentSearch(working, Snapshot.of(working), batch, seed, examine)
        if chosen is None and choose == "recommended":
            steps, calls = search.recommended(report)
        else:
            steps, calls = search.listed(chosen or everything(report), report)
        after = examine(predict=report.prediction is not None) if calls else report
        return Treatment(working, steps, report, after, code(calls, seed), calls)

    # A copy may be left half treated: nobody has it.
    return all_or_nothing(working, work) if inplace else work()


def chosen_ids(choose: str | Sequence[str]) -> tuple[str, ...] | None:
    """Ids that were asked for, `None` if they are to be found.

    Example:
        >>> chosen_ids("zero-bias, pre-norm"), chosen_ids("all")
        (('zero-bias', 'pre-norm'), None)
    """
    if choose in ("recommended", "all"):
        return None
    ids = tuple(part.strip() for part in choose.split(",")) if isinstance(choose, str) else tuple(choose)
    for one in ids:
        if one not in PRESCRIPTIONS:
            raise unknown_name("prescription", one, ["recommended", "all", *PRESCRIPTIONS])
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
            raise IsometerError(
                f"{name!r} is quantised; expected floating point — treat the model before quantising it"
            )


def _copied(model: nn.Module) -> nn.Module:
    try:
        return working_copy(model)
    except IsometerError as problem:
        raise IsometerError(f"{problem}, or pass inplace=True") from problem
    except Exception as problem:  # whatever the model's own code raises
        raise IsometerError(
            f"the model cannot be copied ({type(problem).__name__}: {problem}); expected one that copy.deepcopy takes "
            "— pass inplace=True"
        ) from problem
