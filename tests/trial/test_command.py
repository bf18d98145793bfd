"""`isometer trial`, from the draw to the table."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from isometer.trial._family import families
from isometer.trial._members import Member
from isometer.trial._records import MEMBERS, OPINIONS, TRUTHS, read_members, read_records, write_records
from support.command import as_json, error, invoke, printed

OPEN, SEALED = "moe-mlp", "tabular-resnet"
"""One family of each half, on tasks that need no data set."""


@pytest.fixture(scope="module")
def drawn(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A small trial that was run from the draw to the table."""
    folder = tmp_path_factory.mktemp("trial")
    options = ["--per-family", "4", "--large", "0", "--rounds", "6,16", "--workers", "2"]
    invoke("trial", "run", str(folder), "--families", f"{OPEN},{SEALED}", *options)
    return folder


def test_families_lists_halves_and_faults() -> None:
    found = as_json("trial", "families")
    halves = {one["name"]: one["sealed"] for one in found["families"]}
    assert halves == {name: family.sealed for name, family in families().items()}
    assert halves[SEALED]
    assert not halves[OPEN]
    assert len(found["faults"]) >= 25


def test_run_trains_both_halves_and_examines_one(drawn: Path) -> None:
    members = read_members(drawn)
    assert [m.name for m in members] == [f"{name}/{k}" for name in (OPEN, SEALED) for k in range(4)]
    trained = {name.split()[0] for name in read_records(drawn / TRUTHS)}
    assert trained >= {member.name for member in members}
    examined = {name.split("/")[0] for name in read_records(drawn / OPINIONS)}
    assert examined == {OPEN}


def test_table_comes_from_the_records(drawn: Path) -> None:
    before = {path.name: path.read_bytes() for path in drawn.glob("*.json")}
    found = as_json("trial", "table", str(drawn))
    assert found["half"] == "development"
    assert (found["models"], found["families"]) == (4, 1)
    assert sum(found["truth"]["adam"].values()) == 4
    assert "truth with adam" in printed("trial", "table", str(drawn))
    assert before == {path.name: path.read_bytes() for path in drawn.glob("*.json")}


def test_running_again_computes_nothing_and_draws_nothing(drawn: Path) -> None:
    before = {path.name: path.read_bytes() for path in drawn.glob("*.json")}
    (drawn / "store").rename(drawn / "elsewhere")
    try:
        found = as_json("trial", "truth", str(drawn))
        assert found["cells"] == found["done"]
        assert not (drawn / "store").exists()
        assert len(as_json("trial", "draw", str(drawn), "--per-family", "1")["members"]) == 8
    finally:
        (drawn / "elsewhere").rename(drawn / "store")
    assert before == {path.name: path.read_bytes() for path in drawn.glob("*.json")}


def test_record_of_another_draw_is_not_used(drawn: Path, tmp_path: Path) -> None:
    """A member with another fault under the same name has no truth."""
    from dataclasses import replace

    from isometer.trial._records import truths

    members = read_members(drawn)
    assert len(truths(drawn, members).records()) == len(truths(drawn, members).cells)
    other = [replace(members[0], fault="one-zero", severity={"place": 0.123}), *members[1:]]
    assert len(truths(drawn, other).records()) == len(truths(drawn, members).cells) - 2


def test_number_of_workers_does_not_matter(drawn: Path, tmp_path: Path) -> None:
    """One worker gives the records of two, bit for bit."""
    records = json.loads((drawn / MEMBERS).read_text())["records"]
    two = [Member.from_dict({"name": name, **records[name]}) for name in (f"{OPEN}/0", f"{OPEN}/1")]
    kept = {m.name: {key: value for key, value in m.to_dict().items() if key != "name"} for m in two}
    write_records(tmp_path / MEMBERS, kept, rounds=[6, 16])
    invoke("trial", "truth", str(tmp_path), "--workers", "1")
    alone, before = read_records(tmp_path / TRUTHS), read_records(drawn / TRUTHS)
    assert alone
    assert all(before[name] == record for name, record in alone.items())


def test_seal_needs_a_reason_and_holds_for_one_set_of_rules(drawn: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from isometer.trial import _seal

    assert "was not opened" in error("trial", "table", str(drawn), "--sealed")
    assert "which rules are final" in error("trial", "examine", str(drawn), "--open-seal", "now")
    assert not _seal.openings(drawn)
    members = read_members(drawn)
    monkeypatch.setattr(_seal, "code_version", lambda function: "first rules")
    assert _seal.open_seal(drawn, members, "the rules of this test are final") == members
    assert _seal.open_seal(drawn, members, "the same rules, looked at again") == members
    assert len(_seal.openings(drawn)) == 1
    monkeypatch.setattr(_seal, "code_version", lambda function: "second rules")
    with pytest.raises(Exception, match=r"opened on .* for other rules"):
        _seal.open_seal(drawn, members, "other rules are final now")
    (drawn / _seal.SEAL).unlink()


def test_bad_input_is_one_line(tmp_path: Path) -> None:
    assert "did you mean 'moe-mlp'" in error("trial", "draw", str(tmp_path / "a"), "--families", "moe-mpl")
    assert "expected two numbers of steps" in error("trial", "draw", str(tmp_path / "b"), "--rounds", "40")
    assert "run isometer trial draw first" in error("trial", "table", str(tmp_path / "c"))
    (tmp_path / MEMBERS).write_text("{")
    assert "cannot be read" in error("trial", "table", str(tmp_path))
