"""Empirical tangent kernels against Jacobians that plain backward passes give row by row."""

from __future__ import annotations

import copy
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

from isometer import empirical_kernel
from support.small_models import MODELS, made


def jacobian(model: nn.Module, batch: Any, mode: str) -> np.ndarray[Any, Any]:
    """(samples, outputs, parameters), one backward pass a row, on a copy."""
    own = copy.deepcopy(model).train(mode == "train")
    trained = [p for p in own.parameters() if p.requires_grad]
    output = own(batch)
    rows = []
    for one in output.flatten():
        found = torch.autograd.grad(one, trained, retain_graph=True, allow_unused=True)
        filled = [torch.zeros_like(p) if g is None else g for p, g in zip(trained, found, strict=True)]
        rows.append(torch.cat([one.flatten() for one in filled]))
    return torch.stack(rows).reshape(len(output), -1, len(rows[0])).numpy()


def close(found: Any, expected: Any) -> None:
    np.testing.assert_allclose(found, expected, rtol=0, atol=1e-10 * np.abs(expected).max())


FAST = ("batch_norm_mlp", "convolution_batch_norm", "shared_and_transposed", "attention", "lstm", "language_model")
NAMES = [pytest.param(name, marks=() if name in FAST else pytest.mark.slow) for name in MODELS]


@pytest.mark.parametrize("name", NAMES)
def test_kernels_are_those_of_the_whole_jacobian(name: str) -> None:
    model, batch = made(name)
    for mode in ("train", "eval"):
        rows = jacobian(model, batch, mode)
        full = np.einsum("icp,jdp->icjd", rows, rows)
        for method in ("structured", "contraction"):
            found = empirical_kernel(model, batch, mode=mode, outputs="full", method=method)
            close(found.matrix, full)
            assert found.error_estimate < 1e-12
        close(empirical_kernel(model, batch, mode=mode).matrix, np.einsum("icjc->ij", full))
