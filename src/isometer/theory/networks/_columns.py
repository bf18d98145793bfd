"""The features of a layer at infinite width: what each of them is as a random vector over the samples.

After a weights step the features are independent draws of h ~ N(0, V). What follows acts on each feature by itself:
activations and batch norms do, and so do norms over features, whose statistics are constants at infinite width and
make them affine per sample.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from isometer.activations import Activation
from isometer.spec import Norm
from isometer.theory.batch_norm._moments import slope_of

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class Activate:
    """x ↦ φ(αx)."""

    phi: Activation
    gain: float

    def __call__(self, x: Floats) -> Floats:
        with np.errstate(over="ignore", invalid="ignore"):
            return np.asarray(self.phi(self.gain * x), dtype=np.float64)

    def slope(self, x: Floats) -> Floats:
        """The derivative, elementwise."""
        return self.gain * slope_of(self.phi, self.gain * x)


@dataclass(frozen=True)
class NormalizeBatch:
    """A norm over the samples, the last axis of points `(points, n)`."""

    norm: Norm

    def _parts(self, x: Floats) -> tuple[Floats, Floats, Floats]:
        """What is divided, the vector whose size divides it, and one over the size."""
        n = x.shape[-1]
        # products with vectors: sums over a short last axis are slow
        centred = x - (x @ np.full((n, 1), 1.0 / n))
        numerator = centred if self.norm.recenter else x
        if not self.norm.rescale:
            return numerator, numerator, np.ones_like(x[..., :1])
        base = centred if self.norm.divisor == "std" else x
        square = np.einsum("...i,...i->...", base, base)[..., None] / n
        safe = np.where(square > 0, square, 1.0)
        return numerator, base, np.where(square > 0, 1.0, 0.0) / np.sqrt(safe + self.norm.eps)

    def size(self, n: int) -> float:
        """What a mean square of 1 is multiplied by.

        Example:
            >>> NormalizeBatch(Norm(size="length")).size(4)
            0.5
        """
        return self.norm.scale / (math.sqrt(n) if self.norm.size == "length" else 1.0)

    def __call__(self, x: Floats) -> Floats:
        numerator, _, inverse = self._parts(x)
        return np.asarray(numerator * inverse * self.size(x.shape[-1]) + self.norm.shift)

    def split_jacobian(self, x: Floats) -> SplitJacobian:
        """The Jacobian as a diagonal less products of a column and a row."""
        n = x.shape[-1]
        numerator, base, inverse = self._parts(x)
        diagonal = np.broadcast_to(inverse * self.size(n), x.shape)
        parts: list[tuple[Floats, Floats]] = []
        if self.norm.recenter:
            parts.append((diagonal, np.full(n, 1.0 / n)))
        if self.norm.rescale:
            parts.append((numerator * inverse**3 * (self.size(n) / n), base))
        return SplitJacobian(diagonal, parts)

    def jacobian(self, x: Floats) -> Floats:
        """∂y_i/∂x_a, `(points, n, n)`: `C_ia/s − c_i b_a/(n s³)`."""
        n = x.shape[-1]
        numerator, base, inverse = self._parts(x)
        centring = np.eye(n) - (1.0 / n if self.norm.recenter else 0.0)
        out = inverse[..., None] * centring
        if self.norm.rescale:
            out = out - (numerator * inverse**3)[..., :, None] * base[..., None, :] / n
        return np.asarray(out * self.size(n))


@dataclass(frozen=True)
class Statistics:
    """What a norm over features has read, per sample: the mean of x, the size s² it divides by, and which it uses."""

    mean: Floats  # (n,)
    square: Floats  # (n,)
    recentres: bool
    rescales: bool
    deviates: bool  # s² is a variance
    exact: bool  # no ε is added to it


@dataclass(frozen=True)
class Affine:
    """x_i ↦ (x_i − shift_i)·scale_i + offset: a norm over features with its statistics, or a factor without."""

    shift: Floats  # (n,)
    scale: Floats  # (n,)
    offset: float = 0.0
    statistics: Statistics | None = None

    def __call__(self, x: Floats) -> Floats:
        return np.asarray((x - self.shift) * self.scale + self.offset)


@dataclass(frozen=True, eq=False)
class Maximum:
    """y_a = max over x_i, i in window a: points `(points, m)` to `(points, windows)`."""

    rows: NDArray[np.intp]  # (windows, offsets)

    def __call__(self, x: Floats) -> Floats:
        return np.asarray(x[..., self.rows].max(axis=-1))

    def jacobian(self, x: Floats) -> Floats:
        """1 where the maximum is, `(points, windows, m)`."""
        largest = x[..., self.rows].argmax(axis=-1)
        at = np.take_along_axis(
            np.broadcast_to(self.rows, (*largest.shape, self.rows.shape[1])), largest[..., None], -1
        )
        out = np.zeros((*largest.shape, x.shape[-1]))
        np.put_along_axis(out, at, 1.0, axis=-1)
        return out


Operation = Activate | NormalizeBatch | Affine | Maximum
Whole = NormalizeBatch | Maximum
"""The type of an operation of which each result depends on several entries."""


@dataclass(frozen=True)
class Columns:
    """Features as random vectors: `operations` applied to h ~ N(0, covariance).

    Example:
        >>> Columns(np.eye(3)).is_gaussian
        True
    """

    covariance: Floats
    operations: tuple[Operation, ...] = ()

    @property
    def is_gaussian(self) -> bool:
        """Whether nothing was done to them."""
        return not self.operations

    def then(self, operation: Operation) -> Columns:
        """With one more operation; a factor and a centring norm of a Gaussian leave one of another covariance."""
        if self.is_gaussian and isinstance(operation, Affine) and not operation.shift.any() and operation.offset == 0:
            return Columns(self.covariance * np.outer(operation.scale, operation.scale))
        return replace(self, operations=(*self.operations, operation))


def seen_covariance(operations: tuple[Operation, ...], covariance: Floats) -> Floats:
    """The covariance that the operations see: without its part along 1 where a recentring norm comes first.

    Example:
        >>> seen_covariance((NormalizeBatch(Norm()),), np.eye(2) + 1e9).round(6).tolist()
        [[0.5, -0.5], [-0.5, 0.5]]
    """
    first = operations[0] if operations else None
    if not isinstance(first, NormalizeBatch) or not first.norm.recenter:
        return covariance
    rows = covariance - covariance.mean(axis=0)
    return np.asarray(rows - rows.mean(axis=1, keepdims=True))


def odd_operations(operations: tuple[Operation, ...]) -> int:
    """How many of the first operations change sign with what they act on.

    Example:
        >>> odd_operations((NormalizeBatch(Norm()), Affine(np.zeros(2), np.ones(2)), Affine(np.ones(2), np.ones(2))))
        2
    """
    number = 0
    for operation in operations:
        plain = isinstance(operation, Affine) and not operation.shift.any() and operation.offset == 0.0
        if not plain and not (isinstance(operation, NormalizeBatch) and operation.norm.shift == 0.0):
            break
        number += 1
    return number


def evaluate(operations: tuple[Operation, ...], x: Floats) -> Floats:
    """The operations applied to points `(points, n)`.

    Example:
        >>> evaluate((NormalizeBatch(Norm()),), np.array([[1.0, 3.0]])).tolist()
        [[-1.0, 1.0]]
    """
    for operation in operations:
        x = operation(x)
    return x


def evaluate_with_jacobian(operations: tuple[Operation, ...], x: Floats) -> tuple[Floats, Floats]:
    """Values `(points, n)`, and derivatives `(points, n)` where operations act on entries, else `(points, n, n)`.

    Example:
        >>> from isometer import activation
        >>> value, slope = evaluate_with_jacobian((Activate(activation("relu"), 2.0),), np.array([[1.0, -1.0]]))
        >>> value.tolist(), slope.tolist()
        ([[2.0, 0.0]], [[2.0, 0.0]])
    """
    slope: Floats = np.ones_like(x)
    for operation in operations:
        if isinstance(operation, NormalizeBatch | Maximum):
            whole = operation.jacobian(x)
            slope = whole * slope[:, None, :] if slope.ndim == 2 else np.matmul(whole, slope)
        else:
            own = operation.slope(x) if isinstance(operation, Activate) else np.broadcast_to(operation.scale, x.shape)
            slope = own * slope if slope.ndim == 2 else own[:, :, None] * slope
        x = operation(x)
    return x, slope


class SplitJacobian(NamedTuple):
    """Derivatives `J_ia = δ_ia D_i − Σ L_i R_a` at points."""

    diagonal: Floats  # D, (points, n)
    parts: list[tuple[Floats, Floats]]  # L, (points, n), and R, (points, n), or (n,) if the same at every point


def evaluate_with_split_jacobian(operations: tuple[Operation, ...], x: Floats) -> tuple[Floats, SplitJacobian]:
    """As `evaluate_with_jacobian`, without n² numbers per point; for at most one batch norm among the operations.

    Example:
        >>> x = np.array([[0.3, -1.0, 2.0]])
        >>> operations = (NormalizeBatch(Norm()),)
        >>> value, (diagonal, parts) = evaluate_with_split_jacobian(operations, x)
        >>> whole = np.diag(diagonal[0]) - sum(np.outer(left[0], np.atleast_2d(row)[0]) for left, row in parts)
        >>> bool(np.allclose(whole, evaluate_with_jacobian(operations, x)[1][0]))
        True
    """
    split = SplitJacobian(np.ones_like(x), [])
    for operation in operations:
        assert not isinstance(operation, Maximum)
        if isinstance(operation, NormalizeBatch):
            assert not split.parts
            before = split.diagonal
            split = operation.split_jacobian(x)
            if not (before == 1.0).all():
                split = SplitJacobian(split.diagonal * before, [(left, row * before) for left, row in split.parts])
        else:
            own = operation.slope(x) if isinstance(operation, Activate) else np.broadcast_to(operation.scale, x.shape)
            diagonal = own * split.diagonal
            # recentring has the diagonal as its column, and keeps it
            lefts = [diagonal if left is split.diagonal else own * left for left, _ in split.parts]
            split = SplitJacobian(diagonal, [(left, row) for left, (_, row) in zip(lefts, split.parts, strict=True)])
        x = operation(x)
    return x, split
