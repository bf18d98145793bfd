"""004, §4 and Appendix E: gradient descent on kernels."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from isometer.activations import activation
from isometer.run import seed_of
from isometer_papers.claims._claim import Estimate, Instance
from isometer_papers.claims._families import Rng, cases
from isometer_papers.claims._precise import eigenvalues
from isometer_papers.claims._statements import Sampled, at_least, at_most, deterministic, probability, vanishes
from isometer_papers.claims.agarwal2021.instances import correlations
from isometer_papers.float_or_mpmath import Numeric, log
from isometer_papers.theory.duals.exact_duals import dual_slope, iterated_dual, relative_tangent
from isometer_papers.theory.duals.small_interpolation import least_squares_path, residual_floor, stochastic_path
from isometer_papers.theory.kernel_learning.optimization import (
    concentration_width,
    conditioning_depth,
    descent,
    least_squares_bound,
    stochastic_lower_bound,
    stochastic_steps,
)


def _orthonormal(rng: Rng, count: int) -> Iterator[Instance]:
    """Orthonormal inputs: K̄ = I and 𝒦̄ = D·I for every normalised σ and depth."""
    for low, high in ((10, 100), (100, 1000), (10, 1000))[:count]:
        yield {"low": low, "high": high, "theta": 1.0}
        yield {"low": low, "high": high, "theta": 0.3}


def _printed_exponent(i: Instance) -> Numeric:
    """d log(−log(𝓛_{t+1}/𝓛_t))/d log n for η = θ/λ_max(K), K = I, 𝓛 = (1/n)Σ(f − y)²: a step is 1 − 2θ/n."""

    def rate(n: int) -> Any:
        return -2 * log(1 - 2 * i["theta"] / (i["theta"] * 0 + n))

    slope = log(rate(i["high"]) / rate(i["low"]))
    return slope / log(i["theta"] * 0 + i["high"] / (i["theta"] * 0 + i["low"]))


def _datasets(rng: Rng, count: int) -> Iterator[Instance]:
    for n, d in ((4, 6), (8, 5), (16, 6), (32, 8))[: max(count, 2)]:
        yield {"dual": "relu", "K": correlations(rng.standard_normal((n, d)))}
        yield {"dual": "sin", "K": correlations(rng.standard_normal((n, d)))}


def _depth(i: Instance) -> int:
    gap = 1 - float(np.abs(np.asarray(i["K"], dtype=float) - np.eye(len(i["K"]))).max())
    return conditioning_depth(len(i["K"]), gap, 1 - float(dual_slope(i["dual"], 0.0)))


def _steps(kind: str) -> Callable[[Instance], Numeric]:
    """Steps of gradient descent to 1e-6 of the loss over log(1e6), with the best constant step size."""

    def value(i: Instance) -> Numeric:
        kernel = np.asarray(i["K"], dtype=float)
        deep = iterated_dual if kind == "top" else relative_tangent
        depth = _depth(i) if kind == "top" else 2 * _depth(i)
        return descent(deep(i["dual"], kernel, depth)).steps(1e-6) / math.log(1e6)

    return value


def _steps_exact(kind: str) -> Callable[[Instance], tuple[Numeric, Numeric]]:
    def sides(i: Instance) -> tuple[Numeric, Numeric]:
        deep = iterated_dual if kind == "top" else relative_tangent
        values = eigenvalues(deep(i["dual"], i["K"], _depth(i) if kind == "top" else 2 * _depth(i)))
        kappa = values[-1] / values[0]
        needed = log(kappa * 0 + 10**6) / (-2 * log((kappa - 1) / (kappa + 1)))
        return max(1, math.ceil(needed)) / log(kappa * 0 + 10**6), kappa * 0 + 1

    return sides


_singles = cases(*({"n": n, "theta": theta} for n in (8, 16, 64) for theta in (0.5, 0.25)))


def _single_steps(i: Instance) -> Numeric:
    """Steps that single-sample descent needs for ε = 0.01 on K = I: (1 − 4η(1 − η)/n)^t ≤ ε, over log(1/ε)."""
    eta, n = i["theta"], i["n"]
    fall = -log(1 - 4 * eta * (1 - eta) / (eta * 0 + n))
    return 1 / fall


def _growth_in_samples(i: Instance) -> Numeric:
    """d log(steps)/d log n between two numbers of samples."""
    low, high = ({"n": i[key], "theta": i["theta"]} for key in ("low", "high"))
    ratio = log(_single_steps(high) / _single_steps(low))
    return ratio / log(i["theta"] * 0 + i["high"] / (i["theta"] * 0 + i["low"]))


_sample_ranges = cases(
    *({"low": low, "high": high, "theta": theta} for low, high in ((10, 100), (10, 1000)) for theta in (0.5, 0.25))
)


def _needed(i: Instance) -> int:
    return stochastic_lower_bound(i["n"], 0.01)


def _features(rng: Rng, count: int) -> Iterator[Instance]:
    """Realisable least squares: y = Aw*."""
    yield {"A": np.eye(2), "w": np.ones(2), "t": 3}
    yield {"A": np.array([[1.0, 0.0], [0.0, 3.0]]), "w": np.array([1.0, 0.2]), "t": 8}
    for _ in range(count):
        n, m = (int(v) for v in rng.integers(1, 6, 2))
        n, m = max(n, m), min(n, m)
        scales = 10 ** rng.uniform(-0.7, 0.7, m)
        yield {"A": rng.standard_normal((n, m)) * scales, "w": rng.standard_normal(m), "t": int(rng.integers(1, 30))}


def _tall(rng: Rng, count: int) -> Iterator[Instance]:
    """Full column rank and labels that are not attained; w_0 = 0."""
    yield {"A": np.array([[1.0, 0.0], [0.0, 1.0], [1.0, 1.0]]), "y": np.array([1.0, 1.0, 0.0]), "t": 40}
    for _ in range(count):
        m = int(rng.integers(1, 4))
        n = m + int(rng.integers(1, 4))
        yield {"A": rng.standard_normal((n, m)), "y": rng.standard_normal(n), "t": int(rng.integers(1, 30))}


def _floored(i: Instance) -> Numeric:
    """𝓛(w_t)/𝓛(0) at η = n/(λ_min + λ_max)."""
    values = _spectrum(i)
    return least_squares_path(i["A"], i["y"], i["t"], len(i["A"]) / (values[0] + values[-1]))


def _spectrum(i: Instance) -> Numeric:
    return eigenvalues(i["A"].T @ i["A"])


def _path(i: Instance) -> Numeric:
    values = _spectrum(i)
    rate = len(i["A"]) / (values[0] + values[-1])
    return least_squares_path(i["A"], i["A"] @ i["w"], i["t"], rate)


def _path_bound(i: Instance) -> Numeric:
    values = _spectrum(i)
    return float(least_squares_bound(float(values[-1] / values[0]), i["t"]))


def _well_posed(i: Instance) -> bool:
    values = _spectrum(i)
    return bool(values[0] > 1e-3 and np.any(np.abs(np.asarray(i["A"] @ i["w"], dtype=float)) > 1e-6))


def _labelled(rng: Rng, count: int) -> Iterator[Instance]:
    yield {"A": np.array([[1.0, 0.0], [0.0, 1.0], [1.0, 1.0]]), "y": np.array([1.0, 1.0, 0.0])}
    for _ in range(count):
        m = int(rng.integers(1, 4))
        n = m + int(rng.integers(0, 3))
        yield {"A": rng.standard_normal((n, m)), "y": rng.standard_normal(n)}


def _wide(rng: Rng, count: int) -> Iterator[Instance]:
    for _ in range(count):
        n = int(rng.integers(1, 4))
        yield {"A": rng.standard_normal((n, n + int(rng.integers(0, 3)))), "y": rng.standard_normal(n)}


def _wide_floor(i: Instance) -> Numeric:
    """The loss of w = Aᵀ(AAᵀ)⁻¹y."""
    from isometer_papers.theory.duals.small_interpolation import solved

    rest = i["A"] @ (i["A"].T @ solved(i["A"] @ i["A"].T, i["y"])) - i["y"]
    return (rest * rest).sum() / len(i["A"])


def _kernels(rng: Rng, count: int) -> Iterator[Instance]:
    yield {"A": np.eye(2), "r": np.ones(2)}
    yield {"A": np.eye(3), "r": np.array([1.0, 0.0, 0.0])}
    for _ in range(count):
        n = int(rng.integers(2, 5))
        a = correlations(rng.standard_normal((n, n + 3)))
        yield {
            "A": np.linalg.cholesky(a + 0.2 * np.eye(n)) if rng.integers(2) else np.eye(n),
            "r": rng.standard_normal(n),
        }


def _stochastic(i: Instance, part: str) -> Numeric:
    """Mean loss over T = 8nβ/λ_min steps, or the last loss after (8nβ/λ_min)log(1/ε) steps over ε."""
    kernel = i["A"] @ i["A"].T
    beta = max(np.diag(kernel))
    smallest = eigenvalues(kernel)[0]
    n = len(kernel)
    if part == "mean":
        steps = math.ceil(8 * n * float(beta / smallest))
        return stochastic_path(kernel, i["r"], steps, 1 / (2 * beta))[1]
    steps = math.ceil(stochastic_steps(n, float(beta), float(smallest), 0.1)["printed"])
    return stochastic_path(kernel, i["r"], steps, 1 / (2 * beta))[0] / 0.1


_starts = cases(*({"A": np.eye(3), "r": size * np.array([3.0, -2.0, 1.0]), "epsilon": 0.5} for size in (1.0, 100.0)))


def _reached(i: Instance) -> Any:
    """E 𝓛 after (8nβ/λ_min)log(1/ε) steps, over ε."""
    kernel = i["A"] @ i["A"].T
    beta = max(np.diag(kernel))
    steps = stochastic_steps(len(kernel), float(beta), float(eigenvalues(kernel)[0]), float(i["epsilon"]))["printed"]
    start = (i["r"] ** 2).sum() / len(kernel)
    return start * stochastic_path(kernel, i["r"], math.ceil(steps), 1 / (2 * beta))[0] / i["epsilon"]


_trace_kernels = cases(*({"n": n, "share": 1.0} for n in (10, 100, 1000)))


def _smallest_over_n(i: Instance) -> Numeric:
    """The most that λ_min(K)/n can be for a kernel with unit diagonal: the trace gives λ_min ≤ 1."""
    return i["share"] / (i["share"] * 0 + i["n"])


_networks = cases(
    *({"n": n, "L": depth, "gamma": gamma} for n, depth, gamma in ((4, 1, 0.2), (3, 2, 0.4), (8, 1, 0.15)))
)


def _within(i: Instance, rng: Rng) -> Estimate:
    """Share of random networks of the printed width whose kernel is within γ of its limit, for unit sin."""
    phi = activation("unit(sin)")
    bound = float(1 / np.sqrt((1 - math.exp(-2)) / 2))  # sup of σ, σ′ and σ″
    width = math.ceil(concentration_width(bound, i["L"], i["n"], i["gamma"]))
    draw = np.random.default_rng(seed_of(f"004 width {i['n']} {i['L']} {i['gamma']}"))
    x = draw.standard_normal((i["n"], 6))
    x /= np.linalg.norm(x, axis=1, keepdims=True)
    limit = iterated_dual("sin", correlations(x), i["L"])
    hits, runs = 0, 60
    for _ in range(runs):
        gram = x @ x.T
        for _ in range(i["L"]):
            # Wh has the law of G^{1/2} times Gaussians; not Cholesky, as G may be singular up to rounding
            values, vectors = np.linalg.eigh(gram)
            z = (vectors * np.sqrt(np.maximum(values, 0))) @ draw.standard_normal((i["n"], width))
            h = phi(z)
            gram = h @ h.T / width
        hits += bool(np.abs(gram - limit).max() <= i["gamma"])
    share = (hits + 1) / (runs + 2)  # Laplace's rule: the error of 60 hits of 60 would be 0
    return Estimate(share, math.sqrt(share * (1 - share) / runs), runs - 1, runs)


_all_layers = cases(*({"low": low, "high": high, "theta": 1.0} for low, high in ((10, 100), (10, 1000))))


CLAIMS = (
    deterministic(
        "004/thm-13:gd", at_most(_steps("top"), 1), {"data": _datasets}, exact=_steps_exact("top"), counts=(4, 8)
    ),
    deterministic("004/thm-13:sgd", at_most(_growth_in_samples, 0.05), {"orthonormal": _sample_ranges}),
    deterministic("004/thm-44", at_least(_printed_exponent, -0.05), {"orthonormal": _orthonormal}, scale=1),
    deterministic(
        "004/thm-44#corrected", at_most(_steps("top"), 1), {"data": _datasets}, exact=_steps_exact("top"), counts=(4, 8)
    ),
    deterministic("004/thm-45", at_most(_growth_in_samples, 0.05), {"orthonormal": _sample_ranges}),
    deterministic("004/thm-45#corrected", at_most(_single_steps, lambda i: 4 * i["n"]), {"orthonormal": _singles}),
    deterministic(
        "004/thm-45:lower", at_least(lambda i: _single_steps(i) * math.log(100), _needed), {"orthonormal": _singles}
    ),
    deterministic("004/thm-45:smallest", at_least(_smallest_over_n, 0.05), {"traces": _trace_kernels}, scale=1),
    deterministic(
        "004/thm-45:smallest#corrected",
        at_least(lambda i: eigenvalues(iterated_dual(i["dual"], i["K"], _depth(i)))[0], 0.5),
        {"data": _datasets},
        counts=(4, 8),
    ),
    probability("004/lem-43", at_least(Sampled(_within), 0.5), {"networks": _networks}, counts=(2, 3), resolution=0.5),
    deterministic(
        "004/thm-50:assumption",
        vanishes(lambda i: residual_floor(i["A"], i["y"])),
        {"random": _labelled},
        hypotheses=lambda i: bool(eigenvalues(i["A"].T @ i["A"])[0] > 1e-3),
    ),
    deterministic(
        "004/thm-50:assumption#corrected",
        vanishes(_wide_floor),
        {"random": _wide},
        hypotheses=lambda i: bool(eigenvalues(i["A"] @ i["A"].T)[0] > 1e-2),
    ),
    deterministic(
        "004/thm-50",
        at_most(_floored, _path_bound),
        {"labelled": _tall},
        hypotheses=lambda i: bool(_spectrum(i)[0] > 1e-3),
        scale=1,
    ),
    deterministic(
        "004/thm-50#corrected", at_most(_path, _path_bound), {"random": _features}, hypotheses=_well_posed, scale=1
    ),
    deterministic(
        "004/thm-51:halving", at_most(lambda i: _stochastic(i, "mean"), 0.5), {"random": _kernels}, counts=(20, 100)
    ),
    deterministic("004/thm-51", at_most(_reached, 1), {"starts": _starts}, counts=(2, 2)),
    deterministic(
        "004/thm-51#intended", at_most(lambda i: _stochastic(i, "last"), 1), {"random": _kernels}, counts=(12, 60)
    ),
    deterministic(
        "004/thm-14", at_most(_steps("all"), 1), {"data": _datasets}, exact=_steps_exact("all"), counts=(4, 8)
    ),
    # η = 2/(λ_min + λ_max) and 𝒦̄ = D·I: a step is 1 − 2/n, whatever D
    deterministic("004/thm-47", at_least(_printed_exponent, -0.05), {"orthonormal": _all_layers}, scale=1),
)
