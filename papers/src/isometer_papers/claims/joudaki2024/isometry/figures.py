"""001, Theorem 6.5 and the figures of linear networks in chapter 6 and Appendix C."""

from __future__ import annotations

import math
from functools import partial
from typing import Any, Unpack

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
from isometer_papers.claims.joudaki2024.isometry.networks import growth, growth_again, measured
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


_TEN = {"d": 10, "depths": [80, 240], "runs": 48}


_FLAT = (_TEN, {"d": 5, "depths": [60, 260], "runs": 64}, {"d": 20, "depths": [120, 200], "runs": 16})


def _log_slope(i: Instance, span: tuple[int, int]) -> Any:
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
    place: str,
    statement: str,
    *given: Instance,
    kind: Kind = "empirical",
    **settings: Unpack[ClaimSettings],
) -> Claim:
    common: ClaimSettings = {"counts": (1, len(given)), "resolution": visible, **settings}
    return stated(kind, f"001/{part}", place, statement, compared, {"networks": cases(*given)}, **common)


GROWTH = Sampled(growth, growth_again, DENSE)
grows = partial(_growing, above(GROWTH, 0), 1.0)  # E log‖∂𝓛/∂W_1‖ grows with depth
_flat = partial(_growing, vanishes(GROWTH), 0.006)  # it does not


CLAIMS = (
    asymptotic(
        "001/eq-6.1-6.2:gap",
        "eq. 6.1",
        "E[isometry gap] = O(e^{−depth/C}): perfectly orthogonal in the limit of infinite depth",
        at_most(Sampled(_last_gap), 1e-6),
        {"chains": chains((2, 0.9, 80), (5, 0.9, 120))},
        counts=(2, 2),
        resolution=0.2,
        scope="E ψ after 80 (d = 2) and 120 (d = 5) layers below 1e-6",
    ),
    expectation(
        "001/eq-6.1-6.2:gradient",
        "eq. 6.2",
        "E log(gradient norm of each layer) = O(width⁵)",
        at_most(Sampled(_largest_gradient), lambda i: float(i["d"]) ** 5),
        {"networks": _BOUNDED},
        counts=(3, 5),
        scope="with the constant 1; a loss of Lipschitz constant 1, d = 5, 10, 20, up to 160 layers",
        remark="measured between −0.2 and 0.2",
    ),
    expectation(
        "001/thm-6.5",
        "Theorem 6.5, eq. 6.10",
        "E log‖∇_{W_ℓ} 𝓛‖ ≤ Cd⁵(ψ(X_0)³ + 1) for all ℓ ≤ L",
        at_most(Sampled(_largest_gradient), lambda i: float(gradient_bound(_mean_start_gap(i), i["d"]))),
        {"networks": _BOUNDED},
        counts=(3, 5),
        scope="C = 1; a loss of Lipschitz constant 1, d = 5, 10, 20, up to 160 layers",
        remark="measured between −0.2 and 0.2",
    ),
    _flat(
        "thm-6.5:depth",
        "under Theorem 6.5",
        "the gradients remain bounded for any depth L",
        *_FLAT,
        kind="asymptotic",
        counts=(2, 3),
        scope="growth of E log‖∇_{W_1}𝓛‖ per layer of depth, up to 200 layers, is 0 within 0.006",
    ),
    expectation(
        "001/thm-C.10",
        "Theorem C.10, eq. C.77",
        "log‖∂𝓛/∂W^ℓ‖ ≲ d⁵(ψ(X_0)³ + 1 − e^{−L/(32d⁴)}) for all ℓ ≤ L",
        at_most(
            Sampled(_largest_gradient), lambda i: float(gradient_bound(_mean_start_gap(i), i["d"], i["depth"], 4.0))
        ),
        {"networks": _BOUNDED},
        counts=(3, 5),
        scope="in expectation, as Theorem 6.5 has it, with the constant 4",
    ),
    grows(
        "claim-6.degen",
        "§6.2.2",
        "gradients explode for degenerate inputs",
        {"d": 10, "depths": [40, 120], "input": "degenerate:2"},
        {"d": 6, "depths": [40, 120], "input": "degenerate:3", "runs": 64},
        counts=(2, 2),
        scope="two different samples of ten, three of six; deeper ones lose the weight gradient to rounding",
    ),
    grows(
        "claim-6.gauss",
        "§6",
        "with Gaussian weights gradients explode exponentially",
        {"d": 64, "n": 8, "depths": [30, 90], "weights": "gaussian"},
        {"d": 16, "depths": [50, 150], "weights": "gaussian", "runs": 64},
        scope="n = 8, d = 64 and n = d = 16",
    ),
    empirical(
        "001/fig-6.1:exponential",
        "Figure 6.1",
        "the gap vanishes at an exponential rate: log ψ falls on a straight line",
        vanishes(Sampled(_bend)),
        {
            "chains": cases(
                {"d": 5, "rho": 0.9, "layers": 120, "early": [30, 75], "late": [75, 120]},
                {"d": 3, "rho": 0.95, "layers": 80, "early": [15, 40], "late": [40, 65]},
            )
        },
        counts=(1, 2),
        resolution=0.15,
        scope="slope of later layers over that of earlier ones, less 1, d = 5 and 3",
        remark="near isometry E ψ falls by d/(d+2) per layer",
    ),
    empirical(
        "001/fig-6.1:width",
        "Figure 6.1",
        "the rate depends on the width: wider networks are slower",
        above(Sampled(_slope_difference), 0),
        {"widths": cases({"widths": [2, 5], "rho": 0.9, "layers": 80, "span": [5, 20]})},
        counts=(1, 1),
        resolution=1.0,
        scope="slopes of log ψ at d = 5 and 2",
    ),
    grows(
        "fig-6.2:degenerate",
        "Figure 6.2",
        "gradients explode for degenerate inputs (repeated samples)",
        {"d": 10, "depths": [40, 120], "input": "degenerate:5"},
        {"d": 20, "depths": [40, 120], "input": "degenerate:10", "runs": 16},
        scope="Gaussian samples, half of them repetitions, n = d = 10, 20",
    ),
    _flat(
        "fig-6.2:regular",
        "Figure 6.2",
        "there is no explosion for inputs that are not degenerate",
        _TEN,
        scope="Gaussian samples, n = d = 10; growth per layer is 0 within 0.006",
    ),
    _flat(
        "fig-6.3:orthogonal",
        "Figure 6.3",
        "with orthogonal weights gradients remain bounded",
        {"d": 32, "depths": [60, 140], "runs": 16},
        scope="Gaussian samples, n = d = 32; growth per layer is 0 within 0.006",
    ),
    grows(
        "fig-6.3:gaussian",
        "Figure 6.3",
        "with Gaussian weights the gradient norm grows exponentially",
        {"d": 16, "depths": [50, 150], "weights": "gaussian", "runs": 64},
        scope="Gaussian samples, n = d = 16",
    ),
    _flat(
        "fig-C.10:simplified",
        "Figure C.10",
        "with batch norm without mean subtraction gradients remain bounded in depth, identity activation",
        _TEN,
        {"d": 5, "depths": [60, 260], "runs": 64},
        scope="n = d = 10 and 5",
    ),
    _flat(
        "fig-C.10:standard",
        "§C.7, Figure C.10",
        "with standard batch norm gradients remain bounded in depth, identity activation, n = d",
        {"d": 10, "depths": [100, 400], "norm": "batch", "runs": 40},
        corrected="001/fig-C.10:standard#corrected",
        scope="n = d = 10, 100 to 400 layers",
        remark="centring leaves n − 1 dimensions for d = n features: a degenerate batch. "
        "The rate falls with d, 0.0024 at d = 20, and is too small to be seen in 1000 layers of d = 100",
    ),
    _flat(
        "fig-C.10:standard#corrected",
        "§C.7, Figure C.10",
        "with standard batch norm gradients remain bounded in depth, identity activation, n = d + 1",
        {"d": 10, "n": 11, "depths": [100, 400], "norm": "batch", "runs": 40},
        scope="d = 10, n = 11, 100 to 400 layers",
        remark="centring leaves n − 1 = d dimensions, and the theory for n = d applies",
    ),
)
