"""Tensors from a user's file: weights and batches as data only, with limits that are checked before memory is taken."""

from __future__ import annotations

import copy
import io
import pickletools
import re
import warnings
import zipfile
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
import torch

from isometer.data._arrays import SUFFIXES, read_arrays, tensor_names
from isometer.data._numpy_files import MAGIC, damaged, directory
from isometer.data._user_file import check_memory, memory_limit, opened
from isometer.errors import IsometerError

_OPERATIONS = 2_000_000  # of a pickle; a tensor takes about forty
_PARTS = 5  # pickles in a file of torch before 1.6
_FEW = "save fewer tensors"
# What torch lets pickles call, but takes memory by a number in the file, or checks nothing.
_REFUSED = re.compile(
    r"builtins bytearray|torch(\.cuda)?(\.sparse)? \w*Tensor|torch\._utils "
    r"_rebuild_(?!tensor$|tensor_v[23]$|parameter$|parameter_with_state$)\w+"
)


def read_batch(path: Path) -> Any:
    """What a model is called with, from a file.

    Args:
        path: `.npy`, `.npz`, `.csv`, `.safetensors`, or what `torch.save` wrote of tensors. Several arrays are a
            mapping of keyword arguments, unless NumPy named them `arr_0`, `arr_1`, …: those are positional.

    Raises:
        IsometerError: the file cannot be read as data, is damaged or too large, or holds NaN.

    Example:
        >>> import tempfile
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     np.save(f"{folder}/x.npy", np.ones((2, 3)))
        ...     read_batch(Path(folder) / "x.npy").dtype
        torch.float32
    """
    label, limit = repr(path.name), memory_limit()
    if path.suffix.lower() == ".safetensors" or not _is_numpy(path):
        # A copy: the file may change while it is mapped into memory.
        batch = _own(read_tensors(path, limit=limit), label)
    else:
        arrays = read_arrays(path, kinds="fiubc", copy=4, limit=limit)
        tensors = {name: _tensor(array, label) for name, array in arrays.items()}
        if path.suffix.lower() != ".npz" or all(name.startswith("arr_") for name in tensors):
            batch = tuple(tensors.values()) if len(tensors) > 1 else next(iter(tensors.values()))
        else:
            batch = tensors
    for tensor in tensors_in(batch):
        _check_values(tensor, label)
    return batch


def read_tensors(path: Path, *, limit: int) -> Any:
    """What a `.safetensors` file or a file of `torch.save` holds; nothing in it is executed.

    The tensors of a file of torch may be views of the file: copy what is kept.

    Args:
        path: path of the file.
        limit: bytes that the tensors may take.

    Raises:
        IsometerError: the file cannot be read as data, or is too large.

    Example:
        >>> import tempfile
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     torch.save({"x": torch.ones(2)}, f"{folder}/x.pt")
        ...     read_tensors(Path(folder) / "x.pt", limit=1000)["x"].clone()
        tensor([1., 1.])
    """
    label = repr(path.name)
    with opened(path) as file:
        size = file.seek(0, io.SEEK_END)
        file.seek(0)
        if path.suffix.lower() == ".safetensors":
            check_memory(label, size, limit, _FEW)
            return _safetensors(path, label)
        zipped = file.read(4) == b"PK\x03\x04"
        file.seek(0)
        sizes = None
        if zipped:
            sizes = _check_archive(file, label, limit)
        else:
            check_memory(label, size, limit, _FEW)
            for _ in range(_PARTS):
                _check_pickle(file, label)
    held = _torch_load(path, size, label, sizes)
    # A tensor may repeat the few numbers that it stores.
    needed = sum(tensor.numel() * tensor.element_size() for tensor in tensors_in(held))
    check_memory(label, needed, limit, _FEW)
    return held


def _is_numpy(path: Path) -> bool:
    with opened(path) as file:
        return path.suffix.lower() in SUFFIXES or file.read(len(MAGIC)) == MAGIC


def _safetensors(path: Path, label: str) -> dict[str, torch.Tensor]:
    from safetensors import SafetensorError, safe_open

    try:
        with safe_open(path, framework="pt") as file:
            return {name: file.get_tensor(name) for name in tensor_names(file, label)}
    except IsometerError:
        raise
    except (SafetensorError, OSError, TypeError, AttributeError, KeyError, ValueError, RuntimeError) as problem:
        raise IsometerError(
            f"{label} is not a safetensors file: {' '.join(str(problem).split())[:160]} — save it again"
        ) from None


def _check_archive(file: BinaryIO, label: str, limit: int) -> set[int]:
    """Sizes of its members, if an archive is as torch writes them: nothing packed, all within the file."""
    members = directory(file, label)
    pickles = [member for member in members if member.filename.rpartition("/")[2] == "data.pkl"]
    if len(pickles) != 1:
        raise IsometerError(
            f"{label} cannot be loaded as data only: it is an archive without tensors; expected what torch.save wrote "
            "— save the state dict alone, or use safetensors"
        )
    if any(
        member.compress_type != zipfile.ZIP_STORED or member.compress_size != member.file_size for member in members
    ):
        raise IsometerError(f"{label} is packed; expected an archive as torch.save writes it — save it again")
    check_memory(label, sum(member.file_size for member in members), limit, _FEW)
    try:
        with zipfile.ZipFile(file) as archive:
            pickles[0].CRC = None  # type: ignore[assignment]  # torch can leave it out, and does not compare it
            content = archive.read(pickles[0])
    except Exception as problem:  # as for the directory
        raise damaged(label, problem) from None
    _check_pickle(io.BytesIO(content), label)
    return {member.file_size for member in members}


def _check_pickle(file: Any, label: str) -> None:
    """Whether a pickle is small, and calls nothing that could take memory at will. It is not run."""
    try:
        for count, (operation, argument, _) in enumerate(pickletools.genops(file)):
            if count > _OPERATIONS:
                raise IsometerError(f"{label} holds more than tensors — save the state dict alone")
            if operation.name == "GLOBAL" and _REFUSED.fullmatch(str(argument)):
                asked = str(argument).replace(" ", ".")[:80]
                raise _not_data(label, f"needs {asked}")
    except IsometerError:
        raise
    except Exception as problem:  # a damaged pickle fails anywhere
        raise _not_data(label, type(problem).__name__) from None


def _not_data(label: str, told: str) -> IsometerError:
    return IsometerError(
        f"{label} cannot be loaded as data only ({told}); expected tensors saved by torch.save — save the state dict "
        "alone, or use safetensors"
    )


def _torch_load(path: Path, size: int, label: str, sizes: set[int] | None) -> Any:
    """Load an archive with members of these sizes, or a file of before there were archives."""
    taken = 0

    def counted(storage: Any, _: str) -> Any:
        nonlocal taken
        taken += storage.nbytes()
        # A tensor that is larger than its member would go on with the bytes of the next.
        if taken > size if sizes is None else storage.nbytes() not in sizes:
            raise _not_data(label, "the size of a tensor is not the one in its header")
        return storage

    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # about unusual protocols
            # Mapped, a tensor cannot reach beyond the file, whatever it says about its size.
            return torch.load(str(path), map_location=counted, weights_only=True, mmap=sizes is not None)
    except IsometerError:
        raise
    except Exception as problem:  # torch raises many kinds for one reason
        raise _not_data(label, type(problem).__name__) from None


def tensors_in(held: Any) -> list[torch.Tensor]:
    """All tensors in nested containers, each once."""
    found, seen, left = [], set(), [held]
    while left:
        one = left.pop()
        if id(one) in seen:
            continue
        seen.add(id(one))
        if isinstance(one, torch.Tensor):
            found.append(one)
        elif isinstance(one, dict):
            left += one.values()
        elif isinstance(one, list | tuple | set):
            left += one
    return found


def _own(batch: Any, label: str) -> Any:
    """A batch in memory of its own."""
    if not tensors_in(batch):
        raise IsometerError(f"{label} holds a {type(batch).__name__} without tensors; expected a batch — save it again")
    try:
        return copy.deepcopy(batch)
    except RecursionError:
        raise IsometerError(
            f"{label} is nested too deeply; expected a tuple or a dict of tensors — save those"
        ) from None


def _tensor(array: np.ndarray[Any, Any], label: str) -> torch.Tensor:
    kind, size = array.dtype.kind, array.dtype.itemsize
    # NumPy's default is float64, which layers in float32 refuse; half precision stays.
    if kind == "f" and size > 4:
        with np.errstate(over="ignore"):
            rounded = array.astype(np.float32)
        if not np.array_equal(np.isinf(rounded), np.isinf(array)):
            raise IsometerError(f"{label} holds numbers beyond 3.4e38, the largest in float32 — rescale them")
        array = rounded
    elif kind == "u" and size > 1:  # torch computes with none of these
        if size == 8 and array.size and int(array.max()) > np.iinfo(np.int64).max:
            raise IsometerError(f"{label} holds {array.max()}; expected integers below 2^63 — save them as int64")
        array = array.astype(np.int32 if size == 2 else np.int64)
    elif kind == "c" and size > 16:
        raise IsometerError(f"{label} holds {array.dtype}; expected at most complex128 — convert it")
    return torch.from_numpy(array.copy(order="C"))


def _check_values(tensor: torch.Tensor, label: str) -> None:
    """Refuse NaN, of which nothing can be learned, and +∞; masks are made of −∞."""
    if not (tensor.is_floating_point() or tensor.is_complex()):
        return
    bad = tensor.isnan() | (tensor.isposinf() if tensor.is_floating_point() else tensor.isinf())
    if bool(bad.any()):
        raise IsometerError(f"{label} has NaN or infinite entries ({int(bad.sum())} of {bad.numel()}) — clean it first")
