"""Parameters that share their memory: tied, flat, aliased, held by others."""

from __future__ import annotations

import copy
import tempfile
import weakref

import torch
from torch import nn
from torch.nn import functional

from support.difficult.subject import WIDTH, Part, Subject, Tensor, part, step, trait

S = "sharing"


@trait(S, changes=False)
def tied(subject: Subject) -> None:
    one, other = Part(lambda p, h: None), Part(lambda p, h: None)
    other.weight = one.weight
    subject.model.parts.extend([one, other])


@trait(S)
def tied_and_written(subject: Subject) -> None:
    def act(p: Part, h: Tensor) -> None:
        p.weight.data.mul_(0.9)

    one, other = Part(act), Part(act)
    other.weight = one.weight
    subject.model.parts.extend([one, other])


@trait(S, changes=False)
def same_module_twice(subject: Subject) -> None:
    one = Part(lambda p, h: None)
    subject.model.parts.extend([one, one])


def _flat(p: Part) -> None:
    p.flat = torch.randn(WIDTH * WIDTH + WIDTH) / 5
    p.weight = nn.Parameter(p.flat[: WIDTH * WIDTH].view(WIDTH, WIDTH))
    p.bias = nn.Parameter(p.flat[WIDTH * WIDTH :])


@step(S, setup=_flat, changes=False)
def views_of_one_storage(p: Part, h: Tensor) -> None:
    return None


@step(S, setup=_flat)
def flat_storage_written(p: Part, h: Tensor) -> None:
    p.flat.mul_(0.9)


@step(S, setup=_flat)
def neighbour_written(p: Part, h: Tensor) -> None:
    p.bias.data.as_strided((4,), (1,), 0).zero_()  # lands in the weight


def _alias(p: Part) -> None:
    p.register_buffer("alias", p.weight.detach())


@step(S, setup=_alias)
def buffer_is_the_weight(p: Part, h: Tensor) -> None:
    p.alias.mul_(0.9)


def _overlap(p: Part) -> None:
    p.bias = nn.Parameter(torch.randn(1).expand(WIDTH))


@step(S, setup=_overlap, changes=False)
def expanded_parameter(p: Part, h: Tensor) -> None:
    return None


def _transposed(p: Part) -> None:
    p.weight = nn.Parameter(torch.randn(WIDTH, 2 * WIDTH).t()[::2])


@step(S, setup=_transposed)
def strided_parameter_written(p: Part, h: Tensor) -> None:
    p.weight.data.mul_(0.9)


@trait(S)
def shared_with_another_model(subject: Subject) -> None:
    def act(p: Part, h: Tensor) -> None:
        p.weight.data.mul_(0.9)

    mine, other = Part(act), nn.Linear(WIDTH, WIDTH)
    other.weight = mine.weight
    subject.model.parts.append(mine)
    subject.outside["other"] = other


@trait(S)
def viewed_from_outside(subject: Subject) -> None:
    def act(p: Part, h: Tensor) -> None:
        p.weight.data = p.weight.data * 0.9
        p.buffer = p.buffer + 1

    mine = Part(act)
    subject.model.parts.append(mine)
    subject.outside["view"] = mine.weight.detach()[2:4]
    subject.outside["array"] = mine.buffer.numpy()


@trait(S)
def averaged_copy(subject: Subject) -> None:
    def act(p: Part, h: Tensor) -> None:
        with torch.no_grad():
            p.average.weight.lerp_(p.weight, 0.1)

    mine = Part(act)
    mine.average = copy.deepcopy(mine)
    nn.init.zeros_(mine.average.weight)
    subject.model.parts.append(mine)


@trait(S)
def averaged_copy_outside(subject: Subject) -> None:
    mine = Part(lambda p, h: None)
    average = torch.optim.swa_utils.AveragedModel(mine)
    mine.act = lambda p, h: average.update_parameters(p)
    subject.model.parts.append(mine)
    subject.outside["average"] = average


@part(S, changes=False)
def lora() -> nn.Module:
    class Lora(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.base = nn.Linear(WIDTH, WIDTH).requires_grad_(False)
            self.down, self.up = nn.Linear(WIDTH, 2, bias=False), nn.Linear(2, WIDTH, bias=False)
            nn.init.zeros_(self.up.weight)

        def forward(self, h: Tensor) -> Tensor:
            return h + self.base(h) + self.up(self.down(h))

    return Lora()


@part(S)
def lora_merged_on_the_way() -> nn.Module:
    class Merged(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.base, self.merged = nn.Linear(WIDTH, WIDTH), False
            self.down, self.up = nn.Linear(WIDTH, 2, bias=False), nn.Linear(2, WIDTH, bias=False)

        def forward(self, h: Tensor) -> Tensor:
            if not self.merged:
                self.base.weight.data += self.up.weight.data @ self.down.weight.data
                self.merged = True
            return h + self.base(h)

    return Merged()


def _mapped(p: Part) -> None:
    p.file = tempfile.TemporaryFile()  # noqa: SIM115 — the part holds it
    weakref.finalize(p, p.file.close)
    p.file.truncate(4 * WIDTH * WIDTH)
    name = f"/proc/self/fd/{p.file.fileno()}"
    p.weight = nn.Parameter(torch.from_file(name, shared=True, size=WIDTH * WIDTH).view(WIDTH, WIDTH))
    nn.init.normal_(p.weight, std=0.3)


@step(S, setup=_mapped)
def memory_mapped(p: Part, h: Tensor) -> None:
    p.weight.data.mul_(0.9)


def _in_shared_memory(p: Part) -> None:
    p.share_memory()


@step(S, setup=_in_shared_memory)
def shared_memory(p: Part, h: Tensor) -> None:
    p.buffer.add_(1)


@step(S)
def attribute_is_the_weight(p: Part, h: Tensor) -> None:
    p.tensor = p.weight.data
    p.tensor.mul_(0.9)


@step(S, changes=False)
def output_is_a_view_of_the_weight(p: Part, h: Tensor) -> Tensor:
    return h + p.weight.to(h.dtype)[0].expand_as(h)


@step(S, changes=False)
def functional_call_inside(p: Part, h: Tensor) -> Tensor:
    linear = nn.Linear(WIDTH, WIDTH, device="meta", dtype=h.dtype)
    own = {"weight": p.weight.to(h.dtype), "bias": p.bias.to(h.dtype)}
    return functional.relu(torch.func.functional_call(linear, own, (h,)))
