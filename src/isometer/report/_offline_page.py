"""What every page that opens offline is made of: assets, scripts, a policy that lets only them run, data."""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Callable
from functools import cache
from importlib.resources import files
from pathlib import Path
from typing import Any

from isometer.errors import IsometerError
from isometer.files import existing_folder, write_whole
from isometer.serialize import json_text


def embedded(value: Any) -> str:
    r"""JSON that is safe inside a script element: no `<`, `>`, `&`, or line separators of JavaScript.

    Example:
        >>> print(embedded({"name": "</script>"}))
        {"name":"\u003c/script\u003e"}
    """
    text = json_text(value, separators=(",", ":"))
    # JSON escapes what is not ASCII, U+2028 and U+2029 among it.
    return text.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026")


@cache
def asset(name: str) -> str:
    """The text of one of our files."""
    return files("isometer.report").joinpath("assets", name).read_text(encoding="utf-8").replace("\r\n", "\n")


@cache
def plotly_script() -> str:
    """The drawing library, to be put into a page."""
    from plotly.offline import get_plotlyjs

    # Browsers hash a script with its line ends normalised, and `</script` would end the element.
    return str(get_plotlyjs()).replace("\r\n", "\n").replace("</script", "<\\/script")


@cache
def program_of(*scripts: str) -> str:
    """Some of our scripts as one."""
    parts = "\n".join(asset(name) for name in scripts)
    return f"(() => {{\n'use strict';\n{parts}\n}})();"


@cache
def policy(*scripts: str) -> str:
    """A content security policy under which these scripts run and nothing else, and nothing is fetched."""
    hashes = (base64.b64encode(hashlib.sha256(script.encode()).digest()).decode() for script in scripts)
    allowed = " ".join(f"'sha256-{value}'" for value in hashes)
    return (
        f"default-src 'none'; script-src {allowed}; style-src 'unsafe-inline'; img-src data: blob:; "
        "connect-src 'none'; base-uri 'none'; form-action 'none'"
    )


def saved(path: Path, page: Callable[[], str]) -> Path:
    """Write a page; a reader of the file sees the old one or the new one, never a part.

    Raises:
        IsometerError: if the folder does not exist or cannot be written to.
    """
    existing_folder(path.parent, fix="create it or name a file elsewhere")
    if path.is_dir():
        raise IsometerError(f"expected the name of a file for the report, got the folder {path}; add a file name")
    write_whole(path, page(), fix="name a file in a writable folder")
    return path
