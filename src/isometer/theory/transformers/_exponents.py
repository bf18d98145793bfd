"""The two exponents of a block: how fast tokens that are nearly alike part or merge, and how gradients grow.

Cowsik et al. 2024 call them the angle and the gradient exponent, and find that training needs both near 0.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from isometer.errors import IsometerError
from isometer.spec import Repeat, Spec
from isometer.spec._program import executed, turns_of, varies
from isometer.theory.transformers._paths import follow, starting_state

_TINY = 1e-9  # a gap that is linear in the map of gaps
_STEADY = 1e-6  # relative change per block below which a state is steady
_MOST = 400  # blocks that are tried
_PROBED = 12  # blocks over which growth is read off


class Exponents(NamedTuple):
    """Exponents per block, in the steady state at great depth.

    Attributes:
        angle: log of the factor by which 1 − cosine of tokens that are nearly alike changes; negative: they merge.
        gradient: log of the factor by which the mean square of gradients grows towards the input.
        token_cosine: cosine of the steady state at great depth.
        rms: root mean square of the steady state.
    """

    angle: float
    gradient: float
    token_cosine: float
    rms: float


def exponents(spec: Spec, *, cosine: float = 0.0) -> Exponents | None:
    """The exponents of the blocks of a transformer with full attention; None if no state of theirs is steady.

    With the norm before the branch, lengths grow without end and nothing grows exponentially: None.

    Args:
        spec: a network whose one repeat are the blocks.
        cosine: cosine of two tokens at the input.

    Example:
        >>> found = exponents(Spec("gpt(width=64, heads=8, tokens=16, norm='post', branch=0.5, causal=False)"))
        >>> found.angle < 0.0, round(found.token_cosine, 6)  # tokens merge
        (True, 1.0)
        >>> exponents(Spec("gpt(width=64, heads=8, tokens=16, causal=False)")) is None
        True
    """
    place = next((at for at, step in enumerate(spec.composition) if isinstance(step, Repeat)), None)
    if place is None:
        raise IsometerError("exponents are those of blocks, but the network repeats none — write repeat(…, times)")
    body = spec.composition[place]
    assert isinstance(body, Repeat)
    _, shape = executed(spec.composition[:place], spec.shape)
    block = next(turns_of(body, shape))
    if any(map(varies, body.body)) or block[1] != shape:
        return None  # blocks differ from each other
    one = np.ones(1)
    start = starting_state(shape, one * (1.0 - cosine), one * (1.0 - cosine), one)
    path = follow([block] * _MOST, start)
    rms, gap = path.rms[:, 0], path.token_gap[:, 0]
    if not math.isfinite(rms[-1]) or abs(math.log(rms[-1] / rms[-2])) > _STEADY or abs(gap[-1] - gap[-2]) > _STEADY:
        return None
    square = one * rms[-1] ** 2
    near = follow([block], starting_state(shape, one * _TINY, one * _TINY, square))
    last = one * min(max(gap[-1], 0.0), 1.0)
    steady = follow([block] * _PROBED, starting_state(shape, last, last, square), backward=True)
    assert steady.log_jacobian is not None
    logs = steady.log_jacobian[:, 0]
    return Exponents(
        math.log(max(near.token_gap[1, 0], 1e-300) / _TINY),
        float(logs[0] - logs[_PROBED // 2]) / (_PROBED // 2),
        float(1.0 - gap[-1]),
        float(rms[-1]),
    )
