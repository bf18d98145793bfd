"""Theory against dense networks: the rows of the page, and networks that are drawn here."""

from __future__ import annotations

import importlib.util
import math
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest
import xarray

from isometer.simulate import simulate
from isometer.spec import Spec
from isometer.theory.prediction import predict

ROOT = Path(__file__).parents[3]
ROWS = ROOT / "docs/transformers"
GATED_WITHOUT_NORM = {41}
"""Gated MLPs square what they read: without a norm, a departure doubles from block to block."""


def _tool(name: str) -> ModuleType:
    spec = importlib.util.spec_from_file_location(name, ROOT / "tools" / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_the_rows_of_the_page_are_inside() -> None:
    tool = _tool("check_transformers")
    rows = tool.known_rows(ROWS / "configurations.jsonl")
    wide = [row for number, row in rows.items() if number < 1000]
    deep = [row for number, row in rows.items() if number >= 1000]
    assert len(wide) >= 60
    assert max(row["width"] for row in wide) == 512
    assert len(deep) == 6
    assert {(row["width"], row["blocks"]) for row in deep} == {(1024, 64)}
    for some in (wide, deep):
        assert {row["norm"] for row in some} == {"pre", "post", "sandwich", "peri", "deep", "none"}
    assert {number for number, row in rows.items() if tool.outside(row)} == GATED_WITHOUT_NORM
    assert rows[41]["gated"]
    assert rows[41]["norm"] == "none"
    page = (ROOT / "docs/theory/transformers.md").read_text(encoding="utf-8")
    assert tool.report(rows).split("\n\n")[0] in page
    sizes = _tool("check_transformer_sizes")
    assert sizes.report(sizes.known(ROWS / "sizes.jsonl")) in page


def test_departures_fall_with_heads_and_head_width() -> None:
    """Of all departures that stand out at 8 × 8, the mean share left at 32 × 32 is 1/4 if they fall like 1/size.

    Fluctuations of shares are below 0.6 of them, so that no fall at all, 1/√size or 1/size² would be seen.
    """
    tool = _tool("check_transformer_sizes")
    rows = tool.known(ROWS / "sizes.jsonl")
    small, large = ({row["name"]: row for row in rows if row["heads"] == row["head_width"] == size} for size in (8, 32))
    shares, errors = [], []
    for name, metric in ((name, metric) for name in small for metric in tool.METRICS):
        (first, spread), (last, rest) = small[name][metric], large[name][metric]
        if abs(first) > 8 * spread:
            shares.append(last / first)
            errors.append(rest / abs(first))
    mean = float(np.average(shares, weights=1 / np.square(errors)))
    error = 1 / math.sqrt(np.sum(1 / np.square(errors)))
    assert len(shares) >= 8
    assert error < 0.05
    assert mean == pytest.approx(0.25, abs=3 * error + 0.1)


def _distance(theory: xarray.Dataset, drawn: xarray.Dataset, metric: str, constant: float) -> float:
    """|mean − theory| at the last layer (gradients: the first block's weights), over what is allowed."""
    expected = theory[metric].values[0]
    at = np.flatnonzero(np.isfinite(expected))[1 if metric == "gradient_log_norm" else -1]
    values, right = drawn[metric].values[:, at], float(expected[at])
    scale = 1.0 if metric.endswith("cosine") or metric == "gradient_log_norm" else max(abs(right), 1.0)
    error = 4 * values.std(ddof=1) / math.sqrt(len(values))
    finite_size = constant * (1 / 16 + 1 / 16)
    return float(abs(values.mean() - right) / (error + (theory.attrs["relative_error"] + finite_size) * scale))


def test_networks_drawn_here_are_inside_and_wrong_theories_are_not() -> None:
    """64 runs, 16 heads of 16. A departure of four standard errors has a chance of 6e-5 a number without any bias."""
    tool, sizes = _tool("check_transformers"), _tool("check_transformer_sizes")
    text = "gpt(blocks=3, width=256, hidden=512, heads=16, tokens=8, causal=False, {})"
    batch = sizes.tokens(256)
    wrong = {
        "post": ("norm='post', qk_gain=1.3, branch=0.5", {"token_cosine": "norm='post', qk_gain=1.3, branch=0.8"}),
        "pre": (
            "norm='pre', norm_kind='rms', qk_gain=1.3, branch=0.6",
            {
                "attention_entropy": "norm='pre', norm_kind='rms', qk_gain=1.6, branch=0.6",
                "gradient_log_norm": "norm='pre', norm_kind='rms', qk_gain=1.3, branch=1.1",
            },
        ),
    }
    for options, others in wrong.values():
        spec = Spec(text.format(options))
        drawn = simulate(spec, batch, runs=64, metrics=tool.CONSTANTS, engine="dense", dtype="float32", seed=11)
        theory = predict(spec, batch, metrics=list(tool.CONSTANTS))
        for metric, constant in tool.CONSTANTS.items():
            assert _distance(theory, drawn, metric, constant) < 1.0, metric
        for metric, other in others.items():
            told = predict(Spec(text.format(other)), batch, metrics=[metric])
            assert _distance(told, drawn, metric, tool.CONSTANTS[metric]) > 1.0, metric
