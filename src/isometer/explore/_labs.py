"""Which labs there are. Labs of other distributions join through the entry points of the group `isometer.labs`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cache
from importlib.metadata import entry_points
from typing import Any, ClassVar

from isometer.explore._state import ActivationState, ClinicState, DepthState, Reader, StartState, State
from isometer.explore._transformer_state import TransformerState

GROUP = "isometer.labs"


@dataclass(frozen=True)
class Lab:
    """A lab of the explorer. Its page is imported when the page is made: processes that compute do without Dash.

    Attributes:
        name: in addresses.
        title: for people.
        state: what of it is in the address.
        page: module with `PARTS` (which values each part depends on), `layout(state)` and
            `register(app, desk, gallery)`.
        jobs: what it has computed, besides the explorer's own: name → module, function, packages loaded before.
        about: what it is for, in a sentence.

    Example:
        >>> all_labs()["depth"].title
        'Depth'
    """

    name: str
    title: str
    state: type[State]
    page: str
    jobs: Mapping[str, tuple[str, str, tuple[str, ...]]] = field(default_factory=dict)
    about: str = ""


@dataclass(frozen=True)
class NoState(State):
    """Of a page on which nothing can be set."""

    readers: ClassVar[Mapping[str, Reader]] = {}


_OWN = (
    Lab("start", "Start", StartState, "isometer.explore.labs._start", about="Three guided experiments."),
    Lab(
        "activation",
        "Activations",
        ActivationState,
        "isometer.explore.labs._activation",
        about="what a nonlinearity does to the angle between two inputs, and at which gain signals survive.",
    ),
    Lab(
        "depth",
        "Depth",
        DepthState,
        "isometer.explore.labs._depth",
        about="what a random network does to a batch, theory beside simulation, and two networks side by side.",
    ),
    Lab(
        "transformer",
        "Transformers",
        TransformerState,
        "isometer.explore.labs._transformer",
        about="what attention blocks do to tokens, and where the signal survives.",
    ),
    Lab(
        "clinic",
        "Clinic",
        ClinicState,
        "isometer.explore.labs._clinic",
        about="examine a built-in patient, a network that you write or load, or a doctor's report.",
    ),
)
_ABSENT = Lab(
    "ledger",
    "Ledger",
    NoState,
    "isometer.explore.labs._absent",
    about="the claims of five papers with verdicts; it comes with the companion.",
)


@cache
def all_labs() -> dict[str, Lab]:
    """Every lab by name, the explorer's own first.

    Example:
        >>> list(all_labs())[:3]
        ['start', 'activation', 'depth']
    """
    joined = [entry.load() for entry in entry_points(group=GROUP)]
    found = {lab.name: lab for lab in (*_OWN, *joined)}
    return found if _ABSENT.name in found else {**found, _ABSENT.name: _ABSENT}


def read_state(lab: str, query: str | Mapping[str, Any]) -> tuple[Any, list[str]]:
    """The state of a lab in a query, and what was changed to make it one.

    Args:
        lab: its name.
        query: of a URL, or the values by name.

    Returns:
        As `State.read`.

    Example:
        >>> read_state("clinic", "axis=depth")[0].axis
        'depth'
    """
    return all_labs()[lab].state.read(query)
