"""Gradients at infinite width: the covariance over (sample, position) of the gradient by one feature.

Assumed, as usual, is that the weights that carry gradients back are independent of those that carried signals forward.
A gradient is a weighted sum of independent processes, as signals are (`_state.py`). Operations on a Gaussian that are
not elementwise have one Jacobian together: a gradient collects them (`pending`) until it reaches that Gaussian, and
then becomes `E JᵀΓJ`.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from itertools import count
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from isometer.theory.networks._columns import Affine, NormalizeBatch, Operation, evaluate_with_jacobian, seen_covariance
from isometer.theory.networks._covariance import Covariance
from isometer.theory.networks._layout import Layout
from isometer.theory.networks._points import gaussian_batches, tilted_batches
from isometer.theory.networks._state import at_copy

Floats = NDArray[np.float64]
_numbers = count()
_NUMBERS = 1 << 24  # of Jacobians that are held at a time


@dataclass(frozen=True, eq=False)
class Pull:
    """weight ∘ g for a process g of gradients with covariance Γ, before operations that are pending."""

    scale: Floats  # (stack, m)
    gram: Floats  # (stack, m, m)
    pending: tuple[Operation, ...] = ()
    key: int = field(default_factory=lambda: next(_numbers))


@dataclass(frozen=True, eq=False)
class Gradient:
    """The gradient by one feature: independent pulls, all times exp(log) in Γ."""

    layout: Layout
    terms: tuple[Pull, ...]
    log: float = 0.0

    @classmethod
    def of(cls, gram: Floats, layout: Layout, log: float) -> Gradient:
        """One process."""
        return cls(layout, (Pull(np.ones(layout.size), gram),), log)

    def total(self) -> Floats:
        """Γ, `(stack, m, m)`."""
        assert not self.is_pending
        return _sum(self.terms)

    def scaled(self, factor: Floats | float, step: Affine | None = None) -> Gradient:
        """Behind x ↦ factor·x + …; `step` is the same as an operation on vectors."""

        def one(term: Pull) -> Pull:
            if term.pending and step is not None:
                return replace(term, pending=(step, *term.pending))
            return replace(term, scale=term.scale * factor)

        return replace(self, terms=tuple(map(one, self.terms)))

    def behind(self, operation: Operation) -> Gradient:
        """Behind an operation whose Jacobian is averaged later."""
        terms = tuple(replace(term, pending=(operation, *term.pending)) for term in self.terms)
        return replace(self, terms=terms)

    def averaged(self, base: Covariance, layout: Layout) -> Gradient:
        """`E JᵀΓJ` over the Gaussian that the pending operations began with."""
        matrices = base.gram()
        found = np.zeros_like(matrices)
        for operations, terms in _by_pending(self.terms):
            gram = _sum(terms)
            for copy, covariance in enumerate(matrices):
                own = averaged_pullback(tuple(at_copy(o, copy) for o in operations), covariance, gram[copy])
                found[copy] += math.inf if own is None else own
        return Gradient.of(found, layout, self.log)

    def of_given(self, features: Floats, layout: Layout) -> Gradient:
        """The same over features that are known, `(stack, m, d)`."""
        found = np.zeros((*features.shape[:2], features.shape[1]))
        for operations, terms in _by_pending(self.terms):
            gram = _sum(terms)
            for copy, rows in enumerate(features):
                jacobian = evaluate_with_jacobian(tuple(at_copy(o, copy) for o in operations), rows.T)[1]
                found[copy] += average_jacobians(gram[copy], jacobian, np.ones(len(jacobian)))
        return Gradient.of(found, layout, self.log)

    @property
    def is_pending(self) -> bool:
        """Whether operations are left whose Jacobian has not been averaged."""
        return any(term.pending for term in self.terms)

    def normalised(self) -> Gradient:
        """At unit size, so that no number of layers overflows."""
        gram = _sum(self.terms)
        size = float(np.trace(gram, axis1=-2, axis2=-1).sum()) / (gram.shape[0] * gram.shape[1])
        if not (math.isfinite(size) and size > 0.0):
            return self
        if not self.is_pending:
            return Gradient.of(gram / size, self.layout, self.log + math.log(size))
        terms = tuple(replace(term, gram=term.gram / size) for term in self.terms)
        return Gradient(self.layout, terms, self.log + math.log(size))


Adjoint = Callable[[Gradient, "Squares"], Gradient]


class WeightSquares(NamedTuple):
    """Of one weight matrix: what it is for, log E ‖∂loss/∂W‖_F² (one per copy, or one), and its number of entries."""

    kind: str
    log: Floats
    entries: int


class Squares:
    """E ‖∂loss/∂W‖_F² of the weights that a gradient passes."""

    def __init__(self) -> None:
        self.found: list[WeightSquares] = []

    def add(self, kind: str, value: Floats | float, log: float, entries: int) -> None:
        """A weight matrix with value·exp(log)."""
        with np.errstate(divide="ignore"):
            own = np.log(np.maximum(np.atleast_1d(np.asarray(value, dtype=float)), 0.0))
        self.found.append(WeightSquares(kind, own + log, entries))

    @property
    def log(self) -> float:
        """Of the sum, −inf where there is none."""
        return float(np.logaddexp.reduce([one.log[0] for one in self.found])) if self.found else -math.inf


def merged(gradients: Sequence[Gradient]) -> Gradient:
    """The sum of gradients on several ways: a process that comes on two of them counts once, with both weights."""
    found: dict[tuple[int, int], Pull] = {}
    for gradient in gradients:
        for term in gradient.terms:
            # operations are compared by identity: the same step on the same way
            key = (term.key, hash(tuple(map(id, term.pending))))
            before = found.get(key)
            found[key] = term if before is None else replace(term, scale=before.scale + term.scale)
    return replace(gradients[0], terms=tuple(found.values()))


def _sum(terms: Sequence[Pull]) -> Floats:
    out = np.zeros_like(terms[0].gram)
    for term in terms:
        out += term.scale[:, :, None] * term.scale[:, None, :] * term.gram
    return out


def _by_pending(terms: Sequence[Pull]) -> list[tuple[tuple[Operation, ...], list[Pull]]]:
    groups: dict[tuple[int, ...], list[Pull]] = {}
    for term in terms:
        groups.setdefault(tuple(map(id, term.pending)), []).append(term)
    return [(own[0].pending, own) for own in groups.values()]


def averaged_pullback(operations: tuple[Operation, ...], covariance: Floats, gram: Floats) -> Floats | None:
    """`E JᵀΓJ` of operations on h ~ N(0, V), sampled; None where it is infinite.

    Example:
        >>> from isometer.spec import Norm
        >>> norm = NormalizeBatch(Norm.named("batch-recenter"))
        >>> averaged_pullback((norm,), np.eye(2), np.eye(2)).round(12).tolist()
        [[0.5, -0.5], [-0.5, 0.5]]
    """
    points = _jacobian_points(operations, covariance, 0)
    return None if points is None else _averaged_blocks(operations, points, gram, push=False)


def drawn_jacobians(
    operations: tuple[Operation, ...], covariance: Floats, scramble: int = 0
) -> tuple[Floats, Floats] | None:
    """Jacobians of operations on h ~ N(0, V) and weights of an average over them; None where that is infinite.

    Example:
        >>> from isometer.spec import Norm
        >>> drawn_jacobians((NormalizeBatch(Norm.named("batch-recenter")),), np.eye(2))[0].shape[1:]
        (2, 2)
    """
    points = _jacobian_points(operations, covariance, scramble)
    return None if points is None else (evaluate_with_jacobian(operations, points[0])[1], points[1])


def averaged_push(
    operations: tuple[Operation, ...], covariance: Floats, tangent: Floats, scramble: int = 0
) -> Floats | None:
    """`E JΘJᵀ`, the other way round; None where it is infinite.

    Example:
        >>> from isometer.spec import Norm
        >>> norm = NormalizeBatch(Norm.named("batch-recenter"))
        >>> averaged_push((norm,), np.eye(2), np.eye(2)).round(12).tolist()
        [[0.5, -0.5], [-0.5, 0.5]]
    """
    points = _jacobian_points(operations, covariance, scramble)
    return None if points is None else _averaged_blocks(operations, points, tangent, push=True)


def _averaged_blocks(
    operations: tuple[Operation, ...], points: tuple[Floats, Floats], matrix: Floats, *, push: bool
) -> Floats:
    """The mean of `JΓJᵀ` (`push`) or `JᵀΓJ` over points, as many at a time as memory should hold Jacobians of."""
    h, weight = points
    step = max(1, _NUMBERS // h.shape[-1] ** 2)
    total: Floats | None = None
    for start in range(0, len(h), step):
        jacobian = evaluate_with_jacobian(operations, h[start : start + step])[1]
        own_weight = weight[start : start + step]
        if push and jacobian.ndim == 3:
            jacobian = np.swapaxes(jacobian, 1, 2)
        own = average_jacobians(matrix, jacobian, own_weight) * (len(own_weight) / len(h))
        total = own if total is None else total + own
    assert total is not None
    return total


def _jacobian_points(
    operations: tuple[Operation, ...], covariance: Floats, scramble: int
) -> tuple[Floats, Floats] | None:
    """Points and weights that an average of products of Jacobians takes; None where that is infinite."""
    covariance = seen_covariance(operations, covariance)
    # Jacobians take n² numbers per point
    number = int(min(1 << 13, max(1 << 10, (1 << 20) // len(covariance) ** 2)))
    norm = next((operation.norm for operation in operations if isinstance(operation, NormalizeBatch)), None)
    if norm is None or not norm.rescale or norm.eps > 0:
        h = gaussian_batches(covariance, number, scramble)[0]
        return h, np.ones(len(h))
    # a rescaling norm has the pole 1/‖h‖² at 0, whose plain average converges badly
    return tilted_batches(covariance, number, scramble)


def average_jacobians(gram: Floats, jacobian: Floats, weight: Floats) -> Floats:
    """Mean of `JᵀΓJ` over points, J `(points, n, n)`, or `(points, n)` where it is diagonal.

    Example:
        >>> average_jacobians(np.eye(2), np.array([[1.0, 3.0]]), np.ones(1)).tolist()
        [[1.0, 0.0], [0.0, 9.0]]
    """
    if jacobian.ndim == 2:
        # diagonal Jacobians: JᵀΓJ is Γ ∘ ddᵀ
        return np.asarray(gram * ((jacobian * weight[:, None]).T @ jacobian / len(jacobian)))
    # JᵀΓJ = (RᵀJ)ᵀ(RᵀJ), Γ = RRᵀ: one matrix product over all points
    values, vectors = np.linalg.eigh(gram)
    root = vectors * np.sqrt(np.maximum(values, 0.0))
    rows = np.matmul(root.T, jacobian) * np.sqrt(weight)[:, None, None]  # (points, n, n)
    flat = rows.reshape(-1, rows.shape[-1])
    return np.asarray(flat.T @ flat / len(jacobian))
