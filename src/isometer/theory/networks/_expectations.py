"""Gaussian expectations of activations for stacks of covariances: means, covariances and E φ′φ′.

By the dual of φ where φ is homogeneous or all variances are one; by Hermite series at each variance where φ is smooth
(004/eq-15); by integrals over pairs otherwise.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from isometer.activations import Activation
from isometer.activations._closed_forms import as_two_rays
from isometer.errors import InfiniteMomentError, IsometerError
from isometer.spec._activation import resolved
from isometer.theory.kernels._length_map import OVERFLOW, GaussianView, RaysDual, SignalFamily, SlopeSeriesDual
from isometer.theory.kernels._mixed_lengths import ROWS, Architecture, PairMoments, unit_gaps
from isometer.theory.kernels._pair_rules import line_moments
from isometer.theory.networks._covariance import Covariance, with_mean

Floats = NDArray[np.float64]
_SAME = 1e-13  # relative spread of variances that counts as none
_EXACT = 1e-12  # relative error of a moment, below which that of the finer of two rules is rounding
_FAINTEST = 1e-280
_ENTRIES = 1 << 18  # of a stack that a series passes over at a time
_VARIANCES = 1 << 12  # whose coefficients are made at a time
_CENTRING = Architecture(norm="layer", norm_position="post")  # pairs of φ without its mean
_KEPT = 64  # duals of one activation
_FEW = 400  # entries for which a dual of a function with kinks costs more than it saves


class TooManyPairs(IsometerError):
    """Expectations would take longer than was allowed."""


@dataclass(frozen=True)
class Activated:
    """φ of a Gaussian process: its mean, its covariance, and E φ′φ′ where it was requested."""

    mean: Floats  # (stack, m)
    covariance: Covariance
    slopes: Floats | None = None  # (stack, m, m)


class Expectations:
    """Expectations of activations; duals are kept by activation and variance.

    `error` adds up the relative errors of what was computed; `sampled` says whether some of it was sampled, and
    `integrals` how many matrices had integrals of their own.

    Args:
        same: relative spread of variances that counts as none.
        most_entries: of a matrix whose entries are integrals of their own.

    Example:
        >>> from isometer import activation
        >>> found = Expectations().activated(activation("relu"), Covariance.of_gram(np.eye(2)[None]))
        >>> with_mean(found.covariance, found.mean).gram()[0].round(6).tolist()
        [[0.5, 0.159155], [0.159155, 0.5]]
    """

    def __init__(self, same: float = _SAME, most_entries: float = math.inf) -> None:
        self.error = 0.0
        self.sampled = False
        self.integrals = 0
        self._same, self._most = same, most_entries
        self._named: dict[str, Activation] = {}
        self._families: dict[Activation, SignalFamily] = {}
        self._views: dict[Activation, dict[float, tuple[GaussianView, float]]] = {}

    def activation(self, text: str) -> Activation:
        """The activation of a step; equal ones are one object."""
        if text not in self._named:
            self._named[text] = resolved(text)
        return self._named[text]

    def family(self, phi: Activation) -> SignalFamily:
        """What Gaussians of any variance see of φ."""
        if phi not in self._families:
            self._families[phi] = SignalFamily(phi)
        return self._families[phi]

    def activated(self, phi: Activation, covariance: Covariance, *, slopes: bool = False) -> Activated:
        """φ of Gaussians; E φ′φ′ is that of the derivative almost everywhere."""
        phi = self.family(phi).activation  # the first of its kind, which knows its moments
        variances = covariance.variances
        if not (np.isfinite(variances).all() and float(variances.max()) <= OVERFLOW):
            raise InfiniteMomentError(f"a variance before {phi.name} exceeds {OVERFLOW:g}")
        alive = variances > _FAINTEST
        if slopes and phi.jumps:
            # κ′ includes what jumps add; the derivative as a function of its own does not
            own = self.activated(phi.derivative, covariance)
            plain = self.activated(phi, covariance)
            return Activated(plain.mean, plain.covariance, with_mean(own.covariance, own.mean).gram())
        if as_two_rays(phi.expression) is not None:
            return self._homogeneous(phi, covariance, slopes)
        if not alive.any() or phi.is_constant:
            return _constant(phi, covariance, slopes)
        low, high = float(variances[alive].min()), float(variances[alive].max())
        few = bool(phi.kinks) and covariance.gaps.size <= min(_FEW, self._most) and self._known(phi, low) is None
        if alive.all() and high - low <= self._same * high and not few:
            return self._of_one_variance(phi, covariance, float(variances.mean()), slopes)
        found = self._series(phi, covariance, alive, slopes)
        return self._by_pairs(phi, covariance, slopes) if found is None else found

    # --- one dual -----------------------------------------------------------------------------------------------------

    def _homogeneous(self, phi: Activation, covariance: Covariance, slopes: bool) -> Activated:
        view = self.family(phi).at(1.0)
        variances = covariance.variances
        out = self._by_dual(view, covariance.gaps, slopes, 1.0)
        spread = view.dual.second_moment - view.dual.at_zero
        return Activated(np.sqrt(variances) * phi.mean, Covariance(variances * spread, out[0]), out[1])

    def _of_one_variance(self, phi: Activation, covariance: Covariance, variance: float, slopes: bool) -> Activated:
        view, mean = self.view(phi, variance)
        gaps, slope = self._by_dual(view, covariance.gaps, slopes, variance)
        spread = view.dual.second_moment - mean * mean
        like = np.ones_like(covariance.variances)
        return Activated(mean * like, Covariance(max(spread, 0.0) * like, gaps), slope)

    def view(self, phi: Activation, variance: float) -> tuple[GaussianView, float]:
        """What a Gaussian of a variance sees of φ, and E φ."""
        found = self._known(phi, variance)
        if found is not None:
            return found
        known = self._views.setdefault(phi, {})
        family = self.family(phi)
        view = family.small_signal_limit(variance) or family.at(variance)
        means, _, error = line_moments(phi, phi.kinks, np.array([variance]))
        mean = float(means[0]) if error <= _EXACT else phi.gain(math.sqrt(variance)).mean
        if len(known) >= _KEPT:
            del known[next(iter(known))]
        known[variance] = view, mean
        return view, mean

    def _known(self, phi: Activation, variance: float) -> tuple[GaussianView, float] | None:
        known = self._views.get(phi, {})
        return next((found for near, found in known.items() if abs(near - variance) <= _SAME * variance), None)

    def _by_dual(self, view: GaussianView, gaps: Floats, slopes: bool, variance: float) -> tuple[Floats, Floats | None]:
        """1 − cosine after φ without its mean, and E φ′φ′; `variance` is that at which the dual is taken."""
        dual = view.dual
        spread = dual.second_moment - dual.at_zero
        self.error += dual.error / max(dual.second_moment, 1e-300)
        after = np.clip(dual.deficit(gaps) / spread, 0.0, 2.0) if spread > 0.0 else np.zeros_like(gaps)
        if not slopes:
            return after, None
        base = getattr(dual, "base", dual)
        if isinstance(base, RaysDual | SlopeSeriesDual):
            angle = 2.0 * np.arctan2(np.sqrt(gaps), np.sqrt(2.0 - gaps))
            # the ratio is the gain of an affine image
            slope = base.slope_of_angle(angle) * (dual.slope_at_one / base.slope_at_one)
        else:
            slope = np.asarray(dual.slope_at_gap(gaps))
        return after, slope / variance

    # --- a variance for each index ------------------------------------------------------------------------------------

    def _series(
        self, phi: Activation, covariance: Covariance, alive: NDArray[np.bool_], slopes: bool
    ) -> Activated | None:
        """1 − Σ â_k b̂_k ρ^k = (1 − ⟨â, b̂⟩) + (1 − ρ)Σ_j ρ^j Σ_{k>j} â_k b̂_k, degree 0 left out with the mean."""
        own, place = np.unique(covariance.variances[alive], return_inverse=True)
        family = self.family(phi)
        tables = [family.coefficients(own[at : at + _VARIANCES]) for at in range(0, len(own), _VARIANCES)]
        made = [table for table in tables if table is not None]
        if len(made) < len(tables):
            return None
        self.error += 4e-14
        degrees = max(table.shape[1] for table in made)
        found = np.concatenate([np.pad(table, ((0, 0), (0, degrees - table.shape[1]))) for table in made])
        # weighted by 1 + k: what is cut matters neither to κ nor to κ′
        weight = (found**2 * (1 + np.arange(degrees))).max(axis=0)
        keep = max(2, int(np.flatnonzero(weight > 1e-18 * weight.sum())[-1]) + 1)
        table = np.zeros((*covariance.variances.shape, keep))
        table[alive] = found[place, :keep]
        table[~alive, 0] = float(phi(0.0))
        mean = table[..., 0].copy()
        table[..., 0] = 0.0
        power = np.einsum("smk,smk->sm", table, table)
        lengths = np.sqrt(power)
        table /= np.where(lengths > 0.0, lengths, 1.0)[..., None]
        after = np.empty_like(covariance.gaps)
        slope = np.empty_like(covariance.gaps) if slopes else None
        step = max(1, _ENTRIES // covariance.gaps[0].size)
        for start in range(0, len(after), step):
            part = slice(start, start + step)
            after[part], own_slope = _series_block(table[part], covariance.gaps[part], slopes)
            if slope is not None and own_slope is not None:
                slope[part] = own_slope
        if slope is not None:
            root = lengths / np.sqrt(np.where(alive, covariance.variances, 1.0))
            slope *= root[:, :, None] * root[:, None, :]
        return Activated(mean, Covariance(power, after), slope)

    def _by_pairs(self, phi: Activation, covariance: Covariance, slopes: bool) -> Activated:
        if covariance.gaps.size > self._most:
            raise TooManyPairs(f"{phi.name} has kinks, and samples differ in length: {covariance.gaps.size} integrals")
        self.error += 1e-12
        self.integrals += len(covariance.gaps)
        after = np.empty_like(covariance.gaps)
        slope = np.empty_like(covariance.gaps) if slopes else None
        power, mean = np.empty_like(covariance.variances), np.empty_like(covariance.variances)
        for copy, (variances, gaps) in enumerate(zip(covariance.variances, covariance.gaps, strict=True)):
            moments = PairMoments(self.family(phi), variances, _CENTRING, 1)
            power[copy] = moments.power
            mean[copy] = self._means(phi, variances)
            for start in range(0, len(variances), ROWS):
                rows = slice(start, min(start + ROWS, len(variances)))
                own = moments.block(rows, gaps[rows], 2.0 - gaps[rows], slopes)
                after[copy, rows] = own[0]
                if slope is not None and own[2] is not None:
                    slope[copy, rows] = own[2]
        index = np.arange(after.shape[-1])
        after[:, index, index] = 0.0
        return Activated(mean, Covariance(power, np.clip(after, 0.0, 2.0)), slope)

    def _means(self, phi: Activation, variances: Floats) -> Floats:
        out = np.full_like(variances, float(phi(0.0)))
        alive = variances > 0.0
        means, _, error = line_moments(phi, phi.kinks, variances[alive])
        if not error <= _EXACT:
            means = np.array([phi.gain(math.sqrt(q)).mean for q in variances[alive]])
        out[alive] = means
        return out


def _series_block(table: Floats, gaps: Floats, slopes: bool) -> tuple[Floats, Floats | None]:
    cosine = 1.0 - gaps
    tails, total = np.zeros_like(gaps), np.zeros_like(gaps)
    slope = np.zeros_like(gaps) if slopes else None
    for k in range(table.shape[-1] - 1, 0, -1):
        column = table[..., k]
        if column.any():
            term = column[:, :, None] * column[:, None, :]
            tails += term
        else:
            term = None
        total *= cosine
        total += tails
        if slope is not None:
            slope *= cosine
            if term is not None:
                slope += k * term
    after = np.stack([unit_gaps(rows, rows) for rows in table]) + gaps * total
    index = np.arange(gaps.shape[-1])
    after[:, index, index] = 0.0
    return np.clip(after, 0.0, 2.0), slope


def _constant(phi: Activation, covariance: Covariance, slopes: bool) -> Activated:
    """φ(0): all that is left of signals of no size."""
    value = float(phi(0.0))
    if not math.isfinite(value):
        raise IsometerError(f"{phi.name} is not finite at 0")
    zeros = np.zeros_like(covariance.variances)
    slope = None
    if slopes:
        near = float(np.mean(np.asarray(phi.derivative(np.array([-1e-12, 1e-12])), dtype=float)))
        slope = np.full_like(covariance.gaps, near**2)
    return Activated(zeros + value, Covariance(zeros, np.zeros_like(covariance.gaps)), slope)
