"""The guided experiments: words, networks, and what to read off them. Numbers in sentences are computed."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from isometer.explore._state import DepthState, StartState
from isometer.report._numbers import number

Settings = tuple[tuple[str, DepthState], ...]
"""Networks by the name of their curve, A first."""

GRAM = "gram"
RANK = "effective_rank"
GRADIENT = "gradient_log_norm"
TITLES = {
    RANK: "Directions that the batch uses",
    GRADIENT: "Size of the gradient, in powers of ten",
    GRAM: "Cosines between the samples",
}
"""What the pictures are called."""
_COLLAPSED = 2.0  # directions below which a batch has collapsed
_EXPLODES = 100.0  # times between the first and the last layer


@dataclass(frozen=True)
class GuidedStep:
    """One step of an experiment.

    Attributes:
        title: what happens.
        words: what is computed, what to look at, what to try.
        shown: a metric of the depth lab, or `gram` for the cosines at one layer.
        settings: the networks, made from what the reader set.
        controls: what the reader can set.
    """

    title: str
    words: tuple[str, ...]
    shown: str
    settings: Callable[[StartState], Settings]
    controls: tuple[str, ...] = ("depth",)


@dataclass(frozen=True)
class Experiment:
    """A guided experiment.

    Attributes:
        title: what it shows.
        summary: one sentence.
        steps: in their order.
        paper: number of the paper behind it.
    """

    title: str
    summary: str
    steps: tuple[GuidedStep, ...]
    paper: str


def _network(state: StartState, **options: Any) -> DepthState:
    base = DepthState(runs=8, depth=state.depth, layer=state.layer)
    return replace(base, **options).settled()[0]


def _relu(state: StartState) -> Settings:
    return (("ReLU", _network(state)),)


def _two_gains(state: StartState) -> Settings:
    return ("A: gain √2", _network(state)), ("B: gain 1", _network(state, gain="1"))


def _norm(state: StartState) -> Settings:
    return ("A: no norm", _network(state)), ("B: batch norm", _network(state, norm="batch"))


def _two_depths(state: StartState) -> Settings:
    half = max(1, state.depth // 2)
    deep, shallow = _network(state, norm="batch"), _network(state, norm="batch", depth=half, layer=0)
    return (f"A: {half} layers", shallow), (f"B: {state.depth} layers", deep)


def _skip(state: StartState) -> DepthState:
    return _network(state, norm="batch", residual=state.residual)


def _plain_and_skip(state: StartState) -> Settings:
    return ("A: plain ReLU", _network(state)), ("B: batch norm and skip", _skip(state))


def _norm_and_skip(state: StartState) -> Settings:
    return ("A: batch norm", _network(state, norm="batch")), ("B: batch norm and skip", _skip(state))


def _skip_alone(state: StartState) -> Settings:
    return ("A: skip alone", _network(state, residual=state.residual)), ("B: batch norm and skip", _skip(state))


EXPERIMENTS: Mapping[str, Experiment] = {
    "dies": Experiment(
        "A signal dies",
        "Ten different samples enter a deep ReLU network. At the end it can no longer distinguish them.",
        (
            GuidedStep(
                "Ten samples go in",
                (
                    "The network is random: 100 units per layer, ReLU, and weights with the gain that preserves the "
                    "signal's size. The curve counts the directions that the batch uses, layer by layer.",
                    "A network can learn only differences that reach its last layer. Move the depth: how many layers "
                    "does it take until fewer than two directions are left?",
                ),
                RANK,
                _relu,
            ),
            GuidedStep(
                "Watch the samples become alike",
                (
                    "Each square is the cosine of two samples: 0 for unrelated ones, 1 for samples that point in the "
                    "same direction. Press Play to run through the layers.",
                    "ReLU passes positive values only, so every layer adds a direction that all samples share.",
                ),
                GRAM,
                _relu,
                ("layer",),
            ),
            GuidedStep(
                "Larger weights do not help",
                (
                    "A has the gain √2, which preserves the signal's size under ReLU. B has gain 1: its signal and its "
                    "gradients halve in size every two layers.",
                    "The curves still coincide: collapse concerns directions, and the size of the weights does not "
                    "change them.",
                ),
                RANK,
                _two_gains,
            ),
        ),
        "002",
    ),
    "norm": Experiment(
        "A norm saves it, and gradients explode",
        "Batch norm keeps the samples distinct at any depth. The gradients pay for it.",
        (
            GuidedStep(
                "A norm keeps the samples distinct",
                (
                    "Batch norm subtracts the mean over the batch in every unit and divides by the standard "
                    "deviation. It removes the direction that all samples share, in every layer.",
                    "A is the network that collapsed. B has batch norm before every ReLU.",
                ),
                RANK,
                _norm,
            ),
            GuidedStep(
                "The gradients pay for it",
                (
                    "The same two networks, backward: the size of the gradient with respect to the weights of each "
                    "layer, "
                    "in powers of ten. Training moves every layer by its gradient.",
                    "Without a norm the curve is level. With batch norm it rises from the last layer to the first.",
                ),
                GRADIENT,
                _norm,
            ),
            GuidedStep(
                "The price compounds with depth",
                (
                    "Both networks have batch norm; A has half the layers of B. Each layer multiplies the gradient by "
                    "the same factor, so twice the depth squares the total.",
                    "Move the depth: when does the first layer's gradient exceed the last one's a million times?",
                ),
                GRADIENT,
                _two_depths,
            ),
        ),
        "003",
    ),
    "skip": Experiment(
        "A skip heals both",
        "With a skip around every layer, batch norm keeps the samples distinct and gradients keep their size.",
        (
            GuidedStep(
                "The samples stay distinct",
                (
                    "A skip adds each layer's input to its output: x + γ f(x). The signal always has a path that no "
                    "layer changes.",
                    "A is the plain network that collapsed. B has batch norm and a skip.",
                ),
                RANK,
                _plain_and_skip,
                ("depth", "residual"),
            ),
            GuidedStep(
                "Gradients keep their size",
                (
                    "The gradient flows back through the skip as well. The signal grows with depth, each layer "
                    "contributes a smaller share of it, and the factors per layer approach 1.",
                    "Move γ, the strength of the branch: a large γ brings the explosion back in the first layers.",
                ),
                GRADIENT,
                _norm_and_skip,
                ("depth", "residual"),
            ),
            GuidedStep(
                "A skip alone is not enough",
                (
                    "A has the skip but no norm. Its samples still become alike, only more slowly than without a "
                    "skip. B has both.",
                    "This is why residual networks have both. Move γ and the depth to see how far a skip alone gets "
                    "you.",
                ),
                RANK,
                _skip_alone,
                ("depth", "residual"),
            ),
        ),
        "001",
    ),
}
"""Every experiment by name, in the order of the start page."""


def read_off(shown: str, name: str, simulated: Mapping[str, Any]) -> str:
    """What the simulated networks did, in a sentence.

    Example:
        >>> rows = {"effective_rank": {"mean": [9.4, 3.0, 1.05]}}
        >>> read_off("effective_rank", "ReLU", {"layer": [0, 1, 2], "metrics": rows})
        'ReLU: the batch uses 9.4 directions at the input and 1.05 after 2 layers. The samples collapse.'
        >>> rows = {"gradient_log_norm": {"mean": [0.0, 9.2, 0.0]}}
        >>> read_off("gradient_log_norm", "B", {"layer": [0, 1, 2], "metrics": rows})
        'B: the gradient of layer 1 is 9,900 times that of layer 2. Gradients explode.'
    """
    values: Sequence[float] = simulated["metrics"][shown]["mean"]
    last = simulated["layer"][-1]
    if shown == RANK:
        first, final = (number(value, 3) for value in (values[0], values[-1]))
        fate = "The samples collapse." if values[-1] < _COLLAPSED else "The samples stay distinct."
        return f"{name}: the batch uses {first} directions at the input and {final} after {last} layers. {fate}"
    ratio = math.exp(min(values[1] - values[-1], 700.0))
    fate = "explode" if ratio > _EXPLODES else "vanish" if ratio < 1 / _EXPLODES else "keep their size"
    return f"{name}: the gradient of layer 1 is {_times(ratio)} times that of layer {last}. Gradients {fate}."


def read_off_cosines(layer: int, cosines: Sequence[Sequence[float]]) -> str:
    """How alike the samples of one layer are.

    Example:
        >>> read_off_cosines(3, [[1.0, 0.5], [0.5, 1.0]])
        'Layer 3: the cosines between different samples are 0.5 on average, 0.5 to 0.5.'
    """
    found = [value for i, row in enumerate(cosines) for j, value in enumerate(row) if i != j]
    low, mean, high = (number(value, 2) for value in (min(found), sum(found) / len(found), max(found)))
    return f"Layer {layer}: the cosines between different samples are {mean} on average, {low} to {high}."


def _times(ratio: float) -> str:
    """A ratio to two digits, in words that a person takes in at a glance."""
    if ratio < 100:
        return number(ratio, 2)
    return f"{float(f'{ratio:.2g}'):,.0f}" if ratio < 1e6 else f"10^{math.log10(ratio):.1f}"
