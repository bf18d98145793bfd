"""001, Theorem 6.5 and the figures of linear networks in chapter 6 and Appendix C."""

from __future__ import annotations

import math
from functools import partial
from typing import Unpack

import numpy as np

from isometer_papers.claims._claim import Claim, Estimate, Instance, Kind
from isometer_papers.claims._families import Rng, cases
from isometer_papers.claims._statements import (
    ClaimSettings,
    Comparison,
    Sampled,
    above,
    asymptotic,
    at_most,
    empirical,
    expectation,
    stated,
    vanishes,
)
from isometer_papers.claims.joudaki2024.isometry.draws import chain_of, chains
from isometer_papers.claims.joudaki2024.isometry.networks import (
    excess_again,
    excess_over_power_law,
    growth,
    growth_again,
    measured,
)
from isometer_papers.float_or_mpmath import Numeric
from isometer_papers.theory.isometry import gradient_bound

DENSE = "weights drawn out instead of frames, other weights and inputs"


def _largest_gradient(i: Instance, rng: Rng) -> Estimate:
    """max_ℓ E log‖∂𝓛/∂W_ℓ‖ over the layers."""
    values = measured(i, i["depth"]).gradient[:, 1:]
    return Estimate.of(values[:, int(values.mean(axis=0).argmax())])


def _mean_start_gap(i: Instance) -> float:
    """Least gap of the inputs of all runs."""
    return float(measured(i, i["depth"]).gap[:, 0].min())


_BOUNDED = cases(
    {"d": 5, "depth": 20},
    {"d": 10, "depth": 20},
    {"d": 10, "depth": 160},
    {"d": 5, "depth": 160, "input": "correlated:0.95"},
    {"d": 20, "depth": 100, "runs": 16},
)


_NEARER = cases(
    {"d": 5, "depth": 100, "cosines": ["0.99", "0.9999999999"], "runs": 512},
    {"d": 8, "depth": 140, "cosines": ["0.99", "0.99999999"], "runs": 256},
)


# the same inputs
_NEAR = cases(
    {"d": 5, "depth": 100, "input": "correlated:0.9999999999", "runs": 512},
    {"d": 8, "depth": 140, "input": "correlated:0.99999999", "runs": 256},
)


def _growth_with_gap(i: Instance, rng: Rng, *, engine: str = "auto", shift: int = 0) -> Estimate:
    """Change of E log‖∂𝓛/∂W_1‖ per unit of ψ(X_0), as the cosine of all pairs of inputs comes near 1."""
    found = [
        measured({**i, "input": f"correlated:{cosine}"}, i["depth"], engine=engine, shift=shift)
        for cosine in i["cosines"]
    ]
    a, b = (Estimate.of(one.gradient[:, 1]) for one in found)
    span = float(found[1].gap[:, 0].mean() - found[0].gap[:, 0].mean())
    return Estimate((b.value - a.value) / span, math.hypot(a.error, b.error) / span, a.freedom, a.draws)


def _growth_with_gap_again(i: Instance, rng: Rng) -> Estimate:
    """The same with the weights drawn out (dense engine), other weights and inputs."""
    return _growth_with_gap(i, rng, engine="dense", shift=1)


_GAUSSIAN = {"d": 16, "depth": 320, "distances": [20, 100, 300], "weights": "gaussian", "runs": 448}


_TEN = {"d": 10, "depths": [80, 240], "runs": 48}


_FLAT = (_TEN, {"d": 5, "depths": [60, 260], "runs": 64}, {"d": 20, "depths": [120, 200], "runs": 16})


def _log_slope(i: Instance, span: tuple[int, int]) -> Numeric:
    chain = chain_of(i)
    return (np.log(chain.gap[:, span[1]]) - np.log(chain.gap[:, span[0]])) / (span[1] - span[0])


def _bend(i: Instance, rng: Rng) -> Estimate:
    """Slope of log ψ over the second half, over that of the first, less 1."""
    early, late = (_log_slope(i, span) for span in (i["early"], i["late"]))
    mean = float(early.mean())
    found = Estimate.of((late - early) / mean)
    return Estimate(found.value, found.error, found.freedom, found.draws)


def _slope_difference(i: Instance, rng: Rng) -> Estimate:
    """Slope of log ψ at the larger width less that at the smaller."""
    a, b = (
        Estimate.of(_log_slope({"d": d, "rho": i["rho"], "layers": i["layers"]}, tuple(i["span"]))) for d in i["widths"]
    )
    return Estimate(b.value - a.value, math.hypot(a.error, b.error), a.freedom, a.draws)


def _last_gap(i: Instance, rng: Rng) -> Estimate:
    return Estimate.of(chain_of(i).gap[:, -1])


def _growing(
    compared: Comparison,
    visible: float,
    part: str,
    *given: Instance,
    kind: Kind = "empirical",
    **settings: Unpack[ClaimSettings],
) -> Claim:
    common: ClaimSettings = {"counts": (1, len(given)), "resolution": visible, **settings}
    return stated(kind, f"001/{part}", compared, {"networks": cases(*given)}, **common)


GROWTH = Sampled(growth, growth_again, DENSE)
# exponential growth towards the input: faster than any power of the distance from the output
explodes = partial(_growing, above(Sampled(excess_over_power_law, excess_again, DENSE), 0), 0.5)
_flat = partial(_growing, vanishes(GROWTH), 0.006)  # it does not


CLAIMS = (
    asymptotic(
        "001/eq-6.1-6.2:gap",
        at_most(Sampled(_last_gap), 1e-6),
        {"chains": chains((2, 0.9, 80), (5, 0.9, 120))},
        counts=(2, 2),
        resolution=0.2,
    ),
    expectation(
        "001/eq-6.1-6.2:gradient",
        at_most(Sampled(_growth_with_gap, _growth_with_gap_again, DENSE), 0),
        {"inputs": _NEARER},
        counts=(1, 2),
        resolution=0.5,
    ),
    expectation(
        "001/eq-6.1-6.2:gradient#corrected",
        at_most(Sampled(_largest_gradient), lambda i: float(gradient_bound(_mean_start_gap(i), i["d"]))),
        {"networks": _BOUNDED, "near degenerate": _NEAR},
        counts=(3, 5),
    ),
    expectation(
        "001/thm-6.5",
        at_most(Sampled(_largest_gradient), lambda i: float(gradient_bound(_mean_start_gap(i), i["d"]))),
        {"networks": _BOUNDED},
        counts=(3, 5),
    ),
    _flat("thm-6.5:depth", *_FLAT, kind="asymptotic", counts=(2, 3)),
    expectation(
        "001/thm-C.10#intended",
        at_most(
            Sampled(_largest_gradient), lambda i: float(gradient_bound(_mean_start_gap(i), i["d"], i["depth"], 4.0))
        ),
        {"networks": _BOUNDED},
        counts=(3, 5),
    ),
    explodes(
        "claim-6.degen",
        {"d": 10, "depth": 120, "distances": [10, 40, 110], "input": "degenerate:2", "runs": 64},
        {"d": 6, "depth": 120, "distances": [10, 40, 110], "input": "degenerate:3", "runs": 512},
        counts=(2, 2),
    ),
    explodes(
        "claim-6.gauss", {"d": 64, "n": 8, "depth": 100, "distances": [10, 30, 90], "weights": "gaussian"}, _GAUSSIAN
    ),
    empirical(
        "001/fig-6.1:exponential",
        vanishes(Sampled(_bend)),
        {
            "chains": cases(
                {"d": 5, "rho": 0.9, "layers": 120, "early": [30, 75], "late": [75, 120]},
                {"d": 3, "rho": 0.95, "layers": 80, "early": [15, 40], "late": [40, 65]},
            )
        },
        counts=(1, 2),
        resolution=0.15,
    ),
    empirical(
        "001/fig-6.1:width",
        above(Sampled(_slope_difference), 0),
        {"widths": cases({"widths": [2, 5], "rho": 0.9, "layers": 80, "span": [5, 20]})},
        counts=(1, 1),
        resolution=0.5,
    ),
    explodes(
        "fig-6.2:degenerate",
        {"d": 10, "depth": 120, "distances": [10, 40, 110], "input": "degenerate:5", "runs": 96},
        {"d": 20, "depth": 120, "distances": [10, 40, 110], "input": "degenerate:10", "runs": 48},
    ),
    _flat("fig-6.2:regular", _TEN),
    _flat("fig-6.3:orthogonal", {"d": 32, "depths": [60, 140], "runs": 16}),
    explodes("fig-6.3:gaussian", _GAUSSIAN),
    _flat("fig-C.10:simplified", _TEN, {"d": 5, "depths": [60, 260], "runs": 64}),
    _flat("fig-C.10:standard", {"d": 10, "depths": [100, 400], "norm": "batch", "runs": 40}),
    _flat("fig-C.10:standard#corrected", {"d": 10, "n": 11, "depths": [100, 400], "norm": "batch", "runs": 40}),
)
