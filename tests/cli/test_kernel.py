"""`isometer kernel` and `isometer phase` as a user runs them."""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np
import pytest

from isometer import KernelMap
from isometer.theory.phases import phase_point
from support.batches import sphere
from support.command import as_json, error, invoke, printed


def test_kernel_command(tmp_path: Path) -> None:
    np.save(tmp_path / "x.npy", sphere(5, 6))
    found = as_json(
        "kernel", "--activation", "unit(relu)", "--depths", "1,2,1000", "--input", str(tmp_path / "x.npy"),
        "--kind", "ntk", "--out", str(tmp_path / "k.npz"), "--plot", str(tmp_path / "k.png"),
    )  # fmt: skip
    for key in ("condition_number", "smallest_eigenvalue", "largest_eigenvalue", "log_diagonal", "bounds", "kernel"):
        assert key in found
    assert found["log_diagonal"] == pytest.approx(math.log(1001 / 6), rel=1e-13)  # weights of variance 1/features
    assert found["headline"].startswith("Well conditioned")
    assert [row["depth"] for row in found["curve"]] == [1, 2, 1000]
    assert np.load(tmp_path / "k.npz")["kernel"].tolist() == found["kernel"]
    assert (tmp_path / "k.png").stat().st_size > 10_000
    assert invoke("kernel", "--activation", "tanh", "--depth", "3", "--input", str(tmp_path / "x.npy"))


def test_a_sampled_kernel_says_so() -> None:
    options = ("kernel", "--norm", "batch", "--activation", "gelu", "--depth", "2", "--batch", "12", "--width", "8")
    found = as_json(*options)
    assert 1e-6 < found["error"] < 1e-3
    assert 1e-9 < as_json(*options, "--batch", "5")["error"] < 1e-6  # on a small sphere gelu is nearly a polynomial
    assert "sampled" in found["warnings"][0]
    assert "warning: entries are sampled" in printed(*options)
    exact = as_json(*options, "--activation", "relu")
    assert exact["warnings"] == []
    assert exact["error"] <= 1e-9


def test_the_phase_of_a_convolutional_network_is_that_of_constant_images() -> None:
    """χ and the gain at the edge are those of the dense network; what cannot be reduced is named."""
    images = "input(3, [8, 8]) > conv(3, 64) > repeat(conv(3, 64, gain=2{}) > act('tanh'), 20) > pool > dense(2)"
    dense = "input(3) > dense(64) > repeat(dense(64, gain=2) > act('tanh'), 20) > dense(2)"
    plain = as_json("phase", "--network", dense)["point"]
    for padding, words in (("", "uniform part of images"), (", padding='zeros'", "far from zero-padded borders")):
        found = as_json("phase", "--network", images.format(padding))
        assert found["point"] == plain
        assert words in found["note"]
    assert "conv with groups" in error("phase", "--network", images.format(", groups=64"))
    small = "input(3, [4]) > conv(3, 8) > repeat(conv(3, 8) > act('tanh'), 2) > pool > dense(1)"
    other = "input(3) > dense(8) > repeat(dense(8) > act('tanh'), 2) > dense(1)"
    first, second = (as_json("solve", "gain", "--network", one) for one in (small, other))
    assert first["table"] == second["table"]
    assert len(first["table"]) > 3


def test_phases_over_a_plane_of_any_two_numbers(tmp_path: Path) -> None:
    """Of a plain chain they are those of the diagram; of a composition those of each of its networks."""
    options = ("phase", "--activation", "tanh", "--bias-variance", "0.1")
    plane = as_json(*options, "--x", "sigma_w=0.5:2", "--y", "sigma_b=0.1:0.5", "--points", "2")
    for value, chi in zip((0.5, 2.0), plane["chi"][1], strict=True):
        assert chi == pytest.approx(phase_point("tanh", value**2, 0.25).chi, rel=1e-12)
    text = "input(8) > repeat(residual(dense(gain={}) > act('tanh') > dense(gain={}), {}) > norm('rms'), 5) > dense(1)"
    picture = str(tmp_path / "p.png")
    axes = ("--x", "scale=0:0.8", "--y", "gain=0.5:2", "--points", "2", "--plot", picture)
    plane = as_json("phase", "--network", text.format(1, 1, 0.3), *axes)
    own = as_json("phase", "--network", text.format(2, 2, 0.8))["point"]
    assert plane["chi"][1][1] == pytest.approx(own["chi"], rel=1e-12)
    assert plane["chi"][0][0] == pytest.approx(1.0, abs=1e-9)  # without the branch nothing changes
    assert plane["phase"][1][1] == own["phase"] == "chaotic"
    assert Path(picture).stat().st_size > 10_000
    assert "both" in error(*options, "--x", "gain=1:2")
    assert "no skip connection" in error(*options, "--x", "gain=1:2", "--y", "gamma=0:1")
    assert "is not an axis" in error(*options, "--x", "gain", "--y", "bias=0:1")
    assert "the same number" in error(*options, "--x", "gain=1:2", "--y", "sigma_w=1:2")
    assert "begins at 0" in error(*options, "--x", "gain=0:2", "--y", "bias=0:1")
    assert "two inputs are not a batch" in error("phase", "--norm", "batch")


def test_kernel_command_refuses(tmp_path: Path) -> None:
    np.save(tmp_path / "x.npy", sphere(40, 6))
    (tmp_path / "text.npy").write_text("no array")
    good, bad = str(tmp_path / "x.npy"), str(tmp_path / "text.npy")
    for arguments in (
        ("--depth", "1", "--input", str(tmp_path / "none.npy")),
        ("--depth", "1", "--input", bad),
        ("--network", "input(6) > dense > pool", "--input", good),
        ("--depth", "1", "--depths", "1,2", "--input", good),
        ("--depths", "1,x", "--input", good),
        ("--depth", "1", "--input", good, "--out", "k.txt"),
    ):
        assert error("kernel", "--activation", "relu", *arguments)
    assert as_json("kernel", "--activation", "relu", "--depth", "1", "--input", good)["kernel"] is None


def test_command_with_skips_and_zeros(tmp_path: Path) -> None:
    np.save(tmp_path / "x.npy", np.concatenate([sphere(4, 6), np.zeros((1, 6))]))
    where = str(tmp_path / "x.npy")
    arguments = ["kernel", "--activation", "unit(relu)", "--depth", "3", "--input", where, "--gamma", "0.5"]
    found = as_json(*arguments)
    assert found["residual"] == 0.5
    assert found["log_diagonal"][4] == "-inf"
    assert found["log_diagonal"][0] == pytest.approx(3 * math.log(1.25) - math.log(6))
    assert "zero vector" in found["singular"]
    assert invoke(*arguments)
    assert error(*arguments[:-1], "-1")


def test_phase_command(tmp_path: Path) -> None:
    found = as_json("phase", "--activation", "tanh", "--plot", str(tmp_path / "p.png"))
    assert found["edge_of_chaos"]["weight_variance"][0] == 1.0
    assert (tmp_path / "p.png").stat().st_size > 10_000
    assert found["point"]["phase"] == "chaotic"  # the principled gain of tanh
    assert "single point" in printed("phase", "--activation", "relu")


def test_phases_of_other_layers_and_of_data(tmp_path: Path) -> None:
    words = ["phase", "--activation", "gelu", "--norm", "layer", "--gamma", "0.5"]
    assert "χ approaches 1" in " ".join(printed(*words).split())
    found = as_json(*words, "--norm-position", "sum")["point"]
    kernel = KernelMap("gelu", residual=0.5)
    assert found["chi"] == pytest.approx(kernel.slope_at_one, rel=1e-12)
    assert found["cosine"] == pytest.approx(kernel.fixed_point, rel=1e-9)
    # small signals of this function die out, large ones live on
    np.save(tmp_path / "x.npy", np.ones((2, 6)))
    np.save(tmp_path / "small.npy", np.full((2, 6), 0.05))
    ends = {
        name: as_json("phase", "--activation", "x*tanh(x)", "--gain", "1.5", "--input", str(tmp_path / name))["point"]
        for name in ("x.npy", "small.npy")
    }
    assert ends["small.npy"]["variance"] == 0.0
    assert ends["x.npy"]["variance"] == "inf"


def test_named_data_and_files_on_the_sphere(tmp_path: Path) -> None:
    options = ["kernel", "--activation", "normalized(relu)", "--depth", "8"]
    found = as_json(*options, "--input", "data:digits:scale=norm", "--batch", "6")
    assert found["inputs"] == 6
    assert found["bounds"]["004/thm-3"]["holds"] is True  # about inputs of one length
    np.save(tmp_path / "x.npy", sphere(4, 6))
    scaled = as_json(*options, "--input", f"{tmp_path / 'x.npy'}:scale=norm")
    assert scaled["log_diagonal"] == pytest.approx(0.0, abs=1e-14)
    assert "scale=norm" in error(*options, "--input", f"{tmp_path / 'x.npy'}:scale=5")
