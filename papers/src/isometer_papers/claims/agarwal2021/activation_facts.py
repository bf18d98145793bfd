"""004, §2, Appendix B and the beginning of Appendix C: normalisation, dual activations, coefficients."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from isometer_papers.claims._claim import Estimate, Instance
from isometer_papers.claims._families import Rng, cases
from isometer_papers.claims._fits import exponent
from isometer_papers.claims._statements import Sampled, above, asymptotic, at_most, deterministic, equal, vanishes
from isometer_papers.claims.agarwal2021.instances import nonaffinity, nonlinearity, random_squares, simple_duals
from isometer_papers.claims.agarwal2021.simulations import kernel_draws
from isometer_papers.float_or_mpmath import Numeric, sqrt
from isometer_papers.theory.duals.exact_duals import dual_slope, dual_value
from isometer_papers.theory.duals.kernel_tables import parameter_count


def _polynomials(rng: Rng, count: int) -> Iterator[Instance]:
    """σ = Σ a_i h_i up to degree 4, and a cosine."""
    yield {"a": np.array([0.0, 0.0, 1.0, 0.0, 0.0]), "rho": 0.5}
    for _ in range(count):
        a = np.sqrt(random_squares(rng, degree=4))
        a = np.concatenate([a, np.zeros(5 - len(a))])[:5] * rng.choice([-1.0, 1.0], 5)
        yield {"a": a, "rho": float(rng.uniform(-1, 1))}


def _hermite_values(x: Numeric) -> list[Any]:
    root = [sqrt(x * 0 + k) for k in (2, 6, 24)]
    return [x * 0 + 1, x, (x * x - 1) / root[0], (x**3 - 3 * x) / root[1], (x**4 - 6 * x**2 + 3) / root[2]]


def _polynomial(a: Any, x: Numeric) -> Numeric:
    return sum(c * h for c, h in zip(a, _hermite_values(x), strict=True))


def _gauss(order: int = 12) -> tuple[Numeric, Numeric]:
    x, w = np.polynomial.hermite_e.hermegauss(order)
    return x, w / math.sqrt(2 * math.pi)


def _expectation(i: Instance, function: Callable[[Any, Any], Any]) -> Numeric:
    """E f(X, X′) by tensor Gauss–Hermite, exact for these polynomials."""
    x, w = _gauss()
    rho = float(i["rho"])
    first, second = x[:, None], rho * x[:, None] + math.sqrt(1 - rho * rho) * x[None, :]
    return float(w @ function(first + 0 * second, second) @ w)


def _dual_by_definition(i: Instance) -> Numeric:
    a = np.asarray(i["a"], dtype=float)
    return _expectation(i, lambda x, y: _polynomial(a, x) * _polynomial(a, y))


def _derivative_dual(i: Instance) -> Numeric:
    """E σ̇(X)σ̇(X′), with h_i′ = √i h_{i−1}."""
    a = np.asarray(i["a"], dtype=float)
    lowered = np.append(a[1:] * np.sqrt(np.arange(1, 5)), 0.0)
    return _expectation(i, lambda x, y: _polynomial(lowered, x) * _polynomial(lowered, y))


def _vectors(rng: Rng, count: int) -> Iterator[Instance]:
    for instance in _polynomials(rng, count):
        d = int(rng.integers(2, 4))
        x, y = rng.standard_normal((2, d))
        yield {"a": instance["a"], "x": x / np.linalg.norm(x), "y": y / np.linalg.norm(y)}


def _rotated(i: Instance) -> Numeric:
    """E σ(w·x)σ(w·x′) over w in R^d by tensor Gauss–Hermite."""
    x, w = _gauss(8)
    a, u, v = (np.asarray(i[k], dtype=float) for k in ("a", "x", "y"))
    grid = np.stack(np.meshgrid(*([x] * len(u)), indexing="ij"), -1)
    weight = np.ones(grid.shape[:-1])
    for axis in range(len(u)):
        weight = weight * w.reshape([-1 if k == axis else 1 for k in range(len(u))])
    return float((weight * _polynomial(a, grid @ u) * _polynomial(a, grid @ v)).sum())


def _squares(i: Instance) -> Numeric:
    return i["a"] ** 2


def _printed_squares(i: Instance) -> Numeric:
    """(E σ(X)h_i(X))² for the probabilist's polynomials, whose squares have the mean i!."""
    return np.array([math.factorial(k) for k in range(len(i["a"]))]) * _squares(i)


def _series(squares: Numeric, rho: Numeric) -> Numeric:
    return sum(square * rho**k for k, square in enumerate(squares))


def _linear_share(squares: Numeric) -> Numeric:
    return 1 - squares[1] / squares[1:].sum()


def _total(i: Instance) -> Numeric:
    """E σ² by quadrature."""
    x, w = _gauss()
    return float(w @ _polynomial(np.asarray(i["a"], dtype=float), x) ** 2)


def _mean(i: Instance) -> Numeric:
    x, w = _gauss()
    return float(w @ _polynomial(np.asarray(i["a"], dtype=float), x))


def _rebuilt(i: Instance, unit: bool) -> Any:
    """Σ E[σ(X)h_k(X)] h_k(ρ), with the probabilist's polynomials or with those of unit length."""
    x, w = _gauss()
    nodes, point = x + 0 * i["a"][0], i["rho"] + 0 * i["a"][0]
    values = _polynomial(i["a"], nodes) * w
    lengths = [sqrt(point * 0 + (1 if unit else math.factorial(k))) for k in range(5)]
    pairs = zip(lengths, _hermite_values(nodes), _hermite_values(point), strict=True)
    return sum((values * (length * h)).sum() * length * at for length, h, at in pairs)


def _duals(rng: Rng, count: int) -> Iterator[Instance]:
    yield from simple_duals(rng, count)
    for _ in range(count):
        yield {"squares": random_squares(rng)}


def _raw_polynomials(rng: Rng, count: int) -> Iterator[Instance]:
    """σ = Σ a_i h_i with a mean, of any size."""
    yield {"a": np.array([1.0, 1.0, 1.0, 0.0, 0.0])}
    for _ in range(count):
        yield {"a": rng.standard_normal(5)}


def _normalized_moments(i: Instance) -> tuple[Numeric, Numeric]:
    """Mean and mean square of (σ − E σ)/√Var σ, by Gauss–Hermite sums of the values."""
    x, w = _gauss()
    values = _polynomial(i["a"], x + 0 * i["a"][0])
    mean = values @ w
    moved = (values - mean) / sqrt((values - mean) ** 2 @ w)
    return moved @ w, moved**2 @ w


def _mu_by_dual(i: Instance) -> Numeric:
    squares = _squares(i)
    zero = squares[0] * 0
    total = squares.sum()
    slope = dual_slope(squares, zero) * total
    return 1 - slope / (total - dual_value(squares, zero) * total)


def _shapes(rng: Rng, count: int) -> Iterator[Instance]:
    for _ in range(count):
        d, m, depth = (int(v) for v in rng.integers(1, 30, 3))
        yield {"d": d, "m": m, "L": depth}


def _counted(i: Instance) -> int:
    sizes = [(i["m"], i["d"]), *([(i["m"], i["m"])] * (i["L"] - 1)), (1, i["m"])]
    return sum(a * b for a, b in sizes)


def _width_exponent(i: Instance, rng: Rng) -> Estimate:
    """d log(E|k − σ̂^{(l)}|²)^{1/2}/d log m."""
    values = []
    for width in i["widths"]:
        gaps = np.abs(kernel_draws(i["F"], width, i["L"], i["rho"], i["runs"]) - _limit(i))
        values.append(Estimate.of(gaps))
    return exponent(i["widths"], values)


def _limit(i: Instance) -> float:
    rho = i["rho"]
    for _ in range(i["L"]):
        rho = dual_value({"normalized(relu)": "relu", "normalized(exp)": "exp", "unit(sin)": "sin"}[i["F"]], rho)
    return float(rho)


_width_cases = cases(
    *(
        {"F": name, "L": depth, "rho": 0.6, "widths": [64, 256, 1024], "runs": 800}
        for name, depth in (("normalized(relu)", 2), ("unit(sin)", 3), ("normalized(relu)", 4))
    )
)


def _mean_kernel(i: Instance, rng: Rng) -> Estimate:
    return Estimate.of(kernel_draws(i["F"], 1024, i["L"], i["rho"], 800))


CLAIMS = (
    deterministic(
        "004/eq-1:parameters", equal(_counted, lambda i: parameter_count(i["d"], i["m"], i["L"])), {"random": _shapes}
    ),
    deterministic("004/eq-2:mean", vanishes(lambda i: _normalized_moments(i)[0]), {"random": _raw_polynomials}),
    deterministic("004/eq-2:variance", equal(lambda i: _normalized_moments(i)[1], 1), {"random": _raw_polynomials}),
    deterministic(
        "004/def-2:unnormalised",
        equal(_mu_by_dual, lambda i: _linear_share(_printed_squares(i))),
        {"random": _raw_polynomials},
        scale=1,
        tolerance=1e-7,
        exact=lambda i: (_linear_share(_squares(i)), _linear_share(_printed_squares(i))),
    ),
    deterministic(
        "004/def-2:unnormalised#corrected",
        equal(_mu_by_dual, lambda i: _linear_share(_squares(i))),
        {"random": _raw_polynomials},
        scale=1,
        tolerance=1e-7,
    ),
    deterministic("004/def-29:coincide", equal(nonaffinity, nonlinearity), {"random": _duals}),
    deterministic(
        "004/def-18:fact-1",
        equal(_rotated, lambda i: dual_value(_squares(i), i["x"] @ i["y"]) * _squares(i).sum()),
        {"random": _vectors},
        scale=1,
        counts=(60, 400),
    ),
    deterministic(
        "004/def-18:fact-2",
        equal(lambda i: _rebuilt(i, unit=False), lambda i: _polynomial(i["a"], i["rho"] + 0 * i["a"][0])),
        {"random": _polynomials},
        scale=1,
    ),
    deterministic(
        "004/def-18:fact-2#corrected",
        equal(lambda i: _rebuilt(i, unit=True), lambda i: _polynomial(i["a"], i["rho"] + 0 * i["a"][0])),
        {"random": _polynomials},
        scale=1,
    ),
    deterministic(
        "004/def-18:fact-3",
        equal(_dual_by_definition, lambda i: _series(_printed_squares(i), i["rho"])),
        {"random": _polynomials},
        scale=1,
        exact=lambda i: (_series(_squares(i), i["rho"]), _series(_printed_squares(i), i["rho"])),
    ),
    deterministic(
        "004/def-18:fact-3#corrected",
        equal(_dual_by_definition, lambda i: dual_value(_squares(i), i["rho"]) * _squares(i).sum()),
        {"random": _polynomials},
        scale=1,
    ),
    deterministic("004/def-18:fact-4-mean", equal(_mean, lambda i: i["a"][0]), {"random": _polynomials}, scale=1),
    deterministic(
        "004/def-18:fact-4-square",
        equal(_total, lambda i: _printed_squares(i).sum()),
        {"random": _polynomials},
        scale=1,
        exact=lambda i: (_squares(i).sum(), _printed_squares(i).sum()),
    ),
    deterministic(
        "004/def-18:fact-4-square#corrected",
        equal(_total, lambda i: _squares(i).sum()),
        {"random": _polynomials},
        scale=1,
    ),
    deterministic(
        "004/def-18:fact-5",
        equal(_derivative_dual, lambda i: dual_slope(_squares(i), i["rho"]) * _squares(i).sum()),
        {"random": _polynomials},
        scale=1,
    ),
    deterministic("004/lem-19:positive", above(nonlinearity, 0), {"random": _duals}),
    deterministic("004/lem-19:one", at_most(nonlinearity, 1), {"random": _duals}),
    asymptotic(
        "004/lem-20:mean",
        equal(Sampled(_mean_kernel), _limit),
        {"networks": _width_cases},
        scale=1,
        counts=(2, 3),
        resolution=0.03,
    ),
    asymptotic(
        "004/lem-20:width",
        equal(Sampled(_width_exponent), -0.5),
        {"networks": _width_cases},
        counts=(2, 3),
        resolution=0.3,
    ),
)
