"""000: what its figures show, where no training is needed."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from isometer_papers.claims._claim import Claim, Estimate, Instance
from isometer_papers.claims._families import Rng, cases
from isometer_papers.claims._statements import Sampled, above, below, empirical
from isometer_papers.claims.nachum2024.chains import (
    FEATURES,
    mean_angle,
    mostly_quiet,
    odd_value,
    stable_ranks,
    widely_active,
)
from isometer_papers.claims.nachum2024.instances import proportion

LAST = cases({"n": 30, "width": 200, "depth": 300, "runs": 16}, {"n": 50, "width": 300, "depth": 300, "runs": 16})
LAYER_30 = cases(
    {"n": 20, "width": 200, "depth": 30, "runs": 60},
    {"n": 50, "width": 200, "depth": 30, "runs": 40},
    {"n": 100, "width": 300, "depth": 30, "runs": 24},
)
INITIAL = cases({"n": 64, "width": 128, "depth": 30, "runs": 10})


def _mean(measure: Callable[[Instance, str], Any], parts: str) -> Callable[[Instance, Rng], Estimate]:
    return lambda i, rng: Estimate.of(measure(i, parts))


def _away(parts: str, degrees: float) -> Callable[[Instance, Rng], Estimate]:
    """Distance of the mean angle from a value."""

    def estimate(i: Instance, rng: Rng) -> Estimate:
        found = Estimate.of(mean_angle(i, parts))
        return Estimate(abs(found.value - degrees), found.error, found.freedom, found.draws)

    return estimate


def _written_out(degrees: float) -> Callable[[Instance, Rng], Estimate]:
    """The same for Z/σ, σ as in eq. 2, with all weights written out."""

    def estimate(i: Instance, rng: Rng) -> Estimate:
        angles = []
        for _ in range(12):
            h = rng.standard_normal((i["n"], FEATURES))
            for _ in range(i["depth"]):
                z = h @ rng.standard_normal((h.shape[1], i["width"]))
                h = np.maximum(z / z.std(axis=0), 0.0)
            unit = h / np.linalg.norm(h, axis=1, keepdims=True)
            cosines = (unit @ unit.T)[np.triu_indices(i["n"], 1)]
            angles.append(np.degrees(np.arccos(np.clip(cosines, -1.0, 1.0))).mean())
        found = Estimate.of(np.array(angles))
        return Estimate(abs(found.value - degrees), found.error, found.freedom, found.draws)

    return estimate


def _increase(i: Instance, rng: Rng) -> Estimate:
    return Estimate.of(mean_angle(i, "BN") - np.maximum(mean_angle(i, "RS"), mean_angle(i, "deviation")))


def _widely_active_without(i: Instance, rng: Rng) -> Estimate:
    """Without RC, by the root mean square or by the deviation of eq. 2, whichever has fewer such neurons."""
    return Estimate.of(np.minimum(widely_active(i, "RS"), widely_active(i, "deviation")))


def _widely_active_neurons(i: Instance, rng: Rng) -> Estimate:
    """The same share with all neurons of all runs as draws: a mean over runs has no error where all are 0."""
    shares, neurons = widely_active(i, "BN"), i["runs"] * i["width"]
    return proportion(round(float(shares.mean()) * neurons), neurons)


def _rank_ratio(i: Instance, rng: Rng) -> Estimate:
    return Estimate.of(np.log(stable_ranks(i, "BN") / stable_ranks(i, "none")))


def _angles(identifier: str, norm: str, degrees: float) -> Claim:
    near = _away(norm, degrees)
    again = Sampled(near, _written_out(degrees), "networks with all their weights written out")
    return empirical(
        identifier,
        below(again if norm == "deviation" else Sampled(near), 5.0),
        {"layer 30": LAYER_30},
        counts=(2, 3),
        resolution=0.5,
    )


CLAIMS = (
    empirical(
        "000/fig-2:rank-bn",
        above(Sampled(_rank_ratio), lambda i: float(np.log(2))),
        {"depth 30": INITIAL},
        counts=(1, 1),
        resolution=0.2,
    ),
    empirical(
        "000/fig-2:rank-he",
        below(Sampled(_mean(stable_ranks, "none")), 2.0),
        {"depth 30": INITIAL},
        counts=(1, 1),
        resolution=0.5,
    ),
    empirical("000/fig-3a", below(Sampled(odd_value("spread")), 0.1), {"final": LAST}, counts=(1, 2), resolution=0.5),
    empirical(
        "000/fig-3b:escaped",
        above(Sampled(odd_value("angle_to_rest_min")), 80.0),
        {"final": LAST},
        counts=(1, 2),
        resolution=0.5,
    ),
    empirical(
        "000/fig-3b:cluster",
        below(Sampled(odd_value("angle_within_rest_mean")), 45.0),
        {"final": LAST},
        counts=(1, 2),
        resolution=0.5,
    ),
    _angles("000/fig-5a", "deviation", 60.0),
    _angles("000/fig-5a#corrected", "RS", 60.0),
    _angles("000/fig-5b", "BN", 75.0),
    empirical(
        "000/fig-5b:increase", above(Sampled(_increase), 0.0), {"layer 30": LAYER_30}, counts=(2, 3), resolution=0.2
    ),
    empirical(
        "000/fig-5b:not-orthogonal",
        below(Sampled(_mean(mean_angle, "BN")), 85.0),
        {"layer 30": LAYER_30},
        counts=(2, 3),
        resolution=0.5,
    ),
    empirical(
        "000/fig-6a",
        above(Sampled(_widely_active_without), 0.02),
        {"layer 30": LAYER_30},
        counts=(2, 3),
        resolution=0.4,
    ),
    empirical(
        "000/fig-6b:most",
        above(Sampled(_mean(mostly_quiet, "BN")), 0.5),
        {"layer 30": LAYER_30},
        counts=(2, 3),
        resolution=0.5,
    ),
    empirical(
        "000/fig-6b:none",
        below(Sampled(_widely_active_neurons), 0.02),
        {"layer 30": LAYER_30},
        counts=(2, 3),
        resolution=0.5,
    ),
)
