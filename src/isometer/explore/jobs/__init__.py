"""What workers compute: functions of JSON data to JSON data, by name. Nothing here knows of a browser."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from importlib import import_module
from typing import Any

from isometer.errors import unknown_name
from isometer.explore._labs import all_labs

__all__ = ["WARM", "job"]


def job(name: str) -> Callable[..., Any]:
    """The function of a name.

    Example:
        >>> job("card")("relu")["case"]
        3
    """
    known = _JOBS | {key: value for lab in all_labs().values() for key, value in lab.jobs.items()}
    if name not in known:
        raise unknown_name("computation", name, known)
    module, function, needs = known[name]
    for room in needs:
        with contextlib.suppress(ImportError):  # what is missing is told by the function
            package = import_module(room)
            for exported in package.__all__:  # lazy names load here, not within the time that a computation has
                getattr(package, exported)
    found: Callable[..., Any] = getattr(import_module(module), function)
    return found


_HERE = "isometer.explore.jobs"
_DEPTH = ("isometer.theory.prediction", "isometer.simulate")
_JOBS: dict[str, tuple[str, str, tuple[str, ...]]] = {
    "card": (f"{_HERE}._activation", "card", ()),
    "path": (f"{_HERE}._activation", "path", ()),
    "phase": (f"{_HERE}._activation", "phase", ()),
    "phase_point": (f"{_HERE}._activation", "at_point", ()),
    "simulated": (f"{_HERE}._depth", "simulated", _DEPTH),
    "predicted": (f"{_HERE}._depth", "predicted", _DEPTH[:1]),
    "own_width": (f"{_HERE}._depth", "own_width", _DEPTH[:1]),
    "geometry": (f"{_HERE}._depth", "geometry", _DEPTH),
    "tokens_by_block": (f"{_HERE}._transformer", "tokens_by_block", ("isometer.theory.transformers",)),
    "tokens_diagram": (f"{_HERE}._transformer", "tokens_diagram", ("isometer.theory.transformers",)),
    "examined": (f"{_HERE}._clinic", "examined", ("isometer.doctor",)),
    "examined_network": (f"{_HERE}._clinic", "examined_network", ("isometer.doctor", "isometer.nn")),
    "examined_file": (f"{_HERE}._clinic", "examined_file", ("isometer.doctor", "isometer.nn")),
    "compared": (f"{_HERE}._clinic", "compared", ("isometer.doctor",)),
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
