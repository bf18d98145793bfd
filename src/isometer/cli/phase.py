"""`isometer phase`: order, chaos and the edge between them."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from isometer.cli._network import InputOptions, NetworkOptions, check_folders, tell
from isometer.cli._option_groups import takes_options
from isometer.cli._panels import Panel
from isometer.cli._shared import Json, Plot, app, console, emit, next_step, progress_bar, status, tell_file
from isometer.errors import IsometerError

if TYPE_CHECKING:
    from isometer.spec import Spec
    from isometer.theory.chains import ChainLayer


DIAGRAM = Panel("Diagram")
"""The panel of the help."""


@app.command()
@takes_options
def phase(
    network: NetworkOptions,
    data: InputOptions,
    weight_limit: Annotated[
        float | None,
        DIAGRAM("--weight-limit", metavar="V", help="Largest σ_w²; by default four times that of the edge."),
    ] = None,
    bias_limit: Annotated[float, DIAGRAM("--bias-limit", metavar="V", help="Largest σ_b².")] = 0.5,
    x: Annotated[
        str | None,
        DIAGRAM(
            "--x",
            metavar="NAME=LOW:HIGH",
            help="One axis of a diagram over two numbers of any network: gain (or sigma_w), gamma (scale), "
            "bias_variance (its root is sigma_b), activation_gain (alpha). For a transformer: keywords of its preset, "
            "or qk_gain, branch, skip, mlp_gain, blocks, tokens.",
        ),
    ] = None,
    y: Annotated[str | None, DIAGRAM("--y", metavar="NAME=LOW:HIGH", help="The other axis.")] = None,
    points: Annotated[
        int | None,
        DIAGRAM(
            "--points", metavar="N", help="Points along each of --x and --y; by default 13, or 60 for a transformer."
        ),
    ] = None,
    plot: Plot = None,
    as_json: Json = False,
) -> None:
    """Order and chaos: where this network is, and the edge of chaos over weight and bias variances.

    The plane of σ_w² = gain² and σ_b² is that of dense > act; --x and --y draw a plane of any network, a norm or a skip
    connection included. Inputs have mean square 1 unless --input names some: if there are
    several fixed points, their size decides which one is reached.

    For a convolutional network, the phase is that of the uniform part of images, which decays most slowly.

    For a network with attention, --x and --y are two keywords of its preset, or two of qk_gain, value_gain,
    output_gain, branch, skip, mlp_gain, blocks and tokens. Its diagram shows where tokens or the entropy of attention
    collapse and gradients vanish or explode, for exchangeable tokens of cosine 0 or --input cosine:C.

    Examples: [bold]isometer phase --activation tanh --plot phase.png[/],
    [bold]isometer phase --network 'postln_mlp(blocks=12)' --x scale=0:1 --y sigma_w=0.5:2 --plot plane.png[/],
    [bold]isometer phase --network "input(3, [32, 32]) > repeat(conv(3, 64, gain=2) > act('tanh'), 20) > pool"[/],
    [bold]isometer phase --network 'gpt(blocks=24)' --x qk_gain=0.1:10 --y branch=0:1[/],
    [bold]isometer phase --network 'gpt(blocks=12)' --x tokens=16:4096:20 --y qk_gain=0.3:4[/]
    """
    from isometer.cli._token_phase import is_transformer, token_phase

    if is_transformer(network) and (x is not None or y is not None):
        token_phase(network, data, x, y, points or 60, plot, as_json)
        return
    from isometer.spec import uniform_positions
    from isometer.theory.chains import network_phase
    from isometer.theory.phases._phase import phase_diagram

    samples = None if data.source == "gaussian" else (data.gram() if data.is_wide else data.samples(network.width))
    features = network.width if samples is None or data.is_wide else samples.shape[-1]
    spec, note = network.stack(features), ""
    if spec.shape.axes:
        spec, note = uniform_positions(spec)
        tell(f"the phase is that {note}")
    layer = _plain_layer(spec)
    square = 1.0
    if samples is not None and not data.is_wide:
        square = float((samples**2).mean())
    if x is not None or y is not None:
        if x is None or y is None:
            raise IsometerError("--x and --y make a plane together; expected both — --x scale=0:1 --y sigma_w=0.5:2")
        _plane(spec, x, y, points or 13, square, plot, as_json)
        return
    with status("phase diagram"):
        point = network_phase(spec, mean_square=square)
        diagram = None
        if layer is not None:
            diagram = phase_diagram(
                layer.activation, weight_limit=weight_limit, bias_limit=bias_limit, mean_square=square
            )
    if plot is not None:
        if diagram is None or layer is None:
            raise IsometerError(
                "--plot draws the plane of dense > act, and this network has a norm or a skip; expected the two "
                "numbers to draw — add --x gain=0.5:2 --y gamma=0.1:1, for example"
            )
        from isometer.report._kernels import phase_picture
        from isometer.report._pictures import save_figure

        save_figure(phase_picture(diagram, (layer.weight_variance, layer.bias_variance)), plot)
    if as_json:
        found = {} if diagram is None else diagram.to_dict()
        named = {
            "network": str(spec),
            "mean_square": square,
            "point": point.to_dict(),
            **({"note": note} if note else {}),
        }
        emit({"activation": getattr(spec, "activation", None), **found, **named})
        return
    from isometer.report._kernels import phase_card, point_line

    page = console()
    if diagram is not None:
        page.print(phase_card(diagram))
    page.print(point_line(str(spec), point), highlight=False)
    if plot is not None:
        tell_file(page, "picture", plot)
    if diagram is not None and plot is None:
        next_step(page, "the same with --plot phase.png")
    else:
        next_step(page, "isometer solve gain --help: the gain at the edge of chaos")


def _plane(spec: Spec, x: str, y: str, points: int, square: float, plot: Path | None, as_json: bool) -> None:
    """The plane of two numbers of any network."""
    from isometer.report._kernels import plane_card, plane_picture
    from isometer.theory.chains import Axis, phase_plane

    axes = Axis.read(x), Axis.read(y)
    check_folders(plot)
    with progress_bar("phase plane") as report:
        plane = phase_plane(spec, *axes, points=points, mean_square=square, progress=report)
    if plot is not None:
        from isometer.report._pictures import save_figure

        save_figure(plane_picture(plane), plot)
    if as_json:
        emit({**plane.to_dict(), "mean_square": square})
        return
    page = console()
    page.print(plane_card(plane))
    if plot is None:
        next_step(page, "the same with --plot plane.png")
    else:
        tell_file(page, "picture", plot)
        next_step(page, "isometer solve --help: the value of one number at the edge of chaos")


def _plain_layer(spec: Spec) -> ChainLayer | None:
    """The layer of a chain without norm and skip, whose plane of variances is drawn; None of other networks."""
    from isometer.spec import Chain
    from isometer.theory.chains import ChainLayer
    from isometer.theory.chains._layer import uncovered

    if not isinstance(spec, Chain) or uncovered(spec):
        return None
    layer = ChainLayer.of(spec)
    return layer if layer.is_plain else None
