"""What `isometer sweep` can sweep: for each command its options, and how they become the configuration of a cell."""

from __future__ import annotations

import inspect
import json
import types
from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Union, get_args, get_origin

from isometer.cli import _network
from isometer.cli import kernel as kernel_command
from isometer.cli import predict as predict_command
from isometer.cli import simulate as simulate_command
from isometer.errors import IsometerError, unknown_name

if TYPE_CHECKING:
    import numpy as np

_OWN = ("plot", "out", "as_json", "memory", "time", "threads")  # a sweep has its own, and one thread in each worker


@dataclass(frozen=True)
class SweepTarget:
    """A command that can be swept.

    Args:
        command: its function, whose options a sweep takes too.
        cell: `module:name` of the function that computes one cell.
        configure: from option values to the configuration of a cell.
        check: `module:name` of a function that raises what the cell would raise about its input.
        dropped: options that make no sense in a sweep.
        needed: options without a default.
    """

    command: Callable[..., None]
    cell: str
    configure: Callable[[dict[str, Any]], dict[str, Any]]
    check: str
    dropped: tuple[str, ...] = ()
    needed: tuple[str, ...] = ()

    def parameters(self) -> list[inspect.Parameter]:
        """The command's options; none is required, since the grid may give it."""
        found = []
        for parameter in inspect.signature(self.command, eval_str=True).parameters.values():
            if parameter.name in (*_OWN, *self.dropped):
                continue
            if parameter.default is inspect.Parameter.empty:
                kind, *extras = get_args(parameter.annotation)
                annotation = Annotated[(kind | None, *extras)]  # type: ignore[valid-type]
                parameter = parameter.replace(default=None, annotation=annotation)
            found.append(parameter)
        return found

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
    source, samples = options["source"], options["batch"]
    own = _network.is_file(source) or source.startswith("data:")  # brings its own samples
    spec = None if options["spec"] is None else _network.spec_from_file(options["spec"])
    data: Any = {"kind": source, "samples": samples or 10}
    if own:
        data = _batch(source, samples, None if spec is None else spec.input_width, options["seed"])
    if spec is None:
        names = ("width", "depth", "activation", "norm", "weights", "gamma", "gain", "bias_variance")
        given = {name: options[name] for name in names}
        features = data.shape[-1] if own else options["width"]
        spec = _network.spec_from_options(**given, position=options["norm_position"], features=features)
    return json.loads(spec.to_json()), data, metrics


def kernel_configuration(options: dict[str, Any]) -> dict[str, Any]:
    """As `isometer kernel` reads its options."""
    plain = {name: value.value if isinstance(value, StrEnum) else value for name, value in options.items()}
    return {**plain, "inputs": _inputs(options["inputs"])}


@lru_cache(maxsize=16)
def _batch(source: str, samples: int | None, features: int | None, seed: int) -> np.ndarray[Any, Any]:
    """Read once for all cells."""
    from isometer.data._batches import make_batch

    return _frozen(make_batch(source, samples, features, seed=seed))


@lru_cache(maxsize=16)
def _inputs(path: Path) -> np.ndarray[Any, Any]:
    """Read once for all cells."""
    from isometer.data._arrays import read_numbers

    return _frozen(read_numbers(path))


def _frozen(array: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
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
        needed=("activation", "inputs", "depth"),
    ),
}
