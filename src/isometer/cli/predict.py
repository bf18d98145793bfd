"""`isometer predict`: what theory says a network does to a batch, alone or laid over a simulation."""

from __future__ import annotations

import json
import math
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from isometer.cli import _network
from isometer.cli._network import DtypeChoice, EngineChoice, LossChoice, SiteChoice, plain
from isometer.cli._shared import Json, Plot, PositionChoice, PositionOption, app, console, emit, progress_bar
from isometer.errors import IsometerError

if TYPE_CHECKING:
    import numpy as np
    import xarray

    from isometer.spec import Spec
    from isometer.theory.prediction import Departure

Against = Annotated[
    bool, typer.Option("--against-simulation", help="Simulate too; draw both and say where theory leaves the interval.")
]
Compare = Annotated[
    str | None,
    typer.Option("--compare", metavar="A,B,…", help="Several activations against simulations, one panel each."),
]


@dataclass(frozen=True)
class Question:
    """What is asked about a network, whichever network it is."""

    metrics: list[str]
    at: str
    runs: int
    seed: int
    engine: str
    dtype: str


@dataclass(frozen=True)
class Answer:
    """A prediction, the band of finite width where there is one, and the simulation if asked for."""

    predicted: xarray.Dataset
    band: xarray.Dataset | None
    simulated: xarray.Dataset | None

    @property
    def departures(self) -> list[Departure]:
        """Where theory leaves the simulated interval."""
        from isometer.theory.prediction import departures

        return [] if self.simulated is None else departures(self.predicted, self.simulated, self.band)


@app.command()
def predict(
    width: _network.Width = 100,
    depth: _network.Depth = 50,
    batch: _network.BatchSize = None,
    activation: _network.ActivationText = "relu",
    norm: _network.NormName = "none",
    norm_position: PositionOption = PositionChoice.pre,
    weights: _network.WeightLaw = "gaussian",
    gamma: _network.Gamma = math.inf,
    gain: _network.Gain = "1",
    bias_variance: _network.BiasVariance = 0.0,
    runs: _network.Runs = 16,
    metric: _network.MetricNames = None,
    backward: _network.Backward = False,
    loss: _network.Loss = LossChoice.gaussian,
    source: _network.Source = "gaussian",
    at: _network.Site = SiteChoice.post,
    seed: _network.Seed = 0,
    engine: _network.EngineOption = EngineChoice.auto,
    dtype: _network.Dtype = DtypeChoice.float64,
    spec: _network.SpecFile = None,
    against_simulation: Against = False,
    compare: Compare = None,
    plot: Plot = None,
    out: _network.Out = None,
    as_json: Json = False,
) -> None:
    """Predict from theory alone what happens to a batch, layer by layer: infinite width, and the band of this width.

    Options are those of `isometer simulate`; those of the simulation itself matter with --against-simulation only.

    Examples: [bold]isometer predict --norm batch --depth 100 --backward[/],
    [bold]isometer predict --norm batch --compare relu,tanh,gelu,sin --plot eight.png[/]
    """
    if loss is not LossChoice.gaussian:
        raise IsometerError(f"loss is {loss.value}; expected gaussian, the one cotangent that theory covers — simulate")
    metrics = _network.chosen_metrics(metric, backward)
    if compare is not None and not metric:
        metrics = ["mean_abs_cosine", *(["gradient_log_norm"] if backward else [])]
    question = Question(metrics, at.value, runs, seed, engine.value, dtype.value)
    _network.check_folders(plot, out)

    def setting(name: str) -> tuple[Spec, np.ndarray[Any, Any]]:
        return _network.network_and_batch(
            spec,
            source,
            batch,
            seed,
            width,
            depth=depth,
            activation=name,
            norm=norm,
            position=norm_position,
            weights=weights,
            gamma=gamma,
            gain=gain,
            bias_variance=bias_variance,
        )

    if compare is not None:
        _compare(question, {name: setting(name) for name in _names(compare, spec)}, plot, as_json)
        return
    answer = ask(question, *setting(activation), against_simulation)
    if out is not None:
        from isometer.cli.simulate import save_dataset

        save_dataset(answer.predicted, out)
    if plot is not None:
        from isometer.report.pictures import save_figure
        from isometer.report.predictions import prediction_picture

        save_figure(prediction_picture(answer.predicted, answer.band, answer.simulated), plot)
    if as_json:
        emit(as_record(answer, question))
        return
    from isometer.report.predictions import print_prediction

    page = console()
    print_prediction(page, answer.predicted, answer.band, answer.simulated, answer.departures)
    for label, target in (("picture", plot), ("data", out)):
        if target is not None:
            page.print(f"{label}: {target}", highlight=False)


def ask(question: Question, network: Spec, data: np.ndarray[Any, Any], simulated: bool) -> Answer:
    """Predict, and simulate if asked for."""
    from isometer.theory.prediction import finite_width, finite_width_gap
    from isometer.theory.prediction import predict as theory

    site: Any = question.at
    predicted = theory(network, data, metrics=question.metrics, at=site)
    band = None
    forward = [name for name in question.metrics if name != "gradient_log_norm"]
    if question.at == "post" and forward and finite_width_gap(network, len(data)) is None:
        band = finite_width(network, data, metrics=forward)
    return Answer(predicted, band, _simulation(question, network, data) if simulated else None)


def _simulation(question: Question, network: Spec, data: np.ndarray[Any, Any]) -> xarray.Dataset:
    from isometer.simulate import simulate

    engine: Any = question.engine
    site: Any = question.at
    with progress_bar("simulating") as report:
        return simulate(
            network,
            data,
            runs=question.runs,
            metrics=question.metrics,
            seed=question.seed,
            engine=engine,
            at=site,
            dtype=question.dtype,
            progress=report,
        )


def _names(compare: str, spec: Path | None) -> list[str]:
    if spec is not None:
        raise IsometerError("--compare names activations and --spec brings its own; expected one of them — drop one")
    depth, names = 0, [""]
    for letter in compare:  # commas inside parentheses belong to an activation
        depth += {"(": 1, ")": -1}.get(letter, 0)
        if letter == "," and depth == 0:
            names.append("")
        else:
            names[-1] += letter
    found = [name.strip() for name in names if name.strip()]
    if not found:
        raise IsometerError(f"--compare is {compare!r}; expected activations — pass --compare relu,tanh")
    return list(dict.fromkeys(found))


def _compare(
    question: Question, settings: dict[str, tuple[Spec, np.ndarray[Any, Any]]], plot: Path | None, as_json: bool
) -> None:
    answers = {name: ask(question, network, data, True) for name, (network, data) in settings.items()}
    if plot is not None:
        from isometer.report.pictures import save_figure
        from isometer.report.predictions import comparison_picture

        panels = {name: (a.predicted, a.band, a.simulated) for name, a in answers.items()}
        save_figure(comparison_picture(panels, question.metrics[0]), plot)
    if as_json:
        emit({"compare": {name: as_record(answer, question) for name, answer in answers.items()}})
        return
    from isometer.report.predictions import print_comparison

    page = console()
    print_comparison(page, {name: (answer.predicted, answer.departures) for name, answer in answers.items()})
    if plot is not None:
        page.print(f"picture: {plot}", highlight=False)


def as_record(answer: Answer, question: Question) -> dict[str, Any]:
    """The JSON of `isometer predict`: that of `isometer simulate`, and where depth leads."""
    data = answer.predicted
    metrics: dict[str, Any] = {}
    for name in map(str, data.data_vars):
        own: dict[str, Any] = {"mean": [plain(float(v)) for v in data[name].values[0]], "low": None, "high": None}
        if answer.band is not None and name in answer.band:
            rows = {s: [plain(float(v)) for v in answer.band[name].sel(statistic=s).values] for s in _STATISTICS}
            own |= {"low": rows["low"], "high": rows["high"], "finite_width_mean": rows["mean"]}
        metrics[name] = own
    record = {
        "engine": "theory",
        "spec": json.loads(data.attrs["spec"]),
        "layers": [int(layer) for layer in data["layer"].values],
        "metrics": metrics,
        "runs": question.runs if answer.simulated is not None else 1,
        "seed": question.seed,
        "at": data.attrs["at"],
        "first_nonfinite_layer": [int(layer) for layer in data.attrs["first_nonfinite_layer"]],
        "fixed_point": json.loads(data.attrs["fixed_point"]),
        "local_rate": plain(data.attrs["local_rate"]),
        "gradient_growth_per_layer": plain(data.attrs["gradient_growth_per_layer"]),
        "depth_scale": plain(data.attrs["depth_scale"]),
        "note": data.attrs["note"],
    }
    if answer.simulated is not None:
        from isometer.cli.simulate import as_record as simulation_record

        record["simulation"] = simulation_record(answer.simulated, question.runs, question.seed)["metrics"]
        record["outside"] = {d.metric: {"infinite_width": d.infinite, "own_width": d.finite} for d in answer.departures}
    return record


_STATISTICS = ("mean", "low", "high")
