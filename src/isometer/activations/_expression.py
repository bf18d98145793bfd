"""The expression tree behind every activation.

One tree, three uses: it evaluates on NumPy arrays, it evaluates differentiably on torch tensors (through the
namespace of the tensor it is given; torch is never imported here), and it differentiates symbolically. It also knows
where it is not smooth: `kink_equations` lists the expressions whose zeros are the kinks.

Equal expressions are one object, so that a nested formula is a graph with shared parts, not a tree that doubles with
every level; every function here visits a part once.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from importlib import import_module
from types import ModuleType
from typing import Any, ClassVar
from weakref import WeakValueDictionary

import numpy as np

Array = Any  # a NumPy array or a torch tensor


class _Interned(type):
    """Makes one object per value: equality of expressions is identity, and hashing costs nothing."""

    _known: ClassVar[WeakValueDictionary[Any, Any]] = WeakValueDictionary()  # weak: what has no reference goes

    def __call__(cls, *fields: Any) -> Any:
        key = (cls, *fields)
        found = cls._known.get(key)
        if found is None:
            found = super().__call__(*fields)
            cls._known[key] = found
        return found


@dataclass(frozen=True, eq=False)
class Expression(metaclass=_Interned):
    """A node of the tree: a closed set of four final classes below."""

    def __add__(self, other: Expression | float) -> Expression:
        return call("add", self, as_expression(other))

    def __radd__(self, other: float) -> Expression:
        return call("add", as_expression(other), self)

    def __sub__(self, other: Expression | float) -> Expression:
        return call("subtract", self, as_expression(other))

    def __rsub__(self, other: float) -> Expression:
        return call("subtract", as_expression(other), self)

    def __mul__(self, other: Expression | float) -> Expression:
        return call("multiply", self, as_expression(other))

    def __rmul__(self, other: float) -> Expression:
        return call("multiply", as_expression(other), self)

    def __truediv__(self, other: Expression | float) -> Expression:
        return call("divide", self, as_expression(other))

    def __rtruediv__(self, other: float) -> Expression:
        return call("divide", as_expression(other), self)

    def __neg__(self) -> Expression:
        return call("negative", self)

    def __pow__(self, exponent: float) -> Expression:
        return call("power", self, Constant(float(exponent)))


@dataclass(frozen=True, eq=False)
class Variable(Expression):
    """The argument x."""

    def __str__(self) -> str:
        return "x"


@dataclass(frozen=True, eq=False)
class Constant(Expression):
    """A number."""

    value: float

    def __str__(self) -> str:
        return f"{self.value:.12g}"


@dataclass(frozen=True, eq=False)
class FunctionCall(Expression):
    """A primitive applied to sub-expressions."""

    name: str
    arguments: tuple[Expression, ...]

    def __str__(self) -> str:
        if size(self) > _LONGEST:
            return f"{self.name}(…)"
        symbol = {"add": " + ", "subtract": " - ", "multiply": "*", "divide": "/", "power": "**"}.get(self.name)
        parts = [_bracketed(argument, self.name, i) for i, argument in enumerate(self.arguments)]
        if symbol is not None:
            return symbol.join(parts)
        if self.name == "negative":
            return "-" + parts[0]
        return f"{self.name}({', '.join(str(argument) for argument in self.arguments)})"


@dataclass(frozen=True, eq=False)
class Opaque(Expression):
    """A foreign elementwise function applied to a sub-expression; `order` counts derivatives taken of it."""

    function: Any  # an isometer.activations._foreign.ForeignFunction
    argument: Expression
    order: int = 0

    def __str__(self) -> str:
        return f"{self.function.name}{chr(39) * self.order}({self.argument})"


_LONGEST = 300  # an expression of more operations is not written out


@lru_cache(maxsize=65536)
def size(expression: Expression) -> int:
    """Number of operations when written out, shared parts counted every time."""
    if isinstance(expression, FunctionCall):
        return 1 + sum(size(argument) for argument in expression.arguments)
    return 1 + size(expression.argument) if isinstance(expression, Opaque) else 1


X = Variable()
ZERO, ONE = Constant(0.0), Constant(1.0)
_PRECEDENCE = {"add": 1, "subtract": 1, "negative": 2, "multiply": 3, "divide": 3, "power": 4}


def _bracketed(argument: Expression, parent: str, position: int) -> str:
    """Text of an operand, in brackets where the parent binds tighter."""
    outer = _PRECEDENCE.get(parent, 0)
    if isinstance(argument, Constant):
        inner = 2 if argument.value < 0 else 9
    else:
        inner = _PRECEDENCE.get(argument.name, 9) if isinstance(argument, FunctionCall) else 9
    # the right operand of - and / and the base of ** need brackets at equal strength too
    tie = (parent in ("subtract", "divide") and position == 1) or parent == "power"
    return f"({argument})" if inner < outer or (tie and inner == outer) else str(argument)


def as_expression(value: Expression | float) -> Expression:
    return value if isinstance(value, Expression) else Constant(float(value))


@dataclass(frozen=True)
class Primitive:
    """What the tree knows of one function: its evaluations, partial derivatives and the equations of its kinks."""

    numpy: Callable[..., Any]
    torch: Callable[..., Any]  # (torch, *tensors)
    partials: Callable[..., tuple[Expression, ...]]
    kinks: Callable[..., tuple[Expression, ...]] = lambda *_: ()
    arity: int = 1


def _smooth(numpy: Callable[..., Any], torch_path: str, derivative: Callable[[Expression], Expression]) -> Primitive:
    """A smooth function of one argument with its torch twin named by attribute path."""

    def evaluate(torch: ModuleType, u: Any) -> Any:
        function: Any = torch
        for part in torch_path.split("."):
            function = getattr(function, part)
        return function(u)

    return Primitive(numpy, evaluate, lambda u: (derivative(u),))


def _power_partials(u: Expression, k: Expression) -> tuple[Expression, ...]:
    assert isinstance(k, Constant)
    return (k.value * u ** (k.value - 1.0), ZERO)


def _power_kinks(u: Expression, k: Expression) -> tuple[Expression, ...]:
    assert isinstance(k, Constant)
    return () if k.value >= 0 and k.value.is_integer() else (u,)


def _numpy_power(u: Any, k: float) -> Any:
    return np.power(u, int(k)) if float(k).is_integer() and 0 <= k < 64 else np.power(u, k)


def _step(u: Any) -> Any:
    return np.where(np.isnan(u), np.nan, (u >= 0).astype(float))  # a comparison alone would hide a nan


def _edge(u: Expression) -> tuple[Expression, ...]:
    return (u,)


def _special(name: str) -> Callable[[Array], Array]:
    """A function of `scipy.special`, which takes longer to import than everything else here: loaded on first use."""
    return lambda u: getattr(import_module("scipy.special"), name)(u)


PRIMITIVES: dict[str, Primitive] = {
    "add": Primitive(np.add, lambda t, a, b: a + b, lambda a, b: (ONE, ONE), arity=2),
    "subtract": Primitive(np.subtract, lambda t, a, b: a - b, lambda a, b: (ONE, Constant(-1.0)), arity=2),
    "multiply": Primitive(np.multiply, lambda t, a, b: a * b, lambda a, b: (b, a), arity=2),
    "divide": Primitive(
        np.divide, lambda t, a, b: a / b, lambda a, b: (1.0 / b, -a / (b * b)), lambda a, b: (b,), arity=2
    ),
    "power": Primitive(_numpy_power, lambda t, u, k: u**k, _power_partials, _power_kinks, arity=2),
    "negative": Primitive(np.negative, lambda t, u: -u, lambda u: (Constant(-1.0),)),
    "exp": _smooth(np.exp, "exp", lambda u: call("exp", u)),
    "expm1": _smooth(np.expm1, "expm1", lambda u: call("exp", u)),
    "tanh": _smooth(np.tanh, "tanh", lambda u: 1.0 - call("tanh", u) ** 2),
    # σ(u)σ(−u), since σ(1 − σ) cancels for large u
    "sigmoid": _smooth(_special("expit"), "sigmoid", lambda u: call("sigmoid", u) * call("sigmoid", -u)),
    "sin": _smooth(np.sin, "sin", lambda u: call("cos", u)),
    "cos": _smooth(np.cos, "cos", lambda u: -call("sin", u)),
    "sinh": _smooth(np.sinh, "sinh", lambda u: call("cosh", u)),
    "cosh": _smooth(np.cosh, "cosh", lambda u: call("sinh", u)),
    "arctan": _smooth(np.arctan, "arctan", lambda u: 1.0 / (1.0 + u * u)),
    "arcsinh": _smooth(np.arcsinh, "arcsinh", lambda u: (1.0 + u * u) ** -0.5),
    "erf": _smooth(_special("erf"), "erf", lambda u: (2.0 / math.sqrt(math.pi)) * call("exp", -(u * u))),
    "ndtr": _smooth(_special("ndtr"), "special.ndtr", lambda u: call("exp", -(u * u) / 2.0) / math.sqrt(2 * math.pi)),
    "log1p": Primitive(np.log1p, lambda t, u: t.log1p(u), lambda u: (1.0 / (1.0 + u),), lambda u: (1.0 + u,)),
    "log": Primitive(np.log, lambda t, u: t.log(u), lambda u: (1.0 / u,), _edge),
    "sqrt": Primitive(np.sqrt, lambda t, u: t.sqrt(u), lambda u: (0.5 / call("sqrt", u),), _edge),
    "softplus": Primitive(
        lambda u: np.logaddexp(u, 0.0),
        lambda t, u: t.logaddexp(u, t.zeros_like(u)),
        lambda u: (call("sigmoid", u),),
    ),
    "relu": Primitive(lambda u: np.maximum(u, 0.0), lambda t, u: t.relu(u), lambda u: (call("step", u),), _edge),
    "abs": Primitive(np.abs, lambda t, u: t.abs(u), lambda u: (call("sign", u),), _edge),
    "step": Primitive(_step, lambda t, u: (u >= 0).to(u.dtype), lambda u: (ZERO,), _edge),
    "sign": Primitive(np.sign, lambda t, u: t.sign(u), lambda u: (ZERO,), _edge),
    "maximum": Primitive(
        np.maximum,
        lambda t, a, b: t.maximum(a, b),
        lambda a, b: (call("step", a - b), 1.0 - call("step", a - b)),
        lambda a, b: (a - b,),
        arity=2,
    ),
    "minimum": Primitive(
        np.minimum,
        lambda t, a, b: t.minimum(a, b),
        lambda a, b: (call("step", b - a), 1.0 - call("step", b - a)),
        lambda a, b: (a - b,),
        arity=2,
    ),
}
# Functions a user may write in an expression; the arithmetic ones are written with operators instead.
FUNCTIONS = tuple(
    name for name in PRIMITIVES if name not in ("add", "subtract", "multiply", "divide", "power", "negative")
)


def call(name: str, *arguments: Expression) -> Expression:
    """Build a node, folding constants and the neutral elements of arithmetic (keeps derivatives small)."""
    if all(isinstance(argument, Constant) for argument in arguments):
        values = [argument.value for argument in arguments if isinstance(argument, Constant)]
        with np.errstate(all="ignore"):
            return Constant(float(PRIMITIVES[name].numpy(*(np.float64(v) for v in values))))
    if name == "add":
        a, b = arguments
        if a == ZERO:
            return b
        if b == ZERO:
            return a
    elif name == "subtract" and arguments[1] == ZERO:
        return arguments[0]
    elif name == "multiply":
        a, b = arguments
        if ZERO in (a, b):
            return ZERO
        if a == ONE:
            return b
        if b == ONE:
            return a
    elif name == "divide" and arguments[1] == ONE:
        return arguments[0]
    elif name == "divide" and arguments[0] == ZERO:
        return ZERO
    elif name == "power":
        if arguments[1] == ONE:
            return arguments[0]
        if arguments[1] == ZERO:
            return ONE
    return FunctionCall(name, arguments)


def evaluate(expression: Expression, x: Array) -> Array:
    """Value of the tree at a NumPy array or a torch tensor, of the same shape as `x`."""
    if type(x).__module__.partition(".")[0] == "torch":
        torch = sys.modules["torch"]
        value = _evaluate(expression, x, torch, {})
        # a tree without x gives a number
        return value if getattr(value, "shape", None) == x.shape else torch.full_like(x, float(value))
    with np.errstate(all="ignore"):
        return np.broadcast_to(_evaluate(expression, x, None, {}), np.shape(x))


def evaluate_all(expressions: Sequence[Expression], x: Array) -> list[Array]:
    """Values of several trees at one NumPy array; what they share is computed once."""
    known: dict[Expression, Any] = {}
    with np.errstate(all="ignore"):
        return [np.broadcast_to(_evaluate(expression, x, None, known), np.shape(x)) for expression in expressions]


def _evaluate(expression: Expression, x: Any, torch: ModuleType | None, known: dict[Expression, Any]) -> Any:
    """One value per distinct part; `torch` is None for NumPy."""
    if isinstance(expression, Variable):
        return x
    if isinstance(expression, Constant):
        return expression.value
    if expression in known:
        return known[expression]
    if isinstance(expression, Opaque):
        inner = _evaluate(expression.argument, x, torch, known)
        foreign, order = expression.function, expression.order
        value = foreign.evaluate(np.asarray(inner), order) if torch is None else foreign.evaluate_torch(inner, order)
    else:
        assert isinstance(expression, FunctionCall)
        values = [_evaluate(argument, x, torch, known) for argument in expression.arguments]
        if torch is None:
            value = PRIMITIVES[expression.name].numpy(*values)
        else:
            if expression.name in ("maximum", "minimum"):
                # torch.maximum takes no numbers
                values = [v if hasattr(v, "shape") else torch.full_like(x, v) for v in values]
            value = PRIMITIVES[expression.name].torch(torch, *values)
    known[expression] = value
    return value


@lru_cache(maxsize=65536)
def differentiate(expression: Expression) -> Expression:
    """Derivative almost everywhere (jumps contribute nothing; see `Activation.jumps` for those)."""
    if isinstance(expression, Variable):
        return ONE
    if isinstance(expression, Constant):
        return ZERO
    if isinstance(expression, Opaque):
        inner = differentiate(expression.argument)
        return call("multiply", Opaque(expression.function, expression.argument, expression.order + 1), inner)
    assert isinstance(expression, FunctionCall)
    total: Expression = ZERO
    partials = PRIMITIVES[expression.name].partials(*expression.arguments)
    for argument, partial in zip(expression.arguments, partials, strict=True):
        inner = differentiate(argument)
        if inner != ZERO and partial != ZERO:
            total = total + partial * inner
    return total


@lru_cache(maxsize=65536)
def substitute(expression: Expression, inner: Expression) -> Expression:
    """The composition: every x replaced by `inner`."""
    if isinstance(expression, Variable):
        return inner
    if isinstance(expression, Constant):
        return expression
    if isinstance(expression, Opaque):
        return Opaque(expression.function, substitute(expression.argument, inner), expression.order)
    assert isinstance(expression, FunctionCall)
    return call(expression.name, *(substitute(argument, inner) for argument in expression.arguments))


def walk(expression: Expression) -> Iterator[Expression]:
    """All distinct parts, the root first."""
    seen: set[Expression] = set()
    pending = [expression]
    while pending:
        node = pending.pop()
        if node in seen:
            continue
        seen.add(node)
        yield node
        if isinstance(node, FunctionCall):
            pending += reversed(node.arguments)
        elif isinstance(node, Opaque):
            pending.append(node.argument)


def kink_equations(expression: Expression) -> list[Expression]:
    """Expressions whose real zeros contain every point where the tree is not smooth (opaque functions apart)."""
    found: dict[Expression, None] = {}
    for node in walk(expression):
        if isinstance(node, FunctionCall):
            for equation in PRIMITIVES[node.name].kinks(*node.arguments):
                if not isinstance(equation, Constant):
                    found[equation] = None
    return list(found)


@lru_cache(maxsize=65536)
def as_affine(expression: Expression) -> tuple[float, float] | None:
    """(slope, intercept) when the expression is affine in x by construction, else None."""
    if isinstance(expression, Variable):
        return 1.0, 0.0
    if isinstance(expression, Constant):
        return 0.0, expression.value
    if not isinstance(expression, FunctionCall):
        return None
    parts = [as_affine(argument) for argument in expression.arguments]
    if any(part is None for part in parts):
        return None
    first = parts[0]
    second = parts[1] if len(parts) > 1 else None
    assert first is not None
    if expression.name == "negative":
        return -first[0], -first[1]
    if second is None:
        return None
    if expression.name == "add":
        return first[0] + second[0], first[1] + second[1]
    if expression.name == "subtract":
        return first[0] - second[0], first[1] - second[1]
    if expression.name == "multiply" and 0.0 in (first[0], second[0]):
        if first[0] == 0.0:
            return first[1] * second[0], first[1] * second[1]
        return second[1] * first[0], second[1] * first[1]
    if expression.name == "divide" and second[0] == 0.0 and second[1] != 0.0:
        return first[0] / second[1], first[1] / second[1]
    return None


def split_affine_output(expression: Expression) -> tuple[float, float, Expression]:
    """Write the tree as scale·core + shift, peeling off outer arithmetic with constants."""
    scale, shift, core = 1.0, 0.0, expression
    while isinstance(core, FunctionCall):
        if core.name == "negative":
            scale, core = -scale, core.arguments[0]
            continue
        if len(core.arguments) != 2:
            break
        a, b = core.arguments
        if core.name == "add" and isinstance(b, Constant):
            shift, core = shift + scale * b.value, a
        elif core.name == "add" and isinstance(a, Constant):
            shift, core = shift + scale * a.value, b
        elif core.name == "subtract" and isinstance(b, Constant):
            shift, core = shift - scale * b.value, a
        elif core.name == "subtract" and isinstance(a, Constant):
            shift, scale, core = shift + scale * a.value, -scale, b
        elif core.name == "multiply" and isinstance(a, Constant):
            scale, core = scale * a.value, b
        elif core.name == "multiply" and isinstance(b, Constant):
            scale, core = scale * b.value, a
        elif core.name == "divide" and isinstance(b, Constant) and b.value != 0.0:
            scale, core = scale / b.value, a
        else:
            break
    return scale, shift, core
