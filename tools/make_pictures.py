"""Draw the pictures that the README and the docs show: `make pictures`. The report's needs Chromium."""

from __future__ import annotations

import shutil
import tempfile
from pathlib import Path

import numpy as np
import torch

import isometer
import network_pictures
from chromium import CHROMIUM, FLAGS
from isometer.cli.demo import demo
from isometer.report import activation_picture, kernel_picture, save_figure
from isometer.theory import explain, kernel_matrix
from isometer_papers.studies import find, reproduce

PICTURES = Path(__file__).parents[1] / "docs" / "pictures"
STUDIES = {  # pictures of the pages on theory
    "theory-kernels": "001/fig-5.2",
    "theory-rank": "002/fig-1",
    "theory-odd-point": "000/fig-3a",
    "theory-orthogonality": "003/fig-2a",
    "theory-orthogonality-width": "003/fig-2b",
    "theory-isometry": "001/fig-6.1",
    "theory-gradients": "001/fig-6.3",
    "theory-gains": "001/fig-6.5",
    "theory-finite-width": "001/fig-3.3",
}


def report_picture(page: Path, picture: Path, *, height: int = 1150) -> None:
    """Photograph the top of a page."""
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=list(FLAGS))
        view = browser.new_page(viewport={"width": 1200, "height": height})
        view.goto(page.resolve().as_uri())
        view.wait_for_selector(".plotly .main-svg")
        view.wait_for_timeout(1500)
        view.screenshot(path=picture)
        browser.close()


def conditioning_picture(picture: Path) -> None:
    """Eight pairs of nearly equal inputs under a centred ReLU, over depth."""
    rng = np.random.default_rng(0)
    centres = rng.normal(size=(8, 1, 32))
    inputs = (centres + 0.1 * rng.normal(size=(8, 2, 32))).reshape(16, 32)
    inputs /= np.linalg.norm(inputs, axis=1, keepdims=True)
    depths = [1, 2, 5, 10, 20, 30, 40, 60, 80]
    curve = [kernel_matrix("normalized(relu)", inputs, depth) for depth in depths]
    save_figure(kernel_picture(curve[depths.index(10)], curve), picture)


def first_picture(picture: Path) -> None:
    """The example that the README opens with, before and after treatment."""
    torch.manual_seed(0)
    layers = [part for _ in range(30) for part in (torch.nn.Linear(64, 64), torch.nn.ReLU())]
    model = torch.nn.Sequential(*layers, torch.nn.Linear(64, 10))
    isometer.treat(model, isometer.diagnose(model)).plot(picture)


def study_pictures(gallery: Path) -> None:
    """The figures of studies at their quick scale, on Fashion-MNIST where they need data."""
    studies = [find(one) for one in STUDIES.values()]
    for name, made in zip(STUDIES, reproduce(studies, gallery, data="fashion-mnist"), strict=True):
        shutil.copy(made.folder / "figure.png", PICTURES / f"{name}.png")


def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        demo(out=Path(folder))
        for name in ("activations.png", "theory-over-simulation.png"):
            shutil.copy(Path(folder) / name, PICTURES / name)
        if CHROMIUM:
            report_picture(Path(folder) / "doctor.html", PICTURES / "doctor.png")
        study_pictures(Path(folder) / "gallery")
    first_picture(PICTURES / "first.png")
    conditioning_picture(PICTURES / "theory-conditioning.png")
    network_pictures.make(PICTURES / "networks")
    print(save_figure(activation_picture(explain("gelu")), PICTURES / "gelu.png"))


if __name__ == "__main__":
    main()
