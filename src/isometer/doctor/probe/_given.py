"""What people pass as a batch: tensors, NumPy arrays, a shape, a data set, pairs of inputs and targets."""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from typing import Any

import numpy as np
import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset, IterableDataset

from isometer.doctor.probe._made_up import made_up_batch, refusal
from isometer.errors import IsometerError

_SAMPLES = 32  # in each batch of a data set


class BatchReader:
    """Reads batches for one model.

    Args:
        model: what is called with them.

    Example:
        >>> reader = BatchReader(nn.Linear(3, 1))
        >>> reader.read(np.ones((4, 3)))[0].dtype, reader.read((3,))[0].shape
        (torch.float32, torch.Size([32, 3]))
        >>> inputs, target = reader.read((np.ones((4, 3)), np.zeros(4)))
        >>> inputs.shape, target.dtype
        (torch.Size([4, 3]), torch.float32)
    """

    def __init__(self, model: nn.Module) -> None:
        self.model = model
        own = next((p for p in model.parameters() if p.is_floating_point()), torch.empty(0))
        self.dtype, self.device = own.dtype, own.device
        self._refused: dict[torch.dtype, bool] = {}  # whether the model takes inputs of another precision

    def read(self, batch: Any, target: Any = None, *, seed: int = 0) -> tuple[Any, Any]:
        """Inputs and target as the model takes them; an iterable of batches stays one.

        Args:
            batch: a tensor, an array, nested numbers, the shape of one sample, a torch data set, or a tuple or mapping
                of tensors or arrays; `(inputs, target)` for a model that takes one input.
            target: of these inputs.
            seed: seed of inputs that are made for a shape, and of the order of a data set.

        Raises:
            IsometerError: an array does not hold numbers, or holds complex ones that the model does not take.
        """
        if is_shape(batch):
            return self._of_shape(tuple(batch), seed), self.tensors(target)
        if isinstance(batch, Dataset):
            order: dict[str, Any] = (
                {} if isinstance(batch, IterableDataset) else {"shuffle": True, "generator": _seeded(seed)}
            )
            return DataLoader(batch, batch_size=_SAMPLES, **order), target
        if target is None and self.is_pair(batch):
            batch, target = batch
        return self.inputs(batch), self.tensors(target)

    def inputs(self, batch: Any, *, name: str = "the batch") -> Any:
        """Inputs as tensors, a single one in the model's precision if the model takes only that."""
        found = self.tensors(batch)
        if not isinstance(found, torch.Tensor) or found.dtype == self.dtype or found.is_nested or not found.numel():
            return found
        if found.is_complex():
            return self._complex(found, name)
        if found.dtype not in self._refused:
            other = refusal(self.model, found) is not None
            self._refused[found.dtype] = other and refusal(self.model, found.to(self.dtype)) is None
        return self._converted(found, name) if self._refused[found.dtype] else found

    def _complex(self, tensor: torch.Tensor, name: str) -> torch.Tensor:
        """Complex numbers as they are, or in the precision of the model's own; a real model does not lose a part."""
        if refusal(self.model, tensor) is None:
            return tensor
        own = next((p.dtype for p in self.model.parameters() if p.is_complex()), None)
        if own is not None and refusal(self.model, tensor.to(own)) is None:
            return tensor.to(own)
        if own is None and refusal(self.model, tensor.real.to(self.dtype)) is None:
            raise IsometerError(
                f"{name} holds complex numbers, the model takes real ones — save the real part, or real and imaginary "
                "parts as separate features"
            )
        return tensor  # refused for another reason

    def _converted(self, tensor: torch.Tensor, name: str) -> torch.Tensor:
        made = tensor.to(self.dtype)
        if not tensor.is_floating_point() and not torch.equal(made.to(tensor.dtype), tensor):
            came, needed = (str(one).removeprefix("torch.") for one in (tensor.dtype, self.dtype))
            raise IsometerError(
                f"{name} holds {came} numbers; the model computes in {needed}, which rounds them — convert it"
            )
        return made

    def tensors(self, value: Any) -> Any:
        """Arrays and nested numbers as tensors, floating point ones in the model's precision; the rest as it is."""
        if isinstance(value, Mapping):
            return {key: self.tensors(one) for key, one in value.items()} if _has_arrays(value.values()) else value
        if isinstance(value, (tuple, list)):
            if _is_numbers(value):
                return self._tensor(np.asarray(value))
            return type(value)(map(self.tensors, value)) if _has_arrays(value) else value
        return self._tensor(np.asarray(value)) if _is_array(value) else value

    def _tensor(self, array: np.ndarray[Any, Any]) -> torch.Tensor:
        if array.dtype.kind not in "fiub":
            raise IsometerError(f"an array of the batch has type {array.dtype}; expected numbers — convert it")
        made = torch.as_tensor(np.array(array))  # a copy: torch warns of read-only memory and refuses negative strides
        return made.to(self.device, self.dtype) if made.is_floating_point() else made.to(self.device)

    def is_pair(self, batch: Any) -> bool:
        """Whether a tuple or list is `(inputs, target)`: two arrays, for a model that takes one input."""
        if not isinstance(batch, (tuple, list)) or hasattr(batch, "_fields") or len(batch) != 2:
            return False
        if not all(isinstance(one, torch.Tensor) or _is_array(one) for one in batch):
            return False
        try:
            inspect.signature(self.model.forward).bind(*batch)
        except TypeError:
            return True
        except ValueError:  # a forward without a signature
            return False
        return False

    def _of_shape(self, shape: tuple[int, ...], seed: int) -> Any:
        """Inputs for the shape of one sample; of a whole batch, where the model takes only that."""
        made = made_up_batch(self.model, shape=shape, seed=seed)
        if len(shape) > 1 and refusal(self.model, made) is not None:
            whole = made_up_batch(self.model, shape[0], shape=shape[1:], seed=seed)
            return whole if refusal(self.model, whole) is None else made
        return made


def is_shape(batch: Any) -> bool:
    """Whether a batch is the shape of one.

    Example:
        >>> is_shape((3, 32, 32)), is_shape(torch.Size([4])), is_shape(()), is_shape([1.5])
        (True, True, False, False)
    """
    return isinstance(batch, tuple) and bool(batch) and all(type(side) is int and side > 0 for side in batch)


def _is_array(value: Any) -> bool:
    """Whether NumPy reads it: an array, a column or a table of pandas."""
    return hasattr(value, "__array__") and not isinstance(value, (torch.Tensor, type))


def _has_arrays(values: Any) -> bool:
    return any(_is_array(one) for one in values)


def _is_numbers(value: Any) -> bool:
    """Whether it is a list of numbers, or of lists of numbers."""
    while isinstance(value, list) and value:
        value = value[0]
    return isinstance(value, (int, float)) and not isinstance(value, bool)


def _seeded(seed: int) -> torch.Generator:
    return torch.Generator().manual_seed(seed)
