"""What an empirical kernel is, and the numbers people read off it."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import linalg

from isometer._display import Drawn
from isometer.errors import IsometerError

Floats = NDArray[np.float64]
Kind = Literal["ntk", "nngp"]
Method = Literal["structured", "contraction", "sketch", "gram"]


@dataclass(frozen=True, eq=False)
class EmpiricalKernel(Drawn):
    """A kernel of one network on one batch, or between two.

    Example:
        >>> import torch
        >>> from isometer import empirical_kernel
        >>> found = empirical_kernel(torch.nn.Linear(3, 1, bias=False), torch.eye(3))
        >>> found.matrix.tolist(), found.condition_number  # that of a linear model is X Xᵀ
        ([[1.0, 0.0, 0.0], [0.0, 1.0, 0.0], [0.0, 0.0, 1.0]], 1.0)

    Attributes:
        kind: "ntk" or "nngp".
        mode: "train" or "eval", or None for the mode each module is in.
        outputs: "trace" or "full".
        matrix: (n, n′), or (n, C, n′, C) for `outputs="full"`.
        parts: the summands of `matrix` by layer or parameter, where requested.
        method: "structured", "contraction", "sketch", or "gram" for the conjugate kernel.
        note: how it was calculated, for people.
        error_estimate: relative to the norm of the matrix: the disagreement with one plain backward pass, and the
            standard error where something was drawn.
        resolution: relative size below which eigenvalues are rounding.
        square: the matrix is that of one batch with itself.
    """

    kind: Kind
    mode: str | None
    outputs: str
    matrix: Floats
    parts: dict[str, Floats] = field(repr=False)
    method: Method
    note: str
    error_estimate: float
    resolution: float
    square: bool = True

    @property
    def flat(self) -> Floats:
        """(rows, columns): samples, then outputs."""
        if self.matrix.ndim == 2:
            return self.matrix
        n, c, m, d = self.matrix.shape
        return self.matrix.reshape(n * c, m * d)

    @cached_property
    def spectrum(self) -> Floats:
        """Eigenvalues, ascending.

        Example:
            >>> import torch
            >>> from isometer import empirical_kernel
            >>> empirical_kernel(torch.nn.Linear(2, 1), torch.eye(2)).spectrum  # XXᵀ, and 1 for the bias
            array([1., 3.])
        """
        if not self.square:
            raise IsometerError(
                "the kernel is between two batches and has no eigenvalues; expected one of a batch with itself — "
                "leave out other"
            )
        return np.asarray(linalg.eigvalsh(0.5 * (self.flat + self.flat.T)))

    @property
    def largest_eigenvalue(self) -> float:
        """λ_max."""
        return float(self.spectrum[-1])

    @property
    def smallest_eigenvalue(self) -> float:
        """λ_min; 0 where it is not above rounding."""
        value = float(self.spectrum[0])
        return value if value > self.resolution * self.largest_eigenvalue else 0.0

    @property
    def condition_number(self) -> float:
        """λ_max/λ_min (004/def-kappa); infinite where λ_min is below what the precision resolves.

        Example:
            >>> import torch
            >>> from isometer import empirical_kernel
            >>> empirical_kernel(torch.nn.Linear(2, 1), torch.ones(2, 2)).condition_number  # the same sample twice
            inf
        """
        low = self.smallest_eigenvalue
        return self.largest_eigenvalue / low if low > 0 else math.inf

    @property
    def effective_rank(self) -> float:
        """exp of the entropy of the eigenvalues' shares; 0 for the zero matrix.

        Example:
            >>> import torch
            >>> from isometer import empirical_kernel
            >>> round(empirical_kernel(torch.nn.Linear(4, 1, bias=False), torch.eye(4)).effective_rank, 9)
            4.0
        """
        share = np.clip(self.spectrum, 0.0, None)
        if not share.any():
            return 0.0
        share = share[share > 0] / share.sum()
        return float(np.exp(-np.sum(share * np.log(share))))

    def shares(self) -> dict[str, float]:
        """How much of the trace comes from each part.

        Example:
            >>> import torch
            >>> from isometer import empirical_kernel
            >>> empirical_kernel(torch.nn.Linear(1, 1), torch.ones(2, 1), by="parameter").shares()
            {'weight': 0.5, 'bias': 0.5}
        """
        total = float(np.trace(self.flat))
        return {name: _trace(part) / total if total else 0.0 for name, part in self.parts.items()}

    def alignment(self, other: ArrayLike, *, centred: bool = True) -> float:
        """Cosine between this kernel and another, or y yᵀ of labels; see `kernel_alignment`.

        Args:
            other: (n, n) as `matrix`, or labels: (n,) of classes or values, (n, C) of values.
            centred: subtract means first, as centred kernel alignment does.

        Example:
            >>> import torch
            >>> from isometer import empirical_kernel
            >>> x = torch.tensor([[1.0], [-1.0], [2.0], [-2.0]])
            >>> found = empirical_kernel(torch.nn.Linear(1, 1), x)
            >>> round(found.alignment(x.flatten().numpy()), 9)
            1.0
        """
        from isometer.empirical._comparison import kernel_alignment, label_gram

        given = np.asarray(other)
        samples = self.matrix if self.matrix.ndim == 2 else np.einsum("icjc->ij", self.matrix)
        gram = given if given.shape == samples.shape and given.ndim == 2 else label_gram(given, len(samples))
        return kernel_alignment(samples, gram, centred=centred)

    def to_dict(self) -> dict[str, Any]:
        """Numbers for JSON."""
        return {
            "kind": self.kind,
            "mode": self.mode,
            "outputs": self.outputs,
            "inputs": len(self.matrix),
            "method": self.method,
            "note": self.note,
            "error_estimate": self.error_estimate,
            "condition_number": self.condition_number,
            "smallest_eigenvalue": self.smallest_eigenvalue,
            "largest_eigenvalue": self.largest_eigenvalue,
            "effective_rank": self.effective_rank,
            "spectrum": self.spectrum,
            "shares": self.shares(),
        }


@dataclass(frozen=True)
class KernelRun:
    """The kernel of one draw of random numbers, by group of parameters."""

    parts: dict[str, Floats]
    method: Method
    note: str
    error: float
    epsilon: float


def _trace(part: Floats) -> float:
    return float(np.trace(part) if part.ndim == 2 else np.einsum("icic->", part))
