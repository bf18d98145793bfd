"""Addresses besides the page: curves as CSV, what a computation says, and the figures of a gallery."""

from __future__ import annotations

import secrets
from pathlib import Path

from dash import Dash
from flask import Response, abort, request

from isometer.errors import IsometerError
from isometer.explore._desk import Desk, Superseded
from isometer.explore._labs import all_labs
from isometer.explore._tables import csv_text, table
from isometer.files import read_regular

_LARGEST = 50_000_000  # bytes of a picture


def register(app: Dash, desk: Desk, gallery: Path | None) -> None:
    """`/csv/LAB/CURVE?STATE`, `/progress/TAB` and `/gallery/STUDY/figure.png`."""

    def curve_as_csv(lab: str, curve: str) -> Response:
        if lab not in all_labs():
            abort(404)
        try:
            # A tab of its own, so that a download cancels nothing on a page.
            columns = table(lab, curve, request.query_string.decode("ascii", "replace"), desk, secrets.token_hex(8))
        except IsometerError as problem:
            return Response(f"{problem}\n", status=400, mimetype="text/plain")
        except Superseded:
            abort(503)
        name = f"isometer-{lab}-{curve}.csv"
        return Response(
            csv_text(columns), mimetype="text/csv", headers={"Content-Disposition": f'attachment; filename="{name}"'}
        )

    def figure(study: str) -> Response:
        # The name is looked up among the folders there are and never joined to a path.
        known = {} if gallery is None else {path.parent.name: path for path in gallery.glob("*/figure.png")}
        if study not in known:
            abort(404)
        try:
            return Response(read_regular(known[study], _LARGEST), mimetype="image/png")
        except OSError:
            abort(404)

    def progress(tab: str) -> Response:
        return Response(desk.progress(tab[:64]), mimetype="text/plain", headers={"Cache-Control": "no-store"})

    app.server.add_url_rule("/progress/<tab>", view_func=progress)
    app.server.add_url_rule("/csv/<lab>/<curve>", view_func=curve_as_csv)
    app.server.add_url_rule("/gallery/<study>/figure.png", view_func=figure)
