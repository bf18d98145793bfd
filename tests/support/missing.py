"""Python without some packages, in a process of its own."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

WITHOUT = """
import sys
from importlib.machinery import PathFinder
found = PathFinder.find_spec
def find(name, path=None, target=None):
    return None if name.partition(".")[0] in {blocked!r} else found(name, path, target)
PathFinder.find_spec = find
"""
# A finder that refuses torch: any import of it, however lazy, becomes an error.
REFUSE = """
import sys
class Refuse:
    def find_spec(self, name, path=None, target=None):
        if name == "torch" or name.startswith("torch."):
            raise ImportError("torch was imported")
sys.meta_path.insert(0, Refuse())
"""
COMMANDS = """
from isometer.cli import main
for arguments in {commands!r}:
    sys.argv = ["isometer", *arguments]
    try:
        main()
    except SystemExit as end:
        if end.code:
            raise
"""


def outcome(code: str, folder: Path, *blocked: str) -> subprocess.CompletedProcess[str]:
    """What became of a program for which the packages `blocked` are not installed."""
    whole = WITHOUT.format(blocked=set(blocked)) + code
    return subprocess.run([sys.executable, "-c", whole], capture_output=True, text=True, cwd=folder, timeout=120)


def refusing_torch(code: str, folder: Path) -> subprocess.CompletedProcess[str]:
    """What became of a program in which any import of torch and any warning is an error."""
    command = [sys.executable, "-W", "error", "-c", REFUSE + code]
    return subprocess.run(command, capture_output=True, text=True, cwd=folder, timeout=120)


def commands(*those: list[str]) -> str:
    """A program that runs these commands; it ends with the code of the first that fails."""
    return COMMANDS.format(commands=[*those])
