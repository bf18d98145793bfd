"""The cell that examples run."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import xarray


def power(cell: Mapping[str, Any], seed: int) -> xarray.Dataset:
    """base^exponent.

    Example:
        >>> power({"base": 2, "exponent": 3}, seed=0)["value"].item()
        8.0
    """
    return xarray.Dataset({"value": float(cell["base"]) ** float(cell.get("exponent", 1))})
