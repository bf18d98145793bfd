"""What the clinic needs of the doctor, which is heavy to load."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from isometer.errors import unknown_name

EXAMPLES = (
    "mlp-relu-100",
    "mlp-relu-5",
    "mlp-bn-50",
    "mlp-tanh-20",
    "mlp-sigmoid-20",
    "mlp-recentred-100",
    "resnet-20",
)
"""Built-in patients that the clinic offers."""


def examined(name: str) -> dict[str, Any]:
    """The doctor's report of a built-in patient, without a stress test: a click is not to take many seconds.

    Example:
        >>> examined("mlp-relu-5")["healthy"]
        True
    """
    from isometer.doctor import diagnose
    from isometer.doctor._loading import load_target, make_batch_for

    if name not in EXAMPLES:
        raise unknown_name("example", name, EXAMPLES)
    target = load_target(name, seed=0)
    batch, _ = make_batch_for(target, "gaussian", None, shape=None, seed=0)
    return diagnose(target.model, batch, name=name, description="gaussian", seed=0, stress=False).to_dict(grams=True)


def compared(baseline: Mapping[str, Any], report: Mapping[str, Any], name: str) -> dict[str, Any]:
    """What got better and what got worse between two doctor's reports.

    Example:
        >>> old = {"findings": [{"id": "rank-collapse", "severity": "severe"}], "layers": [], "metrics": {}}
        >>> compared(old, {"findings": [], "layers": [], "metrics": {}}, "before")["better"]
        ['rank-collapse (severe) is gone']
    """
    from isometer.doctor.diagnosis._comparison import compare

    return compare(baseline, report, name=name)
