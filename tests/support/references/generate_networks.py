"""NNGP and NTK matrices of small networks by neural-tangents 0.6.5, an independent library.

It needs an environment of its own with `neural-tangents==0.6.5 jax==0.4.30 jaxlib==0.4.30`, and runs there as
`python tests/support/references/generate_networks.py`, without this library. Every network is written twice, for
neural-tangents and as text of this library's language; inputs are `(n, features, *positions)`. Its NNGP is exact to
rounding, its NTK to about 1e-6.

Two of its conventions differ from this library's. It takes the summands of a skip as independent, so that x + (x + Wx)
needs weights in front of the inner skip; and with a stride it pads circular convolutions as TensorFlow does, from the
left of a window, which is the same for an odd number of positions only.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import jax
import numpy as np

jax.config.update("jax_enable_x64", True)

from neural_tangents import stax  # noqa: E402

STD, BIAS = 1.3, 0.4  # of weights and biases


def conv(kernel: tuple[int, ...], padding: str = "CIRCULAR", strides: tuple[int, ...] | None = None) -> Any:
    dimensions = {1: ("NHC", "HIO", "NHC"), 2: ("NHWC", "HWIO", "NHWC")}[len(kernel)]
    return stax.Conv(8, kernel, strides, padding, W_std=STD, b_std=BIAS, dimension_numbers=dimensions)


def dense(bias: float | None = BIAS) -> Any:
    return stax.Dense(8, W_std=STD, b_std=bias)


def residual(*layers: Any) -> Any:
    return stax.serial(stax.FanOut(2), stax.parallel(stax.Identity(), stax.serial(*layers)), stax.FanInSum())


def both(join: Any, *branches: Any) -> Any:
    return stax.serial(stax.FanOut(len(branches)), stax.parallel(*branches), join)


D = "dense(8, gain=1.3) > bias(0.16)"
C3 = "conv([3, 3], 8, gain=1.3) > bias(0.16)"

NETWORKS: dict[str, tuple[str, Any, tuple[int, ...]]] = {
    "circular convolutions and global pooling": (
        f"input(2, [5, 6]) > {C3} > act('relu') > {C3} > act('relu') > pool > dense(8, gain=1.3)",
        [conv((3, 3)), stax.Relu(), conv((3, 3)), stax.Relu(), stax.GlobalAvgPool(), dense(None)],
        (5, 6),
    ),
    "stride and windows": (
        "input(2, [7, 7]) > conv([3, 3], 8, stride=[2, 2], gain=1.3) > bias(0.16) > act('erf') > pool('mean', 2) > "
        f"{C3} > act('erf') > flatten > {D}",
        [
            conv((3, 3), strides=(2, 2)),
            stax.Erf(),
            stax.AvgPool((2, 2), (2, 2)),
            conv((3, 3)),
            stax.Erf(),
            stax.Flatten(),
            dense(),
        ],
        (7, 7),
    ),
    "one axis without pooling": (
        f"input(2, [7]) > conv([3], 8, gain=1.3) > bias(0.16) > act('gelu') > conv([5], 8, gain=1.3) > bias(0.16) > "
        f"act('relu') > flatten > {D}",
        [conv((3,)), stax.Gelu(), conv((5,)), stax.Relu(), stax.Flatten(), dense()],
        (7,),
    ),
    "residual convolutions": (
        f"input(2, [5, 5]) > {C3} > residual(act('relu') > {C3} > act('relu') > {C3}) > act('relu') > pool > {D}",
        [
            conv((3, 3)),
            residual(stax.Relu(), conv((3, 3)), stax.Relu(), conv((3, 3))),
            stax.Relu(),
            stax.GlobalAvgPool(),
            dense(),
        ],
        (5, 5),
    ),
    "dense with skips": (
        f"input(6) > {D} > repeat(residual(act('relu') > {D}), 4) > act('relu') > {D}",
        [dense(), *[residual(stax.Relu(), dense()) for _ in range(4)], stax.Relu(), dense()],
        (),
    ),
    "nested skips": (
        f"input(6) > {D} > residual({D} > residual(act('erf') > {D}) > act('relu') > {D})",
        [dense(), residual(dense(), residual(stax.Erf(), dense()), stax.Relu(), dense())],
        (),
    ),
    "layer norm": (
        f"input(6) > {D} > norm('layer', eps=1e-6) > act('gelu') > {D} > "
        f"repeat(residual({D} > norm('layer', eps=1e-6) > "
        f"act('relu') > {D}), 2) > {D}",
        [
            dense(),
            stax.LayerNorm(eps=1e-6),
            stax.Gelu(),
            dense(),
            *[residual(dense(), stax.LayerNorm(eps=1e-6), stax.Relu(), dense()) for _ in range(2)],
            dense(),
        ],
        (),
    ),
    "layer norm of convolutions": (
        f"input(2, [4, 4]) > {C3} > norm('layer', eps=1e-6) > act('erf') > {C3} > act('relu') > pool > {D}",
        [
            conv((3, 3)),
            stax.LayerNorm(axis=-1, eps=1e-6),
            stax.Erf(),
            conv((3, 3)),
            stax.Relu(),
            stax.GlobalAvgPool(),
            dense(),
        ],
        (4, 4),
    ),
    "zeros and no padding": (
        "input(2, [7, 7]) > conv([3, 3], 8, padding='zeros', gain=1.3) > bias(0.16) > act('relu') > "
        "conv([3, 3], 8, padding='valid', gain=1.3) > bias(0.16) > act('relu') > pool > dense(8, gain=1.3)",
        [
            conv((3, 3), "SAME"),
            stax.Relu(),
            conv((3, 3), "VALID"),
            stax.Relu(),
            stax.GlobalAvgPool(),
            dense(None),
        ],
        (7, 7),
    ),
    "gated": (
        f"input(6) > {D} > product({D} > act('erf'), {D}) > {D}",
        [dense(), both(stax.FanInProd(), stax.serial(dense(), stax.Erf()), dense()), dense()],
        (),
    ),
    "side by side": (
        f"input(6) > {D} > concat({D} > act('erf'), {D}) > {D}",
        [dense(), both(stax.FanInConcat(), stax.serial(dense(), stax.Erf()), dense()), dense()],
        (),
    ),
}


def reference(text: str, layers: list[Any], axes: tuple[int, ...], seed: int) -> dict[str, Any]:
    features = 2 if axes else 6
    inputs = np.random.RandomState(seed).randn(3, features, *axes).round(3)
    inputs[1] = (inputs[0] + 0.3 * inputs[1]).round(3)
    kernel = stax.serial(*layers)[2](np.moveaxis(inputs, 1, -1), None, ("nngp", "ntk"))
    return {
        "network": text,
        "inputs": inputs.tolist(),
        "nngp": np.asarray(kernel.nngp).tolist(),
        "ntk": np.asarray(kernel.ntk).tolist(),
    }


def main() -> None:
    found = {name: reference(*parts, seed) for seed, (name, parts) in enumerate(NETWORKS.items())}
    path = Path(__file__).parent / "networks.json"
    path.write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
