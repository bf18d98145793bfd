"""Hermite polynomials, properties of activations and iterated kernel maps (chapter 5 of the thesis); no torch."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import numpy as np
import xarray


def hermite_cell(configuration: Mapping[str, Any], seed: int) -> xarray.Dataset:
    """A printed polynomial in the basis of normalised Hermite polynomials: `order`, `plain`, `normalized`, `highest`.

    `plain` and `normalized` are the printed He_k and he_k by order. Coefficients should be √k! and 1 at k, else 0.

    Example:
        >>> normalized = ["1", "x", "(x**2-1)/sqrt(2)"]
        >>> cell = {"order": 2, "plain": ["1", "x", "x**2-1"], "normalized": normalized, "highest": 3}
        >>> abs(hermite_cell(cell, 0)["normalized"].values).round(12).tolist()
        [0.0, 0.0, 1.0, 0.0]
    """
    from isometer.activations import activation

    c = configuration
    texts = {name: c[name][c["order"]] for name in ("plain", "normalized")}
    # an activation depends on x, which the polynomial of order 0 does not
    phis = {name: activation(text if "x" in text else f"{text} + x - x") for name, text in texts.items()}
    found = {name: ("k", phi.hermite(c["highest"]) + 0.0) for name, phi in phis.items()}
    expected = np.zeros(c["highest"] + 1)
    expected[c["order"]] = 1.0
    size = math.sqrt(math.factorial(c["order"]))
    return xarray.Dataset(
        {
            **found,
            "plain_error": np.abs(found["plain"][1] - size * expected).max(),
            "normalized_error": np.abs(found["normalized"][1] - expected).max(),
        },
        {"k": np.arange(c["highest"] + 1)},
    )


def property_cell(configuration: Mapping[str, Any], seed: int) -> xarray.Dataset:
    """An activation by its moments, its Hermite coefficients and its kernel map: `activation`, `highest`, `points`.

    `of` is how: the activation itself, its coefficients, its kernel map. `centred` holds |E φ|, |c_0| and √κ(0);
    `stable` E φ², Σ c_k² and κ(1); `bend` the distance of φ from an affine function in mean square, Σ_{k≥2} c_k²
    and the largest |κ(ρ) − κ(0) − κ′(0) ρ|. Σ c_k² stops at k = `highest`; `rest` is what Parseval says is left out.

    Example:
        >>> property_cell({"activation": "x**2-1", "highest": 8, "points": 5}, 0)["bend"].values.round(9).tolist()
        [2.0, 2.0, 2.0]
    """
    from isometer.activations import activation

    c = configuration
    phi = activation(c["activation"])
    coefficients = phi.hermite(c["highest"])
    squares = coefficients**2
    rho = np.linspace(-1, 1, c["points"])
    kappa = np.asarray(phi.kernel(rho))
    at_zero, slope = float(phi.kernel(0.0)), float(phi.kernel_slope(0.0))
    line = phi.expectation(lambda x, y: x * y).value
    bend = phi.expectation(lambda x, y: (y - phi.mean - line * x) ** 2).value
    return xarray.Dataset(
        {
            "centred": ("of", [abs(phi.mean), abs(coefficients[0]), math.sqrt(max(at_zero, 0.0))]),
            "stable": ("of", [phi.second_moment, squares.sum(), float(phi.kernel(1.0))]),
            "bend": ("of", [bend, squares[2:].sum(), np.abs(kappa - at_zero - slope * rho).max()]),
            "rest": abs(phi.second_moment - squares.sum()),
        },
        {"of": ["activation", "coefficients", "kernel map"]},
    )


def convergence_cell(configuration: Mapping[str, Any], seed: int) -> xarray.Dataset:
    """A kernel map iterated from several cosines: `activation`, `starts`, `depth`, `points`.

    φ is scaled to E φ² = 1. `bounded` is what the bound of 001/thm-5.11 bounds (Ψ(ρ) in case 1, else the distance to
    ρ*), `bound` the bound as printed for the case that applies, `centred` that of 001/thm-5.8 (case 1 only, else inf).

    Example:
        >>> cell = convergence_cell({"activation": "relu", "starts": [0.0], "depth": 5, "points": 3}, 0)
        >>> int(cell["case"]), float(cell["fixed_point"])
        (3, 1.0)
    """
    from isometer.theory import kernel_map
    from isometer.theory.kernels import centred_potential_bound, centred_rate, global_convergence_bound, potential

    c = configuration
    kernel = kernel_map(c["activation"])
    paths = [kernel.iterate(start, c["depth"]) for start in c["starts"]]
    layers = np.arange(c["depth"] + 1)
    bounds = [global_convergence_bound(kernel, start, layers) for start in c["starts"]]
    bounded = [potential(path.cosine) if kernel.case == 1 else path.distance for path in paths]
    rate = centred_rate(kernel.slope_at_zero)
    centred = [
        centred_potential_bound(start, layers, rate) if kernel.case == 1 else np.full(len(layers), np.inf)
        for start in c["starts"]
    ]
    x, rho = np.linspace(-3, 3, c["points"]), np.linspace(-1, 1, c["points"])
    return xarray.Dataset(
        {
            "phi": ("x", np.asarray(kernel.effective(x))),
            "kappa": ("rho", np.asarray(kernel(rho))),
            "cosine": (("start", "layer"), np.array([path.cosine for path in paths])),
            "distance": (("start", "layer"), np.array([path.distance for path in paths])),
            "bounded": (("start", "layer"), np.array(bounded)),
            "bound": (("start", "layer"), np.array([bound.values for bound in bounds])),
            "centred": (("start", "layer"), np.array(centred)),
            "case": kernel.case,
            "fixed_point": kernel.fixed_point,
            "at_zero": kernel.at_zero,
            "slope_at_one": kernel.slope_at_one,
            "slope_at_zero": kernel.slope_at_zero,
        },
        {"x": x, "rho": rho, "start": c["starts"], "layer": layers},
    )


def parallelepiped_cell(configuration: Mapping[str, Any], seed: int) -> xarray.Dataset:
    """Isometry and volume of random vectors, and of the chosen ones of 001/fig-4.1: `vectors`, `draws`, `points`.

    `volume` is that of the parallelepiped over scaleⁿ, scale² the mean squared length. For two vectors also the
    isometry by angle and ratio of lengths beside the printed 2 ab sin θ/(a² + b²).

    Example:
        >>> cell = parallelepiped_cell({"vectors": 2, "draws": 4, "points": 5}, 0)
        >>> bool(abs(cell["surface"] - cell["printed"]).max() < 1e-12)
        True
    """
    from isometer.metrics import isometry

    c = configuration
    n = c["vectors"]
    drawn = np.random.default_rng(seed).normal(size=(c["draws"], n, n)) * np.exp(
        np.random.default_rng(seed + 1).normal(size=(c["draws"], n, 1)) / 2
    )
    scale = np.sqrt((drawn**2).sum((1, 2)) / n)
    volume = np.abs(np.linalg.det(drawn / scale[:, None, None]))
    angle, ratio = np.linspace(0.02, np.pi - 0.02, c["points"]), np.exp(np.linspace(-1.5, 1.5, c["points"]))
    t, r = np.meshgrid(angle, ratio, indexing="ij")
    pairs = np.stack([np.stack([np.ones_like(t), 0 * t], -1), np.stack([r * np.cos(t), r * np.sin(t)], -1)], -2)
    return xarray.Dataset(
        {
            "isometry": ("draw", np.asarray(isometry(drawn))),
            "volume": ("draw", volume),
            "surface": (("angle", "ratio"), np.asarray(isometry(pairs))),
            "printed": (("angle", "ratio"), 2 * r * np.sin(t) / (1 + r * r)),
        },
        {"draw": np.arange(c["draws"]), "angle": angle, "ratio": ratio},
    )
