"""001, §5.4: Theorem 5.8, Remark 5.9 and Corollary 5.10."""

from __future__ import annotations

import numpy as np

from isometer_papers.claims._claim import Instance
from isometer_papers.claims._families import cases
from isometer_papers.claims._statements import above, at_least, at_most, below, deterministic, equal, vanishes
from isometer_papers.claims.joudaki2024.mean_field.kernels import (
    ALL,
    CENTRED,
    VISIBLE,
    affine_too,
    after,
    in_case,
    inner,
    kernel,
    random,
    search,
)
from isometer_papers.claims.joudaki2024.mean_field.rates import (
    away,
    by_centred_rate,
    identities,
    move,
    potential,
    seen,
)
from isometer_papers.float_or_mpmath import Numeric
from isometer_papers.theory.duals.global_convergence import centred_rate_of, potential_of


def _signed_bound(i: Instance) -> Numeric:
    return i["rho"] / (1 - abs(i["rho"])) * centred_rate_of(kernel(i)) ** i["depth"]


# Spectra with κ′(1) = 1, c_0 included.
_flat_slopes = cases(
    *(
        {"weights": np.array(weights, dtype=float), "rho": 0.0, "depth": 1}
        for weights in ([1, 0, 1], [0, 1], [1, 1, 1], [2, 0, 0, 1])
    )
)


# Opposite samples, and spectra that are neither odd nor even, then odd ones.
_opposite = cases(
    *(
        {"weights": np.array(weights, dtype=float), "rho": -1.0, "depth": 1}
        for weights in ([0, 1, 1], [0, 3, 1], [0, 0, 1, 1])
    )
)
_odd_opposite = cases(
    *(
        {"weights": np.array(weights, dtype=float), "rho": -1.0, "depth": 1}
        for weights in ([0, 1, 0, 1], [0, 0, 0, 1], [0, 3, 0, 2], [0, 1, 0, 0, 0, 2], [0, 1])
    )
)


# Spectra with κ′(0) = 1, or close to it.
_unit_slopes = cases(
    *(
        {"weights": np.array(weights, dtype=float), "rho": 0.0, "depth": 1}
        for weights in ([0, 1], [0, 1, 0, 0], [0, 1, 1e-12], [1e-9, 1, 1])
    )
)


def _rest(i: Instance) -> Numeric:
    return sum(kernel(i).coefficients[2:])


CLAIMS = (
    deterministic(
        "001/thm-5.8:rate",
        at_most(potential, by_centred_rate),
        CENTRED,
        hypotheses=seen(by_centred_rate, 1),
        search=search(1),
    ),
    deterministic(
        "001/thm-5.8:strict",
        below(lambda i: centred_rate_of(kernel(i)), 1),
        CENTRED,
        hypotheses=in_case(1),
        search=search(1),
    ),
    deterministic(
        "001/thm-5.8:fixed-points",
        above(move, 0),
        {"linear": affine_too, **CENTRED},
        hypotheses=lambda i: inner(i) and kernel(i).at_zero == 0 and i["rho"] != 0,
    ),
    deterministic(
        "001/thm-5.8:fixed-points#corrected",
        above(move, 0),
        CENTRED,
        hypotheses=lambda i: away(i) and kernel(i).at_zero == 0,
        search=search(1),
    ),
    deterministic(
        "001/thm-5.8:not-attracting",
        at_least(lambda i: kernel(i).slope_at_one, 1),
        {"linear": affine_too, **CENTRED},
        hypotheses=lambda i: bool(kernel(i).at_zero == 0 and i.get("phi") != "sign"),
        search=search(1),
    ),
    deterministic(
        "001/thm-5.8:opposite",
        equal(lambda i: abs(kernel(i)(i["rho"])), 1),
        {"opposite": _opposite, "odd": _odd_opposite},
    ),
    deterministic("001/thm-5.8:opposite#corrected", equal(lambda i: kernel(i)(i["rho"]), -1), {"odd": _odd_opposite}),
    deterministic(
        "001/thm-5.8:covariance",
        at_most(lambda i: abs(kernel(i)(i["rho"])), lambda i: centred_rate_of(kernel(i)) * abs(i["rho"])),
        CENTRED,
        hypotheses=lambda i: in_case(1)(i) and inner(i),
    ),
    deterministic(
        "001/rem-5.9:slope-at-zero",
        at_most(lambda i: kernel(i).slope_at_zero, 1),
        {"linear": affine_too, **ALL},
        search=search(4),
    ),
    deterministic(
        "001/rem-5.9:slope-at-one",
        vanishes(_rest),
        {"flat": _flat_slopes},
        hypotheses=lambda i: bool(kernel(i).slope_at_one == 1),
    ),
    deterministic(
        "001/rem-5.9:slope-at-one#corrected",
        at_most(_rest, lambda i: 1 - kernel(i).slope_at_zero),
        {"slopes": _unit_slopes, "random": random(1, 2, 3, 4)},
        scale=1,
        search=search(1),
    ),
    deterministic(
        "001/cor-5.10:bound",
        at_most(lambda i: abs(after(i)), _signed_bound),
        CENTRED,
        hypotheses=lambda i: in_case(1)(i) and inner(i) and abs(_signed_bound(i)) >= VISIBLE,
    ),
    deterministic(
        "001/cor-5.10:bound#corrected",
        at_most(lambda i: abs(after(i)), by_centred_rate),
        CENTRED,
        hypotheses=seen(by_centred_rate, 1),
        search=search(1),
    ),
    deterministic(
        "001/cor-5.10:step",
        at_most(lambda i: abs(i["rho"]), lambda i: 1 - abs(i["rho"])),
        {"points": identities},
        hypotheses=inner,
    ),
    deterministic(
        "001/cor-5.10:step#corrected",
        at_most(lambda i: abs(i["rho"]), lambda i: potential_of(i["rho"])),
        {"points": identities, "random": random(1)},
        hypotheses=inner,
        search=search(1),
    ),
)
