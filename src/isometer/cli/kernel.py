"""`isometer kernel`: kernels of infinitely wide networks and of models."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

from rich.text import Text

from isometer.cli._application import listed
from isometer.cli._model_kernel import ModelKernel, ModelKernelOptions, model_kernel
from isometer.cli._model_options import ModelOptions
from isometer.cli._network import InputOptions, NetworkOptions, check_folders, kernel_inputs, shaped
from isometer.cli._option_groups import takes_options
from isometer.cli._shared import (
    MEASUREMENT,
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
    from isometer.theory.chains import NetworkKernels
    from isometer.theory.kernels._kernel_diagnosis import KernelDiagnosis
    from isometer.theory.kernels._kernel_matrix import KernelMatrix

_LARGE = 1000  # samples from which on several threads are worth it
_WRITTEN = 10_000  # layers up to which a network is put together as text
_LISTED = 32  # kernels up to this size are printed whole in JSON


class KindChoice(StrEnum):
    nngp = "nngp"
    ntk = "ntk"


@app.command()
@takes_options
def kernel(
    network: NetworkOptions,
    data: InputOptions,
    model: ModelOptions,
    more: ModelKernelOptions,
    depths: Annotated[
        list[str] | None, MEASUREMENT("--depths", metavar="1,2,4,…", help="Several depths, for a curve.")
    ] = None,
    kind: Annotated[
        KindChoice | None,
        MEASUREMENT(
            "--kind",
            help="nngp: the kernel of the top layer; ntk: all weights are trained. Default: nngp, or ntk with --model.",
        ),
    ] = None,
    out: Annotated[
        Path | None, OUTPUT("--out", metavar="FILE", help="Save the matrix: .npy, or .npz with its diagonal.")
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
    that batch norm in training mode couples the samples. It comes with the largest stable learning rates, and on
    request with its drift since a checkpoint and its distance to the limit.

    Examples: [bold]isometer kernel --activation 'normalized(relu)' --input data:fashion-mnist:scale=norm[/],
    [bold]isometer kernel --depths 1,10,100,1000 --input x.npy --kind ntk --plot k.png[/],
    [bold]isometer kernel --model my_model.py:make --input data:cifar10[/],
    [bold]isometer kernel --model my_model.py:make --checkpoint last.pt --since first.pt[/]
    """
    check_folders(plot, out)
    if out is not None and out.suffix not in (".npy", ".npz"):
        raise IsometerError(f"a kernel is saved as .npy or .npz; got {str(out)!r} — add one of these endings")
    about_models = dict.fromkeys(sorted(more.given), True)
    if model.check(network, only_models=about_models, only_networks={"depths": depths}):
        with allowing(memory, time):
            found = model_kernel(model, more, data, "ntk" if kind is None else kind.value, threads)
        _show_model(found, out, plot, as_json)
        return
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
    whole = _function(spec, samples.shape[-1], matrices[-1].depth)
    several = matrices if len(matrices) > 1 else []
    if out is not None:
        _save(out, matrices[-1].matrix, log_diagonal=matrices[-1].log_diagonal)
    if plot is not None:
        from isometer.report._kernels import kernel_picture
        from isometer.report._pictures import save_figure

        save_figure(kernel_picture(matrices[-1], several, _name(spec)), plot)
    if as_json:
        emit(_summary(spec, whole, last, diagnosis, several, words, kind.value))
        return
    from isometer.report._kernels import kernel_card
    from isometer.report._numbers import rounded

    page = console()
    page.print(kernel_card(matrices[-1], checks, diagnosis, several, _name(spec)))
    page.print(Text(f"→ {words}", style="bold"))
    page.print(Text(f"network: {rounded(str(whole))}", style="dim"))
    for told in matrices[-1].warnings:
        page.print(f"[bold yellow]warning:[/] {told}", highlight=False)
    for label, target in (("picture", plot), ("kernel", out)):
        if target is not None:
            tell_file(page, label, target)
    next_step(page, "the same with --depths 1,10,100,1000" if not several else "the same with --kind ntk")


def _depths(network: NetworkOptions, depths: list[str] | None) -> list[int | None]:
    """The depths asked for; None is that of the network."""
    if not depths:
        return [None if network.brings_its_own else network.depth]
    if "depth" in network.given:
        raise IsometerError("--depth and --depths were both given; expected one — drop the other")
    try:
        found = sorted(set(map(int, listed(depths))))
    except ValueError:
        found = []
    if not found:
        raise IsometerError(
            f"--depths takes whole numbers with commas between them; got {','.join(depths)[:60]!r} — 1,2,4, for example"
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
    kernel = found.summary.kernel
    matrix = kernel.matrix
    if out is not None:
        _save(out, matrix, spectrum=kernel.spectrum, **{f"part:{k}": v for k, v in kernel.parts.items()})
    if plot is not None:
        from isometer.report._model_kernels import model_kernel_picture
        from isometer.report._pictures import save_figure

        save_figure(model_kernel_picture(found.document, matrix), plot)
    if as_json:
        emit({**found.document, "kernel": matrix if len(matrix) <= _LISTED else None})
        return
    from isometer.report._model_kernels import model_kernel_card

    page = console()
    page.print(model_kernel_card(found.document))
    for label, target in (("picture", plot), ("kernel", out)):
        if target is not None:
            tell_file(page, label, target)
    next_step(page, "the same with --since FIRST_CHECKPOINT" if not found.summary.drift else "isometer doctor --kernel")


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


def _function(spec: Spec, features: int, depth: int) -> Spec:
    """The very network of the kernel, with its readout and its input layer: `predict` takes it and says the same."""
    from isometer.spec import Chain, with_depth, with_ends

    if isinstance(spec, Chain):
        if not 1 <= depth <= _WRITTEN:
            return spec  # too deep to be written out, or no layer at all
        spec = with_depth(spec, depth)
    return with_ends(spec, None if spec.shape.axes else features)


def _summary(
    spec: Spec,
    whole: Spec,
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
        "network": str(whole),
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
