"""Trajectories of a chain at infinite width against closed forms and quadrature."""

from __future__ import annotations

import json
import math
from typing import Any

import numpy as np
import pytest

from isometer.doctor.prediction._infinite_width import infinite_width
from isometer.spec import Spec
from isometer.theory.batch_norm import batch_norm_fixed_point

# --- infinite width ---------------------------------------------------------------------------------------------------


def arc_cosine(gram: np.ndarray[Any, Any], gain: float, depth: int) -> list[np.ndarray[Any, Any]]:
    """E relu(u) relu(v) = |u||v| (sin θ + (π − θ) cos θ) / 2π."""
    grams = [gram]
    for _ in range(depth):
        here = grams[-1] * gain**2
        size = np.sqrt(np.outer(np.diag(here), np.diag(here)))
        theta = np.arccos(np.clip(here / size, -1, 1))
        grams.append(size * (np.sin(theta) + (math.pi - theta) * np.cos(theta)) / (2 * math.pi))
    return grams


def cosines(gram: np.ndarray[Any, Any]) -> float:
    root = np.sqrt(np.diag(gram))
    upper = np.triu_indices(len(gram), 1)
    return float(np.abs(gram / np.outer(root, root))[upper].mean())


def start(samples: int = 5) -> np.ndarray[Any, Any]:
    factor = np.random.default_rng(3).standard_normal((samples, 9)) + 0.4
    return np.asarray(factor @ factor.T / 9)


def test_relu_at_infinite_width_is_the_arc_cosine_kernel() -> None:
    found = infinite_width(Spec(width=64, depth=8, gain=1.3), start())
    reference = arc_cosine(start(), 1.3, 8)
    assert found["mean_abs_cosine"] == pytest.approx([cosines(g) for g in reference], abs=1e-9)
    assert found["rms"] == pytest.approx([math.sqrt(np.trace(g) / 5) for g in reference], rel=1e-10)
    assert found["output_gradient_log_norm"] == pytest.approx([(8 - k) * math.log(1.3**2 / 2) / 2 for k in range(9)])


@pytest.mark.parametrize("form", ["plain", "layer-post", "rms-pre", "skip"])
def test_softplus_at_infinite_width_agrees_with_quadrature(form: str) -> None:
    """Products of 80-point Gauss–Hermite rules on the pairs, each layer written out here."""
    x, w = np.polynomial.hermite_e.hermegauss(80)
    w = w / w.sum()
    gain, eps = 1.4, 0.01

    def expect(cov: np.ndarray[Any, Any]) -> tuple[np.ndarray[Any, Any], np.ndarray[Any, Any]]:
        size, out, mean = len(cov), np.empty_like(cov), np.empty(len(cov))
        for i in range(size):
            u = math.sqrt(cov[i, i]) * x
            mean[i] = np.log1p(np.exp(u)) @ w
            for j in range(size):
                slope = cov[i, j] / cov[i, i]
                rest = math.sqrt(max(0.0, cov[j, j] - slope * cov[i, j]))
                v = slope * u[:, None] + rest * x[None, :]
                out[i, j] = (np.log1p(np.exp(u))[:, None] * np.log1p(np.exp(v)) * w[:, None] * w[None, :]).sum()
        return out, mean

    here = start(4)
    grams = [here]
    for _ in range(3):
        if form == "skip":
            here = here + 0.25 * (gain**2 * expect(here)[0] + 0.1)
        else:
            cov = gain**2 * here + 0.1
            if form == "rms-pre":
                cov = cov / np.sqrt(np.outer(np.diag(cov) + eps, np.diag(cov) + eps))
            here, mean = expect(cov)
            if form == "layer-post":
                here = here - np.outer(mean, mean)
                here = here / np.sqrt(np.outer(np.diag(here) + eps, np.diag(here) + eps))
        grams.append(here)
    over = {"over": "features", "eps": eps}
    fields: dict[str, Any] = {
        "plain": {},
        "layer-post": {"norm": {**over}, "order": ["weights", "activation", "norm"]},
        "rms-pre": {"norm": {**over, "recenter": False}, "order": ["weights", "norm", "activation"]},
        "skip": {"residual": 0.5, "order": ["activation", "weights", "norm"]},
    }[form]
    record = {"width": 8, "depth": 3, "activation": "softplus", "gain": gain, "bias_variance": 0.1, **fields}
    found = infinite_width(Spec.from_json(json.dumps(record)), start(4))
    assert found["rms"] == pytest.approx([math.sqrt(np.trace(g) / 4) for g in grams], rel=1e-7)
    assert found["mean_abs_cosine"] == pytest.approx([cosines(g) for g in grams], abs=1e-7)


def test_gradients_of_tanh_at_infinite_width() -> None:
    """g² E φ′² per layer, E φ′² by Gauss–Hermite quadrature at the variances that the length map gives."""
    x, w = np.polynomial.hermite_e.hermegauss(80)
    w = w / w.sum()
    q, logs = 0.7, [0.0]
    for _ in range(4):
        entering = 1.2**2 * q + 0.1
        logs.append(math.log(1.2**2 * float((1 - np.tanh(math.sqrt(entering) * x) ** 2) ** 2 @ w)))
        q = float(np.tanh(math.sqrt(entering) * x) ** 2 @ w)
    spec = Spec(width=8, depth=4, activation="tanh", gain=1.2, bias_variance=0.1)
    found = infinite_width(spec, np.array([[0.7, 0.1], [0.1, 0.7]]))["output_gradient_log_norm"]
    assert found == pytest.approx([sum(logs[k + 1 :]) / 2 for k in range(5)], abs=1e-7)


def test_what_no_theory_covers_has_no_trajectory() -> None:
    assert infinite_width(Spec(width=8, depth=2, norm="whiten"), start()) == {}


# --- edges ------------------------------------------------------------------------------------------------------------


@pytest.mark.slow
def test_batch_norm_has_a_trajectory_at_infinite_width() -> None:
    """Ten layers lead a Gaussian batch to the fixed point, which another integral gives; deep chains end in nan."""
    rng = np.random.default_rng(0)
    batch = rng.normal(size=(10, 400))
    gram = batch @ batch.T / 400
    spec = Spec(width=400, depth=12, activation="tanh", norm="batch")
    found = infinite_width(spec, gram)
    fixed = batch_norm_fixed_point("tanh", 10)
    assert found["mean_abs_cosine"][-1] == pytest.approx(abs(fixed.off_diagonal) / fixed.diagonal, abs=2e-3)
    assert found["rms"][-1] == pytest.approx(math.sqrt(fixed.diagonal), abs=2e-3)
    few = 400 - np.arange(0, 401, 40)[::-1]
    deep = infinite_width(Spec(width=64, depth=400, activation="tanh", norm="batch"), gram, few.tolist())
    assert np.isfinite(deep["mean_abs_cosine"][few <= 360]).all()
    assert np.isnan(deep["mean_abs_cosine"][few > 360]).all()
