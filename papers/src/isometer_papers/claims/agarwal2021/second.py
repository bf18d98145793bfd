"""Second formulas for the results of paper 004 that fail: plain NumPy, nothing of the theory that the claims use."""

from __future__ import annotations

import math

import numpy as np

from isometer_papers.claims._claim import Instance, SecondFormula

_LEFT = 0.01  # of the loss, where descent stops


def _exponent(low: float, high: float, i: Instance) -> float:
    return math.log(high / low) / math.log(i["high"] / i["low"])


def _single_steps(n: int, rate: float, runs: int = 20) -> float:
    """Mean number of steps of single samples to a hundredth of the loss, n orthonormal features, by running them."""
    rng, steps = np.random.default_rng(n), 0
    for _ in range(runs):
        weights, loss = np.zeros(n), 1.0
        while loss > _LEFT:
            sample = int(rng.integers(n))
            error = weights[sample] - 1.0  # label 1, and the feature is a unit vector
            weights[sample] -= rate * 2 * error
            loss += ((weights[sample] - 1.0) ** 2 - error**2) / n
            steps += 1
    return steps / runs


def _sample_growth(i: Instance) -> tuple[float, float]:
    rate = float(i["theta"])
    return _exponent(_single_steps(i["low"], rate), _single_steps(i["high"], rate), i), 0.05


def _steps(n: int, theta: float) -> int:
    """Steps of gradient descent on (1/n)Σ(f − y)² with η = θ/λ_max, on random orthonormal features, by running them."""
    features = np.linalg.qr(np.random.default_rng(n).standard_normal((n, n)))[0]
    labels, weights, steps = np.ones(n), np.zeros(n), 0
    rate = theta / np.linalg.eigvalsh(features @ features.T)[-1]
    while ((features @ weights - labels) ** 2).mean() > _LEFT:
        weights = weights - rate * 2 / n * features.T @ (features @ weights - labels)
        steps += 1
    return steps


def _rate_growth(i: Instance) -> tuple[float, float]:
    """Exponent in n of the rate, log(1/ε) over the number of steps."""
    theta = float(i["theta"])
    return -_exponent(_steps(i["low"], theta), _steps(i["high"], theta), i), -0.05


def _excess_risk(i: Instance) -> tuple[float, float]:
    """E f² of the interpolant of least norm, on random orthonormal inputs; the target is zero.

    The bound is zero only where the labels are pure noise.
    """
    if float(i["mean"]) != 0:
        return 0.0, 0.0
    inputs = np.linalg.qr(np.random.default_rng(0).standard_normal((i["N"], i["N"])))[0]
    weights = np.linalg.lstsq(inputs[: i["n"]], np.asarray(i["labels"], dtype=float), rcond=None)[0]
    return float(((inputs @ weights) ** 2).mean()), 0.0


def _dual(i: Instance, rho: float) -> float:
    """σ̂(ρ) of a normalised activation."""
    if "squares" in i:
        squares = np.asarray(i["squares"], dtype=float)
        return float(np.polynomial.Polynomial(squares)(rho) / squares.sum())
    if i["dual"] == "relu":
        angle = math.acos(max(-1.0, min(1.0, rho)))
        return (math.sin(angle) + (math.pi - angle) * rho - 1) / (math.pi - 1)
    if i["dual"] == "exp":
        return math.expm1(rho) / math.expm1(1)
    if i["dual"] == "sin":
        return math.sinh(rho) / math.sinh(1)
    return math.asin(2 * rho / 3) / math.asin(2 / 3)  # erf


def _slope(i: Instance, rho: float) -> float:
    step = 1e-5
    return (_dual(i, rho + step) - _dual(i, rho - step)) / (2 * step)


def _tangents(i: Instance) -> tuple[float, float]:
    """The tangent kernel layer by layer, Θ ← Θσ̂′(ρ) + σ̂(ρ), and with the slope one layer late, as eq. 7 has it."""
    rho = right = late = float(i["rho"])
    for _ in range(int(i["L"])):
        after = _dual(i, rho)
        right, late, rho = right * _slope(i, rho) + after, late * _slope(i, after) + after, after
    return right, late


def _exponential(i: Instance) -> tuple[float, float]:
    """E e^{X + X′} by Gauss–Hermite quadrature, and e^{ρ + 3}."""
    x, w = np.polynomial.hermite_e.hermegauss(60)
    return float(w @ np.exp(math.sqrt(2 + 2 * float(i["rho"])) * x) / w.sum()), math.exp(float(i["rho"]) + 3)


def _point_queries(d: int) -> int:
    """Queries that tell all labels of half of {±1}^d, a point each, random labels and answers wrong by up to 2^{−d}."""
    rng, points = np.random.default_rng(d), 1 << (d - 1)
    labels = rng.choice([-1.0, 1.0], points)
    means = labels / points + rng.uniform(-1, 1, points) / 2**d  # of f(x) 1{x = point}
    assert ((means > 0) == (labels > 0)).all()
    return points


def _query_exponent(i: Instance) -> tuple[float, float]:
    """Exponent of log p in L = 2^d."""
    logs = [math.log(_point_queries(int(i[key]))) for key in ("low", "high")]
    return math.log2(logs[1] / logs[0]) / (i["high"] - i["low"]), 0.95


_RUN = SecondFormula(_sample_growth, "descent by single samples that is run")
_DESCENT = SecondFormula(_rate_growth, "gradient descent that is run on random orthonormal features")
SECOND = {
    "004/eq-7": SecondFormula(_tangents, "the tangent kernel layer by layer, slopes by differences"),
    "004/tab-mu:exp-dual": SecondFormula(_exponential, "Gauss–Hermite quadrature"),
    "004/thm-13:sgd": _RUN,
    "004/thm-45": _RUN,
    "004/thm-44": _DESCENT,
    "004/thm-47": _DESCENT,
    "004/thm-15:queries": SecondFormula(_query_exponent, "a learner that is run on random labels"),
    "004/thm-16": SecondFormula(_excess_risk, "least squares on random orthonormal inputs instead of Lemma 55"),
}
