"""NTKs of finite networks by autograd, averaged and extrapolated to infinite width, against the limit.

The mean NTK of width m differs from the limit by c/m + O(1/m²). A network of width m holds two independent ones of
width m/2, its halves; twice its NTK minus the mean of theirs has expectation limit + O(1/m²), and their common weights
cancel part of the noise.
"""

from __future__ import annotations

import math
from itertools import pairwise
from typing import Any

import numpy as np
import pytest
import torch

from isometer import activation
from isometer.theory.kernels import kernel_matrix

DEPTH = 2
SECOND_ORDER = 0.004  # of the diagonal: what O(1/m²) may leave


def tangent(phi: Any, data: torch.Tensor, weights: Any, biases: Any, layout: dict[str, Any]) -> np.ndarray:
    """Autograd NTKs (network, n, n) of independent networks, whose gradients are those of the sum of their outputs."""
    weights = [w.contiguous().requires_grad_() for w in weights]
    biases = [b.contiguous().requires_grad_() for b in biases]
    width, shift = weights[-1].shape[1], math.sqrt(layout.get("bias", 0.0))
    norm, position, gamma = layout.get("norm", "none"), layout.get("norm_position", "pre"), layout.get("residual")

    def normalised(h: torch.Tensor) -> torch.Tensor:
        if norm == "layer":
            h = h - h.mean(dim=-1, keepdim=True)
        return h / h.square().mean(dim=-1, keepdim=True).sqrt()

    def branch(h: torch.Tensor) -> torch.Tensor:
        h = phi(normalised(h) if norm != "none" and position == "pre" else h)
        return normalised(h) if norm != "none" and position == "post" else h

    h = data.expand(len(weights[0]), *data.shape) @ weights[0] + shift * biases[0]
    for layer in range(1, len(weights)):
        if gamma is None:
            h = branch(h) @ weights[layer] / math.sqrt(width) + shift * biases[layer]
        elif layer < len(weights) - 1:
            h = h + gamma * (branch(h) @ weights[layer] / math.sqrt(width) + shift * biases[layer])
        else:
            h = h @ weights[layer] / math.sqrt(width)
    trained = weights + ((biases if gamma is None else biases[:-1]) if shift else [])
    n = len(data)
    grads = [torch.autograd.grad(h[:, i, 0].sum(), trained, retain_graph=i < n - 1) for i in range(n)]
    total: Any = 0.0
    for part in zip(*grads, strict=True):
        rows = torch.stack([g.flatten(1) for g in part], dim=1)
        total = total + rows @ rows.transpose(1, 2)
    return np.asarray(total.double().numpy())


def extrapolated(name: str, x: np.ndarray, width: int, runs: int, layout: dict[str, Any]) -> np.ndarray:
    """2·NTK of each network minus the mean of its halves', (network, n, n)."""
    phi, data = activation(name), torch.tensor(x, dtype=torch.float32)
    generator = torch.Generator().manual_seed(0)
    hidden = DEPTH if layout.get("residual") is None else DEPTH + 1
    sizes = [x.shape[1], *([width] * hidden), 1]
    count, out = max(1, (1 << 18) // width**2), []
    for _ in range(math.ceil(runs / count)):
        weights = [torch.randn(count, a, b, generator=generator) for a, b in pairwise(sizes)]
        biases = [torch.randn(count, 1, b, generator=generator) for b in sizes[1:]]
        found = 2.0 * tangent(phi, data, [w.clone() for w in weights], [b.clone() for b in biases], layout)
        for part in (slice(0, width // 2), slice(width // 2, width)):
            inner = [w[:, part, part] for w in weights[1:-1]]
            shifts = [*(b[:, :, part] for b in biases[:-1]), biases[-1].clone()]
            found -= tangent(phi, data, [weights[0][:, :, part], *inner, weights[-1][:, part]], shifts, layout) / 2
        out.append(found)
    return np.concatenate(out)


CASES = [
    ("tanh", {"bias": 0.2}, 64, 6000),
    ("tanh", {"bias": 0.2, "residual": 0.7}, 64, 6000),
]
LONG = [
    ("unit(relu)", {}, 64, 32_000),
    ("gelu", {"norm": "rms", "norm_position": "pre"}, 128, 16_000),
    ("relu", {"norm": "layer", "norm_position": "post"}, 128, 24_000),
    ("unit(relu)", {"residual": 0.7}, 64, 20_000),
    ("unit(gelu)", {"residual": 0.7, "norm": "layer", "norm_position": "pre"}, 64, 8000),
]


@pytest.mark.parametrize(
    ("name", "layout", "width", "runs"),
    [*(pytest.param(*case) for case in CASES), *(pytest.param(*case, marks=pytest.mark.slow) for case in LONG)],
)
def test_tangent_kernel_of_finite_networks(name: str, layout: dict[str, Any], width: int, runs: int) -> None:
    """Every entry lies within 4.5 standard errors plus 0.4 % of the diagonal of the limit.

    Standard errors are below 0.25 % of the diagonal (0.33 % where widths have to be larger), so a correct limit fails
    with probability below 1e-4 over all entries, and one that is wrong by 3 % of the diagonal in some entry passes with
    probability below 1e-3: 0.4 % + (4.5 + 3.1)·0.33 % = 2.9 %.
    """
    torch.set_num_threads(1)
    x = np.random.default_rng(2).standard_normal((3, 4))
    x /= np.linalg.norm(x, axis=1, keepdims=True)
    limit = kernel_matrix(name, x, DEPTH, "ntk", **layout)
    expected = limit.matrix * np.exp(limit.log_diagonal.max())
    found = extrapolated(name, x, width, runs, layout)
    mean, error = found.mean(axis=0), found.std(axis=0, ddof=1) / math.sqrt(len(found))
    top = expected.max()
    assert error.max() < 0.0033 * top
    allowed = 4.5 * error + SECOND_ORDER * top
    assert (np.abs(mean - expected) <= allowed).all()
    for factor in (0.965, 1.035):  # and the same comparison rejects a limit that is a little wrong
        assert (np.abs(mean - factor * expected) > allowed).any()
