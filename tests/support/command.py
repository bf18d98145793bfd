"""The command `isometer` in this process, as a user calls it."""

from __future__ import annotations

import json
from typing import Any

import pytest
from click.testing import Result
from typer.testing import CliRunner

from isometer.cli import app
from isometer.errors import IsometerError


def invoke(*arguments: str, code: int | None = 0) -> Result:
    """What came of it, with that exit code (any where it is None); errors are raised."""
    result = CliRunner().invoke(app, [*arguments], catch_exceptions=False)
    assert code is None or result.exit_code == code, result.output
    return result


def printed(*arguments: str) -> str:
    """What it prints."""
    return invoke(*arguments).stdout


def as_json(*arguments: str, code: int = 0) -> Any:
    """What it prints with `--json`."""
    return json.loads(invoke(*arguments, "--json", code=code).stdout)


def error(*arguments: str) -> str:
    """What it says of input that it refuses."""
    with pytest.raises(IsometerError) as told:
        invoke(*arguments, code=None)
    return str(told.value)
