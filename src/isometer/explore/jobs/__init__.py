"""What workers compute: functions of JSON data to JSON data, by name. Nothing here knows of a browser."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from importlib import import_module
from typing import Any

from isometer.errors import IsometerError

__all__ = ["WARM", "job"]


def job(name: str) -> Callable[..., Any]:
    """The function of a name.

    Example:
        >>> job("card")("relu")["case"]
        3
    """
    if name not in _JOBS:
        raise IsometerError(f"there is no computation {name!r}; expected one of {', '.join(_JOBS)}")
    module, function, needs = _JOBS[name]
    for room in needs:
        with contextlib.suppress(ImportError):  # what is missing is told by the function
            import_module(room)
    found: Callable[..., Any] = getattr(import_module(f"isometer.explore.jobs.{module}"), function)
    return found


_DEPTH = ("isometer.theory.prediction", "isometer.simulate")
_JOBS: dict[str, tuple[str, str, tuple[str, ...]]] = {
    "card": ("activation", "card", ()),
    "path": ("activation", "path", ()),
    "phase": ("activation", "phase", ()),
    "phase_point": ("activation", "at_point", ()),
    "simulated": ("depth", "simulated", _DEPTH),
    "predicted": ("depth", "predicted", _DEPTH[:1]),
    "own_width": ("depth", "own_width", _DEPTH[:1]),
    "geometry": ("depth", "geometry", _DEPTH),
    "claims": ("ledger", "claims", ("isometer_papers.claims",)),
    "studies": ("ledger", "studies", ("isometer_papers.studies",)),
    "examined": ("ledger", "examined", ("isometer.doctor",)),
    "compared": ("ledger", "compared", ("isometer.doctor",)),
}


def _warm(name: str, **arguments: Any) -> Callable[[], object]:
    """A small computation, for what libraries do on first use."""
    return lambda: job(name)(**arguments)


_SMALL: dict[str, Any] = {
    "net": {
        "activation": "relu",
        "norm": "none",
        "position": "pre",
        "weights": "gaussian",
        "gain": "forward",
        "residual": None,
        "depth": 2,
        "width": 8,
    },
    "source": "gaussian",
    "batch": 4,
    "seed": 0,
}
WARM = (
    _warm("predicted", **_SMALL, rank="effective_rank"),
    _warm("geometry", **_SMALL, layer=1),
    _warm("simulated", **_SMALL, rank="effective_rank", runs=2),
)
"""What a worker does while nobody waits for it."""
