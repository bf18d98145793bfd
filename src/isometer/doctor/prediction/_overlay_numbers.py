"""The same numbers of one layer three times: measured by the probe, drawn at finite width, at infinite width.

Sequences are read token by token, in a few samples: the length of tokens, cosines within a sample and across samples at
the same position. Everything else is read off the Gram matrix of flattened samples, as a chain is.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray

from isometer.doctor.probe._reductions import MAX_SAMPLES, MAX_TOKENS, every
from isometer.doctor.probe._sites import Site
from isometer.metrics import Metric
from isometer.metrics._catalogue import probed
from isometer.metrics._sequences import sequence_numbers
from isometer.simulate._windows import parted
from isometer.theory.networks._interpreter import sample_gram
from isometer.theory.networks._state import FeatureState

Floats = NDArray[np.float64]
Tensor = torch.Tensor
COSINES = ("token_cosine", "sample_cosine")
ENTROPY = "attention_entropy"
_SMALLEST = ("isometry_gap", "effective_rank")  # hang on small eigenvalues, which theory does not resolve


@dataclass(frozen=True)
class OverlayNumbers:
    """What is read of a network with positions or without.

    Attributes:
        sequence: whether positions are tokens.
        samples: that are read.
        stride: every how many-th sample of the batch that is.
        batch: samples of the batch.
    """

    sequence: bool
    samples: int
    stride: int
    batch: int

    @property
    def names(self) -> tuple[str, ...]:
        """All metrics."""
        if self.sequence:
            return ("rms", *COSINES, ENTROPY)
        return ("rms", *(one.name for one in self._of_gram()))

    def _of_gram(self) -> list[Metric]:
        if self.samples < 2:
            return []
        return [one for one in probed("gram") if one.scaling == "invariant" and one.name not in _SMALLEST]

    # --- measured -----------------------------------------------------------------------------------------------------

    def measured(self, site: Site, width: int) -> dict[str, float]:
        """Of a site of the probe whose tokens have `width` features."""
        if not self.sequence:
            gram = self._kept(site)
            return {} if gram is None else self._flat(gram, math.ldexp(1.0, site.exponent))
        if site.token_gram is None or site.position_gram is None:
            return self._pooled(site)
        scale = math.ldexp(1.0, site.exponent)
        tokens, across = _numbers(site.token_gram)[: self.samples], _numbers(site.position_gram)
        found = {"rms": scale * math.sqrt(float(np.einsum("...ii->...i", tokens).mean()) / width)}
        for name, grams in zip(COSINES, (tokens, across[:, : self.samples, : self.samples]), strict=True):
            if grams.shape[-1] > 1:
                found[name] = _mean_cosine(grams)
        return found

    def _pooled(self, site: Site) -> dict[str, float]:
        """Behind a pool there are no tokens, and one vector per sample."""
        gram = self._kept(site)
        if gram is None or len(site.shape) != 2:
            return {}
        gram = gram[: self.samples, : self.samples]
        found = {"rms": math.ldexp(1.0, site.exponent) * math.sqrt(float(np.diag(gram).mean()))}
        return {**found, "sample_cosine": _mean_cosine(gram)} if len(gram) > 1 else found

    def _kept(self, site: Site) -> Floats | None:
        """Inner products of the samples that are read, where the probe has them."""
        own = every(self.batch, MAX_SAMPLES)  # the samples whose inner products the probe keeps
        if site.gram is None or (self.stride % own and self.stride > 1):
            return None
        step = max(1, self.stride // own)
        return _numbers(site.gram)[::step, ::step] / site.features

    def _flat(self, gram: Floats, scale: float) -> dict[str, float]:
        found = {"rms": scale * math.sqrt(max(0.0, float(np.trace(gram)) / len(gram)))}
        return found | {one.name: float(one.of_gram(gram)) for one in self._of_gram()}

    # --- drawn --------------------------------------------------------------------------------------------------------

    def drawn(self, rows: Tensor, log_scale: Tensor) -> dict[str, Floats]:
        """Of runs `(runs, samples · positions, features)`, one number per run."""
        samples = self.samples
        positions = rows.shape[1] // samples
        scale = log_scale.exp()
        if self.sequence:
            kept = parted(rows, 1, samples, positions)[:, :, :: every(positions, MAX_TOKENS)].flatten(1, 2)
            found = sequence_numbers((kept @ kept.mT / kept.shape[-1]).double(), samples)
            values = {name: found[name] for name in ("rms", *COSINES)}
        else:
            # features and positions side by side: their order does not matter for inner products
            flat = parted(rows, 1, samples, positions).flatten(2)[:, :: every(samples, MAX_SAMPLES)]
            gram = (flat @ flat.mT / flat.shape[-1]).double()
            values = {"rms": gram.diagonal(dim1=-2, dim2=-1).mean(-1).sqrt()}
            values |= {one.name: one.of_gram(gram) for one in self._of_gram()}
        values["rms"] = values["rms"] * scale
        return {name: one.to(torch.float64).numpy() for name, one in values.items()}

    # --- at infinite width --------------------------------------------------------------------------------------------

    def expected(self, state: FeatureState) -> dict[str, float]:
        """Of a state of theory."""
        scale, layout = math.exp(state.log_scale), state.layout
        matrices = state.second().gram()
        if not self.sequence:
            gram = np.asarray(sample_gram(matrices, layout))
            stride = every(len(gram), MAX_SAMPLES)
            return self._flat(gram[::stride, ::stride], scale)
        positions = layout.positions
        kept = np.arange(layout.samples)[:, None] * positions + np.arange(positions)[:: every(positions, MAX_TOKENS)]
        chosen = matrices[0][np.ix_(kept.ravel(), kept.ravel())]
        numbers = sequence_numbers(chosen, layout.samples)
        found = {name: float(numbers[name]) for name in ("rms", *COSINES)}
        return {**found, "rms": scale * found["rms"]}


def _numbers(tensor: Tensor) -> Floats:
    return np.asarray(tensor.double().cpu().numpy())


def _mean_cosine(grams: Floats) -> float:
    """The mean off the diagonals of `(…, k, k)`; a vector of no length has the cosine 0 to all others."""
    squares = np.clip(np.einsum("...ii->...i", grams), 0.0, None)
    roots = np.sqrt(np.where(squares > 0, squares, 1.0))
    cosines = grams / (roots[..., :, None] * roots[..., None, :])
    size = grams.shape[-1]
    own = (squares > 0).sum(-1)
    return float(((cosines.sum((-2, -1)) - own) / (size * (size - 1))).mean())
