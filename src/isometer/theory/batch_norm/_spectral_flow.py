"""How a whole spectrum goes to isometry under Haar weights and batch norm, and when it arrives.

With M = WΛWᵀ a layer maps Λ to `Λ^{1/2}(I + B)Λ^{1/2}`, `B = Wᵀ diag(1/M_ii − 1) W`. To leading order in 1/d,
`E B_kk = 2(1 + v − λ_k)/d` and `Var B_kl = 2v/d²`, v the mean of (λ − 1)². Second-order perturbation makes that

    dλ_k/dτ = λ_k (1 + v − λ_k) + (v/d) Σ_{l≠k} λ_k λ_l/(λ_k − λ_l),   τ = 2ℓ/d:

small eigenvalues grow by a factor e per d/2 layers, and eigenvalues repel each other. The trace is kept.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import ArrayLike
from scipy.integrate import solve_ivp

from isometer.errors import IsometerError
from isometer.theory.batch_norm._haar import isometry_gap_step
from isometer.theory.batch_norm._sphere import Floats

__all__ = ["expected_hitting_time"]

_APART = 1e-4  # least relative distance of eigenvalues at the start: equal ones repel without bound
_LONGEST = 400.0  # of τ
_POINTS = 80  # of the path at which the exact step is computed


def expected_hitting_time(eigenvalues: ArrayLike, target: float | None = None) -> float:
    """Expected number of layers until the isometry gap is below a target, Haar weights and batch norm, n = d.

    The exact expected step of the gap (`isometry_gap_step`) is added up layer by layer. It depends on the spectrum; the
    assumption is that at each size of the gap the spectrum is that of the mean-field flow from the given start (see
    the module), and that the gap stays close to its mean. Against simulation it is good to a few per cent.

    Args:
        eigenvalues: λ of XXᵀ at the start, `(d,)`, d at least 2, all above 0.
        target: 1/(16d) by default.

    Returns:
        The time, a fraction of a layer included; 0 if the gap is below the target already, inf for singular batches.

    Example:
        >>> round(expected_hitting_time([1.0, 1.0, 1.0, 1.0, 0.05, 0.05, 0.05, 0.05]))  # simulated: 24.9 ± 0.1
        25
        >>> expected_hitting_time([1.0, 1.0])
        0.0

    Implements: 001/lem-C.14 (the time itself, from anywhere).
    """
    values = np.sort(np.asarray(eigenvalues, dtype=np.float64))
    if values.ndim != 1 or len(values) < 2 or not np.isfinite(values).all() or values[0] < 0 or values[-1] == 0:
        raise IsometerError(f"eigenvalues have shape {values.shape}; expected at least 2 finite numbers ≥ 0 — pass σ²")
    d = len(values)
    goal = 1.0 / (16 * d) if target is None else target
    if not goal > 0.0:
        raise IsometerError(f"target is {goal}; expected a number above 0 — pass an isometry gap")
    if values[0] <= 1e-15 * values[-1]:
        return math.inf  # rank is never regained
    start = np.log(values / values.mean())
    if _gap(start) <= goal:
        return 0.0
    for k in range(1, d):
        start[k] = max(start[k], start[k - 1] + _APART)

    def arrived(_: float, logs: Floats) -> float:
        return math.log(max(_gap(logs), 1e-300) / (0.9 * goal))  # a little past the goal, so that the table covers it

    arrived.terminal = True  # type: ignore[attr-defined]
    # LSODA: stiff while close eigenvalues repel each other
    path = solve_ivp(
        lambda _, logs: _drift(logs), (0.0, _LONGEST), start, method="LSODA", rtol=1e-6, atol=1e-9, events=arrived
    ).y.T
    kept = path[np.unique(np.linspace(0, len(path) - 1, min(_POINTS, len(path))).astype(int))]
    # reversed: the gap falls along the path, and np.interp needs it ascending
    gaps = np.log([max(_gap(logs), 1e-300) for logs in kept])[::-1]
    steps = np.log([max(-isometry_gap_step(np.exp(logs)).value, 1e-300) for logs in kept])[::-1]
    return _layers(math.exp(gaps[-1]), goal, gaps, steps)


def _layers(gap: float, goal: float, gaps: Floats, steps: Floats) -> float:
    """Layers from `gap` to `goal`, each down by the step that goes with its gap; the last one in part."""
    count = 0
    while True:
        after = gap - math.exp(float(np.interp(math.log(gap), gaps, steps)))
        if after <= goal:
            return count + math.log(gap / goal) / (math.log(gap / after) if after > 0 else math.inf)
        gap, count = after, count + 1


def _gap(logs: Floats) -> float:
    return math.log(float(np.exp(logs).mean())) - float(logs.mean())


def _drift(logs: Floats) -> Floats:
    """d log λ/dτ."""
    values = np.exp(logs)
    values = values / values.mean()
    spread = float(np.mean((values - 1.0) ** 2))
    apart = values[:, None] - values
    np.fill_diagonal(apart, np.inf)
    return np.asarray(1.0 + spread - values + spread / len(values) * (values / apart).sum(axis=1))
