"""Models of unusual kinds: precisions, compiled, scripted, wrapped, raising, with unusual inputs and outputs."""

from __future__ import annotations

import functools
import warnings
from dataclasses import dataclass
from typing import Any

import torch
from torch import nn
from torch.utils.checkpoint import checkpoint

from support.difficult.subject import SAMPLES, TOKENS, WIDTH, Host, OwnError, Part, Subject, Tensor, part, step, trait

K, Y = "kinds", "failing"
kind = functools.partial(trait, stage="kind")


def _plain(subject: Subject) -> None:
    subject.model.parts.append(Part(lambda p, h: None))


def _cast(subject: Subject, dtype: torch.dtype) -> None:
    _plain(subject)
    subject.model.to(dtype)
    if torch.is_tensor(subject.batch) and subject.batch.is_floating_point():
        subject.batch = subject.batch.to(dtype)


@kind(K, changes=False)
def float64(subject: Subject) -> None:
    _cast(subject, torch.float64)


@kind(K, changes=False)
def float16(subject: Subject) -> None:
    _cast(subject, torch.float16)


@kind(K, changes=False)
def bfloat16(subject: Subject) -> None:
    _cast(subject, torch.bfloat16)


@part(K, changes=False)
def complex_parameters() -> nn.Module:
    class Complex(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.weight = nn.Parameter(torch.randn(WIDTH, WIDTH, dtype=torch.complex64) / 4)

        def forward(self, h: Tensor) -> Tensor:
            return h + (h.to(torch.complex64) @ self.weight).real.to(h.dtype)

    return Complex()


@part(K)
def integer_parameters() -> nn.Module:
    class Integer(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.weight = nn.Parameter(torch.randint(-3, 3, (WIDTH, WIDTH), dtype=torch.int8), requires_grad=False)
            self.register_buffer("mask", torch.ones(WIDTH, dtype=torch.bool))

        def forward(self, h: Tensor) -> Tensor:
            self.mask.logical_not_()
            return h + h @ self.weight.to(h.dtype) / 8

    return Integer()


@part(K, changes=False)
def nested_inside() -> nn.Module:
    class Nested(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.linear = nn.Linear(WIDTH, WIDTH)

        def forward(self, h: Tensor) -> Tensor:
            ragged = torch.nested.nested_tensor([h[:2].detach(), h[2:].detach()], layout=torch.jagged)
            return h + self.linear(ragged.values())

    return Nested()


@part(K)
def nested_held() -> nn.Module:
    class Nested(nn.Module):
        def forward(self, h: Tensor) -> Tensor:
            self.ragged = torch.nested.nested_tensor([h[:2].detach(), h[2:].detach()], layout=torch.jagged)
            return h * 0.5

    return Nested()


@part(K, changes=False)
def checkpointed() -> nn.Module:
    class Checkpointed(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.inner = nn.Sequential(nn.Linear(WIDTH, WIDTH), nn.Tanh())

        def forward(self, h: Tensor) -> Tensor:
            return h + checkpoint(self.inner, h, use_reentrant=False)

    return Checkpointed()


@part(K)
def checkpointed_and_counting() -> nn.Module:
    class Checkpointed(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.inner = Part(lambda p, h: setattr(p, "calls", p.calls + 1))

        def forward(self, h: Tensor) -> Tensor:
            return h + checkpoint(self.inner, h, use_reentrant=False)

    return Checkpointed()


@part(K, changes=False)
def checkpointed_reentrant() -> nn.Module:
    class Checkpointed(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.inner = nn.Sequential(nn.Linear(WIDTH, WIDTH), nn.Tanh())

        def forward(self, h: Tensor) -> Tensor:
            h = h if h.requires_grad else h.detach().requires_grad_()
            return h + checkpoint(self.inner, h, use_reentrant=True)

    return Checkpointed()


@part(K, changes=False)
def lstm_inside() -> nn.Module:
    class Recurrent(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.lstm = nn.LSTM(WIDTH, WIDTH, num_layers=2, proj_size=WIDTH // 2, bidirectional=True, batch_first=True)

        def forward(self, h: Tensor) -> Tensor:
            self.lstm.flatten_parameters()
            return h + self.lstm(h[:, None])[0][:, 0]

    return Recurrent()


@part(K)
def state_of_a_recurrent_net() -> nn.Module:
    class Stateful(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.cell, self.state = nn.GRUCell(WIDTH, WIDTH), None

        def forward(self, h: Tensor) -> Tensor:
            self.state = self.cell(h, self.state)
            return h + self.state

    return Stateful()


def _scripted(h: Tensor) -> Tensor:
    return h + torch.tanh(h)


@part(K, changes=False)
def scripted_function() -> nn.Module:
    class Scripted(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.function = _quietly(lambda: torch.jit.script(_scripted))

        def forward(self, h: Tensor) -> Tensor:
            return self.function(h)

    return Scripted()


def _quietly(make: Any) -> Any:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return make()


@part(K, changes=False)
def scripted_part() -> nn.Module:
    return _quietly(lambda: torch.jit.script(nn.Sequential(nn.Linear(WIDTH, WIDTH), nn.Tanh())))


@part(K)
def scripted_batch_norm() -> nn.Module:
    return _quietly(lambda: torch.jit.script(nn.Sequential(nn.Linear(WIDTH, WIDTH), nn.BatchNorm1d(WIDTH))))


@part(K, changes=False)
def traced_part() -> nn.Module:
    inner = nn.Sequential(nn.Linear(WIDTH, WIDTH), nn.Tanh())
    return _quietly(lambda: torch.jit.trace(inner, torch.randn(2, WIDTH)))


@part(K, changes=False)
def fx_part() -> nn.Module:
    return torch.fx.symbolic_trace(nn.Sequential(nn.Linear(WIDTH, WIDTH), nn.Tanh()))


@part(K, changes=False)
def compiled_part() -> nn.Module:
    return torch.compile(nn.Sequential(nn.Linear(WIDTH, WIDTH), nn.Tanh()), backend="eager")


@part(K)
def compiled_batch_norm() -> nn.Module:
    return torch.compile(nn.Sequential(nn.Linear(WIDTH, WIDTH), nn.BatchNorm1d(WIDTH)), backend="eager")


def _sequential(subject: Subject) -> nn.Module:
    subject.batch = torch.randn(SAMPLES, WIDTH)
    return nn.Sequential(nn.Linear(WIDTH, WIDTH), nn.BatchNorm1d(WIDTH), nn.Tanh(), nn.Linear(WIDTH, 3))


@kind(K)
def scripted_model(subject: Subject) -> None:
    model = _sequential(subject)
    subject.model = _quietly(lambda: torch.jit.script(model))


@kind(K)
def traced_model(subject: Subject) -> None:
    model = _sequential(subject)
    subject.model = _quietly(lambda: torch.jit.trace(model, subject.batch, check_trace=False))


@kind(K, changes=False)
def compiled(subject: Subject) -> None:
    _plain(subject)
    subject.model = torch.compile(subject.model, backend="eager")


@part(K, changes=False)
def quantised_dynamically() -> nn.Module:
    inner = nn.Sequential(nn.Linear(WIDTH, WIDTH), nn.Tanh())
    convert = torch.ao.quantization.quantize_dynamic
    inner = _quietly(lambda: convert(inner, {nn.Linear}, dtype=torch.qint8))

    class Quantised(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.inner = inner

        def forward(self, h: Tensor) -> Tensor:
            return h + self.inner(h.detach().float()).to(h.dtype)

    return Quantised()


@part(K, changes=False)
def meta_parameters() -> nn.Module:
    class Meta(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.unused = nn.Linear(WIDTH, WIDTH, device="meta")

        def forward(self, h: Tensor) -> Tensor:
            return h * 0.5

    return Meta()


@kind(K, changes=False)
def meta_model(subject: Subject) -> None:
    subject.model = subject.model.to("meta")


@kind(K, changes=False)
def data_parallel(subject: Subject) -> None:
    _plain(subject)
    subject.model = nn.DataParallel(subject.model)


@kind(K)
def wrapped_and_counting(subject: Subject) -> None:
    class Wrapper(nn.Module):
        def __init__(self, module: nn.Module) -> None:
            super().__init__()
            self.module, self.forwards = module, 0

        def __getattr__(self, name: str) -> Any:
            try:
                return super().__getattr__(name)
            except AttributeError:
                return getattr(self._modules["module"], name)

        def forward(self, *args: Any, **kwargs: Any) -> Any:
            self.forwards += 1
            return self.module(*args, **kwargs)

    subject.model = Wrapper(subject.model)


@kind(K)
def averaged_model(subject: Subject) -> None:
    _plain(subject)
    subject.outside["original"] = subject.model
    average = torch.optim.swa_utils.AveragedModel(subject.model)
    subject.model.register_forward_hook(lambda m, i, o: average.update_parameters(m))
    subject.outside["average"] = average


class _Named(Host):
    def forward(self, *, tokens: Tensor, scale: Tensor) -> Any:
        return {"logits": super().forward(tokens) * scale[:, None], "scale": scale, "text": "none"}


@kind(K, changes=False)
def named_inputs(subject: Subject) -> None:
    _plain(subject)
    subject.model.__class__ = _Named
    subject.batch = {"tokens": subject.batch, "scale": torch.ones(len(subject.batch))}


@dataclass
class _Output:
    logits: Tensor
    weight: Tensor
    states: list[Tensor]


@kind(K, changes=False)
def output_aliases_weights(subject: Subject) -> None:
    class Aliasing(Host):
        def forward(self, x: Tensor) -> Any:
            return super().forward(x), self.head.weight, self.head.bias.detach()

    subject.model.__class__ = Aliasing


@kind(K, changes=False)
def output_is_a_dataclass(subject: Subject) -> None:
    class Structured(Host):
        def forward(self, x: Tensor) -> Any:
            return _Output(super().forward(x), self.head.weight, [self.body(x)])

    subject.model.__class__ = Structured


@kind(K)
def writes_to_its_input(subject: Subject) -> None:
    class Writing(Host):
        def forward(self, x: Tensor) -> Any:
            x = x.mul_(2) if x.is_floating_point() else x.bitwise_and_(3)
            return super().forward(x)

    subject.model.__class__ = Writing


@kind(K)
def input_kept(subject: Subject) -> None:
    class Keeping(Host):
        def forward(self, x: Tensor) -> Any:
            self.__dict__["last"] = x
            return super().forward(x)

    subject.model.__class__ = Keeping


@kind(K)
def attention_written_on_the_way(subject: Subject) -> None:
    class Mixed(Host):
        def forward(self, x: Tensor) -> Any:
            for parameter in self.parameters():
                parameter.data.mul_(0.99)
            return super().forward(x)

    subject.model.__class__ = Mixed


@step(Y)
def raises_in_forward(p: Part, h: Tensor) -> None:
    p.weight.data.mul_(0.5)
    p.calls += 1
    raise OwnError("in the middle of forward")


@step(Y)
def raises_from_the_second_call(p: Part, h: Tensor) -> None:
    p.calls += 1
    p.tensor.add_(1)
    if p.calls > 1:
        raise OwnError("once is enough")


class _RaisesBackward(torch.autograd.Function):
    @staticmethod
    def forward(ctx, h):
        return h.clone()

    @staticmethod
    def backward(ctx, gradient):
        raise OwnError("in the middle of backward")


@step(Y)
def raises_in_backward(p: Part, h: Tensor) -> Tensor:
    p.buffer.add_(1)
    p.items.append(1)
    return _RaisesBackward.apply(h)


@step(Y)
def raises_between_two_writes(p: Part, h: Tensor) -> None:
    with torch.no_grad():
        p.weight.mul_(0.5)
        p.bias.add_(torch.ones(3))  # shapes do not fit


@step(Y)
def exits(p: Part, h: Tensor) -> None:
    p.weight.data = p.weight.data * 0.5
    p.child = nn.Linear(TOKENS, TOKENS)
    raise SystemExit("a model that exits")


@step(Y)
def leaves_a_context_open(p: Part, h: Tensor) -> None:
    p.table["context"] = context = torch.no_grad()
    context.__enter__()


@step(Y, changes=False)
def not_differentiable(p: Part, h: Tensor) -> Tensor:
    return h.detach().round()


@step(Y)
def gives_infinities(p: Part, h: Tensor) -> Tensor:
    p.buffer.fill_(float("nan"))
    return h / 0.0


@step(Y)
def swallows_interruptions(p: Part, h: Tensor) -> Tensor:
    try:
        p.weight.data.mul_(0.9)
        return h.tanh()
    except BaseException:
        p.weight.data.zero_()
        raise
