"""Modules as text: where they are, what they import, what they define. Nothing is imported to find out."""

from __future__ import annotations

import ast
import importlib.util
from collections.abc import Iterable, Iterator
from functools import lru_cache
from pathlib import Path

Import = tuple[str, str | None]  # a module and a name in it; None for the module itself


@lru_cache(maxsize=4096)
def source_path(module: str) -> Path | None:
    """The file of a module; None for a name inside a module.

    Example:
        >>> source_path("isometer.run").name, source_path("isometer.run.Cell") is None
        ('__init__.py', True)
    """
    top, *rest = module.split(".")
    if top == "__main__":  # a script, or what is typed: it has no name to be found by
        return None
    spec = importlib.util.find_spec(top)  # of a dotted name, find_spec would import the parents
    if spec is None or spec.origin is None:
        return None
    path = Path(spec.origin)
    if not rest:
        return path if path.suffix == ".py" else None
    folder = path.parent.joinpath(*rest)
    candidates = (folder / "__init__.py", folder.with_name(folder.name + ".py"))
    return next((candidate for candidate in candidates if candidate.is_file()), None)


def imports_of(module: str) -> set[str]:
    """The modules that a module imports, inside functions or outside.

    A name that a package hands on lazily counts as an import of the module that defines it; a package that is imported
    itself, as all that it hands on. What only a type checker reads does not count.

    Example:
        >>> "isometer.theory.kernels._kernel_map" in imports_of("isometer.theory._explanation")
        True
    """
    path = source_path(module)
    if path is None:
        return set()
    return {*_imports(path.read_bytes(), module, path.name == "__init__.py"), *handed_on(module).values()} - {module}


@lru_cache(maxsize=4096)
def _imports(source: bytes, module: str, is_package: bool) -> frozenset[str]:
    """Modules whose names a source uses; parsed once, though many functions reach a module."""
    return frozenset(loaded_by(statements(ast.parse(source)), module, is_package))


def loaded_by(nodes: Iterable[ast.AST], module: str, is_package: bool) -> Iterator[str]:
    """What these statements of a module import. `import package` alone counts for nothing: its version is known."""
    for node in nodes:
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names if "." in alias.name)
        elif isinstance(node, ast.ImportFrom):
            base = imported_from(node, module, is_package)
            yield from (definer(base, alias.name) for alias in node.names)


def imported_from(node: ast.ImportFrom, module: str, is_package: bool) -> str:
    """The module that a `from … import` names, dots resolved.

    Example:
        >>> imported_from(ast.parse("from .b import c").body[0], "a.d", False)
        'a.b'
    """
    if not node.level:
        return node.module or ""
    parts = module.split(".")
    # in a package's __init__ one dot is the package itself
    anchor = parts[: len(parts) - node.level + is_package]
    return ".".join([*anchor, *([node.module] if node.module else [])])


def statements(tree: ast.AST) -> Iterator[ast.AST]:
    """Every node but those that only a type checker reads, and but expressions: they hold no imports.

    Example:
        >>> [type(node).__name__ for node in statements(ast.parse("if TYPE_CHECKING:\\n    import a\\nimport b"))]
        ['Import', 'alias']
    """
    for node in ast.iter_child_nodes(tree):
        if isinstance(node, ast.expr) or type_checked(node):
            continue
        yield node
        yield from statements(node)


def type_checked(node: ast.AST) -> bool:
    """Whether a statement is `if TYPE_CHECKING:`."""
    return isinstance(node, ast.If) and isinstance(node.test, ast.Name) and node.test.id == "TYPE_CHECKING"


def definer(module: str, name: str) -> str:
    """The module that defines a name of a module: itself, one that its stub names, or a module of that name.

    Example:
        >>> definer("isometer.run", "Cell"), definer("isometer", "run"), definer("isometer.errors", "IsometerError")
        ('isometer.run._cells', 'isometer.run', 'isometer.errors')
    """
    stub = handed_on(module)
    if name in stub:
        return stub[name]
    inner = f"{module}.{name}"
    return inner if source_path(inner) is not None else module


@lru_cache(maxsize=256)
def handed_on(package: str) -> dict[str, str]:
    """Where the names come from that a package hands on lazily: what its `__init__.pyi` imports.

    Example:
        >>> handed_on("isometer.run")["Cell"]
        'isometer.run._cells'
    """
    path = source_path(package)
    stub = None if path is None or path.name != "__init__.py" else path.with_suffix(".pyi")
    if stub is None or not stub.is_file():
        return {}
    nodes = [node for node in ast.parse(stub.read_bytes()).body if isinstance(node, ast.ImportFrom)]
    # `from . import name` hands on a module of the package
    return {alias.name: f"{package}.{node.module or alias.name}" for node in nodes for alias in node.names}


class ModuleText:
    """What a module says at its top level.

    Args:
        name: of the module.
        path: its file.

    Example:
        >>> text = ModuleText("isometer.run._seeds", source_path("isometer.run._seeds"))
        >>> sorted(text.names), text.imports["np"], text.effects
        (['seed_of'], ('numpy', None), [])
    """

    def __init__(self, name: str, path: Path) -> None:
        self.name, self.is_package = name, path.name == "__init__.py"
        self.names: dict[str, list[ast.stmt]] = {}  # what defines a name, or changes it
        self.imports: dict[str, Import] = {}  # by the name that they have here
        self.changes: dict[str, list[ast.stmt]] = {}  # what changes the value of a name that is imported
        self.effects: list[ast.stmt] = []  # what acts on anything else, such as a call that registers
        self.loads: set[str] = set()  # modules that come with this one
        for statement in ast.parse(path.read_bytes()).body:
            self._take(statement, statement)

    def _take(self, node: ast.stmt, outer: ast.stmt) -> None:
        """A statement at the top level, or inside an `if`, `for` or `try` there, which is then the outer one."""
        if type_checked(node):
            assert isinstance(node, ast.If)
            for one in node.orelse:
                self._take(one, one if node is outer else outer)
        elif isinstance(node, ast.Import | ast.ImportFrom):
            self.imports |= bound_by(node, self.name, self.is_package)
            self.loads |= set(loaded_by([node], self.name, self.is_package))
        elif isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            self._touch(node.name, outer, bound=True)
            if any(_may_register(one) for one in node.decorator_list):
                self._act(outer)
        elif isinstance(node, ast.Assign | ast.AnnAssign | ast.AugAssign):
            for name, bound in _assigned(node):
                self._touch(name, outer, bound=bound)
        elif isinstance(node, ast.Expr) and (name := _called_on(node.value)) in {*self.names, *self.imports}:
            self._touch(name, outer, bound=False)
        elif inner := [
            one for part in ("body", "handlers", "cases", "orelse", "finalbody") for one in getattr(node, part, [])
        ]:
            if isinstance(node, ast.For | ast.With):
                self._act(outer)  # what is looped over, or entered, counts with what is done there
            for one in inner:
                self._take(one, outer)
        elif not (is_text(node) or isinstance(node, ast.Pass)):
            self._act(outer)

    def _touch(self, name: str, statement: ast.stmt, *, bound: bool) -> None:
        imported = name in self.imports and not bound
        found = (self.changes if imported else self.names).setdefault(name, [])
        if statement not in found:
            found.append(statement)

    def _act(self, statement: ast.stmt) -> None:
        if statement not in self.effects:
            self.effects.append(statement)


@lru_cache(maxsize=4096)
def module_text(module: str) -> ModuleText | None:
    """A module, parsed once; None for what is no module in Python.

    Example:
        >>> module_text("isometer.run._seeds").names.keys() == {"seed_of"}
        True
    """
    path = source_path(module)
    return None if path is None else ModuleText(module, path)


def bound_by(node: ast.Import | ast.ImportFrom, module: str, is_package: bool) -> dict[str, Import]:
    """The names that an import binds, and what they are.

    Example:
        >>> bound_by(ast.parse("import a.b, c as d").body[0], "m", False)
        {'a': ('a', None), 'd': ('c', None)}
        >>> bound_by(ast.parse("from a import b as c").body[0], "m", False)
        {'c': ('a', 'b')}
        >>> bound_by(ast.parse("from a import b").body[0], "a", True)
        {'b': ('a.b', None)}
    """
    if isinstance(node, ast.ImportFrom):
        base = imported_from(node, module, is_package)
        if is_package and base == module:  # what a package imports from itself are modules
            return {alias.asname or alias.name: (f"{base}.{alias.name}", None) for alias in node.names}
        return {alias.asname or alias.name: (base, alias.name) for alias in node.names}
    # `import a.b` binds `a`, `import a.b as c` the inner module
    bound = [(alias.asname, alias.name if alias.asname else alias.name.partition(".")[0]) for alias in node.names]
    return {name or what: (what, None) for name, what in bound}


def is_text(node: ast.AST) -> bool:
    """Whether a statement is a string alone: a docstring, which nothing is computed from.

    Example:
        >>> is_text(ast.parse("'why'").body[0]), is_text(ast.parse("x = 'why'").body[0])
        (True, False)
    """
    return isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str)


_HARMLESS = {  # decorators that act on nothing but what they decorate
    *("abstractmethod", "cache", "cached_property", "classmethod", "contextmanager", "dataclass", "final", "lru_cache"),
    *(
        "no_grad",
        "observes",
        "overload",
        "override",
        "property",
        "runtime_checkable",
        "staticmethod",
        "total_ordering",
        "wraps",
    ),
}


def last_name(node: ast.expr) -> str:
    """`c` of `a.b.c`, of `a.b.c(…)` too; empty for anything else.

    Example:
        >>> last_name(ast.parse("functools.lru_cache(maxsize=1)", mode="eval").body)
        'lru_cache'
    """
    node = node.func if isinstance(node, ast.Call) else node
    return node.attr if isinstance(node, ast.Attribute) else node.id if isinstance(node, ast.Name) else ""


def _may_register(decorator: ast.expr) -> bool:
    return last_name(decorator) not in _HARMLESS


def harmless(decorators: Iterable[ast.expr]) -> bool:
    """Whether no decorator does anything that a reader of the function's own text would not expect.

    Example:
        >>> harmless(ast.parse("@register\\ndef f(): pass").body[0].decorator_list)
        False
    """
    return not any(map(_may_register, decorators))


def _assigned(node: ast.Assign | ast.AnnAssign | ast.AugAssign) -> Iterator[tuple[str, bool]]:
    """The names that an assignment binds, or changes: `x` of `x = …`, or of `x[…] = …` and `x.y = …`."""
    targets = node.targets if isinstance(node, ast.Assign) else [node.target]
    while targets:
        target = targets.pop(0)
        if isinstance(target, ast.Tuple | ast.List):
            targets += target.elts
        elif isinstance(target, ast.Name):
            yield target.id, not isinstance(node, ast.AugAssign)
        elif name := _base(target):
            yield name, False


def _called_on(node: ast.expr) -> str:
    """`x` of `x.update(…)`, which may change it."""
    return _base(node.func) if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) else ""


def _base(node: ast.expr) -> str:
    """`x` of `x.y[…].z`."""
    while isinstance(node, ast.Attribute | ast.Subscript | ast.Starred):
        node = node.value
    return node.id if isinstance(node, ast.Name) else ""
