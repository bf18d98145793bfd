"""NNGP and NTK matrices of a batch at infinite width.

Inputs of one length, homogeneous activations and normalisation before φ all reduce to functions of one angle, whose
cost does not grow with depth (`depth_free`). Inputs of different lengths otherwise cost per layer: smooth activations
by their generalised Hermite series (004/eq-15), others by quadrature pair by pair.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import linalg

from isometer.activations import Activation, gaussian
from isometer.activations.dual import PiecewiseFunction, pair_expectation
from isometer.errors import InfiniteMomentError, IsometerError
from isometer.theory.depth_free import SphereKernel, checked_depth, coordinates
from isometer.theory.kernel_maps import Norm, Position
from isometer.theory.length_maps import OVERFLOW, UNIT, SignalFamily, checked_variance, diverging

Floats = NDArray[np.float64]
Kind = Literal["nngp", "ntk"]
_ROWS = 128  # rows of a matrix worked on at a time: scratch stays far below n × n
_NEAR = 1e-3  # gaps below this are taken from differences of the vectors
_SAME = 1e-30  # and below this the directions are equal up to the rounding of the inputs
_DIRECT = 3000  # fewer pairs than this are not worth a table
_SLOW_PAIRS = 40_000  # quadratures pair by pair: about a millisecond each
_FAINT = 1e-280


@dataclass(frozen=True)
class Batch:
    """Checked inputs: directions, squared lengths, and which of them coincide.

    Example:
        >>> from isometer.theory import Batch
        >>> Batch.of([[3.0, 4.0]]).directions
        array([[0.6, 0.8]])
    """

    directions: Floats  # (n, d), unit rows
    squared_lengths: Floats  # (n,)

    @classmethod
    def of(cls, inputs: ArrayLike) -> Batch:
        """Check an (n, d) array.

        Example:
            >>> from isometer.theory.kernels import Batch
            >>> Batch.of([[3.0, 4.0]]).squared_lengths
            array([25.])
        """
        try:
            array = np.asarray(inputs)
        except ValueError as problem:
            raise IsometerError(f"inputs must be an (n, d) array of numbers: {problem}") from None
        if array.dtype.kind not in "fiub":
            raise IsometerError(f"inputs must be real numbers; got an array of type {array.dtype}")
        if array.ndim != 2 or 0 in array.shape:
            raise IsometerError(
                f"inputs must have the shape (n, d), samples then features; got {array.shape} — "
                "flatten each sample to a row, or add an axis with inputs[None, :]"
            )
        data = array.astype(float)
        bad = ~np.isfinite(data).all(axis=1)
        if bad.any():
            raise IsometerError(
                f"input {int(np.argmax(bad))} has NaN or infinite entries ({int(bad.sum())} such of {len(data)}) — "
                "clean the data first"
            )
        largest = np.abs(data).max(axis=1)
        if not largest.all():
            zero = np.flatnonzero(largest == 0.0)
            raise IsometerError(
                f"input {int(zero[0])} is the zero vector ({len(zero)} such of {len(data)}): it has no direction — "
                "drop it, or append a constant feature"
            )
        scaled = data / largest[:, None]
        lengths = np.sqrt(np.einsum("nd,nd->n", scaled, scaled))
        with np.errstate(over="ignore", under="ignore"):
            squared = (lengths * largest) ** 2
        if not ((squared > 0.0) & np.isfinite(squared)).all():
            extreme = float(largest[np.argmax(~((squared > 0.0) & np.isfinite(squared)))])
            raise IsometerError(f"the squared length of an input near {extreme:.3g} is no float64 — rescale the inputs")
        return cls(scaled / lengths[:, None], squared)

    @property
    def common_length(self) -> float | None:
        """‖x‖² when it is the same for all, up to rounding."""
        low, high = float(self.squared_lengths.min()), float(self.squared_lengths.max())
        if high - low > UNIT * high:
            return None
        middle = (low + high) / 2
        return 1.0 if abs(middle - 1.0) <= UNIT else middle

    def gaps(self, rows: slice, columns: slice) -> tuple[Floats, Floats]:
        """(1 − ρ, 1 + ρ) of a block of pairs, each to relative accuracy, exactly 0 for equal directions."""
        left, right = self.directions[rows], self.directions[columns]
        cosine = left @ right.T
        gap, mirror = 1.0 - cosine, 1.0 + cosine
        for values, sign in ((gap, -1.0), (mirror, 1.0)):
            i, j = np.nonzero(values < _NEAR)
            step = max(1, (1 << 20) // left.shape[1])
            for start in range(0, len(i), step):
                a, b = i[start : start + step], j[start : start + step]
                apart = left[a] + sign * right[b]
                exact = 0.5 * np.einsum("kd,kd->k", apart, apart)
                values[a, b] = np.where(exact < _SAME, 0.0, exact)
        near = mirror < _NEAR  # each is 2 minus the other: take the accurate one
        return np.where(near, 2.0 - mirror, gap), np.where(gap < _NEAR, 2.0 - gap, mirror)

    @cached_property
    def closest(self) -> tuple[float, float, list[tuple[int, int]], list[tuple[int, int]]]:
        """(smallest 1 − ρ, smallest 1 + ρ, first parallel pairs, first opposite pairs) over distinct inputs."""
        low, opposite = math.inf, math.inf
        same: list[tuple[int, int]] = []
        flipped: list[tuple[int, int]] = []
        for rows, columns in _blocks(len(self.directions)):
            gap, mirror = self.gaps(rows, columns)
            later = np.arange(columns.start, columns.stop)[None, :] > np.arange(rows.start, rows.stop)[:, None]
            if not later.any():
                continue
            low = min(low, float(gap[later].min()))
            opposite = min(opposite, float(mirror[later].min()))
            for found, values in ((same, gap), (flipped, mirror)):
                if len(found) < 10:
                    i, j = np.nonzero((values == 0.0) & later)
                    found += [
                        (int(a) + rows.start, int(b) + columns.start)
                        for a, b in zip(i[: 10 - len(found)], j[: 10 - len(found)], strict=True)
                    ]
        return low, opposite, same, flipped


@dataclass(frozen=True)
class KernelMatrix:
    """A kernel over its largest diagonal entry, with the logarithms of the diagonal it was divided by.

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
        """exp of the entropy of the eigenvalues' shares.

        Example:
            >>> import numpy as np
            >>> from isometer.theory.kernels import kernel_matrix
            >>> round(kernel_matrix("identity", np.eye(5), 3).effective_rank, 9)
            5.0
        """
        share = np.clip(self.eigenvalues, 0.0, None)
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
    norm_position: Position = "pre",
) -> KernelMatrix:
    """The NNGP or NTK matrix of a batch; see `kernel_matrices`.

    Example:
        >>> from isometer.theory.kernels import kernel_matrix
        >>> kernel_matrix("unit(relu)", [[1.0, 0.0], [0.0, 1.0]], depth=1).matrix.round(6)
        array([[1.     , 0.31831],
               [0.31831, 1.     ]])
    """
    return kernel_matrices(source, inputs, depth, kinds=(kind,), bias=bias, norm=norm, norm_position=norm_position)[
        kind
    ]


def kernel_matrices(
    source: str | Activation | SignalFamily | Any,
    inputs: ArrayLike | Batch,
    depth: int,
    *,
    kinds: Sequence[Kind] = ("nngp", "ntk"),
    bias: float = 0.0,
    norm: Norm = "none",
    norm_position: Position = "pre",
) -> dict[Kind, KernelMatrix]:
    """Kernels of a network of infinite width on a batch.

    Depth L is L hidden layers of the activation as given; weights have unit variance in the NTK parametrisation
    h ↦ Wh/√m, the input layer sees x as it is, the readout is linear. NNGP: the kernel map applied L times. NTK: all
    L + 1 weight matrices are trained, Θ_0 = ⟨x, x′⟩, Θ_l = K_l + Θ_{l−1}·E φ′φ′ (004/eq-7). With a bias variance V
    every layer, the readout included, has trained biases √V·N(0, 1).

    Args:
        source: the activation; write "normalized(relu)" to normalise.
        inputs: (n, d), or a `Batch` that was checked already.
        depth: number of hidden layers, from 0 (a linear model) up.
        kinds: which of "nngp" and "ntk".
        bias: V.
        norm: "layer" or "rms" over features, with trained gains left out.
        norm_position: "pre" is φ(norm(Wh)), "post" is norm(φ(Wh)).

    Returns:
        One `KernelMatrix` per kind.

    Accuracy: 1e-9 of the diagonal or better where the cost does not depend on depth. Inputs of several lengths keep
    cosines, not gaps: there 1 − ρ is known to 1e-15 only, which a chaotic network amplifies layer by layer.

    Implements 004/def-K, 004/def-NTK, 004/eq-7, 004/eq-NTKdiag, 004/def-sigma-c.

    Example:
        >>> import numpy as np
        >>> from isometer.theory.kernels import kernel_matrices
        >>> x = np.array([[1.0, 0.0], [0.6, 0.8]])
        >>> both = kernel_matrices("normalized(relu)", x, depth=1000)
        >>> both["ntk"].matrix.round(9) + 0.0
        array([[1., 0.],
               [0., 1.]])
    """
    layers, variance = checked_depth(depth), checked_variance(bias, "the bias variance")
    for kind in kinds:
        if kind not in ("nngp", "ntk"):
            raise IsometerError(f"kind must be 'nngp' or 'ntk'; got {kind!r}")
    if norm not in ("none", "layer", "rms") or norm_position not in ("pre", "post"):
        raise IsometerError(
            f"norm must be 'none', 'layer' or 'rms' and norm_position 'pre' or 'post'; got {norm!r}, {norm_position!r} "
            "— batch norm has no kernel of two samples"
        )
    family = source if isinstance(source, SignalFamily) else SignalFamily(source)
    batch = inputs if isinstance(inputs, Batch) else Batch.of(inputs)
    common = batch.common_length
    scale_free = layers > 0 and variance == 0.0 and (family.homogeneous or (norm != "none" and norm_position == "pre"))
    if common is None and not scale_free and layers > 0:
        matrices = _by_layers(family, batch, layers, kinds, variance, norm, norm_position)
    elif layers == 0:
        matrices = _linear(batch, kinds, variance)
    else:
        matrices = _on_sphere(family, batch, layers, kinds, variance, norm, norm_position, common)
    reason = _singular(batch, common is not None or scale_free)
    return {
        kind: KernelMatrix(kind, layers, family.activation, matrix, logs, batch, reason)
        for kind, (matrix, logs) in matrices.items()
    }


def _singular(batch: Batch, by_direction: bool) -> str | None:
    """Duplicated inputs have equal rows, and where lengths do not matter parallel ones too."""
    _, _, same, _ = batch.closest
    if not by_direction:
        lengths = batch.squared_lengths
        same = [(i, j) for i, j in same if abs(lengths[i] - lengths[j]) <= 1e-14 * lengths[i]]
    if not same:
        return None
    listed = ", ".join(f"{i} and {j}" for i, j in same[:3]) + (", …" if len(same) > 3 else "")
    what = "point the same way" if by_direction and batch.common_length is None else "are the same"
    return f"inputs {listed} {what}: the kernel is singular by construction, at every depth — drop the duplicates"


def _blocks(n: int) -> Iterator[tuple[slice, slice]]:
    """Rows and the columns from them on: the upper triangle in strips."""
    for start in range(0, n, _ROWS):
        yield slice(start, min(start + _ROWS, n)), slice(start, n)


def _linear(batch: Batch, kinds: Sequence[Kind], bias: float) -> dict[Kind, tuple[Floats, Floats]]:
    lengths = np.sqrt(batch.squared_lengths)
    gram = (batch.directions @ batch.directions.T) * np.outer(lengths, lengths)
    np.fill_diagonal(gram, batch.squared_lengths if batch.common_length is None else batch.common_length)
    gram += bias
    diagonal = np.diag(gram).copy()
    gram /= diagonal.max()
    return {kind: (gram, np.log(diagonal)) for kind in kinds}


def _on_sphere(
    family: SignalFamily,
    batch: Batch,
    depth: int,
    kinds: Sequence[Kind],
    bias: float,
    norm: Norm,
    position: Position,
    common: float | None,
) -> dict[Kind, tuple[Floats, Floats]]:
    kernel = SphereKernel(
        family,
        depth,
        squared_length=1.0 if common is None else common,
        bias=bias,
        norm=norm,
        norm_position=position,
        tangent="ntk" in kinds,
    )
    if "ntk" in kinds and not kernel.has_tangent:
        raise kernel.no_tangent()
    n = len(batch.directions)
    out: dict[Kind, Floats] = {kind: np.empty((n, n)) for kind in kinds}
    channels = {"nngp": 0, "ntk": 1}
    direct = n * (n - 1) // 2 <= _DIRECT
    for rows, columns in _blocks(n):
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
    lengths = np.log(batch.squared_lengths) if common is None and norm == "none" else np.zeros(n)
    result: dict[Kind, tuple[Floats, Floats]] = {}
    for kind, matrix in out.items():
        np.fill_diagonal(matrix, 1.0)
        if lengths.any():
            share = np.exp((lengths - lengths.max()) / 2)
            matrix *= share[:, None]
            matrix *= share[None, :]
        result[kind] = matrix, kernel.log_diagonal(kind) + lengths
    return result


# --- inputs of several lengths ----------------------------------------------------------------------------------------


def _by_layers(
    family: SignalFamily,
    batch: Batch,
    depth: int,
    kinds: Sequence[Kind],
    bias: float,
    norm: Norm,
    position: Position,
) -> dict[Kind, tuple[Floats, Floats]]:
    name, want = family.activation.name, "ntk" in kinds
    if want and family.activation.jumps:
        raise SphereKernel(family, depth).no_tangent()
    covariance, _ = _linear(batch, ("nngp",), bias)["nngp"]
    covariance *= float(np.max(batch.squared_lengths)) + bias
    tangent = covariance.copy() if want else None
    for layer in range(1, depth + 1):
        variances = np.diag(covariance).copy()
        if not np.max(variances) <= OVERFLOW:
            raise diverging(name, layer - 1)
        if np.min(variances) < _FAINT:
            raise IsometerError(
                f"the signal dies: a variance of {name} falls below {_FAINT:g} at layer {layer} — scale it with "
                "unit(…), normalise the inputs to one length, or use norm='rms'"
            )
        before = norm != "none" and position == "pre"
        try:
            moments = _PairMoments(family, variances, before, depth)
        except (InfiniteMomentError, OverflowError):
            raise diverging(name, layer) from None
        after = norm != "none" and position == "post"
        centre = moments.mean if after and norm == "layer" else np.zeros_like(variances)
        scale = moments.second - centre**2 if after else np.ones_like(variances)
        if not (scale > 0).all() or not (moments.second > 0).all():
            raise IsometerError(f"{name} leaves no signal at layer {layer}: its output is zero or constant")
        for start in range(0, len(variances), _ROWS):
            rows = slice(start, start + _ROWS)
            cosine = covariance[rows] / np.sqrt(variances[rows, None] * variances[None, :])
            np.clip(cosine, -1.0, 1.0, out=cosine)
            value, slope = moments.block(rows, cosine, want)
            shrink = np.sqrt(scale[rows, None] * scale[None, :])
            value -= centre[rows, None] * centre[None, :]
            value /= shrink
            value += bias
            covariance[rows] = value
            if tangent is not None:
                assert slope is not None
                slope /= shrink
                tangent[rows] *= slope
                tangent[rows] += value
        diagonal = (moments.second - centre**2) / scale + bias
        np.fill_diagonal(covariance, diagonal)  # from one-dimensional integrals
        covariance += covariance.T
        covariance *= 0.5
    out: dict[Kind, tuple[Floats, Floats]] = {}
    found: dict[Kind, Floats | None] = {"nngp": covariance, "ntk": tangent}
    for kind, matrix in found.items():
        if kind in kinds:
            assert matrix is not None
            if not np.isfinite(matrix).all():
                raise diverging(name, depth)
            diagonal = np.diag(matrix).copy()
            matrix /= diagonal.max()
            out[kind] = (matrix + matrix.T) / 2, np.log(diagonal)
    return out


class _PairMoments:
    """E φ(u)φ(v) and E φ′(u)φ′(v) for Gaussians of given variances, block by block."""

    def __init__(self, family: SignalFamily, variances: Floats, normalised: bool, depth: int) -> None:
        self.family, self.variances, self.normalised = family, variances, normalised
        phi, n = family.activation, len(variances)
        self.coefficients: Floats | None = None
        self.rays = family.homogeneous and not normalised
        if normalised or self.rays:
            view = family.at(1.0)
            self.dual = view.dual
            factor = variances if self.rays else np.ones(n)
            self.second = factor * view.second_moment
            self.mean = np.sqrt(factor) * phi.mean
            return
        self.coefficients = family.coefficients(variances)
        if self.coefficients is not None:
            weight = (self.coefficients**2 * (1 + np.arange(self.coefficients.shape[1]))).max(axis=0)
            keep = np.flatnonzero(weight > 1e-18 * weight.sum())
            self.coefficients = np.ascontiguousarray(self.coefficients[:, : int(keep[-1]) + 1].T)  # (degree, n)
            self.second = (self.coefficients**2).sum(axis=0)
            self.mean = self.coefficients[0]
            return
        pairs = n * (n + 1) // 2 * depth
        if pairs > _SLOW_PAIRS:
            raise IsometerError(
                f"{phi.name} has kinks or is steep, and the inputs have different lengths: {pairs} pairs would each "
                f"need a quadrature (at most {_SLOW_PAIRS}) — normalise the inputs to one length, take fewer, or use "
                "norm='rms'"
            )
        self.scaled = [phi.gain(math.sqrt(v)) for v in variances]
        with np.errstate(over="ignore", invalid="ignore"):
            self.second = np.array([f.second_moment for f in self.scaled])
        if not np.max(self.second) <= OVERFLOW:
            raise InfiniteMomentError(f"E φ(√q X)² of {phi.name} overflows at q = {float(np.max(variances)):.6g}")
        self.mean = np.array([f.mean for f in self.scaled])
        self.pieces = [_pieces(f) for f in self.scaled]
        self.slopes: list[PiecewiseFunction] | None = None

    def block(self, rows: slice, cosine: Floats, want: bool) -> tuple[Floats, Floats | None]:
        """Values and slopes for some rows against all columns."""
        root = np.sqrt(self.variances)
        if self.normalised or self.rays:
            value = self.dual.value(cosine)
            slope = self.dual.slope(cosine) if want else None
            product = root[rows, None] * root[None, :]
            if self.rays:
                value = value * product
            elif slope is not None:
                slope = slope / product
            return value, slope
        if self.coefficients is not None:
            a = self.coefficients
            value = np.zeros_like(cosine)
            slope = np.zeros_like(cosine) if want else None
            for k in range(len(a) - 1, -1, -1):
                term = a[k, rows, None] * a[k][None, :]
                value *= cosine
                value += term
                if slope is not None and k > 0:
                    slope *= cosine
                    slope += k * term
            if slope is not None:
                slope /= root[rows, None] * root[None, :]
            return value, slope
        return self._by_quadrature(rows, cosine, want)

    def _by_quadrature(self, rows: slice, cosine: Floats, want: bool) -> tuple[Floats, Floats | None]:
        if want and self.slopes is None:
            self.slopes = [_pieces(f.derivative) for f in self.scaled]
        value = np.empty_like(cosine)
        slope = np.empty_like(cosine) if want else None
        start = rows.start
        for i in range(len(cosine)):
            for j in range(cosine.shape[1]):
                if j < start + i and j >= start:  # inside the block the other half is known
                    value[i, j] = value[j - start, i + start]
                    if slope is not None:
                        slope[i, j] = slope[j - start, i + start]
                    continue
                value[i, j] = _pair(self.pieces[start + i], self.pieces[j], float(cosine[i, j]))
                if slope is not None and self.slopes is not None:
                    product = _pair(self.slopes[start + i], self.slopes[j], float(cosine[i, j]))
                    slope[i, j] = product / math.sqrt(self.variances[start + i] * self.variances[j])
        return value, slope


def _pieces(function: Activation) -> PiecewiseFunction:
    domain = gaussian.gaussian_domain([function], function.name)
    edges = gaussian.panel_edges(function, function.kinks, domain, function.name, order=16, tolerance=1e-9)
    return PiecewiseFunction(function, edges, function.kinks)


def _pair(f: PiecewiseFunction, g: PiecewiseFunction, cosine: float) -> float:
    """E f(X)g(Y) for corr(X, Y) = cosine."""
    if cosine >= 0.0:
        return pair_expectation(f, g, 2.0 * math.atan2(math.sqrt(1.0 - cosine), math.sqrt(1.0 + cosine)))
    return pair_expectation(f, g.mirrored(), 2.0 * math.atan2(math.sqrt(1.0 + cosine), math.sqrt(1.0 - cosine)))
