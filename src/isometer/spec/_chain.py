"""A chain: one layer repeated."""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass, fields, replace
from functools import cached_property
from typing import Any, Literal

from isometer.activations import Activation, activation
from isometer.spec._activation import activation_text, positively_homogeneous, resolved
from isometer.spec._chain_form import steps_of
from isometer.spec._checks import SpecError, number, one_of, whole
from isometer.spec._norm import Norm
from isometer.spec._program import Shape
from isometer.spec._schedule import PowerLaw, Schedule, schedule_record
from isometer.spec._spec import Spec
from isometer.spec._steps import WEIGHT_LAWS, Step

LayerStep = Literal["weights", "residual", "norm", "activation"]
"""The type of a step of a layer: weights, residual, norm or activation."""
PRE_NORM: tuple[LayerStep, ...] = ("weights", "norm", "activation")
"""The order of a layer with the norm before the activation, the default."""
POST_NORM: tuple[LayerStep, ...] = ("weights", "activation", "norm")
"""The order of a layer with the norm after the activation."""


@dataclass(frozen=True, eq=False, repr=False)
class Chain(Spec):
    """A random network that is one layer repeated; `isometer.spec` says what a layer is, `Spec(…)` makes it.

    Args:
        width: features of every layer, or one number per layer.
        depth: number of weight layers.
        activation: φ as text for `isometer.activation`, or `"import:package.module:function"` for a callable.
        norm: a `Norm`, a name for `Norm.named`, or None.
        weights: the law of W. With variance v: `gaussian` and `uniform` v = gain²/fan_in, `he` v = 2 gain²/fan_in,
            `xavier-normal` and `xavier-uniform` v = 2 gain²/(fan_in + fan_out), `pytorch` U(±gain/√fan_in),
            `asymmetric` U(0, 2 gain/√fan_in), `orthogonal` gain times a Haar matrix (its rows or columns if not
            square), `orthogonalized-xavier` a Gaussian Xavier draw U diag(s) Vᵀ turned into mean(s) U Vᵀ.
        gain: factor of the weights; a number, one per layer, or a `PowerLaw`.
        weight_scaling: `"unit"` drops the fan_in from `gaussian` and `uniform`: v = gain².
        bias_variance: variance of the Gaussian biases.
        residual: γ, `inf` for no skip; a number, one per layer, or a `PowerLaw`.
        activation_gain: α_ℓ; a number, one per layer, or a `PowerLaw`.
        order: the order of the steps.
        scale: factor at the end of the layer, a number or `"1/sqrt(width)"` of the layer's own width.
        input_width: features of the batch; those of the first layer by default.

    Example:
        >>> spec = Spec(width=64, depth=3, activation="tanh", norm="batch", weights="orthogonal")
        >>> spec.widths, spec.operations
        ((64, 64, 64), ('weights', 'norm', 'activation'))
        >>> Spec.from_json(spec.to_json()) == spec
        True

    Implements: the recurrences of all five papers; the module lists them.
    """

    width: int | tuple[int, ...]
    depth: int | None = None
    activation: str = "relu"
    norm: Norm | None = None
    weights: str = "gaussian"
    gain: Schedule = 1.0
    weight_scaling: Literal["fan_in", "unit"] = "fan_in"
    bias_variance: float = 0.0
    residual: Schedule = math.inf
    activation_gain: Schedule = 1.0
    order: tuple[LayerStep, ...] = PRE_NORM
    scale: float | Literal["1/sqrt(width)"] = 1.0
    input_width: int | None = None

    def __post_init__(self) -> None:
        def put(name: str, value: Any) -> None:  # the one way into a frozen value
            object.__setattr__(self, name, value)

        put("width", self._checked_width())
        depth = len(self.width) if isinstance(self.width, tuple) else self.depth
        put("depth", whole(depth, "depth", "pass the number of weight layers"))
        put("activation", activation_text(self.activation))
        norm: Any = self.norm
        if isinstance(norm, str):
            put("norm", Norm.named(norm))
        elif norm is not None and not isinstance(norm, Norm):
            raise SpecError(f"norm is {norm!r}; expected a Norm, a name or None — pass norm='batch', for example")
        one_of(self.weights, WEIGHT_LAWS, "weights")
        one_of(self.weight_scaling, ("fan_in", "unit"), "weight_scaling")
        if self.weight_scaling == "unit" and self.weights not in ("gaussian", "uniform"):
            raise SpecError(
                f"weight_scaling='unit' with weights={self.weights!r}; expected gaussian or uniform weights, the other "
                "laws set their own variance — use gain"
            )
        for name in ("gain", "residual", "activation_gain"):
            put(name, self._checked_schedule(name))
        put("bias_variance", number(self.bias_variance, "bias_variance", low=0.0))
        put("order", self._checked_order())
        if self.scale != "1/sqrt(width)":
            put("scale", number(self.scale, "scale"))
        if self.input_width is None:
            put("input_width", self.width[0] if isinstance(self.width, tuple) else self.width)
        put("input_width", whole(self.input_width, "input_width", "pass the number of features of the batch"))
        self._check_together()

    def _checked_width(self) -> int | tuple[int, ...]:
        fix = "pass the number of features of a layer"
        given: Any = self.width
        if isinstance(given, Sequence) and not isinstance(given, str):
            widths = tuple(whole(w, "width", fix) for w in given)
            if not widths:
                raise SpecError(f"width is empty; expected one number per layer — {fix}")
            if self.depth is not None and self.depth != len(widths):
                raise SpecError(
                    f"width has {len(widths)} numbers, depth is {self.depth}; expected the same number — drop depth"
                )
            return widths
        return whole(given, "width", fix)

    def _checked_schedule(self, name: str) -> Schedule:
        value = getattr(self, name)
        if isinstance(value, PowerLaw):
            for layer in (1, self.layers):  # monotone in between
                number(value.at(layer, self.layers), f"{name} at layer {layer}")
            return value
        infinite = name == "residual"
        if isinstance(value, Sequence) and not isinstance(value, str):
            numbers = tuple(number(v, name, infinite=infinite) for v in value)
            if len(numbers) != self.layers:
                raise SpecError(
                    f"{name} has {len(numbers)} numbers; expected {self.layers}, one per layer — or pass one"
                )
            return numbers
        return number(value, name, infinite=infinite)

    def _checked_order(self) -> tuple[LayerStep, ...]:
        order = tuple(self.order) if isinstance(self.order, Sequence) else (self.order,)
        steps = [step for step in order if step != "residual"]
        if sorted(map(str, steps)) != sorted(PRE_NORM) or order.count("residual") > 1:
            raise SpecError(
                f"order is {order}; expected 'weights', 'norm' and 'activation' once each, 'residual' at most once — "
                f"the usual one is {PRE_NORM}"
            )
        if "residual" in order and order.index("residual") < order.index("weights"):
            raise SpecError(f"order is {order}; expected 'residual' after 'weights', whose output it adds to the input")
        return order

    def _check_together(self) -> None:
        own = set(self.width) if isinstance(self.width, tuple) else {self.width}
        if self.has_skip and own != {self.input_width}:
            widths = sorted({self.input_width, *own})  # type: ignore[type-var]
            raise SpecError(
                f"a residual branch adds a layer's input to its output, but the widths are {widths}; expected equal "
                "widths — pass one width for input and layers, or residual=inf"
            )
        if self.norm is not None and self.norm.over == "groups":
            odd = sorted(w for w in own if w % self.norm.groups)
            if odd:
                raise SpecError(
                    f"width {odd[0]} does not split into {self.norm.groups} groups; expected a multiple — change either"
                )

    # --- as a composition ---------------------------------------------------------------------------------------------

    @cached_property
    def composition(self) -> tuple[Step, ...]:
        """The layer, repeated."""
        return steps_of(self)

    @property
    def shape(self) -> Shape:
        """Features of the input."""
        assert self.input_width is not None
        return Shape(self.input_width)

    def _fields(self) -> tuple[Any, ...]:
        return tuple(getattr(self, field.name) for field in fields(self))

    def __eq__(self, other: object) -> bool:
        # equal fields are quick to see; other fields may describe the same network
        return (isinstance(other, Chain) and self._fields() == other._fields()) or super().__eq__(other)

    __hash__ = Spec.__hash__

    # --- reading it ---------------------------------------------------------------------------------------------------

    @cached_property
    def layers(self) -> int:
        """The depth L, a whole number.

        Example:
            >>> Spec(width=(8, 4)).layers
            2
        """
        assert self.depth is not None
        return self.depth

    @cached_property
    def widths(self) -> tuple[int, ...]:
        """The width of each layer, the input left out.

        Example:
            >>> Spec(width=8, depth=2).widths
            (8, 8)
        """
        return self.width if isinstance(self.width, tuple) else (self.width,) * self.layers

    @cached_property
    def fan_in(self) -> tuple[int, ...]:
        """The number of features that enter each layer.

        Example:
            >>> Spec(width=(8, 4), input_width=3).fan_in
            (3, 8)
        """
        assert self.input_width is not None
        return (self.input_width, *self.widths[:-1])

    @cached_property
    def has_skip(self) -> bool:
        """Whether some layer adds its input: γ < ∞.

        Example:
            >>> Spec(width=8, depth=2, residual=0.1).has_skip
            True
        """
        if isinstance(self.residual, tuple):
            return any(map(math.isfinite, self.residual))
        return isinstance(self.residual, PowerLaw) or math.isfinite(self.residual)

    @cached_property
    def steps(self) -> tuple[LayerStep, ...]:
        """All four steps in their order, those included that do nothing.

        Example:
            >>> Spec(width=8, depth=2).steps
            ('weights', 'residual', 'norm', 'activation')
        """
        if "residual" in self.order:
            return self.order
        after = self.order.index("weights") + 1
        return (*self.order[:after], "residual", *self.order[after:])

    @cached_property
    def operations(self) -> tuple[LayerStep, ...]:
        """The steps a layer really takes, in order.

        Example:
            >>> Spec(width=8, depth=2, residual=0.1).operations
            ('weights', 'residual', 'activation')
        """
        absent = {"norm": self.norm is None, "residual": not self.has_skip, "activation": self.is_linear}
        return tuple(step for step in self.steps if not absent.get(step, False))

    @cached_property
    def is_linear(self) -> bool:
        """Whether the activation step does nothing.

        Example:
            >>> Spec(width=8, depth=2, activation="identity").is_linear
            True
        """
        return self.phi == activation("identity") and self.activation_gain == 1.0

    @cached_property
    def phi(self) -> Activation:
        """The activation itself.

        Example:
            >>> Spec(width=8, depth=2).phi
            Activation('relu')
        """
        return resolved(self.activation)

    def at(self, name: Literal["gain", "residual", "activation_gain"], layer: int) -> float:
        """The value of a schedule at a layer, counted from 1.

        Example:
            >>> Spec(width=8, depth=4, residual=PowerLaw(depth=-0.5)).at("residual", 1)
            0.5
        """
        value: Schedule = getattr(self, name)
        if isinstance(value, PowerLaw):
            return value.at(layer, self.layers)
        return value[layer - 1] if isinstance(value, tuple) else value

    def output_scale(self, layer: int) -> float:
        """The factor at the end of a layer, counted from 1.

        Example:
            >>> Spec(width=4, depth=1, scale="1/sqrt(width)").output_scale(1)
            0.5
        """
        return 1 / math.sqrt(self.widths[layer - 1]) if isinstance(self.scale, str) else self.scale

    @cached_property
    def homogeneity(self) -> Literal[0, 1] | None:
        """How a layer scales with its input: `layer(c H) = c^degree layer(H)` for c > 0; None if no degree fits.

        1 for positively homogeneous activations without rescaling, ε and bias; 0 where a normalisation removes the
        scale. Chains of degree 1 are simulated with their norm apart, and do not overflow.

        Example:
            >>> Spec(width=8, depth=2).homogeneity, Spec(width=8, depth=2, norm="batch").homogeneity
            (1, 0)
            >>> Spec(width=8, depth=2, activation="tanh").homogeneity is None
            True
        """
        degree: Literal[0, 1] = 1
        for step in self.operations:
            if step == "weights" and self.bias_variance > 0 and degree == 1:
                return None
            if step == "residual" and degree == 0:
                return None
            if step == "norm" and self.norm is not None and degree == 1:
                if self.norm.eps > 0 or (not self.norm.rescale and self.norm.shift != 0):
                    return None
                degree = 0 if self.norm.rescale else 1
            if step == "activation" and degree == 1 and not positively_homogeneous(self.phi):
                return None
        return degree

    # --- JSON ---------------------------------------------------------------------------------------------------------

    def to_json(self) -> str:
        """The spec as JSON; γ = ∞ is null.

        Example:
            >>> '"weights": "gaussian"' in Spec(width=8, depth=2).to_json()
            True
        """
        record: dict[str, Any] = {field.name: getattr(self, field.name) for field in fields(self)}
        record["norm"] = None if self.norm is None else asdict(self.norm)
        for name in ("gain", "residual", "activation_gain"):
            record[name] = schedule_record(record[name])
        if isinstance(self.width, tuple):
            del record["depth"]
        return json.dumps(record, allow_nan=False)

    def replace(self, **changes: Any) -> Chain:
        """The same spec with some fields changed; a changed width moves an input width that equalled it.

        Example:
            >>> Spec(width=8, depth=2).replace(width=16).fan_in
            (16, 16)
        """
        if "width" in changes and "input_width" not in changes and self.input_width == self.widths[0]:
            changes["input_width"] = None
        if isinstance(changes.get("width"), tuple | list) and "depth" not in changes:
            changes["depth"] = None
        return replace(self, **changes)


def chain_only(spec: Spec, what: str) -> Chain:
    """The chain that a spec is, for what covers chains only.

    Raises:
        SpecError: it is another composition.

    Example:
        >>> chain_only(Spec("input(8) > repeat(dense > act('relu'), 3)"), "this").depth
        3
    """
    if not isinstance(spec, Chain):
        raise SpecError(
            f"{what} covers one layer repeated; got {spec} — pass a chain, such as Spec(width=64, depth=10)"
        )
    return spec
