"""Answers about transformers checked by networks of finite width, drawn at random, on tokens that are exchangeable."""

from __future__ import annotations

import math
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from isometer.checks import seed_number, whole_number
from isometer.errors import IsometerError
from isometer.extras import need
from isometer.solvers._answer import Answer, Check
from isometer.spec import Attention, Spec, with_depth
from isometer.spec._steps import walk as every_step
from isometer.theory.transformers import token_path
from isometer.theory.transformers._growth import growth_logs

Floats = NDArray[np.float64]
TokenQuestion = Literal["critical", "entropy", "depth", "growth"]
"""The type of what an answer about tokens is about."""
_RUNS = 16
_NEAR = 0.02  # 1 − cosine of tokens that are nearly alike
_BIAS = 0.5  # of finite heads: so many times 1/heads + 1/head_width


def token_checked(
    answer: Answer, about: TokenQuestion, *, cosine: float = 0.0, runs: int = _RUNS, seed: int = 0
) -> Answer:
    """The answer with a check by simulation at the network's own width; as it is where there is no value to check.

    Args:
        answer: of a solver of tokens.
        about: what it requested.
        cosine: cosine of two tokens at the input.
        runs, seed: of the simulation.

    Example:
        >>> from isometer.solvers._tokens import depth_of_cosine
        >>> spec = Spec("gpt(width=96, heads=12, tokens=8, norm='post', causal=False)")
        >>> token_checked(depth_of_cosine(spec, 0.9), "depth", runs=4).check.runs
        4
    """
    need("torch", "a check by simulation")
    count, seeded = whole_number(runs, "runs", low=2, high=10_000, fix="pass the number of networks"), seed_number(seed)
    if answer.value is None or not math.isfinite(answer.value):
        return answer
    spec = Spec(answer.network)
    start = 1.0 - _NEAR if about == "critical" else cosine
    if about == "critical":
        spec = with_depth(spec, 1)
    path = token_path(spec, cosine=start, backward=about == "growth")
    blocks = len(path.rms) - 1
    if about == "growth":
        what, predicted = "the logarithm of the growth per rate", float(growth_logs(path)[0][0])
        drawn = _grown(spec, start, count, seeded)
    elif about == "entropy":
        layer = int(np.nanargmin(path.attention_entropy[:, 0]))
        what, predicted = f"the entropy of attention in layer {layer}", float(path.attention_entropy[layer, 0])
        drawn = _drawn(spec, start, "attention_entropy", count, seeded)[:, layer]
        blocks = 1
    else:
        what = f"the logarithm of 1 − cosine of tokens after {blocks} layers"
        predicted = math.log(max(float(path.token_gap[-1, 0]), 1e-300))
        drawn = np.log(np.maximum(1.0 - _drawn(spec, start, "token_cosine", count, seeded)[:, -1], 1e-300))
    mean, half = float(drawn.mean()), 1.96 * float(drawn.std(ddof=1)) / math.sqrt(count)
    slack = _BIAS * _heads(spec) * blocks
    return answer.checked(Check(what, predicted, mean, mean - half, mean + half, spec.shape.width, count, slack))


def exchangeable_tokens(spec: Spec, cosine: float, seed: int) -> Floats:
    """A sample `(1, width, T)` of tokens of mean square 1 whose pairs all have this very cosine.

    Example:
        >>> x = exchangeable_tokens(Spec("input(8, [3]) > attention(2)"), 0.25, 0)[0]
        >>> (x.T @ x / 8).round(12).tolist()[0]
        [1.0, 0.25, 0.25]
    """
    width, [tokens] = spec.shape.width, spec.shape.axes
    if width <= tokens or not 0.0 <= cosine <= 1.0:
        raise IsometerError(
            f"a check draws {tokens} tokens of cosine {cosine:g} in {width} features; expected more features than "
            "tokens and a cosine from 0 to 1"
        )
    rng = np.random.default_rng(seed)
    frame = np.linalg.qr(rng.standard_normal((width, tokens + 1)))[0] * math.sqrt(width)
    return np.asarray((math.sqrt(cosine) * frame[:, :1] + math.sqrt(1.0 - cosine) * frame[:, 1:])[None])


def _drawn(spec: Spec, cosine: float, metric: str, runs: int, seed: int) -> Floats:
    from isometer.simulate import simulate

    batch = exchangeable_tokens(spec, cosine, seed)
    return np.asarray(simulate(spec, batch, runs=runs, metrics=[metric], seed=seed)[metric].values)


def _grown(spec: Spec, cosine: float, runs: int, seed: int) -> Floats:
    """log Σ ‖∂(c·F)/∂W‖² per feature and token of the output, of networks that are built."""
    import torch

    from isometer.nn import build

    generator = torch.Generator().manual_seed(seed)
    logs = []
    for run in range(runs):
        network = build(spec, seed=seed + run, dtype=torch.float64)
        output = network(torch.as_tensor(exchangeable_tokens(spec, cosine, seed + run)))
        cotangent = torch.randn(output.shape, dtype=torch.float64, generator=generator)
        found = torch.autograd.grad((output * cotangent).sum(), list(network.parameters()))
        logs.append(math.log(sum(float(one.square().sum()) for one in found) / output.numel()))
    return np.array(logs)


def _heads(spec: Spec) -> float:
    """1/heads + 1/head_width of the coarsest attention."""
    sizes = [
        1.0 / step.heads + 1.0 / (step.head_width or max(spec.shape.width // step.heads, 1))
        for step in every_step(spec.composition)
        if isinstance(step, Attention)
    ]
    return max(sizes, default=1.0 / spec.shape.width)
