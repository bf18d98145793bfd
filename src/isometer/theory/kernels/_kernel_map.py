"""The kernel map of a layer: how the cosine of two signals changes, where it converges and how fast (001 chapter 5).

At infinite width a layer acts on the cosine ρ of two signals by κ(ρ) = E φ(X)φ(Y), once φ has unit second moment.
Normalisation layers only change which φ that is (001/thm-5.15), a residual branch mixes κ with the identity.
Everything near ρ = 1 is computed in the gap 1 − ρ.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from isometer._display import Drawn
from isometer.activations import Activation, activation, checked_correlation
from isometer.activations._activation import DOUBTFUL
from isometer.activations._dual import AffineDual
from isometer.activations._gaussian import NumericalEstimate
from isometer.errors import ActivationError, IsometerError
from isometer.numerics._piecewise_legendre import legendre_rule

Floats = NDArray[np.float64]
Norm = Literal["none", "layer", "rms"]
Position = Literal["pre", "post"]
RateForm = Literal["exponential", "algebraic", "superexponential", "none"]

KNIFE_EDGE = 1e-9
"""|κ'(1) − 1| below this (or ten error estimates) counts as κ'(1) = 1."""
_MOST_RESIDUAL = 1e100  # its square is still a float
_LEAST_BEND = 1e-150  # and so is the square of its inverse
_NEAR = 0.5  # beyond this cosine the gap 1 − ρ is the state
_STRIDE = 0.05  # over which sixteen nodes resolve κ'


@dataclass(frozen=True)
class KernelPath:
    """The cosine of two signals layer by layer, with the small quantities kept to relative accuracy.

    Example:
        >>> from isometer.theory import kernel_map
        >>> path = kernel_map("relu").iterate(gap=1e-12, depth=3)
        >>> bool(path.gap[3] < path.gap[0]), bool(path.gap[3] > 0.99 * path.gap[0])
        (True, True)
    """

    cosine: Floats  # (depth + 1,)
    gap: Floats  # 1 − ρ
    distance: Floats  # |ρ − ρ*|; nan when every point is fixed


class KernelMap(Drawn):
    """κ of one layer, normalised so that κ(1) = 1, with its fixed points and rates.

    Args:
        source: an activation or anything `isometer.activation` accepts.
        norm: "none", "layer" or "rms"; without normalisation φ is scaled to unit second moment, as a principled gain
            does.
        norm_position: "pre" is φ(norm(Wh)) (001/eq-5.11), "post" is norm(φ(Wh)) (001/eq-5.12).
        residual: strength γ of the branch in h + γ·V φ(Wh) relative to the skip at every layer; None means no skip.

    Implements 001/def-5.3, 001/thm-5.11, 001/thm-5.15, 001/claim-5.normlimit, 004/thm-11.

    Example:
        >>> from isometer.theory import KernelMap
        >>> gelu = KernelMap("gelu")
        >>> gelu.case, round(gelu.fixed_point, 6), gelu.rate_form
        (4, 0.760402, 'exponential')
    """

    def __init__(
        self,
        source: str | Activation | Any,
        *,
        norm: Norm = "none",
        norm_position: Position = "pre",
        residual: float | None = None,
    ) -> None:
        if norm not in ("none", "layer", "rms"):
            raise IsometerError(
                f"norm must be 'none', 'layer' or 'rms'; got {norm!r} — batch norm has no kernel map of two samples"
            )
        if norm_position not in ("pre", "post"):
            raise IsometerError(f"norm_position must be 'pre' or 'post'; got {norm_position!r}")
        if residual is not None and not residual > 0:
            raise IsometerError(f"residual strength must be positive, or None for no skip; got {residual!r}")
        if residual is not None and _MOST_RESIDUAL < residual < math.inf:
            raise IsometerError(
                f"residual strength is {residual:g}; expected at most {_MOST_RESIDUAL:g} — pass inf for no skip"
            )
        self.activation = activation(source)
        self.norm: Norm = norm
        self.norm_position: Position = norm_position
        # an infinitely strong branch leaves nothing of the skip
        self.residual = None if residual is None or math.isinf(residual) else float(residual)

    def __repr__(self) -> str:
        norm = "" if self.norm == "none" else f", norm={self.norm!r}, norm_position={self.norm_position!r}"
        skip = "" if self.residual is None else f", residual={self.residual:g}"
        return f"KernelMap({self.activation.name!r}{norm}{skip})"

    @cached_property
    def effective(self) -> Activation:
        """The activation whose dual is κ: φ/√(E φ²), or (φ − E φ)/√(Var φ) under layer norm after φ (001/thm-5.15).

        Example:
            >>> from isometer.theory import KernelMap
            >>> KernelMap("relu", norm="layer", norm_position="post").effective.name
            'normalized(relu)'
        """
        return self.activation.normalized() if self._centring else self.activation.unit()

    @property
    def _centring(self) -> bool:
        return self.norm == "layer" and self.norm_position == "post"

    @cached_property
    def _factor(self) -> float:
        """What centring multiplies: κ of φ/√(E φ²) becomes κ of (φ − E φ)/√(Var φ)."""
        if not self._centring:
            return 1.0
        if self.activation.is_constant:
            raise ActivationError(f"{self.activation.name} is constant and cannot be normalised to unit variance")
        return 1.0 / self._moments["variance"].value

    @property
    def _moments(self) -> dict[str, NumericalEstimate]:
        return self.activation.unit_moments

    @cached_property
    def _dual(self) -> AffineDual:
        unit = self.activation.unit_dual
        return AffineDual(unit.base, self._factor * unit.gain, 0.0 if self._centring else unit.at_zero)

    @cached_property
    def _branch(self) -> float:
        """Weight of κ beside the identity: γ²/(1 + γ²)."""
        return 1.0 if self.residual is None else self.residual**2 / (1 + self.residual**2)

    # --- values -------------------------------------------------------------------------------------------------------

    def __call__(self, rho: ArrayLike) -> Any:
        """κ(ρ) on numbers or arrays in [−1, 1]."""
        cosine = checked_correlation(rho)
        values = self._branch * self._dual.value(cosine) + (1 - self._branch) * cosine
        values = np.clip(np.where(cosine == 1.0, 1.0, values), -1.0, 1.0)  # rounding must not leave [−1, 1]
        return float(values) if np.ndim(rho) == 0 else values

    def slope(self, rho: ArrayLike) -> Any:
        """κ′(ρ).

        Example:
            >>> from isometer.theory import KernelMap
            >>> KernelMap("relu").slope(1.0)
            1.0
        """
        cosine = checked_correlation(rho)
        values = self._branch * self._dual.slope(cosine) + (1 - self._branch)
        return float(values) if np.ndim(rho) == 0 else values

    def gap_after(self, gap: ArrayLike) -> Any:
        """1 − κ(1 − gap) to relative accuracy however small the gap.

        Example:
            >>> from isometer.theory import KernelMap
            >>> round(KernelMap("exp").gap_after(1e-15) / 1e-15, 12)  # 1 − e^−gap
            1.0
        """
        array = np.asarray(gap, dtype=float)
        if not ((array >= 0) & (array <= 2)).all():
            raise IsometerError("a gap 1 − ρ must lie in [0, 2]; pass 1 minus a cosine")
        values = np.clip(self._branch * self._dual.deficit(array) + (1 - self._branch) * array, 0.0, 2.0)
        return float(values) if np.ndim(gap) == 0 else values

    def _increment(self, start: float, step: float) -> float:
        """κ(start + step) − κ(start) = step·∫₀¹ κ'(start + t·step) dt, to relative accuracy."""
        nodes, weights, _ = legendre_rule(16)
        pieces = max(1, math.ceil(abs(step) / _STRIDE))  # κ' of a steep function is no polynomial of low degree
        t = (np.arange(pieces)[:, None] + (nodes + 1) / 2) / pieces
        slopes = self._dual.slope((start + step * t).ravel()).reshape(pieces, -1)
        return step * (self._branch * float((slopes @ weights).sum()) / (2 * pieces) + (1 - self._branch))

    # --- constants ----------------------------------------------------------------------------------------------------

    @cached_property
    def at_zero(self) -> float:
        """κ(0) = (E φ)², of the effective activation.

        Example:
            >>> from isometer.theory import KernelMap
            >>> round(KernelMap("relu").at_zero, 12)  # 1/π
            0.318309886184
        """
        return 0.0 if self._centring else self._branch * self._moments["mean"].value ** 2

    @cached_property
    def slope_at_zero(self) -> float:
        """κ′(0) = c₁².

        Example:
            >>> from isometer.theory import KernelMap
            >>> round(KernelMap("relu").slope_at_zero, 12)
            0.5
        """
        return self._branch * self._factor * self._moments["first"].value ** 2 + (1 - self._branch)

    @cached_property
    def slope_at_one(self) -> float:
        """κ′(1) = E φ′²; `inf` when φ jumps. It is also the factor of squared gradient norms per layer.

        Example:
            >>> from isometer.theory import KernelMap
            >>> KernelMap("sign").slope_at_one
            inf
        """
        if self.activation.jumps:
            return math.inf
        return self._branch * self._factor * self._moments["slope_second"].value + (1 - self._branch)

    @property
    def error(self) -> float:
        """Error estimate of κ, absolute on the scale κ(1) = 1.

        Example:
            >>> from isometer.theory import KernelMap
            >>> KernelMap("tanh").error < 1e-13
            True
        """
        # κ is divided by κ(1), which has an error of its own
        whole = self._moments["variance"].error if self._centring else self.activation.second_moment_error
        return self._dual.error + self._factor * whole + 4e-16

    @cached_property
    def warnings(self) -> tuple[str, ...]:
        """Warnings about its numbers.

        Example:
            >>> from isometer.theory import KernelMap
            >>> KernelMap("relu").warnings
            ()
        """
        found = list(self.activation.warnings)
        if not found and self.error > DOUBTFUL:
            found.append(f"the kernel map of {self.activation.name} is known to an error of {self.error:.1g} only")
        if self.case is not None and self.case > 1 and abs(self.slope_at_one - 1.0) <= self._slope_error > KNIFE_EDGE:
            found.append(
                f"κ′(1) = 1 ± {self._slope_error:.1g}: whether inputs become alike or settle at a lower cosine is "
                "not certain"
            )
        return tuple(found)

    @property
    def _slope_error(self) -> float:
        """Ten error estimates of κ′(1)."""
        return 10 * self._branch * self._factor * self._moments["slope_second"].error

    @cached_property
    def _odd(self) -> bool:
        """κ(−ρ) = −κ(ρ)."""
        return self.activation.is_odd or (self._centring and self.effective.is_odd)

    @cached_property
    def is_identity(self) -> bool:
        """Whether κ(ρ) = ρ: a linear layer.

        Example:
            >>> from isometer.theory import KernelMap
            >>> KernelMap("identity").is_identity
            True
        """
        return self.activation.is_affine and self.at_zero == 0.0

    @cached_property
    def case(self) -> int | None:
        """Which case of 001/thm-5.11 applies; None for a linear layer, which the theorem excludes.

        1: κ(0) = 0. Otherwise 2, 3, 4: κ'(1) < 1, = 1, > 1; equality within `KNIFE_EDGE` or ten error estimates.

        Example:
            >>> from isometer.theory import KernelMap
            >>> [KernelMap(name).case for name in ("tanh", "softplus", "relu", "gelu")]
            [1, 2, 3, 4]
        """
        if self.is_identity:
            return None
        if self.at_zero == 0.0:
            return 1
        if self.activation.is_affine:  # κ(0) + (1 − κ(0))ρ, however small κ(0)
            return 2
        beyond = self.slope_at_one - 1.0
        if abs(beyond) <= self._slope_error:
            return 3
        # κ(0) + κ'(1) − 1 is how far κ bends: where it bends less than it is off the edge, the edge is not near
        if abs(beyond) <= KNIFE_EDGE and abs(beyond) <= 1e-3 * (self.at_zero + beyond):
            return 3
        return 2 if beyond < 0.0 else 4

    # --- fixed points -------------------------------------------------------------------------------------------------

    @cached_property
    def fixed_point_gap(self) -> float | None:
        """1 − ρ* of the attracting fixed point, to relative accuracy; None for a linear layer.

        Example:
            >>> from isometer.theory import KernelMap
            >>> KernelMap("relu").fixed_point_gap
            0.0
        """
        if self.case is None:
            return None
        if self.case == 1:
            return 1.0
        if self.case in (2, 3):
            return 0.0
        return self._interior[1]

    @cached_property
    def _interior(self) -> tuple[float, float]:
        """(ρ*, 1 − ρ*) of case 4, both to relative accuracy."""
        from scipy.optimize import brentq  # slow to load, seldom needed

        if float(self(_NEAR)) < _NEAR:  # κ(ρ) > ρ below ρ*: solve for log ρ, which may be very negative

            def rise(log_cosine: float) -> float:
                cosine = math.exp(log_cosine)
                return (self.at_zero + self._increment(0.0, cosine)) / cosine - 1.0

            low = math.log(self.at_zero)  # κ(ρ) ≥ κ(0), so that ρ* ≥ κ(0)
            if rise(low) <= 0.0:  # κ(κ(0)) − κ(0) is nothing but rounding
                return self.at_zero, 1.0 - self.at_zero
            high = math.log(_NEAR)
            if rise(high) >= 0.0:  # the two ways to evaluate κ there differ by rounding: the fixed point is that cosine
                return _NEAR, 1.0 - _NEAR
            cosine = math.exp(float(brentq(rise, low, high, xtol=1e-15, rtol=8.9e-16)))
            return cosine, 1.0 - cosine

        def excess(log_gap: float) -> float:  # decreasing: κ'(1) − 1 > 0 at small gaps
            gap = math.exp(log_gap)
            return float(self.gap_after(gap)) / gap - 1.0

        low, high = -34.0, math.log(_NEAR)  # a gap of 2e-15
        while excess(low) <= 0.0 and low < -1.0:  # κ'(1) barely above one: rounding decides, start closer
            low /= 2
        if excess(high) >= 0.0:
            return 1.0 - _NEAR, _NEAR
        if excess(low) <= 0.0:
            raise ActivationError(
                f"the kernel map of {self.activation.name} is known to {self.error:.1g} only, too little to find its "
                "fixed point — smooth the activation, or declare the kinks of a callable"
            )
        gap = math.exp(float(brentq(excess, low, high, xtol=1e-15, rtol=8.9e-16)))
        return 1.0 - gap, gap

    @property
    def fixed_point(self) -> float | None:
        """The attracting fixed point ρ* ∈ [0, 1]; None for a linear layer, where every point is fixed.

        Example:
            >>> from isometer.theory import KernelMap
            >>> KernelMap("tanh").fixed_point, KernelMap("exp").fixed_point
            (0.0, 1.0)
        """
        if self.case == 4:
            return self._interior[0]
        return None if self.fixed_point_gap is None else 1.0 - self.fixed_point_gap

    @cached_property
    def fixed_points(self) -> tuple[float, ...]:
        """All fixed points in [−1, 1], ascending: ρ*, 1, and −1 exactly when φ is odd (001/thm-5.11).

        Example:
            >>> from isometer.theory import KernelMap
            >>> KernelMap("tanh").fixed_points
            (-1.0, 0.0, 1.0)
        """
        if self.fixed_point is None:
            raise IsometerError(f"{self.activation.name} is linear: every cosine is a fixed point")
        lower = (-1.0,) if self._odd else ()
        return (*lower, *sorted({self.fixed_point, 1.0}))

    @cached_property
    def slope_at_fixed_point(self) -> float:
        """κ′(ρ*), the local rate.

        Example:
            >>> from isometer.theory import KernelMap
            >>> KernelMap("relu").slope_at_fixed_point
            1.0
        """
        if self.case is None or self.case == 3:
            return 1.0
        if self.case == 1:
            return self.slope_at_zero
        if self.case == 2:
            return self.slope_at_one
        cosine, gap = (np.array(one) for one in self._interior)
        slope = float(self._dual.slope_at_gap(gap) if gap < _NEAR else self._dual.slope(cosine))
        # κ' increases from 0 to 1, so that less than κ'(0) is rounding
        return max(self._branch * slope + (1 - self._branch), self.slope_at_zero)

    # --- rates --------------------------------------------------------------------------------------------------------

    @cached_property
    def rate_form(self) -> RateForm:
        """How the distance to ρ* shrinks: exponential, algebraic (a power of depth), superexponential, or none.

        Example:
            >>> from isometer.theory import KernelMap
            >>> [KernelMap(n).rate_form for n in ("tanh", "relu", "normalized(square)", "identity")]
            ['exponential', 'algebraic', 'superexponential', 'none']
        """
        if self.case is None:
            return "none"
        if self.case == 3:
            return "algebraic"
        return "superexponential" if self.slope_at_fixed_point == 0.0 and self.case < 4 else "exponential"

    @property
    def rate(self) -> float | None:
        """Factor per layer when the form is exponential.

        Example:
            >>> from isometer.theory import KernelMap
            >>> round(KernelMap("sin").rate, 6)  # 1/sinh 1
            0.850918
        """
        return self.slope_at_fixed_point if self.rate_form == "exponential" else None

    @cached_property
    def asymptote(self) -> tuple[float, float] | None:
        """(C, p) with 1 − ρ_ℓ ~ C·ℓ^−p in the algebraic case.

        A slope jump J of φ at k gives κ' = 1 − Bθ + …, B = Σ J² e^{−k²/2}/2π, hence p = 2 and C = 9/(2B²);
        without one p = 1 and C = 2/κ''(1), κ''(1) = E φ''².

        Example:
            >>> from isometer.theory import KernelMap
            >>> constant, power = KernelMap("relu").asymptote
            >>> round(constant, 6), power  # 9π²/2, not the 1/ℓ of 001/thm-5.11
            (44.41322, 2.0)
        """
        if self.rate_form != "algebraic":
            return None
        jumps = self.effective.slope_jumps
        if jumps:
            # the gap is θ²/2 and dθ/dℓ = −Bθ²/3, hence θ ~ 3/(Bℓ)
            bend = self._branch * math.fsum(size**2 * math.exp(-(k**2) / 2) for k, size in jumps) / (2 * math.pi)
            return (4.5 / bend**2, 2.0) if bend > _LEAST_BEND else None  # a weak branch may need a C beyond all floats
        # the gap δ obeys dδ/dℓ = −κ''(1)δ²/2
        curvature = self._branch * self.effective.derivative.moments["slope_second"].value
        return (
            (2.0 / curvature, 1.0) if _LEAST_BEND < curvature < math.inf else None
        )  # a cusp of φ′ has a power between

    @cached_property
    def rate_exponent(self) -> float | None:
        """p of the algebraic form ℓ^−p; in the superexponential form the order m of |ρ_{ℓ+1}| ∝ |ρ_ℓ|^m.

        Example:
            >>> from isometer.theory import KernelMap
            >>> KernelMap("exp").rate_exponent, KernelMap("normalized(abs)").rate_exponent
            (1.0, 2.0)
        """
        if self.asymptote is not None:
            return self.asymptote[1]
        if self.rate_form != "superexponential":
            return None
        # κ(ρ) ~ c_m² ρ^m at 0, m the first degree present
        present = np.flatnonzero(self.activation.hermite_degrees(64)[1:])
        return float(present[0] + 1) if len(present) else None

    @property
    def depth_scale(self) -> float:
        """ξ = −1/log κ'(ρ*): layers over which the distance falls by e; `inf` when not exponential, 0 when faster.

        Example:
            >>> from isometer.theory import KernelMap
            >>> round(KernelMap("sin").depth_scale, 4), KernelMap("relu").depth_scale
            (6.1943, inf)
        """
        if self.rate_form in ("algebraic", "none"):
            return math.inf
        slope = self.slope_at_fixed_point
        if self.rate_form == "superexponential" or slope == 0.0:
            return 0.0
        if self.case == 2 and self.activation.is_affine:  # κ'(1) = 1 − κ(0), which may round to one
            return -1.0 / math.log1p(-self.at_zero)
        return -1.0 / math.log(slope) if slope < 1.0 else math.inf

    # --- iteration ----------------------------------------------------------------------------------------------------

    def iterate(self, rho: float | None = None, depth: int = 100, *, gap: float | None = None) -> KernelPath:
        """ρ_ℓ, 1 − ρ_ℓ and |ρ_ℓ − ρ*| for ℓ = 0 … depth, from a cosine or from a gap 1 − ρ as small as 1e-300.

        Example:
            >>> from isometer.theory import KernelMap
            >>> KernelMap("sign").iterate(0.0, depth=2).cosine
            array([0., 0., 0.])
        """
        if (rho is None) == (gap is None):
            raise IsometerError("give either the cosine rho or the gap 1 − ρ, not both or neither")
        if depth < 0 or depth != int(depth):
            raise IsometerError(f"depth must be a whole number ≥ 0; got {depth!r}")
        if gap is None:
            assert rho is not None
            cosine = float(checked_correlation(rho))
            small = 1.0 - cosine
        else:
            if not 0.0 <= gap <= 2.0:
                raise IsometerError(f"a gap 1 − ρ must lie in [0, 2]; got {gap!r}")
            small, cosine = float(gap), 1.0 - float(gap)
        mirrored = cosine < 0.0 and self._odd  # κ(−ρ) = −κ(ρ): follow |ρ|, where the gap is small
        if mirrored:
            cosine, small = -cosine, 1.0 + cosine if gap is None else 2.0 - small
        out = np.empty((3, int(depth) + 1))
        target = self.fixed_point
        offset: float | None = None  # signed distance to an interior ρ*, once close
        for layer in range(int(depth) + 1):
            if layer:
                if offset is not None:
                    assert target is not None
                    offset = self._increment(target, offset)
                    cosine = target + offset
                    small = 1.0 - cosine
                else:
                    cosine, small = self._step(cosine, small)
            inside = offset is None and target is not None and 0.0 < target < 1.0
            if inside and target is not None and abs(cosine - target) < 0.1 * min(target, 1.0 - target):
                # from here on the distance itself is iterated: cosine − ρ* cancels as it converges
                offset = cosine - target
            out[0, layer], out[1, layer] = cosine, small
            out[2, layer] = self._distance(cosine, small, target, offset)
        if mirrored:
            return KernelPath(-out[0], 2.0 - out[1], out[2])
        return KernelPath(out[0], out[1], out[2])

    @staticmethod
    def _distance(cosine: float, gap: float, target: float | None, offset: float | None) -> float:
        if target is None:
            return math.nan
        if target == 1.0:
            return gap
        return abs(offset) if offset is not None else abs(cosine - target)

    def _step(self, cosine: float, gap: float) -> tuple[float, float]:
        """One layer on (ρ, 1 − ρ), each kept accurate where it is small."""
        if cosine > _NEAR:
            after = float(self.gap_after(gap))
            return 1.0 - after, after
        if abs(cosine) <= _NEAR:
            # from the increment, so that a small ρ keeps its digits where κ(0) = 0
            after = self.at_zero + self._increment(0.0, cosine)
            return after, 1.0 - after
        after = float(self(max(cosine, -1.0)))
        return after, 1.0 - after

    def one_step_supremum(self, points: int = 4001) -> float:
        """sup over ρ of the one-step ratio that 001/thm-5.8 bounds: Ψ(κ(ρ))/Ψ(ρ), Ψ = |ρ|/(1 − |ρ|), for case 1;
        for the other cases |κ(ρ) − ρ*|/|ρ − ρ*|. The measured best rate beside the printed ones.

        Example:
            >>> from isometer.theory import KernelMap
            >>> tanh = KernelMap("tanh")
            >>> tanh.slope_at_zero <= tanh.one_step_supremum() < 1
            True
        """
        if self.fixed_point is None:
            return 1.0
        gaps = np.unique(np.concatenate([np.geomspace(1e-12, 0.5, points // 2), np.linspace(0.5, 1.5, points // 2)]))
        rho = 1.0 - gaps
        if self.case == 1:
            rho, gaps = rho[rho > 1e-6], gaps[rho > 1e-6]
            # Ψ(κ)/Ψ(ρ) = (κ/ρ)·(1 − ρ)/(1 − κ), the gaps without cancellation
            ratio = (self(rho) / rho) * (gaps / self.gap_after(gaps))
            return float(max(np.max(ratio), self.slope_at_zero))
        distance = np.abs(rho - self.fixed_point) if self.fixed_point < 1 else gaps
        after = np.abs(self(rho) - self.fixed_point) if self.fixed_point < 1 else self.gap_after(gaps)
        # closer to ρ* the ratio of differences is rounding; its limit is κ'(ρ*), added below
        keep = distance > 1e-6
        return float(max(np.max(after[keep] / distance[keep]), self.slope_at_fixed_point))


def kernel_map(
    source: str | Activation | Any,
    *,
    norm: Norm = "none",
    norm_position: Position = "pre",
    residual: float | None = None,
) -> KernelMap:
    """Shorthand for `KernelMap`, the way the field says it.

    Example:
        >>> from isometer.theory import kernel_map
        >>> kernel_map("tanh")
        KernelMap('tanh')
    """
    return KernelMap(source, norm=norm, norm_position=norm_position, residual=residual)
