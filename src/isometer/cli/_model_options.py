"""Options of commands that look at a model as it is, and how such a command finds the model and its batch."""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal, TypeVar

import typer

from isometer.checks import seed_number
from isometer.cli._network import InputOptions, NetworkOptions
from isometer.cli._shared import MODEL, status
from isometer.cli._threads import threads as using
from isometer.cli._user_code import running
from isometer.errors import IsometerError
from isometer.extras import need

if TYPE_CHECKING:
    from isometer.doctor._loading import Target

Result = TypeVar("Result")
_FILES = (".npy", ".npz", ".csv", ".safetensors", ".pt", ".pth")
_SAMPLES = 32  # of a batch that is made up


@dataclass(frozen=True)
class ModelOptions:
    """A model as it is, in place of a network at infinite width."""

    model: Annotated[
        str | None,
        MODEL(
            "--model",
            metavar="FILE:FACTORY",
            help="A PyTorch model as it is, instead of a network at infinite width; a target of `isometer doctor`. A "
            "file or package is executed.",
        ),
    ] = None
    checkpoint: Annotated[
        Path | None,
        MODEL("--checkpoint", metavar="FILE", help="Weights for the --model: .safetensors or a state dict."),
    ] = None
    evaluate: Annotated[
        bool, MODEL("--eval", help="Put the --model into evaluation mode instead of training mode.")
    ] = False
    given: frozenset[str] = field(default=frozenset())

    @property
    def mode(self) -> Literal["train", "eval"]:
        """Training mode unless --eval is given."""
        return "eval" if self.evaluate else "train"

    def check(self, network: NetworkOptions, *, only_models: dict[str, Any], only_networks: dict[str, Any]) -> bool:
        """Whether there is a model; options that do not go with that are refused.

        Args:
            network: the options of a network.
            only_models: options that are about a model, by name; None or False where they were not typed.
            only_networks: options of the command that are about a network.
        """
        if self.model is None:
            typed = [f"--{name}" for name, value in only_models.items() if value not in (None, False)]
            typed += [{"evaluate": "--eval"}.get(name, f"--{name}") for name in sorted(self.given)]
            if typed:
                raise IsometerError(f"{typed[0]} applies to a --model; expected one — pass --model FILE:FACTORY")
            return False
        others = [*sorted(network.given), *(name for name, value in only_networks.items() if value is not None)]
        if others:
            option = others[0].replace("_", "-")
            raise IsometerError(f"--model already names a network; expected only one — drop --{option}")
        return True

    def examine(
        self,
        data: InputOptions,
        work: Callable[[Target, Any, Any, str], Result],
        *,
        threads: int | None,
        what: str,
    ) -> Result:
        """Do something with the model, its batch, the labels if any, and where the batch is from."""
        need("torch", f"the {what} of a model")
        from isometer.cli._plain_step import attempt, is_large
        from isometer.doctor._loading import load_target, load_weights

        assert self.model is not None
        seed_number(data.seed, "--seed")
        code = self.model.rpartition(":")[0]
        if code:
            typer.echo(f"note: executing {code} to build the model", err=True)
        with using(threads), running(code) if code else contextlib.nullcontext():
            examined = load_target(self.model, seed=data.seed)
            if self.checkpoint is not None:
                load_weights(examined.model, self.checkpoint)
            inputs, labels, source = _batch(examined, data)
            with using(threads, large=is_large(examined.model, inputs)), status(what):
                run = functools.partial(work, examined, inputs, labels, source)
                made = not data.source.lower().endswith(_FILES)
                return attempt(run, examined, inputs, source, made=made)


def _batch(examined: Target, data: InputOptions) -> tuple[Any, Any, str]:
    """(inputs, labels or None, where they come from)."""
    from isometer.doctor._loading import load_batch, make_batch_for

    source = data.source
    if source.lower().endswith(_FILES):
        return load_batch(Path(source), examined.model), None, Path(source).name
    if source == "gaussian":
        if examined.batch is not None:
            return examined.batch, examined.target, "the factory's own batch"
        samples = _SAMPLES if data.batch is None else data.batch
        return make_batch_for(examined, source, samples, shape=None, seed=data.seed)[0], None, source
    if source.startswith("data:"):
        name = source.removeprefix("data:")
        inputs, labels = make_batch_for(examined, name, data.batch or _SAMPLES, shape=None, seed=data.seed)
        return inputs, labels, name
    raise IsometerError(
        f"--input is {source!r}; expected gaussian, data:NAME or a file of a batch for a model — pass one of them"
    )
