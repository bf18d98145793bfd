"""The hyper-parameters that 004 prints, as data: the scales `paper` of its training studies are made from them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

EPOCHS = 300
DROPS = (100, 200)  # "after every 100 iterations", read as epochs
FACTOR = 0.1
RUNS = 10
UNITS = 3000


@dataclass(frozen=True)
class Printed:
    """A learning rate as printed.

    Example:
        >>> Printed("fig-7", "MLP", 64, "SeLU", 0.0005).label
        'fig-7: MLP-64, SeLU'
    """

    figure: str
    architecture: str
    depth: int
    method: str
    learning_rate: float

    @property
    def label(self) -> str:
        """Which network of which figure."""
        return f"{self.figure}: {self.architecture}-{self.depth}, {self.method}"


def _rows(figure: str, architecture: str, depth: int, **rates: float) -> tuple[Printed, ...]:
    return tuple(Printed(figure, architecture, depth, NAMES[name], rate) for name, rate in rates.items())


NAMES = {"bn": "batch norm", "ln": "layer norm", "normrelu": "NormReLU", "selu": "SeLU", "fixup": "Fixup"}
TABLE: tuple[Printed, ...] = (
    *_rows("fig-1", "MLP", 32, bn=0.005, ln=0.003, normrelu=0.0009),
    *_rows("fig-1", "ResNet", 32, bn=0.1, ln=0.05, normrelu=0.001),
    *_rows("fig-3", "MLP", 32, bn=0.01, ln=0.001, normrelu=0.0009),
    *_rows("fig-3", "MLP", 64, bn=0.007, ln=0.001, normrelu=0.0009),
    *_rows("fig-4", "ResNet", 32, bn=0.1, normrelu=0.009),
    *_rows("fig-4", "ResNet", 110, bn=0.05, normrelu=0.005),
    *_rows("fig-5", "ResNet", 110, fixup=0.1, normrelu=0.005),
    *_rows("fig-7", "MLP", 32, normrelu=0.001, selu=0.001),
    *_rows("fig-7", "MLP", 64, normrelu=0.0005, selu=0.0005),
    *_rows("fig-8", "ResNet", 32, normrelu=0.01, selu=0.01),
    *_rows("fig-8", "ResNet", 110, normrelu=0.009, selu=0.009),
)


def printed_rates(figure: str) -> dict[str, dict[str, list[float]]]:
    """The settings `mlp_rates` and `resnet_rates` of a figure: one rate for each `"method, depth"`.

    Example:
        >>> printed_rates("fig-7")["mlp_rates"]["SeLU, 64"]
        [0.0005]
    """
    found: dict[str, dict[str, list[float]]] = {"mlp_rates": {}, "resnet_rates": {}}
    for row in TABLE:
        if row.figure == figure:
            found[f"{row.architecture.lower()}_rates"][f"{row.method}, {row.depth}"] = [row.learning_rate]
    return found


def printed_axes(figure: str) -> dict[str, Any]:
    """The grid of a figure: its networks, in the order of the table, one candidate each, ten runs.

    Example:
        >>> printed_axes("fig-4")["depth"]
        [32, 110]
    """
    rows = [row for row in TABLE if row.figure == figure]
    return {
        "architecture": list(dict.fromkeys(row.architecture for row in rows)),
        "depth": list(dict.fromkeys(row.depth for row in rows)),
        "method": list(dict.fromkeys(row.method for row in rows)),
        "candidate": [0],
        "run": list(range(RUNS)),
    }


def used_by(axes: Mapping[str, Any], constants: Mapping[str, Any], row: Printed) -> dict[str, Any]:
    """What a scale has in place of a row of the table, with what the paper says of all runs.

    Example:
        >>> used_by({"run": [0, 1]}, {"epochs": 3}, TABLE[0])["runs"]
        2
    """
    rates = constants.get(f"{row.architecture.lower()}_rates", {})
    there = row.architecture in axes.get("architecture", ()) and row.method in axes.get("method", ())
    own = rates.get(f"{row.method}, {row.depth}", []) if isinstance(rates, Mapping) else list(rates)
    return {
        "learning_rate": own[0] if there and row.depth in axes.get("depth", ()) and len(own) == 1 else None,
        "epochs": constants.get("epochs"),
        "drops": list(constants.get("fixup_milestones" if row.method == "Fixup" else "milestones", ())),
        "factor": constants.get("factor"),
        "runs": len(axes.get("run", ())),
        "units": constants.get("mlp_width") if row.architecture == "MLP" else None,
    }
