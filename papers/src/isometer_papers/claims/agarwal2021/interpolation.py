"""004, §6 and Appendix G: minimum-norm interpolation."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

import numpy as np

from isometer_papers.claims._claim import Instance
from isometer_papers.claims._families import Rng, cases
from isometer_papers.claims._precise import eigenvalues
from isometer_papers.claims._statements import at_most, deterministic, vanishes
from isometer_papers.claims.agarwal2021.instances import correlations
from isometer_papers.float_or_mpmath import Numeric
from isometer_papers.theory.duals.exact_duals import dual_slope, iterated_dual
from isometer_papers.theory.duals.small_interpolation import distinct_probability, interpolant_risk
from isometer_papers.theory.kernel_learning.interpolation import (
    covariance_norm_bound,
    excess_risk_bound,
    interpolation_depth,
)

_FAILURE = 0.45


def _populations(rng: Rng, count: int) -> Iterator[Instance]:
    """Populations with kernels, sample and labels in [−1, 1]."""
    yield {"K": np.eye(2), "means": np.zeros(2), "n": 1, "labels": np.array([1.0])}
    yield {"K": np.eye(3), "means": np.full(3, -0.9), "n": 3, "labels": np.ones(3)}
    for _ in range(count):
        size, n = int(rng.integers(6, 12)), int(rng.integers(1, 4))
        kernel = iterated_dual("relu", correlations(rng.standard_normal((size, 6))), int(rng.integers(6, 20)))
        means = rng.uniform(-1, 1, size) * float(rng.choice([0.0, 0.3, 1.0]))
        labels = np.where(rng.uniform(size=n) < (1 + means[:n]) / 2, 1.0, -1.0)
        yield {"K": kernel, "means": means, "n": n, "labels": labels}


def _found(i: Instance) -> dict[str, Any]:
    return interpolant_risk(i["K"], i["means"], range(i["n"]), i["labels"])


def _covariance(i: Instance) -> Numeric:
    """‖Σ‖."""
    return eigenvalues(i["K"])[-1] / len(i["K"])


def _well(i: Instance) -> bool:
    own = i["K"][: i["n"], : i["n"]]
    return bool(eigenvalues(own)[0] >= 0.5 and eigenvalues(i["K"])[0] > 1e-6)


def _separated(i: Instance) -> bool:
    """K̄ as deep as Theorem 16 has it: off-diagonal entries of the sample at most 1/2n²."""
    own = i["K"][: i["n"], : i["n"]]
    off = abs(own * (1 - np.eye(len(own), dtype=int))).max()
    return bool(_well(i) and off <= 1 / (2 * i["n"] ** 2))


# Orthonormal inputs, equally likely; n² draws are distinct with probability at least 1 − γ.
_pure_noise = cases(
    *(
        {"N": size, "mean": 0.0, "n": n, "labels": np.array([1.0, -1.0, 1.0][:n])}
        for n, size in ((2, 14), (3, 90), (2, 30))
    )
)


def _orthonormal(i: Instance) -> dict[str, Any]:
    """The terms of Lemma 55 for N orthonormal inputs, where E[y|x] is `mean` for the first of them and 0 otherwise."""
    one = i["mean"] * 0 + 1
    means = np.array([i["mean"]] + [one * 0] * (i["N"] - 1))
    return interpolant_risk(np.eye(i["N"], dtype=int) * one, means, range(i["n"]), i["labels"])


def _often_distinct(i: Instance) -> bool:
    return distinct_probability(i["N"], i["n"] ** 2) >= 1 - _FAILURE


def _printed_risk(i: Instance) -> float:
    return 1000 * excess_risk_bound(i["n"], _FAILURE, float(_orthonormal(i)["norm"]))["printed"]


def _proved_risk(i: Instance) -> Numeric:
    """2‖Σ‖‖v*‖² + 8n(1 + ‖v*‖²)‖Σ‖ with ‖Σ‖ ≤ 16 ln n/n²; residuals are at most 2(1 + ‖v*‖²) each."""
    norm, n = _orthonormal(i)["norm"], i["n"]
    return 16 * math.log(n) / n**2 * (2 * norm + 8 * n * (1 + norm))


def _mixed(rng: Rng, count: int) -> Iterator[Instance]:
    yield from _pure_noise(rng, count)
    for _ in range(count):
        n = int(rng.integers(2, 4))
        size = 30 if n == 2 else 90
        yield {"N": size, "mean": float(rng.uniform(-1, 1)), "n": n, "labels": rng.choice([-1.0, 1.0], n)}


def _simplices(rng: Rng, count: int) -> Iterator[Instance]:
    """M equally likely inputs of equal cosine, N draws, and the depth of Lemma 54."""
    for size, draws, rho in ((3, 2, 0.0), (3, 2, 0.5), (60, 8, 0.0), (60, 8, 0.9), (9, 3, 0.9)):
        yield {"M": size, "N": draws, "rho": rho, "dual": "relu"}
    for _ in range(count):
        draws = int(rng.integers(2, 30))
        size = draws**2 + int(rng.integers(1, 20))
        yield {"M": size, "N": draws, "rho": float(rng.uniform(0, 0.99)), "dual": str(rng.choice(["relu", "sin"]))}


def _single(rng: Rng, count: int) -> Iterator[Instance]:
    yield {"M": 2, "N": 1, "rho": 0.0, "dual": "relu"}
    yield from _simplices(rng, count)


def _depth_54(i: Instance) -> int:
    mu = 1 - float(dual_slope(i["dual"], 0.0))
    return interpolation_depth(1, mu, 1 - float(i["rho"])) + math.ceil(math.log(i["N"]) / -math.log1p(-mu / 2))


def _norm_54(i: Instance) -> Numeric:
    """‖Σ‖ = (1 + (M − 1)k)/M, k the kernel of the common cosine."""
    k = iterated_dual(i["dual"], i["rho"], _depth_54(i))
    return (1 + (i["M"] - 1) * k) / i["M"]


def _draws_apart(i: Instance) -> bool:
    return distinct_probability(i["M"], i["N"]) >= 1 - _FAILURE


def _interpolation_gap(i: Instance) -> Numeric:
    from isometer_papers.theory.duals.small_interpolation import solved

    own = i["K"][: i["n"], : i["n"]]
    return abs(own @ solved(own, i["labels"]) - i["labels"]).max()


CLAIMS = (
    deterministic(
        "004/lem-54",
        at_most(_norm_54, lambda i: covariance_norm_bound(i["N"])),
        {"simplices": _single},
        hypotheses=_draws_apart,
        counts=(60, 400),
    ),
    deterministic(
        "004/lem-54#corrected",
        at_most(_norm_54, lambda i: covariance_norm_bound(i["N"])),
        {"simplices": _simplices},
        hypotheses=_draws_apart,
        counts=(60, 400),
    ),
    deterministic(
        "004/lem-55",
        at_most(lambda i: _found(i)["risk"], lambda i: 2 * _found(i)["approximation"] + 2 * _found(i)["noise"]),
        {"random": _populations},
        hypotheses=_well,
        counts=(40, 300),
    ),
    deterministic(
        "004/lem-55:eq-25",
        at_most(lambda i: _found(i)["approximation"], lambda i: _covariance(i) * _found(i)["norm"]),
        {"random": _populations},
        hypotheses=_well,
        counts=(40, 300),
    ),
    deterministic(
        "004/lem-55:eq-26",
        at_most(lambda i: _found(i)["noise"], lambda i: 2 * i["n"] * (1 + _found(i)["norm"]) * _covariance(i)),
        {"random": _populations},
        hypotheses=_separated,
        counts=(60, 400),
    ),
    deterministic(
        "004/lem-55:residual",
        at_most(lambda i: _found(i)["residual"], lambda i: i["n"] * (1 + _found(i)["norm"])),
        {"random": _populations},
        hypotheses=_well,
        counts=(40, 300),
    ),
    deterministic(
        "004/lem-55:residual#corrected",
        at_most(lambda i: _found(i)["residual"], lambda i: 2 * i["n"] * (1 + _found(i)["norm"])),
        {"random": _populations},
        hypotheses=_well,
        counts=(40, 300),
    ),
    deterministic(
        "004/thm-16",
        at_most(lambda i: _orthonormal(i)["risk"], _printed_risk),
        {"noise": _pure_noise},
        hypotheses=_often_distinct,
    ),
    deterministic(
        "004/thm-16#corrected",
        at_most(lambda i: _orthonormal(i)["risk"], _proved_risk),
        {"random": _mixed},
        hypotheses=_often_distinct,
        counts=(20, 100),
    ),
    deterministic(
        "004/def-interp", vanishes(_interpolation_gap), {"random": _populations}, hypotheses=_well, counts=(40, 300)
    ),
)
