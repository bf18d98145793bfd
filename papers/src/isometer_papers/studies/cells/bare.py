"""Results as cells hand them back."""

from __future__ import annotations

import xarray


def bare(data: xarray.Dataset) -> xarray.Dataset:
    """Numbers and their axes, without what describes a single simulation.

    Example:
        >>> bare(xarray.Dataset({"x": ("run", [1.0])}, {"spec": "text"}, {"seed": 3})).attrs
        {}
    """
    kept = data.drop_vars([name for name in data.coords if name not in data.dims])
    return kept.drop_attrs()
