"""Which specs the theory of infinite width covers, and the nearest covered one of those it does not."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from isometer.activations._closed_forms import as_two_rays
from isometer.errors import IsometerError
from isometer.spec import Chain, Spec
from isometer.theory.networks._coverage import uncovered_step


class Coverage(NamedTuple):
    """Why theory does not cover a spec, and the nearest spec that it covers; both None if it does."""

    reason: str | None
    nearest: Chain | None

    @property
    def is_covered(self) -> bool:
        """Whether there is a prediction."""
        return self.reason is None


def coverage(spec: Spec, samples: int | None = None, *, backward: bool = False) -> Coverage:
    """Whether theory predicts a spec: what leaves the weights must be Gaussian, and independent given the batch.

    Args:
        spec: the network.
        samples: batch size, where it is known: small batches have infinite moments under batch norm.
        backward: gradients are needed too.

    Returns:
        A `Coverage`.

    Example:
        >>> coverage(Spec(width=8, depth=2, norm="batch")).is_covered
        True
        >>> found = coverage(Spec(width=8, depth=2, weights="asymmetric"))
        >>> found.reason, found.nearest.weights
        ('weights of the law asymmetric have a mean, and theory takes them as centred', 'uniform')
    """
    if not isinstance(spec, Chain):
        problem = uncovered_step(spec, samples, backward=backward)
        return Coverage(None if problem is None else f"{problem.step}: {problem.reason}", None)
    for check in (_weights, _norm, _skip):
        found = check(spec)
        if found is not None:
            return found
    small = _small_batch(spec, samples, backward)
    return Coverage(None, None) if small is None else small


def check_covered(spec: Spec, samples: int | None = None, *, backward: bool = False) -> None:
    """Raise an error with the assumption that fails and the nearest covered spec.

    Example:
        >>> check_covered(Spec(width=8, depth=2, norm="whiten"))
        Traceback (most recent call last):
        ...
        isometer.errors.IsometerError: no theory covers this network: whitening ties the features ...
    """
    reason, nearest = coverage(spec, samples, backward=backward)
    if reason is None:
        return
    hint = "simulate it instead"
    if nearest is not None:
        changes = [
            f"{name}={getattr(nearest, name)!r}"
            for name in ("weights", "norm", "order", "residual")
            if getattr(nearest, name) != getattr(spec, name)
        ]
        hint = f"the nearest covered network has {', '.join(changes)}"
    raise IsometerError(f"no theory covers this network: {reason} — {hint}")


def _weights(spec: Chain) -> Coverage | None:
    if spec.weights == "asymmetric":
        reason = "weights of the law asymmetric have a mean, and theory takes them as centred"
        return Coverage(reason, _nearest(spec, weights="uniform"))
    if spec.weights == "orthogonalized-xavier" and len({spec.input_width, *spec.widths}) > 1:
        reason = "the mean singular value of a Xavier matrix is known here for square ones only"
        return Coverage(reason, _nearest(spec, weights="orthogonal"))
    return None


def _norm(spec: Chain) -> Coverage | None:
    norm = spec.norm
    if norm is None or norm.over != "batch":
        return None
    if norm.whiten:
        return Coverage("whitening ties the features of a layer to each other", _nearest(spec, norm="batch"))
    keeps_mean = norm.rescale and not norm.recenter and norm.divisor == "std"
    if keeps_mean and not spec.is_linear and activation_first(spec):
        reason = (
            "the mean over the deviation of activations, which this norm keeps, has no second moment or too heavy a "
            "tail to be sampled"
        )
        return Coverage(reason, _nearest(spec, norm="batch"))
    return None


def activation_first(spec: Chain) -> bool:
    """Whether the activation comes between the weights and the norm that follows them, around the layer's end."""
    steps = [step for step in spec.steps if step != "residual"]
    start = steps.index("weights")
    turned = [*steps[start:], *steps[:start]]
    return turned.index("activation") < turned.index("norm")


def _skip(spec: Chain) -> Coverage | None:
    if not spec.has_skip:
        return None
    weights, residual = spec.steps.index("weights"), spec.steps.index("residual")
    present = set(spec.operations)
    early = [step for step in spec.steps[:weights] if step in present]
    branch = [step for step in spec.steps[weights + 1 : residual] if step in present]
    late = [step for step in spec.steps[residual + 1 :] if step in present]
    over_samples = spec.norm is not None and spec.norm.over == "batch"

    def acts(steps: Sequence[str]) -> bool:
        """Whether a step needs more of the features than means and inner products."""
        return "activation" in steps or ("norm" in steps and over_samples)

    if acts(late):
        reason = "after a skip the features are sums of Gaussians and of what the layer was given, not Gaussian"
        return Coverage(reason, _without_late(spec))
    if branch and acts(early):
        reason = "features that an activated branch was added to are not Gaussian, and the next layer acts on each"
        return Coverage(reason, _without_late(spec))
    if "norm" in late and spec.norm is not None and spec.norm.shift != 0:
        return Coverage(
            "the shift of a norm after the skip gives features a mean", _nearest(spec, residual=float("inf"))
        )
    return None


def _without_late(spec: Chain) -> Chain | None:
    """The skip kept and the norm moved into the branch or over features, if that is covered; otherwise no skip."""
    for changes in (
        {"order": ("norm", "activation", "weights", "residual")},
        {"order": ("activation", "weights", "residual", "norm"), "norm": "layer"},
        {"residual": float("inf")},
    ):
        found = _nearest(spec, **changes)
        if found is not None:
            return found
    return None


def _nearest(spec: Chain, **changes: object) -> Chain | None:
    """The spec with these changes, if that is covered."""
    try:
        near = spec.replace(**changes)
    except IsometerError:
        return None
    return near if all(check(near) is None for check in (_weights, _norm, _skip)) else None


def _small_batch(spec: Chain, samples: int | None, backward: bool) -> Coverage | None:
    norm = spec.norm
    if norm is None or norm.over != "batch" or samples is None:
        return None
    if samples < 2:
        return Coverage("batch statistics need at least 2 samples", _nearest(spec, norm="layer"))
    if not norm.rescale or norm.eps > 0:
        return None
    full = norm.recenter
    if not full and norm.divisor == "std" and samples < 4:
        return Coverage(f"with {samples} samples the mean over the deviation has no second moment; 4 are needed", None)
    if not backward:
        return None
    least = 3 if not full and norm.divisor == "rms" else 4
    if samples < least:
        reason = (
            f"with {samples} samples the mean square of gradients through this norm is infinite; {least} are needed"
        )
        return Coverage(reason, None)
    rays = as_two_rays(spec.phi.expression)
    if activation_first(spec) and rays is not None and 0.0 in rays:
        reason = (
            "gradients through a batch norm of activations that vanish on a half-line have an infinite mean square "
            "unless the samples that enter sum to 0 in every feature, which those of the first layer do not"
        )
        return Coverage(reason, _nearest(spec, order=("weights", "norm", "activation")))
    return None
