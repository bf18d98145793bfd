"""000, §III: the odd point of deep networks of recentring and ReLU."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from isometer_papers.claims._claim import Claim, Estimate, Instance
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
from isometer_papers.claims.nachum2024.chains import exact_infinite, fresh_hits, hits, infinite, odd_again, odd_value
from isometer_papers.claims.nachum2024.instances import proportion
from isometer_papers.float_or_mpmath import Numeric

SMALL = (
    {"n": 3, "width": 100, "depth": 200, "runs": 48},
    {"n": 5, "width": 100, "depth": 200, "runs": 48},
)


LARGE = (
    {"n": 20, "width": 100, "depth": 200, "runs": 24},
    {"n": 30, "width": 100, "depth": 200, "runs": 24},
)


SIZES = cases(SMALL[0], LARGE[0], SMALL[1], LARGE[1])


def _odd(identifier: str, name: str, limit: tuple[float, float]) -> tuple[Claim, Claim]:
    """A property of the odd point for all batches, and for large ones."""
    return (
        empirical(
            identifier,
            at_most(
                Sampled(
                    odd_value(name), odd_again(name), "the simulation engine, weights drawn one by one, other inputs"
                ),
                lambda i: limit[0],
            ),
            {"sizes": SIZES},
            counts=(3, 4),
            resolution=0.5,
        ),
        empirical(
            f"{identifier}#corrected",
            at_most(Sampled(odd_value(name)), lambda i: limit[1]),
            {"sizes": cases(*LARGE)},
            counts=(1, 2),
            resolution=0.5,
        ),
    )


def _second(gram: Numeric) -> Numeric:
    """Second largest length over the largest."""
    lengths = sorted(gram[i, i] ** 0.5 for i in range(len(gram)))
    return lengths[-2] / lengths[-1]


def _largest_within(gram: Numeric) -> Numeric:
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


def _inequality(gram: Numeric) -> Numeric:
    """Largest difference between two lengths or two inner products, over the largest length squared."""
    n = len(gram)
    squares = [gram[i, i] for i in range(n)]
    products = [gram[i, j] for i in range(n) for j in range(i)]
    return max(max(squares) - min(squares), max(products) - min(products)) / max(squares)


LENGTHS = cases(
    {"n": 15, "width": 100, "depth": 60, "runs": 250, "start": "lengths 1"},
    {"n": 15, "width": 100, "depth": 60, "runs": 2200, "start": "lengths 0.5"},
)


EQUAL = cases({"n": 15, "width": 100, "depth": 60, "runs": 250})


def _share_of_hits(i: Instance, rng: Rng) -> Estimate:
    return proportion(int(hits(i).sum()), len(hits(i)))


CLAIMS = (
    *_odd("000/odd-emergence:far", "second_norm_ratio", (0.5, 0.25)),
    *_odd("000/odd-emergence:cluster", "spread", (0.1, 0.1)),
    asymptotic(
        "000/odd-emergence:infinite-width",
        at_most(lambda i: _second(infinite(i)), 0.5),
        {"batches": _infinite_batches},
        exact=lambda i: (_second(exact_infinite(i)), 0.5),
        counts=(5, 12),
    ),
    asymptotic(
        "000/odd-emergence:infinite-width#corrected",
        at_most(lambda i: _second(infinite(i)), 0.5),
        {"batches": _large_batches},
        exact=lambda i: (_second(exact_infinite(i)), 0.5),
        counts=(4, 12),
    ),
    asymptotic(
        "000/odd-emergence:one-point",
        at_least(lambda i: _largest_within(infinite(i)), 0.95),
        {"batches": _one_odd},
        exact=lambda i: (_largest_within(exact_infinite(i)), 0.95),
        counts=(4, 12),
    ),
    asymptotic(
        "000/odd-emergence:one-point#corrected",
        at_least(lambda i: _largest_within(infinite(i)), 0.7),
        {"batches": _one_odd},
        exact=lambda i: (_largest_within(exact_infinite(i)), 0.7),
        counts=(4, 12),
    ),
    empirical(
        "000/remark-largest-norm",
        above(
            Sampled(_share_of_hits, fresh_hits, "the simulation engine, weights drawn one by one, other inputs"), 0.5
        ),
        {"gaussian": EQUAL, "lengths": LENGTHS},
        counts=(2, 2),
        resolution=0.5,
    ),
    empirical(
        "000/remark-largest-norm#corrected",
        above(Sampled(_share_of_hits), 0.5),
        {"lengths": LENGTHS},
        counts=(1, 2),
        resolution=0.5,
    ),
    deterministic(
        "000/remark-symmetric:no-odd-point",
        vanishes(lambda i: _inequality(infinite(i))),
        {"simplices": _simplices},
        exact=lambda i: (_inequality(exact_infinite(i)), 0),
        counts=(8, 20),
    ),
    empirical(
        "000/remark-symmetric:outlier",
        at_most(Sampled(odd_value("second_norm_ratio")), 0.5),
        {"simplices": cases({"n": 20, "width": 100, "depth": 200, "runs": 24, "start": "simplex"})},
        counts=(1, 1),
        resolution=0.5,
    ),
)
