"""Do the checks have teeth? A claim whose bound is tightened past the truth has to be refuted."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from isometer.errors import IsometerError
from isometer_papers.claims._claim import Claim, Estimate, Instance, slack
from isometer_papers.claims._result import Result
from isometer_papers.float_or_mpmath import Numeric


def tightened(claim: Claim, result: Result, *, by: float = 0.02) -> Claim:
    """The claim with its bound moved past the tightest instance seen, by a part of the larger side there.

    Instances, quantity, estimator and certificate are those of the claim; only the bound moves. An equality is moved
    off its value.

    Args:
        claim: that holds.
        result: its check, whose tightest point tells how far to go.
        by: how far past the truth.

    Returns:
        The mutated claim.

    Example:
        >>> from isometer_papers.claims import check, find
        >>> claim = find("002/lem-2")[0]
        >>> check(tightened(claim, check(claim))).verdict
        'refuted'
    """
    if not result.points:
        raise IsometerError(f"{claim.id} has no instances; expected a claim with some — mutations need an instance")
    _, value, bound = result.points[0]
    room = float(slack(claim.relation, value, bound))
    size = max(abs(value), abs(bound)) or 1.0

    def shift(instance: Instance) -> Any:
        if claim.relation == "==":
            step = by * (size if claim.scale is None else claim.scale(instance))
            return -step if value >= bound else step
        step = max(room, 0.0) + by * size
        return -step if claim.relation in ("<", "<=") else step

    exact = claim.exact

    def moved(instance: Instance) -> Any:
        return claim.bound(instance) + shift(instance)

    def moved_exact(instance: Instance) -> tuple[Numeric, Numeric]:
        assert exact is not None
        left, right = exact(instance)
        return left, right + shift(instance)

    def estimated(instance: Instance, rng: np.random.Generator) -> Estimate:
        assert claim.estimate is not None
        return claim.estimate(instance, rng)

    # without a second estimator nothing statistical is ever refuted; fresh draws of the first stand in
    again = claim.again or (estimated if claim.statistical else None)
    return replace(
        claim, bound=moved, exact=None if exact is None else moved_exact, again=again, second=None, trivial=None
    )
