"""The transformer lab: what is computed, its pictures, and the page in a browser."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import TYPE_CHECKING

import numpy as np
import plotly.graph_objects as go
import pytest

pytest.importorskip("dash", reason="needs Dash: pip install 'isometer[explore]'")

from isometer.explore._python_lines import transformer_lines
from isometer.explore._transformer_state import AXES, TransformerState, axis_values
from isometer.explore.jobs._transformer import tokens_by_block, tokens_diagram
from isometer.explore.labs._transformer import diagram_job, path_job
from isometer.explore.pictures import _transformer as pictures
from isometer.serialize import json_data
from isometer.spec import Spec
from isometer.theory.transformers import PHASES, token_path

if TYPE_CHECKING:
    from support.explorer import Tab

SMALL = TransformerState(blocks=3, tokens=8, branch=0.4)


def test_blocks_are_those_of_theory() -> None:
    found = tokens_by_block(**path_job(SMALL).arguments)
    path = token_path(Spec(SMALL.network()), backward=True)
    np.testing.assert_array_equal(found["token_cosine"], path.token_cosine[:, 0])
    np.testing.assert_array_equal(found["log_jacobian"], path.log_jacobian[:, 0])
    assert found["phase"] in PHASES
    assert {"query", "key", "value", "output", "dense"} == set(found["weights"])
    assert found["exponents"]["angle"] < 0


def test_pictures_of_the_transformer_lab_are_valid_figures() -> None:
    found = json_data(tokens_by_block(**path_job(SMALL).arguments))
    diagram = json_data(tokens_diagram(**diagram_job(SMALL).arguments))
    for theme in ("light", "dark"):
        for figure in (
            pictures.cosine_picture(found, theme),
            pictures.entropy_picture(found, theme),
            pictures.gradient_picture(found, theme),
            pictures.diagram_picture(diagram, "qk_gain", "branch", (1.0, 0.5), theme),
        ):
            go.Figure(figure)  # refuses what Plotly does not know
            json.dumps(figure, allow_nan=False)
    here = pictures.diagram_picture(diagram, "qk_gain", "branch", (1.0, 0.5), "light")["data"][2]
    assert (here["name"], here["x"], here["y"]) == ("you are here", [1.0], [0.5])


def test_moving_along_the_axes_computes_no_diagram() -> None:
    first, second = TransformerState(qk_gain=2.0, branch=0.1), TransformerState(qk_gain=0.5, branch=0.9)
    assert diagram_job(first).key == diagram_job(second).key
    assert diagram_job(first).key != diagram_job(TransformerState(blocks=5)).key


def test_every_axis_has_values_within_the_limits_of_its_control() -> None:
    for name in AXES:
        for value in axis_values(name):
            state, notes = TransformerState.read({name: repr(value)})
            assert getattr(state, name) == pytest.approx(value)
            assert not notes


def test_python_lines_of_the_transformer_lab(capsys: pytest.CaptureFixture[str]) -> None:
    state = TransformerState(blocks=2, tokens=4, across="mlp_gain", up="branch")
    space: dict[str, object] = {}
    exec(transformer_lines(state).replace("27)", "3)"), space)
    assert space["diagram"].phase.shape == (3, 3)  # type: ignore[attr-defined]
    assert capsys.readouterr().out


@pytest.mark.slow
def test_the_page_moves_with_its_diagram(new_tab: Callable[..., Tab]) -> None:
    tab = new_tab("/transformer?blocks=24&tokens=16")
    tab.drawn("transformer-diagram", "transformer-cosine", "transformer-entropy", "transformer-gradient")
    page = tab.page
    assert "Tokens" in page.text_content("#transformer-told")
    assert len(tab.trace("transformer-cosine", "within a sample")["y"]) == 25
    page.eval_on_selector("#transformer-diagram", "e => e.scrollIntoView({block: 'center'})")
    box = page.locator("#transformer-diagram .nsewdrag").first.bounding_box()
    page.mouse.move(box["x"] + box["width"] * 0.5, box["y"] + box["height"] * 0.5)
    page.mouse.down()
    page.mouse.move(box["x"] + box["width"] * 0.25, box["y"] + box["height"] * 0.05, steps=3)
    page.mouse.up()
    assert float(page.input_value("#control-qk_gain")) == pytest.approx(
        10**-0.5, rel=0.1
    )  # of 0.1 to 10, on a log axis
    assert float(page.input_value("#control-branch")) == pytest.approx(0.95, abs=0.03)
    tab.until("() => location.search.includes('branch=0.9')")
    tab.until("() => document.querySelector('#transformer-told').textContent.includes('collapse')")
    page.select_option("#control-across", "mlp_gain")
    tab.until("() => document.querySelector('#transformer-diagram .js-plotly-plot').data[0].x[0] === 0.2")
    tab.fine()
