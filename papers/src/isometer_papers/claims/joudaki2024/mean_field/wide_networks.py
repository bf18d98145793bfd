"""001, §5.2 and §5.6: networks of finite width against the kernel map."""

from __future__ import annotations

import math
from functools import lru_cache
from typing import Any

import numpy as np

from isometer.run import seed_of
from isometer_papers.claims._claim import Claim, Estimate, Instance
from isometer_papers.claims._families import Rng, cases
from isometer_papers.claims._fits import exponent
from isometer_papers.claims._precise import elementwise, mpmath
from isometer_papers.claims._statements import Sampled, asymptotic, at_most, empirical, equal
from isometer_papers.claims.joudaki2024.mean_field.kernels import kernel
from isometer_papers.float_or_mpmath import Numeric
from isometer_papers.theory.duals.global_convergence import case_of
from isometer_papers.theory.duals.hermite_identities import cosine_after_sparse_input, sine_kernel_at

WIDTHS = (100, 400, 1600)


def _cosine(h: Numeric) -> Numeric:
    a, b = h[..., 0, :], h[..., 1, :]
    return (a * b).sum(-1) / ((a * a).sum(-1) * (b * b).sum(-1)).sqrt()


@lru_cache(maxsize=32)
def _cosines(phi: str, norm: str, position: str, weights: str, width: int, depth: int, rho: float, runs: int) -> Any:
    """ρ_ℓ of independent networks, (runs, depth + 1); inputs of length √d with cosine ρ."""
    from isometer.simulate import simulate
    from isometer.spec import POST_NORM, PRE_NORM, Norm, Spec

    seed = seed_of(f"001 cosines {phi} {norm} {position} {weights} {width} {depth} {rho} {runs}") & 0x7FFFFFFF
    q = np.linalg.qr(np.random.default_rng(seed).standard_normal((width, 2)))[0].T * math.sqrt(width)
    batch = np.stack([q[0], rho * q[0] + math.sqrt(1 - rho**2) * q[1]])
    spec = Spec(
        width=width,
        depth=depth,
        activation=phi,
        weights=weights,
        norm=None if norm == "none" else Norm.named(norm),
        order=PRE_NORM if position == "pre" else POST_NORM,
    )
    data = simulate(spec, batch, runs=runs, metrics=[_cosine], seed=seed)
    return np.asarray(data["_cosine"].values)


def _measured(i: Instance, rng: Rng) -> Estimate:
    values = _cosines(
        i["phi"],
        i.get("norm", "none"),
        i.get("position", "pre"),
        i["weights"],
        i["width"],
        i["depth"],
        i["rho"],
        i["runs"],
    )
    return Estimate.of(values[:, i["layer"]])


@lru_cache(maxsize=64)
def _predicted(phi: str, norm: str, position: str, rho: float, layer: int) -> float:
    from isometer.theory import kernel_map

    chosen: Any = kernel_map(phi.removeprefix("unit(").removesuffix(")"), norm=norm, norm_position=position)  # type: ignore[arg-type]
    return float(chosen.iterate(rho, depth=layer).cosine[-1])


def _theory(i: Instance) -> float:
    return _predicted(i["phi"], i.get("norm", "none"), i.get("position", "pre"), i["rho"], i["layer"])


GAUSSIAN: list[dict[str, Any]] = [
    {"phi": f"unit({phi})", "weights": "gaussian", "width": 2000, "depth": 6, "rho": rho, "runs": 64, "layer": layer}
    for phi, rho in (("tanh", 0.8), ("relu", 0.2), ("gelu", -0.5))
    for layer in (1, 3, 6)
]
UNIFORM: list[dict[str, Any]] = [
    {**case, "weights": "uniform", "width": 400, "depth": 3, "runs": 128} for case in GAUSSIAN if case["layer"] < 6
]
NORMED = [
    {
        "phi": phi,
        "norm": norm,
        "position": position,
        "weights": "gaussian",
        "width": 2000,
        "depth": 6,
        "rho": rho,
        "runs": 64,
        "layer": layer,
    }
    for norm, position, phi, rho in (
        ("rms", "pre", "tanh", 0.8),
        ("rms", "post", "tanh", 0.8),
        ("layer", "pre", "tanh", 0.8),
        ("layer", "post", "relu", 0.8),
    )
    for layer in (1, 4)
]


_lengths = cases(*({"rho": rho, "square": square} for rho in (0.5, 0.9, -0.5) for square in (4.0, 0.25, 1.0)))


def _library(i: Instance) -> Numeric:
    return math if isinstance(i["rho"], float) else mpmath()


_one_hot = cases(*({"phi": name, "rho": 0.0, "one": 1.0} for name in ("relu", "identity", "tanh")))


def _sparse(i: Instance) -> Numeric:
    phi = elementwise(i["phi"])
    at = [phi(np.array([sign * i["one"]]))[0] for sign in (1, -1)]
    return cosine_after_sparse_input(*at)


def _deviations(i: Instance, width: int, rng: Rng) -> Estimate:
    """Mean square of norm(z) − (z − μ)/σ over the features, after three layers; μ, σ those of the limit."""
    from isometer.activations import activation
    from isometer.metrics import layer_normalize, rms_normalize

    phi = activation(i["phi"])
    norm = layer_normalize if i["norm"] == "layer" else rms_normalize
    runs, post = 200, i["position"] == "post"
    second, mean = phi.second_moment, phi.mean
    h = rng.standard_normal((runs, width)) * (1.0 if post else math.sqrt(second))
    found = None
    for _ in range(3):
        # given h the entries of Wh are independent and Gaussian: no weights are drawn
        z = np.sqrt((h * h).mean(axis=1, keepdims=True)) * rng.standard_normal((runs, width))
        if post:
            z = np.asarray(phi(z))
            shift, size = (mean, math.sqrt(second - mean**2)) if i["norm"] == "layer" else (0.0, math.sqrt(second))
        else:
            shift, size = 0.0, math.sqrt(second)
        after = norm(z)
        found = ((after - (z - shift) / size) ** 2).mean(axis=1)
        h = after if post else np.asarray(phi(after))
    assert found is not None
    return Estimate.of(found)


def _decay(i: Instance, rng: Rng) -> Estimate:
    return exponent(WIDTHS, [_deviations(i, width, rng) for width in WIDTHS])


def _limit(part: str, norm: str, position: str) -> Claim:
    return asymptotic(
        f"001/claim-5.normlimit:{part}",
        at_most(Sampled(_decay), -0.5),
        {"activations": cases(*({"phi": phi, "norm": norm, "position": position} for phi in ("tanh", "relu", "gelu")))},
        counts=(2, 3),
        resolution=0.4,
    )


def _caption(name: str, printed: int) -> Claim:
    return empirical(
        f"001/fig-5.2:{name}",
        equal(lambda i: case_of(kernel(i)), lambda i: printed),
        {"figure": lambda rng, count: iter([{"phi": name, "rho": 0.0}])},
    )


# One kernel of each case, from several starts.
_rows = cases(
    *(
        {"weights": np.array(weights, dtype=float), "rho": rho, "depth": 400}
        for weights in ([0, 1, 0, 1], [2, 1, 1], [1, 0, 1], [1, 0, 2])
        for rho in (0.9, 0.5, -0.5, -0.9)
    )
)


CLAIMS = (
    asymptotic(
        "001/prop-5.1:normalized",
        equal(Sampled(_measured), _theory),
        {"networks": cases(*GAUSSIAN)},
        scale=1,
        tolerance=0.01,
        resolution=0.06,
        counts=(9, 9),
    ),
    asymptotic(
        "001/prop-5.1:any-input",
        equal(
            lambda i: sine_kernel_at(i["rho"], i["square"], _library(i)),
            lambda i: sine_kernel_at(i["rho"], 1 + 0 * i["rho"], _library(i)),
        ),
        {"lengths": _lengths},
    ),
    asymptotic(
        "001/prop-5.2:any-input",
        equal(_sparse, lambda i: kernel({"phi": i["phi"], "rho": i["rho"]})(i["rho"])),
        {"one-hot": _one_hot},
        scale=1,
    ),
    asymptotic(
        "001/prop-5.2:spread-input",
        equal(Sampled(_measured), _theory),
        {"networks": cases(*UNIFORM)},
        scale=1,
        tolerance=0.02,
        resolution=0.12,
        counts=(6, 6),
    ),
    asymptotic(
        "001/claim-5.normlimit:first-layer",
        equal(lambda i: 1 / i["square"] ** 0.5, lambda i: 1 / i["second"] ** 0.5),
        {"inputs": cases({"square": 1.0, "second": 0.5}, {"square": 2.0, "second": 1.0})},
    ),
    _limit("pre-rms", "rms", "pre"),
    _limit("pre-ln", "layer", "pre"),
    _limit("post-rms", "rms", "post"),
    _limit("post-ln", "layer", "post"),
    asymptotic(
        "001/claim-5.normlimit:kernel",
        equal(Sampled(_measured), _theory),
        {"networks": cases(*NORMED)},
        scale=1,
        tolerance=0.01,
        resolution=0.06,
        counts=(8, 8),
    ),
    empirical(
        "001/fig-5.1",
        at_most(lambda i: abs(kernel(i).iterate(i["rho"], i["depth"]) - kernel(i).fixed_point), 0.01),
        {"rows": _rows},
    ),
    _caption("tanh", 1),
    _caption("relu", 2),
    empirical(
        "001/fig-5.2:relu#corrected",
        equal(lambda i: case_of(kernel(i)), 3),
        {"figure": lambda rng, count: iter([{"phi": "relu", "rho": 0.0}])},
    ),
    _caption("exp", 3),
    _caption("gelu", 4),
)
