"""What counts the memory of a pass holds none of it afterwards."""

from __future__ import annotations

import gc
import weakref
from collections.abc import Callable

import pytest
import torch
from torch import nn
from torch.nn.parameter import is_lazy

from isometer.doctor import diagnose
from isometer.doctor.probe._kept import keeping

# Operations whose derivative is read off what they return: it is kept together with the node that made it.
KEEP_THEIR_OUTPUT: dict[str, Callable[[torch.Tensor], torch.Tensor]] = {
    "sigmoid": torch.sigmoid,
    "tanh": torch.tanh,
    "relu": torch.relu,
    "exp": torch.exp,
    "sqrt": lambda x: x.abs().sqrt(),
    "softmax": lambda x: x.softmax(-1),
    "log_softmax": lambda x: x.log_softmax(-1),
    "reciprocal": torch.reciprocal,
    "rsqrt": lambda x: x.abs().rsqrt(),
    "norm": lambda x: torch.linalg.vector_norm(x, dim=-1),
    "cumprod": lambda x: x.cumprod(-1),
    "in_place": lambda x: x.clone().sigmoid_(),
}


@pytest.mark.parametrize("name", KEEP_THEIR_OUTPUT)
def test_a_pass_without_a_backward_pass_is_freed(name: str) -> None:
    layer, x = nn.Linear(4, 4), torch.randn(3, 4)
    with keeping(layer):
        output = KEEP_THEIR_OUTPUT[name](layer(x))
    gone = weakref.ref(output)
    del output
    gc.collect()
    assert gone() is None


@pytest.mark.parametrize("name", KEEP_THEIR_OUTPUT)
def test_gradients_are_the_same_and_have_gradients(name: str) -> None:
    torch.manual_seed(0)
    layer, x = nn.Linear(4, 4), torch.randn(3, 4)
    weights = tuple(layer.parameters())

    def passed() -> list[torch.Tensor]:
        first = torch.autograd.grad(KEEP_THEIR_OUTPUT[name](layer(x)).square().sum(), weights, create_graph=True)
        return [*first, *torch.autograd.grad(sum(one.square().sum() for one in first), weights)]

    expected = passed()
    with keeping(layer):
        found = passed()
    assert all(map(torch.equal, found, expected))


class _WithABranch(nn.Module):
    """The loss sees one of two outputs, so no backward pass frees what the other keeps."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.second = nn.Linear(6, 60), nn.Linear(6, 60)

    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        return self.first(x).tanh(), self.second(x).sigmoid()


def _alive() -> int:
    gc.collect()
    tensors = [one for one in gc.get_objects() if issubclass(type(one), torch.Tensor)]
    return sum(one.numel() for one in tensors if not is_lazy(one))  # lazy weights of other tests have no size


def test_a_diagnosis_leaves_no_tensors_behind() -> None:
    model, x = _WithABranch(), torch.randn(8, 6)

    def run() -> int:
        diagnose(model, x, loss=lambda output: output[0].square().mean(), budget=0.3)
        return _alive()

    run()  # fills caches
    assert run() == run()
