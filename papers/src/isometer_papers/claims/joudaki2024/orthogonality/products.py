"""Thesis, Lemma A.8: networks without batch norm, products of Gaussian matrices."""

from __future__ import annotations

import math
from collections.abc import Iterator

import numpy as np
from scipy import integrate

from isometer.run import seed_of
from isometer_papers.claims._claim import Claim, Estimate, Instance, Search
from isometer_papers.claims._families import Family, Rng, cases
from isometer_papers.claims._precise import mpmath
from isometer_papers.claims._statements import Sampled, above, asymptotic, at_most, below, deterministic, equal
from isometer_papers.float_or_mpmath import Numeric, is_precise, library_of
from isometer_papers.simulate.orthogonality_steps import product_exponents_sample
from isometer_papers.theory.rank.gaussian_products import (
    distance_from_rank_one,
    first_share_bound_as_printed,
    product_exponent,
    product_exponent_as_printed,
    rank_one_bound,
    rank_one_exponent_as_printed,
    rank_one_rate,
)


def _log_determinant(i: Instance) -> float:
    """E log det WWᵀ = Σ_k E log χ²_k, the sum of the exponents of all σ_i², by quadrature in t = log χ²_k."""

    def mean(k: int) -> float:
        size = 2 ** (k / 2) * math.gamma(k / 2)
        found, _ = integrate.quad(lambda t: t * math.exp(k * t / 2 - math.exp(t) / 2) / size, -120, 8, limit=400)
        return float(found)

    return sum(mean(k) for k in range(1, i["width"] + 1))


def _sum_of_exponents(i: Instance) -> Numeric:
    return sum(product_exponent_as_printed(i["width"], k) for k in range(1, i["width"] + 1))


def _exact_log_determinant(i: Instance) -> tuple[Numeric, Numeric]:
    library, d = mpmath(), i["width"]

    def mean(k: int) -> Numeric:
        size = library.mpf(2) ** (library.mpf(k) / 2) * library.gamma(library.mpf(k) / 2)
        # in t = log χ²_k, which takes out the singularity at 0
        return library.quad(
            lambda t: t * library.exp(k * t / 2 - library.exp(t) / 2) / size, [-400, -40, -10, 0, 3, 5, 8]
        )

    printed = sum(product_exponent_as_printed(d, k, library.mpf(1)) for k in range(1, d + 1))
    return sum(mean(k) for k in range(1, d + 1)), printed


def _exponent(i: Instance, rng: Rng) -> Estimate:
    found = product_exponents_sample(i["width"], layers=400, chains=48, rng=rng)
    return Estimate.of(found[:, i["index"] - 1])


def _per_layer(i: Instance, index: int) -> Numeric:
    """Exponent of σ_i² for weights N(0, 1/d)."""
    width = i["width"]
    return product_exponent(width, index, 1 / (0 * i["one"] + width))


def _exponents(*pairs: tuple[int, int]) -> Family:
    return cases(*({"width": d, "index": k} for d, k in pairs))


def _arguments(rng: Rng, count: int) -> Iterator[Instance]:
    yield {"x": 1.0, "y": 2.0}
    for _ in range(count):
        x = float(10.0 ** rng.uniform(-2, 2))
        yield {"x": x, "y": x * float(rng.uniform(1.01, 3))}


def _digamma(x: Numeric) -> Numeric:
    if is_precise(x):
        return library_of(x).psi(0, x)
    from scipy.special import digamma

    return float(digamma(x))


def _ratios(rng: Rng, count: int) -> Iterator[Instance]:
    """ℓ layers after which n − 1 squared singular values are e^{−δℓ} of the first."""
    yield {"n": 2, "layers": 10, "log": -20.0}
    for _ in range(count):
        layers = int(rng.integers(5, 200))
        yield {"n": int(rng.integers(2, 9)), "layers": layers, "log": -layers * float(rng.uniform(0.5, 3))}


def _spectra(rng: Rng, count: int) -> Iterator[Instance]:
    yield {"squares": np.array([3.0, 1.0])}
    yield {"squares": np.array([1.0, 1.0])}
    for _ in range(count):
        n = int(rng.integers(2, 9))
        yield {"squares": np.sort(np.exp(-rng.uniform(0, float(rng.choice([1, 5, 20])), n)))[::-1].copy()}


def _spectrum_search(x: Numeric) -> Instance:
    return {"squares": np.sort(np.exp(-10.0 * np.asarray(x)))[::-1].copy()}


def _rate_of_gap(i: Instance, rng: Rng) -> Estimate:
    """(1/2ℓ) log|V(S_ℓ) − √((n−1)/n)| of products, singular values from the exponents of QR."""
    width, layers, found = i["width"], i["layers"], []
    streams = np.random.default_rng(seed_of(f"001 products {width} {layers}"))
    for values in product_exponents_sample(width, layers=layers, chains=128, rng=streams, burn_in=0):
        ordered = np.sort(layers * values)[::-1]
        squares = np.exp(np.maximum(ordered - ordered[0], -700.0))  # e⁻⁷⁰⁰ is still a normal float
        found.append(math.log(float(distance_from_rank_one(squares))) / (2 * layers))
    return Estimate.of(found)


RATES = cases({"width": 4, "layers": 400}, {"width": 8, "layers": 400}, {"width": 2, "layers": 200})
CLAIMS: tuple[Claim, ...] = (
    asymptotic(
        "001/lem-A.8:decreases",
        above(lambda i: -_per_layer(i, 1), lambda i: -_per_layer(i, 2)),
        {"widths": cases(*({"width": d, "one": 1.0} for d in (4, 2, 3, 8)))},
        hypotheses=lambda i: _per_layer(i, 1) < 0 and _per_layer(i, 2) < 0,
    ),
    asymptotic(
        "001/lem-A.8",
        below(Sampled(_rate_of_gap), lambda i: -rank_one_rate(i["width"]) / 4),  # δ: half of the true rate
        {"products": RATES},
        counts=(3, 3),
        resolution=0.5,
    ),
    asymptotic(
        "001/lem-A.8:rate",
        at_most(
            Sampled(
                _rate_of_gap,
                lambda i, rng: _direct_rate(i, rng),
                "singular values of the product itself at ℓ = 12 and 24, other draws",
            ),
            lambda i: -rank_one_rate(i["width"]),
        ),
        {"products": RATES},
        counts=(3, 3),
    ),
    asymptotic(
        "001/lem-A.8:rate#corrected",
        equal(Sampled(_rate_of_gap), lambda i: -rank_one_rate(i["width"]) / 2),
        {"products": RATES},
        counts=(3, 3),
        tolerance=0.006,
        resolution=0.3,
    ),
    asymptotic(
        "001/lem-A.8:eq-A.13",
        equal(_log_determinant, _sum_of_exponents),
        {"widths": cases({"width": 3}, {"width": 2}, {"width": 5})},
        exact=_exact_log_determinant,
    ),
    asymptotic(
        "001/lem-A.8:eq-A.13#corrected",
        equal(Sampled(_exponent), lambda i: product_exponent(i["width"], i["index"])),
        {"products": _exponents((1, 1), (2, 1), (2, 2), (4, 1), (4, 4), (8, 1))},
        scale=1,
        resolution=0.2,
        counts=(4, 6),
    ),
    deterministic(
        "001/lem-A.8:digamma", above(lambda i: _digamma(i["x"]), lambda i: _digamma(i["y"])), {"arguments": _arguments}
    ),
    deterministic(
        "001/lem-A.8:digamma#corrected",
        below(lambda i: _digamma(i["x"]), lambda i: _digamma(i["y"])),
        {"arguments": _arguments},
    ),
    asymptotic(
        "001/lem-A.8:eq-A.14",
        below(
            Sampled(lambda i, rng: _second_minus_first(i, rng)),
            lambda i: (
                (product_exponent(i["width"], 2) - product_exponent(i["width"], 1)) / 2
            ),  # δ: half of the true one
        ),
        {"products": cases({"width": 2}, {"width": 4}, {"width": 16})},
        counts=(2, 3),
        resolution=0.5,
    ),
    asymptotic(
        "001/lem-A.8:eq-A.16",
        at_most(
            lambda i: first_share_bound_as_printed(i["layers"], i["log"], i["n"])[0],
            lambda i: first_share_bound_as_printed(i["layers"], i["log"], i["n"])[1],
        ),
        {"ratios": _ratios},
    ),
    asymptotic(
        "001/lem-A.8:eq-A.16#corrected",
        at_most(
            lambda i: 2 * first_share_bound_as_printed(i["layers"], i["log"], i["n"])[0],
            lambda i: first_share_bound_as_printed(i["layers"], i["log"], i["n"])[1],
        ),
        {"ratios": _ratios},
    ),
    deterministic(
        "001/lem-A.8:eq-A.17",
        at_most(lambda i: distance_from_rank_one(i["squares"]), lambda i: rank_one_bound(i["squares"])),
        {"spectra": _spectra},
        search=Search(_spectrum_search, 3),
    ),
    asymptotic(
        "001/lem-A.8:eq-A.18",
        at_most(
            lambda i: rank_one_exponent_as_printed(i["layers"], i["log"], i["n"])[0],
            lambda i: rank_one_exponent_as_printed(i["layers"], i["log"], i["n"])[1],
        ),
        {"ratios": _ratios},
    ),
    asymptotic(
        "001/lem-A.8:eq-A.18#corrected",
        equal(
            lambda i: rank_one_exponent_as_printed(i["layers"], i["log"], i["n"])[0],
            lambda i: 0.75 * rank_one_exponent_as_printed(i["layers"], i["log"], i["n"])[1],
        ),
        {"ratios": lambda rng, count: ({"n": n, "layers": 1000, "log": -1000.0 * (n - 1)} for n in (2, 3, 4, 8))},
        tolerance=0.005,
        counts=(4, 4),
    ),
)


def _second_minus_first(i: Instance, rng: Rng) -> Estimate:
    found = product_exponents_sample(i["width"], layers=400, chains=48, rng=rng)
    return Estimate.of(found[:, 1] - found[:, 0])


def _direct_rate(i: Instance, rng: Rng) -> Estimate:
    """Change of ½ log|V − √(1−1/n)| per layer between ℓ = 12 and 24, from singular values of the products."""
    width, found = i["width"], []
    for _ in range(400):
        product, logs = np.eye(width), []
        for layer in range(1, 25):
            product = rng.standard_normal((width, width)) @ product
            product /= np.linalg.norm(product)
            if layer in (12, 24):
                squares = np.linalg.svd(product, compute_uv=False) ** 2
                logs.append(math.log(max(float(distance_from_rank_one(squares)), 1e-300)))
        found.append((logs[1] - logs[0]) / 24)
    return Estimate.of(found)
