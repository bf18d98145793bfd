"""What is read of the weights a function applies, and what is prepared for their gradients."""

from __future__ import annotations

import math
from typing import Any

import torch

from isometer.doctor.probe import _sites as room
from isometer.doctor.probe._backward import Backward
from isometer.doctor.probe._contractions import fan_in as contraction_fan_in
from isometer.doctor.probe._readings import WeightReading
from isometer.doctor.probe._reductions import MAX_SAMPLES, weight_moments, weight_spectrum
from isometer.doctor.probe._sites import Draft
from isometer.doctor.probe._tensor_tags import Operation, Tags, is_parameter, version

Tensor = torch.Tensor


class Weights:
    """The weights of one forward pass; those of a parameter are measured once, however often it is used."""

    def __init__(self, tags: Tags, backward: Backward, *, samples: int, tokens_first: bool, spectra: bool) -> None:
        self._tags, self._backward, self._samples = tags, backward, samples
        self._tokens_first, self._spectra = tokens_first, spectra
        self._numbers: dict[tuple[int, int], tuple[float, ...]] = {}
        self.factored: list[Any] = []  # nodes of the graph that the backward pass must come through

    def apply(self, site: Draft, call: Operation, weight: Any) -> None:
        """Read the weights of a call, and have the gradients watched."""
        leaves = [t for t in call.given if is_parameter(t) and t.dim() > 1]
        parameters = tuple(id(leaf) for leaf in leaves)
        if weight is None and leaves:
            weight = leaves[0]
        if not isinstance(weight, Tensor) or not weight.numel() or not weight.is_floating_point():
            site.weight = WeightReading(parameters=parameters)
            return
        site.weight = self._measured(call, weight, parameters)
        if not weight.requires_grad:
            return
        if not weight.is_leaf:
            self._backward.watch_weight(site, weight)
        if site.value.finite and call.output.requires_grad:
            self._align(site, call, weight)

    def _measured(self, call: Operation, weight: Tensor, parameters: tuple[int, ...]) -> WeightReading:
        fan_in = _fan_in(call, weight)
        key = (id(weight), version(weight))
        # Parameters outlive the pass; a computed weight may be freed, and its id given to another.
        numbers = self._numbers.get(key) if is_parameter(weight) else None
        if numbers is None:
            numbers = weight_moments(weight, fan_in)
            if self._spectra:
                numbers = (*numbers, *weight_spectrum(weight))
            self._numbers[key] = numbers
        gain, asymmetry, norm, gap = (*numbers, math.nan, math.nan)[:4]
        # Embeddings look rows up instead of summing over a fan-in: they have no gain.
        if "embedding" in call.name:
            gain = asymmetry = math.nan
        return WeightReading(weight.numel(), fan_in, gain, asymmetry, norm, gap, parameters)

    def _align(self, site: Draft, call: Operation, weight: Tensor) -> None:
        """Prepare the inner products of the samples' gradients."""
        name, data, tag = call.name, None, None
        for tensor in call.given:
            if tensor is not weight and tensor.is_floating_point() and (tag := self._tags.of(tensor)) is not None:
                data = tensor
                break
        if data is None or tag is None:
            return
        if name in room.CONVOLUTIONS:
            # Transposed convolutions take output_padding at 5 and the dilation last.
            arguments = {
                "stride": call.argument(3, "stride", 1),
                "padding": call.argument(4, "padding", 0),
                "dilation": call.argument(7 if "transpose" in name else 5, "dilation", 1),
                "groups": call.argument(6, "groups", 1),
            }
            self._backward.align_convolution(site, name, data, tuple(weight.shape[2:]), arguments)
        elif name == "linear" or name in room.PRODUCTS:
            if data.dim() != 2 or data.shape[0] != self._samples:
                self._backward.align_tokens(site, data)
                return
            source = tag.site
            # The site's Gram matrix is that of `data` only if unscaled, with samples first, and not written to since.
            known = source is not None and source.value.exponent == 0 and not self._tokens_first
            gram = source.value.gram if known and source is not None and tag.version == version(data) else None
            self._backward.align_samples(site, data, gram)
            # The whole gradient needs all samples, and a cotangent that arrives though the weight is not requested.
            if name == "linear" and self._samples <= MAX_SAMPLES and data.requires_grad and is_parameter(weight):
                site.factored = id(weight)
                self.factored.append(call.output.grad_fn)


def _fan_in(call: Operation, weight: Tensor) -> int:
    """Inputs per output: from the shape of the weights for layers, from that of the output for products `x @ W`."""
    name, output = call.name, call.output
    if name == "einsum":
        return max(1, contraction_fan_in(call.args[0], 0 if call.given[0] is weight else 1, weight.shape))
    if name in room.RECURRENT or "attention" in name:
        return weight.shape[-1]
    if name in room.PRODUCTS:
        return max(1, weight.numel() // max(1, output.shape[-1]))
    side = weight.shape[1] if "transpose" in name else weight.shape[0]
    return max(1, weight.numel() // max(1, side))
