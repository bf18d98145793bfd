"""What a network that is not one layer repeated does to two inputs, gathered for the card and the JSON."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from isometer.errors import IsometerError
from isometer.serialize import json_data
from isometer.spec import Act, Spec, with_depth
from isometer.spec._steps import walk
from isometer.theory.chains._settled import Settled, last_turn, network_phase
from isometer.theory.networks import ExchangeablePath, coverage, exchangeable_path

NEARBY = 1e-3  # 1 − cos of the nearly equal pair of inputs whose fate is reported


@dataclass(frozen=True)
class NetworkExplanation:
    """Two inputs of unit mean square on their way through a network of infinite width.

    Args:
        spec: the network, without positions.
        point: χ, variance and cosine over its last repetition.

    Example:
        >>> from isometer.theory import explain
        >>> card = explain(Spec("preln_mlp(width=16, blocks=6)"))
        >>> card.layers, card.activations
        (7, ('gelu',))
    """

    spec: Spec
    point: Settled

    @cached_property
    def _pairs(self) -> ExchangeablePath:
        return exchangeable_path(self.spec, [1.0, NEARBY])

    @property
    def layers(self) -> int:
        """How many layers it has."""
        return len(self._pairs.gap) - 1

    @property
    def activations(self) -> tuple[str, ...]:
        """Those it uses, in the order of their first use."""
        return tuple(dict.fromkeys(step.activation for step in walk(self.spec.composition) if isinstance(step, Act)))

    @property
    def outlook(self) -> list[dict[str, float]]:
        """At a few layers: the mean square of a feature, the cosine of orthogonal and 1 − cosine of nearby inputs."""
        last, found = self.layers, self._pairs
        chosen = sorted({0, 1, last // 4, last // 2, last_turn(self.spec), last})
        return [
            {
                "layer": layer,
                "mean_square": float(found.variance[layer, 0]),
                "cosine_of_orthogonal": float(found.cosine[layer, 0]),
                "gap_of_nearby": float(found.gap[layer, 1]),
            }
            for layer in chosen
            if math.isfinite(found.gap[layer, 0])
        ]

    @property
    def conclusion(self) -> str:
        """One sentence: what depth does to two inputs.

        Example:
            >>> from isometer.theory import explain
            >>> explain(Spec("preln_mlp(width=8, blocks=4)")).conclusion.split(",")[0]
            'Signals add up with depth'
        """
        return self.point.verdict

    def path(self, cosine: float, depth: int | None = None) -> ExchangeablePath:
        """Two inputs of unit mean square and this cosine, layer by layer; `depth` counts repetitions of its one repeat.

        Example:
            >>> from isometer.theory import explain
            >>> card = explain(Spec("input(8) > dense > repeat(residual(dense > act('tanh') > dense), 3)"))
            >>> card.path(0.5, 2).cosine[:, 0].round(3).tolist()
            [0.5, 0.5, 0.492, 0.483]
        """
        if not -1.0 <= cosine <= 1.0:
            raise IsometerError(f"the cosine is {cosine:g}; expected a number from −1 to 1")
        return exchangeable_path(self.spec if depth is None else with_depth(self.spec, depth), [1.0 - cosine])

    def to_dict(self) -> dict[str, Any]:
        """Plain values for JSON.

        Example:
            >>> from isometer.theory import explain
            >>> explain(Spec("input(8) > dense > act('tanh') > dense")).to_dict()["layers"]
            2
        """
        values = {
            "network": str(self.spec),
            "layers": self.layers,
            "activations": list(self.activations),
            "point": self.point.to_dict(),
            "outlook": self.outlook,
            "conclusion": self.conclusion,
            "coverage": coverage(self.spec),
        }
        record: dict[str, Any] = json_data(values)
        return record


def explain_network(spec: Spec) -> NetworkExplanation:
    """Follow two inputs through a network; `explain` calls it for what is not one layer repeated.

    Example:
        >>> explain_network(Spec("input(8) > dense > act('relu') > dense")).layers
        2
    """
    return NetworkExplanation(spec, network_phase(spec))
