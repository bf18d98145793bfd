"""The Markov chain of representations for a few runs at a time, forward and backward."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, Literal

import torch

from isometer.simulate._gram import Product, multiply_dense, multiply_gram, triangle, uses_frames
from isometer.simulate._layers import activate_backward, normalize, normalize_backward
from isometer.simulate._streams import Kind, Role, Streams
from isometer.simulate._weights import stream_kind, weight_factor
from isometer.spec import Chain

Engine = Literal["gram", "dense"]


class LayerChain:
    """Representations of the runs in `slots` slots, one layer after the other.

    The representation of a slot is `value · exp(log_scale)`. Only chains of degree 1 (`Spec.homogeneity`) have a scale
    other than 1: a power of two taken out after every layer, which prevents overflow and underflow and loses no digit.
    A run that is no longer finite is recorded in `nonfinite_layer` (−1: none) and goes on as zeros.

    Args:
        spec: the network.
        engine: `"gram"` or `"dense"`.
        batch: the inputs, `(slots, n, d)`.
        seed: seed of the simulation.
        runs: indices of the runs in the slots; further slots are padding.
        rows: how many cotangent rows a backward pass will bring; None if there will be none.
        endless: there will be far more steps than the spec has layers.

    Example:
        >>> from isometer.spec import Spec
        >>> chain = LayerChain(Spec(width=5, depth=3, norm="batch"), "gram", torch.eye(2, 5)[None], seed=0, runs=[0])
        >>> for layer in range(1, 4):
        ...     chain.step(layer)
        >>> chain.value.shape
        torch.Size([1, 2, 5])
    """

    def __init__(
        self,
        spec: Chain,
        engine: Engine,
        batch: torch.Tensor,
        *,
        seed: int,
        runs: Sequence[int],
        rows: int | None = None,
        endless: bool = False,
    ) -> None:
        self.spec, self.engine, self.rows = spec, engine, rows
        self.value = batch
        self.pre = batch
        slots = batch.shape[0]
        self.log_scale = batch.new_zeros(slots, dtype=torch.float64)  # a sum over all layers
        self.pre_log_scale = self.log_scale
        self.nonfinite_layer = torch.full((slots,), -1, device=batch.device)
        self._qr: tuple[torch.Tensor | None, torch.Tensor] | None = None
        self._twins = equal_samples(batch)
        self._degree = spec.homogeneity
        self.carries_scale = self._degree == 1
        self._phi = None if spec.is_linear else spec.phi
        self._tape: list[tuple[list[tuple[str, Any]], torch.Tensor]] = []
        self._source = (seed, list(runs), slots)
        self._endless = endless
        self._weights = self._streams("weights", stream_kind(spec.weights), self._counts(), keep=rows is not None)
        self._bias = self._streams("bias", "normal", list(spec.widths)) if spec.bias_variance > 0 else None
        if self._degree == 1:
            self._take_out_scale(0)

    def _streams(self, role: Role, kind: Kind, counts: list[int], *, keep: bool = False) -> Streams:
        """Streams for layers which take so many numbers each."""
        seed, runs, slots = self._source
        total, like = None if self._endless else sum(counts), self.value.new_empty(0)
        return Streams(seed, runs, slots, role, kind, max(counts), like, total=total, keep=keep)

    def _counts(self) -> list[int]:
        """Random numbers per layer."""
        samples, counts = self.value.shape[-2], []
        for fan_in, fan_out in zip(self.spec.fan_in, self.spec.widths, strict=True):
            haar = self.spec.weights == "orthogonal"
            # as many as `multiply_dense` or `multiply_gram` takes
            if self.engine == "dense" or not uses_frames(self.spec.weights, samples, fan_in, fan_out, self.rows):
                counts.append(fan_in * fan_out)
            else:
                counts.append(samples * (max(fan_in, fan_out) if haar else fan_out))
        return counts

    def restart(self, value: torch.Tensor) -> None:
        """Continue from other representations, `(slots, n, d)`, with the same streams."""
        self.value = self.pre = value
        self._twins = equal_samples(value)
        self.log_scale = self.pre_log_scale = torch.zeros_like(self.log_scale)
        self._qr = None

    @property
    def output_shape(self) -> tuple[int, ...]:
        """Features of what the last layer returned."""
        return (self.value.shape[-1],)

    # --- forward ------------------------------------------------------------------------------------------------------

    def step(self, layer: int) -> None:
        """Go through one layer, counted from 1."""
        spec, x = self.spec, self.value
        value = x
        tape: list[tuple[str, Any]] = []
        for step in spec.steps:
            saved: Any = None
            if step == "weights":
                value, saved = self._multiply(value, layer)
                if self._bias is not None:
                    value = value + math.sqrt(spec.bias_variance) * self._bias.take(1, value.shape[-1])
            elif step == "residual":
                gamma = spec.at("residual", layer)
                if math.isinf(gamma):  # no skip connection
                    continue
                value, saved = torch.add(x, value, alpha=gamma), gamma
            elif step == "norm":
                if spec.norm is None:
                    continue
                saved, value = value, normalize(spec.norm, value)
            else:
                self.pre = value
                if self._phi is None:
                    continue
                gain = spec.at("activation_gain", layer)
                saved = value if gain == 1.0 else value * gain
                value = self._phi(saved)
            tape.append((step, saved))
        scale = spec.output_scale(layer)
        self.value = value if scale == 1.0 else value * scale
        if self.rows is not None:
            self._tape.append((tape, self.log_scale))
        self._qr = None
        if self._degree == 1:
            self._take_out_scale(layer)
        # a finite sum means finite entries; only one that is not leads to the test of each
        elif not math.isfinite(float(self.value.sum())):
            self._drop(~torch.isfinite(self.value).all(-1).all(-1), layer)

    def _multiply(self, a: torch.Tensor, layer: int) -> tuple[torch.Tensor, Product]:
        scale, fan_out = weight_factor(self.spec, layer), self.spec.widths[layer - 1]
        law, streams = self.spec.weights, self._weights
        if self.engine == "dense":
            z, product = multiply_dense(law, scale, a, fan_out, streams)
        else:
            # the QR at hand is of the representation, not of what a step before the weights made of it
            q, r = (None, None) if a is not self.value or self._qr is None else self._qr
            z, product = multiply_gram(law, scale, a, fan_out, streams, r=r, q=q, rows=self.rows)
        if self._twins is not None:
            # Normalisation pulls samples apart, also those that differ by rounding only, and neither QR nor a blocked
            # matrix product treats equal samples equally to the last bit.
            z = torch.take_along_dim(z, self._twins[:, :, None], 1)
        return z, product

    def _take_out_scale(self, layer: int) -> None:
        largest = self.value.abs().amax((-2, -1))
        bad = ~torch.isfinite(largest)  # amax passes nan on
        if bool(bad.any()):
            self._drop(bad, layer)
            largest = torch.where(bad, 0.0, largest)
        self.pre_log_scale = self.log_scale  # `pre` was computed before this layer's scale is taken out
        factor, logarithm = binary_scale(largest)
        self.value = self.value * factor[:, None, None]
        self.log_scale = self.log_scale + logarithm

    def _drop(self, bad: torch.Tensor, layer: int) -> None:
        self.nonfinite_layer = torch.where(bad & (self.nonfinite_layer < 0), layer, self.nonfinite_layer)
        self.value = torch.where(bad[:, None, None], 0.0, self.value)
        self.pre = torch.where(torch.isfinite(self.pre), self.pre, 0.0)

    def factor(self) -> torch.Tensor:
        """L `(slots, n, min(n, d))` with `L Lᵀ` the inner products of the samples, up to `log_scale`."""
        samples, features = self.value.shape[-2:]
        if samples >= features:
            return self.value
        if self._qr is None:
            if self.rows is not None and self.engine == "gram" and self.spec.steps[0] == "weights":
                q, r = torch.linalg.qr(self.value.mT)
                self._qr = (q, r)
            else:
                self._qr = (None, triangle(self.value))
        return self._qr[1].mT

    # --- backward -----------------------------------------------------------------------------------------------------

    def backward(self, cotangent: torch.Tensor, log_cotangent: torch.Tensor, visit: Any) -> torch.Tensor:
        """Take a cotangent of the last representation back to the input.

        Args:
            cotangent: `(slots, n, d)`, or `(slots, m, n, d)` for m cotangents at once.
            log_cotangent: logarithm of its scale, per slot.
            visit: called as `visit(layer, product, cotangent, log_scale)` at every weights step with the cotangent of
                its output and the log-scale of both together; and for the input with layer 0 and product None.

        Returns:
            The cotangent of the input up to its scale, as passed to the last visit.
        """
        noise = self._noise(cotangent)
        several = cotangent.dim() == 4
        cotangent, log_cotangent = unit_scale(cotangent, log_cotangent)
        for layer in range(self.spec.layers, 0, -1):
            # popped, so that memory is freed on the way; a layer of degree 1 has one Jacobian for all scales of its
            # input, so the recorded values serve without theirs
            tape, log_input = self._tape.pop()
            scale = self.spec.output_scale(layer)
            if scale != 1.0:
                cotangent = cotangent * scale
            skip = None
            while tape:
                step, saved = tape.pop()
                if step == "weights":
                    visit(layer, saved, cotangent, log_cotangent + log_input)
                    flat = cotangent.flatten(1, 2) if several else cotangent
                    flat = saved.backward(flat, noise)
                    cotangent = flat.unflatten(1, cotangent.shape[1:3]) if several else flat
                elif step == "residual":
                    # x + γ f(x): the cotangent reaches x as it is and, times γ, through f
                    skip, cotangent = cotangent, cotangent * saved
                elif step == "norm":
                    assert self.spec.norm is not None
                    cotangent = normalize_backward(self.spec.norm, saved[:, None] if several else saved, cotangent)
                else:
                    assert self._phi is not None
                    gain = self.spec.at("activation_gain", layer)
                    cotangent = activate_backward(self._phi, saved[:, None] if several else saved, cotangent)
                    cotangent = cotangent if gain == 1.0 else cotangent * gain
            if skip is not None:
                cotangent = cotangent + skip
            cotangent, log_cotangent = unit_scale(cotangent, log_cotangent)
        visit(0, None, cotangent, log_cotangent)
        return cotangent

    def _noise(self, cotangent: torch.Tensor) -> Streams:
        rows = math.prod(cotangent.shape[1:-1])
        pairs = list(zip(self.spec.fan_in, self.spec.widths, strict=True))
        if self.spec.weights == "orthogonal":
            counts = [rows * max(pair) for pair in pairs]
        else:
            counts = [min(rows, fan_out) * fan_in for fan_in, fan_out in pairs]
        return self._streams("backward", "normal", counts)


def equal_samples(batch: torch.Tensor) -> torch.Tensor | None:
    """For every sample the first one equal to it, `(slots, n)`; None if all differ."""
    rows = batch.cpu().numpy()
    twins, repeated = [], False
    for slot in rows:
        first: dict[bytes, int] = {}
        index = [first.setdefault(sample.tobytes(), i) for i, sample in enumerate(slot)]
        repeated = repeated or len(first) < len(index)
        twins.append(index)
    return torch.tensor(twins, device=batch.device) if repeated else None


def unit_scale(cotangent: torch.Tensor, log_scale: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """Move a power of two from each slot's cotangent to its log-scale; that is nan once the cotangent is not finite."""
    shape = (-1, *[1] * (cotangent.dim() - 1))
    largest = cotangent.abs().flatten(1).amax(1)
    if not math.isfinite(float(largest.sum())):
        bad = ~torch.isfinite(largest)
        cotangent = torch.where(bad.view(shape), 0.0, cotangent)
        largest = torch.where(bad, 0.0, largest)
        log_scale = torch.where(bad, math.nan, log_scale)
    factor, logarithm = binary_scale(largest)
    return cotangent * factor.view(shape), log_scale + logarithm


def binary_scale(largest: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """The power of two that brings `largest` to [1/2, 1), and minus its logarithm; 1 for zeros."""
    limit = 1000 if largest.dtype == torch.float64 else 120  # 2^±limit is a normal number
    exponent = torch.where(largest > 0, torch.frexp(largest).exponent, 0).clamp(-limit, limit)
    return torch.exp2(-exponent.to(largest.dtype)), exponent.to(torch.float64) * math.log(2.0)
