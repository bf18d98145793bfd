"""The explorer: a local web page on which the theory moves.

Four labs: activations, depth, the clinic of doctor's reports, the ledger of claims and figures. Their state is in the
page's address; what they compute is bounded and done by other processes.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from isometer.explore._state import LABS, LIMITS
from isometer.explore._desk import Desk, Job
from isometer.extras import need

if TYPE_CHECKING:
    from isometer.explore._page import make_app
    from isometer.explore._server import serve

__all__ = ["LABS", "LIMITS", "Desk", "Job", "make_app", "serve"]

_NEED_DASH = {"make_app": "page", "serve": "server"}


def __getattr__(name: str) -> Any:
    """Dash is loaded when the page is wanted: the processes that compute do without it."""
    if name in _NEED_DASH:
        need("dash", "the explorer")
        return getattr(import_module(f"isometer.explore.{_NEED_DASH[name]}"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
