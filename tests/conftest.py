"""What tests of several packages share; what is no fixture is in `support`."""

from __future__ import annotations

from pathlib import Path

import pytest

from support.fixtures import browser  # noqa: F401


@pytest.fixture
def home(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """The home folder of a computer on which no data set has been obtained."""
    folder = tmp_path / "home"
    folder.mkdir()
    for variable in ("ISOMETER_DATA", "XDG_CACHE_HOME", "KERAS_HOME"):
        monkeypatch.delenv(variable, raising=False)
    monkeypatch.setenv("HOME", str(folder))
    monkeypatch.setenv("USERPROFILE", str(folder))
    monkeypatch.chdir(folder)
    return folder
