"""Functions that come from outside: Python callables on arrays, torch functions and modules.

A foreign function is checked once (vectorised, elementwise, deterministic, real and finite), its kinks are found by
bisection unless they are declared, and where nothing better exists its derivative is that of a piecewise Legendre
surrogate. Torch functions are differentiated by autograd instead.
"""

from __future__ import annotations

import copy
import sys
from collections.abc import Callable, Sequence
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from isometer.activations._gaussian import gaussian_domain, refuse
from isometer.errors import ActivationError
from isometer.numerics._piecewise_legendre import Piecewise, legendre_rule, resolve

Floats = NDArray[np.float64]
_PROBE = np.array([-7.3, -2.1, -0.9, -0.31, 0.17, 0.58, 1.43, 3.7, 6.1])
_SURROGATE_REACH = 24.0
_OFF_GRID = 0.0021738413  # a kink on the edge of two panels would not be seen: start where no kink is likely to be
_SURROGATE_SCALE = 2.0  # the surrogate is resolved against a Gaussian of this standard deviation


class ForeignFunction:
    """An elementwise function the tree cannot look into."""

    def __init__(self, function: Callable[..., Any], name: str, kinks: Sequence[float] | None = None) -> None:
        self.name = name
        self.is_torch = _from_torch(function)
        self.function = _double(function) if self.is_torch else function
        self.original = function
        self._declared = None if kinks is None else tuple(sorted(float(k) for k in kinks))
        self._check()

    def _call(self, x: Floats) -> Any:
        if not self.is_torch:
            with np.errstate(all="ignore"):
                return self.function(x)
        torch = sys.modules["torch"]
        with torch.no_grad():
            return self.function(torch.from_numpy(np.array(x, dtype=float)))

    def _check(self) -> None:
        values = self._tried(_PROBE)
        if values.shape != _PROBE.shape:
            raise ActivationError(
                f"{self.name} turned an array of shape {_PROBE.shape} into {values.shape}; an activation must return "
                "an array of the shape it is given"
            )
        if values.dtype.kind not in "fiub":
            raise ActivationError(f"{self.name} returned values of type {values.dtype}; expected real numbers")
        # the same points once more, and every other one in reverse: an elementwise function does not see the difference
        again, part = self._tried(_PROBE), self._tried(_PROBE[::-2].copy())
        if not np.array_equal(values, again, equal_nan=True):
            raise ActivationError(
                f"{self.name} gives different values for the same input; an activation must be deterministic — "
                "put a module with dropout into eval mode"
            )
        if part.shape != values[::-2].shape or not np.allclose(
            part, values[::-2], rtol=1e-12, atol=1e-12, equal_nan=True
        ):
            raise ActivationError(
                f"{self.name} is not elementwise: its value at a point depends on the other points — "
                "softmax, normalisation and the like are not activations here"
            )
        self.precision = float(np.finfo(values.dtype).eps) if values.dtype.kind == "f" else 2.2e-16

    def _tried(self, x: Floats) -> NDArray[Any]:
        try:
            return np.asarray(self._call(x))
        except Exception as problem:
            raise ActivationError(
                f"{self.name} failed on an array of {x.size} numbers: {type(problem).__name__}: {problem} — an "
                "activation must accept an array of any length and act on each element; wrap a scalar function as "
                "numpy.vectorize(f, otypes=[float])"
            ) from problem

    def evaluate(self, x: Floats, order: int) -> Floats:
        """Value (order 0) or derivative (order ≥ 1) on a NumPy array."""
        if order == 0:
            values = np.asarray(self._call(np.asarray(x, dtype=float)), dtype=float)
            if values.shape != np.shape(x):
                raise ActivationError(f"{self.name} changed the shape {np.shape(x)} into {values.shape}")
            return values
        if self.is_torch:
            torch = sys.modules["torch"]
            tensor = torch.from_numpy(np.array(x, dtype=float))
            return np.asarray(self._torch_derivative(tensor, order).detach().numpy(), dtype=float)
        return self._surrogate_derivative(np.asarray(x, dtype=float), order)

    def evaluate_torch(self, x: Any, order: int) -> Any:
        """Value or derivative on a torch tensor, differentiable."""
        torch = sys.modules["torch"]
        if self.is_torch:
            return self.original(x) if order == 0 else self._torch_derivative(x, order)
        return _through_numpy(torch, self, order)(x)

    def _torch_derivative(self, x: Any, order: int) -> Any:
        torch = sys.modules["torch"]
        with torch.enable_grad():
            point = x if x.requires_grad else x.detach().clone().requires_grad_(True)
            # the float64 copy serves the analysis, the caller's own module every other dtype
            value = self.function(point) if point.dtype == torch.float64 else self.original(point)
            for _ in range(order):
                if not value.requires_grad:
                    return torch.zeros_like(point)
                # elementwise: the gradient of the sum is the derivative at every point
                (value,) = torch.autograd.grad(value.sum(), point, create_graph=True, allow_unused=True)
                if value is None:
                    return torch.zeros_like(point)
        return value

    def _weighted(self, x: Floats) -> Floats:
        values = np.asarray(self._call(x), dtype=float)
        values = np.where(np.isfinite(values), values, 0.0)  # infinite tails are judged where moments are taken
        return values * np.exp(-(x * x) / (4 * _SURROGATE_SCALE**2))

    @cached_property
    def kinks(self) -> tuple[float, ...]:
        """Declared kinks, or the points that bisection closes in on."""
        return self._declared if self._declared is not None else self._find_kinks()

    def _find_kinks(self) -> tuple[float, ...]:
        gaussian_domain([lambda x: self.evaluate(x, 0)], self.name)  # refuses infinite second moments first
        reach = _SURROGATE_REACH
        tolerance = max(4e-15, 50 * self.precision)
        start = np.linspace(-reach, reach, 49)
        found = resolve(
            self._weighted, start + _OFF_GRID, order=16, tolerance=tolerance, smallest=4e-15, budget=20000, guard=True
        )
        if found.exhausted:
            refuse(found, self.name)
        # refinement halves the panel that holds a kink until it is tiny, and smooth parts keep wide ones
        width = np.diff(found.series.edges)
        narrow = np.flatnonzero(width < 2e-3)
        candidates: list[float] = []
        for group in np.split(narrow, np.flatnonzero(np.diff(narrow) > 1) + 1) if len(narrow) else []:
            # a run of narrow panels may hold several kinks: one candidate per local minimum of the width
            local = width[group]
            padded = np.concatenate([[np.inf], local, [np.inf]])
            lowest = (padded[1:-1] <= padded[:-2]) & (padded[1:-1] <= padded[2:])
            runs = np.flatnonzero(lowest)
            for run in np.split(runs, np.flatnonzero(np.diff(runs) > 1) + 1):
                left, right = found.series.edges[group[run[0]]], found.series.edges[group[run[-1]] + 1]
                candidates.append(self._snap(float(left), float(right)))
        return tuple(sorted(set(candidates)))

    @staticmethod
    def _snap(left: float, right: float) -> float:
        """The roundest number between the two, since kinks are rarely at odd places."""
        slack = max(right - left, 1e-12)
        middle = (left + right) / 2
        for digits in range(8):
            nearest = round(middle, digits)
            if abs(nearest - middle) <= 2 * slack:
                return nearest + 0.0  # no −0.0
        sixth = round(middle * 6) / 6  # thirds and sixths are round too, though not in decimals
        return sixth if abs(sixth - middle) <= 2 * slack else middle

    @cached_property
    def _surrogate(self) -> Piecewise:
        breaks = np.unique(np.concatenate([np.linspace(-_SURROGATE_REACH, _SURROGATE_REACH, 25), self.kinks]))
        return resolve(self._weighted, breaks, order=24, tolerance=max(4e-15, 50 * self.precision), budget=20000).series

    @cached_property
    def _surrogate_slope(self) -> Piecewise:
        """g′ + b·x·g as one series (b = 1/2s²), exact since it is a polynomial on each panel."""
        g = self._surrogate
        nodes, _, analysis = legendre_rule(g.coefficients.shape[1] + 1)
        left, right = g.edges[:-1, None], g.edges[1:, None]
        x = (left + right) / 2 + (right - left) / 2 * nodes
        values = g.derivative()(x) + x * g(x) / (2 * _SURROGATE_SCALE**2)
        return Piecewise(g.edges, values @ analysis.T).trimmed(1e-15)

    def _surrogate_derivative(self, x: Floats, order: int) -> Floats:
        """(d/dx)^order of g(x)·exp(x²/4s²), where g is the resolved series."""
        if order > 2:
            raise ActivationError(f"the third derivative of the opaque function {self.name} is not available")
        b = 1.0 / (2 * _SURROGATE_SCALE**2)
        clipped = np.clip(x, -_SURROGATE_REACH, _SURROGATE_REACH)
        g = self._surrogate
        growth = np.exp(clipped * clipped * b / 2)
        if order == 1:
            return self._surrogate_slope(clipped) * growth
        # φ = g exp(bx²/2) differentiated twice: (g″ + 2bx g′ + (b + b²x²) g) exp(bx²/2)
        first = g.derivative()
        second = first.derivative()
        inner = second(clipped) + 2 * b * clipped * first(clipped) + (b + (b * clipped) ** 2) * g(clipped)
        return inner * growth


def _through_numpy(torch: Any, foreign: ForeignFunction, order: int) -> Callable[[Any], Any]:
    """A NumPy function as a torch operation whose backward pass is the surrogate's derivative."""

    class Bridge(torch.autograd.Function):  # type: ignore[misc]
        @staticmethod
        def forward(ctx: Any, x: Any) -> Any:
            ctx.save_for_backward(x)
            values = foreign.evaluate(x.detach().cpu().double().numpy(), order)
            return torch.as_tensor(np.ascontiguousarray(values), dtype=x.dtype, device=x.device)

        @staticmethod
        def backward(ctx: Any, gradient: Any) -> Any:
            (x,) = ctx.saved_tensors
            slope = foreign.evaluate(x.detach().cpu().double().numpy(), order + 1)
            return gradient * torch.as_tensor(np.ascontiguousarray(slope), dtype=x.dtype, device=x.device)

    apply: Callable[[Any], Any] = Bridge.apply
    return apply


def _from_torch(function: Any) -> bool:
    """Whether torch made this object: a module, or a function that lives in torch."""
    if "torch" not in sys.modules:
        return False
    torch = sys.modules["torch"]
    if isinstance(function, torch.nn.Module):
        return True
    home = getattr(function, "__module__", None) or type(function).__module__
    if str(home).partition(".")[0] == "torch":
        return True
    try:  # torch's built-in functions have no home; they and functions that call them fail on arrays and take tensors
        with np.errstate(all="ignore"):
            function(_PROBE.copy())
        return False
    except Exception:
        try:
            with torch.no_grad():
                return isinstance(function(torch.from_numpy(_PROBE.copy())), torch.Tensor)
        except Exception:
            return False


def _double(function: Any) -> Any:
    """A float64 copy of a module in eval mode (the caller's module is not touched); functions as they are."""
    torch = sys.modules["torch"]
    if isinstance(function, torch.nn.Module):
        return copy.deepcopy(function).double().eval()
    return function
