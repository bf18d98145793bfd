"""Options that describe a network and its input: the same words in every command, and the one place that reads them."""

from __future__ import annotations

import math
import warnings
from dataclasses import dataclass, field, replace
from enum import StrEnum
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from isometer.checks import DEEPEST
from isometer.cli._application import listed
from isometer.cli._shared import INPUT, MEASUREMENT, NETWORK, OUTPUT
from isometer.errors import IsometerError
from isometer.files import existing_folder
from isometer.metrics import SEQUENCE_METRICS, names
from isometer.metrics._metric import SIMULATED

if TYPE_CHECKING:
    import numpy as np

    from isometer.spec import Chain, Spec


class PositionChoice(StrEnum):
    pre = "pre"
    post = "post"
    sum = "sum"


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


NetworkText = Annotated[
    str | None,
    NETWORK(
        "--network",
        metavar="FILE|PRESET|TEXT",
        help="A network instead of the short options: a JSON file, a preset such as preln_mlp(blocks=24), or an "
        "expression such as repeat(dense > act('relu'), 10). Parsed, never executed.",
    ),
]
Width = Annotated[int, NETWORK("--width", metavar="D", help="Features per layer.")]
Depth = Annotated[int, NETWORK("--depth", metavar="L", help="Number of layers.")]
ActivationText = Annotated[
    str, NETWORK("--activation", metavar="A", help="Name or expression, as for `isometer explain`.")
]
NormName = Annotated[
    str,
    NETWORK(
        "--norm",
        metavar="NORM",
        help="none, layer, rms, batch, batch-rescale, batch-recenter (and unit, whiten, group:K) in each layer.",
    ),
]
PositionOption = Annotated[
    PositionChoice,
    NETWORK(
        "--norm-position",
        help="Position of the norm relative to the activation: pre is dense > norm > act, post is dense > act > norm. "
        "With --gamma it is inside the branch, residual(norm > act > dense) or residual(act > norm > dense); sum "
        "puts it after the addition, residual(act > dense) > norm.",
    ),
]
WeightLaw = Annotated[
    str, NETWORK("--weights", metavar="LAW", help="gaussian, orthogonal, uniform, he, pytorch, asymmetric, …")
]
Gamma = Annotated[
    float, NETWORK("--gamma", metavar="G", help="Strength of the branch beside a skip connection; inf means no skip.")
]
Gain = Annotated[
    str | None,
    NETWORK(
        "--gain",
        metavar="G",
        help="Factor of the weights. The default, forward, keeps signals at unit variance: 1/√E φ², or 1 where a norm "
        "follows the activation. Laws that set their own size (he, pytorch, …) have gain 1.",
    ),
]
BiasVariance = Annotated[float, NETWORK("--bias-variance", metavar="V", help="Variance of Gaussian biases.")]
Source = Annotated[
    str,
    INPUT(
        "--input",
        metavar="SOURCE",
        help="gaussian, orthogonal, correlated:COSINE, collinear:ANGLE, degenerate:DISTINCT, power-law:EXPONENT, a "
        "data set such as fashion-mnist or data:fashion-mnist:centre=pixel,scale=norm, a .npy/.npz/.csv/.safetensors "
        "file (FILE:scale=norm for samples of mean square 1), or cosine:C, which is correlated:C at infinite width.",
    ),
]
BatchSize = Annotated[
    int | None, INPUT("--batch", metavar="N", help="Samples in the batch; by default 10, or all samples of a file.")
]
Seed = Annotated[int, INPUT("--seed", metavar="S", help="Seed of weights and input.")]
Runs = Annotated[int, MEASUREMENT("--runs", metavar="R", help="Independent networks.")]
MetricNames = Annotated[
    list[str] | None,
    MEASUREMENT(
        "--metric",
        metavar="M",
        help="Metrics to measure: repeat the option, or separate them by commas; the common ones by default. "
        f"{', '.join(names(*SIMULATED))}; of sequences {', '.join(SEQUENCE_METRICS)}.",
    ),
]
Backward = Annotated[bool, MEASUREMENT("--backward", help="Also measure gradients, by a backward pass.")]
Loss = Annotated[LossChoice, MEASUREMENT("--loss", help="Loss whose gradients are measured.")]
Site = Annotated[SiteChoice, MEASUREMENT("--at", help="Measure after each layer, or before its activation.")]
EngineOption = Annotated[
    EngineChoice, MEASUREMENT("--engine", help="gram draws no weight matrices (fast, exact in law); dense draws them.")
]
Dtype = Annotated[DtypeChoice, MEASUREMENT("--dtype", help="Precision of the computation.")]
Out = Annotated[Path | None, OUTPUT("--out", metavar="FILE.nc", help="Save every run as netCDF.")]

SHORT = ("depth", "activation", "norm", "norm_position", "weights", "gamma", "gain", "bias_variance")
"""The short options that a network of one's own leaves no room for."""
WIDE = "cosine:"
"""How inputs of infinitely many features begin."""


@dataclass(frozen=True)
class LayerOptions:
    """The layer of a chain: the options that even `explain` has."""

    norm: NormName = "none"
    norm_position: PositionOption = PositionChoice.pre
    gamma: Gamma = math.inf
    gain: Gain = None
    bias_variance: BiasVariance = 0.0
    given: frozenset[str] = field(default=frozenset(), kw_only=True)  # the options that were typed

    def check_alone(self, *more: str) -> None:
        """Raise if a short option was typed beside a network that leaves no room for it."""
        typed = [name for name in (*SHORT, *more) if name in self.given]
        if typed:
            option = typed[0].replace("_", "-")
            raise IsometerError(f"--network already sets the {option}; expected one of them — drop --{option}")


@dataclass(frozen=True)
class _Frame:
    """What a network has beside its layer; a class of its own so that these options come first in the help."""

    network: NetworkText = None
    width: Width = 100
    depth: Depth = 50
    activation: ActivationText = "relu"
    weights: WeightLaw = "gaussian"


@dataclass(frozen=True)
class NetworkOptions(LayerOptions, _Frame):
    """A network: the short options of a chain, or one of one's own."""

    @property
    def brings_its_own(self) -> bool:
        """Whether the network is not one of the short options."""
        return self.network is not None

    def made(self, features: int | None = None) -> Spec:
        """The network, for an input of so many features; of `--width` features unless the network says."""
        if self.network is None:
            return self.chain(features)
        self.check_alone(*(["width"] if says_width(self.network) else []))
        if Path(self.network).suffix == ".json":
            return self._read
        return network_from(self.network, self.width if features is None else features)

    @cached_property
    def _read(self) -> Spec:
        """The network of a file, read once: what there is to tell of it is told once."""
        return network_from(str(self.network), self.width, file=True)

    def stack(self, features: int) -> Spec:
        """The network for kernels, which put an input layer before a skip connection and take any depth."""
        if self.brings_its_own:
            return self.made(features)
        shallow = replace(self, depth=max(1, min(self.depth, DEEPEST)))
        return shallow.chain(None if math.isfinite(self.gamma) else features)

    def chain(self, features: int | None = None) -> Chain:
        """The chain of the short options."""
        from isometer.spec import chain_from_options

        made = chain_from_options(
            width=self.width,
            depth=self.depth,
            activation=self.activation,
            norm=self.norm,
            norm_position=self.norm_position.value,
            weights=self.weights,
            gain=gain_from(self.gain),
            bias_variance=self.bias_variance,
            gamma=self.gamma,
            input_width=None if math.isfinite(self.gamma) else features,
        )
        if features is not None and features != made.input_width:
            raise IsometerError(
                f"the input has {features} features and the layers {self.width}; expected the same number, since the "
                f'skip connection adds them — pass --width {features}, or --network "input({features}) > '
                f'dense({self.width}) > {str(made).partition(" > ")[2]}"'
            )
        return made


@dataclass(frozen=True)
class InputOptions:
    """The batch that a network sees."""

    source: Source = "gaussian"
    batch: BatchSize = None
    seed: Seed = 0

    @property
    def is_wide(self) -> bool:
        """Whether the samples have infinitely many features, and are known by their Gram matrix only."""
        return self.source.startswith(WIDE)

    def features_of(self, network: NetworkOptions) -> int | None:
        """How many features samples need, where a network of one's own says so."""
        if network.network is None or not says_width(network.network):
            return None
        shape = network.made().shape
        return shape.width * shape.positions

    def gram(self) -> np.ndarray[Any, Any]:
        """The Gram matrix of samples of infinitely many features."""
        import numpy as np

        n = 2 if self.batch is None else self.batch
        try:
            cosine = float(self.source.removeprefix(WIDE))
        except ValueError:
            cosine = math.nan
        if not -1.0 / max(n - 1, 1) <= cosine <= 1.0:
            low = -1.0 / max(n - 1, 1)
            raise IsometerError(
                f"input is {self.source!r}; expected a cosine that {n} samples can have, from {low:.4g} to 1 "
                "— cosine:0.5, for example"
            )
        return np.full((n, n), cosine) + (1.0 - cosine) * np.eye(n)

    def samples(self, features: int | None) -> np.ndarray[Any, Any]:
        """The batch `(n, d)`; what brings its own number of features has that."""
        from isometer.data._batches import make_batch

        if self.is_wide:
            cosine = self.source.removeprefix(WIDE)
            raise IsometerError(
                f"{self.source} has infinitely many features, which only theory can handle; expected a batch — "
                f"correlated:{cosine}, for example"
            )
        known = self.batch if self.batch is not None or is_file(self.source) else 10
        return make_batch(self.source, known, None if is_file(self.source) else features, seed=self.seed)


@dataclass(frozen=True)
class Setting(InputOptions, NetworkOptions):
    """A network, its input and how it is measured: the options that `simulate` and `predict` have in common."""

    runs: Runs = 16
    metric: MetricNames = None
    backward: Backward = False
    loss: Loss = LossChoice.gaussian
    at: Site = SiteChoice.post
    engine: EngineOption = EngineChoice.auto
    dtype: Dtype = DtypeChoice.float64

    def network_and_batch(self) -> tuple[Spec, np.ndarray[Any, Any]]:
        """The network and the input."""
        return network_and_batch(self, self)

    @property
    def metrics(self) -> list[str]:
        """The metrics asked for, with gradients if requested."""
        sequences = not self.metric and self.brings_its_own and attends(self.made())
        return chosen_metrics(self.metric, self.backward, sequences)


def network_and_batch(network: NetworkOptions, data: InputOptions) -> tuple[Spec, np.ndarray[Any, Any]]:
    """A network and the batch it sees, positions as axes `(n, features, *positions)` where it has any."""
    if brings_features(data.source):
        batch = data.samples(None)
        spec = network.made(batch.shape[-1])
    else:
        spec = network.made()
        if data.batch is None and attends(spec):
            data = replace(data, batch=FEW_SEQUENCES)
        batch = data.samples(spec.shape.width * spec.shape.positions)
    return spec, shaped(batch, spec)


FEW_SEQUENCES = 4
"""Samples of a batch of sequences, whose tokens all count, unless --batch says."""


def attends(spec: Spec) -> bool:
    """Whether a network has attention."""
    from isometer.spec import Attention
    from isometer.spec._steps import walk

    return any(isinstance(step, Attention) for step in walk(spec.composition))


def shaped(batch: np.ndarray[Any, Any], spec: Spec) -> np.ndarray[Any, Any]:
    """Flat samples with the axes of positions that a network asks for; an error where features do not fit."""
    features, wanted = batch.shape[-1], spec.shape.width * spec.shape.positions
    if features != wanted:
        positions = f" at {spec.shape.axes} positions" if spec.shape.axes else ""
        raise IsometerError(
            f"the input has {features} features and the network takes {spec.shape.width}{positions}; expected the same "
            f"number — begin the network with input({features}), or with input({features}) > dense({spec.shape.width})"
        )
    return batch.reshape(len(batch), spec.shape.width, *spec.shape.axes) if spec.shape.axes else batch


def rooted(gram: np.ndarray[Any, Any], features: int | None = None) -> np.ndarray[Any, Any]:
    """Samples `(n, d)` with this Gram matrix, H Hᵀ / d; as many features as samples by default."""
    import numpy as np

    values, vectors = np.linalg.eigh(gram)
    root: np.ndarray[Any, Any] = (vectors * np.sqrt(np.clip(values, 0.0, None))) @ vectors.T
    count = len(gram) if features is None else features
    if count < len(gram):
        raise IsometerError(
            f"{len(gram)} samples of any cosine need as many features, but the network takes {count}; expected "
            "fewer samples — pass --batch"
        )
    return np.pad(root, ((0, 0), (0, count - len(gram)))) * math.sqrt(count)


def kernel_inputs(network: NetworkOptions, data: InputOptions) -> np.ndarray[Any, Any]:
    """Samples for a kernel, with the features that the network asks for, if it does."""
    features = data.features_of(network)
    return rooted(data.gram(), features) if data.is_wide else data.samples(features or network.width)


def is_file(source: str) -> bool:
    """Whether an input is a file, which brings its own samples and features."""
    from isometer.data._batches import file_source

    return file_source(source) is not None


def brings_features(source: str) -> bool:
    """Whether an input has features of its own: a file or a data set."""
    from isometer.data import CATALOG

    return source.startswith("data:") or source in CATALOG or is_file(source)


def chosen_metrics(metric: list[str] | None, backward: bool, sequences: bool = False) -> list[str]:
    """The metrics asked for, or the common ones, of sequences where there is attention; with gradients if requested."""
    from isometer.trajectory import DEFAULT_METRICS

    metrics = listed(metric) or list(SEQUENCE_METRICS if sequences else DEFAULT_METRICS)
    if backward and "gradient_log_norm" not in metrics:
        metrics.append("gradient_log_norm")
    return metrics


def says_width(text: str) -> bool:
    """Whether a network says how many features enter it."""
    from isometer.spec._parser import parse_network

    return Path(text).suffix == ".json" or parse_network(text)[1] is not None


def network_from(text: str, width: int, *, file: bool = False) -> Spec:
    """The network of a JSON file, a preset or an expression; `width` features enter where it does not say."""
    from isometer.spec import Spec

    if file or Path(text).suffix == ".json":
        return _spec_from_file(Path(text))
    return Spec(text) if says_width(text) else Spec(text, width=width)


def _spec_from_file(path: Path) -> Spec:
    from isometer.spec import read_spec

    try:
        with warnings.catch_warnings(record=True) as told:
            warnings.simplefilter("always")
            spec = read_spec(path)
    except UnicodeDecodeError as problem:
        raise IsometerError(f"{str(path)!r} is not a text file; expected a network spec as JSON") from problem
    for one in told:
        tell(str(one.message))
    return spec


def gain_from(text: str | None) -> Any:
    """What `--gain` says: a number, `forward`, or nothing."""
    if text is None or text == "forward":
        return text
    try:
        return float(text)
    except ValueError:
        raise IsometerError(
            f"gain is {text!r}; expected a number or 'forward' — pass --gain 1.414, for example"
        ) from None


def tell(words: str) -> None:
    """A note on standard error."""
    typer.echo(f"note: {words}", err=True)


def check_folders(*targets: Path | None) -> None:
    """Raise before any work if a file could not be written at its end."""
    for target in targets:
        if target is not None:
            existing_folder(target.parent)
            if target.is_dir():
                raise IsometerError(f"cannot write {str(target)!r}: it is a folder — name a file in it")
