"""Every built-in patient by name."""

from __future__ import annotations

import difflib
from collections.abc import Mapping
from types import MappingProxyType

from isometer.doctor.patients import _convnets as convnets
from isometer.doctor.patients import _mlps as mlps
from isometer.doctor.patients import _transformers as transformers
from isometer.doctor.patients._patient import Patient
from isometer.errors import IsometerError

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
        IsometerError: there is none; the message says which name is nearest.

    Example:
        >>> patient("vgg-bn-8").healthy
        True
        >>> patient("vgg-bn-9")
        Traceback (most recent call last):
        ...
        isometer.errors.IsometerError: there is no patient 'vgg-bn-9'; did you mean 'vgg-bn-8'? ...
    """
    if name in PATIENTS:
        return PATIENTS[name]
    near = difflib.get_close_matches(name, PATIENTS, 1, 0.4)
    hint = f"did you mean {near[0]!r}? " if near else ""
    raise IsometerError(f"there is no patient {name!r}; {hint}expected one of {', '.join(PATIENTS)}")
