"""Who takes part: networks with their settings, and the faults that some of their runs have."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

ARCHITECTURES = ("mlp", "conv", "gpt", "rnn")
STEPS = 300
NETWORKS = 64  # of each architecture, half of them sealed
FAULTS_EACH = 0.9  # faulty runs per network, on average
HEALTHY = "healthy"

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
    digest = hashlib.sha256(" ".join(map(str, ("warning benchmark", *parts))).encode()).digest()
    return np.random.default_rng(int.from_bytes(digest[:8], "little"))


def network(architecture: str, number: int) -> WatchedNetwork:
    """The network of a number.

    Example:
        >>> network("gpt", 3) == network("gpt", 3), network("gpt", 3).activation
        (True, 'relu')
    """
    draw = _generator(architecture, number)
    activation = str(draw.choice(["relu", "tanh", "gelu"])) if architecture == "mlp" else "relu"
    optimizer = str(draw.choice(["sgd", "adam", "adamw"]))
    if architecture in ("gpt", "rnn") and optimizer == "sgd" and draw.random() < 0.5:
        optimizer = "adamw"  # the usual choice
    usual = {"mlp": (0.05, 2e-3), "conv": (0.05, 2e-3), "gpt": (0.2, 3e-3), "rnn": (0.05, 2e-3)}[architecture]
    return WatchedNetwork(
        architecture,
        number,
        width=int(draw.choice([24, 32, 48])),
        depth=int(draw.choice([2, 3, 4])) if architecture in ("mlp", "conv") else int(draw.choice([1, 2])),
        activation=activation,
        norm=bool(draw.random() < 0.5),
        half=bool(draw.random() < 0.4),
        optimizer=optimizer,
        rate=float(usual[optimizer != "sgd"] * 2.0 ** draw.uniform(-1, 1)),
        decay=float(draw.choice([0.0, 0.01, 0.1])) if optimizer == "adamw" else float(draw.choice([0.0, 5e-4])),
        schedule=str(draw.choice(["constant", "cosine", "warm", "steps"])),
        clip=bool(draw.random() < 0.4),
    )


def possible(one: WatchedNetwork) -> list[str]:
    """The faults that a network can have."""
    ways = list(WAYS)
    if one.optimizer != "sgd":
        ways.remove("momentum-ramp")
    if one.activation != "relu" or one.architecture == "rnn":
        ways.remove("dying-units")
    if not one.half:
        ways.remove("half-overflow")
    if one.architecture == "gpt":
        ways.remove("input-scale")
    return ways


def roster() -> list[WatchedRun]:
    """All runs: every network without a fault, and most with one or two.

    Rare faults are dealt first, so that all have about the same number.

    Example:
        >>> runs = roster()
        >>> sum(run.way == HEALTHY for run in runs), len({run.name for run in runs}) == len(runs)
        (256, True)
        >>> len({run.way for run in runs if run.way != HEALTHY})
        11
    """
    networks = [network(one, number) for one in ARCHITECTURES for number in range(NETWORKS)]
    runs = [WatchedRun(one) for one in networks]
    wanted = round(FAULTS_EACH * len(networks) / len(WAYS))
    load = dict.fromkeys((one.name for one in networks), 0)
    for way in sorted(WAYS, key=lambda way: sum(way in possible(one) for one in networks)):
        draw = _generator("deal", way)
        able = [one for one in networks if way in possible(one)]
        order = sorted(able, key=lambda one: (load[one.name], draw.random()))
        for one in order[:wanted]:
            load[one.name] += 1
            runs.append(_faulty(one, way))
    return runs


def _faulty(one: WatchedNetwork, way: str) -> WatchedRun:
    draw = _generator(one.name, way)
    onset = int(STEPS * draw.uniform(0.21, 0.4))
    return WatchedRun(one, way, onset, float(draw.uniform(0.0, 1.0)))


def is_sealed(one: WatchedNetwork) -> bool:
    """Whether a network belongs to the half that is opened once: by the hashes of its architecture's names."""
    names = [f"{one.architecture}-{number}" for number in range(NETWORKS)]
    order = sorted(names, key=lambda name: hashlib.sha256(f"seal {name}".encode()).hexdigest())
    return order.index(one.name) % 2 == 1
