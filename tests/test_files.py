"""Files that are whole or not there; folders that exist or are explained."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from isometer.errors import IsometerError
from isometer.files import existing_folder, writable_folder, write_whole
from isometer.run import StoreError


@pytest.mark.parametrize("error", [IsometerError, StoreError])
def test_a_write_that_fails_leaves_the_old_file(
    error: type[IsometerError], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "file"
    write_whole(path, "old")

    def full(descriptor: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    for data in (b"new", lambda partial: partial.write_bytes(b"new")):
        with pytest.raises(error, match="No space left on device — make room") as caught:
            write_whole(path, data, error=error, fix="make room")
        assert type(caught.value) is error
    assert [p.name for p in tmp_path.iterdir()] == ["file"]
    assert path.read_bytes() == b"old"


def test_a_writer_that_raises_leaves_nothing(tmp_path: Path) -> None:
    def torn(partial: Path) -> None:
        partial.write_text("half")
        raise KeyError("torn")

    with pytest.raises(KeyError):
        write_whole(tmp_path / "file", torn)
    assert not list(tmp_path.iterdir())


def test_long_names_and_other_letters_can_be_written(tmp_path: Path) -> None:
    path = tmp_path / f"{'ä' * 100}.txt"
    write_whole(path, "π")
    assert path.read_bytes() == "π".encode()


def test_folders(tmp_path: Path) -> None:
    assert existing_folder(str(tmp_path)) == tmp_path
    assert writable_folder(tmp_path / "a" / "b").is_dir()
    (tmp_path / "file").touch()
    with pytest.raises(IsometerError, match="file' is a file — create it first"):
        existing_folder(tmp_path / "file")
    with pytest.raises(IsometerError, match=r"cannot write to the folder .*file/below'.* — choose another"):
        writable_folder(tmp_path / "file" / "below", fix="choose another")
