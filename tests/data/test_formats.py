"""Data sets: every file format, and what is refused."""

from __future__ import annotations

import gzip
import io
import os
import pickle
import subprocess
import sys
import tarfile
import zlib
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

from isometer.data import DataSet, cache_folder, find, load
from isometer.data._formats import read_cifar_binary, read_cifar_pickle, read_idx, read_sheet
from isometer.data._unpickle import read_pickle
from isometer.errors import IsometerError
from support.data_files import (
    cifar10_files,
    cifar100_files,
    idx_bytes,
    python2_pickle,
    small,
    write,
    write_archive,
    write_idx,
)

pytestmark = pytest.mark.usefixtures("home")  # nothing of this computer is seen


def same(found: DataSet, expected: tuple[np.ndarray, np.ndarray]) -> bool:
    assert found.images.dtype == np.uint8
    assert found.labels.dtype == np.int64
    return np.array_equal(found.images, expected[0]) and np.array_equal(found.labels, expected[1])


# --- where it looks, and in what form


@pytest.mark.parametrize("packed", [False, True])
@pytest.mark.parametrize(
    "place", ["data/MNIST/raw", ".keras/datasets/mnist", "datasets/MNIST", ".cache/isometer/data/MNIST/raw"]
)
def test_idx_files_in_the_usual_places(place: str, packed: bool, home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    sets = small("mnist", monkeypatch)
    if sys.platform != "linux" and place.startswith(".cache"):
        pytest.skip("the cache folder of Linux")
    write_idx(home / place, sets, packed=packed)
    for split in ("train", "test"):
        assert same(load("MNIST", split=split), sets[split])
    assert load("mnist").source == str(home / place)


def test_the_chosen_folder_comes_first_and_may_hold_bare_files(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    sets = small("mnist", monkeypatch)
    write_idx(home / "data" / "MNIST" / "raw", sets)
    write_idx(home / "chosen", sets, dot=True)
    assert load("mnist").source == str(home / "data" / "MNIST" / "raw")
    monkeypatch.setenv("ISOMETER_DATA", str(home / "chosen"))
    assert cache_folder() == home / "chosen"
    assert load("mnist").source == str(home / "chosen")
    assert same(load("mnist", root=home / "chosen"), sets["train"])
    assert find("mnist", root=home / "elsewhere") is None
    monkeypatch.setenv("ISOMETER_DATA", str(home / "empty"))
    assert load("mnist").source == str(home / "data" / "MNIST" / "raw")


@pytest.mark.parametrize("form", ["bin", "py", "png"])
@pytest.mark.parametrize("archived", [False, True])
def test_cifar10(form: str, archived: bool, home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    sets = small("cifar10", monkeypatch)
    files = cifar10_files(sets, form)
    if archived:
        write_archive(home / "data" / "cifar-10-python.tar.gz", files)
    else:
        write(home / "data" / "cifar-10-batches-py", files)
    for split in ("train", "test"):
        assert same(load("CIFAR-10", split=split), sets[split])


@pytest.mark.parametrize("form", ["bin", "py"])
def test_cifar100_is_recognised_by_counts_and_means(form: str, home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    sets = small("cifar100", monkeypatch, checksums=False)
    folder = home / "data" / ("cifar-100-binary" if form == "bin" else "cifar-100-python")
    write(folder, cifar100_files(sets, form))
    for split in ("train", "test"):
        assert same(load("cifar100", split=split), sets[split])
    images, labels = sets["train"]
    write(folder, cifar100_files({**sets, "train": (images ^ 1, labels)}, form))
    with pytest.raises(IsometerError, match="channel means of the train images are not cifar100's"):
        load("cifar100")


def test_keras_npz(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    sets = small("mnist", monkeypatch)
    folder = home / ".keras" / "datasets"
    folder.mkdir(parents=True)
    arrays = {f"{k}_{s}": a.squeeze() for s in sets for k, a in zip("xy", sets[s], strict=True)}
    np.savez_compressed(folder / "mnist.npz", **arrays)
    assert same(load("mnist", split="test"), sets["test"])


def test_names_are_matched_loosely_and_unknown_ones_get_the_nearest() -> None:
    with pytest.raises(IsometerError, match=r"unknown data set 'fashon mnist'.*did you mean 'fashion-mnist'"):
        find("fashon mnist")
    with pytest.raises(IsometerError, match="choose one of these"):
        find("zzz")
    with pytest.raises(IsometerError, match=r"split is 'valid'; expected 'train' or 'test'"):
        load("mnist", split="valid")


@pytest.mark.parametrize(
    ("name", "way"), [("mnist", "isometer data get mnist"), ("cifar100", "put cifar-100-binary.tar.gz")]
)
def test_a_missing_set_says_how_to_get_it(name: str, way: str) -> None:
    with pytest.raises(IsometerError, match=way):
        load(name)


def test_digits_without_scikit_learn(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "sklearn", None)
    with pytest.raises(IsometerError, match=r"pip install 'isometer\[data\]'"):
        load("digits")


# --- damaged files


def test_every_cut_of_an_idx_file_is_noticed() -> None:
    array = np.arange(12, dtype=np.uint8).reshape(3, 2, 2)
    content = idx_bytes(array)
    assert np.array_equal(read_idx(content, "whole", dimensions=3), array)
    for length in range(len(content)):
        with pytest.raises(IsometerError, match=r"truncated|starts with"):
            read_idx(content[:length], "cut", dimensions=3)
    with pytest.raises(IsometerError, match="29 bytes; expected 28 — it is too long"):
        read_idx(content + b"\0", "long", dimensions=3)
    with pytest.raises(IsometerError, match="starts with 00000803; an IDX file of 1 dimensions starts with 00000801"):
        read_idx(content, "images for labels", dimensions=1)
    with pytest.raises(IsometerError, match="starts with 00000d03"):
        read_idx(content[:2] + b"\x0d" + content[3:], "floats", dimensions=3)


def test_cifar_binary_cut_short() -> None:
    with pytest.raises(IsometerError, match=r"x.bin has 3072 bytes; expected 3073 — it is truncated"):
        read_cifar_binary(bytes(3072), "x.bin", images=1)


@pytest.mark.parametrize("form", ["bin", "py", "png"])
@pytest.mark.parametrize("share", [0.0, 0.3, 0.9])
def test_cut_files_of_cifar10_are_named(form: str, share: float, home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    sets = small("cifar10", monkeypatch)
    files = cifar10_files(sets, form)
    name = next(n for n in files if n.startswith("data_batch_3"))
    files[name] = files[name][: int(share * len(files[name]))]
    write(home / "data" / "cifar-10-batches-py", files)
    with pytest.raises(IsometerError, match=f"{name}.*obtain it again"):
        load("cifar10")


@pytest.mark.parametrize("kind", [tarfile.REGTYPE, tarfile.GNUTYPE_LONGNAME, tarfile.XHDTYPE])
def test_archives_that_claim_to_be_endless(kind: bytes, home: Path) -> None:
    member = tarfile.TarInfo("package/other")
    member.size, member.type = 20 << 30, kind
    archive = home / "data" / "cifar-10-python.tar.gz"
    archive.parent.mkdir()
    archive.write_bytes(gzip.compress(member.tobuf(tarfile.GNU_FORMAT) + bytes(1 << 20)))
    with pytest.raises(IsometerError, match=r"cannot read the archive .* claims to be larger than any known data set"):
        load("cifar10")


def test_cut_archives_and_gzip_files_are_named(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    sets = small("cifar10", monkeypatch)
    archive = home / "data" / "cifar-10-python.tar.gz"
    write_archive(archive, cifar10_files(sets, "bin"))
    whole = archive.read_bytes()
    for length in (0, 100, len(whole) // 2, len(whole) * 9 // 10):
        archive.write_bytes(whole[:length])
        with pytest.raises(IsometerError, match=r"cifar-10-python\.tar\.gz"):
            load("cifar10", split="test")
    packed = small("mnist", monkeypatch)
    write_idx(home / "data" / "mnist", packed, packed=True)
    images = home / "data" / "mnist" / "t10k-images-idx3-ubyte.gz"
    images.write_bytes(images.read_bytes()[:-9])
    with pytest.raises(IsometerError, match=r"t10k-images-idx3-ubyte.gz is not a complete gzip file"):
        load("mnist", split="test")


def test_a_folder_that_lacks_a_file(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_idx(home / "data" / "mnist", small("mnist", monkeypatch))
    (home / "data" / "mnist" / "t10k-labels-idx1-ubyte").unlink()
    load("mnist")
    with pytest.raises(IsometerError, match="does not hold all files of the test split"):
        load("mnist", split="test")


@pytest.mark.parametrize("what", ["pixel", "order", "label", "count"])
def test_another_content_is_not_taken_for_the_set(what: str, home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    sets = small("mnist", monkeypatch)
    images, labels = (array.copy() for array in sets["train"])
    if what == "pixel":
        images[3, 0, 5, 5] ^= 1
    elif what == "order":
        images, labels = images[::-1], labels[::-1]
    elif what == "label":
        labels[0] = (labels[0] + 1) % 10
    else:
        images, labels = images[1:], labels[1:]
    write_idx(home / "data" / "mnist", {**sets, "train": (images, labels)})
    expected = {"label": "numbers of images per class", "count": "expected \\(20, 1, 28, 28\\)"}
    with pytest.raises(IsometerError, match=expected.get(what, "checksum of the train images")):
        load("mnist")


@pytest.mark.parametrize("damage", ["cut", "flip", "objects", "names", "text", "floats"])
def test_damaged_npz(damage: str, home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    sets = small("mnist", monkeypatch)
    path = home / "mnist.npz"
    arrays: dict[str, Any] = {f"train_{k}": a for k, a in zip(("images", "labels"), sets["train"], strict=True)}
    if damage == "objects":
        arrays["train_images"] = np.array([print, None], dtype=object)
    elif damage == "names":
        arrays = {"a": np.zeros(3)}
    elif damage == "floats":
        arrays["train_images"] = arrays["train_images"].astype(float)
    np.savez(path, **arrays)
    content = bytearray(path.read_bytes())
    if damage == "cut":
        content = content[: len(content) // 2]
    elif damage == "flip":
        content[5000] ^= 255
    elif damage == "text":
        content = bytearray(b"hello")
    path.write_bytes(content)
    with pytest.raises(IsometerError, match=r"mnist.npz.*(remove it|obtain)"):
        load("mnist", root=home)


# --- pickles


@pytest.mark.parametrize("protocol", range(6))
def test_pickles_of_every_protocol(protocol: int) -> None:
    images = np.random.default_rng(0).integers(0, 256, (3, 3072), dtype=np.uint8)
    for array in (images, np.asfortranarray(images)):
        content = pickle.dumps({"data": array, "labels": [1, 2, 3]}, protocol=protocol)
        pixels, labels = read_cifar_pickle(content, "batch")
        assert np.array_equal(pixels.reshape(3, -1), images)
        assert labels.tolist() == [1, 2, 3]


def test_pickles_of_python_2() -> None:
    images = np.random.default_rng(0).integers(0, 256, (2, 3072), dtype=np.uint8)
    content = python2_pickle(images, [3, 8])
    pixels, labels = read_cifar_pickle(content, "batch")
    assert np.array_equal(pixels.reshape(2, -1), images)
    assert labels.tolist() == [3, 8]
    for length in (0, 1, 40, 100, len(content) // 2, len(content) - 1):
        with pytest.raises(IsometerError, match="obtain it again"):
            read_cifar_pickle(content[:length], "batch")


class Hostile:
    def __init__(self, path: Path) -> None:
        self.path = str(path)

    def __reduce__(self) -> tuple[Any, ...]:
        return os.mkdir, (self.path,)


@pytest.mark.parametrize("protocol", range(6))
def test_hostile_pickles_run_nothing(protocol: int, tmp_path: Path) -> None:
    trap = tmp_path / "sprung"
    content = pickle.dumps({"data": Hostile(trap), "labels": [0]}, protocol=protocol)
    with pytest.raises(IsometerError, match=r"needs '\w+.mkdir'; .*do not trust it"):
        read_cifar_pickle(content, "batch")
    assert not trap.exists()
    pickle.loads(content)  # the trap works: this test can fail
    assert trap.exists()


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"cbuiltins\neval\n(S'1'\ntR.", "builtins.eval"),
        (b"cnumpy.core.multiarray\nscalar\n.", "numpy.core.multiarray.scalar"),
        (b"\x80\x02\x82\x01.", "not a complete pickle"),  # extension registry
        (b"\x80\x02Pname\n.", "not a complete pickle"),  # persistent object
        (b"cnumpy\nndarray\n(N}S'a'\nK\x01st\x86b.", "not a complete pickle"),  # tries to change a constructor
        (pickle.dumps(np.zeros(3)), "array of 'f8'; expected uint8"),
        (pickle.dumps(np.array([None, {}], dtype=object), protocol=2), "array of 'O8'; expected uint8"),
        (pickle.dumps(np.zeros(3, np.uint8), protocol=2).replace(b"K\x03\x85", b"K\x63\x85"), "do not agree"),
        (pickle.dumps({1, 2}), "holds a set"),
        (pickle.dumps([[[[[[[[[[1]]]]]]]]]]), "nested too deeply"),
        (pickle.dumps([1, 2]), "expected a dict"),
        (pickle.dumps({"data": 3}), "no array 'data'"),
        (pickle.dumps({"data": np.zeros((2, 3072), np.uint8), "labels": [1]}), "no 'labels'"),
        (pickle.dumps({"data": np.zeros((1, 3072), np.uint8), "labels": [300]}), "no 'labels'"),
        (b"", "not a complete pickle"),
    ],
)
def test_other_pickles_are_refused(content: bytes, message: str) -> None:
    with pytest.raises(IsometerError, match=message):
        read_cifar_pickle(content, "batch")
    assert isinstance(read_pickle(pickle.dumps(np.zeros(2, np.uint8)), "after"), np.ndarray)


# --- PNG sheets


def png(size: tuple[int, int], mode: str = "RGB") -> bytes:
    file = io.BytesIO()
    Image.new(mode, size).save(file, "PNG")
    return file.getvalue()


def test_a_row_of_a_sheet_is_an_image() -> None:
    sheet = np.arange(24, dtype=np.uint8).reshape(2, 4, 3)  # two images of 2×2
    file = io.BytesIO()
    Image.fromarray(sheet).save(file, "PNG")
    images = read_sheet(file.getvalue(), "sheet", shape=(3, 2, 2), images=2)
    assert images.shape == (2, 3, 2, 2)
    assert images[1, 2].tolist() == [[14, 17], [20, 23]]  # blue of the second row, pixel by pixel


def test_sheets_of_another_size_are_refused_before_they_are_decoded() -> None:
    limit = Image.MAX_IMAGE_PIXELS
    assert limit is not None
    with pytest.raises(IsometerError, match="RGB of 5×2; expected RGB of 4×2"):
        read_sheet(png((5, 2)), "sheet", shape=(3, 2, 2), images=2)
    with pytest.raises(IsometerError, match="sheet is L of"):
        read_sheet(png((4, 2), "L"), "sheet", shape=(3, 2, 2), images=2)
    for sides in ((10_000, 10_000), (30_000, 30_000)):  # above the limit of warnings, and of errors
        with pytest.raises(IsometerError, match="decompression bomb"):
            read_sheet(claiming(sides), "sheet", shape=(3, 2, 2), images=2)
    with pytest.raises(IsometerError, match="not a complete PNG"):
        read_sheet(b"GIF89a", "sheet", shape=(3, 2, 2), images=2)
    assert limit == Image.MAX_IMAGE_PIXELS


def claiming(sides: tuple[int, int]) -> bytes:
    """A small PNG file whose header claims to be large."""
    small_file = png((4, 2))
    header = b"IHDR" + b"".join(side.to_bytes(4, "big") for side in sides) + small_file[24:29]
    return small_file[:12] + header + zlib.crc32(header).to_bytes(4, "big") + small_file[33:]


def test_broken_label_json(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    files = cifar10_files(small("cifar10", monkeypatch), "png")
    for content in (b"[1, 2", b"{}", b'["a"]', b"[300]"):
        write(home / "package", {**files, "train_lables.json": content})
        with pytest.raises(IsometerError, match=r"train_lables\.json is not a list of labels"):
            load("cifar10", root=home / "package")


def test_files_larger_than_any_set_are_refused(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A gzip file that unpacks without end is stopped."""
    monkeypatch.setattr("isometer.data._files.LIMIT", 10_000)
    write_idx(home / "data" / "mnist", small("mnist", monkeypatch))
    (home / "data" / "mnist" / "train-images-idx3-ubyte").unlink()
    (home / "data" / "mnist" / "train-images-idx3-ubyte.gz").write_bytes(gzip.compress(bytes(1_000_000)))
    with pytest.raises(IsometerError, match="larger than"):
        load("mnist")


def test_the_room_does_not_import_torch_or_scikit_learn() -> None:
    code = "import sys, isometer.data; assert not {'torch', 'sklearn', 'PIL'} & set(sys.modules), 'heavy imports'"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
