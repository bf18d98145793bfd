"""`isometer trial`, from the draw to the table."""

from __future__ import annotations

import json
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

import pytest

from isometer.trial._fit import THRESHOLDS
from isometer.trial._records import (
    BASELINES,
    MEMBERS,
    OPINIONS,
    OPTIMIZERS,
    TRUTHS,
    baselines,
    checks,
    opinions,
    read_members,
    read_records,
    truths,
    write_records,
)
from isometer.trial._roster import families
from isometer.trial._rounds import ROUNDS
from isometer.trial._seal import development
from support.command import as_json, error, invoke, printed

OPEN, SEALED = "moe-mlp", "siren"
SMALL = ["--families", f"{OPEN},{SEALED}", "--per-family", "3", "--large", "0", "--rounds", "3,8", "--seed", "48"]
"""One family of each half; this seed draws small models on tasks without a data set, one sick and two that train."""


@pytest.fixture(scope="module")
def drawn(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A small trial that was run from the draw to the examination, in this process."""
    folder = tmp_path_factory.mktemp("trial")
    invoke("trial", "draw", str(folder), *SMALL)
    members = read_members(folder)
    open_half = development(members)
    with ThreadPoolExecutor(1) as pool:
        for stage in (truths(folder, members), opinions(folder, open_half), baselines(folder, open_half)):
            assert not stage.run(executor=pool)
    return folder


@pytest.mark.slow
def test_run_does_everything_in_turn(drawn: Path, tmp_path: Path) -> None:
    """The command with two processes gives the records of one thread, bit for bit."""
    found = as_json("trial", "run", str(tmp_path), *SMALL, "--workers", "2")
    assert found == as_json("trial", "table", str(drawn))
    for name in (TRUTHS, OPINIONS, BASELINES):
        assert (tmp_path / name).read_bytes() == (drawn / name).read_bytes()


def test_families_lists_halves_and_faults() -> None:
    found = as_json("trial", "families")
    halves = {one["name"]: one["sealed"] for one in found["families"]}
    assert halves == {name: family.sealed for name, family in families().items()}
    assert halves[SEALED]
    assert not halves[OPEN]
    assert len(found["faults"]) >= 25


@pytest.mark.parametrize(("round", "names", "shared"), [(2, "siamese,soft-trees", 3), (3, "film,radial-basis", 2)])
def test_a_later_round_is_drawn_by_its_own_rules_and_is_all_sealed(
    tmp_path: Path, round: int, names: str, shared: int
) -> None:
    how = ["--families", names, "--per-family", str(2 * shared), "--large", "0", "--rounds", "2,3", "--seed", "1"]
    printed("trial", "draw", str(tmp_path), "--round", str(round), *how)
    members = read_members(tmp_path)
    assert Counter((member.family, member.base) for member in members) == {
        (name, base): shared for name in names.split(",") for base in ("0", "1")
    }
    assert all(member.step <= ROUNDS[round].slowest for member in members)
    assert not development(members)
    assert all(cell["rates"] == 3 for cell in truths(tmp_path, members).cells.values())
    assert json.loads((tmp_path / MEMBERS).read_text())["round"] == round
    assert {one["round"] for one in as_json("trial", "families")["families"]} == {*ROUNDS}
    assert "all models of" in error("trial", "examine", str(tmp_path))
    assert "all models of" in error("trial", "table", str(tmp_path))
    unknown = str(max(ROUNDS) + 1)
    assert f"there is no round {unknown}" in error("trial", "draw", str(tmp_path / "other"), "--round", unknown)


def test_records_of_the_first_round_keep_their_digests(drawn: Path) -> None:
    assert "round" not in json.loads((drawn / MEMBERS).read_text())
    assert all("rates" not in cell for cell in truths(drawn, read_members(drawn)).cells.values())


def test_run_trains_both_halves_and_examines_one(drawn: Path) -> None:
    members = read_members(drawn)
    assert [m.name for m in members] == [f"{name}/{k}" for name in (OPEN, SEALED) for k in range(3)]
    trained = {name.split()[0] for name in read_records(drawn / TRUTHS)}
    assert trained >= {member.name for member in members}
    examined = {name.split("/")[0] for name in read_records(drawn / OPINIONS)}
    assert examined == {OPEN}


def test_table_comes_from_the_records(drawn: Path) -> None:
    before = {path.name: path.read_bytes() for path in drawn.glob("*.json")}
    found = as_json("trial", "table", str(drawn))
    assert found["half"] == "development"
    assert (found["models"], found["families"]) == (3, 1)
    assert found["truth"] == {optimizer: {"sick": 1, "trains": 2} for optimizer in OPTIMIZERS}
    assert {row["optimizer"] for row in found["rows"]} == set(OPTIMIZERS)
    assert "Truth with adam" in printed("trial", "table", str(drawn))
    assert before == {path.name: path.read_bytes() for path in drawn.glob("*.json")}


def test_running_again_computes_nothing_and_draws_nothing(drawn: Path) -> None:
    before = {path.name: path.read_bytes() for path in drawn.glob("*.json")}
    (drawn / "store").rename(drawn / "elsewhere")
    try:
        found = as_json("trial", "truth", str(drawn))
        assert found["cells"] == found["done"]
        assert not (drawn / "store").exists()
        assert len(as_json("trial", "draw", str(drawn), "--per-family", "1")["members"]) == 6
    finally:
        (drawn / "elsewhere").rename(drawn / "store")
    assert before == {path.name: path.read_bytes() for path in drawn.glob("*.json")}


def test_record_of_another_draw_is_not_used(drawn: Path) -> None:
    """A member with another fault under the same name has no truth."""
    members = read_members(drawn)
    assert len(truths(drawn, members).records()) == len(truths(drawn, members).cells)
    other = [replace(members[0], fault="one-zero", severity={"place": 0.123}), *members[1:]]
    assert len(truths(drawn, other).records()) == len(truths(drawn, members).cells) - 2


def test_opinions_of_other_rules_are_given_again_and_truths_are_kept(
    drawn: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from isometer.trial import _records

    open_half = development(read_members(drawn))
    assert not opinions(drawn, open_half).outdated()
    monkeypatch.setattr(_records, "code_version", lambda function: "0.1.0+another")
    assert len(opinions(drawn, open_half).outdated()) == 2 * len(open_half)
    assert len(baselines(drawn, open_half).outdated()) == len(open_half)
    assert not truths(drawn, open_half).outdated()
    assert "were computed by other code" in printed("trial", "table", str(drawn))


def test_opinions_are_about_weights_that_the_truth_did_not_train(drawn: Path) -> None:
    members = read_members(drawn)
    trained = {seed for cell in truths(drawn, members).cells.values() for seed in cell["seeds"]}
    for stage in (opinions(drawn, development(members)), baselines(drawn, development(members))):
        assert trained.isdisjoint(cell["weights"] for cell in stage.cells.values())


def test_sound_member_is_checked_with_other_seeds_than_its_sibling(drawn: Path) -> None:
    members = read_members(drawn)
    cells = checks(drawn, members).cells
    sound = [member.name for member in members if member.fault is None]
    assert sound
    for name in sound:
        sibling = f"{name.split('/')[0]}/sound-0"
        assert cells[f"{name} adam"]["seeds"] != cells[f"{sibling} adam"]["seeds"]


def test_files_can_be_written_without_transformers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from importlib import metadata

    known = metadata.version

    def version(name: str) -> str:
        if name == "transformers":
            raise metadata.PackageNotFoundError(name)
        return known(name)

    monkeypatch.setattr(metadata, "version", version)
    write_records(tmp_path / TRUTHS, {"a": {"of": "1"}})
    assert json.loads((tmp_path / TRUTHS).read_text())["versions"]["transformers"] == "none"


def test_truth_follows_from_the_members_alone(drawn: Path, tmp_path: Path) -> None:
    """Another folder with one of the members gives the same records."""
    records = json.loads((drawn / MEMBERS).read_text())["records"]
    name = f"{OPEN}/0"
    write_records(tmp_path / MEMBERS, {name: records[name]}, rounds=[3, 8])
    with ThreadPoolExecutor(1) as pool:
        truths(tmp_path, read_members(tmp_path)).run(executor=pool)
    alone, before = read_records(tmp_path / TRUTHS), read_records(drawn / TRUTHS)
    assert len(alone) == 4
    assert all(before[key] == record for key, record in alone.items())


def test_seal_needs_a_reason_and_holds_for_one_set_of_rules(drawn: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from isometer.trial import _rules, _seal

    assert "was not opened" in error("trial", "table", str(drawn), "--sealed")
    assert "which rules are final" in error("trial", "examine", str(drawn), "--open-seal", "now")
    assert not _seal.openings(drawn)
    members = read_members(drawn)
    monkeypatch.setattr(_rules, "code_version", lambda function: "first rules")
    assert _rules.open_seal(drawn, members, "the rules of this test are final") == members
    assert _rules.open_seal(drawn, members, "the same rules, looked at again") == members
    [kept] = _seal.openings(drawn).values()
    for kind, limits in THRESHOLDS.items():
        assert {name: kept["fitted"][kind][name] for name in limits} == limits
    monkeypatch.setattr(_rules, "code_version", lambda function: "second rules")
    with pytest.raises(Exception, match=r"opened on .* for other rules"):
        _rules.open_seal(drawn, members, "other rules are final now")
    (drawn / _seal.SEAL).unlink()


def test_bad_input_is_one_line(tmp_path: Path) -> None:
    assert "did you mean 'moe-mlp'" in error("trial", "draw", str(tmp_path / "a"), "--families", "moe-mpl")
    assert "expected two numbers of steps" in error("trial", "draw", str(tmp_path / "b"), "--rounds", "40")
    assert "run isometer trial draw first" in error("trial", "table", str(tmp_path / "c"))
    (tmp_path / MEMBERS).write_text("{")
    assert "cannot be read" in error("trial", "table", str(tmp_path))
    (tmp_path / MEMBERS).write_text('{"records": {"moe-mlp/0": 3}}')
    assert "cannot be read" in error("trial", "table", str(tmp_path))
