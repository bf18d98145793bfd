"""000, §I and Appendix B: cells of the weights, Lemma 2, the image of a layer."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from isometer_papers.claims._claim import Estimate, Instance, Search
from isometer_papers.claims._families import Rng
from isometer_papers.claims._precise import numerical_rank
from isometer_papers.claims._statements import Sampled, at_least, at_most, below, deterministic, equal, probability
from isometer_papers.claims.nachum2024.instances import collinear, plane_batches, proportion
from isometer_papers.float_or_mpmath import Numeric
from isometer_papers.theory.rank.relu import (
    circle_batch,
    circle_cell_volumes,
    least_cell_volume,
    nearest_column,
    plane_cells,
    rank_gain_probability,
    rectified,
    sampled_least_cell_volume,
    sign_flip,
)


def _factors(rng: Rng, count: int) -> Iterator[Instance]:
    yield {"A": np.eye(2), "B": np.eye(2)}
    for _ in range(count):
        a, b, c = (int(v) for v in rng.integers(1, 6, 3))
        left, right = rng.standard_normal((a, b)), rng.standard_normal((b, c))
        for factor in (left, right):
            if rng.integers(2) and min(factor.shape) > 1:
                factor[-1] = factor[0]
                factor[:, -1] = factor[:, 0]
        yield {"A": left, "B": right}


def _circles(rng: Rng, count: int) -> Iterator[Instance]:
    for n in range(3, 3 + 2 * count, 2):
        yield {"n": n}


def _rank_of_first(x: Numeric, w: Numeric) -> int:
    t = len(x) - 1
    return numerical_rank(rectified(x[:t] @ w.T)) if t and len(w) else 0


def _lemma_states(i: Instance) -> bool:
    """Hypotheses of Lemma 2."""
    return not collinear(i["X"]) and _rank_of_first(i["X"], i["W"]) == len(i["X"]) - 1


def _states(rng: Rng, count: int) -> Iterator[Instance]:
    yield {"X": np.array([[1.0, 0.0]]), "W": np.zeros((0, 2))}
    yield {"X": np.array([[1.0, 0.0], [0.0, 1.0]]), "W": np.array([[1.0, 0.0]])}
    for instance in plane_batches(rng, count, 1, 6):
        x = instance["X"]
        rows: list[Any] = []
        whole = bool(rng.integers(2))
        while _rank_of_first(x, np.array(rows).reshape(-1, 2)) < len(x) - 1 and len(rows) < 60:
            rows.append(rng.integers(-3, 4, 2).astype(float) if whole else rng.standard_normal(2))
        yield {"X": x, "W": np.array(rows).reshape(-1, 2)}


def _angles(point: Numeric) -> Numeric:
    angle = 2 * np.pi * np.asarray(point)
    return np.stack([np.cos(angle), np.sin(angle)], axis=1)


STATES = Search(lambda p: {"X": _angles(p[:3]), "W": _angles(p[3:])}, 5)


def _sampled_gamma(key: bytes, n: int, k: int) -> float:
    x = np.frombuffer(key).reshape(n, k)
    return sampled_least_cell_volume(x, draws=100_000, rng=np.random.default_rng(n * 31 + k))


def _spatial_gamma(i: Instance) -> float:
    x = np.ascontiguousarray(i["X"], dtype=float)
    return _sampled_gamma(x.tobytes(), *x.shape)


def _spatial_states(rng: Rng, count: int) -> Iterator[Instance]:
    """Three or four features, more samples than features, rank not yet full with the last sample."""
    made = 0
    while made < count:
        k = int(rng.integers(3, 5))
        x = rng.standard_normal((k + 2, k))
        w = rng.standard_normal((len(x) - 1, k))
        if _rank_of_first(x, w) == len(x) - 1:
            made += 1
            yield {"X": x, "W": w}


def _gain(i: Instance, rng: Rng) -> Estimate:
    x, w = i["X"], i["W"]
    draws, hits = 2000, 0
    for _ in range(draws):
        hidden = rectified(np.concatenate([w, rng.standard_normal((1, x.shape[1]))]) @ x.T)
        hits += numerical_rank(hidden) == len(x)
    return proportion(hits, draws)


def _sub_batches(rng: Rng, count: int) -> Iterator[Instance]:
    for instance in plane_batches(rng, count, 2, 7):
        x = instance["X"]
        kept = rng.permutation(len(x))[: int(rng.integers(1, len(x)))]
        yield {"X": x, "kept": np.sort(kept).tolist()}


def _flips(rng: Rng, count: int) -> Iterator[Instance]:
    yield {"X": np.array([[0.5, 0.0], [0.0, 1.0]]), "w": np.array([1.0, 4.0])}
    yield {"X": np.array([[0.5, 0.0], [4.0, -2.0]]), "w": np.array([1.0, 1.0])}
    for instance in plane_batches(rng, count, 2, 5):
        yield {"X": instance["X"], "w": rng.standard_normal(2)}


def _flips_apart(i: Instance) -> bool:
    """No product is zero, as for almost every w."""
    return bool(np.abs(np.asarray(i["X"] @ i["w"], dtype=float)).min() > 1e-3)


def _flipped(i: Instance, normalized: bool, squared: bool) -> Numeric:
    """The product of the chosen sample after the step, times its sign before."""
    index = nearest_column(i["X"], i["w"], normalized=normalized)
    before = i["X"] @ i["w"]
    after = sign_flip(i["X"], i["w"], index, squared=squared)
    return after[index] * (1 if before[index] > 0 else -1)


def _others(i: Instance, normalized: bool) -> int:
    """How many other products change their sign."""
    index = nearest_column(i["X"], i["w"], normalized=normalized)
    before = i["X"] @ i["w"]
    after = sign_flip(i["X"], i["w"], index, squared=True, beyond=1e-9)
    return sum((before[j] > 0) != (after[j] > 0) for j in range(len(before)) if j != index)


CLAIMS = (
    deterministic(
        "000/rank-linear",
        at_most(
            lambda i: numerical_rank(i["A"] @ i["B"]), lambda i: max(numerical_rank(i["A"]), numerical_rank(i["B"]))
        ),
        {"random": _factors},
    ),
    deterministic(
        "000/rank-linear:layers",
        at_most(lambda i: numerical_rank(i["A"] @ i["B"]), lambda i: numerical_rank(i["B"])),
        {"random": _factors},
    ),
    deterministic(
        "000/example-circle:cells",
        equal(lambda i: len(plane_cells(circle_batch(i["n"])).volumes), lambda i: i["n"]),
        {"odd": _circles},
        exact=lambda i: (len(circle_cell_volumes(i["n"])), i["n"]),
        counts=(10, 20),
    ),
    deterministic(
        "000/example-circle:cells#corrected",
        equal(lambda i: len(plane_cells(circle_batch(i["n"])).volumes), lambda i: 2 * i["n"]),
        {"odd": _circles},
        exact=lambda i: (len(circle_cell_volumes(i["n"])), 2 * i["n"]),
        counts=(10, 20),
    ),
    deterministic(
        "000/example-circle:gamma",
        equal(lambda i: least_cell_volume(circle_batch(i["n"])), lambda i: 1 / i["n"]),
        {"odd": _circles},
        exact=lambda i: (float(min(circle_cell_volumes(i["n"]))), 1 / i["n"]),
        counts=(10, 20),
    ),
    deterministic(
        "000/example-circle:gamma#corrected",
        equal(lambda i: least_cell_volume(circle_batch(i["n"])), lambda i: 1 / (2 * i["n"])),
        {"odd": _circles},
        exact=lambda i: (float(min(circle_cell_volumes(i["n"]))), 1 / (2 * i["n"])),
        counts=(10, 20),
    ),
    probability(
        "000/lem-2",
        at_least(lambda i: rank_gain_probability(i["X"], i["W"]), lambda i: least_cell_volume(i["X"])),
        {"states": _states},
        hypotheses=_lemma_states,
        search=STATES,
    ),
    probability(
        "000/lem-2:space",
        at_least(Sampled(_gain), _spatial_gamma),
        {"states": _spatial_states},
        hypotheses=_lemma_states,
        counts=(6, 20),
        resolution=0.2,
    ),
    deterministic(
        "000/lem-2:subset",
        at_least(lambda i: least_cell_volume(i["X"][i["kept"]]), lambda i: least_cell_volume(i["X"])),
        {"random": _sub_batches},
    ),
    deterministic(
        "000/lem-2:eq-19",
        below(lambda i: _flipped(i, False, False), 0),
        {"random": _flips},
        hypotheses=_flips_apart,
        scale=1,
    ),
    deterministic(
        "000/lem-2:eq-19#corrected",
        below(lambda i: _flipped(i, True, True), 0),
        {"random": _flips},
        hypotheses=_flips_apart,
        scale=1,
        tolerance=1e-12,
    ),
    deterministic(
        "000/lem-2:eq-20", at_most(lambda i: _others(i, False), 0), {"random": _flips}, hypotheses=_flips_apart, scale=1
    ),
    deterministic(
        "000/lem-2:eq-20#corrected",
        at_most(lambda i: _others(i, True), 0),
        {"random": _flips},
        hypotheses=_flips_apart,
        scale=1,
    ),
)
