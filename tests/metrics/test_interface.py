"""What all metrics share: NumPy and torch, batches, precision, both kinds of input, errors."""

import subprocess
import sys
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch

from isometer import metrics
from isometer.errors import IsometerError

GRAM_METRICS: dict[str, Callable[..., Any]] = {
    "orthogonality_gap": metrics.orthogonality_gap,
    "spectral_variance": metrics.spectral_variance,
    "lyapunov_gap": metrics.lyapunov_gap,
    "isometry": metrics.isometry,
    "isometry_gap": metrics.isometry_gap,
    "stable_rank": metrics.stable_rank,
    "stable_rank_centered": lambda *a, **k: metrics.stable_rank(*a, centered=True, relative=True, **k),
    "rank": metrics.rank,
    "rank_relative": lambda *a, **k: metrics.rank(*a, relative=True, **k),
    "effective_rank": metrics.effective_rank,
    "effective_rank_centered": lambda *a, **k: metrics.effective_rank(*a, centered=True, relative=True, **k),
    "condition_number": metrics.condition_number,
    "spectrum": metrics.spectrum,
    "spectrum_top": lambda *a, **k: metrics.spectrum(*a, top=2, **k),
    "cosines": metrics.cosines,
    "mean_cosine": metrics.mean_cosine,
    "mean_abs_cosine": metrics.mean_abs_cosine,
    "mean_angle_deg": metrics.mean_angle_deg,
    "angle_statistics": metrics.angle_statistics,
    "average_dot_product": metrics.average_dot_product,
    "clusters": lambda *a, **k: metrics.clusters(*a, tolerance_deg=75.0, **k),
    "odd_point_statistics": metrics.odd_point_statistics,
    "gram_distance": lambda *a, **k: metrics.gram_distance(*a, reference=_eye(4, *a, **k), **k),
    "wasserstein_to_isotropic": metrics.wasserstein_to_isotropic,
    "gradient_alignment": metrics.gradient_alignment,
    "isometry_gain": metrics.isometry_gain,
    "isometry_gain_bound": metrics.isometry_gain_bound,
    "isometry_gap_decrease": metrics.isometry_gap_decrease,
}
REPRESENTATION_METRICS: dict[str, Callable[..., Any]] = {
    "gram": metrics.gram,
    "soft_rank": metrics.soft_rank,
    "moments": metrics.moments,
    "activity_sparsity": metrics.activity_sparsity,
    "gradient_log_norm": metrics.gradient_log_norm,
    "jacobian_singular_values": metrics.jacobian_singular_values,
    "batch_norm_jacobian_norm": metrics.batch_norm_jacobian_norm,
    "batch_norm_jacobian_spectrum": metrics.batch_norm_jacobian_spectrum,
    "layer_normalize": metrics.layer_normalize,
    "rms_normalize": metrics.rms_normalize,
    "batch_normalize": metrics.batch_normalize,
    "batch_normalize_plain": lambda h: metrics.batch_normalize(h, recenter=False),
    "batch_norm_gain_bound_as_printed": metrics.batch_norm_gain_bound_as_printed,
    "linear_gradient_gram": lambda h: metrics.linear_gradient_gram(h, h[..., :2]),
    "gaussian_wasserstein": lambda h: metrics.gaussian_wasserstein(h @ h.mT, h[..., :2] @ h[..., :2].mT),
    "explosion_rate": lambda h: metrics.explosion_rate(h, lag=2),
}
ALL_METRICS = GRAM_METRICS | REPRESENTATION_METRICS


def _eye(side: int, *arguments: Any, **keywords: Any) -> Any:
    given = arguments[0] if arguments else keywords["gram"]
    return np.eye(side, dtype=given.dtype) if isinstance(given, np.ndarray) else torch.eye(side, dtype=given.dtype)


def parts(value: Any) -> list[Any]:
    return [part for part in value if not isinstance(part, int)] if isinstance(value, tuple) else [value]


def batch_of(seed: int, *shape: int) -> np.ndarray:
    return np.random.default_rng(seed).standard_normal(shape)


def test_every_public_function_is_exercised_here_and_documented() -> None:
    catalogue = {"metric", "names", "register", "unregister"}  # tests/test_metrics_catalogue.py
    functions = {name for name in metrics.__all__ if name[0].islower()} - catalogue
    assert functions - set(ALL_METRICS) == set()
    for name in set(metrics.__all__) - {"METRICS"}:
        text = getattr(metrics, name).__doc__
        assert text
        if name in functions:
            assert all(section in text for section in ("Args:", "Returns:", "Example:", ">>>", "Implements:")), name


@pytest.mark.parametrize("name", ALL_METRICS)
@pytest.mark.parametrize("shape", [(4, 4), (4, 7), (4, 3), (3, 4, 6), (2, 3, 4, 5)])
def test_numpy_equals_torch(name: str, shape: tuple[int, ...]) -> None:
    data = batch_of(1, *shape)
    ours, theirs = parts(ALL_METRICS[name](data)), parts(ALL_METRICS[name](torch.from_numpy(data)))
    assert len(ours) == len(theirs)
    for mine, other in zip(ours, theirs, strict=True):
        assert isinstance(mine, np.ndarray | np.generic)
        assert isinstance(other, torch.Tensor)
        assert mine.shape == tuple(other.shape)
        np.testing.assert_allclose(mine, other.numpy(), rtol=1e-10, atol=1e-12)


@pytest.mark.parametrize("name", ALL_METRICS)
def test_batch_equals_loop(name: str) -> None:
    data = batch_of(2, 2, 3, 4, 6)
    data[0, 1, 3] = data[0, 1, 2]  # one rank-deficient matrix must not touch its neighbours
    whole = parts(ALL_METRICS[name](data))
    for index in np.ndindex(2, 3):
        for part, single in zip(whole, parts(ALL_METRICS[name](data[index])), strict=True):
            np.testing.assert_allclose(part[index], single, rtol=1e-9, atol=1e-6 if "angle" in name else 1e-9)


@pytest.mark.parametrize("name", GRAM_METRICS)
@pytest.mark.parametrize("shape", [(4, 4), (4, 9), (2, 4, 5)])
def test_representation_equals_gram(name: str, shape: tuple[int, ...]) -> None:
    data = batch_of(3, *shape)
    first, second = parts(GRAM_METRICS[name](data)), parts(GRAM_METRICS[name](gram=metrics.gram(data)))
    for mine, other in zip(first, second, strict=True):
        np.testing.assert_allclose(mine, other, rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("name", ALL_METRICS)
@pytest.mark.parametrize("kind", ["numpy", "torch"])
def test_precision_of_results(name: str, kind: str) -> None:
    data = batch_of(4, 4, 6)
    reference = parts(ALL_METRICS[name](data.astype(np.float16).astype(np.float64)))
    for source, expected in [("float16", "float32"), ("float32", "float32"), ("float64", "float64")]:
        given = data.astype(np.float16).astype(source)
        if name == "gaussian_wasserstein" and source == "float16":
            continue  # the product itself would be taken in half precision
        values = parts(ALL_METRICS[name](given if kind == "numpy" else torch.from_numpy(given)))
        for value, exact in zip(values, reference, strict=True):
            integer = np.issubdtype(np.asarray(exact).dtype, np.integer)
            assert str(value.dtype).removeprefix("torch.") == ("int64" if integer else expected), (name, source)
            np.testing.assert_allclose(np.asarray(value), exact, rtol=2e-4, atol=2e-5)


def test_bfloat16_and_integers() -> None:
    assert metrics.isometry_gap(torch.eye(3, dtype=torch.bfloat16)).dtype == torch.float32
    assert metrics.isometry_gap(torch.eye(3, dtype=torch.int64)).dtype == torch.float64
    assert metrics.stable_rank([[1, 0], [0, 1]]) == 2
    assert metrics.stable_rank(np.array([[True, False], [False, True]])).dtype == np.float64


@pytest.mark.parametrize("name", sorted(set(ALL_METRICS) - {"explosion_rate"}))
@pytest.mark.parametrize("bad", [np.nan, np.inf])
def test_non_finite_input_raises(name: str, bad: float) -> None:
    data = batch_of(5, 2, 4, 4)
    data[1, 2, 0] = bad
    with np.errstate(invalid="ignore"), pytest.raises(IsometerError, match=r"NaN or infinite entries.*expected finite"):
        ALL_METRICS[name](data)


def test_errors_name_what_came_and_the_fix() -> None:
    data = batch_of(6, 4, 5)
    cases: list[tuple[Callable[[], Any], str]] = [
        (lambda: metrics.isometry_gap(), r"got neither — call metric\(H\) or metric\(gram=G\)"),
        (lambda: metrics.isometry_gap(data, gram=data @ data.T), "got both"),
        (lambda: metrics.isometry_gap(gram=data), r"gram has shape \(4, 5\); expected \(…, n, n\)"),
        (lambda: metrics.isometry_gap(gram=data[:, :4]), "gram is not symmetric"),
        (lambda: metrics.isometry_gap(gram=-np.eye(3)), "negative diagonal entry"),
        (lambda: metrics.isometry_gap(data[0]), r"shape \(5,\); expected \(…, samples, features\)"),
        (lambda: metrics.isometry_gap(data[:0]), r"shape \(0, 5\).*non-empty"),
        (lambda: metrics.isometry_gap(data * 1j), "dtype complex128; expected real"),
        (lambda: metrics.isometry_gap(torch.from_numpy(data) * 1j), "complex128; expected real"),
        (lambda: metrics.isometry_gap(np.array([["a"]])), "expected real numbers"),
        (lambda: metrics.mean_cosine(data[:1]), "batch has 1 sample; angles between samples need at least 2"),
        (lambda: metrics.mean_angle_deg(data[:1]), "batch has 1 sample.*pass a larger batch"),
        (lambda: metrics.average_dot_product(data[:1]), "batch has 1 sample"),
        (lambda: metrics.odd_point_statistics(data[:2]), "batch has 2 samples; .* need at least 3"),
        (lambda: metrics.gradient_alignment(data[:1]), "batch has 1 sample"),
        (lambda: metrics.activity_sparsity(data[:1]), "batch has 1 sample"),
        (lambda: metrics.rank(data[:1], centered=True), "batch has 1 sample; ranks of centred"),
        (lambda: metrics.activity_sparsity(data, threshold=1.0), "threshold is 1.0"),
        (lambda: metrics.soft_rank(data, tau=-1.0), "tau is -1.0; expected"),
        (lambda: metrics.spectrum(data, top=5), "top is 5; expected 1 to 4"),
        (lambda: metrics.spectrum(data, top=0), "top is 0"),
        (lambda: metrics.clusters(data, tolerance_deg=181.0), "tolerance_deg is 181.0"),
        (lambda: metrics.gram_distance(data, reference=np.eye(3)), r"reference has shape \(3, 3\)"),
        (lambda: metrics.gaussian_wasserstein(np.eye(2), np.eye(3)), "expected the same dimension"),
        (lambda: metrics.linear_gradient_gram(data, data[:2]), "inputs have 4 samples, cotangents 2"),
        (lambda: metrics.explosion_rate(np.zeros(5), lag=5), "log_norms has 5 layers, lag is 5"),
        (lambda: metrics.explosion_rate(0.0), "log_norms has 0 layers"),
        (lambda: metrics.explosion_rate([0.0, np.nan], lag=1), r"NaN or \+inf"),
    ]
    for call, message in cases:
        with pytest.raises(IsometerError, match=message):
            call()


def loads_torch(statement: str) -> bool:
    code = f"import sys\n{statement}\nprint('torch' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    return done.stdout.strip() == "True"


def test_torch_is_not_imported() -> None:
    assert not loads_torch("import isometer.metrics as m; m.isometry_gap([[1.0, 0.0], [0.0, 2.0]])")


def test_the_import_test_can_fail() -> None:
    assert loads_torch("import isometer.metrics, torch")


@pytest.mark.parametrize("metric", [metrics.stable_rank, metrics.orthogonality_gap, metrics.isometry_gap])
@pytest.mark.parametrize("scale", [1.0, 1e-5])
def test_gradients_flow_through_spectral_metrics(metric: Callable[..., Any], scale: float) -> None:
    data = torch.from_numpy(batch_of(7, 3, 5)).requires_grad_()
    assert torch.autograd.gradcheck(lambda h: metric(h * scale), (data,))


@pytest.mark.parametrize("name", sorted(set(ALL_METRICS) - {"explosion_rate"}))
def test_a_batch_of_zeros_has_an_answer(name: str) -> None:
    for part in parts(ALL_METRICS[name](np.zeros((2, 4, 5)))):
        assert not np.isnan(part).any()
    for part in parts(ALL_METRICS[name](np.zeros((4, 3), dtype=np.float32))):
        assert not np.isnan(part).any()


SCALE_FREE = sorted(
    set(GRAM_METRICS) - {"spectrum", "spectrum_top", "gram_distance"} | {"layer_normalize", "batch_normalize"}
)


@pytest.mark.parametrize("name", SCALE_FREE)
def test_scale_does_not_matter(name: str) -> None:
    data = batch_of(8, 4, 6)
    plain = parts(ALL_METRICS[name](data))
    for scale in (3.0, -1e-3, 1e-290, 1e250):
        for part, other in zip(plain, parts(ALL_METRICS[name](data * scale)), strict=True):
            if name not in ("layer_normalize", "batch_normalize") or scale > 0:
                np.testing.assert_allclose(other, part, rtol=1e-10, atol=1e-9)
    single = torch.from_numpy(data).float() * 1e30  # squares overflow in float32
    for part, other in zip(plain, parts(ALL_METRICS[name](single)), strict=True):
        np.testing.assert_allclose(other, part, rtol=1e-3, atol=1e-4)


def test_the_largest_and_smallest_numbers() -> None:
    signs = np.array([[1.0, 1.0, 1.0, 1.0], [1.0, -1.0, 1.0, -1.0], [1.0, 1.0, 1.0, -1.0]])
    expected = [metric(signs) for metric in (metrics.isometry_gap, metrics.orthogonality_gap, metrics.mean_cosine)]
    for kind, sizes in ((np.float64, (1.7e308, 5e-324)), (np.float32, (3e38, 1e-45))):
        for size in sizes:
            for given in (signs.astype(kind) * kind(size), torch.from_numpy(signs.astype(kind) * kind(size))):
                found = [metric(given) for metric in (metrics.isometry_gap, metrics.orthogonality_gap)]
                found.append(metrics.mean_cosine(given))
                np.testing.assert_allclose(np.array(found), expected, rtol=1e-5 if kind == np.float32 else 1e-12)


@pytest.mark.parametrize("name", sorted(set(GRAM_METRICS) - {"odd_point_statistics", "cosines"}))
def test_rotations_of_features_and_order_of_samples_do_not_matter(name: str) -> None:
    rng = np.random.default_rng(9)
    data = rng.standard_normal((4, 6))
    rotation = np.linalg.qr(rng.standard_normal((6, 6)))[0]
    moved = (data @ rotation)[[2, 0, 3, 1]]
    for part, other in zip(parts(GRAM_METRICS[name](data)), parts(GRAM_METRICS[name](moved)), strict=True):
        np.testing.assert_allclose(other, part, rtol=1e-10, atol=1e-10)
