"""Representations at chosen layers are those that `simulate` measures."""

from __future__ import annotations

import numpy as np
import pytest

from isometer.data import make_batch
from isometer.errors import IsometerError
from isometer.metrics import orthogonality_gap
from isometer.simulate import representations, simulate
from isometer.spec import Norm, Spec

SPECS = [
    Spec(width=12, depth=6, norm=Norm.named("batch")),
    Spec(width=12, depth=6, activation="relu"),
    Spec(width=12, depth=6, activation="identity", weights="orthogonal", norm=Norm.named("batch-rescale")),
    Spec("input(12) > repeat(residual(norm('layer') > dense(9) > act('gelu') > dense(12), scale=0.5), 6)"),
]


@pytest.mark.parametrize("spec", SPECS, ids=["batch", "homogeneous", "haar", "skips"])
@pytest.mark.parametrize("at", ["post", "pre"])
def test_same_runs_as_simulate(spec: Spec, at: str) -> None:
    batch = make_batch("gaussian", 5, 12, seed=3)
    told = simulate(spec, batch, runs=3, seed=7, metrics=["orthogonality_gap", "log_norm"], at=at)  # type: ignore[arg-type]
    layers = [1, 2, 6] if at == "pre" else [0, 2, 6]  # skips: activations see fewer features than the input has
    data = representations(spec, batch, layers=layers[::-1], runs=3, seed=7, at=at)
    assert data["layer"].values.tolist() == layers
    gap = orthogonality_gap(data["state"].values)
    assert np.allclose(gap, told["orthogonality_gap"].sel(layer=layers), atol=1e-12)
    logs = np.log(np.linalg.norm(data["state"].values, axis=(2, 3))) + data["log_scale"].values
    assert np.allclose(logs, told["log_norm"].sel(layer=layers), atol=1e-10)


def test_more_runs_leave_the_first_as_they_are() -> None:
    batch = make_batch("gaussian", 5, 12)
    few, many = (representations(SPECS[0], batch, layers=[6], runs=r)["state"].values for r in (2, 40))
    assert np.array_equal(few, many[:2])


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"layers": [7]}, "from 0 to 6"),
        ({"layers": []}, "from 0 to 6"),
        ({"layers": [1], "at": "middle"}, "expected 'post' or 'pre'"),
        ({"layers": [1], "runs": 10**7}, "request fewer"),
    ],
)
def test_bad_requests(options: dict[str, object], message: str) -> None:
    with pytest.raises(IsometerError, match=message):
        representations(SPECS[0], make_batch("gaussian", 5, 12), **options)  # type: ignore[arg-type]
    mixed = Spec(width=(12, 8), depth=2)
    with pytest.raises(IsometerError, match="widths differ"):
        representations(mixed, make_batch("gaussian", 5, 12), layers=[1, 2])
    assert representations(mixed, make_batch("gaussian", 5, 12), layers=[2])["state"].shape == (1, 1, 5, 8)
