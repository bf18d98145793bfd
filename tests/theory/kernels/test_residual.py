"""Skip connections, zero vectors and near-duplicates of several lengths, against 50-digit closed forms."""

from __future__ import annotations

import math
from typing import Any

import mpmath as mp
import numpy as np
import pytest

from isometer import activation
from isometer.errors import IsometerError
from isometer.theory import KernelMap, LengthMap, kernel_matrices, kernel_matrix
from isometer.theory.chains import ChainLayer, chain_path
from isometer.theory.kernels import Batch, SignalFamily, SphereKernel, conditioning_bounds, diagnose_kernel
from isometer.theory.kernels._depth_free import AngleState, through
from isometer.theory.kernels._kernel_matrix import _by_layers, _first_signals
from isometer.theory.kernels._layer_maps import coordinates, cosine_of, gaps
from isometer.theory.kernels._mixed_lengths import Architecture, mixed_kernels
from support.batches import sphere

DIGITS = 50


def erf_pair(p: Any, q: Any, c: Any) -> tuple[Any, Any]:
    """E erf(u)erf(v) and E erf′(u)erf′(v) for variances p, q and covariance c."""
    size = (1 + 2 * p) * (1 + 2 * q)
    return 2 / mp.pi * mp.asin(2 * c / mp.sqrt(size)), 4 / mp.pi / mp.sqrt(size - 4 * c**2)


def relu_pair(p: Any, q: Any, c: Any) -> tuple[Any, Any]:
    """E relu(u)relu(v) and the probability that both are positive."""
    if p == 0 or q == 0:
        return mp.mpf(0), mp.mpf(1) / 4
    root = mp.sqrt(p * q)
    theta = mp.acos(max(min(c / root, 1), -1))
    return root * (mp.sin(theta) + (mp.pi - theta) * mp.cos(theta)) / (2 * mp.pi), (mp.pi - theta) / (2 * mp.pi)


def exact(pair: Any, x: np.ndarray, depth: int, bias: float, gamma: float | None) -> tuple[Any, Any]:
    """(NNGP, NTK) by the recursion, entry by entry, in 50 digits."""
    n, shift = len(x), mp.mpf(bias)
    rows = [[mp.mpf(float(v)) for v in row] for row in x]
    k = [[mp.fdot(rows[i], rows[j]) + shift for j in range(n)] for i in range(n)]
    t = [row[:] for row in k]
    strength = mp.mpf(1) if gamma is None else mp.mpf(gamma) ** 2
    keep = 0 if gamma is None else 1
    for _ in range(depth):
        found = [[pair(k[i][i], k[j][j], k[i][j]) for j in range(n)] for i in range(n)]
        add = [[strength * (found[i][j][0] + shift) for j in range(n)] for i in range(n)]
        t = [[t[i][j] * (keep + strength * found[i][j][1]) + add[i][j] for j in range(n)] for i in range(n)]
        k = [[keep * k[i][j] + add[i][j] for j in range(n)] for i in range(n)]
    if gamma is not None:
        t = [[t[i][j] + k[i][j] for j in range(n)] for i in range(n)]
    return k, t


def close_inputs() -> np.ndarray:
    """Of several lengths: a near-duplicate at 1e-7, a near-antipode at 1e-5, one exactly parallel."""
    rng = np.random.default_rng(0)
    x = rng.standard_normal((6, 4))
    x[1] = x[0] * (1 + 1e-7 * rng.standard_normal(4))
    x[3] = -x[2] * (1 + 1e-5 * rng.standard_normal(4))
    x[4] *= 0.3
    x[5] = 1.5 * x[4]
    return x


# --- angles of inputs of several lengths ------------------------------------------------------------------------------


@pytest.mark.parametrize(("bias", "gamma"), [(0.0, None), (0.25, None), (0.0, 0.5), (0.25, 0.5)])
@pytest.mark.parametrize("depth", [1, 8])
def test_angles_keep_fifteen_digits(bias: float, gamma: float | None, depth: int) -> None:
    """2√((1 ∓ ρ)/2) is the chord of the angle: errors below 5e-15 in it, however close the inputs are."""
    x = close_inputs()
    net = Architecture(bias, "none", "pre", gamma)
    state, tangent = mixed_kernels(SignalFamily("erf"), _first_signals(Batch.of(x), bias, True), depth, net)
    gap, mirror = gaps(state.s)
    assert tangent is not None
    with mp.workdps(DIGITS):
        k, t = exact(erf_pair, x, depth, bias, gamma)
        for i in range(len(x)):
            assert abs(state.variances[i] / float(k[i][i]) - 1) < 1e-14
            for j in range(len(x)):
                assert abs(tangent[i, j] - float(t[i][j])) < 1e-13 * float(t[0][0])
                if i != j:
                    rho = k[i][j] / mp.sqrt(k[i][i] * k[j][j])
                    assert abs(float(mp.sqrt(float(gap[i, j])) - mp.sqrt(1 - rho))) < 5e-15
                    assert abs(float(mp.sqrt(float(mirror[i, j])) - mp.sqrt(1 + rho))) < 5e-15
        smallest = 1 - k[0][1] / mp.sqrt(k[0][0] * k[1][1])
    assert smallest < 1e-13
    assert abs(gap[0, 1] / float(smallest) - 1) < 1e-7  # cosines would know 1e-15/1e-13, one digit


@pytest.mark.parametrize(("bias", "gamma"), [(0.4, None), (0.0, 0.8), (0.4, 0.8)])
def test_relu_of_several_lengths(bias: float, gamma: float | None) -> None:
    x = close_inputs()
    both = kernel_matrices("relu", x, 6, bias=bias, residual=gamma)
    with mp.workdps(DIGITS):
        for kind, reference in zip(("nngp", "ntk"), exact(relu_pair, x, 6, bias, gamma), strict=True):
            expected = np.array([[float(v) for v in row] for row in reference])
            found = both[kind].matrix * np.exp(both[kind].log_diagonal.max())  # type: ignore[index]
            np.testing.assert_allclose(found, expected, rtol=0, atol=2e-14 * expected.max())


@pytest.mark.parametrize("position", ["pre", "post"])
def test_norms_in_branches_of_several_lengths(position: Any) -> None:
    """h + γWφ(rms(h)) and h + γW rms(φ(h)), with biases: the branch forgets the length, the skip keeps it."""

    def pair(p: Any, q: Any, c: Any) -> tuple[Any, Any]:
        if position == "pre":
            value, slope = erf_pair(mp.mpf(1), mp.mpf(1), c / mp.sqrt(p * q))
            return value, slope / mp.sqrt(p * q)
        value, slope = erf_pair(p, q, c)
        size = mp.sqrt(erf_pair(p, p, p)[0] * erf_pair(q, q, q)[0])
        return value / size, slope / size

    x = close_inputs()
    both = kernel_matrices("erf", x, 4, bias=0.1, norm="rms", norm_position=position, residual=0.7)
    with mp.workdps(DIGITS):
        for kind, reference in zip(("nngp", "ntk"), exact(pair, x, 4, 0.1, 0.7), strict=True):
            expected = np.array([[float(v) for v in row] for row in reference])
            found = both[kind].matrix * np.exp(both[kind].log_diagonal.max())  # type: ignore[index]
            np.testing.assert_allclose(found, expected, rtol=0, atol=2e-14 * expected.max())


def test_kinked_activation_of_several_lengths_near_coincidence() -> None:
    """hardtanh pair by pair: the mean square of the difference of two close signals, by mpmath in one variable.

    For directions that are equal and lengths that differ by a relative e, 1 − ρ is quadratic in e.
    """
    x = np.array([[0.6, 0.8], [0.6 * (1 + 1e-6), 0.8 * (1 + 1e-6)], [2.0, 0.0]])
    state, _ = mixed_kernels(SignalFamily("hardtanh"), _first_signals(Batch.of(x), 0.0, False), 1, Architecture())
    with mp.workdps(40):
        root = [mp.sqrt(mp.fsum(mp.mpf(float(v)) ** 2 for v in row)) for row in x[:2]]

        def clip(u: Any) -> Any:
            return max(min(u, 1), -1)

        points = sorted({mp.mpf(0), 1 / root[0], 1 / root[1], mp.mpf(12)})
        mean = [2 * mp.quad(lambda z, r=r: clip(r * z) ** 2 * mp.npdf(z), points) for r in root]
        apart = mp.quad(
            lambda z: (clip(root[0] * z) / mp.sqrt(mean[0]) - clip(root[1] * z) / mp.sqrt(mean[1])) ** 2 * mp.npdf(z),
            points,
        )
        expected = float(apart)  # both halves of the line, times one half
    assert 1e-15 < expected < 1e-12
    assert gaps(state.s)[0][0, 1] == pytest.approx(expected, rel=1e-7)


# --- skip connections -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("gamma", [0.1, 1.0, 3.0])
@pytest.mark.parametrize("depth", [0, 1, 5, 31, 33, 70])
def test_residual_relu_against_high_precision(gamma: float, depth: int) -> None:
    """`unit(relu)` on unit inputs: the constant stage, single layers and blocks."""
    kernel = SphereKernel("unit(relu)", depth, residual=gamma)
    for text in ("1e-12", "0.3", "1.9"):
        with mp.workdps(DIGITS):
            rho = 1 - mp.mpf(text)
            g = mp.mpf(gamma) ** 2
            k, p, t, d = rho, mp.mpf(1), rho, mp.mpf(1)
            for _ in range(depth):
                value, slope = relu_pair(p, p, k)
                t, d = t * (1 + 2 * g * slope) + 2 * g * value, d * (1 + g) + g * p
                k, p = k + 2 * g * value, p * (1 + g)
            expected = float(1 - k / p), float((t + k) / (d + p)), float(mp.log(p)), float(mp.log(d + p))
            s = coordinates(np.array([float(mp.mpf(text))]), np.array([float(2 - mp.mpf(text))]))
        nngp, ntk = kernel.values(s)
        assert ntk is not None
        gap = 2.0 / (1.0 + math.exp(-2.0 * float(kernel._run(s).s[0])))
        assert gap == pytest.approx(expected[0], rel=1e-12)
        assert abs(nngp[0] - (1 - expected[0])) < 1e-13
        assert abs(ntk[0] - expected[1]) < 1e-13
        assert kernel.log_diagonal() == pytest.approx(expected[2], abs=1e-12)
        assert kernel.log_diagonal("ntk") == pytest.approx(expected[3], abs=1e-12)


@pytest.mark.parametrize("name", ["tanh", "unit(relu)", "softplus"])
@pytest.mark.parametrize(("norm", "position"), [("none", "pre"), ("rms", "pre"), ("layer", "post")])
@pytest.mark.parametrize("bias", [0.0, 0.3])
def test_residual_sphere_agrees_with_layers(name: str, norm: Any, position: Any, bias: float) -> None:
    x = 1.3 * sphere(6, 5)
    fast = kernel_matrices(name, x, 4, bias=bias, norm=norm, norm_position=position, residual=0.6)
    net = Architecture(bias, norm, position, 0.6)
    slow = _by_layers(SignalFamily(name), Batch.of(x), 4, ("nngp", "ntk"), net)
    for kind, kernel in fast.items():
        np.testing.assert_allclose(kernel.matrix, slow[kind][0], rtol=0, atol=1e-12)
        np.testing.assert_allclose(kernel.log_diagonal, slow[kind][1], rtol=0, atol=1e-12)


def test_residual_blocks_agree_with_single_layers() -> None:
    s = np.linspace(-30, 30, 121)
    kernel = SphereKernel("unit(relu)", 2000, residual=0.05)
    assert kernel.constant is not None
    state = through(kernel.constant, AngleState(s, cosine_of(*gaps(s)), 0.0), 2000)
    weight = 1 / (1 + math.exp(state.log_ratio))
    nngp, ntk = kernel.values(s)
    assert ntk is not None
    assert state.tangent is not None
    np.testing.assert_allclose(nngp, -np.tanh(state.s), rtol=0, atol=1e-11)
    np.testing.assert_allclose(ntk, weight * nngp + (1 - weight) * state.tangent, rtol=0, atol=1e-11)


def test_limits_of_the_residual_strength() -> None:
    x = sphere(4, 5)
    plain, none = kernel_matrix("tanh", x, 5, "ntk"), kernel_matrix("tanh", x, 5, "ntk", residual=math.inf)
    assert (plain.matrix == none.matrix).all()
    weak = kernel_matrices("tanh", x, 5, residual=1e-9)
    for kind, scale in (("nngp", 1.0), ("ntk", 2.0)):  # an identity between an input layer and a readout
        np.testing.assert_allclose(weak[kind].matrix, x @ x.T, atol=1e-14)  # type: ignore[index]
        np.testing.assert_allclose(np.exp(weak[kind].log_diagonal), scale, rtol=1e-14)  # type: ignore[index]
    strong = kernel_matrix("unit(relu)", x, 5, residual=1e8)
    np.testing.assert_allclose(strong.matrix, kernel_matrix("unit(relu)", x, 5).matrix, atol=1e-14)
    for bad in (0.0, -1.0, math.nan):
        with pytest.raises(IsometerError, match="residual strength"):
            kernel_matrix("tanh", x, 5, residual=bad)


def test_residual_lengths_factor_out_of_homogeneous_networks() -> None:
    x, scale = sphere(4, 6), np.array([0.1, 1.0, 5.0, 20.0])
    plain = kernel_matrices("relu", x, 30, residual=0.5)
    scaled = kernel_matrices("relu", x * scale[:, None], 30, residual=0.5)
    for kind in ("nngp", "ntk"):
        np.testing.assert_allclose(scaled[kind].matrix, plain[kind].matrix * np.outer(scale, scale) / 400, rtol=1e-12)


def skipping(name: str, gamma: float) -> ChainLayer:
    """h + γWφ(h) with weights of unit variance."""
    return ChainLayer(activation(name), "none", "pre", gamma, 1.0, 1.0, 0.0)


def test_length_and_cosine_maps_with_skips() -> None:
    """relu: q grows by 1 + γ²/2 a layer; cosines follow the relative kernel map; tanh grows like γ²·depth."""
    assert LengthMap("relu", residual=0.5).iterate(2.0, 3) == pytest.approx(2.0 * 1.125 ** np.arange(4))
    assert LengthMap("relu", residual=0.5).slope(3.0) == pytest.approx(1.125)
    assert [p.variance for p in LengthMap("tanh", residual=0.5).fixed_points] == [0.0]
    assert LengthMap("tanh", residual=0.5, bias_variance=0.1).fixed_points == ()
    path = chain_path(skipping("unit(relu)", 0.3), depth=50, gap=1e-10)
    np.testing.assert_allclose(path.gap, KernelMap("relu", residual=0.3).iterate(gap=1e-10, depth=50).gap, rtol=1e-12)
    relu = LengthMap("unit(relu)", residual=0.3).iterate(1.0, 50)
    np.testing.assert_allclose(relu, 1.09 ** np.arange(51), rtol=1e-12)
    tanh = LengthMap("tanh", residual=0.5)
    lengths = tanh.iterate(1.0, 40)
    assert lengths[40] - lengths[39] == pytest.approx(0.25 * tanh.family.second_moment(lengths[39]))
    with pytest.raises(IsometerError, match="either the cosine"):
        chain_path(skipping("tanh", 0.5), depth=3)


def test_same_convention_as_the_spec() -> None:
    """`simulate` of h + γWφ(h), order (activation, weights, residual): the mean Gram entry at width 256, 300 runs.

    Standard errors are about 1 % of the diagonal; 4.5 of them are allowed, beside 1/width: 15 % errors (γ for γ²)
    are caught with certainty.
    """
    import torch

    from isometer.simulate import simulate
    from isometer.spec import Spec

    gamma, depth, width = 0.7, 3, 256
    rng = np.random.default_rng(0)
    frame = np.linalg.qr(rng.standard_normal((width, 2)))[0].T * math.sqrt(width)
    batch = np.stack([frame[0], 0.6 * frame[0] + 0.8 * frame[1]])  # H₀ H₀ᵀ/d has cosine 0.6

    def entry(h: torch.Tensor) -> torch.Tensor:
        return (h[..., 0, :] * h[..., 1, :]).mean(dim=-1)

    spec = Spec(
        width=width, depth=depth, activation="tanh", residual=gamma, gain=1.0,
        order=("activation", "weights", "residual", "norm"), norm=None, input_width=width,
    )  # fmt: skip
    found = simulate(spec, batch, runs=300, metrics=[entry], seed=1)
    values = found["entry"].values  # (run, layer)
    path = chain_path(skipping("tanh", gamma), depth=depth, cosine=0.6)
    expected = LengthMap("tanh", residual=gamma).iterate(1.0, depth) * path.cosine
    error = values.std(axis=0, ddof=1) / math.sqrt(len(values))
    assert error.max() < 0.02
    assert (np.abs(values.mean(axis=0) - expected) <= 4.5 * error + 2 / width + 1e-12).all()


def test_bounds_and_diagnosis_with_skips() -> None:
    x = sphere(5, 7)
    kernel = kernel_matrix("unit(relu)", x, 40, residual=1.0)
    checks = conditioning_bounds(kernel, residual=1.0)
    assert checks
    assert not any(check.applies for check in checks)
    assert "skip" in checks[0].reason
    deep = kernel_matrix("unit(relu)", x, 3000, residual=1.0)
    found = diagnose_kernel(deep, residual=1.0)
    assert found is not None
    at = found.passes["float16"]
    assert at is not None
    assert kernel_matrix("unit(relu)", x, at, residual=1.0).condition_number >= 2**10
    assert kernel_matrix("unit(relu)", x, at - 1, residual=1.0).condition_number < 2**10


# --- zero vectors -----------------------------------------------------------------------------------------------------


def test_zero_vector_without_signal_has_a_zero_row() -> None:
    x = np.concatenate([sphere(3, 4), np.zeros((1, 4))])
    for kind in ("nngp", "ntk"):
        for inputs in (x, x * np.array([1.0, 2.0, 3.0, 1.0])[:, None]):
            kernel = kernel_matrix("tanh", inputs, 3, kind)  # type: ignore[arg-type]
            rest = kernel_matrix("tanh", inputs[:3], 3, kind)  # type: ignore[arg-type]
            assert (kernel.matrix[3] == 0.0).all()
            assert (kernel.matrix[:, 3] == 0.0).all()
            assert (kernel.matrix[:3, :3] == rest.matrix).all()
            assert kernel.log_diagonal[3] == -math.inf
            assert kernel.condition_number == math.inf
            assert "input 3 is the zero vector" in (kernel.singular or "")
            assert diagnose_kernel(kernel) is not None
    nothing = kernel_matrix("relu", np.zeros((2, 3)), 4)
    assert (nothing.matrix == 0.0).all()
    assert nothing.effective_rank == 0.0


@pytest.mark.parametrize("gamma", [None, 0.8])
def test_zero_vector_with_biases(gamma: float | None) -> None:
    x = np.concatenate([close_inputs()[:3], np.zeros((1, 4))])
    for name, pair in (("erf", erf_pair), ("relu", relu_pair)):
        both = kernel_matrices(name, x, 3, bias=0.3, residual=gamma)
        with mp.workdps(DIGITS):
            for kind, reference in zip(("nngp", "ntk"), exact(pair, x, 3, 0.3, gamma), strict=True):
                expected = np.array([[float(v) for v in row] for row in reference])
                kernel = both[kind]  # type: ignore[index]
                found = kernel.matrix * np.exp(kernel.log_diagonal.max())
                np.testing.assert_allclose(found, expected, rtol=0, atol=2e-14 * expected.max())
                assert kernel.singular is None


def test_zero_vector_that_the_activation_wakes() -> None:
    """cos(0) = 1: E cos(u)cos(v) = e^{−(p + q)/2} cosh c for any variances, zero included."""
    x = np.array([[0.0, 0.0], [0.6, 0.8], [1.0, -2.0], [0.0, 0.0]])
    kernel = kernel_matrix("cos", x, 2)
    with mp.workdps(30):
        k = [[mp.mpf(float(v)) for v in row] for row in x @ x.T]
        for _ in range(2):
            k = [[mp.exp(-(k[i][i] + k[j][j]) / 2) * mp.cosh(k[i][j]) for j in range(4)] for i in range(4)]
        expected = np.array([[float(v) for v in row] for row in k])
    np.testing.assert_allclose(kernel.matrix * np.exp(kernel.log_diagonal.max()), expected, rtol=1e-13)
    assert "0 and 3 are the same" in (kernel.singular or "")
    normed = kernel_matrix("cos", x[:3], 1, norm="rms")  # the norm of zero is zero: φ(0) = 1 there
    mean, second = math.exp(-0.5), (1 + math.exp(-2)) / 2
    assert normed.matrix[0, 1] == pytest.approx(mean, rel=1e-13)
    assert normed.matrix[1, 1] == pytest.approx(second, rel=1e-13)


# --- the command ------------------------------------------------------------------------------------------------------


def test_growing_signals_that_cost_too_much_are_refused_at_once() -> None:
    """tanh with skips: the variance grows for ever, and from about 6 on every layer takes quadrature."""
    with pytest.raises(IsometerError, match=r"still changing.*use norm='rms'"):
        kernel_matrix("tanh", sphere(3, 4), 3000, residual=0.5)
    assert np.isfinite(kernel_matrix("tanh", sphere(3, 4), 3000, residual=0.5, norm="rms").log_diagonal).all()
