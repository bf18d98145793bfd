"""Random networks of 004, drawn once per process; every seed comes from the parameters."""

from __future__ import annotations

import math
from functools import lru_cache
from typing import Any

import numpy as np

from isometer.activations import activation
from isometer.run import seed_of


@lru_cache(maxsize=64)
def kernel_draws(name: str, width: int, depth: int, rho: float, runs: int) -> Any:
    """k^{(l)}(x, x′) of independent networks for unit inputs of cosine ρ, exact in law."""
    rng = np.random.default_rng(seed_of(f"004 kernel {name} {width} {depth} {rho} {runs}"))
    phi = activation(name)
    p, q, c = np.ones(runs), np.ones(runs), np.full(runs, rho)
    for _ in range(depth):  # a layer sees the Gram matrix only
        first, other = rng.standard_normal((2, runs, width))
        root = np.sqrt(p)[:, None]
        # the last pivot of [[p, c], [c, q]], which may round below 0
        rest = np.sqrt(np.maximum(q - c * c / p, 0.0))[:, None]
        u, v = phi(root * first), phi((c / np.sqrt(p))[:, None] * first + rest * other)
        p, q, c = (u * u).mean(1), (v * v).mean(1), (u * v).mean(1)
    return c


@lru_cache(maxsize=64)
def unit_cosines(name: str, width: int, depth: int, rho: float, runs: int, scaled: bool = False) -> Any:
    """Cosines (depth, runs) in networks that scale every layer to unit length, exact in law.

    With `scaled` the input of a layer is also divided by √m, as eq. 3 displays it.
    """
    rng = np.random.default_rng(seed_of(f"004 cosines {name} {width} {depth} {rho} {runs} {scaled}"))
    return _cosines(name, width, depth, rho, runs, scaled, rng)


def _cosines(name: str, width: int, depth: int, rho: float, runs: int, scaled: bool, rng: Any) -> Any:
    phi, here, out = activation(name), np.full(runs, rho), np.empty((depth, runs))
    size = 1 / math.sqrt(width) if scaled else 1.0
    for layer in range(depth):
        first, other = rng.standard_normal((2, runs, width))
        factor = size if layer else 1.0  # the input itself has unit length
        u, v = phi(factor * first), phi(factor * (here[:, None] * first + np.sqrt(1 - here[:, None] ** 2) * other))
        here = (u * v).sum(1) / np.sqrt((u * u).sum(1) * (v * v).sum(1))
        here = np.clip(here, -1.0, 1.0)
        out[layer] = here
    return out


def dense_cosines(name: str, width: int, depth: int, rho: float, runs: int, rng: Any, scaled: bool = False) -> Any:
    """The last cosines of networks with all their weights."""
    phi, found = activation(name), np.empty(runs)
    start = np.array([[1.0, 0.0], [rho, math.sqrt(1 - rho * rho)]])
    for run in range(runs):
        h = start
        for layer in range(depth):
            z = h @ rng.standard_normal((h.shape[1], width), dtype=np.float32)
            h = phi(z / math.sqrt(width) if scaled and layer else z)
            h = h / np.linalg.norm(h, axis=1, keepdims=True)
        found[run] = h[0] @ h[1]
    return found
