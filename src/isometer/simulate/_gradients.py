"""What is read off the gradient of a weight matrix without forming it where that is larger."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch

from isometer.simulate._gram import triangle
from isometer.simulate._windows import parted

Tensor = torch.Tensor


@dataclass(frozen=True)
class WeightGradient:
    """The gradient `δZᵀ A` of one weight matrix, by its two factors.

    Attributes:
        factor: gives L with `L Lᵀ = A Aᵀ`, `(slots · groups, n · positions, k)`; a call, since patches are large.
        cotangent: δZ, `(slots · groups, n · positions, d_out)`.
        samples: n.
        groups: weight matrices side by side that make up one.
    """

    factor: Callable[[], Tensor]
    cotangent: Tensor
    samples: int
    groups: int = 1

    def log_norm(self) -> Tensor:
        """`log ‖δZᵀ A‖_F`, `(slots,)`."""
        found = gradient_factor(self.factor(), self.cotangent)
        return log_norm(found.reshape(-1, self.groups * found.shape[-2], found.shape[-1]))

    def gram(self) -> Tensor:
        """Inner products of the gradients of single samples, `(slots, n, n)`."""
        factor, n = self.factor(), self.samples
        positions = self.cotangent.shape[-2] // n
        if positions == 1 or (n * positions) ** 2 <= n * factor.shape[-1] * self.cotangent.shape[-1]:
            # the gradient of row i is δz_i a_iᵀ: inner products are ⟨δz_i, δz_j⟩⟨a_i, a_j⟩
            found = (self.cotangent @ self.cotangent.mT) * (factor @ factor.mT)
            if positions > 1:
                found = found.reshape(-1, n, positions, n, positions).sum((2, 4))
        else:
            rows = parted(factor, 1, n, positions).mT @ parted(self.cotangent, 1, n, positions)
            rows = rows.flatten(2)
            found = rows @ rows.mT
        return found if self.groups == 1 else found.reshape(-1, self.groups, n, n).sum(1)


def gradient_factor(factor: Tensor, cotangent: Tensor) -> Tensor:
    """A matrix with the Frobenius norm of the weight gradient `δZᵀ A`: `R δZ`, where `A = Rᵀ Qᵀ`.

    Cheaper than the gradient, and more precise than products of Gram matrices where the gradient nearly vanishes.
    """
    rows, columns = factor.shape[-2:]
    if rows < columns:  # A itself: the triangle has the same inner products and fewer columns
        factor = triangle(factor).mT
    return factor.mT @ cotangent


def log_norm(matrices: Tensor) -> Tensor:
    """`log ‖·‖_F` per matrix, in float64, without over- or underflow; −inf for zeros."""
    largest = matrices.abs().amax((-2, -1), keepdim=True)
    safe = torch.where(largest > 0, largest, 1.0)
    scaled = matrices / safe
    total = (scaled * scaled).sum((-2, -1)).to(torch.float64)
    return safe[..., 0, 0].to(torch.float64).log() + 0.5 * total.log()
