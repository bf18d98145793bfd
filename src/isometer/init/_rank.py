"""Rank-increasing pre-training: gradient ascent on the stable rank, layer by layer."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import torch
from torch import nn

from isometer.errors import IsometerError
from isometer.init._iterative import visit
from isometer.init._outcome import InitOutcome, LayerOutcome
from isometer.init._targets import WeightTarget, finite, targets
from isometer.metrics import stable_rank

Tensor = torch.Tensor


def rank_pretraining_(
    model: nn.Module,
    batch: Any,
    *,
    steps: int = 25,
    batch_size: int = 32,
    learning_rate: float = 0.1,
    plain: bool = False,
    seed: int = 0,
    layers: Sequence[str] | str | None = None,
) -> InitOutcome:
    """Raise the stable rank `r(H) = (tr M)²/‖M‖_F²` of each layer's output by stochastic gradient ascent.

    Layers are treated in the order of execution: `steps` steps on random minibatches of what reaches the layer, the
    layers before it already done, then the batch goes on. One run of the model feeds all of them. The paper does not
    say how large a step is; here it is `learning_rate` of the norm of the weights in the direction of the gradient at
    first and falls linearly to zero, and the weights keep their norm, on which r does not depend. With `plain`, every
    step is `learning_rate` times the gradient, and norms may change. The bias of a layer is set to zero: it adds the
    same vector to every sample, and lowers r.

    Args:
        model: the model, run once in the mode it is in; buffers and generators are left as they were.
        batch: what the model is called with, as many samples as there are to learn from.
        steps: K of the paper, 25 or 75 there; 0 only measures.
        batch_size: samples of a minibatch.
        learning_rate: length of the first step relative to the weights; with `plain`, the factor of the gradient.
        plain: stochastic gradient ascent as it stands, W ← W + `learning_rate` ∇r.
        seed: seed of the minibatches, and of the generators while the model runs.
        layers: patterns of module names to which the model is restricted.

    Returns:
        What was done; for each layer `rank_before` and `rank_after`, r of its output on the whole batch with the
        weights that were there and with the new ones, the layers before it already treated.

    Raises:
        IsometerError: the batch has fewer than two samples, a layer is used twice, or as `haar_orthogonal_`. The model
            is then as it was.

    Example:
        >>> model = nn.Sequential(*[part for _ in range(10) for part in (nn.Linear(16, 16), nn.ReLU())])
        >>> before = rank_pretraining_(model, torch.randn(64, 16), steps=0).layers[-1].numbers["rank_after"]
        >>> after = rank_pretraining_(model, torch.randn(64, 16), steps=25).layers[-1].numbers["rank_after"]
        >>> before < 3 < after
        True

    Implements: 002/alg-rank-pretrain.
    """
    if not isinstance(model, nn.Module):
        raise IsometerError(f"model is a {type(model).__name__}; expected a torch.nn.Module — pass one")
    for value, name, least in ((steps, "steps", 0), (batch_size, "batch_size", 2)):
        if isinstance(value, bool) or not isinstance(value, int) or value < least:
            raise IsometerError(f"{name} is {value!r}; expected a whole number of at least {least} — pass one")
    finite(learning_rate, "learning_rate")
    found, skipped = targets(model, layers)
    reached: dict[str, LayerOutcome] = {}

    def prepare(index: int, t: WeightTarget) -> Callable[..., None]:
        rng = np.random.default_rng(np.random.SeedSequence(seed, spawn_key=(index,)))

        def before(module: nn.Module, inputs: tuple[Tensor, ...]) -> None:
            if t.name in reached:
                raise IsometerError(
                    f"layer {t.name!r} runs more than once; expected one input to train it on — "
                    "leave it out with layers=[…]"
                )
            reached[t.name] = _ascend(t, inputs[0].detach(), steps, batch_size, learning_rate, rng, plain=plain)

        return before

    visit(model, batch, found, prepare, seed)
    missed = tuple((t.name, "the batch does not reach it") for t in found if t.name not in reached)
    return InitOutcome("rank-pretraining", tuple(reached.values()), (*skipped, *missed))


def _ascend(
    t: WeightTarget,
    inputs: Tensor,
    steps: int,
    batch_size: int,
    learning_rate: float,
    rng: np.random.Generator,
    *,
    plain: bool,
) -> LayerOutcome:
    module, samples = t.module, inputs.shape[0]
    assert module is not None
    if samples < 2:
        raise IsometerError(f"layer {t.name!r} sees {samples} sample; a rank needs at least 2 — pass a larger batch")
    before = _rank(module, t.weight, t.bias, inputs)
    if steps and t.bias is not None:
        t.bias.zero_()
    norm = float(t.weight.double().norm())
    weight = t.weight.detach().clone()
    for step in range(steps):
        chosen = torch.as_tensor(rng.choice(samples, min(batch_size, samples), replace=False), device=inputs.device)
        gradient = _gradient(module, weight, t.bias, inputs[chosen])
        length = float(gradient.norm())
        if not (length > 0 and math.isfinite(length)):  # a rank that cannot change, such as that of zeros
            continue
        if plain:
            weight += learning_rate * gradient
            continue
        weight += gradient * (learning_rate * (1 - step / steps) * norm / length)
        weight *= norm / float(weight.norm())
    t.write(weight)
    return t.outcome(rank_before=before, rank_after=_rank(module, weight, t.bias, inputs))


def _gradient(module: nn.Module, weight: Tensor, bias: Tensor | None, inputs: Tensor) -> Tensor:
    with torch.enable_grad():
        variable = weight.detach().clone().requires_grad_()
        value = stable_rank(_output(module, variable, bias, inputs))
        (gradient,) = torch.autograd.grad(value, variable)
    return gradient


def _rank(module: nn.Module, weight: Tensor, bias: Tensor | None, inputs: Tensor) -> float:
    return float(stable_rank(_output(module, weight, bias, inputs).double()))


def _output(module: nn.Module, weight: Tensor, bias: Tensor | None, inputs: Tensor) -> Tensor:
    """What a layer makes of a batch with other weights, `(samples, features)`."""
    parameters = {"weight": weight} if bias is None else {"weight": weight, "bias": bias}
    hooks = module._forward_pre_hooks.copy()
    module._forward_pre_hooks.clear()  # this very function runs in one of them
    try:
        output: Tensor = torch.func.functional_call(module, parameters, (inputs,))
    finally:
        module._forward_pre_hooks.update(hooks)
    return output.flatten(1)
