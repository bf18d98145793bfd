"""What a Jupyter kernel displays: cards and pictures, not dumps of numbers."""

from __future__ import annotations

import re
from typing import Any

import pytest

CELLS = {
    "imports": "import isometer, torch\nfrom torch import nn\n_ = torch.manual_seed(0)",
    "activation": "isometer.activation('ReLU')",
    "kernel map": "isometer.kernel_map('gelu', norm='layer')",
    "explanation": "isometer.explain('tanh')",
    "spec": "spec = isometer.Spec(width=24, depth=4, activation='relu', norm='batch')\nspec",
    "simulation": "isometer.simulate(spec, runs=2, metrics=['rank', 'mean_abs_cosine'])",
    "prediction": "isometer.predict(spec, metrics=['mean_abs_cosine'])",
    "phases": "isometer.phase_diagram('tanh', points=5)",
    "answer": "isometer.solve('gain', isometer.Spec(width=8, depth=3))",
    "report": "model = nn.Sequential(*(m for _ in range(12) for m in (nn.Linear(16, 16, bias=False), nn.ReLU())))\n"
    "report = isometer.diagnose(model, stress=False)\nreport",
    "treatment": "isometer.treat(model, report, stress=False)",
    "picture": "report.plot()",
}
WORDS = {
    "activation": "Slow rank collapse",
    "kernel map": "Kernel map",
    "explanation": "Different inputs become orthogonal",
    "spec": "repeat(dense",
    "simulation": "xarray.Trajectory",
    "prediction": "xarray.Trajectory",
    "phases": "Order and chaos of tanh",
    "answer": "1.41421",
    "report": "3 severe",
    "treatment": "principled-gain",
}
DRAWN = {"activation", "kernel map", "explanation", "simulation", "prediction", "phases"}


def displayed() -> dict[str, Any]:
    """What each cell displays, by kind of content, in one kernel."""
    nbformat = pytest.importorskip("nbformat", reason="needs nbclient: pip install 'isometer[dev]'")
    nbclient = pytest.importorskip("nbclient", reason="needs nbclient: pip install 'isometer[dev]'")
    pytest.importorskip("ipykernel", reason="needs ipykernel: pip install 'isometer[dev]'")
    notebook = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(code) for code in CELLS.values()])
    nbclient.NotebookClient(notebook, timeout=300, kernel_name="python3").execute()
    shown: dict[str, Any] = {}
    for name, cell in zip(CELLS, notebook.cells, strict=True):
        errors = [one for one in cell.outputs if one.output_type in ("error", "stream")]
        assert not errors, f"{name}: {errors}"
        shown[name] = next((one.data for one in cell.outputs if one.output_type == "execute_result"), {})
    return shown


@pytest.mark.torch
def test_values_are_cards_text_stays_short_and_a_picture_is_a_picture() -> None:
    """One test, since a kernel takes seconds to start and two workers would start one each."""
    shown = displayed()
    for name, words in WORDS.items():
        page = shown[name]["text/html"]
        assert words in re.sub(r"<[^>]+>", "", page), name
        assert ("data:image/png" in page) == (name in DRAWN), name
        assert not re.search(r"<script|https?://(?!www\.w3\.org)", page), f"{name} asks something of the network"
        assert len(shown[name]["text/plain"].splitlines()) <= 40, name
    assert len(shown["picture"]["image/png"]) > 5000
