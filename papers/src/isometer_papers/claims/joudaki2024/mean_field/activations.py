"""001, chapters 5 and 7: what the text says of activations, lengths and fixed points between its theorems."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

import numpy as np

from isometer_papers.claims._claim import Estimate, Instance
from isometer_papers.claims._families import Rng, cases
from isometer_papers.claims._precise import mpmath
from isometer_papers.claims._statements import (
    Sampled,
    above,
    asymptotic,
    at_least,
    at_most,
    deterministic,
    equal,
    expectation,
    vanishes,
)
from isometer_papers.claims.joudaki2024.mean_field.chains import precise_library
from isometer_papers.claims.joudaki2024.mean_field.kernels import (
    ALL,
    CENTRED,
    hand,
    in_case,
    inner,
    kernel,
    nonlinear,
    random,
    search,
)
from isometer_papers.float_or_mpmath import Numeric, exp, ncdf, pi_like
from isometer_papers.theory.duals.hermite_identities import gaussian_moment, pair_moment, sine_kernel_at

UNCENTRED = {"hand": hand(2, 3, 4), "random": random(2, 3, 4)}


def _uncentred(i: Instance) -> bool:
    return inner(i) and nonlinear(i) and kernel(i).at_zero > 0


def _sines(rng: Rng, count: int) -> Iterator[Instance]:
    """Inputs of two lengths with one cosine."""
    for rho in (0.5, 0.9, -0.5):
        yield {"rho": rho, "first": 0.25, "second": 4.0}


def _powers(rng: Rng, count: int) -> Iterator[Instance]:
    """φ(x) = x^k, which is homogeneous, for inputs of lengths √(dq) and √(dr)."""
    for k in (1, 2, 3, 4):
        for q, r in ((0.25, 4.0), (1.0, 9.0)):
            for rho in (0.5, -0.9):
                yield {"k": k, "q": q, "r": r, "rho": rho}


def _power_cosine(i: Instance, q: Numeric, r: Numeric) -> Numeric:
    k = i["k"]
    product = (q * r) ** (k * (1 + 0 * i["rho"]) / 2) * pair_moment(k, k, i["rho"])
    return product / ((q**k * r**k) ** ((1 + 0 * i["rho"]) / 2) * gaussian_moment(2 * k))


def _lengths_of_relu(i: Instance, rng: Rng) -> Estimate:
    """‖h^ℓ‖²/‖x‖² of ReLU networks with weights N(0, 1/d): given h the pre-activations are independent Gaussians."""
    squares, d = np.ones(i["runs"]), i["width"]
    for _ in range(i["depth"]):
        z = np.sqrt(squares / d)[:, None] * rng.standard_normal((i["runs"], d))
        squares = (np.maximum(z, 0.0) ** 2).sum(axis=1)
    return Estimate.of(squares)


_inputs = cases(*({"h": np.array(h)} for h in ([1.0, 2.0, 2.0], [3.0, 0.0, 4.0], [1.0, -1.0, 1.0])))


# Polynomials as coefficients.
_polynomials = cases(
    *({"phi": np.array(phi), "depth": depth} for phi in ([0.0, 2.0], [0.0, 1.0, 1.0], [0.0, 0.5]) for depth in (4, 2))
)
_scaled_polynomials = cases(
    *(
        {"phi": np.array(phi), "depth": depth}
        for phi in ([0.0, 2.0], [0.0, 1.0, 1.0], [1.0, 1.0], [0.0, 3.0, 0.0, 1.0])
        for depth in (1, 3, 5)
    )
)


def _second_moment(phi: Numeric, square: Numeric) -> Numeric:
    """E φ(√q X)²; odd powers of √q have odd moments, which are 0."""
    total = 0 * square
    for j, a in enumerate(phi):
        for k, b in enumerate(phi):
            if (j + k) % 2 == 0:
                total = total + a * b * square ** ((j + k) // 2) * gaussian_moment(j + k)
    return total


def _mean_square(i: Instance, depth: int, scaled: bool = False) -> Numeric:
    """(1/d)‖h^ℓ‖² at infinite width for an input with (1/d)‖x‖² = 1, with φ or with φ/√E φ²."""
    square = 1 + 0 * i["phi"][0]
    size = _second_moment(i["phi"], square) if scaled else square
    for _ in range(depth):
        square = _second_moment(i["phi"], square) / size
    return square


def _sum_of_squares(i: Instance) -> Numeric:
    """Σ c_k² of a + bx + cx² + dx³, from x² = He_2 + 1 and x³ = He_3 + 3x."""
    missing = [0 * i["phi"][0]] * (4 - len(i["phi"]))
    a, b, c, d = list(i["phi"]) + missing
    return (a + c) ** 2 + (b + 3 * d) ** 2 + 2 * c**2 + 6 * d**2


def _registered(rng: Rng, count: int) -> Iterator[Instance]:
    """Every activation of the instrument, from −300 to 300."""
    from isometer.activations import registry

    for name in registry():
        for x in (-300.0, -30.0, -3.0, -1.0, 0.0, 1.0, 3.0, 30.0, 300.0):
            yield {"phi": name, "x": x}


def _over_exponential(i: Instance) -> float:
    """|φ(x)| e^{−|x|}."""
    from isometer.activations import activation

    value: Any = activation(i["phi"])(np.array([i["x"]]))
    return abs(float(value[0])) * math.exp(-abs(i["x"]))


def _selu_mean(i: Instance) -> Numeric:
    """λ(E max(X, 0) + α E (e^X − 1) 1_{X<0}), with the published digits of λ and α."""
    one = 1 + 0 * i["alpha"]
    tail = exp(one / 2) * ncdf(-one) - one / 2
    return i["scale"] * (1 / (2 * pi_like(one)) ** (one / 2) + i["alpha"] * tail)


_selu = cases({"alpha": 1.6732632423543772848170429916717, "scale": 1.0507009873554804934193349852946})


def _vectors(rng: Rng, count: int) -> Iterator[Instance]:
    yield {"z": np.array([3.0, 0.0, 4.0, 0.0])}
    for _ in range(count):
        yield {"z": rng.standard_normal(int(rng.integers(2, 12)))}


def _after_rms(i: Instance) -> Numeric:
    """‖RMS(z)‖² of eq. 5.13."""
    z = i["z"]
    normed = z / ((z * z).sum() / len(z)) ** 0.5
    return (normed * normed).sum()


CLAIMS = (
    deterministic(
        "001/claim-5.bias:similar",
        above(lambda i: kernel(i)(i["rho"]), lambda i: i["rho"]),
        UNCENTRED,
        hypotheses=lambda i: _uncentred(i) and abs(i["rho"] - kernel(i).fixed_point) > 1e-3,
    ),
    deterministic(
        "001/claim-5.bias:similar#corrected",
        above(lambda i: kernel(i)(i["rho"]), lambda i: i["rho"]),
        UNCENTRED,
        hypotheses=lambda i: _uncentred(i) and i["rho"] < kernel(i).fixed_point - 1e-3,
        search=search(4),
    ),
    asymptotic(
        "001/claim-5.markov",
        equal(
            lambda i: sine_kernel_at(i["rho"], i["first"], precise_library(i["rho"])),
            lambda i: sine_kernel_at(i["rho"], i["second"], precise_library(i["rho"])),
        ),
        {"lengths": _sines},
    ),
    asymptotic(
        "001/claim-5.markov#corrected",
        equal(lambda i: _power_cosine(i, i["q"], i["r"]), lambda i: _power_cosine(i, 1 + 0 * i["q"], 1 + 0 * i["r"])),
        {"powers": _powers},
    ),
    expectation(
        "001/claim-5.relu",
        equal(Sampled(_lengths_of_relu), lambda i: 0.5 ** i["depth"]),
        {"networks": cases({"width": 64, "depth": 2, "runs": 4000}, {"width": 64, "depth": 6, "runs": 20_000})},
        counts=(2, 2),
        resolution=0.1,
    ),
    deterministic(
        "001/prop-5.2:summands", equal(lambda i: max(i["h"] ** 2), lambda i: min(i["h"] ** 2)), {"inputs": _inputs}
    ),
    asymptotic(
        "001/claim-5.integrable:stable",
        at_most(lambda i: _mean_square(i, i["depth"]), lambda i: max(1 + 0 * i["phi"][0], _mean_square(i, 1))),
        {"polynomials": _polynomials},
    ),
    asymptotic(
        "001/claim-5.integrable:stable#intended",
        equal(lambda i: _mean_square(i, 1), _sum_of_squares),
        {"polynomials": _scaled_polynomials},
    ),
    asymptotic(
        "001/claim-5.integrable:stable#corrected",
        equal(lambda i: _mean_square(i, i["depth"], True), 1),
        {"polynomials": _scaled_polynomials},
    ),
    deterministic(
        "001/claim-5.integrable:practice",
        at_most(_over_exponential, 4),
        {"registry": _registered},
        exact=lambda i: (mpmath().mpf(_over_exponential({**i, "x": float(i["x"])})), 4),
        counts=(1000, 1000),
        scale=1,
    ),
    deterministic("001/claim-5.selu", vanishes(_selu_mean), {"constants": _selu}),
    deterministic(
        "001/claim-5.normlimit:length", equal(lambda i: _after_rms(i) ** 0.5 / len(i["z"]), 1), {"vectors": _vectors}
    ),
    deterministic(
        "001/claim-5.normlimit:length#corrected", equal(lambda i: _after_rms(i) / len(i["z"]), 1), {"vectors": _vectors}
    ),
    deterministic(
        "001/claim-7.isometry",
        at_least(lambda i: 1 - kernel(i)(i["rho"]) ** 2, lambda i: 1 - i["rho"] ** 2),
        ALL,
        hypotheses=lambda i: inner(i) and nonlinear(i),
        scale=1,
    ),
    deterministic(
        "001/claim-7.isometry#corrected",
        at_least(lambda i: 1 - kernel(i)(i["rho"]) ** 2, lambda i: 1 - i["rho"] ** 2),
        CENTRED,
        hypotheses=lambda i: inner(i) and in_case(1)(i),
        scale=1,
        search=search(1),
    ),
)
