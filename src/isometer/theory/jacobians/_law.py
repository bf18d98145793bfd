"""`jacobian_spectrum`: the law of the singular values of a spec's Jacobian at infinite width."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from isometer._display import Drawn
from isometer.checks import real_number, whole_number
from isometer.spec import Spec
from isometer.theory.jacobians._density import Density, solve_density
from isometer.theory.jacobians._factors import FreeProduct
from isometer.theory.jacobians._series import moments_of
from isometer.theory.jacobians._slopes import ORDER
from isometer.theory.jacobians._walk import Walk, factors_of
from isometer.work import Work, check_work

Floats = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class JacobianLaw(Drawn):
    """The singular values σ of ∂(output)/∂(input) of an infinitely wide random network.

    Numbers are over the min(features in, features out) singular values that a matrix has.

    Example:
        >>> from isometer import Spec
        >>> from isometer.theory import jacobian_spectrum
        >>> law = jacobian_spectrum(Spec(width=64, depth=2, activation="identity"))
        >>> law.moments(4).round(9).tolist()  # Fuss–Catalan
        [1.0, 3.0, 12.0, 55.0]
        >>> round(law.isometry, 9), round(float(law.cdf(27 / 4)), 4)  # σ² reaches to 27/4
        (0.333333333, 1.0)

    Attributes:
        spec: the network.
        exact: the factors are free in the limit; False where branches of skips show their slopes to each other, which
            theory treats as free.
        lost: share of directions that norms over features project out, at the spec's width: at most so much of the
            spectrum is elsewhere.
        batch_lost: directions of a batch that batch norm projects out per feature; over the batch size, a share. The
            law is that of a large batch.
    """

    spec: Spec
    exact: bool
    lost: float
    batch_lost: int
    product: FreeProduct = field(repr=False)
    points: int = field(repr=False, default=240)

    @property
    def log_mean_square(self) -> float:
        """log E σ², the gradient's growth by the whole network.

        Example:
            >>> from isometer import Spec
            >>> from isometer.theory import jacobian_spectrum
            >>> round(jacobian_spectrum(Spec(width=8, depth=10)).log_mean_square / math.log(2), 9)
            -10.0
        """
        return self.product.log_mean - math.log(self._kept)

    @property
    def mean_square(self) -> float:
        """E σ²; `inf` when it overflows."""
        return math.exp(self.log_mean_square) if self.log_mean_square < 709.0 else math.inf

    @property
    def partial_norm(self) -> float:
        """The averaged partial Jacobian norm ‖J‖_F²/(features out), which is 1 at criticality.

        Example:
            >>> from isometer import Spec
            >>> from isometer.theory import jacobian_spectrum
            >>> round(jacobian_spectrum(Spec(width=8, depth=10, weights="he")).partial_norm, 12)
            1.0
        """
        log = self.product.log_mean - math.log(self.product.ratio)
        return math.exp(log) if log < 709.0 else math.inf

    @property
    def _kept(self) -> float:
        """Singular values over features in."""
        return min(1.0, self.product.ratio)

    def moments(self, order: int = 4) -> Floats:
        """E σ^2k/(E σ²)^k for k = 1 … order, at most 12.

        Example:
            >>> from isometer import Spec
            >>> from isometer.theory import jacobian_spectrum
            >>> relu = Spec(width=8, depth=1, activation="relu", weights="orthogonal")
            >>> jacobian_spectrum(relu).moments(3).round(9).tolist()  # half of the values are 0
            [1.0, 2.0, 4.0]
        """
        order = whole_number(order, "order", high=ORDER)
        k = np.arange(order)
        return moments_of(self.product.log_s_series(order)) * self._kept**k

    @property
    def isometry(self) -> float:
        """(E σ²)²/E σ⁴: 1 where all singular values are the same, dynamical isometry up to a factor.

        Example:
            >>> from isometer import Spec
            >>> from isometer.theory import jacobian_spectrum
            >>> linear = Spec(width=8, depth=50, activation="identity", weights="orthogonal")
            >>> jacobian_spectrum(linear).isometry
            1.0
        """
        return float(1.0 / self.moments(2)[1])

    @property
    def zeros(self) -> float:
        """The share of singular values that are zero."""
        share = 1.0 - self.product.rank / self._kept
        return share if share > 1e-12 else 0.0

    @property
    def atom(self) -> tuple[float, float]:
        """(σ, share) of the one value that a positive share of singular values has; share 0 if there is none.

        Example:
            >>> from isometer import Spec
            >>> from isometer.theory import jacobian_spectrum
            >>> spec = Spec(width=8, depth=2, activation="hardtanh", weights="orthogonal", gain=0.5)
            >>> [round(one, 4) for one in jacobian_spectrum(spec).atom]
            [0.25, 0.9545]
        """
        found = self.product.atoms
        return math.exp(0.5 * found.log_place), found.mass / self._kept

    @cached_property
    def _density(self) -> Density:
        """Solved when first requested."""
        parts = sum(_size(one) for one, _, _ in self.product.parts)
        check_work("the density of the Jacobian", Work(2e5 * self.points, 7e-6 * self.points * parts))
        return solve_density(self.product, self.points)

    @property
    def log_squares(self) -> Floats:
        """The points at which the density is known, as log σ²."""
        return self._density.log_square

    @property
    def density(self) -> Floats:
        """The density over log σ² at `log_squares`, without zeros and the atom.

        Example:
            >>> from isometer import Spec
            >>> from isometer.theory import jacobian_spectrum
            >>> law = jacobian_spectrum(Spec(width=8, depth=1, activation="identity"))
            >>> square = np.exp(law.log_squares)
            >>> quarter_circle = np.sqrt(square * np.clip(4 - square, 0, None)) / 2 / np.pi
            >>> bool(np.abs(law.density - quarter_circle)[np.abs(square - 4) > 0.1].max() < 1e-4)
            True
        """
        return self._density.density / self._kept

    @cached_property
    def _distribution(self) -> Floats:
        x, f = self.log_squares, self.density
        return np.concatenate([[0.0], np.cumsum(np.diff(x) * (f[1:] + f[:-1]) / 2)])

    @property
    def error_estimate(self) -> float:
        """How far the total mass of density, zeros and atom is from 1."""
        if 1.0 - self.zeros - self.atom[1] < 1e-12:
            return 0.0
        return abs(float(self._distribution[-1]) + self.zeros + self.atom[1] - 1.0)

    def cdf(self, square: ArrayLike) -> Floats:
        """P(σ² ≤ square).

        Example:
            >>> from isometer import Spec
            >>> from isometer.theory import jacobian_spectrum
            >>> law = jacobian_spectrum(Spec(width=8, depth=3, activation="relu", weights="orthogonal"))
            >>> float(law.cdf(0.0))
            0.5
        """
        squares = np.asarray(square, dtype=float)
        log = np.log(np.maximum(squares, 1e-300))
        total = np.interp(log, self.log_squares, self._distribution, left=0.0) if self._has_density else 0.0
        place, share = self.atom
        found = self.zeros + total + share * (squares >= place**2 * (1 - 1e-12))
        return np.where(squares < 0, 0.0, np.minimum(found, 1.0))

    @property
    def _has_density(self) -> bool:
        return 1.0 - self.zeros - self.atom[1] > 1e-12

    def quantile(self, share: ArrayLike) -> Floats:
        """The σ below which this share of singular values is.

        Example:
            >>> from isometer import Spec
            >>> from isometer.theory import jacobian_spectrum
            >>> law = jacobian_spectrum(Spec(width=8, depth=1, activation="identity"))
            >>> round(float(law.quantile(0.9999)), 2)  # the quarter circle ends at 2
            2.0
        """
        shares = np.asarray(share, dtype=float)
        place, mass = self.atom
        if not self._has_density:
            return np.where(shares <= self.zeros, 0.0, place)
        # The atom as a step of the distribution.
        log, below = self.log_squares, self.zeros + self._distribution
        step = 2 * math.log(place)
        at = int(np.searchsorted(log, step))
        before = self.zeros + float(np.interp(step, log, self._distribution))
        if mass > 0:
            log = np.concatenate([log[:at], [step, step], log[at:]])
            below = np.concatenate([below[:at], [before, before + mass], below[at:] + mass])
        found = np.exp(0.5 * np.interp(shares, below, log))
        return np.where(shares <= self.zeros, 0.0, found)

    def to_dict(self) -> dict[str, Any]:
        """Numbers for JSON."""
        shares = [0.01, 0.05, 0.25, 0.5, 0.75, 0.95, 0.99]
        return {
            "network": str(self.spec),
            "log_mean_square": self.log_mean_square,
            "isometry": self.isometry,
            "moments": self.moments(4),
            "partial_norm": self.partial_norm,
            "zeros": self.zeros,
            "atom": {"singular_value": self.atom[0], "share": self.atom[1]} if self.atom[1] > 0 else None,
            "quantiles": dict(zip(map(str, shares), self.quantile(shares).tolist(), strict=True)),
            "exact": self.exact,
            "lost": self.lost,
            "batch_lost": self.batch_lost,
            "error_estimate": self.error_estimate,
            "log_squares": self.log_squares if self._has_density else [],
            "density": self.density if self._has_density else [],
        }


def jacobian_spectrum(
    spec: Spec | str, *, mean_square: float = 1.0, cosine: float = 0.0, points: int = 240
) -> JacobianLaw:
    """The law of the singular values of a network's input–output Jacobian at infinite width.

    Chains of weights and activations multiply S-transforms: Gaussian (or other independent) weights and Haar weights,
    any activation without jumps, any widths. A skip is a free sum with an R-diagonal branch. Norms over features are a
    factor and a projection of rank one or two, which vanishes in the law; `lost` bounds it. Batch norm has a limit for
    large batches, where it is a factor too: that of the Jacobian of the whole batch by the whole batch.

    Args:
        spec: the network, or its text.
        mean_square: mean square of the input's features, taken as Gaussian.
        cosine: between samples of the batch, for batch norm.
        points: number of points of the density, doubled where it changes fast.

    Returns:
        `JacobianLaw`: moments, density, distribution, dynamical isometry as one number.

    Raises:
        NotCovered: a step has no such limit here; it says which and what to do.

    Example:
        >>> law = jacobian_spectrum("input(64) > repeat(dense(weights='orthogonal') > act('relu'), 3)")
        >>> round(law.mean_square, 9), law.moments(3).round(9).tolist()
        (0.125, [1.0, 4.0, 19.0])

    Reference: Pennington, Schoenholz and Ganguli 2017 and 2018 (chains); Tarnowski et al. 2019 (skips).
    """
    spec = Spec(spec) if isinstance(spec, str) else spec
    mean_square = real_number(mean_square, "mean_square", low=0.0)
    cosine = real_number(cosine, "cosine", low=-1.0, high=1.0)
    found: Walk = factors_of(spec, mean_square=mean_square, cosine=cosine)
    return JacobianLaw(
        spec, found.exact, found.lost, found.batch_lost, found.product, whole_number(points, "points", low=20)
    )


def _size(factor: Any) -> int:
    """Numbers that one evaluation at one point takes."""
    if hasattr(factor, "branch"):
        return 4 * sum(_size(one) for one, _, _ in factor.branch.parts) + 20
    return len(getattr(factor, "values", ())) + 5
