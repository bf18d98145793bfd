"""`isometer kernel` and `isometer phase`: kernels of infinitely wide networks and of models, and order and chaos."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer
from rich.text import Text

from isometer.cli._application import listed
from isometer.cli._model_kernel import ModelKernel, model_kernel
from isometer.cli._network import InputOptions, NetworkOptions, check_folders, kernel_inputs, shaped
from isometer.cli._option_groups import takes_options
from isometer.cli._shared import (
    MEASUREMENT,
    MODEL,
    OUTPUT,
    Json,
    Memory,
    Plot,
    Threads,
    Time,
    allowing,
    app,
    console,
    emit,
    next_step,
    progress_bar,
    status,
    tell_file,
)
from isometer.cli._threads import threads as using
from isometer.errors import IsometerError
from isometer.files import write_whole

if TYPE_CHECKING:
    import numpy as np

    from isometer.spec import Spec
    from isometer.theory.chains import ChainLayer, NetworkKernels
    from isometer.theory.kernels._kernel_diagnosis import KernelDiagnosis
    from isometer.theory.kernels._kernel_matrix import KernelMatrix

_LARGE = 1000  # samples from which on several threads are worth it
_LISTED = 32  # kernels up to this size are printed whole in JSON


class KindChoice(StrEnum):
    nngp = "nngp"
    ntk = "ntk"


@app.command()
@takes_options
def kernel(
    network: NetworkOptions,
    data: InputOptions,
    depths: Annotated[
        list[str] | None,
        typer.Option(
            "--depths", metavar="1,2,4,…", help="Several depths: the whole curve.", rich_help_panel=MEASUREMENT
        ),
    ] = None,
    kind: Annotated[
        KindChoice | None,
        typer.Option(
            "--kind",
            help="nngp: the top layer's kernel; ntk: all weights trained. nngp, of a --model ntk, by default.",
            rich_help_panel=MEASUREMENT,
        ),
    ] = None,
    model: Annotated[
        str | None,
        typer.Option(
            "--model",
            metavar="FILE:FACTORY",
            help="A PyTorch model as it is, instead of a network at infinite width; a target of `isometer doctor`. A "
            "file or package is executed.",
            rich_help_panel=MODEL,
        ),
    ] = None,
    checkpoint: Annotated[
        Path | None,
        typer.Option(
            "--checkpoint",
            metavar="FILE",
            help="Weights for the --model: .safetensors or a state dict.",
            rich_help_panel=MODEL,
        ),
    ] = None,
    evaluate: Annotated[
        bool,
        typer.Option("--eval", help="The --model in evaluation mode instead of training mode.", rich_help_panel=MODEL),
    ] = False,
    out: Annotated[
        Path | None,
        typer.Option(
            "--out",
            metavar="FILE",
            help="Save the matrix: .npy, or .npz with its diagonal.",
            rich_help_panel=OUTPUT,
        ),
    ] = None,
    plot: Plot = None,
    memory: Memory = None,
    time: Time = None,
    threads: Threads = None,
    as_json: Json = False,
) -> None:
    """The kernel of a batch at infinite width: condition number, spectrum, published bounds, and a diagnosis.

    The network is that of `isometer predict` with a linear readout, and with an input layer before a skip connection;
    the NNGP is the Gram matrix that `predict` follows. The cost does not grow with depth, up to millions, for inputs of
    one length.

    With --model it is the kernel of that model on that batch: all outputs of the batch by all trained parameters, so
    that batch norm in training mode couples the samples. It comes with the largest stable learning rates.

    Examples: [bold]isometer kernel --activation 'normalized(relu)' --input data:fashion-mnist:scale=norm[/],
    [bold]isometer kernel --depths 1,10,100,1000 --input x.npy --kind ntk --plot k.png[/],
    [bold]isometer kernel --model my_model.py:make --input data:cifar10[/]
    """
    check_folders(plot, out)
    if out is not None and out.suffix not in (".npy", ".npz"):
        raise IsometerError(f"a kernel is saved as .npy or .npz; got {str(out)!r} — add one of these endings")
    if model is not None:
        if network.given or depths is not None:
            option = "depths" if not network.given else min(network.given).replace("_", "-")
            raise IsometerError(f"--model brings its own network; expected no other — drop --{option}")
        with allowing(memory, time):
            _show_model(
                model_kernel(
                    model,
                    data,
                    "ntk" if kind is None else kind.value,
                    checkpoint=checkpoint,
                    evaluate=evaluate,
                    threads=threads,
                ),
                out,
                plot,
                as_json,
            )
        return
    if checkpoint is not None or evaluate:
        raise IsometerError("--checkpoint and --eval are about a --model; expected one — pass --model FILE:FACTORY")
    _wide_kernel(network, data, depths, kind or KindChoice.nngp, out, plot, memory, time, threads, as_json)


def _wide_kernel(
    network: NetworkOptions,
    data: InputOptions,
    depths: list[str] | None,
    kind: KindChoice,
    out: Path | None,
    plot: Path | None,
    memory: str | None,
    time: str | None,
    threads: int | None,
    as_json: bool,
) -> None:
    """The kernels of a network at infinite width."""
    from isometer.theory.chains import kernels_of
    from isometer.theory.kernels._kernel_diagnosis import headline

    wanted = _depths(network, depths)
    samples = kernel_inputs(network, data)
    spec = network.stack(samples.shape[-1])
    batch = shaped(samples, spec) if network.brings_its_own else samples
    curve: list[NetworkKernels] = []
    with allowing(memory, time), using(threads, large=len(samples) >= _LARGE):
        for at in wanted:
            with progress_bar("kernel" if at is None else f"depth {at}") as report:
                curve.append(kernels_of(spec, batch, at, kinds=(kind.value,), progress=report))
        last = curve[-1]
        matrices = [found.matrices[kind.value] for found in curve]
        with status("eigenvalues") as tell:
            for matrix in matrices:  # now, and not when the card asks for them
                tell(f"depth {matrix.depth}, condition number {matrix.condition_number:.3g}")
            checks, diagnosis = last.bounds(kind.value), last.diagnosis(kind.value)
    words = headline(matrices[-1], diagnosis)
    several = matrices if len(matrices) > 1 else []
    if out is not None:
        _save(out, matrices[-1].matrix, log_diagonal=matrices[-1].log_diagonal)
    if plot is not None:
        from isometer.report._kernels import kernel_picture
        from isometer.report._pictures import save_figure

        save_figure(kernel_picture(matrices[-1], several, _name(spec)), plot)
    if as_json:
        emit(_summary(spec, last, diagnosis, several, words, kind.value))
        return
    from isometer.report._kernels import kernel_card

    page = console()
    page.print(kernel_card(matrices[-1], checks, diagnosis, several, _name(spec)))
    page.print(Text(f"→ {words}", style="bold"))
    for told in matrices[-1].warnings:
        page.print(f"[bold yellow]warning:[/] {told}", highlight=False)
    for label, target in (("picture", plot), ("kernel", out)):
        if target is not None:
            tell_file(page, label, target)
    next_step(page, "the same with --depths 1,10,100,1000" if not several else "the same with --kind ntk")


@app.command()
@takes_options
def phase(
    network: NetworkOptions,
    data: InputOptions,
    weight_limit: Annotated[
        float | None,
        typer.Option("--weight-limit", metavar="V", help="Largest σ_w²; by default four times the edge's."),
    ] = None,
    bias_limit: Annotated[float, typer.Option("--bias-limit", metavar="V", help="Largest σ_b².")] = 0.5,
    x: Annotated[
        str | None,
        typer.Option(
            "--x",
            metavar="NAME=LOW:HIGH",
            help="With --y: the plane of two numbers of any network: gain (or sigma_w), gamma (scale), bias_variance "
            "(its root is sigma_b), activation_gain (alpha); of a transformer, keywords of its preset, or qk_gain, "
            "branch, skip, mlp_gain, blocks, tokens.",
        ),
    ] = None,
    y: Annotated[str | None, typer.Option("--y", metavar="NAME=LOW:HIGH", help="The other axis.")] = None,
    points: Annotated[
        int | None,
        typer.Option("--points", metavar="N", help="Along each of --x and --y: 13, of a transformer 60, by default."),
    ] = None,
    plot: Plot = None,
    as_json: Json = False,
) -> None:
    """Order and chaos: where this network is, and the edge of chaos over weight and bias variances.

    The plane of σ_w² = gain² and σ_b² is that of dense > act; --x and --y draw a plane of any network, a norm or a skip
    connection included. Inputs have mean square 1 unless --input names some: their size decides where several fixed
    points compete.

    Of a network with attention, --x and --y are two keywords of its preset, or two of qk_gain, value_gain, output_gain,
    branch, skip, mlp_gain, blocks and tokens. Its diagram shows where tokens or the entropy of attention collapse and
    gradients vanish or explode, for exchangeable tokens of cosine 0 or --input cosine:C.

    Examples: [bold]isometer phase --activation tanh --plot phase.png[/],
    [bold]isometer phase --network 'postln_mlp(blocks=12)' --x scale=0:1 --y sigma_w=0.5:2 --plot plane.png[/],
    [bold]isometer phase --network 'gpt(blocks=24)' --x qk_gain=0.1:10 --y branch=0:1[/],
    [bold]isometer phase --network 'gpt(blocks=12)' --x tokens=16:4096:20 --y qk_gain=0.3:4[/]
    """
    from isometer.cli._token_phase import is_transformer, token_phase

    if is_transformer(network) and (x is not None or y is not None):
        token_phase(network, data, x, y, points or 60, plot, as_json)
        return
    from isometer.theory.chains import network_phase
    from isometer.theory.phases._phase import phase_diagram

    samples = None if data.source == "gaussian" else (data.gram() if data.is_wide else data.samples(network.width))
    features = network.width if samples is None or data.is_wide else samples.shape[-1]
    spec = network.stack(features)
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
                "--plot draws the plane of dense > act, and here is a norm or a skip; expected the two numbers to draw "
                "— add --x gain=0.5:2 --y gamma=0.1:1, say"
            )
        from isometer.report._kernels import phase_picture
        from isometer.report._pictures import save_figure

        save_figure(phase_picture(diagram, (layer.weight_variance, layer.bias_variance)), plot)
    if as_json:
        found = {} if diagram is None else diagram.to_dict()
        named = {"network": str(spec), "mean_square": square, "point": point.to_dict()}
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
    console().print(plane_card(plane))


def _plain_layer(spec: Spec) -> ChainLayer | None:
    """The layer of a chain without norm and skip, whose plane of variances is drawn; None of other networks."""
    from isometer.spec import Chain
    from isometer.theory.chains import ChainLayer
    from isometer.theory.chains._layer import uncovered

    if not isinstance(spec, Chain) or uncovered(spec):
        return None
    layer = ChainLayer.of(spec)
    return layer if layer.is_plain else None


def _depths(network: NetworkOptions, depths: list[str] | None) -> list[int | None]:
    """The depths asked for; None is that of the network."""
    if not depths:
        return [None if network.brings_its_own else network.depth]
    if "depth" in network.given:
        raise IsometerError("give either --depth L or --depths 1,2,4,…, not both")
    try:
        found = sorted(set(map(int, listed(depths))))
    except ValueError:
        found = []
    if not found:
        raise IsometerError(
            f"--depths takes whole numbers with commas between them; got {','.join(depths)[:60]!r} — 1,2,4, say"
        )
    return [*found]


def _name(spec: Spec) -> str:
    """What to call a network in a title."""
    from isometer.spec import Chain

    if isinstance(spec, Chain):
        return spec.activation
    text = str(spec)
    return text if len(text) <= 50 else f"{text[:49]}…"


def _show_model(found: ModelKernel, out: Path | None, plot: Path | None, as_json: bool) -> None:
    """Print, save and draw the kernel of a model."""
    matrix = found.kernel.matrix
    if out is not None:
        _save(out, matrix, spectrum=found.kernel.spectrum, **{f"part:{k}": v for k, v in found.kernel.parts.items()})
    if plot is not None:
        from isometer.report._model_kernels import model_kernel_picture
        from isometer.report._pictures import save_figure

        save_figure(model_kernel_picture(found.document, matrix), plot)
    if as_json:
        emit({**found.document, "kernel": matrix if len(matrix) <= _LISTED else None})
        return
    from isometer.report._model_kernels import model_kernel_card

    console().print(model_kernel_card(found.document))


def _save(path: Path, matrix: np.ndarray[Any, Any], **beside: Any) -> None:
    """Written whole or not at all; what stands beside the matrix has room in .npz only."""
    import numpy as np

    def write(partial: Path) -> None:
        # Given a path, NumPy would append its own ending to the temporary name.
        with partial.open("wb") as file:
            if path.suffix == ".npy":
                np.save(file, matrix)
            else:
                np.savez(file, kernel=matrix, **beside)

    write_whole(path, write)


def _summary(
    spec: Spec,
    found: NetworkKernels,
    diagnosis: KernelDiagnosis | None,
    curve: list[KernelMatrix],
    words: str,
    kind: Literal["nngp", "ntk"],
) -> dict[str, Any]:
    last = found.matrices[kind]
    n = len(last.matrix)
    return {
        "activation": getattr(spec, "activation", None),
        "network": str(spec),
        "kind": last.kind,
        "inputs": n,
        **(_layer_record(spec) if found.layout is not None else {}),
        **_numbers(last),
        "singular": last.singular,
        "bounds": {
            **found.quantities(kind),
            **{check.reference: check.to_dict() for check in found.bounds(kind)},
        },
        "headline": words,
        "warnings": list(last.warnings),
        "diagnosis": None
        if diagnosis is None
        else {
            "phase": diagnosis.phase,
            "passes": diagnosis.passes,
            "recovers": diagnosis.recovers,
            "text": diagnosis.text,
        },
        "curve": [_numbers(matrix) for matrix in curve],
        "kernel": last.matrix if n <= _LISTED else None,
    }


def _layer_record(chain: Any) -> dict[str, Any]:
    from isometer.theory.chains import ChainLayer

    layer = ChainLayer.of(chain)
    return {
        "norm": layer.norm,
        "norm_position": layer.place,
        "bias": layer.bias_variance,
        "residual": layer.residual,
        "gain": chain.at("gain", 1),
    }


def _numbers(matrix: KernelMatrix) -> dict[str, Any]:
    return {
        "depth": matrix.depth,
        "condition_number": matrix.condition_number,
        "smallest_eigenvalue": matrix.smallest_eigenvalue,
        "largest_eigenvalue": matrix.largest_eigenvalue,
        "effective_rank": matrix.effective_rank,
        "log_diagonal": _diagonal(matrix.log_diagonal),
        "error": matrix.error,
    }


def _diagonal(logs: np.ndarray[Any, Any]) -> Any:
    """One number where all are the same."""
    import numpy as np

    same = bool((logs == logs[0]).all()) or float(np.ptp(logs[np.isfinite(logs)])) < 1e-12
    whole = bool(np.isfinite(logs).all()) or bool((logs == logs[0]).all())
    return logs[0] if same and whole else logs
