"""Gradient descent in the linearised regime: steps on a kernel, and the rates that paper 004 promises (E).

With the loss 𝓛 = (1/n)Σ(f(x_i) − y_i)² and features (or tangent features) of kernel K, a step of gradient descent takes
the residual r = f − y to (I − (2η/n)K)r. The stable step sizes are therefore of order n/λ_max(K); the paper prints
1/λ_max(K) and 2/(λ_min + λ_max), which belong to the loss ½Σ(f − y)², where a step is (I − ηK)r.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import linalg

from isometer.errors import IsometerError
from isometer.theory.kernels import separation_depth

Floats = NDArray[np.float64]
Loss = Literal["mean", "half-sum"]


def _checked(kernel: ArrayLike) -> Floats:
    matrix = np.asarray(kernel, dtype=float)
    if matrix.ndim != 2 or matrix.shape[0] != matrix.shape[1]:
        raise IsometerError(f"a kernel is a square matrix; got the shape {matrix.shape}")
    if not np.isfinite(matrix).all():
        raise IsometerError("the kernel must be finite; got NaN or infinity")
    return matrix


@dataclass(frozen=True)
class Descent:
    """What one step size does to a kernel: the worst factor of the loss per step, beside the printed exponents.

    Example:
        >>> import numpy as np
        >>> from isometer_papers.theory.kernel_learning.optimization import descent
        >>> descent(np.diag([1.0, 3.0]), learning_rate=0.5, loss="half-sum").factor
        0.25
    """

    smallest: float  # λ_min(K)
    largest: float  # λ_max(K)
    learning_rate: float
    factor: float  # largest (1 − cλ)², c = 2η/n or η: the loss falls at least by this per step
    stable: bool

    @property
    def condition_number(self) -> float:
        """λ_max/λ_min; `inf` for a singular kernel."""
        return self.largest / self.smallest if self.smallest > 0.0 else math.inf

    @property
    def exponent(self) -> float:
        """−log factor: 𝓛_t ≤ e^{−exponent·t} 𝓛_0; 0 when some part of the loss never falls."""
        if self.factor >= 1.0:
            return 0.0
        return -math.log(self.factor) if self.factor > 0.0 else math.inf

    def steps(self, target: float) -> float:
        """Steps until the loss is at most `target` of its start, whatever the labels; `inf` when that is not certain.

        Example:
            >>> import numpy as np
            >>> from isometer_papers.theory.kernel_learning.optimization import descent
            >>> descent(np.diag([1.0, 3.0]), learning_rate=0.5, loss="half-sum").steps(1e-3)
            5.0
        """
        if not 0.0 < target < 1.0:
            raise IsometerError(f"a target for the loss is a fraction of its start in (0, 1); got {target!r}")
        if self.exponent == 0.0:
            return math.inf
        # 1e-12: a quotient that is whole up to rounding is not rounded up
        return float(max(1, math.ceil(math.log(1.0 / target) / self.exponent - 1e-12)))


def descent(kernel: ArrayLike, *, learning_rate: float | None = None, loss: Loss = "mean") -> Descent:
    """The guaranteed rate of gradient descent on a kernel; by default with the best constant step size.

    Implements 004/thm-13, 004/thm-14, 004/thm-44, 004/thm-47, 004/cor-48.

    Args:
        kernel: the matrix as it is, not over its diagonal: the NNGP for the top layer, the NTK for all layers.
        learning_rate: η.
        loss: "mean" is (1/n)Σ(f − y)², the paper's; "half-sum" is ½Σ(f − y)².

    Example:
        >>> import numpy as np
        >>> from isometer_papers.theory.kernel_learning.optimization import descent
        >>> well = np.eye(50)  # condition number 1: one step is enough
        >>> descent(well).steps(1e-6)
        1.0
        >>> slow = descent(well, learning_rate=1.0)  # 1/λ_max as in 004/thm-44: 1 − 2/n per step, not a constant
        >>> slow.steps(1e-6)
        170.0
    """
    matrix = _checked(kernel)
    values = linalg.eigvalsh(matrix)
    low, high = float(values[0]), float(values[-1])
    if loss not in ("mean", "half-sum"):
        raise IsometerError(f"loss must be 'mean' or 'half-sum'; got {loss!r}")
    unit = 2.0 / len(matrix) if loss == "mean" else 1.0
    # the best constant rate shrinks both ends of the spectrum by the same factor
    rate = 2.0 / (unit * (low + high)) if learning_rate is None else float(learning_rate)
    factor = max((1.0 - unit * rate * low) ** 2, (1.0 - unit * rate * high) ** 2)
    return Descent(max(low, 0.0), high, rate, factor, unit * rate * high < 2.0)


def least_squares_bound(condition_number: float, steps: ArrayLike) -> Floats:
    """e^{−t/(4κ)} of 004/thm-50, for the loss over its start.

    Implements 004/thm-50.

    Example:
        >>> from isometer_papers.theory.kernel_learning.optimization import least_squares_bound
        >>> least_squares_bound(2.0, [0, 8]).round(6)
        array([1.      , 0.367879])
    """
    return np.exp(-np.asarray(steps, dtype=float) / (4.0 * condition_number))


def conditioning_depth(n: int, delta: float, nonlinearity: float) -> int:
    """A depth of order log(n/δ)/μ at which 004/cor-4 makes κ(K̄) ≤ 3: L₁ + ⌈log n/(−log(1 − μ/2))⌉.

    It is the constant behind the Θ of 004/thm-13 and 004/thm-44.

    Example:
        >>> from isometer.theory.kernels import top_layer_condition_bound
        >>> from isometer_papers.theory.kernel_learning.optimization import conditioning_depth
        >>> depth = conditioning_depth(100, 1e-3, 0.5)
        >>> top_layer_condition_bound(100, depth, 1e-3, 0.5) <= 3
        True
    """
    waiting = math.ceil(math.log(n) / -math.log1p(-nonlinearity / 2))
    return 2 * waiting + separation_depth(delta, nonlinearity)


def concentration_width(boundedness: float, depth: int, n: int, tolerance: float) -> float:
    """(4C)^{L+1} log(n)/γ² of 004/lem-43, the width beyond which |K_ij − K̄_ij| ≤ γ, up to its unnamed constant.

    Implements 004/lem-43.

    Example:
        >>> import math
        >>> from isometer_papers.theory.kernel_learning.optimization import concentration_width
        >>> round(concentration_width(1.0, 2, 10, 0.1) / (64 * math.log(10) * 100), 12)
        1.0
    """
    if not (boundedness > 0 and tolerance > 0 and n >= 1 and depth >= 0):
        raise IsometerError(
            f"004/lem-43 takes C > 0, γ > 0, n ≥ 1 and L ≥ 0; got C = {boundedness!r}, γ = {tolerance!r}, n = {n!r}, "
            f"L = {depth!r}"
        )
    return (4.0 * boundedness) ** (depth + 1) * math.log(n) / tolerance**2


# --- single samples ---------------------------------------------------------------------------------------------------


def stochastic_steps(n: int, feature_bound: float, smallest: float, target: float) -> dict[str, float]:
    """Steps of 004/thm-51 until E 𝓛 ≤ ε𝓛_0: (8nβ/λ_min)·log(1/ε) as printed, with log₂ as its halvings need.

    β bounds the squared features, λ_min = λ_min(AᵀA) is that of the kernel. A kernel with diagonal β has
    λ_min ≤ β, so this is at least 8n log(1/ε): 004/thm-45, which claims O(log 1/ε) through λ_min = Ω(n), cannot follow.

    Implements 004/thm-45, 004/thm-51.

    Example:
        >>> from isometer_papers.theory.kernel_learning.optimization import stochastic_steps
        >>> {key: round(value) for key, value in stochastic_steps(100, 1.0, 1.0, 0.01).items()}
        {'printed': 3684, 'proved': 5315}
    """
    if not 0.0 < target < 1.0 or not smallest > 0.0:
        raise IsometerError(f"004/thm-51 takes ε in (0, 1) and λ_min > 0; got ε = {target!r}, λ_min = {smallest!r}")
    halving = 8.0 * n * feature_bound / smallest
    return {"printed": halving * math.log(1.0 / target), "proved": halving * math.log2(1.0 / target)}


def stochastic_lower_bound(n: int, target: float) -> int:
    """Steps that single samples need at least for orthonormal features, n(1 − ε): each step changes one residual.

    Example:
        >>> from isometer_papers.theory.kernel_learning.optimization import stochastic_lower_bound
        >>> stochastic_lower_bound(1000, 0.01)
        990
    """
    return math.ceil(n * (1.0 - target) - 1e-9)
