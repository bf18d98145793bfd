"""How well conditioned a kernel is: what paper 004 promises beside what is measured.

The bounds are evaluated as printed; none of them is asserted to hold here.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import linalg

from isometer.activations import Activation
from isometer.serialize import json_data
from isometer.theory.kernels._bounds import correlation_bound, separation_depth, uncentred_bound
from isometer.theory.kernels._inputs import Batch
from isometer.theory.kernels._kernel_map import KernelMap, Norm
from isometer.theory.kernels._kernel_matrix import KernelMatrix
from isometer.theory.kernels._layer_maps import Place
from isometer.theory.kernels._length_map import UNIT, checked_residual, length_contraction, settling_depth
from isometer.theory.kernels._normrelu import NORMRELU_EXCESS, normrelu_bound

Floats = NDArray[np.float64]


# --- the quantities of 004 section 3 ----------------------------------------------------------------------------------


def top_layer_depth(n: int, delta: float, nonlinearity: float) -> int:
    """L₁(δ) = ⌈log n/(−log(1 − μ/2))⌉ + L₀(δ) of 004/cor-4.

    Example:
        >>> from isometer.theory.kernels import top_layer_depth
        >>> top_layer_depth(16, 0.6, 1.0)
        4
    """
    return math.ceil(math.log(n) / -math.log1p(-nonlinearity / 2)) + separation_depth(delta, nonlinearity)


def tangent_depth(n: int, delta: float, nonlinearity: float) -> int:
    """L₂(δ) = ⌈2 log 2n/(−log(1 − μ/2))⌉ + 2L₀(δ) of 004/cor-6.

    Example:
        >>> from isometer.theory.kernels import tangent_depth
        >>> tangent_depth(8, 0.6, 1.0)
        8
    """
    return math.ceil(2 * math.log(2 * n) / -math.log1p(-nonlinearity / 2)) + 2 * separation_depth(delta, nonlinearity)


def top_layer_condition_bound(n: int, depth: int, delta: float, nonlinearity: float) -> float:
    """1 + 2n(1 − μ/2)^{L − L₁} of 004/cor-4, for L ≥ L₁; `inf` before.

    Example:
        >>> from isometer.theory.kernels import top_layer_condition_bound
        >>> top_layer_condition_bound(16, 3, 0.6, 1.0), top_layer_condition_bound(16, 9, 0.6, 1.0)
        (inf, 2.0)
    """
    start = top_layer_depth(n, delta, nonlinearity)
    return 1 + 2 * n * math.exp((depth - start) * math.log1p(-nonlinearity / 2)) if depth >= start else math.inf


def tangent_condition_bound(n: int, depth: int, delta: float, nonlinearity: float) -> float:
    """1 + 4n(1 − μ/2)^{L/2 − L₂} of 004/cor-6, for L ≥ L₂; `inf` before (the exponent as printed).

    Example:
        >>> from isometer.theory.kernels import tangent_condition_bound
        >>> tangent_condition_bound(8, 16, 0.6, 1.0)
        33.0
    """
    start = tangent_depth(n, delta, nonlinearity)
    if depth < start:
        return math.inf
    exponent = (depth / 2 - start) * math.log1p(-nonlinearity / 2)
    # math.exp raises past 709
    return 1 + 4 * n * math.exp(exponent) if exponent < 700 else math.inf


def top_layer_condition_bound_separated(n: int, depth: int, delta: float, nonlinearity: float) -> float:
    """1 + (n/δ)(1 + μ/2)^{−L} of 004/cor-8, under λ_min of the inputs' Gram matrix ≥ δ.

    Example:
        >>> from isometer.theory.kernels import top_layer_condition_bound_separated
        >>> top_layer_condition_bound_separated(4, 0, 0.5, 1.0)
        9.0
    """
    return 1 + n / delta * math.exp(-depth * math.log1p(nonlinearity / 2))


def tangent_condition_bound_separated(n: int, depth: int, delta: float, nonlinearity: float) -> float:
    """1 + (2n/δ)(1 + μ/2)^{−L/2} of 004/cor-10, for L ≥ 4L₀; `inf` before.

    Example:
        >>> from isometer.theory.kernels import tangent_condition_bound_separated
        >>> tangent_condition_bound_separated(4, 0, 0.5, 1.0)
        17.0
    """
    if depth < 4 * separation_depth(delta, nonlinearity):
        return math.inf
    return 1 + 2 * n / delta * math.exp(-depth / 2 * math.log1p(nonlinearity / 2))


# --- beside a measured kernel -----------------------------------------------------------------------------------------


@dataclass(frozen=True)
class BoundCheck:
    """One printed statement about one kernel: its value, what was measured, and whether its hypotheses apply.

    Example:
        >>> import numpy as np
        >>> from isometer.theory.kernels import conditioning_bounds
        >>> from isometer.theory.kernels import kernel_matrix
        >>> checks = conditioning_bounds(kernel_matrix("normalized(relu)", np.eye(4), 5))
        >>> [(c.reference, c.holds) for c in checks if c.applies][0]
        ('004/thm-3', True)
    """

    reference: str
    quantity: str
    relation: str  # "≤" or "≥"
    value: float | None  # None where the hypotheses fail
    measured: float | None
    reason: str  # why it does not apply; empty when it does

    @property
    def applies(self) -> bool:
        """Whether the hypotheses hold."""
        return self.value is not None

    @property
    def holds(self) -> bool | None:
        """Whether the measured value obeys it, up to rounding; None where it does not apply."""
        if self.value is None or self.measured is None:
            return None
        slack = 1e-9 * max(1.0, abs(self.value)) if math.isfinite(self.value) else 0.0
        return self.measured <= self.value + slack if self.relation == "≤" else self.measured >= self.value - slack

    def to_dict(self) -> dict[str, Any]:
        """Plain values for JSON."""
        return {
            "quantity": self.quantity,
            "relation": self.relation,
            "value": json_data(self.value),
            "measured": json_data(self.measured),
            "applies": self.applies,
            "holds": self.holds,
            "reason": self.reason,
        }


def effective_activation(phi: Activation, norm: Norm, norm_position: Place) -> Activation:
    """What a layer amounts to once its norm is folded into φ (001/thm-5.15).

    Example:
        >>> from isometer import activation
        >>> from isometer.theory.kernels._conditioning import effective_activation
        >>> effective_activation(activation("relu"), "layer", "post").name
        'normalized(relu)'
    """
    if norm == "none":
        return phi
    return phi.normalized() if norm == "layer" and norm_position == "post" else phi.unit()


def conditioning_bounds(
    kernel: KernelMatrix,
    *,
    norm: Norm = "none",
    norm_position: Place = "pre",
    bias: float = 0.0,
    residual: float | None = None,
) -> list[BoundCheck]:
    """Every bound of 004 section 3 that is about this kind of kernel, beside what is measured.

    Implements 004/thm-3, 004/cor-4, 004/thm-5, 004/cor-6, 004/thm-7, 004/cor-8, 004/thm-9, 004/cor-10, 004/thm-11,
    004/thm-12, 004/thm-42, 004/thm-59, with 004/asm-A and 004/asm-B read off the batch.

    Example:
        >>> import numpy as np
        >>> from isometer.theory.kernels import conditioning_bounds
        >>> from isometer.theory.kernels import kernel_matrix
        >>> [c.reference for c in conditioning_bounds(kernel_matrix("tanh", np.eye(3), 2, "ntk"))]
        ['004/thm-5', '004/cor-6', '004/thm-9', '004/cor-10']
    """
    phi = effective_activation(kernel.activation, norm, norm_position)
    n, depth, batch = len(kernel.matrix), kernel.depth, kernel.batch
    top = kernel.kind == "nngp"
    gap, mirror, _, _ = batch.closest
    delta = min(gap, mirror, 1.0)
    off = kernel.matrix[~np.eye(n, dtype=bool)]
    largest = float(np.max(np.abs(off))) if n > 1 else 0.0
    measured = {"off": largest, "low": kernel.smallest_eigenvalue, "kappa": kernel.condition_number}
    unit = batch.common_length == 1.0 or (norm != "none" and norm_position == "pre" and len(batch.zeros) == 0)
    skip = checked_residual(residual) is not None
    problem = "it is about networks without skip connections" if skip else _hypotheses(phi, unit, bias, n, delta)
    gram_low = _smallest_gram(batch)
    second = problem or ("" if gram_low > 0 else "004/asm-B fails: the inputs are linearly dependent")
    mu = phi.nonlinearity if not problem else 1.0  # with a problem no bound is evaluated
    kinds: list[tuple[str, str, str, str, str, Any]]
    rows = ("largest |K_ij| over the diagonal", "smallest eigenvalue over the diagonal", "condition number")
    if top:
        kinds = [
            ("004/thm-3", rows[0], "≤", "off", problem, lambda: correlation_bound(depth, delta, mu)),
            ("004/cor-4", rows[2], "≤", "kappa", problem, lambda: top_layer_condition_bound(n, depth, delta, mu)),
            ("004/thm-7", rows[1], "≥", "low", second, lambda: 1 - correlation_bound(depth, gram_low, mu)),
            (
                "004/cor-8", rows[2], "≤", "kappa", second,
                lambda: top_layer_condition_bound_separated(n, depth, gram_low, mu),
            ),
        ]  # fmt: skip
    else:
        early = problem or _early(depth, 2, delta, mu)
        later = second or _early(depth, 2, gram_low, mu)
        kinds = [
            ("004/thm-5", rows[0], "≤", "off", early, lambda: 2 * correlation_bound(depth / 2, delta, mu)),
            ("004/cor-6", rows[2], "≤", "kappa", problem, lambda: tangent_condition_bound(n, depth, delta, mu)),
            ("004/thm-9", rows[1], "≥", "low", later, lambda: 1 - 2 * correlation_bound(depth / 2, gram_low, mu)),
            (
                "004/cor-10", rows[2], "≤", "kappa", second,
                lambda: tangent_condition_bound_separated(n, depth, gram_low, mu),
            ),
        ]  # fmt: skip
    checks = []
    for reference, quantity, relation, key, why, value in kinds:
        number = None if why else float(value())
        if number == math.inf:
            number, why = None, "the depth is below the one it starts from"
        checks.append(BoundCheck(reference, quantity, relation, number, measured[key], why))
    if top and not skip:
        checks += _uncentred(kernel, phi, unit, bias, delta) + _other_lengths(kernel, phi, norm, bias, delta)
    return checks


def bound_quantities(
    kernel: KernelMatrix,
    *,
    norm: Norm = "none",
    norm_position: Place = "pre",
    bias: float = 0.0,
    residual: float | None = None,
) -> dict[str, float | None]:
    """What the bounds are made of: μ, α_σ, the two δ of the batch, L₀, L₁, L₂ and B(L, δ); None where undefined.

    Example:
        >>> import numpy as np
        >>> from isometer.theory.kernels import bound_quantities
        >>> from isometer.theory.kernels import kernel_matrix
        >>> found = bound_quantities(kernel_matrix("normalized(relu)", np.eye(4), 3))
        >>> found["delta_A"], found["L_0"], found["L_1"]
        (1.0, 0.0, 10.0)
    """
    phi = effective_activation(kernel.activation, norm, norm_position)
    gap, mirror, _, _ = kernel.batch.closest
    n, delta = len(kernel.matrix), min(gap, mirror, 1.0)
    mu = phi.nonlinearity if phi.variance > 0 else 0.0
    out: dict[str, float | None] = {
        "nonlinearity": mu,
        "alpha_sigma": length_contraction(phi) if abs(phi.second_moment - 1.0) <= 1e-9 and not phi.jumps else None,
        "delta_A": delta if n > 1 else None,
        "delta_B": _smallest_gram(kernel.batch),
        "L_0": None,
        "L_1": None,
        "L_2": None,
        "B": None,
    }
    if n > 1 and mu > 1e-12 and 0.0 < delta <= 1.0 and bias == 0.0 and checked_residual(residual) is None:
        out["L_0"] = float(separation_depth(delta, mu))
        out["L_1"] = float(top_layer_depth(n, delta, mu))
        out["L_2"] = float(tangent_depth(n, delta, mu))
        out["B"] = correlation_bound(kernel.depth, delta, mu)
    return out


def _hypotheses(phi: Activation, unit: bool, bias: float, n: int, delta: float) -> str:
    if n < 2:
        return "it is about pairs of inputs; there is one"
    if bias > 0:
        return "it is about networks without bias"
    if not unit:
        return "it assumes inputs of unit length"
    if abs(phi.second_moment - 1.0) > 1e-9 or abs(phi.mean) > 1e-9:
        return "it assumes E σ = 0 and E σ² = 1 (004/eq-2); write normalized(…)"
    if phi.is_affine:
        return "it assumes a non-linear activation"
    return "" if delta > 0 else "004/asm-A fails: two inputs are parallel"


def _early(depth: int, factor: int, delta: float, mu: float) -> str:
    start = factor * separation_depth(min(delta, 1.0), mu)
    return "" if depth >= start else f"it starts at depth {factor}L₀ = {start}"


def _smallest_gram(batch: Batch) -> float:
    """λ_min of the Gram matrix of the directions, 0 when below rounding (δ of 004/asm-B)."""
    n, d = batch.directions.shape
    if n > d:
        return 0.0
    # singular values squared: eigenvalues of the Gram matrix itself lose half the digits
    values = linalg.svdvals(batch.directions)
    low = float(values[-1]) ** 2
    return min(low, 1.0) if values[-1] > n * np.finfo(float).eps * values[0] else 0.0


def _uncentred(kernel: KernelMatrix, phi: Activation, unit: bool, bias: float, delta: float) -> list[BoundCheck]:
    """004/thm-11 as made precise by 004/lem-35."""
    if not unit or bias > 0 or abs(phi.second_moment - 1.0) > 1e-9 or len(kernel.matrix) < 2 or delta <= 0:
        return []
    cosines = KernelMap(phi)
    if cosines.case not in (2, 4) or cosines.fixed_point is None:
        return []
    off = kernel.matrix[~np.eye(len(kernel.matrix), dtype=bool)]
    value = uncentred_bound(cosines, delta, kernel.depth)
    early = math.isinf(value)
    return [
        BoundCheck(
            "004/thm-11", f"largest |K_ij − ρ̄|, ρ̄ = {cosines.fixed_point:.6g}", "≤", None if early else value,
            float(np.max(np.abs(off - cosines.fixed_point))),
            "the depth is below the one it starts from" if early else "",
        )
    ]  # fmt: skip


def _other_lengths(kernel: KernelMatrix, phi: Activation, norm: Norm, bias: float, delta: float) -> list[BoundCheck]:
    """004/thm-12 (L̂ as printed) and 004/thm-42 (L̂ as proved), for odd σ and inputs of other lengths."""
    lengths = kernel.batch.squared_lengths
    if kernel.batch.common_length == 1.0 or norm != "none" or bias > 0 or len(kernel.matrix) < 2 or delta <= 0:
        return []
    if abs(phi.second_moment - 1.0) > 1e-9 or phi.is_affine or float(lengths.min()) < 0.5 - UNIT:
        return []
    # the matrix is over its largest diagonal entry only, and lengths differ: divide by all of them
    root = np.exp((kernel.log_diagonal - kernel.log_diagonal.max()) / 2)
    cosine = kernel.matrix / np.outer(root, root)
    largest = float(np.max(cosine[~np.eye(len(cosine), dtype=bool)]))
    if phi.name == "normrelu" and float(lengths.max()) <= 2.0 + UNIT:
        return [_of_normrelu(kernel.depth, kernel.batch.closest[0], largest)]
    if not phi.is_odd:
        return []
    settled = settling_depth(phi, lengths)
    out = []
    for reference, key in (("004/thm-12", "printed"), ("004/thm-42", "proved")):
        left = kernel.depth - settled[key]
        late = left >= 0
        value = correlation_bound(left, delta, phi.nonlinearity / 2) if late else None
        why = "" if late else f"it starts at depth L̂ = {settled[key]:.4g}"
        out.append(BoundCheck(reference, "largest cosine of two representations", "≤", value, largest, why))
    return out


def _of_normrelu(depth: int, gap: float, largest: float) -> BoundCheck:
    """004/thm-59, with the ε that makes it smallest."""
    quantity = "largest cosine of two representations"
    if gap <= NORMRELU_EXCESS:
        why = f"it assumes cosines below 1 − δ′, δ′ = {NORMRELU_EXCESS:g}"
        return BoundCheck("004/thm-59", quantity, "≤", None, largest, why)
    value = min(normrelu_bound(depth, min(gap, 1.0), epsilon) for epsilon in np.geomspace(1e-12, 1.0, 97))
    late = math.isfinite(value)
    why = "" if late else "the depth is below the one it starts from"
    return BoundCheck("004/thm-59", quantity, "≤", value if late else None, largest, why)
