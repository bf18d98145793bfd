"""000, the layer, §II and the initialisers."""

from __future__ import annotations

import math
from collections.abc import Iterator
from functools import lru_cache

import numpy as np

from isometer.metrics import batch_normalize
from isometer_papers.claims._claim import Estimate, Instance
from isometer_papers.claims._families import Rng, cases
from isometer_papers.claims._statements import (
    Sampled,
    above,
    below,
    deterministic,
    empirical,
    equal,
    expectation,
    vanishes,
)
from isometer_papers.float_or_mpmath import Numeric, is_precise
from isometer_papers.theory.odd_point.layer import centred_batch, expected_square, invariant_batch
from isometer_papers.theory.rank.relu import rectified


def _layers(rng: Rng, count: int) -> Iterator[Instance]:
    yield {"X": np.array([[0.0], [2.0]]), "W": np.array([[1.0]])}
    for _ in range(count):
        n, k, d = (int(v) for v in rng.integers(2, 7, 3))
        x = rng.standard_normal((n, k)) * 10.0 ** rng.uniform(-3, 3) + rng.standard_normal(k)
        yield {"X": x, "W": rng.standard_normal((d, k))}


def _varies(i: Instance) -> bool:
    """σ > 0 for every neuron."""
    z = np.asarray(i["X"] @ i["W"].T, dtype=float)
    return bool((z.std(axis=0) > 1e-9 * np.abs(z).max()).all())


def _normalized(i: Instance) -> Numeric:
    z = i["X"] @ i["W"].T
    if not is_precise(z):
        return batch_normalize(z)
    centred = z - z.sum(axis=0) / len(z)
    return centred / ((centred * centred).sum(axis=0) / len(z)) ** 0.5


def _networks(rng: Rng, count: int) -> Iterator[Instance]:
    yield {"X": np.array([[1.0, 0.0], [0.0, 1.0]]), "W1": np.eye(2), "W2": np.eye(2), "W3": np.eye(2)}
    for _ in range(count):
        n, k, d = (int(v) for v in rng.integers(1, 6, 3))
        weights = [rng.standard_normal((d, k)), rng.standard_normal((d, d)), rng.standard_normal((d, d))]
        yield {"X": rng.standard_normal((n, k)) + 3, **{f"W{j + 1}": w for j, w in enumerate(weights)}}


def _centred(z: Numeric) -> Numeric:
    return z - z.sum(axis=0) / len(z)


def _network_gap(i: Instance) -> Numeric:
    """RC at every layer against RC at the first only, the largest difference."""
    every = once = _centred(i["X"] @ i["W1"].T)
    for name in ("W2", "W3"):
        every, once = _centred(every @ i[name].T), once @ i[name].T
    return abs(every - once).max()


def _sum_gap(i: Instance) -> Numeric:
    return abs((_centred(i["X"]) @ i["W1"].T).sum(axis=0)).max()


# --- initialisers ------------------------------------------------------------


@lru_cache(maxsize=4)
def _default_variance(fan_in: int) -> Estimate:
    """fan_in · Var of PyTorch's default weights of a linear layer."""
    import torch

    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(fan_in)
        weight = torch.nn.Linear(fan_in, 4000, bias=False).weight.detach().double().numpy()
    return Estimate.of((fan_in * weight**2).ravel())


def _he_change(i: Instance, rng: Rng) -> Estimate:
    """‖relu(Wx)‖²/‖x‖² with d = k and variance 2/fan_in, by draws."""
    k = i["k"]
    x = rng.standard_normal((k,))
    found = []
    for _ in range(i["draws"]):
        w = rng.standard_normal((k, k)) * math.sqrt(2 / k)
        found.append(float((rectified(np.matmul(w, x)) ** 2).sum() / (x**2).sum()))
    return Estimate.of(found)


def _drawn_square(i: Instance, rng: Rng) -> Estimate:
    """‖x_1⁺‖² of an odd point and its cluster, with weights from the initialiser."""
    import torch

    from isometer.init import odd_point_

    n, radius = i["n"], i.get("R")
    x = invariant_batch(n, 4)
    if radius is not None:
        x = np.zeros((n, 4))
        x[0, 0] = radius
    tilde = centred_batch(x)[0]
    found = []
    for seed in rng.integers(1 << 31, size=(i["draws"],)).tolist():
        weight = torch.empty(i["d"], 4, dtype=torch.float64)
        odd_point_(weight, samples=n, radius=radius, seed=seed)
        found.append(float((rectified(weight.numpy() @ tilde) ** 2).sum()))
    return Estimate.of(found)


def _distinct_points(rng: Rng, count: int) -> Iterator[Instance]:
    """Samples of one length: each is an extreme point."""
    for _ in range(count):
        n, k = int(rng.integers(2, 8)), int(rng.integers(2, 6))
        x = rng.standard_normal((n, k))
        yield {"X": x / np.linalg.norm(x, axis=1, keepdims=True)}


def _responses(i: Instance) -> Numeric:
    import torch

    from isometer.init import one_neuron_per_sample_

    x = np.asarray(i["X"], dtype=float)
    layer = torch.nn.Linear(x.shape[1], len(x)).double()
    one_neuron_per_sample_(layer, torch.as_tensor(x))
    with torch.no_grad():
        return torch.relu(layer(torch.as_tensor(x))).numpy()


def _off_diagonal(i: Instance) -> float:
    gram = _responses(i) @ _responses(i).T
    return float(np.abs(gram - np.diag(np.diag(gram))).max())


def _active_share(i: Instance) -> float:
    return float((_responses(i) > 0).mean())


def _lines(rng: Rng, count: int) -> Iterator[Instance]:
    yield {"x": np.array([0.0, 1.0, 2.0]), "index": 1}
    for _ in range(count):
        x = rng.standard_normal(int(rng.integers(2, 6)))
        yield {"x": x, "index": int(rng.integers(len(x)))}


def _lead(i: Instance) -> Numeric:
    """How far a sample of one feature lies beyond all others: a neuron can answer to it alone if that is positive."""
    own = i["x"][i["index"]]
    others = [value for j, value in enumerate(i["x"]) if j != i["index"]]
    return max(own - max(others), min(others) - own)


CLAIMS = (
    deterministic(
        "000/def-layer:mean",
        vanishes(lambda i: abs(_normalized(i).sum(axis=0)).max()),
        {"random": _layers},
        hypotheses=_varies,
    ),
    deterministic(
        "000/def-layer:variance",
        vanishes(lambda i: abs((_normalized(i) ** 2).sum(axis=0) / len(i["X"]) - 1).max()),
        {"random": _layers},
        hypotheses=_varies,
    ),
    deterministic("000/rc-linear:sum", vanishes(_sum_gap), {"random": _networks}),
    deterministic("000/rc-linear:network", vanishes(_network_gap), {"random": _networks}),
    empirical(
        "000/init-he:pytorch",
        below(Sampled(lambda i, rng: _default_variance(i["fan_in"])), 2.0),
        {"widths": cases({"fan_in": 64}, {"fan_in": 256})},
        counts=(2, 2),
        resolution=0.5,
    ),
    expectation(
        "000/init-he:length",
        equal(Sampled(_he_change), lambda i: float(expected_square(np.ones(1), 2.0))),
        {"widths": cases({"k": 64, "draws": 3000}, {"k": 20, "draws": 10000})},
        counts=(1, 2),
        resolution=0.05,
    ),
    expectation(
        "000/init-thm13",
        equal(Sampled(_drawn_square), 1.0),
        {"sizes": cases({"n": 5, "d": 200, "draws": 900}, {"n": 2, "d": 400, "draws": 900})},
        counts=(1, 2),
    ),
    expectation(
        "000/init-thm14",
        equal(Sampled(_drawn_square), 1.0),
        {"sizes": cases({"n": 5, "R": 2.0, "d": 200, "draws": 900}, {"n": 3, "R": 7.0, "d": 400, "draws": 900})},
        counts=(1, 2),
    ),
    deterministic(
        "000/init-one-neuron-per-sample:orthogonal",
        vanishes(_off_diagonal),
        {"sphere": _distinct_points},
        counts=(20, 100),
    ),
    deterministic(
        "000/init-one-neuron-per-sample:sparse",
        equal(_active_share, lambda i: 1 / len(i["X"])),
        {"sphere": _distinct_points},
        counts=(20, 100),
    ),
    deterministic("000/init-one-neuron-per-sample:every", above(_lead, 0), {"line": _lines}, scale=1),
    deterministic(
        "000/init-one-neuron-per-sample:every#corrected",
        above(_lead, 0),
        {"line": _lines},
        hypotheses=lambda i: bool(i["x"][i["index"]] in (min(i["x"]), max(i["x"]))),
        tolerance=1e-12,
        scale=1,
    ),
)
