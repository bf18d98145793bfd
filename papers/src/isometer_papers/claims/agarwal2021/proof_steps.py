"""004, Appendices C, D and I: lines of proofs that were not quoted before."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from isometer.activations import NORMRELU_KINK
from isometer_papers.claims._claim import Instance
from isometer_papers.claims._families import Rng
from isometer_papers.claims._statements import at_most, deterministic, equal, vanishes
from isometer_papers.float_or_mpmath import Numeric, ncdf, npdf, sqrt
from isometer_papers.theory.duals.normrelu_pairs import normrelu_constants

# --- Lemma 23: f[K] as a series ------------------------------------------------------------


def _kernels(rng: Rng, count: int) -> Iterator[Instance]:
    """Gram matrices of unit vectors, and coefficients a_0, a_1, … ≥ 0."""
    yield {"K": np.array([[1.0, 0.5], [0.5, 1.0]]), "a": np.array([0.25, 0.5, 0.25])}
    for _ in range(count):
        n = int(rng.integers(2, 5))
        x = rng.standard_normal((n, n))
        x /= np.linalg.norm(x, axis=1, keepdims=True)
        yield {"K": x @ x.T, "a": rng.uniform(0, 1, int(rng.integers(2, 6)))}


def _series_gap(i: Instance, first: int) -> Numeric:
    """Largest entry of f[K] − Σ_{i ≥ first} a_i K^{⊙i}; f by Horner's rule."""
    value = i["K"] * 0
    for coefficient in i["a"][::-1]:
        value = value * i["K"] + coefficient
    return abs(value - sum(i["a"][k] * i["K"] ** k for k in range(first, len(i["a"])))).max()


# --- Lemma 40: vectors u, v with the covariance Σ ------------------------------------------------------------


def _covariances(rng: Rng, count: int) -> Iterator[Instance]:
    yield {"p": 2.0, "q": 3.0, "c": 1.0}
    for _ in range(count):
        p, q = (float(v) for v in rng.uniform(1.1, 4, 2))
        yield {"p": p, "q": q, "c": float(rng.uniform(-1, 1) * np.sqrt(p * q))}


def _covariance_gap(i: Instance, squared: bool) -> Numeric:
    """Largest entry of Σ − (u, v)ᵀ(u, v): u, v of lengths γ_1, γ_2, or of squared lengths γ_1, γ_2."""
    p, q, c = i["p"], i["q"], i["c"]
    length = sqrt(p) if squared else p
    below = (q if squared else q * q) - (c / length) ** 2
    u, v = (length, 0 * p), (c / length, sqrt(below))
    entries = (u[0] ** 2 - p, v[0] ** 2 + v[1] ** 2 - q, u[0] * v[0] - c)
    return max(abs(entry) for entry in entries)


# --- Lemma 39: the second derivative of the length map ------------------------------------------------------------

_NODES, _WEIGHTS = np.polynomial.hermite_e.hermegauss(180)
_STEP = 2e-3


def _mean(values: Numeric) -> float:
    return float(_WEIGHTS @ values / _WEIGHTS.sum())


def _second_difference(i: Instance) -> float:
    """of E tanh²(√γ t z) in γ, to fourth order."""
    at = [_mean(np.tanh(np.sqrt(i["gamma"] + k * _STEP) * i["t"] * _NODES) ** 2) for k in (-2, -1, 0, 1, 2)]
    return (-at[0] + 16 * at[1] - 30 * at[2] + 16 * at[3] - at[4]) / (12 * _STEP**2)


def _printed_second(i: Instance) -> float:
    gamma, t = i["gamma"], i["t"]
    value = np.tanh(np.sqrt(gamma) * t * _NODES)
    slope = t * (1 - value**2)
    bend = -2 * t * value * slope
    terms = (slope**2 * _NODES**2 / (2 * gamma), value * bend * _NODES**2 / (2 * gamma))
    return float(_mean(sum(terms)) - _mean(value * slope * _NODES) / (2 * gamma**1.5))


def _lengths(rng: Rng, count: int) -> Iterator[Instance]:
    yield {"gamma": 1.0, "t": 1.0}
    for _ in range(count):
        yield {"gamma": float(rng.uniform(0.5, 3)), "t": float(rng.uniform(0.3, 1.2))}


# --- Theorem 59: the sequences γ_l⁻ and γ_l⁺ ------------------------------------------------------------


def _length_map(gamma: Numeric) -> Numeric:
    """σ̂_l of NormReLU."""
    c = gamma * 0 + NORMRELU_KINK
    found, root = normrelu_constants(c), sqrt(gamma)
    density, above = npdf(c / root), ncdf(-c / root)
    first, second = root * density - c * above, (gamma + c * c) * above - c * root * density
    return found["scale"] ** 2 * (second + 2 * found["shift"] * first + found["shift"] ** 2)


def _rates(one: Numeric) -> tuple[Numeric, Numeric]:
    """1 − α⁻ = 2 − 2σ̂_l(½) and 1 − α⁺ = σ̂_l′(1) = E σσ′X."""
    c = one * 0 + NORMRELU_KINK
    found = normrelu_constants(c)
    slope = found["scale"] ** 2 * (ncdf(-c) + found["shift"] * npdf(c))
    return 2 - 2 * _length_map(one / 2), slope


def _upper(i: Instance, printed: bool) -> Numeric:
    """γ_L⁺ by the recursion from γ_0⁻ = ½, γ_0⁺ = 2."""
    one = i["gamma"] * 0 + 1
    lower, upper = one / 2, 2 * one
    keep_below, keep_above = _rates(one)
    for _ in range(i["L"]):
        upper = 1 + keep_above * ((lower if printed else upper) - 1)
        lower = 1 - keep_below * (1 - lower)
    return upper


def _length_after(i: Instance) -> Numeric:
    gamma = i["gamma"]
    for _ in range(i["L"]):
        gamma = _length_map(gamma)
    return gamma


def _long_inputs(rng: Rng, count: int) -> Iterator[Instance]:
    """Squared lengths from 1 to 2."""
    yield {"gamma": 2.0, "L": 1}
    for _ in range(count):
        yield {"gamma": float(rng.uniform(1, 2)), "L": int(rng.integers(1, 40))}


CLAIMS = (
    deterministic("004/lem-23:series", vanishes(lambda i: _series_gap(i, 1)), {"kernels": _kernels}),
    deterministic("004/lem-23:series#corrected", vanishes(lambda i: _series_gap(i, 0)), {"kernels": _kernels}),
    deterministic("004/lem-40:vectors", vanishes(lambda i: _covariance_gap(i, False)), {"covariances": _covariances}),
    deterministic(
        "004/lem-40:vectors#corrected", vanishes(lambda i: _covariance_gap(i, True)), {"covariances": _covariances}
    ),
    deterministic(
        "004/lem-39:second-derivative",
        equal(_second_difference, _printed_second),
        {"tanh": _lengths},
        tolerance=1e-5,
        counts=(20, 100),
    ),
    deterministic("004/thm-59:recursion", at_most(_length_after, lambda i: _upper(i, True)), {"long": _long_inputs}),
    deterministic(
        "004/thm-59:recursion#corrected", at_most(_length_after, lambda i: _upper(i, False)), {"long": _long_inputs}
    ),
)
