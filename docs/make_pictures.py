"""Draw the pictures that the README and the docs show: `make docs`. The report's needs Chromium."""

from __future__ import annotations

import shutil
import tempfile
from pathlib import Path

from isometer.cli.demo import demo
from isometer.doctor import diagnose
from isometer.doctor.patients import patient
from isometer.report.pictures import activation_picture, save_figure
from isometer.theory import explain

PICTURES = Path(__file__).parent / "pictures"
FLAGS = (
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
)


def report_picture(page: Path, picture: Path, *, height: int = 1150) -> None:
    """Photograph the top of a page."""
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=shutil.which("chromium"), args=list(FLAGS))
        view = browser.new_page(viewport={"width": 1200, "height": height})
        view.goto(page.resolve().as_uri())
        view.wait_for_selector(".plotly .main-svg")
        view.wait_for_timeout(1500)
        view.screenshot(path=picture)
        browser.close()


def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        demo(out=Path(folder))
        for name in ("activations.png", "theory-over-simulation.png"):
            shutil.copy(Path(folder) / name, PICTURES / name)
        sick = patient("mlp-relu-100")
        inputs, targets = sick.example()
        report = diagnose(sick.model(), inputs, target=targets, loss=sick.loss, name=sick.name, description="gaussian")
        page = Path(folder) / "report.html"
        report.to_html(page)
        if shutil.which("chromium"):
            report_picture(page, PICTURES / "doctor.png")
    print(save_figure(activation_picture(explain("gelu")), PICTURES / "gelu.png"))


if __name__ == "__main__":
    main()
