"""A perceptron of 1000 layers with batch norm and tanh(αx)/α: with orthogonal weights it trains, with Gaussian not.

    python tools/thousand_layers.py [--steps 100] [--seeds 0,1,2] [--depth 1000] [--width 32] [--samples 256]

Writes docs/thousand-layers.json: for each law of the weights the losses of every seed at the learning rate with the
lowest mean loss of the last ten steps, how many runs diverged, and the gradient norms of the first and the last layer
at the start.
"""

from __future__ import annotations

import argparse
import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from torch import nn
from torch.nn import functional

from isometer.data import load
from isometer.doctor.patients import Images
from isometer.doctor.patients._layers import Scaled
from isometer.doctor.patients._mlps import mlp
from isometer.doctor.training import TrainingCurve, train
from isometer.files import write_whole
from isometer.serialize import json_text

OUT = Path(__file__).parents[1] / "docs" / "thousand-layers.json"
RATES = (1e-4, 1e-3, 1e-2)
GAIN = -0.4  # exponent of the gain of tanh over the layer, 001/rec-6.11


def make(law: str, depth: int, width: int, seed: int = 0) -> nn.Module:
    """The network with weights of a law."""

    def shaped(layer: int) -> nn.Module:
        return Scaled(nn.Tanh(), inner=layer**GAIN, outer=layer**-GAIN)

    return mlp(depth, width=width, activation=shaped, law=law, gain=1.0, norm=nn.BatchNorm1d)(seed, (784,), 10)


def gradients(model: nn.Module, inputs: torch.Tensor, labels: torch.Tensor) -> tuple[float, float]:
    """Norms of the gradient by the weights of the first and the last hidden layer."""
    functional.cross_entropy(model(inputs), labels).backward()
    layers = [module for module in model.modules() if isinstance(module, nn.Linear)]
    norms = [float(layers[at].weight.grad.norm()) for at in (0, -2)]
    model.zero_grad()
    return norms[0], norms[1]


def ended(curve: TrainingCurve) -> float:
    """Mean loss of the last ten steps, infinite after divergence."""
    return math.inf if curve.diverged else sum(curve.losses[-10:]) / len(curve.losses[-10:])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--steps", type=int, default=100)
    parser.add_argument("--depth", type=int, default=1000)
    parser.add_argument("--width", type=int, default=32)
    parser.add_argument("--samples", type=int, default=256)
    parser.add_argument("--data", type=Path, help="folder of the data set, if not where `isometer data` finds it")
    parser.add_argument("--seeds", default="0,1,2")
    parser.add_argument("--rates", default=",".join(map(str, RATES)))
    options = parser.parse_args()
    torch.set_num_threads(1)
    pictures = load("fashion-mnist", root=options.data)
    data = Images.of(pictures.images, pictures.labels)

    def sampler(seed: int) -> Callable[[int], tuple[torch.Tensor, torch.Tensor]]:
        order = torch.randperm(len(data.labels), generator=torch.Generator().manual_seed(seed))

        def batch(step: int) -> tuple[torch.Tensor, torch.Tensor]:
            chosen = order.roll(-step * options.samples)[: options.samples]
            return data.images[chosen].flatten(1), data.labels[chosen]

        return batch

    rates = [float(rate) for rate in options.rates.split(",")]
    seeds = [int(seed) for seed in options.seeds.split(",")]
    keys = ("depth", "width", "samples", "steps", "rates", "seeds")
    found: dict[str, Any] = {key: getattr(options, key) for key in keys}
    for law in ("orthogonal", "gaussian"):
        first, last = gradients(make(law, options.depth, options.width), *sampler(0)(0))
        print(f"{law:10} gradient norms at the start: first layer {first:.3g}, last layer {last:.3g}", flush=True)
        curves: dict[float, list[TrainingCurve]] = {rate: [] for rate in rates}
        for rate in rates:
            for seed in seeds:
                curve = train(
                    make(law, options.depth, options.width, seed),
                    sampler(seed),
                    loss=functional.cross_entropy,
                    learning_rate=rate,
                    steps=options.steps,
                )
                curves[rate].append(curve)
                text = f"diverges at step {len(curve.losses)}" if curve.diverged else f"{ended(curve):.3f}"
                print(f"{law:10} rate {rate:g} seed {seed}: loss {curve.losses[0]:.3f} → {text}", flush=True)
        best = min(rates, key=lambda rate: sum(ended(curve) for curve in curves[rate]))
        diverged = sum(curve.diverged for group in curves.values() for curve in group)
        found[law] = {
            "gradient_first": first,
            "gradient_last": last,
            "diverged": diverged,
            "runs": len(rates) * len(seeds),
            "learning_rate": best,
            "first": [curve.losses[0] for curve in curves[best]],
            "last": [None if curve.diverged else ended(curve) for curve in curves[best]],
            "losses": [[round(x, 4) for x in curve.losses if math.isfinite(x)] for curve in curves[best]],
        }
    write_whole(OUT, json_text(found) + "\n")


if __name__ == "__main__":
    main()
