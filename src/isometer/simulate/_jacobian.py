"""Singular values of the input–output Jacobian of random networks."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any, Literal

import numpy as np
import torch
import xarray

from isometer.checks import seed_number
from isometer.errors import IsometerError
from isometer.simulate._chain import LayerChain
from isometer.simulate._engine import checked_batch, checked_engine, one_thread, sizes_of
from isometer.simulate._work import check_simulation_work
from isometer.spec import Chain
from isometer.spec._chain import chain_only
from isometer.trajectory import versions

_LARGEST = 1 << 26  # entries of a Jacobian


def jacobian_spectrum(
    spec: Chain,
    batch: Any,
    *,
    runs: int = 16,
    seed: int = 0,
    engine: Literal["auto", "gram", "dense"] = "auto",
    device: str | torch.device = "cpu",
    dtype: str | torch.dtype = "float64",
) -> xarray.Dataset:
    """Singular values of `∂(output of the last layer)/∂(input)` for the whole batch, as logarithms.

    The Jacobian has n·d_out rows and n·d_in columns; batch norm couples the samples. All rows go back through one draw
    of the network together, so this is for small networks. Dynamical isometry is all logarithms being equal.

    Args:
        spec: the network.
        batch: the input, `(n, d)` or `(runs, n, d)`.
        runs: number of independent networks.
        seed: seed of the weights; the forward pass is that of `simulate` in law.
        engine: `"gram"`, `"dense"` or `"auto"`.
        device: torch device.
        dtype: `"float32"` or `"float64"`.

    Returns:
        `log_singular_value (run, index)`, largest first, −inf for zeros; `log_mean_square (run)`, the logarithm of
        `‖J‖_F² / min(rows, columns)`.

    Example:
        >>> from isometer.spec import Spec
        >>> spec = Spec(width=6, depth=20, activation="identity", weights="orthogonal")
        >>> found = jacobian_spectrum(spec, np.ones((2, 6)), runs=2)
        >>> bool(abs(found["log_singular_value"]).max() < 1e-12)  # orthogonal linear networks are isometries
        True

    Implements: 001/eq-C.78-80.
    """
    spec = chain_only(spec, "jacobian_spectrum")
    inputs = checked_batch(spec, batch, runs, device, dtype)
    chosen, seed = checked_engine(spec, engine), seed_number(seed)
    samples, fan_in, fan_out = inputs.shape[-2], spec.fan_in[0], spec.widths[-1]
    rows = samples * fan_out
    if rows * samples * max(*spec.fan_in, *spec.widths) > _LARGEST:
        raise IsometerError(
            f"the Jacobian of {samples} samples has {rows} × {samples * fan_in} entries; expected at most {_LARGEST} "
            "with the widest layer — pass a smaller batch or width"
        )
    # every row of the Jacobian is a cotangent of all samples
    sizes = replace(sizes_of(spec, chosen, inputs, True), samples=rows * samples)
    check_simulation_work("the Jacobian", replace(sizes, runs=runs), ("layers", "runs"))
    logarithms = np.full((runs, min(rows, samples * fan_in)), -math.inf)
    with one_thread(), torch.no_grad():
        for run in range(runs):
            own = inputs if inputs.dim() == 2 else inputs[run]
            # each row of the Jacobian is a cotangent of the whole batch: `samples` rows of δZ
            chain = LayerChain(spec, chosen, own[None].contiguous(), seed=seed, runs=[run], rows=rows * samples)
            for layer in range(1, spec.layers + 1):
                chain.step(layer)
            unit = torch.eye(rows, dtype=own.dtype, device=own.device).reshape(1, rows, samples, fan_out)
            scale: dict[str, float] = {}

            # the default argument binds the dictionary of this run
            def visit(layer: int, _: Any, __: Any, log_scale: torch.Tensor, scale: Any = scale) -> None:
                scale["input"] = float(log_scale[0])  # the last visit is that of the input

            back = chain.backward(unit, torch.zeros(1, dtype=torch.float64, device=own.device), visit)
            values = torch.linalg.svdvals(back.reshape(rows, samples * fan_in)).to(torch.float64).cpu().numpy()
            if int(chain.nonfinite_layer[0]) >= 0:
                logarithms[run] = math.nan
                continue
            positive = values > 0
            logarithms[run, positive] = np.log(values[positive]) + scale["input"]
    # log-mean-exp around the largest: the values themselves may exceed any float; 0 in place of an infinite
    # largest keeps −inf − (−inf) out
    largest = logarithms.max(1, keepdims=True)
    safe = np.where(np.isfinite(largest), largest, 0.0)
    with np.errstate(divide="ignore"):
        mean = np.log(np.exp(2 * (logarithms - safe)).mean(1)) + 2 * safe[:, 0]
    return xarray.Dataset(
        {"log_singular_value": (("run", "index"), logarithms), "log_mean_square": ("run", mean)},
        coords={"run": np.arange(runs), "index": np.arange(logarithms.shape[1])},
        attrs={"spec": spec.to_json(), "engine": chosen, "seed": seed, "versions": versions()},
    )
