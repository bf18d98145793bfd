"""What a function can reach: the definitions that it uses by name, and their text without what computes nothing.

Not part of the text are comments, layout, docstrings, annotations of functions, and what an error says. Definitions
that are never used do not count, though they may be in the same file.
"""

from __future__ import annotations

import ast
import hashlib
import re
from collections.abc import Collection, Iterator
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any

from isometer._observing import observes as observes
from isometer.run._modules import (
    Import,
    ModuleText,
    bound_by,
    handed_on,
    harmless,
    is_text,
    last_name,
    loaded_by,
    module_text,
    source_path,
)

Names = tuple[str, ...]  # of `a.b.c`
_NAMED = re.compile(r"([A-Za-z_]\w*(?:\.\w+)+)(?::([\w.]+))?")  # a module, or a name in it, as text


@dataclass(frozen=True)
class Reached:
    """What a walk found.

    Args:
        digest: of the text of all that was reached.
        settings: names of settings on which it depends what is reached.
        places: what was reached: module and name, or module alone for what it does when it is imported.

    Example:
        >>> "isometer.run._reach" in reached("isometer.run._reach", "reached", ("isometer",)).modules
        True
    """

    digest: str
    settings: frozenset[str]
    places: tuple[tuple[str, str], ...]

    @property
    def modules(self) -> set[str]:
        """Of what was reached."""
        return {module for module, _ in self.places}


def reached(module: str, name: str, packages: Collection[str], chosen: Collection[str] = ()) -> Reached:
    """Everything that a definition reaches by names, in the modules of some packages.

    That is what it names, what these name, and so on; of a module that is reached, also what it does when it is
    imported beside defining names (calls, decorators that may register something), and so for the modules that come
    with it. A module that is used other than by its attributes counts as a whole, as does one that is named by text.

    Args:
        module: of the definition.
        name: of the definition.
        packages: top-level packages that are followed; others count by their version.
        chosen: settings that are set, for functions marked by `observes`.

    Example:
        >>> found = reached("isometer.run._seeds", "seed_of", ("isometer",))
        >>> found.places
        (('isometer.run._seeds', 'seed_of'),)
    """
    walk = _Walk(frozenset(packages), frozenset(chosen))
    walk.name(module, name.partition(".")[0])
    digest = hashlib.sha256()
    for place, found in sorted(walk.digests.items()):
        # lengths are fixed by the NULs and the digest: no two sets of definitions give the same bytes
        digest.update("\0".join(place).encode() + b"\0" + found)
    return Reached(digest.hexdigest(), frozenset(walk.settings), tuple(sorted(walk.digests)))


class _Walk:
    def __init__(self, packages: frozenset[str], chosen: frozenset[str]) -> None:
        self._packages, self._chosen = packages, chosen
        self.digests: dict[tuple[str, str], bytes] = {}
        self.settings: set[str] = set()
        self._seen: set[tuple[str, str]] = set()
        self._loaded: set[str] = set()
        self._changes: dict[tuple[str, str], list[tuple[ModuleText, str]]] = {}  # by what they change
        self._waiting: list[tuple[ModuleText, str, list[ast.stmt]]] = []
        self._busy = False

    def name(self, module: str, name: str) -> None:
        """A name of a module: what defines it, wherever that is."""
        self._reach_name(module, (name,))
        if self._busy:
            return
        self._busy = True  # a list instead of recursion, which deep chains of definitions would exhaust
        while self._waiting:
            text, label, nodes = self._waiting.pop()
            parts = [_normal(text.name, text.is_package, node) for node in nodes]
            self.digests[text.name, label] = hashlib.sha256("\0".join(part.text for part in parts).encode()).digest()
            for part in parts:
                self._follow(text, part)
        self._busy = False

    def _follow(self, text: ModuleText, part: _Fragment) -> None:
        for module in part.loads:
            self._load(module)
        for names in part.names:
            local = part.imports.get(names[0])
            if local is not None:
                self._reach_import(local, names[1:])
            elif names[0] in text.names or names[0] in text.imports:
                self._reach_name(text.name, names)
        for module, name in part.named:
            if self._text(module) is not None:
                self._reach_import((module, None), tuple(name.split(".")) if name else ())

    def _reach_name(self, module: str, names: Names) -> None:
        """`a.b.c` as a module has it: `b` and `c` count where `a` is a module."""
        text = self._text(module)
        if text is None:
            return
        first, *rest = names
        if first in text.names:
            self._define(text, first)
        elif first in text.imports:
            self._reach_import(text.imports[first], tuple(rest))
        elif first in handed_on(module):
            where = handed_on(module)[first]
            if where == f"{module}.{first}" and self._text(where) is not None:
                self._reach_import((where, None), tuple(rest))
            else:
                self._reach_name(where, names)
        elif source_path(f"{module}.{first}") is not None:
            self._reach_import((f"{module}.{first}", None), tuple(rest))
        else:
            self._whole(module)

    def _reach_import(self, what: Import, rest: Names) -> None:
        module, name = what
        if self._text(module) is None:
            return
        if name is not None:
            self._reach_name(module, (name, *rest))
        elif rest:
            self._reach_name(module, rest)
        else:
            self._whole(module)

    def _text(self, module: str) -> ModuleText | None:
        return module_text(module) if module.partition(".")[0] in self._packages else None

    def _define(self, text: ModuleText, name: str) -> None:
        if (text.name, name) in self._seen:
            return
        self._seen.add((text.name, name))
        self._load(text.name)
        if nodes := [node for node in text.names[name] if self._counts(node)]:
            self._waiting.append((text, name, nodes))
        for other, local in self._changes.pop((text.name, name), ()):
            self._waiting.append((other, local, other.changes[local]))

    def _counts(self, node: ast.stmt) -> bool:
        """False for what only observes, unless its setting is set."""
        for decorator in getattr(node, "decorator_list", ()):
            if last_name(decorator) == observes.__name__ and isinstance(decorator, ast.Call):
                given = [*decorator.args, *(one.value for one in decorator.keywords)]
                setting = ast.literal_eval(given[0]) if given else None
                if setting is None:
                    return False
                self.settings.add(setting)
                return setting in self._chosen
        return True

    def _load(self, module: str) -> None:
        """What a module does when it is imported, with the packages that it is in and what it imports."""
        while module not in self._loaded and (text := self._text(module)) is not None:
            self._loaded.add(module)
            if text.effects:
                self._waiting.append((text, "", text.effects))
            for local in text.changes:
                self._note_change(text, local)
            for other in sorted(text.loads):
                self._load(other)
            module = module.rpartition(".")[0]

    def _note_change(self, text: ModuleText, local: str) -> None:
        """A change of another module's value counts with that value, and always if nobody can say what it is."""
        place = self._origin(*text.imports[local])
        if place is None or place in self._seen:
            self._waiting.append((text, local, text.changes[local]))
        else:
            self._changes.setdefault(place, []).append((text, local))

    def _origin(self, module: str, name: str | None) -> tuple[str, str] | None:
        """The module that defines a name, however often it was imported."""
        while name is not None and (text := self._text(module)) is not None:
            if name in text.names:
                return module, name
            module, name = text.imports.get(name, (handed_on(module).get(name, ""), name))
        return None

    def _whole(self, module: str) -> None:
        text = self._text(module)
        if text is None or (module, "*") in self._seen:
            return
        self._seen.add((module, "*"))
        self._load(module)
        for name in sorted({*text.names, *handed_on(module)}):
            self._reach_name(module, (name,))


# --- text ----------------------------------------------------------------


@dataclass
class _Fragment:
    """A statement: its text, and what it names."""

    text: str = ""
    names: list[Names] = field(default_factory=list)
    imports: dict[str, Import] = field(default_factory=dict)
    loads: list[str] = field(default_factory=list)
    named: list[tuple[str, str]] = field(default_factory=list)  # by text


@lru_cache(maxsize=65536)
def _normal(module: str, is_package: bool, node: ast.stmt) -> _Fragment:
    part = _Fragment()
    writer = _Writer(module, is_package, part)
    part.text = "".join(writer.written(node))
    return part


class _Writer:
    """Writes a tree by kinds of nodes and their fields, the same in every version of Python."""

    def __init__(self, module: str, is_package: bool, part: _Fragment) -> None:
        self._module, self._is_package, self._part = module, is_package, part
        self._typed: list[bool | None] = [False]  # whether annotations count here; None: their text alone

    def written(self, node: Any) -> Iterator[str]:
        if isinstance(node, list):
            yield "["
            for one in node:
                yield from self.written(one)
            yield "]"
        elif not isinstance(node, ast.AST):
            yield f"{type(node).__name__} {node!r};"
        elif isinstance(node, ast.Attribute) and (names := _dotted(node)):
            self._part.names.append(names)
            yield f"Attribute({'.'.join(names)})"
        elif not (is_text(node) or isinstance(node, ast.expr_context)):
            yield from self._node(node)

    def _node(self, node: ast.AST) -> Iterator[str]:
        kept = self._kept(node)
        self._note(node)
        inside = _inside(node)
        if inside is not None:
            self._typed.append(inside[0])
        yield f"{type(node).__name__}("
        for name, value in kept:
            # what is empty is left out: versions of Python differ in which of it they keep
            if value is not None and value != []:
                yield f"{name}="
                yield from self._annotation(value) if name == "annotation" else self.written(value)
        yield ")"
        if inside is not None:
            self._typed.pop()

    def _kept(self, node: ast.AST) -> list[tuple[str, Any]]:
        """The fields that something is computed from."""
        left_out = {"type_comment", "kind", "type_params"}
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            left_out |= {"returns"} if harmless(node.decorator_list) else set()
        elif isinstance(node, ast.arg | ast.AnnAssign):
            left_out |= {"annotation"} if self._typed[-1] is False else set()
            if isinstance(node, ast.AnnAssign) and node.value is None and self._typed[-1] is False:
                return []
        elif isinstance(node, ast.Assert):
            left_out |= {"msg"}
        elif isinstance(node, ast.Raise):
            raised = node.exc.func if isinstance(node.exc, ast.Call) else node.exc
            return [("exc", raised)]
        return [(name, value) for name, value in ast.iter_fields(node) if name not in left_out]

    def _annotation(self, value: Any) -> Iterator[str]:
        if self._typed[-1] is None:
            yield ast.unparse(value)
        else:
            yield from self.written(value)

    def _note(self, node: ast.AST) -> None:
        part = self._part
        if isinstance(node, ast.Import | ast.ImportFrom):
            part.imports |= bound_by(node, self._module, self._is_package)
            part.loads += loaded_by([node], self._module, self._is_package)
        elif isinstance(node, ast.Name):
            part.names.append((node.id,))
        elif isinstance(node, ast.Constant) and (found := _NAMED.fullmatch(str(node.value)[:200])):
            part.named.append((found[1], found[2] or ""))


def _inside(node: ast.AST) -> tuple[bool | None] | None:
    """Whether annotations count inside a definition; nothing for other nodes.

    Fields of a dataclass: their text, which may say that one is none (`ClassVar`). Of other classes with annotations,
    values may be checked by them, so they count as code. Those of functions that something unknown decorates, too.
    """
    if isinstance(node, ast.ClassDef):
        return (None,) if any(last_name(one) == "dataclass" for one in node.decorator_list) else (True,)
    if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
        return (not harmless(node.decorator_list),)
    return (False,) if isinstance(node, ast.Lambda) else None


def _dotted(node: ast.Attribute) -> Names:
    """`("a", "b", "c")` of `a.b.c`; empty if it does not begin with a name."""
    names: list[str] = []
    inner: ast.expr = node
    while isinstance(inner, ast.Attribute):
        names.insert(0, inner.attr)
        inner = inner.value
    return (inner.id, *names) if isinstance(inner, ast.Name) else ()
