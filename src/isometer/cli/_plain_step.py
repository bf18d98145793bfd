"""One step of a model as anyone would run it: is it the model that fails, or the examination?"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeVar

import torch
from torch import nn

from isometer.doctor.probe._calling import call
from isometer.doctor.probe._made_up import refusal
from isometer.doctor.probe._subject import examined
from isometer.doctor.probe._tensor_trees import tensors
from isometer.errors import IsometerError

if TYPE_CHECKING:
    from isometer.doctor._loading import Target

Result = TypeVar("Result")
_MANY = 1_000_000  # weights from which on several threads are worth it
_LONG = 0.02  # seconds of a forward pass for which they are too


def attempt(
    run: Callable[[], Result], examined: Target, inputs: Any, description: str, *, made: bool = False
) -> Result:
    """What `run` gives; where the model fails on its batch outside of any examination too, the error that says so.

    Args:
        run: examines the model.
        examined: the model.
        inputs: the batch.
        description: of the batch.
        made: whether the batch was made for the model.

    Example:
        >>> from isometer.doctor._loading import load_target
        >>> mlp, batch = load_target("mlp-relu-5"), torch.ones(3, 4)
        >>> attempt(lambda: mlp.model(batch), mlp, batch, "x.npy")
        Traceback (most recent call last):
        isometer.errors.IsometerError: the model fails on the batch of shape (3, 4) (x.npy): RuntimeError: mat1 and mat2
        shapes cannot be multiplied (3x4 and 784x100) — pass samples of shape (784,)
    """
    try:
        return run()
    except IsometerError:
        raise
    except Exception as problem:
        unexpected = problem
    patient = examined.patient
    if patient is not None and made:
        raise unexpected  # both are ours
    sample = examined.shape if patient is None else tuple(patient.example(1)[0].shape[1:])
    # not the model's doing, or not at its first step, where there is no such error
    raise model_error(examined.model, inputs, description, sample=sample) or unexpected


def model_error(
    model: nn.Module, inputs: Any, description: str, *, sample: tuple[int, ...] | None = None
) -> IsometerError | None:
    """What a model's own forward or backward pass raises on a batch, with what to do; None if both are well.

    Args:
        model: that is called.
        inputs: the batch.
        description: of the batch.
        sample: the shape of one that the model takes, if that is known.

    Example:
        >>> print(model_error(nn.Linear(2, 1), torch.ones(3, 4), "mine"))
        the model fails on the batch of shape (3, 4) (mine): RuntimeError: ... — pass --shape with the shape of ...
        >>> model_error(nn.Linear(2, 1), torch.ones(3, 2), "mine") is None
        True
    """
    shape = f" of shape {tuple(inputs.shape)}" if hasattr(inputs, "shape") else ""
    batch = f"the batch{shape} ({description})"
    reason = refusal(model, inputs)
    if reason is not None:
        fix = (
            "pass --shape with the shape of one sample, or --input FILE.npz with arrays named as the arguments of "
            "forward, or let the factory return (model, batch)"
        )
        if sample is not None:
            fix = f"pass samples of shape {sample}"
        found = IsometerError(f"the model fails on {batch}: {type(reason).__name__}: {reason} — {fix}")
    else:
        reason = _backward_refusal(model, inputs)
        if reason is None:
            return None
        fix = "check that loss.backward() works after one forward pass in training mode"
        found = IsometerError(
            f"a backward pass through the model fails on {batch}: {type(reason).__name__}: {reason} — {fix}"
        )
    found.__cause__ = reason
    return found


def _backward_refusal(model: nn.Module, inputs: Any) -> Exception | None:
    def step(copy: nn.Module) -> Exception | None:
        try:
            outputs = [one for one in tensors(call(copy, inputs)) if one.requires_grad]
            if outputs:
                torch.autograd.backward([one.abs().sum() for one in outputs])
        except Exception as problem:  # a model may raise anything
            return problem
        return None

    with examined(model) as subject:
        return subject.run(step, seed=0, mode="train")


def is_large(model: nn.Module, inputs: Any) -> bool:
    """Whether several threads are worth it: many weights, or a forward pass that takes long on the threads of now.

    Example:
        >>> is_large(nn.Linear(8, 8), torch.ones(4, 8)), is_large(nn.Linear(1000, 1000), torch.ones(4, 1000))
        (False, True)
    """
    if sum(parameter.numel() for parameter in model.parameters()) >= _MANY:
        return True
    refusal(model, inputs)  # the first pass is slow for reasons of its own

    def timed(copy: nn.Module) -> float:
        begun = time.perf_counter()
        try:
            with torch.no_grad():
                call(copy, inputs)
        except Exception:  # told where it is examined
            return 0.0
        return time.perf_counter() - begun

    with examined(model) as subject:
        return subject.run(timed, seed=0) > _LONG
