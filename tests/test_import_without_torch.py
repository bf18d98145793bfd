"""`import isometer` and the commands about activations work without importing torch; the check itself can fail."""

import subprocess
import sys
from pathlib import Path

# A finder that refuses torch: any import of it, however lazy, becomes an error.
BLOCK = """
import sys
class Refuse:
    def find_spec(self, name, path=None, target=None):
        if name == "torch" or name.startswith("torch."):
            raise ImportError("torch was imported")
sys.meta_path.insert(0, Refuse())
"""
COMMAND = """
import sys
from isometer.cli import main
for arguments in {commands!r}:
    sys.argv = ["isometer", *arguments]
    try:
        main()
    except SystemExit as end:
        assert not end.code, (arguments, end.code)
assert not any(name.partition(".")[0] == "torch" for name in sys.modules), "torch is loaded"
"""


def run(code: str, folder: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-W", "error", "-c", BLOCK + code], capture_output=True, text=True, cwd=folder, timeout=120
    )


def test_import_does_not_load_torch(tmp_path: Path) -> None:
    done = run("import isometer, isometer.theory, isometer.activations\nassert 'torch' not in sys.modules", tmp_path)
    assert done.returncode == 0, done.stderr


def test_commands_do_not_load_torch(tmp_path: Path) -> None:
    commands = [
        ["explain", "relu"],
        ["data", "list"],
        ["explain", "gelu", "--json", "--norm", "layer", "--norm-position", "post"],
        ["explain", "x * sigmoid(x)", "--plot", "card.png"],
        ["compare", "relu", "tanh"],
        ["activations"],
    ]
    done = run(COMMAND.format(commands=commands), tmp_path)
    assert done.returncode == 0, done.stderr
    assert "relu" in done.stdout
    assert (tmp_path / "card.png").stat().st_size > 10_000


def test_the_check_can_fail(tmp_path: Path) -> None:
    """With torch imported by anyone, the same subprocess ends in an error."""
    blocked = run("import isometer\nimport torch", tmp_path)
    assert blocked.returncode != 0
    assert "torch was imported" in blocked.stderr
    loaded = run("sys.modules['torch'] = sys\n" + COMMAND.format(commands=[["explain", "step"]]), tmp_path)
    assert loaded.returncode != 0
