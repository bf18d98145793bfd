"""`isometer solve`: the number that gives a network the property you choose."""

from __future__ import annotations

import math
from dataclasses import replace
from enum import StrEnum
from typing import TYPE_CHECKING, Annotated, Any

import typer

from isometer.cli._network import InputOptions, NetworkOptions, kernel_inputs, tell
from isometer.cli._option_groups import takes_options
from isometer.cli._panels import Panel
from isometer.cli._shared import Json, Memory, Time, allowing, app, console, emit, status
from isometer.cli._token_phase import token_start, transformer
from isometer.cli.kernel import KindChoice
from isometer.errors import IsometerError, unknown_name

if TYPE_CHECKING:
    import numpy as np

    from isometer.solvers import Answer


class SolveFor(StrEnum):
    depth = "depth"
    gain = "gain"
    gamma = "gamma"
    bias_variance = "bias-variance"
    activation_scale = "activation-scale"
    skip = "skip"
    branch = "branch"
    qk_gain = "qk-gain"
    deepnorm = "deepnorm"


_NAMES = {"bias-variance": "bias_variance", "activation-scale": "activation_gain", "qk-gain": "qk_gain"}
DEPTH, EDGE, TRANSFORMERS, CHECK = (
    Panel("Depth"),
    Panel("Edge of chaos"),
    Panel("Transformers"),
    Panel("Check by simulation"),
)
_OF_TOKENS = ("skip", "branch", "qk-gain", "deepnorm")


@app.command()
@takes_options
def solve(
    unknown: Annotated[
        SolveFor,
        typer.Argument(metavar="WHAT", help=f"What to solve for: {', '.join(SolveFor)}.", show_choices=False),
    ],
    network: NetworkOptions,
    data: InputOptions,
    condition: Annotated[
        float | None, DEPTH("--condition", metavar="C", help="Least depth with a condition number of at most C.")
    ] = None,
    kind: Annotated[KindChoice, DEPTH("--kind", help="Kernel whose condition number counts.")] = KindChoice.nngp,
    cosines: Annotated[
        str | None, DEPTH("--cosines", metavar="LOW:HIGH", help="Largest depth that keeps all cosines in this band.")
    ] = None,
    gradients: Annotated[
        str | None,
        DEPTH(
            "--gradients",
            metavar="LOW:HIGH",
            help="Largest depth that keeps the ratio of input to output gradient in this band.",
        ),
    ] = None,
    along: Annotated[
        str | None,
        EDGE(
            "--along",
            metavar="NAME=VALUES",
            help="Solve along a second number: bias-variance=0.01,0.1 or =log:0.01:1:9.",
        ),
    ] = None,
    between: Annotated[str | None, EDGE("--between", metavar="LOW:HIGH", help="Range to search.")] = None,
    most: Annotated[int, DEPTH("--most", metavar="L", help="Largest depth to try for a band.")] = 1000,
    token_cosine: Annotated[
        float | None,
        TRANSFORMERS("--token-cosine", metavar="C", help="Least depth at which the cosine of tokens reaches C."),
    ] = None,
    entropy: Annotated[
        float | None,
        TRANSFORMERS(
            "--entropy",
            metavar="SHARE",
            help="qk-gain: where entropy falls to this share of its maximum; 0.1 by default.",
        ),
    ] = None,
    update: Annotated[
        float | None,
        TRANSFORMERS(
            "--update", metavar="U", help="branch, skip, qk-gain: where a step of rate η moves outputs by U η."
        ),
    ] = None,
    check: Annotated[bool, CHECK("--check", help="Also simulate the answer at finite width.")] = False,
    check_width: Annotated[int, CHECK("--check-width", metavar="D", help="Width of that simulation.")] = 512,
    check_runs: Annotated[int, CHECK("--check-runs", metavar="R", help="Number of networks in that simulation.")] = 16,
    memory: Memory = None,
    time: Time = None,
    as_json: Json = False,
) -> None:
    """Find the depth, gain, skip strength, bias or activation scale that gives a network a property you choose.

    depth needs --condition, --cosines, --gradients or --token-cosine. gain, gamma, bias-variance and
    activation-scale are solved for the edge of chaos, χ = 1; --along gives a curve.

    For transformers: skip and branch are solved for tokens that neither separate nor merge, or for --update; qk-gain
    for the point where the entropy of attention collapses; deepnorm gives its α and β.

    Examples: [bold]isometer solve depth --condition 2 --activation 'unit(tanh)' --input data:mnist:scale=norm[/],
    [bold]isometer solve depth --cosines 0:0.95 --input correlated:0.5[/],
    [bold]isometer solve gain --activation tanh --along bias-variance=log:0.01:1:9[/],
    [bold]isometer solve qk-gain --network 'gpt(blocks=12, branch=0.2)'[/]
    """
    from isometer.solvers import solve as answer_to
    from isometer.spec import uniform_positions

    name: Any = _NAMES.get(unknown.value, unknown.value)
    band = None if between is None else _band(between, "--between")
    if unknown.value in _OF_TOKENS or token_cosine is not None:
        asked: dict[str, Any] = {"token_cosine": token_cosine, "entropy": entropy, "update": update, "most": most}
        checking: dict[str, Any] = {"runs": check_runs, "seed": data.seed} if check else {}
        with allowing(memory, time), status("solving"):
            spec, cosine = transformer(network), token_start(data)
            _show(answer_to(name, spec, cosine=cosine, between=band, check=check, **asked, **checking), as_json)
        return
    if entropy is not None or update is not None:
        raise IsometerError(f"--entropy and --update apply to transformers, not to {unknown.value} — drop them")
    with allowing(memory, time), status("solving"):
        of_depth = unknown is SolveFor.depth
        if unknown is SolveFor.gamma and not network.brings_its_own and math.isinf(network.gamma):
            network = replace(network, gamma=1.0)  # a skip connection, whose strength is solved for
        inputs, gram = _inputs(network, data, kernel=condition is not None, needed=of_depth)
        features = network.width if inputs is None else inputs.shape[-1]
        by_size = condition is not None or not of_depth
        spec = network.stack(features) if by_size else network.made(features)
        if spec.shape.axes and inputs is None:
            spec, note = uniform_positions(spec)
            tell(f"the answer is that {note}")
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
            between=band,
            most=most,
            check=check,
            **({"width": check_width, "runs": check_runs, "seed": data.seed} if check else {}),
        )
    if check and answer.check is None:
        tell("there is no single value to check by simulation")
    _show(answer, as_json)


def _show(answer: Answer, as_json: bool) -> None:
    if as_json:
        emit(answer.to_dict())
        return
    from isometer.report._answers import print_answer

    print_answer(console(), answer)


def _inputs(
    network: NetworkOptions, data: InputOptions, *, kernel: bool, needed: bool
) -> tuple[np.ndarray[Any, Any] | None, np.ndarray[Any, Any] | None]:
    """The batch, or the Gram matrix of one with infinitely many features; neither where inputs of size one will do."""
    if not needed and data.source == InputOptions().source:
        return None, None
    if kernel:
        return kernel_inputs(network, data), None
    return (None, data.gram()) if data.is_wide else (data.samples(data.features_of(network) or network.width), None)


def _band(text: str, option: str) -> tuple[float, float]:
    parts = text.split(":")
    try:
        low, high = map(float, parts)
    except ValueError:
        raise IsometerError(
            f"{option} is {text!r}; expected two numbers with a colon between them — for example 0.1:0.9"
        ) from None
    return low, high


def _curve(text: str) -> Any:
    from isometer.run import parse_axes

    known = {name.replace("-", "_"): name for name in list(SolveFor) if name != "depth"}
    typed = text.partition("=")[0].strip().replace("-", "_")
    if typed not in known:
        raise unknown_name("number of a network", typed, known)
    [values] = parse_axes([text], known).values()
    try:
        return {_NAMES.get(typed.replace("_", "-"), typed): [float(value) for value in values]}
    except ValueError:
        raise IsometerError(f"--along is {text!r}; expected numbers — for example bias-variance=0.01,0.1") from None
