"""Second formulas for the results of the thesis that fail: plain NumPy and SciPy, nothing of the theory that the claims
use. Those of chapter 2 are in `daneshmand2021.second`."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from scipy import special

from isometer_papers.claims._claim import Instance, SecondFormula
from isometer_papers.claims.daneshmand2021.second import named

_NODES, _MASSES = np.polynomial.hermite_e.hermegauss(160)
_MASSES = _MASSES / _MASSES.sum()
_STEP = 1e-5  # of differences in place of derivatives
Function = Callable[[np.ndarray], np.ndarray]
_FUNCTIONS: dict[str, Function] = {
    "erf": special.erf,
    "tanh": np.tanh,
    "sin": np.sin,
    "relu": lambda x: np.maximum(x, 0.0),
}


def _function(i: Instance) -> Function:
    """φ of an instance, centred where it says so; a series of Hermite polynomials for weights."""
    if "weights" in i:
        weights = np.asarray(i["weights"], dtype=float)
        series = [np.sqrt(w / float(special.factorial(k))) for k, w in enumerate(weights)]
        return lambda x: np.polynomial.hermite_e.hermeval(x, series)
    plain = _FUNCTIONS[i["phi"]]
    shift = float(_MASSES @ plain(_NODES)) if i.get("centred") else 0.0
    return lambda x: plain(x) - shift


def _kernel(function: Function, rho: float) -> float:
    """E φ(x)φ(y)/E φ², x and y standard Gaussian of correlation ρ, on a grid of both."""
    other = rho * _NODES[:, None] + np.sqrt(max(1 - rho * rho, 0.0)) * _NODES
    return float((_MASSES * function(_NODES)) @ function(other) @ _MASSES) / float(_MASSES @ function(_NODES) ** 2)


def _slope_at_one(function: Function) -> float:
    """E φ′²/E φ², with differences for φ′."""
    slopes = (function(_NODES + _STEP) - function(_NODES - _STEP)) / (2 * _STEP)
    return float(_MASSES @ slopes**2) / float(_MASSES @ function(_NODES) ** 2)


def _iterated(function: Function, rho: float, depth: int) -> float:
    for _ in range(depth):
        rho = _kernel(function, rho)
    return rho


def _potential(i: Instance) -> tuple[float, float]:
    """Ψ(ρ_ℓ), and Ψ(ρ₀) times the ℓ-th power of (κ(1) − κ(0))/κ′(1), of φ before it is centred."""
    plain = _function({**i, "centred": False})
    rho, rate = float(i["rho"]), (1 - _kernel(plain, 0.0)) / _slope_at_one(plain)
    last = _iterated(_function(i), rho, i["depth"])
    return abs(last) / (1 - abs(last)), abs(rho) / (1 - abs(rho)) * rate ** i["depth"]


def _slope_only(i: Instance) -> tuple[float, float]:
    """The same with 1/κ′(1)."""
    function, rho = _function(i), float(i["rho"])
    last = _iterated(function, rho, i["depth"])
    start = abs(rho) / (1 - abs(rho))
    return abs(last) / (1 - abs(last)), start * _slope_at_one(function) ** -i["depth"]


def _fixed_point(i: Instance) -> tuple[float, float]:
    """|ρ_ℓ − ρ*|, and what eq. 5.10 allows; ρ* by iteration, κ′(ρ*) by differences."""
    function, rho, depth = _function(i), float(i["rho"]), i["depth"]
    star = _iterated(function, rho, 400)
    slope = (_kernel(function, star + _STEP) - _kernel(function, star - _STEP)) / (2 * _STEP)
    rate = max(1 - _kernel(function, 0.0), slope, (1 - star) / (2 - slope))
    return abs(_iterated(function, rho, depth) - star), abs(rho - star) / (1 - abs(rho)) * rate**depth


def _isometry(samples: np.ndarray) -> float:
    """Geometric over arithmetic mean of the squared singular values; samples in columns."""
    squares = np.linalg.svd(samples, compute_uv=False)[: samples.shape[1]] ** 2
    squares = np.r_[squares, np.zeros(samples.shape[1] - len(squares))]
    return float(np.prod(squares) ** (1 / len(squares)) / squares.mean())


def _layer_norm(bounded: bool) -> Callable[[Instance], tuple[float, float]]:
    """Isometry after layer norm, and before it, times the factor of Corollary 4.4 if it is `bounded`."""

    def sides(i: Instance) -> tuple[float, float]:
        samples = np.asarray(i["X"], dtype=float)
        normed = (samples - samples.mean(axis=0)) / samples.std(axis=0)
        lengths = np.linalg.norm(samples, axis=0)
        factor = 1 + lengths.var() / lengths.mean() ** 2 if bounded else 1.0
        return _isometry(normed), _isometry(samples) * float(factor)

    return sides


def _equal_samples(i: Instance) -> tuple[float, float]:
    """Largest distance of the first two samples over 20 layers with batch norm, ReLU and fresh weights."""
    rng, state = np.random.default_rng(0), np.asarray(i["X"], dtype=float)
    width, furthest = len(state), 0.0
    for _ in range(20):
        state = rng.standard_normal((width, len(state))) @ state
        state = state - state.mean(axis=1, keepdims=True)
        state = np.maximum(state / np.maximum(state.std(axis=1, keepdims=True), 1e-300), 0.0)
        furthest = max(furthest, float(abs(state[:, 0] - state[:, 1]).max()))
    return (0.0 if furthest < 1e-9 else furthest), 0.0


def _eigenvalues(i: Instance) -> tuple[float, float]:
    """Operator norm of XᵀX − I of a matrix of that spectrum, if its gap, by a Cholesky factor, is within c/(16d)."""
    spectrum, c = np.asarray(i["spectrum"], dtype=float), float(i["c"])
    d = len(spectrum)
    turned = np.linalg.qr(np.random.default_rng(0).standard_normal((d, d)))[0]
    gram = turned @ np.diag(spectrum) @ turned.T
    factor = np.linalg.cholesky((gram + gram.T) / 2)
    gap = np.log(np.trace(gram) / d) - 2 * np.log(np.diag(factor)).mean()
    if gap > c / (16 * d) * (1 + 1e-9):
        return c, c  # the lemma says nothing
    return float(np.linalg.norm(gram - np.eye(d), 2)), c


def _binomial_tail(i: Instance) -> tuple[float, float]:
    """P(‖G − ½I‖ ≥ t) of two samples behind simulated ReLU layers, and c times eq. B.19, ε = 1 − gap, α = 2^−d."""
    rng, width = np.random.default_rng(0), int(i["width"])
    state = rng.standard_normal((20_000, width, 2))
    for _ in range(2):
        state = np.maximum(state - state.mean(axis=2, keepdims=True), 0.0) > 0  # one of the two is 1
        gram = np.swapaxes(state, 1, 2).astype(float) @ state / width
        state = rng.standard_normal((20_000, width, width)) @ state / np.sqrt(width)
    far = np.sqrt(((gram - np.eye(2) / 2) ** 2).sum(axis=(1, 2))) >= float(i["t"]) - 1e-12
    left_over = np.exp(i["depth"] * np.log1p(-(2.0**-width))) / 4
    bound = left_over - 2.0**width * (1 - float(i["gap"])) ** 2 * np.log1p(-float(i["gap"]))
    return float(far.mean()), float(i["c"] * bound / float(i["t"]) ** 2)


_GRID = "a grid of Gauss–Hermite nodes instead of closed forms"
_SINGULAR = "singular values of the samples instead of the determinant of their Gram matrix"
SECOND = {
    **named(
        theorem="001/thm-2.1",
        corollary="001/cor-2.3",
        infinite_depth="001/ass-2.A1:infinite-depth",
        slice="001/alg-2.6:slice",
        gap="001/alg-2.6:gap",
    ),
    "001/ass-3.1:unique": SecondFormula(_equal_samples, "20 simulated layers with other weights"),
    "001/thm-B.6": SecondFormula(_binomial_tail, "20,000 simulated networks with Gaussian weights"),
    "001/cor-4.4": SecondFormula(_layer_norm(True), _SINGULAR),
    "001/claim-4.deterministic:layer-norm": SecondFormula(_layer_norm(False), _SINGULAR),
    "001/thm-5.11:case-1": SecondFormula(_slope_only, _GRID),
    "001/thm-5.11:case-4": SecondFormula(_fixed_point, _GRID),
    **{
        f"001/thm-5.15:{part}": SecondFormula(_potential, _GRID)
        for part in ("none", "pre-rms", "post-rms", "pre-ln", "post-ln")
    },
    "001/lem-C.8": SecondFormula(_eigenvalues, "a rotated matrix, its Cholesky factor and operator norm"),
}
