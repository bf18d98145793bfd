"""004: sentences of the prose and lines of proofs that no numbered statement has."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from isometer.activations import NORMRELU_KINK
from isometer.theory.kernels import correlation_bound, separation_depth
from isometer_papers.claims._claim import Estimate, Instance
from isometer_papers.claims._families import Rng, cases, drawn
from isometer_papers.claims._fits import exponent
from isometer_papers.claims._precise import eigenvalues
from isometer_papers.claims._statements import (
    Sampled,
    at_least,
    at_most,
    deterministic,
    equal,
    expectation,
)
from isometer_papers.claims.agarwal2021.instances import correlations, dual_of, nonlinearity, random_squares
from isometer_papers.claims.agarwal2021.lengths import mixture, sigma, simple
from isometer_papers.claims.agarwal2021.simulations import dense_cosines, unit_cosines
from isometer_papers.float_or_mpmath import Numeric, log, ncdf, npdf, sqrt
from isometer_papers.theory.duals.exact_duals import dual_slope, dual_value, iterated_dual, tangent_by_layers
from isometer_papers.theory.duals.normrelu_pairs import normrelu_constants

# --- §3.1: Φ_W with W_{L−1} outermost ------------------------------------------------------------

_shallow = cases(
    *(
        {"squares": np.array([0.0, 1 - mu, mu]), "rho": 0.9, "L": depth}
        for mu in (0.5, 0.1, 1.0)
        for depth in (2, 1, 3, 6)
    )
)


def _one_layer_less(i: Instance) -> Numeric:
    return abs(iterated_dual(dual_of(i), i["rho"], i["L"] - 1))


def _decay_bound(i: Instance) -> Numeric:
    return correlation_bound(i["L"], 1 - abs(i["rho"]), nonlinearity(i))


# --- §3.3: when Assumption B is satisfied ------------------------------------------------------------


def _noisy(more: int) -> Callable[[Rng, int], Iterator[Instance]]:
    """Parallel inputs with white noise: n = d + more to d + more + 2, or, for more < 0, n ≤ d."""

    def generator(rng: Rng, count: int) -> Iterator[Instance]:
        for _ in range(count):
            d = int(rng.integers(2, 6))
            n = int(rng.integers(2, d + 1)) if more < 0 else d + more + int(rng.integers(0, 3))
            yield {"X": np.ones((n, d)) + 0.3 * rng.standard_normal((n, d))}

    return generator


def _smallest_gram(i: Instance) -> Numeric:
    return eigenvalues(correlations(i["X"]))[0]


_NOTHING = 1e-12  # λ_min of a singular Gram matrix in float64 is below this

# --- C.2: the proof of Lemma 26, and activations that jump ------------------------------------------------------------

_slopes = drawn(lambda rng: {"squares": random_squares(rng), "rho": float(rng.uniform(-1, 1))})


def _simple_slopes(rng: Rng, count: int) -> Iterator[Instance]:
    yield {"squares": np.array([0.0, 0.5, 0.5]), "rho": 0.5}
    yield from _slopes(rng, count)


def _difference(i: Instance) -> Numeric:
    step = i["rho"] * 0 + 1e-5
    return (dual_value(dual_of(i), i["rho"] + step) - dual_value(dual_of(i), i["rho"] - step)) / (2 * step)


def _numerator(shift: int) -> Callable[[Instance], Numeric]:
    """a_1² + Σ_{i ≥ 2} i a_i² ρ^{i − shift}."""

    def value(i: Instance) -> Numeric:
        squares = i["squares"]
        return squares[1] + sum(k * squares[k] * i["rho"] ** (k - shift) for k in range(2, len(squares)))

    return value


_jumps = cases(*({"dual": "sign", "rho": rho, "L": depth} for rho in (0.5, 0.9, -0.3) for depth in (1, 2, 4)))


def _deep_jumps(rng: Rng, count: int) -> Iterator[Instance]:
    for _ in range(count):
        rho = float(rng.uniform(-0.999, 0.999))
        start = 2 * separation_depth(1 - abs(rho), 1 - 2 / math.pi)
        yield {"dual": "sign", "rho": rho, "L": start + int(rng.integers(1, 9))}


def _gradient_kernel(i: Instance) -> Numeric:
    """∂f·∂f where σ′ = 0 almost everywhere: only v has a gradient, so it is the top-layer kernel."""
    return iterated_dual(i["dual"], i["rho"], i["L"])


# --- C.2: the proofs of Theorem 27 and Corollary 28 ------------------------------------------------------------


def _level(rng: Rng, count: int) -> Iterator[Instance]:
    """δ and ν, with L₀(δ) ≥ 1."""
    yield {"delta": 0.3, "nu": 0.5, "more": 0}
    yield {"delta": 0.45, "nu": 0.5, "more": 0}
    for _ in range(count):
        yield {"delta": float(10 ** -rng.uniform(0.31, 3)), "nu": float(rng.uniform(0.02, 1)), "more": 0}


def _later(rng: Rng, count: int) -> Iterator[Instance]:
    for i in _level(rng, count):
        yield {**i, "more": int(rng.integers(1, 9))}


def _start(i: Instance) -> int:
    return separation_depth(float(i["delta"]), float(i["nu"]))


def _product(i: Instance) -> Numeric:
    """(1 − μ/2)^{L/2 − L₀(δ)} for L = 2L₀(δ) + more."""
    return (1 - i["nu"] / 2) ** (i["more"] / (i["nu"] * 0 + 2))


def _twice_bound(i: Instance) -> Numeric:
    return 2 * correlation_bound(_start(i) + i["more"] / 2, i["delta"], i["nu"])


# --- B: the deviation ------------------------------------------------------------


def _units(rng: Rng, count: int) -> Iterator[Instance]:
    yield {"V": np.array([[1.0, 2.0], [3.0, 5.0], [0.0, 4.0]]), "w": np.array([1.0, -3.0]), "c": 0.5, "s": 2.0}
    for _ in range(count):
        b, m = (int(v) for v in rng.integers(2, 6, 2))
        c, s = float(rng.uniform(-1, 1)), float(rng.uniform(0.3, 2))
        yield {"V": rng.standard_normal((b, m)), "w": rng.standard_normal(m), "c": c, "s": s}


def _deviation(own_mean: bool) -> Callable[[Instance], Numeric]:
    """√(‖ṽ − μ1‖²/b), with μ of v as printed or μ̃ of ṽ."""

    def value(i: Instance) -> Numeric:
        b, root = len(i["V"]), sqrt(i["V"][0, 0] * 0 + i["V"].shape[1])
        plain, moved = i["V"] @ i["w"] / root, (i["V"] - i["c"]) @ i["w"] / (i["s"] * root)
        mean = (moved if own_mean else plain).sum() / b
        return sqrt(((moved - mean) ** 2).sum() / b)

    return value


def _scaled_deviation(i: Instance) -> Numeric:
    return _deviation(True)({**i, "c": i["c"] * 0, "s": i["s"] * 0 + 1}) / i["s"]


# --- D: the proofs of Lemma 39 and Theorem 42 ------------------------------------------------------------

_bends = drawn(
    lambda rng: {"t": float(10 ** rng.uniform(-1, 1)), "z": float(rng.choice([-1, 1]) * rng.uniform(0.3, 3))}
)


def _bend(i: Instance) -> Numeric:
    """(σ′z)² − σσ′z for σ = z/√(1 + tz²), which is concave for z > 0 and convex for z < 0."""
    inside = 1 + i["t"] * i["z"] ** 2
    value, slope = i["z"] / sqrt(inside), 1 / (inside * sqrt(inside))
    return (slope * i["z"]) ** 2 - value * slope * i["z"]


def _near_one(rng: Rng, count: int) -> Iterator[Instance]:
    for base in simple(rng, count):
        for place in (0.0, 1.0, -1.0):
            yield {**base, "place": place}
    for _ in range(count):
        yield {**mixture(rng), "place": float(rng.uniform(-1, 1))}


def _mu(i: Instance) -> Numeric:
    return sigma(i).nonlinearity(i["a"] * 0 + 1)


def _linear_square(i: Instance) -> Numeric:
    """(a_1^{γ})² at γ = 1 + place·μ/4."""
    gamma = 1 + i["place"] * _mu(i) / 4
    return (1 - sigma(i).nonlinearity(gamma)) * sigma(i).second_moment(gamma)


# --- E: the proof of Theorem 51 ------------------------------------------------------------


def _errors(rng: Rng, count: int) -> Iterator[Instance]:
    """Samples a_i in rows and the error w − w*; η = 1/(2β), β = max ‖a_i‖²."""
    yield {"A": np.array([[1.0, 0.0], [0.0, 1.0], [0.6, 0.8]]), "e": np.array([1.0, 2.0])}
    for _ in range(count):
        n, m = (int(v) for v in rng.integers(1, 6, 2))
        yield {"A": rng.standard_normal((n, m)), "e": rng.standard_normal(m)}


def _single_step(i: Instance) -> dict[str, Any]:
    """𝓛, E(aᵀe)²‖a‖², β, η and E‖e⁺‖² − ‖e‖² of one step of a single sample."""
    norms, rests = (i["A"] ** 2).sum(1), i["A"] @ i["e"]
    rate = 1 / (2 * norms.max())
    after = [((i["e"] - 2 * rate * rest * row) ** 2).sum() for row, rest in zip(i["A"], rests, strict=True)]
    loss, weighted = (rests**2).sum() / len(rests), (rests**2 * norms).sum() / len(rests)
    change = sum(after) / len(rests) - (i["e"] ** 2).sum()
    return {"loss": loss, "weighted": weighted, "beta": norms.max(), "rate": rate, "change": change}


def _second_line(i: Instance) -> Numeric:
    """−η(w − w*)ᵀ∇𝓛 + η²E‖∇̃𝓛‖², with the gradients of squares."""
    found = _single_step(i)
    return -2 * found["rate"] * found["loss"] + 4 * found["rate"] ** 2 * found["weighted"]


def _third_line(i: Instance) -> Numeric:
    found = _single_step(i)
    return -found["rate"] * found["loss"] + found["rate"] ** 2 * found["weighted"]


def _last_line(i: Instance) -> Numeric:
    found = _single_step(i)
    return (-found["rate"] + found["rate"] ** 2 * found["beta"]) * found["loss"]


# --- F: the proof of Theorem 52 ------------------------------------------------------------


def _quotients(rng: Rng, count: int) -> Iterator[Instance]:
    """|ρ_h − σ̂| = distance and ‖x_i‖‖x_j‖ = lengths."""
    yield {"distance": 0.11, "lengths": 1.0, "t": 0.1, "epsilon": 0.1}
    for _ in range(count):
        distance, lengths, t = float(rng.uniform(0, 1)), float(rng.uniform(0.3, 2)), float(rng.uniform(0.01, 1))
        yield {"distance": distance, "lengths": lengths, "t": t, "epsilon": float(rng.uniform(0.01, 0.5))}


def _large_quotient(i: Instance) -> int:
    return int(i["distance"] / i["lengths"] > i["t"])


def _printed_events(i: Instance) -> int:
    edge = (1 + i["epsilon"]) ** 2
    return int(i["lengths"] > edge) + int(i["distance"] > i["t"] * edge)


def _right_events(i: Instance) -> int:
    edge = (1 - i["epsilon"]) ** 2
    return int(i["lengths"] < edge) + int(i["distance"] > i["t"] * edge)


# --- F: Theorem 15 ------------------------------------------------------------


def _queries(dimension: int) -> float:
    """Queries of the learner that asks for the label of each of the 2^{d−1} inputs, at tolerance 1/L = 2^{−d}.

    The answers are as wrong as the tolerance allows.
    """
    inputs = 2 ** (dimension - 1)
    labels = np.where(np.arange(inputs) % 3, 1.0, -1.0)
    answers = labels / inputs - labels * 2.0**-dimension
    return inputs if (np.sign(answers) == labels).all() else math.inf


def _query_growth(i: Instance) -> Numeric:
    """d log log p/d log L for L = 2^d."""
    low, high = (log(i["one"] * _queries(i[key])) for key in ("low", "high"))
    return log(high / low) / ((i["high"] - i["low"]) * log(i["one"] * 2))


def _modulus_exponent(dense: bool) -> Callable[[Instance, Rng], Estimate]:
    """d log E|ρ_L|/d log L with m = 2L."""

    def estimate(i: Instance, rng: Rng) -> Estimate:
        values = []
        for depth in i["depths"]:
            if dense:
                sample = dense_cosines(i["F"], 2 * depth, depth, i["rho"], 300, rng)
            else:
                sample = unit_cosines(i["F"], 2 * depth, depth, i["rho"], 4000)[-1]
            values.append(Estimate.of(np.abs(sample)))
        return exponent(i["depths"], values)

    return estimate


def _modulus_size(i: Instance, rng: Rng) -> Estimate:
    """|log₂| of E|ρ_L| over √(2/πm(1 − a_1⁴)), the stationary law of ρ ↦ a_1²ρ + N(0, 1/m)."""
    mean = Estimate.of(np.abs(unit_cosines(i["F"], i["m"], i["L"], i["rho"], 4000)[-1]))
    slope = float(dual_slope("sign", 0.0))
    ratio = mean.value / math.sqrt(2 / (math.pi * i["m"] * (1 - slope**2)))
    return Estimate(abs(math.log2(ratio)), mean.error / (mean.value * math.log(2)), mean.freedom, mean.draws)


# --- §6: when the excess risk vanishes ------------------------------------------------------------

_samples = cases({"low": 1e2, "high": 1e8}, {"low": 1e3, "high": 1e12})


def _risk_bound(power: float, key: str) -> Callable[[Instance], Numeric]:
    """(log n/n)‖v*‖² for ‖v*‖² = n/(log n)^power."""
    return lambda i: log(i[key]) ** (1 - power)


# --- H: the proof of Lemma 57 ------------------------------------------------------------


def _neighbours(rng: Rng, count: int) -> Iterator[Instance]:
    yield {"n": 3, "delta": 0.5, "place": 0.0}
    for _ in range(count):
        delta, place = float(10 ** -rng.uniform(0, 4)), float(rng.uniform(-1, 1))
        yield {"n": int(rng.integers(2, 40)), "delta": delta, "place": place}


def _clear(i: Instance) -> Numeric:
    """P(|w·x_i| > √δ/4n | w·x_1 = place·√δ/10n) for x_1·x_i = 1 − δ: variance 1 − (1 − δ)²."""
    root, n, rho = sqrt(i["delta"]), i["n"], 1 - i["delta"]
    mean, deviation, edge = i["place"] * rho * root / (10 * n), sqrt(1 - rho * rho), root / (4 * n)
    return 1 - (ncdf((edge - mean) / deviation) - ncdf((-edge - mean) / deviation))


_second_part = cases({"low": 5 / 9, "high": 1.0})  # θ|z₂| between √δ/9n and √δ/5n for θ = √δ/5n

# --- I: NormReLU ------------------------------------------------------------

_unit_length = cases({"gamma": 1.0})


def _constant_square(gamma: Numeric) -> tuple[Numeric, Numeric]:
    """(a_0^{γ})² and σ̂_l(γ)."""
    c = gamma * 0 + NORMRELU_KINK
    found, root = normrelu_constants(c), sqrt(gamma)
    density, above, b = npdf(c / root), ncdf(-c / root), found["shift"]
    first = root * density - c * above
    second = (gamma + c * c) * above - c * root * density
    return found["scale"] ** 2 * (first + b) ** 2, found["scale"] ** 2 * (second + 2 * b * first + b * b)


def _bias(gamma: Numeric) -> Numeric:
    square, length = _constant_square(gamma)
    return square / length


def _rate(i: Instance) -> Numeric:
    return 2 * _constant_square(i["start"])[1] - 1


def _bias_sum(i: Instance) -> Numeric:
    """Σ_l bias(γ_l⁻) with 1 − γ_l⁻ = (1 − α⁻)^l/2; what 600 terms leave out is below 1e-20."""
    keep, away, total = 1 - _rate(i), 1 - i["start"], i["start"] * 0
    for _ in range(600):
        total, away = total + _bias(1 - away), away * keep
    return total


_half = cases({"start": 0.5})
_rates = cases({"rate": 0.0009, "depth": 32}, {"rate": 0.0009, "depth": 64})


def _orders(power: int) -> Callable[[Instance], Numeric]:
    """Distance of a learning rate from 10^{−power}, in powers of ten."""
    return lambda i: abs(log(i["rate"]) / log(i["rate"] * 0 + 10) + power)


CLAIMS = (
    deterministic("004/thm-3:features", at_most(_one_layer_less, _decay_bound), {"pairs": _shallow}),
    deterministic("004/asm-B:noise", at_least(_smallest_gram, _NOTHING), {"noise": _noisy(0)}, counts=(20, 60)),
    deterministic(
        "004/asm-B:noise#corrected", at_least(_smallest_gram, _NOTHING), {"noise": _noisy(-1)}, counts=(20, 60)
    ),
    deterministic("004/lem-1:deviation", equal(_deviation(False), _scaled_deviation), {"random": _units}, scale=1),
    deterministic(
        "004/lem-1:deviation#corrected", equal(_deviation(True), _scaled_deviation), {"random": _units}, scale=1
    ),
    deterministic(
        "004/lem-26:step", equal(_difference, _numerator(0)), {"random": _simple_slopes}, scale=1, tolerance=1e-6
    ),
    deterministic(
        "004/lem-26:step#corrected",
        equal(_difference, _numerator(1)),
        {"random": _simple_slopes},
        scale=1,
        tolerance=1e-6,
    ),
    deterministic(
        "004/eq-7:discontinuous",
        equal(_gradient_kernel, lambda i: tangent_by_layers(i["dual"], i["rho"], i["L"])),
        {"sign": _jumps},
    ),
    deterministic(
        "004/eq-7:discontinuous#corrected",
        at_most(
            lambda i: abs(_gradient_kernel(i)),
            lambda i: 2 * correlation_bound(i["L"] / 2, 1 - abs(i["rho"]), 1 - dual_slope("sign", i["rho"] * 0)),
        ),
        {"sign": _deep_jumps},
    ),
    deterministic("004/thm-5:step", equal(_product, _twice_bound), {"start": _level}),
    deterministic("004/thm-5:step#corrected", equal(_product, _twice_bound), {"later": _later}),
    deterministic(
        "004/cor-10:step",
        at_most(lambda i: (1 - i["nu"] / 2) ** _start(i), lambda i: i["nu"] * 0 + 0.5),
        {"any": _level},
    ),
    deterministic(
        "004/cor-10:step#corrected",
        at_most(lambda i: (1 - i["nu"] / 2) ** _start(i), lambda i: 2 * i["delta"]),
        {"any": _level},
    ),
    deterministic("004/thm-51:step", at_most(_second_line, _third_line), {"random": _errors}, scale=1),
    deterministic(
        "004/thm-51:step#corrected",
        at_most(lambda i: _single_step(i)["change"], _last_line),
        {"random": _errors},
        scale=1,
    ),
    deterministic("004/thm-52:split", at_most(_large_quotient, _printed_events), {"random": _quotients}),
    deterministic("004/thm-52:split#corrected", at_most(_large_quotient, _right_events), {"random": _quotients}),
    deterministic("004/lem-39:step", at_least(_bend, 0), {"random": _bends}, scale=1),
    deterministic("004/lem-39:step#corrected", at_most(_bend, 0), {"random": _bends}, scale=1),
    deterministic(
        "004/thm-42:step",
        at_most(lambda i: sqrt(_linear_square(i)), lambda i: 1 - 3 * _mu(i) / 4),
        {"mixtures": _near_one},
    ),
    deterministic(
        "004/thm-42:step#corrected", at_most(_linear_square, lambda i: 1 - 3 * _mu(i) / 4), {"mixtures": _near_one}
    ),
    deterministic(
        "004/thm-15:queries",
        at_least(_query_growth, 0.95),
        {"cubes": cases({"low": 4, "high": 8, "one": 1.0}, {"low": 6, "high": 16, "one": 1.0})},
    ),
    expectation(
        "004/thm-15:modulus",
        at_most(
            Sampled(
                _modulus_exponent(False), _modulus_exponent(True), "networks with all their weights instead of pairs"
            ),
            -2.0,
        ),
        {"networks": cases({"F": "sign", "depths": [8, 32], "rho": 0.5})},
        counts=(1, 1),
        resolution=0.5,
    ),
    expectation(
        "004/thm-15:modulus#corrected",
        at_most(Sampled(_modulus_size), 0.5),
        {"networks": cases({"F": "sign", "m": 64, "L": 30, "rho": 0.5})},
        counts=(1, 1),
        resolution=0.5,
    ),
    deterministic(
        "004/thm-16:vanishing", at_most(_risk_bound(0.5, "high"), _risk_bound(0.5, "low")), {"sizes": _samples}
    ),
    deterministic(
        "004/thm-16:vanishing#corrected",
        at_most(_risk_bound(1.5, "high"), _risk_bound(1.5, "low")),
        {"sizes": _samples},
    ),
    deterministic(
        "004/lem-57:others", at_least(_clear, lambda i: 1 - i["delta"] ** 0 / (8 * i["n"])), {"random": _neighbours}
    ),
    deterministic(
        "004/lem-57:others#corrected",
        at_least(_clear, lambda i: 1 - i["delta"] ** 0 / (4 * i["n"])),
        {"random": _neighbours},
    ),
    deterministic(
        "004/thm-56:event", at_least(lambda i: 2 * (ncdf(i["high"]) - ncdf(i["low"])), 0.2), {"one": _second_part}
    ),
    deterministic("004/normrelu:zeroth", equal(lambda i: _constant_square(i["gamma"])[0], 1), {"one": _unit_length}),
    deterministic("004/thm-59:sums", equal(_bias_sum, lambda i: _bias(i["start"]) / _rate(i)), {"below": _half}),
    deterministic(
        "004/thm-59:sums#corrected", at_most(_bias_sum, lambda i: _bias(i["start"]) / _rate(i)), {"below": _half}
    ),
    deterministic("004/tab-I3:rates", at_most(_orders(5), 1), {"depths": _rates}),
    deterministic("004/tab-I3:rates#corrected", at_most(_orders(3), 1), {"depths": _rates}),
)
