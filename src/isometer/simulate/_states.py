"""The representations themselves, at chosen layers."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import islice
from typing import Any

import numpy as np
import torch
import xarray

from isometer.checks import seed_number
from isometer.errors import IsometerError
from isometer.simulate._engine import (
    check_sizes,
    checked_batch,
    checked_engine,
    chunk_size,
    depth_of,
    one_thread,
    sizes_of,
    walk_of,
)
from isometer.simulate._steps import check_covered
from isometer.spec import Spec

_LARGEST = 1 << 27  # numbers that are returned at most, 1 GiB


def representations(
    spec: Spec,
    batch: Any,
    *,
    layers: Sequence[int],
    runs: int = 1,
    seed: int = 0,
    engine: str = "auto",
    at: str = "post",
) -> xarray.Dataset:
    """Representations of a batch at chosen layers, in independent draws of a random network.

    The runs are those of `simulate` with the same arguments.

    Args:
        spec: the network.
        batch: the input, as in `simulate`.
        layers: which, from 0 (the input) to the depth; all of one width.
        runs: number of independent networks.
        seed: seed of the weights.
        engine: `"gram"`, `"dense"` or `"auto"`.
        at: what a layer returns (`"post"`) or what enters its activation (`"pre"`).

    Returns:
        `state` over `run`, `layer`, `sample`, `feature`, and `log_scale` over `run`, `layer`: the representation is
        `state · exp(log_scale)`, where the scale is 1 unless the network is homogeneous. Positions are flattened,
        features first.

    Raises:
        IsometerError: a layer is outside the network, widths differ, or the result would not fit into memory.

    Example:
        >>> from isometer.data import make_batch
        >>> from isometer.spec import Spec
        >>> spec = Spec(width=8, depth=5, norm="batch")
        >>> representations(spec, make_batch("gaussian", 4, 8), layers=[0, 5])["state"].shape
        (1, 2, 4, 8)
    """
    check_covered(spec)
    depth = depth_of(spec)
    if any(isinstance(one, bool) or not isinstance(one, int | np.integer) for one in layers):
        raise IsometerError(f"layers are {str(list(layers))[:60]}; expected whole numbers from 0 to {depth}")
    wanted = sorted({int(one) for one in layers})
    if not wanted or wanted[0] < 0 or wanted[-1] > depth:
        raise IsometerError(f"layers are {list(layers)}; expected numbers from 0 to {depth}, the depth")
    seed = seed_number(seed)
    if at not in ("post", "pre"):
        raise IsometerError(f"at is {at!r}; expected 'post' or 'pre' — pass one of them")
    inputs = checked_batch(spec, batch, runs, "cpu", "float64")
    chosen = checked_engine(spec, engine)
    check_sizes("the simulation", sizes_of(spec, chosen, inputs, False, runs=runs))
    shapes = [spec.shape, *(shape for _, shape in islice(spec.executed_layers(), wanted[-1]))]
    count = runs * inputs.shape[-2] * sum(shapes[layer].width * shapes[layer].positions for layer in wanted)
    if count > _LARGEST:
        raise IsometerError(f"{count} numbers would be returned; expected at most {_LARGEST} — request fewer layers")
    slots = chunk_size(spec, chosen, inputs, backward=False)
    states: list[list[np.ndarray[Any, Any]]] = [[] for _ in wanted]
    scales: list[list[np.ndarray[Any, Any]]] = [[] for _ in wanted]
    with one_thread(), torch.no_grad():
        for start in range(0, runs, slots):
            indices = range(start, min(start + slots, runs))
            own = inputs[indices.start : indices.stop] if inputs.dim() == 3 else inputs.expand(len(indices), -1, -1)
            # all chunks have one shape, so that the bits of a run do not depend on how many runs there are
            padding = own[:1].expand(slots - len(indices), *own.shape[1:])
            walk = walk_of(spec, chosen, torch.cat([own, padding]).contiguous(), seed, indices, backward=False)
            for layer in range(wanted[-1] + 1):
                if layer:
                    walk.step(layer)
                if layer in wanted:
                    place = wanted.index(layer)
                    value = walk.value if at == "post" or layer == 0 else walk.pre
                    scale = walk.log_scale if at == "post" or layer == 0 else walk.pre_log_scale
                    states[place].append(value[: len(indices)].numpy().copy())
                    scales[place].append(scale[: len(indices)].numpy().copy())
            _check_widths([found[0].shape[-1] for found in states], wanted)
    state = np.stack([np.concatenate(found) for found in states], axis=1)
    scale_logs = np.stack([np.concatenate(found) for found in scales], axis=1)
    return xarray.Dataset(
        {"state": (("run", "layer", "sample", "feature"), state), "log_scale": (("run", "layer"), scale_logs)},
        coords={"layer": wanted},
        attrs={"spec": spec.to_json(), "seed": seed, "engine": chosen},
    )


def _check_widths(widths: Sequence[int], layers: Sequence[int]) -> None:
    if len(set(widths)) > 1:
        told = ", ".join(f"{width} at layer {layer}" for layer, width in zip(layers, widths, strict=True))
        raise IsometerError(f"the widths differ ({told}); expected equal ones — choose layers of one width")
