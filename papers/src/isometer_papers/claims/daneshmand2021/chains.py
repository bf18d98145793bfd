"""Simulated chains of 003 and what is read off them; computed once per process, seeds from their own parameters."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import lru_cache
from typing import Any

import numpy as np

from isometer.run import seed_of
from isometer_papers.claims._claim import Estimate, Instance
from isometer_papers.claims._families import Rng
from isometer_papers.claims._precise import elementwise
from isometer_papers.float_or_mpmath import Numeric
from isometer_papers.simulate.orthogonality_steps import feature_chain, read_gram, singular_value_gap


def activation(name: str) -> Callable[[Any], Any] | None:
    """F by name; None for the identity."""
    if name == "identity":
        return None
    if name == "sigmoid":
        return lambda q: 1 / (1 + np.exp(-q))
    found: Callable[[Any], Any] = elementwise(name)
    return found


@lru_cache(maxsize=64)
def spectra_along(
    squares: tuple[float, ...], width: int, layers: int, chains: int, skip: int = 0, every: int = 1
) -> Any:
    """Eigenvalues of HᵀH, ascending, `(chains, layers, n)`, for batch norm and linear layers."""
    rng = np.random.default_rng(seed_of(f"003 chain {squares} {width} {layers} {chains} {skip} {every}"))

    def read(q: Numeric) -> Numeric:
        # not eigenvalues of QᵀQ, of which small ones lose their digits
        return np.linalg.svd(q, compute_uv=False)[..., ::-1] ** 2 / q.shape[-2]

    start = np.diag(np.sqrt(np.asarray(squares)))
    return feature_chain(start, width, layers=layers, chains=chains, rng=rng, read=read, skip=skip, every=every)


def gaps(values: Numeric) -> Numeric:
    """V of spectra."""
    n = values.shape[-1]
    return np.sqrt(((values - 1 / n) ** 2).sum(-1))


@lru_cache(maxsize=64)
def stationary(n: int, width: int, layers: int = 200, chains: int = 16) -> Any:
    """Eigenvalues along stationary chains, `(chains, layers, n)`."""
    return spectra_along((1 / n,) * n, width, layers + 40, chains, 40)


def over_chains(values: Numeric) -> Estimate:
    """Mean over layers within chains, which are independent."""
    return Estimate.of(np.asarray(values).mean(axis=1))


@lru_cache(maxsize=64)
def activated_grams(function: str, width: int, layers: int, chains: int, n: int = 4) -> Any:
    """QᵀQ/d along chains Q ← BN(W F(Q)) after 100 layers, `(chains, layers, n, n)`."""
    seed = seed_of(f"003 grams {function} {width} {layers} {chains} {n}")
    rng = np.random.default_rng(seed)
    start = rng.standard_normal((n, n))
    return feature_chain(
        start,
        width,
        layers=layers + 100,
        chains=chains,
        rng=rng,
        read=read_gram,
        function=activation(function),
        skip=100,
    )


def fluctuation(function: str, width: int, layers: int, chains: int) -> Estimate:
    """E‖QᵀQ/d − E_ν[QᵀQ/d]‖_F, the mean matrix of a chain from the other chains, exchangeable samples used."""
    grams = activated_grams(function, width, layers, chains)
    n = grams.shape[-1]
    means = grams.mean(axis=1)  # (chains, n, n)
    others = (means.sum(axis=0) - means) / (len(means) - 1)
    diagonal = np.einsum("cii->c", others) / n
    off = (others.sum((-2, -1)) - n * diagonal) / (n * (n - 1))
    centre = off[:, None, None] + (diagonal - off)[:, None, None] * np.eye(n)
    return over_chains(np.sqrt(((grams - centre[:, None]) ** 2).sum((-2, -1))))


@lru_cache(maxsize=32)
def path(kind: str, width: int, samples: int, layers: int, chains: int, start: str) -> Any:
    """V of the input and per layer, `(chains, 1 + layers)`: nets `linear`, `vanilla`, `relu`, `bn-relu`."""
    rng = np.random.default_rng(seed_of(f"003 path {kind} {width} {samples} {layers} {chains} {start}"))
    norm: Any = {"linear": "unit", "vanilla": "none", "relu": "none", "bn-relu": "standard"}[kind]
    function = activation("relu") if "relu" in kind else None
    batch = _batch(start, samples, rng)
    found = feature_chain(
        batch, width, layers=layers, chains=chains, rng=rng, read=singular_value_gap, function=function, norm=norm
    )
    return np.concatenate([np.full((chains, 1), singular_value_gap(batch)), found], axis=1)


def _batch(start: str, samples: int, rng: Rng) -> Any:
    if start == "orthogonal":
        return np.eye(samples)
    if start == "aligned":  # cosines of about 0.8
        return rng.standard_normal((64, samples)) + 2 * rng.standard_normal((64, 1))
    return np.diag([1.0] + [1e-6] * (samples - 1))


@lru_cache(maxsize=4)
def pair_cosines(vanilla: bool, width: int, layers: int, chains: int) -> Any:
    """|cos| of two samples per layer, `(chains, layers)`, from the inputs of Figure 1."""
    rng = np.random.default_rng(seed_of(f"003 cosines {vanilla} {width} {layers} {chains}"))
    start = np.eye(2) if vanilla else np.array([[1.0, 0.999], [0.0, 0.001]])

    def read(q: Numeric) -> Numeric:
        a, b = q[..., 0], q[..., 1]
        return abs((a * b).sum(-1)) / np.sqrt((a * a).sum(-1) * (b * b).sum(-1))

    return feature_chain(
        start, width, layers=layers, chains=chains, rng=rng, read=read, norm="none" if vanilla else "unit"
    )


def log_exponent(widths: list[int], values: list[Estimate]) -> Estimate:
    """Slope of log value over log width by unweighted least squares, independent values."""
    x = np.log(np.asarray(widths, dtype=float))
    weights = (x - x.mean()) / ((x - x.mean()) ** 2).sum()
    slope = sum(w * math.log(v.value) for w, v in zip(weights, values, strict=True))
    error = math.sqrt(sum((w * v.error / v.value) ** 2 for w, v in zip(weights, values, strict=True)))
    return Estimate(float(slope), error, min(v.freedom for v in values), min(v.draws for v in values))


def squares_of(i: Instance) -> tuple[float, ...]:
    """The spectrum of an instance, as a key."""
    return tuple(float(v) for v in i["squares"])
