"""The explorer: a local web page on which the theory moves.

Labs: activations, depth, the clinic of doctor's reports, and those of other distributions, such as the ledger of claims
and figures. Their state is in the page's address; what they compute is bounded and done by other processes.
"""

from typing import Any

import lazy_loader

from isometer.extras import need

_attribute, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)


def __getattr__(name: str) -> Any:
    """Dash is loaded when the page is wanted: the processes that compute do without it."""
    if name in ("make_app", "serve"):
        need("dash", "the explorer")
    return _attribute(name)
