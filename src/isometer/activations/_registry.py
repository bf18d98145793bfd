"""The activations known by name, each written once: its expression, its other names and how torch writes it.

What torch calls them is text, so that torch is not imported; `names.py` compares it with torch's own objects.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

from isometer.activations._activation import Activation
from isometer.activations._expression import Constant, Expression, X, call
from isometer.errors import ActivationError

Builds = Literal["networks", "specs", "nothing"]
NORMRELU_KINK = -1.5975
"""The kink c of NormReLU that 004 uses throughout."""
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
    from scipy.special import ndtr  # slow to load, seldom needed

    # 1 − Φ(c) as Φ(−c), without cancellation
    below, above = float(ndtr(c)), float(ndtr(-c))
    p = math.exp(-c * c / 2) / math.sqrt(2 * math.pi)
    b = above * c - p
    variance = above * below * c * c + (1 - 2 * below) * p * c + above - p * p
    if not variance > 1e-14:
        raise ActivationError(f"normrelu needs a kink where the Gaussian still has mass; got c = {c!r}, use |c| ≤ 6")
    return b, variance**-0.5


@dataclass(frozen=True)
class TorchForm:
    """One way in which torch writes an activation.

    Attributes:
        module: the class, as a name in `torch.nn` or with its full path.
        function: the name in `torch`, `torch.nn.functional` or `torch.Tensor`, or a function of one's own with its full
            path.
        arguments: attributes of the module that are, in this order, the parameters of the activation. The function
            takes them in the same order after its input.
        only: the form holds where the arguments have these values; they are not parameters then.
        values: parameters of the activation that this form has fixed.
        arithmetic: models also calculate with the function, so the doctor does not take a call alone for an activation.
        builds: what is built with the module: all networks, those of a spec, or nothing. The others evaluate the
            expression, which rounds differently.

    Example:
        >>> from isometer.activations import ENTRIES
        >>> [(form.module, form.function, form.values) for form in ENTRIES["hardtanh"].torch]
        [('Hardtanh', 'hardtanh', ()), ('ReLU6', 'relu6', (0.0, 6.0))]
    """

    module: str = ""
    function: str = ""
    arguments: tuple[str, ...] = ()
    only: tuple[object, ...] = ()
    values: tuple[float, ...] = ()
    arithmetic: bool = False
    builds: Builds = "networks"


@dataclass(frozen=True)
class ActivationEntry:
    """One row of the registry.

    `flat(share, *parameters)` are the outputs at or beyond which |φ′| is at most `share` of its largest value, for
    activations that saturate.
    """

    name: str
    formula: str
    build: Callable[..., Expression]
    defaults: tuple[float, ...] = ()
    aliases: tuple[str, ...] = ()
    torch: tuple[TorchForm, ...] = ()
    flat: Callable[..., tuple[float, float]] | None = None


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


def _called(module: str, function: str, *arguments: str, builds: Builds = "networks") -> tuple[TorchForm, ...]:
    return (TorchForm(module, function, arguments, builds=builds),)


def _calculates(*functions: str) -> tuple[TorchForm, ...]:
    return tuple(TorchForm("", function, arithmetic=True) for function in functions)


def _tanh_ends(share: float) -> tuple[float, float]:
    end = math.sqrt(1 - share)
    return -end, end


def _sigmoid_ends(share: float) -> tuple[float, float]:
    end = math.sqrt(1 - share)
    return (1 - end) / 2, (1 + end) / 2


def _erf_ends(share: float) -> tuple[float, float]:
    end = math.erf(math.sqrt(-math.log(share)))
    return -end, end


_BUILT_IN = (
    ActivationEntry("identity", "x", lambda: X, aliases=("linear",), torch=_called("Identity", "")),
    ActivationEntry("relu", "max(x, 0)", lambda: call("relu", X), torch=_called("ReLU", "relu")),
    ActivationEntry(
        "leaky_relu",
        "max(x, 0) + a·min(x, 0)",
        lambda a: call("relu", X) - a * call("relu", -X),
        (0.01,),
        torch=_called("LeakyReLU", "leaky_relu", "negative_slope", builds="specs"),
    ),
    ActivationEntry("abs", "|x|", lambda: call("abs", X), torch=_calculates("abs", "absolute")),
    ActivationEntry("step", "1 if x ≥ 0 else 0", lambda: call("step", X), aliases=("heaviside",)),
    ActivationEntry("sign", "sign(x)", lambda: call("sign", X), torch=_calculates("sign")),
    ActivationEntry(
        "relu2", "max(x, 0)²", lambda: call("relu", X) ** 2, aliases=("relu_squared", "squared_relu", "relu²")
    ),
    ActivationEntry("square", "x²", lambda: X**2, torch=_calculates("square")),
    ActivationEntry("cube", "x³", lambda: X**3),
    ActivationEntry(
        "elu", "x if x > 0 else a(eˣ − 1)", _elu, (1.0,), torch=_called("ELU", "elu", "alpha", builds="nothing")
    ),
    ActivationEntry(
        "selu", "1.0507·elu(x; 1.6733)", lambda: _elu(_SELU_ALPHA, _SELU_SCALE), torch=_called("SELU", "selu")
    ),
    ActivationEntry(
        "celu",
        "x if x > 0 else a(e^{x/a} − 1)",
        _celu,
        (1.0,),
        torch=_called("CELU", "celu", "alpha", builds="nothing"),
    ),
    ActivationEntry(
        "gelu",
        "x·Φ(x)",
        lambda: X * call("ndtr", X),
        torch=(TorchForm("GELU", "gelu", ("approximate",), only=("none",), builds="specs"),),
    ),
    ActivationEntry(
        "gelu_tanh",
        "½x(1 + tanh(√(2/π)(x + 0.044715x³)))",
        lambda: 0.5 * X * (1.0 + call("tanh", _GELU_TANH)),
        torch=(TorchForm("GELU", "gelu", ("approximate",), only=("tanh",), builds="nothing"),),
    ),
    ActivationEntry(
        "silu",
        "x·sigmoid(x)",
        lambda: X * call("sigmoid", X),
        aliases=("swish",),
        torch=_called("SiLU", "silu", builds="specs"),
    ),
    ActivationEntry(
        "mish",
        "x·tanh(softplus(x))",
        lambda: X * call("tanh", call("softplus", X)),
        torch=_called("Mish", "mish", builds="specs"),
    ),
    ActivationEntry(
        "hardswish",
        "x·clip(x/6 + ½, 0, 1)",
        lambda: X * _HARD_SIGMOID,
        torch=_called("Hardswish", "hardswish", builds="nothing"),
    ),
    ActivationEntry(
        "hardtanh",
        "clip(x, min, max)",
        lambda low, high: _ramp(low, high, X),
        (-1.0, 1.0),
        torch=(
            *_called("Hardtanh", "hardtanh", "min_val", "max_val", builds="nothing"),
            TorchForm("ReLU6", "relu6", values=(0.0, 6.0), builds="nothing"),
        ),
        flat=lambda share, low, high: (low, high),
    ),
    ActivationEntry(
        "softplus",
        "log(1 + e^{bx})/b",
        _softplus,
        (1.0,),
        torch=(
            TorchForm("Softplus", "softplus", ("beta",), only=(1.0,), builds="specs"),
            TorchForm("Softplus", "softplus", ("beta",), builds="nothing"),
        ),
    ),
    ActivationEntry(
        "softsign",
        "x/(1 + |x|)",
        lambda: X / (1.0 + call("abs", X)),
        torch=_called("Softsign", "softsign"),
        flat=lambda share: (math.sqrt(share) - 1, 1 - math.sqrt(share)),
    ),
    ActivationEntry(
        "sigmoid",
        "1/(1 + e⁻ˣ)",
        lambda: call("sigmoid", X),
        aliases=("logistic",),
        torch=_called("Sigmoid", "sigmoid"),
        flat=_sigmoid_ends,
    ),
    ActivationEntry(
        "hardsigmoid",
        "clip(x/6 + ½, 0, 1)",
        lambda: _HARD_SIGMOID,
        torch=_called("Hardsigmoid", "hardsigmoid", builds="nothing"),
        flat=lambda share: (0.0, 1.0),
    ),
    ActivationEntry("tanh", "tanh(x)", lambda: call("tanh", X), torch=_called("Tanh", "tanh"), flat=_tanh_ends),
    ActivationEntry(
        "arctan", "arctan(x)", lambda: call("arctan", X), aliases=("atan",), torch=_calculates("arctan", "atan")
    ),
    ActivationEntry("sin", "sin(x)", lambda: call("sin", X), torch=_called("", "sin")),
    ActivationEntry("cos", "cos(x)", lambda: call("cos", X), torch=_calculates("cos")),
    ActivationEntry("erf", "erf(x)", lambda: call("erf", X), torch=_called("", "erf"), flat=_erf_ends),
    ActivationEntry("exp", "eˣ", lambda: call("exp", X), torch=_calculates("exp")),
    ActivationEntry("gaussian", "exp(−x²)", lambda: call("exp", -(X * X)), aliases=("gaussian_bump", "bump")),
    ActivationEntry(
        "normrelu",
        "λ(c)·(max(x − c, 0) + b(c))",
        _normrelu,
        (NORMRELU_KINK,),
        torch=_called("isometer.nn.NormReLU", "", "kink"),
    ),
)
UNREGISTERED = frozenset({"prelu", "rrelu", "glu", "logsigmoid", "hardshrink", "softshrink", "tanhshrink", "threshold"})
"""Functions of torch that are activations, yet not of this registry: the doctor sees them and says so."""

ENTRIES: dict[str, ActivationEntry] = {entry.name: entry for entry in _BUILT_IN}
"""The activations by name: formula, parameters, aliases, what torch calls them."""
ALIASES = {alias: entry.name for entry in _BUILT_IN for alias in entry.aliases}
"""Other names of activations, each with the name it stands for."""


def registry() -> list[str]:
    """Names of all activations.

    Example:
        >>> from isometer.activations import registry
        >>> registry()[:4]
        ['identity', 'relu', 'leaky_relu', 'abs']
    """
    return list(ENTRIES)


def written(name: str) -> str:
    """How people write an activation: `relu` as ReLU, `tanh` as it is.

    Example:
        >>> written("relu"), written("gelu"), written("tanh"), written("x*sigmoid(x)")
        ('ReLU', 'GELU', 'tanh', 'x*sigmoid(x)')
    """
    entry = ENTRIES.get(name)
    modules = [form.module for form in entry.torch if form.module] if entry is not None else []
    acronym = [one for one in modules if one.lower() == name and one != name.capitalize()]
    return acronym[0] if acronym else name


def build(name: str, *parameters: float) -> Activation:
    """A registry activation with its parameters (defaults filled in)."""
    entry = ENTRIES[ALIASES.get(name, name)]
    if len(parameters) > len(entry.defaults):
        takes = f"at most {len(entry.defaults)}" if entry.defaults else "no"
        raise ActivationError(f"{entry.name} takes {takes} parameter(s); got {len(parameters)}")
    values = (*parameters, *entry.defaults[len(parameters) :])
    text = ", ".join(f"{value:.12g}" for value in parameters)
    return Activation(entry.build(*values), f"{entry.name}({text})" if parameters else entry.name)
