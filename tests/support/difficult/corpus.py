"""The corpus: every trait by itself, and combinations of two or three drawn with a fixed seed."""

from __future__ import annotations

import random
from dataclasses import dataclass
from functools import cache

import numpy as np
import torch

from support.difficult import attributes, buffers, gradients, hooks, kinds, methods, modules, process, sharing, weights
from support.difficult.subject import BASES, TRAITS, Subject

SEED, COMBINED = 2022, 160
# Importing them registers their traits.
GROUPS = (attributes, buffers, gradients, hooks, kinds, methods, modules, process, sharing, weights)


@dataclass(frozen=True)
class DifficultModel:
    """A recipe: an architecture and the traits put into it."""

    base: str
    traits: tuple[str, ...]

    @property
    def name(self) -> str:
        """Architecture and traits, which is all there is to know."""
        return f"{self.base}:{'+'.join(self.traits)}" if self.traits else self.base

    @property
    def groups(self) -> tuple[str, ...]:
        """The classes of difficulties in it."""
        return tuple(dict.fromkeys(TRAITS[one].group for one in self.traits))

    @property
    def changes(self) -> bool:
        """Whether calling the model changes something."""
        return any(TRAITS[one].changes for one in self.traits) or self.base == "conv"

    def build(self, seed: int = 0) -> Subject:
        """A new model, the same for the same seed; sets the generators of the process."""
        torch.manual_seed(seed)
        np.random.seed(seed)  # noqa: NPY002 — the models draw from it
        random.seed(seed)
        subject = BASES[self.base]()
        for one in sorted(self.traits, key=lambda name: TRAITS[name].stage == "kind"):  # kinds come last
            TRAITS[one].apply(subject)
        return subject


# Those that cannot go together: what follows would not run, whatever probes it.
_ALONE = {
    "meta_model",
    "scripted_model",
    "traced_model",
    "lazy_linear",
    "lazy_batch_norm",
    "exits",
    "raises_in_forward",
    "raises_between_two_writes",
}
_CASTS = {"float64", "float16", "bfloat16"}
_ONLY_FLOAT32 = _CASTS | {"compiled", "data_parallel"}


def _compatible(traits: tuple[str, ...]) -> bool:
    chosen = set(traits)
    if len(traits) > 1 and chosen & _ALONE:
        return False
    if sum(TRAITS[one].stage == "kind" for one in traits) > 1:
        return False
    # Parts that keep to float32 do not fit into a cast model.
    return not (
        chosen & _ONLY_FLOAT32
        and len(traits) > 1
        and any(TRAITS[one].group in ("kinds", "weights", "sharing", "process") for one in chosen - _ONLY_FLOAT32)
    )


@cache
def corpus() -> tuple[DifficultModel, ...]:
    """All models, in a fixed order."""
    bases = list(BASES)
    single = [DifficultModel(bases[index % len(bases)], (name,)) for index, name in enumerate(sorted(TRAITS))]
    plain = [DifficultModel(base, ()) for base in bases]
    draw, names = random.Random(SEED), sorted(TRAITS)
    combined: dict[tuple[str, ...], DifficultModel] = {}
    while len(combined) < COMBINED:
        traits = tuple(sorted(draw.sample(names, draw.choice((2, 3)))))
        if _compatible(traits):
            combined[traits] = DifficultModel(draw.choice(bases), traits)
    return (*plain, *single, *combined.values())


def named(name: str) -> DifficultModel:
    """The model of that name, in the corpus or not."""
    base, _, traits = name.partition(":")
    return DifficultModel(base, tuple(traits.split("+")) if traits else ())
