"""What is interrupted, by an error or by a signal, leaves the model as it was."""

from __future__ import annotations

import contextlib
import itertools
import signal
import sys
import threading
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import nn
from torch.overrides import TorchFunctionMode, _get_current_function_mode, _pop_mode

from isometer.doctor import probe
from isometer.doctor.probe import _signals, _subject, _world
from isometer.doctor.probe._examine import _entered
from isometer.doctor.probe._signals import guarded, uninterrupted
from isometer.doctor.probe._subject import Subject, left_alone
from isometer.init import iterative_orthogonalization_
from support.restoration import (
    Forward,
    check_probe,
    hook_over_the_model,
    locked,
    norms,
    prepare,
    scripted,
    settings,
    state,
)


def _catches(m, x):
    with contextlib.suppress(RuntimeError):
        m.other(x[:, :3])
    return m.linear(x)


MODELS: dict[str, Callable[[], nn.Module]] = {"catches": lambda: Forward(_catches)}


@pytest.mark.parametrize("name", MODELS)
def test_state_is_unchanged(name: str) -> None:
    check_probe(MODELS[name])


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


@pytest.mark.parametrize(("function", "message"), [(_raises, "halfway"), (_raises_backward, "backward")])
def test_state_is_unchanged_when_the_model_raises(function, message: str) -> None:
    model, x = prepare(lambda: Forward(function))
    before = state(model)
    with pytest.raises(KeyError, match=message):
        probe(model, x)
    assert state(model) == before
    hooks = [key for module in model.modules() for key in (*module._forward_hooks, *module._forward_pre_hooks)]
    assert hooks == []


@pytest.mark.parametrize("make", [norms, hook_over_the_model, locked, scripted])
@pytest.mark.filterwarnings("ignore:.*script.*:Warning")
# The moment may be one in a callback of the garbage collector, which cannot raise.
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
def test_an_interruption_at_any_moment(make) -> None:
    model, x = prepare(make)
    probe(model, x)  # imports what is imported on first use: Python does not undo an import that is interrupted
    before, around = state(model), settings()
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
            assert state(model) == before
            assert settings() == around
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


class _FromAnotherThread(BaseException):
    """No handler of signals sees it."""


def _raised_at(number: int, function: Callable[[], object]) -> bool:
    """Call a function with an exception at one of the lines that put a process back; whether it has as many."""
    files = {_signals.__file__, _subject.__file__, _world.__file__}
    met: set[tuple[str, int]] = set()

    def trace(frame: Any, event: str, argument: Any) -> Any:
        if frame.f_code.co_filename not in files:
            return None
        place = frame.f_code.co_filename, frame.f_lineno
        if event == "line" and place not in met:
            met.add(place)
            if len(met) == number:
                raise _FromAnotherThread
        return trace

    before = sys.gettrace()
    sys.settrace(trace)
    try:
        function()
    except _FromAnotherThread:
        pass
    finally:
        sys.settrace(before)
    return len(met) >= number


@pytest.mark.parametrize("make", [norms, locked])
def test_an_exception_at_any_line_that_puts_things_back(make) -> None:
    model, x = prepare(make)
    subject = Subject(model)
    before, around = state(model), settings()
    for number in itertools.count(1):
        reached = _raised_at(number, lambda: subject.run(lambda examined: examined(x), seed=0))
        assert settings() == around, number
        assert state(model) == before, number
        if not reached:
            break
    assert number > 80


def _raised_at_instruction(number: int, function: Callable[[], object]) -> bool:
    """Call a function with an exception before one of the instructions of the guard; whether it has as many."""
    count = 0

    def trace(frame: Any, event: str, argument: Any) -> Any:
        nonlocal count
        if frame.f_code.co_filename != _signals.__file__:
            return None
        frame.f_trace_opcodes, frame.f_trace_lines = True, False
        if event == "opcode":
            count += 1
            if count == number:
                raise _FromAnotherThread
        return trace

    before = sys.gettrace()
    sys.settrace(trace)
    try:
        function()
    except _FromAnotherThread:
        pass
    finally:
        sys.settrace(before)
    return count >= number


_LAYER = nn.Linear(1, 1)


def _left_alone(work: Callable[[], object]) -> object:
    return left_alone(_LAYER, work)


@pytest.mark.parametrize("helper", [uninterrupted, lambda work: guarded(work, lambda: None), _left_alone])
def test_handlers_and_generators_come_back_after_an_exception_at_any_instruction(helper) -> None:
    numbers = [*signal.valid_signals() - {signal.SIGKILL, signal.SIGSTOP}]
    handlers, generator = list(map(signal.getsignal, numbers)), torch.get_rng_state()
    for number in itertools.count(1):
        reached = _raised_at_instruction(number, lambda: helper(lambda: torch.randn(3)))
        if helper is _left_alone:
            assert torch.equal(torch.get_rng_state(), generator), number
        assert list(map(signal.getsignal, numbers)) == handlers, number
        if not reached:
            break
    assert number > 300


def test_what_is_not_to_be_interrupted_ends_first() -> None:
    events: list[str] = []

    def work() -> str:
        signal.raise_signal(signal.SIGINT)
        events.append("whole")
        return "result"

    with pytest.raises(KeyboardInterrupt):
        uninterrupted(work)
    assert events == ["whole"]
    assert uninterrupted(lambda: "result") == "result"


@pytest.mark.parametrize("levels", [1, 2])
def test_two_exceptions_while_something_is_undone(levels: int) -> None:
    undone: list[str] = []
    failures = iter([_FromAnotherThread] * levels)

    def undo() -> None:
        for kind in failures:
            raise kind
        undone.append("undone")

    handler = signal.getsignal(signal.SIGINT)
    with pytest.raises(_FromAnotherThread):
        guarded(lambda: None, undo)
    assert undone == ["undone"]
    assert signal.getsignal(signal.SIGINT) is handler


def test_an_initialiser_writes_all_or_nothing() -> None:
    model = nn.Sequential(nn.Linear(6, 6), nn.BatchNorm1d(6), nn.Linear(6, 6))
    batch = torch.randn(20, 6, generator=torch.Generator().manual_seed(0))
    handle = model[2].register_forward_hook(_fail_forward)
    before = state(model)
    with pytest.raises(KeyError):
        iterative_orthogonalization_(model, batch)
    assert state(model) == before
    handle.remove()
    iterative_orthogonalization_(model, batch)
    assert state(model)["p 0.weight"] != before["p 0.weight"]
    assert model[1].num_batches_tracked.item() == 0


def _fail_forward(module, inputs, output):
    raise KeyError("forward")


def test_an_interruption_while_torch_has_taken_the_mode_off_comes_through() -> None:
    """Torch takes a mode off while its handler runs; an interruption in that moment leaves nothing to take off."""
    mode = TorchFunctionMode()

    def interrupted() -> None:
        with _entered(mode):
            _pop_mode()
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        interrupted()
    with _entered(mode):
        assert _get_current_function_mode() is mode
    assert _get_current_function_mode() is None
