"""`isometer predict`: what theory says a network does to a batch, alone or laid over a simulation."""

from __future__ import annotations

import json
import shlex
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from isometer.cli._application import listed
from isometer.cli._network import LossChoice, Out, Setting, check_folders
from isometer.cli._option_groups import takes_options
from isometer.cli._shared import (
    MEASUREMENT,
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
    tell_file,
)
from isometer.cli._threads import threads as using
from isometer.errors import IsometerError

if TYPE_CHECKING:
    import numpy as np
    import xarray

    from isometer.spec import Spec
    from isometer.theory.prediction import Departure

_LARGE = 1000  # samples from which on several threads are worth it

Against = Annotated[
    bool,
    MEASUREMENT("--against-simulation", help="Simulate too, draw both and report where theory leaves the interval."),
]
Compare = Annotated[
    list[str] | None,
    MEASUREMENT("--compare", metavar="A,B,…", help="Several activations against simulations, one panel each."),
]


@dataclass(frozen=True)
class Forecast:
    """A prediction, bands of finite width or why there is none, the simulation if requested.

    `band` is that of theory, `drawn` that of simulated networks, for metrics that theory has no band of.
    """

    predicted: xarray.Dataset
    band: xarray.Dataset | None
    drawn: xarray.Dataset | None
    simulated: xarray.Dataset | None
    missing: dict[str, str]

    @property
    def bands(self) -> list[xarray.Dataset]:
        """Both."""
        return [band for band in (self.band, self.drawn) if band is not None]

    @property
    def departures(self) -> list[Departure]:
        """Where theory leaves the simulated interval."""
        from isometer.theory.prediction import departures

        return [] if self.simulated is None else departures(self.predicted, self.simulated, self.band)


@app.command()
@takes_options
def predict(
    setting: Setting,
    against_simulation: Against = False,
    compare: Compare = None,
    plot: Plot = None,
    out: Out = None,
    memory: Memory = None,
    time: Time = None,
    threads: Threads = None,
    as_json: Json = False,
) -> None:
    """Predict from theory alone what happens to a batch, layer by layer: infinite width, and the band of this width.

    Options are those of `isometer simulate`; --runs, --engine and --dtype matter only with --against-simulation.
    Networks that no theory covers are refused with the assumption that fails and the nearest covered network.

    Examples: [bold]isometer predict --norm batch --depth 100 --backward[/],
    [bold]isometer predict --norm batch --compare relu,leaky_relu,tanh,erf,gelu,silu,sin,sigmoid --plot eight.png[/]
    """
    if setting.loss is not LossChoice.gaussian:
        raise IsometerError(
            f"loss is {setting.loss.value}; expected gaussian, the only loss that theory covers — use isometer simulate"
        )
    check_folders(plot, out)
    if compare:
        if out is not None:
            raise IsometerError(
                "--compare makes several predictions, but --out writes one; expected one of them — use --json"
            )
        with allowing(memory, time):
            _compare(setting, _names(compare, setting), plot, threads, as_json)
        return
    with allowing(memory, time):
        answer = ask(setting, setting.metrics, against_simulation, threads)
    if out is not None:
        from isometer.cli.simulate import save_dataset

        save_dataset(answer.predicted, out)
    if plot is not None:
        from isometer.report._pictures import save_figure
        from isometer.report._predictions import prediction_picture

        save_figure(prediction_picture(answer.predicted, answer.bands, answer.simulated), plot)
    if as_json:
        emit(as_record(answer, setting))
        return
    from isometer.report._predictions import print_prediction

    page = console()
    print_prediction(page, answer.predicted, answer.bands, answer.simulated, answer.departures, answer.missing)
    for label, target in (("picture", plot), ("data", out)):
        if target is not None:
            tell_file(page, label, target)
    if not against_simulation:
        next_step(page, "the same with --against-simulation")
    else:
        next_step(page, "the same with --plot both.png" if plot is None else "isometer solve depth --help")


def ask(setting: Setting, metrics: list[str], simulated: bool, threads: int | None = None) -> Forecast:
    """Predict, and simulate if requested."""
    from isometer.theory.prediction import finite_width, missing_bands
    from isometer.theory.prediction import predict as theory

    network, start = _network_and_start(setting)
    [data] = start.values()
    site: Any = setting.at.value
    with using(threads, large=len(data) >= _LARGE):
        with progress_bar("predicting") as report:
            predicted = theory(network, **start, metrics=metrics, at=site, progress=report)
        missing = missing_bands(network, len(data), metrics)
        known = [name for name in metrics if name not in missing]
        band = None
        if known:
            with progress_bar("band of this width") as report:
                band = finite_width(network, **start, metrics=known, at=site, progress=report)
        drawn = None
        if missing and not setting.is_wide:
            drawn, missing = _drawn_band(network, data, missing, site)
        if simulated and setting.is_wide:
            setting.samples(None)  # says that there is nothing to simulate
        runs = _simulation(setting, metrics, network, data) if simulated else None
        return Forecast(predicted, band, drawn, runs, missing)


def _drawn_band(
    network: Spec, data: np.ndarray[Any, Any], missing: dict[str, str], site: Any
) -> tuple[xarray.Dataset | None, dict[str, str]]:
    """A band by simulation of the metrics that theory has none of; or why there is neither."""
    try:
        try:
            from isometer.simulate import simulated_band
        except ImportError as problem:
            raise IsometerError("simulations need torch — pip install 'isometer[torch]'") from problem
        with progress_bar("band of this width, simulated") as report:
            return simulated_band(network, data, metrics=[*missing], at=site, progress=report), {}
    except IsometerError as problem:
        why = str(problem).partition(" — ")[0]
        return None, {name: f"{reason}; nor is there one by simulation: {why}" for name, reason in missing.items()}


def _network_and_start(setting: Setting) -> tuple[Spec, dict[str, Any]]:
    """The network, and its input as the batch or the Gram matrix that it is."""
    if setting.is_wide:
        return setting.made(), {"gram": setting.gram()}
    network, batch = setting.network_and_batch()
    return network, {"batch": batch}


def _simulation(setting: Setting, metrics: list[str], network: Spec, data: np.ndarray[Any, Any]) -> xarray.Dataset:
    from isometer.simulate import simulate

    with progress_bar("simulating") as report:
        return simulate(
            network,
            data,
            runs=setting.runs,
            metrics=metrics,
            seed=setting.seed,
            engine=setting.engine.value,
            at=setting.at.value,
            dtype=setting.dtype.value,
            progress=report,
        )


def _names(compare: list[str], setting: Setting) -> list[str]:
    if setting.brings_its_own:
        raise IsometerError("--compare and --network both name activations; expected one of them — drop one")
    found = listed(compare)
    if not found:
        raise IsometerError(f"--compare is {','.join(compare)!r}; expected activations — pass --compare relu,tanh")
    return list(dict.fromkeys(found))


def _compare(setting: Setting, names: list[str], plot: Path | None, threads: int | None, as_json: bool) -> None:
    metrics = setting.metrics
    if not setting.metric:
        metrics = ["mean_abs_cosine", *(["gradient_log_norm"] if setting.backward else [])]
    answers = {name: ask(replace(setting, activation=name), metrics, True, threads) for name in names}
    if plot is not None:
        from isometer.report._pictures import save_figure
        from isometer.report._predictions import comparison_picture

        panels = {name: (a.predicted, a.bands, a.simulated) for name, a in answers.items()}
        save_figure(comparison_picture(panels, metrics), plot)
    if as_json:
        emit({"compare": {name: as_record(answer, setting) for name, answer in answers.items()}})
        return
    from isometer.report._predictions import print_comparison

    page = console()
    print_comparison(page, {name: (answer.predicted, answer.departures) for name, answer in answers.items()})
    if plot is not None:
        tell_file(page, "picture", plot)
    next_step(page, f"isometer explain {shlex.quote(names[0])}")


def as_record(answer: Forecast, setting: Setting) -> dict[str, Any]:
    """The JSON of `isometer predict`: that of `isometer simulate`, and where depth leads."""
    data = answer.predicted
    metrics: dict[str, Any] = {}
    for name in map(str, data.data_vars):
        own: dict[str, Any] = {"mean": data[name].values[0], "low": None, "high": None}
        own |= {"band": None, "band_from": None, "no_band_because": answer.missing.get(name)}
        for band in answer.bands:
            if name in band:
                rows = {s: band[name].sel(statistic=s).values for s in _STATISTICS}
                own |= {"low": rows["low"], "high": rows["high"], "finite_width_mean": rows["mean"], "band": 0.95}
                own |= {"band_from": band.attrs["band_from"], "draws": band.attrs.get("draws")}
        metrics[name] = own
    from isometer.spec import Spec

    record = {
        "engine": "theory",
        "spec": json.loads(data.attrs["spec"]),
        "layers": [int(layer) for layer in data["layer"].values],
        "metrics": metrics,
        "runs": setting.runs if answer.simulated is not None else 1,
        "seed": setting.seed,
        "at": data.attrs["at"],
        "first_nonfinite_layer": [int(layer) for layer in data.attrs["first_nonfinite_layer"]],
        "fixed_point": json.loads(data.attrs["fixed_point"]),
        "local_rate": data.attrs["local_rate"],
        "gradient_growth_per_layer": data.attrs["gradient_growth_per_layer"],
        "depth_scale": data.attrs["depth_scale"],
        "note": data.attrs["note"],
        "relative_error": data.attrs["relative_error"],
        "band_until": None if answer.band is None else int(answer.band.attrs["band_until"]),
    }
    exponents = _exponents(Spec.from_json(data.attrs["spec"]))
    if exponents is not None:
        record["exponents"] = exponents
    if answer.simulated is not None:
        from isometer.cli.simulate import as_record as simulation_record

        record["simulation"] = simulation_record(answer.simulated, setting.runs, setting.seed)["metrics"]
        record["outside"] = {d.metric: {"infinite_width": d.infinite, "own_width": d.finite} for d in answer.departures}
    return record


def _exponents(spec: Spec) -> dict[str, float | None] | None:
    """Both exponents of a transformer, None each without a steady state; None of other networks."""
    from isometer.cli._network import attends
    from isometer.theory.networks import NotCovered
    from isometer.theory.transformers import exponents

    if not attends(spec):
        return None
    try:
        found = exponents(spec)
    except (NotCovered, IsometerError):  # a causal mask, or no blocks
        found = None
    return {"angle": None, "gradient": None} if found is None else {"angle": found.angle, "gradient": found.gradient}


_STATISTICS = ("mean", "low", "high")
