"""Gradient descent on squared loss as the tangent kernel predicts it, laid over the descent that happens.

With a constant kernel Θ = J Jᵀ the residual r = f − y of the mean squared error ‖r‖²/(nC) follows
r ← (1 − 2ηΘ/(nC)) r: along an eigenvector of curvature λ = 2 λ(Θ)/(nC) it shrinks by 1 − ηλ a step, with the time
constant 1/(ηλ) steps (004's descent on the kernel of the network itself). Where the kernel moves, the curves part.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn
from torch.nn import functional

from isometer.checks import whole_number
from isometer.doctor.probe._examine import checked
from isometer.doctor.probe._subject import examined
from isometer.doctor.training import train
from isometer.empirical._kernel import empirical_kernel
from isometer.empirical._linearisation import chosen_output, plain_outputs, sample_count
from isometer.empirical._result import EmpiricalKernel
from isometer.errors import IsometerError

Tensor = torch.Tensor
Floats = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class KernelDescent:
    """Predicted and measured losses of gradient descent on the mean squared error.

    Attributes:
        predicted: losses before step 0, 1, …, from the kernel at the start.
        measured: the same, of a copy that was trained; it ends where a loss is not finite.
        rate: the learning rate.
        curvatures: λ per eigenvector of the kernel, ascending.
        residuals: squares of the residual along the eigenvectors, over nC: what each brings to the loss at the start.
        kernel: the tangent kernel at the start, all outputs.
    """

    predicted: Floats
    measured: Floats
    rate: float
    curvatures: Floats
    residuals: Floats
    kernel: EmpiricalKernel

    @property
    def time_constants(self) -> Floats:
        """1/(ηλ) steps per eigenvector, in the order of `curvatures`; infinite where λ is not above rounding.

        Example:
            >>> import torch
            >>> model = torch.nn.Linear(1, 1, bias=False)
            >>> found = descent(model, torch.ones(1, 1), torch.zeros(1, 1), rate=0.25, steps=3)
            >>> found.time_constants  # λ = 2
            array([2.])
        """
        low = self.kernel.resolution * max(float(self.curvatures[-1]), 0.0)
        safe = np.where(self.curvatures > low, self.curvatures, 1.0)
        return np.where(self.curvatures > low, 1.0 / (self.rate * safe), np.inf)

    @property
    def largest_deviation(self) -> float:
        """The largest |predicted/measured − 1| over the steps; infinite if the training diverged.

        Where less than 1e-8 of the first loss is left, deviations are relative to that.

        Example:
            >>> import torch
            >>> model = torch.nn.Linear(2, 1).double()
            >>> found = descent(model, torch.eye(2).double(), torch.ones(2, 1).double(), steps=20)
            >>> found.largest_deviation < 1e-10  # a linear model has a constant kernel
            True
        """
        if len(self.measured) < len(self.predicted) or not np.isfinite(self.measured).all():
            return float("inf")
        floor = max(1e-8 * float(self.measured[0]), 1e-300)
        return float(np.max(np.abs(self.predicted - self.measured) / np.maximum(self.measured, floor)))


def descent(
    model: nn.Module,
    batch: Any,
    target: Tensor,
    *,
    rate: float | None = None,
    steps: int = 100,
    mode: Literal["train", "eval"] | None = "train",
    output: Callable[[Any], Tensor] | None = None,
    seed: int = 0,
) -> KernelDescent:
    """Losses of gradient descent on the whole batch: predicted by the tangent kernel, and measured.

    Args:
        model: the model; a copy is trained.
        batch: as for `empirical_kernel`; its outputs times samples are the size of an eigenvalue problem.
        target: a target with the shape of the output.
        rate: the learning rate; 1/λ_max by default, half of what is stable.
        steps: steps of gradient descent.
        mode: as for `empirical_kernel`. With batch norm in training mode the outputs are those of the whole batch, in
            the kernel and in the training alike.
        output: selects the output from what the model returns.
        seed: seed of dropout.

    Example:
        >>> import torch
        >>> torch.manual_seed(0).initial_seed()
        0
        >>> model = torch.nn.Sequential(torch.nn.Linear(2, 400), torch.nn.Tanh(), torch.nn.Linear(400, 1)).double()
        >>> x = torch.randn(5, 2).double()
        >>> found = descent(model, x, x[:, :1] * x[:, 1:], steps=30)
        >>> found.largest_deviation < 0.05, bool(found.measured[-1] < found.measured[0])
        (True, True)
    """
    model = checked(model, target=None, loss=None, mode=mode)
    steps = whole_number(steps, "steps")
    kernel = empirical_kernel(model, batch, mode=mode, outputs="full", output=output, seed=seed)
    samples = sample_count(batch)

    def start(own: nn.Module) -> Tensor:
        return plain_outputs(own, batch, output).detach()

    with examined(model, target) as subject:
        outputs = subject.run(start, seed=seed, mode=mode)
        if not isinstance(target, Tensor) or target.numel() != outputs.numel() or len(target) != samples:
            came = f"shape {tuple(target.shape)}" if isinstance(target, Tensor) else f"a {type(target).__name__}"
            raise IsometerError(
                f"target has {came}; expected a number for each of the {outputs.shape[1]} outputs of {samples} samples"
            )
        goal = target.detach().to(outputs).reshape(outputs.shape)
        flat = kernel.flat
        values, vectors = np.linalg.eigh(0.5 * (flat + flat.T))
        curvatures = 2.0 * values / outputs.numel()
        if rate is None:
            if not curvatures[-1] > 0:
                raise IsometerError("the tangent kernel is zero: no rate changes the loss — pass rate=…")
            rate = 1.0 / float(curvatures[-1])
        residual = (outputs - goal).double().flatten().cpu().numpy()
        shares = (vectors.T @ residual) ** 2 / outputs.numel()
        powers = (1.0 - rate * curvatures)[None, :] ** (2 * np.arange(steps + 1)[:, None])

        def compare(found: Any, _: Any) -> Tensor:
            return functional.mse_loss(chosen_output(found, output, samples).reshape(goal.shape), goal)

        def training(own: nn.Module) -> tuple[float, ...]:
            plain = lambda one, step: torch.optim.SGD([p for p in one.parameters() if p.requires_grad], step)  # noqa: E731
            return train(
                own,
                lambda _: (batch, None),
                loss=compare,
                optimizer=plain,
                learning_rate=rate,
                steps=steps + 1,
                seed=seed,
            ).losses

        measured = subject.run(training, seed=seed, mode=mode)
    return KernelDescent(powers @ shares, np.asarray(measured), rate, curvatures, shares, kernel)
