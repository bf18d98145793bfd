"""The callback in a real Lightning trainer: `make test-lightning` installs it and runs this."""

from __future__ import annotations

import json
import subprocess
import sys
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

import pytest

from support import lightning_client

try:
    version("lightning")
except PackageNotFoundError:  # the stub in test_monitor.py stands for it
    pytest.skip("Lightning is not installed", allow_module_level=True)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("strategy", "devices", "precision"), [("auto", 1, "32-true"), ("auto", 1, "bf16-mixed"), ("ddp", 2, "32-true")]
)
def test_logs_and_resumes(strategy: str, devices: int, precision: str, tmp_path: Path) -> None:
    """16 steps an epoch (8 per process of two): an observation every fourth step, and training goes to its end."""
    call = [sys.executable, lightning_client.__file__, strategy, str(devices), precision, str(tmp_path)]
    done = subprocess.run(call, capture_output=True, text=True, timeout=600, check=True)
    told = json.loads(next(line for line in done.stdout.splitlines() if line.startswith("TOLD"))[5:])
    steps = 32 // devices
    assert (told["steps"], told["resumed"]) == (steps, steps * 3 // 2)
    assert told["rows"] == steps // 4
    assert "signal/gradient_log_norm/first" in told["names"]
    assert 1 < float(told["rank"]) <= 32
