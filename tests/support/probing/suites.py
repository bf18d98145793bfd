"""Which models are examined how: the corpus, every line of the probe, and the architectures of `transformers`."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from typing import Any

from support.difficult import Subject, corpus, named
from support.probing.harness import CONDITIONS, OPERATIONS, Patient, Result, examine

SUITES = ("difficult", "lines", "transformers")
# One per way of changing things; each is interrupted at every line of Isometer that a probe of it runs.
INTERRUPTED_EVERYWHERE = (
    "mlp:renormalised",
    "conv:batch_norm+gradient_present",
    "mlp:counts_calls",
    "recurrent:submodule_created",
    "attention:forward_hook_removes_itself",
    "embedding:embedding_max_norm",
    "mlp:train_does_more",
    "mlp:set_to_another",
)


@dataclass(frozen=True)
class Case:
    """One thing to do: an operation on a model in a condition."""

    suite: str
    model: str
    operation: str
    condition: str
    seed: int = 0

    @property
    def key(self) -> str:
        """By which its result is found again."""
        return f"{self.suite} {self.model} {self.operation} {self.condition} {self.seed}"


def cases(suite: str, *, moments: int = 1) -> Iterator[Case]:
    """All cases of a suite, those of one model together.

    Args:
        suite: one of `SUITES`.
        moments: how many times each interruption is made, at other moments.
    """
    if suite == "difficult":
        for one in corpus():
            for operation in OPERATIONS:
                for condition in CONDITIONS:
                    for seed in range(moments if condition not in ("plain", "gradients") else 1):
                        yield Case(suite, one.name, operation, condition, seed)
    elif suite == "lines":
        for index, name in enumerate(INTERRUPTED_EVERYWHERE):
            yield Case(suite, name, "probe", "line")
            if index < 3:
                yield Case(suite, name, "probe", "exception")
    else:
        from support.small_transformers import buildable

        for name in buildable():
            for operation in ("probe", "diagnose"):
                yield Case(suite, name, operation, "plain")
            yield Case(suite, name, "probe", "line")


@cache
def patient(suite: str, name: str) -> Patient:
    """The model of a case."""
    if suite == "transformers":
        return Patient(name, ("transformers",), lambda: _small(name))
    one = named(name)
    return Patient(one.name, one.groups, one.build)


def _small(name: str) -> Any:
    from support.small_transformers import build

    model, batch = build(name)
    return Subject(model, batch)


def results(case: Case) -> Iterator[Result]:
    """What becomes of a case: one result, or one per line of Isometer."""
    subject = patient(case.suite, case.model)
    if case.suite != "lines":
        yield examine(subject, case.operation, case.condition, seed=case.seed)
        return
    moments = sorted({one for pair in subject.survey(case.operation, "line").places for one in pair})
    for moment in moments:
        yield examine(subject, case.operation, case.condition, moment=moment)
