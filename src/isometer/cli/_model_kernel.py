"""`isometer kernel --model`: the kernel of a model as it is, its drift, and its distance to the limit."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

from isometer.cli._model_options import ModelOptions
from isometer.cli._network import InputOptions
from isometer.cli._shared import MODEL
from isometer.errors import IsometerError

if TYPE_CHECKING:
    from isometer.doctor._loading import Target
    from isometer.empirical import KernelSummary


@dataclass(frozen=True)
class ModelKernelOptions:
    """What else to find out about the kernel of a model."""

    since: Annotated[
        Path | None,
        MODEL(
            "--since",
            metavar="FILE",
            help="Earlier checkpoint of the --model; shows how far the kernel has moved since, by layer.",
        ),
    ] = None
    limit: Annotated[
        bool,
        MODEL(
            "--limit", help="Also compute the distance to the kernel of the --model's architecture at infinite width."
        ),
    ] = False
    sketch: Annotated[
        int | None,
        MODEL(
            "--sketch",
            metavar="K",
            help="Use K random combinations of the --model's outputs instead of all of them, with an error estimate.",
        ),
    ] = None
    draws: Annotated[
        int | None, MODEL("--draws", metavar="N", help="Average over N draws of the --model's dropout.")
    ] = None
    site: Annotated[
        str | None,
        MODEL(
            "--site",
            metavar="MODULE",
            help="With --kind nngp: the kernel of this module's output; by default, of the last linear layer's input.",
        ),
    ] = None
    given: frozenset[str] = field(default=frozenset())

    def of_kernel(self, kind: str) -> dict[str, Any]:
        """Arguments of `empirical_kernel`."""
        if kind == "nngp" and (self.sketch is not None or self.limit):
            option = "--sketch" if self.sketch is not None else "--limit"
            raise IsometerError(f"{option} applies to the tangent kernel; expected --kind ntk — drop one of them")
        if kind == "ntk" and self.site is not None:
            raise IsometerError("--site applies to the conjugate kernel; expected --kind nngp — add it")
        found: dict[str, Any] = {}
        if self.sketch is not None:
            found |= {"method": "sketch", "vectors": self.sketch}
        if self.draws is not None:
            found["draws"] = self.draws
        if self.site is not None:
            found["site"] = self.site
        return found


@dataclass(frozen=True)
class ModelKernel:
    """What the command found, and as a dictionary for JSON and pictures."""

    summary: KernelSummary
    document: dict[str, Any]


def model_kernel(
    model: ModelOptions, more: ModelKernelOptions, data: InputOptions, kind: Literal["nngp", "ntk"], threads: int | None
) -> ModelKernel:
    """The kernel of a model that a target names; code in the target is executed.

    Args:
        model: which one, with which weights, in which mode.
        more: what else to find out.
        data: where the batch comes from: a file, a data set, or numbers made up for the model.
        kind: kind of kernel.
        threads: that compute.
    """
    options = more.of_kernel(kind)

    def work(examined: Target, inputs: Any, labels: Any, source: str) -> ModelKernel:
        from isometer.empirical import compare_with_limit, kernel_summary

        limit = None
        if more.limit:  # first: it may refuse the model
            limit = compare_with_limit(examined.model, inputs, kind=kind, mode=model.mode, seed=data.seed)
        found = kernel_summary(
            examined.model,
            inputs,
            labels,
            loss=_loss(examined),
            kind=kind,
            mode=model.mode,
            seed=data.seed,
            **options,
        )
        found = replace(found, limit=limit)
        if more.since is not None:  # last: the earlier weights take the place of the present ones
            found = replace(found, drift=_drift(examined, inputs, found, more.since, model, data.seed, options))
        return ModelKernel(found, {"model": examined.name, "batch": source, **found.to_dict()})

    return model.examine(data, work, threads=threads, what="kernel")


def _drift(
    examined: Target,
    inputs: Any,
    found: KernelSummary,
    since: Path,
    model: ModelOptions,
    seed: int,
    options: dict[str, Any],
) -> Any:
    from isometer.doctor._loading import load_weights
    from isometer.empirical import empirical_kernel, kernel_drift

    load_weights(examined.model, since)
    now = found.kernel
    before = empirical_kernel(examined.model, inputs, kind=now.kind, mode=model.mode, by="layer", seed=seed, **options)
    return kernel_drift(before, now)


def _loss(examined: Target) -> Any:
    from isometer.doctor.stress._objectives import usual_loss

    return examined.loss or usual_loss
