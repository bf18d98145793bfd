"""000: what its figures show, where no training is needed."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from isometer_papers.claims._claim import Claim, Estimate, Instance
from isometer_papers.claims._families import Rng, cases
from isometer_papers.claims._statements import Sampled, above, below, empirical
from isometer_papers.claims.nachum2024.chains import mean_angle, mostly_quiet, odd_value, stable_ranks, widely_active

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


def _increase(i: Instance, rng: Rng) -> Estimate:
    return Estimate.of(mean_angle(i, "BN") - mean_angle(i, "RS"))


def _rank_ratio(i: Instance, rng: Rng) -> Estimate:
    return Estimate.of(np.log(stable_ranks(i, "BN") / stable_ranks(i, "none")))


def _angles(identifier: str, norm: str, degrees: float, statement: str) -> Claim:
    return empirical(
        identifier,
        "Figure 5",
        statement,
        below(Sampled(_away(norm, degrees)), 5.0),
        {"layer 30": LAYER_30},
        counts=(2, 3),
        resolution=0.9,
        scope="mean angle within 5° of it; Gaussian inputs, n = 20, 50, 100, width 200 and 300",
        remark="RS alone by the root mean square" if norm == "RS" else "infinite width: 71° to 73° for n ≥ 20",
    )


CLAIMS = (
    empirical(
        "000/fig-2:rank-bn",
        "Figure 2",
        "the last hidden layer has a higher rank with BN than without (He), at initialisation",
        above(Sampled(_rank_ratio), lambda i: float(np.log(2))),
        {"depth 30": INITIAL},
        counts=(1, 1),
        resolution=1.0,
        scope="log of the ratio of stable ranks, at least a factor of 2; depth 30, width 128, 64 Gaussian inputs",
        remark="accuracies need training",
    ),
    empirical(
        "000/fig-2:rank-he",
        "Figure 2",
        "without BN the representation at initialisation is of low rank, with He's variance too",
        below(Sampled(_mean(stable_ranks, "none")), 2.0),
        {"depth 30": INITIAL},
        counts=(1, 1),
        resolution=0.5,
        scope="stable rank below 2; ReLU is homogeneous, so that the variance changes no rank",
    ),
    empirical(
        "000/fig-3a",
        "Figure 3(a)",
        "in the final layer one point has escaped from a cluster of all others",
        below(Sampled(odd_value("spread")), 0.1),
        {"final": LAST},
        counts=(1, 2),
        resolution=0.9,
        scope="radius of the cluster over the distance of the escaped point, n = 30 and 50, layer 300",
    ),
    empirical(
        "000/fig-3b:escaped",
        "Figure 3(b)",
        "the output angles with the escaped point are about 90°",
        above(Sampled(odd_value("angle_to_rest_min")), 80.0),
        {"final": LAST},
        counts=(1, 2),
        resolution=0.5,
        scope="the least of them above 80°, n = 30 and 50, layer 300",
    ),
    empirical(
        "000/fig-3b:cluster",
        "Figure 3(b)",
        "the output angles among the other points are small",
        below(Sampled(odd_value("angle_within_rest_mean")), 45.0),
        {"final": LAST},
        counts=(1, 2),
        resolution=0.5,
        scope="their mean below 45°, n = 30 and 50, layer 300",
    ),
    _angles("000/fig-5a", "RS", 60.0, "BN without recentring: output angles at layer 30 are approximately 60°"),
    _angles("000/fig-5b", "BN", 75.0, "BN with recentring: output angles at layer 30 are approximately 75°"),
    empirical(
        "000/fig-5b:increase",
        "Figure 5",
        "with recentring the angles increase",
        above(Sampled(_increase), 0.0),
        {"layer 30": LAYER_30},
        counts=(2, 3),
        resolution=1.0,
        scope="difference of the mean angles at layer 30",
    ),
    empirical(
        "000/fig-5b:not-orthogonal",
        "Our Contribution",
        "with the nonlinearity the representation of the hidden layers is not orthogonal",
        below(Sampled(_mean(mean_angle, "BN")), 85.0),
        {"layer 30": LAYER_30},
        counts=(2, 3),
        resolution=0.5,
        scope="mean angle at layer 30 below 85°, with BN",
    ),
    empirical(
        "000/fig-6a",
        "Figure 6(a)",
        "without recentring some neurons respond to a large number of inputs",
        above(Sampled(_mean(widely_active, "RS")), 0.02),
        {"layer 30": LAYER_30},
        counts=(2, 3),
        resolution=1.0,
        scope="share of neurons above a tenth of their largest response on more than 80 % of the batch, at least 2 %",
    ),
    empirical(
        "000/fig-6b:most",
        "Figure 6(b)",
        "with recentring most neurons have a negligible response to most inputs",
        above(Sampled(_mean(mostly_quiet, "BN")), 0.5),
        {"layer 30": LAYER_30},
        counts=(2, 3),
        resolution=0.5,
        scope="share of neurons below a tenth of their largest response on more than half of the batch",
    ),
    empirical(
        "000/fig-6b:none",
        "Figure 6",
        "with recentring almost no neuron responds to a large number of inputs",
        below(Sampled(_mean(widely_active, "BN")), 0.02),
        {"layer 30": LAYER_30},
        counts=(2, 3),
        resolution=1.0,
        scope="share of neurons above a tenth of their largest response on more than 80 % of the batch, below 2 %",
    ),
)
