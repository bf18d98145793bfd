"""Answers checked by networks of finite width, drawn at random."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from isometer.checks import seed_number, whole_number
from isometer.extras import need
from isometer.solvers._answer import Answer, Check
from isometer.spec import Chain, Spec
from isometer.spec._weight_laws import weight_factor
from isometer.theory.chains import chain_kernels
from isometer.theory.prediction import predict

Floats = NDArray[np.float64]
_WIDTH, _RUNS, _SAMPLES, _DEPTH = 512, 16, 12, 30
_WEIGHTS = 40_000_000  # numbers of one network at most


def checked(
    answer: Answer,
    inputs: ArrayLike | None,
    gram: ArrayLike | None,
    kind: Literal["nngp", "ntk"] | None,
    *,
    width: int = _WIDTH,
    runs: int = _RUNS,
    seed: int = 0,
) -> Answer:
    """The answer with a check by simulation; as it is where there is no one value to check.

    Args:
        answer: to a question about a chain.
        inputs: the batch, of which at most 12 samples are used.
        gram: or its Gram matrix.
        kind: kind of the kernel, where the question was about one.
        width, runs, seed: of the simulation.

    Example:
        >>> from isometer import Spec, solve
        >>> found = solve("gain", Spec(width=8, depth=4, activation="tanh"), check=True, width=128, runs=4)
        >>> found.check.width
        128
    """
    need("torch", "a check by simulation")
    wide = whole_number(width, "width", low=8, high=100_000, fix="pass the features of a layer")
    count = whole_number(runs, "runs", low=2, high=10_000, fix="pass the number of networks")
    if answer.value is None or not math.isfinite(answer.value) or answer.value == 0:
        return answer
    spec, seeded = Spec(answer.network), seed_number(seed)
    metric = "mean_cosine" if "cosines" in answer.question or kind is not None else "gradient_log_norm"
    if not isinstance(spec, Chain):  # its widths are its own
        batch = _batch(inputs, gram, spec.shape.width)
        return answer.checked(_trajectory(spec, batch, metric, count, seeded))
    depth = spec.layers if answer.unknown == "depth" else min(spec.layers, _DEPTH)
    wide = min(wide, max(8, math.isqrt(_WEIGHTS // depth)))
    batch = _batch(inputs, gram, wide)
    if kind is not None:
        return answer.checked(_extrapolated(lambda own: _condition(spec, batch, kind, own, count, seeded), wide))
    deep = spec.replace(depth=depth)
    if spec.has_skip:  # which keeps the number of features
        network = deep.replace(width=batch.shape[1], input_width=batch.shape[1])
        return answer.checked(_trajectory(network, batch, metric, count, seeded))

    def drawn(own: int) -> Check:
        return _trajectory(deep.replace(width=own, input_width=batch.shape[1]), batch, metric, count, seeded)

    return answer.checked(_extrapolated(drawn, wide))


def _extrapolated(drawn: Callable[[int], Check], width: int) -> Check:
    """A check at this width; where it does not agree, what half the width adds says how much this one does.

    Departures of the order 1/width are twice as large at half the width, so that the step between the two is what is
    left at this width. That counts only where the step leads toward theory.
    """
    found = drawn(width)
    if found.agrees or width < 16:
        return found
    half = drawn(width // 2)
    left, before = (abs(one.simulated - one.predicted) for one in (found, half))
    return replace(found, slack=max(found.slack, before - left))


def checked_curve(answer: Answer, inputs: ArrayLike | None, gram: ArrayLike | None, **checking: Any) -> Answer:
    """A curve with a check of every point; the answer has the check that is furthest from theory.

    Example:
        >>> from isometer import Spec, solve
        >>> spec = Spec(width=8, depth=4, activation="tanh")
        >>> found = solve("gain", spec, along={"bias_variance": [0.1, 0.2]}, check=True, width=64, runs=4)
        >>> found.check.quantity[-26:]
        '(the furthest of 2 points)'
    """
    found: list[Check] = []
    for network in answer.networks:
        point = replace(answer, network=network, value=1.0)
        own = checked(point, inputs, gram, None, **checking).check
        found.extend([] if own is None else [own])
    if not found:
        return answer
    worst = max(found, key=lambda one: one.departure)
    return answer.checked(replace(worst, quantity=f"{worst.quantity} (the furthest of {len(found)} points)"))


def _batch(inputs: ArrayLike | None, gram: ArrayLike | None, width: int) -> Floats:
    """A few samples; those of a Gram matrix get features that have it exactly."""
    if inputs is not None:
        return np.asarray(inputs, dtype=float)[:_SAMPLES]
    matrix = np.array([[1.0, 0.5], [0.5, 1.0]]) if gram is None else np.asarray(gram, dtype=float)
    matrix = matrix[:_SAMPLES, :_SAMPLES]
    values, vectors = np.linalg.eigh(matrix)
    root = vectors * np.sqrt(np.clip(values, 0.0, None))
    frame = np.linalg.qr(np.random.default_rng(0).standard_normal((width, len(matrix))))[0]
    return np.asarray(root @ frame.T * math.sqrt(width))


def _trajectory(network: Spec, batch: Floats, metric: str, runs: int, seed: int) -> Check:
    """A metric at the last layer, or the gradient at the input, against theory for the very same batch."""
    from isometer.simulate import simulate

    shapes = [shape.width for _, shape in network.executed_layers()]
    depth, width = len(shapes), min(shapes)
    at = 0 if metric == "gradient_log_norm" else depth
    drawn = simulate(network, batch, runs=runs, metrics=[metric], seed=seed)[metric].values[:, at]
    expected = float(predict(network, batch, metrics=[metric])[metric].values[0, at])
    what, slack = f"the mean cosine after {depth} layers", 2.0 * depth / width
    if metric == "gradient_log_norm":
        size = 0.5 * math.log(len(batch) * shapes[-1])
        drawn, expected = (drawn - size) / math.log(10), (expected - size) / math.log(10)
        what = f"log₁₀ of the gradient at the input over that at the output of {depth} layers"
    mean, half = float(drawn.mean()), 1.96 * float(drawn.std(ddof=1)) / math.sqrt(runs)
    return Check(what, expected, mean, mean - half, mean + half, width, runs, slack)


def _condition(spec: Chain, batch: Floats, kind: Literal["nngp", "ntk"], width: int, runs: int, seed: int) -> Check:
    """The condition number of a few samples, of kernels averaged over networks; its interval by the jackknife."""
    features = batch.shape[1]
    network = spec.replace(width=width, input_width=width if spec.has_skip else features)
    predicted = chain_kernels(network, batch, kinds=(kind,)).matrices[kind].condition_number
    drawn = np.stack([_drawn_kernel(network, batch, kind, seed + run) for run in range(runs)])
    logs = [math.log(_conditioned(np.delete(drawn, run, axis=0).mean(axis=0))) for run in range(runs)]
    whole = math.log(_conditioned(drawn.mean(axis=0)))
    half = 1.96 * math.sqrt((runs - 1) * float(np.var(logs)))
    # averaging so many features spreads eigenvalues by about √(samples/features), and depth adds its share
    slack = 2.0 * predicted * (math.sqrt(len(batch) / (runs * width)) + spec.layers / width)
    what = f"the condition number of the {kind.upper()} of {len(batch)} of the samples at depth {spec.layers}"
    return Check(what, predicted, math.exp(whole), math.exp(whole - half), math.exp(whole + half), width, runs, slack)


def _conditioned(matrix: Floats) -> float:
    values = np.linalg.eigvalsh(matrix)
    return float(values[-1] / max(values[0], 1e-15 * values[-1]))


def _drawn_kernel(spec: Chain, batch: Floats, kind: str, seed: int) -> Floats:
    """The kernel of one network with a linear readout, all weights as multiples of standard normal ones."""
    import torch

    from isometer.nn import build

    readin = batch.shape[1] if spec.has_skip else None
    model = build(spec, classes=1, inputs=readin, seed=seed, dtype=torch.float64)
    x = torch.as_tensor(batch)
    if kind == "nngp":
        with torch.no_grad():
            kept: list[Any] = []
            handle = model.layers[-1].register_forward_hook(lambda *given: kept.append(given[-1]))
            model(x)
            handle.remove()
            return np.asarray((kept[0] @ kept[0].T / spec.widths[-1]).numpy())
    total = np.zeros((len(batch), len(batch)))
    outputs = model(x)[:, 0]
    sizes = _variances(spec, batch.shape[1])
    parameters = {name: one for name, one in model.named_parameters() if name != "readout.bias"}
    rows: dict[str, list[Any]] = {name: [] for name in parameters}
    for output in outputs:
        found = torch.autograd.grad(output, list(parameters.values()), retain_graph=True)
        for name, gradient in zip(parameters, found, strict=True):
            rows[name].append(gradient.flatten())
    for name, gradients in rows.items():
        matrix = torch.stack(gradients)
        total += sizes(name) * (matrix @ matrix.T).numpy()
    return total


def _variances(spec: Chain, features: int) -> Any:
    """The variance of a parameter by its name."""

    def variance(name: str) -> float:
        if name == "readin.weight":
            return 1.0 / features
        if name == "readout.weight":
            return 1.0 / spec.widths[-1]
        if name.endswith("bias"):
            return spec.bias_variance
        return weight_factor(spec, int(name.split(".")[1]) + 1) ** 2

    return variance
