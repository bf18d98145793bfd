"""Models that write to their weights while they run, by every way there is."""

from __future__ import annotations

import ctypes
import threading
import warnings
from collections.abc import Iterator
from contextlib import contextmanager

import torch
from torch import nn
from torch.nn import functional
from torch.nn.utils import parametrizations

from support.difficult.subject import WIDTH, Part, Tensor, part, step

no_grad = torch.no_grad
W = "weights"


@contextmanager
def _quiet() -> Iterator[None]:
    """The old forms are deprecated, and in use."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield


def _buckets(h: Tensor) -> Tensor:
    return (h.detach().float().sum(-1) * 10).long() % 7


class _Looked(nn.Module):
    def __init__(self, table: nn.Module) -> None:
        super().__init__()
        self.table = table

    def forward(self, h: Tensor) -> Tensor:
        index = _buckets(h)
        index = index[:, None] if isinstance(self.table, nn.EmbeddingBag) else index
        return h + self.table(index).to(h.dtype)


class _Added(nn.Module):
    def __init__(self, inner: nn.Module) -> None:
        super().__init__()
        self.inner = inner

    def forward(self, h: Tensor) -> Tensor:
        return h + self.inner(h)


@part(W)
def embedding_max_norm() -> nn.Module:
    return _Looked(nn.Embedding(7, WIDTH, max_norm=0.1))


@part(W)
def embedding_bag_max_norm() -> nn.Module:
    return _Looked(nn.EmbeddingBag(7, WIDTH, max_norm=0.1, mode="sum"))


@step(W)
def functional_max_norm(p: Part, h: Tensor) -> Tensor:
    return h + functional.embedding(_buckets(h), p.weight, max_norm=0.1)


@step(W)
def renormalised(p: Part, h: Tensor) -> None:
    with no_grad():
        p.weight.div_(1 + p.weight.norm())


@step(W)
def foreach_scaled(p: Part, h: Tensor) -> None:
    with no_grad():
        torch._foreach_mul_([p.weight, p.bias], 0.9)


@step(W)
def foreach_lerped(p: Part, h: Tensor) -> None:
    with no_grad():
        torch._foreach_lerp_([p.weight], [torch.zeros_like(p.weight)], 0.1)


@step(W)
def data_assigned(p: Part, h: Tensor) -> None:
    p.weight.data = p.weight.data * 0.5


@step(W)
def data_scaled(p: Part, h: Tensor) -> None:
    p.weight.data *= 0.5


@step(W)
def copied_into(p: Part, h: Tensor) -> None:
    with no_grad():
        p.weight.copy_(p.weight * 0.5)


@step(W)
def set_to_another(p: Part, h: Tensor) -> None:
    with no_grad():
        p.weight.set_(p.weight.detach() * 0.5)


@step(W)
def storage_written(p: Part, h: Tensor) -> None:
    p.weight.untyped_storage().copy_((p.weight.detach() * 0.5).untyped_storage())


@step(W)
def numpy_written(p: Part, h: Tensor) -> None:
    p.weight.detach().numpy()[...] *= 0.5


def _view(p: Part) -> None:
    p.view = p.weight.detach().numpy()


@step(W, setup=_view)
def numpy_view_held(p: Part, h: Tensor) -> None:
    p.view *= p.view.dtype.type(0.5)


@step(W)
def address_written(p: Part, h: Tensor) -> None:
    ctypes.memset(p.bias.data_ptr(), 0, p.bias.nbytes // 2)


@step(W)
def dlpack_written(p: Part, h: Tensor) -> None:
    torch.from_dlpack(p.weight.detach()).mul_(0.5)


@step(W)
def thread_written(p: Part, h: Tensor) -> None:
    thread = threading.Thread(target=lambda: p.weight.data.mul_(0.5))
    thread.start()
    thread.join()


@step(W)
def operator_written(p: Part, h: Tensor) -> None:
    torch.ops.aten.mul_.Tensor(p.weight.data, torch.tensor(0.5))


@step(W)
def out_written(p: Part, h: Tensor) -> None:
    torch.mul(p.weight.data, 0.5, out=p.weight.data)


@step(W)
def slice_written(p: Part, h: Tensor) -> None:
    with no_grad():
        p.weight.t()[1:3].zero_()


@step(W)
def setitem_written(p: Part, h: Tensor) -> None:
    p.weight.data[0] = 0.25


@step(W)
def initialised_again(p: Part, h: Tensor) -> None:
    nn.init.orthogonal_(p.weight)


@step(W)
def loaded_again(p: Part, h: Tensor) -> None:
    p.load_state_dict({name: value * 0.5 for name, value in p.state_dict().items()})


@step(W)
def vector_to_parameters(p: Part, h: Tensor) -> None:
    own = list(p.parameters())
    nn.utils.vector_to_parameters(nn.utils.parameters_to_vector(own).detach() * 0.5, own)


@step(W)
def clipped(p: Part, h: Tensor) -> None:
    nn.functional.normalize(p.weight.data, dim=0, out=p.weight.data)


@step(W)
def swapped(p: Part, h: Tensor) -> None:
    torch.utils.swap_tensors(p.weight, nn.Parameter(torch.zeros(WIDTH, WIDTH, dtype=h.dtype)))


@step(W)
def data_exchanged(p: Part, h: Tensor) -> None:
    p.weight.data, p.items = p.weight.data.t(), [p.weight.data]


@step(W)
def parameter_replaced(p: Part, h: Tensor) -> None:
    p.weight = nn.Parameter(p.weight.detach() * 0.5)


@step(W)
def parameter_deleted(p: Part, h: Tensor) -> None:
    value = p.bias.detach()
    del p.bias
    p.register_parameter("bias", nn.Parameter(value * 0.5))


@step(W)
def parameter_to_none(p: Part, h: Tensor) -> None:
    p.spare = None if getattr(p, "spare", None) is not None else nn.Parameter(torch.ones(2))


@step(W)
def frozen_in_forward(p: Part, h: Tensor) -> None:
    p.bias.requires_grad_(not p.bias.requires_grad)


@step(W)
def trained_in_forward(p: Part, h: Tensor) -> None:
    with torch.enable_grad():
        loss = functional.linear(h.detach().to(p.weight.dtype), p.weight).square().mean()
        (gradient,) = torch.autograd.grad(loss, [p.weight])
    with no_grad():
        p.weight.sub_(0.1 * gradient)


class _WritesBackward(torch.autograd.Function):
    @staticmethod
    def forward(ctx, h, weight):
        ctx.weight = weight
        return h.clone()

    @staticmethod
    def backward(ctx, gradient):
        ctx.weight.data.mul_(0.5)
        return gradient, None


@step(W, changes=False)  # a call alone changes nothing
def written_in_backward(p: Part, h: Tensor) -> Tensor:
    return _WritesBackward.apply(h, p.bias)


@step(W)
def data_moved_to_other_dtype(p: Part, h: Tensor) -> None:
    p.weight.data = p.weight.data.double() if p.weight.dtype is torch.float32 else p.weight.data.float()


@part(W)
def spectral_norm_old() -> nn.Module:
    with _quiet():
        return _Added(nn.utils.spectral_norm(nn.Linear(WIDTH, WIDTH)))


@part(W)
def weight_norm_old() -> nn.Module:
    with _quiet():
        return _Added(nn.utils.weight_norm(nn.Linear(WIDTH, WIDTH)))


@part(W)
def spectral_norm() -> nn.Module:
    return _Added(parametrizations.spectral_norm(nn.Linear(WIDTH, WIDTH)))


@part(W, changes=False)
def weight_norm() -> nn.Module:
    return _Added(parametrizations.weight_norm(nn.Linear(WIDTH, WIDTH)))


@part(W, changes=False)
def orthogonal() -> nn.Module:
    return _Added(parametrizations.orthogonal(nn.Linear(WIDTH, WIDTH)))


@part(W)
def pruned() -> nn.Module:
    from torch.nn.utils import prune

    linear = nn.Linear(WIDTH, WIDTH)
    prune.l1_unstructured(linear, "weight", amount=0.3)  # its hook writes the attribute `weight`
    return _Added(linear)
