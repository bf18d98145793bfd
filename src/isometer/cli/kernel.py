"""`isometer kernel` and `isometer phase`: kernels of infinitely wide networks, and order and chaos."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from isometer.cli._network import InputOptions, NetworkOptions, check_folders, rooted
from isometer.cli._option_groups import takes_options
from isometer.cli._shared import (
    Json,
    Memory,
    Plot,
    Threads,
    Time,
    allowing,
    app,
    console,
    emit,
    progress_bar,
    status,
)
from isometer.cli._threads import threads as using
from isometer.errors import IsometerError
from isometer.files import write_whole

if TYPE_CHECKING:
    import numpy as np

    from isometer.spec import Chain
    from isometer.theory.chains import ChainKernels
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
        str | None, typer.Option("--depths", metavar="1,2,4,…", help="Several depths: the whole curve.")
    ] = None,
    kind: Annotated[
        KindChoice, typer.Option("--kind", help="nngp: the top layer's kernel; ntk: all weights trained.")
    ] = KindChoice.nngp,
    out: Annotated[
        Path | None, typer.Option("--out", metavar="FILE", help="Save the matrix: .npy, or .npz with its diagonal.")
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

    Examples: [bold]isometer kernel --activation 'normalized(relu)' --input data:fashion-mnist:scale=norm[/],
    [bold]isometer kernel --depths 1,10,100,1000 --input x.npy --kind ntk --plot k.png[/]
    """
    from isometer.spec._chain import chain_only
    from isometer.theory.chains import chain_kernels
    from isometer.theory.kernels._kernel_diagnosis import headline

    wanted = _depths(network, depths)
    check_folders(plot, out)
    if out is not None and out.suffix not in (".npy", ".npz"):
        raise IsometerError(f"a kernel is saved as .npy or .npz; got {str(out)!r} — add one of these endings")
    samples = rooted(data.gram()) if data.is_wide else data.samples(network.width)
    chain = chain_only(network.stack(samples.shape[-1]), "kernel")
    curve: list[ChainKernels] = []
    with allowing(memory, time), using(threads, large=len(samples) >= _LARGE):
        for at in [chain.layers] if wanted is None else wanted:
            with progress_bar(f"depth {at}") as report:
                curve.append(chain_kernels(chain, samples, at, kinds=(kind.value,), progress=report))
        last = curve[-1]
        matrices = [found.matrices[kind.value] for found in curve]
        with status("eigenvalues") as tell:
            for matrix in matrices:  # now, and not when the card asks for them
                tell(f"depth {matrix.depth}, condition number {matrix.condition_number:.3g}")
            checks, diagnosis = last.bounds(kind.value), last.diagnosis(kind.value)
    words = headline(matrices[-1], diagnosis)
    several = matrices if len(matrices) > 1 else []
    if out is not None:
        _save(matrices[-1], out)
    if plot is not None:
        from isometer.report._kernels import kernel_picture
        from isometer.report._pictures import save_figure

        save_figure(kernel_picture(matrices[-1], several, str(chain.activation)), plot)
    if as_json:
        emit(_summary(chain, last, diagnosis, several, words, kind.value))
        return
    from isometer.report._kernels import kernel_card

    page = console()
    page.print(kernel_card(matrices[-1], checks, diagnosis, several, chain.activation))
    page.print(f"[bold]→ {words}[/]", highlight=False)


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
    plot: Plot = None,
    as_json: Json = False,
) -> None:
    """Order and chaos: where this network is, and the edge of chaos over weight and bias variances.

    The plane of σ_w² = gain² and σ_b² is that of dense > act; networks with a norm or a skip connection have a point
    in place of it. Inputs have mean square 1 unless --input names some: their size decides where several fixed points
    compete.

    Examples: [bold]isometer phase --activation tanh --plot phase.png[/],
    [bold]isometer phase --activation gelu --norm layer --gamma 0.5 --norm-position sum --json[/]
    """
    from isometer.spec._chain import chain_only
    from isometer.theory.chains import ChainLayer, phase_of
    from isometer.theory.phases._phase import phase_diagram

    samples = None if data.source == "gaussian" else (data.gram() if data.is_wide else data.samples(network.width))
    features = network.width if samples is None or data.is_wide else samples.shape[-1]
    chain = chain_only(network.stack(features), "phase")
    layer = ChainLayer.of(chain)
    square = 1.0
    if samples is not None and not data.is_wide:
        square = float((samples**2).mean())
    with status("phase diagram"):
        point = phase_of(layer, mean_square=square)
        diagram = None
        if layer.is_plain:
            diagram = phase_diagram(
                layer.activation, weight_limit=weight_limit, bias_limit=bias_limit, mean_square=square
            )
    if plot is not None:
        if diagram is None:
            raise IsometerError("--plot draws the plane of dense > act, and here is a norm or a skip — drop --plot")
        from isometer.report._kernels import phase_picture
        from isometer.report._pictures import save_figure

        save_figure(phase_picture(diagram, (layer.weight_variance, layer.bias_variance)), plot)
    if as_json:
        found = {} if diagram is None else diagram.to_dict()
        named = {"network": str(chain), "mean_square": square, "point": point.to_dict()}
        emit({"activation": chain.activation, **found, **named})
        return
    from isometer.report._kernels import phase_card, point_line

    page = console()
    if diagram is not None:
        page.print(phase_card(diagram))
    page.print(point_line(str(chain), point), highlight=False)


def _depths(network: NetworkOptions, depths: str | None) -> list[int] | None:
    """The depths asked for; None where the network says its own."""
    if depths is None:
        return None if network.brings_its_own else [network.depth]
    if "depth" in network.given:
        raise IsometerError("give either --depth L or --depths 1,2,4,…, not both")
    try:
        found = sorted({int(part) for part in depths.split(",") if part.strip()})
    except ValueError:
        found = []
    if not found:
        raise IsometerError(f"--depths takes whole numbers with commas between them; got {depths[:60]!r} — 1,2,4, say")
    return found


def _save(matrix: KernelMatrix, path: Path) -> None:
    """Written whole or not at all."""
    import numpy as np

    def write(partial: Path) -> None:
        # Given a path, NumPy would append its own ending to the temporary name.
        with partial.open("wb") as file:
            if path.suffix == ".npy":
                np.save(file, matrix.matrix)
            else:
                np.savez(file, kernel=matrix.matrix, log_diagonal=matrix.log_diagonal)

    write_whole(path, write)


def _summary(
    chain: Chain,
    found: ChainKernels,
    diagnosis: KernelDiagnosis | None,
    curve: list[KernelMatrix],
    words: str,
    kind: Literal["nngp", "ntk"],
) -> dict[str, Any]:
    last = found.matrices[kind]
    n = len(last.matrix)
    return {
        "activation": chain.activation,
        "network": str(chain),
        "kind": last.kind,
        "inputs": n,
        **_layer_record(chain),
        **_numbers(last),
        "singular": last.singular,
        "bounds": {
            **found.quantities(kind),
            **{check.reference: check.to_dict() for check in found.bounds(kind)},
        },
        "headline": words,
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


def _layer_record(chain: Chain) -> dict[str, Any]:
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
    }


def _diagonal(logs: np.ndarray[Any, Any]) -> Any:
    """One number where all are the same."""
    import numpy as np

    same = bool((logs == logs[0]).all()) or float(np.ptp(logs[np.isfinite(logs)])) < 1e-12
    whole = bool(np.isfinite(logs).all()) or bool((logs == logs[0]).all())
    return logs[0] if same and whole else logs
