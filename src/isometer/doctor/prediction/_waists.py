"""Which steps of a trace everything after them depends on through them alone.

A step u dominates v if every way from the input to v goes through u. The nearest such step is where the ways that meet
in v part: of an addition, the step that branch and skip both read. The steps that dominate the end of a model are its
waists; between two of them is one step, or one join of branches.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from isometer.doctor.probe._trace import TraceStep

_QUERY_KEY_VALUE = frozenset({"scaled_dot_product_attention", "multi_head_attention_forward"})


@dataclass(frozen=True, eq=False)
class Routes:
    """Of each step of a trace what it reads on the way from the input, and where its ways part.

    Attributes:
        reads: steps that come from the input, in the order of arguments.
        fixed: steps that do not, likewise.
        parting: the nearest step that dominates it; −1 if there is none.
        depth: layers of weights on the longest way to it.
    """

    reads: tuple[tuple[int, ...], ...]
    fixed: tuple[tuple[int, ...], ...]
    parting: tuple[int, ...]
    depth: tuple[int, ...]

    def inside(self, start: int, end: int) -> set[int]:
        """The steps on the ways from a dominating step to another, without the first."""
        found: set[int] = set()
        open_ = [end]
        while open_:
            node = open_.pop()
            if node != start and node not in found:
                found.add(node)
                open_.extend(self.reads[node])
        return found


def ways(trace: Sequence[TraceStep]) -> Routes:
    """Follow what each step reads.

    Example:
        >>> steps = [TraceStep("input", "input"), TraceStep("linear", "weight", (0,)), TraceStep("add", "add", (1, 0))]
        >>> found = ways(steps)
        >>> found.parting, found.depth
        ((-1, 0, 0), (0, 1, 1))
    """
    live: list[bool] = []
    reads: list[tuple[int, ...]] = []
    fixed: list[tuple[int, ...]] = []
    parting: list[int] = []
    rank: list[int] = []  # distance from the root of the tree of dominators
    depth: list[int] = []
    for step in trace:
        inputs = step.inputs[:3] if step.name in _QUERY_KEY_VALUE else step.inputs  # masks are no signal
        own = tuple(one for one in inputs if live[one])
        reads.append(own)
        fixed.append(tuple(one for one in inputs if not live[one]))
        live.append(step.kind == "input" or bool(own))
        nearest = own[0] if own else -1
        for other in own[1:]:
            nearest = _common(nearest, other, parting, rank)
        parting.append(nearest)
        rank.append(0 if nearest < 0 else rank[nearest] + 1)
        depth.append(max((depth[one] for one in own), default=0) + (step.kind == "weight"))
    return Routes(tuple(reads), tuple(fixed), tuple(parting), tuple(depth))


def _common(one: int, two: int, parting: Sequence[int], rank: Sequence[int]) -> int:
    while one != two:
        if one < 0 or two < 0:
            return -1
        if rank[one] >= rank[two]:
            one = parting[one]
        else:
            two = parting[two]
    return one
