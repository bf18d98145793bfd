"""What a spec says of weights, measured: gains, variances of biases, factors of norms."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import torch

from isometer.doctor.probe._trace import Numbers, TraceStep, numbers_of
from isometer.spec import Bias, Norm, Step

Tensor = torch.Tensor


class Uncovered(Exception):
    """A step of a model that the language of networks does not have; the text says which, for people."""


class MeasuredWeights:
    """Parameters of a model by name, and which of them were read.

    Example:
        >>> from isometer.doctor.probe._trace import Held
        >>> weights = MeasuredWeights({"w": 2 * torch.eye(4)})
        >>> weights.gain(TraceStep("linear", "weight", held={"weight": Held("w")}), "weight", fan_in=4)
        2.0
    """

    def __init__(self, parameters: Mapping[str, Tensor]) -> None:
        self._parameters = parameters
        self._numbers: dict[str, Numbers] = {}

    def numbers(self, step: TraceStep, role: str) -> Numbers | None:
        """What is known of a tensor that a step holds; `None` if it holds none."""
        held = step.held.get(role)
        if held is None:
            return None
        if held.name and held.name not in self._numbers:
            self._numbers[held.name] = numbers_of(self._parameters[held.name])
        found = self._numbers.get(held.name) if held.name else held.numbers
        if found is None:
            raise Uncovered(f"the {role} of {step.name} is computed, and was not kept")
        return found

    def tensor(self, step: TraceStep, role: str) -> Tensor | None:
        """The parameter itself."""
        held = step.held.get(role)
        if held is None:
            return None
        if not held.name:
            raise Uncovered(f"the {role} of {step.name} is computed, and was not kept")
        return self._parameters[held.name]

    def gain(self, step: TraceStep, role: str, fan_in: int) -> float:
        """Gain in units of 1/√fan_in, of weights that are centred."""
        found = self.numbers(step, role)
        if found is None:
            raise Uncovered(f"the weights of {step.name} are not known")
        return checked_gain(found, fan_in)

    def bias(self, step: TraceStep, role: str = "bias") -> float:
        """Mean square of a bias, 0 without one."""
        found = self.numbers(step, role)
        return 0.0 if found is None else found.mean_square

    def factor(self, step: TraceStep, role: str) -> float:
        """The number that a vector multiplies by, with its sign; its root mean square where entries differ."""
        found = self.numbers(step, role)
        if found is None:
            return 1.0
        return math.sqrt(found.mean_square) if found.constant is None else found.constant

    def norm(self, step: TraceStep, **fields: Any) -> list[Step]:
        """A normalisation with its affine part: a factor, and a bias where the offset differs between features."""
        shift = self.numbers(step, "bias")
        constant = 0.0 if shift is None else shift.constant
        kept = Norm(**fields, scale=self.factor(step, "weight"), shift=constant or 0.0)
        return [kept] if constant is not None or shift is None else [kept, Bias(shift.mean_square)]


def checked_gain(found: Numbers, fan_in: int) -> float:
    """The gain of weights, or why no law of a spec draws them.

    Example:
        >>> checked_gain(numbers_of(torch.eye(4)), 4)
        1.0
    """
    if not math.isfinite(found.total):
        raise Uncovered("weights are not finite")
    mean, square = found.total / found.count, found.mean_square
    # Large enough to matter, mean/σ √fan_in > 0.1, and six standard errors from chance.
    if mean**2 * fan_in > 0.01 * square and mean**2 * found.count > 36 * square:
        raise Uncovered(
            f"weights have the mean {mean:.3g} beside a root mean square of {math.sqrt(square):.3g}; the theory's laws "
            "are centred"
        )
    return math.sqrt(square * fan_in)
