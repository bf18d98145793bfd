"""001, Lemma C.9 with its proof: what one layer takes off the gap, near isometry and far from it."""

from __future__ import annotations

from typing import Any

from isometer_papers.claims._claim import Instance
from isometer_papers.claims._families import cases
from isometer_papers.claims._statements import above, at_least, at_most, deterministic, equal, vanishes
from isometer_papers.claims.joudaki2024.isometry.decay import deviation, gap, implied, one_step, size
from isometer_papers.claims.joudaki2024.isometry.instances import (
    NEAR,
    SPECTRA,
    excess,
    grid,
    is_far,
    is_near,
    search_spectrum,
)
from isometer_papers.float_or_mpmath import Numeric, log
from isometer_papers.theory.isometry import (
    deviation_root,
    deviation_root_as_printed,
    deviation_terms,
    eigenvalue_variance,
    log_lower,
    log_upper,
    log_upper_as_printed,
)


def _variance(i: Instance) -> Numeric:
    return eigenvalue_variance(i["spectrum"])


def _small_deviation(i: Instance) -> bool:
    return bool(deviation(i) <= 0.5)


def _small_variance(threshold: float) -> Any:
    return lambda i: bool(threshold * size(i) * _variance(i) <= 1)


_signs = cases({"c": 1.0, "sign": 1}, {"c": 1.0, "sign": -1})


def _residual(root: Numeric) -> Numeric:
    return 3 * root**2 - (6 + 4 * root) / 16


CLAIMS = (
    one_step(
        "lem-C.9:eq-C.49",
        lambda i: -gap(i) / (2 * size(i) ** 2),
        families=NEAR,
        hypotheses=is_near,
        search=search_spectrum(3, 1 / 48),
    ),
    one_step("lem-C.9:eq-C.50", lambda i: -1 / (32 * size(i) ** 3), families=SPECTRA, hypotheses=is_far),
    deterministic(
        "001/lem-C.9:log-lower",
        at_least(lambda i: log(1 + i["x"]), lambda i: log_lower(i["x"])),
        {"line": grid("x", -0.5, 0.5, 0.0)},
        scale=1,
    ),
    implied("lem-C.9:eq-C.53", at_most(gap, _variance), hypotheses=_small_deviation, scale=1),
    implied(
        "lem-C.9:eq-C.54",
        at_most(lambda i: deviation_terms(i["spectrum"]).sum(), lambda i: size(i) * gap(i)),
        tolerance=1e-8,
    ),
    deterministic(
        "001/lem-C.9:log-upper",
        at_most(lambda i: log(1 + i["x"]), lambda i: log_upper_as_printed(i["x"])),
        {"line": grid("x", -0.99, 20.0, 0.0)},
    ),
    deterministic(
        "001/lem-C.9:log-upper#corrected",
        at_most(lambda i: log(1 + i["x"]), lambda i: log_upper(i["x"])),
        {"line": grid("x", -0.99, 20.0, 0.0)},
        scale=1,
    ),
    implied(
        "lem-C.9:eq-C.55",
        at_most(lambda i: max(deviation_terms(i["spectrum"])), lambda i: size(i) * gap(i)),
        tolerance=1e-8,
    ),
    deterministic(
        "001/lem-C.9:roots",
        equal(lambda i: deviation_root_as_printed(i["sign"]), lambda i: deviation_root(i["c"], i["sign"])),
        {"signs": _signs},
    ),
    deterministic(
        "001/lem-C.9:roots#corrected",
        vanishes(lambda i: _residual((1 + i["sign"] * (73 * i["c"]) ** 0.5) / 24)),
        {"signs": _signs},
    ),
    implied(
        "lem-C.9:upper-deviation",
        at_most(lambda i: max(excess(i)), lambda i: deviation_root_as_printed(1)),
        families=NEAR,
        hypotheses=is_near,
        search=search_spectrum(4, 1 / 64),
    ),
    implied(
        "lem-C.9:upper-digits",
        at_most(lambda i: max(excess(i)), 0.4),
        families=NEAR,
        hypotheses=is_near,
        search=search_spectrum(4, 1 / 64),
    ),
    implied(
        "lem-C.9:lower-deviation",
        at_most(lambda i: -min(excess(i)), lambda i: -deviation_root_as_printed(-1)),
        families=NEAR,
        hypotheses=is_near,
        search=search_spectrum(4, 1 / 64),
    ),
    deterministic(
        "001/lem-C.9:lower-digits",
        at_most(lambda i: abs(deviation_root_as_printed(i["sign"]) + 0.35), 0.01),
        {"sign": cases({"sign": -1})},
    ),
    implied(
        "lem-C.9:lower-digits#corrected",
        at_most(lambda i: -min(excess(i)), 0.32),
        families=NEAR,
        hypotheses=is_near,
        search=search_spectrum(4, 1 / 64),
    ),
    implied(
        "lem-C.9:eq-C.56-deviation",
        at_most(deviation, 0.5),
        families=NEAR,
        hypotheses=is_near,
        search=search_spectrum(4, 1 / 64),
    ),
    implied(
        "lem-C.9:eq-C.56-variance",
        at_most(gap, _variance),
        families=NEAR,
        hypotheses=is_near,
        search=search_spectrum(4, 1 / 64),
        scale=1,
    ),
    implied("lem-C.9:eq-C.57", at_most(deviation, lambda i: (size(i) * _variance(i)) ** 0.5)),
    implied("lem-C.9:eq-C.58-deviation", at_most(deviation, 0.5), hypotheses=_small_variance(4)),
    implied("lem-C.9:eq-C.58-gap", at_most(gap, _variance), hypotheses=_small_variance(4), scale=1),
    implied("lem-C.9:eq-C.59", at_most(lambda i: size(i) * gap(i), lambda i: 1 / 16), hypotheses=_small_variance(16)),
    deterministic(
        "001/lem-C.9:eq-C.60",
        above(lambda i: size(i) * _variance(i), lambda i: 1 / 16),
        SPECTRA,
        hypotheses=is_far,
        search=search_spectrum(3),
    ),
)
