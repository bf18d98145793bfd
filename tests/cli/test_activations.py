"""`isometer explain`, `compare` and `activations`: output, pictures, errors on one line."""

import json
import math
import os
import struct
import subprocess
import sys
import zlib
from pathlib import Path

import numpy as np
import pytest

from isometer import activation
from isometer.activations import registry
from isometer.cli import main

KEYS = {
    "name", "mean", "second_moment", "gain_forward", "gain_backward", "hermite", "kernel_at_zero",
    "kernel_slope_at_zero", "kernel_slope_at_one", "case", "fixed_point", "slope_at_fixed_point", "rate_form",
    "depth_scale", "nonlinearity", "error_estimate",
}  # fmt: skip


def call(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, *arguments: str) -> tuple[int, str, str]:
    """Exit code, stdout and stderr of the command, in this process."""
    monkeypatch.setattr(sys, "argv", ["isometer", *arguments])
    monkeypatch.setenv("COLUMNS", "200")
    try:
        main()
        code = 0
    except SystemExit as end:
        code = int(end.code or 0)
    captured = capsys.readouterr()
    return code, captured.out, captured.err


def explain(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, *arguments: str) -> dict[str, object]:
    code, out, _ = call(capsys, monkeypatch, "explain", *arguments, "--json")
    assert code == 0
    return json.loads(out, parse_constant=lambda text: pytest.fail(f"{text} is not JSON"))


def check_png(path: Path) -> None:
    """Signature, chunk checksums, a size in pixels, and more than one colour."""
    data = path.read_bytes()
    assert data[:8] == b"\x89PNG\r\n\x1a\n"
    position, kinds, body = 8, [], b""
    while position < len(data):
        (length,) = struct.unpack(">I", data[position : position + 4])
        kind, chunk = data[position + 4 : position + 8], data[position + 8 : position + 8 + length]
        (check,) = struct.unpack(">I", data[position + 8 + length : position + 12 + length])
        assert zlib.crc32(kind + chunk) == check
        kinds.append(kind)
        body += chunk if kind == b"IDAT" else b""
        position += 12 + length
    assert kinds[0] == b"IHDR"
    assert kinds[-1] == b"IEND"
    width, height = struct.unpack(">II", data[16:24])
    assert width > 600
    assert height > 200
    assert len(set(zlib.decompress(body))) > 50


@pytest.mark.parametrize(
    "name",
    [
        "identity",
        "relu",
        "abs",
        "step",
        "sign",
        "square",
        "elu",
        "gelu",
        "softplus",
        "tanh",
        "exp",
        "normalized(square)",
    ],
)
def test_json_has_every_key_whatever_the_case(
    name: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    card = explain(capsys, monkeypatch, name)
    assert set(card) >= KEYS
    assert "rate" in card or "rate_exponent" in card
    assert card["name"] == name
    assert len(card["hermite"]) == 11
    assert card["rate_form"] in ("exponential", "algebraic", "superexponential", "none")
    if card["rate_form"] == "exponential":
        assert 0 < card["rate"] < 1
    if card["rate_form"] in ("algebraic", "superexponential"):
        assert card["rate_exponent"] >= 1
    numbers = [card[key] for key in KEYS - {"name", "hermite", "rate_form", "case", "fixed_point"}]
    assert all(isinstance(value, float | int) or value == "inf" for value in numbers)


def test_json_values(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    relu = explain(capsys, monkeypatch, "relu")
    assert relu["mean"] == pytest.approx(1 / math.sqrt(2 * math.pi), rel=1e-14)
    assert relu["gain_forward"] == pytest.approx(math.sqrt(2), rel=1e-14)
    assert relu["kernel_at_zero"] == pytest.approx(1 / math.pi, rel=1e-14)
    assert (relu["case"], relu["fixed_point"], relu["depth_scale"]) == (3, 1.0, "inf")
    assert (relu["rate_form"], relu["rate_exponent"]) == ("algebraic", 2.0)
    np.testing.assert_allclose(relu["hermite"], activation("relu").unit().hermite(10), atol=1e-14)
    sign = explain(capsys, monkeypatch, "sign")
    assert (sign["kernel_slope_at_one"], sign["gain_backward"], sign["case"]) == ("inf", "inf", 1)
    linear = explain(capsys, monkeypatch, "identity")
    assert (linear["case"], linear["fixed_point"], linear["rate_form"]) == (None, None, "none")
    normed = explain(capsys, monkeypatch, "relu", "--norm", "layer", "--norm-position", "post")
    assert (normed["case"], normed["kernel_at_zero"], normed["fixed_point"]) == (1, 0.0, 0.0)
    assert normed["mean"] == relu["mean"]
    residual = explain(capsys, monkeypatch, "relu", "--gamma", "0.5")
    assert residual["kernel_slope_at_zero"] == pytest.approx(0.2 * 0.5 + 0.8, rel=1e-13)


def test_json_agrees_across_spellings(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    by_name, by_formula = (explain(capsys, monkeypatch, text) for text in ("mish", "x * tanh(softplus(x))"))
    for key in KEYS - {"name"}:
        assert by_name[key] == by_formula[key], key


def test_cards_are_readable(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    code, out, err = call(capsys, monkeypatch, "explain", "gelu")
    assert (code, err) == (0, "")
    for text in ("gelu", "mean", "second moment", "gain", "κ(0)", "0.7604", "10", "100", "1000"):
        assert text in out
    code, out, _ = call(capsys, monkeypatch, "compare", "relu", "tanh", "normalized(relu)")
    assert code == 0
    assert "normalized(relu)" in out
    assert "tanh" in out
    code, out, _ = call(capsys, monkeypatch, "activations")
    assert code == 0
    assert all(name in out for name in registry())


def test_names_with_markup_are_printed_as_they_are(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    code, _, err = call(capsys, monkeypatch, "explain", "[red]x[/red]")
    assert code == 2
    assert "error:" in err


def test_compare_and_activations_as_json(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    code, out, _ = call(capsys, monkeypatch, "compare", "relu", "sign", "--json")
    cards = json.loads(out)
    assert code == 0
    assert [card["name"] for card in cards] == ["relu", "sign"]
    assert all(set(card) >= KEYS for card in cards)
    code, out, _ = call(capsys, monkeypatch, "activations", "--json")
    assert [row["name"] for row in json.loads(out)] == registry()


def test_pictures(tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    for arguments, name in (
        (["explain", "gelu"], "card.png"),
        (["compare", "relu", "normalized(square)", "identity"], "both.PNG"),
    ):
        target = tmp_path / name
        code, out, _ = call(capsys, monkeypatch, *arguments, "--plot", str(target))
        assert code == 0
        assert name in out.replace("\n", "")
        check_png(target)
    target = tmp_path / "jump.png"
    assert call(capsys, monkeypatch, "explain", "sign", "--json", "--plot", str(target))[0] == 0
    check_png(target)
    svg = tmp_path / "card.svg"
    assert call(capsys, monkeypatch, "explain", "relu", "--json", "--plot", str(svg))[0] == 0
    assert "<svg" in svg.read_text()[:2000]
    assert sorted(p.name for p in tmp_path.iterdir()) == ["both.PNG", "card.png", "card.svg", "jump.png"]


@pytest.mark.parametrize(
    ("arguments", "fragments"),
    [
        (["explain", "rleu"], ["rleu", "relu"]),
        (["explain", "__import__('os').system('true')"], ["only known functions"]),
        (["explain", "exp(x**2)"], ["infinite"]),
        (["explain", "log(x)"], ["NaN"]),
        (["explain", "relu", "--gamma", "-1"], ["positive"]),
        (["compare", "relu", "nope("], ["cannot read"]),
        (["explain", "0*x + 3"], ["does not depend on x"]),
        (["explain", "x - x"], ["zero"]),
    ],
)
def test_errors_are_one_line_and_exit_code_2(
    arguments: list[str], fragments: list[str], capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    code, out, err = call(capsys, monkeypatch, *arguments)
    assert code == 2
    assert out == ""
    assert "Traceback" not in err
    assert err.startswith("error:")
    for fragment in fragments:
        assert fragment in err


@pytest.mark.parametrize(
    ("path", "fragment"),
    [("missing/card.png", "does not exist"), ("card", ".png"), ("card.gif", ".png"), ("folder.png", "cannot write")],
)
def test_unwritable_pictures(
    path: str, fragment: str, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "folder.png").mkdir()
    code, _, err = call(capsys, monkeypatch, "explain", "relu", "--plot", str(tmp_path / path))
    assert code == 2
    assert "Traceback" not in err
    assert fragment in err.replace("\n", " ")
    assert [p.name for p in tmp_path.iterdir()] == ["folder.png"]


def test_a_failing_write_leaves_nothing(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A full disk, simulated at the last step."""

    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "replace", full)
    code, _, err = call(capsys, monkeypatch, "explain", "relu", "--plot", str(tmp_path / "card.png"))
    assert code == 2
    assert "No space left" in err
    assert list(tmp_path.iterdir()) == []


def test_the_installed_command(tmp_path: Path) -> None:
    """End to end, as a user runs it."""
    command = [sys.executable, "-c", "from isometer.cli import main; main()"]
    done = subprocess.run(
        [*command, "explain", "relu", "--json"], capture_output=True, text=True, cwd=tmp_path, timeout=60
    )
    assert done.returncode == 0
    assert done.stderr == ""
    assert set(json.loads(done.stdout)) >= KEYS
    wrong = subprocess.run([*command, "explain", "rleu"], capture_output=True, text=True, cwd=tmp_path, timeout=60)
    assert wrong.returncode == 2
    assert wrong.stdout == ""
    assert wrong.stderr.startswith("error:")
    assert wrong.stderr.count("\n") == 1, wrong.stderr  # one line, however wide the terminal
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("arguments", [["explain"], ["explain", "relu", "--norm", "batch"], ["nonsense"], ["compare"]])
def test_usage_errors(
    arguments: list[str], capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    code, _, err = call(capsys, monkeypatch, *arguments)
    assert code == 2
    assert "Traceback" not in err


def test_version(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    code, out, _ = call(capsys, monkeypatch, "--version")
    assert code == 0
    assert out.startswith("isometer ")
