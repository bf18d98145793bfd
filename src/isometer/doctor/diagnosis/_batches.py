"""What a caller gives to be examined with: one batch, many, or none."""

from __future__ import annotations

import itertools
from collections.abc import Iterable
from typing import Any

from torch import nn

from isometer.doctor.diagnosis._made_up import made_up_batch, with_offsets
from isometer.doctor.stress._material import Batches, Pair, is_stream
from isometer.errors import IsometerError


def given_batches(
    model: nn.Module, batch: Any, target: Any, fresh: Iterable[Any] | Batches | None, seed: int
) -> tuple[Pair, Batches]:
    """What the probe sees, and what the stress test is given.

    Args:
        model: for which a batch is made up where none is given.
        batch: of inputs, or many of inputs and targets.
        target: of the one batch.
        fresh: other batches, or what an earlier call returned.
        seed: of what is made up.

    Example:
        >>> import torch
        >>> (inputs, target), batches = given_batches(nn.Identity(), torch.ones(2, 3), torch.zeros(2), None, 0)
        >>> inputs.shape, target.shape, len(batches)
        (torch.Size([2, 3]), torch.Size([2]), 1)
    """
    if batch is None and fresh is None:
        if target is not None:
            raise IsometerError("target was given without batch; expected both — pass the inputs it belongs to")
        # To tell the shape runs the model: once is enough.
        shape = tuple(made_up_batch(model, 1, seed=seed).shape[1:])
        made = (made_up_batch(model, shape=shape, seed=seed + step) for step in itertools.count())
        return (next(made), None), Batches(with_offsets(one, seed=step) for step, one in enumerate(made))
    if batch is None or is_stream(batch):
        if target is not None or (batch is not None and fresh is not None):
            raise IsometerError(
                "target or fresh was given beside many batches; expected (inputs, targets) in each — leave it out"
            )
        many: Any = fresh if batch is None and fresh is not None else batch
        found = Batches(many)
        return found[0], found
    if isinstance(fresh, Batches):
        return (batch, target), fresh
    return (batch, target), Batches([(batch, target)] if fresh is None else fresh)
