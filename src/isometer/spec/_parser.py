"""The network language: text such as `repeat(residual(norm('layer') > dense > act('gelu') > dense, scale=0.3), 24)`.

Text goes through Python's grammar and a whitelist of its nodes; nothing is evaluated as Python.

    network  = [input(width, axes) >] step > step > …
    step     = word | word(value, …, name=value, …) | preset(name=value, …)
    value    = number | 'text' | True | False | None | [value, …] | inf | power(scale, layer=…, depth=…) | network
    number   = 2 | 0.5 | 1/sqrt(24) | 2**0.5 | -1
"""

from __future__ import annotations

import ast
import math
import operator
from collections.abc import Callable
from dataclasses import MISSING, fields, replace
from typing import Any

from isometer.errors import unknown_name
from isometer.spec._checks import SpecError
from isometer.spec._language import JOINS, WORDS, Word
from isometer.spec._norm import Norm
from isometer.spec._presets import PRESETS
from isometer.spec._program import Shape
from isometer.spec._schedule import PowerLaw
from isometer.spec._steps import Bias, Dense, Join, Step

_LONGEST = 1_000_000  # characters
_DEEPEST = 60  # parentheses inside each other
_EXAMPLE = "write repeat(dense > act('relu'), 10), for example"
_ARITHMETIC: dict[type[ast.operator], Callable[[float, float], float]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: operator.truediv,
    ast.Pow: math.pow,
}
Network = tuple[tuple[Step, ...], Shape | None]


def parse_network(text: str) -> Network:
    """The steps that a text says, and the shape of the input if it says one.

    Raises:
        SpecError: the text is not in the language; the message has the place.

    Example:
        >>> steps, shape = parse_network("input(64) > repeat(dense > act('relu'), 3)")
        >>> steps[0].times, shape.width
        (3, 64)
    """
    if len(text) > _LONGEST:
        raise SpecError(f"the network has {len(text)} characters; expected at most {_LONGEST} — use repeat(…, times)")
    _check_nesting(text)
    try:
        tree = ast.parse(text.strip(), mode="eval").body
    except (SyntaxError, ValueError, MemoryError, RecursionError) as problem:
        place = f" at character {problem.offset}" if isinstance(problem, SyntaxError) and problem.offset else ""
        raise SpecError(
            f"the network {_short(text)!r} cannot be read{place}; expected steps joined by > — {_EXAMPLE}"
        ) from None
    return _TreeReader(text).network(tree)


def _check_nesting(text: str) -> None:
    depth = 0
    for letter in text:
        depth += (letter in "([{") - (letter in ")]}")
        if depth > _DEEPEST:
            raise SpecError(f"the network has more than {_DEEPEST} parentheses inside each other; expected fewer")


def _short(text: str) -> str:
    return text if len(text) <= 60 else f"{text[:57]}…"


class _TreeReader:
    def __init__(self, text: str) -> None:
        self._text = text

    def network(self, node: ast.expr) -> Network:
        steps: list[Step] = []
        shape: Shape | None = None
        for place, part in enumerate(self._sequence(node)):
            if isinstance(part, ast.Call) and _name(part) == "input":
                if place:
                    raise self._error(part, "input comes after a step", "input first")
                shape = self._input(part)
                continue
            found, own = self._steps(part)
            if own is not None:
                if place and (steps or shape is not None):
                    raise self._error(part, "a preset that contains an input comes after a step", "it first")
                shape = own
            steps.extend(found)
        return tuple(steps), shape

    def _sequence(self, node: ast.expr) -> list[ast.expr]:
        """The parts of a > b > c."""
        if not isinstance(node, ast.Compare):
            return [node]
        for op in node.ops:
            if not isinstance(op, ast.Gt):
                raise self._error(node, "steps are joined by another operator", "a > b > c")
        return [part for one in (node.left, *node.comparators) for part in self._sequence(one)]

    def _body(self, node: ast.expr) -> tuple[Step, ...]:
        if isinstance(node, ast.Name) and node.id == "same":
            return ()
        steps, shape = self.network(node)
        if shape is not None:
            raise self._error(node, "an input is inside a step", "it at the beginning of the network")
        return steps

    def _steps(self, node: ast.expr) -> Network:
        name = _name(node)
        if name is None:
            raise self._error(node, f"{ast.unparse(node)[:40]} is not a step", "a step such as dense(64)")
        arguments, named = ([], {}) if isinstance(node, ast.Name) else self._arguments(node)
        try:
            if name in WORDS:
                return self._step(WORDS[name], name, arguments, named, node), None
            if name == "norm":
                return (self._norm(arguments, named, node),), None
            if name in JOINS:
                return (Join(tuple(self._body(one) for one in arguments), by=name),), None  # type: ignore[arg-type]
            if name in PRESETS:
                if arguments:
                    raise self._error(node, f"{name} has values without a name", f"{name}(name=value, …)")
                return PRESETS[name](**{key: self._value(one) for key, one in named.items()})
        except TypeError as problem:
            raise self._error(node, f"{name} cannot be made ({problem})", "the fields that it has") from None
        known = [*WORDS, "norm", *JOINS, *PRESETS]
        raise unknown_name("step", name, known, error=SpecError, fix="see the page on the network language")

    def _arguments(self, node: ast.expr) -> tuple[list[ast.expr], dict[str, ast.expr]]:
        assert isinstance(node, ast.Call)
        if any(isinstance(one, ast.Starred) for one in node.args) or any(one.arg is None for one in node.keywords):
            raise self._error(node, "a star stands before an argument", "values and name=value")
        return node.args, {str(one.arg): one.value for one in node.keywords}

    def _step(
        self, word: Word, name: str, arguments: list[ast.expr], named: dict[str, ast.expr], node: ast.expr
    ) -> tuple[Step, ...]:
        if len(arguments) > len(word.positional):
            raise self._error(
                node, f"{name} has {len(arguments)} values without a name", f"{len(word.positional)} at most"
            )
        nodes = dict(zip(word.positional, arguments, strict=False))
        twice = sorted(nodes.keys() & named.keys())
        if twice:
            raise self._error(node, f"{name} has {twice[0]} twice", "it once")
        bias = named.pop("bias", None) if word.make is Dense else None
        for key in named:
            if key not in word.names:
                raise unknown_name(f"field of {name}", key, word.names, error=SpecError, fix="pass one of them")
        values = {
            key: self._body(one) if key in word.steps else self._value(one) for key, one in {**nodes, **named}.items()
        }
        missing = [field.name for field in fields(word.make) if field.default is MISSING and field.name not in values]
        if missing:
            raise self._error(node, f"{name} has no {missing[0]}", f"{name}({', '.join(word.positional)})")
        step = word.make(**values)
        return (step,) if bias is None else (step, Bias(self._value(bias)))

    def _norm(self, arguments: list[ast.expr], named: dict[str, ast.expr], node: ast.expr) -> Norm:
        if len(arguments) > 1:
            raise self._error(
                node, f"norm has {len(arguments)} values without a name", "norm('layer', eps=1e-5), for example"
            )
        values = {key: self._value(one) for key, one in named.items()}
        names = [field.name for field in fields(Norm)]
        for key in values:
            if key not in names:
                raise unknown_name("field of norm", key, names, error=SpecError, fix="pass one of them")
        if not arguments:
            return Norm(**values)
        name = self._value(arguments[0])
        norm = Norm.named(name) if isinstance(name, str) else None
        if norm is None:
            raise self._error(node, f"the norm is {name!r}", "a name such as norm('layer'), or no norm at all")
        return replace(norm, **values) if values else norm

    def _input(self, node: ast.Call) -> Shape:
        arguments, named = self._arguments(node)
        if len(arguments) > 2 or named.keys() - {"width", "positions"}:
            raise self._error(node, "input has other values", "input(width) or input(width, [height, width])")
        given = dict(zip(("width", "positions"), arguments, strict=False)) | named
        if "width" not in given:
            raise self._error(node, "input has no width", "input(width)")
        axes = self._value(given["positions"]) if "positions" in given else ()
        return Shape(self._value(given["width"]), axes if isinstance(axes, tuple) else (axes,))

    def _value(self, node: ast.expr) -> Any:
        match node:
            case ast.Constant(value=bool() | int() | float() | str() | None):
                return node.value
            case ast.Name(id="inf"):
                return math.inf
            case ast.List() | ast.Tuple():
                return tuple(map(self._value, node.elts))
            case ast.UnaryOp(op=ast.USub() | ast.UAdd()):
                value = self._number(node.operand)
                return -value if isinstance(node.op, ast.USub) else value
            case ast.BinOp(op=op) if type(op) in _ARITHMETIC:
                return self._arithmetic(node)
            case ast.Call(func=ast.Name(id="power")):
                arguments, named = self._arguments(node)
                names = {**dict(zip(("scale",), arguments, strict=False)), **named}
                if len(arguments) > 1 or names.keys() - {"scale", "layer", "depth"}:
                    raise self._error(node, "power has other values", "power(scale, layer=…, depth=…)")
                return PowerLaw(**{key: self._number(one) for key, one in names.items()})
            case ast.Call(func=ast.Name(id="sqrt"), args=[one], keywords=[]):
                value = self._number(one)
                if value < 0:
                    raise self._error(node, f"sqrt of {value}", "a number of at least 0")
                return math.sqrt(value)
        raise self._error(node, f"{ast.unparse(node)[:40]} is not a value", "a number, a text or a list")

    def _number(self, node: ast.expr) -> float:
        value = self._value(node)
        if isinstance(value, bool) or not isinstance(value, int | float):
            raise self._error(node, f"{value!r} is not a number", "a number")
        return value

    def _arithmetic(self, node: ast.BinOp) -> float:
        left, right = self._number(node.left), self._number(node.right)
        try:
            found = _ARITHMETIC[type(node.op)](float(left), float(right))
        except (ArithmeticError, ValueError):
            raise self._error(node, f"{ast.unparse(node)[:40]} has no value", "a finite number") from None
        whole = isinstance(left, int) and isinstance(right, int) and not isinstance(node.op, ast.Div)
        return int(found) if whole and found.is_integer() else found

    def _error(self, node: ast.expr, what: str, expected: str) -> SpecError:
        place = getattr(node, "col_offset", 0) + 1
        return SpecError(f"the network {_short(self._text)!r}: {what} at character {place}; expected {expected}")


def _name(node: ast.expr) -> str | None:
    """The word of a step, with or without parentheses."""
    if isinstance(node, ast.Call):
        node = node.func
    return node.id if isinstance(node, ast.Name) else None
