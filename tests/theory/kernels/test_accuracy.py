"""Kernels against references in 40-digit arithmetic, at depths 1 … 1000 and gaps down to 1e-12."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache

import mpmath as mp
import numpy as np
import pytest

from isometer.theory.kernels import SphereKernel, kernel_matrices
from isometer.theory.kernels._depth_free import AngleState, coordinates, gaps, through

PROMISED = 1e-9  # of the diagonal
DEPTHS = (1, 2, 3, 10, 33, 100, 317, 1000)
GAPS = ("1e-12", "1e-6", "1e-2", "0.4", "1", "1.7", "1.999999999")
DIGITS = 40
Pair = tuple[Callable[[mp.mpf], mp.mpf], Callable[[mp.mpf], mp.mpf]]


def hermite_squares(phi: Callable[[mp.mpf], mp.mpf], count: int, step: str) -> list[mp.mpf]:
    """c_k² by the trapezoidal rule, which converges geometrically for functions analytic in a strip."""
    with mp.workdps(DIGITS + 10):
        h = mp.mpf(step)
        nodes = [k * h for k in range(-int(14 / h), int(14 / h) + 1)]
        weights = [h * mp.exp(-x * x / 2) / mp.sqrt(2 * mp.pi) for x in nodes]
        values = [phi(x) * w for x, w in zip(nodes, weights, strict=True)]
        before, here = [mp.mpf(0)] * len(nodes), [mp.mpf(1)] * len(nodes)
        out = []
        for k in range(count):
            out.append(mp.fdot(values, here) ** 2)
            a, b = mp.sqrt(k), mp.sqrt(k + 1)
            before, here = here, [(x * p - a * q) / b for x, p, q in zip(nodes, here, before, strict=True)]
        return out


def series(squares: list[mp.mpf]) -> Pair:
    slopes = [k * c for k, c in enumerate(squares)][1:]
    return (lambda r: mp.polyval(squares[::-1], r), lambda r: mp.polyval(slopes[::-1], r))


@cache
def reference_dual(name: str) -> Pair:
    """κ with κ(1) = 1 and κ′."""
    with mp.workdps(DIGITS):
        if name == "unit(relu)":
            return (
                lambda r: (mp.sqrt(1 - r * r) + (mp.pi - mp.acos(r)) * r) / mp.pi,
                lambda r: (mp.pi - mp.acos(r)) / mp.pi,
            )
        if name == "unit(exp)":
            return lambda r: mp.exp(r - 1), lambda r: mp.exp(r - 1)
        if name == "sign":
            return lambda r: 2 * mp.asin(r) / mp.pi, lambda r: mp.mpf("nan")
        if name == "unit(tanh)":
            squares = hermite_squares(mp.tanh, 260, "0.08")
        else:
            squares = hermite_squares(lambda x: x * mp.ncdf(x), 110, "0.1")
            if name == "normalized(gelu)":
                squares[0] = mp.mpf(0)
        total = mp.fsum(squares)
        return series([c / total for c in squares])


@cache
def reference(name: str, gap: str, deepest: int = 1000) -> dict[int, tuple[float, float]]:
    """(NNGP, NTK over its diagonal) at every depth asked for."""
    value, slope = reference_dual(name)
    out = {}
    with mp.workdps(DIGITS):
        rho = 1 - mp.mpf(gap)
        tangent, diagonal, top = rho, mp.mpf(1), slope(mp.mpf(1))
        for layer in range(1, deepest + 1):
            before, rho = rho, value(rho)
            if name != "sign":
                tangent = rho + tangent * slope(before)
                diagonal = 1 + diagonal * top
            if layer in DEPTHS:
                out[layer] = float(rho), float(tangent / diagonal)
    return out


def variable(texts: Sequence[str]) -> np.ndarray:
    """s from decimal gaps, 1 − ρ and 1 + ρ both exact."""
    with mp.workdps(DIGITS):
        pairs = np.array([(float(mp.mpf(g)), float(2 - mp.mpf(g))) for g in texts])
    return coordinates(pairs[:, 0], pairs[:, 1])


ACTIVATIONS = ("unit(relu)", "unit(exp)", "sign")
SLOW = ("unit(tanh)", "unit(gelu)", "normalized(gelu)")


@pytest.mark.parametrize("name", [*ACTIVATIONS, *(pytest.param(n, marks=pytest.mark.slow) for n in SLOW)])
def test_against_high_precision(name: str) -> None:
    s = variable(GAPS)
    for depth in DEPTHS:
        kernel = SphereKernel(name, depth)
        expected = np.array([reference(name, g)[depth] for g in GAPS])
        for nngp, ntk in (kernel.values(s), (kernel.tabulated(s)[0], kernel.tabulated(s)[-1])):
            np.testing.assert_allclose(nngp, expected[:, 0], rtol=0, atol=PROMISED)
            if name != "sign":
                assert ntk is not None
                np.testing.assert_allclose(ntk, expected[:, 1], rtol=0, atol=PROMISED)


@pytest.mark.parametrize("name", ["unit(tanh)", "unit(gelu)"])
def test_smooth_activations_to_depth_100(name: str) -> None:
    for gap in ("1e-12", "0.4"):
        expected = reference(name, gap, 100)
        s = variable([gap])
        for depth in (1, 10, 100):
            nngp, ntk = SphereKernel(name, depth).values(s)
            assert ntk is not None
            assert abs(nngp[0] - expected[depth][0]) < PROMISED
            assert abs(ntk[0] - expected[depth][1]) < PROMISED


@pytest.mark.parametrize("name", ["unit(relu)", "unit(exp)", "normalized(gelu)"])
def test_batch_with_nearly_equal_inputs(name: str) -> None:
    """From vectors, not cosines: the angle of the float64 vectors themselves is the reference."""
    rng = np.random.default_rng(3)
    x = rng.standard_normal((4, 6))
    x[1] = x[0] * (1 + 1e-6 * rng.standard_normal(6))  # 1 − ρ about 1e-12
    x[2] = -x[0] * (1 + 1e-3 * rng.standard_normal(6))
    x /= np.linalg.norm(x, axis=1, keepdims=True)
    value, slope = reference_dual(name)
    for depth in (1, 10, 200):
        both = kernel_matrices(name, x, depth)
        with mp.workdps(DIGITS):
            for i in range(4):
                for j in range(i):
                    u, v = ([mp.mpf(float(t)) for t in x[k]] for k in (i, j))
                    rho = mp.fdot(u, v) / mp.sqrt(mp.fdot(u, u) * mp.fdot(v, v))
                    tangent, diagonal, top = rho, mp.mpf(1), slope(mp.mpf(1))
                    for _ in range(depth):
                        before, rho = rho, value(rho)
                        tangent = rho + tangent * slope(before)
                        diagonal = 1 + diagonal * top
                    assert abs(both["nngp"].matrix[i, j] - float(rho)) < PROMISED
                    assert abs(both["ntk"].matrix[i, j] - float(tangent / diagonal)) < PROMISED


def test_activation_as_given_changes_its_variance() -> None:
    """tanh without a gain: another dual in every layer; unit inputs, two layers, biases of variance 0.3."""
    bias, depth = mp.mpf("0.3"), 2
    with mp.workdps(DIGITS):
        cosine, variance = mp.mpf("0.25"), mp.mpf(1)
        covariance = variance * cosine
        p, c = variance + bias, covariance + bias
        tangent, diagonal = c, p
        for _ in range(depth):
            root = mp.sqrt(p)
            squares = hermite_squares(lambda x, root=root: mp.tanh(root * x), 300, "0.06")
            value, slope = series(squares)
            rho = c / p
            e_slope, e_top = slope(rho) / p, slope(mp.mpf(1)) / p
            c, p = value(rho) + bias, value(mp.mpf(1)) + bias
            tangent, diagonal = c + tangent * e_slope, p + diagonal * e_top
        expected = float(c / p), float(tangent / diagonal), float(mp.log(p)), float(mp.log(diagonal))
    kernel = SphereKernel("tanh", depth, bias=0.3)
    assert abs(kernel.at_cosine(0.25) - expected[0]) < 1e-13
    assert abs(kernel.at_cosine(0.25, "ntk") - expected[1]) < 1e-13
    assert abs(kernel.log_diagonal() - expected[2]) < 1e-13
    assert abs(kernel.log_diagonal("ntk") - expected[3]) < 1e-13


@pytest.mark.parametrize(
    "name", ["unit(relu)", "unit(exp)", "normalized(relu)", "unit(gelu)", "leaky_relu(0.9)", "step"]
)
def test_blocks_agree_with_layer_by_layer(name: str) -> None:
    """Doubling against plain iteration at depth 3000, where both are possible."""
    s = np.linspace(-30, 30, 241)
    kernel = SphereKernel(name, 3000)
    assert kernel.constant is not None
    gap, mirror = gaps(s)
    cosine = np.where(gap < 1, 1 - gap, mirror - 1)
    state = AngleState(s, cosine if kernel.tangent else None, 0.0)
    for stage in kernel.transient:
        state = through(stage, state)
    state = through(kernel.constant, state, kernel.depth - len(kernel.transient))
    nngp, ntk = kernel.values(s)
    np.testing.assert_allclose(nngp, -np.tanh(state.s), rtol=0, atol=1e-11)
    if kernel.tangent:
        assert ntk is not None
        assert state.tangent is not None
        np.testing.assert_allclose(ntk, state.tangent, rtol=0, atol=1e-11)


def test_depth_of_a_million_follows_the_known_asymptote() -> None:
    """unit(relu): 1 − ρ_L ~ 9π²/(2L²); the NTK over its diagonal tends to 1/4 for every angle."""
    kernel = SphereKernel("unit(relu)", 1_000_000)
    nngp, ntk = kernel.values(np.array([0.0]))
    assert ntk is not None
    scaled = (1 - nngp[0]) * 1e12 / (4.5 * np.pi**2)
    assert abs(scaled - 1) < 1e-3
    assert abs(ntk[0] - 0.25) < 1e-3
