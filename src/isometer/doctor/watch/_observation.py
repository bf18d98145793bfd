"""What a monitor has seen: one observation a step, and all of them as one dataset."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from isometer.doctor.diagnosis._signal_path import View
from isometer.doctor.probe._examination import Examination

if TYPE_CHECKING:
    import xarray

Floats = NDArray[np.float64]
KEPT = 2000
"""Observations that are remembered; from there on every second one of the older half is dropped."""

ATTENTION = {
    "attention_relative_entropy": "entropy",
    "attention_score_std": "score_std",
    "attention_score_largest": "score_largest",
}
"""What is read of attention, by the field of the probe's reading."""


_SITES = ("output", "pre-activation")


class LayerPlace(NamedTuple):
    """A place in a model that stays the same from one observation to the next."""

    name: str
    op: str
    call: int
    kind: str
    depth: int
    site: str


@dataclass(frozen=True)
class StepReading:
    """The numbers of one step.

    Attributes:
        step: number of the training step.
        layers: the places, in the order of execution.
        values: by metric, one number a layer.
        parameters: by quantity, one number a parameter.
        groups: by quantity, one number a group of the optimizer.
        scalars: one number each, such as the loss.
        last: indices of the last hidden layers.
        outputs: indices of the layers that the model returns.
    """

    step: int
    layers: tuple[LayerPlace, ...] = ()
    values: Mapping[str, Floats] = field(default_factory=dict)
    parameters: Mapping[str, Floats] = field(default_factory=dict)
    groups: Mapping[str, Floats] = field(default_factory=dict)
    scalars: Mapping[str, float] = field(default_factory=dict)
    last: tuple[int, ...] = ()
    outputs: tuple[int, ...] = ()

    def state(self) -> dict[str, Any]:
        """In lists and numbers, which a checkpoint holds."""
        tables = {
            name: {key: numbers.tolist() for key, numbers in getattr(self, name).items()}
            for name in ("values", "parameters", "groups")
        }
        places = [list(layer) for layer in self.layers]
        ends = {"last": list(self.last), "outputs": list(self.outputs)}
        return {"step": self.step, "layers": places, "scalars": dict(self.scalars), **tables, **ends}

    @classmethod
    def from_state(cls, state: Mapping[str, Any]) -> StepReading:
        """What `state` gave."""
        tables = {
            name: {key: np.array(numbers, dtype=np.float64) for key, numbers in state[name].items()}
            for name in ("values", "parameters", "groups")
        }
        layers = tuple(LayerPlace(*place) for place in state["layers"])
        last, outputs = tuple(state["last"]), tuple(state["outputs"])
        return cls(
            int(state["step"]),
            layers,
            tables["values"],
            tables["parameters"],
            tables["groups"],
            scalars=dict(state["scalars"]),
            last=last,
            outputs=outputs,
        )


def places(examination: Examination) -> tuple[LayerPlace, ...]:
    """The layers of an examination."""
    return tuple(
        LayerPlace(site.name, site.op, site.call, site.kind, site.depth, _SITES[site.pre_activation])
        for site in examination.sites
    )


def readings(examination: Examination, metrics: Iterable[str]) -> dict[str, Floats]:
    """The metrics of an examination by name, those of attention among them."""
    found: dict[str, Floats] = {}
    for name in metrics:
        if name in ATTENTION:
            field_ = ATTENTION[name]
            found[name] = np.array(
                [math.nan if s.attention is None else float(getattr(s.attention, field_)) for s in examination.sites]
            )
        else:
            found[name] = np.asarray(examination.values[name], dtype=np.float64)
    return found


def in_examination(examination: Examination, step: int, metrics: Iterable[str]) -> StepReading:
    """What an examination shows of a step: its layers, the metrics, and where the model ends."""
    layers = places(examination)
    broken = examination.nonfinite_layer
    made = {layer for index in examination.outputs if (layer := examination.trace[index].layer) is not None}
    return StepReading(
        step,
        layers,
        readings(examination, metrics),
        scalars={"nonfinite_layer": -1.0 if broken is None else float(broken)},
        last=View(examination).last,
        outputs=tuple(sorted(made)) or (len(layers) - 1,),
    )


def kept(observations: list[StepReading]) -> list[StepReading]:
    """The same, thinned where there are too many: the newer half stays as it is."""
    if len(observations) <= KEPT:
        return observations
    half = len(observations) // 2
    return observations[:half:2] + observations[half:]


def dataset(
    observations: Sequence[StepReading],
    parameters: Sequence[str],
    groups: Sequence[str],
    losses: Sequence[tuple[int, float]],
) -> xarray.Dataset:
    """All observations: `(step, layer)`, `(step, parameter)`, `(step, group)` and `(step)`; nan where there is none.

    A layer that only some observations have, as in a model that does not always run all of itself, is nan elsewhere.

    Args:
        observations: in the order of the steps.
        parameters: their names.
        groups: names of the optimizer's groups.
        losses: steps of training and the loss at each.
    """
    import xarray

    layers: dict[LayerPlace, int] = {}
    for one in observations:
        for layer in one.layers:
            layers.setdefault(layer, len(layers))
    data: dict[str, Any] = {}
    for index, one in enumerate(observations):
        at = [layers[layer] for layer in one.layers]
        for name, numbers in one.values.items():
            _table(data, name, ("step", "layer"), (len(observations), len(layers)))[index, at] = numbers
        for kind, width in (("parameter", len(parameters)), ("group", len(groups))):
            for name, numbers in getattr(one, f"{kind}s").items():
                _table(data, name, ("step", kind), (len(observations), width))[index] = numbers
        for name, number in one.scalars.items():
            _table(data, name, ("step",), (len(observations),))[index] = number
    coordinates: dict[str, Any] = {
        "step": [one.step for one in observations],
        "layer": np.arange(len(layers)),
        "training_step": [step for step, _ in losses],
    }
    for position, text in enumerate(LayerPlace._fields):
        column = [layer[position] for layer in layers]
        number = text in ("call", "depth")
        coordinates[text] = ("layer", np.array(column, dtype=np.int64 if number else object))
    coordinates |= {"parameter": np.array(parameters, dtype=object), "group": np.array(groups, dtype=object)}
    data["loss_every_step"] = (("training_step",), np.array([loss for _, loss in losses], dtype=np.float64))
    return xarray.Dataset(data, coords=coordinates)


def _table(data: dict[str, Any], name: str, dims: tuple[str, ...], shape: tuple[int, ...]) -> Floats:
    if name not in data:
        data[name] = (dims, np.full(shape, math.nan))
    table: Floats = data[name][1]
    return table
