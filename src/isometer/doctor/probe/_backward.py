"""What is read during the backward pass, in hooks on outputs and weights that keep numbers only."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import torch
from torch import nn

from isometer.doctor.probe._gradients import convolution_alignment, linear_alignment
from isometer.doctor.probe._loss import norms_by_sample
from isometer.doctor.probe._readings import GradientReading
from isometer.doctor.probe._reductions import inner_products, log_norm, samples_first
from isometer.doctor.probe._sites import Draft

Tensor = torch.Tensor
_LOG_2 = math.log(2.0)
_SMALLEST, _LARGEST = 1e-28, 1e28  # squared lengths which leave inner products some digits in float32


class Backward:
    """Hooks of one backward pass of a loss that was multiplied by `2^exponent`.

    Log-norms are of the loss as it was. The gradient of a parameter is read and at once replaced by a broadcast zero,
    so that a probe holds no gradients.
    """

    def __init__(self, *, samples: int, tokens_first: bool, seed: int, exponent: int = 0) -> None:
        self._samples, self._tokens_first, self._exponent = samples, tokens_first, exponent
        self._seed = seed
        self._align: dict[Draft, Callable[[Tensor], tuple[Tensor, str] | None]] = {}
        self._outputs: dict[Draft, float] = {}  # log-norms
        self._weights: dict[Draft, float] = {}
        self._aligned: dict[Draft, tuple[Tensor, str]] = {}
        self._lost: set[Draft] = set()
        self._handles: list[Any] = []
        self.parameter_log_norms: dict[int, float] = {}
        self.running = False  # what the model differentiates in its forward is not looked at
        self.cotangents: Tensor | None = None  # inner products of the samples' gradients by the model's output
        self._output_squares: Tensor | None = None  # squared norms of the same, one per sample

    def _generator(self, site: Draft) -> torch.Generator:
        """A stream per call of a layer, so that what one site draws does not depend on the others."""
        # Not hash(): Python salts it per process, and a sketch would not repeat.
        label = sum(ord(letter) * 31 ** (i % 8) for i, letter in enumerate(site.name)) + site.call
        return torch.Generator().manual_seed((self._seed * 1_000_003 + label) % 2**63)

    def _log_norm(self, gradient: Tensor) -> float:
        return log_norm(gradient) - self._exponent * _LOG_2

    def watch_output(self, site: Draft, output: Tensor) -> None:
        """Read the gradient of a site's output when it comes."""
        if not output.requires_grad:
            return

        def hook(gradient: Tensor | None) -> None:
            if (
                not self.running or gradient is None or gradient.is_nested
            ):  # as behind operations that have no derivative
                return
            # Popped, so that the inputs it holds are freed while the backward pass goes on.
            align = self._align.pop(site, None)
            self._outputs[site] = norm = self._log_norm(gradient)
            aligned = align(gradient.detach()) if align is not None and math.isfinite(norm) else None
            if aligned is not None:
                self._aligned[site] = aligned

        self._handles.append(output.register_hook(hook))  # type: ignore[no-untyped-call]

    def watch_model(self, outputs: Iterable[Tensor]) -> None:
        """Read the gradients of what the model returns, added up over its tensors."""
        for output in outputs:
            if not output.requires_grad or samples_first(output, self._samples) is None:
                continue

            def hook(gradient: Tensor | None) -> None:
                if gradient is None:
                    return
                d = samples_first(gradient, self._samples, tokens_first=self._tokens_first)
                if d is not None:
                    # Squares of small float32 gradients underflow.
                    products = inner_products(d.double())
                    self.cotangents = products if self.cotangents is None else self.cotangents + products
                    squares = norms_by_sample(d).square()
                    known = self._output_squares
                    self._output_squares = squares if known is None else known + squares

            self._handles.append(output.register_hook(hook))  # type: ignore[no-untyped-call]

    @property
    def output_norms(self) -> tuple[float, ...]:
        """Norms of the loss's gradient by the model's output, one per sample."""
        squares = self._output_squares
        return () if squares is None else tuple((squares.sqrt() * 2.0**-self._exponent).tolist())

    def watch_weight(self, site: Draft, weight: Tensor) -> None:
        """Read the gradient of a weight which is computed from parameters."""

        def hook(gradient: Tensor | None) -> None:
            if not self.running or gradient is None:
                return
            self._weights[site] = norm = self._log_norm(gradient)
            if math.isnan(norm):
                self._lost.add(site)

        self._handles.append(weight.register_hook(hook))  # type: ignore[no-untyped-call]

    def watch_parameters(self, parameters: Iterable[nn.Parameter]) -> None:
        """Read the gradients of parameters, each summed over all its uses."""
        for parameter in parameters:
            if not parameter.requires_grad:  # the model froze it meanwhile
                continue
            hook = self._parameter_hook(id(parameter))
            self._handles.append(parameter.register_hook(hook))  # type: ignore[no-untyped-call]

    def _parameter_hook(self, key: int) -> Callable[[Tensor], Tensor | None]:
        def hook(gradient: Tensor) -> Tensor | None:
            if gradient.layout is not torch.strided:
                # Sparse embeddings: rows that occur twice are added up before the norm is taken.
                self.parameter_log_norms[key] = self._log_norm(gradient.coalesce().values())
                return None  # autograd wants the layout it gave; a sparse gradient is small
            self.parameter_log_norms[key] = self._log_norm(gradient)
            return gradient.new_zeros(()).expand(gradient.shape)

        return hook

    def align_samples(self, site: Draft, inputs: Tensor, gram: Tensor | None) -> None:
        """Prepare the inner products of per-sample gradients of a linear layer on a plain batch `(n, d)`.

        Args:
            site: of the layer.
            inputs: what enters it.
            gram: the inner products of the inputs, if they are known.
        """
        if gram is None:
            precise = inner_products(inputs.detach().double())
            self._align[site] = lambda gradient: self._hadamard(site, precise, None, gradient)
        else:  # the inputs stay in memory for the layer's own backward pass in any case
            kept = inputs.detach()
            self._align[site] = lambda gradient: self._hadamard(site, gram, kept, gradient)

    def align_tokens(self, site: Draft, inputs: Tensor) -> None:
        """Prepare the inner products of per-sample gradients of a linear layer on inputs of any other shape."""
        kept = inputs.detach()
        self._align[site] = lambda gradient: linear_alignment(
            kept, gradient, self._samples, self._generator(site), tokens_first=self._tokens_first
        )

    def _hadamard(
        self, site: Draft, gram: Tensor, inputs: Tensor | None, gradient: Tensor
    ) -> tuple[Tensor, str] | None:
        """`⟨δ_i x_iᵀ, δ_j x_jᵀ⟩ = ⟨x_i, x_j⟩ ⟨δ_i, δ_j⟩` (002/prop-8), and their sum, the squared norm of the gradient.

        In float64 where samples cancel each other, so that gradients which cancel to a part in 1e7 leave a norm as
        precise as that of the sum, and where products of float32 might leave its range. Elsewhere the products may be
        those of float32, with the inputs' Gram matrix which is known already.
        """
        d = samples_first(gradient, self._samples)
        if d is None:
            return None
        found = None if inputs is None else _in_range(gram, inner_products(d))
        if found is None:
            precise = gram if inputs is None else inner_products(inputs.double())
            products = inner_products(d.double()).mul_(precise)
            square = products.sum().item()
        else:
            products, square = found
        if site.factored is not None:
            logarithm = 0.5 * math.log(square) if square > 0 else -math.inf
            self._weights[site] = logarithm - self._exponent * _LOG_2 if square < math.inf else math.nan
        # With a largest entry of 1 the products fit float32, whatever the scale of the loss.
        top = products.diagonal().amax().item()
        return products.mul_(1.0 / top if top > 0 else 1.0).to(torch.promote_types(d.dtype, torch.float32)), "exact"

    def align_convolution(
        self, site: Draft, name: str, inputs: Tensor, kernel: tuple[int, ...], arguments: Mapping[str, Any]
    ) -> None:
        kept = inputs.detach()
        self._align[site] = lambda gradient: convolution_alignment(
            name, kept, gradient, kernel, arguments, self._generator(site)
        )

    def reached(self, site: Draft) -> bool:
        """Whether a gradient came to a site."""
        return site in self._outputs

    def reading(self, site: Draft) -> GradientReading:
        """What came back to a site, once the pass is over."""
        output, weight = self._outputs.get(site, math.nan), self._weights.get(site, math.nan)
        norms = self.parameter_log_norms
        own = [norms[key] for key in site.weight.parameters if key in norms]
        if own:
            weight = _together(own)
        elif site.kind == "input":
            weight = output
        came = [self._outputs[site]] if site in self._outputs else []
        lost = site in self._lost or any(math.isnan(norm) for norm in (*came, *own))
        return GradientReading(output, weight, lost, *self._aligned.get(site, (None, "")))

    def detach(self) -> None:
        """Take the hooks off and let go of what they held."""
        for handle in self._handles:
            handle.remove()
        self._handles, self._align = [], {}


def _together(norms: Sequence[float]) -> float:
    """The norm of several gradients together, from logarithms."""
    largest = max(norms)
    if not math.isfinite(largest):
        return largest
    return largest + 0.5 * math.log(sum(math.exp(2 * (norm - largest)) for norm in norms))


def _in_range(first: Tensor, second: Tensor) -> tuple[Tensor, float] | None:
    """The entrywise product in float64 and its sum, `None` where single precision of the factors would be too little.

    That is where squared lengths come near the ends of its range, and where the sum over all entries is less than a
    quarter of the trace: there pairs of samples cancel.
    """
    products = first.double() * second.double()
    square = products.sum().item()
    if first.dtype is torch.float64:
        return products, square
    low, high = torch.aminmax(torch.stack([first.diagonal(), second.diagonal()]))
    if not (low.item() > _SMALLEST and high.item() < _LARGEST) or not square >= 0.25 * products.trace().item():
        return None
    return products, square
