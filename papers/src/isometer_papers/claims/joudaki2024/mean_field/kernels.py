"""Kernel maps as instances: weights of a power series, or the name of an activation."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from functools import lru_cache
from typing import Any

import numpy as np

from isometer_papers.claims._claim import Instance, Search
from isometer_papers.claims._families import Family, Rng, cases
from isometer_papers.claims._precise import mpmath
from isometer_papers.float_or_mpmath import Numeric
from isometer_papers.theory.duals.global_convergence import case_of
from isometer_papers.theory.duals.kernel_series import KernelSeries, as_series
from isometer_papers.theory.duals.precise_kernels import CLOSED, precise_kernel

RHOS = (0.5, -0.5, 0.9, -0.9, 0.1, 0.99, -0.99, 0.999)
DEPTHS = (1, 2, 5, 12)


class _Plain:
    """A `KernelMap` with the interface of a series."""

    def __init__(self, name: str, centred: bool) -> None:
        from isometer.theory import kernel_map

        self.map = kernel_map(name, norm="layer", norm_position="post") if centred else kernel_map(name)
        self.at_zero, self.slope_at_zero = self.map.at_zero, self.map.slope_at_zero
        self.slope_at_one, self.fixed_point = self.map.slope_at_one, self.map.fixed_point
        self.slope = self.map.slope

    def __call__(self, rho: float) -> float:
        return float(self.map(rho))

    def iterate(self, rho: float, depth: int) -> float:
        for _ in range(depth):
            rho = self(rho)
        return rho


@lru_cache(maxsize=64)
def _plain(name: str, centred: bool) -> _Plain:
    return _Plain(name, centred)


def kernel(i: Instance) -> Numeric:
    """The kernel of an instance, in the precision of its ρ."""
    if "weights" in i:
        return as_series(i["weights"])
    name, centred = i["phi"], bool(i.get("centred", False))
    if not isinstance(i["rho"], float):
        return precise_kernel(name, mpmath(), centred)
    return precise_kernel(name, math, centred) if name in CLOSED else _plain(name, centred)


def after(i: Instance) -> Numeric:
    """ρ_ℓ."""
    return kernel(i).iterate(i["rho"], i["depth"])


def nonlinear(i: Instance) -> bool:
    """Σ_{k≥2} c_k² > 0."""
    return bool(i["phi"] != "identity") if "weights" not in i else as_series(i["weights"]).nonlinear


def in_case(*cases: int) -> Callable[[Instance], bool]:
    """Non-linear, and in one of these cases of Theorem 5.11."""
    return lambda i: nonlinear(i) and case_of(kernel(i)) in cases


def inner(i: Instance) -> bool:
    """ρ₀ strictly between −1 and 1."""
    return bool(-1 < i["rho"] < 1)


def weights_of(case: int, raw: Any, share: float) -> np.ndarray[Any, Any]:
    """Weights of a given case: w_0 from the others, Σ(k−1)w_k being where κ′(1) = 1."""
    weights = np.concatenate([[0.0], np.asarray(raw, dtype=float)])
    edge = float(sum((k - 1) * w for k, w in enumerate(weights) if k > 1))
    weights[0] = {1: 0.0, 2: edge * (1 + share) + 0.01, 3: edge, 4: edge * max(share, 1e-3)}[case]
    return weights


HAND: dict[int, tuple[list[float], ...]] = {
    1: ([0, 0, 1], [0, 1, 1], [0, 3, 0, 2], [0, 1, 0, 0, 1], [0, 3, 1], [0, 0, 0, 0, 0, 1]),
    2: ([2, 0, 1], [1, 1], [4, 0, 0, 1], [3, 1, 1]),
    3: ([1, 0, 1], [1, 1, 1], [2, 0, 0, 1], [3, 2, 1, 1]),
    4: ([1, 0, 2], [1, 0, 0, 1], [1, 1, 2], [1, 0, 0, 0, 0, 1], [9, *[0] * 19, 1]),
}
NAMED = {1: ("sin", "erf", "sign", "tanh"), 2: ("cos", "softplus", "sigmoid"), 3: ("relu", "exp"), 4: ()}


def hand(*cases: int) -> Family:
    """Kernels that can be written down, from many ρ₀ and for a few depths."""

    def generator(rng: Rng, count: int) -> Iterator[Instance]:
        kernels: list[dict[str, Any]] = []
        for case in cases:
            kernels += [{"weights": np.array(w, dtype=float)} for w in HAND[case]]
            kernels += [{"phi": name} for name in NAMED[case]]
        for rho in RHOS:
            for depth in DEPTHS[: 2 if count <= 100 else None]:
                for one in kernels:
                    yield {**one, "rho": rho, "depth": depth}

    return generator


# Activations under layer norm after φ: centred whatever they are.
post_norm = cases(
    *(
        {"phi": name, "centred": True, "rho": rho, "depth": depth}
        for rho in RHOS
        for depth in (1, 2, 5)
        for name in ("relu", "exp", "cos", "softplus", "sigmoid")
    )
)


def random(*cases: int, depths: Sequence[int] = (1, 1, 2, 3, 5, 9)) -> Family:
    """Random spectra, sparse and dense, up to degree 30."""

    def generator(rng: Rng, count: int) -> Iterator[Instance]:
        for _ in range(count):
            degree = int(rng.choice([2, 3, 4, 6, 10, 30]))
            raw = rng.gamma(float(rng.choice([0.1, 0.5, 2.0])), size=degree)
            if rng.integers(2):
                raw[rng.permutation(degree)[: degree - 2]] = 0.0
            if raw[1:].sum() < 1e-6:
                raw[-1] = 1.0
            raw = raw / raw.max()
            rho = float(rng.choice([rng.uniform(-0.999, 0.999), 1 - 10 ** rng.uniform(-3, 0), rng.uniform(-0.2, 0.2)]))
            weights = weights_of(int(rng.choice(cases)), raw, float(rng.uniform()))
            yield {"weights": weights, "rho": rho, "depth": int(rng.choice(list(depths)))}

    return generator


def search(case: int, degree: int = 3, depth: int = 6) -> Search:
    """An adversary over spectra of one case, ρ₀ and ℓ."""

    def build(point: Numeric) -> Instance:
        raw = np.asarray(point[:degree]) ** 2 + 1e-9
        rho = math.tanh(3.8 * (2 * float(point[degree + 1]) - 1))  # |ρ₀| up to 0.999, with room near the ends
        weights = weights_of(case, raw, float(point[degree]))
        return {"weights": weights, "rho": rho, "depth": 1 + int(depth * 0.999 * float(point[degree + 2]))}

    return Search(build, degree + 3)


# Linear and affine kernels beside the others.
affine_too = cases(
    *(
        {"weights": np.array(w), "rho": rho, "depth": 1}
        for w in ([0.0, 1.0], [1.0, 1.0], [1.0], [0.0, 0.0, 1.0], [1.0, 0.0, 2.0])
        for rho in RHOS
    )
)


def series(i: Instance) -> KernelSeries:
    """The series of an instance that has weights."""
    return as_series(i["weights"])


CENTRED = {"hand": hand(1), "random": random(1)}
ALL = {"hand": hand(1, 2, 3, 4), "random": random(1, 2, 3, 4)}
VISIBLE = 1e-4  # distances below this are left to rounding


def families(case: int) -> dict[str, Family]:
    """Hand-made and random kernels of one case."""
    return {"hand": hand(case), "random": random(case)}


POLYNOMIALS = {"hand": affine_too, "random": random(1, 2, 3, 4)}
