"""Independent weights of a chosen variance: the principled gain, asymmetric weights, the theorems of paper 000."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any, Literal

import torch
from torch import nn

from isometer.activations import Activation, activation
from isometer.errors import IsometerError
from isometer.init._orthogonal import haar_matrices
from isometer.init._outcome import InitOutcome
from isometer.init._targets import WeightTarget, all_or_nothing, finite, normals, targets, uniforms, unwrapped

Tensor = torch.Tensor
Law = Literal["gaussian", "uniform", "orthogonal", "keep"]


def principled_gain_(
    target: Any,
    batch: Any = None,
    *,
    activation: Any = None,
    law: Law = "gaussian",
    seed: int = 0,
    layers: Sequence[str] | str | None = None,
) -> InitOutcome:
    """Set weights to the gain `1/√(E φ(z)²)` of the activation φ that follows them, 1 where none does.

    The variance of an entry is gain²/fan_in, so that the second moment is kept through layer and activation. Layers
    whose output a normalisation rescales before φ are set as well, which does no harm.

    Args:
        target: a weight tensor or a layer, with `activation`; or a model, with `batch` or `activation`.
        batch: what a model is called with; the run shows which activation follows which weights, and in which order.
        activation: φ for all layers, anything `isometer.activation` takes, instead of looking.
        law: `"gaussian"`, `"uniform"`, `"orthogonal"` (gain times a Haar matrix), or `"keep"` to rescale the weights
            that are there.
        seed: seed of the draw.
        layers: patterns of module names to which a model is restricted.

    Returns:
        What was done; `principled` is the requested gain.

    Raises:
        IsometerError: neither or both of batch and activation are given, no activation follows any weights, one is not
            known, its gain is infinite, or as `haar_orthogonal_`.

    Example:
        >>> model = nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Linear(16, 16), nn.Tanh(), nn.Linear(16, 3))
        >>> outcome = principled_gain_(model, torch.randn(4, 8), law="orthogonal")
        >>> [round(layer.numbers["principled"], 4) for layer in outcome.layers]
        [1.4142, 1.5925, 1.0]

    Implements: 001/act-gain, 000/init-he.
    """
    if law not in ("gaussian", "uniform", "orthogonal", "keep"):
        raise IsometerError(f"law is {law!r}; expected gaussian, uniform, orthogonal or keep — pass one of them")
    if (batch is None) == (activation is None):
        raise IsometerError(
            "expected either a batch, whose run shows which activation follows which weights, or an activation — pass "
            "principled_gain_(model, batch) or principled_gain_(layer, activation='relu')"
        )
    if batch is None:
        gain = _gain(_resolved(activation), "the activation given")
        found, skipped = targets(target, layers)
        gains: Mapping[str, float] = {t.name: gain for t in found}
    else:
        gains, order = _gains_in_order(target, batch)
        found, skipped = targets(target, layers, order=order)
    bad = [t.name for t in found if math.isnan(gains[t.name])]
    if bad:
        raise IsometerError(
            f"the activation after {bad[0]!r} is not in the registry; expected a known one — pass activation=…, "
            "anything isometer.activation takes"
        )
    with all_or_nothing(found):
        for index, t in enumerate(found):
            t.write(gains[t.name] * _unit(t, law, seed, index))
        return InitOutcome(
            f"principled-gain ({law})", tuple(t.outcome(principled=gains[t.name]) for t in found), skipped
        )


def asymmetric_(
    target: Any, *, gain: float = 1.0, seed: int = 0, layers: Sequence[str] | str | None = None
) -> InitOutcome:
    """Draw weights from U(0, 2 gain/√fan_in): torch's default variance with a mean that collapses ranks.

    It breaks networks on purpose, also those with batch norm.

    Args:
        target: a weight tensor, a linear layer or convolution, or a model, all of whose layers are set.
        gain: factor.
        seed: seed of the draw.
        layers: patterns of module names to which a model is restricted.

    Returns:
        What was done.

    Raises:
        IsometerError: as `haar_orthogonal_`.

    Example:
        >>> weight = torch.empty(50, 100)
        >>> _ = asymmetric_(weight)
        >>> bool(weight.min() >= 0), bool(weight.max() <= 0.2)
        (True, True)

    Implements: 002/init-asym.
    """
    factor = 2 * finite(gain, "gain")
    found, skipped = targets(target, layers)
    for index, t in enumerate(found):
        t.write(uniforms(t.matrices, seed, index) * (factor / math.sqrt(t.fan_in)))
    return InitOutcome("asymmetric", tuple(t.outcome() for t in found), skipped)


def invariance_variance(samples: int, width: int) -> float:
    """σ² = 2α/d, α = n²/(n² − 2n + 2): one odd point and a cluster keep their shape through recentring and ReLU.

    Args:
        samples: n, at least 2.
        width: d, the outputs of the layer.

    Example:
        >>> invariance_variance(2, 4)
        1.0

    Implements: 000/init-thm13.
    """
    n = _samples(samples)
    return 2 * n**2 / (n**2 - 2 * n + 2) / width


def stability_variance(samples: int, radius: float, width: int) -> float:
    """σ² = 2α/d, α = n²/((n − 1)² R²): the same from an odd point at distance R > n/(n − 1) of the cluster.

    Args:
        samples: n, at least 2.
        radius: R.
        width: d, the outputs of the layer.

    Example:
        >>> stability_variance(3, 3.0, 2)
        0.25

    Implements: 000/init-thm14.
    """
    n, radius = _samples(samples), finite(radius, "radius")
    if not radius > n / (n - 1):
        raise IsometerError(
            f"radius is {radius:g}; expected more than n/(n − 1) = {n / (n - 1):g}, as 000/thm-14 assumes — use "
            "invariance_variance for the invariant representation itself"
        )
    return 2 * n**2 / ((n - 1) ** 2 * radius**2) / width


def odd_point_(
    target: Any,
    *,
    samples: int,
    radius: float | None = None,
    seed: int = 0,
    layers: Sequence[str] | str | None = None,
) -> InitOutcome:
    """Draw Gaussian weights with the variance of 000/thm-13, or of 000/thm-14 if a radius is given.

    With recentring over the batch and ReLU after them, such weights keep one odd point and a cluster of the others at
    their lengths, in expectation. d is the number of rows of the weights.

    Args:
        target: a weight tensor, a linear layer or convolution, or a model, all of whose layers are set.
        samples: n, samples of a batch.
        radius: R, distance of the odd point from the cluster.
        seed: seed of the draw.
        layers: patterns of module names to which a model is restricted.

    Returns:
        What was done; `variance` is σ².

    Raises:
        IsometerError: n or R is out of range, or as `haar_orthogonal_`.

    Example:
        >>> odd_point_(torch.empty(200, 100), samples=10).layers[0].numbers["variance"]
        0.012195121951219513

    Implements: 000/init-thm13, 000/init-thm14.
    """
    found, skipped = targets(target, layers)
    rows = [int(t.weight.shape[0]) for t in found]
    if radius is None:
        variances = [invariance_variance(samples, width) for width in rows]
    else:
        variances = [stability_variance(samples, radius, width) for width in rows]
    for index, (t, variance) in enumerate(zip(found, variances, strict=True)):
        t.write(math.sqrt(variance) * normals(t.matrices, seed, index))
    scheme = "odd point, invariance" if radius is None else "odd point, stability"
    outcomes = (t.outcome(variance=variance) for t, variance in zip(found, variances, strict=True))
    return InitOutcome(scheme, tuple(outcomes), skipped)


def _unit(t: WeightTarget, law: Law, seed: int, index: int) -> Tensor:
    """Weights of gain 1."""
    if law == "orthogonal":
        return haar_matrices(*t.matrices[1:], seed, index, t.groups)
    if law == "keep":
        there = t.weight.detach().double()
        size = float(there.square().mean().sqrt()) * math.sqrt(t.fan_in)
        if not (size > 0 and math.isfinite(size)):
            raise IsometerError(
                f"the weights of {t.name or 'the tensor'!r} are {'zero' if size == 0 else 'not finite'}; expected "
                "something to rescale — pass law='gaussian'"
            )
        return there / size
    if law == "uniform":
        return (2 * uniforms(t.matrices, seed, index) - 1) * math.sqrt(3 / t.fan_in)  # U(−1, 1) has variance 1/3
    return normals(t.matrices, seed, index) / math.sqrt(t.fan_in)


def _gains_in_order(model: Any, batch: Any) -> tuple[dict[str, float], list[str]]:
    """The gain of each weight layer by module name, and the names in order of execution."""
    if not isinstance(model, nn.Module):
        raise IsometerError(
            f"target is a {type(model).__name__}; expected a model beside a batch — pass activation=… instead"
        )
    targets(model)  # what cannot be set is said before the model is run
    from isometer.doctor import probe

    sites = probe(model, batch).sites
    modules = dict(unwrapped(model).named_modules())
    gains: dict[str, float] = {}
    followed = False
    for index, site in enumerate(sites):
        if site.kind != "weight" or site.name in gains:
            continue
        if site.followed and site.activation is not None:
            followed, gains[site.name] = True, _gain(activation(site.activation), site.activation)
            continue
        gains[site.name] = 1.0
        for after in sites[index + 1 :]:
            if after.kind == "activation":
                followed = True
                gains[site.name] = _gain_of_site(after.activation, modules.get(after.name))
            # these may stand between weights and their activation; anything else ends the search
            if after.kind not in ("norm", "dropout", "pool"):
                break
    if not followed:
        raise IsometerError(
            "no activation follows any weights of the model; expected one — there is no gain to choose: use "
            "haar_orthogonal_ for a linear network, or pass activation=…"
        )
    return gains, list(gains)


def _gain_of_site(text: str | None, module: nn.Module | None) -> float:
    if text is not None:
        return _gain(activation(text), text)
    known = getattr(module, "activation", None)
    if isinstance(known, Activation):  # isometer.nn.Activation
        return _gain(known, known.name)
    return math.nan  # an error only if the layer is one of those to set


def _gain(phi: Activation, name: str) -> float:
    gain = phi.gain_forward
    if not math.isfinite(gain):
        raise IsometerError(f"{name} is zero almost everywhere; expected an activation with nonzero outputs")
    return gain


def _resolved(source: Any) -> Activation:
    # called where a parameter hides the name `activation`
    return activation(source)


def _samples(samples: int) -> int:
    if isinstance(samples, bool) or not isinstance(samples, int) or samples < 2:
        raise IsometerError(f"samples is {samples!r}; expected a whole number of at least 2 — pass the batch size")
    return samples
