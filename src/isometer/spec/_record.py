"""A spec as JSON has it: types of its fields and lengths of its lists. Ranges are for `Spec` to say."""

from __future__ import annotations

from typing import Annotated, Any

import msgspec
from msgspec import UNSET, Meta, UnsetType

from isometer.checks import DEEPEST
from isometer.documents import parse_json
from isometer.spec._checks import SpecError
from isometer.spec._norm import Norm
from isometer.spec._schedule import PowerLaw, schedule_from

_FIX = 'write an object such as {"width": 100, "depth": 10}'
_MOST = 200_000_000  # bytes: one number per layer of the deepest spec
_SCHEDULES = ("gain", "residual", "activation_gain")
_Text = Annotated[str, Meta(max_length=10_000)]


class _NormRecord(msgspec.Struct, forbid_unknown_fields=True):
    """The fields of a `Norm`, each of which may be left out."""

    over: _Text | UnsetType = UNSET
    recenter: bool | UnsetType = UNSET
    rescale: bool | UnsetType = UNSET
    divisor: _Text | UnsetType | None = UNSET
    size: _Text | UnsetType = UNSET
    whiten: bool | UnsetType = UNSET
    groups: int | UnsetType = UNSET
    eps: float | UnsetType = UNSET
    scale: float | UnsetType = UNSET
    shift: float | UnsetType = UNSET


class _LawRecord(msgspec.Struct, forbid_unknown_fields=True):
    """The fields of a `PowerLaw`, each of which may be left out."""

    scale: float | UnsetType = UNSET
    layer: float | UnsetType = UNSET
    depth: float | UnsetType = UNSET


_Schedule = float | Annotated[list[float | None], Meta(max_length=DEEPEST)] | _LawRecord | None | UnsetType


class _SpecRecord(msgspec.Struct, forbid_unknown_fields=True):
    """A network as text, or the fields of a `Chain`, each of which may be left out."""

    network: Annotated[str, Meta(max_length=1_000_000)] | UnsetType = UNSET
    width: int | Annotated[list[int], Meta(min_length=1, max_length=DEEPEST)] | UnsetType = UNSET
    depth: int | UnsetType | None = UNSET
    activation: _Text | UnsetType = UNSET
    norm: _NormRecord | _Text | UnsetType | None = UNSET
    weights: _Text | UnsetType = UNSET
    gain: _Schedule = UNSET
    weight_scaling: _Text | UnsetType = UNSET
    bias_variance: float | UnsetType = UNSET
    residual: _Schedule = UNSET
    activation_gain: _Schedule = UNSET
    order: Annotated[list[_Text], Meta(max_length=4)] | UnsetType = UNSET
    scale: float | _Text | UnsetType = UNSET
    input_width: int | UnsetType | None = UNSET


def spec_fields(text: str | bytes) -> dict[str, Any]:
    """The fields that a spec's JSON has, as `Spec` takes them.

    Example:
        >>> spec_fields('{"width": [8, 4], "residual": null}')
        {'width': (8, 4), 'residual': inf}
    """
    found = _given(parse_json(text, _SpecRecord, what="the spec", fix=_FIX, most=_MOST, error=SpecError))
    if "width" not in found and "network" not in found:
        raise SpecError(f"the spec has no width; expected the number of features of a layer — {_FIX}")
    if isinstance(found.get("norm"), msgspec.Struct):
        found["norm"] = Norm(**_given(found["norm"]))
    for name in _SCHEDULES:
        if isinstance(found.get(name), msgspec.Struct):
            found[name] = PowerLaw(**_given(found[name]))
        elif name in found:
            found[name] = schedule_from(found[name])
    for name in ("width", "order"):
        if isinstance(found.get(name), list):
            found[name] = tuple(found[name])
    return found


def _given(record: Any) -> dict[str, Any]:
    return {name: value for name in record.__struct_fields__ if (value := getattr(record, name)) is not UNSET}
