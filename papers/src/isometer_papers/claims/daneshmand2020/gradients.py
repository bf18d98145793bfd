"""002, §5: weight laws of the experiments, and gradients of a last layer that sees rank one."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from isometer_papers.claims._claim import Claim, Estimate, Instance
from isometer_papers.claims._families import Family, Rng, cases
from isometer_papers.claims._precise import elementwise
from isometer_papers.claims._statements import Sampled, deterministic, equal, expectation, vanishes
from isometer_papers.float_or_mpmath import Numeric
from isometer_papers.simulate.rank_steps import uniform_weights
from isometer_papers.theory.rank.chain import multiple_residual, neuron_gradient

_DRAWS = 200_000


_widths = cases(*({"width": d} for d in (4, 16, 64)))


def _law(name: str, width: int, rng: Rng) -> Any:
    """Weights of a law of the simulation, many rows of them."""
    import torch

    from isometer.simulate import Streams, draw_weights, weight_factor
    from isometer.spec import Spec

    rows = _DRAWS // width
    like = torch.zeros((), dtype=torch.float64)
    streams = Streams(int(rng.integers(1 << 62)), [0], 1, "weights", "uniform", rows * width, like)
    spec = Spec(width=width, depth=1, weights=name)
    return (draw_weights(name, streams, rows, width)[0] * weight_factor(spec, 1)).numpy().ravel()


def _uniform(i: Instance, rng: Rng) -> Numeric:
    return uniform_weights(rng, _DRAWS)


def _moment(
    draw: Callable[[Instance, Rng], Any], power: int, center: Callable[[Instance], float] = lambda i: 0.0
) -> Any:
    """E (W − c)^k, in units in which weights are of order 1."""

    def estimate(i: Instance, rng: Rng) -> Estimate:
        return Estimate.of(((draw(i, rng) - center(i)) * math.sqrt(i["width"])) ** power)

    return estimate


def _asymmetric(i: Instance, rng: Rng) -> Numeric:
    return _law("asymmetric", i["width"], rng)


def _default(i: Instance, rng: Rng) -> Numeric:
    return _law("pytorch", i["width"], rng)


_unit_width = cases({"width": 1})


def _rank_one(function: str, *, special: bool) -> Family:
    """H = a uᵀ, two of its samples and the cotangents of one neuron."""

    def generator(rng: Rng, count: int) -> Iterator[Instance]:
        if special:
            yield {"F": function, "u": np.array([1.0, -1.0]), "a": np.array([1.0, -1.0]), "cotangents": np.ones(2)}
            if function == "identity":
                yield {"F": function, "u": np.array([1.0, 1.0]), "a": np.array([1.0, 0.0]), "cotangents": np.ones(2)}
            return
        for _ in range(count):
            d = int(rng.integers(2, 7))
            yield {
                "F": function,
                "u": rng.standard_normal(d),
                "a": rng.standard_normal(2),
                "cotangents": rng.standard_normal(2),
            }

    return generator


def _families(function: str) -> dict[str, Any]:
    return {"special": _rank_one(function, special=True), "random": _rank_one(function, special=False)}


def _hidden(i: Instance) -> tuple[Numeric, Numeric]:
    function = elementwise(i["F"])
    return function(i["a"][0] * i["u"]), function(i["a"][1] * i["u"])


def _representations(i: Instance) -> Numeric:
    return multiple_residual(*_hidden(i))


def _gradients(i: Instance) -> Numeric:
    hidden = _hidden(i)
    return multiple_residual(*(neuron_gradient(hidden[k], i["cotangents"][k]) for k in (0, 1)))


def _same_sign(i: Instance) -> bool:
    return bool(i["a"][0] * i["a"][1] > 0)


def _second_nonzero(i: Instance) -> bool:
    return bool(i["a"][1] != 0)


def _aligned(part: str, function: str, quantity: Any, repair: Any) -> tuple[Claim, ...]:
    """The part of one vector that is no multiple of the other vanishes; with a hypothesis that repairs it."""
    name, compared, families = f"002/prop-8:{part}", vanishes(quantity), _families(function)
    return (
        deterministic(name, compared, families),
        deterministic(f"{name}#corrected", compared, families, hypotheses=repair),
    )


CLAIMS = (
    expectation("002/def-1:mean", vanishes(Sampled(_moment(_uniform, 1))), {"law": _unit_width}, resolution=0.03),
    expectation("002/def-1:variance", equal(Sampled(_moment(_uniform, 2)), 1), {"law": _unit_width}, resolution=0.03),
    expectation("002/def-1:symmetry", vanishes(Sampled(_moment(_uniform, 3))), {"law": _unit_width}, resolution=0.06),
    expectation("002/init-asym:mean", equal(Sampled(_moment(_asymmetric, 1)), 1), {"widths": _widths}, resolution=0.03),
    expectation(
        "002/init-asym:variance",
        equal(Sampled(_moment(_asymmetric, 2, lambda i: 1 / math.sqrt(i["width"]))), lambda i: 1 / 3),
        {"widths": _widths},
        resolution=0.03,
    ),
    expectation(
        "002/init-asym:default-variance",
        equal(Sampled(_moment(_default, 2)), lambda i: 1 / 3),
        {"widths": _widths},
        resolution=0.03,
    ),
    *_aligned("linear", "identity", _representations, _second_nonzero),
    *_aligned("relu", "relu", _representations, _same_sign),
    *_aligned("gradients-linear", "identity", _gradients, _second_nonzero),
    *_aligned("gradients-relu", "relu", _gradients, _same_sign),
)
