"""The models of the trial: drawn by seeds, written down once, built again from what was written."""

from __future__ import annotations

import hashlib
import math
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch

from isometer.doctor.training._loop import train
from isometer.trial._family import Blueprint, Family
from isometer.trial._faults import FAULTS, SIZES, NotApplicable, Severity
from isometer.trial._roster import families, family_named
from isometer.trial._rounds import TrialRound, round_numbered
from isometer.trial._specimen import Specimen
from isometer.trial._tasks import task_named

SLOWEST_LARGE = 0.150
"""Seconds of processor time that one step of a large model may take."""


@dataclass(frozen=True)
class Member:
    """One model of the trial.

    Attributes:
        name: family and number, as in `gpt-prenorm/4`.
        family: name of the family.
        base: number of the architecture within the family; members of one base share a sound sibling.
        sound: the blueprint of the sibling.
        blueprint: its own.
        fault: name of its fault, `None` for a sound model.
        severity: of the fault.
        large: whether it belongs to the stratum of large models.
        step: seconds of processor time that a step of its sibling took when it was drawn.
    """

    name: str
    family: str
    base: str
    sound: Blueprint
    blueprint: Blueprint
    fault: str | None
    severity: Severity
    large: bool
    step: float

    def to_dict(self) -> dict[str, Any]:
        """Ready for JSON."""
        # Not `asdict`, whose deep copies are most of the time that the tables of a trial take.
        return {**vars(self), "sound": {**vars(self.sound)}, "blueprint": {**vars(self.blueprint)}}

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Member:
        """What `to_dict` made."""
        return cls(**{**data, "sound": Blueprint(**data["sound"]), "blueprint": Blueprint(**data["blueprint"])})

    @property
    def sealed(self) -> bool:
        """Whether its family is in the sealed half."""
        return family_named(self.family).sealed

    def specimen(self, seed: int) -> Specimen:
        """The model with weights from a seed, its fault made."""
        return specimen(self.family, self.blueprint, self.fault, self.severity, seed)

    def sibling(self, seed: int) -> Specimen:
        """The sound model of the same architecture."""
        return specimen(self.family, self.sound, None, {}, seed)


def specimen(family: str, blueprint: Blueprint, fault: str | None, severity: Severity, seed: int) -> Specimen:
    """A model with a fault or none, in train mode; torch's generator is left as it was.

    Example:
        >>> made = specimen("mlp-relu", Blueprint("friedman", 16, 2, options={"activation": "ReLU"}), "one-zero",
        ...                 {"place": 0.9}, seed=0)
        >>> float(made.model[-1].weight.detach().abs().max())
        0.0
    """
    made = Specimen(
        family_named(family).model(blueprint, seed).train(), task_named(blueprint.task), samples=blueprint.batch
    )
    if fault is not None and fault in FAULTS:
        with torch.random.fork_rng(devices=[]), torch.no_grad():
            torch.default_generator.manual_seed(seed + 10_000)
            FAULTS[fault].apply(made, severity)
    return made


def draw_members(
    names: list[str] | None = None, *, per_family: int = 9, large: int = 20, seed: int = 0, round: int = 1
) -> Iterator[Member]:
    """Draw the models, family by family, then the large ones.

    Sound or faulty, and which fault, is up to the seed. A draw whose step takes too long is drawn again, so that the
    list depends on the machine it is drawn on; it is drawn once and kept.

    Args:
        names: of families, all of the round unless given.
        per_family: models per family.
        large: models of the stratum of large ones, two per family.
        seed: of everything.
        round: of the trial, which says how many stay sound, and more.

    Yields:
        Models.

    Example:
        >>> member = next(draw_members(["deep-cross"], per_family=1, large=0))
        >>> member.name, member.sound.task in ("teacher", "friedman")
        ('deep-cross/0', True)
    """
    rules = round_numbered(round)
    chosen = [family_named(name) for name in names] if names is not None else list(families(round).values())
    for family in chosen:
        yield from _drawn(family, per_family, seed, rules, large=False)
    wanted = sorted(chosen, key=lambda family: _number("large", family.name, seed))
    for family in wanted:
        if large <= 0:
            return
        found = list(_drawn(family, min(2, large), seed, rules, large=True))
        large -= len(found)
        yield from found


def _number(*parts: Any) -> int:
    """A number that depends on the parts alone."""
    return int.from_bytes(hashlib.sha256(repr(parts).encode()).digest()[:8], "big")


def _drawn(family: Family, number: int, seed: int, rules: TrialRound, *, large: bool) -> Iterator[Member]:
    for base in range(math.ceil(number / rules.per_base)):
        found = _base(family, base, seed, SLOWEST_LARGE if large else rules.slowest, large=large)
        if found is None:
            continue
        sound, step = found
        for place in range(base * rules.per_base, min((base + 1) * rules.per_base, number)):
            rng = np.random.default_rng(_number("member", family.name, place, large, seed))
            blueprint, fault, severity = _faulted(family, sound, rng, rules)
            label = f"large-{place}" if large else str(place)
            root = f"large-{base}" if large else str(base)
            yield Member(
                f"{family.name}/{label}", family.name, root, sound, blueprint, fault, severity, large, round(step, 5)
            )


def _base(family: Family, base: int, seed: int, slowest: float, *, large: bool) -> tuple[Blueprint, float] | None:
    """An architecture whose step is fast enough, and how long it takes; `None` if none of ten is."""
    for attempt in range(10):
        rng = np.random.default_rng(_number("base", family.name, base, attempt, large, seed))
        blueprint = family.draw(rng, large)
        step = step_time(specimen(family.name, blueprint, None, {}, 0))
        if step <= slowest:
            return blueprint, step
    return None


def step_time(made: Specimen) -> float:
    """Processor time of one step with Adam, the median of five."""
    times: list[float] = []

    def sampler(step: int) -> tuple[torch.Tensor, torch.Tensor]:
        times.append(time.process_time())
        return made.batch(seed=0, step=step)[:2]

    made.batch(seed=0, step=0)  # data are loaded by the first
    train(made.model, sampler, loss=made.loss, optimizer="adam", learning_rate=1e-4, steps=8)
    return float(np.median(np.diff(times)[2:])) if len(times) > 3 else 0.0


def _faulted(
    family: Family, sound: Blueprint, rng: np.random.Generator, rules: TrialRound
) -> tuple[Blueprint, str | None, Severity]:
    """A fault that can be made in this architecture, or none."""
    if rng.uniform() < rules.sound:
        return sound, None, {}
    general = sorted({**FAULTS, **SIZES})
    weights = np.array([0.5 if name in rules.seldom else 1.0 for name in general])
    shares = weights / weights.sum() if rules.seldom else None  # without, the numbers drawn are other ones
    while True:
        if family.structural and rng.uniform() < rules.structural:
            name = str(rng.choice(sorted(family.structural)))
            change = family.structural[name]
            blueprint = change(sound, rng) if callable(change) else sound.changed(**change)
            severity: Severity = {}
        else:
            name = str(rng.choice(general, p=shares))
            blueprint = _resized(name, sound)
            severity = FAULTS[name].draw(rng) if name in FAULTS else {}
        if _works(family, blueprint, name, severity):
            return blueprint, name, severity


def _resized(name: str, sound: Blueprint) -> Blueprint:
    if name == "too-deep":
        return sound.changed(depth=4 * sound.depth)
    if name == "too-narrow":
        return sound.changed(width=max(2, sound.width // 8))
    return sound


def _works(family: Family, blueprint: Blueprint, fault: str, severity: Severity) -> bool:
    """Whether the faulty model can be built and run."""
    try:
        made = specimen(family.name, blueprint, fault, severity, 0)
        inputs, targets, _ = made.batch(seed=0, step=0)
        with torch.random.fork_rng(devices=[]):
            made.loss(made.model(inputs), targets)
    except NotApplicable:
        return False
    except (RuntimeError, ValueError, TypeError, IndexError, AttributeError):
        return False  # a size or a module that this architecture cannot have
    return True
