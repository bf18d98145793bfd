"""Which files of tests need torch: where it is not installed, `conftest.py` leaves out exactly these.

A module needs torch if importing it imports torch: by itself, or by way of modules of this project. A file of tests
needs torch if it imports such a module anywhere, inside functions too. Names that a package hands on lazily count as
imports of the modules that define them. Nothing is imported to find out.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from functools import cache
from pathlib import Path

from isometer.run._modules import definer, source_path, statements

OURS = ("isometer", "isometer_papers", "support")


def file_needs_torch(path: Path) -> bool:
    """Whether a file of tests, or the module at this path with its examples, cannot run without torch."""
    if path.name.startswith("test_"):
        return text_needs_torch(path.read_text(encoding="utf-8"))
    return loads_torch(_name_of(path))


def text_needs_torch(code: str) -> bool:
    """Whether a piece of code, such as an example in a docstring, imports anything that needs torch."""
    return any(map(loads_torch, imported(statements(ast.parse(code)), "", False)))


@cache
def listed() -> frozenset[str]:
    """Tests and examples of `needs_torch.txt`: they call what imports torch when it is called, which no text shows."""
    lines = (Path(__file__).parent / "needs_torch.txt").read_text(encoding="utf-8").splitlines()
    return frozenset(line for line in lines if not line.startswith("#"))


@cache
def loads_torch(module: str) -> bool:
    """Whether importing a module imports torch."""
    todo, seen = [module], {module}
    while todo:
        one = todo.pop()
        if one.partition(".")[0] == "torch" or one == "isometer.extras.torch_needed":  # which asks for it by name
            return True
        todo += (new := _loaded_with(one) - seen)
        seen |= new
    return False


@cache
def _loaded_with(module: str) -> set[str]:
    """The packages that a module is in, and what it imports as it is imported."""
    path = source_path(module) if module.partition(".")[0] in OURS else None
    if path is None:
        return set()
    nodes = _at_once(ast.parse(path.read_bytes()))
    return {module.rpartition(".")[0] or module, *imported(nodes, module, path.name == "__init__.py")}


def imported(nodes: Iterator[ast.AST], module: str, is_package: bool) -> Iterator[str]:
    """Names of the modules that these nodes of a module import."""
    for node in nodes:
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            anchor = module.split(".")[: len(module.split(".")) - node.level + is_package] if node.level else []
            base = ".".join([*anchor, *([node.module] if node.module else [])])
            yield from (definer(base, alias.name) if base.partition(".")[0] in OURS else base for alias in node.names)


def _at_once(tree: ast.AST) -> Iterator[ast.AST]:
    """The nodes that run as a module is imported: what functions import, they import when they are called."""
    for node in ast.iter_child_nodes(tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.expr):
            continue
        if isinstance(node, ast.If) and isinstance(node.test, ast.Name) and node.test.id == "TYPE_CHECKING":
            continue
        yield node
        yield from _at_once(node)


def _name_of(path: Path) -> str:
    """The dotted name of a module of a package."""
    parts = [] if path.name == "__init__.py" else [path.stem]
    folder = path.parent
    while (folder / "__init__.py").is_file():
        parts.insert(0, folder.name)
        folder = folder.parent
    return ".".join(parts)
