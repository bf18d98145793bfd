"""`import isometer` and the commands about activations work without importing torch; the check itself can fail."""

from pathlib import Path

import pytest

from support.missing import commands, refusing_torch
from support.torchless import listed

ROOT = Path(__file__).parents[1]

UNLOADED = """
assert not any(name.partition(".")[0] == "torch" for name in sys.modules), "torch is loaded"
"""


def test_import_does_not_load_torch(tmp_path: Path) -> None:
    done = refusing_torch("import isometer, isometer.theory, isometer.activations" + UNLOADED, tmp_path)
    assert done.returncode == 0, done.stderr


def test_commands_do_not_load_torch(tmp_path: Path) -> None:
    those = [
        ["explain", "relu"],
        ["data", "list"],
        ["explain", "gelu", "--json", "--norm", "layer", "--norm-position", "post"],
        ["explain", "x * sigmoid(x)", "--plot", "card.png"],
        ["compare", "relu", "tanh"],
        ["activations"],
    ]
    done = refusing_torch(commands(*those) + UNLOADED, tmp_path)
    assert done.returncode == 0, done.stderr
    assert "relu" in done.stdout
    assert (tmp_path / "card.png").stat().st_size > 10_000


def test_the_check_can_fail(tmp_path: Path) -> None:
    """With torch imported by anyone, the same subprocess ends in an error."""
    blocked = refusing_torch("import isometer\nimport torch", tmp_path)
    assert blocked.returncode != 0
    assert "torch was imported" in blocked.stderr
    program = commands(["explain", "step"]) + UNLOADED
    loaded = refusing_torch("sys.modules['torch'] = sys\n" + program, tmp_path)
    assert loaded.returncode != 0


@pytest.mark.parametrize("name", sorted(listed()))
def test_what_is_listed_as_needing_torch_exists(name: str) -> None:
    file, _, test = name.partition("::")
    assert f"def {test.rpartition('.')[2]}(" in (ROOT / file).read_text(encoding="utf-8")
