"""002, §7.5: the regularity constant α."""

from __future__ import annotations

from typing import Any

import numpy as np

from isometer_papers.claims._claim import Instance
from isometer_papers.claims._families import cases
from isometer_papers.claims._precise import mpmath
from isometer_papers.claims._statements import asymptotic, at_most, below, deterministic
from isometer_papers.claims.daneshmand2020.instances import equal_spectra, search_unit, spectra
from isometer_papers.claims.daneshmand2020.invariance import unique_law, weak_chains, why_not_unique
from isometer_papers.claims.daneshmand2020.stationary import UNIT
from isometer_papers.float_or_mpmath import Numeric
from isometer_papers.theory.rank.bounds import (
    power_sums,
    second_moments,
    spectral_regularity,
    spiked_regularity_bound,
)

_singles = cases(*({"n": 1, "d": d, "gamma": 1.0, "F": "identity"} for d in range(2, 7)))


def _single_regularity(i: Instance) -> Numeric:
    """α of the only invariant law for one sample: all states are sign vectors, M = ssᵀ."""
    s = mpmath().mpf(1) * np.ones((1, i["d"]), dtype=int)
    sums = power_sums(second_moments(s))
    return sums.diagonal / sums.cube


def _unequal(i: Instance) -> bool:
    values = i["spectrum"][i["spectrum"] > 0]
    return bool(values.max() > 1.05 * values.min())


def _spectral_cauchy(i: Instance) -> Numeric:
    return (i["spectrum"] ** 2).sum() ** 2


def _spectral_cauchy_bound(i: Instance) -> Numeric:
    return i["spectrum"].sum() * (i["spectrum"] ** 3).sum()


def _levels(i: Instance) -> Numeric:
    """α for d = 2^k: one eigenvalue d^β, `count` equal ones that take the rest of the trace, zeros."""
    number = mpmath().mpf
    d, beta = number(2) ** i["log2_width"], number(i["beta"])
    first = d**beta
    count = d - 1 if i["rest"] == "flat" else mpmath().floor((d - first) * i["log2_width"] / first)
    level = (d - first) / count
    values = np.array([first, level, number(0)], dtype=object)
    return spectral_regularity(values, np.array([number(1), count, d - 1 - count], dtype=object))


def _spikes(rest: str, least: float, most: float) -> Any:
    return cases(
        *(
            {"beta": round(float(beta), 3), "log2_width": power, "rest": rest}
            for power in (100, 200, 400)
            for beta in np.linspace(least, most, 5)
        )
    )


CLAIMS = (
    asymptotic(
        "002/lem-15",
        below(_single_regularity, 1),
        {"one sample": _singles, "linear": weak_chains(("identity",))},
        hypotheses=unique_law,
        witness=why_not_unique,
    ),
    deterministic(
        "002/lem-15#corrected",
        at_most(
            lambda i: power_sums(second_moments(i["H"])).diagonal, lambda i: power_sums(second_moments(i["H"])).cube
        ),
        UNIT,
        search=search_unit(3, 3),
    ),
    deterministic(
        "002/ex-16", below(lambda i: spectral_regularity(i["spectrum"]), 1), {"random": spectra}, hypotheses=_unequal
    ),
    deterministic(
        "002/ex-16:cauchy",
        at_most(_spectral_cauchy, _spectral_cauchy_bound),
        {"random": spectra, "equal": equal_spectra},
    ),
    asymptotic(
        "002/ex-17",
        below(_levels, lambda i: mpmath().mpf(9) / 10),
        {"plateau": _spikes("plateau", 0.1, 0.9), "flat": _spikes("flat", 0.1, 0.9)},
    ),
    asymptotic(
        "002/ex-17#corrected",
        at_most(
            _levels, lambda i: spiked_regularity_bound(mpmath().mpf(2) ** i["log2_width"], mpmath().mpf(i["beta"]))
        ),
        {"flat": _spikes("flat", 0.5, 0.95)},
    ),
)
