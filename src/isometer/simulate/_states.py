"""The representations themselves, at chosen layers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
import xarray

from isometer.checks import seed_number
from isometer.errors import IsometerError
from isometer.simulate._chain import LayerChain
from isometer.simulate._engine import checked_batch, checked_engine, chunk_size, one_thread, sizes_of
from isometer.simulate._work import check_simulation_work
from isometer.spec import Chain
from isometer.spec._chain import chain_only

_LARGEST = 1 << 27  # numbers that are returned at most, 1 GiB


def representations(
    spec: Chain,
    batch: Any,
    *,
    layers: Sequence[int],
    runs: int = 1,
    seed: int = 0,
    engine: str = "auto",
    at: str = "post",
) -> xarray.Dataset:
    """What a batch has become at some layers, in independent draws of a random network.

    The runs are those of `simulate` with the same arguments.

    Args:
        spec: the network, of one width.
        batch: the input, `(n, d)` or `(runs, n, d)`.
        layers: which, from 0 (the input) to the depth.
        runs: number of independent networks.
        seed: seed of the weights.
        engine: `"gram"`, `"dense"` or `"auto"`.
        at: what a layer returns (`"post"`) or what enters its activation (`"pre"`).

    Returns:
        `state` over `run`, `layer`, `sample`, `feature`, and `log_scale` over `run`, `layer`: the representation is
        `state · exp(log_scale)`, where the scale is 1 unless the network is homogeneous.

    Raises:
        IsometerError: a layer is outside the network, widths differ, or the result would not fit into memory.

    Example:
        >>> from isometer.data import make_batch
        >>> from isometer.spec import Spec
        >>> spec = Spec(width=8, depth=5, norm="batch")
        >>> representations(spec, make_batch("gaussian", 4, 8), layers=[0, 5])["state"].shape
        (1, 2, 4, 8)
    """
    spec = chain_only(spec, "representations")
    if any(isinstance(one, bool) or not isinstance(one, int | np.integer) for one in layers):
        raise IsometerError(f"layers are {str(list(layers))[:60]}; expected whole numbers from 0 to {spec.layers}")
    wanted = sorted({int(one) for one in layers})
    if not wanted or wanted[0] < 0 or wanted[-1] > spec.layers:
        raise IsometerError(f"layers are {list(layers)}; expected numbers from 0 to {spec.layers}, the depth")
    seed = seed_number(seed)
    if set(spec.width if isinstance(spec.width, tuple) else (spec.width,)) != {spec.input_width}:
        raise IsometerError(
            "the widths differ; representations of one width can be returned — pass width=…, one number"
        )
    if at not in ("post", "pre"):
        raise IsometerError(f"at is {at!r}; expected 'post' or 'pre' — pass one of them")
    inputs = checked_batch(spec, batch, runs, "cpu", "float64")
    chosen = checked_engine(spec, engine)
    check_simulation_work("the simulation", sizes_of(spec, chosen, inputs, False, runs=runs))
    count = runs * len(wanted) * inputs.shape[-2] * spec.widths[0]
    if count > _LARGEST:
        raise IsometerError(f"{count} numbers would be returned; expected at most {_LARGEST} — ask for fewer layers")
    slots = chunk_size(spec, chosen, inputs, backward=False)
    states = np.empty((runs, len(wanted), inputs.shape[-2], spec.widths[0]))
    scales = np.zeros((runs, len(wanted)))
    with one_thread(), torch.no_grad():
        for start in range(0, runs, slots):
            indices = range(start, min(start + slots, runs))
            own = inputs[indices.start : indices.stop] if inputs.dim() == 3 else inputs.expand(len(indices), -1, -1)
            # all chunks have one shape, so that the bits of a run do not depend on how many runs there are
            padding = own[:1].expand(slots - len(indices), *own.shape[1:])
            chain = LayerChain(spec, chosen, torch.cat([own, padding]).contiguous(), seed=seed, runs=indices)
            for layer in range(wanted[-1] + 1):
                if layer:
                    chain.step(layer)
                if layer in wanted:
                    place = (slice(indices.start, indices.stop), wanted.index(layer))
                    value = chain.value if at == "post" or layer == 0 else chain.pre
                    scale = chain.log_scale if at == "post" or layer == 0 else chain.pre_log_scale
                    states[place] = value[: len(indices)].numpy()
                    scales[place] = scale[: len(indices)].numpy()
    return xarray.Dataset(
        {"state": (("run", "layer", "sample", "feature"), states), "log_scale": (("run", "layer"), scales)},
        coords={"layer": wanted},
        attrs={"spec": spec.to_json(), "seed": seed, "engine": chosen},
    )
