"""`isometer explore`: the local web page."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from isometer.cli._panels import Panel
from isometer.cli._shared import INPUT, Json, app, console, emit
from isometer.files import existing_folder

SERVER = Panel("Server")
"""The panel of the help."""


@app.command()
def explore(
    host: Annotated[
        str,
        SERVER(
            "--host",
            metavar="ADDRESS",
            help="Address to listen on. Any address but loopback lets everyone on the network use the page.",
        ),
    ] = "127.0.0.1",
    port: Annotated[
        int | None,
        SERVER("--port", metavar="P", min=0, max=65535, help="Port; by default the first free one from 8050."),
    ] = None,
    no_browser: Annotated[bool, SERVER("--no-browser", help="Do not open a browser.")] = False,
    gallery: Annotated[
        Path | None,
        INPUT("--gallery", metavar="DIR", help="Figures that `isometer reproduce` made; ./gallery if it exists."),
    ] = None,
    as_json: Json = False,
) -> None:
    """Open the explorer: guided experiments, activations, depth, doctor's reports, claims and figures.

    The page is served to this machine only, unless you pass --host, and works offline. Ctrl-C ends it.

    Examples: [bold]isometer explore[/], [bold]isometer explore --no-browser --port 9000 --gallery gallery[/]
    """
    from isometer.explore import all_labs, serve
    from isometer.explore._guard import only_this_machine

    if gallery is not None:
        existing_folder(gallery, fix="make one with `isometer reproduce --all`")
    folder = gallery if gallery is not None else Path("gallery") if Path("gallery").is_dir() else None

    def ready(url: str) -> None:
        if not only_this_machine(host):
            typer.echo("note: anyone who can reach this address over the network can compute here", err=True)
        if as_json:
            emit({"url": url, "labs": list(all_labs())})
        else:
            console().print(f"the explorer is at [bold]{url}[/] (Ctrl-C ends it)", highlight=False)

    serve(host, port, folder, browser=not no_browser and not as_json, ready=ready)
