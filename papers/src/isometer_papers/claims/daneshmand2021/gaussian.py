"""003, §4 and Appendix D, thesis 2.3: orthogonal representations make the next linear layer Gaussian."""

from __future__ import annotations

from itertools import islice
from typing import Any

import numpy as np

from isometer_papers.claims._claim import Claim, Instance
from isometer_papers.claims._families import Rng
from isometer_papers.claims._statements import at_most, equal, vanishes
from isometer_papers.claims.daneshmand2021.definitions import WITH_ZEROS
from isometer_papers.claims.daneshmand2021.instances import spectrum_search
from isometer_papers.claims.daneshmand2021.source import Source
from isometer_papers.float_or_mpmath import Numeric
from isometer_papers.theory.orthogonality.bounds import gaussian_distance, spectral_gap, unit_trace


def _quotients(i: Instance) -> Numeric:
    """Σ(σ_i² − 1/n)²/(σ_i + 1/√n)²."""
    values = unit_trace(i["squares"])
    n, one = len(values), values[0] * 0 + 1
    return ((values - one / n) ** 2 / (values**0.5 + one / n**0.5) ** 2).sum()


def _apart(i: Instance) -> bool:
    """Not orthogonal, where both sides are 0."""
    return bool(spectral_gap(i["squares"]) > 1e-3)


def _orthogonal(rng: Rng, count: int) -> Any:
    for n in range(1, min(count, 30) + 1):
        yield {"squares": np.full(n, 1.0)}


def _several_orthogonal(rng: Rng, count: int) -> Any:
    yield from islice(_orthogonal(rng, count + 1), 1, None)


def _entry_variance(i: Instance) -> Numeric:
    """E(W_ℓH_ℓ)_ij², entries of W_ℓ of variance 1/d, d = 2n; ‖H_ℓ‖_F = 1."""
    values = unit_trace(i["squares"])
    return values.sum() / (2 * len(values) ** 2)


def claims(s: Source) -> tuple[Claim, ...]:
    """The claims of a paper."""
    return (
        *s.expectation(
            "gaussian",
            at_most(
                lambda i: gaussian_distance(i["squares"]), lambda i: 2 * len(i["squares"]) * spectral_gap(i["squares"])
            ),
            WITH_ZEROS,
            search=spectrum_search(),
            hypotheses=_apart,
        ),
        *s.deterministic(
            "gaussian:quotients",
            equal(lambda i: gaussian_distance(i["squares"]), _quotients),
            WITH_ZEROS,
            scale=1,
        ),
        *s.deterministic(
            "gaussian:square",
            at_most(
                lambda i: gaussian_distance(i["squares"]), lambda i: len(i["squares"]) * spectral_gap(i["squares"]) ** 2
            ),
            WITH_ZEROS,
            search=spectrum_search(),
            hypotheses=_apart,
        ),
        *s.deterministic(
            "gaussian:last",
            at_most(
                lambda i: len(i["squares"]) * spectral_gap(i["squares"]) ** 2,
                lambda i: 2 * len(i["squares"]) * spectral_gap(i["squares"]),
            ),
            WITH_ZEROS,
            search=spectrum_search(),
            hypotheses=_apart,
        ),
        *s.deterministic(
            "gaussian:orthogonal",
            equal(_entry_variance, 1),
            {"orthogonal": _several_orthogonal},
        ),
        *s.deterministic(
            "gaussian:orthogonal#corrected",
            vanishes(lambda i: gaussian_distance(i["squares"])),
            {"orthogonal": _orthogonal},
        ),
    )
