"""What a caller gives to be examined with: one batch, many, or none."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

from torch import nn

from isometer.doctor.probe._given import BatchReader, is_shape
from isometer.doctor.probe._made_up import made_up_batch, made_up_words, with_offsets
from isometer.doctor.probe._tensor_trees import tensors
from isometer.doctor.stress._material import Batches, is_stream
from isometer.errors import IsometerError


@dataclass(frozen=True, eq=False)
class GivenBatches:
    """What a model is examined with.

    Attributes:
        inputs: what the probe sees.
        target: of these inputs, `None` if there is none.
        batches: what the stress test is given.
        made: what the batch is if it was made for the model, empty otherwise.
        loss: that the caller gave with it.
    """

    inputs: Any
    target: Any
    batches: Batches
    made: str = ""
    loss: Callable[..., Any] | None = None


def given_batches(
    model: nn.Module, batch: Any, target: Any, fresh: Iterable[Any] | Batches | None, seed: int
) -> GivenBatches:
    """What the probe sees, and what the stress test is given.

    Args:
        model: for which a batch is made where none is given.
        batch: inputs, arrays or tensors; their shape; or many batches of inputs and targets, as an iterable or a torch
            data set.
        target: of the one batch.
        fresh: other batches, or what an earlier call returned.
        seed: seed of what is made.

    Example:
        >>> import torch
        >>> found = given_batches(nn.Identity(), torch.ones(2, 3), torch.zeros(2), None, 0)
        >>> found.inputs.shape, found.target.shape, len(found.batches), found.made
        (torch.Size([2, 3]), torch.Size([2]), 1, '')
        >>> given_batches(nn.Linear(3, 1), (3,), None, None, 0).made
        'made for this model: 32 Gaussian inputs of shape (3,)'
    """
    reader = BatchReader(model)
    if batch is None and fresh is None:
        if target is not None:
            raise IsometerError("target was given without batch; expected both — pass the inputs it belongs to")
        return _made_for(model, made_up_batch(model, 2, seed=seed), 32, seed)
    if fresh is None and target is None and is_shape(batch):
        shaped = reader.read(batch, seed=seed)[0]
        return _made_for(model, shaped, len(next(tensors(shaped))), seed)
    if not isinstance(batch, (tuple, list)) or not is_stream(batch):
        batch, target = reader.read(batch, target, seed=seed)
    if batch is None or is_stream(batch):
        if target is not None or (batch is not None and fresh is not None):
            raise IsometerError(
                "target or fresh was given beside many batches; expected (inputs, targets) in each — leave it out"
            )
        many: Any = fresh if batch is None and fresh is not None else batch
        found = many if isinstance(many, Batches) else Batches(many, reader)
        return GivenBatches(*found[0], found)
    if isinstance(fresh, Batches):
        return GivenBatches(batch, target, fresh)
    return GivenBatches(batch, target, Batches([(batch, target)] if fresh is None else fresh, reader))


def _made_for(model: nn.Module, like: Any, samples: int, seed: int) -> GivenBatches:
    """Batches like this one, which tells the shape: to find it runs the model, and once is enough."""
    shape = tuple(next(tensors(like)).shape[1:])
    made = (made_up_batch(model, samples, shape=shape, seed=seed + step) for step in itertools.count())
    first = next(made)
    return GivenBatches(
        first, None, Batches(with_offsets(one, seed=step) for step, one in enumerate(made)), made_up_words(first)
    )
