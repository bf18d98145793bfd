"""Chains of 002: ranks along the depth, long averages over it, and spectra from almost collinear inputs."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import numpy as np
import xarray

from isometer.errors import IsometerError

_CHAINS = 8  # side by side: the same number of layers in less time
_WIDE = 256  # from here on half as many chains: what takes time is the way to the invariant law


def moment_square(batch: Any) -> Any:
    """‖M‖_F² of M = HᵀH/n.

    Example:
        >>> import torch
        >>> moment_square(2 * torch.eye(2)[None]).tolist()
        [8.0]
    """
    moments = batch.mT @ batch / batch.shape[-2]
    return (moments * moments).sum((-2, -1))


def depth_cell(configuration: Mapping[str, Any], seed: int) -> xarray.Dataset:
    """Ranks at every `every`-th layer: `network`, `activation`, `width`, `gamma`, `depth`, `runs`.

    `rank` counts singular values above 1e-9 of the largest; `soft_rank` is rank₁/₂ after scaling to ‖H‖²_F = n d.

    Example:
        >>> cell = {"network": "vanilla", "activation": "identity", "width": 4, "gamma": 1.0, "depth": 6, "runs": 2,
        ...         "every": 3}
        >>> depth_cell(cell, 0)["rank"].values.tolist()
        [[4, 4], [4, 4]]
    """
    from isometer.metrics import rank, soft_rank
    from isometer_papers.claims._precise import elementwise
    from isometer_papers.simulate.rank_steps import plain_chain

    c = configuration
    if c["network"] not in ("batch norm", "vanilla"):
        raise IsometerError(f"network is {c['network']!r}; expected 'batch norm' or 'vanilla'")
    function = None if c["activation"] == "identity" else elementwise(c["activation"])
    ranks, soft = [], []
    for run in range(c["runs"]):
        rng = np.random.default_rng(np.random.SeedSequence(seed, spawn_key=(run,)))
        states = plain_chain(
            rng.standard_normal((c["width"], c["width"])),
            c["gamma"],
            layers=c["depth"],
            rng=rng,
            function=function,
            normalize=c["network"] == "batch norm",
            every=c["every"],
        )
        # soft ranks depend on the scale, which drifts without batch norm
        sizes = np.sqrt((states**2).mean((1, 2), keepdims=True))
        ranks.append(rank(states, tolerance=1e-9))
        soft.append(soft_rank(states / sizes))
    layers = c["every"] * np.arange(1, len(ranks[0]) + 1)
    return xarray.Dataset(
        {"rank": (("run", "layer"), np.stack(ranks)), "soft_rank": (("run", "layer"), np.stack(soft))},
        {"layer": layers},
    )


def layers_of(width: int, total: int, work: int) -> int:
    """Layers that are averaged over: all of them, or as many as the work allows, which falls like width^(−5/2).

    Example:
        >>> layers_of(8, 5000, 10**6), layers_of(256, 10**6, 10**6)
        (5000, 16579)
    """
    return max(_CHAINS * 256, min(total, int(work / (1 + (width / 50) ** 2.5))))


def average_cell(configuration: Mapping[str, Any], seed: int) -> xarray.Dataset:
    """Averages over depth with batch norm: `activation`, `width`, `gamma`, `layers` in all, `work` (see `layers_of`).

    Example:
        >>> cell = {"activation": "identity", "width": 4, "gamma": 1.0, "layers": 2048, "work": 2048}
        >>> sorted(average_cell(cell, 0).data_vars)[:4]
        ['layers_done', 'mean', 'regularity', 'regularity_error']
    """
    from isometer.data import make_batch
    from isometer.simulate import ergodic_average
    from isometer.spec import recurrence

    c = configuration
    chains = _CHAINS if c["width"] < _WIDE else _CHAINS // 2
    done = layers_of(c["width"], c["layers"], c["work"]) // chains
    spec = recurrence("002/eq-5", width=c["width"], depth=1, activation=c["activation"], residual=c["gamma"])
    data = ergodic_average(
        spec,
        make_batch("gaussian", c["width"], c["width"], seed=seed),
        layers=done,
        metrics=["stable_rank", "soft_rank", moment_square],
        seed=seed,
        burn_in=max(done // 10, 4 * c["width"] if math.isinf(c["gamma"]) else int(100 + 10 * c["width"] / c["gamma"])),
        chains=chains,
        every=max(1, min(c["width"] // 16, done // 256)),
        moments=True,
    )
    kept = data[["mean", "standard_error", "regularity", "regularity_error"]].drop_attrs()
    return kept.assign(layers_done=done * chains)


def spectrum_cell(configuration: Mapping[str, Any], seed: int) -> xarray.Dataset:
    """Largest eigenvalues of M from almost collinear features: `width`, `gamma`, `noise`, `layers` (a list), `runs`.

    Example:
        >>> cell = {"width": 4, "gamma": 0.1, "noise": 0.01, "layers": [0, 2], "runs": 2, "shown": 3}
        >>> spectrum_cell(cell, 0)["eigenvalue"].shape
        (2, 2, 3)
    """
    from isometer_papers.simulate.rank_steps import plain_chain
    from isometer_papers.theory.rank.bounds import second_moments
    from isometer_papers.theory.rank.chain import normalized_step

    c, layers = configuration, sorted(configuration["layers"])
    rng = np.random.default_rng(seed)
    d, step = c["width"], int(np.gcd.reduce([layer for layer in layers if layer]))
    found = np.zeros((c["runs"], len(layers), c["shown"]))
    for run in range(c["runs"]):
        start = np.ones((d, 1)) * rng.choice([-1.0, 1.0], (1, d)) + c["noise"] * rng.standard_normal((d, d))
        first = normalized_step(start, np.zeros((d, d)), 0.0)
        states = plain_chain(start, c["gamma"], layers=layers[-1], rng=rng, every=step)
        for i, layer in enumerate(layers):
            state = first if layer == 0 else states[layer // step - 1]
            found[run, i] = np.linalg.eigvalsh(second_moments(state))[::-1][: c["shown"]]
    return xarray.Dataset(
        {"eigenvalue": (("run", "layer", "index"), found)}, {"layer": layers, "index": np.arange(1, c["shown"] + 1)}
    )
