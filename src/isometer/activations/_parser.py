"""Activations written as text: registry names, the algebra, and expressions in x.

The text goes through Python's grammar but is never evaluated as Python: every node is checked against a short list
(numbers, x, arithmetic, known functions) and turned into the project's own tree.
"""

from __future__ import annotations

import ast
import math
from collections.abc import Callable

from isometer.activations._activation import Activation
from isometer.activations._expression import (
    FUNCTIONS,
    PRIMITIVES,
    Constant,
    Expression,
    Variable,
    call,
    substitute,
    walk,
)
from isometer.activations._names import find
from isometer.activations._registry import ALIASES, ENTRIES, build
from isometer.errors import ActivationError, unknown_name

MAX_LENGTH = 2000
MAX_NODES = 400
MAX_DEPTH = 60
Value = Activation | Expression

_NUMBERS = {"pi": math.pi, "e": math.e}
_BINARY: dict[type[ast.operator], str] = {
    ast.Add: "add",
    ast.Sub: "subtract",
    ast.Mult: "multiply",
    ast.Div: "divide",
    ast.Pow: "power",
}
_ALGEBRA: dict[str, tuple[int, Callable[..., Activation]]] = {
    "normalized": (0, lambda f: f.normalized()),
    "centered": (0, lambda f: f.centered()),
    "unit": (0, lambda f: f.unit()),
    "derivative": (0, lambda f: f.derivative),
    "gain": (1, lambda f, g: f.gain(g)),
    "scaled": (1, lambda f, s: f.scaled(s)),
    "shifted": (1, lambda f, b: f.shifted(b)),
}
_SYNONYMS = {"normalised": "normalized", "centred": "centered", "max": "maximum", "min": "minimum", "atan": "arctan"}
_HELP = "write a registry name (see `isometer activations`), normalized(relu), gain(tanh, 0.5), or an expression in x"


def parse(text: str) -> Activation:
    """An activation from text; see `isometer.activation`."""
    if not isinstance(text, str) or not text.strip():
        raise ActivationError(f"expected the name of an activation or an expression in x; got {text!r} — {_HELP}")
    if len(text) > MAX_LENGTH:
        raise ActivationError(f"the expression has {len(text)} characters; at most {MAX_LENGTH} are accepted")
    cleaned = text.strip().replace("^", "**").replace("relu²", "relu2")  # ² may not stand in a name of Python's grammar
    try:
        tree = ast.parse(cleaned, mode="eval")
    except (SyntaxError, ValueError, MemoryError, RecursionError) as problem:
        reason = problem.msg if isinstance(problem, SyntaxError) else type(problem).__name__
        raise ActivationError(f"cannot read {text[:80]!r} as an expression: {reason} — {_HELP}") from None
    # syntax trees have nodes for operators and contexts as well
    if sum(1 for _ in ast.walk(tree)) > 2 * MAX_NODES:
        raise ActivationError(f"the expression is too large: more than {MAX_NODES} operations")
    try:
        value = _ExpressionReader(text).read(tree.body, 0)
        if isinstance(value, Expression):
            if not any(isinstance(node, Variable) for node in walk(value)):
                raise ActivationError(f"{text!r} does not depend on x; an activation is a function of x — {_HELP}")
            value = Activation(value)
    except RecursionError:
        raise ActivationError(f"the expression {text[:80]!r}… is nested too deeply") from None
    return Activation(value.expression, " ".join(text.split()))


def _is_torch_path(node: ast.AST) -> bool:
    """Whether the node is a name in one of torch's rooms, as nn.GELU or torch.nn.functional.silu."""
    while isinstance(node, ast.Attribute):
        node = node.value
        if isinstance(node, ast.Name):
            return node.id in ("torch", "nn", "functional", "F")
    return False


def reserved_names() -> frozenset[str]:
    """What text means already, besides the activations of the registry."""
    return frozenset({"x", "compose", *_NUMBERS, *_ALGEBRA, *_SYNONYMS, *FUNCTIONS})


class _ExpressionReader:
    """Turns checked syntax nodes into expressions (functions of x, numbers) or activations (functions)."""

    def __init__(self, text: str) -> None:
        self.text = text

    def read(self, node: ast.AST, depth: int) -> Value:
        if depth > MAX_DEPTH:
            raise ActivationError(f"the expression is nested more than {MAX_DEPTH} levels deep")
        if isinstance(node, ast.Constant):
            return self._number(node)
        if isinstance(node, ast.Name):
            return self._name(node.id)
        if _is_torch_path(node):
            return self._name(ast.unparse(node))
        if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub | ast.UAdd):
            value = self._expression(node.operand, depth)
            return -value if isinstance(node.op, ast.USub) else value
        if isinstance(node, ast.BinOp) and type(node.op) in _BINARY:
            return self._arithmetic(node, depth)
        if isinstance(node, ast.Call):
            return self._call(node, depth)
        kind = {
            "Attribute": "an attribute (a.b)",
            "Subscript": "an index (a[b])",
            "Lambda": "a lambda",
            "Compare": "a comparison",
            "IfExp": "an if-else",
            "BoolOp": "a logical operator",
        }.get(type(node).__name__, f"'{type(node).__name__}'")
        raise ActivationError(
            f"{kind} is not allowed in an expression; only numbers, x, + - * / ** and known functions are — "
            "a piecewise function can be written with step(x), relu(x), max and min"
        )

    def _number(self, node: ast.Constant) -> Expression:
        if isinstance(node.value, bool) or not isinstance(node.value, int | float):
            raise ActivationError(f"{node.value!r} is not a real number")
        try:
            value = float(node.value)
        except OverflowError:
            value = math.inf
        return self._checked(Constant(value))

    def _checked(self, expression: Expression) -> Expression:
        if isinstance(expression, Constant) and not math.isfinite(expression.value):
            raise ActivationError(f"a constant in {self.text[:80]!r} is not finite (it overflows or divides by zero)")
        return expression

    def _name(self, name: str) -> Value:
        if name == "x":
            return Variable()
        if name in _NUMBERS:
            return Constant(_NUMBERS[name])
        found = find(name)
        if found is not None:
            return build(found.entry.name, *found.parameters)
        if name in FUNCTIONS and PRIMITIVES[name].arity == 1:
            return Activation(call(name, Variable()), name)
        known = [*ENTRIES, *ALIASES, *_ALGEBRA, *FUNCTIONS, "x"]
        raise unknown_name("activation or name", name, known, error=ActivationError, fix=_HELP)

    def _expression(self, node: ast.AST, depth: int) -> Expression:
        return self._plain(self.read(node, depth + 1))

    def _arithmetic(self, node: ast.BinOp, depth: int) -> Expression:
        left, right = self._expression(node.left, depth), self._expression(node.right, depth)
        name = _BINARY[type(node.op)]
        if name == "power" and not isinstance(right, Constant):
            if isinstance(left, Constant) and left.value > 0:
                return call("exp", math.log(left.value) * right)  # a^u = e^{u log a}
            raise ActivationError("a power needs a constant exponent, as in x**2; for a variable one write exp(...)")
        if name == "power" and isinstance(right, Constant) and abs(right.value) > 64:
            raise ActivationError(f"the exponent {right.value:g} is too large; at most 64 is accepted")
        return self._checked(call(name, left, right))

    def _call(self, node: ast.Call, depth: int) -> Value:
        if node.keywords:
            raise ActivationError("parameters are given by position, as in leaky_relu(0.1), not by name")
        if isinstance(node.func, ast.Call):  # leaky_relu(0.1)(x)
            function = self.read(node.func, depth + 1)
            return self._apply(function, [self.read(argument, depth + 1) for argument in node.args])
        if not isinstance(node.func, ast.Name) and not _is_torch_path(node.func):
            raise ActivationError(f"only known functions can be called; got {ast.unparse(node.func)[:60]!r} — {_HELP}")
        written = ast.unparse(node.func)
        name = _SYNONYMS.get(written, written)
        if name in _ALGEBRA:
            return self._algebra(name, node.args, depth)
        if name == "compose":
            functions = [self._function(argument, depth) for argument in node.args]
            if len(functions) != 2:
                raise ActivationError(f"compose takes two activations, outer and inner; got {len(functions)}")
            return functions[0].compose(functions[1])
        arguments = [self.read(argument, depth + 1) for argument in node.args]
        if name in PRIMITIVES and name in FUNCTIONS and PRIMITIVES[name].arity == 2:
            expressions = [self._plain(value) for value in arguments]
            if len(expressions) < 2:
                raise ActivationError(f"{written} takes at least two arguments; got {len(expressions)}")
            total = expressions[0]
            for other in expressions[1:]:
                total = call(name, total, other)
            return self._checked(total)
        found = find(name)
        # ReLU6 has its parameters already: what stands in the brackets is its argument
        entry = None if found is None or found.parameters else found.entry
        if entry is not None and entry.defaults and arguments and all(isinstance(a, Constant) for a in arguments):
            return build(entry.name, *(a.value for a in arguments if isinstance(a, Constant)))
        if entry is not None and len(arguments) > 1:  # leaky_relu(x, 0.1): the argument, then parameters
            numbers = [a.value for a in arguments[1:] if isinstance(a, Constant)]
            if len(numbers) != len(arguments) - 1:
                raise ActivationError(f"the parameters of {name} must be numbers")
            return self._apply(build(entry.name, *numbers), arguments[:1])
        return self._apply(self._name(name), arguments)

    def _plain(self, value: Value) -> Expression:
        if isinstance(value, Activation):
            raise ActivationError(
                f"{value.name} is a function here and cannot be used in arithmetic; apply it, as in {value.name}(x)"
            )
        return value

    def _apply(self, function: Value, arguments: list[Value]) -> Expression:
        if not isinstance(function, Activation):
            raise ActivationError(f"{function} is not a function and cannot be called")
        if len(arguments) != 1:
            raise ActivationError(f"{function.name} takes one argument here; got {len(arguments)}")
        return self._checked(substitute(function.expression, self._plain(arguments[0])))

    def _function(self, node: ast.AST, depth: int) -> Activation:
        value = self.read(node, depth + 1)
        return value if isinstance(value, Activation) else Activation(value)

    def _algebra(self, name: str, arguments: list[ast.expr], depth: int) -> Activation:
        parameters, make = _ALGEBRA[name]
        if len(arguments) != 1 + parameters:
            wanted = "an activation" + (" and a number" if parameters else "")
            raise ActivationError(f"{name} takes {wanted}, as in {name}(relu{', 0.5' * parameters})")
        numbers = [self._expression(argument, depth) for argument in arguments[1:]]
        if not all(isinstance(number, Constant) for number in numbers):
            raise ActivationError(f"the second argument of {name} must be a number")
        return make(self._function(arguments[0], depth), *(n.value for n in numbers if isinstance(n, Constant)))
