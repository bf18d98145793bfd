"""A suspicion: a call that is likely a defect, how likely, and what to do about it."""

from __future__ import annotations

from typing import NamedTuple

from isometer.doctor.probe._call_sites import CodeLine

SURE = 3.0
"""The deviation of what is surely wrong."""
VIEWS = frozenset(
    {"view", "reshape", "flatten", "unflatten", "transpose", "permute", "squeeze", "unsqueeze", "contiguous", "clone"}
    | {
        "t",
        "T",
        "mT",
        "H",
        "mH",
        "movedim",
        "view_as",
        "reshape_as",
        "expand",
        "expand_as",
        "broadcast_to",
        "unfold",
        "as_strided",
    }
    | {"to", "float", "double", "half", "bfloat16", "type", "type_as", "cpu", "cuda", "detach", "data", "ravel"}
    | {"as_strided"}
)
"""Functions that hand on entries as they are, all of them."""


class Suspicion(NamedTuple):
    """A call that is likely a defect.

    Attributes:
        module: name of the module that makes it, empty for the model.
        op: name of the function.
        site: its line.
        deviation: how likely it is wrong, as in `Repair`.
        advice: what to do, without the place.
        evidence: what is unusual about it.
        answer: what is done in its place, a name in `ANSWERS`.
        certain: whether the model is known to run without the call.
    """

    module: str
    op: str
    site: CodeLine
    deviation: float
    advice: str
    evidence: str
    answer: str = "input"
    certain: bool = True


def quoted(op: str) -> str:
    """A function as people write it.

    Example:
        >>> quoted("detach"), quoted("data")
        ('`detach()`', '`.data`')
    """
    return f"`.{op}`" if op == "data" else f"`{op}()`"
