"""000, §III and Appendix F: the stability of the invariant geometry, Theorem 14."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator

import numpy as np

from isometer_papers.claims._claim import Claim, Estimate, Instance, Search
from isometer_papers.claims._families import Family, Rng, cases
from isometer_papers.claims._statements import (
    Comparison,
    Sampled,
    Side,
    above,
    at_least,
    at_most,
    below,
    deterministic,
    equal,
    expectation,
    vanishes,
)
from isometer_papers.claims.nachum2024.invariant import INVARIANT, clusters, image_product, rotated
from isometer_papers.float_or_mpmath import Numeric
from isometer_papers.theory.odd_point.layer import (
    centred_batch,
    cluster_centre,
    expected_length,
    expected_product,
    expected_square,
    expected_squared_distance,
    invariance_factor,
    invariant_defects,
    odd_distance,
    stability_factor,
)
from isometer_papers.theory.rank.relu import rectified


def _loose(i: Instance) -> bool:
    """Theorem 14 without the word invariant."""
    x = np.asarray(i["X"], dtype=float)
    n = len(x)
    apart = np.linalg.norm(x[1:] - cluster_centre(x), axis=1).max()
    return bool(odd_distance(x) > n / (n - 1) * (1 + 1e-12) and apart < 1 / n**2)


def _to_the_letter(i: Instance) -> bool:
    x = np.asarray(i["X"], dtype=float)
    return max(abs(float(v)) for v in invariant_defects(x)) < 1e-9 and _loose(i)


def _empty(i: Instance) -> str:
    n = len(i["X"])
    return (
        f"an invariant representation has ‖x_1 − ν_c‖² = 1 + 1/(n−1)², at n = {n} "
        f"R = {math.sqrt(1 + 1 / (n - 1) ** 2):.6g}, below n/(n − 1) = {n / (n - 1):.6g}"
    )


def _energy14(i: Instance) -> Numeric:
    return 2 * stability_factor(len(i["X"]), odd_distance(i["X"]))


def _outside(item: int, compare: Callable[[Side, float], Comparison] = equal) -> Claim:
    """An item of Theorem 14 with its printed hypotheses."""
    return expectation(
        f"000/thm-14:item-{item}",
        compare(lambda i: 1, 0),
        INVARIANT,
        hypotheses=_to_the_letter,
        witness=_empty,
    )


def _widths(generate: Family) -> Family:
    def generator(rng: Rng, count: int) -> Iterator[Instance]:
        for j, instance in enumerate(generate(rng, count)):
            yield {**instance, "d": 1 + j % 12}

    return generator


def _length14(i: Instance, row: int) -> Numeric:
    """E‖·‖ of the image of a centred row with the variance of Theorem 14."""
    return expected_length(centred_batch(i["X"])[row], i["d"], _energy14(i) / i["d"])


def _with_weights(rng: Rng, count: int) -> Iterator[Instance]:
    for instance in [*clusters(rng, count), *rotated(rng, count // 2)]:
        x = instance["X"]
        yield {**instance, "W": rng.standard_normal((int(rng.integers(1, 6)), x.shape[1]))}


def _pairs_of(generate: Family) -> Family:
    """With two different indices of 2 … n + 1."""

    def generator(rng: Rng, count: int) -> Iterator[Instance]:
        for instance in generate(rng, count):
            n = len(instance["X"])
            if n > 2:
                first, second = (int(v) for v in rng.permutation(np.arange(1, n + 1))[:2])
                yield {**instance, "i": first, "j": second}

    return generator


def _differ(i: Instance) -> bool:
    tilde = np.asarray(centred_batch(i["X"]), dtype=float)
    return bool(np.abs(tilde[i["i"]] - tilde[i["j"]]).max() > 1e-12)


def _input_distance(i: Instance) -> Numeric:
    tilde = centred_batch(i["X"])
    difference = tilde[i["i"]] - tilde[i["j"]]
    return difference @ difference


def _output_distance(i: Instance, energy: Numeric) -> Numeric:
    tilde = centred_batch(i["X"])
    return expected_squared_distance(tilde[i["i"]], tilde[i["j"]], energy)


def _cluster_before(i: Instance) -> Numeric:
    """Σ ‖x_i − ν_c‖² over the cluster."""
    tilde = centred_batch(i["X"])
    return sum(((row - tilde[-1]) ** 2).sum() for row in tilde[1:-1])


def _cluster_after(i: Instance) -> Numeric:
    """Σ E‖x_i⁺ − ν̂_c‖² over the cluster."""
    tilde = centred_batch(i["X"])
    return sum(expected_squared_distance(row, tilde[-1], _energy14(i)) for row in tilde[1:-1])


def _odd_distance_after(i: Instance) -> Numeric:
    """E‖x_1⁺ − ν̂_c‖², which is 1 + 1/(n−1)²."""
    tilde = centred_batch(i["X"])
    return expected_squared_distance(tilde[0], tilde[-1], _energy14(i))


TRIANGLE = {"X": np.array([[4.0, 0.0], [0.0, 0.05], [0.0, -0.05]]), "i": 1, "j": 2}
"""An odd point and a cluster of two samples beside the origin."""


def _vectors(rng: Rng, count: int) -> Iterator[Instance]:
    yield {"x": np.array([1.0, 2.0]), "y": np.array([2.0, 4.0])}
    yield {"x": np.array([1.0, 0.0]), "y": np.array([0.0, 1.0])}
    yield {"x": np.array([1.0]), "y": np.array([-1.0])}
    for _ in range(count):
        k = int(rng.integers(2, 5))
        x = rng.standard_normal(k)
        y = x * 10 ** rng.uniform(-1, 1) + 10 ** rng.uniform(-3, 1) * rng.standard_normal(k)
        yield {"x": x, "y": y}


def _cosine(i: Instance) -> float:
    x, y = (np.asarray(i[name], dtype=float) for name in "xy")
    return float(x @ y / math.sqrt((x @ x) * (y @ y)))


TURN = Search(
    lambda p: {"x": np.array([1.0, 0.0]), "y": np.array([math.cos(3 * p[0] + 0.1), math.sin(3 * p[0] + 0.1)])}, 1
)


_products = cases(
    *(
        {"x": np.array([1.0, 0.0]), "y": np.array([cosine, math.sqrt(1 - cosine**2)]), "d": 3, "draws": 60_000}
        for cosine in (0.0, 0.9, -0.5, 0.5, -0.2)
    )
)


def _sampled_product(i: Instance, rng: Rng) -> Estimate:
    """Mean of relu(Wx)·relu(Wy) over draws of W with variance 2/d."""
    w = rng.standard_normal((i["draws"], i["d"], len(i["x"]))) * math.sqrt(2 / i["d"])
    return Estimate.of((rectified(w @ i["x"]) * rectified(w @ i["y"])).sum(axis=1))


def _parallel_clusters(rng: Rng, count: int) -> Iterator[Instance]:
    """Centred samples on one line, two of them on one side."""
    yield {"X": np.array([[-3.0], [1.0], [2.0]]), "i": 1, "j": 2}
    yield from _pairs_of(clusters)(rng, count)


CLAIMS = (
    _outside(1),
    expectation(
        "000/thm-14:item-1#corrected",
        equal(lambda i: expected_square(centred_batch(i["X"])[0], _energy14(i)), 1),
        {"clusters": clusters},
    ),
    expectation(
        "000/thm-14:item-1-unsquared",
        equal(lambda i: _length14(i, 0), 1),
        {"clusters": _widths(clusters)},
        hypotheses=_loose,
    ),
    _outside(2),
    expectation(
        "000/thm-14:item-2#corrected",
        equal(
            lambda i: expected_square(centred_batch(i["X"])[-1], _energy14(i)),
            lambda i: (i["X"].sum() * 0 + 1) / (len(i["X"]) - 1) ** 2,
        ),
        {"clusters": clusters},
    ),
    expectation(
        "000/thm-14:item-2-unsquared",
        equal(lambda i: _length14(i, -1), lambda i: (i["X"].sum() * 0 + 1) / (len(i["X"]) - 1)),
        {"clusters": _widths(clusters)},
        hypotheses=_loose,
    ),
    _outside(3),
    deterministic("000/thm-14:item-3#corrected", vanishes(image_product), {"random": _with_weights}),
    _outside(4, below),
    expectation(
        "000/thm-14:item-4#corrected",
        below(lambda i: _output_distance(i, _energy14(i)), _input_distance),
        {"clusters": _pairs_of(clusters)},
        hypotheses=lambda i: _loose(i) and _differ(i),
        tolerance=1e-9,
    ),
    expectation(
        "000/thm-14:closer",
        below(_cluster_after, _cluster_before),
        {"clusters": clusters},
        hypotheses=lambda i: _loose(i) and _cluster_before(i) > 1e-20,
    ),
    expectation(
        "000/thm-14:scale",
        below(
            lambda i: _output_distance(i, _energy14(i)) / _odd_distance_after(i),
            lambda i: _input_distance(i) / odd_distance(i["X"]) ** 2,
        ),
        {"triangle": cases(TRIANGLE), "clusters": _pairs_of(clusters)},
        hypotheses=lambda i: _loose(i) and _differ(i),
    ),
    expectation(
        "000/thm-14:scale#corrected",
        at_most(
            lambda i: _output_distance(i, _energy14(i)) / _odd_distance_after(i),
            lambda i: (
                invariance_factor(len(i["X"]), i["X"][0, 0] * 0 + 1) * _input_distance(i) / odd_distance(i["X"]) ** 2
            ),
        ),
        {"triangle": cases(TRIANGLE), "clusters": _pairs_of(clusters)},
        hypotheses=lambda i: _loose(i) and _differ(i),
        tolerance=1e-8,
    ),
    expectation(
        "000/eq-111",
        equal(Sampled(_sampled_product), lambda i: float(expected_product(i["x"], i["y"], 2.0))),
        {"draws": _products},
        counts=(3, 5),
        scale=1,
    ),
    deterministic(
        "000/K-gt-ip",
        above(lambda i: expected_product(i["x"], i["y"], 2), lambda i: i["x"] @ i["y"]),
        {"vectors": _vectors},
    ),
    deterministic(
        "000/K-gt-ip#corrected",
        above(lambda i: expected_product(i["x"], i["y"], 2), lambda i: i["x"] @ i["y"]),
        {"vectors": _vectors},
        hypotheses=lambda i: _cosine(i) < 1 - 1e-5,
        search=TURN,
    ),
    deterministic(
        "000/eq-112-117:112",
        equal(
            lambda i: (
                centred_batch(i["X"])[i["i"]] @ centred_batch(i["X"])[i["i"]]
                + centred_batch(i["X"])[i["j"]] @ centred_batch(i["X"])[i["j"]]
                - 2 * centred_batch(i["X"])[i["i"]] @ centred_batch(i["X"])[i["j"]]
            ),
            _input_distance,
        ),
        {"clusters": _pairs_of(clusters)},
        scale=1,
    ),
    expectation(
        "000/eq-112-117:115",
        above(_input_distance, lambda i: _output_distance(i, 2)),
        {"parallel": _parallel_clusters},
        hypotheses=_differ,
    ),
    expectation(
        "000/eq-112-117:115#corrected",
        at_least(_input_distance, lambda i: _output_distance(i, 2)),
        {"parallel": _parallel_clusters},
        tolerance=1e-8,
    ),
    expectation(
        "000/eq-112-117:last",
        below(
            lambda i: _output_distance(i, _energy14(i)),
            lambda i: stability_factor(len(i["X"]), odd_distance(i["X"])) * _input_distance(i),
        ),
        {
            "parallel": cases({"X": np.array([[-3.0], [1.45], [1.55]]), "i": 1, "j": 2}),
            "clusters": _pairs_of(clusters),
        },
        hypotheses=_differ,
    ),
    expectation(
        "000/eq-112-117:last#corrected",
        at_most(
            lambda i: _output_distance(i, _energy14(i)),
            lambda i: stability_factor(len(i["X"]), odd_distance(i["X"])) * _input_distance(i),
        ),
        {"clusters": _pairs_of(clusters)},
        hypotheses=_differ,
        tolerance=1e-8,
    ),
    deterministic(
        "000/eq-112-117:alpha",
        below(lambda i: stability_factor(len(i["X"]), odd_distance(i["X"])), 1),
        {"clusters": clusters},
        hypotheses=_loose,
    ),
)
