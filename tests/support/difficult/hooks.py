"""Hooks that come, go, count and write, of every kind that torch has."""

from __future__ import annotations

from typing import Any

import torch
from torch import nn
from torch.nn.modules.module import register_module_forward_hook

from support.difficult.subject import Part, Subject, Tensor, step, trait

H = "hooks"


def _plain(subject: Subject) -> Part:
    mine = Part(lambda p, h: None)
    subject.model.parts.append(mine)
    return mine


@trait(H)
def forward_hook_removes_itself(subject: Subject) -> None:
    handles: list[Any] = []
    mine = _plain(subject)
    handles.append(mine.register_forward_hook(lambda m, i, o: handles[0].remove()))


@trait(H)
def pre_hook_removes_itself(subject: Subject) -> None:
    handles: list[Any] = []
    mine = _plain(subject)
    mine.register_forward_pre_hook(lambda m, i: None)
    handles.append(mine.register_forward_pre_hook(lambda m, i: handles[0].remove(), prepend=True))


@trait(H)
def hook_adds_hooks(subject: Subject) -> None:
    mine = _plain(subject)
    mine.register_forward_hook(lambda m, i, o: m.items.append(m.register_forward_hook(lambda m, i, o: o * 0.5)))


@trait(H)
def hook_over_the_model_counts(subject: Subject) -> None:
    host, seen = subject.model, {"calls": 0}

    def count(module: nn.Module, inputs: Any, output: Tensor) -> Tensor:
        seen["calls"] += 1
        host.seen = seen["calls"]
        return output * (1 + 0.1 * seen["calls"])

    host.register_forward_hook(count)


@trait(H)
def hook_writes_the_weight(subject: Subject) -> None:
    _plain(subject).register_forward_pre_hook(lambda m, i: setattr(m.weight, "data", m.weight.data.mul_(0.5)))


@trait(H)
def hook_with_keywords(subject: Subject) -> None:
    mine = _plain(subject)

    def hook(module: Part, args: Any, kwargs: Any, output: Tensor) -> None:
        module.calls += 1

    mine.register_forward_hook(hook, with_kwargs=True, always_call=True)
    mine.register_forward_pre_hook(lambda m, a, k: (a, k), with_kwargs=True)


@trait(H)
def hooks_reordered(subject: Subject) -> None:
    mine = _plain(subject)
    mine.register_forward_hook(lambda m, i, o: None)

    def hook(module: Part, args: Any, output: Tensor) -> None:
        first = next(iter(module._forward_hooks))
        module._forward_hooks.move_to_end(first)

    mine.register_forward_hook(hook)


@trait(H)
def hooks_cleared(subject: Subject) -> None:
    mine = _plain(subject)
    mine.register_forward_hook(lambda m, i, o: None)
    mine.act = lambda p, h: p._forward_hooks.clear()


@trait(H)
def hook_replaced_under_its_key(subject: Subject) -> None:
    mine = _plain(subject)
    key = mine.register_forward_hook(lambda m, i, o: None).id

    def act(p: Part, h: Tensor) -> None:
        p._forward_hooks[key] = lambda m, i, o: o * 0.5

    mine.act = act


@trait(H)
def installed_on_first_call(subject: Subject) -> None:
    """What libraries do that find out their shapes late."""
    mine = _plain(subject)

    def act(p: Part, h: Tensor) -> None:
        if not getattr(p, "installed", False):
            p.register_forward_hook(lambda m, i, o: o + 0.1)
            p.register_full_backward_hook(lambda m, i, o: None)
            p.installed = True

    mine.act = act


@trait(H, changes=False)
def full_backward_hook_removes_itself(subject: Subject) -> None:
    handles: list[Any] = []
    handles.append(_plain(subject).register_full_backward_hook(lambda m, i, o: handles[0].remove()))


@trait(H, changes=False)
def backward_hooks_count(subject: Subject) -> None:
    mine = _plain(subject)

    def count(module: Part, *rest: Any) -> None:
        module.calls += 1

    mine.register_full_backward_hook(count)
    mine.register_full_backward_pre_hook(count)


@trait(H, changes=False)
def old_backward_hook(subject: Subject) -> None:
    mine = _plain(subject)
    mine.register_backward_hook(lambda m, i, o: m.table.update(seen=len(i)))


@trait(H, changes=False)
def state_dict_hooks(subject: Subject) -> None:
    mine = _plain(subject)

    def count(module: Any, *rest: Any) -> None:
        module.calls += 1

    mine.register_state_dict_post_hook(count)
    mine.register_state_dict_pre_hook(count)
    mine.register_load_state_dict_post_hook(lambda m, keys: None)
    mine.register_load_state_dict_pre_hook(count)


@trait(H, changes=False)
def tensor_hook_counts(subject: Subject) -> None:
    mine, seen = _plain(subject), []
    mine.weight.register_hook(lambda gradient: seen.append(1))
    mine.bias.register_hook(lambda gradient: mine.table.update(calls=len(mine.table) + 1))


@trait(H, changes=False)
def tensor_hook_removes_itself(subject: Subject) -> None:
    handles: list[Any] = []
    mine = _plain(subject)
    handles.append(mine.weight.register_hook(lambda gradient: handles[0].remove()))


@trait(H, changes=False)
def tensor_hook_writes_the_weight(subject: Subject) -> None:
    mine = _plain(subject)
    mine.weight.register_hook(lambda gradient: None if mine.bias.data.mul_(0.5) is None else gradient)


@step(H)
def tensor_hook_added(p: Part, h: Tensor) -> None:
    if p.weight.requires_grad:
        p.weight.register_hook(lambda gradient: gradient * 2)


@trait(H, changes=False)
def accumulation_hook(subject: Subject) -> None:
    mine = _plain(subject)

    def take(parameter: Tensor) -> None:
        parameter.data.add_(parameter.grad, alpha=-0.1)
        parameter.grad = None

    mine.weight.register_post_accumulate_grad_hook(take)


@step(H)
def accumulation_hook_added(p: Part, h: Tensor) -> None:
    if p.bias.requires_grad:
        p.bias.register_post_accumulate_grad_hook(lambda parameter: None)


@trait(H)
def global_hook_registered(subject: Subject) -> None:
    def act(p: Part, h: Tensor) -> None:
        handle = register_module_forward_hook(lambda m, i, o: None)
        p.items.append(handle)
        p.items[:-1] = [one.remove() for one in p.items[:-1] if one is not None]

    mine = _plain(subject)
    mine.act = act


@step(H, changes=False)
def hook_on_an_activation(p: Part, h: Tensor) -> Tensor:
    h = h * 1.0
    if h.requires_grad:
        h.register_hook(lambda gradient: setattr(p, "calls", p.calls + 1))
    return h


@step(H)
def packs_saved_tensors(p: Part, h: Tensor) -> Tensor:
    with torch.autograd.graph.saved_tensors_hooks(lambda x: p.items.append(1) or x, lambda x: x):
        return h.tanh()


@trait(H, changes=False)
def registration_hook(subject: Subject) -> None:
    mine = _plain(subject)
    mine.register_forward_hook(lambda m, i, o: o.clone() if o.requires_grad else o)
    subject.outside["handle"] = mine.register_forward_hook(lambda m, i, o: None)


@trait(H)
def parametrisation_added(subject: Subject) -> None:
    class Half(nn.Module):
        def forward(self, weight: Tensor) -> Tensor:
            return weight * 0.5

    def act(p: Part, h: Tensor) -> None:
        if not nn.utils.parametrize.is_parametrized(p):
            nn.utils.parametrize.register_parametrization(p, "weight", Half())

    mine = _plain(subject)
    mine.act = act
