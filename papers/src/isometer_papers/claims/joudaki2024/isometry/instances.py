"""Instances that several claims of chapter 6 and Appendix C share. X has one feature per row; spectra sum to d."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from isometer_papers.claims._claim import Instance, Search
from isometer_papers.claims._families import Family, Rng, cases, extended
from isometer_papers.claims._precise import eigenvalues, mpmath
from isometer_papers.float_or_mpmath import Numeric, log
from isometer_papers.theory.isometry import isometry_of, normalized_rows, spectrum_gap


def rotation(rng: Rng, d: int) -> Any:
    """An orthogonal matrix, Haar."""
    q, r = np.linalg.qr(rng.standard_normal((d, d)))
    return q * np.where(np.diag(r) < 0, -1.0, 1.0)


def _square(rng: Rng, d: int) -> Any:
    style = rng.integers(4)
    x = rng.standard_normal((d, d))
    if style == 1:
        return rotation(rng, d) + 10.0 ** -rng.uniform(0, 4) * x
    if style == 2:
        return np.outer(rng.standard_normal(d), rng.standard_normal(d)) + 10.0 ** -rng.uniform(0, 3) * x
    if style == 3:
        return np.exp(rng.uniform(-3, 3, d))[:, None] * x
    return x


def small_matrices(rng: Rng, count: int) -> Iterator[Instance]:
    """To be read by hand, W among them."""
    turn = np.array([[0.6, -0.8], [0.8, 0.6]])
    identity = np.eye(2)
    for x in (identity, 2 * identity, np.diag([2.0, 1.0]), np.array([[1.0, 0.0], [0.6, 0.8]])):
        yield {"X": x, "W": identity}
        yield {"X": x, "W": turn}


def matrices(rng: Rng, count: int) -> Iterator[Instance]:
    """Square X and orthogonal W, d from 2 to 6: Gaussian, near orthogonal, near rank one, rows of different lengths."""
    for _ in range(count):
        d = int(rng.integers(2, 7))
        yield {"X": _square(rng, d), "W": rotation(rng, d)}


def normalized(family: Family) -> Family:
    """The same with X = BN(·)."""
    return extended(family, lambda rng, i: {"X": normalized_rows(i["X"])})


def traced(family: Family) -> Family:
    """The same with tr XXᵀ = d."""
    return extended(family, lambda rng, i: {"X": i["X"] * math.sqrt(len(i["X"]) / float((i["X"] * i["X"]).sum()))})


def singular(rng: Rng, count: int) -> Iterator[Instance]:
    """Whole numbers with two equal or proportional columns, and rotations of the plane's axes."""
    yield {"X": np.array([[1.0, 1.0], [1.0, 1.0]]), "W": np.eye(2)}
    yield {"X": np.array([[1.0, 2.0], [2.0, 4.0]]), "W": np.array([[0.0, 1.0], [1.0, 0.0]])}
    for _ in range(count):
        d = int(rng.integers(2, 6))
        x = rng.integers(-3, 4, (d, d)).astype(float)
        x[:, 0] = 2.0 * x[:, -1]
        x[:, -1] = np.where(x[:, -1] == 0, 1.0, x[:, -1])
        x[:, 0] = 2.0 * x[:, -1]
        yield {"X": x, "W": np.eye(d)[rng.permutation(d)]}


def search_matrix(d: int, *, trace: bool = False) -> Search:
    """An adversary over X and, by its angles, over W."""
    angles = d * (d - 1) // 2

    def build(point: Numeric) -> Instance:
        p = np.asarray(point)
        x = np.tan(3.0 * (p[: d * d] - 0.5)).reshape(d, d) + 1e-3 * np.eye(d)
        if trace:
            x = x * math.sqrt(d / float((x * x).sum()))
        w, k = np.eye(d), d * d
        for a in range(d):
            for b in range(a + 1, d):
                turn = np.eye(d)
                c, s = math.cos(2 * math.pi * p[k]), math.sin(2 * math.pi * p[k])
                turn[a, a], turn[a, b], turn[b, a], turn[b, b] = c, -s, s, c
                w, k = turn @ w, k + 1
        return {"X": x, "W": w}

    return Search(build, d * d + angles)


MATRICES: dict[str, Family] = {"small": small_matrices, "random": matrices}
UNIT: dict[str, Family] = {"small": normalized(small_matrices), "random": normalized(matrices)}
TRACED: dict[str, Family] = {"small": traced(small_matrices), "random": traced(matrices)}


# --- spectra ------------------------------------------------------------


# To be read by hand.
small_spectra = cases(
    *(
        {"spectrum": np.array(values)}
        for values in ([1.0, 1.0], [1.1, 0.9], [1.5, 0.5], [1.9, 0.1], [1.25, 1.25, 0.5], [2.0, 0.5, 0.5], [1.01, 0.99])
    )
)


def extreme_spectra(rng: Rng, count: int) -> Iterator[Instance]:
    """Two levels: one or several small, one or several large eigenvalues."""
    for d in (2, 3, 5, 8):
        for k in range(1, d):
            for low in (1e-6, 1e-2, 0.3, 0.9, 0.999):
                high = (d - (d - k) * low) / k
                yield {"spectrum": np.array([high] * k + [low] * (d - k))}


def random_spectra(rng: Rng, count: int) -> Iterator[Instance]:
    """From nearly equal to nearly rank one."""
    for _ in range(count):
        d = int(rng.integers(2, 11))
        values = rng.gamma(10.0 ** rng.uniform(-1, 4), size=d) + 1e-12
        yield {"spectrum": values * d / values.sum()}


def near_spectra(rng: Rng, count: int) -> Iterator[Instance]:
    """Gaps up to 1/(16d), some at the edge."""
    for index in range(count):
        d = int(rng.integers(2, 11))
        direction = rng.standard_normal(d) if rng.integers(2) else np.eye(d)[0] * rng.choice([-1.0, 1.0])
        share = 1.0 - 1e-9 if index % 4 == 0 else float(10.0 ** -rng.uniform(0, 4))
        yield {"spectrum": with_gap(direction, share / (16 * d))}


def with_gap(direction: Numeric, gap: float) -> Numeric:
    """Eigenvalues 1 + t(v − mean v) of a given gap or a little less, by bisection in t."""
    v = np.asarray(direction, dtype=float)
    v = v - v.mean()
    low, high = 0.0, (1.0 - 1e-12) / abs(float(v.min()))
    for _ in range(60):
        middle = (low + high) / 2
        # the eigenvalues have mean 1: ψ = −mean log(1 + tv)
        if -float(np.log1p(middle * v).sum()) <= gap * len(v):
            low = middle
        else:
            high = middle
    # rounding may end above the gap, outside of the hypotheses
    while float(spectrum_gap(1 + low * v)) > gap:
        low *= 1 - 1e-12
    return 1 + low * v


def search_spectrum(d: int, largest: float = math.inf) -> Search:
    """An adversary over spectra, gaps up to the largest."""

    def build(point: Numeric) -> Instance:
        p = np.asarray(point)
        logs = (p[:d] - 0.5) * 10.0 ** (4 * p[d] - 3)
        values = np.exp(logs)
        values = values * d / values.sum()
        if float(spectrum_gap(values)) > largest:
            values = with_gap(values - 1 + 1e-9 * np.arange(d), largest * (1 - 1e-9))
        return {"spectrum": values}

    return Search(build, d + 1)


SPECTRA: dict[str, Family] = {"small": small_spectra, "extreme": extreme_spectra, "random": random_spectra}
NEAR: dict[str, Family] = {"small": small_spectra, "near": near_spectra}


def apart(i: Instance) -> bool:
    """Far enough from isometry for ratios of what both sides take off the gap."""
    return bool(((i["spectrum"] - 1) ** 2).sum() > 1e-6)


def is_near(i: Instance) -> bool:
    """ψ ≤ 1/(16d)."""
    return bool(16 * len(i["spectrum"]) * spectrum_gap(i["spectrum"]) <= 1)


def is_far(i: Instance) -> bool:
    """ψ > 1/(16d)."""
    return not is_near(i)


def excess(i: Instance) -> Numeric:
    """ε = λ − 1."""
    return i["spectrum"] - 1


def exact_gap_step(values: Numeric) -> Numeric:
    """E ψ' − ψ of one layer by the integral of `isometry_gap_step`, in mpmath."""
    library = mpmath()
    d = len(values)
    mean = sum(values) / d
    scaled = [value / mean for value in values if value > 0]
    if d == 2 and len(scaled) == 2:
        return 2 * library.log((library.sqrt(scaled[0]) + library.sqrt(scaled[1])) / 2)

    # E log Q = ∫ (e^{−t} − E e^{−tQ}) dt/t, in x = log t
    def integrand(x: Numeric) -> Numeric:
        t = library.exp(x)
        product = library.mpf(1)
        for value in scaled:
            product *= 1 + 2 * t * value
        return library.exp(-t) - 1 / library.sqrt(product)

    with library.workdps(25):
        high = float(-library.log(min(scaled))) + 110 / len(scaled) + 6
        cuts = [-60, -20, -8, -4, -2, 0, 2, 4, 8, *(x for x in (16, 32, 64) if x < high), max(high, 9)]
        total = library.quad(integrand, cuts)
        return total - library.digamma(library.mpf(d) / 2) - library.log(2)


def whole(values: Sequence[int], name: str = "d") -> Family:
    """One whole number per instance."""
    return cases(*({name: value} for value in values))


def grid(name: str, low: float, high: float, *extra: float) -> Family:
    """Numbers of an interval, both ends and some extra ones first."""

    def generator(rng: Rng, count: int) -> Iterator[Instance]:
        for value in (*extra, low, high):
            yield {name: float(value)}
        for value in rng.uniform(low, high, count):
            yield {name: float(value)}

    return generator


def layer_gap(x: Numeric) -> Numeric:
    """φ(X) = −log I(X), the isometry gap of a layer."""
    return -log(isometry_of(x))


def gram_spectrum(i: Instance) -> Numeric:
    """Eigenvalues of XXᵀ."""
    return eigenvalues(i["X"] @ i["X"].T)
