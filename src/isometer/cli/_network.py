"""Options that describe a network and a batch, shared by the commands that take them."""

from __future__ import annotations

import inspect
import math
from collections.abc import Callable
from dataclasses import dataclass, fields
from enum import StrEnum
from functools import wraps
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, get_type_hints

import typer

from isometer.cli._shared import PositionChoice, PositionOption
from isometer.errors import IsometerError
from isometer.files import existing_folder, read_regular
from isometer.metrics import names
from isometer.metrics._metric import SIMULATED

if TYPE_CHECKING:
    import numpy as np

    from isometer.spec import Chain


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


Width = Annotated[int, typer.Option("--width", metavar="D", help="Features per layer.")]
Depth = Annotated[int, typer.Option("--depth", metavar="L", help="Number of weight layers.")]
BatchSize = Annotated[
    int | None, typer.Option("--batch", metavar="N", help="Samples in the batch; 10, or all of a file.")
]
ActivationText = Annotated[str, typer.Option("--activation", metavar="A", help="As for `isometer explain`.")]
NormName = Annotated[
    str,
    typer.Option("--norm", help="none, batch, batch-rescale, batch-recenter, layer, rms (and unit, whiten, group:K)."),
]
WeightLaw = Annotated[
    str, typer.Option("--weights", metavar="LAW", help="gaussian, orthogonal, uniform, he, pytorch, asymmetric, …")
]
Gamma = Annotated[float, typer.Option("--gamma", metavar="G", help="Residual strength; inf means no skip connection.")]
Gain = Annotated[
    str, typer.Option("--gain", help="Factor of the weights, or 'forward' for the activation's principled gain.")
]
BiasVariance = Annotated[float, typer.Option("--bias-variance", help="Variance of Gaussian biases.")]
Runs = Annotated[int, typer.Option("--runs", metavar="R", help="Independent networks.")]
MetricNames = Annotated[
    list[str] | None,
    typer.Option(
        "--metric",
        metavar="M",
        help=f"Repeat for several; the default is the common ones. {', '.join(names(*SIMULATED))}.",
    ),
]
Backward = Annotated[bool, typer.Option("--backward", help="Also measure gradients, by a backward pass.")]
Loss = Annotated[LossChoice, typer.Option("--loss", help="What the gradients are of.")]
Source = Annotated[
    str,
    typer.Option(
        "--input",
        help="gaussian, orthogonal, correlated:COSINE, collinear:ANGLE, degenerate:DISTINCT, power-law:EXPONENT, "
        "data:NAME[:centre=…,scale=…], or a .npy/.npz/.csv/.safetensors file.",
    ),
]
Site = Annotated[SiteChoice, typer.Option("--at", help="Measure after the layer, or before its activation.")]
Seed = Annotated[int, typer.Option("--seed", metavar="S", help="Seed of weights and input.")]
EngineOption = Annotated[
    EngineChoice, typer.Option("--engine", help="gram draws no weight matrix (fast, exact in law); dense draws it.")
]
Dtype = Annotated[DtypeChoice, typer.Option("--dtype", help="Precision of the computation.")]
SpecFile = Annotated[
    Path | None, typer.Option("--spec", metavar="FILE.json", help="A network spec instead of the options above.")
]
Out = Annotated[Path | None, typer.Option("--out", metavar="FILE.nc", help="Save every run as netCDF.")]


@dataclass(frozen=True)
class Setting:
    """A network, its input and how it is measured: the options that `simulate` and `predict` have in common."""

    width: Width = 100
    depth: Depth = 50
    batch: BatchSize = None
    activation: ActivationText = "relu"
    norm: NormName = "none"
    norm_position: PositionOption = PositionChoice.pre
    weights: WeightLaw = "gaussian"
    gamma: Gamma = math.inf
    gain: Gain = "1"
    bias_variance: BiasVariance = 0.0
    runs: Runs = 16
    metric: MetricNames = None
    backward: Backward = False
    loss: Loss = LossChoice.gaussian
    source: Source = "gaussian"
    at: Site = SiteChoice.post
    seed: Seed = 0
    engine: EngineOption = EngineChoice.auto
    dtype: Dtype = DtypeChoice.float64
    spec: SpecFile = None

    def network_and_batch(self) -> tuple[Chain, np.ndarray[Any, Any]]:
        """The network and the input."""
        return network_and_batch(
            self.spec,
            self.source,
            self.batch,
            self.seed,
            self.width,
            depth=self.depth,
            activation=self.activation,
            norm=self.norm,
            position=self.norm_position,
            weights=self.weights,
            gamma=self.gamma,
            gain=self.gain,
            bias_variance=self.bias_variance,
        )

    @property
    def metrics(self) -> list[str]:
        """The metrics asked for, with gradients if asked for."""
        return chosen_metrics(self.metric, self.backward)


def takes_setting(command: Callable[..., None]) -> Callable[..., None]:
    """A command whose first parameter is a `Setting`, with the options of one in its place."""
    hints = get_type_hints(Setting, include_extras=True)
    shared = [
        inspect.Parameter(f.name, inspect.Parameter.KEYWORD_ONLY, default=f.default, annotation=hints[f.name])
        for f in fields(Setting)
    ]
    # eval_str: postponed annotations are text, and Typer needs the objects.
    own = list(inspect.signature(command, eval_str=True).parameters.values())[1:]
    # Keyword-only parameters may stand in any order, with or without default.
    both = [*shared, *(p.replace(kind=inspect.Parameter.KEYWORD_ONLY) for p in own)]

    @wraps(command)
    def run(**values: Any) -> None:
        command(Setting(**{p.name: values.pop(p.name) for p in shared}), **values)

    # Typer reads the signature and the annotations.
    run.__signature__ = inspect.Signature(both)  # type: ignore[attr-defined]
    run.__annotations__ = {p.name: p.annotation for p in both}
    return run


def is_file(source: str) -> bool:
    """Whether an input is a file, which brings its own samples and features."""
    from isometer.data._arrays import SUFFIXES

    return Path(source).suffix.lower() in SUFFIXES


def chosen_metrics(metric: list[str] | None, backward: bool) -> list[str]:
    """The metrics asked for, or the common ones; with gradients if asked for."""
    from isometer.trajectory import DEFAULT_METRICS

    metrics = list(metric) if metric else list(DEFAULT_METRICS)
    if backward and "gradient_log_norm" not in metrics:
        metrics.append("gradient_log_norm")
    return metrics


def network_and_batch(
    spec: Path | None, source: str, batch: int | None, seed: int, width: int, **options: Any
) -> tuple[Chain, np.ndarray[Any, Any]]:
    """The network and the input that the options describe."""
    from isometer.data._batches import make_batch

    samples = batch if batch is not None or is_file(source) else 10
    if spec is not None:
        network = spec_from_file(spec)
        return network, make_batch(source, samples, network.input_width, seed=seed)
    data = make_batch(source, samples, None if is_file(source) else width, seed=seed)
    return spec_from_options(width=width, features=data.shape[-1], **options), data


def spec_from_file(path: Path) -> Chain:
    """The spec in a JSON file."""
    from isometer.spec import Chain

    try:
        text = read_regular(path)
    except OSError as problem:
        raise IsometerError(f"cannot read the spec {str(path)!r}: {problem.strerror}") from problem
    except UnicodeDecodeError as problem:
        raise IsometerError(f"{str(path)!r} is not a text file; expected a network spec as JSON") from problem
    return Chain.from_json(text)


def spec_from_options(
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
) -> Chain:
    """The spec that the options describe."""
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


def check_folders(*targets: Path | None) -> None:
    """Raise before any work if a file could not be written at its end."""
    for target in targets:
        if target is not None:
            existing_folder(target.parent)
            if target.is_dir():
                raise IsometerError(f"cannot write {str(target)!r}: it is a folder — name a file in it")
