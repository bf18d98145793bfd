"""`jacobian_spectrum`: singular values of a model's Jacobian between two places, whole or by Lanczos quadrature."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Literal

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray
from torch import nn

from isometer._display import Drawn
from isometer.checks import whole_number
from isometer.doctor.probe._examine import checked
from isometer.doctor.probe._subject import examined
from isometer.doctor.probe._tensor_trees import map_tensors
from isometer.empirical._linearisation import chosen_output, sample_count
from isometer.empirical._span import Span, module_outputs
from isometer.errors import IsometerError

Tensor = torch.Tensor
Floats = NDArray[np.float64]
_DENSE = 1 << 24  # entries of a Jacobian that is written out
_SIDE = 1024  # singular values of one matrix that are calculated
_QUADRATURES = 16  # at least: their spread tells the error
_STEPS = 40


@dataclass(frozen=True, eq=False)
class EmpiricalJacobian(Drawn):
    """Singular values σ of ∂(end)/∂(start) of a model on a batch, all samples together.

    Example:
        >>> import torch
        >>> from isometer import jacobian_spectrum
        >>> found = jacobian_spectrum(torch.nn.Linear(3, 3, bias=False).double(), torch.randn(2, 3).double())
        >>> found.method, found.shape, found.separate
        ('dense', (3, 3), True)

    Attributes:
        method: "dense" or "lanczos".
        note: how it was calculated, for people.
        shape: (rows, columns) per sample where samples are separate, of the whole batch otherwise.
        separate: no sample acts on another; the singular values are those of the samples' own Jacobians.
        start, end: where the Jacobian begins and ends.
        mode: mode of the model.
        nodes: squares σ², one row for each matrix or quadrature.
        weights: weights of the nodes, adding up to 1 in each row.
    """

    method: Literal["dense", "lanczos"]
    note: str
    shape: tuple[int, int]
    separate: bool
    start: str
    end: str
    mode: str | None
    nodes: Floats = field(repr=False)
    weights: Floats = field(repr=False)

    @property
    def singular_values(self) -> Floats:
        """(matrices, min(rows, columns)), largest first; of a dense Jacobian only.

        Example:
            >>> import torch
            >>> from isometer import jacobian_spectrum
            >>> jacobian_spectrum(torch.nn.Hardtanh(), torch.tensor([[0.5, 2.0]])).singular_values
            array([[1., 0.]])
        """
        if self.method != "dense":
            raise IsometerError(
                "the Jacobian is known by Lanczos quadrature only; expected a dense one for its singular values — pass "
                "method='dense', or read quantile and cdf"
            )
        return np.sqrt(np.sort(self.nodes, 1)[:, ::-1])

    @cached_property
    def _scale(self) -> float:
        top = float(self.nodes.max())
        return top if top > 0 else 1.0

    def _mean(self, power: int) -> tuple[float, float]:
        """E (σ²/scale)^k, and its standard error where it is an estimate."""
        each = ((self.nodes / self._scale) ** power * self.weights).sum(1)
        return float(each.mean()), self._error(each)

    def _error(self, each: Floats) -> float:
        if self.method == "dense" or len(each) < 2:
            return 0.0
        return float(each.std(ddof=1) / math.sqrt(len(each)))

    @property
    def mean_square(self) -> float:
        """E σ² over all singular values."""
        return self._mean(1)[0] * self._scale

    @property
    def partial_norm(self) -> float:
        """The averaged partial Jacobian norm ‖J‖_F²/rows, which is 1 at criticality.

        Example:
            >>> import torch
            >>> from isometer import jacobian_spectrum
            >>> jacobian_spectrum(torch.nn.Flatten(), torch.ones(2, 3, 3)).partial_norm
            1.0
        """
        return self.mean_square * min(self.shape) / self.shape[0]

    def moments(self, order: int = 4) -> Floats:
        """E σ^2k/(E σ²)^k for k = 1 … order; of a Jacobian that is zero, zeros."""
        first = self._mean(1)[0]
        found = [self._mean(k)[0] / first**k if first > 0 else 0.0 for k in range(1, whole_number(order, "order") + 1)]
        return np.array(found)

    @property
    def isometry(self) -> float:
        """(E σ²)²/E σ⁴: 1 where all singular values are the same (dynamical isometry up to a factor); 0 of J = 0.

        Example:
            >>> import torch
            >>> from isometer import jacobian_spectrum
            >>> jacobian_spectrum(torch.nn.ReLU(), torch.tensor([[1.0, -1.0]])).isometry
            0.5
        """
        second = self._mean(2)[0]
        return self._mean(1)[0] ** 2 / second if second > 0 else 0.0

    @property
    def error_estimate(self) -> float:
        """The relative standard error of E σ²; 0 of a dense Jacobian but for rounding.

        It is the spread of all quadratures, that between samples included, so rather too large for separate samples.
        """
        mean, error = self._mean(1)
        return error / mean if mean > 0 else 0.0

    def cdf(self, square: ArrayLike) -> Floats:
        """The share of σ² up to some squares."""
        return np.asarray(self._shares(square).mean(0))

    def cdf_error(self, square: ArrayLike) -> Floats:
        """The standard error of `cdf`: the spread of the quadratures; 0 of a dense Jacobian."""
        shares = self._shares(square)
        if self.method == "dense" or len(shares) < 2:
            return np.zeros(shares.shape[1:])
        return np.asarray(shares.std(0, ddof=1) / math.sqrt(len(shares)))

    def _shares(self, square: ArrayLike) -> Floats:
        squares = np.asarray(square, dtype=float)
        below = self.nodes[:, :, None] <= squares.reshape(1, 1, -1)
        found = (below * self.weights[:, :, None]).sum(1)
        return np.asarray(found.reshape(-1, *squares.shape))

    def quantile(self, share: ArrayLike) -> Floats:
        """The σ below which this share of singular values is.

        Example:
            >>> import torch
            >>> from isometer import jacobian_spectrum
            >>> jacobian_spectrum(torch.nn.ReLU(), torch.tensor([[1.0, -1.0, 2.0]])).quantile([0.2, 0.5, 0.9])
            array([0., 1., 1.])
        """
        order = np.argsort(self.nodes, axis=None)
        places = self.nodes.ravel()[order]
        below = np.cumsum(self.weights.ravel()[order]) / len(self.nodes)
        at = np.searchsorted(below, np.asarray(share, dtype=float) - 1e-12)
        return np.asarray(np.sqrt(places[np.minimum(at, len(places) - 1)]))

    @property
    def zeros(self) -> float:
        """The share of singular values that are zero, or rounding beside the largest."""
        return float(self.cdf(1e-14 * self._scale))

    def density(self, log_squares: ArrayLike, width: float = 0.2) -> tuple[Floats, Floats]:
        """The density of log σ² by a Gaussian of this width around each node, and its standard error.

        Example:
            >>> import torch
            >>> from isometer import jacobian_spectrum
            >>> grid = np.linspace(-2, 2, 81)
            >>> height, _ = jacobian_spectrum(torch.nn.Hardtanh(), torch.tensor([[0.5, 0.2]])).density(grid)
            >>> round(float(height.sum() * 0.05), 6)
            1.0
        """
        grid = np.asarray(log_squares, dtype=float)
        logs = np.log(np.maximum(self.nodes, 1e-300))
        rows = []
        for log, weight in zip(logs, self.weights, strict=True):
            bumps = np.exp(-0.5 * ((grid[:, None] - log) / width) ** 2) @ weight
            rows.append(bumps / (width * math.sqrt(2 * math.pi)))
        each = np.array(rows)
        error = np.zeros(len(grid))
        if self.method == "lanczos" and len(each) > 1:
            error = each.std(0, ddof=1) / math.sqrt(len(each))
        return each.mean(0), error

    def to_dict(self) -> dict[str, Any]:
        """Numbers for JSON."""
        shares = [0.01, 0.05, 0.25, 0.5, 0.75, 0.95, 0.99]
        return {
            "start": self.start,
            "end": self.end,
            "mode": self.mode,
            "shape": self.shape,
            "separate": self.separate,
            "method": self.method,
            "note": self.note,
            "mean_square": self.mean_square,
            "isometry": self.isometry,
            "partial_norm": self.partial_norm,
            "zeros": self.zeros,
            "moments": self.moments(4),
            "quantiles": dict(zip(map(str, shares), self.quantile(shares).tolist(), strict=True)),
            "error_estimate": self.error_estimate,
        }


def jacobian_spectrum(
    model: nn.Module,
    batch: Any,
    *,
    start: str | None = None,
    end: str | None = None,
    mode: Literal["train", "eval"] | None = "train",
    method: Literal["auto", "dense", "lanczos"] = "auto",
    output: Callable[[Any], Tensor] | None = None,
    vectors: int | None = None,
    steps: int = _STEPS,
    dtype: torch.dtype | None = None,
    seed: int = 0,
) -> EmpiricalJacobian:
    """Singular values of the Jacobian of a model as it is, on a batch; the model is not changed.

    The Jacobian is that of all samples by all samples. Where samples do not act on each other it consists of one block
    for each, and the singular values are those of the blocks; in training mode batch norm couples them.

    Args:
        model: any `torch.nn.Module`.
        batch: a tensor, a tuple of positional arguments or a mapping of keyword arguments; samples are the first axis.
        start: the module whose output is the start of the Jacobian; the input by default. Token models need one.
        end: the module whose output is the end of the Jacobian; the model's output by default.
        mode: "train", "eval", or None for the mode of each module.
        method: "dense" writes the Jacobian out; "lanczos" puts random vectors through Golub–Kahan steps, whose Gauss
            quadratures are the density up to a standard error. "auto" takes "dense" where that is small.
        output: selects a tensor from what the model, or the module `end`, returns.
        vectors: random vectors of "lanczos" for each sample (for the batch where samples act on each other); by
            default as many as make 16 quadratures.
        steps: Golub–Kahan steps: a quadrature is exact for polynomials of σ² up to degree 2·steps − 1.
        dtype: `torch.float64` calculates in double precision.
        seed: seed of dropout and of the vectors.

    Returns:
        `EmpiricalJacobian`: singular values or their distribution, dynamical isometry as one number.

    Raises:
        IsometerError: there is nothing to differentiate with respect to, or the Jacobian is too large for
            method="dense".

    Example:
        >>> import torch
        >>> from isometer import jacobian_spectrum
        >>> orthogonal = torch.nn.utils.parametrizations.orthogonal(torch.nn.Linear(4, 4, bias=False))
        >>> round(jacobian_spectrum(orthogonal, torch.randn(3, 4)).isometry, 5)
        1.0
    """
    model = checked(model, target=None, loss=None, mode=mode)
    if method not in ("auto", "dense", "lanczos"):
        raise IsometerError(f"method is {method!r}; expected 'auto', 'dense' or 'lanczos' — pass one of them")
    steps = whole_number(steps, "steps", low=2)
    given = None if vectors is None else whole_number(vectors, "vectors", low=1)
    if dtype is not None:
        batch = map_tensors(lambda one: one.to(dtype) if one.is_floating_point() else one, batch)

    def work(own: nn.Module) -> EmpiricalJacobian:
        span = Span(own, batch, start, end, output)
        groups = span.samples if span.separate else 1
        many = 1 if span.separate else span.samples
        shape = (many * span.rows, many * span.columns)
        small = groups * math.prod(shape) <= _DENSE and min(shape) <= _SIDE
        if method == "dense" and groups * math.prod(shape) > 16 * _DENSE:
            raise IsometerError(
                f"the Jacobian has {groups} × {shape[0]} × {shape[1]} entries; expected at most {16 * _DENSE} — pass "
                "method='lanczos' or fewer samples"
            )
        whose = "of each sample" if span.separate else "of the batch, whose samples act on each other"
        if method == "dense" or (method == "auto" and small):
            values = torch.linalg.svdvals(span.dense_rows()).double().cpu().numpy()
            nodes, weights = values**2, np.full(values.shape, 1 / values.shape[1])
            chosen: Literal["dense", "lanczos"] = "dense"
            note = f"the whole Jacobian {whose}, {shape[0]} × {shape[1]}"
        else:
            turns = given or math.ceil(_QUADRATURES / groups)
            nodes, weights = quadratures(span, turns, min(steps, min(shape)), seed)
            chosen = "lanczos"
            note = f"{len(nodes)} Gauss quadratures of {nodes.shape[1]} nodes {whose}, {shape[0]} × {shape[1]}"
        if not np.isfinite(nodes).all():
            raise IsometerError("the Jacobian is not finite; expected finite gradients — examine isometer.diagnose")
        return EmpiricalJacobian(
            chosen, note, shape, span.separate, start or "input", end or "output", mode, nodes, weights
        )

    prepare = None if dtype is None else lambda one: one.to(dtype)
    with examined(model) as subject:
        found: EmpiricalJacobian = subject.run(work, seed=seed, mode=mode, prepare=prepare)
    return found


def quadratures(span: Span, turns: int, steps: int, seed: int) -> tuple[Floats, Floats]:
    """Nodes and weights of vᵀ f(JJᵀ) v (of JᵀJ if that is smaller) for random unit v, one row per vector.

    Separate samples have Krylov spaces of their own, all advanced by one product with the batch.
    """
    short = span.rows <= span.columns
    size, groups = min(span.rows, span.columns), span.samples if span.separate else 1
    generator = torch.Generator().manual_seed(seed)
    nodes, weights = [], []
    for _ in range(turns):
        vector = torch.randn((span.samples, size), generator=generator, dtype=torch.float64).to(span.outputs)
        diagonal, beside = _tridiagonal(span, vector, groups, steps, short)
        matrix = np.zeros((groups, steps, steps))
        place = np.arange(steps)
        matrix[:, place, place] = diagonal.T
        matrix[:, place[1:], place[:-1]] = beside[:-1].T
        values, vectors = np.linalg.eigh(matrix)
        nodes.append(np.maximum(values, 0.0))
        weights.append(vectors[:, 0, :] ** 2)
    return np.concatenate(nodes), np.concatenate(weights)


def _tridiagonal(span: Span, vector: Tensor, groups: int, steps: int, short: bool) -> tuple[Floats, Floats]:
    """Lanczos steps in all groups at once, with the whole basis kept orthogonal."""
    shape = vector.shape
    vector = vector.reshape(groups, -1)
    vector = vector / vector.norm(dim=1, keepdim=True)
    basis: list[Tensor] = []
    diagonal, beside = np.zeros((steps, groups)), np.zeros((steps, groups))
    for step in range(steps):
        basis.append(vector)
        given = vector.reshape(shape)
        found = span.push(span.pull(given)) if short else span.pull(span.push(given))
        found = found.reshape(groups, -1)
        diagonal[step] = (found * vector).sum(1).double().cpu().numpy()
        for _ in range(2):  # once leaves rounding along the others
            for one in basis:
                found = found - (found * one).sum(1, keepdim=True) * one
        norm = found.norm(dim=1, keepdim=True)
        largest = max(float(np.abs(diagonal[: step + 1]).max()), 1e-300)
        ended = norm <= 10 * torch.finfo(found.dtype).eps * largest
        # A space that is closed has no further nodes: what follows has no weight.
        vector = torch.where(ended, torch.zeros_like(found), found / torch.where(ended, torch.ones_like(norm), norm))
        beside[step] = torch.where(ended, torch.zeros_like(norm), norm)[:, 0].double().cpu().numpy()
    return diagonal, beside


@dataclass(frozen=True)
class PartialNorm:
    """‖∂(output)/∂(module's output)‖_F² over the number of outputs, and its standard error."""

    value: float
    error: float


def partial_jacobian_norms(
    model: nn.Module,
    batch: Any,
    *,
    mode: Literal["train", "eval"] | None = "train",
    output: Callable[[Any], Tensor] | None = None,
    vectors: int = 16,
    seed: int = 0,
) -> dict[str, PartialNorm]:
    """The averaged partial Jacobian norm from every module to the output, in order of execution.

    It is 1 everywhere at criticality; a constant ratio between layers is the growth of gradients. One backward pass
    with random signs gives an unbiased estimate for all modules together.

    Args:
        model: any `torch.nn.Module`.
        batch: as for `jacobian_spectrum`.
        mode: "train", "eval", or None for the mode of each module.
        output: selects the output from what the model returns.
        vectors: backward passes.
        seed: seed of dropout and signs.

    Returns:
        By name of the module without modules inside, those that reach the output.

    Example:
        >>> import torch
        >>> from isometer import partial_jacobian_norms
        >>> model = torch.nn.Sequential(torch.nn.Linear(4, 4), torch.nn.Flatten(), torch.nn.ReLU())
        >>> found = partial_jacobian_norms(model, torch.randn(2, 4))
        >>> list(found), found["2"].value  # a module's own output is the output
        (['0', '1', '2'], 1.0)
    """
    model = checked(model, target=None, loss=None, mode=mode)
    vectors = whole_number(vectors, "vectors", low=2)

    def work(own: nn.Module) -> dict[str, PartialNorm]:
        sites, found = module_outputs(own, batch)
        chosen = chosen_output(found, output, sample_count(batch))
        if not chosen.requires_grad:
            raise IsometerError("the output does not depend on any module's output; expected one that does")
        generator = torch.Generator().manual_seed(seed)
        rows: dict[str, list[float]] = {}
        for _ in range(vectors):
            signs = (torch.randint(0, 2, chosen.shape, generator=generator) * 2 - 1).to(chosen)
            gradients = torch.autograd.grad(chosen, list(sites.values()), signs, retain_graph=True, allow_unused=True)
            for name, gradient in zip(sites, gradients, strict=True):
                if gradient is not None:
                    rows.setdefault(name, []).append(float(gradient.double().square().sum()) / chosen.numel())
        return {
            name: PartialNorm(float(np.mean(one)), float(np.std(one, ddof=1)) / math.sqrt(vectors))
            for name, one in rows.items()
        }

    with examined(model) as subject:
        norms: dict[str, PartialNorm] = subject.run(work, seed=seed, mode=mode)
    return norms
