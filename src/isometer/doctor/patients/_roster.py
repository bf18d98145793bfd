"""Every built-in patient by name."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from isometer.doctor.patients import _convnets as convnets
from isometer.doctor.patients import _mlps as mlps
from isometer.doctor.patients import _transformers as transformers
from isometer.doctor.patients._patient import Patient
from isometer.errors import unknown_name

_ROOMS = (mlps, convnets, transformers)
PATIENTS: Mapping[str, Patient] = MappingProxyType(
    {one.name: one for group in ("SICK", "HEALTHY") for room in _ROOMS for one in getattr(room, group)}
)
"""Every patient by name, the sick before the healthy."""


def patient(name: str) -> Patient:
    """The built-in patient of a name.

    Args:
        name: one of `PATIENTS`.

    Raises:
        IsometerError: no patient has this name; the message suggests the nearest one.

    Example:
        >>> patient("vgg-bn-8").healthy
        True
        >>> patient("vgg-bn-9")
        Traceback (most recent call last):
        ...
        isometer.errors.IsometerError: unknown patient 'vgg-bn-9'; did you mean 'vgg-bn-8'? ...
    """
    if name in PATIENTS:
        return PATIENTS[name]
    raise unknown_name("patient", name, PATIENTS, fix="`isometer patients` shows all")
