"""What the tests of pages listen to."""

from __future__ import annotations

from typing import Any


def listen(page: Any, trouble: list[str], requests: list[str]) -> None:
    """Note what a page complains about and what it asks for."""
    page.on("console", lambda message: trouble.append(f"{message.type}: {message.text}"))
    page.on("pageerror", lambda error: trouble.append(str(error)))
    page.on("dialog", lambda dialog: (trouble.append("dialog"), dialog.dismiss()))
    page.on("request", lambda request: requests.append(request.url))
