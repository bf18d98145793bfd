"""`isometer kernel --model` and `isometer jacobian --model`: what a command finds in a model as it is."""

from __future__ import annotations

import contextlib
import math
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, TypeVar

import typer

from isometer.cli._network import InputOptions
from isometer.cli._shared import status
from isometer.cli._threads import threads as using
from isometer.cli._user_code import running
from isometer.errors import IsometerError
from isometer.extras import need

if TYPE_CHECKING:
    from isometer.doctor._loading import Target
    from isometer.empirical import EmpiricalKernel

Result = TypeVar("Result")
_MOMENTUM = 0.9
_FILES = (".npy", ".npz", ".csv", ".safetensors", ".pt", ".pth")
_SAMPLES = 32  # of a batch that is made up


@dataclass(frozen=True)
class ModelKernel:
    """What the command found, and as a dictionary for JSON and pictures."""

    kernel: EmpiricalKernel
    document: dict[str, Any]


def model_kernel(
    target: str,
    data: InputOptions,
    kind: Literal["nngp", "ntk"],
    *,
    checkpoint: Path | None,
    evaluate: bool,
    threads: int | None,
) -> ModelKernel:
    """The kernel of a model that a target names; code in the target is executed.

    Args:
        target: as for `isometer doctor`.
        data: where the batch comes from: a file, a data set, or numbers made up for the model.
        kind: of kernel.
        checkpoint: weights to load first.
        evaluate: evaluation mode instead of training mode.
        threads: that compute.
    """
    need("torch", "the kernel of a model")
    from isometer.empirical import empirical_kernel

    mode: Literal["train", "eval"] = "eval" if evaluate else "train"

    def work(examined: Target, inputs: Any, labels: Any, source: str) -> ModelKernel:
        found = empirical_kernel(examined.model, inputs, kind=kind, mode=mode, by="layer", seed=data.seed)
        return ModelKernel(found, _document(examined, found, inputs, labels, source, mode, data.seed))

    return on_model(target, data, work, checkpoint=checkpoint, threads=threads, what="kernel")


def on_model(
    target: str,
    data: InputOptions,
    work: Callable[[Target, Any, Any, str], Result],
    *,
    checkpoint: Path | None,
    threads: int | None,
    what: str,
) -> Result:
    """Do something with the model that a target names, its batch, the labels if any, and where the batch is from."""
    from isometer.cli._plain_step import is_large, model_error
    from isometer.doctor._loading import load_target, load_weights

    code = target.rpartition(":")[0]
    if code:
        typer.echo(f"note: executing {code} to build the model", err=True)
    with using(threads), running(code) if code else contextlib.nullcontext():
        examined = load_target(target, seed=data.seed)
        if checkpoint is not None:
            load_weights(examined.model, checkpoint)
        inputs, labels, source = _batch(examined, data)
        with using(threads, large=is_large(examined.model, inputs)), status(what):
            try:
                return work(examined, inputs, labels, source)
            except IsometerError:
                raise
            except Exception as problem:
                told = None if examined.executed is None else model_error(examined.model, inputs, source)
                raise (problem if told is None else told) from None


def _batch(examined: Target, data: InputOptions) -> tuple[Any, Any, str]:
    """(inputs, labels or None, where they come from)."""
    from isometer.doctor._loading import load_batch, make_batch_for

    source = data.source
    if source.lower().endswith(_FILES):
        return load_batch(Path(source), examined.model), None, Path(source).name
    if source == "gaussian":
        if examined.batch is not None:
            return examined.batch, examined.target, "the factory's own batch"
        return make_batch_for(examined, source, data.batch or _SAMPLES, shape=None, seed=data.seed)[0], None, source
    if source.startswith("data:"):
        name = source.removeprefix("data:")
        inputs, labels = make_batch_for(examined, name, data.batch or _SAMPLES, shape=None, seed=data.seed)
        return inputs, labels, name
    raise IsometerError(
        f"--input is {source!r}; expected gaussian, data:NAME or a file of a batch for a model — pass one of them"
    )


def _document(
    examined: Target, found: EmpiricalKernel, inputs: Any, labels: Any, source: str, mode: Any, seed: int
) -> dict[str, Any]:
    import numpy as np
    import torch

    document = {"model": examined.name, "batch": source, **found.to_dict()}
    alignment: dict[str, float] = {}
    if isinstance(inputs, torch.Tensor) and inputs.is_floating_point():
        flat = inputs.detach().double().flatten(1).cpu().numpy()
        alignment["inputs"] = found.alignment(flat @ flat.T)
    if isinstance(labels, torch.Tensor) and labels.dim() <= 2 and len(labels) == len(found.matrix):
        alignment["labels"] = found.alignment(np.asarray(labels.detach().cpu().numpy()))
    document["alignment"] = alignment
    document["rates"] = _rates(examined, inputs, labels, mode, seed) if found.kind == "ntk" else {}
    return document


def _rates(examined: Target, inputs: Any, labels: Any, mode: Any, seed: int) -> dict[str, Any]:
    """The largest stable rates: of the model's loss where there are labels, of the mean squared error otherwise."""
    from isometer.doctor.stress._objectives import usual_loss
    from isometer.empirical import largest_stable_rate

    def squared(outputs: Any, _: Any) -> Any:
        return outputs.square().mean()  # its curvature does not depend on the target

    loss = squared if labels is None else (examined.loss or usual_loss)
    options: list[tuple[str, dict[str, Any]]] = [("sgd", {}), ("sgd_momentum", {"momentum": _MOMENTUM})]
    if labels is not None:  # Adam's scale is that of the gradient, which does
        options.append(("adam", {"optimizer": "adam"}))
    found: dict[str, Any] = {"loss": "mean squared error" if labels is None else "cross-entropy or squared error"}
    for name, given in options:
        one = largest_stable_rate(examined.model, inputs, labels, loss=loss, mode=mode, seed=seed, **given)
        found[name] = {"rate": one.rate if math.isfinite(one.rate) else None, "curvature": one.curvature,
                       "error_estimate": one.error_estimate}  # fmt: skip
    return found
