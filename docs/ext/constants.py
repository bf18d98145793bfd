"""Constants in the reference (`autodata`): the words that stand beside them in the source."""

from __future__ import annotations

import ast
import importlib
import inspect
import pkgutil
import tokenize
from collections.abc import Iterator
from functools import cache
from io import StringIO
from types import ModuleType
from typing import Any

from sphinx.application import Sphinx

WORDS = {  # where the source has none
    "isometer.activations.ALIASES": "Other names of built-in activations, each with the name it stands for.",
    "isometer.activations.ENTRIES": "The built-in activations by name: formula, parameters, aliases.",
    "isometer.cli.app": "The typer application behind `isometer`; all commands are registered in it.",
    "isometer.data.CATALOG": "The data sets that are known, by name: sizes, checksums, where they can be had.",
    "isometer.explore.LABS": "The labs of the page, by name.",
    "isometer_papers.architectures.ACTIVATIONS": "Names of activations that the architectures take.",
    "isometer_papers.architectures.INITIALIZERS": "Names of weight initialisations that the architectures take.",
    "isometer_papers.architectures.NORMS": "Names of normalisations that the architectures take.",
    "isometer.spec.POST_NORM": "The order of a layer with the norm after the activation.",
    "isometer.spec.PRE_NORM": "The order of a layer with the norm before the activation, the default.",
    "isometer.spec.RECURRENCES": "The recurrences of the papers by ID: what a `Spec` needs to be one.",
    "isometer.spec.Schedule": "The type of what may change with the layer: a number, one per layer, or a `PowerLaw`.",
    "isometer.spec.Step": "The type of a step of a layer: weights, residual, norm or activation.",
    "isometer.spec.WEIGHT_LAWS": "The laws of random weights that `Spec.weights` takes.",
}


def description(module: str, name: str) -> str:
    """What the source says of a constant of a package: the text after it, or the comment at its end; else nothing.

    >>> description("isometer.theory", "KNIFE_EDGE")[:9]
    "|κ'(1) − "
    """
    value = getattr(importlib.import_module(module), name)
    for home in _homes(module):
        if vars(home).get(name) is value and (found := _words(home, name)):
            return found
    return WORDS.get(f"{module}.{name}", "")


def _homes(module: str) -> Iterator[ModuleType]:
    """The package and the modules in it, then the whole library."""
    for start in (importlib.import_module(module), importlib.import_module("isometer")):
        yield start
        for below in pkgutil.walk_packages(getattr(start, "__path__", ()), f"{start.__name__}."):
            if below.name.rsplit(".", 1)[-1] != "__main__" and ".paper_" not in below.name:
                yield importlib.import_module(below.name)


@cache
def _source(module: ModuleType) -> tuple[list[ast.stmt], dict[int, str]]:
    text = inspect.getsource(module)
    tokens = tokenize.generate_tokens(StringIO(text).readline)
    return ast.parse(text).body, {t.start[0]: t.string.lstrip("#: ") for t in tokens if t.type == tokenize.COMMENT}


def _words(module: ModuleType, name: str) -> str:
    body, comments = _source(module)
    for statement, after in zip(body, [*body[1:], ast.Pass()], strict=True):
        targets = statement.targets if isinstance(statement, ast.Assign) else [getattr(statement, "target", None)]
        if not any(isinstance(target, ast.Name) and target.id == name for target in targets):
            continue
        if isinstance(after, ast.Expr) and isinstance(after.value, ast.Constant) and isinstance(after.value.value, str):
            return inspect.cleandoc(after.value.value)
        for line in (statement.lineno, statement.end_lineno or 0, statement.lineno - 1):
            if line in comments:
                return comments[line]
    return ""


def is_constant(module: str, name: str, value: object) -> bool:
    """Whether a public name is neither a class nor a function nor a module."""
    public = getattr(importlib.import_module(module), "__all__", ())
    return name in public and not (inspect.isclass(value) or inspect.isroutine(value) or inspect.ismodule(value))


def _describe(app: Sphinx, what: str, name: str, value: object, options: Any, lines: list[str]) -> None:
    module, _, short = name.rpartition(".")
    if what == "data" and is_constant(module, short, value):
        lines[:] = [*description(module, short).splitlines(), ""]


def setup(app: Sphinx) -> dict[str, Any]:
    app.connect("autodoc-process-docstring", _describe, priority=50)  # before the escapes of `docstrings`
    return {"version": "1", "parallel_read_safe": True, "parallel_write_safe": True}
