"""A probe leaves nothing behind, whatever the model does."""

from __future__ import annotations

import contextlib
import ctypes
import functools
import gc
import random
import signal
import threading
import types
import weakref
from collections import deque
from collections.abc import Callable
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from torch import nn
from torch.nn import functional
from torch.nn.utils import parametrizations
from torch.utils.checkpoint import checkpoint

from isometer.doctor import SignalMonitor, diagnose, probe, treat
from isometer.doctor.probe._signals import guarded
from isometer.doctor.probe._subject import Subject
from isometer.errors import IsometerError, ModelChangedError
from isometer.init import iterative_orthogonalization_

_PLAIN = (int, float, str, list, dict, set, deque, bytearray, SimpleNamespace, np.ndarray, random.Random, nn.Module)


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
        state[f"t {name}"] = tuple(
            list(table.keys()) for table in (module._parameters, module._buffers, module._modules)
        )
        # Plain attributes: the same objects, and containers among them with the same content.
        state[f"a {name}"] = {
            key: (id(value), repr(value)) for key, value in module.__dict__.items() if isinstance(value, _PLAIN)
        }
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


def test_hooks_of_the_user_stay_and_run(capsys: pytest.CaptureFixture[str]) -> None:
    model, x = _prepare(_norms)
    seen: list[str] = []

    def say(word: str) -> None:
        seen.append(word)
        print(word)

    handle = model[0].register_forward_hook(lambda *_: say("forward"))
    model[0].weight.register_hook(lambda gradient: say("weight"))
    model[0].weight.register_post_accumulate_grad_hook(lambda parameter: say("accumulated"))
    before = _state(model)
    probe(model, x)
    assert _state(model) == before
    assert capsys.readouterr().out.split() == ["forward", "weight"]
    assert seen == []  # as it was
    handle.remove()


def test_inference_mode_outside() -> None:
    model, x = _prepare(_norms)
    with torch.inference_mode():
        found = probe(model, x)
    assert np.isfinite(found.values["gradient_log_norm"][1])


# --- models that change themselves ------------------------------------------------------------------------------------


def _self_normalising(m, x):
    with torch.no_grad():
        m.linear.weight.div_(m.linear.weight.norm())
        torch._foreach_mul_(list(m.other.parameters()), 0.5)
    return m.other(m.linear(x))


def _assigns_data(m, x):
    m.linear.weight.data = torch.randn(6, 6)
    m.other.weight.data = m.other.weight.data.double()
    return m.linear(x)


def _writes_through_numpy(m, x):
    m.linear.weight.detach().numpy()[:] = 1
    return m.linear(x)


def _resizes(m, x):
    m.counter.resize_(5000).fill_(3)
    return m.linear(x)


def _installs(m, x):
    if not getattr(m, "installed", False):  # as libraries do in the first call
        m.linear.register_forward_hook(lambda *_: None)
        m.installed = True
    return m.linear(x)


def _takes_apart(m, x):
    output = m.linear(x)
    del m.other
    m.linear = nn.Identity()
    m._buffers.clear()
    m.apply(lambda part: part.requires_grad_(False))
    return output


def _sets_globals(m, x):
    nn.modules.module.register_module_forward_hook(lambda *_: None)
    torch.use_deterministic_algorithms(True)
    torch.set_grad_enabled(False)
    np.seterr(all="ignore")
    return m.linear(x)


def _steps(m, x):
    with torch.enable_grad():
        m.linear(x.detach()).sum().backward()
    m.optimizer.step()
    m.optimizer.zero_grad()
    return m.other(m.linear(x))


def _counts(m, x):
    m.record.calls += 1
    m.record.seen.append(len(m.queue))
    m.queue.append(1)
    m.numbers += 1
    m.tree["a"][0]["b"].append(2)
    m.raw[0] += 1
    return m.linear(x) + m.own.random() + torch.randn(6, generator=m.generator)


def _keeps(m, x):
    h = m.linear(x) + m.last
    m.last = h
    return m.other(h)


def _model(function: Callable[..., object], **attributes: object) -> nn.Module:
    model = Forward(function)
    for name, value in attributes.items():
        setattr(model, name, value)
    return model


def _counting() -> nn.Module:
    return _model(
        _counts,
        record=SimpleNamespace(calls=0, seen=[]),
        queue=deque([1]),
        numbers=np.zeros(3),
        tree={"a": [{"b": [1]}]},
        raw=bytearray(b"abc"),
        own=random.Random(3),
        generator=torch.Generator().manual_seed(1),
    )


def _stepping() -> nn.Module:
    model = _model(_steps)
    model.optimizer = torch.optim.Adam(model.parameters())
    return model


def _keeping() -> nn.Module:
    model = _model(_keeps)
    model.last = model.linear(torch.ones(5, 6))
    return model


def _embedding() -> nn.Module:
    return nn.Sequential(Index(), nn.Embedding(10, 6, max_norm=0.5), nn.Linear(6, 6))


class Index(nn.Module):
    def forward(self, x):
        return (x[:, 0].abs() * 3).long().clamp(0, 9)


def _hook_that_leaves() -> nn.Module:
    model = Forward(lambda m, x: m.other(m.linear(x)))
    handles = [model.linear.register_forward_hook(lambda *_: handles[0].remove())]
    handles.append(model.linear.weight.register_hook(lambda gradient: handles[1].remove()))
    model.handle = model.other.register_forward_pre_hook(lambda module, inputs: None)
    return model


def _hook_over_the_model() -> nn.Module:
    model = Forward(lambda m, x: m.other(m.linear(x)))

    def hook(module, inputs):
        model.calls = getattr(model, "calls", 0) + 1
        model.linear.weight.data.mul_(0.9)
        model.counter.add_(1)

    model.linear.register_forward_pre_hook(hook)
    return model


def _patched() -> nn.Module:
    model = _norms()
    before = model.forward

    def forward(x):
        model[0].weight.data.mul_(0.5)
        return before(x)

    model.forward = forward
    return model


def _bound() -> nn.Module:
    model = nn.Linear(6, 6)

    def forward(self, x):
        self.weight.data.mul_(2)
        return functional.linear(x, self.weight)

    model.forward = types.MethodType(forward, model)
    return model


def _through_a_partial() -> nn.Module:
    hidden = [nn.Linear(6, 6), nn.BatchNorm1d(6)]
    function = functools.partial(lambda layers, m, x: layers[1](layers[0](x)), hidden)
    return _model(function, hidden=hidden)


def _weak() -> nn.Module:
    model = _model(lambda m, x: m.reference().linear(x) * m.reference().counter.add_(1).sum())
    model.reference = weakref.ref(model)
    return model


def _viewed() -> nn.Module:
    def forward(m, x):
        m.view[:] = m.view * 0.5
        return m.linear(x)

    model = _model(forward)
    model.view = model.linear.weight.detach().numpy()
    return model


def _locked() -> nn.Module:
    def forward(m, x):
        with m.lock:
            m.linear.weight.data.mul_(0.3)
            m.counter = m.counter + 1
            m.calls = 1
        return m.linear(x)

    return _model(forward, lock=threading.Lock())


class OfClass(nn.Module):
    calls = 0
    cache: dict[int, int] = {}  # noqa: RUF012 — shared by all instances on purpose
    table = torch.zeros(3)

    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(6, 6)

    def forward(self, x):
        type(self).calls += 1
        self.cache[len(self.cache)] = 1
        self.table.add_(1)
        return self.linear(x) * (1 + self.table.sum())


class Numbered(nn.Module):
    """Counts the calls of all its instances."""

    calls = 0
    cache: dict[int, int] = {}  # noqa: RUF012 — shared by all instances on purpose

    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(6, 6)

    def forward(self, x):
        type(self).calls += 1
        type(self).new = 1
        self.cache[len(self.cache)] = 1
        return self.linear(x) * (1 + self.calls)


class ItsOwnCopy(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(6, 6)

    def __deepcopy__(self, memo):
        return self

    def forward(self, x):
        self.linear.weight.data.mul_(0.5)
        return self.linear(x)


def _tied() -> nn.Module:
    model = nn.Sequential(nn.Linear(6, 6), nn.ReLU(), nn.Linear(6, 6), nn.Linear(6, 6))
    model[2].weight = model[0].weight
    flat = torch.randn(72)
    model[0].weight.data, model[3].weight.data = flat[:36].view(6, 6), flat[36:].view(6, 6)
    return model


class Counted(nn.Module):
    """A module to script: it replaces a buffer and counts."""

    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(6, 6)
        self.register_buffer("total", torch.zeros(1))
        self.calls = 0

    def forward(self, x):
        self.total = self.total + 1
        self.calls += 1
        return self.linear(x) + self.total


def _transformed(m, x):
    per_sample = torch.func.vmap(torch.func.grad(lambda t: m.linear(t).sin().sum()))(x)
    return m.other(per_sample + torch.func.vmap(lambda t: torch.tanh(m.linear(t)))(x))


def _nested(m, x):
    ragged = torch.nested.nested_tensor([x[:2], x[2:]], layout=torch.jagged)
    return m.other(torch.cat(list(m.linear(ragged).unbind())))


def _lstm() -> nn.Module:
    def forward(m, x):
        output, m.hidden = m.cell(x[:, None], m.hidden)
        return output

    return _model(forward, cell=nn.LSTM(6, 6, batch_first=True), hidden=None)


DIFFICULT: dict[str, tuple[Callable[[], nn.Module], bool]] = {  # and whether a copy is examined
    "renormalised embedding": (_embedding, True),
    "normalises itself": (lambda: Forward(_self_normalising), True),
    "assigns data": (lambda: Forward(_assigns_data), True),
    "writes through numpy": (lambda: Forward(_writes_through_numpy), True),
    "resizes a buffer": (lambda: Forward(_resizes), True),
    "installs hooks": (lambda: Forward(_installs), True),
    "takes itself apart": (lambda: Forward(_takes_apart), True),
    "sets globals": (lambda: Forward(_sets_globals), True),
    "counts": (_counting, True),
    "keeps what has a history": (_keeping, True),
    "tied": (_tied, True),
    "bound method": (_bound, True),
    "lstm": (_lstm, True),
    "hooks that leave": (_hook_that_leaves, False),
    "sparse embedding": (lambda: nn.Sequential(Index(), nn.Embedding(10, 6, sparse=True), nn.Linear(6, 6)), True),
    "vmap and grad": (lambda: Forward(_transformed), True),
    "jagged": (lambda: Forward(_nested), True),
    "own optimizer": (_stepping, False),
    "hook over the model": (_hook_over_the_model, False),
    "patched forward": (_patched, False),
    "modules behind a partial": (_through_a_partial, True),
    "weak reference": (_weak, False),
    "numpy view": (_viewed, False),
    "lock": (_locked, False),
    "state of a class": (OfClass, False),
    "counter of a class": (Numbered, True),
    "its own copy": (ItsOwnCopy, False),
    "scripted": (lambda: torch.jit.script(Counted()), False),
    "scripted part": (lambda: nn.Sequential(torch.jit.script(_norms()), nn.Linear(2, 2)), False),
    "traced": (lambda: torch.jit.trace(_norms().eval(), torch.ones(2, 6)), False),
    "old weight norm": (lambda: nn.Sequential(nn.utils.weight_norm(nn.Linear(6, 6)), nn.ReLU()), True),
}


@pytest.mark.filterwarnings("ignore:.*(script|trace|weight_norm).*:Warning")
@pytest.mark.filterwarnings("ignore:The PyTorch API of nested tensors:UserWarning")
@pytest.mark.parametrize("name", DIFFICULT)
def test_difficult_models_are_unchanged(name: str) -> None:
    make, copied = DIFFICULT[name]
    model, x = _prepare(make)
    before, settings = _state(model), _settings()
    assert (Subject(model).reason == "") == copied
    first, second = probe(model, x), probe(model, x)
    assert _state(model) == before
    diagnose(model, x, redraws=3, predict=True)
    assert _state(model) == before
    assert _settings() == settings
    # Every pass starts from the same state.
    for one, other in zip(first.values.values(), second.values.values(), strict=True):
        np.testing.assert_array_equal(one, other)


def _settings() -> list[object]:
    hooks = nn.modules.module
    return [
        torch.are_deterministic_algorithms_enabled(),
        len(hooks._global_forward_hooks),
        np.geterr(),
        gc.isenabled(),
        signal.getsignal(signal.SIGINT),
        OfClass.calls,
        Numbered.calls,
        dict(Numbered.cache),
        hasattr(Numbered, "new"),
        dict(OfClass.cache),
        OfClass.table.tolist(),
        torch._C._len_torch_function_stack(),
    ]


def test_passes_on_a_copy_start_from_the_same_state() -> None:
    subject = Subject(Forward(_self_normalising))
    assert subject.reason == ""
    x = torch.ones(2, 6)
    outputs = [subject.run(lambda model: model(x).detach(), seed=0) for _ in range(3)]
    assert torch.equal(outputs[0], outputs[1])
    assert torch.equal(outputs[0], outputs[2])


def test_a_loss_that_holds_the_model() -> None:
    model, x = _prepare(_norms)

    def loss(output):
        model[0].weight.data.mul_(0.5)
        return output.square().sum() + model[0].weight.square().sum()

    before = _state(model)
    assert Subject(model, (loss,)).reason
    found = probe(model, x, loss=loss)
    assert _state(model) == before
    alone = probe(model, x, loss=lambda output: output.square().sum())
    # The penalty reaches the weights: the loss was given the model that ran.
    assert found.values["gradient_log_norm"][1] != alone.values["gradient_log_norm"][1]


def test_a_loss_with_a_state_of_its_own() -> None:
    model, x = _prepare(_norms)
    norm = nn.BatchNorm1d(2)
    assert Subject(model, (norm,)).reason == ""
    probe(model, x, loss=lambda output: norm(output).square().sum())
    assert norm.num_batches_tracked.item() == 0


def test_treatment_and_monitor_leave_the_model_alone() -> None:
    model, x = _prepare(lambda: nn.Sequential(*[m for _ in range(6) for m in (nn.Linear(6, 6), nn.Tanh())]))
    model[0].weight.data.mul_(100)
    before, report = _state(model), diagnose(model, x)
    treat(model, report, batch=x)
    monitor = SignalMonitor(model, every=1, budget=None)
    monitor.step(x)
    assert monitor.observations == 1
    assert _state(model) == before


def test_treatment_refuses_a_copy_that_leads_back() -> None:
    model, x = _prepare(_hook_over_the_model)
    before = _state(model)
    with pytest.raises(IsometerError, match="holds the model itself"):
        treat(model, diagnose(model, x, redraws=3), batch=x)
    assert _state(model) == before


def test_memory_that_nobody_can_see() -> None:
    # An address leads to the original; the copy still has the bytes.
    def forward(m, x):
        ctypes.memset(m.address, 0, 16)
        return m.linear(x)

    model, x = _prepare(lambda: _model(forward))
    model.address = model.linear.weight.data_ptr()
    before = _state(model)
    probe(model, x)
    assert _state(model) == before


def test_what_cannot_be_put_back_is_said() -> None:
    def forward(m, x):
        ctypes.memset(m.address, 0, 16)
        m.linear.weight.data.mul_(2)  # and the copy changes too
        return m.linear(x)

    model, x = _prepare(lambda: _model(forward))
    model.address = model.linear.weight.data_ptr()
    with pytest.raises(ModelChangedError, match=r"'linear\.weight'"):
        probe(model, x)


def test_the_graph_of_the_caller_survives() -> None:
    model, x = _prepare(_keeping)
    model.lock = threading.Lock()  # not to be copied
    assert Subject(model).reason
    probe(model, x)
    model.last.sum().backward()
    norm = nn.BatchNorm1d(6).eval()
    norm.lock = threading.Lock()
    output = norm(x.clone().requires_grad_())
    probe(norm, x, mode="train")
    output.sum().backward()  # running statistics that were put back count as untouched


def test_history_is_not_extended() -> None:
    model, x = _prepare(_keeping)
    graph = model.last.grad_fn
    probe(model, x)
    assert model.last.grad_fn is graph


@pytest.mark.parametrize("make", [_norms, _hook_over_the_model, _locked, lambda: torch.jit.script(Counted())])
@pytest.mark.filterwarnings("ignore:.*script.*:Warning")
# The moment may be one in a callback of the garbage collector, which cannot raise.
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
def test_an_interruption_at_any_moment(make) -> None:
    model, x = _prepare(make)
    before, settings = _state(model), _settings()
    arrived = 0

    def interrupt(number, frame):
        raise KeyboardInterrupt

    handler = signal.signal(signal.SIGALRM, interrupt)
    try:
        for moment in range(30):
            try:
                try:
                    signal.setitimer(signal.ITIMER_REAL, 2e-4 + 4e-4 * moment)
                    probe(model, x)
                finally:
                    signal.setitimer(signal.ITIMER_REAL, 0)
            except KeyboardInterrupt:
                arrived += 1
            assert _state(model) == before
            assert _settings() == settings
    finally:
        signal.signal(signal.SIGALRM, handler)
    assert arrived > 3


def test_signals_wait_while_something_is_undone() -> None:
    events: list[str] = []

    def undo() -> None:
        signal.raise_signal(signal.SIGINT)
        events.append("undone")

    with pytest.raises(KeyboardInterrupt):
        guarded(lambda: events.append("done"), undo)
    assert events == ["done", "undone"]
    other = threading.Thread(target=lambda: events.append(guarded(lambda: "elsewhere", lambda: None)))
    other.start()
    other.join()
    assert events[-1] == "elsewhere"


def test_an_initialiser_writes_all_or_nothing() -> None:
    model = nn.Sequential(nn.Linear(6, 6), nn.BatchNorm1d(6), nn.Linear(6, 6))
    batch = torch.randn(20, 6, generator=torch.Generator().manual_seed(0))
    handle = model[2].register_forward_hook(_fail_forward)
    before = _state(model)
    with pytest.raises(KeyError):
        iterative_orthogonalization_(model, batch)
    assert _state(model) == before
    handle.remove()
    iterative_orthogonalization_(model, batch)
    assert _state(model)["p 0.weight"] != before["p 0.weight"]
    assert model[1].num_batches_tracked.item() == 0


def _fail_forward(module, inputs, output):
    raise KeyError("forward")


@pytest.mark.parametrize(
    ("model", "batch", "message"),
    [
        (nn.Linear(6, 6, device="meta"), torch.ones(2, 6), "meta device"),
        (nn.Linear(6, 6), torch.nested.nested_tensor([torch.ones(2, 6)], layout=torch.jagged), "nested"),
    ],
)
@pytest.mark.filterwarnings("ignore:The PyTorch API of nested tensors:UserWarning")
def test_what_has_no_numbers_is_refused(model, batch, message: str) -> None:
    with pytest.raises(IsometerError, match=message):
        probe(model, batch)


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
@pytest.mark.filterwarnings("ignore::UserWarning")
def test_quantised_layers_are_read_without_gradients() -> None:
    model = torch.ao.quantization.quantize_dynamic(nn.Sequential(nn.Linear(6, 6), nn.ReLU()), {nn.Linear})
    found = probe(model, torch.randn(5, 6))
    assert [site.kind for site in found.sites] == ["input", "activation"]  # its functions have no names
    assert np.isnan(found.values["gradient_log_norm"][1])


def test_a_model_may_ask_for_the_gradient_of_its_input() -> None:
    # As the speech models of transformers do in train mode.
    def forward(m, x):
        hidden = x[:, None]
        hidden.requires_grad = True
        return m.linear(hidden)

    found = probe(Forward(forward), torch.randn(5, 6))
    assert np.isfinite(found.values["gradient_log_norm"]).all()
