"""000, §III: the odd point of deep networks of recentring and ReLU."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from isometer_papers.claims._claim import Claim, Instance
from isometer_papers.claims._families import Rng, cases, drawn
from isometer_papers.claims._statements import (
    Sampled,
    above,
    asymptotic,
    at_least,
    at_most,
    deterministic,
    empirical,
    vanishes,
)
from isometer_papers.claims.nachum2024.chains import exact_infinite, hits, infinite, odd_again, odd_value
from isometer_papers.claims.nachum2024.instances import proportion

SMALL = (
    {"n": 3, "width": 100, "depth": 200, "runs": 48},
    {"n": 5, "width": 100, "depth": 200, "runs": 48},
)


LARGE = (
    {"n": 20, "width": 100, "depth": 200, "runs": 24},
    {"n": 30, "width": 100, "depth": 200, "runs": 24},
)


SIZES = cases(SMALL[0], LARGE[0], SMALL[1], LARGE[1])


def _odd(identifier: str, statement: str, name: str, limit: tuple[float, float], remark: str) -> tuple[Claim, Claim]:
    """A property of the odd point for all batches, and for large ones."""
    return (
        empirical(
            identifier,
            "§III, Figure 3",
            f"{statement}, for all batches",
            at_most(
                Sampled(
                    odd_value(name), odd_again(name), "the simulation engine, weights drawn one by one, other inputs"
                ),
                lambda i: limit[0],
            ),
            {"sizes": SIZES},
            counts=(3, 4),
            resolution=0.5,
            corrected=f"{identifier}#corrected",
            scope="Gaussian batches of 12 features, width 100, layer 200; mean over runs",
            remark=remark,
        ),
        empirical(
            f"{identifier}#corrected",
            "§III, Figure 3",
            f"{statement}, for batches of n ≥ 20",
            at_most(Sampled(odd_value(name)), lambda i: limit[1]),
            {"sizes": cases(*LARGE)},
            counts=(1, 2),
            resolution=0.5,
            scope="Gaussian batches of 12 features, width 100, layer 200; mean over runs",
        ),
    )


def _second(gram: Any) -> Any:
    """Second largest length over the largest."""
    lengths = sorted(gram[i, i] ** 0.5 for i in range(len(gram)))
    return lengths[-2] / lengths[-1]


def _largest_within(gram: Any) -> Any:
    """Least cosine among the samples but the longest."""
    n = len(gram)
    odd = max(range(n), key=lambda i: gram[i, i])
    rest = [i for i in range(n) if i != odd]
    return min(gram[i, j] / (gram[i, i] * gram[j, j]) ** 0.5 for i in rest for j in rest)


def _infinite_batches(rng: Rng, count: int) -> Iterator[Instance]:
    yield {"X": np.array([[1.0, 0.0], [0.0, 1.0], [3.0, 2.0]]), "depth": 150}
    yield {"X": np.array([[2.0, 0.0], [0.0, 1.0], [3.0, 3.0], [-1.0, 2.0], [4.0, -1.0]]), "depth": 300}
    yield {"X": np.eye(15) + 0.01 * rng.standard_normal((15, 15)), "depth": 150}  # near the simplex
    for _ in range(count):
        yield {"X": rng.standard_normal((15, 12)), "depth": 150}


_large_batches = drawn(lambda rng: {"X": rng.standard_normal((int(rng.integers(15, 18)), 12)), "depth": 150})


def _one_odd(rng: Rng, count: int) -> Iterator[Instance]:
    """One long vector and 14 short ones, all orthogonal; then Gaussian batches."""
    yield {"X": np.diag([6.0] + [1.0] * 14), "depth": 100}
    yield from _large_batches(rng, count)


def _simplices(rng: Rng, count: int) -> Iterator[Instance]:
    for n in range(3, 3 + count):
        yield {"X": np.eye(n), "depth": 20}


def _inequality(gram: Any) -> Any:
    """Largest difference between two lengths or two inner products, over the largest length squared."""
    n = len(gram)
    squares = [gram[i, i] for i in range(n)]
    products = [gram[i, j] for i in range(n) for j in range(i)]
    return max(max(squares) - min(squares), max(products) - min(products)) / max(squares)


LENGTHS = cases(
    {"n": 15, "width": 100, "depth": 60, "runs": 250, "start": "lengths 1"},
    {"n": 15, "width": 100, "depth": 60, "runs": 2200, "start": "lengths 0.5"},
)


EQUAL = cases({"n": 15, "width": 100, "depth": 60, "runs": 900})


CLAIMS = (
    *_odd(
        "000/odd-emergence:far",
        "after enough layers one data point is far from zero and all others are not: second length over first ≤ ½",
        "second_norm_ratio",
        (0.5, 0.25),
        "the paper does not give n; below n = 7 no shape with an odd point attracts at infinite width",
    ),
    *_odd(
        "000/odd-emergence:cluster",
        "after enough layers all data points but one are within a tenth of its distance of one place",
        "spread",
        (0.1, 0.1),
        "the paper does not give n",
    ),
    asymptotic(
        "000/odd-emergence:infinite-width",
        "§III",
        "at infinite width one data point leaves all others: second length over first ≤ ½, for all batches",
        at_most(lambda i: _second(infinite(i)), 0.5),
        {"batches": _infinite_batches},
        exact=lambda i: (_second(exact_infinite(i)), 0.5),
        counts=(5, 12),
        corrected="000/odd-emergence:infinite-width#corrected",
        scope="layers 150 and 300",
        remark="small batches become simplices; the simplex is locally stable for every n",
    ),
    asymptotic(
        "000/odd-emergence:infinite-width#corrected",
        "§III",
        "at infinite width one data point leaves all others, for Gaussian batches of n ≥ 15",
        at_most(lambda i: _second(infinite(i)), 0.5),
        {"batches": _large_batches},
        exact=lambda i: (_second(exact_infinite(i)), 0.5),
        counts=(4, 12),
        scope="layer 150, n from 15 to 17, 12 features",
    ),
    asymptotic(
        "000/odd-emergence:one-point",
        "Our Contribution",
        "all data points but the odd one collapse to one point: angles among them vanish (infinite width)",
        at_least(lambda i: _largest_within(infinite(i)), 0.95),
        {"batches": _one_odd},
        exact=lambda i: (_largest_within(exact_infinite(i)), 0.95),
        counts=(4, 12),
        corrected="000/odd-emergence:one-point#corrected",
        scope="least cosine among the others at layers 100 and 150",
        remark="angles settle at about 30° for n = 15 and 10° for n = 50; only next to the odd point it is one place",
    ),
    asymptotic(
        "000/odd-emergence:one-point#corrected",
        "Our Contribution",
        "the other points form a cluster whose least cosine is above 0.7 (infinite width, n ≥ 15)",
        at_least(lambda i: _largest_within(infinite(i)), 0.7),
        {"batches": _one_odd},
        exact=lambda i: (_largest_within(exact_infinite(i)), 0.7),
        counts=(4, 12),
        scope="layer 150, n from 15 to 17",
    ),
    empirical(
        "000/remark-largest-norm",
        "Remark, §III",
        "the odd point is typically the input with the largest norm",
        above(Sampled(lambda i, rng: proportion(int(hits(i).sum()), len(hits(i)))), 0.5),
        {"lengths": LENGTHS},
        counts=(1, 2),
        resolution=0.5,
        scope="more than half of the runs; log-normal lengths of spread 1 and 0.5, n = 15, width 100",
    ),
    empirical(
        "000/remark-largest-norm:gaussian",
        "Remark, §III",
        "the odd point is the input with the largest norm more often than by chance, for Gaussian inputs",
        above(Sampled(lambda i, rng: proportion(int(hits(i).sum()), len(hits(i)))), lambda i: 1 / i["n"]),
        {"gaussian": EQUAL},
        counts=(1, 1),
        resolution=1.0,
        scope="12 features, n = 15, width 100",
        remark="lengths differ little, and about a quarter of the runs agree",
    ),
    deterministic(
        "000/remark-symmetric:no-odd-point",
        "§III",
        "no odd point can be identified for Gaussian matrices if the batch is symmetric",
        vanishes(lambda i: _inequality(infinite(i))),
        {"simplices": _simplices},
        exact=lambda i: (_inequality(exact_infinite(i)), 0),
        counts=(8, 20),
        scope="in expectation over the weights: the Gram matrix of 20 layers of infinite width stays symmetric",
    ),
    empirical(
        "000/remark-symmetric:outlier",
        "§III",
        "from a symmetric batch randomness produces an outlier in the end",
        at_most(Sampled(odd_value("second_norm_ratio")), 0.5),
        {"simplices": cases({"n": 20, "width": 100, "depth": 200, "runs": 24, "start": "simplex"})},
        counts=(1, 1),
        resolution=0.5,
        scope="second length over first at layer 200, n = 20, width 100",
    ),
)
