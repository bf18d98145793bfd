"""The explorer's states: any query becomes one, and comes back."""

from __future__ import annotations

from dataclasses import fields
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

pytest.importorskip("dash", reason="needs Dash: pip install 'isometer[explore]'")


from isometer.explore import LIMITS, all_labs
from isometer.explore._labs import read_state
from isometer.explore._state import ActivationState, DepthState, split_names

ODD_TEXT = st.one_of(
    st.text(max_size=60),
    st.integers(-(10**12), 10**12).map(str),
    st.floats().map(repr),
    st.sampled_from(
        ["", "0", "-1", "1e309", "nan", "inf", "0x10", "1_000", "٣", "on", "batch", "relu, tanh", "a,(b,c)"]
    ),
)


@pytest.mark.parametrize("lab", all_labs())
@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(data=st.data())
def test_any_query_becomes_a_state_that_comes_back(lab: Any, data: st.DataObject) -> None:
    names = [field.name for field in fields(all_labs()[lab].state)]  # type: ignore[arg-type]
    values = data.draw(st.dictionaries(st.sampled_from([*names, "other thing"]), ODD_TEXT, max_size=8))
    state, _ = read_state(lab, values)
    again, notes = read_state(lab, state.query())
    assert again == state
    assert notes == []
    assert read_state(lab, state.texts())[0] == state, "what the controls show is the same state"


@settings(max_examples=80, deadline=None)
@given(st.dictionaries(st.sampled_from([field.name for field in fields(DepthState)]), ODD_TEXT, max_size=12))
def test_no_query_exceeds_the_limits(values: dict[str, str]) -> None:
    state, _ = DepthState.read(values)
    for name in ("depth", "width", "batch", "runs", "seed"):
        assert LIMITS[name].low <= getattr(state, name) <= LIMITS[name].high
    assert 0 <= state.layer <= state.depth
    assert state.kept(state.depth) <= LIMITS["kept"].high
    assert len(state.activation) <= LIMITS["text"].high
    assert state.residual is None or LIMITS["residual"].low <= state.residual <= LIMITS["residual"].high


def test_values_outside_are_told() -> None:
    state, notes = DepthState.read("?width=9999&depth=400&runs=x&norm=magic&weights=uniform")
    assert (state.width, state.depth, state.norm) == (500, 75, "none")
    assert notes[0] == "width 9999 is outside 2 … 500; 500 is used"
    assert "runs is 'x'; expected a number" in notes
    assert notes[-1] == "depth 400 at this width and batch needs too much memory; 75 is used"
    assert any(note.startswith("unknown norm 'magic'; expected one of none, batch") for note in notes)
    assert ActivationState.read("activations=" + ",".join("abcdefgh"))[1] == ["8 activations; the first 6 are shown"]


def test_names_are_split_outside_parentheses() -> None:
    assert split_names("max(x, 0.1*x), relu,, gain(tanh, 0.5)") == ["max(x, 0.1*x)", "relu", "gain(tanh, 0.5)"]
