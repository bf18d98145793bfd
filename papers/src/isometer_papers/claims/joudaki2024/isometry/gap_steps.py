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
from isometer_papers.float_or_mpmath import log
from isometer_papers.theory.isometry import (
    deviation_root,
    deviation_root_as_printed,
    deviation_terms,
    eigenvalue_variance,
    log_lower,
    log_upper,
    log_upper_as_printed,
)


def _variance(i: Instance) -> Any:
    return eigenvalue_variance(i["spectrum"])


def _small_deviation(i: Instance) -> bool:
    return bool(deviation(i) <= 0.5)


def _small_variance(threshold: float) -> Any:
    return lambda i: bool(threshold * size(i) * _variance(i) <= 1)


_signs = cases({"c": 1.0, "sign": 1}, {"c": 1.0, "sign": -1})


def _residual(root: Any) -> Any:
    return 3 * root**2 - (6 + 4 * root) / 16


_EXACT_RATE = "near isometry the exact factor is d/(d+2)"


CLAIMS = (
    one_step(
        "lem-C.9:eq-C.49",
        "Lemma C.9, eq. C.49",
        "ψ(X^ℓ) ≤ 1/(16d) ⇒ E ψ(X^{ℓ+1}) ≤ ψ(X^ℓ)(1 − 1/(2d²))",
        lambda i: -gap(i) / (2 * size(i) ** 2),
        families=NEAR,
        hypotheses=is_near,
        search=search_spectrum(3, 1 / 48),
        remark=_EXACT_RATE,
    ),
    one_step(
        "lem-C.9:eq-C.50",
        "Lemma C.9, eq. C.50",
        "ψ(X^ℓ) > 1/(16d) ⇒ E ψ(X^{ℓ+1}) ≤ ψ(X^ℓ) − 1/(32d³)",
        lambda i: -1 / (32 * size(i) ** 3),
        families=SPECTRA,
        hypotheses=is_far,
        remark="the exact fall was at least 4 times this at d = 2, 27 times at d = 8",
    ),
    deterministic(
        "001/lem-C.9:log-lower",
        "above eq. C.51",
        "log(1 + x) ≥ x − x² for |x| ≤ ½",
        at_least(lambda i: log(1 + i["x"]), lambda i: log_lower(i["x"])),
        {"line": grid("x", -0.5, 0.5, 0.0)},
        scale=1,
    ),
    implied(
        "lem-C.9:eq-C.53",
        "eq. C.52, C.53",
        "max|ε_k| ≤ ½ ⇒ ψ(X) ≤ σ_λ(X)",
        at_most(gap, _variance),
        hypotheses=_small_deviation,
        scale=1,
        remark="σ_λ/2 to leading order",
    ),
    implied(
        "lem-C.9:eq-C.54",
        "eq. C.54",
        "Σ 3ε_i²/(6 + 4ε_i) ≤ dψ(X)",
        at_most(lambda i: deviation_terms(i["spectrum"]).sum(), lambda i: size(i) * gap(i)),
        tolerance=1e-8,
    ),
    deterministic(
        "001/lem-C.9:log-upper",
        "under eq. C.54",
        "log(1 + x) ≤ x − (6 + x)/(6 + 4x) for x ≥ −1",
        at_most(lambda i: log(1 + i["x"]), lambda i: log_upper_as_printed(i["x"])),
        {"line": grid("x", -0.99, 20.0, 0.0)},
        corrected="001/lem-C.9:log-upper#corrected",
        remark="at x = 0 it says 0 ≤ −1",
    ),
    deterministic(
        "001/lem-C.9:log-upper#corrected",
        "under eq. C.54",
        "log(1 + x) ≤ x(6 + x)/(6 + 4x) = x − 3x²/(6 + 4x) for x > −1",
        at_most(lambda i: log(1 + i["x"]), lambda i: log_upper(i["x"])),
        {"line": grid("x", -0.99, 20.0, 0.0)},
        scale=1,
    ),
    implied(
        "lem-C.9:eq-C.55",
        "eq. C.55",
        "3ε_i²/(6 + 4ε_i) ≤ dψ(X) for all i",
        at_most(lambda i: max(deviation_terms(i["spectrum"])), lambda i: size(i) * gap(i)),
        tolerance=1e-8,
    ),
    deterministic(
        "001/lem-C.9:roots",
        "under eq. C.55",
        "3ε² − (6 + 4ε)/16 has the roots (1 ± √74)/24",
        equal(lambda i: deviation_root_as_printed(i["sign"]), lambda i: deviation_root(i["c"], i["sign"])),
        {"signs": _signs},
        corrected="001/lem-C.9:roots#corrected",
        remark="48ε² − 4ε − 6 has the discriminant 16 + 1152 = 16 · 73; the interval that is printed is wider and true",
    ),
    deterministic(
        "001/lem-C.9:roots#corrected",
        "under eq. C.55",
        "3ε² − (6 + 4ε)/16 has the roots (1 ± √73)/24",
        vanishes(lambda i: _residual((1 + i["sign"] * (73 * i["c"]) ** 0.5) / 24)),
        {"signs": _signs},
    ),
    implied(
        "lem-C.9:upper-deviation",
        "under eq. C.55",
        "ψ(X) ≤ 1/(16d) ⇒ ε_i ≤ (1 + √74)/24",
        at_most(lambda i: max(excess(i)), lambda i: deviation_root_as_printed(1)),
        families=NEAR,
        hypotheses=is_near,
        search=search_spectrum(4, 1 / 64),
    ),
    implied(
        "lem-C.9:upper-digits",
        "under eq. C.55",
        "ψ(X) ≤ 1/(16d) ⇒ ε_i ≤ 0.4",
        at_most(lambda i: max(excess(i)), 0.4),
        families=NEAR,
        hypotheses=is_near,
        search=search_spectrum(4, 1 / 64),
    ),
    implied(
        "lem-C.9:lower-deviation",
        "under eq. C.55",
        "ψ(X) ≤ 1/(16d) ⇒ ε_i ≥ (1 − √74)/24",
        at_most(lambda i: -min(excess(i)), lambda i: -deviation_root_as_printed(-1)),
        families=NEAR,
        hypotheses=is_near,
        search=search_spectrum(4, 1 / 64),
    ),
    implied(
        "lem-C.9:lower-digits",
        "under eq. C.55",
        "ψ(X) ≤ 1/(16d) ⇒ ε_i ≥ −0.35",
        at_most(lambda i: -min(excess(i)), 0.35),
        families=NEAR,
        hypotheses=is_near,
        search=search_spectrum(4, 1 / 64),
    ),
    implied(
        "lem-C.9:eq-C.56-deviation",
        "eq. C.56",
        "ψ(X) ≤ 1/(16d) ⇒ max|ε_i| ≤ ½",
        at_most(deviation, 0.5),
        families=NEAR,
        hypotheses=is_near,
        search=search_spectrum(4, 1 / 64),
    ),
    implied(
        "lem-C.9:eq-C.56-variance",
        "eq. C.56",
        "ψ(X) ≤ 1/(16d) ⇒ ψ(X) ≤ σ_λ(X)",
        at_most(gap, _variance),
        families=NEAR,
        hypotheses=is_near,
        search=search_spectrum(4, 1 / 64),
        scale=1,
    ),
    implied(
        "lem-C.9:eq-C.57",
        "eq. C.57",
        "max|ε_k| ≤ √(dσ_λ(X))",
        at_most(deviation, lambda i: (size(i) * _variance(i)) ** 0.5),
    ),
    implied(
        "lem-C.9:eq-C.58-deviation",
        "eq. C.58",
        "σ_λ(X) ≤ 1/(4d) ⇒ max|ε_i| ≤ ½",
        at_most(deviation, 0.5),
        hypotheses=_small_variance(4),
    ),
    implied(
        "lem-C.9:eq-C.58-gap",
        "eq. C.58",
        "σ_λ(X) ≤ 1/(4d) ⇒ ψ(X) ≤ σ_λ(X)",
        at_most(gap, _variance),
        hypotheses=_small_variance(4),
        scale=1,
    ),
    implied(
        "lem-C.9:eq-C.59",
        "eq. C.59",
        "σ_λ(X) ≤ 1/(16d) ⇒ ψ(X) ≤ 1/(16d)",
        at_most(lambda i: size(i) * gap(i), lambda i: 1 / 16),
        hypotheses=_small_variance(16),
        scope="both sides times d",
    ),
    deterministic(
        "001/lem-C.9:eq-C.60",
        "eq. C.60",
        "ψ(X) > 1/(16d) ⇒ σ_λ(X) > 1/(16d)",
        above(lambda i: size(i) * _variance(i), lambda i: 1 / 16),
        SPECTRA,
        hypotheses=is_far,
        search=search_spectrum(3),
        scope="both sides times d",
    ),
)
