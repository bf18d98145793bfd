"""Singular values of the input–output Jacobian of random networks."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import Any, Literal

import numpy as np
import torch
import xarray

from isometer.checks import seed_number
from isometer.errors import IsometerError
from isometer.simulate._chain import Engine, LayerChain
from isometer.simulate._engine import checked_batch, checked_engine, depth_of, one_thread, sizes_of
from isometer.simulate._network import NetworkWalk
from isometer.simulate._network_work import check_network_work
from isometer.simulate._steps import check_covered
from isometer.simulate._work import Sizes, check_simulation_work
from isometer.spec import Chain, Spec
from isometer.trajectory import versions

_LARGEST = 1 << 26  # entries of a Jacobian
_COPIES = 64  # of a network that are run together


def jacobian_spectrum(
    spec: Spec,
    batch: Any,
    *,
    runs: int = 16,
    seed: int = 0,
    engine: Literal["auto", "gram", "dense"] = "auto",
    device: str | torch.device = "cpu",
    dtype: str | torch.dtype = "float64",
) -> xarray.Dataset:
    """Singular values of `∂(output of the last layer)/∂(input)` for the whole batch, as logarithms.

    The Jacobian has n·d_out rows and n·d_in columns, positions included; batch norm couples the samples. All rows go
    back through one draw of the network together, so this is for small networks. Dynamical isometry is all logarithms
    being equal.

    Args:
        spec: the network.
        batch: the input, `(n, d)` or `(runs, n, d)`.
        runs: number of independent networks.
        seed: seed of the weights; the forward pass is that of `simulate` in law.
        engine: `"gram"`, `"dense"` or `"auto"`; networks other than one layer repeated have the dense one.
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
    check_covered(spec)
    inputs = checked_batch(spec, batch, runs, device, dtype)
    chosen, seed = checked_engine(spec, engine), seed_number(seed)
    if not isinstance(spec, Chain):
        if engine == "gram":
            raise IsometerError(
                "engine='gram' for the Jacobian of a network that is not one layer repeated; expected the dense one, "
                "which draws the weights — pass engine='dense'"
            )
        chosen = "dense"
    shapes = [spec.shape, *(shape for _, shape in spec.executed_layers())]
    sizes = [shape.width * shape.positions for shape in shapes]
    samples = inputs.shape[-2]
    rows, columns = samples * sizes[-1], samples * sizes[0]
    if rows * samples * max(sizes) > _LARGEST:
        raise IsometerError(
            f"the Jacobian of {samples} samples has {rows} × {columns} entries; expected at most {_LARGEST} "
            "with the widest layer — pass a smaller batch or width"
        )
    _check_work(spec, chosen, inputs, runs, rows)
    logarithms = np.full((runs, min(rows, columns)), -math.inf)
    with one_thread(), torch.no_grad():
        # Runs have random streams of their own; the size of a block depends on the problem only.
        block = max(1, min(256, _LARGEST // (16 * rows * samples * max(sizes)))) if isinstance(spec, Chain) else 1
        for first in range(0, runs, block):
            own = range(first, min(first + block, runs))
            given = (inputs if inputs.dim() == 3 else inputs.expand(runs, -1, -1))[own.start : own.stop].contiguous()
            found = (
                _of_chains(spec, chosen, given, seed, own, rows)
                if isinstance(spec, Chain)
                else _of_network(spec, chosen, given[0], seed, first, rows)
            )
            if found is None:
                logarithms[first] = math.nan
                continue
            jacobians, log_scales = found
            finite = torch.isfinite(log_scales)  # svd raises on what is not finite
            values = torch.linalg.svdvals(torch.where(finite[:, None, None], jacobians, 0.0)).to(torch.float64)
            logs = torch.log(values) + log_scales[:, None]
            logarithms[own.start : own.stop] = logs.cpu().numpy()
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


def _check_work(spec: Spec, engine: Engine, inputs: torch.Tensor, runs: int, rows: int) -> None:
    sizes = sizes_of(spec, engine, inputs, True)
    if isinstance(sizes, Sizes):
        # every row of the Jacobian is a cotangent of all samples
        check_simulation_work(
            "the Jacobian", replace(sizes, samples=rows * sizes.samples, runs=runs), ("layers", "runs")
        )
    else:
        check_network_work("the Jacobian", replace(sizes, runs=runs * rows))


def _of_chains(
    spec: Chain, engine: Engine, batch: torch.Tensor, seed: int, runs: Sequence[int], rows: int
) -> tuple[torch.Tensor, torch.Tensor]:
    """The Jacobian of each run up to the exponential of a number, which is nan where the run overflows."""
    samples = batch.shape[1]
    # each row of the Jacobian is a cotangent of the whole batch: `samples` rows of δZ
    chain = LayerChain(spec, engine, batch, seed=seed, runs=list(runs), rows=rows * samples)
    for layer in range(1, spec.layers + 1):
        chain.step(layer)
    unit = torch.eye(rows, dtype=batch.dtype, device=batch.device).reshape(1, rows, samples, -1)
    scales: list[torch.Tensor] = []
    zero = torch.zeros(len(runs), dtype=torch.float64, device=batch.device)
    back = chain.backward(
        unit.expand(len(runs), -1, -1, -1).contiguous(), zero, lambda layer, _, __, log_scale: scales.append(log_scale)
    )
    overflowed = torch.as_tensor(chain.nonfinite_layer, device=batch.device) >= 0
    # the last visit is that of the input
    return back.reshape(len(runs), rows, -1), torch.where(overflowed, math.nan, scales[-1])


def _of_network(
    spec: Spec, engine: Engine, batch: torch.Tensor, seed: int, run: int, rows: int
) -> tuple[torch.Tensor, torch.Tensor] | None:
    """As `_of_chains`, of one run; every row goes back through a copy of it, whose weights are drawn again alike.

    None where the run overflows.
    """
    parts: list[torch.Tensor] = []
    logs: list[torch.Tensor] = []
    for start in range(0, rows, _COPIES):
        copies = min(_COPIES, rows - start)
        walk = NetworkWalk(
            spec, engine, batch.expand(copies, *batch.shape), seed=seed, runs=[run] * copies, backward=True
        )
        for layer in range(1, depth_of(spec) + 1):
            walk.step(layer)
        if int(walk.nonfinite_layer[0]) >= 0:
            return None
        unit = torch.eye(rows, dtype=batch.dtype, device=batch.device)[start : start + copies]
        scales: list[torch.Tensor] = []
        zero = torch.zeros(copies, dtype=torch.float64, device=batch.device)
        shape = (copies, len(batch), -1)
        back = walk.backward(unit.reshape(shape), zero, lambda _, __, ___, log, own=scales: own.append(log))  # type: ignore[misc]
        parts.append(back.reshape(copies, -1))
        logs.append(scales[-1])
    log_scale = torch.cat(logs)  # of every row; the largest is left out of all
    alive = torch.isfinite(log_scale)
    top = float(log_scale[alive].max()) if bool(alive.any()) else 0.0
    sizes = torch.where(alive, torch.exp(log_scale - top), 0.0).to(batch.dtype)
    return (torch.cat(parts) * sizes[:, None])[None], torch.tensor([top], dtype=torch.float64)
