"""Kernels in blocks, and the command: the same numbers as in one piece, and again from what is on disk."""

from __future__ import annotations

import json
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

from isometer import Spec
from isometer.cli import app
from isometer.regression import kernel_job, kernels_of_job
from isometer.run import Store, results, run
from isometer.theory.networks import pair_kernels

SPEC = Spec("input(2, [4, 4]) > conv(3, 8, padding='zeros') > act('relu') > pool > dense(1)")
IMAGES = np.random.default_rng(0).standard_normal((12, 2, 4, 4))


def test_blocks_make_the_whole_kernel(tmp_path: Path) -> None:
    job = kernel_job(SPEC, IMAGES[:7], IMAGES[7:], block=3)
    assert len(job.cells) == 6 + 6
    with ThreadPoolExecutor(1) as pool:
        outcome = run(job, tmp_path, executor=pool)
        again = run(job, tmp_path, executor=pool)
    assert (outcome.done, again.reused) == (12, 12)
    found = kernels_of_job(results(job, Store.create(tmp_path)), 7, 5)
    whole = pair_kernels(SPEC, IMAGES)
    for kind in ("nngp", "ntk"):
        among, beside = found[kind]
        assert np.allclose(among, whole[kind][:7, :7], rtol=1e-13)
        assert np.allclose(beside, whole[kind][7:, :7], rtol=1e-13)


def test_the_command_goes_on_where_it_was(tmp_path: Path) -> None:
    arguments = ["regress", "digits", "--train", "60", "--test", "40", "--workers", "1", "--json"]
    arguments += [
        "--network",
        "dense(32, gain=2**0.5) > act('relu') > dense(1)",
        "--out",
        str(tmp_path),
        "--block",
        "40",
    ]
    first = CliRunner().invoke(app, arguments)
    assert first.exit_code == 0, first.output
    files = {path: path.stat().st_mtime_ns for path in tmp_path.rglob("*.nc")}
    assert len(files) == 3 + 2
    again = CliRunner().invoke(app, arguments)
    document = json.loads(again.stdout)
    assert json.loads(first.stdout) == document
    assert {path: path.stat().st_mtime_ns for path in tmp_path.rglob("*.nc")} == files
    assert document["kinds"]["nngp"]["accuracy"] > 0.7  # chance: 0.1
    assert document["kinds"]["ntk"]["spread"] is None


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (["--train", "5"], "--train is 5"),
        (["--test", "501"], "--test is 501"),
        (["--ridge", "small"], "--ridge is 'small'"),
        (["--network", "dense(4) > norm('batch') > dense(1)"], "batch norm"),
        (["--network", "dense(4) > act('hardtanh') > dense(1)"], "hardtanh"),
        (["--time", "1s", "--network", "repeat(conv(3, 8) > act('relu'), 30) > pool > dense(1)"], "--time"),
    ],
)
def test_what_cannot_be_done_is_refused(options: list[str], words: str, tmp_path: Path) -> None:
    found = CliRunner().invoke(app, ["regress", "digits", "--test", "500", "--out", str(tmp_path / "store"), *options])
    assert found.exit_code != 0
    assert words in (found.output + str(found.exception)).replace("\n", " ")
