"""Panels of the help, which make the options that stand in them."""

from __future__ import annotations

from typing import Any

import typer


class Panel(str):
    """The title of a panel; called with what `typer.Option` takes, it makes an option in that panel.

    Example:
        >>> Panel("Input")("--seed", help="Seed.").rich_help_panel
        'Input'
    """

    def __call__(self, *names: str, **settings: Any) -> Any:
        return typer.Option(*names, rich_help_panel=str(self), **settings)
