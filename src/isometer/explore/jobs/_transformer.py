"""What the transformer lab shows: tokens, entropy and gradients by block, and the plane of two numbers."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from isometer.explore._transformer_state import axis_values
from isometer.spec import Spec
from isometer.theory.transformers import CRITICAL, PHASES, PresetPlane, exponents, token_diagram, token_path


def tokens_by_block(network: str, cosine: float) -> dict[str, Any]:
    """Theory of exchangeable tokens, block after block.

    Example:
        >>> found = tokens_by_block("gpt(blocks=2, tokens=4, norm='post', causal=False)", 0.0)
        >>> found["layer"], found["phase"]
        ([0, 1, 2], 'open')
    """
    spec = Spec(network)
    path = token_path(spec, cosine=cosine, backward=True)
    point = token_diagram(lambda _x, _y: spec, [0.0], [0.0], cosine=cosine)
    steady = exponents(spec, cosine=cosine)
    names = ("rms", "token_cosine", "sample_cosine", "attention_entropy", "attention_participation", "score_strength")
    assert path.log_jacobian is not None
    return {
        "layer": list(range(len(path.rms))),
        **{name: getattr(path, name)[:, 0].tolist() for name in names},
        "log_jacobian": path.log_jacobian[:, 0].tolist(),
        "weights": _weights(path.weights or (), len(path.rms)),
        "most_entropy": math.log(spec.shape.axes[0]),
        "phase": PHASES[int(point.phase[0, 0])],
        "exponents": None if steady is None else {"angle": steady.angle, "gradient": steady.gradient},
        "error": path.error,
    }


def _weights(layers: Any, count: int) -> dict[str, list[float | None]]:
    """log ‖∂output/∂W‖ by kind of weight and layer, the root of the mean square; None where a layer has none."""
    kinds: dict[str, list[float | None]] = {}
    for layer, squares in enumerate(layers, start=count - len(layers)):
        for one in squares:
            row = kinds.setdefault(one.kind, [None] * count)
            before = -math.inf if row[layer] is None else 2 * float(row[layer])  # type: ignore[arg-type]
            row[layer] = float(np.logaddexp(before, one.log[0])) / 2
    return kinds


def tokens_diagram(network: str, cosine: float, across: str, up: str) -> dict[str, Any]:
    """The plane of two numbers.

    Example:
        >>> found = tokens_diagram("gpt(blocks=2, tokens=4, norm='post', causal=False)", 0.0, "qk_gain", "branch")
        >>> len(found["phase"]), len(found["phase"][0])
        (27, 27)
    """
    plane = PresetPlane(network, across, up)
    found = token_diagram(plane, axis_values(across), axis_values(up), cosine=cosine)
    names = ("token_cosine", "attention_entropy", "log_jacobian", "score_strength")
    return {
        "x": found.x.tolist(),
        "y": found.y.tolist(),
        "phase": found.phase.tolist(),
        "names": list(PHASES),
        "critical": CRITICAL,
        **{name: getattr(found, name).tolist() for name in names},
    }
