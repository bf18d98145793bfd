"""The page of a lab whose distribution is not installed: the line that installs it."""

from __future__ import annotations

from pathlib import Path

from dash import Dash, html

from isometer.explore._desk import Desk
from isometer.explore._state import State
from isometer.explore.labs import parts
from isometer.extras import missing

PARTS: dict[str, tuple[str, ...]] = {}


def layout(state: State) -> html.Div:
    """One sentence."""
    return parts.lab_page("ledger", "Ledger", missing("isometer_papers", "the ledger of claims and figures"), [], [])


def register(app: Dash, desk: Desk, gallery: Path | None) -> None:
    """Nothing here reacts."""
