"""Every public name of the companion has a docstring with a runnable example."""

from __future__ import annotations

import pytest

from support.docstrings import without_example

ROOMS = (
    "isometer_papers.claims",
    "isometer_papers.architectures",
    "isometer_papers.report.ledger_page",
    "isometer_papers.report.gallery",
    "isometer_papers.simulate.rank_steps",
    "isometer_papers.studies",
    "isometer_papers.training",
    "isometer_papers.theory.duals",
    "isometer_papers.theory.kernel_learning.interpolation",
    "isometer_papers.theory.isometry",
    "isometer_papers.theory.isometry.gap_steps",
    "isometer_papers.theory.mean_field",
    "isometer_papers.theory.odd_point",
    "isometer_papers.theory.duals.one_layer_relu",
    "isometer_papers.theory.kernel_learning.optimization",
    "isometer_papers.theory.orthogonality",
    "isometer_papers.theory.kernel_learning.queries",
    "isometer_papers.theory.rank",
)


@pytest.mark.parametrize("room", ROOMS)
def test_public_names_have_examples(room: str) -> None:
    assert without_example(room) == []
