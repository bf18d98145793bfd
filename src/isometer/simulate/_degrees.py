"""How steps scale with their input, which tells whether a layer can be computed with its scale apart.

A layer f is of degree k if `f(c x) = c^k f(x)` for every c > 0. Layers of degree 1 and 0 are computed with the scale of
their input taken out: then nothing over- or underflows. The derivative by weights inside has the degree k too, that by
the input k − 1.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import lru_cache

from isometer.spec import Act, Attention, Bias, Embedding, Join, Noise, Norm, Positions, Residual, Step
from isometer.spec._activation import positively_homogeneous, resolved

Degree = int | None
"""0 or 1; None where no degree fits."""


def degree_after(steps: Sequence[Step], degree: Degree) -> Degree:
    """The degree of what executed steps make of a value of some degree.

    Example:
        >>> from isometer.spec import Dense
        >>> degree_after((Dense(), Act("relu")), 1), degree_after((Dense(), Norm(), Act("tanh")), 1)
        (1, 0)
        >>> degree_after((Dense(), Act("tanh")), 1) is None
        True
    """
    for step in steps:
        if degree is None:
            return None
        degree = _after(step, degree)
    return degree


def _after(step: Step, degree: int) -> Degree:
    match step:
        case Residual():
            branch = degree_after(step.branch, degree)
            alone = isinstance(step.scale, float) and math.isinf(step.scale)
            return branch if alone or branch == degree else None
        case Join():
            found = [degree_after(branch, degree) for branch in step.branches]
            numbers = [one for one in found if one is not None]
            if len(numbers) < len(found):
                return None
            if step.by == "product":
                return sum(numbers) if sum(numbers) <= 1 else None
            return numbers[0] if len(set(numbers)) == 1 else None
        case _ if degree == 0:
            return 0  # what does not depend on the scale goes on so
        case Norm():
            if step.eps > 0 or (not step.rescale and step.shift != 0):
                return None
            return 0 if step.rescale else 1
        case Act():
            return 1 if _homogeneous(step.activation) else None
        case Bias() | Noise():
            return None if step.variance > 0 else 1
        case Attention():
            return 1 if step.qk_norm else None
        case Embedding() | Positions():
            return None
        case _:
            return 1


@lru_cache(maxsize=256)
def _homogeneous(activation: str) -> bool:
    return positively_homogeneous(resolved(activation))
