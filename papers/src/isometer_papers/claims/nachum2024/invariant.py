"""000, §III and Appendix F: the invariant geometry of recentring and ReLU, Theorem 13."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from isometer_papers.claims._claim import Estimate, Instance
from isometer_papers.claims._families import Rng, cases, extended
from isometer_papers.claims._statements import Sampled, deterministic, equal, expectation, vanishes
from isometer_papers.float_or_mpmath import Numeric
from isometer_papers.theory.odd_point.layer import (
    centred_batch,
    expected_square,
    invariance_factor,
    invariant_batch,
    mean_image_product,
)
from isometer_papers.theory.rank.relu import rectified


def _invariant(rng: Rng, count: int) -> Iterator[Instance]:
    for n in range(2, 2 + count):
        yield {"X": invariant_batch(n)}


def rotated(rng: Rng, count: int) -> Iterator[Instance]:
    for _ in range(count):
        n, k = int(rng.integers(2, 20)), int(rng.integers(2, 6))
        turn, _ = np.linalg.qr(rng.standard_normal((k, k)))
        yield {"X": invariant_batch(n, k) @ turn}


INVARIANT = {"plain": _invariant, "rotated": rotated}


def clusters(rng: Rng, count: int) -> Iterator[Instance]:
    """An odd point at R > n/(n − 1) and a cluster of radius below 1/n², in any place."""
    yield {"X": np.array([[3.0, 0.0], [0.0, 0.125], [0.0, -0.125]])}
    yield {"X": np.array([[4.0], [0.05], [-0.05]])}
    for _ in range(count):
        n, k = int(rng.integers(2, 9)), int(rng.integers(1, 5))
        spread = rng.standard_normal((n - 1, k))
        spread -= spread.mean(axis=0)
        size = float(np.linalg.norm(spread, axis=1).max())
        spread *= float(rng.uniform(0.05, 0.99)) / n**2 / size if size > 0 else 0.0
        direction = rng.standard_normal(k)
        radius = n / (n - 1) * (1 + 10.0 ** float(rng.uniform(-3, 1)))
        centre = rng.standard_normal(k)
        odd = centre + radius * direction / np.linalg.norm(direction)
        yield {"X": np.concatenate([odd[None], centre + spread])}


def _energy13(i: Instance) -> Numeric:
    """dσ² = 2α of Theorem 13."""
    return 2 * invariance_factor(len(i["X"]), i["X"].sum() * 0 + 1)


def image_product(i: Instance) -> Numeric:
    """x_1⁺ · ν̂_c for given weights."""
    z = centred_batch(i["X"]) @ i["W"].T
    return rectified(z[0]) @ rectified(z[-1])


def _sampled_square(i: Instance, rng: Rng) -> Estimate:
    w = rng.standard_normal((i["draws"], i["d"], len(i["x"]))) * i["sigma"]
    return Estimate.of((rectified(w @ i["x"]) ** 2).sum(axis=1))


def _antiparallel(rng: Rng, count: int) -> Iterator[Instance]:
    for _ in range(count):
        v = rng.standard_normal(int(rng.integers(1, 8)))
        yield {"u": -float(rng.uniform(0.01, 5)) * v, "v": v}


def _sizes(rng: Rng, count: int) -> Iterator[Instance]:
    for n in range(2, 2 + count):
        yield {"n": n, "x": 1.0}


def _tilde_norm(i: Instance, row: int) -> Numeric:
    tilde = centred_batch(invariant_batch(i["n"]))[row]
    return tilde @ tilde


def _exact_invariant(n: int, one: Any) -> Any:
    batch = np.full((n, 2), one * 0, dtype=object)
    batch[0, 0] = one
    batch[1:, 1] = one / (n - 1)
    return centred_batch(batch)


def _exact_norm(i: Instance, row: int) -> Numeric:
    tilde = _exact_invariant(i["n"], i["x"])[row]
    return tilde @ tilde


def _coordinates(tilde: Numeric, n: int) -> Numeric:
    """Largest difference to the printed coordinates, both vectors."""
    one = tilde[0, 0] * 0 + 1
    first = [one * (n - 1) / n, -one / n]
    last = [-one / n, one / (n * (n - 1))]
    return max(
        abs(a - b) for row, printed in ((0, first), (-1, last)) for a, b in zip(tilde[row], printed, strict=True)
    )


def _anti(tilde: Numeric) -> Numeric:
    """(n − 1) x̃_{n+1} + x̃_1, the largest entry."""
    n = len(tilde) - 1
    return max(abs(v) for v in (n - 1) * tilde[-1] + tilde[0])


def _item13(row: int) -> Callable[[Instance], Numeric]:
    def quantity(i: Instance) -> Numeric:
        tilde = centred_batch(i["X"])
        return mean_image_product(tilde[row], tilde[row], _energy13(i))

    return quantity


def _columns_gap(i: Instance) -> Numeric:
    """Largest difference between the images of x_2 … x_n and of ν_c, for given weights."""
    image = rectified(centred_batch(i["X"]) @ i["W"].T)
    return abs(image[1:] - image[-1]).max()


_rotated_weights = extended(rotated, lambda rng, i: {"W": rng.standard_normal((3, i["X"].shape[1]))})


CLAIMS = (
    deterministic(
        "000/eq-101-104:coordinates",
        vanishes(lambda i: _coordinates(centred_batch(invariant_batch(i["n"])), i["n"])),
        {"sizes": _sizes},
        exact=lambda i: (_coordinates(_exact_invariant(i["n"], i["x"]), i["n"]), 0),
        counts=(30, 100),
    ),
    deterministic(
        "000/eq-101-104:odd",
        equal(lambda i: _tilde_norm(i, 0), lambda i: (i["n"] ** 2 - 2 * i["n"] + 2) / i["n"] ** 2),
        {"sizes": _sizes},
        exact=lambda i: (_exact_norm(i, 0), i["x"] * (i["n"] ** 2 - 2 * i["n"] + 2) / i["n"] ** 2),
        counts=(30, 100),
    ),
    deterministic(
        "000/eq-101-104:centre",
        equal(lambda i: _tilde_norm(i, -1), lambda i: (i["n"] ** 2 - 2 * i["n"] + 2) / (i["n"] * (i["n"] - 1)) ** 2),
        {"sizes": _sizes},
        exact=lambda i: (
            _exact_norm(i, -1),
            i["x"] * (i["n"] ** 2 - 2 * i["n"] + 2) / (i["n"] * (i["n"] - 1)) ** 2,
        ),
        counts=(30, 100),
    ),
    deterministic(
        "000/eq-101-104:opposite", vanishes(lambda i: _anti(centred_batch(i["X"]))), {**INVARIANT, "clusters": clusters}
    ),
    expectation(
        "000/eq-95-98",
        equal(Sampled(_sampled_square), lambda i: float(expected_square(i["x"], i["d"] * i["sigma"] ** 2))),
        {
            "draws": cases(
                {"x": np.array([3.0, 4.0]), "d": 2, "sigma": 1.0, "draws": 100_000},
                {"x": np.array([1.0, -1.0, 2.0]), "d": 5, "sigma": 0.3, "draws": 50_000},
                {"x": np.array([0.1]), "d": 1, "sigma": 2.0, "draws": 200_000},
            )
        },
        counts=(2, 3),
    ),
    deterministic(
        "000/antiparallel", vanishes(lambda i: rectified(i["u"]) @ rectified(i["v"])), {"random": _antiparallel}
    ),
    expectation("000/thm-13:item-1", equal(_item13(0), 1), INVARIANT, counts=(20, 100)),
    expectation(
        "000/thm-13:item-1#corrected",
        equal(lambda i: expected_square(centred_batch(i["X"])[0], _energy13(i)), 1),
        INVARIANT,
        counts=(20, 100),
    ),
    expectation(
        "000/thm-13:item-2", equal(_item13(-1), lambda i: 1 / (len(i["X"]) - 1) ** 2), INVARIANT, counts=(20, 100)
    ),
    expectation(
        "000/thm-13:item-2#corrected",
        equal(
            lambda i: expected_square(centred_batch(i["X"])[-1], _energy13(i)),
            lambda i: (i["X"].sum() * 0 + 1) / (len(i["X"]) - 1) ** 2,
        ),
        INVARIANT,
        counts=(20, 100),
    ),
    expectation(
        "000/thm-13:item-3",
        vanishes(lambda i: mean_image_product(centred_batch(i["X"])[0], centred_batch(i["X"])[-1], _energy13(i))),
        INVARIANT,
        counts=(20, 100),
    ),
    deterministic("000/thm-13:item-3#corrected", vanishes(image_product), {"rotated": _rotated_weights}),
    expectation("000/thm-13:item-4", vanishes(_columns_gap), {"rotated": _rotated_weights}),
)
