"""What `isometer doctor` examines, with which batch, and the examination itself."""

from __future__ import annotations

import functools
import itertools
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from isometer.checks import WIDEST
from isometer.cli._network import network_from
from isometer.cli._shared import status
from isometer.errors import IsometerError

if TYPE_CHECKING:
    from isometer.cli._doctor_options import ExaminationOptions
    from isometer.doctor._loading import Target

_FEW = 4  # samples of a batch that says how much a larger one takes
_CHEAP = 3.0  # seconds of a tangent kernel that nobody asked for
_FEATURES = 100  # of the input of a network that does not say


@dataclass(frozen=True)
class StressOptions:
    """How the stress test is to be run, if at all."""

    run: bool
    optimizer: str | None = None
    lr: float | None = None
    budget: float | None = None


@dataclass(frozen=True)
class Prepared:
    """What a model is examined with.

    `made` says whether it was made for it, of samples of this shape and of this data set; `more` then makes other
    batches, by seed.
    """

    inputs: Any
    labels: Any
    loss: Any
    description: str
    made: bool
    shape: tuple[int, ...] | None
    more: Callable[[int], tuple[Any, Any]] | None = None
    data: str = "gaussian"

    def fresh(self) -> Any:
        """Batches for the stress test, `None` where no others than the one can be made."""
        return None if self.more is None else map(self.more, itertools.count(1))


def examined_target(target: str | None, options: ExaminationOptions) -> Target:
    """The model that a command names, with the weights of a checkpoint if there is one."""
    from isometer.doctor._loading import load_target, load_weights, network_target

    if target is not None and target.endswith(".json"):
        examined = network_target(network_from(target, _FEATURES), Path(target).stem, seed=options.seed)
    elif target is not None:
        examined = load_target(target, seed=options.seed)
    else:
        assert options.network is not None
        spec = network_from(options.network, _FEATURES)
        examined = network_target(spec, str(spec), seed=options.seed)
    if options.checkpoint is not None:
        load_weights(examined.model, options.checkpoint)
    return examined


def _data_set(source: str) -> str | None:
    """The name of the data set that an input is, if it is one."""
    from isometer.data import CATALOG

    if source.startswith("data:"):
        return source.removeprefix("data:")
    return source if source in CATALOG else None


def input_file(source: str) -> Path | None:
    """The file that an input is: whatever is neither made nor a data set."""
    return None if source == "gaussian" or _data_set(source) is not None else Path(source)


def prepared_batch(examined: Target, source: str, n: int | None, shape: str | None, seed: int) -> Prepared:
    """The batch of a command: a file, the factory's own, or one that is made."""
    import torch

    from isometer.doctor._loading import load_batch, make_batch_for
    from isometer.doctor.probe._kept import check_pass
    from isometer.doctor.probe._made_up import made_up_words, with_offsets
    from isometer.doctor.stress._objectives import usual_loss

    labels, description, made, size = examined.target, "the factory's own batch", False, _shape(shape)
    file, data = input_file(source), _data_set(source) or "gaussian"
    if file is not None:
        inputs, labels, description = load_batch(file, examined.model), None, file.name
    elif examined.batch is not None:
        inputs = examined.batch
    else:
        if n is not None and n > _FEW:
            check_pass(examined.model, make_batch_for(examined, data, _FEW, shape=size, seed=seed)[0], _FEW, n)
        inputs, labels = make_batch_for(examined, data, n, shape=size, seed=seed)
        # Labels of made-up inputs are random: the doctor has better ones.
        labels = None if data == "gaussian" else labels
        description, made = made_up_words(inputs) if data == "gaussian" else data, True
    loss = examined.loss
    if labels is None:
        loss = None
    elif loss is None and isinstance(labels, torch.Tensor) and not labels.is_floating_point():
        loss = usual_loss
    elif loss is None:
        labels = None

    def more(number: int) -> tuple[Any, Any]:
        inputs, targets = make_batch_for(examined, data, n, shape=size, seed=seed + number)
        return (inputs, targets) if labels is not None else (with_offsets(inputs, seed=number), None)

    return Prepared(inputs, labels, loss, description, made, size, more if made else None, data)


def diagnosed(
    examined: Target, prepared: Prepared, evaluate: bool, seed: int, test: StressOptions, *, predict: bool = True
) -> Any:
    """The report on a model and its batch."""
    from isometer.doctor import diagnose

    run = functools.partial(
        diagnose,
        examined.model,
        prepared.inputs,
        target=prepared.labels,
        loss=prepared.loss,
        fresh=prepared.fresh() if test.run else None,
        optimizer=test.optimizer,
        lr=test.lr,
        stress=test.run,
        budget=test.budget,
        mode="eval" if evaluate else "train",
        name=examined.name,
        description=prepared.description,
        predict=predict,
        seed=seed,
    )
    with status("examining", test.budget if test.run else None) as told:
        return told_by_model(examined, prepared, functools.partial(run, told=told))


def kernel_panel(examined: Target, prepared: Prepared, evaluate: bool, seed: int, *, asked: bool) -> dict[str, Any]:
    """The tangent kernel of the batch, or why there is none: a model that trains is no less so without it."""
    from isometer.empirical import kernel_summary
    from isometer.work import TooMuchWorkError, allow

    try:
        with allow(seconds=None if asked else _CHEAP), status("tangent kernel"):
            found = kernel_summary(
                examined.model,
                prepared.inputs,
                prepared.labels,
                loss=prepared.loss,
                mode="eval" if evaluate else "train",
                method="auto" if asked else "structured",
                seed=seed,
            )
    except TooMuchWorkError as problem:
        hint = "" if asked else "; --kernel calculates it, from random combinations of outputs if it is long"
        return {"skipped": f"{str(problem).partition(';')[0]}{hint}"}
    except IsometerError as problem:
        return {"skipped": str(problem)}
    return found.to_dict()


def told_by_model(examined: Target, prepared: Prepared, run: Callable[[], Any]) -> Any:
    """What `run` gives; where a user's model fails on the batch, an error that says so and what to do."""
    from isometer.cli._plain_step import attempt

    return attempt(run, examined, prepared.inputs, prepared.description, made=prepared.made)


def large_model(examined: Target, prepared: Prepared) -> bool:
    """Whether several threads are worth it."""
    from isometer.cli._plain_step import is_large

    return is_large(examined.model, prepared.inputs)


def _shape(text: str | None) -> tuple[int, ...] | None:
    if text is None:
        return None
    try:
        shape = tuple(int(part) for part in text.replace("x", ",").split(","))
    except ValueError:
        shape = ()
    if not shape or not 1 <= min(shape) <= max(shape) <= WIDEST:
        raise IsometerError(f"--shape is {text!r}; expected positive whole numbers, for example 3,32,32")
    return shape
