"""`isometer scaling`: a model at several widths and depths, and whether its learning rate transfers."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from isometer.checks import WIDEST, whole_number
from isometer.cli._application import listed
from isometer.cli._network import check_folders
from isometer.cli._panels import Panel
from isometer.cli._shared import (
    INPUT,
    MEASUREMENT,
    OUTPUT,
    Json,
    Memory,
    Plot,
    Threads,
    allowing,
    app,
    console,
    emit,
    next_step,
    status,
    tell_file,
)
from isometer.cli._threads import threads as using
from isometer.cli._user_code import running
from isometer.errors import IsometerError
from isometer.extras import need
from isometer.files import write_whole

if TYPE_CHECKING:
    from collections.abc import Callable

    from isometer.doctor.scaling import ScalingCheck

SIZES, TRAINING = Panel("Sizes"), Panel("Training")
WRONG, UNDECIDED = 1, 3
_BATCHES = 64  # of a data set
_MOST_SEEDS = 1000


@app.command()
def scaling(
    target: Annotated[
        str,
        typer.Argument(
            metavar="FILE:FACTORY",
            help="path/to/file.py:factory or package.module:factory, a function of width and depth (or one of them) "
            "that returns a model. It may also return (model, optimizer, batch, target). The file is executed.",
            show_default=False,
        ),
    ],
    widths: Annotated[
        list[str] | None, SIZES("--widths", metavar="N,N,…", help="64,128,256 by default; none keeps the width.")
    ] = None,
    depths: Annotated[
        list[str] | None, SIZES("--depths", metavar="L,L,…", help="2,4,8 by default; none keeps the depth.")
    ] = None,
    optimizer: Annotated[
        str,
        TRAINING(
            "--optimizer",
            metavar="NAME",
            help="Optimizer you train with: adam, sgd (momentum 0.9), adamw, …; the factory's own, if it returns one.",
        ),
    ] = "adam",
    lr: Annotated[
        float | None,
        TRAINING(
            "--lr", metavar="RATE", help="Your learning rate at the smallest size; by default the optimizer's own."
        ),
    ] = None,
    rates: Annotated[
        list[str] | None,
        TRAINING(
            "--rates",
            metavar="R,R,…",
            help="Rates of the sweep, at the smallest size; seven around --lr by default, none for no sweep.",
        ),
    ] = None,
    sweep_steps: Annotated[
        int, TRAINING("--sweep-steps", metavar="N", help="Training steps for each rate of the sweep.")
    ] = 40,
    source: Annotated[
        str,
        INPUT(
            "--input",
            metavar="SOURCE",
            help="gaussian (the factory's own batch, or made-up inputs or tokens), a data set (fashion-mnist, cifar10, "
            "mnist, digits), or a file: .npy, .npz, .csv, .safetensors or torch tensors.",
        ),
    ] = "gaussian",
    batch: Annotated[int, INPUT("--batch", metavar="N", help="Samples per batch of a data set.")] = 64,
    steps: Annotated[
        int, MEASUREMENT("--steps", metavar="N", help="Optimizer steps, each measured; 0 measures initial models only.")
    ] = 5,
    seeds: Annotated[int, MEASUREMENT("--seeds", metavar="N", help="Number of models of each size.")] = 3,
    aim: Annotated[
        str | None,
        MEASUREMENT(
            "--aim",
            metavar="NAME",
            help="Parametrisation to judge by: standard, mup, depth-mup or completep; completep by default, mup "
            "without depths or skip connections.",
        ),
    ] = None,
    code: Annotated[
        Path | None, OUTPUT("--code", metavar="FILE.py", help="Also write the corrections as Python code.")
    ] = None,
    plot: Plot = None,
    memory: Memory = None,
    threads: Threads = None,
    as_json: Json = False,
) -> None:
    """Check whether a learning rate tuned on a small model suits wider and deeper ones, and say what to change if not.

    The models are trained for a few steps at every width and depth, as in the coordinate check of muP. The table shows
    how activations, updates and outputs grow, beside the predictions of standard parametrisation, muP, depth-muP and
    CompleteP, with a verdict for each group of parameters. Corrections come as code. Short sweeps of the rate at the
    smallest, widest and deepest model show whether the best rate transfers, without and with the corrections.

    The exit code is 0 if every exponent fits the parametrisation, 1 if one does not, 3 if it is unclear, 2 for an
    error.

    The file is executed: name only code that you would run.

    Examples: [bold]isometer scaling my_model.py:make --widths 64,128,256 --depths 2,4,8[/],
    [bold]isometer scaling my_model.py:make --optimizer sgd --lr 0.1 --plot scaling.png[/],
    [bold]isometer scaling my_model.py:make --depths none --rates none[/] (widths alone, no sweep)
    """
    check_folders(plot, code)
    whole_number(seeds, "--seeds", high=_MOST_SEEDS, fix="pass the number of seeds")
    whole_number(batch, "--batch", high=WIDEST, fix="pass the number of samples")
    asked: dict[str, Any] = {
        "widths": _numbers("--widths", widths, int, "64,128,256"),
        "depths": _numbers("--depths", depths, int, "2,4,8"),
        "rates": _numbers("--rates", rates, float, "1e-4,1e-3,1e-2"),
    }
    with status("loading torch"):
        need("torch", "a scaling check")
    from isometer.doctor._loading import load_factory
    from isometer.doctor.scaling import scaling_check

    where = target.rpartition(":")[0]
    typer.echo(f"note: executing {where or target} to build the models", err=True)
    with allowing(memory, None), using(threads), running(where):
        factory = load_factory(target)
        inputs = _inputs(factory, source, batch, asked)
        with status("scaling") as told:
            check = scaling_check(
                factory,
                batch=inputs,
                optimizer=optimizer,
                lr=lr,
                steps=steps,
                aim=aim,
                sweep_steps=sweep_steps,
                seeds=range(seeds),
                told=told,
                **asked,
            )
    _show(check, target, code, plot, as_json)
    if check.scales is not True:
        raise typer.Exit(UNDECIDED if check.scales is None else WRONG)


def _numbers(option: str, values: list[str] | None, kind: type, example: str) -> list[Any] | None:
    """The numbers of an option; an empty list for `none`, None where it is not given."""
    if values is None:
        return None
    texts = listed(values)
    if texts == ["none"]:
        return []
    try:
        return [kind(text) for text in texts]
    except ValueError:
        what = "whole numbers" if kind is int else "numbers"
        raise IsometerError(
            f"{option} takes {what} with commas between them, or none; got {','.join(values)[:60]!r} — {option} "
            f"{example}, for example"
        ) from None


def _inputs(factory: Callable[..., Any], source: str, n: int, asked: dict[str, Any]) -> Any:
    """The batch, or the batches of a data set; None for that of the factory or made-up ones."""
    from isometer.data import CATALOG
    from isometer.doctor._loading import Target, load_batch, make_batch_for
    from isometer.doctor.scaling._sizes import smallest_model

    if source == "gaussian":
        return None
    model = smallest_model(factory, asked["widths"], asked["depths"])
    name = source.removeprefix("data:")
    if name not in CATALOG:
        return load_batch(Path(source), model)
    seen = Target("the factory", model)
    return [make_batch_for(seen, name, n, shape=None, seed=seed) for seed in range(_BATCHES)]


def _show(check: ScalingCheck, target: str, code: Path | None, plot: Path | None, as_json: bool) -> None:
    document = {"model": target, **check.to_dict()}
    if code is not None and check.code:
        write_whole(code, check.code.encode())
    if plot is not None:
        check.plot(plot)
    if as_json:
        emit(document)
        return
    from isometer.report._scaling import print_scaling

    page = console()
    print_scaling(page, document)
    for label, path in (("picture", plot), ("code", code if check.code else None)):
        if path is not None:
            tell_file(page, label, path)
    if check.scales is None:
        next_step(page, "the same with more --seeds, or with larger --widths and --depths")
    elif check.code:
        next_step(page, "use scaled_groups in the factory, return (model, optimizer), and run this again")
    elif plot is None:
        next_step(page, "the same with --plot scaling.png")
    else:
        next_step(page, "tune the rate at the smallest size and train the largest with it")
