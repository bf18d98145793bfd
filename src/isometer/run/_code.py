"""Which code computes a cell: names of functions, and a version that changes with their source."""

from __future__ import annotations

import ast
import hashlib
import importlib
import importlib.util
import json
import platform
from collections.abc import Callable, Iterator
from functools import lru_cache
from importlib import metadata
from pathlib import Path
from typing import Any

from isometer.errors import IsometerError

INSTRUMENT = "isometer"
LIBRARIES = (INSTRUMENT, "numpy", "scipy", "xarray", "h5netcdf", "h5py", "torch")


def name_of(function: Callable[..., Any]) -> str:
    """`module:name`, by which a worker finds a function.

    Example:
        >>> from isometer.run.example import power
        >>> name_of(power)
        'isometer.run.example:power'
    """
    module, name = getattr(function, "__module__", None), getattr(function, "__qualname__", "<object>")
    if module is None or module == "__main__" or "<" in name:
        raise IsometerError(
            f"the function {name!r} of {module!r} cannot be found by its name in another process; expected a function "
            "at the top level of a module — move it into a file and import it"
        )
    return f"{module}:{name}"


def function_named(name: str) -> Callable[..., Any]:
    """The function that `name_of` named.

    Example:
        >>> function_named("isometer.run.example:power").__name__
        'power'
    """
    module, _, path = name.partition(":")
    try:
        found: Any = importlib.import_module(module)
        for part in path.split("."):
            found = getattr(found, part)
    except Exception as problem:  # a module that is imported may raise anything
        raise IsometerError(f"cannot find the function {name!r} ({problem}) — install or restore its module") from None
    if not callable(found) or not isinstance(getattr(found, "__module__", None), str):
        raise IsometerError(f"{name!r} is not a function; expected module:function")
    return found  # type: ignore[no-any-return]


@lru_cache(maxsize=64)
def code_version(function: Callable[..., Any]) -> str:
    """Version of the package of a function and a digest of the source that it can reach.

    The digest covers the function's module and every module of its top-level package and of the instrument that it
    imports, directly or not, inside functions or outside. For a package that re-exports names, only the modules that
    define the names in use count. Other packages count by their version, which each result records.

    Args:
        function: a function of a module.

    Returns:
        `"version+digest"`.

    Example:
        >>> from isometer.run.example import power
        >>> code_version(power) == code_version(code_version)  # other files
        False
    """
    module = function.__module__
    package = module.partition(".")[0]
    digest = hashlib.sha256()
    for name, source in sorted(_closure(module, {package, INSTRUMENT})):
        # a NUL and a digest of fixed length: no two sets of files give the same bytes
        digest.update(name.encode() + b"\0" + hashlib.sha256(source).digest())
    try:
        version = metadata.version(package)
    except metadata.PackageNotFoundError:
        version = "0"
    return f"{version}+{digest.hexdigest()[:16]}"


def _closure(start: str, packages: set[str]) -> list[tuple[str, bytes]]:
    """Every module of the packages that `start` reaches, with its source."""
    waiting, seen = [start], {start}
    found = []
    while waiting:
        module = waiting.pop()
        path = _source_path(module)
        if path is None:
            continue
        found.append((module, path.read_bytes()))
        for name in imports_of(module):
            if name.partition(".")[0] in packages and name not in seen:
                seen.add(name)
                waiting.append(name)
    return found


def imports_of(module: str) -> set[str]:
    """The modules that a module imports, inside functions or outside, found without importing anything.

    A name that a package hands on lazily counts as an import of the module that defines it; a package that is imported
    itself, as all that it hands on. What only a type checker reads does not count.

    Example:
        >>> "isometer.theory.kernels._kernel_map" in imports_of("isometer.theory._explanation")
        True
    """
    path = _source_path(module)
    if path is None:
        return set()
    is_package = path.name == "__init__.py"
    return {*_imports(path.read_bytes(), module, is_package), *_stub(module).values()} - {module}


@lru_cache(maxsize=4096)
def _source_path(module: str) -> Path | None:
    """The file of a module, found without importing it; None for a name inside a module."""
    top, *rest = module.split(".")
    spec = importlib.util.find_spec(top)  # of a dotted name, find_spec would import the parents
    if spec is None or spec.origin is None:
        return None
    path = Path(spec.origin)
    if not rest:
        return path if path.suffix == ".py" else None
    folder = path.parent.joinpath(*rest)
    candidates = (folder / "__init__.py", folder.with_name(folder.name + ".py"))
    return next((candidate for candidate in candidates if candidate.is_file()), None)


@lru_cache(maxsize=4096)
def _imports(source: bytes, module: str, is_package: bool) -> frozenset[str]:
    """Modules whose names a source uses; parsed once, though many functions reach a module."""
    return frozenset(_imported(source, module, is_package))


def _imported(source: bytes, module: str, is_package: bool) -> Iterator[str]:
    """`import package` alone counts for nothing: its version is known."""
    for node in _nodes(ast.parse(source)):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names if "." in alias.name)
        elif isinstance(node, ast.ImportFrom):
            base = node.module or ""
            if node.level:
                parts = module.split(".")
                # in a package's __init__ one dot is the package itself
                anchor = parts[: len(parts) - node.level + is_package]
                base = ".".join([*anchor, *([node.module] if node.module else [])])
            for alias in node.names:
                yield _definer(base, alias.name)


def _nodes(tree: ast.AST) -> Iterator[ast.AST]:
    """Every node but those that only a type checker reads, and but expressions: they hold no imports."""
    for node in ast.iter_child_nodes(tree):
        if isinstance(node, ast.expr):
            continue
        if isinstance(node, ast.If) and isinstance(node.test, ast.Name) and node.test.id == "TYPE_CHECKING":
            continue
        yield node
        yield from _nodes(node)


def _definer(module: str, name: str) -> str:
    """The module that defines a name of a module: itself, one that its stub names, or a module of that name."""
    stub = _stub(module)
    if name in stub:
        return stub[name]
    inner = f"{module}.{name}"
    return inner if _source_path(inner) is not None else module


@lru_cache(maxsize=256)
def _stub(package: str) -> dict[str, str]:
    """Where the names come from that a package hands on lazily: what its `__init__.pyi` imports."""
    path = _source_path(package)
    stub = None if path is None or path.name != "__init__.py" else path.with_suffix(".pyi")
    if stub is None or not stub.is_file():
        return {}
    nodes = [node for node in ast.parse(stub.read_bytes()).body if isinstance(node, ast.ImportFrom)]
    # `from . import name` hands on a module of the package
    return {alias.name: f"{package}.{node.module or alias.name}" for node in nodes for alias in node.names}


@lru_cache(maxsize=1)
def library_versions() -> str:
    """Versions of Python and of the libraries that compute and write results, as JSON.

    Example:
        >>> sorted(json.loads(library_versions()))[:3]
        ['h5netcdf', 'h5py', 'isometer']
    """
    versions = {"python": platform.python_version()}
    for name in LIBRARIES:
        try:
            versions[name] = metadata.version(name)
        except metadata.PackageNotFoundError:
            versions[name] = "none"
    return json.dumps(versions, sort_keys=True)
