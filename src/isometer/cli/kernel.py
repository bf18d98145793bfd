"""`isometer kernel` and `isometer phase`: kernels of infinitely wide networks, and order and chaos."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from isometer.cli._network import check_folders
from isometer.cli._shared import (
    Json,
    Memory,
    Plot,
    PositionChoice,
    PositionOption,
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
from isometer.cli.activations import NormChoice, NormOption, ResidualOption
from isometer.errors import IsometerError
from isometer.files import write_whole

if TYPE_CHECKING:
    from isometer.theory.kernels._conditioning import BoundCheck
    from isometer.theory.kernels._kernel_diagnosis import KernelDiagnosis
    from isometer.theory.kernels._kernel_matrix import KernelMatrix

_LARGE = 1000  # samples from which on several threads are worth it
_LISTED = 32  # kernels up to this size are printed whole in JSON


class KindChoice(StrEnum):
    nngp = "nngp"
    ntk = "ntk"


@app.command()
def kernel(
    activation: Annotated[str, typer.Option("--activation", metavar="A", help="As for `isometer explain`.")],
    inputs: Annotated[
        Path,
        typer.Option("--inputs", metavar="FILE", help="An (n, d) array, samples by features: .npy, .npz, .csv, …"),
    ],
    depth: Annotated[int | None, typer.Option("--depth", metavar="L", help="Hidden layers, 0 to millions.")] = None,
    depths: Annotated[
        str | None, typer.Option("--depths", metavar="1,2,4,…", help="Several depths: the whole curve.")
    ] = None,
    kind: Annotated[
        KindChoice, typer.Option("--kind", help="nngp: the top layer's kernel; ntk: all weights trained.")
    ] = KindChoice.nngp,
    norm: NormOption = NormChoice.none,
    norm_position: PositionOption = PositionChoice.pre,
    bias: Annotated[float, typer.Option("--bias", metavar="V", help="Variance of the biases of every layer.")] = 0.0,
    residual: ResidualOption = None,
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

    Depth L means L hidden layers of the activation as given (write normalized(relu) to normalise), weights of unit
    variance in the NTK parametrisation, a linear readout. The cost does not grow with depth for inputs of one length.
    With --gamma γ the layers are h + γ(Wφ(h) + b) between an input layer and a linear readout.

    Examples: [bold]isometer kernel --activation 'normalized(relu)' --depth 100 --inputs x.npy --kind ntk[/],
    [bold]isometer kernel --activation 'unit(relu)' --depths 1,10,100,1000 --inputs x.npy --plot k.png[/]
    """
    from isometer.data._arrays import read_numbers
    from isometer.theory.kernels._conditioning import conditioning_bounds
    from isometer.theory.kernels._inputs import Batch
    from isometer.theory.kernels._kernel_diagnosis import diagnose_kernel
    from isometer.theory.kernels._kernel_matrix import kernel_matrices
    from isometer.theory.kernels._length_map import SignalFamily

    wanted = _depths(depth, depths)
    check_folders(plot, out)
    if out is not None and out.suffix not in (".npy", ".npz"):
        raise IsometerError(f"a kernel is saved as .npy or .npz; got {str(out)!r} — add one of these endings")
    samples = read_numbers(inputs)
    family, batch = SignalFamily(activation), Batch.of(samples)
    layout: dict[str, Any] = {
        "norm": norm.value,
        "norm_position": norm_position.value,
        "bias": bias,
        "residual": residual,
    }
    curve: list[KernelMatrix] = []
    with allowing(memory, time), using(threads, large=len(samples) >= _LARGE):
        for at in wanted:
            with progress_bar(f"depth {at}") as report:
                found = kernel_matrices(family, batch, at, kinds=(kind.value,), **layout, progress=report)
            curve.append(found[kind.value])
        last = curve[-1]
        with status("eigenvalues") as tell:
            for matrix in curve:  # now, and not when the card asks for them
                tell(f"depth {matrix.depth}, condition number {matrix.condition_number:.3g}")
            checks = conditioning_bounds(last, **layout)
            diagnosis = diagnose_kernel(last, **layout)
    several = curve if len(curve) > 1 else []
    if out is not None:
        _save(last, out)
    if plot is not None:
        from isometer.report._kernels import kernel_picture
        from isometer.report._pictures import save_figure

        save_figure(kernel_picture(last, several), plot)
    if as_json:
        emit(_summary(last, checks, diagnosis, several, layout))
        return
    from isometer.report._kernels import kernel_card

    console().print(kernel_card(last, checks, diagnosis, several))


@app.command()
def phase(
    activation: Annotated[str, typer.Option("--activation", metavar="A", help="As for `isometer explain`.")],
    weight_limit: Annotated[
        float | None,
        typer.Option("--weight-limit", metavar="V", help="Largest σ_w²; by default four times the edge's."),
    ] = None,
    bias_limit: Annotated[float, typer.Option("--bias-limit", metavar="V", help="Largest σ_b².")] = 0.5,
    plot: Plot = None,
    as_json: Json = False,
) -> None:
    """Order and chaos: fixed points, slopes, depth scales and the edge of chaos over weight and bias variances.

    Examples: [bold]isometer phase --activation tanh --plot phase.png[/],
    [bold]isometer phase --activation gelu --json[/]
    """
    from isometer.theory.phases._phase import phase_diagram

    with status("phase diagram"):
        diagram = phase_diagram(activation, weight_limit=weight_limit, bias_limit=bias_limit)
    if plot is not None:
        from isometer.report._kernels import phase_picture
        from isometer.report._pictures import save_figure

        save_figure(phase_picture(diagram), plot)
    if as_json:
        emit(diagram.to_dict())
        return
    from isometer.report._kernels import phase_card

    console().print(phase_card(diagram))


def _depths(depth: int | None, depths: str | None) -> list[int]:
    if (depth is None) == (depths is None):
        raise IsometerError("give either --depth L or --depths 1,2,4,…, not both or neither")
    if depths is None:
        assert depth is not None
        return [depth]
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
    last: KernelMatrix,
    checks: list[BoundCheck],
    diagnosis: KernelDiagnosis | None,
    curve: list[KernelMatrix],
    layout: dict[str, Any],
) -> dict[str, Any]:
    import numpy as np

    from isometer.theory.kernels._conditioning import bound_quantities

    def diagonal(matrix: KernelMatrix) -> Any:
        logs = matrix.log_diagonal
        same = bool((logs == logs[0]).all()) or float(np.ptp(logs[np.isfinite(logs)])) < 1e-12
        whole = bool(np.isfinite(logs).all()) or bool((logs == logs[0]).all())
        return logs[0] if same and whole else logs

    def numbers(matrix: KernelMatrix) -> dict[str, Any]:
        return {
            "depth": matrix.depth,
            "condition_number": matrix.condition_number,
            "smallest_eigenvalue": matrix.smallest_eigenvalue,
            "largest_eigenvalue": matrix.largest_eigenvalue,
            "effective_rank": matrix.effective_rank,
            "log_diagonal": diagonal(matrix),
        }

    n = len(last.matrix)
    return {
        "activation": last.activation.name,
        "kind": last.kind,
        "inputs": n,
        **layout,
        **numbers(last),
        "singular": last.singular,
        "bounds": {
            **bound_quantities(last, **layout),
            **{check.reference: check.to_dict() for check in checks},
        },
        "diagnosis": None
        if diagnosis is None
        else {
            "phase": diagnosis.phase,
            "passes": diagnosis.passes,
            "recovers": diagnosis.recovers,
            "text": diagnosis.text,
        },
        "curve": [numbers(matrix) for matrix in curve],
        "kernel": last.matrix if n <= _LISTED else None,
    }
