"""Models that change their own structure while they run."""

from __future__ import annotations

import torch
from torch import nn

from support.difficult.subject import WIDTH, Host, Part, Subject, Tensor, part, step, trait

M = "modules"


@step(M)
def submodule_created(p: Part, h: Tensor) -> Tensor:
    if not hasattr(p, "late"):
        p.late = nn.Linear(WIDTH, WIDTH, dtype=h.dtype)
    return h + p.late(h)


@step(M)
def submodule_replaced(p: Part, h: Tensor) -> Tensor:
    p.late = nn.Linear(WIDTH, WIDTH, dtype=h.dtype)
    return h + p.late(h)


def _child(p: Part) -> None:
    p.child = nn.Linear(WIDTH, WIDTH)
    p.children_by_name = nn.ModuleDict({"a": nn.Tanh(), "b": nn.Identity()})
    p.children_in_order = nn.ModuleList([nn.Tanh()])


@step(M, setup=_child)
def submodule_removed(p: Part, h: Tensor) -> None:
    if "child" in p._modules:
        del p.child


@step(M, setup=_child)
def submodule_to_none(p: Part, h: Tensor) -> None:
    p.child = None


@step(M, setup=_child)
def submodules_reordered(p: Part, h: Tensor) -> None:
    p._modules["children_by_name"] = p._modules.pop("children_by_name")


@step(M, setup=_child)
def list_of_modules_grows(p: Part, h: Tensor) -> None:
    p.children_in_order.append(nn.Tanh())


@step(M, setup=_child)
def module_dictionary_popped(p: Part, h: Tensor) -> None:
    if "a" in p.children_by_name:
        p.children_by_name.pop("a")


@step(M, setup=_child)
def child_switched_to_eval(p: Part, h: Tensor) -> None:
    p.child.training = not p.child.training


@step(M)
def mode_switched(p: Part, h: Tensor) -> None:
    p.train(not p.training)


@trait(M, changes=False)
def mixed_modes(subject: Subject) -> None:
    subject.model.body.eval()
    subject.model.parts.append(Part(lambda p, h: None))


class _Other(Part):
    pass


@step(M)
def class_changed(p: Part, h: Tensor) -> None:
    p.__class__ = _Other if type(p) is Part else Part


@step(M)
def forward_replaced(p: Part, h: Tensor) -> None:
    original = type(p).forward
    p.forward = lambda x: original(p, x) * 0.5


@trait(M)
def head_replaced(subject: Subject) -> None:
    host = subject.model

    def act(p: Part, h: Tensor) -> None:
        host.head = nn.Linear(WIDTH, 3, dtype=h.dtype)

    host.parts.append(Part(act))


@trait(M)
def part_drops_itself(subject: Subject) -> None:
    class Dropping(Host):
        def forward(self, x: Tensor) -> Tensor:
            output = super().forward(x)
            if len(self.parts) > 1:
                del self.parts[-1]
            return output

    subject.model.__class__ = Dropping
    subject.model.parts.extend([Part(lambda p, h: None), Part(lambda p, h: None)])


@part(M)
def lazy_linear() -> nn.Module:
    class Lazy(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.inner = nn.LazyLinear(WIDTH)

        def forward(self, h: Tensor) -> Tensor:
            return h + self.inner(h)

    return Lazy()


@part(M)
def lazy_batch_norm() -> nn.Module:
    return nn.LazyBatchNorm1d()


@part(M, changes=False)
def without_parameters() -> nn.Module:
    return nn.Sequential(nn.Identity(), nn.ParameterDict(), nn.Sequential())[:1]


@part(M, changes=False)
def parameter_containers() -> nn.Module:
    class Containers(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.several = nn.ParameterList([torch.randn(WIDTH), torch.randn(WIDTH)])
            self.named = nn.ParameterDict({"scale": nn.Parameter(torch.ones(WIDTH))})

        def forward(self, h: Tensor) -> Tensor:
            return h * self.named["scale"] + self.several[0]

    return Containers()


@part(M)
def parameter_list_grows() -> nn.Module:
    class Growing(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.several = nn.ParameterList([torch.randn(WIDTH)])

        def forward(self, h: Tensor) -> Tensor:
            self.several.append(torch.zeros(WIDTH, dtype=h.dtype))
            return h + sum(self.several) / len(self.several)

    return Growing()


@part(M, changes=False)
def stochastic_depth() -> nn.Module:
    class Sometimes(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.inner = nn.Linear(WIDTH, WIDTH)

        def forward(self, h: Tensor) -> Tensor:
            keep = self.training and torch.rand(1, generator=torch.Generator().manual_seed(1)) < 0.5
            return h + self.inner(h) if keep else h + 0 * self.inner(h)

    return Sometimes()


@part(M, changes=False)
def empty_parameters() -> nn.Module:
    class Empty(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.weight = nn.Parameter(torch.empty(0, WIDTH))
            self.register_buffer("nothing", torch.empty(0))

        def forward(self, h: Tensor) -> Tensor:
            return h + torch.nn.functional.linear(h, self.weight).sum()

    return Empty()
