"""The activations known by name, each written once as an expression."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field

from isometer.activations._activation import Activation
from isometer.activations._expression import Constant, Expression, X, call, special
from isometer.errors import ActivationError

NORMRELU_KINK = -1.5975  # the value used throughout 004
_SELU_SCALE, _SELU_ALPHA = 1.0507009873554804934193349852946, 1.6732632423543772848170429916717


def normrelu_constants(c: float = NORMRELU_KINK) -> tuple[float, float]:
    """(b, λ) that give NormReLU_c zero mean and unit second moment (004/normrelu, 004/eq-4).

    b(c) = (1 − Φ)c − p and λ(c) = [(1 − Φ)Φc² + (1 − 2Φ)pc + 1 − Φ − p²]^{−1/2} with Φ, p at c.

    Example:
        >>> from isometer.activations import normrelu_constants
        >>> b, scale = normrelu_constants(-1.5975)
        >>> round(b, 4), round(scale, 2)
        (-1.6209, 1.05)
    """
    below, above = float(special.ndtr(c)), float(special.ndtr(-c))
    p = math.exp(-c * c / 2) / math.sqrt(2 * math.pi)
    b = above * c - p
    variance = above * below * c * c + (1 - 2 * below) * p * c + above - p * p
    if not variance > 1e-14:
        raise ActivationError(f"normrelu needs a kink where the Gaussian still has mass; got c = {c!r}, use |c| ≤ 6")
    return b, variance**-0.5


@dataclass(frozen=True)
class Entry:
    """One row of the registry."""

    name: str
    formula: str
    build: Callable[..., Expression]
    defaults: tuple[float, ...] = ()
    aliases: tuple[str, ...] = field(default=())


def _ramp(low: float, high: float, inner: Expression) -> Expression:
    if not low < high:
        raise ActivationError(f"hardtanh needs min < max; got {low!r} and {high!r}")
    return call("minimum", call("maximum", inner, Constant(low)), Constant(high))


def _elu(alpha: float, scale: float = 1.0) -> Expression:
    body = call("relu", X) + alpha * call("expm1", call("minimum", X, Constant(0.0)))
    return scale * body


def _celu(alpha: float) -> Expression:
    if not alpha > 0:
        raise ActivationError(f"celu needs alpha > 0; got {alpha!r}")
    return call("relu", X) + alpha * call("expm1", call("minimum", X, Constant(0.0)) / alpha)


def _softplus(beta: float) -> Expression:
    if not beta > 0:
        raise ActivationError(f"softplus needs beta > 0; got {beta!r}")
    return call("softplus", beta * X) / beta


def _normrelu(c: float) -> Expression:
    b, scale = normrelu_constants(c)
    return scale * (call("relu", X - c) + b)


_GELU_TANH = math.sqrt(2 / math.pi) * (X + 0.044715 * X**3)
_HARD_SIGMOID = _ramp(0.0, 1.0, X / 6.0 + 0.5)

ENTRIES: dict[str, Entry] = {
    entry.name: entry
    for entry in (
        Entry("identity", "x", lambda: X, aliases=("linear",)),
        Entry("relu", "max(x, 0)", lambda: call("relu", X)),
        Entry("leaky_relu", "max(x, 0) + a·min(x, 0)", lambda a: call("relu", X) - a * call("relu", -X), (0.01,)),
        Entry("abs", "|x|", lambda: call("abs", X)),
        Entry("step", "1 if x ≥ 0 else 0", lambda: call("step", X), aliases=("heaviside",)),
        Entry("sign", "sign(x)", lambda: call("sign", X)),
        Entry("relu2", "max(x, 0)²", lambda: call("relu", X) ** 2, aliases=("relu_squared", "squared_relu", "relu²")),
        Entry("square", "x²", lambda: X**2),
        Entry("cube", "x³", lambda: X**3),
        Entry("elu", "x if x > 0 else a(eˣ − 1)", _elu, (1.0,)),
        Entry("selu", "1.0507·elu(x; 1.6733)", lambda: _elu(_SELU_ALPHA, _SELU_SCALE)),
        Entry("celu", "x if x > 0 else a(e^{x/a} − 1)", _celu, (1.0,)),
        Entry("gelu", "x·Φ(x)", lambda: X * call("ndtr", X)),
        Entry("gelu_tanh", "½x(1 + tanh(√(2/π)(x + 0.044715x³)))", lambda: 0.5 * X * (1.0 + call("tanh", _GELU_TANH))),
        Entry("silu", "x·sigmoid(x)", lambda: X * call("sigmoid", X), aliases=("swish",)),
        Entry("mish", "x·tanh(softplus(x))", lambda: X * call("tanh", call("softplus", X))),
        Entry("hardswish", "x·clip(x/6 + ½, 0, 1)", lambda: X * _HARD_SIGMOID),
        Entry("hardtanh", "clip(x, min, max)", lambda low, high: _ramp(low, high, X), (-1.0, 1.0)),
        Entry("softplus", "log(1 + e^{bx})/b", _softplus, (1.0,)),
        Entry("softsign", "x/(1 + |x|)", lambda: X / (1.0 + call("abs", X))),
        Entry("sigmoid", "1/(1 + e⁻ˣ)", lambda: call("sigmoid", X), aliases=("logistic",)),
        Entry("hardsigmoid", "clip(x/6 + ½, 0, 1)", lambda: _HARD_SIGMOID),
        Entry("tanh", "tanh(x)", lambda: call("tanh", X)),
        Entry("arctan", "arctan(x)", lambda: call("arctan", X), aliases=("atan",)),
        Entry("sin", "sin(x)", lambda: call("sin", X)),
        Entry("cos", "cos(x)", lambda: call("cos", X)),
        Entry("erf", "erf(x)", lambda: call("erf", X)),
        Entry("exp", "eˣ", lambda: call("exp", X)),
        Entry("gaussian", "exp(−x²)", lambda: call("exp", -(X * X)), aliases=("gaussian_bump", "bump")),
        Entry("normrelu", "λ(c)·(max(x − c, 0) + b(c))", _normrelu, (NORMRELU_KINK,)),
    )
}
"""The built-in activations by name: formula, parameters, aliases."""
ALIASES = {alias: entry.name for entry in ENTRIES.values() for alias in entry.aliases}
"""Other names of built-in activations, each with the name it stands for."""


def registry() -> list[str]:
    """Names of all built-in activations.

    Example:
        >>> from isometer.activations import registry
        >>> "gelu" in registry()
        True
    """
    return list(ENTRIES)


def build(name: str, *parameters: float) -> Activation:
    """A registry activation with its parameters (defaults filled in)."""
    entry = ENTRIES[ALIASES.get(name, name)]
    if len(parameters) > len(entry.defaults):
        takes = f"at most {len(entry.defaults)}" if entry.defaults else "no"
        raise ActivationError(f"{entry.name} takes {takes} parameter(s); got {len(parameters)}")
    values = (*parameters, *entry.defaults[len(parameters) :])
    text = ", ".join(f"{value:.12g}" for value in parameters)
    return Activation(entry.build(*values), f"{entry.name}({text})" if parameters else entry.name)
