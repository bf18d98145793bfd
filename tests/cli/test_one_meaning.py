"""The same options mean the same network in every command."""

from __future__ import annotations

import random
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from isometer.run import _driver
from isometer.run._executors import Given
from isometer.theory import _explanation
from support.command import as_json, error, invoke


@pytest.fixture(autouse=True)
def short_outlook(monkeypatch: pytest.MonkeyPatch) -> None:
    """`explain` tells of 1000 layers too, which takes most of its time and is not what is asked here."""
    monkeypatch.setattr(_explanation, "DEPTHS", (10,))


ACTIVATIONS = ("tanh", "relu", "gelu", "softplus", "leaky_relu(0.2)", "sin", "normalized(relu)")


def three_numbers(activation: str, options: list[str], cosine: float, depth: int) -> tuple[float, float, float]:
    """The cosine of two inputs after the last layer, from three commands."""
    size = ["--depth", str(depth)]
    network = ["--activation", activation, *options, *size, "--input", f"cosine:{cosine}"]
    predicted = as_json("predict", *network, "--metric", "mean_cosine")["metrics"]["mean_cosine"]["mean"][-1]
    kernel = as_json("kernel", *network)["kernel"]
    explained = as_json("explain", activation, *options, *size, "--cosine", str(cosine))["path"]["cosine"][-1]
    return predicted, kernel[0][1] / kernel[0][0], explained


def test_the_three_numbers_are_one() -> None:
    """With the norm inside the branch, before the activation; they were 0.452 (with gain 1), 0.471 and 0.396."""
    options = ["--norm", "layer", "--norm-position", "pre", "--gamma", "0.5"]
    numbers = three_numbers("tanh", options, 0.5, 20)
    assert max(numbers) - min(numbers) < 1e-12
    assert numbers[0] == pytest.approx(by_hand("tanh", 0.5, 0.5, 20), abs=1e-10)


def by_hand(activation: str, gamma: float, cosine: float, depth: int) -> float:
    """v ← v + γ², vρ ← vρ + γ²κ(ρ), with κ from two-dimensional Gauss–Hermite quadrature."""
    from isometer import activation as parse

    phi = parse(activation)
    x, w = np.polynomial.hermite_e.hermegauss(120)
    w = w / w.sum()

    def kappa(rho: float) -> float:
        second = rho * x[:, None] + np.sqrt(1 - rho**2) * x[None, :]
        both = np.asarray(phi(x))[:, None] * np.asarray(phi(second))
        return float(w @ both @ w / (w @ np.asarray(phi(x)) ** 2))

    variance = 1.0
    for _ in range(depth):
        cosine = (variance * cosine + gamma**2 * kappa(cosine)) / (variance + gamma**2)
        variance += gamma**2
    return cosine


def option_sets(count: int) -> list[tuple[str, list[str], float, int]]:
    draw = random.Random(26)
    found: list[tuple[str, list[str], float, int]] = []
    while len(found) < count:
        norm, place = draw.choice(("none", "layer", "rms")), draw.choice(("pre", "post", "sum"))
        skip = draw.random() < 0.5
        if place == "sum" and not skip and norm != "none":
            continue
        options = ["--norm", norm, "--norm-position", place]
        options += ["--gamma", f"{draw.uniform(0.1, 2):.3f}"] if skip else []
        options += draw.choice(([], [], ["--gain", "forward"], ["--gain", f"{draw.uniform(0.7, 1.3):.3f}"]))
        options += draw.choice(([], [], ["--bias-variance", f"{draw.uniform(0.01, 0.4):.3f}"]))
        found.append((draw.choice(ACTIVATIONS), options, round(draw.uniform(-0.5, 0.95), 3), draw.randint(1, 9)))
    return found


@pytest.mark.parametrize(("activation", "options", "cosine", "depth"), option_sets(10))
def test_random_options_mean_one_network(activation: str, options: list[str], cosine: float, depth: int) -> None:
    numbers = three_numbers(activation, options, cosine, depth)
    assert max(numbers) - min(numbers) < 1e-10, options


def test_text_and_options_mean_one_network() -> None:
    options: list[str] = ["--norm", "rms", "--norm-position", "post", "--gamma", "0.5", "--gain", "1.2"]
    text = "repeat(residual(act('tanh') > norm('rms') > dense(gain=1.2), 0.5), 7)"

    def numbers(words: list[str]) -> Any:
        predicted = as_json("predict", *words, "--metric", "mean_cosine", "--input", "cosine:0.3")["metrics"]
        return predicted["mean_cosine"]["mean"], as_json("kernel", *words, "--input", "cosine:0.3")["kernel"]

    short = numbers(["--activation", "tanh", "--depth", "7", *options])
    for one, other in zip(short, numbers(["--network", text]), strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-13)
    card = as_json("explain", "--network", text, "--cosine", "0.3", "--depth", "7")
    assert card["path"]["cosine"][-1] == pytest.approx(short[0][-1], abs=1e-12)
    assert card["norm_position"] == "post"
    assert "--network already sets the gain" in error("explain", "--network", text, "--gain", "2")


COMPOSITIONS = (
    "preln_mlp(width=16, blocks=3)",
    "postln_mlp(width=16, blocks=3, activation='tanh', branch=0.5)",
    "input(16) > dense > act('relu') > repeat(residual(norm('rms') > dense(32) > act('tanh') > dense(16), 0.3), 4)",
    "input(16) > sum(dense, dense > act('tanh') > dense) > act('gelu') > dense",
)


@pytest.mark.parametrize("text", COMPOSITIONS)
def test_compositions_mean_one_network(text: str) -> None:
    """The kernel is that of what `predict` follows; a dense readout changes no cosine."""
    network = ["--network", text, "--input", "cosine:0.4"]
    predicted = as_json("predict", *network, "--metric", "mean_cosine")["metrics"]["mean_cosine"]["mean"][-1]
    kernel = as_json("kernel", *network)["kernel"]
    assert kernel[0][1] / kernel[0][0] == pytest.approx(predicted, abs=1e-10)
    card = as_json("explain", "--network", text, "--cosine", "0.4")
    assert card["path"]["cosine"][-1] == pytest.approx(predicted, abs=1e-10)


def test_compositions_are_simulated_as_they_are_predicted() -> None:
    """The mean over 200 networks of width 256: a standard error of about 0.003."""
    text = "input(256) > dense > repeat(residual(norm('layer') > dense(256) > act('gelu') > dense, 0.7), 3)"
    options = ["--network", text, "--batch", "2", "--input", "correlated:0.3", "--metric", "mean_cosine"]
    predicted = as_json("predict", *options)["metrics"]["mean_cosine"]["mean"]
    simulated = as_json("simulate", *options, "--runs", "200")["metrics"]["mean_cosine"]
    assert abs(simulated["mean"][-1] - predicted[-1]) < 0.015
    assert simulated["low"][-1] - 0.005 < predicted[-1] < simulated["high"][-1] + 0.005


def test_other_commands_take_compositions(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    text = "input(8) > repeat(residual(dense(16) > act('tanh') > dense(8)) > norm('rms'), 6)"
    point = as_json("phase", "--network", text)["point"]
    assert point["phase"] in ("ordered", "chaotic")
    found = as_json("solve", "depth", "--network", text, "--cosines", "-1:0.9", "--input", "cosine:0.5", "--most", "8")
    assert found["unknown"] == "depth"
    edge = as_json("solve", "gain", "--network", "repeat(dense > act('relu') > dense > act('relu'), 4)")
    assert edge["value"] == pytest.approx(2**0.5, rel=1e-7)
    monkeypatch.setattr(_driver, "Processes", lambda workers: Given(ThreadPoolExecutor(1), 1))  # starts no process
    sweep = ["--batch", "3", "--metric", "mean_cosine", "--out", str(tmp_path / "out"), "--workers", "1"]
    swept = as_json("sweep", "predict", "--grid", "seed=0,1", "--network", text, *sweep)
    assert (swept["done"], swept["failed"]) == (2, 0)
    examined = as_json(
        "doctor", "--network", "input(8) > repeat(dense(gain=1.4) > act('relu'), 3)", "--no-stress", code=0
    )
    assert "findings" in examined


def test_kernel_says_which_network_it_is_about(tmp_path: Path) -> None:
    """With its input layer and its readout; `predict` says the same of that text, for real features too."""
    np.save(tmp_path / "x.npy", np.random.default_rng(0).standard_normal((4, 12)))
    source = ["--input", str(tmp_path / "x.npy")]
    found = as_json("kernel", "--gamma", "0.5", "--activation", "relu", "--width", "20", "--depth", "3", *source)
    assert found["network"].startswith("input(12) > dense(20) > repeat(residual(")
    said = as_json("predict", "--network", found["network"], *source, "--metric", "mean_cosine,second_moment")[
        "metrics"
    ]
    kernel = np.array(found["kernel"])
    roots = np.sqrt(np.diag(kernel))
    cosines = (kernel / np.outer(roots, roots))[~np.eye(4, dtype=bool)]
    assert said["mean_cosine"]["mean"][-1] == pytest.approx(cosines.mean(), abs=1e-10)
    assert said["second_moment"]["mean"][-1] == pytest.approx(np.exp(found["log_diagonal"]).mean(), rel=1e-10)


def test_an_old_file_is_noted_once(tmp_path: Path) -> None:
    (tmp_path / "old.json").write_text('{"width": 8, "depth": 2, "activation": "relu"}', encoding="utf-8")
    done = invoke("kernel", "--network", str(tmp_path / "old.json"), "--batch", "3")
    assert done.stderr.count("the older form of a spec") == 1
