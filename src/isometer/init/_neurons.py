"""One neuron per sample: a layer whose ReLU fires for one sample of a small data set each."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from scipy.optimize import linprog
from torch import nn

from isometer.errors import IsometerError
from isometer.init._iterative import visit
from isometer.init._outcome import InitOutcome, LayerOutcome
from isometer.init._targets import WeightTarget, finite, targets

Floats = NDArray[np.float64]


def one_neuron_per_sample_(layer: Any, batch: Any, *, margin: float = 0.5) -> InitOutcome:
    """Set weights and biases such that after a ReLU each neuron responds to one sample of the batch and to no other.

    Neuron i has a direction a with `a·x_i > a·x_j` for all other samples j: the sample itself, the sample with the mean
    or the whole covariance taken out, or the solution of a linear program, which exists if the sample is not in the
    convex hull of the others. The bias puts the threshold `margin` of the way from the runner-up to x_i, and the scale
    is such that the responses of all neurons to a sample have norm 1. Neurons beyond the number of samples repeat them
    in turn. The representation of the batch is orthogonal: H Hᵀ = I.

    Args:
        layer: a linear layer with a bias and at least as many outputs as there are samples.
        batch: what the layer sees, `(samples, features)`.
        margin: from 0 to 1, both excluded.

    Returns:
        What was done; `gap` is the smallest distance of a sample to its runner-up in units of |a|, `solved` how many
        directions took a linear program.

    Raises:
        IsometerError: no bias, more samples than neurons, equal samples, a sample within the convex hull of the others,
            or as `haar_orthogonal_`. The layer is then as it was.

    Example:
        >>> layer = nn.Linear(3, 5).double()
        >>> batch = torch.eye(3, dtype=torch.float64) + 1
        >>> _ = one_neuron_per_sample_(layer, batch)
        >>> hidden = torch.relu(layer(batch)).detach()
        >>> torch.allclose(hidden @ hidden.T, torch.eye(3, dtype=torch.float64))
        True

    Implements: 000/init-one-neuron-per-sample.
    """
    margin = finite(margin, "margin")
    if not margin < 1:
        raise IsometerError(f"margin is {margin!r}; expected a number between 0 and 1 — pass 0.5")
    bias = getattr(layer, "bias", None)
    if not isinstance(layer, nn.Linear) or bias is None:
        raise IsometerError(
            f"layer is a {type(layer).__name__}{' without a bias' if bias is None else ''}; expected nn.Linear with a "
            "bias, which sets the thresholds — pass one"
        )
    (target,), _ = targets(layer)
    x = np.asarray(torch.as_tensor(batch).detach().cpu().double())
    if x.ndim != 2 or x.shape[1] != layer.in_features or not np.isfinite(x).all():
        raise IsometerError(
            f"batch has shape {x.shape}; expected finite numbers (samples, {layer.in_features}) "
            "— pass what the layer sees"
        )
    samples, neurons = len(x), layer.out_features
    if samples > neurons:
        raise IsometerError(
            f"batch has {samples} samples for {neurons} neurons; expected at most as many — pass fewer or a wider layer"
        )
    directions, gaps, solved = _directions(x)
    owner = np.arange(neurons) % samples
    copies = np.bincount(owner, minlength=samples)
    answers = np.einsum("ik,ik->i", directions, x)
    # each copy answers (1 − margin) · gap · scale = 1/√copies, so that their squares add up to 1
    scale = 1 / ((1 - margin) * gaps * np.sqrt(copies))
    weight = (directions * scale[:, None])[owner]
    thresholds = ((answers - (1 - margin) * gaps) * scale)[owner]
    with torch.no_grad():
        target.write(torch.as_tensor(weight))
        bias.copy_(torch.as_tensor(-thresholds))
    return InitOutcome("one-neuron-per-sample", (target.outcome(gap=float(gaps.min()), solved=float(solved)),))


def dedicate_neurons_(
    model: Any, batch: Any, *, margin: float = 0.5, seed: int = 0, layers: Sequence[str] | str | None = None
) -> InitOutcome:
    """`one_neuron_per_sample_` for every linear layer of a ReLU network that is wide enough, in the order of execution.

    Each layer is set for the input that reaches it, after the layers before it are set: after every ReLU the batch is
    orthogonal and has length 1. Layers with fewer outputs than there are samples, such as the readout, keep their
    weights. Meant for data sets as small as the layers are wide.

    Args:
        model: the model, run once in the mode it is in; buffers and generators are left as they were.
        batch: what the model is called with: the whole training set.
        margin: see `one_neuron_per_sample_`.
        seed: seed of the generators while the model runs.
        layers: patterns of module names to which the model is restricted.

    Returns:
        What was done, by layer.

    Raises:
        IsometerError: no layer has a bias and as many outputs as there are samples, a layer is used twice, samples that
            no hyperplane separates, or as `haar_orthogonal_`. The model is then as it was.

    Example:
        >>> model = nn.Sequential(nn.Linear(6, 12), nn.ReLU(), nn.Linear(12, 12), nn.ReLU(), nn.Linear(12, 2))
        >>> batch = torch.randn(8, 6)
        >>> [one.name for one in dedicate_neurons_(model, batch).layers]
        ['0', '2']
        >>> hidden = model[:-1](batch)
        >>> torch.allclose(hidden @ hidden.T, torch.eye(8), atol=1e-4)
        True

    Implements: 000/init-one-neuron-per-sample.
    """
    if not isinstance(model, nn.Module):
        raise IsometerError(f"model is a {type(model).__name__}; expected a torch.nn.Module — pass one")
    found, skipped = targets(model, layers)
    dense = [t for t in found if isinstance(t.module, nn.Linear) and t.bias is not None]
    reached: dict[str, LayerOutcome | None] = {}

    def prepare(_: int, t: WeightTarget) -> Callable[..., None]:
        def before(module: nn.Module, inputs: tuple[torch.Tensor, ...]) -> None:
            if t.name in reached:
                raise IsometerError(
                    f"layer {t.name!r} runs more than once; expected one input to set it on — "
                    "leave it out with layers=[…]"
                )
            assert isinstance(module, nn.Linear)
            seen = inputs[0].detach()
            reached[t.name] = None
            if seen.dim() == 2 and len(seen) <= module.out_features:
                numbers = one_neuron_per_sample_(module, seen, margin=margin).layers[0].numbers
                reached[t.name] = t.outcome(**numbers)

        return before

    visit(model, batch, dense, prepare, seed)
    done = tuple(one for one in reached.values() if one is not None)
    if not done:
        raise IsometerError(
            "no linear layer has a bias and at least as many outputs as the batch has samples; expected one — pass "
            "fewer samples or a wider model"
        )
    narrow = tuple((name, "fewer outputs than samples") for name, one in reached.items() if one is None)
    return InitOutcome("one-neuron-per-sample", done, (*skipped, *narrow))


def _directions(x: Floats) -> tuple[Floats, Floats, int]:
    """Unit directions, by how much each sample leads along its own, and how many came from a linear program."""
    samples = len(x)
    if samples == 1:
        # no other sample to separate from: any direction and any gap will do
        size = float(np.linalg.norm(x))
        direction = x / size if size > 0 else np.eye(1, x.shape[1])
        return direction, np.array([max(size, 1.0)]), 0
    centred = x - x.mean(axis=0)
    noise = 64 * np.finfo(np.float64).eps * max(1.0, float(np.abs(x).max()))
    # directions that cost one product; a linear program for each sample is the last resort
    candidates = [x, centred, centred @ np.linalg.pinv(centred.T @ centred, rcond=1e-10, hermitian=True)]
    best, gaps = np.zeros_like(x), np.full(samples, -math.inf)
    for candidate in candidates:
        lengths = np.linalg.norm(candidate, axis=1, keepdims=True)
        unit = np.divide(candidate, lengths, out=np.zeros_like(candidate), where=lengths > 0)
        lead = _lead(unit, x)
        better = lead > gaps
        best[better], gaps[better] = unit[better], lead[better]
    solved = 0
    for i in np.flatnonzero(gaps <= noise):
        direction = _separate(x, int(i))
        lead_i = float(_lead(direction[None], x, np.array([i]))[0])
        if lead_i <= noise:
            twin = next((int(j) for j in range(samples) if j != i and np.array_equal(x[i], x[j])), None)
            why = f"equals sample {twin}" if twin is not None else "lies within the convex hull of the others"
            raise IsometerError(
                f"sample {int(i)} {why}; expected one that a hyperplane separates — drop it, or append features"
            )
        best[i], gaps[i], solved = direction, lead_i, solved + 1
    return best, gaps, solved


def _lead(directions: Floats, x: Floats, own: NDArray[np.int64] | None = None) -> Floats:
    """By how much a sample is ahead of the next along its direction."""
    scores = directions @ x.T
    index = np.arange(len(directions))
    own = index if own is None else own
    mine = scores[index, own].copy()
    scores[index, own] = -math.inf
    lead: Floats = mine - scores.max(axis=1)
    return lead


def _separate(x: Floats, i: int) -> Floats:
    """The direction along which sample i leads the most, by a linear program in a box; unit length, or zeros."""
    others = np.delete(x, i, axis=0) - x[i]
    features = x.shape[1]
    constraints = np.hstack([others, np.ones((len(others), 1))])  # a·(x_j − x_i) + t ≤ 0
    # the lead t grows with a: without the box it is unbounded
    bounds = [(-1.0, 1.0)] * features + [(0.0, None)]
    found = linprog(np.append(np.zeros(features), -1.0), A_ub=constraints, b_ub=np.zeros(len(others)), bounds=bounds)
    direction: Floats = np.asarray(found.x[:features] if found.success else np.zeros(features))
    length = float(np.linalg.norm(direction))
    return direction / length if length > 0 else direction
