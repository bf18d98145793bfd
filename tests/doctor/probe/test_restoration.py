"""A probe leaves nothing behind, whatever the model does."""

from __future__ import annotations

import contextlib
import random
from collections.abc import Callable

import numpy as np
import pytest
import torch
from torch import nn
from torch.nn import functional
from torch.nn.utils import parametrizations
from torch.utils.checkpoint import checkpoint

from isometer.doctor import probe


def _bits(tensor: torch.Tensor | None) -> bytes | None:
    return None if tensor is None else tensor.detach().contiguous().view(-1).view(torch.uint8).numpy().tobytes()


def _state(model: nn.Module) -> dict[str, object]:
    state: dict[str, object] = {}
    for name, parameter in model.named_parameters():
        state[f"p {name}"] = (
            id(parameter),
            _bits(parameter),
            parameter.requires_grad,
            parameter._backward_hooks is None,
        )
        state[f"g {name}"] = (id(parameter.grad), _bits(parameter.grad))
    for name, buffer in model.named_buffers():
        state[f"b {name}"] = (id(buffer), _bits(buffer))
    for name, module in model.named_modules():
        hooks = {key: list(value) for key, value in module.__dict__.items() if key.endswith("_hooks") and value}
        state[f"m {name}"] = (module.training, hooks)
        state[f"t {name}"] = (list(module._parameters), list(module._buffers), list(module._modules))
    state["rng"] = (
        _bits(torch.get_rng_state()),
        str(np.random.get_state()),  # noqa: NPY002
        random.getstate(),
        torch.is_grad_enabled(),
        torch.get_default_dtype(),
        torch.is_inference_mode_enabled(),
    )
    return state


class Forward(nn.Module):
    """A model that is given by its forward function."""

    def __init__(self, function: Callable[..., object]) -> None:
        super().__init__()
        self.linear, self.other = nn.Linear(6, 6), nn.Linear(6, 6)
        self.register_buffer("counter", torch.zeros(2))
        self.function = function

    def forward(self, x):
        return self.function(self, x)


def _writes_parameter(m, x):
    with torch.no_grad():
        m.linear.weight.mul_(0.5)
        m.other.weight.data.clamp_(-0.1, 0.1)
    return m.other(m.linear(x))


def _reassigns(m, x):
    m.counter = m.counter + 1
    m.register_buffer("late", torch.ones(1))
    m.linear = nn.Linear(6, 6)
    return m.linear(x)


def _switches_modes(m, x):
    m.eval()
    m.linear.requires_grad_(False)
    torch.set_default_dtype(torch.float64)
    return m.other(m.linear(x))


def _calls_backward(m, x):
    with torch.enable_grad():
        m.linear(x.detach()).sum().backward()
    return m.other(m.linear(x))


def _draws(m, x):
    random.random()
    np.random.rand()  # noqa: NPY002
    return functional.dropout(m.linear(x) + torch.randn(6), 0.5)


def _in_place(m, x):
    x.add_(1)
    h = m.linear(x)
    h += 1
    h[:, 0] = 0
    m.counter.add_(1)
    return functional.relu_(h)


def _registers_hooks(m, x):
    m.other.register_forward_hook(lambda *_: None)
    return m.other(m.linear(x))


def _catches(m, x):
    with contextlib.suppress(RuntimeError):
        m.other(x[:, :3])
    return m.linear(x)


def _checkpointed(m, x):
    return checkpoint(lambda t: torch.relu(m.linear(t)), m.other(x), use_reentrant=False)


def _nan(m, x):
    return m.linear(x) * float("nan")


def _raises(m, x):
    m.counter.add_(1)
    m.eval()
    torch.randn(3)
    with torch.no_grad():
        m.linear.weight.zero_()
    m.other(m.linear(x))
    raise KeyError("halfway")


def _raises_backward(m, x):
    h = m.linear(x)
    h.register_hook(_fail)
    return m.other(h)


def _fail(gradient):
    raise KeyError("backward")


def _norms() -> nn.Module:
    return nn.Sequential(nn.Linear(6, 6), nn.BatchNorm1d(6), nn.ReLU(inplace=True), nn.Dropout(0.3), nn.Linear(6, 2))


MODELS: dict[str, Callable[[], nn.Module]] = {
    "batch norm and dropout": _norms,
    "evaluating": lambda: _norms().eval(),
    "cumulative average": lambda: nn.Sequential(nn.BatchNorm1d(6, momentum=None), nn.Linear(6, 6)),
    "frozen": lambda: _norms().requires_grad_(False),
    "no parameters": lambda: nn.Sequential(nn.ReLU(), nn.Tanh()),
    "spectral norm": lambda: nn.Sequential(parametrizations.spectral_norm(nn.Linear(6, 6)), nn.ReLU()),
    "weight norm": lambda: nn.Sequential(parametrizations.weight_norm(nn.Linear(6, 6)), nn.ReLU()),
    "writes parameters": lambda: Forward(_writes_parameter),
    "reassigns": lambda: Forward(_reassigns),
    "switches modes": lambda: Forward(_switches_modes),
    "calls backward": lambda: Forward(_calls_backward),
    "draws": lambda: Forward(_draws),
    "in place": lambda: Forward(_in_place),
    "registers hooks": lambda: Forward(_registers_hooks),
    "catches": lambda: Forward(_catches),
    "checkpointed": lambda: Forward(_checkpointed),
    "nan": lambda: Forward(_nan),
}


def _prepare(make: Callable[[], nn.Module]) -> tuple[nn.Module, torch.Tensor]:
    torch.manual_seed(3)
    model = make()
    for i, parameter in enumerate(model.parameters()):
        if i % 2 == 0:
            parameter.grad = torch.randn_like(parameter)
    return model, torch.randn(5, 6)


@pytest.mark.parametrize("name", MODELS)
def test_state_is_unchanged(name: str) -> None:
    model, x = _prepare(MODELS[name])
    copy, before = x.clone(), _state(model)
    probe(model, x)
    assert _state(model) == before
    assert torch.equal(x, copy)
    assert not x.requires_grad
    with torch.no_grad():
        probe(model, x, mode="train")
        assert not torch.is_grad_enabled()
    assert _state(model) == before


@pytest.mark.parametrize(("function", "message"), [(_raises, "halfway"), (_raises_backward, "backward")])
def test_state_is_unchanged_when_the_model_raises(function, message: str) -> None:
    model, x = _prepare(lambda: Forward(function))
    before = _state(model)
    with pytest.raises(KeyError, match=message):
        probe(model, x)
    assert _state(model) == before
    hooks = [key for module in model.modules() for key in (*module._forward_hooks, *module._forward_pre_hooks)]
    assert hooks == []


def test_hooks_of_the_user_stay_and_run() -> None:
    model, x = _prepare(_norms)
    seen: list[str] = []
    handle = model[0].register_forward_hook(lambda *_: seen.append("forward"))
    model[0].weight.register_hook(lambda gradient: seen.append("weight"))
    model[0].weight.register_post_accumulate_grad_hook(lambda parameter: seen.append("accumulated"))
    before = _state(model)
    probe(model, x)
    assert _state(model) == before
    assert seen == ["forward", "weight"]
    handle.remove()


def test_inference_mode_outside() -> None:
    model, x = _prepare(_norms)
    with torch.inference_mode():
        found = probe(model, x)
    assert np.isfinite(found.values["gradient_log_norm"][1])
