"""Batch norm over samples and space at infinite width: the integral, the interpreter and wide networks."""

from __future__ import annotations

import numpy as np
import torch

from isometer import Spec
from isometer.theory.prediction import predict
from isometer_papers.studies.cells.spatial_norm import _simulated, gap_parts_cell
from isometer_papers.theory.spatial_batch_norm import (
    gap_parts,
    input_covariance,
    normalised_layer,
    patches_mean,
    same_position_gram,
)

IMAGES = np.maximum(np.random.default_rng(0).standard_normal((5, 3, 4, 4)) + 0.5, 0.0)


def theory(depth: int) -> list[tuple[float, float, float]]:
    covariance, out = input_covariance(IMAGES), []
    for _ in range(depth):
        layer = normalised_layer(patches_mean(covariance, 5, 4))
        assert layer.error < 1e-4
        covariance = layer.rectified
        out.append(gap_parts(same_position_gram(layer.covariance, 5)))
    return out


def test_the_integral_equals_what_the_interpreter_finds() -> None:
    block = "conv(3, 100, padding='zeros') > norm('batch')"
    spec = Spec(f"input(3, [4, 4]) > {block} > repeat(act('relu') > {block}, 2)")
    found = predict(spec, IMAGES, metrics=["orthogonality_gap"])["orthogonality_gap"].values[0]
    assert len(found) == 4
    assert np.abs(found[1:] / [gap for gap, _, _ in theory(3)] - 1).max() < 1e-3


def test_the_integral_describes_wide_networks() -> None:
    """Six networks of 500 channels: five standard errors and a bias of a few layers over the width.

    A norm that is taken for a constant of the batch (as with very many points) is 0.05 off.
    """
    torch.set_num_threads(1)
    drawn = np.array([list(_simulated(IMAGES, 5, 500, False, seed)) for seed in range(6)])
    error = drawn.std(axis=0, ddof=1) / np.sqrt(len(drawn))
    assert (np.abs(drawn.mean(axis=0) - theory(5)) < 5 * error + 2 * 5 / 500).all()


def test_independent_points_have_a_closed_form() -> None:
    """Centred standard numbers over their size: −1/(N − 1) off the diagonal, by symmetry."""
    layer = normalised_layer(np.eye(9))
    assert np.allclose(np.diag(layer.covariance), 1.0, atol=1e-6)
    assert np.allclose(layer.covariance[~np.eye(9, dtype=bool)], -1 / 8, atol=1e-6)
    assert np.allclose(np.diag(layer.rectified), 0.5, atol=1e-6)


def test_cells_run_and_agree_on_their_images() -> None:
    shared = {"data": "digits", "side": 4, "samples": 4, "batches": 2, "depth": 2, "width": 600, "draw": 0}
    one, other = (gap_parts_cell({**shared, "network": name}, 1)["parts"] for name in ("mean field", "small images"))
    assert one.shape == (2, 2, 3)
    assert float(np.abs(one - other).max()) < 0.05
