"""Who takes part: networks with their settings, and the faults that some of their runs have.

There are two rosters. The first one is open: rules and limits were made with it. The second is sealed: its networks
have other numbers, two architectures and three kinds of fault occur in it alone, and `SEED` was written down before any
of them was trained.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

STEPS = 300
HEALTHY = "healthy"
SEED = "second seal, 18 November 2026"

WAYS: dict[str, str] = {
    "rate-ramp": "the learning rate grows from step to step, as with a schedule of the wrong sign",
    "momentum-ramp": "the momentum of SGD approaches 1",
    "group-rate": "the rate of one group grows: queries and keys, recurrent weights, or the readout",
    "negative-decay": "weight decay of the wrong sign: all matrices grow",
    "strong-decay": "weight decay far too strong: hidden matrices shrink",
    "dying-units": "biases before ReLUs drift down",
    "common-drift": "hidden biases grow along one direction, so that samples become alike",
    "underflow": "gradients pass through float16 with a loss scale that falls",
    "frozen-body": "the rate of all but the readout falls to nothing",
    "half-overflow": "a float16 stream grows until it overflows; a normalisation behind it hides the growth",
    "input-scale": "inputs grow, as with a normalisation of the data that drifts",
}
NEW_WAYS: dict[str, str] = {
    "input-offset": "the mean of the inputs drifts",
    "gradient-noise": "noise is added to the gradients, and grows",
    "low-rank": "hidden matrices lose all but one direction, at the same norm",
}


@dataclass(frozen=True)
class WatchedNetwork:
    """A network with its task and its optimizer, drawn from a number."""

    architecture: str
    number: int
    width: int
    depth: int
    activation: str
    norm: bool
    half: bool
    optimizer: str
    rate: float
    decay: float
    schedule: str
    clip: bool

    @property
    def name(self) -> str:
        return f"{self.architecture}-{self.number}"


@dataclass(frozen=True)
class WatchedRun:
    """One training run: a network, and what goes wrong with it from `onset` on."""

    network: WatchedNetwork
    way: str = HEALTHY
    onset: int = 0
    strength: float = 0.0

    @property
    def name(self) -> str:
        return f"{self.network.name} {self.way}"

    def to_dict(self) -> dict[str, Any]:
        return {**asdict(self.network), "way": self.way, "onset": self.onset, "strength": self.strength}

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> WatchedRun:
        own = {name: data[name] for name in ("way", "onset", "strength")}
        fields = WatchedNetwork.__dataclass_fields__
        return cls(WatchedNetwork(**{name: data[name] for name in fields}), **own)


def _generator(*parts: object) -> np.random.Generator:
    words = [word for word in map(str, ("warning benchmark", *parts)) if word]
    digest = hashlib.sha256(" ".join(words).encode()).digest()
    return np.random.default_rng(int.from_bytes(digest[:8], "little"))


def network(architecture: str, number: int, seed: str = "") -> WatchedNetwork:
    """The network of a number.

    Example:
        >>> network("gpt", 3) == network("gpt", 3), network("gpt", 3).activation
        (True, 'relu')
    """
    draw = _generator(seed, architecture, number)
    several = architecture in ("mlp", "mixer", "auto")
    activation = str(draw.choice(["relu", "tanh", "gelu"])) if several else "relu"
    optimizer = str(draw.choice(["sgd", "adam", "adamw"]))
    if architecture in ("gpt", "rnn") and optimizer == "sgd" and draw.random() < 0.5:
        optimizer = "adamw"  # the usual choice
    usual = {"gpt": (0.2, 3e-3)}.get(architecture, (0.05, 2e-3))
    return WatchedNetwork(
        architecture,
        number,
        width=int(draw.choice([24, 32, 48])),
        depth=int(draw.choice([1, 2])) if architecture in ("gpt", "rnn", "mixer") else int(draw.choice([2, 3, 4])),
        activation=activation,
        norm=bool(draw.random() < 0.5),
        half=bool(draw.random() < 0.4),
        optimizer=optimizer,
        rate=float(usual[optimizer != "sgd"] * 2.0 ** draw.uniform(-1, 1)),
        decay=float(draw.choice([0.0, 0.01, 0.1])) if optimizer == "adamw" else float(draw.choice([0.0, 5e-4])),
        schedule=str(draw.choice(["constant", "cosine", "warm", "steps"])),
        clip=bool(draw.random() < 0.4),
    )


@dataclass(frozen=True)
class Roster:
    """Which runs there are.

    Attributes:
        seed: of everything that is drawn.
        architectures: that take part.
        numbers: of the networks of each architecture.
        ways: kinds of fault.
        faults_each: faulty runs per network, on average.
    """

    seed: str
    architectures: tuple[str, ...]
    numbers: range
    ways: Mapping[str, str]
    faults_each: float

    def runs(self) -> list[WatchedRun]:
        """Every network without a fault, and most with one or two.

        Rare faults are dealt first, so that all have about the same number.

        Example:
            >>> runs = FIRST.runs()
            >>> sum(run.way == HEALTHY for run in runs), len({run.name for run in runs}) == len(runs)
            (256, True)
            >>> len({run.way for run in runs if run.way != HEALTHY})
            11
        """
        networks = [network(one, number, self.seed) for one in self.architectures for number in self.numbers]
        runs = [WatchedRun(one) for one in networks]
        wanted = round(self.faults_each * len(networks) / len(self.ways))
        load = dict.fromkeys((one.name for one in networks), 0)
        for way in sorted(self.ways, key=lambda way: sum(way in possible(one, self.ways) for one in networks)):
            draw = _generator(self.seed, "deal", way)
            able = [one for one in networks if way in possible(one, self.ways)]
            order = sorted(able, key=lambda one: (load[one.name], draw.random()))
            for one in order[:wanted]:
                load[one.name] += 1
                runs.append(_faulty(one, way, self.seed))
        return runs


FIRST = Roster("", ("mlp", "conv", "gpt", "rnn"), range(64), WAYS, 0.9)
SECOND = Roster(SEED, (*FIRST.architectures, "mixer", "auto"), range(1000, 1020), {**WAYS, **NEW_WAYS}, 1.5)


def possible(one: WatchedNetwork, ways: Mapping[str, str]) -> list[str]:
    """The faults that a network can have."""
    found = list(ways)
    if one.optimizer != "sgd":
        found.remove("momentum-ramp")
    if one.activation != "relu" or one.architecture == "rnn":
        found.remove("dying-units")
    if not one.half:
        found.remove("half-overflow")
    if one.architecture == "gpt":
        found.remove("input-scale")
        found = [way for way in found if way != "input-offset"]
    return found


def _faulty(one: WatchedNetwork, way: str, seed: str) -> WatchedRun:
    draw = _generator(seed, one.name, way)
    onset = int(STEPS * draw.uniform(0.21, 0.4))
    return WatchedRun(one, way, onset, float(draw.uniform(0.0, 1.0)))
