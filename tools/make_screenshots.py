"""Screenshots of the explorer's labs and of a doctor's report, into docs/pictures.

    python tools/make_screenshots.py [--gallery DIR] [--only NAME]

Needs playwright and a Chromium. Every picture is reduced to 256 colours, which keeps it below 250 kB.
"""

from __future__ import annotations

import argparse
import io
import sys
import tempfile
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from chromium import CHROMIUM, FLAGS

FOLDER = Path(__file__).parents[1] / "docs" / "pictures"
LARGEST = 250_000
PATIENCE = 300_000  # milliseconds


@dataclass(frozen=True)
class Shot:
    """One picture: an address, what must be there first, and how it is looked at."""

    name: str
    path: str
    ready: tuple[str, ...]
    options: dict[str, Any] = field(default_factory=dict)
    height: int = 1000


PHONE = {"viewport": {"width": 390, "height": 844}, "device_scale_factor": 2, "is_mobile": True, "has_touch": True}
DONE = "!document.querySelector('#depth-told').textContent.includes('Computing')"


def graph(name: str) -> str:
    """A condition: the graph has something in it."""
    return f"(document.querySelector('#{name} .js-plotly-plot') || {{data: []}}).data.length > 0"


SHOTS = (
    Shot("start", "/start", tuple(graph(f"start-preview-{name}") for name in ("dies", "norm", "skip")), height=930),
    Shot("activation", "/activation", tuple(map(graph, ("activation-kernel", "activation-phase"))), height=1180),
    Shot("depth", "/depth?layer=3", (graph("depth-gram"), graph("depth-gap"), DONE), height=1330),
    Shot(
        "transformer",
        "/transformer",
        tuple(map(graph, ("transformer-diagram", "transformer-cosine", "transformer-entropy", "transformer-gradient"))),
        height=1330,
    ),
    Shot(
        "clinic",
        "/clinic?report=patient:mlp-relu-100&other=patient:mlp-bn-50&layer=48",
        (graph("clinic-curve"), "document.querySelector('#clinic-compared section')"),
    ),
    Shot(
        "ledger",
        "/ledger?verdict=refuted&chosen=002/lem-1",
        (graph("ledger-points"), "document.querySelector('.claims')"),
    ),
    Shot(
        "dark",
        "/depth?norm=batch-recenter&batch=20&depth=150&layer=150",
        (graph("depth-gram"), graph("depth-gap"), DONE),
        {"color_scheme": "dark"},
        height=1330,
    ),
    Shot("phone", "/activation?activations=tanh,relu", (graph("activation-kernel"),), PHONE),
)


def main() -> None:
    """Take all pictures, or the one named."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--gallery", type=Path, default=None)
    parser.add_argument("--only", default=None)
    asked = parser.parse_args()
    if CHROMIUM is None:
        sys.exit("no Chromium; install one: apt-get install chromium")
    from playwright.sync_api import sync_playwright

    from isometer.explore._server import running

    with running(port=0, gallery=asked.gallery) as explorer, sync_playwright() as driver:
        browser = driver.chromium.launch(executable_path=CHROMIUM, args=list(FLAGS))
        for shot in SHOTS:
            if asked.only in (None, shot.name):
                take(browser, explorer.url.rstrip("/") + shot.path, shot)
        if asked.only in (None, "report"):
            report(browser, explorer.desk)
        browser.close()


def take(browser: Any, url: str, shot: Shot) -> None:
    """One picture of one address."""
    page = browser.new_context(**{"viewport": {"width": 1280, "height": shot.height}, **shot.options}).new_page()
    page.goto(url)
    for condition in shot.ready:
        page.wait_for_function(f"() => {condition}", timeout=PATIENCE)
    page.wait_for_timeout(4000)  # the cobweb runs
    save(page.screenshot(), shot.name)
    page.close()


def report(browser: Any, desk: Any) -> None:
    """The page that `isometer doctor --html` writes."""
    from isometer.explore import Computation
    from isometer.report import save_page

    [document] = desk.ask("screenshots", "report", [Computation("examined", {"name": "mlp-relu-100"})])
    with tempfile.TemporaryDirectory() as folder:
        path = save_page(document, Path(folder) / "report.html")
        page = browser.new_context(viewport={"width": 1280, "height": 1000}).new_page()
        page.goto(path.as_uri())
        page.wait_for_function("() => document.querySelector('#curve').childElementCount", timeout=PATIENCE)
        page.wait_for_timeout(1000)
        save(page.screenshot(), "report")


def save(content: bytes, name: str) -> None:
    """Reduced to 256 colours."""
    from PIL import Image

    target = FOLDER / f"explorer-{name}.png"
    picture = Image.open(io.BytesIO(content)).convert("RGB").quantize(256, dither=Image.Dither.NONE)
    picture.save(target, optimize=True)
    size = target.stat().st_size
    print(f"{target.name}: {size / 1000:.0f} kB")
    if size > LARGEST:
        sys.exit(f"{target.name} is larger than {LARGEST / 1000:.0f} kB; take a smaller picture")


if __name__ == "__main__":
    main()
