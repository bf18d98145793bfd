"""Any network of the language for a few runs at a time, forward and backward."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Sequence

import torch

from isometer.simulate._attention import MeasuredAttention
from isometer.simulate._chain import binary_scale, equal_samples, unit_scale
from isometer.simulate._degrees import Degree, degree_after
from isometer.simulate._gradients import WeightGradient
from isometer.simulate._gram import triangle
from isometer.simulate._steps import Back, Engine, Seen, StepRunner, flattened, unflattened
from isometer.simulate._streams import StepStreams
from isometer.spec import Spec, Step

Tensor = torch.Tensor
Visit = Callable[[int, list[WeightGradient] | None, Tensor, Tensor], None]


class NetworkWalk:
    """Representations of the runs in some slots, one layer of a network after the other.

    As `LayerChain` for chains, with a stream per step in place of one for all. The representation of a slot is
    `value · exp(log_scale)`: a layer that is positively homogeneous, or does not depend on the scale of its input,
    (`_degrees.py`) is computed with a power of two taken out, any other at the scale there is. A run that is no longer
    finite is recorded in `nonfinite_layer` (−1: none) and goes on as zeros.

    Args:
        spec: the network.
        engine: `"gram"` or `"dense"`.
        batch: the inputs, `(slots, n, features · positions)`, features first.
        seed: seed of the simulation.
        runs: indices of the runs in the slots; further slots are padding.
        backward: a backward pass will follow.

    Example:
        >>> spec = Spec("input(3, [4, 4]) > conv(3, 8) > act('relu') > pool > dense(2)")
        >>> network = NetworkWalk(spec, "gram", torch.ones(1, 2, 48), seed=0, runs=[0])
        >>> for layer in (1, 2):
        ...     network.step(layer)
        >>> network.value.shape
        torch.Size([1, 2, 2])
    """

    carries_scale = True

    def __init__(
        self, spec: Spec, engine: Engine, batch: Tensor, *, seed: int, runs: Sequence[int], backward: bool = False
    ) -> None:
        self.spec = spec
        slots, self._samples = batch.shape[:2]
        self._shape = spec.shape
        self._rows = unflattened(batch, spec.shape)
        streams = StepStreams(seed, runs, slots, batch)
        self._runner = StepRunner(engine, streams, self._samples, twins=equal_samples(batch), backward=backward)
        layers = spec.executed_layers()
        first = next(layers)
        self._layers = itertools.chain([first], layers)
        self._degrees: dict[int, tuple[tuple[Step, ...], Degree]] = {}
        self._tape: list[tuple[Back, Degree, Tensor]] = []
        self._backward = backward
        self.log_scale = batch.new_zeros(slots, dtype=torch.float64)  # a sum over all layers
        self.nonfinite_layer = torch.full((slots,), -1, device=batch.device)
        self._show(Seen(self._rows, self._shape, 0), self.log_scale)
        if self._degree(first[0]) is not None:
            self._take_out_scale()

    def _show(self, seen: Seen, log_input: Tensor) -> None:
        self._value: Tensor | None = None
        self._factor: Tensor | None = None
        self._seen = seen
        self.pre_log_scale = log_input * (seen.degree or 0)

    @property
    def value(self) -> Tensor:
        """What the last layer handed on, `(slots, n, features · positions)`, up to `log_scale`."""
        if self._value is None:
            self._value = flattened(self._rows, self._samples)
        return self._value

    @property
    def rows(self) -> Tensor:
        """The same by position, `(slots, n · positions, features)`."""
        return self._rows

    @property
    def samples(self) -> int:
        """n."""
        return self._samples

    @property
    def attention(self) -> list[MeasuredAttention]:
        """What the attention steps of the last layer read, where `read_attention` asked for it."""
        return self._runner.attention or []

    def read_attention(self) -> None:
        """Keep what attention reads from now on."""
        self._runner.attention = []

    @property
    def pre(self) -> Tensor:
        """What entered the last activation of the layer, up to `pre_log_scale`; its output if there is none."""
        return torch.nan_to_num(flattened(self._seen.rows, self._samples), posinf=0.0, neginf=0.0)

    @property
    def output_shape(self) -> tuple[int, ...]:
        """Features and positions of what the last layer handed on."""
        return (self._shape.width, *self._shape.axes)

    def factor(self) -> Tensor:
        """L `(slots, n, min(n, d))` with `L Lᵀ` the inner products of the samples, up to `log_scale`."""
        if self._factor is None:
            value = self.value
            if value.shape[-2] >= value.shape[-1]:
                self._factor = value
            else:
                upper = triangle(value)
                self._factor, self._runner.known = upper.mT, (value, upper)
        return self._factor

    # --- forward ------------------------------------------------------------------------------------------------------

    def step(self, layer: int) -> None:
        """Go through the next layer, counted from 1."""
        steps, _ = next(self._layers)
        degree = self._degree(steps)
        if degree is None:
            self._put_in_scale()
        log_input = self.log_scale
        self._runner.activated = None
        if self._runner.attention is not None:
            self._runner.attention = []
        self._rows, self._shape, back = self._runner.run(steps, self._rows, self._shape, None if degree is None else 1)
        if self._backward:
            self._tape.append((back, degree, log_input))
        self._show(self._runner.activated or Seen(self._rows, self._shape, degree), log_input)
        self.log_scale = log_input * (degree or 0)
        # a finite sum means finite entries; only one that is not leads to the test of each
        if not math.isfinite(float(self._rows.sum())):
            self._drop(~torch.isfinite(self._rows).all(-1).all(-1), layer)
        if degree is not None:
            self._take_out_scale()

    def _degree(self, steps: tuple[Step, ...]) -> Degree:
        """The degree of a layer; turns of a repeat that are equal are one object, and are looked at once."""
        found = self._degrees.get(id(steps))
        if found is None or found[0] is not steps:
            found = self._degrees[id(steps)] = (steps, degree_after(steps, 1))
        return found[1]

    def _put_in_scale(self) -> None:
        exponent = (self.log_scale / math.log(2.0)).round()
        if bool((exponent != 0).any()):
            self._rows = self._rows * torch.exp2(exponent).to(self._rows.dtype)[:, None, None]
            self.log_scale = torch.zeros_like(self.log_scale)

    def _take_out_scale(self) -> None:
        factor, logarithm = binary_scale(self._rows.abs().amax((-2, -1)))
        self._rows = self._rows * factor[:, None, None]
        self.log_scale = self.log_scale + logarithm

    def _drop(self, bad: Tensor, layer: int) -> None:
        self.nonfinite_layer = torch.where(bad & (self.nonfinite_layer < 0), layer, self.nonfinite_layer)
        self._rows = torch.where(bad[:, None, None], 0.0, self._rows)

    # --- backward -----------------------------------------------------------------------------------------------------

    def backward(self, cotangent: Tensor, log_cotangent: Tensor, visit: Visit) -> Tensor:
        """Take a cotangent of the last representation back to the input.

        Args:
            cotangent: `(slots, n, features · positions)`, features first.
            log_cotangent: logarithm of its scale, per slot.
            visit: called as `visit(layer, gradients, cotangent, log_scale)` for every layer from the last on, with the
                gradients of its weights, the cotangent of its input and the log-scale of the gradients; and for the
                input with layer 0 and gradients None.

        Returns:
            The cotangent of the input up to its scale, as passed to the last visit.
        """
        rows, log_cotangent = unit_scale(unflattened(cotangent, self._shape), log_cotangent)
        for layer in range(len(self._tape), 0, -1):
            back, degree, log_input = self._tape.pop()
            self._runner.gradients = []
            rows = back(rows)
            # f(c x) = c^k f(x): the derivative by weights has degree k, that by x degree k − 1
            visit(layer, self._runner.gradients, rows, log_cotangent + log_input * (degree or 0))
            if degree == 0:
                log_cotangent = log_cotangent - log_input
            rows, log_cotangent = unit_scale(rows, log_cotangent)
        found = flattened(rows, self._samples)
        visit(0, None, found, log_cotangent)
        return found
