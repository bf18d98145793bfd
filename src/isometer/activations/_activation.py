"""The activation a user holds: an expression with its Gaussian analysis and its algebra."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from isometer._display import Drawn
from isometer.activations import _gaussian as gaussian
from isometer.activations._analysis import Analysis, parity
from isometer.activations._dual import AffineDual, Dual
from isometer.activations._expression import (
    Expression,
    Opaque,
    X,
    as_affine,
    differentiate,
    evaluate,
    kink_equations,
    split_affine_output,
    substitute,
    walk,
)
from isometer.activations._gaussian import NumericalEstimate
from isometer.errors import ActivationError, OverflowingMomentError

Floats = NDArray[np.float64]
DOUBTFUL = 1e-8
"""A relative error estimate above this is worth a warning."""
_DEGREE = {"mean": 1, "second": 2, "variance": 2, "slope_second": 2, "first": 1, "mirror": 2}
_SYMBOL = {
    "mean": "E φ", "second": "E φ²", "variance": "Var φ", "slope_second": "E φ′²", "first": "E Xφ",
    "mirror": "E φ(X)φ(−X)",
}  # fmt: skip


@dataclass(frozen=True)
class _Scaled:
    """φ = 2^exponent·(scale·ψ + shift), and the moments of the bracket."""

    exponent: int
    scale: float
    shift: float
    moments: dict[str, NumericalEstimate]


class Activation(Drawn):
    """A scalar nonlinearity and its statistics under Gaussian inputs.

    Obtain one from `isometer.activation`: by registry name, expression, Python callable or torch module. Calling it
    evaluates on NumPy arrays or, differentiably, on torch tensors.

    Implements 001/def-5.3 … 001/cor-5.7, 001/tab-5.2, 004/eq-2, 004/def-2, 004/def-18, 004/def-29.

    Example:
        >>> from isometer import activation
        >>> relu = activation("relu")
        >>> round(relu.mean, 12), round(relu.second_moment, 12)
        (0.398942280401, 0.5)
        >>> relu.normalized()
        Activation('normalized(relu)')
        >>> relu([-1.0, 2.0])
        array([0., 2.])
    """

    def __init__(self, expression: Expression, name: str | None = None) -> None:
        self.expression = expression
        self.name = name if name is not None else str(expression)

    def __repr__(self) -> str:
        return f"Activation({self.name!r})"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Activation) and self.expression == other.expression

    def __hash__(self) -> int:
        return hash(self.expression)

    def __call__(self, x: Any) -> Any:
        """φ(x) elementwise on a float, an array or a torch tensor."""
        if type(x).__module__.partition(".")[0] == "torch":
            return evaluate(self.expression, x)
        array = np.asarray(x)
        if array.dtype.kind not in "fiub":
            raise ActivationError(f"{self.name} takes real numbers; got an array of type {array.dtype}")
        if array.dtype.kind != "f":
            array = array.astype(float)
        # 0-d in, float out; read-only broadcasts of constants are copied
        values = np.array(evaluate(self.expression, array), dtype=array.dtype)
        return float(values) if values.ndim == 0 else values

    # --- algebra ------------------------------------------------------------------------------------------------------

    def centered(self) -> Activation:
        """φ − E φ(X): zero mean under a standard Gaussian.

        Example:
            >>> from isometer import activation
            >>> abs(activation("relu").centered().mean) < 1e-15
            True
        """
        return Activation(self.expression - self.mean, f"centered({self.name})")

    def scaled(self, factor: float) -> Activation:
        """factor·φ.

        Example:
            >>> from isometer import activation
            >>> activation("relu").scaled(2.0).second_moment
            2.0
        """
        return Activation(_finite(factor, "factor") * self.expression, f"scaled({self.name}, {factor:.12g})")

    def unit(self) -> Activation:
        """φ/√(E φ²): unit second moment, the mean kept.

        Example:
            >>> from isometer import activation
            >>> round(activation("relu").unit()(1.0), 12)  # He's √2
            1.414213562373
        """
        if self._scaled.moments["second"].value == 0.0:
            raise ActivationError(f"{self.name} is zero almost everywhere and cannot be scaled to unit second moment")
        return Activation(self.gain_forward * self.expression, f"unit({self.name})")

    def normalized(self) -> Activation:
        """(φ − E φ)/√Var φ: zero mean and unit second moment (004/eq-2).

        Example:
            >>> from isometer import activation
            >>> gelu = activation("gelu").normalized()
            >>> abs(gelu.mean) < 1e-15, abs(gelu.second_moment - 1) < 1e-14
            (True, True)
        """
        if self.is_constant:
            raise ActivationError(f"{self.name} is constant and cannot be normalised to unit variance")
        factor = self.unit_variance_gamma
        return Activation(factor * (self.expression - self.mean), f"normalized({self.name})")

    def gain(self, factor: float) -> Activation:
        """x ↦ φ(factor·x): a pre-activation gain, the shaping of 001/act-gain.

        Example:
            >>> from isometer import activation
            >>> activation("tanh").gain(0.5)(2.0) == activation("tanh")(1.0)
            True
        """
        return Activation(substitute(self.expression, _finite(factor, "gain") * X), f"gain({self.name}, {factor:.12g})")

    def shifted(self, offset: float) -> Activation:
        """x ↦ φ(x + offset).

        Example:
            >>> from isometer import activation
            >>> activation("relu").shifted(1.0)(-0.5)
            0.5
        """
        return Activation(
            substitute(self.expression, X + _finite(offset, "offset")), f"shifted({self.name}, {offset:.12g})"
        )

    def compose(self, inner: Activation) -> Activation:
        """x ↦ φ(inner(x)).

        Example:
            >>> from isometer import activation
            >>> activation("tanh").compose(activation("relu"))(-3.0)
            0.0
        """
        return Activation(substitute(self.expression, inner.expression), f"compose({self.name}, {inner.name})")

    @cached_property
    def derivative(self) -> Activation:
        """φ′ almost everywhere, itself an activation.

        Example:
            >>> from isometer import activation
            >>> activation("tanh").derivative(0.0)
            1.0
        """
        return Activation(differentiate(self.expression), f"derivative({self.name})")

    # --- where it is not smooth ---------------------------------------------------------------------------------------

    @cached_property
    def kinks(self) -> tuple[float, ...]:
        """Points where φ or a derivative of it is not continuous.

        Example:
            >>> from isometer import activation
            >>> activation("hardtanh").kinks
            (-1.0, 1.0)
        """
        domain = (-gaussian.REACH, gaussian.REACH)
        equations = kink_equations(self.expression)
        for node in walk(self.expression):
            if isinstance(node, Opaque):
                equations += [node.argument - kink for kink in node.function.kinks]
        return gaussian.distinct(gaussian.roots(equations, domain))

    @cached_property
    def jumps(self) -> tuple[tuple[float, float], ...]:
        """(place, size) of every discontinuity of φ itself.

        Example:
            >>> from isometer import activation
            >>> activation("sign").jumps
            ((0.0, 2.0),)
        """
        scale, _, core = self._core
        if core is not self:  # a shift may be much larger than the jump
            return tuple((place, scale * size) for place, size in core.jumps)
        found = dict(self._steps(self))
        for front in self._analysis.fronts:  # a step that floating point cannot tell from a jump
            if not front.resolvable and abs(front.place) < 30.0:
                below, above = self(np.array([front.place - front.reach, front.place + front.reach]))
                if abs(above - below) > 1e-8 * max(abs(above), abs(below)):
                    found[front.place] = float(above - below)
        return tuple(sorted(found.items()))

    @cached_property
    def slope_jumps(self) -> tuple[tuple[float, float], ...]:
        """(place, size) of every discontinuity of φ′.

        Example:
            >>> from isometer import activation
            >>> activation("relu").slope_jumps
            ((0.0, 1.0),)
        """
        scale, _, core = self._core
        if core is not self:
            return tuple((place, scale * size) for place, size in core.slope_jumps)
        return self._steps(self.derivative)

    def _steps(self, function: Activation) -> tuple[tuple[float, float], ...]:
        inside = [k for k in self.kinks if abs(k) < 30.0]  # the density at 30 is 1e-196
        if not inside:
            return ()
        place = np.array(inside)
        near = 1e-13 * np.maximum(1.0, np.abs(place))
        right, left = function(place + near), function(place - near)
        farther = function(place + 1000 * near) - function(place - 1000 * near)
        with np.errstate(invalid="ignore"):
            size = right - left
            # an infinite slope changes the difference as the two points close in, a jump does not
            stays = np.abs(size - farther) <= 0.1 * np.abs(size)
            real = np.isfinite(size) & stays & (np.abs(size) > 1e-8 * np.maximum(np.abs(right), np.abs(left)))
        return tuple((float(p), float(s)) for p, s in zip(place[real], size[real], strict=True))

    # --- Gaussian moments ---------------------------------------------------------------------------------------------

    @cached_property
    def _core(self) -> tuple[float, float, Activation]:
        """(scale, shift, core) with φ = scale·core + shift; the analysis of the core is shared and cached."""
        scale, shift, core = split_affine_output(self.expression)
        if core == self.expression:
            return 1.0, 0.0, self
        return scale, shift, _interned(core, self.name)

    @cached_property
    def _analysis(self) -> Analysis:
        return Analysis(self)

    def expectation(self, function: Callable[[Floats, Floats], Floats]) -> NumericalEstimate:
        """E f(X, φ(X)) with an error estimate; f acts on arrays (x, φ(x)).

        Example:
            >>> from isometer import activation
            >>> fourth = activation("tanh").expectation(lambda x, y: y**4)
            >>> 0.2529 < fourth.value < 0.2530 and fourth.error < 1e-13
            True
        """
        return gaussian.refined_expectation(lambda x: function(x, self(x)), self._analysis.edges)

    @cached_property
    def _scaled(self) -> _Scaled:
        """φ as 2^exponent·(scale·ψ + shift), ψ what the analysis of the core is about, with the moments of the bracket.

        The exponent is zero for all but extreme sizes; with it no square over- or underflows.
        """
        scale, shift, core = self._core
        analysis = core._analysis
        raw = analysis.moments
        if core is self:
            return _Scaled(analysis.exponent, 1.0, 0.0, raw)
        size = analysis.exponent + _binary_order(scale) if raw["second"].value > 0.0 else -9999
        exponent = max(size, _binary_order(shift))
        exponent = exponent if abs(exponent) > 64 and exponent > -9999 else 0
        scale, shift = math.ldexp(scale, analysis.exponent - exponent), math.ldexp(shift, -exponent)
        return _Scaled(exponent, scale, shift, _affine_moments(scale, shift, raw))

    @cached_property
    def moments(self) -> dict[str, NumericalEstimate]:
        """E φ, E φ², E φ′² (almost everywhere), E Xφ and E φ(X)φ(−X), each with its error.

        Example:
            >>> from isometer import activation
            >>> m = activation("relu").moments
            >>> m["second"].value, m["second"].error < 1e-14
            (0.5, True)
        """
        exponent, found = self._scaled.exponent, self._scaled.moments
        if exponent == 0:
            return found
        out = {}
        for name, estimate in found.items():
            with np.errstate(over="ignore"):
                value, error = np.ldexp([estimate.value, estimate.error], exponent * _DEGREE[name])
            if math.isfinite(estimate.value) and not math.isfinite(value):
                raise OverflowingMomentError(
                    f"{_SYMBOL[name]} of {self.name} is about 10^{_decimal_order(estimate.value, exponent, name)}, "
                    "which floating point cannot represent — scale the activation down; its kernel map stays the same"
                )
            out[name] = NumericalEstimate(float(value), float(error))
        return out

    @cached_property
    def unit_moments(self) -> dict[str, NumericalEstimate]:
        """As `moments`, of φ/√(E φ²): they depend on no scale, and exist where those of φ overflow.

        Example:
            >>> from isometer import activation
            >>> round(activation("relu").scaled(1e200).unit_moments["mean"].value ** 2, 12)  # 1/π
            0.318309886184
        """
        found = self._scaled.moments
        second = found["second"]
        if second.value == 0.0:
            raise ActivationError(f"{self.name} is zero almost everywhere and cannot be scaled to unit second moment")
        relative = second.error / second.value
        out = {}
        for name, estimate in found.items():
            factor = second.value ** (-_DEGREE[name] / 2)
            spread = abs(estimate.value) * relative if math.isfinite(estimate.value) else 0.0
            out[name] = NumericalEstimate(factor * estimate.value, factor * (estimate.error + spread))
        return {**out, "second": NumericalEstimate(1.0, 0.0)}

    @property
    def mean(self) -> float:
        """E φ(X).

        Example:
            >>> from isometer import activation
            >>> activation("tanh").mean
            0.0
        """
        return self.moments["mean"].value

    @property
    def second_moment(self) -> float:
        """E φ(X)².

        Example:
            >>> from isometer import activation
            >>> activation("square").second_moment
            3.0
        """
        return self.moments["second"].value

    @property
    def variance(self) -> float:
        """Var φ(X).

        Example:
            >>> from isometer import activation
            >>> activation("square").variance
            2.0
        """
        return self.moments["variance"].value

    @cached_property
    def first_squared(self) -> float:
        """c₁² = (E Xφ(X))² = κ'(0).

        Example:
            >>> from isometer import activation
            >>> activation("relu").first_squared
            0.25
        """
        return _product(self.moments["first"].value, self.moments["first"].value, "E Xφ squared", self.name)

    @cached_property
    def kernel_slope_at_one(self) -> float:
        """κ'(1) = E φ′², counting jumps: `inf` when φ has one.

        Example:
            >>> from isometer import activation
            >>> activation("step").kernel_slope_at_one
            inf
        """
        return math.inf if self.jumps else self.moments["slope_second"].value

    @cached_property
    def error_estimate(self) -> float:
        """Largest relative error among the moments and the dual, as estimated by the computation itself.

        Example:
            >>> from isometer import activation
            >>> activation("mish").error_estimate < 1e-12
            True
        """
        if self._scaled.moments["second"].value == 0.0:
            return 0.0
        moments = self.unit_moments
        parts = [self.second_moment_error, moments["mean"].error]
        slope = moments["slope_second"]
        if math.isfinite(slope.value) and slope.value > 0:
            parts.append(slope.error / slope.value)
        with suppress(ActivationError):  # moments exist where the kernel map cannot be computed, as at a cusp
            parts.append(self.unit_dual.error)
        return max(parts)

    @property
    def second_moment_error(self) -> float:
        """Error estimate of E φ², relative.

        Example:
            >>> from isometer import activation
            >>> activation("mish").second_moment_error < 1e-14
            True
        """
        second = self._scaled.moments["second"]
        return second.error / second.value if second.value > 0.0 else 0.0

    @cached_property
    def warnings(self) -> tuple[str, ...]:
        """Warnings about its numbers: estimated errors that are larger than usual.

        Example:
            >>> from isometer import activation
            >>> activation("gelu").warnings
            ()
        """
        error = self.error_estimate
        if error <= DOUBTFUL:
            return ()
        return (f"numbers of {self.name} are known to a relative error of {error:.1g} only",)

    # --- gains --------------------------------------------------------------------------------------------------------

    @property
    def gain_forward(self) -> float:
        """Weight gain that keeps the forward second moment at one: 1/√(E φ²).

        Example:
            >>> from isometer import activation
            >>> round(activation("relu").gain_forward, 12)
            1.414213562373
        """
        return self._inverse_root("second", "forward gain")

    @property
    def gain_backward(self) -> float:
        """Weight gain that keeps the backward second moment at one: 1/√(E φ′²), φ′ as autograd sees it.

        Example:
            >>> from isometer import activation
            >>> activation("sign").gain_backward  # no gradient passes a step
            inf
        """
        return self._inverse_root("slope_second", "backward gain")

    @property
    def unit_variance_gamma(self) -> float:
        """Output factor that gives unit variance: 1/√(Var φ).

        Example:
            >>> from isometer import activation
            >>> round(activation("relu").unit_variance_gamma, 6)  # √(2/(1 − 1/π))
            1.712859
        """
        return self._inverse_root("variance", "unit-variance factor")

    def _inverse_root(self, moment: str, what: str) -> float:
        """1/√ of a second moment of any size; `inf` where it is zero."""
        value, exponent = self._scaled.moments[moment].value, self._scaled.exponent
        if value == 0.0:
            return math.inf
        root = math.sqrt(1.0 / value)
        if math.isfinite(root) and _binary_order(root) - exponent > 1023:
            raise ActivationError(
                f"the {what} of {self.name} is too large for floating point — scale the activation up"
            )
        return math.ldexp(root, -exponent)

    # --- Hermite expansion and the dual -------------------------------------------------------------------------------

    def hermite(self, order: int = 10) -> Floats:
        """Normalised Hermite coefficients c₀ … c_order, c_k = E φ(X) he_k(X) (001/def-5.5).

        Example:
            >>> from isometer import activation
            >>> activation("cube").hermite(4).round(12) + 0.0  # x³ = 3 he₁ + √6 he₃
            array([0.      , 3.      , 0.      , 2.44948974, 0.      ])
        """
        if order < 0 or order != int(order):
            raise ActivationError(f"order must be a whole number ≥ 0; got {order}")
        return gaussian.hermite_coefficients(self, self._analysis.edges, int(order))

    def hermite_degrees(self, order: int) -> NDArray[np.bool_]:
        """Which Hermite coefficients c₀ … c_order are more than rounding.

        Example:
            >>> from isometer import activation
            >>> activation("cube").hermite_degrees(4).tolist()
            [False, True, False, True, False]
        """
        analysis = self._core[2]._analysis
        present = analysis.degrees(order)
        present[0] = self._scaled.moments["mean"].value != 0.0
        return present

    @cached_property
    def is_odd(self) -> bool:
        """φ(−x) = −φ(x), judged by E (φ(X) + φ(−X))² = 2(κ(1) + κ(−1)).

        Example:
            >>> from isometer import activation
            >>> activation("sin").is_odd, activation("relu").is_odd
            (True, False)
        """
        return parity(self._scaled.moments) == -1

    @cached_property
    def is_affine(self) -> bool:
        """φ(x) = a + b·x: nothing beyond the first Hermite coefficient (004/lem-30).

        Example:
            >>> from isometer import activation
            >>> activation("2*x + 1").is_affine, activation("tanh").is_affine
            (True, False)
        """
        if as_affine(self.expression) is not None:
            return True
        found = self._scaled.moments
        return found["variance"].value - found["first"].value ** 2 <= 1e-13 * found["variance"].value

    @property
    def is_constant(self) -> bool:
        """Whether the variance is nothing but rounding.

        Example:
            >>> from isometer import activation
            >>> activation(lambda x: 0 * x + 3.0).is_constant
            True
        """
        found = self._scaled.moments
        return found["variance"].value <= 1e-28 * found["second"].value

    @cached_property
    def nonlinearity(self) -> float:
        """μ = 1 − c₁²/Σ_{k≥1} c_k² of the centred, unit-variance version (004/def-2, 004/tab-mu).

        Example:
            >>> from isometer import activation
            >>> import math
            >>> math.isclose(activation("relu").nonlinearity, (math.pi - 2) / (2 * math.pi - 2))
            True
        """
        if self.is_constant:
            raise ActivationError(f"{self.name} is constant; its coefficient of non-linearity is undefined")
        found = self._scaled.moments
        return max(0.0, 1.0 - found["first"].value ** 2 / found["variance"].value)

    @cached_property
    def nonaffinity(self) -> float:
        """μ̃ = 1 − c₀² − c₁² of the version with unit second moment (004/def-29).

        Example:
            >>> from isometer import activation
            >>> activation("identity").nonaffinity
            0.0
        """
        found = self.unit_moments
        return max(0.0, 1.0 - (found["mean"].value ** 2 + found["first"].value ** 2))

    @cached_property
    def dual(self) -> Dual:
        """κ as an object with value, slope and deficit; the representation is chosen by what φ allows.

        Example:
            >>> from isometer import activation
            >>> activation("relu").dual.method, activation("gelu").dual.method, activation("elu").dual.method
            ('closed form', 'Hermite series', 'angle series')
        """
        scaled, core = self._scaled, self._core[2]
        base = core._analysis.dual
        if core is self and scaled.exponent == 0:
            return base
        centre = math.ldexp(scaled.moments["mean"].value, scaled.exponent)
        scale = math.ldexp(scaled.scale, scaled.exponent)
        return AffineDual(
            base,
            _product(scale, scale, "the kernel", self.name),
            _product(centre, centre, "the kernel", self.name),
        )

    @cached_property
    def unit_dual(self) -> AffineDual:
        """κ of φ/√(E φ²), whatever the size of φ.

        Example:
            >>> from isometer import activation
            >>> round(activation("relu").scaled(1e200).unit_dual.at_zero, 12)  # 1/π
            0.318309886184
        """
        scaled, core = self._scaled, self._core[2]
        gain = scaled.scale / scaled.moments["second"].value * scaled.scale
        return AffineDual(core._analysis.dual, gain, self.unit_moments["mean"].value ** 2)

    def kernel(self, rho: ArrayLike) -> Any:
        """κ(ρ) = E φ(X)φ(Y) on numbers or arrays in [−1, 1] (001/def-5.3).

        Example:
            >>> from isometer import activation
            >>> activation("relu").kernel([-1.0, 0.0, 1.0]).round(12) + 0.0
            array([0.        , 0.15915494, 0.5       ])
        """
        return _shaped(self.dual.value(checked_correlation(rho)), rho)

    def kernel_slope(self, rho: ArrayLike) -> Any:
        """κ′(ρ), the dual of φ′; `inf` at ±1 where φ jumps.

        Example:
            >>> from isometer import activation
            >>> activation("relu").kernel_slope(1.0), activation("sign").kernel_slope(1.0)
            (0.5, inf)
        """
        return _shaped(self.dual.slope(checked_correlation(rho)), rho)


def checked_correlation(rho: ArrayLike) -> Floats:
    """An array of correlations, or an error that says which entry is not one.

    Example:
        >>> from isometer.activations import checked_correlation
        >>> checked_correlation([0.5, 1.5])
        Traceback (most recent call last):
        ...
        isometer.errors.ActivationError: a correlation must lie in [−1, 1]; got 1.5 ...
    """
    array = np.asarray(rho, dtype=float)
    bad = ~(np.abs(array) <= 1.0)  # so that nan is bad too
    if bad.any():
        worst = float(array[bad].ravel()[0])
        raise ActivationError(
            f"a correlation must lie in [−1, 1]; got {worst!r} ({int(bad.sum())} such of {array.size}) — "
            "divide by the norms first, or clip rounding errors with numpy.clip(rho, -1, 1)"
        )
    return array


def _shaped(values: Floats, like: ArrayLike) -> Any:
    return float(values) if np.ndim(like) == 0 else values


def _finite(value: float, what: str) -> float:
    number = float(value)
    if not math.isfinite(number):
        raise ActivationError(f"{what} must be a finite number; got {value!r}")
    return number


def _binary_order(value: float) -> int:
    return math.frexp(value)[1] if value else -9999


def _decimal_order(value: float, exponent: int, name: str) -> int:
    return round(math.log10(abs(value)) + _DEGREE[name] * exponent * math.log10(2.0))


def _product(a: float, b: float, what: str, name: str) -> float:
    """a·b, or an error where that overflows."""
    if not math.isfinite(a * b):
        raise OverflowingMomentError(
            f"{what} of {name} is too large for floating point — scale the activation down; its kernel map, scaled to "
            "κ(1) = 1, stays the same"
        )
    return a * b


def _affine_moments(scale: float, shift: float, raw: dict[str, NumericalEstimate]) -> dict[str, NumericalEstimate]:
    """Moments of scale·ψ + shift from those of ψ."""
    centre = scale * raw["mean"].value + shift
    centre_error = abs(scale) * raw["mean"].error + 4e-16 * abs(shift)
    if abs(centre) <= 8 * 2.2e-16 * abs(shift) + abs(scale) * raw["mean"].error:
        centre = 0.0  # centred by construction, up to rounding
    square = scale * scale
    beside = 2 * abs(centre) * centre_error + centre_error**2
    values = {
        "mean": (centre, centre_error),
        # scale² E ψ² + 2 scale·shift E ψ + shift² would cancel where shift centres ψ
        "second": (square * raw["variance"].value + centre**2, square * raw["variance"].error + beside),
        "slope_second": (square * raw["slope_second"].value, square * raw["slope_second"].error),
        "first": (scale * raw["first"].value, abs(scale) * raw["first"].error),
        "mirror": (
            square * (raw["mirror"].value - raw["mean"].value ** 2) + centre**2,
            square * (raw["mirror"].error + 2 * abs(raw["mean"].value) * raw["mean"].error) + beside,
        ),
        "variance": (square * raw["variance"].value, square * raw["variance"].error),
    }
    return {name: NumericalEstimate(value, error + 4e-16 * _known(value)) for name, (value, error) in values.items()}


def _known(value: float) -> float:
    return abs(value) if math.isfinite(value) else 0.0


_CORES: dict[Expression, Activation] = {}


def _interned(core: Expression, name: str) -> Activation:
    """One shared object per core expression, so that centred, scaled and normalised versions reuse its analysis."""
    if core not in _CORES:
        if len(_CORES) >= 512:
            _CORES.clear()  # memory stays bounded; an analysis is made again when needed
        _CORES[core] = Activation(core, name if isinstance(core, Opaque) else None)
    return _CORES[core]


def expectation(function: Callable[[Floats], Floats], kinks: Sequence[float] = ()) -> NumericalEstimate:
    """E f(X) for X ~ N(0, 1), f on arrays, with an error estimate; kinks may be declared.

    Example:
        >>> from isometer.activations import expectation
        >>> result = expectation(lambda x: abs(x), kinks=[0.0])
        >>> abs(result.value - (2 / 3.141592653589793) ** 0.5) < 1e-14
        True
    """
    domain = gaussian.gaussian_domain([function], "the integrand")
    edges = gaussian.panel_edges(function, kinks, domain, "the integrand")
    return gaussian.gaussian_expectation(function, edges)
