"""How far a finding can be trusted: what the trial with unseen models says about today's rules."""

from __future__ import annotations

import json
from functools import cache
from importlib.resources import files


@cache
def reliability() -> str:
    """One sentence with the counts of the trial, from `reliability.json`, which `make pages` writes; empty without any.

    Example:
        >>> reliability() == "" or "models that the rules never saw" in reliability()
        True
    """
    found = json.loads(files("isometer.doctor.diagnosis").joinpath("reliability.json").read_text(encoding="utf-8"))
    (caught, sick), (alarms, well) = found["found"], found["alarms"]
    if not sick or not well:
        return ""
    return (
        f"How far to trust this: among models that the rules never saw, {caught} of {sick} that do not train had a "
        f"severe finding, and so had {alarms} of {well} that train."
    )
