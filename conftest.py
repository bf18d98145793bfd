"""What all tests share. Without torch, the files that need it are left out; `support.torchless` has the rule."""

from __future__ import annotations

import importlib.util
from pathlib import Path

import pytest

pytest.register_assert_rewrite("support")
from support.torchless import file_needs_torch, text_needs_torch  # noqa: E402

TORCH = importlib.util.find_spec("torch") is not None
_left_out: list[Path] = []


def pytest_ignore_collect(collection_path: Path) -> bool | None:
    if TORCH or collection_path.suffix != ".py" or not file_needs_torch(collection_path):
        return None
    _left_out.append(collection_path)
    return True


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Examples that import torch in modules that do not."""
    skip = pytest.mark.skip(reason="the example imports torch, which is not installed")
    examples = [] if TORCH else [item for item in items if isinstance(item, pytest.DoctestItem)]
    for item in examples:
        if text_needs_torch("".join(one.source for one in item.dtest.examples if item.dtest)):
            item.add_marker(skip)


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    if not TORCH:
        terminalreporter.write_line(f"torch is not installed: {len(_left_out)} files that need it are left out")
