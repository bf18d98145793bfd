"""The version of the code of a cell: what changes it, and what does not."""

from __future__ import annotations

import itertools
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest

from isometer.run import Cell, Job, code_version
from isometer.run import _code as code_module
from isometer.run._modules import module_text, source_path
from isometer.run._reach import reached
from isometer.run.example import power

FILES = {
    "__init__.py": "",
    "cell.py": '''
"""A cell."""
from __future__ import annotations
from typing import TYPE_CHECKING
import swept.registry
from isometer._observing import observes
from swept.table import NUMBERS, Row, base
from swept import tools
if TYPE_CHECKING:
    from swept.types import Kind


def f(cell: Kind, seed: int) -> int:
    """Doc."""
    from swept.sub import helper
    if seed < 0:
        raise ValueError(f"the seed is {seed}")
    told(seed)
    return helper.g() + NUMBERS["one"] + tools.used() + Row(1).size + base(3) + swept.registry.total()


@observes("watch")
def told(seed: int) -> str:
    return watched_words(seed)


@observes()
def never() -> str:
    return "words"


def watched_words(seed: int) -> str:
    return f"{seed}"


def unused() -> int:
    return 1
''',
    "sub/__init__.py": "from swept.sub import helper\n",  # a package that imports its own module
    "sub/helper.py": "from ..relative import h\ndef g():\n    return h()\n",
    "relative.py": "def h():\n    return 1\n",
    "types.py": "class Kind: ...\n",
    "unrelated.py": "x = 1\n",
    "tools.py": "def used():\n    return 1\n\ndef spare():\n    return 2\n",
    "table.py": '''
from dataclasses import dataclass
NUMBERS = {"one": 1}
NUMBERS["two"] = 2

def base(x):
    return inner(x) + 1

def inner(x):
    assert x > 0, "expected more"
    return x

@dataclass
class Row:
    """A row."""
    count: int
    @property
    def size(self) -> int:
        return self.count
''',
    "registry.py": """
KNOWN = {}
def register(function):
    KNOWN[function.__name__] = function
    return function
def total():
    return len(KNOWN)
import swept.entries
""",
    "entries.py": """
from swept.registry import register, KNOWN
@register
def first():
    return 1
KNOWN.update(second=1)
""",
}
Version = Callable[..., str]


@pytest.fixture
def version(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Version:
    """The version of `swept.cell:f` as it is, or with one piece of text replaced."""
    package = tmp_path / "swept"
    for name, text in FILES.items():
        (package / name).parent.mkdir(parents=True, exist_ok=True)
        (package / name).write_text(text)
    monkeypatch.syspath_prepend(tmp_path)
    for name in [name for name in sys.modules if name.partition(".")[0] == "swept"]:
        monkeypatch.delitem(sys.modules, name)

    def of(
        file: str = "", old: str = "", new: str = "", *, configuration: Mapping[str, Any] | None = None, name: str = "f"
    ) -> str:
        if file:
            assert FILES[file].count(old) == 1, "the text to replace is not there once"
            (package / file).write_text(FILES[file].replace(old, new))
        for cached in (code_module._reached, source_path, module_text):
            cached.cache_clear()

        def stand_in() -> None: ...

        stand_in.__module__, stand_in.__qualname__ = "swept.cell", name
        found = code_version(stand_in, configuration)
        if file:
            (package / file).write_text(FILES[file])
        return found

    return of


@pytest.mark.parametrize(
    ("file", "old", "new"),
    [
        ("unrelated.py", "x = 1", "x = 2"),
        ("cell.py", '"""Doc."""', '"""Other words."""'),
        ("cell.py", "seed: int) -> int", "seed: float) -> float"),
        ("cell.py", 'f"the seed is {seed}"', 'f"the seed is {seed}; expected a natural number"'),
        ("cell.py", "    if seed < 0:", "    # a comment\n    if (seed < 0):"),
        ("cell.py", "    return 1\n", "    return 2\n"),  # of `unused`
        ("cell.py", 'return "words"', 'return "other words"'),
        ("cell.py", 'return f"{seed}"', 'return f"the seed is {seed}"'),  # nothing sets `watch`
        ("types.py", "class Kind: ...", "class Kind:\n    x = 1"),
        ("tools.py", "return 2", "return 3"),
        ("table.py", '"expected more"', '"expected a number above 0"'),
        ("table.py", '"""A row."""', '"""One row."""'),
    ],
)
def test_what_computes_nothing_does_not_count(version: Version, file: str, old: str, new: str) -> None:
    assert version(file, old, new) == version()


@pytest.mark.parametrize(
    ("file", "old", "new"),
    [
        ("relative.py", "return 1", "return 2"),
        ("sub/helper.py", "return h()", "return h() + 1"),
        ("sub/helper.py", "..relative import h", "..tools import used as h"),
        ("cell.py", "seed < 0", "seed < 1"),
        ("cell.py", "raise ValueError(", "raise TypeError("),
        ("cell.py", "swept.registry.total()", "0"),
        ("tools.py", "return 1", "return 3"),
        ("table.py", 'NUMBERS = {"one": 1}', 'NUMBERS = {"one": 2}'),
        ("table.py", 'NUMBERS["two"] = 2', 'NUMBERS["two"] = 3'),
        ("table.py", "return inner(x) + 1", "return inner(x)"),
        ("table.py", "assert x > 0", "assert x > 1"),
        ("table.py", "    return x\n", "    return 2 * x\n"),
        ("table.py", "return self.count", "return -self.count"),
        ("table.py", "count: int", "count: ClassVar[int]"),  # no field any longer
        ("registry.py", "function.__name__", "function.__qualname__"),
        ("entries.py", "    return 1", "    return 2"),  # registered when the module is imported
        ("entries.py", "second=1", "second=2"),
    ],
)
def test_what_computes_counts(version: Version, file: str, old: str, new: str) -> None:
    assert version(file, old, new) != version()


def test_what_observes_counts_where_its_setting_is_set(version: Version) -> None:
    words = "cell.py", 'return f"{seed}"', 'return f"the seed is {seed}"'
    watching = {"watch": True}
    assert version(configuration={"watch": False}) == version(configuration={}) == version()
    assert version(configuration=watching) != version()
    assert version(*words, configuration=watching) != version(configuration=watching)


def test_definitions_of_one_file_have_their_own_versions(version: Version) -> None:
    names = ("f", "unused", "watched_words")
    assert all(version(name=one) != version(name=other) for one, other in itertools.combinations(names, 2))
    change = "relative.py", "return 1", "return 2"
    assert version(*change, name="unused") == version(name="unused")


def test_a_change_of_a_table_counts_only_with_the_table(version: Version) -> None:
    change = "table.py", 'NUMBERS["two"] = 2', 'NUMBERS["two"] = 3'
    assert version(*change, name="unused") == version(name="unused")


def test_text_that_names_code_counts(version: Version) -> None:
    by_text = "tools.py", "return 1", 'return load("swept.unrelated:x")'
    both = "tools.py", "return 1", 'return load("swept.unrelated:y")'
    assert version(*by_text) != version(*both)


def test_cells_that_are_observed_have_keys_of_their_own(monkeypatch: pytest.MonkeyPatch) -> None:
    import isometer.run._cells as cells

    monkeypatch.setattr(
        cells, "code_version", lambda _, configuration=None: f"1+{bool((configuration or {}).get('w'))}"
    )
    job = Job(power, {"base": [2, 3]}, (Cell({"base": 2}, {"base": 2, "w": True}), Cell({"base": 3})))
    assert [job.code_of(cell) for cell in job.cells] == ["1+True", "1+False"]
    assert job.keys[0] == job.cells[0].key(job.function_name, "1+True")


def test_the_version_of_a_training_does_not_hang_on_the_doctor() -> None:
    """Nor on displays, reports and theory: a wider reach would renew hours of results for words."""
    pytest.importorskip("isometer_papers")
    packages = ("isometer", "isometer_papers")
    found = reached("isometer_papers.studies.cells.isometry_training", "isometry_training_cell", packages)
    rooms = {".".join(module.split(".")[:2]) for module in found.modules}
    assert not rooms & {"isometer.doctor", "isometer.report", "isometer.theory", "isometer.explore", "isometer.cli"}
    assert {"isometer_papers.training.loop", "isometer.nn._activation"} <= found.modules
    assert found.settings == {"watch"}
