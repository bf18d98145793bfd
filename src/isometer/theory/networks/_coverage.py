"""Which networks theory covers, found by walking through one without computing any expectation."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from isometer.activations import Activation
from isometer.spec import Spec
from isometer.spec._coverage import TABLE, table_gap
from isometer.theory.networks._covariance import Covariance
from isometer.theory.networks._expectations import Activated, Expectations
from isometer.theory.networks._interpreter import walk
from isometer.theory.networks._layout import Layout
from isometer.theory.networks._state import FeatureState, NotCovered, compressed, gaussian
from isometer.theory.networks._weights import Run

_TURNS = 3  # of equal layers that are walked through
SAMPLES = 8  # of a batch whose size is not known


class _NoExpectations(Expectations):
    """Numbers that stand for expectations: of what kind features are does not depend on their values."""

    def activated(self, phi: Activation, covariance: Covariance, *, slopes: bool = False) -> Activated:
        mean = 0.0 if phi.is_odd else 0.4
        made = Covariance(0.5 * covariance.variances, covariance.gaps)
        return Activated(mean * np.sqrt(covariance.variances), made, np.ones_like(covariance.gaps) if slopes else None)


def uncovered_step(
    spec: Spec, samples: int | None = None, *, tangent: bool = False, backward: bool = False
) -> NotCovered | None:
    """The error of the first step that theory does not cover at its place; None if it covers all.

    Args:
        spec: the network.
        samples: batch size, where it is known: batch norm needs a few.
        tangent: tangent kernels are requested.
        backward: gradients are requested.

    Example:
        >>> uncovered_step(Spec("input(8) > dense > act('relu') > dense(3)")) is None
        True
        >>> uncovered_step(Spec("input(8) > dense > residual(act('relu')) > dense(3)")).step
        'residual'
    """
    n = SAMPLES if samples is None else samples
    # different positions count as independent here
    layout = Layout(n, spec.shape.axes)
    stack, size = layout.size
    variances = np.broadcast_to(1.0 + 0.1 * np.arange(size) / size, (stack, size))
    tangents = np.ones((stack, size, size)) if tangent else None
    start = gaussian(Covariance(variances, np.broadcast_to(1.0 - np.eye(size), (stack, size, size))), tangents)
    state = FeatureState.of(replace(start, kind="given"), layout, spec.shape.width)
    run = Run(_NoExpectations(), tangent=tangent, backward=backward, dry=True)
    last, turns = None, 0
    try:
        with np.errstate(all="ignore"):
            for steps, _ in spec.executed_layers():
                # turns of a repeat that are equal are one object
                turns = turns + 1 if steps is last else 1
                last = steps
                if turns <= _TURNS:
                    state = compressed(walk(steps, state, run)[0], frozenset())
                    state = state.rescaled()
    except NotCovered as problem:
        return problem
    return None


def coverage(spec: Spec, samples: int | None = None) -> dict[str, str | None]:
    """Which interpreters cover a network: None, or the first step that one does not cover, and why.

    Args:
        spec: the network.
        samples: batch size, where it is known.

    Returns:
        By interpreter: `"theory"` (`predict`), `"kernels"` (NNGP and NTK), `"simulation gram"`, `"simulation dense"`
        and `"nn.build"`.

    Example:
        >>> found = coverage(Spec("input(8) > dense > residual(act('relu')) > dense(2)"))
        >>> found["theory"].split(",")[0], found["nn.build"]
        ('residual: it adds what depends on the same features feature by feature', None)
    """
    found = {name: table_gap(spec, name) for name in TABLE}
    for name, tangent in (("theory", False), ("kernels", True)):
        if found[name] is None:
            problem = uncovered_step(spec, samples, tangent=tangent)
            found[name] = None if problem is None else f"{problem.step}: {problem.reason}"
    return found
