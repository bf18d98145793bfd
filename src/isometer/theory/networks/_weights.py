"""Steps with random weights at infinite width: what leaves them is Gaussian given what enters."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from isometer.spec import Bias, Dense, Step
from isometer.spec._weight_laws import step_factor
from isometer.theory.networks._covariance import Covariance
from isometer.theory.networks._expectations import Expectations
from isometer.theory.networks._gradient import Adjoint, Gradient, Squares
from isometer.theory.networks._state import FeatureState, NotCovered, gaussian

Floats = NDArray[np.float64]


class ExpectedAttention(NamedTuple):
    """Of one attention step, averaged over heads and queries, one number per copy.

    `entropy`: in nats. `participation`: 1/E Σ A², how many tokens a query reads. `strength`: the standard deviation of
    scores over √log T, of exchangeable tokens.
    """

    entropy: Floats
    participation: Floats
    strength: Floats | None = None


@dataclass(frozen=True)
class Run:
    """What is asked for: tangent kernels, a way back for gradients; and the expectations that have been computed.

    `watched` collects the states that enter activations, `attention` what attention does. A `dry` run computes no
    expectation: it finds out what is covered. `scramble` numbers the set of points at which expectations are sampled
    that no formula covers. With `pairs` those of positions are kept to the end. `numbers` has, by step and field,
    numbers that differ between copies.
    """

    moments: Expectations
    tangent: bool = False
    backward: bool = False
    watched: list[FeatureState] | None = None
    dry: bool = False
    scramble: int = 0
    attention: list[ExpectedAttention] | None = None
    pairs: bool = False
    numbers: Mapping[tuple[Step, str], Floats] | None = None

    def number(self, step: Step, name: str) -> Floats | float:
        """A field of an executed step: a number, or one per copy `(copies, 1)`."""
        found = None if self.numbers is None else self.numbers.get((step, name))
        return float(getattr(step, name)) if found is None else found

    @property
    def slopes(self) -> bool:
        """Whether E φ′φ′ is needed."""
        return self.tangent or self.backward


Stepped = tuple[FeatureState, Adjoint | None]


def weight_variance(law: str, fan_in: int, fan_out: int, gain: float, scaling: str = "fan_in") -> float:
    """The factor from the Gram matrix that enters weights to the covariance of what leaves them.

    Example:
        >>> weight_variance("he", 8, 8, 1.0), weight_variance("orthogonal", 4, 8, 2.0)
        (2.0, 2.0)
    """
    if law == "orthogonal":
        # entries of a Haar frame have the variance 1/max(fan_in, fan_out)
        return gain**2 * fan_in / max(fan_in, fan_out)
    if law == "orthogonalized-xavier":  # the mean of the quarter circle law on [0, 2] is 8/(3π)
        return gain**2 * (8 / (3 * math.pi)) ** 2
    size = step_factor(law, fan_in, fan_out, gain, "unit" if scaling == "unit" else "fan_in") ** 2 * fan_in
    # U(−a, a) has the variance a²/3
    return size / 3 if law in ("uniform", "xavier-uniform", "pytorch") else size


def dense(step: Dense, state: FeatureState, run: Run) -> Stepped:
    """x ↦ x Wᵀ: Gaussian, of the covariance that the second moments of x give.

    The tangent kernel is that of all weights in the parametrisation W = √v·N(0, 1)/√fan_in: v(Θ + E xx).
    """
    fan_in, fan_out = state.width, step.width
    assert fan_out is not None
    if step.weights == "orthogonalized-xavier" and fan_in != fan_out:
        reason = "the mean singular value of a Xavier matrix is known here for square ones only"
        raise NotCovered("dense weights of the law orthogonalized-xavier", reason, "use orthogonal ones")
    gain = run.number(step, "gain")
    variance = gain**2 * weight_variance(step.weights, fan_in, fan_out, 1.0, step.weight_scaling)
    second = state.second()
    gram = second.gram() if run.slopes else None
    before = state.tangent()
    tangent = None if not run.tangent or before is None or gram is None else float(variance) * (before + gram)
    out = FeatureState.of(gaussian(second.times(variance), tangent), state.layout, fan_out, state.log_scale)
    if not run.backward:
        return out, None
    log = math.log(fan_in) + math.log(fan_out) + 2 * state.log_scale

    def back(gradient: Gradient, squares: Squares) -> Gradient:
        assert gram is not None
        total = gradient.total()
        # E ‖∂loss/∂W‖_F² = fan_out·fan_in·tr(ΓK); the transpose sums over fan_out where the weights sum over fan_in
        squares.add("dense", gradient.layout.summed(total * gram), gradient.log + log, fan_in * fan_out)
        factor = np.asarray(variance * fan_out / fan_in)
        return Gradient.of(total * factor.reshape(-1, 1, 1), gradient.layout, gradient.log)

    return out, back


def bias(step: Bias, state: FeatureState, run: Run) -> Stepped:
    """x ↦ x + b, b one Gaussian number per feature: a process that is the same at every index."""
    like = np.ones(state.layout.size)
    zeros = np.zeros((*like.shape, like.shape[1]))
    tangent = zeros + step.variance if run.tangent else None
    own = gaussian(Covariance(step.variance * like, zeros), tangent)
    out = FeatureState(state.layout, state.width, (*state.terms, (like, own)), state.offset, state.log_scale)
    return out, (lambda gradient, _: gradient) if run.backward else None
