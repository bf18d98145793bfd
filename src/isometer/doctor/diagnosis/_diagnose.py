"""From a model and a batch to findings."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import nn

from isometer.doctor.conditions._findings import SEVERITIES
from isometer.doctor.diagnosis._checking import examined_case
from isometer.doctor.diagnosis._report import Report
from isometer.doctor.diagnosis._signal_path import View
from isometer.doctor.probe._examination import Examination
from isometer.doctor.probe._examine import checked, examine
from isometer.doctor.probe._subject import Subject, examined
from isometer.doctor.probe._tensor_trees import dense
from isometer.errors import IsometerError


def diagnose(
    model: nn.Module,
    batch: Any,
    *,
    target: Any = None,
    loss: Callable[..., torch.Tensor] | None = None,
    mode: str | None = "train",
    redraws: int = 8,
    predict: bool = True,
    name: str | None = None,
    description: str = "",
    seed: int = 0,
) -> Report:
    """Examine a model on a batch and say what will keep it from training, which layers do it, and what to change.

    One forward and one backward pass, and `redraws` more with permuted weights if something is found that chance could
    have produced, all on one copy of the model. The model is left as it was, as by `probe`.

    Args:
        model: any module.
        batch: what it is called with, as for `probe`.
        target: second argument of the loss.
        loss: a function of the output (and the target) that returns a scalar; a Gaussian cotangent without one.
        mode: `"train"`, `"eval"`, or `None` for the mode the model is in.
        redraws: how many redrawn networks chance is judged by, at least 3.
        predict: lay the theory's trajectory over the measured one where it covers the model.
        name: what to call the model; the name of its class unless given.
        description: of the batch, for the report.
        seed: of cotangents, sketches and redraws.

    Returns:
        A `Report`.

    Raises:
        IsometerError: the batch or the model is not what a probe needs. What the model itself raises comes through
            unchanged.
        ModelChangedError: as for `probe`.

    Example:
        >>> _ = torch.manual_seed(0)
        >>> blocks = [m for _ in range(30) for m in (nn.Linear(64, 64, bias=False), nn.ReLU())]
        >>> model = nn.Sequential(*blocks, nn.Linear(64, 10))
        >>> report = diagnose(model, torch.randn(16, 64, generator=torch.Generator().manual_seed(1)))
        >>> sorted(finding.id for finding in report.findings if finding.severity == "severe")[:2]
        ['activation-vanishing', 'gradient-vanishing']

    Implements: 002/alg-soft-rank-monitor, 002/alg-grad-align, 001/claim-4.deterministic.
    """
    if redraws < 3:
        raise IsometerError(f"redraws is {redraws}; expected at least 3 — the fluctuation between them is needed")

    if loss is None and target is None:  # alignment is read off samples with parallel gradients: make some
        loss = _paired(seed)

    model = checked(model, target=target, loss=loss, mode=mode)
    with examined(model, loss, target) as subject:
        return _report(subject, batch, target, loss, mode, redraws, predict, name, description, seed)


def _report(
    subject: Subject,
    batch: Any,
    target: Any,
    loss: Callable[..., torch.Tensor] | None,
    mode: str | None,
    redraws: int,
    predict: bool,
    name: str | None,
    description: str,
    seed: int,
) -> Report:
    examination = examine(subject, batch, target=target, loss=loss, mode=mode, seed=seed)

    def redrawn(prepare: Callable[[nn.Module], None], gradients: bool) -> Examination:
        once = examination.loss_exponent
        given: dict[str, Any] = {"target": target, "loss": loss, "mode": mode, "seed": seed, "prepare": prepare}
        return examine(subject, batch, **given, once=once, gradients=gradients)

    case = examined_case(View(examination), redrawn, number=redraws, seed=seed)
    order = sorted(case.found, key=lambda finding: SEVERITIES.index(finding.severity))
    prediction, reason = None, ""
    if predict and examination.nonfinite_layer is not None:
        reason = "values are not finite"
    elif predict:
        from isometer.doctor.prediction._extraction import Chain, chain_of
        from isometer.doctor.prediction._predict_chain import predict_chain

        chain = chain_of(subject, examination, quick=True)
        if isinstance(chain, Chain):
            prediction = predict_chain(chain, examination, seed=seed)
        else:
            reason = chain
    training = subject.original.training if mode is None else mode == "train"
    return Report(
        name or type(subject.original).__name__,
        "train" if training else "eval",
        examination,
        tuple(order),
        prediction,
        reason,
        description,
    )


def _paired(seed: int) -> Callable[[Any], torch.Tensor]:
    """A loss whose gradient by the output is Gaussian, and for samples 2k and 2k + 1 the same up to sign.

    Where a network does not see which of the two it has, their gradients by the weights are parallel.
    """

    def loss(output: Any) -> torch.Tensor:
        # Made anew in each call, so that redrawn networks meet the same cotangents.
        generator = torch.Generator().manual_seed(seed)
        total: torch.Tensor | None = None
        floating = dense(output)
        if not floating:
            raise IsometerError(
                f"the model returned a {type(output).__name__} without a floating point tensor; expected one to start "
                "the backward pass from — pass loss=, or wrap the model so that it returns its representations"
            )
        for tensor in floating:
            rows = tensor.shape[0] if tensor.dim() else 1
            half = torch.randn((-(-rows // 2), *tensor.shape[1:]), generator=generator, dtype=torch.float32)
            signs = torch.randint(0, 2, (rows, *[1] * max(0, tensor.dim() - 1)), generator=generator) * 2 - 1
            cotangent = half.repeat_interleave(2, 0)[:rows] * signs if tensor.dim() else half[0]
            part = (tensor * cotangent.to(tensor)).sum()
            total = part if total is None else total + part
        assert total is not None
        return total

    return loss
