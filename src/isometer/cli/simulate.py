"""`isometer simulate`: what a random network of finite width does to a batch."""

from __future__ import annotations

import math
import os
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from isometer.cli._shared import Json, Plot, PositionChoice, PositionOption, app, console, emit, progress_bar
from isometer.errors import IsometerError

if TYPE_CHECKING:
    import xarray

    from isometer.spec import Spec


class EngineChoice(StrEnum):
    auto = "auto"
    gram = "gram"
    dense = "dense"


class SiteChoice(StrEnum):
    post = "post"
    pre = "pre"


class DtypeChoice(StrEnum):
    float32 = "float32"
    float64 = "float64"


class LossChoice(StrEnum):
    gaussian = "gaussian"
    squared = "squared"
    cross_entropy = "cross-entropy"


@app.command()
def simulate(
    width: Annotated[int, typer.Option("--width", metavar="D", help="Features per layer.")] = 100,
    depth: Annotated[int, typer.Option("--depth", metavar="L", help="Number of weight layers.")] = 50,
    batch: Annotated[
        int | None, typer.Option("--batch", metavar="N", help="Samples in the batch; 10, or all of a file.")
    ] = None,
    activation: Annotated[str, typer.Option("--activation", metavar="A", help="As for `isometer explain`.")] = "relu",
    norm: Annotated[
        str,
        typer.Option(
            "--norm", help="none, batch, batch-rescale, batch-recenter, layer, rms (and unit, whiten, group:K)."
        ),
    ] = "none",
    norm_position: PositionOption = PositionChoice.pre,
    weights: Annotated[
        str, typer.Option("--weights", metavar="LAW", help="gaussian, orthogonal, uniform, he, pytorch, asymmetric, …")
    ] = "gaussian",
    gamma: Annotated[
        float, typer.Option("--gamma", metavar="G", help="Residual strength; inf means no skip connection.")
    ] = math.inf,
    gain: Annotated[
        str, typer.Option("--gain", help="Factor of the weights, or 'forward' for the activation's principled gain.")
    ] = "1",
    bias_variance: Annotated[float, typer.Option("--bias-variance", help="Variance of Gaussian biases.")] = 0.0,
    runs: Annotated[int, typer.Option("--runs", metavar="R", help="Independent networks.")] = 16,
    metric: Annotated[
        list[str] | None,
        typer.Option("--metric", metavar="M", help="Repeat for several; the default is the common ones."),
    ] = None,
    backward: Annotated[bool, typer.Option("--backward", help="Also measure gradients, by a backward pass.")] = False,
    loss: Annotated[LossChoice, typer.Option("--loss", help="What the gradients are of.")] = LossChoice.gaussian,
    source: Annotated[
        str,
        typer.Option(
            "--input",
            help="gaussian, orthogonal, correlated:COSINE, collinear:ANGLE, degenerate:DISTINCT, power-law:EXPONENT, "
            "data:NAME[:centre=…,scale=…], or a .npy/.npz/.csv file.",
        ),
    ] = "gaussian",
    at: Annotated[
        SiteChoice, typer.Option("--at", help="Measure after the layer, or before its activation.")
    ] = SiteChoice.post,
    seed: Annotated[int, typer.Option("--seed", metavar="S", help="Seed of weights and input.")] = 0,
    engine: Annotated[
        EngineChoice, typer.Option("--engine", help="gram draws no weight matrix (fast, exact in law); dense draws it.")
    ] = EngineChoice.auto,
    dtype: Annotated[DtypeChoice, typer.Option("--dtype", help="Precision of the computation.")] = DtypeChoice.float64,
    spec: Annotated[
        Path | None, typer.Option("--spec", metavar="FILE.json", help="A network spec instead of the options above.")
    ] = None,
    plot: Plot = None,
    out: Annotated[Path | None, typer.Option("--out", metavar="FILE.nc", help="Save every run as netCDF.")] = None,
    as_json: Json = False,
) -> None:
    """Simulate a random network of finite width: what happens to a batch, layer by layer, with 95 % intervals.

    A layer is φ(norm(W h)), or norm(φ(W h)) with --norm-position post. With --gamma it is norm(h + γ W φ(h)), or
    norm(h + γ φ(W h)) with post.

    Examples: [bold]isometer simulate --depth 100 --norm batch[/],
    [bold]isometer simulate --width 1000 --batch 10 --input correlated:0.9 --backward --plot net.png[/]
    """
    from isometer.simulate import DEFAULT_METRICS, make_batch
    from isometer.simulate import simulate as run_simulation

    metrics = list(metric) if metric else list(DEFAULT_METRICS)
    if backward and "gradient_log_norm" not in metrics:
        metrics.append("gradient_log_norm")
    is_file = Path(source).suffix in (".npy", ".npz", ".csv")
    samples = batch if batch is not None or is_file else 10
    if spec is not None:
        network = _spec_from_file(spec)
        data = make_batch(source, samples, network.input_width, seed=seed)
    else:
        data = make_batch(source, samples, None if is_file else width, seed=seed)
        network = _spec_from_options(
            width, depth, activation, norm, norm_position, weights, gamma, gain, bias_variance, data.shape[-1]
        )
    for target in (plot, out):
        if target is not None and not target.parent.is_dir():
            raise IsometerError(f"the folder {str(target.parent)!r} does not exist — create it first")
    with progress_bar("simulating") as report:
        dataset = run_simulation(
            network,
            data,
            runs=runs,
            metrics=metrics,
            seed=seed,
            engine=engine.value,
            at=at.value,
            loss=loss.value,
            dtype=dtype.value,
            progress=report,
        )
    if out is not None:
        save_dataset(dataset, out)
    if plot is not None:
        from isometer.report.pictures import save_figure
        from isometer.report.trajectories import trajectory_picture

        save_figure(trajectory_picture(dataset), plot)
    if as_json:
        emit(as_record(dataset, runs, seed))
        return
    from isometer.report.trajectories import print_trajectory

    page = console()
    print_trajectory(page, dataset)
    for label, target in (("picture", plot), ("data", out)):
        if target is not None:
            page.print(f"{label}: {target}", highlight=False)


def _spec_from_file(path: Path) -> Spec:
    from isometer.spec import Spec

    try:
        text = path.read_text(encoding="utf-8")
    except OSError as problem:
        raise IsometerError(f"cannot read the spec {str(path)!r}: {problem.strerror}") from problem
    return Spec.from_json(text)


def _spec_from_options(
    width: int,
    depth: int,
    activation: str,
    norm: str,
    position: PositionChoice,
    weights: str,
    gamma: float,
    gain: str,
    bias_variance: float,
    features: int,
) -> Spec:
    from isometer.activations import activation as parse
    from isometer.spec import Norm, Spec

    skip = math.isfinite(gamma)
    order: Any
    if position is PositionChoice.pre:
        order = ("activation", "weights", "residual", "norm") if skip else ("weights", "norm", "activation")
    else:
        order = ("weights", "activation", "residual", "norm") if skip else ("weights", "activation", "norm")
    if gain == "forward":
        factor = parse(activation).gain_forward
    else:
        try:
            factor = float(gain)
        except ValueError:
            raise IsometerError(f"gain is {gain!r}; expected a number or 'forward' — pass --gain 1.414, say") from None
    return Spec(
        width=width,
        depth=depth,
        activation=activation,
        norm=Norm.named(norm),
        weights=weights,
        gain=factor,
        bias_variance=bias_variance,
        residual=gamma,
        order=order,
        input_width=features,
    )


def save_dataset(dataset: xarray.Dataset, path: Path) -> None:
    """netCDF under a temporary name, then renamed."""
    partial = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    try:
        dataset.to_netcdf(partial, engine="h5netcdf")
        os.replace(partial, path)
    except OSError as problem:
        raise IsometerError(f"cannot write {str(path)!r}: {problem.strerror or problem}") from problem
    finally:
        partial.unlink(missing_ok=True)


def as_record(dataset: xarray.Dataset, runs: int, seed: int) -> dict[str, Any]:
    """The JSON of `isometer simulate`."""
    import json

    from isometer.simulate import summarize

    summary = summarize(dataset)

    def plain(value: float) -> Any:
        if math.isnan(value):
            return None
        return value if math.isfinite(value) else ("inf" if value > 0 else "-inf")

    statistics = ("mean", "low", "high")
    metrics = {
        str(name): {s: [plain(float(v)) for v in variable.sel(statistic=s).values] for s in statistics}
        for name, variable in summary.data_vars.items()
    }
    return {
        "engine": dataset.attrs["engine"],
        "spec": json.loads(dataset.attrs["spec"]),
        "layers": [int(layer) for layer in dataset["layer"].values],
        "metrics": metrics,
        "runs": runs,
        "seed": seed,
        "at": dataset.attrs["at"],
        "first_nonfinite_layer": [int(layer) for layer in dataset.attrs["first_nonfinite_layer"]],
    }
