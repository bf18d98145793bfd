"""What the clinic needs of the doctor, which is heavy to load. Models come as data: nothing of a file is executed."""

from __future__ import annotations

import itertools
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from isometer.errors import IsometerError, unknown_name
from isometer.explore._progress import tell
from isometer.explore._state import LIMITS

if TYPE_CHECKING:
    from isometer.doctor._loading import Target

EXAMPLES = (
    "mlp-relu-100",
    "mlp-relu-default-10",
    "mlp-bn-50",
    "mlp-sigmoid-20",
    "mlp-recentred-100",
    "vgg-default-8",
    "transformer-post-24",
    "mlp-relu-5",
    "mlp-tanh-20",
    "resnet-20",
    "transformer-4",
)
"""Built-in patients that the clinic offers, the sick before the healthy."""
_WIDTH = 64  # features of the input of a network that does not say


def examined(name: str, stress: bool = False) -> dict[str, Any]:
    """The doctor's report of a built-in patient.

    Example:
        >>> examined("mlp-relu-5")["healthy"]
        True
    """
    from isometer.doctor._loading import load_target

    if name not in EXAMPLES:
        raise unknown_name("example", name, EXAMPLES)
    return _report(load_target(name, seed=0), stress)


def examined_network(network: str, stress: bool = False) -> dict[str, Any]:
    """The doctor's report of a network that is written out, with random weights.

    Example:
        >>> found = examined_network("repeat(dense > act('relu'), 4) > dense(2)")
        >>> found["model"], found["batch"]["samples"]
        ("repeat(dense > act('relu'), 4) > dense(2)", 32)
    """
    from isometer.doctor._loading import network_target

    if not network:
        raise IsometerError("there is no network yet — write one, such as repeat(dense > act('relu'), 20) > dense(10)")
    return _report(network_target(_checked(network), network, seed=0), stress)


def examined_file(path: str, name: str, stress: bool = False) -> dict[str, Any]:
    """The doctor's report of a network that `isometer.nn.save_network` wrote.

    Args:
        path: path of the file, chosen by the server.
        name: what to call it.
        stress: train copies of it, too.
    """
    from isometer.doctor._loading import Target
    from isometer.nn import load_network
    from isometer.nn._saved import network_text

    spec = _checked(network_text(path))  # before any memory is taken by what it says
    return _report(Target(name, load_network(Path(path)), shape=(spec.shape.width, *spec.shape.axes)), stress)


def _checked(text: str) -> Any:
    """A network within the limits of the page."""
    from isometer.explore.jobs._depth import written_network

    if "import:" in text:
        raise IsometerError("this page imports nothing; expected activations by name or as an expression")
    if len(text) > LIMITS["network"].high:
        most = int(LIMITS["network"].high)
        raise IsometerError(f"the network has {len(text)} characters; this page takes at most {most} — use repeat(…)")
    return written_network(text, _WIDTH)


def _report(target: Target, stress: bool) -> dict[str, Any]:
    from isometer.doctor import diagnose
    from isometer.doctor._loading import make_batch_for
    from isometer.doctor.probe._made_up import with_offsets

    def batch(seed: int) -> Any:
        return make_batch_for(target, "gaussian", None, shape=None, seed=seed)[0]

    tell("probing the model: one pass forward and back")
    found = diagnose(
        target.model,
        batch(0),
        fresh=((with_offsets(batch(seed), seed=seed), None) for seed in itertools.count(1)) if stress else None,
        name=target.name,
        description="gaussian",
        seed=0,
        stress=stress,
        budget=LIMITS["examination"].high / 2,
        told=lambda text: tell(f"training copies: {text}"),
    )
    return found.to_dict(grams=True)


def compared(baseline: Mapping[str, Any], report: Mapping[str, Any], name: str) -> dict[str, Any]:
    """What got better and what got worse between two doctor's reports.

    Example:
        >>> old = {"findings": [{"id": "rank-collapse", "severity": "severe"}], "layers": [], "metrics": {}}
        >>> compared(old, {"findings": [], "layers": [], "metrics": {}}, "before")["better"]
        ['rank-collapse (severe) is gone']
    """
    from isometer.doctor.diagnosis._comparison import compare

    return compare(baseline, report, name=name)
