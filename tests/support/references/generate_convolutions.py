"""NNGP and NTK matrices of convolutional networks by neural-tangents 0.6.5, an independent library.

The architectures are those of its documentation, examples and tests at small size: wide ResNets, Myrtle networks,
convolutions with flattening or pooling, paddings, strides, overlapping windows, joins, layer norm, dropout, resizing,
and its activations. It needs the environment that `generate_networks.py` describes, and runs there as
`python tests/support/references/generate_convolutions.py`; with names of networks it makes those again.

Where the two libraries differ: neural-tangents pads windows with a stride from the left as TensorFlow does, which is
the same for an odd number of positions, so strided and padded convolutions have odd sizes here. It takes summands of a
skip as independent. It pools with padding, which this library's language has no word for. Its `ImageResize` overlooks
that every second convolution stores the two axes the other way round, so what it resizes here is square, or stands
behind an even number of convolutions.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

from generate_networks import both, dense, reference, residual
from neural_tangents import stax

STD, BIAS = 1.3, 0.4  # of weights and biases
C = ", gain=1.3) > bias(0.16)"
D = f"dense(8{C}"


def conv(kernel: int, padding: str = "SAME", stride: int = 1, rank: int = 2) -> Any:
    dimensions = {1: ("NHC", "HIO", "NHC"), 2: ("NHWC", "HWIO", "NHWC")}[rank]
    sizes = (kernel,) * rank, (stride,) * rank
    return stax.Conv(8, *sizes, padding, W_std=STD, b_std=BIAS, dimension_numbers=dimensions)


def same(kernel: int, padding: str = "zeros", stride: int = 1) -> str:
    return f"conv({kernel}, 8, padding='{padding}', stride={stride}{C}"


def wide_block(stride: int, mismatch: bool) -> tuple[str, Any]:
    text = f"act('relu') > {same(3, stride=stride)} > act('relu') > {same(3)}"
    main = stax.serial(stax.Relu(), conv(3, stride=stride), stax.Relu(), conv(3))
    if mismatch:
        return f"sum({text}, {same(3, stride=stride)})", both(stax.FanInSum(), main, conv(3, stride=stride))
    return f"residual({text})", both(stax.FanInSum(), main, stax.Identity())


def wide_resnet() -> tuple[str, list[Any], tuple[int, ...]]:
    blocks = [wide_block(1, True), wide_block(1, False), wide_block(2, True), wide_block(2, True)]
    text = f"input(2, [9, 9]) > {same(3)} > " + " > ".join(block for block, _ in blocks)
    layers = [conv(3), *(layer for _, layer in blocks), stax.AvgPool((3, 3)), stax.Flatten(), dense()]
    return f"{text} > pool('mean', 3) > flatten > {D}", layers, (9, 9)


def myrtle(end: str) -> tuple[str, list[Any], tuple[int, ...]]:
    """Convolutions with mean pooling between them, as for kernels of CIFAR-10."""
    text, layers = "input(2, [8, 8])", []
    for pooled in (False, True, True):
        text += f" > {same(3)} > act('relu')" + (" > pool('mean', 2)" if pooled else "")
        layers += [conv(3), stax.Relu(), *([stax.AvgPool((2, 2), strides=(2, 2))] if pooled else [])]
    last = stax.GlobalAvgPool() if end == "pool" else stax.Flatten()
    return f"{text} > {end} > {D}", [*layers, last, dense()], (8, 8)


def plain(
    depth: int, end: str, padding: str = "SAME", axes: tuple[int, ...] = (6, 5), kernel: int = 3, act: str = "relu"
) -> tuple[str, list[Any], tuple[int, ...]]:
    own = {"SAME": "zeros", "VALID": "valid", "CIRCULAR": "circular"}[padding]
    functions = {"relu": stax.Relu, "erf": stax.Erf, "gelu": stax.Gelu, "abs": stax.Abs, "sin": stax.Sin}
    text = f"input(2, [{', '.join(map(str, axes))}])" + f" > {same(kernel, own)} > act('{act}')" * depth
    layers = [conv(kernel, padding, rank=len(axes)), functions[act]()] * depth
    return f"{text} > {end} > {D}", [*layers, stax.GlobalAvgPool() if end == "pool" else stax.Flatten(), dense()], axes


def ended(text: str, layers: list[Any], axes: tuple[int, ...], end: str = "pool") -> tuple[str, list[Any], tuple]:
    last = stax.GlobalAvgPool() if end == "pool" else stax.Flatten()
    sizes = ", ".join(map(str, axes))
    return f"input(2, [{sizes}]) > {text} > {end} > {D}", [*layers, last, dense()], axes


C3, R = same(3), "act('relu')"
NETWORKS: dict[str, tuple[str, list[Any], tuple[int, ...]]] = {
    "wide resnet": wide_resnet(),
    "myrtle, flattened": myrtle("flatten"),
    "myrtle, pooled": myrtle("pool"),
    "relu, flattened": plain(3, "flatten"),
    "relu, pooled": plain(3, "pool"),
    "erf, without padding": plain(2, "pool", "VALID", act="erf"),
    "gelu, around a circle": plain(2, "pool", "CIRCULAR", act="gelu"),
    "abs, even kernel": plain(2, "flatten", kernel=2, act="abs"),
    "even kernel around a circle": plain(2, "pool", "CIRCULAR", kernel=4, axes=(7, 6)),
    "sin, one axis": plain(3, "pool", axes=(7,), act="sin"),
    "wide kernel, one axis, flattened": plain(2, "flatten", axes=(8,), kernel=5, act="erf"),
    "kernels of one position": plain(2, "pool", kernel=1),
    "strides": ended(
        f"{same(3, stride=2)} > {R} > {same(3, 'valid', 2)} > {R}",
        [conv(3, stride=2), stax.Relu(), conv(3, "VALID", 2), stax.Relu()],
        (9, 9),
    ),
    "strides, flattened": ended(
        f"{same(3, stride=2)} > act('erf') > {C3} > act('erf')",
        [conv(3, stride=2), stax.Erf(), conv(3), stax.Erf()],
        (7, 7),
        "flatten",
    ),
    "overlapping windows": ended(
        f"{C3} > {R} > pool('mean', 3, stride=2) > {C3} > {R} > pool('mean', 2, stride=1) > {C3} > {R}",
        [
            *(conv(3), stax.Relu(), stax.AvgPool((3, 3), strides=(2, 2))),
            *(conv(3), stax.Relu(), stax.AvgPool((2, 2), strides=(1, 1)), conv(3), stax.Relu()),
        ],
        (7, 7),
        "flatten",
    ),
    "leaky relu and a pool of inputs": ended(
        f"pool('mean', 2) > {C3} > act('leaky_relu(0.2)') > {C3}",
        [stax.AvgPool((2, 2), strides=(2, 2)), conv(3), stax.LeakyRelu(0.2), conv(3)],
        (8, 6),
    ),
    "cos and sigmoid": ended(
        f"{C3} > act('cos(x)') > {C3} > act('0.5*(1 + erf(x/2.4020563531719796))')",
        [conv(3), stax.Cos(), conv(3), stax.Sigmoid_like()],
        (5, 4),
    ),
    "monomial": ended(
        f"{same(3, 'circular')} > act('x**2') > {C3}", [conv(3, "CIRCULAR"), stax.Monomial(2), conv(3)], (5, 4)
    ),
    "residual behind the addition": ended(
        f"{C3} > residual({R} > {C3}) > {R} > {C3} > residual({R} > {C3} > {R} > {C3}) > {R}",
        [
            *(conv(3), residual(stax.Relu(), conv(3)), stax.Relu(), conv(3)),
            *(residual(stax.Relu(), conv(3), stax.Relu(), conv(3)), stax.Relu()),
        ],
        (5, 5),
        "flatten",
    ),
    "branches side by side": ended(
        f"{C3} > {R} > concat({same(1)} > {R}, {same(3)} > {R}, {same(5)} > {R}) > {C3} > {R}",
        [
            *(conv(3), stax.Relu()),
            both(stax.FanInConcat(-1), *(stax.serial(conv(k), stax.Relu()) for k in (1, 3, 5))),
            *(conv(3), stax.Relu()),
        ],
        (6, 5),
    ),
    "gates": ended(
        f"{C3} > product({C3} > act('erf'), {same(1)}) > {C3} > {R}",
        [conv(3), both(stax.FanInProd(), stax.serial(conv(3), stax.Erf()), conv(1)), conv(3), stax.Relu()],
        (5, 4),
    ),
    "layer norm over channels": ended(
        f"{C3} > norm('layer', eps=1e-6) > {R} > {C3} > norm('layer', eps=1e-6) > act('gelu')",
        [conv(3), stax.LayerNorm(eps=1e-6), stax.Relu(), conv(3), stax.LayerNorm(eps=1e-6), stax.Gelu()],
        (5, 5),
    ),
    "layer norm, flattened": ended(
        f"{C3} > norm('layer', eps=1e-6) > act('erf') > {C3} > {R}",
        [conv(3), stax.LayerNorm(eps=1e-6), stax.Erf(), conv(3), stax.Relu()],
        (5, 5),
        "flatten",
    ),
    "dropout, pooled": ended(
        f"{C3} > {R} > dropout(0.3) > {C3} > {R} > dropout(0.5)",
        [conv(3), stax.Relu(), stax.Dropout(0.7), conv(3), stax.Relu(), stax.Dropout(0.5)],
        (5, 5),
    ),
    "dropout, flattened": ended(
        f"{C3} > {R} > dropout(0.2) > {C3} > act('erf')",
        [conv(3), stax.Relu(), stax.Dropout(0.8), conv(3), stax.Erf()],
        (5, 5),
        "flatten",
    ),
    "upsampling": ended(
        f"{C3} > {R} > upsample(2) > {C3} > {R}",
        [conv(3), stax.Relu(), stax.ImageResize((-1, 8, 8, -1), "nearest"), conv(3), stax.Relu()],
        (4, 4),
    ),
    "upsampling, flattened": ended(
        f"{C3} > {R} > {C3} > {R} > upsample([3, 1]) > {C3} > {R}",
        [*(conv(3), stax.Relu()) * 2, stax.ImageResize((-1, 9, 4, -1), "nearest"), conv(3), stax.Relu()],
        (3, 4),
        "flatten",
    ),
    "autoencoder": ended(
        f"{same(3, stride=2)} > {R} > {C3} > {R} > upsample(2) > {C3} > {R} > pool('mean', 2)",
        [
            *(conv(3, stride=2), stax.Relu(), conv(3), stax.Relu()),
            *(stax.ImageResize((-1, 6, 6, -1), "nearest"), conv(3), stax.Relu(), stax.AvgPool((2, 2), strides=(2, 2))),
        ],
        (5, 5),
        "flatten",
    ),
    "dense behind flattening": (
        f"input(2, [5, 5]) > {C3} > {R} > flatten > {D} > {R} > {D}",
        [conv(3), stax.Relu(), stax.Flatten(), dense(), stax.Relu(), dense()],
        (5, 5),
    ),
    "dense at every position": ended(
        f"{C3} > {R} > {D} > act('erf') > {C3}", [conv(3), stax.Relu(), dense(), stax.Erf(), conv(3)], (5, 4)
    ),
}


def main() -> None:
    path = Path(__file__).parent / "convolutions.json"
    wanted = sys.argv[1:] or [*NETWORKS]
    found = json.loads(path.read_text(encoding="utf-8")) if sys.argv[1:] else {}
    for seed, (name, parts) in enumerate(NETWORKS.items()):
        if name in wanted:
            found[name] = reference(*parts, 100 + seed)
    lines = ",\n".join(f" {json.dumps(name)}: {json.dumps(one)}" for name, one in found.items())
    path.write_text("{\n" + lines + "\n}\n", encoding="utf-8")


if __name__ == "__main__":
    main()
