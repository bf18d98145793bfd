"""From a model and its batches to findings and a verdict about training."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import Any

import torch
from torch import nn

from isometer.doctor.causes._explanation import CauseFinder
from isometer.doctor.conditions._findings import NOTE, SEVERITIES, Finding
from isometer.doctor.diagnosis._batches import given_batches
from isometer.doctor.diagnosis._checking import case_beside, examined_case
from isometer.doctor.diagnosis._report import Report
from isometer.doctor.diagnosis._signal_path import View
from isometer.doctor.probe._examination import Examination
from isometer.doctor.probe._examine import checked, examine
from isometer.doctor.probe._subject import Subject, examined
from isometer.doctor.probe._tensor_trees import dense
from isometer.doctor.stress._budget import Budget, clock_of
from isometer.doctor.stress._objectives import usual_loss
from isometer.doctor.stress._optimizers import optimizer_choices
from isometer.doctor.stress._stress import Stress, stress_test
from isometer.errors import IsometerError


def diagnose(
    model: nn.Module,
    batch: Any = None,
    target: Any = None,
    *,
    loss: Callable[..., torch.Tensor] | None = None,
    fresh: Iterable[Any] | None = None,
    optimizer: Any = None,
    lr: float | None = None,
    schedule: Callable[[torch.optim.Optimizer], Any] | None = None,
    stress: bool = True,
    budget: float | None = None,
    mode: str | None = "train",
    redraws: int = 8,
    predict: bool = True,
    name: str | None = None,
    description: str = "",
    seed: int = 0,
    told: Callable[[str], None] = lambda text: None,
) -> Report:
    """Diagnose whether a model trains, what keeps it from training, in which layers, and what to change.

    First a probe: one forward and one backward pass, and `redraws` more with permuted weights if something is found
    that chance could have produced. Then, unless `stress` is off, a stress test: a copy is trained for a few dozen
    steps at several rates, and so is the same architecture initialised by the book. The probe gives findings, the
    stress test the verdict. The model is left as it was, as by `probe`.

    Args:
        model: any module.
        batch: the input of the model, as for `probe`: tensors, NumPy arrays, or the shape of one sample; or many
            batches, an iterable of `(inputs, targets)` such as a DataLoader, or a torch data set. By default a batch is
            made for the model's first layer, of Gaussian inputs or random tokens, and the report says so.
        target: second argument of the loss.
        loss: a function of the output (and the target) that returns a scalar. Cross-entropy for whole numbers and mean
            squared error for values by default; without targets, the probe has a Gaussian cotangent, and the stress
            test a random linear function of the input to learn.
        fresh: batches for the stress test alone, each inputs or `(inputs, targets)`, beside one batch for the probe.
        optimizer: what the model is to be trained with: a name such as `"adamw"`, an optimizer of its parameters, a
            class, or a function that makes one from parameters. Adam and SGD with momentum 0.9 by default.
        lr: the learning rate to judge, beside the best one that is found.
        schedule: makes a learning rate schedule from an optimizer; it applies at that rate.
        stress: run the stress test.
        budget: seconds of work that all of it may take; small models need less. By default, the whole stress test is
            run, up to ten minutes of it, and the search for causes has a minute or as long as the test took. With less
            than the whole test a verdict is less certain, and the report says so.
        mode: `"train"`, `"eval"`, or `None` for the mode the model is in.
        redraws: how many redrawn networks chance is judged by, at least 3.
        predict: lay the theory's trajectory over the measured one where it covers the model.
        name: what to call the model; the name of its class by default.
        description: description of the batch, for the report.
        seed: seed of cotangents, sketches, redraws, dropout and the reference.
        told: called with what is being run.

    Returns:
        A `Report`.

    Raises:
        IsometerError: the batch or the model is not what a probe needs. Exceptions of the model itself pass through
            unchanged.
        ModelChangedError: as for `probe`.

    Example:
        >>> _ = torch.manual_seed(0)
        >>> blocks = [m for _ in range(16) for m in (nn.Linear(24, 24, bias=False), nn.ReLU())]
        >>> model = nn.Sequential(*blocks, nn.Linear(24, 10))
        >>> report = diagnose(model, torch.randn(16, 24, generator=torch.Generator().manual_seed(1)), optimizer="sgd")
        >>> sorted(finding.id for finding in report.findings if finding.severity == "severe")[:2]
        ['activation-vanishing', 'gradient-vanishing']
        >>> report.trains["sgd"].verdict
        'sick'

    Implements: 002/alg-soft-rank-monitor, 002/alg-grad-align, 001/claim-4.deterministic.
    """
    if redraws < 3:
        raise IsometerError(
            f"redraws is {redraws}; expected at least 3, for the fluctuation between them — pass redraws=8"
        )
    if budget is not None and not budget > 0:
        raise IsometerError(f"budget is {budget}; expected a positive number of seconds")
    model = checked(model, target=None, loss=loss, mode=mode, seed=seed)
    whole = Budget(budget, clock_of(model))
    given = replace(given_batches(model, batch, target, fresh, seed), loss=loss)
    batch, target, batches = given.inputs, given.target, given.batches
    if target is not None and loss is None:
        loss = usual_loss
    with examined(model, loss, target) as subject:
        wanted = optimizer_choices(optimizer, lr, schedule, subject)
        # Alignment is read off samples with parallel gradients: make some where the loss is ours to choose.
        cotangents = _paired(seed) if loss is None else loss

        def again(prepare: Callable[[nn.Module], None] | None = None, **how: Any) -> Examination:
            common = {"target": target, "loss": cotangents, "mode": mode, "seed": seed, "prepare": prepare}
            return examine(subject, batch, **common, **how)

        examination = again()

        def redrawn(prepare: Callable[[nn.Module], None], gradients: bool) -> Examination:
            return again(prepare, once=examination.loss_exponent, gradients=gradients)

        case = examined_case(View(examination), redrawn, number=redraws, seed=seed)
        tested = None
        if stress:
            tested = stress_test(
                subject,
                batches,
                loss=loss,
                optimizers=wanted,
                samples=examination.samples,
                mode=mode,
                seed=seed,
                budget=whole.left if whole.given else None,
                look=lambda prepare: _ordered(case_beside(View(again(prepare)), case).found),
                finder=CauseFinder(seed=seed),
                told=told,
            )
        prediction, reason = _prediction(subject, examination, predict, seed)
    training = subject.original.training if mode is None else mode == "train"
    found = _ordered(case.found)
    harmless = tested is not None and _trains(tested)
    return Report(
        name or type(subject.original).__name__,
        "train" if training else "eval",
        examination,
        () if harmless else found,
        prediction,
        reason,
        description or given.made,
        tested,
        optimizer is not None,
        tuple(replace(one, severity=NOTE) for one in found) if harmless else (),
        given,
    )


def _trains(tested: Stress) -> bool:
    """Whether the model trains with every optimizer, at the caller's rate where there is one: findings do no harm."""
    verdicts = [one.verdict if one.at_rate is None else one.at_rate.verdict for one in tested.outlooks.values()]
    return bool(verdicts) and all(verdict == "trains" for verdict in verdicts)


def _ordered(found: Iterable[Finding]) -> tuple[Finding, ...]:
    """Most severe first."""
    return tuple(sorted(found, key=lambda finding: SEVERITIES.index(finding.severity)))


def _prediction(subject: Subject, examination: Examination, predict: bool, seed: int) -> tuple[Any, str]:
    """What theory says about the network in the model, or why it says nothing."""
    if not predict:
        return None, ""
    if examination.nonfinite_layer is not None:
        return None, "values are not finite"
    from isometer.doctor.prediction._overlay import overlay

    return overlay(subject.original, examination, seed=seed)


def _paired(seed: int) -> Callable[[Any], torch.Tensor]:
    """A loss whose gradient by the output is Gaussian, and for samples 2k and 2k + 1 the same up to sign.

    Where a network does not see which of the two it has, their gradients with respect to the weights are parallel.
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
