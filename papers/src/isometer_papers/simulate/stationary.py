"""The mean Gram matrix of a chain of layers under its invariant law."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from isometer.errors import IsometerError
from isometer.simulate import LayerChain, checked_batch, checked_engine, one_thread
from isometer.spec import Chain

__all__ = ["stationary_gram"]


def stationary_gram(
    spec: Chain, batch: Any, *, layers: int, burn_in: int = 0, chains: int = 1, seed: int = 0
) -> NDArray[np.float64]:
    """`(1/L) Σ_ℓ H_ℓ H_ℓᵀ / d` along chains of layers, an estimate of E_ν[H Hᵀ / d] per chain.

    The spread between chains is the error of their mean; chains that stay apart have no common invariant law.

    Args:
        spec: the layer; its depth and per-layer schedules are not used, all widths must be equal.
        batch: the input, `(n, d)` for all chains or `(chains, n, d)`.
        layers: how many are averaged over.
        burn_in: layers left out before.
        chains: independent chains run side by side.
        seed: seed of the weights.

    Returns:
        `(chains, n, n)`.

    Example:
        >>> from isometer.spec import recurrence
        >>> spec = recurrence("003/net-act", activation="identity", width=64, depth=1)
        >>> mean = stationary_gram(spec, np.eye(2, 64), layers=200, burn_in=10, chains=4).mean(0)
        >>> bool(np.abs(mean - np.eye(2) / 2).max() < 0.02)
        True

    Implements: 003/conj-F1 (E_ν of 19).
    """
    if len({spec.input_width, *spec.widths}) > 1:
        raise IsometerError("a chain that repeats one layer needs equal widths of input and layers — pass one width")
    for name, value, least in (("layers", layers, 1), ("chains", chains, 1), ("burn_in", burn_in, 0)):
        if not isinstance(value, int) or value < least:
            raise IsometerError(f"{name} is {value!r}; expected a whole number of at least {least} — pass one")
    inputs = checked_batch(spec, batch, chains, "cpu", "float64")
    states = (inputs if inputs.dim() == 3 else inputs.expand(chains, *inputs.shape)).contiguous()
    total = torch.zeros(*states.shape[:2], states.shape[1], dtype=torch.float64)
    with one_thread(), torch.no_grad():
        chain = LayerChain(spec, checked_engine(spec, "auto"), states, seed=seed, runs=range(chains), endless=True)
        for done in range(burn_in + layers):
            chain.step(1)
            if done >= burn_in:
                # H = value · exp(log_scale): H Hᵀ has the scale twice
                total += chain.value @ chain.value.mT * (2 * chain.log_scale).exp()[:, None, None]
        if bool((chain.nonfinite_layer >= 0).any()):
            raise IsometerError("the chain overflowed; expected bounded representations — add a normalisation")
    return np.asarray((total / (layers * spec.widths[0])).numpy())
