"""001, Lemma C.17: the smallest eigenvalue by the gap."""

from __future__ import annotations

from isometer_papers.claims._claim import Instance
from isometer_papers.claims._statements import at_least, at_most, deterministic, equal
from isometer_papers.claims.joudaki2024.isometry.decay import gap, implied, size
from isometer_papers.claims.joudaki2024.isometry.instances import NEAR, grid, is_near, search_spectrum
from isometer_papers.float_or_mpmath import Numeric, log
from isometer_papers.theory.isometry import (
    eigenvalue_product_bound,
    smallest_eigenvalue_bound,
    smallest_eigenvalue_bound_near,
)


def _least(i: Instance) -> Numeric:
    return min(i["spectrum"])


CLAIMS = (
    implied("lem-C.17:far", at_most(lambda i: -log(_least(i)), lambda i: smallest_eigenvalue_bound(gap(i), size(i)))),
    implied(
        "lem-C.17:near",
        at_most(lambda i: -log(_least(i)), lambda i: smallest_eigenvalue_bound_near(gap(i), size(i))),
        families=NEAR,
        hypotheses=is_near,
        search=search_spectrum(4, 1 / 64),
        scale=1,
    ),
    implied(
        "lem-C.17:eq-C.123",
        equal(
            lambda i: (i["spectrum"].sum() - _least(i)) / (size(i) - 1), lambda i: 1 + (1 - _least(i)) / (size(i) - 1)
        ),
    ),
    implied(
        "lem-C.17:eq-C.124",
        at_most(lambda i: i["spectrum"].prod(), lambda i: eigenvalue_product_bound(_least(i), size(i))),
    ),
    implied(
        "lem-C.17:eq-C.126", at_most(lambda i: -size(i) * gap(i), lambda i: log(_least(i)) + 1 - _least(i)), scale=1
    ),
    deterministic(
        "001/lem-C.17:quadratic",
        at_most(lambda i: log(i["x"]) + 1 - i["x"], lambda i: -((i["x"] - 1) ** 2) / 2),
        {"line": grid("x", 1e-6, 1.0, 0.5)},
        scale=1,
    ),
    implied("lem-C.17:eq-C.127", at_most(lambda i: (1 - _least(i)) ** 2 / 2, lambda i: size(i) * gap(i)), scale=1),
    implied("lem-C.17:eq-C.128", at_least(_least, lambda i: 1 - (2 * size(i) * gap(i)) ** 0.5), scale=1),
    deterministic(
        "001/lem-C.17:root",
        at_most(lambda i: -log(1 - i["x"]), lambda i: (2 * i["x"]) ** 0.5),
        {"line": grid("x", 0.0, 0.5, 0.1)},
        scale=1,
    ),
    deterministic(
        "001/lem-C.17:conclusion",
        at_most(lambda i: (2 * (2 * i["dpsi"]) ** 0.5) ** 0.5, lambda i: 2 * i["dpsi"] ** 0.5),
        {"line": grid("dpsi", 0.0, 1 / 16, 0.01)},
    ),
    deterministic(
        "001/lem-C.17:conclusion#corrected",
        at_most(lambda i: -log(1 - i["x"]), lambda i: 2**0.5 * i["x"]),
        {"line": grid("x", 0.0, 0.5, 0.1)},
        scale=1,
    ),
)
