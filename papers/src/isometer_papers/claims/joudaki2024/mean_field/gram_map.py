"""001, §3.3: the mean-field map under batch norm and its fixed point."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from isometer.theory.batch_norm import batch_norm_chain, batch_norm_fixed_point, batch_norm_map
from isometer_papers.claims._claim import Claim, Estimate, Instance, Search
from isometer_papers.claims._families import Rng, cases
from isometer_papers.claims._fits import exponent
from isometer_papers.claims._precise import elementwise
from isometer_papers.claims._statements import (
    Sampled,
    asymptotic,
    at_most,
    below,
    deterministic,
    equal,
    expectation,
    vanishes,
)
from isometer_papers.claims.joudaki2024.mean_field.chains import equal_samples
from isometer_papers.float_or_mpmath import Numeric
from isometer_papers.theory.isometry.gap_steps import batch_norm_rows
from isometer_papers.theory.mean_field.power_rates import power_local_rate


def _grams(rng: Rng, count: int) -> Iterator[Instance]:
    yield {"G": np.diag([4.0, 1.0, 1.0]), "phi": "relu", "entry": [0, 0]}
    for _ in range(count):
        n = int(rng.integers(3, 6))
        x = rng.standard_normal((n, n + 2))
        yield {"G": x @ x.T / (n + 2), "phi": str(rng.choice(["relu", "identity"])), "entry": [0, 1]}


def _layer(gram: Numeric, phi: str, width: int, draws: int, rng: Rng) -> Numeric:
    """G after a layer of finite width, (draws, n, n)."""
    factor = np.linalg.cholesky(gram)
    h = rng.standard_normal((draws, width, len(gram))) @ factor.T
    h -= h.mean(-1, keepdims=True)
    y = elementwise(phi)(h / np.sqrt((h * h).mean(-1, keepdims=True)))
    return np.swapaxes(y, -1, -2) @ y / width


def _entry(i: Instance, rng: Rng) -> Estimate:
    return Estimate.of(_layer(i["G"], i["phi"], 50, 20_000, rng)[:, i["entry"][0], i["entry"][1]])


def _mapped(i: Instance) -> float:
    return float(batch_norm_map(i["G"], i["phi"]).gram[tuple(i["entry"])])


def _one_layer_error(i: Instance, rng: Rng) -> Estimate:
    target = batch_norm_map(i["G"], i["phi"]).gram
    values = []
    for width in (50, 200, 800):
        found = _layer(i["G"], i["phi"], width, 1600, rng) - target
        values.append(Estimate.of(np.sqrt((found**2).sum((-2, -1)))))
    return exponent((50, 200, 800), values)


def _rows(rng: Rng, count: int) -> Iterator[Instance]:
    for x in ([[1, 0]], [[1, 0, 0], [0, 1, 0]], [[1, 2, 4, 8]]):
        yield {"x": np.array(x, dtype=float)}
    for _ in range(count):
        yield {"x": rng.standard_normal((1, int(rng.integers(2, 9))))}


def _along(i: Instance) -> Numeric:
    """1ᵀ BN(x)ᵀBN(x) 1/d: the same for every x, hence for G*."""
    return (batch_norm_rows(i["x"], True).sum(axis=1) ** 2).sum() / len(i["x"])


def _starts(rng: Rng, count: int) -> Iterator[Instance]:
    for n in (3, 4, 6):
        yield {"G": np.diag([9.0, *[1.0] * (n - 1)])}
    for _ in range(count):
        n = int(rng.integers(3, 7))
        x = rng.standard_normal((n, n)) * np.exp(rng.uniform(-1, 1, (n, 1)))
        yield {"G": x @ x.T}


def _final_distance(i: Instance) -> Numeric:
    n = len(i["G"])
    last = batch_norm_chain(np.asarray(i["G"], dtype=float), 80, "identity")[-1].gram
    return float(np.linalg.norm(last - batch_norm_fixed_point("identity", n).gram))


def _sizes(rng: Rng, count: int) -> Iterator[Instance]:
    for x in (1.0, -1.0, 0.001, -0.001, 0.5, 5.0, -5.0):
        yield {"x": x}
    for _ in range(count):
        yield {"x": float(rng.normal() * 3)}


def _bounded(name: str) -> Claim:
    return deterministic(
        f"001/cond-3.lin:{name}",
        at_most(lambda i: abs(elementwise(name)(np.array([i["x"]]))[0]), lambda i: abs(i["x"])),
        {"points": _sizes},
        search=Search(lambda p: {"x": 20 * float(p[0]) - 10.0}, 1),
    )


CLAIMS = (
    deterministic(
        "001/def-3.2:orientation",
        equal(lambda i: len(i["X"] @ i["X"].T), lambda i: i["X"].shape[1]),
        {"inputs": equal_samples},
    ),
    deterministic(
        "001/def-3.2:orientation#corrected",
        equal(lambda i: len(i["X"].T @ i["X"]), lambda i: i["X"].shape[1]),
        {"inputs": equal_samples},
    ),
    expectation("001/map-3.3:mean", equal(Sampled(_entry), _mapped), {"grams": _grams}, scale=1, counts=(3, 8)),
    asymptotic(
        "001/map-3.3:error",
        equal(Sampled(_one_layer_error), -0.5),
        {"grams": _grams},
        counts=(1, 3),
        tolerance=0.02,
        resolution=0.3,
    ),
    deterministic("001/fix-G*:identity", equal(_along, lambda i: i["x"].shape[1]), {"rows": _rows}),
    deterministic("001/fix-G*:identity#corrected", vanishes(_along), {"rows": _rows}),
    asymptotic("001/claim-3.global:linear", at_most(_final_distance, 1e-3), {"starts": _starts}, counts=(4, 12)),
    deterministic(
        "001/claim-3.global:nonlinear",
        below(lambda i: power_local_rate(i["power"], i["n"], i["one"]), 1),
        {"powers": lambda rng, count: iter([{"power": 3, "n": n, "one": 1.0} for n in range(3, 13)])},
    ),
    deterministic(
        "001/claim-3.global:nonlinear#corrected",
        below(lambda i: batch_norm_fixed_point(i["phi"], i["n"]).rates.largest, 1),
        {"networks": cases(*({"phi": p, "n": n} for n in (3, 10, 30, 5, 20, 60) for p in ("relu", "tanh")))},
        counts=(6, 12),
    ),
    _bounded("relu"),
    _bounded("tanh"),
)
