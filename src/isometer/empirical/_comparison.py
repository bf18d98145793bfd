"""Kernels beside each other: alignment, distance, and drift between two checkpoints."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from isometer.errors import IsometerError

if TYPE_CHECKING:
    from isometer.empirical._result import EmpiricalKernel

Floats = NDArray[np.float64]


def kernel_alignment(first: ArrayLike, second: ArrayLike, *, centred: bool = True) -> float:
    """⟨A, B⟩/(‖A‖ ‖B‖) of two kernels on the same samples, after centring: 1 where one is a multiple of the other.

    Args:
        first: (n, n).
        second: (n, n).
        centred: subtract the mean of rows and columns first.

    Returns:
        The cosine; 0 where one of them is zero (after centring), since nothing of it is along the other.

    Example:
        >>> import numpy as np
        >>> round(kernel_alignment(np.eye(3), 2 * np.eye(3)), 12)
        1.0
    """
    a, b = (_square(one) for one in (first, second))
    if a.shape != b.shape:
        raise IsometerError(f"the kernels have shapes {a.shape} and {b.shape}; expected the same samples — pass those")
    if centred:
        a, b = _centred(a), _centred(b)
    size = float(np.linalg.norm(a) * np.linalg.norm(b))
    return float(np.clip(np.sum(a * b) / size, -1.0, 1.0)) if size > 0 else 0.0


def kernel_distance(first: ArrayLike, second: ArrayLike) -> float:
    """‖A − sB‖/‖A‖ at the scale s that fits best: √(1 − cos²) of the uncentred alignment.

    Example:
        >>> import numpy as np
        >>> round(kernel_distance(np.diag([1.0, 1.0]), np.diag([1.0, 0.0])) ** 2, 12)
        0.5
    """
    a, b = (_square(one) for one in (first, second))
    norm, other = float(np.linalg.norm(a)), float(np.linalg.norm(b))
    if norm == 0.0 or other == 0.0:
        return 0.0 if norm == other else 1.0
    # The difference itself, and not 1 − cos², which rounding takes over near 0.
    rest = a / norm - (np.sum(a * b) / (norm * other)) * (b / other)
    return float(np.linalg.norm(rest))


@dataclass(frozen=True)
class KernelDrift:
    """How far a kernel, or its part of one layer, moved.

    Attributes:
        relative: ‖after − before‖/‖before‖.
        turned: the same at the scale that fits best, so that growth alone is 0.
        growth: the norm after over the norm before.
    """

    relative: float
    turned: float
    growth: float


def kernel_drift(before: EmpiricalKernel, after: EmpiricalKernel) -> dict[str, KernelDrift]:
    """How far a kernel moved between two checkpoints, by the parts that both have; the whole is under "total".

    Args:
        before: a kernel, with parts if `by` was given.
        after: the kernel of the other checkpoint, on the same batch.

    Example:
        >>> import torch
        >>> from isometer import empirical_kernel
        >>> model = torch.nn.Sequential(torch.nn.Linear(2, 3, bias=False), torch.nn.Linear(3, 1, bias=False))
        >>> first = empirical_kernel(model, torch.eye(2), by="layer")
        >>> model[1].weight.data *= 2
        >>> found = kernel_drift(first, empirical_kernel(model, torch.eye(2), by="layer"))
        >>> round(found["0"].growth, 5), round(found["1"].relative, 5)  # the first layer's gradient has the factor 2
        (4.0, 0.0)
    """
    if before.matrix.shape != after.matrix.shape or before.kind != after.kind:
        raise IsometerError(
            f"the kernels are {before.kind} {before.matrix.shape} and {after.kind} {after.matrix.shape}; expected the "
            "same kind on the same samples — pass the same batch and options"
        )
    found = {"total": _drift(before.flat, after.flat)}
    for name, part in before.parts.items():
        if name in after.parts:
            found[name] = _drift(part.reshape(before.flat.shape), after.parts[name].reshape(before.flat.shape))
    return found


def _drift(before: Floats, after: Floats) -> KernelDrift:
    first, last = float(np.linalg.norm(before)), float(np.linalg.norm(after))
    if first == 0.0:
        return KernelDrift(0.0, 0.0, 1.0) if last == 0.0 else KernelDrift(math.inf, 1.0, math.inf)
    return KernelDrift(float(np.linalg.norm(after - before)) / first, kernel_distance(after, before), last / first)


def label_gram(labels: ArrayLike, samples: int) -> Floats:
    """y yᵀ of labels: whole numbers are classes, which agree or not; others are values.

    Example:
        >>> label_gram([0, 1, 0], 3).tolist()
        [[1.0, 0.0, 1.0], [0.0, 1.0, 0.0], [1.0, 0.0, 1.0]]
    """
    given: NDArray[Any] = np.asarray(labels)
    if given.ndim not in (1, 2) or len(given) != samples:
        raise IsometerError(
            f"labels have shape {given.shape}; expected one for each of the {samples} samples, or a kernel of them"
        )
    if given.ndim == 1 and given.dtype.kind in "iub":
        return np.asarray(given[:, None] == given[None, :], dtype=np.float64)
    values = np.asarray(given, dtype=np.float64).reshape(samples, -1)
    return np.asarray(values @ values.T)


def _square(kernel: ArrayLike) -> Floats:
    found = np.asarray(kernel, dtype=np.float64)
    if found.ndim != 2:
        raise IsometerError(f"a kernel has shape {found.shape}; expected (n, n) — sum over outputs first")
    if not np.isfinite(found).all():
        raise IsometerError("a kernel has entries that are not finite; expected numbers — pass dtype=torch.float64")
    return found


def _centred(kernel: Floats) -> Floats:
    return np.asarray(kernel - kernel.mean(0) - kernel.mean(1)[:, None] + kernel.mean())
