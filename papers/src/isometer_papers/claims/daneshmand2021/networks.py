"""003, §5.2 and Appendices F–G: activations, convolutions and the initialisation in networks. Only in 003."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator

import numpy as np

from isometer_papers.claims._claim import Claim, Estimate, Instance
from isometer_papers.claims._families import Rng, cases
from isometer_papers.claims._statements import (
    Sampled,
    above,
    asymptotic,
    at_most,
    below,
    deterministic,
    empirical,
    equal,
    vanishes,
)
from isometer_papers.claims.daneshmand2021.chains import (
    activated_grams,
    activation,
    fluctuation,
    log_exponent,
    over_chains,
    path,
)
from isometer_papers.float_or_mpmath import Numeric
from isometer_papers.simulate.orthogonality_steps import dense_chain, read_gram
from isometer_papers.theory.orthogonality.bounds import gap_of

LAYERS, CHAINS = 300, 24
FUNCTIONS = ("relu", "tanh", "sigmoid")


def _level(function: str, width: int) -> Estimate:
    return fluctuation(function, width, LAYERS, CHAINS)


def _dense_level(function: str, width: int, rng: Rng) -> Estimate:
    """The same with weights written out and time averages of each chain as its mean."""
    found = []
    for _ in range(8):
        states = dense_chain(rng.standard_normal((width, 4)), layers=260, rng=rng, function=activation(function))
        grams = read_gram(states[60:])
        mean = grams.mean(axis=0)
        # samples are exchangeable and rows have length 1: the mean has one value off the diagonal and ¼ on it
        off = (mean.sum() - np.trace(mean)) / 12
        centre = off + (0.25 - off) * np.eye(4)
        found.append(float(np.sqrt(((grams - centre) ** 2).sum((-2, -1))).mean()))
    return Estimate.of(found)


def _scaled(estimate: Estimate, factor: float) -> Estimate:
    return Estimate(factor * estimate.value, factor * estimate.error, estimate.freedom, estimate.draws)


def _exponent(as_printed: bool) -> Callable[[Instance, Rng], Estimate]:
    def estimate(i: Instance, rng: Rng) -> Estimate:
        values = [_scaled(_level(i["F"], d), d if as_printed else 1.0) for d in i["widths"]]
        return log_exponent(i["widths"], values)

    return estimate


def _dense_exponent(i: Instance, rng: Rng) -> Estimate:
    widths = [32, 128]
    return log_exponent(widths, [_scaled(_dense_level(i["F"], d, rng), d) for d in widths])


def _constant(i: Instance, rng: Rng) -> Estimate:
    return _scaled(_level(i["F"], i["width"]), math.sqrt(i["width"]))


def _difference(i: Instance, rng: Rng) -> Estimate:
    """|log L of one activation − log L of the other|."""
    a, b = (_level(name, i["width"]) for name in i["F"])
    return Estimate(
        abs(math.log(a.value / b.value)), math.hypot(a.error / a.value, b.error / b.value), a.freedom, a.draws
    )


def _dense_difference(i: Instance, rng: Rng) -> Estimate:
    a, b = (_dense_level(name, i["width"], rng) for name in i["F"])
    return Estimate(
        abs(math.log(a.value / b.value)), math.hypot(a.error / a.value, b.error / b.value), a.freedom, a.draws
    )


def _off_diagonal(i: Instance, rng: Rng) -> Estimate:
    """Mean entry of QᵀQ/d off the diagonal."""
    grams = activated_grams(i["F"], i["width"], LAYERS, CHAINS)
    return over_chains((grams.sum((-2, -1)) - np.trace(grams, axis1=-2, axis2=-1)) / 12)


def _unit_rows(rng: Rng, count: int) -> Iterator[Instance]:
    for _ in range(count):
        q = rng.standard_normal((int(rng.integers(2, 7)), int(rng.integers(2, 7))))
        yield {"H": q / np.linalg.norm(q, axis=1, keepdims=True)}


def _odd_gap(i: Instance, rng: Rng) -> Estimate:
    """√d V in stationarity."""
    grams = activated_grams(i["F"], i["width"], LAYERS, CHAINS)
    return over_chains(np.sqrt(((grams - np.eye(4) / 4) ** 2).sum((-2, -1))) * math.sqrt(i["width"]))


def _change(kind: str, first: int, last: int) -> Callable[[Instance, Rng], Estimate]:
    def estimate(i: Instance, rng: Rng) -> Estimate:
        values = path(kind, i["width"], i["samples"], 60, i["chains"], i["start"])
        return Estimate.of(values[:, last] - values[:, first])

    return estimate


MLP = cases({"width": 100, "samples": 8, "chains": 50, "start": "aligned"})


def _convolution_change(norm: str | None, first: int, last: int) -> Callable[[Instance, Rng], Estimate]:
    """V after a layer of a random convolutional network minus V after an earlier one."""

    def estimate(i: Instance, rng: Rng) -> Estimate:
        from isometer.simulate import ConvolutionSpec, simulate_convolution

        images = rng.standard_normal((8, 3, 5, 5)) + 2 * rng.standard_normal((1, 3, 5, 5))
        spec = ConvolutionSpec(channels=i["channels"], depth=last, norm=norm, gain=math.sqrt(2.0))
        data = simulate_convolution(spec, images, 40, ["orthogonality_gap"], int(rng.integers(1 << 31)))
        gap = data["orthogonality_gap"]
        change = gap.sel(layer=last) - gap.sel(layer=first)
        return Estimate.of(np.asarray(change.values).reshape(-1))

    return estimate


IMAGES = cases({"channels": 16})


def initial_gap(i: Instance, rng: Rng) -> Estimate:
    """V of the last layer of a ReLU network with the iterative initialisation minus that with Xavier's."""
    import torch
    from torch import nn

    from isometer.init import iterative_orthogonalization_
    from isometer.metrics import orthogonality_gap

    found = []
    for _ in range(16):
        torch_rng = torch.Generator().manual_seed(int(rng.integers(1 << 31)))
        width, samples = i["width"], 3 * i["width"]
        batch = torch.randn(samples, width, generator=torch_rng) + torch.randn(1, width, generator=torch_rng)
        values = []
        for iterative in (True, False):
            parts: list[nn.Module] = []
            for _layer in range(i["layers"]):
                linear = nn.Linear(width, width, bias=False)
                nn.init.xavier_uniform_(linear.weight, gain=math.sqrt(2.0), generator=torch_rng)
                parts += [linear, nn.ReLU()]
            model = nn.Sequential(*parts)
            if iterative:
                iterative_orthogonalization_(model, batch)
            with torch.no_grad():
                values.append(float(orthogonality_gap(model(batch).double())))
        found.append(values[0] - values[1])
    return Estimate.of(found)


def _images(rng: Rng, count: int) -> Iterator[Instance]:
    yield {"kernel": np.ones((1, 1, 2, 2)), "image": np.arange(6.0).reshape(1, 2, 3)}
    for _ in range(count):
        out, channels, side = (int(v) for v in rng.integers(1, 4, 3))
        height, width = (int(v) for v in rng.integers(side, 7, 2))
        yield {
            "kernel": rng.standard_normal((out, channels, side, side)),
            "image": rng.standard_normal((channels, height, width)),
        }


def _unfolded_gap(i: Instance) -> float:
    """Largest difference of torch's convolution and the product with unfolded patches."""
    import torch
    from torch import nn

    from isometer.init import patches

    kernel, image = torch.as_tensor(np.asarray(i["kernel"])), torch.as_tensor(np.asarray(i["image"]))[None]
    out, channels, side, _ = kernel.shape
    module = nn.Conv2d(channels, out, side, bias=False)
    product = patches(module, image) @ kernel.flatten(1).T  # (positions, out)
    direct = nn.functional.conv2d(image, kernel)[0].flatten(1).T
    return float((product - direct).abs().max())


def _exact_unfolded(i: Instance) -> tuple[Numeric, Numeric]:
    kernel, image = i["kernel"], i["image"]
    out, _, side, _ = kernel.shape
    rows, columns = image.shape[1] - side + 1, image.shape[2] - side + 1
    worst = kernel[0, 0, 0, 0] * 0
    for r in range(rows):
        for c in range(columns):
            patch = image[:, r : r + side, c : c + side]
            product = kernel.reshape(out, -1) @ patch.reshape(-1)
            direct = [(kernel[o] * patch).sum() for o in range(out)]
            worst = max(worst, *(abs(a - b) for a, b in zip(product, direct, strict=True)))
    return worst, 0


CONVOLUTIONS = cases({"name": 20, "repeated": 16}, {"name": 80, "repeated": 76})
CLAIMS: tuple[Claim, ...] = (
    deterministic(
        "003/alg-iter-conv",
        vanishes(_unfolded_gap),
        {"images": _images},
        exact=_exact_unfolded,
    ),
    deterministic(
        "003/alg-iter-conv:size",
        equal(lambda i: i["kernel"][0].size, lambda i: i["kernel"].shape[2] ** 2),
        {"images": _images},
    ),
    deterministic(
        "003/alg-iter-conv:size#corrected",
        equal(lambda i: i["kernel"][0].size, lambda i: i["kernel"].shape[1] * i["kernel"].shape[2] ** 2),
        {"images": _images},
    ),
    empirical(
        "003/claim-iter-no-BN",
        below(Sampled(initial_gap), 0.0),
        {"nets": cases({"width": 32, "layers": 20})},
        counts=(1, 1),
        resolution=0.2,
    ),
    empirical(
        "003/fig-5:vanilla-mlp",
        above(Sampled(_change("relu", 0, 30)), 0.0),
        {"nets": MLP},
        counts=(1, 1),
        resolution=0.25,
    ),
    empirical(
        "003/fig-5:bn-mlp", below(Sampled(_change("bn-relu", 0, 30)), 0.0), {"nets": MLP}, counts=(1, 1), resolution=0.1
    ),
    empirical(
        "003/fig-5:vanilla-conv",
        above(Sampled(_convolution_change(None, 1, 20)), 0.0),
        {"nets": IMAGES},
        counts=(1, 1),
        resolution=0.5,
    ),
    empirical(
        "003/fig-5:bn-conv",
        below(Sampled(_convolution_change("batch", 1, 20)), 0.0),
        {"nets": IMAGES},
        counts=(1, 1),
        resolution=0.25,
    ),
    empirical(
        "003/claim-lin-nonlin",
        vanishes(Sampled(_change("bn-relu", 30, 60))),
        {"nets": MLP},
        counts=(1, 1),
        resolution=0.15,
    ),
    asymptotic(
        "003/conj-F1",
        at_most(
            Sampled(_exponent(True), _dense_exponent, "weights written out, time averages, widths 32 and 128"), -0.5
        ),
        {"functions": cases(*({"F": name, "widths": [16, 64, 256]} for name in ("relu", "tanh")))},
        counts=(2, 2),
    ),
    asymptotic(
        "003/conj-F1#corrected",
        at_most(Sampled(_constant), 2.0),
        {"functions": cases(*({"F": name, "width": d} for d in (16, 64, 256) for name in FUNCTIONS))},
        counts=(9, 9),
        resolution=0.3,
    ),
    empirical(
        "003/fig-6:exponent",
        equal(Sampled(_exponent(True), _dense_exponent, "weights written out, time averages, widths 32 and 128"), -0.5),
        {"functions": cases(*({"F": name, "widths": [64, 256]} for name in ("relu", "tanh")))},
        counts=(2, 2),
    ),
    empirical(
        "003/fig-6:exponent#corrected",
        equal(Sampled(_exponent(False)), -0.5),
        {"functions": cases(*({"F": name, "widths": [64, 256]} for name in FUNCTIONS))},
        tolerance=0.05,
        resolution=0.3,
        counts=(3, 3),
    ),
    empirical(
        "003/fig-6:coincide",
        at_most(Sampled(_difference, _dense_difference, "weights written out, time averages"), 0.2),
        {
            "pairs": cases(
                *({"F": pair, "width": 64} for pair in (["relu", "tanh"], ["relu", "sigmoid"], ["tanh", "sigmoid"]))
            )
        },
        counts=(3, 3),
    ),
    empirical(
        "003/fig-6:coincide#corrected",
        at_most(Sampled(_difference), 0.2),
        {"pairs": cases(*({"F": ["relu", "tanh"], "width": d} for d in (64, 256)))},
        counts=(2, 2),
        resolution=0.5,
    ),
    deterministic(
        "003/F2-odd:centre",
        vanishes(lambda i: abs(i["H"] - gap_of(i["H"].T)).max()),
        {"by-hand": cases({"H": np.array([[0.6, 0.8], [0.8, -0.6]])}), "random": _unit_rows},
    ),
    empirical(
        "003/F2-odd:centre#corrected",
        equal(Sampled(_off_diagonal), 0.0),
        {"functions": cases(*({"F": name, "width": 64} for name in ("tanh", "sin")))},
        scale=0.25,
        counts=(2, 2),
        resolution=0.1,
    ),
    empirical(
        "003/F2-odd:rate",
        at_most(Sampled(_odd_gap), 2.0),
        {"functions": cases(*({"F": name, "width": d} for d in (16, 256) for name in ("tanh", "sin")))},
        counts=(4, 4),
        resolution=0.3,
    ),
    deterministic("003/table-3", equal(lambda i: 4 + i["repeated"], lambda i: i["name"]), {"networks": CONVOLUTIONS}),
)
