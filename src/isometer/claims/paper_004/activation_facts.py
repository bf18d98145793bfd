"""004, §2, Appendix B and the beginning of Appendix C: normalisation, dual activations, coefficients."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from isometer.activations import activation
from isometer.claims.claim import Claim, Estimate, Instance
from isometer.claims.fits import exponent
from isometer.claims.paper_004.instances import Rng, nonaffinity, nonlinearity, random_squares, simple_duals, unit_scale
from isometer.claims.paper_004.simulations import kernel_draws
from isometer.claims.precise import elementwise, mpmath
from isometer.theory.either import apply, pi_like
from isometer.theory.exact_duals import dual_slope, dual_value
from isometer.theory.kernel_tables import (
    EXPONENTIAL_PRINTED,
    RELU_SQUARE_PRINTED,
    parameter_count,
    relu_dual,
    step_dual,
    table_dual,
    table_nonlinearity,
)
from isometer.theory.normalized_networks import batch_norm_network, layer_norm_network, printed_mean_gap

FUNCTIONS = ("tanh", "sin", "relu", "arctan")


def _network(rng: Rng, function: str, depth: int, samples: int, width: int) -> dict[str, Any]:
    sizes = [3, *([width] * depth), 1]
    return {
        "X": rng.standard_normal((samples, 3)),
        **{f"W{k}": rng.standard_normal((sizes[k + 1], sizes[k])) for k in range(depth + 1)},
        "F": function,
        "c": float(rng.uniform(-1, 1)),
        "s": float(rng.uniform(0.3, 2)),
    }


def _networks(rng: Rng, count: int) -> Iterator[Instance]:
    yield {
        "X": np.array([[1.0], [2.0]]),
        "W0": np.array([[1.0], [2.0]]),
        "W1": np.array([[1.0, 0.0]]),
        "F": "identity",
        "c": 1.0,
        "s": 1.0,
    }
    for _ in range(count):
        depth, samples, width = int(rng.integers(1, 4)), int(rng.integers(3, 7)), int(rng.integers(2, 5))
        yield _network(rng, str(rng.choice(FUNCTIONS)), depth, samples, width)


def _weights(i: Instance) -> list[Any]:
    return [i[f"W{k}"] for k in range(sum(key.startswith("W") for key in i))]


def _moved(i: Instance) -> Callable[[Any], Any]:
    function = elementwise(i["F"])
    return lambda z: (function(z) - i["c"]) / i["s"]


def _difference(network: Callable[..., Any], **options: Any) -> Callable[[Instance], Any]:
    """max |f − f̃|, σ against (σ − c)/s."""

    def gap(i: Instance) -> Any:
        plain = network(i["X"], _weights(i), elementwise(i["F"]), **options)
        return abs(plain - network(i["X"], _weights(i), _moved(i), **options)).max()

    return gap


def _smooth_deviation(i: Instance) -> bool:
    """No unit is constant over the batch, and no sample over its units."""
    with np.errstate(all="ignore"):
        outputs = [
            batch_norm_network(i["X"], _weights(i), elementwise(i["F"])),
            layer_norm_network(i["X"], _weights(i), elementwise(i["F"])),
            batch_norm_network(i["X"], _weights(i), _moved(i)),
        ]
    return all(bool(np.isfinite(np.asarray(value, dtype=float)).all()) for value in outputs)


def _batches(rng: Rng, count: int) -> Iterator[Instance]:
    yield {"V": np.ones((2, 1)), "w": np.array([2.0]), "c": 1.0, "s": 1.0}
    yield {"V": np.ones((1, 4)), "w": np.ones(4), "c": 1.0, "s": 1.0}
    for _ in range(count):
        b, m = rng.integers(2, 6, 2)
        yield {
            "V": rng.standard_normal((int(b), int(m))),
            "w": rng.standard_normal(int(m)),
            "c": float(rng.uniform(-1, 1)),
            "s": float(rng.uniform(0.3, 2)),
        }


def _layer_mean(i: Instance) -> tuple[Any, Any]:
    """The same for layer norm: v = σ/√m over the units of one sample."""
    m = i["V"].shape[1]
    root = apply("sqrt", i["V"][0, 0] * 0 + m)
    plain = (i["V"][0] / root).sum() / m
    return ((i["V"][0] - i["c"]) / (i["s"] * root)).sum() / m, (plain - i["c"]) / i["s"]


def _layer_mean_right(i: Instance) -> tuple[Any, Any]:
    m = i["V"].shape[1]
    root = apply("sqrt", i["V"][0, 0] * 0 + m)
    return _layer_mean(i)[0], ((i["V"][0] / root).sum() / m - i["c"] / root) / i["s"]


def _batch_mean(i: Instance) -> tuple[Any, Any]:
    return printed_mean_gap(i["V"], i["w"], i["c"], i["s"])


def _batch_mean_right(i: Instance) -> Any:
    root = apply("sqrt", i["V"][0, 0] * 0 + i["V"].shape[1])
    mean = (i["V"] @ i["w"] / root).sum() / len(i["V"])
    return (mean - i["c"] * i["w"].sum() / root) / i["s"]


def _polynomials(rng: Rng, count: int) -> Iterator[Instance]:
    """σ = Σ a_i h_i up to degree 4, and a cosine."""
    yield {"a": np.array([0.0, 0.0, 1.0, 0.0, 0.0]), "rho": 0.5}
    for _ in range(count):
        a = np.sqrt(random_squares(rng, degree=4))
        a = np.concatenate([a, np.zeros(5 - len(a))])[:5] * rng.choice([-1.0, 1.0], 5)
        yield {"a": a, "rho": float(rng.uniform(-1, 1))}


def _hermite_values(x: Any) -> list[Any]:
    root = [apply("sqrt", x * 0 + k) for k in (2, 6, 24)]
    return [x * 0 + 1, x, (x * x - 1) / root[0], (x**3 - 3 * x) / root[1], (x**4 - 6 * x**2 + 3) / root[2]]


def _polynomial(a: Any, x: Any) -> Any:
    return sum(c * h for c, h in zip(a, _hermite_values(x), strict=True))


def _gauss(order: int = 12) -> tuple[Any, Any]:
    x, w = np.polynomial.hermite_e.hermegauss(order)
    return x, w / math.sqrt(2 * math.pi)


def _expectation(i: Instance, function: Callable[[Any, Any], Any]) -> Any:
    """E f(X, X′) by tensor Gauss–Hermite, exact for these polynomials."""
    x, w = _gauss()
    rho = float(i["rho"])
    first, second = x[:, None], rho * x[:, None] + math.sqrt(1 - rho * rho) * x[None, :]
    return float(w @ function(first + 0 * second, second) @ w)


def _dual_by_definition(i: Instance) -> Any:
    a = np.asarray(i["a"], dtype=float)
    return _expectation(i, lambda x, y: _polynomial(a, x) * _polynomial(a, y))


def _derivative_dual(i: Instance) -> Any:
    """E σ̇(X)σ̇(X′), with h_i′ = √i h_{i−1}."""
    a = np.asarray(i["a"], dtype=float)
    lowered = np.append(a[1:] * np.sqrt(np.arange(1, 5)), 0.0)
    return _expectation(i, lambda x, y: _polynomial(lowered, x) * _polynomial(lowered, y))


def _vectors(rng: Rng, count: int) -> Iterator[Instance]:
    for instance in _polynomials(rng, count):
        d = int(rng.integers(2, 4))
        x, y = rng.standard_normal((2, d))
        yield {"a": instance["a"], "x": x / np.linalg.norm(x), "y": y / np.linalg.norm(y)}


def _rotated(i: Instance) -> Any:
    """E σ(w·x)σ(w·x′) over w in R^d by tensor Gauss–Hermite."""
    x, w = _gauss(8)
    a, u, v = (np.asarray(i[k], dtype=float) for k in ("a", "x", "y"))
    grid = np.stack(np.meshgrid(*([x] * len(u)), indexing="ij"), -1)
    weight = np.ones(grid.shape[:-1])
    for axis in range(len(u)):
        weight = weight * w.reshape([-1 if k == axis else 1 for k in range(len(u))])
    return float((weight * _polynomial(a, grid @ u) * _polynomial(a, grid @ v)).sum())


def _squares(i: Instance) -> Any:
    return i["a"] ** 2


def _total(i: Instance) -> Any:
    """E σ² by quadrature."""
    x, w = _gauss()
    return float(w @ _polynomial(np.asarray(i["a"], dtype=float), x) ** 2)


def _mean(i: Instance) -> Any:
    x, w = _gauss()
    return float(w @ _polynomial(np.asarray(i["a"], dtype=float), x))


def _duals(rng: Rng, count: int) -> Iterator[Instance]:
    yield from simple_duals(rng, count)
    for _ in range(count):
        yield {"squares": random_squares(rng)}


def _mu(i: Instance) -> Any:
    return nonlinearity(i)


def _raw_polynomials(rng: Rng, count: int) -> Iterator[Instance]:
    """σ = Σ a_i h_i with a mean, of any size."""
    yield {"a": np.array([1.0, 1.0, 1.0, 0.0, 0.0])}
    for _ in range(count):
        yield {"a": rng.standard_normal(5)}


def _normalized_moments(i: Instance) -> tuple[Any, Any]:
    """Mean and mean square of (σ − E σ)/√Var σ, by Gauss–Hermite sums of the values."""
    x, w = _gauss()
    values = _polynomial(i["a"], x + 0 * i["a"][0])
    mean = values @ w
    moved = (values - mean) / apply("sqrt", (values - mean) ** 2 @ w)
    return moved @ w, moved**2 @ w


def _mu_by_dual(i: Instance) -> Any:
    squares = _squares(i)
    zero = squares[0] * 0
    total = squares.sum()
    slope = dual_slope(squares, zero) * total
    return 1 - slope / (total - dual_value(squares, zero) * total)


def _table(name: str) -> Callable[[Rng, int], Iterator[Instance]]:
    def generator(rng: Rng, count: int) -> Iterator[Instance]:
        for rho in (0.5, 0.0, -0.5, 0.9):
            yield {"sigma": name, "rho": rho}

    return generator


def _raw_dual(name: str) -> Callable[[Instance], Any]:
    return lambda i: table_dual(name, i["rho"])


def _exact_table(name: str) -> Callable[[Instance], Any]:
    """E σ(X)E[σ(X′)|X] by an mpmath integral; X′ given X is N(ρX, 1 − ρ²)."""

    def value(i: Instance) -> Any:
        lib = mpmath()
        rho = lib.mpf(i["rho"])
        rest = lib.sqrt(1 - rho**2)
        functions: dict[str, Any] = {
            "relu": (lambda u: max(u, 0), lambda m: rest * lib.npdf(m / rest) + m * lib.ncdf(m / rest)),
            "step": (lambda u: 1 if u >= 0 else 0, lambda m: lib.ncdf(m / rest)),
            "exp": (lib.exp, lambda m: lib.exp(m + rest**2 / 2)),
            "hermite": (lambda u: (u * u - 1) / lib.sqrt(2), lambda m: (m * m + rest**2 - 1) / lib.sqrt(2)),
            "identity": (lambda u: u, lambda m: m),
        }
        outer, inner = functions[name]
        return lib.quad(lambda x: outer(x) * inner(rho * x) * lib.npdf(x), [-18, -6, 0, 6, 18])

    return value


def _table_sides(name: str) -> Callable[[Instance], tuple[Any, Any]]:
    return lambda i: (_exact_table(name)(i), table_dual(name, i["rho"]))


def _one_row(name: str) -> Callable[[Rng, int], Iterator[Instance]]:
    return lambda rng, count: iter([{"sigma": name, "rho": 0.5}])


_TABLE = {"identity": "u", "hermite": "(u² − 1)/√2", "relu": "max(u, 0)", "step": "1[u ≥ 0]", "exp": "e^u"}
_MU = {"identity": "0", "hermite": "1", "relu": "(π − 2)/(2π − 2)", "step": "(π − 2)/π", "exp": "(e − 2)/(e − 1)"}
_LIBRARY = {"identity": "x", "hermite": "(x**2 - 1)/sqrt(2)", "relu": "relu", "step": "step", "exp": "exp"}


def _library_dual(i: Instance) -> Any:
    """The library's own dual, by quadrature and Hermite coefficients."""
    return float(activation(_LIBRARY[i["sigma"]]).dual.value(np.array(float(i["rho"]))))


def _library_mu(i: Instance) -> Any:
    return activation(_LIBRARY[i["sigma"]]).nonlinearity


def _coefficients(i: Instance) -> Any:
    """1 − σ̂′(0)/(σ̂(1) − σ̂(0)) of the closed forms."""
    name, zero = i["sigma"], i["rho"] * 0
    step = zero + 1e-6
    slope = (table_dual(name, step) - table_dual(name, -step)) / (2 * step)
    return 1 - slope / (table_dual(name, zero + 1) - table_dual(name, zero))


def _table_claims() -> list[Claim]:
    found = []
    for name, formula in _TABLE.items():
        if name != "exp":
            found.append(
                Claim(
                    f"004/tab-mu:{name}-dual",
                    "C.4, table",
                    "deterministic",
                    f"σ̂ of {formula} in closed form",
                    "==",
                    _raw_dual(name),
                    {"cosines": _table(name)},
                    quantity=_library_dual,
                    exact=_table_sides(name),
                    scale=unit_scale,
                    tolerance=1e-6,
                    scope="ρ = −½, 0, ½, 0.9",
                )
            )
        found.append(
            Claim(
                f"004/tab-mu:{name}-mu",
                "C.4, table",
                "deterministic",
                f"μ = {_MU[name]} for {formula}",
                "==",
                lambda i: table_nonlinearity(i["sigma"], i["rho"]),
                {"one": _one_row(name)},
                quantity=_library_mu,
                exact=lambda i: (_coefficients(i), table_nonlinearity(i["sigma"], i["rho"])),
                scale=unit_scale,
                tolerance=1e-6,
            )
        )
    return found


def _relu_square(i: Instance) -> Any:
    """The coefficient of ρ² of σ̂ for ReLU: E[max(X, 0)(X² − 1)]²/2."""
    return 1 / (4 * pi_like(i["rho"]))


def _relu_second(i: Instance) -> Any:
    h = i["rho"]
    return (relu_dual(h) + relu_dual(-h) - 2 * relu_dual(h * 0)) / (2 * h * h)


def _small(rng: Rng, count: int) -> Iterator[Instance]:
    yield {"rho": 0.001}


def _series_gap(name: str) -> Callable[[Instance], Any]:
    """Closed form minus the printed first terms, over the next power."""
    if name == "step":
        return lambda i: (
            step_dual(i["rho"])
            - (i["rho"] * 0 + 0.25 + (i["rho"] / 2 + i["rho"] ** 3 / 12 + 3 * i["rho"] ** 5 / 80) / pi_like(i["rho"]))
        )
    return lambda i: relu_dual(i["rho"])


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


def _width_cases(rng: Rng, count: int) -> Iterator[Instance]:
    for name, depth in (("normalized(relu)", 2), ("unit(sin)", 3), ("normalized(relu)", 4))[:count]:
        yield {"F": name, "L": depth, "rho": 0.6, "widths": [64, 256, 1024], "runs": 800}


def _mean_kernel(i: Instance, rng: Rng) -> Estimate:
    return Estimate.of(kernel_draws(i["F"], 1024, i["L"], i["rho"], 800))


CLAIMS = (
    Claim(
        "004/eq-1:parameters",
        "§2",
        "deterministic",
        "the network has dm + (L − 1)m² + m parameters",
        "==",
        lambda i: parameter_count(i["d"], i["m"], i["L"]),
        {"random": _shapes},
        quantity=_counted,
    ),
    Claim(
        "004/eq-2:mean",
        "eq. 2",
        "deterministic",
        "(σ − c)/s with c = E σ has mean 0",
        "==",
        lambda i: 0,
        {"random": _raw_polynomials},
        quantity=lambda i: _normalized_moments(i)[0],
        scale=unit_scale,
    ),
    Claim(
        "004/eq-2:variance",
        "eq. 2",
        "deterministic",
        "(σ − c)/s with s² = Var σ has mean square 1",
        "==",
        lambda i: 1,
        {"random": _raw_polynomials},
        quantity=lambda i: _normalized_moments(i)[1],
    ),
    Claim(
        "004/def-2:unnormalised",
        "C.4",
        "deterministic",
        "μ of the normalised σ is 1 − a_1²/Σ_{i≥1} a_i² = 1 − σ̂′(0)/(σ̂(1) − σ̂(0))",
        "==",
        lambda i: 1 - _squares(i)[1] / _squares(i)[1:].sum(),
        {"random": _raw_polynomials},
        quantity=_mu_by_dual,
        scale=unit_scale,
        tolerance=1e-7,
    ),
    Claim(
        "004/def-29:coincide",
        "Definition 29",
        "deterministic",
        "μ̃ = μ for normalised activations",
        "==",
        _mu,
        {"random": _duals},
        quantity=nonaffinity,
    ),
    Claim(
        "004/lem-1:batch-norm",
        "Lemma 1, 17",
        "deterministic",
        "with BN in each layer, the output one included, the output is the same for σ and (σ − c)/s",
        "==",
        lambda i: 0,
        {"random": _networks},
        quantity=_difference(batch_norm_network),
        hypotheses=_smooth_deviation,
        scale=unit_scale,
        tolerance=1e-7,
        counts=(60, 400),
    ),
    Claim(
        "004/lem-1:hidden-only",
        "Lemma 1, 17",
        "deterministic",
        "the same with BN of the hidden layers' pre-activations, the output v·σ(…)/√m without",
        "==",
        lambda i: 0,
        {"random": _networks},
        quantity=_difference(batch_norm_network, last=False),
        hypotheses=_smooth_deviation,
        scale=unit_scale,
        tolerance=1e-7,
        corrected="004/lem-1:batch-norm",
        counts=(60, 400),
        remark="the other reading of 'in each layer': the last σ then feeds v and nothing takes c and s out again",
    ),
    Claim(
        "004/lem-1:layer-norm",
        "Lemma 1, 17",
        "deterministic",
        "with LN of the post-activation outputs the output is the same for σ and (σ − c)/s",
        "==",
        lambda i: 0,
        {"random": _networks},
        quantity=_difference(layer_norm_network),
        hypotheses=_smooth_deviation,
        scale=unit_scale,
        tolerance=1e-7,
        counts=(60, 400),
    ),
    Claim(
        "004/lem-1:step-bn",
        "proof of Lemma 17",
        "deterministic",
        "μ̃ = (μ − c)/s for v = wᵀσ(X)/√m",
        "==",
        lambda i: _batch_mean(i)[1],
        {"random": _batches},
        quantity=lambda i: _batch_mean(i)[0],
        scale=unit_scale,
        corrected="004/lem-1:step-bn#corrected",
        remark="the shift of v is c·(w·1)/√m, not c; eq. 5 follows all the same",
    ),
    Claim(
        "004/lem-1:step-bn#corrected",
        "proof of Lemma 17",
        "deterministic",
        "μ̃ = (μ − c(w·1)/√m)/s for v = wᵀσ(X)/√m",
        "==",
        _batch_mean_right,
        {"random": _batches},
        quantity=lambda i: _batch_mean(i)[0],
        scale=unit_scale,
    ),
    Claim(
        "004/lem-1:step-ln",
        "proof of Lemma 17",
        "deterministic",
        "μ̃ = (μ − c)/s for v = σ(x)/√m",
        "==",
        lambda i: _layer_mean(i)[1],
        {"random": _batches},
        quantity=lambda i: _layer_mean(i)[0],
        scale=unit_scale,
        corrected="004/lem-1:step-ln#corrected",
    ),
    Claim(
        "004/lem-1:step-ln#corrected",
        "proof of Lemma 17",
        "deterministic",
        "μ̃ = (μ − c/√m)/s for v = σ(x)/√m",
        "==",
        lambda i: _layer_mean_right(i)[1],
        {"random": _batches},
        quantity=lambda i: _layer_mean_right(i)[0],
        scale=unit_scale,
    ),
    Claim(
        "004/def-18:fact-1",
        "Definition 18, fact 1",
        "deterministic",
        "E σ(w·x)σ(w·x′) = σ̂(x·x′) for unit x, x′",
        "==",
        lambda i: dual_value(_squares(i), i["x"] @ i["y"]) * _squares(i).sum(),
        {"random": _vectors},
        quantity=_rotated,
        exact=lambda i: (_rotated(i), dual_value(_squares(i), i["x"] @ i["y"]) * _squares(i).sum()),
        scale=unit_scale,
        counts=(60, 400),
        scope="polynomials of degree up to 4",
    ),
    Claim(
        "004/def-18:fact-3",
        "Definition 18, fact 3",
        "deterministic",
        "σ̂(ρ) = Σ a_i² ρ^i",
        "==",
        lambda i: dual_value(_squares(i), i["rho"]) * _squares(i).sum(),
        {"random": _polynomials},
        quantity=_dual_by_definition,
        exact=lambda i: (_dual_by_definition(i), dual_value(_squares(i), i["rho"]) * _squares(i).sum()),
        scale=unit_scale,
        scope="polynomials of degree up to 4",
    ),
    Claim(
        "004/def-18:fact-4-mean",
        "Definition 18, fact 4",
        "deterministic",
        "a_0 = E σ(X)",
        "==",
        lambda i: i["a"][0],
        {"random": _polynomials},
        quantity=_mean,
        exact=lambda i: (_mean(i), i["a"][0]),
        scale=unit_scale,
    ),
    Claim(
        "004/def-18:fact-4-square",
        "Definition 18, fact 4",
        "deterministic",
        "Σ a_i² = E σ(X)²",
        "==",
        lambda i: _squares(i).sum(),
        {"random": _polynomials},
        quantity=_total,
        exact=lambda i: (_total(i), _squares(i).sum()),
        scale=unit_scale,
    ),
    Claim(
        "004/def-18:fact-5",
        "Definition 18, fact 5",
        "deterministic",
        "the dual of σ̇ is the derivative of σ̂",
        "==",
        lambda i: dual_slope(_squares(i), i["rho"]) * _squares(i).sum(),
        {"random": _polynomials},
        quantity=_derivative_dual,
        exact=lambda i: (_derivative_dual(i), dual_slope(_squares(i), i["rho"]) * _squares(i).sum()),
        scale=unit_scale,
        scope="polynomials of degree up to 4",
    ),
    Claim(
        "004/lem-19:positive",
        "Lemma 19",
        "deterministic",
        "μ > 0 for normalised non-linear σ",
        ">",
        lambda i: 0,
        {"random": _duals},
        quantity=_mu,
    ),
    Claim(
        "004/lem-19:one",
        "Lemma 19",
        "deterministic",
        "μ ≤ 1",
        "<=",
        lambda i: 1,
        {"random": _duals},
        quantity=_mu,
    ),
    Claim(
        "004/lem-20:mean",
        "Lemma 20",
        "asymptotic",
        "k^{(l)}(x, x′) → σ̂^{(l)}(x·x′) as m → ∞",
        "==",
        _limit,
        {"networks": _width_cases},
        estimate=_mean_kernel,
        scale=unit_scale,
        counts=(2, 3),
        resolution=0.03,
        scope="mean over 800 networks of width 1024",
    ),
    Claim(
        "004/lem-20:width",
        "Lemma 20",
        "asymptotic",
        "the distance of k^{(l)} to its limit falls with the width",
        "==",
        lambda i: -0.5,
        {"networks": _width_cases},
        estimate=_width_exponent,
        counts=(2, 3),
        resolution=0.3,
        scope="exponent of E|k − σ̂^{(l)}| over m = 64, 256, 1024: −½, as the central limit theorem has it",
    ),
    *_table_claims(),
    Claim(
        "004/tab-mu:exp-dual",
        "C.4, table",
        "deterministic",
        "σ̂(ρ) = e^{ρ + 3} for e^u",
        "==",
        lambda i: apply("exp", i["rho"] + EXPONENTIAL_PRINTED),
        {"cosines": _table("exp")},
        quantity=_library_dual,
        exact=lambda i: (_exact_table("exp")(i), apply("exp", i["rho"] + EXPONENTIAL_PRINTED)),
        corrected="004/tab-mu:exp-dual#corrected",
        tolerance=1e-6,
        remark="X + X′ has variance 2 + 2ρ, so E e^{X + X′} = e^{1 + ρ}; μ is not changed by the factor",
    ),
    Claim(
        "004/tab-mu:exp-dual#corrected",
        "C.4, table",
        "deterministic",
        "σ̂(ρ) = e^{ρ + 1} for e^u",
        "==",
        _raw_dual("exp"),
        {"cosines": _table("exp")},
        quantity=_library_dual,
        exact=_table_sides("exp"),
        tolerance=1e-6,
    ),
    Claim(
        "004/tab-mu:relu-series",
        "C.4, table",
        "deterministic",
        "the coefficient of ρ² in σ̂ of ReLU is 1/(2π)",
        "==",
        lambda i: 1 / (RELU_SQUARE_PRINTED * pi_like(i["rho"])),
        {"one": _small},
        quantity=_relu_second,
        corrected="004/tab-mu:relu-series#corrected",
        tolerance=1e-4,
        scope="second difference of the closed form at ρ = 0.001",
    ),
    Claim(
        "004/tab-mu:relu-series#corrected",
        "C.4, table",
        "deterministic",
        "the coefficient of ρ² in σ̂ of ReLU is 1/(4π)",
        "==",
        _relu_square,
        {"one": _small},
        quantity=_relu_second,
        tolerance=1e-4,
        scope="second difference of the closed form at ρ = 0.001",
    ),
    Claim(
        "004/tab-mu:step-series",
        "C.4, table",
        "deterministic",
        "σ̂ of the step is ¼ + ρ/2π + ρ³/12π + 3ρ⁵/80π + …",
        "==",
        lambda i: 0,
        {"one": lambda rng, count: iter([{"rho": 0.01}, {"rho": -0.02}])},
        quantity=_series_gap("step"),
        scale=unit_scale,
        scope="closed form minus these terms at ρ = 0.01 and −0.02",
    ),
)
