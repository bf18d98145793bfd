"""References in high precision, computed without the library: `python -m support.references.generate` in tests/."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any


def stored(name: str) -> dict[str, Any]:
    """The references in `name`.json."""
    found: dict[str, Any] = json.loads((Path(__file__).parent / f"{name}.json").read_text(encoding="utf-8"))
    return found
