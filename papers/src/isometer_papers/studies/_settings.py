"""Settings of a run of a study: the scale, and what `--set` changes in it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from isometer.errors import IsometerError, unknown_name
from isometer.run import parse_axes
from isometer_papers.studies._study import Scale, Study


def overridden(
    study: Study, scale: str, changes: Mapping[str, Any], *, data: str | None = None, device: str | None = None
) -> Scale:
    """A scale with other values for some of its axes and constants.

    Args:
        study: whose.
        scale: quick, medium or paper.
        changes: values by name: a list for an axis; text is read as what the value is now.
        data: another data set, for studies that need one.
        device: of torch, for studies that train.

    Returns:
        The scale to run.

    Example:
        >>> from isometer_papers.studies import find
        >>> overridden(find("003/fig-2b"), "quick", {"runs": "5", "width": "16,32"}).axes["width"]
        [16, 32]
    """
    base = study.scale(scale)
    axes, constants, reading = dict(base.axes), dict(base.constants), dict(base.reading)
    together = base.together
    for name, value in changes.items():
        if name == "together" and base.together > 1:
            together = _like(together, value, name)
        elif name in axes:
            axes[name] = [_like(axes[name][0], one, name) for one in _listed(value)]
        elif name in constants:
            constants[name] = _like(constants[name], value, name)
        elif name in reading:
            reading[name] = _like(reading[name], value, name)
        else:
            known = [*axes, *constants, *reading, *(["together"] if base.together > 1 else [])]
            raise unknown_name(f"setting of the study {study.id}:", name, known)
    if data is not None and study.data is not None:
        if "data" in axes:
            axes["data"] = [data]
        else:
            constants["data"] = data
    if device is not None and "device" in constants:
        constants["device"] = device
    told = "" if not changes else "changed by hand: " + ", ".join(f"{k}={v}" for k, v in changes.items())
    return Scale(axes, constants, "; ".join(part for part in (base.reduced, told) if part), reading, together)


def parse_changes(texts: Sequence[str]) -> dict[str, str]:
    """`name=value` texts as a mapping; several values are a list of an axis.

    Example:
        >>> parse_changes(["width=16,32", "runs=5"])
        {'width': '16,32', 'runs': '5'}
    """
    changes: dict[str, str] = {}
    for text in texts:
        name, equals, value = text.partition("=")
        if not equals or not name.strip() or not value.strip():
            raise IsometerError(f"--set has {text!r}; expected name=value — runs=5, for example")
        if name.strip() in changes:
            raise IsometerError(f"--set has {name.strip()!r} twice — give it once")
        changes[name.strip().replace("-", "_")] = value.strip()
    return changes


def _listed(value: Any) -> list[Any]:
    if isinstance(value, str):
        return list(parse_axes([f"value={value}"], ["value"])["value"])
    return list(value) if isinstance(value, Sequence) else [value]


def _like(now: Any, value: Any, name: str) -> Any:
    """Text read as the kind of what is there now."""
    if not isinstance(value, str) or isinstance(now, str):
        if isinstance(now, str) and not isinstance(value, str):
            raise IsometerError(f"the setting {name!r} is {value!r}; expected text such as {now!r}")
        return value
    try:
        if isinstance(now, bool):
            return {"true": True, "false": False}[value.lower()]
        if isinstance(now, int):
            return int(value)
        if isinstance(now, float):
            return float(value)
        if isinstance(now, Sequence):
            return [_like(now[0], one, name) for one in _listed(value)]
    except (ValueError, KeyError):
        pass
    raise IsometerError(f"the setting {name!r} is {value!r}; expected something like {now!r}")
