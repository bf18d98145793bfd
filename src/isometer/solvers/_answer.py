"""What a solver answers: a value with its error, how it was found, what is published, and a check by simulation."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any

from isometer._display import Displayed
from isometer.serialize import json_data


@dataclass(frozen=True)
class Published:
    """The depth that a published bound requires; None where it does not apply, with the reason.

    Example:
        >>> Published("004/cor-4", "Agarwal et al. 2021", 101).depth
        101
    """

    reference: str
    paper: str
    depth: int | None
    reason: str = ""


@dataclass(frozen=True)
class Check:
    """What a simulation at finite width says of an answer.

    Args:
        quantity: what is compared.
        predicted: by theory, at infinite width.
        simulated: mean over runs.
        low, high: its 95 % interval.
        width, runs: width and number of runs of the simulation.
        slack: what finite width may add to the difference: of the order depth/width, or what half the width adds.

    Example:
        >>> Check("growth", 1.0, 1.2, 1.05, 1.35, 512, 16, slack=0.1).agrees
        True
    """

    quantity: str
    predicted: float
    simulated: float
    low: float
    high: float
    width: int
    runs: int
    slack: float = 0.0

    @property
    def agrees(self) -> bool:
        """Whether the prediction is inside the interval, widened by the slack."""
        return self.low - self.slack <= self.predicted <= self.high + self.slack

    @property
    def departure(self) -> float:
        """How far the prediction is from the mean over runs, in units of what is allowed on that side."""
        allowed = (self.high - self.low) / 2 + self.slack
        return abs(self.predicted - self.simulated) / allowed if allowed > 0 else math.inf

    @property
    def sentence(self) -> str:
        """One line."""
        verdict = "agrees" if self.agrees else "does not agree"
        told = (
            f"A simulation {verdict}: at width {self.width}, {self.runs} runs, {self.quantity} is {self.simulated:.4g} "
            f"({self.low:.4g} to {self.high:.4g}); theory says {self.predicted:.4g}, and finite width may add "
            f"{self.slack:.2g}."
        )
        return told.replace(" -", " −").replace("(-", "(−")


@dataclass(frozen=True)
class Answer(Displayed):
    """An answer of `isometer.solve`.

    Args:
        unknown: what was solved for: `depth`, `gain`, `gamma`, `bias_variance` or `activation_gain`; of transformers
            also `skip`, `branch`, `qk_gain` and `deepnorm`.
        question: in words.
        network: the network, with the answer put in where there is one.
        value: the answer; None where there is none, `inf` where any value does.
        error: how far it may be off; 0 for a whole number that was decided.
        conclusion: one line.
        next_step: what to do with it.
        columns, rows: a table of what was computed on the way, or of the curve.
        solutions: all values that solve it, where there are several; α and β of DeepNorm.
        published: what published bounds require.
        check: by simulation, if requested; of a curve, of the point that is furthest from theory.
        networks: for a curve, the network at each point that has a solution.

    Example:
        >>> from isometer import Spec, solve
        >>> answer = solve("gain", Spec(width=100, depth=50, activation="relu"))
        >>> round(answer.value, 9), answer.error < 1e-9
        (1.414213562, True)
    """

    unknown: str
    question: str
    network: str
    value: float | None
    error: float | None
    conclusion: str
    next_step: str
    columns: tuple[str, ...] = ()
    rows: tuple[tuple[Any, ...], ...] = ()
    solutions: tuple[float, ...] = ()
    published: tuple[Published, ...] = ()
    check: Check | None = None
    networks: tuple[str, ...] = ()

    def checked(self, check: Check) -> Answer:
        """The same answer with its check."""
        return replace(self, check=check)

    def to_dict(self) -> dict[str, Any]:
        """Plain values for JSON.

        Example:
            >>> Answer("depth", "?", "dense", 3, 0.0, "Depth 3.", "").to_dict()["value"]
            3
        """
        record: dict[str, Any] = {
            "unknown": self.unknown,
            "question": self.question,
            "network": self.network,
            "networks": list(self.networks),
            "value": self.value,
            "error": self.error,
            "solutions": list(self.solutions),
            "conclusion": self.conclusion,
            "next_step": self.next_step,
            "table": [dict(zip(self.columns, row, strict=True)) for row in self.rows],
            "published": [vars(one) for one in self.published],
            "check": None if self.check is None else {**vars(self.check), "agrees": self.check.agrees},
        }
        plain: dict[str, Any] = json_data(record)
        return plain
