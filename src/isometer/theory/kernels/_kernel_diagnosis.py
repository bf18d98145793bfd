"""Why a kernel is close to singular: its phase, the depths where it passes 1/ε of number formats, and what helps."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy import linalg

from isometer.theory.kernels._depth_free import SphereKernel
from isometer.theory.kernels._inputs import Batch
from isometer.theory.kernels._kernel_map import Norm
from isometer.theory.kernels._kernel_matrix import KernelMatrix
from isometer.theory.kernels._layer_maps import Place, coordinates
from isometer.theory.kernels._length_map import SignalFamily, checked_residual

EPSILON = {"bfloat16": 2.0**-7, "float16": 2.0**-10, "float32": 2.0**-23, "float64": 2.0**-52}
NEAR_SINGULAR = 1e4  # a condition number from which on a kernel gets a diagnosis
_FAIR = 100.0  # and one up to which it is good
_COLLAPSED = 0.1  # of the ranks that a kernel could have beyond one, below which inputs are nearly one
_DEEPEST = 1 << 20
_SAMPLE = 48  # inputs looked at when searching over depths


@dataclass(frozen=True)
class KernelDiagnosis:
    """Why a kernel is close to singular, from which depth on in each number format, and what would help.

    Example:
        >>> import numpy as np
        >>> from isometer.theory.kernels import diagnose_kernel
        >>> from isometer.theory.kernels import kernel_matrix
        >>> x = np.random.default_rng(0).standard_normal((8, 20))
        >>> x /= np.linalg.norm(x, axis=1, keepdims=True)
        >>> found = diagnose_kernel(kernel_matrix("unit(softplus)", x, 60))
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


def headline(kernel: KernelMatrix, diagnosis: KernelDiagnosis | None) -> str:
    """The state of a kernel in one line.

    Example:
        >>> import numpy as np
        >>> from isometer.theory.kernels import kernel_matrix
        >>> headline(kernel_matrix("normalized(relu)", np.eye(4), 10), None)
        'Well conditioned: the condition number of the NNGP matrix is 1 at depth 10.'
    """
    kind, depth, condition = kernel.kind.upper(), kernel.depth, kernel.condition_number
    if diagnosis is None and condition < NEAR_SINGULAR:
        rank, inputs = kernel.effective_rank, len(kernel.matrix)
        if inputs > 1 and (rank - 1) / (inputs - 1) < _COLLAPSED:
            return (
                f"Nearly collapsed: the {kind} matrix has effective rank {rank:.3g} of {inputs} at depth {depth} "
                f"(condition number {condition:.3g}); inputs are hard to distinguish."
            )
        grade = "Well" if condition < _FAIR else "Fairly well"
        return f"{grade} conditioned: the condition number of the {kind} matrix is {condition:.3g} at depth {depth}."
    if kernel.singular is not None:
        return f"Singular at every depth: {kernel.singular.partition(':')[0]}."
    size = "beyond float64" if math.isinf(condition) else f"{condition:.2g}"
    why = {
        "ordered": "layers make inputs alike, and fewer of them help",
        "critical": "layers make inputs alike, if slowly, and fewer of them help",
        "chaotic": "the inputs are too close together, and more layers help",
        "linear": "the network is linear and the inputs are dependent",
    }.get("unknown" if diagnosis is None else diagnosis.phase, "isometer predict shows which layers align inputs")
    return f"Close to singular: the condition number of the {kind} matrix is {size} at depth {depth}; {why}."


def diagnose_kernel(
    kernel: KernelMatrix,
    *,
    norm: Norm = "none",
    norm_position: Place = "pre",
    bias: float = 0.0,
    residual: float | None = None,
    entry_bias: float | None = None,
    readout_bias: bool = True,
) -> KernelDiagnosis | None:
    """A diagnosis when the condition number exceeds `NEAR_SINGULAR`; None for a healthy kernel.

    Depths are searched on at most 48 of the inputs, the closest pair among them, at float64 resolution.

    Args:
        kernel: kernel of the network that the other arguments describe, as for `kernel_matrices`.
        readout_bias: whether the readout has a bias as the layers do; never beside a skip connection.

    Example:
        >>> import numpy as np
        >>> from isometer.theory.kernels import diagnose_kernel
        >>> from isometer.theory.kernels import kernel_matrix
        >>> diagnose_kernel(kernel_matrix("normalized(relu)", np.eye(4), 10)) is None
        True
    """
    if kernel.condition_number < NEAR_SINGULAR:
        return None
    phi, depth = kernel.activation, kernel.depth
    nothing: dict[str, int | None] = dict.fromkeys(EPSILON)
    if kernel.singular is not None:
        return KernelDiagnosis("unknown", nothing, nothing, (_sentence(kernel.singular),))
    common = kernel.batch.common_length
    if depth == 0:
        return KernelDiagnosis("linear", nothing, nothing, ("At depth 0 the kernel is the inputs' own Gram matrix.",))
    strength = checked_residual(residual)
    folded = bias == 0.0 and strength is None and (norm != "none" and norm_position == "pre")
    factored = bias == 0.0 and SignalFamily(phi).homogeneous and (strength is None or norm == "none")
    if common is None and not folded and not factored:
        text = "The inputs have different lengths; depths are searched for inputs of one length only — normalise them."
        return KernelDiagnosis("unknown", nothing, nothing, (text,))
    network = SphereKernel(
        phi, depth, squared_length=common or 1.0, bias=bias, norm=norm, norm_position=norm_position,
        residual=strength, entry_bias=entry_bias, tangent=kernel.kind == "ntk",
    )  # fmt: skip
    last = network.constant or network.transient[-1]
    phase = "linear" if last.dual.base.second_moment > 0 and _is_linear(network) else _phase(last.growth)
    search = _DepthSearch(network, kernel, 0.0 if readout_bias or strength is not None else bias)
    passes = {name: search.first(lambda c, e=eps: c >= 1 / e) for name, eps in EPSILON.items()}
    recovers: dict[str, int | None] = dict.fromkeys(EPSILON)
    if phase == "chaotic":
        recovers = {name: search.first(lambda c, e=eps: c < 1 / e) for name, eps in EPSILON.items()}
    return KernelDiagnosis(phase, passes, recovers, tuple(_words(kernel, phase, last.growth, passes, recovers)))


def _is_linear(network: SphereKernel) -> bool:
    stage = network.constant or network.transient[-1]
    probe = np.array([0.3, 0.7])
    # κ is the identity, and no bias takes part: all but the skip comes from φ
    return bool(np.allclose(stage.dual.deficit(probe), probe, rtol=1e-12, atol=0) and stage.share == stage.source)


def _phase(growth: float) -> str:
    if abs(growth - 1.0) <= 1e-9:
        return "critical"
    return "ordered" if growth < 1.0 else "chaotic"


class _DepthSearch:
    """Condition numbers over depth on a subset of the inputs, remembered."""

    def __init__(self, network: SphereKernel, kernel: KernelMatrix, surplus: float = 0.0) -> None:
        self.network, self.kind, self.surplus = network, kernel.kind, surplus
        batch = kernel.batch
        n = len(batch.directions)
        chosen = np.arange(min(n, _SAMPLE))
        if n > _SAMPLE:
            # pushes the diagonal below every other entry
            masked = kernel.matrix - 2.0 * np.eye(n) * kernel.matrix.max()
            pair = np.unravel_index(int(np.argmax(masked)), masked.shape)
            chosen = np.unique(np.concatenate([np.arange(_SAMPLE - 2), np.array(pair)]))
        part = Batch(batch.directions[chosen], batch.squared_lengths[chosen])
        everything = slice(0, len(chosen))
        self.s = coordinates(*part.gaps(everything, everything))
        np.fill_diagonal(self.s, -np.inf)
        self.known: dict[int, float] = {}
        # without a constant stage every layer costs a dual of its own: search less deep
        cheap = network.layers.residual is None or network.layers.one_dual
        farther = network.layers.patience // 20 if cheap else 100
        self.deepest = _DEEPEST if network.constant is not None else max(network.depth, farther)

    def condition(self, depth: int) -> float:
        """Condition number; `inf` beyond what float64 resolves."""
        if depth not in self.known:
            deep = self.network.at_depth(depth)
            nngp, ntk = deep.values(self.s)
            matrix = nngp if self.kind == "nngp" else ntk
            assert matrix is not None
            if self.surplus > 0.0:
                part = self.surplus * math.exp(-deep.log_diagonal(self.kind))
                matrix = (matrix - part) / (1.0 - part)
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
        # bisection takes the condition number as monotone between the two depths
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
