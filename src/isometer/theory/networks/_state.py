"""What is known of one feature at a place of a network of infinite width.

Features are independent draws of one random process over (sample, position). A state writes it as a weighted sum of
independent processes plus numbers that are known. The weights are what skips, scalings and norms over features leave:
those norms divide by statistics that are constants at infinite width. So a process that reaches a sum on two ways is
counted once, with the sum of its weights, however skips are nested.

A process is Gaussian where random weights made it. Then every activation of it is an integral over pairs. Otherwise it
is known by what was done to a Gaussian, or by its mean and covariance alone, which is all that the next weights, norms
over features, sums and pools need.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from itertools import count
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from isometer.errors import IsometerError
from isometer.theory.networks._columns import Activate, Affine, Columns, Operation
from isometer.theory.networks._covariance import Covariance, combined, with_mean
from isometer.theory.networks._layout import Layout

Floats = NDArray[np.float64]
Kind = Literal["gaussian", "given", "operations", "opaque"]
_numbers = count()


class NotCovered(IsometerError):
    """A step that theory does not cover at its place in the network.

    Example:
        >>> print(NotCovered("dropout", "the mask is random", "simulate it"))
        theory does not cover dropout: the mask is random — simulate it
    """

    def __init__(self, step: str, reason: str, fix: str) -> None:
        super().__init__(f"theory does not cover {step}: {reason} — {fix}")
        self.step, self.reason, self.fix = step, reason, fix


@dataclass(frozen=True)
class Group:
    """Operations on a Gaussian process, and the tangent kernel of that Gaussian."""

    base: Covariance
    operations: tuple[Operation, ...]
    tangent: Floats | None = None

    def columns(self, copy: int) -> Columns:
        """The features of one matrix of the stack."""
        return Columns(self.base.gram()[copy], tuple(at_copy(operation, copy) for operation in self.operations))


def at_copy(operation: Operation, copy: int) -> Operation:
    """An operation on one matrix of the stack."""
    if isinstance(operation, Affine) and operation.scale.ndim == 2:
        return Affine(operation.shift[copy], operation.scale[copy], operation.offset)
    return operation


@dataclass(frozen=True, eq=False)
class Process:
    """One random process, mean and covariance of which are known.

    `kind`: `"gaussian"`; `"given"`, numbers of the input; `"operations"` on a Gaussian (`group`); `"opaque"`.
    `tangent`: its tangent kernel. `sources`: keys of processes that it depends on. `mixed`: features differ in law.
    """

    kind: Kind
    mean: Floats  # (stack, m)
    covariance: Covariance
    tangent: Floats | None = None
    sources: frozenset[int] = frozenset()
    group: Group | None = None
    features: Floats | None = None  # (stack, m, d), of the input
    mixed: bool = False
    key: int = field(default_factory=lambda: next(_numbers))

    @property
    def family(self) -> frozenset[int]:
        """Its own key and those it depends on."""
        return self.sources | {self.key}


Term = tuple[Floats, Process]  # a weight for every index, and what it multiplies


@dataclass(frozen=True, eq=False)
class FeatureState:
    """Features of a layer: Σ weight ∘ process + offset, all times exp(log_scale).

    Example:
        >>> state = FeatureState.of_features(np.array([[[1.0, 1.0], [1.0, -1.0]]]), Layout(2), tangent=False)
        >>> state.second().gram()[0].tolist()
        [[1.0, 0.0], [0.0, 1.0]]
    """

    layout: Layout
    width: int
    terms: tuple[Term, ...]
    offset: Floats  # (stack, m)
    log_scale: float = 0.0

    @classmethod
    def of(cls, process: Process, layout: Layout, width: int, log_scale: float = 0.0) -> FeatureState:
        """One process."""
        ones = np.ones(layout.size)
        return cls(layout, width, ((ones, process),), np.zeros(layout.size), log_scale)

    @classmethod
    def of_features(cls, features: Floats, layout: Layout, *, tangent: bool) -> FeatureState:
        """Known features `(stack, m, d)`; nothing of them is trained."""
        return cls.of(given(features, tangent=tangent), layout, features.shape[-1])

    # --- moments ------------------------------------------------------------------------------------------------------

    def mean(self) -> Floats:
        """E x, `(stack, m)`."""
        out = self.offset
        for scale, process in self.terms:
            if process.mean.any():
                out = out + scale * process.mean
        return out

    def centred(self) -> Covariance:
        """The covariance of x."""
        return combined([process.covariance.part(scale) for scale, process in self.terms])

    def second(self) -> Covariance:
        """E xxᵀ."""
        return with_mean(self.centred(), self.mean())

    def tangent(self) -> Floats | None:
        """The tangent kernel, `(stack, m, m)`."""
        total: Floats | None = None
        for scale, process in self.terms:
            if process.tangent is not None:
                own = scale[:, :, None] * scale[:, None, :] * process.tangent
                total = own if total is None else total + own
        return total

    def size(self) -> float:
        """The largest mean square, without exp(log_scale)."""
        mean = self.mean()
        squares = mean * mean
        for scale, process in self.terms:
            squares = squares + scale * scale * process.covariance.variances
        return float(np.max(squares))

    # --- laws ---------------------------------------------------------------------------------------------------------

    @property
    def single(self) -> Process | None:
        """The process where there is one only."""
        return self.terms[0][1] if len(self.terms) == 1 else None

    @property
    def is_gaussian(self) -> bool:
        """Whether all processes are Gaussian; what was given counts as such beside others."""
        return all(process.kind in ("gaussian", "given") for _, process in self.terms)

    @property
    def keys(self) -> frozenset[int]:
        """Of all processes and of what they depend on."""
        return frozenset().union(*(process.family for _, process in self.terms))

    # --- linear -------------------------------------------------------------------------------------------------------

    def scaled(self, factor: Floats | float, shift: Floats | float = 0.0) -> FeatureState:
        """factor·x + shift."""
        terms = tuple((scale * factor, process) for scale, process in self.terms)
        return replace(self, terms=terms, offset=self.offset * factor + shift)

    def rescaled(self) -> FeatureState:
        """With its size moved into `log_scale`."""
        size = self.size()
        if not size > 0.0:
            return self
        root = math.sqrt(size)
        return replace(self.scaled(1.0 / root), log_scale=self.log_scale + math.log(root))


def given(features: Floats, *, tangent: bool, sources: frozenset[int] = frozenset()) -> Process:
    """Features that are known numbers, `(stack, m, d)`."""
    mean = features.mean(axis=-1)
    centred = Covariance.of_features(features - mean[..., None])
    zeros = np.zeros(centred.gaps.shape) if tangent else None
    return Process("given", mean, centred, zeros, sources, features=features)


def gaussian(covariance: Covariance, tangent: Floats | None, sources: frozenset[int] = frozenset()) -> Process:
    """A Gaussian process without mean."""
    return Process("gaussian", np.zeros_like(covariance.variances), covariance, tangent, sources)


def added(states: Sequence[FeatureState], factors: Sequence[Floats | float], step: str) -> FeatureState:
    """Σ factor·x of states that go back to common processes.

    Raises:
        NotCovered: two processes depend on each other in another way than by a factor.
    """
    merged: dict[int, Term] = {}
    offset = np.zeros_like(states[0].offset)
    for state, factor in zip(states, factors, strict=True):
        # scales of homogeneous networks move between layers only, so that all states here have the same
        offset = offset + factor * state.offset
        for scale, process in state.terms:
            before = merged.get(process.key)
            merged[process.key] = (factor * scale if before is None else before[0] + factor * scale, process)
    terms = tuple(term for term in merged.values() if term[0].any()) or tuple(merged.values())[:1]
    check_independent([process for _, process in terms], step)
    width = states[0].width
    return FeatureState(states[0].layout, width, terms, offset, states[0].log_scale)


def check_independent(processes: Sequence[Process], step: str) -> None:
    """Raise an error where processes that are added up depend on each other."""
    for place, one in enumerate(processes):
        for other in processes[place + 1 :]:
            if one.family & other.family:
                raise NotCovered(
                    step,
                    "it adds what depends on the same features feature by feature, such as x and φ(x)",
                    "put a dense step into the branch, or simulate it",
                )
            if one.mixed and other.mixed and one.mean.any() and other.mean.any():
                raise NotCovered(
                    step, "it adds features of several laws that have means", "put a dense step into a branch"
                )


def compressed(state: FeatureState, held: frozenset[int]) -> FeatureState:
    """With one process in place of all that no skip around still needs (`held`), so that depth does not add any."""
    free = [term for term in state.terms if not term[1].family & held]
    if len(free) < 2:
        return state
    is_gaussian = all(process.kind == "gaussian" for _, process in free)
    part = replace(state, terms=tuple(free), offset=np.zeros_like(state.offset))
    sources = frozenset().union(*(process.sources for _, process in free))
    mixed = any(process.mixed for _, process in free)
    kind: Kind = "gaussian" if is_gaussian else "given" if _near_input(free) else "opaque"
    one = Process(kind, part.mean(), part.centred(), part.tangent(), sources, mixed=mixed)
    kept = [term for term in state.terms if term[1].family & held]
    return replace(state, terms=(*kept, (np.ones_like(state.offset), one)))


def _near_input(terms: Sequence[Term]) -> bool:
    """Whether Gaussians were added to the input, which then counts as one of them."""
    return all(process.kind in ("gaussian", "given") for _, process in terms)


def _about_pairs(process: Process) -> bool:
    """Whether it is a function of Gaussians at several positions, as behind a norm over the batch."""
    group = process.group
    return group is not None and not all(isinstance(operation, Activate) for operation in group.operations)


def pending_pairs(state: FeatureState) -> bool:
    """Whether a step that reads features one by one still needs all pairs of positions."""
    return any(_about_pairs(process) for _, process in state.terms)


def reduced(state: FeatureState) -> FeatureState:
    """Diagonal in position, from all pairs."""
    layout = state.layout
    if not layout.is_full:
        return state
    new = replace(layout, full=False)

    def vectors(array: Floats) -> Floats:
        return np.ascontiguousarray(layout.vectors(array))

    def matrices(array: Floats | None) -> Floats | None:
        return None if array is None else layout.diagonal(array)

    def covariance(one: Covariance) -> Covariance:
        return Covariance(vectors(one.variances), layout.diagonal(one.gaps))

    def process(one: Process) -> Process:
        features = one.features
        if features is not None:
            features = np.moveaxis(features.reshape(layout.samples, layout.positions, -1), 0, 1)
        group = one.group
        if group is not None:
            own = Group(covariance(group.base), group.operations, matrices(group.tangent))
            group = None if _about_pairs(one) else own
        return replace(
            one,
            kind="opaque" if group is None and one.kind == "operations" else one.kind,
            mean=vectors(one.mean),
            covariance=covariance(one.covariance),
            tangent=matrices(one.tangent),
            group=group,
            features=features,
        )

    terms = tuple((vectors(scale), process(one)) for scale, one in state.terms)
    return FeatureState(new, state.width, terms, vectors(state.offset), state.log_scale)
