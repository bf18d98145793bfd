"""`isometer phase --network 'gpt(…)' --x … --y …`: a diagram over two numbers of a transformer."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from isometer.cli._network import InputOptions, NetworkOptions, attends, check_folders, network_from, tell
from isometer.cli._shared import console, emit, next_step, progress_bar, tell_file
from isometer.errors import IsometerError

if TYPE_CHECKING:
    from isometer.spec import Spec
    from isometer.theory.transformers import PresetAxis


def is_transformer(network: NetworkOptions) -> bool:
    """Whether a network has attention, however it is spelt."""
    return network.network is not None and attends(network_from(network.network, network.width))


def token_phase(
    network: NetworkOptions,
    data: InputOptions,
    x: str | None,
    y: str | None,
    points: int,
    plot: Path | None,
    as_json: bool,
) -> None:
    """Carry out the command."""
    from isometer.theory.transformers import exponents, read_axis, token_diagram

    if x is None or y is None or network.network is None:
        raise IsometerError(
            "a diagram of a transformer takes --network, --x and --y; expected all three — --network "
            "'gpt(blocks=24)' --x qk_gain=0.1:10 --y branch=0:1, for example"
        )
    check_folders(plot)
    across, along = read_axis(x, points), read_axis(y, points)
    text = _in_full(network.network)
    plane = _plane(text, network, across.name, along.name)
    cosine = token_start(data)
    with progress_bar("diagram") as report:
        found = token_diagram(plane, across.values.tolist(), along.values.tolist(), cosine=cosine, progress=report)
    if plot is not None:
        from isometer.report._pictures import save_figure
        from isometer.report._transformers import token_diagram_picture

        save_figure(token_diagram_picture(found, across.name, along.name), plot)
    if as_json:
        middle = plane(_middle(across), _middle(along))
        steady = exponents(middle, cosine=cosine)
        emit(
            {
                "network": text,
                "x_name": across.name,
                "y_name": along.name,
                "cosine": cosine,
                **found.to_dict(),
                "middle": {across.name: _middle(across), along.name: _middle(along)},
                "exponents": None if steady is None else {"angle": steady.angle, "gradient": steady.gradient},
            }
        )
        return
    from isometer.report._transformers import token_diagram_card

    page = console()
    page.print(token_diagram_card(found, across.name, along.name))
    if plot is None:
        next_step(page, "the same with --plot plane.png")
    else:
        tell_file(page, "picture", plot)
        next_step(page, "isometer solve qk-gain --help: where attention collapses")


def _plane(text: str, network: NetworkOptions, x: str, y: str) -> Callable[[float, float], Spec]:
    """Keywords of a preset, or numbers that the blocks of another network share."""
    from isometer.spec._presets import PRESETS
    from isometer.theory.transformers import PresetPlane, SpecPlane

    if text.strip().partition("(")[0] in PRESETS:
        return PresetPlane(text, x, y)
    return SpecPlane(network_from(text, network.width), x, y)


def _middle(axis: PresetAxis) -> float:
    return float(axis.values[len(axis.values) // 2])


def transformer(network: NetworkOptions) -> Spec:
    """The network of a question about tokens, with attention in full."""
    if network.network is None:
        raise IsometerError("this applies to transformers; expected --network — 'gpt(blocks=12)', for example")
    network.check_alone()
    return network_from(_in_full(network.network), network.width)


def token_start(data: InputOptions) -> float:
    """The cosine of tokens that --input names."""
    if data.source == "gaussian":
        return 0.0
    if data.is_wide:
        return float(data.gram()[0, 1])
    raise IsometerError(
        f"the input is {data.source}; expected tokens of one cosine — pass --input cosine:0.5, for example"
    )


def _in_full(text: str) -> str:
    """The preset with attention in full, unless it says so itself."""
    from isometer.theory.transformers import in_full

    found = in_full(text)
    if found != text:
        tell("tokens are treated as exchangeable, so attention is not causal: causal=False")
    return found
