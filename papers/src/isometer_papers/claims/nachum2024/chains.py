"""Chains of recentring and ReLU at finite width, computed once per process, and at infinite width."""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import numpy as np

from isometer.metrics import activity_sparsity, mean_angle_deg, odd_point_statistics, stable_rank
from isometer.run import seed_of
from isometer.theory.batch_norm import gram_chain
from isometer_papers.claims._claim import Estimate, Instance
from isometer_papers.claims._families import Rng
from isometer_papers.claims.nachum2024.instances import proportion
from isometer_papers.float_or_mpmath import Numeric
from isometer_papers.theory.odd_point.chain import cluster_spread, sampled_last_layer
from isometer_papers.theory.odd_point.layer import recentred_relu_gram

FEATURES = 12
PARTS = {
    "RC": {"recenter": True, "rescale": False},
    "BN": {"recenter": True, "rescale": True},
    "RS": {"recenter": False, "rescale": True},
    "deviation": {"recenter": False, "rescale": True, "deviation": True},  # eq. 2, 3 without the mean
    "none": {"recenter": False, "rescale": False},
}


def inputs(n: int, runs: int, start: str, rng: Rng) -> Any:
    """A batch per run: Gaussian, Gaussian with log-normal lengths of a spread, or a simplex."""
    if start == "simplex":
        return np.repeat(np.eye(n)[None], runs, axis=0)
    x = rng.standard_normal((runs, n, FEATURES))
    if start.startswith("lengths"):
        x = x * np.exp(float(start.split()[1]) * rng.standard_normal((runs, n, 1)))
    return x


@lru_cache(maxsize=64)
def last_layers(n: int, width: int, depth: int, runs: int, parts: str = "RC", start: str = "gaussian") -> Any:
    """Inputs and last layers of independent runs."""
    rng = np.random.default_rng(seed_of(f"000 chain {n} {width} {depth} {runs} {parts} {start}"))
    x = inputs(n, runs, start, rng)
    return x, sampled_last_layer(x, width=width, depth=depth, rng=rng, **PARTS[parts])


def _of(i: Instance, parts: str) -> Numeric:
    return last_layers(i["n"], i["width"], i["depth"], i["runs"], parts, i.get("start", "gaussian"))


@lru_cache(maxsize=64)
def _odd(key: tuple[Any, ...]) -> dict[str, Any]:
    _, last = last_layers(*key)
    found = odd_point_statistics(last)._asdict()
    return {**found, "spread": cluster_spread(last)}


def odd_value(name: str) -> Any:
    """The mean over the runs of a number of `odd_point_statistics`, or of `spread`, as an estimate of a claim."""

    def estimate(i: Instance, rng: Rng) -> Estimate:
        key = (i["n"], i["width"], i["depth"], i["runs"], "RC", i.get("start", "gaussian"))
        return Estimate.of(np.asarray(_odd(key)[name], dtype=float))

    return estimate


def odd_again(name: str) -> Any:
    """The same from the simulation engine with its weights drawn one by one."""

    def spread(h: Numeric) -> Numeric:
        import torch

        return torch.as_tensor(cluster_spread(h.cpu().numpy()))

    def second_norm_ratio(h: Numeric) -> Numeric:
        lengths = h.square().sum(-1).sqrt().sort(-1).values
        return lengths[..., -2] / lengths[..., -1]

    measures = {"spread": spread, "second_norm_ratio": second_norm_ratio}

    def estimate(i: Instance, rng: Rng) -> Estimate:
        from isometer.simulate import simulate
        from isometer.spec import Spec

        runs = 16
        x = inputs(i["n"], runs, i.get("start", "gaussian"), rng)
        spec = Spec(i["width"], i["depth"], norm="batch-recenter", input_width=x.shape[-1])
        seed = int(rng.integers(1 << 31))
        data = simulate(spec, x, runs=runs, metrics=[measures[name]], seed=seed, engine="dense")
        return Estimate.of(np.asarray(data[name].isel(layer=-1).values))

    return estimate


def fresh_hits(i: Instance, rng: Rng) -> Estimate:
    """How often the odd point is the longest input, by the simulation engine with its weights drawn one by one."""
    from isometer.simulate import simulate
    from isometer.spec import Spec

    def longest(h: Numeric) -> Numeric:
        return h.square().sum(-1).argmax(-1).to(h.dtype)

    runs = 400
    x = inputs(i["n"], runs, i.get("start", "gaussian"), rng)
    spec = Spec(i["width"], i["depth"], norm="batch-recenter", input_width=x.shape[-1])
    seed = int(rng.integers(1 << 31))
    data = simulate(spec, x, runs=runs, metrics=[longest], seed=seed, engine="dense")
    last = np.asarray(data["longest"].isel(layer=-1).values)
    return proportion(int((last == np.argmax((x**2).sum(-1), axis=1)).sum()), runs)


def hits(i: Instance) -> Numeric:
    """In which runs the odd point is the longest input."""
    x, last = _of(i, "RC")
    return np.argmax((x**2).sum(-1), axis=1) == np.argmax((last**2).sum(-1), axis=1)


def mean_angle(i: Instance, parts: str) -> Numeric:
    """Mean angle of each run."""
    return np.asarray(mean_angle_deg(_of(i, parts)[1]))


def widely_active(i: Instance, parts: str) -> Numeric:
    """Share of neurons that respond to more than 80 % of the samples, of each run."""
    return np.asarray(activity_sparsity(_of(i, parts)[1]).widely_active_share)


def mostly_quiet(i: Instance, parts: str) -> Numeric:
    """Share of neurons whose response is negligible for more than half of the samples, of each run."""
    return (np.asarray(activity_sparsity(_of(i, parts)[1]).active_fraction) < 0.5).mean(axis=1)


def stable_ranks(i: Instance, parts: str) -> Numeric:
    """Of each run."""
    return np.asarray(stable_rank(_of(i, parts)[1]))


def infinite(i: Instance) -> Numeric:
    """Gram matrix of layer `depth` at infinite width."""
    x = np.asarray(i["X"], dtype=float)
    return _infinite(np.ascontiguousarray(x).tobytes(), x.shape, i["depth"])


@lru_cache(maxsize=64)
def _infinite(key: bytes, shape: tuple[int, int], depth: int) -> Any:
    x = np.frombuffer(key).reshape(shape)
    return gram_chain(x @ x.T, depth).gram[-1]


def exact_infinite(i: Instance) -> Numeric:
    """The same entry by entry in mpmath numbers."""
    gram = i["X"] @ i["X"].T
    for _ in range(i["depth"]):
        gram = recentred_relu_gram(gram)
    return gram
