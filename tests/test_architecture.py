"""The house keeps to its plan: the arrows of `docs/arrows.toml`, no cycles, private modules, one thing a class name."""

from __future__ import annotations

import ast
import graphlib
import tomllib
from collections import defaultdict
from collections.abc import Mapping
from functools import cache
from pathlib import Path

import pytest

from isometer.run._modules import imports_of

ROOT = Path(__file__).parents[1]
SOURCES = {"isometer": ROOT / "src" / "isometer", "isometer_papers": ROOT / "papers" / "src" / "isometer_papers"}
ROOMS = {room["name"]: room for room in tomllib.loads((ROOT / "docs" / "arrows.toml").read_text())["room"]}


@cache
def modules(package: str) -> dict[str, Path]:
    found = {}
    for path in sorted(SOURCES[package].rglob("*.py")):
        parts = path.relative_to(SOURCES[package].parent).with_suffix("").parts
        found[".".join(parts[:-1] if parts[-1] == "__init__" else parts)] = path
    return found


def room_of(module: str) -> str:
    """The longest room that a module is in."""
    inside = module.split(".")[1:]
    names = [".".join(inside[:length]) for length in range(len(inside), 0, -1)]
    return next((name for name in names if name in ROOMS), names[-1] if names else "isometer")


@cache
def imports(package: str) -> dict[str, set[str]]:
    return {module: imports_of(module) for module in modules(package)}


def graph(package: str) -> dict[str, set[str]]:
    """What the modules of a package import of each other."""
    return {module: names & modules(package).keys() for module, names in imports(package).items()}


def cycle(edges: Mapping[str, set[str]]) -> list[str]:
    """A cycle, or nothing."""
    try:
        graphlib.TopologicalSorter(edges).prepare()
    except graphlib.CycleError as problem:
        return list(problem.args[1])
    return []


@pytest.mark.parametrize("package", SOURCES)
def test_no_module_imports_itself_by_way_of_others(package: str) -> None:
    assert cycle(graph(package)) == []


def test_rooms_import_only_what_the_table_allows() -> None:
    edges = defaultdict(set)
    for module, imported in graph("isometer").items():
        edges[room_of(module)] |= {room_of(name) for name in imported} - {room_of(module), "isometer"}
    edges.pop("isometer")  # the top hands on names of every room
    assert set(edges) <= set(ROOMS), "a room is missing in docs/arrows.toml"
    wrong = {room: sorted(found - set(ROOMS[room]["imports"])) for room, found in edges.items()}
    assert {room: names for room, names in wrong.items() if names} == {}
    unused = {room: sorted(set(entry["imports"]) - edges[room]) for room, entry in ROOMS.items()}
    assert {room: names for room, names in unused.items() if names} == {}, "arrows that nothing uses"


def test_the_table_is_in_order() -> None:
    """Every room imports earlier ones only, so the table has no cycle."""
    order = list(ROOMS)
    late = [(room, name) for room in order for name in ROOMS[room]["imports"] if order.index(name) >= order.index(room)]
    assert late == []


def test_the_companion_uses_what_is_public() -> None:
    hidden = defaultdict(set)
    for module, path in modules("isometer_papers").items():
        for node in ast.walk(ast.parse(path.read_bytes())):
            named = [node.module] if isinstance(node, ast.ImportFrom) else []
            named += [f"{node.module}.{alias.name}" for alias in node.names] if isinstance(node, ast.ImportFrom) else []
            named += [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
            parts = [name.split(".") for name in named if name and name.split(".")[0] == "isometer"]
            hidden[module] |= {".".join(name) for name in parts if any(one.startswith("_") for one in name)}
    assert {module: names for module, names in hidden.items() if names} == {}


def test_the_instrument_does_not_know_the_companion() -> None:
    found = {
        module: {name for name in names if name.startswith("isometer_papers")}
        for module, names in imports("isometer").items()
    }
    assert {module: names for module, names in found.items() if names} == {}


def test_a_cycle_through_a_lazy_import_is_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The tests above can fail: two modules that import each other inside functions, one through a lazy package."""
    package = tmp_path / "lazily_cyclic"
    package.mkdir()
    (package / "__init__.py").write_text("")
    (package / "__init__.pyi").write_text("from ._one import one as one\n")
    (package / "_one.py").write_text("def one():\n    from lazily_cyclic._two import two\n    return two\n")
    (package / "_two.py").write_text("def two():\n    from lazily_cyclic import one\n    return one\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    names = ("lazily_cyclic._one", "lazily_cyclic._two")
    edges = {name: imports_of(name) & set(names) for name in names}
    assert sorted(set(cycle(edges))) == sorted(names)
    (package / "_two.py").write_text("two = 2\n")
    assert cycle({name: imports_of(name) & set(names) for name in names}) == []


MODELS = ("isometer.trial._families", "isometer.doctor.patients", "isometer_papers.architectures")
"""Modules of networks as people write them: their classes are named as in the papers, not by concepts of ours."""


def test_a_class_name_means_one_thing() -> None:
    places = defaultdict(list)
    for package in SOURCES:
        for module, path in modules(package).items():
            if any(part in module for part in MODELS):
                continue
            for node in ast.walk(ast.parse(path.read_bytes())):
                if isinstance(node, ast.ClassDef):
                    places[node.name].append(module)
    places.pop("Activation")  # `isometer.nn.Activation` is the module of an activation, as `torch.nn.GELU` is of gelu
    assert {name: where for name, where in places.items() if len(where) > 1} == {}


PLAIN = {  # named in records, imported for their effect, of an optional dependency, for labs of others
    "isometer.run.targets",
    "isometer.run.example",
    "isometer.extras.torch_needed",
    "isometer.doctor.watch.lightning",
    "isometer.doctor.watch.transformers",
    "isometer.explore.labs.parts",
}


def test_inner_modules_are_private() -> None:
    """What a room hands on is its interface; modules of the top level, commands and what records name are plain."""
    inner = [m for m in modules("isometer") if m.count(".") > 1 and not m.startswith(("isometer.cli.", "isometer._"))]
    plain = [
        m for m in inner if modules("isometer")[m].name != "__init__.py" and not m.rpartition(".")[2].startswith("_")
    ]
    assert [m for m in plain if not any(m == one or m.startswith(f"{one}.") for one in PLAIN)] == []
