"""Suspicious operations are found, named by module and line, and taken out without a change of the model's code."""

from __future__ import annotations

import copy
import inspect
import pickle
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn
from torch.nn import functional
from torch.overrides import _get_current_function_mode_stack
from torch.utils.checkpoint import checkpoint

from isometer.doctor.probe._copying import Twin
from isometer.doctor.probe._reach import Reach
from isometer.doctor.probe._snapshot import Snapshot
from support.operations import SAMPLES, WIDTH, After, Change, Net, Tensor, found, without


@pytest.fixture(autouse=True)
def _seed() -> None:
    torch.manual_seed(3)


def line_of(function: Any, text: str) -> str:
    """The line of a function's source that contains a text, as `file.py:line`."""
    lines, first = inspect.getsourcelines(function)
    at = next(number for number, line in enumerate(lines) if text in line)
    return f"{Path(inspect.getfile(function)).name}:{first + at}"


def muted(x: Tensor) -> Tensor:
    with torch.no_grad():
        x = x * 1.5
        return x + 1


def first_for_all(x: Tensor) -> Tensor:
    return x[:1].expand(len(x), -1)


def zeros(x: Tensor) -> Tensor:
    return torch.zeros_like(x)


def permuted(x: Tensor) -> Tensor:
    return x[torch.arange(len(x) - 1, -1, -1)]


CUTS: dict[str, Change] = {
    "detach": lambda x: x.detach(),
    "data": lambda x: x.data,
    "no_grad": muted,
    "round": torch.round,
    "floor": lambda x: x.floor(),
    "sign": torch.sign,
    "long": lambda x: (10 * x).long().float(),
}
WRONG: dict[str, tuple[Change, float]] = {
    "clamp": (lambda x: x.clamp(-1e-3, 1e-3), 2.5),
    "hardtanh": (lambda x: functional.hardtanh(x, -1e-3, 1e-3), 2.5),
    "mul": (lambda x: 1e-3 * x, 2.9),
    "div": (lambda x: x / 1e3, 2.9),
    "dropout": (lambda x: functional.dropout(x, 0.9), 2.9),
    "roll": (lambda x: x.roll(1, 0), 3.0),
    "flip": (lambda x: torch.flip(x, (0,)), 3.0),
    "getitem": (permuted, 3.0),
    "index_select": (lambda x: x.index_select(0, torch.arange(len(x)).roll(1)), 3.0),
    "mean": (lambda x: x + x.mean(0, keepdim=True), 2.5),
    "sum": (lambda x: x + x.sum(0), 2.5),
    "softmax": (lambda x: x.softmax(0), 3.0),
    "sigmoid": (lambda x: x.relu().sigmoid(), 1.5),
    "zeros_like": (zeros, 3.0),
}


@pytest.mark.parametrize("op", CUTS)
def test_cut_gradients_come_back(op: str) -> None:
    model = Net(CUTS[op])
    model(torch.randn(SAMPLES, WIDTH)).sum().backward()
    assert model.first.weight.grad is None or not model.first.weight.grad.any()
    worst = found(model)[0]
    assert (worst.kind, worst.modules, worst.deviation) == ("operation", ("",), 3.0)
    if op in ("no_grad", "detach"):
        assert worst.where == line_of(CUTS[op], op)
    repaired = without(model, worst)
    repaired(torch.randn(SAMPLES, WIDTH)).sum().backward()
    assert repaired.first.weight.grad.abs().sum() > 0
    assert not repaired.first.weight.isnan().any()


@pytest.mark.parametrize("op", WRONG)
def test_changes_of_values_are_found(op: str) -> None:
    change, deviation = WRONG[op]
    worst = found(Net(change))[0]
    assert worst.modules == ("",)
    assert worst.deviation >= deviation
    assert "the model itself" in worst.advice
    assert worst.where.startswith(Path(__file__).name)


@pytest.mark.parametrize("op", sorted(set(WRONG) - {"sigmoid", "mean", "sum"}))
def test_without_the_call_the_model_is_the_plain_one(op: str) -> None:
    model = Net(WRONG[op][0])
    plain = copy.deepcopy(model)
    plain.between = nn.Identity()
    x = torch.randn(SAMPLES, WIDTH)
    assert not torch.allclose(model(x), plain(x))
    torch.testing.assert_close(without(model, found(model)[0])(x), plain(x))


def test_a_mean_over_samples_becomes_that_of_each_sample() -> None:
    class Mixed(Net):
        def forward(self, x: Tensor) -> Tensor:
            h = self.first(x)
            return self.last(h + 0.5 * h.mean((0, 1), keepdim=True))

    model = Mixed(nn.Identity())
    x = torch.randn(SAMPLES, 5, WIDTH)
    worst = next(one for one in found(model, x) if "mean" in one.advice)
    h = model.first(x)
    torch.testing.assert_close(without(model, worst)(x), model.last(h + 0.5 * h.mean(1, keepdim=True)))


def test_one_sample_for_all() -> None:
    worst = found(Net(first_for_all))[0]
    assert worst.deviation == 3.0
    assert worst.where == line_of(first_for_all, "expand")
    x = torch.randn(SAMPLES, WIDTH)
    model = Net(first_for_all)
    torch.testing.assert_close(without(model, worst)(x), model.last(model.first(x)))


def test_a_repair_that_does_not_run_is_none() -> None:
    repairs = found(Net(lambda x: x[:1].repeat(len(x), 1)))  # all samples, repeated, are too many
    assert all(one.deviation < 1 for one in repairs)


class Scale(nn.Module):
    """Not part of any model: used in hooks."""

    def forward(self, x: Tensor) -> Tensor:
        return x.detach()


def test_what_hooks_do_belongs_to_the_module_they_hang_on() -> None:
    model = nn.Sequential(nn.Linear(WIDTH, WIDTH), nn.Tanh(), nn.Linear(WIDTH, 2))
    model[1].register_forward_hook(After(Scale()))
    worst = found(model)[0]
    assert worst.modules == ("1",)
    assert worst.where == line_of(Scale.forward, "detach")
    assert worst.advice == f"Remove `detach()` in `1` ({worst.where})."
    repaired = without(model, worst)
    repaired(torch.randn(SAMPLES, WIDTH)).sum().backward()
    assert repaired[0].weight.grad is not None


def test_modules_of_torch_are_their_own_place() -> None:
    model = nn.Sequential(nn.Linear(WIDTH, 64), nn.Dropout(0.95), nn.Linear(64, 2), nn.Softmax(-1))
    by_name = {one.modules: one for one in found(model)}
    assert (by_name["1",].deviation, by_name["1",].where) == (3.0, "")
    assert by_name["1",].advice == "Remove the dropout of 95% in `1`."
    assert by_name["3",].advice == "Remove `softmax()` after the readout in `3`."
    x = torch.randn(SAMPLES, WIDTH)
    both = without(without(model, by_name["1",]), by_name["3",])
    torch.testing.assert_close(both(x), model[2](model[0](x)))


def test_dropout_inside_functions() -> None:
    class Recurrent(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.body = nn.LSTM(WIDTH, WIDTH, 2, dropout=0.9, batch_first=True)
            self.attention = nn.MultiheadAttention(WIDTH, 2, dropout=0.9, batch_first=True)

        def forward(self, x: Tensor) -> Tensor:
            h, _ = self.body(x)
            return self.attention(h, h, h)[0] + functional.scaled_dot_product_attention(h, h, h, dropout_p=0.9)

    model, x = Recurrent(), torch.randn(SAMPLES, 5, WIDTH)
    repairs = [one for one in found(model, x) if one.deviation > 2]
    assert {one.modules for one in repairs} == {("body",), ("attention",), ("",)}
    for repair in repairs:
        repair.change(model)
    torch.testing.assert_close(model(x), model.eval()(x))


class Cell(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.inner = nn.Linear(WIDTH, WIDTH)

    def forward(self, x: Tensor, h: Tensor) -> Tensor:
        h = h.detach()
        return torch.tanh(self.inner(x) + h)


class Loop(nn.Module):
    """Cells called again and again, with the same line in each."""

    def __init__(self) -> None:
        super().__init__()
        self.cells = nn.ModuleList(Cell() for _ in range(3))
        self.out = nn.Linear(WIDTH, 1)

    def forward(self, x: Tensor) -> Tensor:
        h = torch.zeros_like(x)
        for _ in range(4):
            for cell in self.cells:
                h = cell(x, h)
        return self.out(h)


def test_calls_in_a_loop_are_one_and_the_same_line_in_several_modules_is_one_more() -> None:
    repairs = [one for one in found(Loop()) if "detach" in one.advice]
    assert {one.modules for one in repairs[1:]} == {("cells.0",), ("cells.1",), ("cells.2",)}
    assert repairs[0].modules == ("cells.0", "cells.1", "cells.2")
    assert len({one.where for one in repairs}) == 1
    assert repairs[0].where == line_of(Cell.forward, "detach")


def test_repairs_go_together_and_leave_the_rest_alone() -> None:
    model = Loop()
    repairs = {one.modules: one for one in found(model) if "detach" in one.advice}
    twin = copy.deepcopy(model)
    depths = [_depth(twin(torch.randn(2, WIDTH)))]
    for name in (("cells.0",), ("cells.2",), ("cells.1",)):
        repairs[name].change(twin)
        depths.append(_depth(twin(torch.randn(2, WIDTH))))
    whole = copy.deepcopy(model)
    repairs["cells.0", "cells.1", "cells.2"].change(whole)
    assert _depth(whole(torch.randn(2, WIDTH))) == depths[-1]
    assert depths == [1, 1, 2, 12]  # cells that the gradient goes back through


def _depth(output: Tensor) -> int:
    """Hyperbolic tangents behind an output, along the longest way."""

    def longest(node: Any) -> int:
        before = max((longest(one) for one, _ in node.next_functions if one is not None), default=0)
        return before + (type(node).__name__ == "TanhBackward0")

    return longest(output.grad_fn)


@pytest.mark.parametrize("how", ["deepcopy", "pickle", "twin"])
def test_copies_have_the_change_and_originals_have_none(how: str) -> None:
    model = nn.Sequential(nn.Linear(WIDTH, WIDTH), nn.Dropout(0.9), nn.Linear(WIDTH, 1))
    changed = without(model, found(model)[0])
    twin: nn.Module
    if how == "deepcopy":
        twin = copy.deepcopy(changed)
    elif how == "pickle":
        twin = pickle.loads(pickle.dumps(changed))
    else:
        twin = Twin(changed, Snapshot(Reach([changed]))).model
    x = torch.randn(SAMPLES, WIDTH)
    torch.testing.assert_close(twin(x), twin[2](twin[0](x)))
    assert not torch.allclose(model(x), model(x))


def test_the_model_looked_at_is_left_without_hooks_and_modes() -> None:
    model = Net(lambda x: x[:1].expand(len(x), -1))
    found(model)
    assert not any(module._forward_hooks or module._forward_pre_hooks for module in model.modules())
    assert not _get_current_function_mode_stack()


class Failing(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.inner = nn.Linear(WIDTH, WIDTH)
        self.problem: BaseException | None = None

    def forward(self, x: Tensor) -> Tensor:
        x = self.inner(x).detach()
        if self.problem is not None:
            raise self.problem
        return x + 1


def test_errors_leave_no_mode_behind() -> None:
    model = Failing()
    found(model)[0].change(model)
    model.problem = ValueError("own")
    with pytest.raises(ValueError, match="own"):
        model(torch.randn(2, WIDTH))
    assert not _get_current_function_mode_stack()
    with pytest.raises(ValueError, match="own"):
        found(model)
    assert not _get_current_function_mode_stack()
    model.problem = None
    assert model(torch.randn(2, WIDTH)).requires_grad


def test_an_interrupt_leaves_a_mode_that_does_nothing() -> None:
    model = Failing()
    plain = copy.deepcopy(model)
    found(model)[0].change(model)
    model.problem = KeyboardInterrupt()
    with pytest.raises(KeyboardInterrupt):
        model(torch.randn(2, WIDTH))
    try:
        assert not plain(torch.randn(2, WIDTH)).requires_grad
        model.problem = None
        assert model(torch.randn(2, WIDTH)).requires_grad
    finally:
        while _get_current_function_mode_stack():
            torch.overrides._pop_mode()


def test_a_model_that_calls_itself() -> None:
    class Twice(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.inner = nn.Linear(WIDTH, WIDTH)

        def forward(self, x: Tensor, again: bool = True) -> Tensor:
            x = self.inner(x).detach()
            return self(x, again=False) if again else x

    model = Twice()
    found(model)[0].change(model)
    model(torch.randn(2, WIDTH)).sum().backward()
    assert model.inner.weight.grad is not None
    assert not _get_current_function_mode_stack()


def test_a_module_of_the_same_class_inside_is_another_one() -> None:
    class Nest(nn.Module):
        def __init__(self, inner: nn.Module | None) -> None:
            super().__init__()
            self.map, self.inner = nn.Linear(WIDTH, WIDTH), inner

        def forward(self, x: Tensor) -> Tensor:
            x = self.map(x) if self.inner is None else self.map(self.inner(x))
            return x * 1e-3

    model, x = Nest(Nest(None)), torch.randn(SAMPLES, WIDTH)
    repair = next(one for one in found(model) if one.modules == ("inner",))
    inner = model.inner
    assert isinstance(inner, Nest)
    torch.testing.assert_close(without(model, repair)(x), model.map(inner.map(x)) * 1e-3)


def test_checkpoints_compute_the_same_again() -> None:
    class Saved(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.body = Net(lambda x: x.tanh().clamp(-1e-3, 1e-3))

        def forward(self, x: Tensor) -> Any:
            return checkpoint(self.body, x, use_reentrant=False)

    model = Saved()
    worst = found(model)[0]
    assert worst.modules == ("body",)
    repaired = without(model, worst)
    repaired(torch.randn(SAMPLES, WIDTH)).sum().backward()
    assert repaired.body.first.weight.grad.abs().sum() > 0


def test_training_works_again() -> None:
    x = torch.randn(64, WIDTH)
    y = x[:, :1] * x[:, 1:2]
    model = nn.Sequential(nn.Linear(WIDTH, 32), nn.Tanh(), nn.Linear(32, 1))
    model[1].register_forward_hook(After(Scale()))
    losses = []
    for one in (copy.deepcopy(model), without(model, found(model)[0])):
        optimizer = torch.optim.Adam(one.parameters(), 0.02)
        for _ in range(150):
            optimizer.zero_grad()
            loss = functional.mse_loss(one(x), y)
            loss.backward()
            optimizer.step()
        losses.append(loss.item())
    assert losses[1] < 0.25 * losses[0]
