"""Transformers in `predict`, `simulate` and `phase` as a user runs them."""

from __future__ import annotations

from pathlib import Path

import pytest

from support.command import as_json, error, printed

_SMALL = "gpt(blocks=2, width=32, heads=4, tokens=5, branch=0.4)"
_NAMES = {"rms", "token_cosine", "sample_cosine", "attention_entropy", "gradient_log_norm"}


def test_predict_and_simulate_report_sequences_by_layer() -> None:
    predicted = as_json("predict", "--network", _SMALL, "--backward")
    simulated = as_json("simulate", "--network", _SMALL, "--backward", "--runs", "4")
    for found in (predicted, simulated):
        assert set(found["metrics"]) >= _NAMES
        assert len(found["metrics"]["token_cosine"]["mean"]) == len(found["layers"]) == 4
    lengths = [found["metrics"]["rms"]["mean"] for found in (predicted, simulated)]
    assert lengths[0] == pytest.approx(lengths[1], rel=0.1)
    assert predicted["exponents"] == {"angle": None, "gradient": None}  # causal, and the norm before the branch


def test_predict_has_the_exponents_of_a_steady_state() -> None:
    text = "gpt(blocks=2, width=32, heads=4, tokens=5, norm='post', causal=False)"
    found = as_json("predict", "--network", text, "--batch", "2")["exponents"]
    assert found["angle"] < 0.0
    assert found["gradient"] is not None


def test_phase_draws_a_transformer_over_two_numbers(tmp_path: Path) -> None:
    picture = tmp_path / "phase.png"
    arguments = ("--network", _SMALL, "--x", "qk_gain=0.1:10", "--y", "branch=0:1", "--points", "5")
    found = as_json("phase", *arguments, "--plot", str(picture))
    assert found["x"] == pytest.approx([0.1, 10**-0.5, 1.0, 10**0.5, 10.0])
    assert found["y"] == [0.0, 0.25, 0.5, 0.75, 1.0]
    assert found["token_cosine"][0] == [0.0] * 5  # no branch, no change
    assert found["token_cosine"][4][0] > found["token_cosine"][1][0] > 0.0
    assert found["attention_entropy"][4][4] < found["attention_entropy"][4][0]
    assert picture.stat().st_size > 10_000
    assert "entropy" in printed("phase", *arguments)


def test_phase_refuses_axes_it_cannot_draw() -> None:
    for arguments, words in (
        (("--network", _SMALL, "--x", "qk_gain=0.1:10"), "expected all three"),
        (("--network", _SMALL, "--x", "qk=0:1", "--y", "branch=0:1"), "keyword of gpt"),
        (("--network", "dense > act('relu')", "--x", "a=0:1", "--y", "b=0:1"), "unknown number of a network"),
        (("--network", _SMALL[:-1] + ", causal=True)", "--x", "qk_gain=1:2", "--y", "branch=0:1"), "a causal mask"),
    ):
        assert words in error("phase", *arguments)
