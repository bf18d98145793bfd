"""001, §3.3: the mean-field map under batch norm and its fixed point."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

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
from isometer_papers.theory.isometry.gap_steps import batch_norm_rows
from isometer_papers.theory.mean_field.power_rates import power_local_rate


def _grams(rng: Rng, count: int) -> Iterator[Instance]:
    yield {"G": np.diag([4.0, 1.0, 1.0]), "phi": "relu", "entry": [0, 0]}
    for _ in range(count):
        n = int(rng.integers(3, 6))
        x = rng.standard_normal((n, n + 2))
        yield {"G": x @ x.T / (n + 2), "phi": str(rng.choice(["relu", "identity"])), "entry": [0, 1]}


def _layer(gram: Any, phi: str, width: int, draws: int, rng: Rng) -> Any:
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
    for x in ([[1, 0]], [[1, 0, 0]], [[1, 2, 4, 8]]):
        yield {"x": np.array(x, dtype=float)}
    for _ in range(count):
        yield {"x": rng.standard_normal((1, int(rng.integers(2, 9))))}


def _along(i: Instance) -> Any:
    """1ᵀ BN(x)ᵀBN(x) 1: the same for every x, hence for G*."""
    return batch_norm_rows(i["x"], True).sum() ** 2


def _starts(rng: Rng, count: int) -> Iterator[Instance]:
    for n in (3, 4, 6):
        yield {"G": np.diag([9.0, *[1.0] * (n - 1)])}
    for _ in range(count):
        n = int(rng.integers(3, 7))
        x = rng.standard_normal((n, n)) * np.exp(rng.uniform(-1, 1, (n, 1)))
        yield {"G": x @ x.T}


def _final_distance(i: Instance) -> Any:
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
        "§3.4.2",
        f"|φ(x)| = O(|x|) for {name}: |φ(x)| ≤ |x|",
        at_most(lambda i: abs(elementwise(name)(np.array([i["x"]]))[0]), lambda i: abs(i["x"])),
        {"points": _sizes},
        search=Search(lambda p: {"x": 20 * float(p[0]) - 10.0}, 1),
        remark="sigmoid, softplus, exp and cos do not satisfy it, since φ(0) ≠ 0",
    )


CLAIMS = (
    deterministic(
        "001/def-3.2:orientation",
        "eq. 3.2",
        "G_ℓ = (1/d) φ(BN(h))φ(BN(h))ᵀ, h d × n, has the inner products of the n samples: n rows",
        equal(lambda i: len(i["X"] @ i["X"].T), lambda i: i["X"].shape[1]),
        {"inputs": equal_samples},
        corrected="001/def-3.2:orientation#corrected",
        remark="with h of size d × n the printed product is d × d; eq. 3.3 and Appendix B have it the other way round",
    ),
    deterministic(
        "001/def-3.2:orientation#corrected",
        "eq. 3.2, proof of Lemma B.3",
        "G_ℓ = (1/d) φ(BN(h))ᵀφ(BN(h)) has n rows",
        equal(lambda i: len(i["X"].T @ i["X"]), lambda i: i["X"].shape[1]),
        {"inputs": equal_samples},
    ),
    expectation(
        "001/map-3.3:mean",
        "eq. 3.3",
        "E[G_{ℓ+1} | G_ℓ] = E_{h~N(0,G_ℓ)} φ(√n Mh/‖Mh‖)^{⊗2}",
        equal(Sampled(_entry), _mapped),
        {"grams": _grams},
        scale=1,
        counts=(3, 8),
        scope="one entry, d = 50, ReLU and identity; the map by quadrature",
    ),
    asymptotic(
        "001/map-3.3:error",
        "§3.3.4",
        "the error between G_1 and its mean-field value is O(d^{−1/2})",
        equal(Sampled(_one_layer_error), -0.5),
        {"grams": _grams},
        counts=(1, 3),
        tolerance=0.02,
        resolution=0.3,
        scope="exponent in d of E‖G_1 − Ḡ_1‖_F, d = 50, 200, 800",
    ),
    deterministic(
        "001/fix-G*:identity",
        "§3.3.4",
        "for linear φ and BN as in §3.2 the fixed point G* is the identity matrix: 1ᵀG*1 = n",
        equal(_along, lambda i: i["x"].shape[1]),
        {"rows": _rows},
        corrected="001/fix-G*:identity#corrected",
        remark="every row of BN(h) sums to 0, so 1ᵀG1 = 0 for every G; the identity belongs to BN without mean",
    ),
    deterministic(
        "001/fix-G*:identity#corrected",
        "§3.3.4",
        "for linear φ and BN as in §3.2, G* = n/(n−1)·(I − 11ᵀ/n), which is degenerate: 1ᵀG*1 = 0",
        vanishes(_along),
        {"rows": _rows},
    ),
    asymptotic(
        "001/claim-3.global:linear",
        "§3.3.2",
        "linear φ: iterates of eq. 3.3 converge to G* from every non-degenerate G",
        at_most(_final_distance, 1e-3),
        {"starts": _starts},
        counts=(4, 12),
        scope="distance below 1e-3 after 80 layers, n from 3 to 6",
    ),
    deterministic(
        "001/claim-3.global:nonlinear",
        "§3.3.2",
        "non-linear φ: iterates of eq. 3.3 are observed to converge to the well-conditioned G*: local rates below 1",
        below(lambda i: power_local_rate(i["power"], i["n"], i["one"]), 1),
        {"powers": lambda rng, count: iter([{"power": 3, "n": n, "one": 1.0} for n in range(3, 13)])},
        corrected="001/claim-3.global:nonlinear#corrected",
        remark="φ(x) = x³: G* repels from n = 6 on, κ(G*) < 3; also gelu from n = 39, silu 26, softplus 43",
    ),
    deterministic(
        "001/claim-3.global:nonlinear#corrected",
        "§3.3.2",
        "ReLU and tanh: the local rates of eq. 3.3 at G* are below 1",
        below(lambda i: batch_norm_fixed_point(i["phi"], i["n"]).rates.largest, 1),
        {"networks": cases(*({"phi": p, "n": n} for n in (3, 10, 30, 5, 20, 60) for p in ("relu", "tanh")))},
        counts=(6, 12),
        scope="n from 3 to 60",
    ),
    _bounded("relu"),
    _bounded("tanh"),
)
