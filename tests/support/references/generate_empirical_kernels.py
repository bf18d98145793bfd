"""Tangent and conjugate kernels of finite networks by neural-tangents 0.6.5, an independent library.

Three architectures with given weights: a multilayer perceptron, a residual convolutional network with layer norm and
pooling, and a transformer block with softmax attention. It needs the environment that `generate_networks.py`
describes, and runs there as `python tests/support/references/generate_empirical_kernels.py`. The file keeps weights and
inputs beside the kernels, so that nobody needs the random numbers of JAX to use it.

neural-tangents calculates every tangent kernel by contraction and by vector products; the file has the first, and their
largest relative difference. Its structured derivatives do not run with this version of JAX.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import jax

jax.config.update("jax_enable_x64", True)

import neural_tangents as nt  # noqa: E402
import numpy as np  # noqa: E402
from neural_tangents import NtkImplementation, stax  # noqa: E402

OUTPUTS = 2
STANDARD = {"parameterization": "standard", "b_std": 0.3}
WAYS = (NtkImplementation.JACOBIAN_CONTRACTION, NtkImplementation.NTK_VECTOR_PRODUCTS)


def conv() -> Any:
    return stax.Conv(3, (3, 3), padding="SAME", W_std=1.4, **STANDARD)


def attention() -> Any:
    return stax.GlobalSelfAttention(6, 3, 3, 2, linear_scaling=False, W_key_std=2.0, W_value_std=1.2, b_std=0.3)


def skip(*layers: Any) -> Any:
    return stax.serial(stax.FanOut(2), stax.parallel(stax.serial(*layers), stax.Identity()), stax.FanInSum())


# name: (features, shape of a sample)
NETWORKS: dict[str, tuple[list[Any], tuple[int, ...]]] = {
    "perceptron": (
        [
            stax.Dense(7, W_std=1.4, **STANDARD), stax.Erf(), stax.Dense(6, W_std=1.4, **STANDARD), stax.Relu(),
            stax.Dense(5, W_std=1.4, **STANDARD), stax.Relu(),
        ],
        (4,),
    ),
    "residual convolutions": (
        [
            conv(), stax.Relu(), skip(conv(), stax.LayerNorm(axis=-1), stax.Relu(), conv()), stax.Relu(),
            stax.AvgPool((2, 2), strides=(2, 2)), conv(), stax.Relu(), stax.GlobalAvgPool(),
        ],
        (6, 6, 2),
    ),
    "transformer block": (
        [
            skip(stax.LayerNorm(axis=-1), attention()),
            skip(stax.LayerNorm(axis=-1), stax.Dense(9, W_std=1.4, **STANDARD), stax.Erf(),
                 stax.Dense(6, W_std=1.0, **STANDARD)),
            stax.GlobalAvgPool(),
        ],
        (5, 6),
    ),
}  # fmt: skip


def made(name: str) -> dict[str, Any]:
    layers, shape = NETWORKS[name]
    body = stax.serial(*layers)
    whole = stax.serial(*layers, stax.Dense(OUTPUTS, W_std=1.0, **STANDARD))
    first, second = (jax.random.normal(jax.random.PRNGKey(key), (n, *shape)) for key, n in ((1, 4), (2, 3)))
    _, parameters = whole[0](jax.random.PRNGKey(len(name)), (-1, *shape))
    full = [nt.empirical_ntk_fn(whole[1], trace_axes=(), implementation=way)(first, None, parameters) for way in WAYS]
    mixed = nt.empirical_ntk_fn(whole[1], trace_axes=(-1,), implementation=WAYS[0])(first, second, parameters)
    features = nt.empirical_nngp_fn(body[1], trace_axes=(-1,))(first, None, parameters[:-1])
    return {
        "weights": [np.asarray(one).tolist() for one in jax.tree_util.tree_leaves(parameters)],
        "batch": np.asarray(first).tolist(),
        "other": np.asarray(second).tolist(),
        "full": np.asarray(full[0]).transpose(0, 2, 1, 3).tolist(),  # (n, C, n, C)
        "trace_between": (OUTPUTS * np.asarray(mixed)).tolist(),  # theirs is the mean over outputs
        "nngp": np.asarray(features).tolist(),
        "spread": max(float(np.abs(one - full[0]).max() / np.abs(full[0]).max()) for one in full[1:]),
    }


if __name__ == "__main__":
    found = {name: made(name) for name in NETWORKS}
    lines = ",\n".join(f" {json.dumps(name)}: {json.dumps(one)}" for name, one in found.items())
    Path(__file__).with_name("empirical_kernels.json").write_text(f"{{\n{lines}\n}}\n")
