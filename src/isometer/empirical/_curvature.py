"""Curvature of a loss along a model, by products with vectors, and the largest rate at which an optimizer is stable.

The Gauss–Newton matrix is G = Jᵀ H J, with J the Jacobian of the outputs of the batch and H the Hessian of the loss by
the outputs: the tangent kernel weighted by the loss. Its largest eigenvalue λ needs products only, in Lanczos steps.
Gradient descent with momentum β on a quadratic is stable up to the rate 2(1 + β)/λ. Adam is momentum behind a diagonal
matrix that moves slowly after the first steps: with its gradients averaged (not summed) it is stable up to
2(1 + β₁)/((1 − β₁) λ′), 38/λ′ at β₁ = 0.9, with λ′ of P^(−1/2) G P^(−1/2), P = √v̂ + ε.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import torch
from torch import nn
from torch.nn.attention import SDPBackend, sdpa_kernel

from isometer.doctor.probe._calling import call
from isometer.doctor.probe._examine import checked
from isometer.doctor.probe._subject import examined
from isometer.doctor.probe._tensor_trees import map_tensors
from isometer.empirical._linearisation import chosen_output, sample_count
from isometer.errors import IsometerError

Tensor = torch.Tensor
_STEPS = 60
_PRECISE = 1e-4  # of the eigenvalue, at which Lanczos steps end


@dataclass(frozen=True)
class StableRate:
    """The largest rate at which an optimizer is stable in the quadratic approximation of a loss at the model.

    Example:
        >>> import torch
        >>> model = torch.nn.Linear(1, 1, bias=False)
        >>> found = largest_stable_rate(model, torch.ones(4, 1), torch.zeros(4, 1), loss=torch.nn.functional.mse_loss)
        >>> round(found.curvature, 6), round(found.rate, 6)  # the loss is w²
        (2.0, 1.0)

    Attributes:
        rate: infinite where the loss has no curvature along the model.
        curvature: λ, of the preconditioned matrix for Adam.
        error_estimate: relative, of both.
        optimizer: "sgd" or "adam".
        factor: rate times curvature.
        products: products with the matrix that were taken.
    """

    rate: float
    curvature: float
    error_estimate: float
    optimizer: str
    factor: float
    products: int


def largest_stable_rate(
    model: nn.Module,
    batch: Any,
    target: Any,
    *,
    loss: Callable[[Tensor, Any], Tensor],
    optimizer: Literal["sgd", "adam"] = "sgd",
    momentum: float = 0.0,
    betas: tuple[float, float] = (0.9, 0.999),
    eps: float = 1e-8,
    second_moments: Mapping[str, Tensor] | None = None,
    mode: Literal["train", "eval"] | None = "train",
    output: Callable[[Any], Tensor] | None = None,
    seed: int = 0,
) -> StableRate:
    """The largest stable rate of gradient descent with momentum, or of Adam; the model is not changed.

    Args:
        model: the model.
        batch: as for `empirical_kernel`.
        target: what the loss compares with.
        loss: a function of the output and the target that gives one number.
        optimizer: "sgd" or "adam".
        momentum: β of "sgd".
        betas: betas of "adam"; only the first matters.
        eps: eps of "adam".
        second_moments: Adam's v̂ by name of the parameter (`exp_avg_sq` over its bias correction); the squares of the
            batch's gradient by default, as after the first steps on this batch.
        mode: as for `empirical_kernel`.
        output: selects the output from what the model returns.
        seed: seed of dropout and of the first vector.

    Returns:
        `StableRate`. It holds at this point and on this batch: training changes the curvature, often up to this limit.

    Example:
        >>> import torch
        >>> model = torch.nn.Linear(2, 1)
        >>> data = torch.randn(8, 2), torch.randn(8, 1)
        >>> plain = largest_stable_rate(model, *data, loss=torch.nn.functional.mse_loss)
        >>> heavy = largest_stable_rate(model, *data, loss=torch.nn.functional.mse_loss, momentum=0.9)
        >>> round(heavy.rate / plain.rate, 6)
        1.9
    """
    model = checked(model, target=target, loss=loss, mode=mode, seed=seed)
    if optimizer not in ("sgd", "adam"):
        raise IsometerError(f"optimizer is {optimizer!r}; expected 'sgd' or 'adam' — pass one of them")
    beta = momentum if optimizer == "sgd" else betas[0]
    if not 0.0 <= beta < 1.0:
        raise IsometerError(f"the momentum is {beta}; expected a number from 0 up to but not including 1 — pass one")
    factor = 2.0 * (1.0 + beta) / (1.0 if optimizer == "sgd" else 1.0 - beta)

    def work(own: nn.Module) -> tuple[float, float, int]:
        curve = GaussNewton(own, batch, target, loss, output)
        scales = curve.adam_scales(second_moments, eps) if optimizer == "adam" else None
        return curve.largest_eigenvalue(scales, seed=seed)

    with examined(model, loss, target) as subject:
        value, error, products = subject.run(work, seed=seed, mode=mode)
    return StableRate(factor / value if value > 0 else math.inf, value, error, optimizer, factor, products)


class GaussNewton:
    """Products with Jᵀ H J at a model's parameters.

    Example:
        >>> curve = GaussNewton(nn.Linear(2, 1, bias=False), torch.eye(2), torch.zeros(2, 1), nn.MSELoss(), None)
        >>> [one.tolist() for one in curve.product([torch.tensor([[1.0, 0.0]])])]
        [[[1.0, 0.0]]]
    """

    def __init__(
        self,
        model: nn.Module,
        batch: Any,
        target: Any,
        loss: Callable[[Tensor, Any], Tensor],
        select: Callable[[Any], Tensor] | None,
    ) -> None:
        self.names = [name for name, one in model.named_parameters() if one.requires_grad]
        self.parameters = [one for one in model.parameters() if one.requires_grad]
        # The fused kernels of attention have no second derivative.
        with sdpa_kernel(SDPBackend.MATH):
            found = call(model, map_tensors(lambda one: one.detach().clone(), batch))
        self.outputs = chosen_output(found, select, sample_count(batch))
        if not self.outputs.requires_grad:
            raise IsometerError(
                "the output has no derivative with respect to the parameters; expected trained ones — unfreeze some"
            )
        self._end = self.outputs.detach().requires_grad_()
        value = loss(self._end, target)
        if not isinstance(value, Tensor) or value.numel() != 1:
            raise IsometerError("loss did not return one number; expected a scalar tensor — reduce it with .mean()")
        (self._slope,) = torch.autograd.grad(value, self._end, create_graph=True)
        self._start = torch.zeros_like(self.outputs, requires_grad=True)
        pulled = torch.autograd.grad(self.outputs, self.parameters, self._start, create_graph=True, allow_unused=True)
        self._linked = [i for i, one in enumerate(pulled) if one is not None and one.requires_grad]
        self._pulled = [pulled[i] for i in self._linked]

    def pushed(self, vectors: Sequence[Tensor]) -> Tensor:
        """J v: the derivative of v ↦ ⟨Jᵀw, v⟩ by w."""
        given = [vectors[i] for i in self._linked]
        (found,) = torch.autograd.grad(self._pulled, self._start, given, retain_graph=True)
        return found

    def product(self, vectors: Sequence[Tensor]) -> list[Tensor]:
        """Jᵀ H J v."""
        along = self.pushed(vectors)
        if self._slope.requires_grad:
            (bent,) = torch.autograd.grad(self._slope, self._end, along, retain_graph=True, allow_unused=True)
        else:
            bent = None  # a loss that is linear in the outputs has no curvature
        if bent is None:
            return [torch.zeros_like(one) for one in self.parameters]
        return self._gradient(bent)

    def _gradient(self, cotangent: Tensor) -> list[Tensor]:
        found = torch.autograd.grad(self.outputs, self.parameters, cotangent, retain_graph=True, allow_unused=True)
        return [torch.zeros_like(p) if g is None else g for p, g in zip(self.parameters, found, strict=True)]

    def adam_scales(self, moments: Mapping[str, Tensor] | None, eps: float) -> list[Tensor]:
        """P^(−1/2), with P = √v̂ + ε."""
        if moments is None:
            roots = [one.abs() for one in self._gradient(self._slope.detach())]
        else:
            missing = [name for name in self.names if name not in moments]
            if missing:
                raise IsometerError(
                    f"second_moments has none for {missing[0]!r}; expected one for every trained parameter — pass all"
                )
            roots = [moments[name].to(one).sqrt() for name, one in zip(self.names, self.parameters, strict=True)]
        return [(one + eps).rsqrt() for one in roots]

    def largest_eigenvalue(self, scales: Sequence[Tensor] | None, *, seed: int) -> tuple[float, float, int]:
        """(λ_max, its relative error, products) by Lanczos steps; the error is the residual's norm."""
        generator = torch.Generator().manual_seed(seed)
        vector = [torch.randn(one.shape, generator=generator, dtype=torch.float64).to(one) for one in self.parameters]
        basis: list[list[Tensor]] = []
        alphas: list[float] = []
        betas: list[float] = []
        norm = _norm(vector)
        top, residual = 0.0, math.inf
        while len(alphas) < _STEPS:
            vector = [one / norm for one in vector]
            basis.append(vector)
            scaled = vector if scales is None else [a * b for a, b in zip(vector, scales, strict=True)]
            found = self.product(scaled)
            vector = found if scales is None else [a * b for a, b in zip(found, scales, strict=True)]
            alphas.append(_dot(vector, basis[-1]))
            for one in [*basis, *basis]:  # twice: once leaves rounding along the others
                share = _dot(vector, one)
                vector = [a - share * b for a, b in zip(vector, one, strict=True)]
            norm = _norm(vector)
            top, last = _top(alphas, betas)
            residual = norm * abs(last)
            betas.append(norm)
            if not math.isfinite(norm):
                raise IsometerError(
                    "the curvature is not finite; expected finite losses and gradients — examine the "
                    "model with isometer.diagnose"
                )
            if residual <= _PRECISE * abs(top) or norm <= 1e-30:
                break
        if top <= 0.0:
            return 0.0, 0.0, len(alphas)
        return top, residual / top + float(torch.finfo(self.outputs.dtype).eps), len(alphas)


def _top(alphas: Sequence[float], betas: Sequence[float]) -> tuple[float, float]:
    """The largest eigenvalue of a tridiagonal matrix, and the last entry of its vector."""
    size = len(alphas)
    matrix = np.diag(alphas) + np.diag(betas[: size - 1], 1) + np.diag(betas[: size - 1], -1)
    values, vectors = np.linalg.eigh(matrix)
    return float(values[-1]), float(vectors[-1, -1])


def _dot(first: Sequence[Tensor], second: Sequence[Tensor]) -> float:
    return sum(float((a.double() * b.double()).sum()) for a, b in zip(first, second, strict=True))


def _norm(vectors: Sequence[Tensor]) -> float:
    return math.sqrt(_dot(vectors, vectors))
