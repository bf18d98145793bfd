"""A batch of representations or its Gram matrix, checked once and read by every metric."""

import math
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Self

from isometer.errors import IsometerError
from isometer.metrics._arrays import (
    Array,
    as_matrices,
    binary_scale,
    eigvalsh,
    epsilon,
    filled,
    namespace,
    root_mean_square,
    subtract_mean,
    svdvals,
    to_unit_mean_square,
)


@dataclass(frozen=True)
class MetricInput:
    """What a metric reads: a representation `(…, n, d)` or, where that is all there is, a Gram matrix `(…, n, n)`.

    Exactly one of the two fields is set. Gram matrices are `H Hᵀ / d`, and so are their eigenvalues.
    """

    representation: Array | None
    given_gram: Array | None

    @classmethod
    def of(cls, representation: Array | None, gram: Array | None = None, *, need: int = 1, purpose: str = "") -> Self:
        """Check the input of a metric that needs at least `need` samples for its `purpose`."""
        if (representation is None) == (gram is None):
            came = "neither" if gram is None else "both"
            raise IsometerError(
                f"expected a representation or a Gram matrix, got {came} — call metric(H) or metric(gram=G)"
            )
        if gram is None:
            batch = cls(as_matrices(representation, "representation", "samples, features"), None)
        else:
            batch = cls(None, checked_gram(gram, "gram"))
        if batch.samples < need:
            plural = "" if batch.samples == 1 else "s"
            raise IsometerError(
                f"batch has {batch.samples} sample{plural}; {purpose} need at least {need} — pass a larger batch"
            )
        return batch

    @property
    def data(self) -> Array:
        """Whichever array was given."""
        return self.given_gram if self.representation is None else self.representation

    @property
    def xp(self) -> Any:
        return namespace(self.data)

    @property
    def samples(self) -> int:
        return int(self.data.shape[-2])

    @property
    def leading_shape(self) -> tuple[int, ...]:
        return tuple(self.data.shape[:-2])

    @property
    def largest_rank(self) -> int:
        """`min(n, d)`; the width behind a Gram matrix is unknown, so there it is n."""
        return int(min(self.data.shape[-2:]))

    @property
    def relative_noise(self) -> float:
        """Relative size below which a singular value of this input is taken for rounding.

        `16 ε` of a representation's largest singular value. A Gram matrix holds squares: `n ε` of its largest
        eigenvalue.
        """
        eps = epsilon(self.data)
        return 16 * eps if self.given_gram is None else math.sqrt(self.samples * eps)

    def full(self, value: float) -> Array:
        """One `value` per matrix."""
        return filled(self.data, self.leading_shape, value)

    def scaled(self) -> Self:
        """The same batch with entries of size 1, for metrics which do not depend on the scale."""
        if self.representation is None:
            return type(self)(None, self.given_gram / binary_scale(self.given_gram, (-2, -1)))
        return type(self)(self.representation / binary_scale(self.representation, (-2, -1)), None)

    def centered(self) -> Self:
        """The batch minus its mean sample: `P H`, or `P G P`, with `P = I − 11ᵀ/n`."""
        xp, given = self.xp, self.given_gram
        if self.representation is not None:
            return type(self)(subtract_mean(self.representation, -2), None)
        rows = given - xp.mean(given, axis=-2, keepdims=True)
        centered = rows - xp.mean(rows, axis=-1, keepdims=True)
        noise = 8 * epsilon(given) * xp.amax(xp.abs(given), axis=(-2, -1), keepdims=True)
        collapsed = xp.amax(xp.abs(centered), axis=(-2, -1), keepdims=True) <= noise
        return type(self)(None, xp.where(collapsed, 0.0, centered))

    def norms(self) -> Array:
        """Lengths of the samples divided by √d, `(…, n)`: the roots of the Gram matrix's diagonal."""
        if self.representation is None:
            return self.xp.sqrt(self.xp.linalg.diagonal(self.given_gram))
        return root_mean_square(self.representation, -1)[..., 0]

    def directions(self) -> Self:
        """The samples scaled to length √d, so that the Gram matrix holds cosines; zero samples stay zero."""
        return self._directions

    @cached_property
    def _directions(self) -> Self:
        xp = self.xp
        if self.representation is not None:
            return type(self)(to_unit_mean_square(self.representation, -1), None)
        norms = self.norms()
        inverse = xp.where(norms > 0, 1.0 / xp.where(norms > 0, norms, 1.0), 0.0)
        return type(self)(None, self.given_gram * inverse[..., :, None] * inverse[..., None, :])

    def gram_matrix(self) -> Array:
        """`H Hᵀ / d`, `(…, n, n)`."""
        return self._gram

    @cached_property
    def _gram(self) -> Array:
        if self.representation is None:
            return self.given_gram
        return self.representation @ self.representation.mT / self.representation.shape[-1]

    def smaller_gram(self) -> Array:
        """`H Hᵀ / d` or `Hᵀ H / d`, whichever is smaller: the same non-zero eigenvalues."""
        if self.representation is None or self.representation.shape[-2] <= self.representation.shape[-1]:
            return self.gram_matrix()
        return self.representation.mT @ self.representation / self.representation.shape[-1]

    def eigenvalues(self) -> Array:
        """The `min(n, d)` largest eigenvalues of the Gram matrix, ascending, to absolute precision."""
        return self._eigenvalues

    @cached_property
    def _eigenvalues(self) -> Array:
        return self.xp.clip(eigvalsh(self.smaller_gram()), 0.0, None)

    def singular_values(self) -> Array:
        """Square roots of `eigenvalues`, ascending, as precise as the input allows.

        Forming `H Hᵀ` squares the condition number. Where that costs digits the values come from H itself.
        """
        xp, values = self.xp, self.eigenvalues()
        # The square root has no derivative at 0.
        roots = xp.where(values > 0, xp.sqrt(xp.where(values > 0, values, 1.0)), 0.0)
        if self.representation is None:
            return roots
        poor = values[..., 0] < epsilon(values) ** 0.25 * values[..., -1]
        if not bool(poor.any()):
            return roots
        precise = xp.zeros_like(roots)
        # numpy and torch both give singular values descending
        selected = xp.flip(svdvals(self.representation[poor]), (-1,))
        precise[poor] = selected / math.sqrt(self.representation.shape[-1])
        return xp.where(poor[..., None], precise, roots)


def checked_gram(gram: Array, name: str) -> Array:
    """`gram` as floating point matrices `(…, n, n)`, symmetric with a non-negative diagonal."""
    gram = as_matrices(gram, name, "samples, samples")
    shape = tuple(gram.shape)
    if shape[-2] != shape[-1]:
        raise IsometerError(f"{name} has shape {shape}; expected (…, n, n) — pass a representation as metric(H)")
    xp = namespace(gram)
    size = xp.amax(xp.abs(gram), axis=(-2, -1))
    skew = xp.amax(xp.abs(gram - gram.mT), axis=(-2, -1))
    if bool((skew > 100 * epsilon(gram) ** 0.5 * size).any()):
        raise IsometerError(
            f"{name} is not symmetric (difference {float(skew.max()):.3g} to its transpose); expected H Hᵀ / d — "
            "pass a representation as metric(H)"
        )
    if bool((xp.linalg.diagonal(gram) < 0).any()):
        raise IsometerError(f"{name} has a negative diagonal entry; expected squared lengths there — pass H Hᵀ / d")
    return gram
