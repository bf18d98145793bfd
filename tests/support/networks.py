"""Random compositions for tests: every step of the language that an interpreter of networks covers, nested at random.

Widths, depth and what may occur are arguments, so that theory (wide, few kinds) and simulation (narrow, all kinds) can
draw from one generator. The same seed and arguments give the same network.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

import numpy as np
from numpy.typing import NDArray

from isometer.spec import (
    Act,
    Bias,
    Composition,
    Convolution,
    Dense,
    Dropout,
    Flatten,
    Join,
    Noise,
    Norm,
    Pool,
    Repeat,
    Residual,
    Scaling,
    Shape,
    Spec,
    Step,
    Upsample,
)

ACTIVATIONS = ("relu", "tanh", "gelu", "sin", "leaky_relu(0.3)")
NORMS = ("batch", "batch-rescale", "batch-unit", "layer", "rms", "group:2")
DENSE_LAWS = ("gaussian", "orthogonal", "he", "xavier-normal")
KERNEL_LAWS = ("gaussian", "orthogonal", "delta-orthogonal")
PADDINGS = ("circular", "zeros", "reflect", "valid")
_BRANCHES = ("residual", "sum", "product", "concat")
KINDS = ("dense", "bias", "act", "norm", "scaling", *_BRANCHES, "repeat", "conv", "pool", "max", "flatten")
"""What occurs unless it is left out (`pool` is the mean, `max` the maximum over windows or all positions)."""


def random_network(
    seed: int,
    *,
    width: int = 8,
    axes: tuple[int, ...] | None = None,
    length: int = 5,
    without: Collection[str] = (),
    also: Collection[str] = (),
    activations: Collection[str] = ACTIVATIONS,
    norms: Collection[str] = NORMS,
    dense_laws: Collection[str] = DENSE_LAWS,
    kernel_laws: Collection[str] = KERNEL_LAWS,
    paddings: Collection[str] = PADDINGS,
) -> Composition:
    """A random network that is not one layer repeated.

    Args:
        seed: of the draw.
        width: features inside; some steps have half as many more.
        axes: positions of the input; none, one or two axes at random by default.
        length: steps at the top level, about.
        without: kinds of `KINDS` that do not occur.
        also: `"dropout"`, `"noise"`, `"upsample"`, `"groups"` (of channels), which do not occur otherwise.
        activations: to choose from.
        norms: to choose from, by name.
        dense_laws: laws of dense weights to choose from.
        kernel_laws: laws of kernels to choose from.
        paddings: of convolutions, to choose from.
    """
    rng = np.random.default_rng([seed, 26])
    kinds = [kind for kind in (*KINDS, *also) if kind not in without]
    chosen = {
        "activations": [*activations],
        "norms": [*norms],
        "dense_laws": [*dense_laws],
        "kernel_laws": [*kernel_laws],
        "paddings": [*paddings],
    }
    while True:
        positions = (() if rng.random() < 0.4 else (7,) if rng.random() < 0.4 else (5, 6)) if axes is None else axes
        spec = _Draw(rng, kinds, width, chosen).network(positions, length)
        if isinstance(spec, Composition):
            return spec


def input_batch(spec: Spec, samples: int = 5, seed: int = 0) -> NDArray[np.float64]:
    """Gaussian inputs of a network, `(samples, features, *axes)`, correlated a little."""
    rng = np.random.default_rng([seed, 27])
    shape = (spec.shape.width, *spec.shape.axes)
    return rng.standard_normal((samples, *shape)) + 0.5 * rng.standard_normal((1, *shape))


class _Draw:
    """One network, step by step; `shape` is that of what enters the next step."""

    def __init__(self, rng: np.random.Generator, kinds: list[str], width: int, chosen: dict[str, list[str]]) -> None:
        self.rng, self.kinds, self.width, self.chosen = rng, kinds, width, chosen

    def network(self, axes: tuple[int, ...], length: int) -> Spec:
        shape = Shape(self.width // 2 + 1 if self.rng.random() < 0.5 else self.width, axes)
        steps: list[Step] = [self._weights(shape, self.width, keep=True)]
        inside = Shape(self.width, axes)
        for _ in range(length):
            made, inside = self._top_level(inside)
            steps.extend(made)
        ends: list[Step] = [Pool(by) for by in self._pools()] + ([Flatten()] if "flatten" in self.kinds else [])
        if inside.axes and ends and self.rng.random() < 0.8:
            steps.append(self._one(ends))
        if self.rng.random() < 0.6:
            steps.append(Dense(self.width // 2 + 1))
        return Spec(steps, width=shape.width, positions=axes)

    def _one(self, options: Any) -> Any:
        return options[int(self.rng.integers(len(options)))]

    def _number(self, low: float, high: float) -> float:
        return round(float(self.rng.uniform(low, high)), 2)

    def _pools(self) -> list[Any]:
        return [by for by, kind in (("mean", "pool"), ("max", "max")) if kind in self.kinds]

    def _top_level(self, shape: Shape) -> tuple[tuple[Step, ...], Shape]:
        """A step that may change the positions, or one that keeps the shape."""
        if shape.axes and self._pools() and min(shape.axes) > 3 and self.rng.random() < 0.2:
            return (Pool(self._one(self._pools()), 2),), Shape(shape.width, tuple(axis // 2 for axis in shape.axes))
        if shape.axes and "conv" in self.kinds and min(shape.axes) > 3 and self.rng.random() < 0.2:
            stride = int(self.rng.integers(1, 3))
            padding = self._one(self.chosen["paddings"])
            left = [axis - 2 if padding == "valid" else axis for axis in shape.axes]
            conv = Convolution(3, shape.width, padding=padding, stride=stride)
            return (conv,), Shape(shape.width, tuple((axis - 1) // stride + 1 for axis in left))
        if shape.axes and "upsample" in self.kinds and max(shape.axes) < 4:
            return (Upsample(2),), Shape(shape.width, tuple(2 * axis for axis in shape.axes))
        if "repeat" in self.kinds and self.rng.random() < 0.3:
            return (Repeat(self._body(shape, 2), int(self.rng.integers(2, 4))),), shape
        return self._step(shape, 2), shape

    def _body(self, shape: Shape, depth: int) -> tuple[Step, ...]:
        """A few steps, one of them with weights."""
        steps: list[Step] = []
        for _ in range(int(self.rng.integers(1, 3))):
            steps.extend(self._step(shape, depth - 1))
        at = int(self.rng.integers(len(steps) + 1))
        return (*steps[:at], self._weights(shape, shape.width), *steps[at:])

    def _step(self, shape: Shape, depth: int) -> tuple[Step, ...]:
        """Steps that keep the shape; `depth` more levels of branches at most."""
        usable = [
            kind
            for kind in self.kinds
            if kind not in ("repeat", "pool", "max", "flatten", "groups", "upsample")
            and (depth > 0 or kind not in _BRANCHES)
            and (shape.axes or kind != "conv")
        ]
        kind = self._one(usable)
        scale = self._number(0.3, 1.2)
        match kind:
            case "dense" | "conv":
                wide = self.width + self.width // 2
                return (
                    self._weights(shape, wide, keep=True),
                    Act(self._one(self.chosen["activations"])),
                    self._weights(Shape(wide, shape.axes), shape.width, keep=True),
                )
            case "bias":
                return (self._weights(shape, shape.width), Bias(self._number(0.05, 0.3)))
            case "act":
                return (Act(self._one(self.chosen["activations"]), self._one((1.0, 0.7))),)
            case "norm":
                norm = Norm.named(self._one(self.chosen["norms"]))
                assert norm is not None
                return (norm,)
            case "scaling":
                return (Scaling(scale),)
            case "dropout":
                return (Dropout(0.3),)
            case "noise":
                return (Noise(0.1),)
            case "residual":
                skip = float(self._one((1.0, 0.8)))
                return (Residual(self._body(shape, depth), scale, skip),)
            case _:
                branches = (self._body(shape, depth), self._body(shape, depth) if self.rng.random() < 0.7 else ())
                back = (Dense(shape.width),) if kind == "concat" else ()
                return (Join(branches, kind), *back)

    def _weights(self, shape: Shape, width: int, *, keep: bool = False) -> Step:
        """Weights to so many features, positions kept; the width is written out where `keep` says so."""
        gain = self._number(0.7, 1.3)
        wide = width if keep or width != shape.width else None
        if not shape.axes or "conv" not in self.kinds or self.rng.random() < 0.3:
            return Dense(wide, gain, self._one(self.chosen["dense_laws"]))
        same = [padding for padding in self.chosen["paddings"] if padding != "valid"] or ["circular"]
        groups = 2 if "groups" in self.kinds and shape.width % 2 == width % 2 == 0 else 1
        return Convolution(
            int(self._one((1, 2, 3))) if min(shape.axes) > 1 else 1,
            wide,
            padding=self._one(same),
            dilation=int(self._one((1, 1, 2))) if min(shape.axes) > 4 else 1,
            groups=groups,
            gain=gain,
            weights=self._one(self.chosen["kernel_laws"]),
        )
