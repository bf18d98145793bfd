"""`empirical_kernel`: the tangent kernel or conjugate kernel of a model on a batch."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import torch
from torch import nn
from torch.utils.checkpoint import CheckpointError

from isometer.checks import MOST_RUNS, whole_number
from isometer.doctor.probe._examine import checked
from isometer.doctor.probe._subject import Subject, examined
from isometer.doctor.probe._tensor_trees import map_tensors
from isometer.empirical._assembly import Floats, Parts, PassPair, full_kernel, trace_kernel
from isometer.empirical._conjugate import conjugate_kernel
from isometer.empirical._linearisation import Linearisation, plain_outputs, trained_parameters
from isometer.empirical._result import EmpiricalKernel, KernelRun, Kind, Method
from isometer.errors import IsometerError
from isometer.work import Work, check_work

Tensor = torch.Tensor
By = Literal["layer", "parameter"] | Callable[[str], str] | None
_SKETCH = 64  # cotangents that stand for all outputs
_GROUPS = 8  # of them, whose spread tells the error
_PATIENCE = 60.0  # seconds from which on a sketch takes the place of the exact kernel
_PIECE = 1 << 16  # numbers
_WRONG = 1e-2  # disagreement with plain differentiation that no rounding explains


def empirical_kernel(
    model: nn.Module,
    batch: Any,
    other: Any = None,
    *,
    kind: Kind = "ntk",
    mode: Literal["train", "eval"] | None = "train",
    outputs: Literal["trace", "full"] = "trace",
    by: By = None,
    site: str | None = None,
    output: Callable[[Any], Tensor] | None = None,
    method: Literal["auto", "structured", "contraction", "sketch"] = "auto",
    draws: int = 1,
    vectors: int = _SKETCH,
    dtype: torch.dtype | None = None,
    seed: int = 0,
) -> EmpiricalKernel:
    """The tangent kernel or the conjugate kernel of a model as it is, on a batch; the model is not changed.

    The tangent kernel is J J′ᵀ, where J is the Jacobian of *all* outputs of the batch with respect to the parameters
    with `requires_grad`. In training mode batch norm makes the outputs of a sample depend on the whole batch, and so
    does its row of J. Between two batches each is normalised by itself. `other` equal to `batch` therefore gives the
    same matrix as leaving it out, and a part of a batch does not give a part of the matrix.

    Args:
        model: any `torch.nn.Module`.
        batch: a tensor, a tuple of positional arguments or a mapping of keyword arguments; samples are the first axis.
        other: a second batch, for the kernel between the two.
        kind: "ntk", or "nngp": H Hᵀ/d of the representation H at `site`.
        mode: "train" uses statistics of the batch and draws dropout masks; "eval" uses running statistics; None keeps
            the mode of each module.
        outputs: "trace" sums over outputs, (n, n′); "full" keeps them, (n, C, n′, C).
        by: also keep the summand of each "layer" (module that owns parameters), of each "parameter", or of each group
            that a function of the parameter's name names.
        site: for "nngp": the module whose output is H; by default H is what the last linear layer reads.
        output: selects the output from what the model returns, samples first; by default the first such tensor.
        method: "structured" reads derivatives at the layers and multiplies Gram matrices; "contraction" multiplies
            whole gradients, which autograd forms; "sketch" puts random signs in place of the outputs, for many
            outputs. "auto" takes "structured", and "sketch" where that would take more than a minute.
        draws: kernels with different random numbers (dropout) that are averaged.
        vectors: random vectors of a sketch.
        dtype: `torch.float64` calculates in double precision, whatever the model's is.
        seed: seed of dropout and sketches.

    Returns:
        `EmpiricalKernel`; its `note` says how it was calculated, its `error_estimate` how far to trust it.

    Raises:
        IsometerError: the model has no trained parameter, or its output no samples.
        TooMuchWorkError: it would take more memory or time than `isometer.work.allow` allows.

    Example:
        >>> import torch
        >>> from isometer import empirical_kernel
        >>> model = torch.nn.Sequential(torch.nn.Linear(3, 8), torch.nn.BatchNorm1d(8), torch.nn.ReLU(),
        ...                             torch.nn.Linear(8, 2))
        >>> found = empirical_kernel(model.double(), torch.randn(6, 3).double(), by="layer")
        >>> found.matrix.shape, found.method, list(found.parts)
        ((6, 6), 'structured', ['0', '1', '3'])

    Implements: the finite-width side of 004/def-NTK and 004/def-K.
    """
    model = checked(model, target=None, loss=None, mode=mode, seed=seed)
    _check_words(kind, outputs, method, by)
    draws = whole_number(draws, "draws", high=MOST_RUNS)
    vectors = whole_number(vectors, "vectors", low=2, high=MOST_RUNS)
    batch, other = (_cast(one, dtype) for one in (batch, other))
    prepare = None if dtype is None else lambda one: one.to(dtype)
    with examined(model) as subject:
        runs = []
        for draw in range(draws):
            words = (outputs, _grouping(by), output, method, vectors, seed + draw)
            job = _Job(batch, other, *words, keep_graph=subject.has_history)

            def run(work: Callable[[nn.Module], Any], seed: int = seed + draw, subject: Subject = subject) -> Any:
                return subject.run(work, seed=seed, mode=mode, prepare=prepare)

            if kind == "nngp":
                runs.append(run(lambda one: conjugate_kernel(one, batch, other, site)))
            else:
                runs.append(job.kernel(run))
    parts, errors = _averaged(runs)
    order = list(dict.fromkeys(map(_grouping(by), dict(model.named_parameters()))))
    parts = {name: parts[name] for name in sorted(parts, key=lambda name: order.index(name) if name in order else 0)}
    matrix = sum(parts.values(), np.zeros_like(next(iter(parts.values()))))
    return EmpiricalKernel(
        kind,
        mode,
        outputs,
        matrix,
        parts if by is not None else {},
        runs[0].method,
        runs[0].note,
        errors,
        len(matrix) * runs[0].epsilon,
        other is None,
    )


@dataclass(frozen=True)
class _Job:
    batch: Any
    other: Any
    outputs: str
    group: Callable[[str], str]
    select: Callable[[Any], Tensor] | None
    method: str
    vectors: int
    seed: int
    keep_graph: bool  # the model holds tensors whose graph is the caller's

    def kernel(self, run: Callable[[Callable[[nn.Module], Any]], Any]) -> KernelRun:
        """The kernel, checked against one plain backward pass; where they disagree, by whole gradients."""
        expected = run(self._expected)
        if self.method != "contraction":
            try:
                found: KernelRun = run(lambda model: self._assembled(model, expected, tapped=True))
            except CheckpointError:
                # What runs again in the backward pass is not tapped, and does not fit what was.
                found = run(lambda model: self._assembled(model, expected, tapped=False))
            if found.error <= _WRONG or found.method == "sketch":
                return found
            if self.method != "auto":
                raise IsometerError(
                    f"structured derivatives differ from plain ones by {found.error:.2g}; expected a model whose "
                    "forward pass is the same every time — pass method='contraction'"
                )
        return run(lambda model: self._assembled(model, expected, tapped=False))  # type: ignore[no-any-return]

    def _expected(self, model: nn.Module) -> _Expected:
        """⟨J⟩ on one cotangent, by plain differentiation; it frees activations as it goes."""
        found: list[tuple[Floats, dict[str, Tensor]]] = []
        named = trained_parameters(model)
        for batch in [self.batch] if self.other is None else [self.batch, self.other]:
            outputs = plain_outputs(model, batch, self.select)
            weights = _weights(len(outputs), self.seed + len(found)).to(outputs)
            leaves = [one for _, one in named]
            gradients = torch.autograd.grad(
                outputs[:, 0], leaves, weights, allow_unused=True, retain_graph=self.keep_graph
            )
            by_name = {name: g for (name, _), g in zip(named, gradients, strict=True) if g is not None}
            found.append((weights.double().cpu().numpy(), by_name))
        (u, left), (v, right) = found[0], found[-1]
        product = sum(_dot(left[name], right[name]) for name in left.keys() & right.keys())
        size = product
        if len(found) > 1:
            size = math.prod(math.sqrt(sum(_dot(g, g) for g in one.values())) for one in (left, right))
        return _Expected(u, v, product, size)

    def _assembled(self, model: nn.Module, expected: _Expected, *, tapped: bool) -> KernelRun:
        left = Linearisation(model, self.batch, self.select, tapped=tapped)
        right = left if self.other is None else Linearisation(model, self.other, self.select, tapped=tapped)
        if right.width != left.width:
            raise IsometerError(
                f"the batches have {left.width} and {right.width} outputs per sample; expected the "
                "same number — pass output=…"
            )
        pair = PassPair(left, right, self.group)
        method: Method = "structured" if tapped else "contraction"
        epsilon = float(torch.finfo(left.outputs.dtype).eps)
        if self._sketches(pair):
            return self._sketched(pair, epsilon)
        self._check_size(pair)
        if self.outputs == "full":
            parts = full_kernel(pair)
            first = sum(one[:, 0, :, 0] for one in parts.values())
        else:
            unit = torch.eye(left.width, dtype=left.outputs.dtype, device=left.outputs.device)
            lone = trace_kernel(pair, unit[:1])
            first = sum(lone.values())
            parts = _sum([lone, *([trace_kernel(pair, unit[1:])] if left.width > 1 else [])])
        return KernelRun(parts, method, _note(pair, left.width), expected.error(first, epsilon), epsilon)

    def _sketches(self, pair: PassPair) -> bool:
        if self.outputs == "full":
            if self.method == "sketch":
                raise IsometerError("a sketch gives the trace over outputs; expected outputs='trace' — pass that")
            return False
        if self.method == "sketch":
            return True
        long = pair.seconds(pair.left.width, trace=True) > _PATIENCE
        return self.method == "auto" and long and self.vectors < pair.left.width

    def _sketched(self, pair: PassPair, epsilon: float) -> KernelRun:
        """E_v of the kernel of ⟨v, f⟩ for random signs v is the trace over outputs."""
        generator = torch.Generator().manual_seed(self.seed)
        signs = torch.randint(0, 2, (self.vectors, pair.left.width), generator=generator) * 2 - 1
        signs = signs.to(pair.left.outputs)
        groups = signs.tensor_split(min(_GROUPS, self.vectors))
        found = [trace_kernel(pair, one) for one in groups]
        means = [np.asarray(sum(one.values())) / len(group) for one, group in zip(found, groups, strict=True)]
        parts = {name: one / self.vectors for name, one in _sum(found).items()}
        spread = np.std(means, axis=0, ddof=1) / math.sqrt(len(means))
        error = float(np.linalg.norm(spread)) / max(float(np.linalg.norm(sum(parts.values()))), 1e-300)
        note = f"{self.vectors} random combinations of the {pair.left.width} outputs; {_note(pair, self.vectors)}"
        return KernelRun(parts, "sketch", note, error + epsilon, epsilon)

    def _check_size(self, pair: PassPair) -> None:
        n, m, c = pair.left.samples, pair.right.samples, pair.left.width
        trace = self.outputs == "trace"
        groups = len({self.group(one.name) for one in pair.left.parameters})
        numbers = float(n * m) * (1 if trace else c * c)
        what = f"the kernel of {n} samples with {c} outputs"
        check_work(what, Work(8.0 * numbers * (groups + 2), pair.seconds(c, trace=trace)))


@dataclass(frozen=True)
class _Expected:
    """uᵀ Θ v of the first output, by plain differentiation."""

    left: Floats
    right: Floats
    product: float
    size: float

    def error(self, block: Any, epsilon: float) -> float:
        if self.size == 0.0:
            return epsilon if not np.any(block) else math.inf
        return abs(float(self.left @ block @ self.right) - self.product) / self.size + epsilon


def _note(pair: PassPair, vectors: int) -> str:
    separate, joint = pair.common(joint=False), pair.common(joint=True)
    n = pair.left.samples
    parts = []
    if separate:
        parts.append(f"{len(separate)} parameters from {vectors} backward passes: samples do not act on each other")
    if joint:
        direct = sum(a.direct for a, _ in joint)
        why = "samples act on each other" if direct < len(joint) else "autograd forms whole gradients"
        parts.append(f"{len(joint)} parameters from {vectors * n} backward passes, one for each row: {why}")
    return "; ".join(parts)


def _dot(left: Tensor, right: Tensor) -> float:
    """In double precision, a piece at a time: the gradients of a large model are not held twice."""
    pieces = zip(torch.split(left.flatten(), _PIECE), torch.split(right.flatten(), _PIECE), strict=True)
    return sum(float(a.double() @ b.double()) for a, b in pieces)


def _weights(samples: int, seed: int) -> Tensor:
    return torch.randn(samples, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def _sum(several: list[Parts]) -> Parts:
    total: Parts = {}
    for one in several:
        for name, part in one.items():
            total[name] = total[name] + part if name in total else part
    return total


def _averaged(runs: list[KernelRun]) -> tuple[Parts, float]:
    """The mean over draws, and its error: that of a draw, and the standard error of the mean."""
    parts = {name: part / len(runs) for name, part in _sum([one.parts for one in runs]).items()}
    error = max(one.error for one in runs)
    if len(runs) > 1:
        wholes = [np.asarray(sum(one.parts.values())) for one in runs]
        spread = np.std(wholes, axis=0, ddof=1) / math.sqrt(len(runs))
        norm = float(np.linalg.norm(np.mean(wholes, axis=0)))
        error += float(np.linalg.norm(spread)) / norm if norm else 0.0
    return parts, error


def _grouping(by: By) -> Callable[[str], str]:
    if callable(by):
        return by
    if by == "parameter":
        return lambda name: name
    if by == "layer":
        return lambda name: name.rpartition(".")[0] or "model"
    return lambda name: "all"


def _cast(batch: Any, dtype: torch.dtype | None) -> Any:
    if dtype is None or batch is None:
        return batch
    return map_tensors(lambda one: one.to(dtype) if one.is_floating_point() else one, batch)


def _check_words(kind: str, outputs: str, method: str, by: Any) -> None:
    for name, value, known in (
        ("kind", kind, ("ntk", "nngp")),
        ("outputs", outputs, ("trace", "full")),
        ("method", method, ("auto", "structured", "contraction", "sketch")),
    ):
        if value not in known:
            raise IsometerError(f"{name} is {value!r}; expected one of {', '.join(known)} — pass one of them")
    if by not in (None, "layer", "parameter") and not callable(by):
        raise IsometerError(
            f"by is {by!r}; expected 'layer', 'parameter', a function of the parameter's name, or None — pass one"
        )
