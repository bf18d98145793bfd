"""`isometer simulate`: what a random network of finite width does to a batch."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from isometer.cli._network import Out, Setting, check_folders
from isometer.cli._option_groups import takes_options
from isometer.cli._shared import (
    Json,
    Memory,
    Plot,
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
from isometer.files import write_whole

if TYPE_CHECKING:
    import xarray


@app.command()
@takes_options
def simulate(
    setting: Setting,
    plot: Plot = None,
    out: Out = None,
    memory: Memory = None,
    time: Time = None,
    as_json: Json = False,
) -> None:
    """Simulate a random network of finite width: what happens to a batch, layer by layer, with 95 % intervals.

    A layer is dense > norm > act, or dense > act > norm with --norm-position post; with --gamma G it is
    residual(norm > act > dense, G). --network describes any other network.

    Examples: [bold]isometer simulate --depth 100 --norm batch[/],
    [bold]isometer simulate --network 'preln_mlp(width=64, blocks=12)'[/],
    [bold]isometer simulate --width 1000 --batch 10 --input correlated:0.9 --backward --plot net.png[/]
    """
    with status("loading torch"):
        from isometer.simulate import simulate as run_simulation

    check_folders(plot, out)
    with allowing(memory, time):
        network, data = setting.network_and_batch()
        with progress_bar("simulating") as report:
            dataset = run_simulation(
                network,
                data,
                runs=setting.runs,
                metrics=setting.metrics,
                seed=setting.seed,
                engine=setting.engine.value,
                at=setting.at.value,
                loss=setting.loss.value,
                dtype=setting.dtype.value,
                progress=report,
            )
    if out is not None:
        save_dataset(dataset, out)
    if plot is not None:
        from isometer.report._pictures import save_figure
        from isometer.report._trajectories import trajectory_picture

        save_figure(trajectory_picture(dataset), plot)
    if as_json:
        emit(as_record(dataset, setting.runs, setting.seed))
        return
    from isometer.report._trajectories import print_trajectory

    page = console()
    print_trajectory(page, dataset)
    for label, target in (("picture", plot), ("data", out)):
        if target is not None:
            tell_file(page, label, target)
    next_step(page, "isometer predict with the same options: what theory says")


def save_dataset(dataset: xarray.Dataset, path: Path) -> None:
    """Write netCDF, whole or not at all."""
    write_whole(path, lambda partial: dataset.to_netcdf(partial, engine="h5netcdf"))


def as_record(dataset: xarray.Dataset, runs: int, seed: int) -> dict[str, Any]:
    """The JSON of `isometer simulate`."""
    import json

    from isometer.trajectory import summarize

    summary = summarize(dataset)

    statistics = ("mean", "low", "high")
    metrics = {
        str(name): {s: variable.sel(statistic=s).values for s in statistics}
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
