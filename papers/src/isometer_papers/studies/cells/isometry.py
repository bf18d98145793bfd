"""The isometry gap over depth, with orthogonal weights and batch norm."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
import xarray

from isometer.errors import IsometerError
from isometer_papers.studies.cells.bare import bare
from isometer_papers.studies.cells.first_gradient import network
from isometer_papers.studies.cells.images import images

if TYPE_CHECKING:
    import torch


def near_identity(width: int, mixing: float, runs: int, seed: int) -> np.ndarray[Any, Any]:
    """`(1 − f) I + f u vᵀ` with u, v uniform in [0, 1], `(runs, width, width)`: f is the mixing.

    Example:
        >>> bool((near_identity(3, 0.0, 1, 0)[0] == np.eye(3)).all())
        True
    """
    u, v = np.random.default_rng(seed).random((2, runs, width))
    return np.asarray((1 - mixing) * np.eye(width) + mixing * u[:, :, None] * v[:, None, :])


def isometry_gap_cell(configuration: Mapping[str, Any], seed: int) -> xarray.Dataset:
    """Isometry gap by layer, as many samples as features: `width`, `depth`, `mixing`, `weights`, `runs`.

    Example:
        >>> c = {"width": 4, "depth": 3, "mixing": 0.1, "weights": "orthogonal", "runs": 2}
        >>> isometry_gap_cell(c, 0)["isometry_gap"].shape
        (2, 4)
    """
    from isometer.simulate import simulate
    from isometer.spec import Norm, Spec

    c = configuration
    spec = Spec(
        width=c["width"],
        depth=c["depth"],
        activation="identity",
        norm=Norm.named("batch-unit"),
        weights=c["weights"],
    )
    batch = near_identity(c["width"], c["mixing"], c["runs"], seed)
    return bare(simulate(spec, batch, runs=c["runs"], metrics=["isometry_gap"], seed=seed))


def image_gap_cell(configuration: Mapping[str, Any], seed: int) -> xarray.Dataset:
    """Isometry gap at the layers `at` of a network on images, by run.

    Centring leaves n − 1 directions of n, and the gap of the whole batch is infinite without an activation. `gap` says
    what is measured instead: `centred`, the gap in these directions; `biased`, the gap after the next linear layer with
    the biases of PyTorch. Other keys as `first_gradient_cell`, without `loss`.

    Example:
        >>> c = {"data": "gaussian:6", "samples": 4, "distinct": 4, "width": 4, "depth": 3, "weights": "orthogonal"}
        >>> c |= {"norm": "batch", "activation": "identity", "gain": 1.0, "exponent": 0.0, "gap": "centred"}
        >>> image_gap_cell({**c, "at": [1, 3], "runs": 2}, 0)["isometry_gap"].shape
        (2, 2)
    """
    from isometer.simulate import simulate

    c = configuration
    batch = images(c["data"], c["samples"], c["distinct"], c["runs"], seed)
    spec = network(c, batch.shape[-1])
    found = simulate(spec, batch, runs=c["runs"], metrics=[gap_metric(c["gap"], c["samples"], seed)], seed=seed)
    return bare(found).rename(chosen_gap="isometry_gap").sel(layer=c["at"])


def gap_metric(kind: str, samples: int, seed: int) -> Callable[[torch.Tensor], torch.Tensor]:
    """The gap of `image_gap_cell` as a function of a representation `(runs, n, d)`.

    Biases of a layer after rotation W are `W (h + Wᵀb)`, and Wᵀb has the law of a random direction of b's length.

    Args:
        kind: `centred` or `biased`.
        samples: n.
        seed: of the biases.

    Example:
        >>> import torch
        >>> rows = torch.tensor([[[1.0, 0.0], [-1.0, 0.0], [0.0, 0.0]]], dtype=torch.float64)
        >>> float(gap_metric("centred", 3, 0)(rows))
        inf
    """
    import torch
    from scipy.linalg import helmert

    from isometer.metrics import isometry_gap

    if kind not in ("centred", "biased"):
        raise IsometerError(f"gap is {kind!r}; expected 'centred' or 'biased'")
    basis = torch.as_tensor(helmert(samples))  # orthonormal, orthogonal to (1, …, 1)
    generator = torch.Generator().manual_seed(seed % 2**63)

    def chosen_gap(h: torch.Tensor) -> torch.Tensor:
        if kind == "centred":
            inner: torch.Tensor = isometry_gap(basis.to(h) @ h)
            return inner
        width = h.shape[-1]
        shape = (h.shape[0], 1, width)
        # hWᵀ + b has the gap of h + bW, and bW is uniform of length ‖b‖ for Haar W: no weights are drawn
        bias = (2 * torch.rand(shape, generator=generator, dtype=h.dtype) - 1) / width**0.5
        direction = torch.randn(shape, generator=generator, dtype=h.dtype)
        rotated = direction * (bias.norm(dim=-1, keepdim=True) / direction.norm(dim=-1, keepdim=True))
        outer: torch.Tensor = isometry_gap(h + rotated)
        return outer

    return chosen_gap
