"""What a person meets on a terminal of 80 columns: whole names, one next step, help in panels, one name an option."""

from __future__ import annotations

import re
import shlex
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from rich.cells import cell_len

from isometer.cli import main
from isometer.cli._application import RENAMED
from isometer.cli._commands import _OWN
from support.command import as_json, error, invoke, printed

COLUMNS = 80
MODEL = """
from torch import nn

def make():
    return nn.Sequential(*(m for _ in range(12) for m in (nn.Linear(16, 16, bias=False), nn.ReLU())))
"""
COMMANDS = [
    "explain relu",
    "explain 'x * tanh(softplus(x))' --cosine 0.5",
    "compare relu gelu tanh 'normalized(relu)'",
    "activations",
    "predict --depth 3 --norm batch",
    "predict --depth 3 --against-simulation --runs 2 --metric rank",
    "simulate --depth 3 --runs 2 --backward",
    "kernel --depth 5 --kind ntk",
    "kernel --depths 1,10 --input x.npy",
    "phase --activation tanh",
    "solve gain --activation tanh",
    "solve depth --cosines -1:0.9",
    "patients",
    "data list",
    "runs list",
    "trial families",
    "doctor my_model.py:make --no-stress",
    "doctor my_model.py:make --no-stress --treat --layers 0",
    "sweep kernel --grid depth=1,2 --workers 1 --out mine",
    "runs show mine",
    "runs list .",
    "runs verify mine",
    "runs clean mine --dry-run",
    "data show digits",
    "jacobian --activation tanh --depth 5",
    "regress digits --train 20 --test 20 --workers 1 --network 'dense(1)'",
]
GROUPS = {
    "sweep": ("simulate",),
    "runs": ("list", "show", "resume", "verify", "clean"),
    "data": ("list", "get", "show"),
    "trial": ("families", "draw", "truth", "examine", "table", "fit", "run"),
}
EVERY = [*_OWN, *(f"{group} {name}" for group, names in GROUPS.items() for name in names)]


@pytest.fixture(autouse=True)
def terminal(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    monkeypatch.setenv("COLUMNS", str(COLUMNS))
    monkeypatch.chdir(tmp_path)
    np.save("x.npy", np.random.default_rng(0).normal(size=(6, 12)))
    Path("my_model.py").write_text(MODEL, encoding="utf-8")
    return tmp_path


def too_wide(text: str) -> list[str]:
    return [line for line in text.splitlines() if cell_len(line) > COLUMNS]


@pytest.mark.torch
def test_every_table_fits_and_ends_with_a_next_step() -> None:
    for command in COMMANDS:
        told = invoke(*shlex.split(command), code=None).stdout
        assert too_wide(told) == [], command
        assert any(line.startswith("next: ") for line in told.splitlines()[-2:]), f"{command}:\n{told}"


@pytest.mark.parametrize("command", EVERY)
@pytest.mark.torch
def test_help_fits(command: str) -> None:
    told = printed(*command.split(), "-h")
    assert too_wide(told) == []
    assert told == printed(*command.split(), "--help")
    examples = [line for line in told.splitlines() if line.strip().startswith("isometer ")]
    assert examples or command in GROUPS
    assert all(line.count("isometer ") == 1 for line in examples), "examples are on lines of their own"
    assert re.findall(r"╭─ Options ─.*?╰", told, flags=re.S)[0].count("│ --") == 1, (
        "every option but --help has a panel"
    )
    assert not re.search(r"\[/?bold|\[/\]", told), "markup is not shown"


def test_help_is_in_panels() -> None:
    told = printed("simulate", "--help")
    assert [
        panel for panel in ("Network", "Input", "Measurement", "Output", "Limits") if f"─ {panel} ─" not in told
    ] == []


@pytest.mark.torch
def test_names_that_one_types_are_whole() -> None:
    from isometer.doctor.conditions._conditions import CONDITIONS
    from isometer.doctor.patients import PATIENTS
    from isometer.trial._faults import FAULTS
    from isometer.trial._roster import families

    told = printed("patients")
    words = set(re.split(r"\s+", told))
    assert set(PATIENTS) <= words
    assert {name for one in PATIENTS.values() for name in one.findings} <= words
    assert {name for one in PATIENTS.values() for name in one.findings} <= set(CONDITIONS)
    words = set(re.split(r"\s+", printed("trial", "families")))
    assert {*families(), *FAULTS, *(name for one in families().values() for name in one.structural)} <= words


def test_brackets_are_not_markup(monkeypatch: pytest.MonkeyPatch, terminal: Path) -> None:
    """The extra that installs a data set keeps its name."""
    monkeypatch.setattr("isometer.data.find", lambda name, root=None: None)
    told = "".join(part.strip() for part in re.findall(r"1×8×8(.*)", printed("data", "list"), flags=re.S))
    assert "isometer[data]" in re.sub(r"\s", "", told)


def test_renamed_options_say_their_new_name() -> None:
    """One line, with what to write; a command whose option has such a name keeps it."""
    for old, new in RENAMED.items():
        command = next(one for one in ("kernel", "doctor") if new in printed(one, "--help"))
        assert error(command, old, "7") == f"{old} is not an option; expected {new} — write {new} 7"
    assert error("doctor", "--batch", "x.npy").endswith("a file or a data set goes to --input x.npy")
    assert "--data" in printed("reproduce", "--help")


def test_no_arguments_at_all(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main([])
    told = capsys.readouterr()
    assert "isometer COMMAND --help" in told.out + told.err


def test_lists_by_comma_or_repetition() -> None:
    network = ["predict", "--depth", "2"]
    comma = as_json(*network, "--metric", "rank,mean_cosine")
    again = as_json(*network, "--metric", "rank", "--metric", "mean_cosine")
    assert comma == again
    assert list(comma["metrics"]) == ["rank", "mean_cosine"]
    kernel = ["kernel", "--input", "x.npy"]
    assert as_json(*kernel, "--depths", "1,2") == as_json(*kernel, "--depths", "1", "--depths", "2")


def test_a_data_set_by_its_name(monkeypatch: pytest.MonkeyPatch, home: Path) -> None:
    """`--input digits` is `--input data:digits`, with the same error where it is not here."""
    pytest.importorskip("sklearn")
    short, long = (as_json("predict", "--depth", "2", "--input", name) for name in ("digits", "data:digits"))
    assert short == long
    assert error("predict", "--input", "fashion-mnits").startswith("input is 'fashion-mnits'; expected gaussian")


def test_a_kernel_says_its_diagnosis() -> None:
    told = as_json("kernel", "--depth", "100", "--input", "x.npy")
    assert told["headline"].startswith("Nearly collapsed: the NNGP matrix has effective rank 1.0")
    assert "Nearly collapsed" in printed("kernel", "--depth", "100", "--input", "x.npy")
    assert "Well conditioned" in printed(
        "kernel", "--activation", "normalized(relu)", "--depth", "20", "--input", "x.npy"
    )


@pytest.mark.torch
def test_the_table_after_a_treatment_is_that_of_the_treated_model() -> None:
    look = ["doctor", "my_model.py:make", "--no-stress"]
    told = printed(*look, "--treat")
    table = told.partition("The layers of the treated model")[2]
    after = [float(row.split()[-1]) for row in re.findall(r"^ *\d+ +\S+ +Linear +.*$", table, flags=re.M)]
    # 1/√3 of torch's own weights over the √2 that ReLU needs; the treated ones are near 1
    before = as_json(*look, code=1)["metrics"]
    ratios = [a / b for a, b in zip(before["weight_gain"], before["principled_gain"], strict=True) if a and b]
    assert len(after) == len(ratios) == 12
    assert max(ratios) < 0.5 < 0.9 < min(after)


@pytest.mark.slow
@pytest.mark.torch
def test_a_quick_look_takes_little_more_than_torch(terminal: Path) -> None:
    """`doctor --no-stress` on 20 layers: two seconds of CPU beside the import of torch, on a machine that takes two."""
    Path("deep.py").write_text(MODEL.replace("range(12)", "range(20)"), encoding="utf-8")
    clock = "import resource; u = resource.getrusage(resource.RUSAGE_SELF); print(u.ru_utime + u.ru_stime)"
    run = "import contextlib, io\nfrom isometer.cli import main\nwith contextlib.suppress(SystemExit), "
    run += "contextlib.redirect_stdout(io.StringIO()):\n    main(['doctor', 'deep.py:make', '--no-stress'])\n"

    def seconds(code: str) -> float:
        done = subprocess.run([sys.executable, "-c", code + clock], capture_output=True, text=True, check=True)
        return float(done.stdout)

    torch_alone = min(seconds("import torch\n") for _ in range(2))
    assert min(seconds(run) for _ in range(2)) - torch_alone <= max(2.0, torch_alone)
