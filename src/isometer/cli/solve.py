"""`isometer solve`: the number at which a network does what you ask for."""

from __future__ import annotations

from enum import StrEnum
from typing import TYPE_CHECKING, Annotated, Any

import typer

from isometer.cli._network import InputOptions, NetworkOptions, kernel_inputs
from isometer.cli._option_groups import takes_options
from isometer.cli._shared import Json, Memory, Time, allowing, app, console, emit, status
from isometer.cli.kernel import KindChoice
from isometer.errors import IsometerError, unknown_name

if TYPE_CHECKING:
    import numpy as np


class UnknownChoice(StrEnum):
    depth = "depth"
    gain = "gain"
    gamma = "gamma"
    bias_variance = "bias-variance"
    activation_scale = "activation-scale"


_NAMES = {"bias-variance": "bias_variance", "activation-scale": "activation_gain"}


@app.command()
@takes_options
def solve(
    unknown: Annotated[
        UnknownChoice, typer.Argument(help="What to solve for: depth, or the number that puts it at the edge of chaos.")
    ],
    network: NetworkOptions,
    data: InputOptions,
    condition: Annotated[
        float | None,
        typer.Option("--condition", metavar="C", help="Depth: the least at which the condition number is at most C."),
    ] = None,
    kind: Annotated[KindChoice, typer.Option("--kind", help="Of the kernel of --condition.")] = KindChoice.nngp,
    cosines: Annotated[
        str | None,
        typer.Option("--cosines", metavar="LOW:HIGH", help="Depth: the largest that keeps all cosines in this band."),
    ] = None,
    gradients: Annotated[
        str | None,
        typer.Option(
            "--gradients",
            metavar="LOW:HIGH",
            help="Depth: the largest that keeps the gradient at the input over that at the output in this band.",
        ),
    ] = None,
    along: Annotated[
        str | None,
        typer.Option(
            "--along",
            metavar="NAME=VALUES",
            help="A curve over a second number: bias-variance=0.01,0.1 or =log:0.01:1:9.",
        ),
    ] = None,
    between: Annotated[
        str | None, typer.Option("--between", metavar="LOW:HIGH", help="Where to look for the number.")
    ] = None,
    most: Annotated[int, typer.Option("--most", metavar="L", help="Largest depth looked at for a band.")] = 1000,
    check: Annotated[bool, typer.Option("--check", help="Simulate the answer at finite width, too.")] = False,
    check_width: Annotated[int, typer.Option("--check-width", metavar="D", help="Width of that simulation.")] = 512,
    check_runs: Annotated[int, typer.Option("--check-runs", metavar="R", help="Networks of that simulation.")] = 16,
    memory: Memory = None,
    time: Time = None,
    as_json: Json = False,
) -> None:
    """The depth, gain, skip strength, bias or activation scale at which a network does what you ask for.

    A depth needs --condition, --cosines or --gradients. The other numbers are solved for the edge of chaos, χ = 1; with
    --along they are a curve.

    Examples: [bold]isometer solve depth --condition 2 --activation 'unit(tanh)' --input data:mnist:scale=norm[/],
    [bold]isometer solve depth --cosines 0:0.95 --input correlated:0.5[/],
    [bold]isometer solve gain --activation tanh --along bias-variance=log:0.01:1:9[/]
    """
    from isometer.solvers import solve as answer_to

    name: Any = _NAMES.get(unknown.value, unknown.value)
    with allowing(memory, time), status("solving"):
        inputs, gram = _inputs(network, data, kernel=condition is not None, needed=unknown is UnknownChoice.depth)
        features = network.width if inputs is None else inputs.shape[-1]
        spec = network.stack(features) if condition is not None else network.made(features)
        answer = answer_to(
            name,
            spec,
            inputs,
            gram=gram,
            condition=condition,
            kind=kind.value,
            cosines=None if cosines is None else _band(cosines, "--cosines"),
            gradients=None if gradients is None else _band(gradients, "--gradients"),
            along=None if along is None else _curve(along),
            between=None if between is None else _band(between, "--between"),
            most=most,
            check=check,
            **({"width": check_width, "runs": check_runs, "seed": data.seed} if check else {}),
        )
    if as_json:
        emit(answer.to_dict())
        return
    from isometer.report._answers import print_answer

    print_answer(console(), answer)


def _inputs(
    network: NetworkOptions, data: InputOptions, *, kernel: bool, needed: bool
) -> tuple[np.ndarray[Any, Any] | None, np.ndarray[Any, Any] | None]:
    """The batch, or the Gram matrix of one with infinitely many features; nothing where only size one matters."""
    if not needed:
        return None, None
    if kernel:
        return kernel_inputs(network, data), None
    return (None, data.gram()) if data.is_wide else (data.samples(data.features_of(network) or network.width), None)


def _band(text: str, option: str) -> tuple[float, float]:
    parts = text.split(":")
    try:
        low, high = map(float, parts)
    except ValueError:
        raise IsometerError(f"{option} is {text!r}; expected two numbers with a colon between — 0.1:0.9, say") from None
    return low, high


def _curve(text: str) -> Any:
    from isometer.run import parse_axes

    known = {name.replace("-", "_"): name for name in list(UnknownChoice) if name != "depth"}
    typed = text.partition("=")[0].strip().replace("-", "_")
    if typed not in known:
        raise unknown_name("number of a network", typed, known)
    [values] = parse_axes([text], known).values()
    try:
        return {_NAMES.get(typed.replace("_", "-"), typed): [float(value) for value in values]}
    except ValueError:
        raise IsometerError(f"--along is {text!r}; expected numbers — bias-variance=0.01,0.1, say") from None
