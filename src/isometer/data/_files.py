"""Files by name, in a folder or in an archive that is never unpacked to disk."""

from __future__ import annotations

import gzip
import tarfile
import zlib
from collections.abc import Iterable
from pathlib import Path
from typing import IO, BinaryIO, Protocol, cast

from isometer.errors import IsometerError

LIMIT = 1 << 29  # bytes; the largest file of any known set has 155 MB
_TOTAL = 2 * LIMIT


class Files(Protocol):
    """Where a reader finds its files."""

    @property
    def place(self) -> str:
        """For messages."""
        ...

    def read(self, names: Iterable[str]) -> dict[str, bytes]:
        """The contents of those that are there."""
        ...


class Folder:
    """Files of one folder; `name` and `name.gz` are the same file, unpacked on the way.

    Example:
        >>> import tempfile, pathlib
        >>> with tempfile.TemporaryDirectory() as place:
        ...     _ = (pathlib.Path(place) / "a").write_bytes(b"1")
        ...     Folder(pathlib.Path(place)).read(["a", "b"])
        {'a': b'1'}
    """

    def __init__(self, path: Path) -> None:
        self.path = path

    @property
    def place(self) -> str:
        """The folder."""
        return str(self.path)

    def read(self, names: Iterable[str]) -> dict[str, bytes]:
        """The contents of those that are there."""
        found = {}
        for name in names:
            for path in (self.path / name, self.path / f"{name}.gz"):
                if path.is_file():
                    found[name] = _file_content(path)
                    break
        return found


class Archive:
    """Members of a tar archive, by the last part of their path; nothing is written to disk.

    Links and special members are passed over, so a hostile archive can name what it likes.
    """

    def __init__(self, path: Path) -> None:
        self.path = path

    @property
    def place(self) -> str:
        """The archive."""
        return str(self.path)

    def read(self, names: Iterable[str]) -> dict[str, bytes]:
        """The contents of those that are there."""
        wanted = {name: name for name in names} | {f"{name}.gz": name for name in names}
        found: dict[str, bytes] = {}
        try:
            with (
                self.path.open("rb") as file,
                tarfile.open(fileobj=cast(IO[bytes], _Bounded(file)), mode="r:") as archive,
            ):
                # one pass in the archive's order: to go back in a compressed stream is to start again
                for member in archive:
                    name = wanted.get(member.name.rpartition("/")[2])
                    if name is None or not member.isreg() or name in found:
                        continue
                    label = f"{self.path}: {member.name}"
                    if member.size > LIMIT:
                        raise _too_large(label)
                    stream = archive.extractfile(member)
                    assert stream is not None
                    content = stream.read()
                    found[name] = _unpacked(content, label) if member.name.endswith(".gz") else content
        except IsometerError:
            raise
        except Exception as problem:  # tarfile checks little: anything may come of a damaged header
            raise IsometerError(
                f"cannot read the archive {str(self.path)!r}: {problem} — it is damaged; obtain it again"
            ) from problem
        return found


class _Bounded:
    """A tar file, unpacked on the way if need be, that is left when it claims to be endless."""

    def __init__(self, file: BinaryIO) -> None:
        packed = file.read(2) == b"\x1f\x8b"
        file.seek(0)
        self._file = cast(BinaryIO, gzip.GzipFile(fileobj=file)) if packed else file
        self.tell = self._file.tell

    def archive(self) -> tarfile.TarFile:
        """It, opened."""
        return tarfile.open(fileobj=cast(IO[bytes], self), mode="r:")

    def read(self, size: int) -> bytes:
        """As of any file, up to a limit."""
        if not 0 <= size <= LIMIT + tarfile.BLOCKSIZE:
            raise tarfile.ReadError("a part of it claims to be larger than any known data set")
        return self._file.read(size)

    def seek(self, position: int) -> int:
        """As of any file, up to a limit."""
        if position > _TOTAL:
            raise tarfile.ReadError("it claims to be larger than any known data set")
        return self._file.seek(position)


def _file_content(path: Path) -> bytes:
    try:
        if path.stat().st_size > LIMIT:
            raise _too_large(str(path))
        content = path.read_bytes()
    except OSError as problem:
        raise IsometerError(
            f"cannot read {str(path)!r}: {problem.strerror or problem} — check its permissions"
        ) from problem
    return _unpacked(content, str(path)) if path.suffix == ".gz" else content


def _unpacked(content: bytes, label: str) -> bytes:
    """gunzip with a limit."""
    import io

    try:
        with gzip.open(io.BytesIO(content)) as stream:
            data = stream.read(LIMIT + 1)  # one more byte tells a file at the limit from a longer one
    except (EOFError, zlib.error, OSError) as problem:
        raise IsometerError(
            f"{label} is not a complete gzip file: {problem} — it is truncated; obtain it again"
        ) from None
    if len(data) > LIMIT:
        raise _too_large(label)
    return data


def _too_large(label: str) -> IsometerError:
    return IsometerError(f"{label} is larger than {LIMIT >> 20} MB; no known data set is — remove it")
