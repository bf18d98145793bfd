"""What all tests share. Without torch, the files that need it are left out; `support.torchless` has the rule."""

from __future__ import annotations

import gc
import importlib.util
import signal
from pathlib import Path

import pytest

pytest.register_assert_rewrite("support")
from support.torchless import file_needs_torch, listed, text_needs_torch  # noqa: E402

TORCH = importlib.util.find_spec("torch") is not None
_left_out: list[Path] = []
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    # So it is in a job that a shell started in the background, and processes of tests would inherit it.
    signal.signal(signal.SIGINT, signal.default_int_handler)


def pytest_sessionstart() -> None:
    # Seventeen thousand tests are a million objects: to look through them again and again takes longer than many tests.
    gc.disable()


def pytest_collection_finish() -> None:
    gc.collect()
    gc.freeze()
    gc.enable()


def pytest_ignore_collect(collection_path: Path) -> bool | None:
    if TORCH or collection_path.suffix != ".py" or not file_needs_torch(collection_path):
        return None
    _left_out.append(collection_path)
    return True


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Tests that are marked or listed, and examples that import torch in modules that do not."""
    skip = pytest.mark.skip(reason="needs torch, which is not installed")
    for item in [] if TORCH else items:
        dtest = item.dtest if isinstance(item, pytest.DoctestItem) else None
        code = "".join(one.source for one in dtest.examples) if dtest is not None else ""
        if item.get_closest_marker("torch") or item.nodeid.partition("[")[0] in listed() or text_needs_torch(code):
            item.add_marker(skip)


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    if not TORCH:
        terminalreporter.write_line(f"torch is not installed: {len(_left_out)} files that need it are left out")
