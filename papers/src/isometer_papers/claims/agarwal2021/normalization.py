"""004, Appendix B: networks with batch or layer norm do not see whether σ is normalised."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from isometer_papers.claims._claim import Instance
from isometer_papers.claims._families import Rng
from isometer_papers.claims._precise import elementwise
from isometer_papers.claims._statements import deterministic, equal, vanishes
from isometer_papers.float_or_mpmath import Numeric, sqrt
from isometer_papers.theory.duals.normalized_networks import batch_norm_network, layer_norm_network, printed_mean_gap

FUNCTIONS = ("tanh", "sin", "relu", "arctan")


def _network(rng: Rng, function: str, depth: int, samples: int, width: int) -> dict[str, Any]:
    sizes = [3, *([width] * depth), 1]
    return {
        "X": rng.standard_normal((samples, 3)),
        **{f"W{k}": rng.standard_normal((sizes[k + 1], sizes[k])) for k in range(depth + 1)},
        "F": function,
        "c": float(rng.uniform(-1, 1)),
        "s": float(rng.uniform(0.3, 2)),
    }


def _networks(rng: Rng, count: int) -> Iterator[Instance]:
    yield {
        "X": np.array([[1.0], [2.0], [4.0]]),
        "W0": np.array([[1.0], [-2.0]]),
        "W1": np.array([[1.0, 3.0]]),
        "F": "relu",
        "c": 0.4,
        "s": 0.6,  # about the mean and the deviation of ReLU
    }
    for _ in range(count):
        depth, samples, width = int(rng.integers(1, 4)), int(rng.integers(3, 7)), int(rng.integers(2, 5))
        yield _network(rng, str(rng.choice(FUNCTIONS)), depth, samples, width)


def _weights(i: Instance) -> list[Any]:
    return [i[f"W{k}"] for k in range(sum(key.startswith("W") for key in i))]


def _moved(i: Instance) -> Callable[[Any], Any]:
    function = elementwise(i["F"])
    return lambda z: (function(z) - i["c"]) / i["s"]


def _difference(network: Callable[..., Any], **options: Any) -> Callable[[Instance], Numeric]:
    """max |f − f̃|, σ against (σ − c)/s."""

    def gap(i: Instance) -> Numeric:
        plain = network(i["X"], _weights(i), elementwise(i["F"]), **options)
        return abs(plain - network(i["X"], _weights(i), _moved(i), **options)).max()

    return gap


def _smooth_deviation(i: Instance) -> bool:
    """No unit is constant over the batch, and no sample over its units."""
    with np.errstate(all="ignore"):
        outputs = [
            batch_norm_network(i["X"], _weights(i), elementwise(i["F"])),
            layer_norm_network(i["X"], _weights(i), elementwise(i["F"])),
            batch_norm_network(i["X"], _weights(i), _moved(i)),
        ]
    return all(bool(np.isfinite(np.asarray(value, dtype=float)).all()) for value in outputs)


def _batches(rng: Rng, count: int) -> Iterator[Instance]:
    yield {"V": np.array([[1.0, 2.0], [3.0, 5.0], [0.0, 4.0]]), "w": np.array([1.0, -3.0]), "c": 0.5, "s": 2.0}
    for _ in range(count):
        b, m = rng.integers(2, 6, 2)
        yield {
            "V": rng.standard_normal((int(b), int(m))),
            "w": rng.standard_normal(int(m)),
            "c": float(rng.uniform(-1, 1)),
            "s": float(rng.uniform(0.3, 2)),
        }


def _layer_mean(i: Instance) -> tuple[Numeric, Numeric]:
    """The same for layer norm: v = σ/√m over the units of one sample."""
    m = i["V"].shape[1]
    root = sqrt(i["V"][0, 0] * 0 + m)
    plain = (i["V"][0] / root).sum() / m
    return ((i["V"][0] - i["c"]) / (i["s"] * root)).sum() / m, (plain - i["c"]) / i["s"]


def _layer_mean_right(i: Instance) -> tuple[Numeric, Numeric]:
    m = i["V"].shape[1]
    root = sqrt(i["V"][0, 0] * 0 + m)
    return _layer_mean(i)[0], ((i["V"][0] / root).sum() / m - i["c"] / root) / i["s"]


def _batch_mean(i: Instance) -> tuple[Numeric, Numeric]:
    return printed_mean_gap(i["V"], i["w"], i["c"], i["s"])


def _batch_mean_right(i: Instance) -> Numeric:
    root = sqrt(i["V"][0, 0] * 0 + i["V"].shape[1])
    mean = (i["V"] @ i["w"] / root).sum() / len(i["V"])
    return (mean - i["c"] * i["w"].sum() / root) / i["s"]


CLAIMS = (
    deterministic(
        "004/lem-1:batch-norm",
        vanishes(_difference(batch_norm_network)),
        {"random": _networks},
        hypotheses=_smooth_deviation,
        tolerance=1e-7,
        counts=(60, 400),
    ),
    deterministic(
        "004/lem-1:hidden-only",
        vanishes(_difference(batch_norm_network, last=False)),
        {"random": _networks},
        hypotheses=_smooth_deviation,
        tolerance=1e-7,
        counts=(60, 400),
    ),
    deterministic(
        "004/lem-1:layer-norm",
        vanishes(_difference(layer_norm_network)),
        {"random": _networks},
        hypotheses=_smooth_deviation,
        tolerance=1e-7,
        counts=(60, 400),
    ),
    deterministic(
        "004/lem-1:step-bn",
        equal(lambda i: _batch_mean(i)[0], lambda i: _batch_mean(i)[1]),
        {"random": _batches},
        scale=1,
    ),
    deterministic(
        "004/lem-1:step-bn#corrected",
        equal(lambda i: _batch_mean(i)[0], _batch_mean_right),
        {"random": _batches},
        scale=1,
    ),
    deterministic(
        "004/lem-1:step-ln",
        equal(lambda i: _layer_mean(i)[0], lambda i: _layer_mean(i)[1]),
        {"random": _batches},
        scale=1,
    ),
    deterministic(
        "004/lem-1:step-ln#corrected",
        equal(lambda i: _layer_mean_right(i)[0], lambda i: _layer_mean_right(i)[1]),
        {"random": _batches},
        scale=1,
    ),
)
