"""Studies of transformers: cells against formulas of their own, and rules of verdicts that can come out either way."""

from __future__ import annotations

import math

import numpy as np
import pytest
import xarray

from isometer_papers.studies import find
from isometer_papers.studies._records import settings_of
from isometer_papers.studies.cells.text_training import symbols, unigram_entropy
from isometer_papers.studies.cells.transformers import printed_bound_cell, row_cell, token_gap_cell
from isometer_papers.studies.transformers.cowsik2024 import crossing


def test_a_layer_of_pure_attention_cubes_small_residuals() -> None:
    """Close tokens: rows of attention differ by the scores' differences, so a gap g becomes about κ²(T − 1)/T² g³."""
    network = "gpt(blocks=4, width=64, heads=8, tokens=32, hidden=0, norm='post', skip=0.0, causal=False)"
    gap = token_gap_cell({"network": network}, 0)["log_gap"].values
    assert gap[4] - 3 * gap[3] == pytest.approx(math.log(31 / 32**2), abs=1e-4)


def test_residual_and_bound_in_double_precision() -> None:
    c = {"tokens": 4, "width": 3, "heads": 1, "layers": 1, "size": 0.7, "digits": 40}
    found = printed_bound_cell(c, 5)
    rng = np.random.default_rng(5)
    x = rng.standard_normal((4, 3)) / math.sqrt(3)
    scores, values = (0.7 / math.sqrt(3) * rng.standard_normal((3, 3)) for _ in range(2))
    weights = np.exp(x @ scores @ x.T / math.sqrt(3))
    out = weights / weights.sum(axis=1, keepdims=True) @ x @ values

    def size(a: np.ndarray) -> float:
        return math.sqrt(np.linalg.norm(a, 1) * np.linalg.norm(a, np.inf))

    first, last = size(x - x.mean(axis=0)), size(out - out.mean(axis=0))
    assert found["residual"].values == pytest.approx([math.log10(first), math.log10(last)])
    bound = 4 * np.linalg.norm(scores, 1) * size(values) / math.sqrt(3) * first**3
    assert found["bound"].values[1] == pytest.approx(math.log10(bound))


def test_rows_of_two_tokens() -> None:
    """E Σ A² = (1 + E tanh²(s/2))/2 with s the difference of two scores, by a sum over 2001 points."""
    width = 1.3 * math.sqrt(math.log(2))
    g = np.linspace(-9, 9, 2001)
    density = np.exp(-(g**2) / 2) / np.sqrt(2 * np.pi) * (g[1] - g[0])
    expected = (1 + (np.tanh(width * g / math.sqrt(2)) ** 2 * density).sum()) / 2
    assert float(row_cell({"strength": 1.3, "tokens": 2}, 0)["participation"]) == pytest.approx(expected, rel=1e-8)


def test_crossings() -> None:
    assert crossing(np.array([0.0, 1.0, 2.0]), np.array([3.0, 1.0, -1.0])) == 1.5
    assert crossing(np.array([0.0, 1.0]), np.array([1.0, 2.0])) is None


@pytest.mark.parametrize(("power", "seen"), [(3.0, True), (1.0, False), (2.0, False)])
def test_only_a_cubic_fall_counts_as_one(power: float, seen: bool) -> None:
    study = find("005/collapse")
    gap = np.array([0.0, *(-20.0 * sum(power**i for i in range(k)) for k in range(1, 7))])[:7]
    gains = list(study.quick.axes["gain"])
    rows = np.stack([np.stack([gap, np.full(7, -1.0)])] * len(gains))
    made = xarray.Dataset({"log_gap": (("gain", "skip", "block"), rows)}, {"gain": gains, "skip": [0.0, 1.0]})
    found = study.read(made, settings_of(study.quick)).statements
    assert next(iter(found.values())) is seen


@pytest.mark.parametrize(("stretch", "verdict"), [(0.5, "agree"), (1.0, "partly"), (0.0, "partly")])
def test_growth_is_told_apart(stretch: float, verdict: str) -> None:
    study = find("009/growth")
    blocks = np.array(study.quick.axes["blocks"], dtype=float)
    kinds = list(study.quick.axes["kind"])
    tanh_like = blocks**stretch if stretch else np.log(blocks)
    rows = [tanh_like if kind in ("dyt", "derf") else 0.7 * np.log(blocks) for kind in kinds]
    coordinates = {"kind": kinds, "blocks": study.quick.axes["blocks"]}
    made = xarray.Dataset({"log_jacobian": (("kind", "blocks"), np.stack(rows))}, coordinates)
    assert study.read(made, settings_of(study.quick)).verdict == verdict


@pytest.mark.parametrize("collapsed", [3.2, 2.8])
def test_training_may_contradict_the_diagram(collapsed: float) -> None:
    study = find("008/grid")
    axes = {name: list(values) for name, values in study.quick.axes.items()}
    shape = tuple(len(values) for values in axes.values())
    phase, loss = np.zeros(shape, dtype=int), np.full(shape, 2.9)
    phase[1], loss[1] = 1, collapsed
    loss += 0.001 * np.arange(shape[-1])
    made = xarray.Dataset({"phase": (tuple(axes), phase), "loss": (tuple(axes), loss)}, axes)
    found = study.read(made, settings_of(study.quick))
    seen = list(found.statements.values())
    assert seen == [True, collapsed > 2.9, None]


@pytest.mark.parametrize(
    ("loss", "seen"),
    [("rises", [True, True]), ("falls", [False, False]), ("elsewhere", [True, False]), ("noise", [None, None])],
)
def test_losses_against_exponents(loss: str, seen: list[bool | None]) -> None:
    """Ten networks with exponents of 0.01 to 0.10."""
    study = find("007/loss")
    axes = {name: list(values) for name, values in study.quick.axes.items()}
    size = np.arange(1, 11).reshape(2, 5) / 100
    mean = {"rises": 2 + size, "falls": 3 - size, "elsewhere": 2 + size, "noise": 2 + 5 * size}[loss]
    if loss == "elsewhere":
        mean[0, 1] -= 0.2
    runs = (1.0 if loss == "noise" else 1e-4) * np.array([-1.5, -0.5, 0.5, 1.5])
    shape = (2, 5, 4)
    made = xarray.Dataset(
        {
            "loss": (tuple(axes), mean[..., None] + runs),
            "angle": (tuple(axes), np.broadcast_to(-size[..., None], shape)),
            "gradient": (tuple(axes), np.broadcast_to(size[..., None] / 2, shape)),
        },
        axes,
    )
    assert list(study.read(made, settings_of(study.quick)).statements.values()) == seen


def test_the_text_is_text() -> None:
    assert len(symbols()) > 100_000
    assert 2.5 < unigram_entropy() < 3.5
