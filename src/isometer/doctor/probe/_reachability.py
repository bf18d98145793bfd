"""Which parts of a graph a backward pass will go through, read off the graph before it starts."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import torch

Tensor = torch.Tensor


def all_on_the_way(nodes: Iterable[Any], outputs: Iterable[Tensor], inputs: Iterable[Tensor]) -> bool:
    """Whether gradients of outputs by leaves come through every one of some nodes of the graph.

    Autograd goes only where an input lies ahead: a layer whose own weights are not asked for is left out if nothing
    behind it is.

    Args:
        nodes: what `Tensor.grad_fn` gives.
        outputs: what is differentiated.
        inputs: leaves by which it is differentiated.

    Example:
        >>> x, w = torch.ones(2, requires_grad=True), torch.ones(2, requires_grad=True)
        >>> y = x * 2
        >>> loss = (y * w).sum()
        >>> all_on_the_way([y.grad_fn], [loss], [x]), all_on_the_way([y.grad_fn], [loss], [w])
        (True, False)
    """
    wanted = {id(tensor) for tensor in inputs}
    leads: dict[Any, bool] = {}  # holds the nodes, so that no identity is used twice
    # A stack in the place of recursion: graphs are as deep as models.
    stack: list[tuple[Any, bool]] = [(tensor.grad_fn, False) for tensor in outputs if tensor.grad_fn is not None]
    while stack:
        node, left = stack.pop()
        ahead = [one for one, _ in node.next_functions if one is not None]
        if left:
            leads[node] = any(leads[one] for one in ahead)
        elif node not in leads:
            leads[node] = type(node).__name__ == "AccumulateGrad" and id(node.variable) in wanted
            if ahead:
                stack.append((node, True))
                stack.extend((one, False) for one in ahead if one not in leads)
    return all(leads.get(node, False) for node in nodes)
