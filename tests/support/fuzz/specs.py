"""Network specs as JSON: whole ones, spoilt ones, and text that is none."""

from __future__ import annotations

import json
from typing import Any

import numpy as np

from isometer.spec import RECURRENCES, WEIGHT_LAWS, Spec, recurrence
from support.fuzz.mutation import document
from support.fuzz.target import PromiseBroken, Target

_ACTIVATIONS = ("relu", "tanh", "gelu", "leaky_relu(0.1)", "x*sigmoid(x)", "identity", "import:numpy:tanh")
_NORMS = ("none", "batch", "batch-unit", "layer", "rms", "unit", "whiten", "group:2", "group:4", {"eps": 1e-5})
_ORDERS = (["weights", "norm", "activation"], ["activation", "weights", "residual", "norm"])


def _schedule(rng: np.random.Generator, depth: int) -> Any:
    numbers = [float(v) for v in rng.normal(size=depth).round(3)]
    return [numbers[0], numbers, {"scale": numbers[0], "layer": -0.5}, None, {"depth": 400.0}][int(rng.integers(5))]


def _whole(rng: np.random.Generator) -> dict[str, Any]:
    depth, width = int(rng.integers(1, 6)), int(4 * rng.integers(1, 5))
    if rng.uniform() < 0.2:
        name = list(RECURRENCES)[int(rng.integers(len(RECURRENCES)))]
        return json.loads(recurrence(name, width=width, depth=depth).to_json())
    made: dict[str, Any] = {"width": width, "depth": depth}
    if rng.uniform() < 0.2:
        made = {"width": [int(4 * v) for v in rng.integers(1, 5, depth)]}
    choices: dict[str, Any] = {
        "activation": _ACTIVATIONS[int(rng.integers(len(_ACTIVATIONS)))],
        "norm": _NORMS[int(rng.integers(len(_NORMS)))],
        "weights": WEIGHT_LAWS[int(rng.integers(len(WEIGHT_LAWS)))],
        "gain": _schedule(rng, depth),
        "residual": _schedule(rng, depth),
        "activation_gain": _schedule(rng, depth),
        "bias_variance": float(rng.uniform(0, 1)),
        "order": _ORDERS[int(rng.integers(2))],
        "scale": 0.5 if rng.uniform() < 0.5 else "1/sqrt(width)",
        "input_width": int(rng.integers(1, 20)),
        "weight_scaling": "unit",
    }
    return made | {name: value for name, value in choices.items() if rng.uniform() < 0.25}


def draw(rng: np.random.Generator) -> str:
    """The text of a spec, bytes as Latin-1."""
    return document(rng, _whole(rng), whole=0.25)


def check(case: str) -> None:
    """It is a spec that comes back the same from its JSON, or refused in one line."""
    spec = Spec.from_json(case.encode("latin-1").decode("utf-8", "replace"))
    again = Spec.from_json(spec.to_json())
    if again != spec or again.to_json() != spec.to_json():
        raise PromiseBroken(f"{spec} came back as {again}")
    # what a spec is asked first
    assert spec.layers >= 1
    assert isinstance(spec.has_skip, bool)
    assert spec.operations == again.operations
    for name in ("gain", "activation_gain"):
        assert np.isfinite(spec.at(name, spec.layers))


TARGETS = [Target("specs", 20_000, 150, draw, check)]
