"""003 (introduction, A.2, C.4, §5.2, E) and thesis (chapter 2, A): steps and sentences beside numbered statements."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace

import numpy as np

from isometer_papers.claims._claim import Claim, Estimate, Instance
from isometer_papers.claims._families import Rng, cases
from isometer_papers.claims._precise import eigenvalues, numerical_rank
from isometer_papers.claims._statements import Sampled, above, equal, vanishes
from isometer_papers.claims.daneshmand2021.chains import gaps, log_exponent, over_chains, stationary
from isometer_papers.claims.daneshmand2021.source import Source
from isometer_papers.float_or_mpmath import Numeric
from isometer_papers.simulate.orthogonality_steps import dense_chain
from isometer_papers.theory.orthogonality.bounds import gap_of, unit_features

ROTATION = np.array([[0.6, -0.8], [0.8, 0.6]])
DRAWS = 200_000


# --- shapes ------------------------------------------------------------


def _shapes(rng: Rng, count: int) -> Iterator[Instance]:
    yield {"n": 2, "d": 3}
    for _ in range(count):
        d = int(rng.integers(2, 9))
        yield {"n": int(rng.integers(1, d + 1)), "d": d}


def _next_rows(i: Instance) -> int:
    """Features of the layer after a batch of n samples, W being d × d."""
    return int(dense_chain(np.eye(i["d"])[:, : i["n"]], layers=1, rng=np.random.default_rng(0)).shape[1])


# --- the concentration of C, Lemma 6 ------------------------------------------------------------


def _weighted(rng: Rng, count: int) -> Iterator[Instance]:
    """Weights W (d × n, in the basis of the singular vectors) and singular values."""
    yield {"W": np.array([[1.0, 1.0], [2.0, -1.0], [0.0, 1.0]]), "sigma": np.array([0.8, 0.6])}
    for _ in range(count):
        n = int(rng.integers(2, 6))
        sigma = rng.uniform(0.1, 1, n)
        yield {"W": rng.standard_normal((int(rng.integers(n, 9)), n)), "sigma": sigma / np.linalg.norm(sigma)}


def _rows(i: Instance) -> Numeric:
    """A_ki = W_ki σ_i/√v_k."""
    scaled = i["W"] * i["sigma"]
    return scaled / (scaled**2).sum(axis=1, keepdims=True) ** 0.5


def _from_product(i: Instance, divided: bool) -> Numeric:
    """Largest entry of C − AᵀA, or of C − AᵀA/d; C is HᵀH of the batch-normalised layer."""
    a, d = _rows(i), len(i["W"])
    h = unit_features((i["W"] * i["sigma"]).T)  # (n, d)
    product = a.T @ a
    return abs(h @ h.T / d - (product / d if divided else product)).max()


def _pair_moment(i: Instance, rng: Rng) -> Estimate:
    """A_ki²A_kj²A_k′i²A_k′j² of two independent rows."""
    rows = rng.standard_normal((2, DRAWS, i["n"]))
    squares = rows**2 / (rows**2).sum(axis=-1, keepdims=True)
    return Estimate.of((squares[..., 0] * squares[..., 1]).prod(axis=0))


def _pair_moment_again(i: Instance, rng: Rng) -> Estimate:
    """The same from the law of the squares of a point of the sphere, Dirichlet(½, …, ½)."""
    squares = rng.dirichlet(np.full(i["n"], 0.5), (2, DRAWS))
    return Estimate.of((squares[..., 0] * squares[..., 1]).prod(axis=0))


def _pair_product(i: Instance, rng: Rng) -> Estimate:
    """A_ki A_kj A_k′i A_k′j, without squares."""
    rows = rng.standard_normal((2, DRAWS, i["n"]))
    rows /= np.linalg.norm(rows, axis=-1, keepdims=True)
    return Estimate.of((rows[..., 0] * rows[..., 1]).prod(axis=0))


SAMPLES = cases({"n": 2}, {"n": 3}, {"n": 5})


def _orthogonal_variance(n: int, d: Numeric) -> Numeric:
    """var [C]_ii after an orthogonal batch: E A⁴ = 3/(n(n+2)), E A² = 1/n."""
    one = d * 0 + 1
    return (3 * one / (n * (n + 2)) - one / n**2) / d


def _unit_rows(rng: Rng, count: int) -> Iterator[Instance]:
    yield {"A": np.array([[1.0, 0.0], [0.6, 0.8], [0.0, 1.0]])}
    for _ in range(count):
        n = int(rng.integers(2, 6))
        a = rng.standard_normal((int(rng.integers(n, 9)), n))
        yield {"A": a / np.linalg.norm(a, axis=1, keepdims=True)}


def _without_expectation(i: Instance) -> Numeric:
    """(1/d²) Σ_k (A_k1² − 1/n)²."""
    d, n = i["A"].shape
    return ((i["A"][:, 0] ** 2 - (i["A"][0, 0] * 0 + 1) / n) ** 2).sum() / d**2


def _with_expectation(i: Instance, rng: Rng) -> Estimate:
    rows = rng.standard_normal((20_000, i["d"], i["n"]))
    shares = rows[..., 0] ** 2 / (rows**2).sum(axis=-1)
    return Estimate.of(((shares - 1 / i["n"]) ** 2).sum(axis=1) / i["d"] ** 2)


def _concentration(s: Source) -> tuple[Claim, ...]:
    return (
        *s.deterministic("concentration:element", vanishes(lambda i: _from_product(i, False)), {"weights": _weighted}),
        *s.deterministic(
            "concentration:element#corrected", vanishes(lambda i: _from_product(i, True)), {"weights": _weighted}
        ),
        *s.expectation(
            "concentration:cross-term",
            equal(
                Sampled(_pair_moment, _pair_moment_again, "squares drawn from the Dirichlet law, no Gaussian rows"), 0.0
            ),
            {"orthogonal": SAMPLES},
            scale=lambda i: 1 / (i["n"] * (i["n"] + 2)) ** 2,
            counts=(3, 3),
        ),
        *s.expectation(
            "concentration:cross-term#corrected",
            equal(Sampled(_pair_product), 0.0),
            {"orthogonal": SAMPLES},
            scale=lambda i: 1 / (i["n"] * (i["n"] + 2)),
            counts=(3, 3),
            resolution=0.1,
        ),
        *s.deterministic(
            "concentration:variance",
            equal(
                lambda i: _orthogonal_variance(i["A"].shape[1], i["A"][0, 0] * 0 + len(i["A"])), _without_expectation
            ),
            {"rows": _unit_rows},
        ),
        *s.expectation(
            "concentration:variance#corrected",
            equal(Sampled(_with_expectation), lambda i: _orthogonal_variance(i["n"], float(i["d"]))),
            {"orthogonal": cases({"n": 2, "d": 3}, {"n": 3, "d": 8}, {"n": 5, "d": 16})},
            counts=(3, 3),
            resolution=0.1,
        ),
    )


# --- iterative orthogonalisation ------------------------------------------------------------


def _decompositions(rng: Rng, count: int) -> Iterator[Instance]:
    """U, σ, V and an orthogonal V′, all d × d."""
    yield {"U": np.eye(2), "sigma": np.array([0.8, 0.6]), "V": ROTATION, "frame": ROTATION}
    for _ in range(count):
        d = int(rng.integers(2, 6))
        u, v, frame = (np.linalg.qr(rng.standard_normal((d, d)))[0] for _ in range(3))
        yield {"U": u, "sigma": 10.0 ** rng.uniform(-1, 0, d), "V": v, "frame": frame}


def _initialised(i: Instance, transposed: bool) -> Numeric:
    """Largest entry of WH − V′Σ^{1/2}V/‖Σ^{1/2}‖_F, or with Vᵀ."""
    root, size = i["sigma"] ** 0.5, i["sigma"].sum() ** 0.5
    weights = (i["frame"] / root) @ i["U"].T / size
    last = i["V"].T if transposed else i["V"]
    return abs(weights @ (i["U"] * i["sigma"]) @ i["V"].T - (i["frame"] * root) @ last / size).max()


def _unit_spectra(rng: Rng, count: int) -> Iterator[Instance]:
    """Singular values with Σσ² = 1."""
    yield {"sigma": np.array([0.8, 0.6])}
    yield {"sigma": np.array([0.8, 0.48, 0.36])}
    for _ in range(count):
        sigma = 10.0 ** rng.uniform(-2, 0, int(rng.integers(2, 9)))
        yield {"sigma": sigma / np.linalg.norm(sigma)}


def _fall(i: Instance, power: int) -> Numeric:
    """V(H) − V(WH), or the same of squares."""
    sigma = i["sigma"]
    return gap_of(np.diag(sigma)) ** power - gap_of(np.diag(sigma**0.5)) ** power


def _printed_fall(i: Instance) -> Numeric:
    sigma = i["sigma"] / (i["sigma"] ** 2).sum() ** 0.5
    return (sigma**4).sum() - 1 / sigma.sum() ** 2


def _large_batches(rng: Rng, count: int) -> Iterator[Instance]:
    """n ≥ 3d samples in rows, some in a subspace, some nearly orthogonal."""
    yield {"H": np.array([[1.0, 1.0], [2.0, 2.0], [-1.0, -1.0], [3.0, 3.0], [0.5, 0.5], [-2.0, -2.0]])}
    for _ in range(count):
        d = int(rng.integers(2, 5))
        n = int(rng.integers(3 * d, 9 * d))
        h = rng.standard_normal((n, d))
        yield {"H": h * 10.0 ** rng.uniform(-float(rng.choice([0.0, 0.3, 2.0])), 0, d)}


def _nearly_orthogonal(i: Instance) -> bool:
    """V(H)² below 1/(d−1) − 1/n, the least value of batches of rank d − 1, by more than rounding."""
    n, d = i["H"].shape
    return bool(gap_of(i["H"]) ** 2 < 1 / (d - 1) - 1 / n - 1e-9)


def _least(i: Instance) -> Numeric:
    """σ_min² of the batch, over its norm."""
    return eigenvalues(i["H"].T @ i["H"])[0] / (i["H"] ** 2).sum()


def _iterative(s: Source) -> tuple[Claim, ...]:
    return (
        *s.deterministic(
            "iterative:product", vanishes(lambda i: _initialised(i, False)), {"decompositions": _decompositions}
        ),
        *s.deterministic(
            "iterative:product#corrected",
            vanishes(lambda i: _initialised(i, True)),
            {"decompositions": _decompositions},
        ),
        *s.deterministic(
            "iterative:difference", equal(lambda i: _fall(i, 1), _printed_fall), {"spectra": _unit_spectra}, scale=1
        ),
        *s.deterministic(
            "iterative:difference#corrected",
            equal(lambda i: _fall(i, 2), _printed_fall),
            {"spectra": _unit_spectra},
            scale=1,
        ),
        *s.deterministic(
            "algorithm:inverse",
            equal(lambda i: numerical_rank(i["H"]), lambda i: i["H"].shape[1]),
            {"batches": _large_batches},
        ),
        *s.deterministic(
            "algorithm:inverse#corrected",
            above(_least, 0),
            {"batches": _large_batches},
            hypotheses=_nearly_orthogonal,
            tolerance=0.0,
        ),
    )


# --- the width ------------------------------------------------------------


def _distance(values: Numeric) -> Numeric:
    """√ΣE(σ_i − 1/√n)², which bounds the distance to the Gaussian, before the root: of squared singular values."""
    return ((np.sqrt(values) - values.shape[-1] ** -0.5) ** 2).sum(-1)


def _exponent(statistic: Callable[[Numeric], Numeric], power: float) -> Sampled:
    """Exponent in d of E[statistic]^power on stationary chains; once from singular values, once with all weights."""

    def estimate(i: Instance, rng: Rng) -> Estimate:
        found = [over_chains(statistic(stationary(i["samples"], d))) for d in i["widths"]]
        return _times(power, log_exponent(i["widths"], found))

    def again(i: Instance, rng: Rng) -> Estimate:
        return _times(power, log_exponent(i["widths"], [_dense(d, i["samples"], rng) for d in i["widths"]]))

    def _dense(d: int, n: int, rng: Rng) -> Estimate:
        starts = (rng.standard_normal((d, n)) for _ in range(12))
        states = (dense_chain(start, layers=60, rng=rng)[30:] for start in starts)
        return Estimate.of([float(statistic(np.linalg.svd(one, compute_uv=False) ** 2 / d).mean()) for one in states])

    return Sampled(estimate, again, "all weights written out, from Gaussian inputs, layers 31 to 60")


def _times(factor: float, one: Estimate) -> Estimate:
    return replace(one, value=factor * one.value, error=factor * one.error)


WIDTHS = cases({"samples": 4, "widths": [32, 64, 128, 256]})


def _widths(s: Source) -> tuple[Claim, ...]:
    return (
        *s.asymptotic(
            "intro:proportional", equal(_exponent(gaps, 1.0), -1.0), {"widths": WIDTHS}, counts=(1, 1), resolution=0.2
        ),
        *s.asymptotic(
            "intro:proportional#corrected",
            equal(_exponent(gaps, 1.0), -0.5),
            {"widths": WIDTHS},
            tolerance=0.02,
            counts=(1, 1),
            resolution=0.2,
        ),
        *s.asymptotic(
            "intro:radius", equal(_exponent(_distance, 0.5), -1.0), {"widths": WIDTHS}, counts=(1, 1), resolution=0.2
        ),
        *s.asymptotic(
            "intro:radius#corrected",
            equal(_exponent(_distance, 0.5), -0.5),
            {"widths": WIDTHS},
            tolerance=0.02,
            counts=(1, 1),
            resolution=0.2,
        ),
    )


def claims(s: Source) -> tuple[Claim, ...]:
    """The claims of a paper."""
    return (
        *s.deterministic("all-layers:shape", equal(lambda i: i["n"], lambda i: i["d"]), {"shapes": _shapes}),
        *s.deterministic(
            "all-layers:shape#corrected",
            equal(_next_rows, lambda i: i["d"]),
            {"shapes": _shapes},
        ),
        *_widths(s),
        *_concentration(s),
        *_iterative(s),
    )
