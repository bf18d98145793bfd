"""What `isometer sweep` can sweep: for each command its options, and how they become the configuration of a cell."""

from __future__ import annotations

import inspect
import json
import types
from collections.abc import Callable
from dataclasses import dataclass, fields
from enum import StrEnum
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, Union, get_args, get_origin

from isometer.cli import _network
from isometer.cli import kernel as kernel_command
from isometer.cli import predict as predict_command
from isometer.cli import simulate as simulate_command
from isometer.errors import IsometerError, unknown_name

if TYPE_CHECKING:
    import numpy as np

_OWN = (
    "plot",
    "out",
    "as_json",
    "memory",
    "time",
    "threads",
    "context",
)  # a sweep has its own, and one thread in each worker


@dataclass(frozen=True)
class SweepTarget:
    """A command that can be swept.

    Args:
        command: its function, whose options a sweep takes too.
        cell: `module:name` of the function that computes one cell.
        configure: from option values to the configuration of a cell.
        check: `module:name` of a function that raises what the cell would raise about its input.
        dropped: options that make no sense in a sweep.
    """

    command: Callable[..., None]
    cell: str
    configure: Callable[[dict[str, Any]], dict[str, Any]]
    check: str
    dropped: tuple[str, ...] = ()

    def parameters(self) -> list[inspect.Parameter]:
        """The command's options, all of which have a default."""
        options = inspect.signature(self.command, eval_str=True).parameters.values()
        return [parameter for parameter in options if parameter.name not in (*_OWN, *self.dropped)]

    def axes(self) -> dict[str, inspect.Parameter]:
        """Options that a grid can vary, by the name that users type."""
        found = {}
        for parameter in self.parameters():
            kinds = _kinds(parameter)
            if bool not in kinds and not any(get_origin(kind) is list for kind in kinds):
                found[_typed_name(parameter)] = parameter
        return found


def _typed_name(parameter: inspect.Parameter) -> str:
    """`input` for `--input`, whatever the variable is called."""
    option = get_args(parameter.annotation)[1]
    declared = (option.default, *(option.param_decls or ()))  # in an Annotated the first stands where defaults do
    names = [name for name in declared if isinstance(name, str) and name.startswith("--")]
    return (names[0][2:] if names else parameter.name).replace("-", "_")


def _kinds(parameter: inspect.Parameter) -> tuple[Any, ...]:
    kind = get_args(parameter.annotation)[0]
    return get_args(kind) if get_origin(kind) in (Union, types.UnionType) else (kind,)


def converted(name: str, text: str, parameter: inspect.Parameter) -> Any:
    """A value of the grid as the type of its option."""
    kind = next(kind for kind in _kinds(parameter) if kind is not type(None))
    if isinstance(kind, type) and issubclass(kind, StrEnum):
        if text not in list(kind):
            raise unknown_name(f"value of the grid's {name}:", text, kind)
        return kind(text)
    if kind in (int, float):
        try:
            # 1e3 is whole too; plain digits go through int, which does not round.
            number = float(text)
            return int(text) if kind is int and "e" not in text.lower() else (_whole(number) if kind is int else number)
        except (ValueError, OverflowError):
            what = "a whole number" if kind is int else "a number"
            raise IsometerError(f"the grid has {name}={text}; expected {what} — correct it") from None
    return Path(text) if kind is Path else text


def _whole(number: float) -> int:
    if abs(number) > 2**53 or number != int(number):  # beyond, a float is no exact number
        raise ValueError
    return int(number)


def simulation_configuration(options: dict[str, Any]) -> dict[str, Any]:
    """As `isometer simulate` reads its options."""
    spec, data, metrics = _setting(options)
    chosen = {name: str(options[name].value) for name in ("engine", "at", "loss", "dtype")}
    record = {"spec": spec, "input": data, "metrics": metrics, **chosen}
    return {**record, "runs": options["runs"], "seed": options["seed"]}


def prediction_configuration(options: dict[str, Any]) -> dict[str, Any]:
    """As `isometer predict` reads its options."""
    spec, data, metrics = _setting(options)
    return {"spec": spec, "input": data, "metrics": metrics, "at": str(options["at"].value), "seed": options["seed"]}


def _setting(options: dict[str, Any]) -> tuple[Any, Any, list[str]]:
    """The spec as JSON data, the input as an array or by kind, and the metrics."""
    metrics = _network.chosen_metrics(options["metric"], options["backward"])
    network, inputs = (_group(kind, options) for kind in (_network.NetworkOptions, _network.InputOptions))
    if not _network.brings_features(inputs.source):
        if inputs.is_wide:
            inputs.samples(None)  # says that a sweep needs features
        data: Any = {"kind": inputs.source, "samples": inputs.batch or 10}
        spec = network.made()
    else:
        data = _batch(inputs)
        spec = network.made(data.shape[-1])
        data = _network.shaped(data, spec)
    return json.loads(spec.to_json()), data, metrics


def _group(kind: type[Any], options: dict[str, Any]) -> Any:
    return kind(**{f.name: options[f.name] for f in fields(kind) if f.name in options})


def kernel_configuration(options: dict[str, Any]) -> dict[str, Any]:
    """As `isometer kernel` reads its options."""
    network, inputs = (_group(kind, options) for kind in (_network.NetworkOptions, _network.InputOptions))
    features = inputs.features_of(network)
    samples = _network.rooted(inputs.gram(), features) if inputs.is_wide else _batch(inputs, features or network.width)
    spec = network.stack(samples.shape[-1])
    if network.brings_its_own:
        samples = _network.shaped(samples, spec)
    kind = str(getattr(options["kind"], "value", "nngp"))
    return {"spec": json.loads(spec.to_json()), "inputs": samples, "kind": kind}


@lru_cache(maxsize=16)
def _batch(inputs: _network.InputOptions, features: int | None = None) -> np.ndarray[Any, Any]:
    """Read once for all cells."""
    array = inputs.samples(features)
    array.setflags(write=False)  # many cells share it
    return array


TARGETS = {  # a new target is an entry here
    "simulate": SweepTarget(
        simulate_command.simulate,
        "isometer.run.targets.simulation:simulate_cell",
        simulation_configuration,
        "isometer.run.targets.simulation:check_simulation",
    ),
    "predict": SweepTarget(
        predict_command.predict,
        "isometer.run.targets.predict:predict_cell",
        prediction_configuration,
        "isometer.run.targets.predict:check_prediction",
        dropped=("against_simulation", "compare", "runs", "engine", "dtype", "loss"),
    ),
    "kernel": SweepTarget(
        kernel_command.kernel,
        "isometer.run.targets.kernel:kernel_cell",
        kernel_configuration,
        "isometer.run.targets.kernel:check_kernel",
        dropped=("depths",),
    ),
}
