"""Networks of chapter 6 at initialisation, computed once per process, and what their gradients do with depth."""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np

from isometer.run import seed_of
from isometer_papers.claims._claim import Estimate, Instance
from isometer_papers.claims._families import Rng
from isometer_papers.claims._fits import beyond_power_law
from isometer_papers.float_or_mpmath import Numeric

_DEFAULTS: dict[str, Any] = {
    "n": None,
    "weights": "orthogonal",
    "phi": "identity",
    "gain": 1.0,
    "fall": 0.0,
    "norm": "batch-unit",
    "input": "gaussian",
    "runs": 32,
}


class GradientRecord(NamedTuple):
    """Per run and layer: log‖∂𝓛/∂W_ℓ‖ (layer 0: by the input) and the isometry gap."""

    gradient: Any
    gap: Any


def measured(i: Instance, depth: int, *, engine: str = "auto", shift: int = 0) -> GradientRecord:
    """The network of an instance at a depth, under a fixed loss derivative of norm 1."""
    key = tuple(i.get(name, default) for name, default in _DEFAULTS.items())
    return _measured(int(i["d"]), depth, key, engine, shift)


@lru_cache(maxsize=128)
def _measured(d: int, depth: int, key: tuple[Any, ...], engine: str, shift: int) -> GradientRecord:
    from isometer.data import make_batch
    from isometer.simulate import simulate
    from isometer.spec import PowerLaw, recurrence

    samples, weights, phi, gain, fall, norm, kind, runs = key
    n = d if samples is None else samples
    seed = (seed_of(f"001 network {d} {depth} {key} {engine}") + shift) & 0x7FFFFFFF
    spec = recurrence(
        "001/rec-6.3",
        width=d,
        depth=depth,
        weights=weights,
        activation=phi,
        activation_gain=PowerLaw(float(gain), layer=-float(fall)),
        norm=norm,
    )
    cotangent = np.random.default_rng(seed).standard_normal((n, d))
    data = simulate(
        spec,
        make_batch(kind, n, d, seed=seed, runs=runs),
        runs=runs,
        seed=seed,
        metrics=["gradient_log_norm", "isometry_gap"],
        loss=cotangent / np.linalg.norm(cotangent),
        engine=engine,  # type: ignore[arg-type]
    )
    return GradientRecord(data["gradient_log_norm"].values, data["isometry_gap"].values)


def growth(i: Instance, rng: Rng, *, engine: str = "auto", shift: int = 0) -> Estimate:
    """Change per layer of depth of E log‖∂𝓛/∂W_1‖, between two depths."""
    low, high = i["depths"]
    first, last = (measured(i, depth, engine=engine, shift=shift).gradient[:, 1] for depth in (low, high))
    a, b = Estimate.of(first), Estimate.of(last)
    span = high - low
    return Estimate((b.value - a.value) / span, float(np.hypot(a.error, b.error)) / span, a.freedom, a.draws)


def growth_again(i: Instance, rng: Rng) -> Estimate:
    """The same with the weights drawn out (dense engine), other weights and inputs."""
    return growth(i, rng, engine="dense", shift=1)


def excess_over_power_law(i: Instance, rng: Rng, *, engine: str = "auto", shift: int = 0) -> Estimate:
    """Growth per layer of log‖∂𝓛/∂W‖ towards the input, less what a power law through the outer layers predicts."""
    gradient = measured(i, i["depth"], engine=engine, shift=shift).gradient
    near, middle, far = i["distances"]  # from the output
    values = np.stack([gradient[:, i["depth"] - one] for one in (near, middle, far)])
    return Estimate.of(beyond_power_law((near, middle, far), values))


def excess_again(i: Instance, rng: Rng) -> Estimate:
    """The same with the weights drawn out (dense engine), other weights and inputs."""
    return excess_over_power_law(i, rng, engine="dense", shift=1)


def rate_at(layer: int) -> Callable[[Instance, Rng], Estimate]:
    """R(ℓ) of C.155 as printed: (log‖∇_ℓ‖ − log‖∇_{ℓ−10}‖)/10."""

    def estimate(i: Instance, rng: Rng) -> Estimate:
        return Estimate.of(_rates(measured(i, i["depth"]).gradient, layer))

    return estimate


def rate_again(layer: int) -> Callable[[Instance, Rng], Estimate]:
    """The same with the weights drawn out, other weights and inputs."""

    def estimate(i: Instance, rng: Rng) -> Estimate:
        return Estimate.of(_rates(measured(i, i["depth"], engine="dense", shift=1).gradient, layer))

    return estimate


def _rates(log_norms: Numeric, layer: int) -> Numeric:
    from isometer.metrics import explosion_rate

    return explosion_rate(log_norms[:, 1:])[:, layer - 11]


def final_gap(i: Instance, rng: Rng) -> Estimate:
    """Isometry gap of the last layer."""
    return Estimate.of(measured(i, i["depth"]).gap[:, -1])
