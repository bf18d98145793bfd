"""Models with gradients, and models that read, write or make them."""

from __future__ import annotations

import torch
from torch import nn
from torch.nn import functional

from support.difficult.subject import WIDTH, Part, Subject, Tensor, step, trait

G = "gradients"


def _graded(p: Part) -> None:
    p.weight.grad, p.bias.grad = torch.ones(WIDTH, WIDTH), torch.ones(WIDTH)


@step(G, setup=_graded, changes=False)
def gradient_present(p: Part, h: Tensor) -> None:
    return None


@step(G, setup=_graded, changes=False)
def gradient_read(p: Part, h: Tensor) -> Tensor:
    return h if p.weight.grad is None else h + p.weight.grad.mean()


@step(G, setup=_graded)
def gradient_scaled(p: Part, h: Tensor) -> None:
    if p.weight.grad is not None:
        p.weight.grad.mul_(0.5)
    else:
        p.weight.grad = torch.zeros_like(p.weight)


@step(G, setup=_graded)
def gradient_dropped(p: Part, h: Tensor) -> None:
    p.zero_grad()


@step(G, setup=_graded)
def gradient_zeroed(p: Part, h: Tensor) -> None:
    p.zero_grad(set_to_none=False)
    p.calls += 1


def _held(p: Part) -> None:
    _graded(p)
    p.held = p.weight.grad


@step(G, setup=_held)
def gradient_written_through_an_alias(p: Part, h: Tensor) -> None:
    p.held.mul_(0.5)


def _shared(p: Part) -> None:
    flat = torch.ones(WIDTH * WIDTH + WIDTH)
    p.weight.grad, p.bias.grad = flat[: WIDTH * WIDTH].view(WIDTH, WIDTH), flat[WIDTH * WIDTH :]
    p.flat = flat


@step(G, setup=_shared)
def gradients_in_one_buffer(p: Part, h: Tensor) -> None:
    p.flat.mul_(0.5)


@trait(G, changes=False)
def sparse_gradient(subject: Subject) -> None:
    class Looked(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.table = nn.Embedding(7, WIDTH, sparse=True)

        def forward(self, h: Tensor) -> Tensor:
            return h + self.table((h.detach().float().sum(-1) * 10).long() % 7).to(h.dtype)

    mine = Looked()
    index, values = torch.tensor([[1, 3]]), torch.ones(2, WIDTH)
    mine.table.weight.grad = torch.sparse_coo_tensor(index, values, (7, WIDTH), check_invariants=True)
    subject.model.parts.append(mine)


@step(G)
def backward_inside(p: Part, h: Tensor) -> None:
    with torch.enable_grad():
        functional.linear(h.detach().to(p.weight.dtype), p.weight).square().mean().backward()


@step(G)
def double_backward_inside(p: Part, h: Tensor) -> Tensor:
    with torch.enable_grad():
        x = h.detach().requires_grad_()
        (first,) = torch.autograd.grad(functional.linear(x, p.weight.to(x.dtype)).tanh().sum(), x, create_graph=True)
        first.square().sum().backward(inputs=[p.weight] if p.weight.requires_grad else [x])
    return h + x.detach()


@trait(G, changes=False)
def frozen(subject: Subject) -> None:
    subject.model.body.requires_grad_(False)
    subject.model.parts.append(Part(lambda p, h: None))


@trait(G, changes=False)
def all_frozen(subject: Subject) -> None:
    subject.model.parts.append(Part(lambda p, h: None))
    subject.model.requires_grad_(False)


@step(G)
def leaf_with_gradient_in_an_attribute(p: Part, h: Tensor) -> Tensor:
    scale = p.table.setdefault("scale", torch.ones(WIDTH, requires_grad=True))
    return h * scale.to(h.dtype)


def _own_leaf(p: Part) -> None:
    p.scale = torch.ones(WIDTH, requires_grad=True)
    p.scale.grad = torch.ones(WIDTH)


@step(G, setup=_own_leaf, changes=False)
def attribute_requires_gradients(p: Part, h: Tensor) -> Tensor:
    return h * p.scale.to(h.dtype)


def _buffer_leaf(p: Part) -> None:
    p.buffer.requires_grad_()


@step(G, setup=_buffer_leaf, changes=False)
def buffer_requires_gradients(p: Part, h: Tensor) -> Tensor:
    return h * p.buffer.to(h.dtype)


def _graph(p: Part) -> None:
    p.product = p.weight @ p.weight.t()  # a graph that the owner still wants to go back through
    p.retained = p.bias * 2
    p.retained.retain_grad()


@step(G, setup=_graph, changes=False)
def graph_in_an_attribute(p: Part, h: Tensor) -> Tensor:
    return h + functional.linear(h, p.product.detach().to(h.dtype))


@step(G)
def retained_gradient(p: Part, h: Tensor) -> Tensor:
    p.last = h * 1.0
    if p.last.requires_grad:
        p.last.retain_grad()
    return p.last


@step(G, changes=False)
def gradient_of_its_own_kind(p: Part, h: Tensor) -> Tensor:
    return h + torch.func.grad(lambda w: functional.linear(h.detach(), w).sum())(p.weight.detach().to(h.dtype)).mean()


@step(G, changes=False)
def vmapped(p: Part, h: Tensor) -> Tensor:
    weight = p.weight.to(h.dtype)
    return h + torch.func.vmap(lambda row: weight @ row)(h)


@step(G, changes=False)
def jacobian_inside(p: Part, h: Tensor) -> Tensor:
    weight = p.weight.detach().to(h.dtype)
    return h + torch.func.jacrev(lambda x: (weight @ x).tanh())(h.detach()[0]).mean()


@step(G)
def gradient_hooked(p: Part, h: Tensor) -> None:
    p.weight.grad = torch.full_like(p.weight, float(p.calls))
    p.weight.grad.note = p.calls
    p.calls += 1
