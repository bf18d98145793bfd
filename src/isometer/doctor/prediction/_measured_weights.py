"""What a spec says of weights, measured: gains, variances of biases, factors of norms."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

import torch

from isometer.doctor.probe._trace import Held, Numbers, TraceStep, numbers_of

Tensor = torch.Tensor
_DISTINCT = 5.0  # standard deviations by which weights differ before they count as of different laws
_DIGITS = 4  # of a gain in the text of a spec; the signal of a hundred layers changes by less than chance


class NotInLanguage(Exception):
    """A step of a model that the language of networks does not have; the text says why, for people."""


class MeasuredWeights:
    """Parameters of a model by name: root mean squares, equal where they differ by no more than chance.

    Example:
        >>> from isometer.doctor.probe._trace import Held
        >>> step = TraceStep("linear", "weight", held={"weight": Held("w")})
        >>> MeasuredWeights({"w": 2 * torch.eye(4)}, [step]).gain(step, "weight", 4)
        2.0
    """

    def __init__(self, parameters: Mapping[str, Tensor], trace: Sequence[TraceStep]) -> None:
        self._parameters = parameters
        self._numbers: dict[str, Numbers] = {}
        matrices = [numbers for step in trace for numbers in self._matrices(step)]
        self._pooled = _pooled({(one.count, one.mean_square) for one in matrices})
        self._biases = self._pooled_biases(trace)

    def _matrices(self, step: TraceStep) -> list[Numbers]:
        if step.kind != "weight" and "in_proj_weight" not in step.held:
            return []
        if "in_proj_weight" in step.held:
            known = _known(step.held.get("out_proj_weight"))
            output = self.numbers(step, "out_proj_weight") if known else None
            return [*self.packed(step), *([] if output is None else [output])]
        found = self.numbers(step, "weight") if _known(step.held.get("weight")) else None
        return [] if found is None else [found]

    def _pooled_biases(self, trace: Sequence[TraceStep]) -> dict[tuple[int, ...], dict[tuple[int, float], float]]:
        """Root mean squares of biases, by the shape of the weights before them: few entries tell little apart."""
        alike: dict[tuple[int, ...], set[tuple[int, float]]] = {}
        for step in trace:
            if step.kind == "weight" and all(_known(step.held.get(role)) for role in ("weight", "bias")):
                found = self.numbers(step, "bias")
                assert found is not None
                alike.setdefault(self._shape(step), set()).add((found.count, found.mean_square))
        return {shape: _pooled(biases) for shape, biases in alike.items()}

    def _shape(self, step: TraceStep) -> tuple[int, ...]:
        found = self.numbers(step, "weight")
        return () if found is None else found.shape

    def packed(self, step: TraceStep) -> list[Numbers]:
        """The weights of queries, keys and values that are held as one matrix."""
        name = step.held["in_proj_weight"].name
        if not name:
            return []
        keys = [f"{name}[{part}]" for part in range(3)]
        for key, part in zip(keys, self._parameters[name].chunk(3), strict=True):
            if key not in self._numbers:
                self._numbers[key] = numbers_of(part)
        return [self._numbers[key] for key in keys]

    def numbers(self, step: TraceStep, role: str) -> Numbers | None:
        """What is known of a tensor that a step holds; `None` if it holds none."""
        held = step.held.get(role)
        if held is None:
            return None
        if held.name and held.name not in self._numbers:
            self._numbers[held.name] = numbers_of(self._parameters[held.name])
        found = self._numbers.get(held.name) if held.name else held.numbers
        if found is None:
            raise NotInLanguage(f"the {role} of {step.name} is computed and was not kept")
        return found

    def tensor(self, step: TraceStep, role: str) -> Tensor | None:
        """The parameter itself."""
        held = step.held.get(role)
        if held is None:
            return None
        if not held.name:
            raise NotInLanguage(f"the {role} of {step.name} is computed and was not kept")
        return self._parameters[held.name]

    def gain(self, step: TraceStep, role: str, fan_in: int) -> float:
        """Gain in units of 1/√fan_in, of weights that are centred."""
        found = self.numbers(step, role)
        if found is None:
            raise NotInLanguage(f"the weights of {step.name} are not known")
        return self.gain_of(found, fan_in)

    def gain_of(self, found: Numbers, fan_in: int) -> float:
        """The gain of weights, or why no law of a spec draws them."""
        if not math.isfinite(found.total):
            raise NotInLanguage("weights are not finite")
        mean, square = found.total / found.count, found.mean_square
        # Large enough to matter, mean/σ √fan_in > 0.1, and six standard errors from chance.
        if mean**2 * fan_in > 0.01 * square and mean**2 * found.count > 36 * square:
            raise NotInLanguage(
                f"weights have the mean {mean:.3g} beside a root mean square of "
                f"{math.sqrt(square):.3g}; theory assumes mean 0"
            )
        return rounded(math.sqrt(fan_in) * self._pooled.get((found.count, square), math.sqrt(square)))

    def copies(self, trace: Sequence[TraceStep]) -> tuple[str, str] | None:
        """Two modules whose weights are different parameters with the same numbers, as a deep copy leaves them."""
        seen: dict[tuple[object, ...], TraceStep] = {}
        for step in trace:
            for one in self._matrices(step):
                # A sum and a few entries tell matrices apart without comparing all pairs of them.
                first = seen.setdefault((one.shape, one.total, one.sample), step)
                if first.module != step.module and first.held != step.held:
                    return first.module, step.module
        return None

    def bias(self, step: TraceStep, role: str = "bias") -> float:
        """Mean square of a bias, 0 without one."""
        found = self.numbers(step, role)
        if found is None or role != "bias":
            return 0.0 if found is None else rounded(found.mean_square)
        alike = self._biases.get(self._shape(step), {})
        return rounded(alike.get((found.count, found.mean_square), math.sqrt(found.mean_square)) ** 2)

    def factor(self, step: TraceStep, role: str) -> float:
        """The number that a vector multiplies by, with its sign; its root mean square where entries differ."""
        found = self.numbers(step, role)
        if found is None:
            return 1.0
        return rounded(math.sqrt(found.mean_square)) if found.constant is None else found.constant


def _known(held: Held | None) -> bool:
    return held is not None and bool(held.name or held.numbers)


def rounded(value: float) -> float:
    """To the digits that a spec's text has.

    Example:
        >>> rounded(0.577350269)
        0.5774
    """
    return float(f"{value:.{_DIGITS}g}")


def _pooled(found: set[tuple[int, float]]) -> dict[tuple[int, float], float]:
    """Root mean squares by count and mean square: one for all neighbours that differ by no more than chance."""
    ordered = sorted(((count, square) for count, square in found if square > 0), key=lambda one: one[1])
    groups: list[list[tuple[int, float]]] = []
    for count, square in ordered:
        if groups:
            total = sum(one[0] for one in groups[-1])
            mean = sum(one[0] * one[1] for one in groups[-1]) / total
            # The logarithm of the mean square of N Gaussian entries has variance 2/N.
            if math.log(square / mean) < _DISTINCT * math.sqrt(2 / count + 2 / total):
                groups[-1].append((count, square))
                continue
        groups.append([(count, square)])
    return {
        one: math.sqrt(sum(count * square for count, square in group) / sum(count for count, _ in group))
        for group in groups
        for one in group
    }
