"""Cells, keys, seeds, grids as text, and results laid over a grid."""

from __future__ import annotations

import hashlib
import json
import math
import subprocess
import sys

import numpy as np
import pytest
import xarray
from hypothesis import given, settings
from hypothesis import strategies as st

from isometer.errors import IsometerError
from isometer.run import Cell, Job, combine_grid, parse_axes, seed_of
from isometer.run._cells import canonical, recorded, restored
from isometer.run._code import name_of
from isometer.run.example import power
from support.run_cells import walk

NAMES = ["width", "depth", "activation", "gamma", "norm_position"]


def test_seeds_are_those_of_numpy_and_sha256() -> None:
    text = '{"width":64}'
    words = np.frombuffer(hashlib.sha256(text.encode()).digest(), dtype="<u4").tolist()
    bits = "".join(f"{word:032b}" for word in np.random.SeedSequence(words).generate_state(2, np.uint32))
    assert seed_of(text) == int(bits[:63], 2)


def test_seeds_do_not_depend_on_the_process() -> None:
    code = "from isometer.run import Cell; print(Cell({'width': 64, 'activation': 'tanh'}).seed)"
    here = Cell({"width": 64, "activation": "tanh"}).seed
    environment = {"PYTHONHASHSEED": "1", "PYTHONPATH": ":".join(sys.path)}
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, env=environment, check=True)
    assert int(done.stdout) == here


def test_seeds_of_neighbours_look_independent() -> None:
    """The share of ones in each bit over 4000 cells: within 5 standard deviations of 1/2 (63 bits, chance 4e-5)."""
    seeds = np.array([Cell({"i": i}).seed for i in range(4000)], dtype=np.uint64)
    share = np.array([((seeds >> np.uint64(bit)) & np.uint64(1)).mean() for bit in range(63)])
    assert np.abs(share - 0.5).max() < 5 * 0.5 / math.sqrt(4000)
    assert len(set(seeds.tolist())) == 4000


def test_a_key_is_content_not_order_or_place() -> None:
    cell = Cell({"a": 1}, {"width": 64, "depth": 3, "x": np.arange(3.0)})
    same = Cell({"b": 2}, {"x": np.arange(3.0), "depth": 3, "width": 64})
    assert cell.key("m:f", "1") == same.key("m:f", "1")
    assert cell.seed == same.seed
    others = [
        cell.key("m:g", "1"),
        cell.key("m:f", "2"),
        Cell({"a": 1}, {"width": 65, "depth": 3, "x": np.arange(3.0)}).key("m:f", "1"),
        Cell({"a": 1}, {"width": 64, "depth": 3, "x": np.arange(3)}).key("m:f", "1"),
        Cell({"a": 1}, {"width": 64, "depth": 3, "x": np.arange(3.0)[:, None]}).key("m:f", "1"),
    ]
    assert len({cell.key("m:f", "1"), *others}) == 6


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=8,
)


@settings(max_examples=40, deadline=None)
@given(st.dictionaries(st.text(max_size=5), json_values, max_size=3))
def test_configurations_survive_json(configuration: dict[str, object]) -> None:
    if any(key in ("$array", "$number") for key in canonical(configuration).split('"')):
        return
    assert restored(json.loads(canonical(configuration)), {}) == configuration


def test_jobs_survive_json_with_arrays() -> None:
    inputs = np.random.default_rng(0).standard_normal((3, 2))
    cells = tuple(Cell({"gamma": g}, {"gamma": g, "x": inputs}) for g in (0.5, math.inf))
    job = Job(walk, {"gamma": [0.5, math.inf]}, cells, notes={"target": "walk"})
    again = Job.from_record(json.loads(json.dumps(job.to_record(), allow_nan=False)), job.arrays)
    assert again.keys == job.keys
    assert again.cells[1].configuration["gamma"] == math.inf
    np.testing.assert_array_equal(again.cells[0].configuration["x"], inputs)


def test_functions_must_be_found_by_name() -> None:
    with pytest.raises(IsometerError, match="move it into a file"):
        Job(lambda cell, seed: xarray.Dataset(), {"a": [1]})
    assert name_of(power) == "isometer.run.example:power"


@pytest.mark.parametrize("value", [object(), {1: 2}, b"bytes", np.array(["text"])])
def test_what_a_configuration_cannot_hold(value: object) -> None:
    with pytest.raises(IsometerError):
        recorded({"a": value})


@pytest.mark.parametrize(
    ("text", "values"),
    [
        ("width=64,128,256", ["64", "128", "256"]),
        ("activation=relu,leaky_relu(0.1),gain(tanh, 0.5)", ["relu", "leaky_relu(0.1)", "gain(tanh, 0.5)"]),
        ("depth=10:100:30", ["10", "40", "70", "100"]),
        ("depth=10:99:30", ["10", "40", "70"]),
        ("depth=3:1:-1", ["3", "2", "1"]),
        ("depth=1:3,7", ["1", "2", "3", "7"]),
        ("gamma=0.1:0.3:0.1", ["0.1", "0.2", "0.3"]),
        ("width=log:16:1024:4", ["16", "64", "256", "1024"]),
        ("gamma=log:0.01:1:3", ["0.01", "0.1", "1"]),
        ("width=log:1:3:9", ["1", "2", "3"]),
        ("norm-position=pre,post", ["pre", "post"]),
        ("activation=correlated:0.9", ["correlated:0.9"]),
    ],
)
def test_grid_texts(text: str, values: list[str]) -> None:
    axes = parse_axes([text], NAMES)
    assert list(axes.values()) == [values]


@pytest.mark.parametrize(
    ("texts", "message"),
    [
        (["widht=1"], "unknown key of the grid 'widht'; did you mean 'width'"),
        (["zzz=1"], "expected one of activation, depth"),
        (["width"], "expected name=values"),
        (["width="], "no values for 'width'"),
        (["width=1,2", "width=3"], "twice"),
        (["activation=gain(tanh,0.5"], "parentheses do not match"),
        (["depth=1:10:0"], "never reaches its end"),
        (["depth=10:1"], "never reaches its end"),
        (["width=log:0:10:3"], "log:START:STOP:COUNT"),
        (["width=log:1:10"], "log:START:STOP:COUNT"),
        (["depth=1:1e9"], "at most 100000"),
        ([], "the grid is empty"),
    ],
)
def test_bad_grid_texts_are_explained(texts: list[str], message: str) -> None:
    with pytest.raises(IsometerError, match=message):
        parse_axes(texts, NAMES)


@pytest.mark.parametrize(
    ("axes", "message"),
    [({}, "empty"), ({"a": []}, "no values"), ({"a": [1, 1.0]}, "twice"), ({"a": [1, "b"]}, "mixes")],
)
def test_bad_axes_are_explained(axes: dict[str, list[object]], message: str) -> None:
    with pytest.raises(IsometerError, match=message):
        Job(power, axes)  # type: ignore[arg-type]


def test_numpy_axes_become_plain() -> None:
    job = Job(power, {"base": np.array([2, 3]), "exponent": np.linspace(0, 1, 2)})  # type: ignore[dict-item]
    assert job.axes == {"base": [2, 3], "exponent": [0.0, 1.0]}
    json.dumps(job.to_record())


def test_combine_pads_joins_and_keeps_what_agrees() -> None:
    """Cells of different depth, one of them missing; the coordinate `depth` of the cells gives way to the axis."""
    job = Job(walk, {"depth": [1, 3, 2], "kind": ["a", "b"]})

    def result(depth: int, kind: str) -> xarray.Dataset:
        layers = np.arange(depth + 1)
        values = 100 * depth + 10.0 * (kind == "b") + layers
        names = np.array([f"layer {i}" for i in layers], dtype=object)
        coords = {"layer": layers, "depth": ("layer", layers), "name": ("layer", names), "site": kind}
        data = {"gap": (("run", "layer"), np.stack([values, -values])), "count": depth, "said": kind * depth}
        return xarray.Dataset(data, coords=coords, attrs={"engine": "gram", "depth": depth})

    present = {c.label: result(**c.coordinates) for c in job.cells if c.label != "depth=2 kind=b"}
    combined = combine_grid(job, present)
    assert dict(combined.sizes) == {"depth": 3, "kind": 2, "run": 2, "layer": 4}
    assert combined["gap"].dims == ("depth", "kind", "run", "layer")
    np.testing.assert_array_equal(combined["gap"].sel(depth=1, kind="b").values[0], [110, 111, np.nan, np.nan])
    np.testing.assert_array_equal(combined["gap"].sel(depth=3, kind="a").values[1], [-300, -301, -302, -303])
    assert combined["gap"].sel(depth=2, kind="b").isnull().all()
    assert combined["depth"].values.tolist() == [1, 3, 2]
    assert combined["name"].values.tolist() == ["layer 0", "layer 1", "layer 2", "layer 3"]
    assert "site" not in combined.coords
    assert combined.attrs["engine"] == "gram"
    assert "depth" not in combined.attrs
    assert math.isnan(combined["count"].sel(depth=2, kind="b"))
    assert combined["said"].values.tolist() == [["a", "b"], ["aaa", "bbb"], ["aa", ""]]
    assert all(isinstance(text, str) for text in combined["said"].values.ravel())
    whole = combine_grid(job, {c.label: result(**c.coordinates) for c in job.cells})
    assert whole["count"].dtype.kind == "i"


def test_combine_keeps_whole_numbers_that_floats_would_round() -> None:
    job = Job(power, {"base": [2, 3]})
    numbers = {cell.label: xarray.Dataset({"seed": 2**62 + 1}) for cell in job.cells}
    assert combine_grid(job, numbers)["seed"].values.tolist() == [2**62 + 1] * 2


def test_combine_refuses_an_axis_that_is_a_variable() -> None:
    job = Job(power, {"value": [1, 2]})
    with pytest.raises(IsometerError, match="axis of the grid"):
        combine_grid(job, {"value=1": power({"base": 2}, 0)})
