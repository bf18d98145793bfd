"""The memory behind tensors, as bytes: −0 differs from 0, and a NaN equals itself."""

from __future__ import annotations

import ctypes
import zlib
from collections.abc import Iterable
from typing import Any

import numpy as np
import torch

Storage = torch.UntypedStorage
_SMALL = 1 << 16  # bytes up to which a checksum reads one by one
_WINDOW = 127  # words that a checksum adds up


def storage_of(tensor: torch.Tensor) -> Storage | None:
    """The memory of a tensor, `None` where it has none of its own (sparse, nested, on the meta device, a wrapper)."""
    if tensor.layout is not torch.strided or tensor.is_meta or tensor.is_nested:
        return None
    try:
        storage = tensor.untyped_storage()
        held = storage.nbytes() == 0 or storage.data_ptr() != 0
    except (RuntimeError, NotImplementedError):
        return None
    return storage if held else None


def as_tensor(storage: Storage) -> torch.Tensor:
    """The bytes of a storage, in words of eight where they come out even."""
    size = storage.nbytes()
    dtype, count = (torch.int64, size // 8) if size % 8 == 0 else (torch.uint8, size)
    return torch.empty(0, dtype=dtype, device=storage.device).set_(storage, 0, (count,))  # type: ignore[call-overload, no-any-return]


def copied_storage(storage: Storage) -> Storage:
    """The same bytes elsewhere.

    Example:
        >>> first = torch.ones(3).untyped_storage()
        >>> same_bytes(first, copied_storage(first)), first.data_ptr() == copied_storage(first).data_ptr()
        (True, False)
    """
    return as_tensor(storage).clone().untyped_storage()


def same_bytes(first: Storage, second: Storage) -> bool:
    """Whether two storages hold the same."""
    if first.nbytes() != second.nbytes():
        return False
    return first.nbytes() == 0 or torch.equal(as_tensor(first), as_tensor(second))


def write_bytes(storage: Storage, source: Storage) -> None:
    """Make a storage hold what another does, also where it was resized; versions of tensors do not count it."""
    if storage.nbytes() != source.nbytes():
        storage.resize_(source.nbytes())
    if source.nbytes():
        with torch.no_grad():
            as_tensor(storage).copy_(as_tensor(source))


def checksum(storage: Storage) -> tuple[int, ...]:
    """Numbers that almost surely change with any byte.

    Up to 64 KiB a cyclic redundancy check; beyond, that of the sums of every 127 words of 64 bits, eight times as fast:
    it is blind to words that change places within a kilobyte, and to nothing else.

    Example:
        >>> before, weight = checksum((weight := torch.zeros(300, 300)).untyped_storage()), weight
        >>> weight[2, 7] = 1e-30
        >>> checksum(weight.untyped_storage()) == before
        False
    """
    size = storage.nbytes()
    if not size:
        return 0, 0
    if size <= _SMALL and storage.device.type == "cpu":
        return size, _crc(storage.data_ptr(), size)
    words = as_tensor(storage)
    whole = words.numel() // _WINDOW * _WINDOW
    sums = words[:whole].view(-1, _WINDOW).sum(1, dtype=torch.int64)
    parts = [one.cpu().contiguous() for one in (sums, words[whole:])]
    return size, *(_crc(one.data_ptr(), one.numel() * one.element_size()) for one in parts)


def _crc(address: int, size: int) -> int:
    return zlib.crc32((ctypes.c_char * size).from_address(address)) if size else 0


def overlapping(storages: Iterable[Storage], arrays: Iterable[Any] = ()) -> bool:
    """Whether memory belongs to two storages, or to a storage and an array, at a time.

    Example:
        >>> weight = torch.ones(3)
        >>> overlapping([weight.untyped_storage()], [weight.numpy()])
        True
    """
    ranges = [(one.data_ptr(), one.data_ptr() + one.nbytes(), 0) for one in storages if one.device.type == "cpu"]
    for array in arrays:
        if isinstance(array, np.ndarray):
            low, high = _bounds(array) if array.size else (0, 0)
            ranges.append((low, high, 1))
        elif array:
            start = ctypes.addressof(ctypes.c_char.from_buffer(array))
            ranges.append((start, start + memoryview(array).nbytes, 1))
    end, was_array = 0, 0
    for low, high, is_array in sorted(ranges):
        # Two arrays may be views of each other; NumPy and Python copy those as they like.
        if low < end and not (is_array and was_array):
            return True
        if high > end:
            end, was_array = high, is_array
    return False


def _bounds(array: Any) -> tuple[int, int]:
    from numpy.lib.array_utils import byte_bounds

    low, high = byte_bounds(array)
    return int(low), int(high)
