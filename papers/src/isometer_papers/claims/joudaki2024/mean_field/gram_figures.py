"""001, §3.4.3: Figures 3.1 to 3.4 and the law they test."""

from __future__ import annotations

import math

from isometer_papers.claims._claim import Estimate, Instance
from isometer_papers.claims._families import Rng
from isometer_papers.claims._fits import exponent
from isometer_papers.claims._statements import Sampled, above, asymptotic, at_most, below, empirical, equal
from isometer_papers.claims.joudaki2024.mean_field.chains import distances_of, fluctuation, mean_field_networks


def _width_exponent(i: Instance, rng: Rng) -> Estimate:
    values = [Estimate.of(distances_of({**i, "width": d})[:, -1]) for d in i["widths"]]
    return exponent(i["widths"], values)


def _batch_exponent(i: Instance, rng: Rng) -> Estimate:
    values = [Estimate.of(distances_of({**i, "n": n})[:, -1]) for n in i["batches"]]
    return exponent(i["batches"], values)


def _rise(i: Instance, rng: Rng) -> Estimate:
    """Mean of ‖G_last − G*‖ − ‖G_first − G*‖."""
    values = distances_of(i)
    return Estimate.of(values[:, -1] - values[:, i["first"]])


def _last(i: Instance, rng: Rng) -> Estimate:
    return Estimate.of(distances_of(i)[:, -1])


WIDTH = mean_field_networks(
    {"phi": "relu", "n": 10, "widths": [50, 200, 800], "depth": 20, "runs": 60},
    {"phi": "tanh", "n": 10, "widths": [50, 200, 800], "depth": 20, "runs": 60},
)


BATCH = mean_field_networks({"phi": "relu", "width": 1000, "batches": [10, 20, 40], "depth": 20, "runs": 30})


CLAIMS = (
    asymptotic("001/eq-3.9", at_most(Sampled(_width_exponent), -0.4), WIDTH, counts=(1, 2), resolution=0.3),
    empirical(
        "001/fig-3.1:without",
        above(Sampled(_rise), 0.0),
        mean_field_networks(
            {"phi": "identity", "n": 5, "width": 1000, "depth": 50, "runs": 60, "bn": False, "first": 5}
        ),
        counts=(1, 1),
        resolution=0.5,
    ),
    empirical(
        "001/fig-3.1:with",
        at_most(Sampled(_last), lambda i: 2 * math.sqrt(fluctuation(i["phi"], i["n"], i["width"]))),
        mean_field_networks({"phi": "relu", "n": 5, "width": 1000, "depth": 50, "runs": 40}),
        counts=(1, 1),
        resolution=0.4,
    ),
    empirical(
        "001/fig-3.2",
        below(Sampled(_rise), 0.0),
        mean_field_networks(
            {"phi": "relu", "n": 10, "width": 1000, "depth": 20, "runs": 30, "start": "twins", "first": 1}
        ),
        counts=(1, 1),
        resolution=0.5,
    ),
    empirical(
        "001/fig-3.3", equal(Sampled(_width_exponent), -0.5), WIDTH, counts=(1, 2), tolerance=0.03, resolution=0.3
    ),
    empirical("001/fig-3.4:increasing", above(Sampled(_batch_exponent), 0.0), BATCH, counts=(1, 1), resolution=0.4),
    empirical("001/fig-3.4:bound", at_most(Sampled(_batch_exponent), 2.0), BATCH, counts=(1, 1), resolution=0.2),
)
