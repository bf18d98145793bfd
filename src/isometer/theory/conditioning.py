"""How well conditioned a kernel is: what paper 004 promises beside what is measured, and a diagnosis in words.

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
from isometer.theory.bounds import correlation_bound, separation_depth, uncentred_bound
from isometer.theory.depth_free import SphereKernel, coordinates
from isometer.theory.kernel_maps import KernelMap, Norm, Position
from isometer.theory.kernels import Batch, KernelMatrix
from isometer.theory.length_maps import SignalFamily, length_contraction, settling_depth

Floats = NDArray[np.float64]
EPSILON = {"bfloat16": 2.0**-7, "float16": 2.0**-10, "float32": 2.0**-23, "float64": 2.0**-52}
NEAR_SINGULAR = 1e4  # a condition number from which on a kernel gets a diagnosis
_DEEPEST = 1 << 20
_SAMPLE = 48  # inputs looked at when searching over depths


# --- the quantities of 004 section 3 ----------------------------------------------------------------------------------


def top_layer_depth(n: int, delta: float, nonlinearity: float) -> int:
    """L₁(δ) = ⌈log n/(−log(1 − μ/2))⌉ + L₀(δ) of 004/cor-4.

    Example:
        >>> from isometer.theory.conditioning import top_layer_depth
        >>> top_layer_depth(16, 0.6, 1.0)
        4
    """
    return math.ceil(math.log(n) / -math.log1p(-nonlinearity / 2)) + separation_depth(delta, nonlinearity)


def tangent_depth(n: int, delta: float, nonlinearity: float) -> int:
    """L₂(δ) = ⌈2 log 2n/(−log(1 − μ/2))⌉ + 2L₀(δ) of 004/cor-6.

    Example:
        >>> from isometer.theory.conditioning import tangent_depth
        >>> tangent_depth(8, 0.6, 1.0)
        8
    """
    return math.ceil(2 * math.log(2 * n) / -math.log1p(-nonlinearity / 2)) + 2 * separation_depth(delta, nonlinearity)


def top_layer_condition_bound(n: int, depth: int, delta: float, nonlinearity: float) -> float:
    """1 + 2n(1 − μ/2)^{L − L₁} of 004/cor-4, for L ≥ L₁; `inf` before.

    Example:
        >>> from isometer.theory.conditioning import top_layer_condition_bound
        >>> top_layer_condition_bound(16, 3, 0.6, 1.0), top_layer_condition_bound(16, 9, 0.6, 1.0)
        (inf, 2.0)
    """
    start = top_layer_depth(n, delta, nonlinearity)
    return 1 + 2 * n * math.exp((depth - start) * math.log1p(-nonlinearity / 2)) if depth >= start else math.inf


def tangent_condition_bound(n: int, depth: int, delta: float, nonlinearity: float) -> float:
    """1 + 4n(1 − μ/2)^{L/2 − L₂} of 004/cor-6, for L ≥ L₂; `inf` before (the exponent as printed).

    Example:
        >>> from isometer.theory.conditioning import tangent_condition_bound
        >>> tangent_condition_bound(8, 16, 0.6, 1.0)
        33.0
    """
    start = tangent_depth(n, delta, nonlinearity)
    if depth < start:
        return math.inf
    exponent = (depth / 2 - start) * math.log1p(-nonlinearity / 2)
    return 1 + 4 * n * math.exp(exponent) if exponent < 700 else math.inf


def top_layer_condition_bound_separated(n: int, depth: int, delta: float, nonlinearity: float) -> float:
    """1 + (n/δ)(1 + μ/2)^{−L} of 004/cor-8, under λ_min of the inputs' Gram matrix ≥ δ.

    Example:
        >>> from isometer.theory.conditioning import top_layer_condition_bound_separated
        >>> top_layer_condition_bound_separated(4, 0, 0.5, 1.0)
        9.0
    """
    return 1 + n / delta * math.exp(-depth * math.log1p(nonlinearity / 2))


def tangent_condition_bound_separated(n: int, depth: int, delta: float, nonlinearity: float) -> float:
    """1 + (2n/δ)(1 + μ/2)^{−L/2} of 004/cor-10, for L ≥ 4L₀; `inf` before.

    Example:
        >>> from isometer.theory.conditioning import tangent_condition_bound_separated
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
        >>> from isometer.theory.conditioning import conditioning_bounds
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
            "value": plain_number(self.value),
            "measured": plain_number(self.measured),
            "applies": self.applies,
            "holds": self.holds,
            "reason": self.reason,
        }


def plain_number(value: float | None) -> float | str | None:
    """A number that JSON can hold: infinities as text.

    Example:
        >>> from isometer.theory.conditioning import plain_number
        >>> plain_number(float("inf"))
        'inf'
    """
    if value is None or math.isnan(value):
        return None
    return float(value) if math.isfinite(value) else ("inf" if value > 0 else "-inf")


def effective_activation(phi: Activation, norm: Norm, norm_position: Position) -> Activation:
    """What a layer amounts to once its norm is folded into φ (001/thm-5.15).

    Example:
        >>> from isometer import activation
        >>> from isometer.theory.conditioning import effective_activation
        >>> effective_activation(activation("relu"), "layer", "post").name
        'normalized(relu)'
    """
    if norm == "none":
        return phi
    return phi.normalized() if norm == "layer" and norm_position == "post" else phi.unit()


def conditioning_bounds(
    kernel: KernelMatrix, *, norm: Norm = "none", norm_position: Position = "pre", bias: float = 0.0
) -> list[BoundCheck]:
    """Every bound of 004 section 3 that is about this kind of kernel, beside what is measured.

    Implements 004/thm-3, 004/cor-4, 004/thm-5, 004/cor-6, 004/thm-7, 004/cor-8, 004/thm-9, 004/cor-10, 004/thm-11,
    004/thm-12, 004/thm-42, with 004/asm-A and 004/asm-B read off the batch.

    Example:
        >>> import numpy as np
        >>> from isometer.theory.conditioning import conditioning_bounds
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
    unit = batch.common_length == 1.0 or (norm != "none" and norm_position == "pre")
    problem = _hypotheses(phi, unit, bias, n, delta)
    gram_low = _smallest_gram(batch)
    second = problem or ("" if gram_low > 0 else "004/asm-B fails: the inputs are linearly dependent")
    mu = phi.nonlinearity if not problem else 1.0
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
    if top:
        checks += _uncentred(kernel, phi, unit, bias, delta) + _other_lengths(kernel, phi, norm, bias, delta)
    return checks


def bound_quantities(
    kernel: KernelMatrix, *, norm: Norm = "none", norm_position: Position = "pre", bias: float = 0.0
) -> dict[str, float | None]:
    """What the bounds are made of: μ, α_σ, the two δ of the batch, L₀, L₁, L₂ and B(L, δ); None where undefined.

    Example:
        >>> import numpy as np
        >>> from isometer.theory.conditioning import bound_quantities
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
    if n > 1 and mu > 1e-12 and 0.0 < delta <= 1.0 and bias == 0.0:
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
    if not phi.is_odd or abs(phi.second_moment - 1.0) > 1e-9 or phi.is_affine or float(lengths.min()) < 0.5:
        return []
    root = np.exp((kernel.log_diagonal - kernel.log_diagonal.max()) / 2)
    cosine = kernel.matrix / np.outer(root, root)
    largest = float(np.max(cosine[~np.eye(len(cosine), dtype=bool)]))
    settled = settling_depth(phi, lengths)
    out = []
    for reference, key in (("004/thm-12", "printed"), ("004/thm-42", "proved")):
        left = kernel.depth - settled[key]
        late = left >= 0
        value = correlation_bound(left, delta, phi.nonlinearity / 2) if late else None
        why = "" if late else f"it starts at depth L̂ = {settled[key]:.4g}"
        out.append(BoundCheck(reference, "largest cosine of two representations", "≤", value, largest, why))
    return out


# --- diagnosis --------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Diagnosis:
    """Why a kernel is close to singular, from which depth on in each number format, and what would help.

    Example:
        >>> import numpy as np
        >>> from isometer.theory.conditioning import diagnose
        >>> from isometer.theory.kernels import kernel_matrix
        >>> x = np.random.default_rng(0).standard_normal((8, 20))
        >>> x /= np.linalg.norm(x, axis=1, keepdims=True)
        >>> found = diagnose(kernel_matrix("unit(softplus)", x, 60))
        >>> found.phase, found.passes["float32"] < 60
        ('ordered', True)
    """

    phase: str  # ordered, critical, chaotic, linear, or unknown
    passes: dict[str, int | None]  # first depth with a condition number of at least 1/ε; None: not up to 2²⁰
    recovers: dict[str, int | None]  # first depth with one below 1/ε again
    sentences: tuple[str, ...]

    @property
    def text(self) -> str:
        """All of it as one paragraph."""
        return " ".join(self.sentences)


def diagnose(
    kernel: KernelMatrix, *, norm: Norm = "none", norm_position: Position = "pre", bias: float = 0.0
) -> Diagnosis | None:
    """A diagnosis when the condition number exceeds `NEAR_SINGULAR`; None for a healthy kernel.

    Depths are searched on at most 48 of the inputs, the closest pair among them, at float64 resolution.

    Example:
        >>> import numpy as np
        >>> from isometer.theory.conditioning import diagnose
        >>> from isometer.theory.kernels import kernel_matrix
        >>> diagnose(kernel_matrix("normalized(relu)", np.eye(4), 10)) is None
        True
    """
    if kernel.condition_number < NEAR_SINGULAR:
        return None
    phi, depth = kernel.activation, kernel.depth
    nothing: dict[str, int | None] = dict.fromkeys(EPSILON)
    if kernel.singular is not None:
        return Diagnosis("unknown", nothing, nothing, (_sentence(kernel.singular),))
    common = kernel.batch.common_length
    if depth == 0:
        return Diagnosis("linear", nothing, nothing, ("At depth 0 the kernel is the inputs' own Gram matrix.",))
    folded = bias == 0.0 and (norm != "none" and norm_position == "pre")
    if common is None and not folded and not (bias == 0.0 and SignalFamily(phi).homogeneous):
        text = "The inputs have different lengths; depths are searched for inputs of one length only — normalise them."
        return Diagnosis("unknown", nothing, nothing, (text,))
    network = SphereKernel(
        phi, depth, squared_length=common or 1.0, bias=bias, norm=norm, norm_position=norm_position,
        tangent=kernel.kind == "ntk",
    )  # fmt: skip
    last = network.constant or network.transient[-1]
    phase = "linear" if last.dual.base.second_moment > 0 and _is_linear(network) else _phase(last.growth)
    search = _DepthSearch(network, kernel)
    passes = {name: search.first(lambda c, e=eps: c >= 1 / e) for name, eps in EPSILON.items()}
    recovers: dict[str, int | None] = dict.fromkeys(EPSILON)
    if phase == "chaotic":
        recovers = {name: search.first(lambda c, e=eps: c < 1 / e) for name, eps in EPSILON.items()}
    return Diagnosis(phase, passes, recovers, tuple(_words(kernel, phase, last.growth, passes, recovers)))


def _is_linear(network: SphereKernel) -> bool:
    stage = network.constant or network.transient[-1]
    probe = np.array([0.3, 0.7])
    return bool(np.allclose(stage.dual.deficit(probe), probe, rtol=1e-12, atol=0) and stage.share == 1.0)


def _phase(growth: float) -> str:
    if abs(growth - 1.0) <= 1e-9:
        return "critical"
    return "ordered" if growth < 1.0 else "chaotic"


class _DepthSearch:
    """Condition numbers over depth on a subset of the inputs, remembered."""

    def __init__(self, network: SphereKernel, kernel: KernelMatrix) -> None:
        self.network, self.kind = network, kernel.kind
        batch = kernel.batch
        n = len(batch.directions)
        chosen = np.arange(min(n, _SAMPLE))
        if n > _SAMPLE:
            masked = kernel.matrix - 2.0 * np.eye(n) * kernel.matrix.max()
            pair = np.unravel_index(int(np.argmax(masked)), masked.shape)
            chosen = np.unique(np.concatenate([np.arange(_SAMPLE - 2), np.array(pair)]))
        part = Batch(batch.directions[chosen], batch.squared_lengths[chosen])
        everything = slice(0, len(chosen))
        self.s = coordinates(*part.gaps(everything, everything))
        np.fill_diagonal(self.s, -np.inf)
        self.known: dict[int, float] = {}
        self.deepest = _DEEPEST if network.constant is not None else max(network.depth, network.layers.patience // 20)

    def condition(self, depth: int) -> float:
        """Condition number; `inf` beyond what float64 resolves."""
        if depth not in self.known:
            nngp, ntk = self.network.at_depth(depth).values(self.s)
            matrix = nngp if self.kind == "nngp" else ntk
            assert matrix is not None
            values = linalg.eigvalsh((matrix + matrix.T) / 2)
            floor = len(values) * np.finfo(float).eps * values[-1]
            self.known[depth] = float(values[-1] / values[0]) if values[0] > floor else math.inf
        return self.known[depth]

    def first(self, reached: Any) -> int | None:
        """The first depth at which `reached` is true, by doubling and bisection."""
        before, depth = 0, 1
        while not reached(self.condition(depth)):
            before, depth = depth, 2 * depth
            if depth > self.deepest:
                return None
        while depth - before > 1:
            middle = (before + depth) // 2
            before, depth = (before, middle) if reached(self.condition(middle)) else (middle, depth)
        return depth


def _sentence(text: str) -> str:
    return text[0].upper() + text[1:] + ("" if text.endswith(".") else ".")


def _words(
    kernel: KernelMatrix,
    phase: str,
    growth: float,
    passes: dict[str, int | None],
    recovers: dict[str, int | None],
) -> list[str]:
    condition = kernel.condition_number
    size = "beyond what float64 resolves" if math.isinf(condition) else f"{condition:.2g}"
    name, kind = kernel.activation.name, kernel.kind.upper()
    core = name.removeprefix("unit(").removesuffix(")") if name.startswith("unit(") else name
    out = [f"The {kind} matrix is close to singular: its condition number is {size}."]
    reached = ", ".join(f"{dtype} at depth {at}" for dtype, at in passes.items() if at is not None)
    if phase == "ordered":
        out.append(f"The network is ordered (slope {growth:.4g} < 1 at cosine one): layers make inputs alike.")
    elif phase == "critical":
        out.append("The network is at the edge of chaos with a kernel that still collapses, slower than exponentially.")
    elif phase == "linear":
        out.append("The network is linear in its inputs: depth changes nothing, the inputs themselves are dependent.")
    else:
        out.append(
            f"The network is chaotic (slope {growth:.4g} > 1 at cosine one): depth separates the inputs, but they "
            "start too close together for this depth."
        )
    if phase != "chaotic" and reached:
        out.append(f"The condition number passes 1/ε of {reached}.")
    if phase == "chaotic":
        back = ", ".join(f"{dtype} at depth {at}" for dtype, at in recovers.items() if at is not None)
        if back:
            out.append(f"It falls below 1/ε of {back}.")
        out.append("More layers help; so does dropping near-duplicates.")
    elif phase == "linear":
        out.append("A non-linear activation would help.")
    else:
        out.append(
            f"What would help: centre the activation, as in normalized({core}), which makes orthogonal inputs the "
            "fixed point; layer norm after the activation does the same; or fewer layers."
        )
    return out
