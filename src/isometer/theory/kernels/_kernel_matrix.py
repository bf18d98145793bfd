"""NNGP and NTK matrices of a batch at infinite width.

Inputs of one length, homogeneous activations and normalisation before φ all reduce to functions of one angle, whose
cost does not grow with depth (`depth_free`). Inputs of different lengths otherwise cost per layer (`mixed_lengths`).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import linalg

from isometer._display import Drawn
from isometer.activations import Activation
from isometer.activations._activation import DOUBTFUL
from isometer.errors import IsometerError
from isometer.theory.kernels._depth_free import SphereKernel, checked_depth
from isometer.theory.kernels._inputs import Batch, blocks
from isometer.theory.kernels._kernel_map import Norm
from isometer.theory.kernels._layer_maps import Place, coordinates
from isometer.theory.kernels._length_map import SignalFamily, checked_residual, checked_variance
from isometer.theory.kernels._mixed_lengths import Architecture, Signals, mixed_kernels, unit_gaps
from isometer.theory.kernels._work import check_kernel_work, check_mixed_work

Floats = NDArray[np.float64]
Kind = Literal["nngp", "ntk"]
ACCURACY = 1e-9
"""Of the entries of a kernel over its largest diagonal entry, where nothing is sampled."""
_SHARE = 0.1  # of the smallest eigenvalue, beyond which an error leaves nothing of it
_DIRECT = 3000  # fewer pairs than this are not worth a table


@dataclass(frozen=True, repr=False)
class KernelMatrix(Drawn):
    """A kernel over its largest diagonal entry, with the logarithms of the diagonal it was divided by.

    `error` bounds that of an entry: 1e-9, or three standard errors and more where expectations were sampled.

    Example:
        >>> import numpy as np
        >>> from isometer.theory.kernels import kernel_matrix
        >>> kernel = kernel_matrix("unit(relu)", np.eye(3), depth=7, kind="ntk")
        >>> np.exp(kernel.log_diagonal).round(9)
        array([8., 8., 8.])
        >>> kernel.condition_number < 3
        True
    """

    kind: Kind
    depth: int
    activation: Activation
    matrix: Floats  # (n, n)
    log_diagonal: Floats  # (n,), natural logarithms of the kernel's own diagonal
    batch: Batch
    singular: str | None  # why it is singular by construction, if it is
    error: float = ACCURACY  # of an entry of `matrix`

    def __repr__(self) -> str:
        return f"KernelMatrix({self.activation.name!r}, {self.kind}, depth {self.depth}, {len(self.matrix)} inputs)"

    @cached_property
    def eigenvalues(self) -> Floats:
        """Ascending, of `matrix`.

        Example:
            >>> import numpy as np
            >>> from isometer.theory.kernels import kernel_matrix
            >>> kernel_matrix("identity", np.eye(2), 3).eigenvalues
            array([1., 1.])
        """
        return np.asarray(linalg.eigvalsh(self.matrix))

    @property
    def largest_eigenvalue(self) -> float:
        """λ_max of `matrix`.

        Example:
            >>> from isometer.theory.kernels import kernel_matrix
            >>> kernel_matrix("relu", [[2.0]], 1).largest_eigenvalue
            1.0
        """
        return float(self.eigenvalues[-1])

    @cached_property
    def warnings(self) -> tuple[str, ...]:
        """Warnings about its numbers.

        Example:
            >>> from isometer.theory.kernels import kernel_matrix
            >>> kernel_matrix("relu", [[2.0]], 1).warnings
            ()
        """
        found = list(self.activation.warnings)
        if self.error > DOUBTFUL:
            found.append(f"entries are sampled, with an error of up to {self.error:.1g} of the largest diagonal entry")
            shift = len(self.matrix) * self.error  # by Weyl no eigenvalue moves further
            if self.singular is None and shift > _SHARE * self.smallest_eigenvalue:
                found.append(
                    f"eigenvalues have an error of up to {shift:.1g}, and the smallest is "
                    f"{self.smallest_eigenvalue:.3g}: the condition number is uncertain"
                )
        return tuple(found)

    @property
    def resolution(self) -> float:
        """n ε λ_max: smaller eigenvalues of a float64 matrix are rounding.

        Example:
            >>> from isometer.theory.kernels import kernel_matrix
            >>> kernel_matrix("relu", [[2.0]], 1).resolution < 1e-15
            True
        """
        return len(self.matrix) * float(np.finfo(float).eps) * self.largest_eigenvalue

    @property
    def smallest_eigenvalue(self) -> float:
        """λ_min of `matrix`; 0 when it is singular by construction or below what float64 resolves.

        Example:
            >>> from isometer.theory.kernels import kernel_matrix
            >>> kernel_matrix("relu", [[1.0, 0.0], [1.0, 0.0]], 1).smallest_eigenvalue
            0.0
        """
        value = float(self.eigenvalues[0])
        return 0.0 if self.singular is not None or value <= self.resolution else value

    @property
    def condition_number(self) -> float:
        """λ_max/λ_min (004/def-kappa); `inf` where λ_min is zero.

        Example:
            >>> from isometer.theory.kernels import kernel_matrix
            >>> kernel_matrix("relu", [[1.0, 0.0], [1.0, 0.0]], 1).condition_number
            inf
        """
        low = self.smallest_eigenvalue
        return self.largest_eigenvalue / low if low > 0 else math.inf

    @property
    def effective_rank(self) -> float:
        """exp of the entropy of the eigenvalues' shares; 0 for the zero matrix.

        Example:
            >>> import numpy as np
            >>> from isometer.theory.kernels import kernel_matrix
            >>> round(kernel_matrix("identity", np.eye(5), 3).effective_rank, 9)
            5.0
        """
        # rounding leaves small negative eigenvalues
        share = np.clip(self.eigenvalues, 0.0, None)
        if not share.any():
            return 0.0
        share = share[share > 0] / share.sum()
        return float(np.exp(-np.sum(share * np.log(share))))


def kernel_matrix(
    source: str | Activation | Any,
    inputs: ArrayLike,
    depth: int,
    kind: Kind = "nngp",
    *,
    bias: float = 0.0,
    norm: Norm = "none",
    norm_position: Place = "pre",
    residual: float | None = None,
) -> KernelMatrix:
    """The NNGP or NTK matrix of a batch; see `kernel_matrices`.

    Example:
        >>> from isometer.theory.kernels import kernel_matrix
        >>> kernel_matrix("unit(relu)", [[1.0, 0.0], [0.0, 1.0]], depth=1).matrix.round(6)
        array([[1.     , 0.31831],
               [0.31831, 1.     ]])
    """
    return kernel_matrices(
        source, inputs, depth, kinds=(kind,), bias=bias, norm=norm, norm_position=norm_position, residual=residual
    )[kind]


def kernel_matrices(
    source: str | Activation | SignalFamily | Any,
    inputs: ArrayLike | Batch,
    depth: int,
    *,
    kinds: Sequence[Kind] = ("nngp", "ntk"),
    bias: float = 0.0,
    norm: Norm = "none",
    norm_position: Place = "pre",
    residual: float | None = None,
    entry_bias: float | None = None,
    progress: Callable[[int, int], None] | None = None,
) -> dict[Kind, KernelMatrix]:
    """Kernels of a network of infinite width on a batch.

    Depth L is L hidden layers of the activation as given; weights have unit variance in the NTK parametrisation
    h ↦ Wh/√m, the input layer sees x as it is, the readout is linear. NNGP: the kernel map applied L times. NTK: all
    L + 1 weight matrices are trained, Θ_0 = ⟨x, x′⟩, Θ_l = K_l + Θ_{l−1}·E φ′φ′ (004/eq-7). With a bias variance V
    every layer, the readout included, has trained biases √V·N(0, 1).

    With residual strength γ the network is h_0 = W_0x + b_0, then L layers h + γ(Wφ(h)/√m + b), any norm inside the
    branch, then a readout of h_L without activation or bias: the step `residual` of a `Spec` of order ("activation",
    "weights", "residual"). NNGP: K_l = K_{l−1} + γ²(E φφ + V). NTK: L + 2 weight matrices,
    Θ_l = Θ_{l−1}(1 + γ²E φ′φ′) + γ²(E φφ + V), and K_L of the readout on top.

    A zero vector has no direction, but a kernel: its first pre-activation is the bias. Without biases it is φ(0) that
    the next layer sees; if that is zero too, its row is zero and `singular` says so.

    Args:
        source: the activation; write "normalized(relu)" to normalise.
        inputs: (n, d), or a `Batch` that was checked already.
        depth: number of hidden layers, from 0 (a linear model) up.
        kinds: which of "nngp" and "ntk".
        bias: V.
        norm: "layer" or "rms" over features, with trained gains left out.
        norm_position: "pre" is φ(norm(Wh)), "post" is norm(φ(Wh)); "sum" is norm(h + γ(Wφ(h) + b)).
        residual: γ; None or infinity for no skip connections.
        entry_bias: V of the first weights, where their biases are others.
        progress: called as `progress(done, total)` in layers, where the cost grows with depth.

    Returns:
        One `KernelMatrix` per kind.

    Accuracy: 1e-9 of the diagonal or better where the cost does not depend on depth. Elsewhere angles carry absolute
    errors of about 1e-15, so 1 − ρ of near-duplicates is right to about 1e-15/θ; for activations that jump and inputs
    of several lengths 1 − ρ itself carries that error.

    Implements 004/def-K, 004/def-NTK, 004/eq-7, 004/eq-NTKdiag, 004/def-sigma-c.

    Example:
        >>> import numpy as np
        >>> from isometer.theory.kernels import kernel_matrices
        >>> x = np.array([[1.0, 0.0], [0.6, 0.8]])
        >>> both = kernel_matrices("normalized(relu)", x, depth=1000)
        >>> both["ntk"].matrix.round(9) + 0.0
        array([[1., 0.],
               [0., 1.]])
        >>> skips = kernel_matrices("unit(relu)", x, depth=3, residual=1.0)
        >>> np.exp(skips["nngp"].log_diagonal).round(9)  # doubled by every layer
        array([8., 8.])
    """
    layers = checked_depth(depth)
    for kind in kinds:
        if kind not in ("nngp", "ntk"):
            raise IsometerError(f"kind must be 'nngp' or 'ntk'; got {kind!r}")
    if norm not in ("none", "layer", "rms") or norm_position not in ("pre", "post", "sum"):
        raise IsometerError(
            f"norm must be 'none', 'layer' or 'rms' and norm_position 'pre', 'post' or 'sum'; got {norm!r}, "
            f"{norm_position!r} — batch norm has no kernel of two samples"
        )
    entry = None if entry_bias is None else checked_variance(entry_bias, "the bias variance")
    net = Architecture(
        checked_variance(bias, "the bias variance"), norm, norm_position, checked_residual(residual), entry
    )
    if net.renewing and net.residual is None:
        raise IsometerError("norm_position is 'sum' without a skip connection; expected a residual strength — pass one")
    family = source if isinstance(source, SignalFamily) else SignalFamily(source)
    batch = inputs if isinstance(inputs, Batch) else Batch.of(inputs)
    check_kernel_work(len(batch.directions), batch.directions.shape[1], len(kinds))
    silent = _silent(family, batch, layers, net)
    # silent inputs have no angle: the others are computed without them and embedded again below
    living = np.setdiff1d(np.arange(len(batch.directions)), silent) if len(silent) else None
    part = batch if living is None else Batch(batch.directions[living], batch.squared_lengths[living])
    scale_free = _scale_free(family, layers, net)
    matrices: dict[Kind, tuple[Floats, Floats]]
    if living is not None and len(living) == 0:
        matrices = {kind: (np.zeros((0, 0)), np.zeros(0)) for kind in kinds}
    elif layers == 0:
        matrices = _linear(part, kinds, net)
    elif part.common_length is None and not (scale_free and len(part.zeros) == 0):
        check_mixed_work(family, len(part.directions), part.directions.shape[1], layers, tangent="ntk" in kinds)
        matrices = _by_layers(family, part, layers, kinds, net, progress)
    else:
        matrices = _on_sphere(family, part, layers, kinds, net)
    reason = singular_reason(batch, by_direction=batch.common_length is not None or scale_free, silent=silent)
    if living is not None:
        matrices = {kind: _embedded(len(batch.directions), living, *found) for kind, found in matrices.items()}
    return {
        kind: KernelMatrix(kind, layers, family.activation, matrix, logs, batch, reason)
        for kind, (matrix, logs) in matrices.items()
    }


def _scale_free(family: SignalFamily, layers: int, net: Architecture) -> bool:
    """Whether lengths factor out of a network without biases, or do not matter to it."""
    if layers == 0 or net.bias > 0.0 or net.entry_bias > 0.0:
        return False
    if net.residual is not None:
        return family.homogeneous and (net.norm == "none" or net.renewing)
    return family.homogeneous or net.before


def _silent(family: SignalFamily, batch: Batch, layers: int, net: Architecture) -> NDArray[np.intp]:
    """Zero vectors that stay zero: neither a bias nor φ(0) gives them a signal."""
    wakes = (
        net.entry_bias > 0.0
        or (layers > 0 and net.bias > 0.0)
        or (layers > 0 and family.activation(0.0) != 0.0 and not net.centring)
    )
    return np.empty(0, dtype=np.intp) if wakes else batch.zeros


def _embedded(n: int, living: NDArray[np.intp], matrix: Floats, logs: Floats) -> tuple[Floats, Floats]:
    """The kernel with zero rows where the signal is zero."""
    whole, diagonal = np.zeros((n, n)), np.full(n, -np.inf)
    whole[np.ix_(living, living)] = matrix
    diagonal[living] = logs
    return whole, diagonal


def singular_reason(batch: Batch, *, by_direction: bool, silent: NDArray[np.intp]) -> str | None:
    """Zero signals have zero rows, duplicated inputs equal rows, and where lengths do not matter parallel ones too."""
    if len(silent):
        listed = ", ".join(str(i) for i in silent[:3]) + (", …" if len(silent) > 3 else "")
        who = f"inputs {listed} are zero vectors" if len(silent) > 1 else f"input {listed} is the zero vector"
        return (
            f"{who}, and without biases no signal comes of it: its row of the kernel is zero, at every depth — drop "
            "it, append a constant feature, or add biases"
        )
    _, _, same, _ = batch.closest
    if not by_direction:
        lengths = batch.squared_lengths
        same = [(i, j) for i, j in same if abs(lengths[i] - lengths[j]) <= 1e-14 * lengths[i]]
    same = [*same, *((int(batch.zeros[0]), int(i)) for i in batch.zeros[1:])]
    if not same:
        return None
    listed = ", ".join(f"{i} and {j}" for i, j in same[:3]) + (", …" if len(same) > 3 else "")
    what = "point the same way" if by_direction and batch.common_length is None else "are the same"
    return f"inputs {listed} {what}: the kernel is singular by construction, at every depth — drop the duplicates"


def _relative(matrix: Floats, diagonal: Floats) -> tuple[Floats, Floats]:
    """(the matrix over its largest diagonal entry, the logarithms of the diagonal)."""
    matrix /= diagonal.max()
    return matrix, np.log(diagonal)


def _linear(batch: Batch, kinds: Sequence[Kind], net: Architecture) -> dict[Kind, tuple[Floats, Floats]]:
    lengths = np.sqrt(batch.squared_lengths)
    gram = (batch.directions @ batch.directions.T) * np.outer(lengths, lengths)
    # directions have unit length up to rounding only; the diagonal is known exactly
    np.fill_diagonal(gram, batch.squared_lengths if batch.common_length is None else batch.common_length)
    gram += net.entry_bias
    matrix, logs = _relative(gram, np.diag(gram).copy())
    twice = 0.0 if net.residual is None else math.log(2.0)  # an input layer and a readout
    return {kind: (matrix, logs + (twice if kind == "ntk" else 0.0)) for kind in kinds}


def _on_sphere(
    family: SignalFamily, batch: Batch, depth: int, kinds: Sequence[Kind], net: Architecture
) -> dict[Kind, tuple[Floats, Floats]]:
    common = batch.common_length
    kernel = SphereKernel(
        family,
        depth,
        squared_length=1.0 if common is None else common,
        bias=net.bias,
        norm=net.norm,
        norm_position=net.norm_position,
        residual=net.residual,
        entry_bias=net.entry_bias,
        tangent="ntk" in kinds,
    )
    if "ntk" in kinds and not kernel.has_tangent:
        raise kernel.no_tangent()
    n = len(batch.directions)
    out: dict[Kind, Floats] = {kind: np.empty((n, n)) for kind in kinds}
    channels = {"nngp": 0, "ntk": 1}
    direct = n * (n - 1) // 2 <= _DIRECT
    for rows, columns in blocks(n):
        s = coordinates(*batch.gaps(rows, columns))
        if direct:
            pair = kernel.values(s)
            found = {kind: pair[channels[kind]] for kind in kinds}
        else:
            table = kernel.tabulated(s, kinds[0] if len(kinds) == 1 else None)
            found = {kind: table[0 if len(kinds) == 1 else channels[kind]] for kind in kinds}
        for kind in kinds:
            block = found[kind]
            assert block is not None
            out[kind][rows, columns] = block
            out[kind][columns, rows] = block.T
    # lengths matter only to a homogeneous φ without normalisation
    lengths = np.log(batch.squared_lengths) if common is None and net.norm == "none" else np.zeros(n)
    result: dict[Kind, tuple[Floats, Floats]] = {}
    for kind, matrix in out.items():
        np.fill_diagonal(matrix, 1.0)
        if lengths.any():
            share = np.exp((lengths - lengths.max()) / 2)
            matrix *= share[:, None]
            matrix *= share[None, :]
        result[kind] = matrix, kernel.log_diagonal(kind) + lengths
    return result


def _by_layers(
    family: SignalFamily,
    batch: Batch,
    depth: int,
    kinds: Sequence[Kind],
    net: Architecture,
    progress: Callable[[int, int], None] | None = None,
) -> dict[Kind, tuple[Floats, Floats]]:
    want = "ntk" in kinds
    if want and family.activation.jumps:
        raise SphereKernel(family, depth).no_tangent()
    first = _first_signals(batch, net.entry_bias, want)
    state, tangent = mixed_kernels(family, first, depth, net, progress)
    out: dict[Kind, tuple[Floats, Floats]] = {}
    if "nngp" in kinds:
        covariance = state.covariance()
        np.fill_diagonal(covariance, state.variances)
        out["nngp"] = _relative(covariance, state.variances)
    if tangent is not None:
        out["ntk"] = _relative(tangent, np.diag(tangent).copy())
    return {kind: out[kind] for kind in kinds}


def _first_signals(batch: Batch, bias: float, want: bool) -> Signals:
    """⟨x, x′⟩ + V as variances and angles."""
    n, squared = len(batch.directions), batch.squared_lengths
    total = squared + bias
    amplitudes = np.sqrt(np.stack([squared, np.full(n, bias)], axis=1) / np.where(total > 0.0, total, 1.0)[:, None])
    s = np.empty((n, n))
    for rows, columns in blocks(n):
        gap, mirror = batch.gaps(rows, columns)
        common = unit_gaps(amplitudes[rows], amplitudes[columns])
        weight = np.outer(amplitudes[rows, 0], amplitudes[columns, 0])
        # the bias is common to both inputs: it adds to 1 + ρ only
        own = np.outer(amplitudes[rows, 1], amplitudes[columns, 1])
        s[rows, columns] = coordinates(common + weight * gap, common + weight * mirror + 2.0 * own)
        s[columns, rows] = s[rows, columns].T
    np.fill_diagonal(s, -np.inf)
    first = Signals(total, s, None)
    return Signals(total, s, first.covariance()) if want else first
