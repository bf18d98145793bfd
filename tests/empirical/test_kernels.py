"""What an empirical kernel says of itself, and what it leaves alone."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn
from torch.utils.checkpoint import checkpoint

from isometer import IsometerError, empirical_kernel
from isometer.empirical._linearisation import Linearisation
from isometer.work import TooMuchWorkError, allow
from support.small_models import made

close = np.testing.assert_allclose


@pytest.mark.parametrize("name", ["mlp", "batch_norm_mlp", "wide_batch_norm", "tied_embedding", "convolution"])
def test_between_two_batches_each_is_normalised_by_itself(name: str) -> None:
    model, batch = made(name)
    part = batch[:3]
    whole, other = (_jacobian(model, one) for one in (batch, part))
    expected = np.einsum("icp,jdp->icjd", whole, other)
    found = empirical_kernel(model, batch, part, outputs="full")
    close(found.matrix, expected, rtol=0, atol=1e-11 * np.abs(expected).max())
    trace = empirical_kernel(model, batch, part)
    close(trace.matrix, np.einsum("icjc->ij", expected), rtol=0, atol=1e-11 * np.abs(expected).max())
    assert trace.error_estimate < 1e-12
    with pytest.raises(IsometerError, match="between two batches"):
        _ = trace.spectrum


def _jacobian(model: nn.Module, batch: Any) -> np.ndarray[Any, Any]:
    """Reverse mode through functional calls, in training mode."""
    names = [name for name, _ in model.named_parameters()]
    state = {name: one.clone() for name, one in model.state_dict().items()}

    def outputs(*values: torch.Tensor) -> torch.Tensor:
        return torch.func.functional_call(model.train(), {**state, **dict(zip(names, values, strict=True))}, (batch,))

    found = torch.autograd.functional.jacobian(outputs, tuple(one.detach() for one in model.parameters()))
    samples, width = found[0].shape[:2]
    return torch.cat([one.reshape(samples, width, -1) for one in found], 2).numpy()


def test_parts_add_up_and_name_layers() -> None:
    model, batch = made("batch_norm_mlp")
    whole = empirical_kernel(model, batch)
    layers = empirical_kernel(model, batch, by="layer")
    assert list(layers.parts) == ["0", "1", "3", "4", "6"]
    close(sum(layers.parts.values()), whole.matrix, rtol=1e-12)
    close(sum(layers.shares().values()), 1.0)
    named = empirical_kernel(model, batch, by=lambda name: "gains" if name.startswith(("1.", "4.")) else "weights")
    close(named.parts["gains"], layers.parts["1"] + layers.parts["4"], rtol=1e-12)


@pytest.mark.parametrize("method", ["structured", "contraction"])
def test_small_memory_gives_the_same_kernel(method: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """In blocks of a few rows, and with temporaries cut up."""
    monkeypatch.setattr("isometer.empirical._contraction._BLOCK", 64)
    for name in ("batch_norm_mlp", "language_model"):
        model, batch = made(name)
        for outputs in ("trace", "full"):
            whole = empirical_kernel(model, batch, outputs=outputs, method=method)
            with monkeypatch.context() as patch:
                patch.setattr("isometer.empirical._assembly._SHARE", 1e-5)
                cut = empirical_kernel(model, batch, outputs=outputs, method=method)
            close(cut.matrix, whole.matrix, rtol=0, atol=1e-13 * np.abs(whole.matrix).max())


def test_samples_that_act_on_each_other_are_told_from_those_that_do_not() -> None:
    for name, parameter, separate in (
        ("mlp", "0.weight", True),
        ("language_model", "tokens.weight", True),
        ("attention_tokens_first", "mix.in_proj_weight", True),
        ("folded_positions", "weight", True),
        ("contrast", "q.weight", True),  # a query has one sample's outputs, a key those of all
        ("contrast", "k.weight", False),
        ("neighbours", "a.weight", False),
    ):
        model, batch = made(name)
        found = {one.name: one.separate for one in Linearisation(model, batch, None, tapped=True).parameters}
        assert found[parameter] is separate, (name, parameter)
    model, batch = made("batch_norm_mlp")
    assert not Linearisation(model.train(), batch, None, tapped=True).parameters[0].separate
    assert Linearisation(model.eval(), batch, None, tapped=True).parameters[0].separate


class LastToken(nn.Module):
    """Causal mixing of 12 positions, of which the last is read: most positions of `after` have no gradient."""

    def __init__(self) -> None:
        super().__init__()
        self.before, self.after, self.head = nn.Linear(3, 4), nn.Linear(4, 4), nn.Linear(4, 2)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        h = torch.tanh(self.before(x)).cumsum(1)
        return self.head(torch.tanh(self.after(h))[:, -1])


@pytest.mark.parametrize("stacked", [0, 1 << 30])
def test_many_samples_and_positions(stacked: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Two passes to tell 34 samples apart, cotangents in a stack or one by one, positions without a gradient."""
    monkeypatch.setattr("isometer.empirical._linearisation._STACKED", stacked)
    torch.manual_seed(0)
    model, batch = LastToken().double(), torch.randn(34, 12, 3).double()
    rows = _jacobian(model, batch)
    full = np.einsum("icp,jdp->icjd", rows, rows)
    for block in (64, 1 << 22):
        monkeypatch.setattr("isometer.empirical._contraction._BLOCK", block)
        found = empirical_kernel(model, batch, outputs="full", method="structured")
        close(found.matrix, full, rtol=0, atol=1e-12 * full.max())
        trace = empirical_kernel(model, batch, method="structured").matrix
        close(trace, np.einsum("icjc->ij", full), rtol=0, atol=1e-12 * full.max())


def test_two_samples_with_the_same_first_digit_that_act_on_each_other() -> None:
    """Samples 0 and 32 get the same power of two in the first pass, and different ones in the second."""

    class Coupled(nn.Linear):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            z = super().forward(x)
            return torch.cat([z[:1] + z[32:33], z[1:]])

    model = Coupled(3, 2).double()
    batch = torch.randn(34, 3).double()
    weight = Linearisation(model, batch, None, tapped=True).parameters[0]
    assert not weight.separate
    rows = _jacobian(model, batch)
    close(empirical_kernel(model, batch).matrix, np.einsum("icp,jcp->ij", rows, rows), rtol=1e-11)


def test_nothing_in_the_model_changes() -> None:
    model, batch = made("residual_network")
    model.eval()
    for one in model.parameters():
        one.grad = torch.ones_like(one)
    before = {name: one.clone() for name, one in model.state_dict().items()}
    inputs, state = batch.clone(), torch.random.get_rng_state()
    empirical_kernel(model, batch, by="layer", outputs="full")
    assert all(torch.equal(one, before[name]) for name, one in model.state_dict().items())
    assert torch.equal(batch, inputs)
    assert torch.equal(torch.random.get_rng_state(), state)
    assert not model.training
    assert all(bool((one.grad == 1).all()) for one in model.parameters() if one.grad is not None)
    assert not any(module._forward_hooks or module._forward_pre_hooks for module in model.modules())


def test_dropout_is_averaged_over_draws() -> None:
    """Inverted dropout of the inputs of a linear model: E Θ = X Xᵀ off the diagonal, X Xᵀ/(1 − p) on it."""
    x = torch.eye(3, 40).double() + 1.0
    model = nn.Sequential(nn.Dropout(0.5), nn.Linear(40, 1, bias=False)).double()
    exact = (x @ x.T).numpy() + np.diag((x**2).sum(1).numpy())
    one = empirical_kernel(model, x)
    again = empirical_kernel(model, x)
    assert np.array_equal(one.matrix, again.matrix)
    found = empirical_kernel(model, x, draws=40)
    assert 0.01 < found.error_estimate < 0.1
    # The error is that of the whole matrix; three of them leave chance 1 in 1000 or so.
    assert np.linalg.norm(found.matrix - exact) < 3 * found.error_estimate * np.linalg.norm(exact)
    close(empirical_kernel(model, x, mode="eval").matrix, (x @ x.T).numpy(), rtol=1e-13)


def test_a_sketch_knows_its_error() -> None:
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(6, 30), nn.Tanh(), nn.Linear(30, 80)).double()
    batch = torch.randn(7, 6).double()
    exact = empirical_kernel(model, batch)
    ratios = []
    for seed in range(12):
        found = empirical_kernel(model, batch, method="sketch", vectors=32, seed=seed)
        assert found.method == "sketch"
        assert "32 random combinations of the 80 outputs" in found.note
        ratios.append(np.linalg.norm(found.matrix - exact.matrix) / np.linalg.norm(exact.matrix) / found.error_estimate)
    # The estimate is that of a root mean square: the mean square of 12 ratios is 1 up to chance.
    assert 0.4 < np.sqrt(np.mean(np.square(ratios))) < 2.0
    with pytest.raises(IsometerError, match="a sketch gives the trace"):
        empirical_kernel(model, batch, method="sketch", outputs="full")


def test_the_conjugate_kernel_is_that_of_the_last_layers_input() -> None:
    model, batch = made("mlp")
    h = model[:-1](batch).detach()
    found = empirical_kernel(model, batch, kind="nngp")
    close(found.matrix, (h @ h.T / 6).numpy(), rtol=1e-13)
    first = model[0](batch).detach()
    other = model[0](batch[:2]).detach()
    site = empirical_kernel(model, batch, batch[:2], kind="nngp", site="0")
    close(site.matrix, (first @ other.T / 6).numpy(), rtol=1e-13)
    with pytest.raises(IsometerError, match="unknown module '9'"):
        empirical_kernel(model, batch, kind="nngp", site="9")


def test_double_precision_on_request() -> None:
    model, batch = made("mlp")
    exact = empirical_kernel(model, batch)
    single = empirical_kernel(model.float(), batch.float())
    double = empirical_kernel(model, batch.float(), dtype=torch.float64)
    assert next(model.parameters()).dtype is torch.float32
    assert 1e-9 < np.abs(single.matrix - exact.matrix).max() / exact.matrix.max() < 1e-5
    assert double.error_estimate < 1e-13 < single.error_estimate
    assert single.resolution > 1e5 * double.resolution


def test_a_pass_that_differs_every_time_is_noticed() -> None:
    class Changing(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.layer = nn.Linear(3, 1)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            # A stream that no seed governs.
            return self.layer(x * float(int.from_bytes(__import__("os").urandom(2))))

    with pytest.raises(IsometerError, match="differ from plain ones"):
        empirical_kernel(Changing(), torch.ones(2, 3), method="structured")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"kind": "ck"}, "kind is 'ck'; expected one of ntk, nngp"),
        ({"outputs": "sum"}, "outputs is 'sum'; expected one of trace, full"),
        ({"method": "fast"}, "method is 'fast'; expected one of auto"),
        ({"mode": "test"}, "mode is 'test'; expected 'train'"),
        ({"by": 3}, "by is 3; expected 'layer'"),
        ({"draws": 0}, "draws is 0; expected a whole number from 1"),
        ({"batch": "text"}, "batch is a str without a tensor"),
        ({"batch": torch.ones(0, 4)}, "expected at least one sample"),
        (
            {"output": lambda y: y.sum()},
            "output=… returned shape (); expected a tensor whose first axis is the 5 samples",
        ),
        ({"output": lambda y: y.detach()}, "the output has no derivative with respect to the parameters"),
        ({"other": torch.ones(2, 4).double(), "output": lambda y: y[:, : len(y)]}, "have 3 and 2 outputs per sample"),
    ],
)
def test_bad_input_gets_one_line(arguments: dict[str, Any], message: str) -> None:
    model, batch = made("mlp")
    given = {"batch": batch, **arguments}
    with pytest.raises(IsometerError, match=re.escape(message)):
        empirical_kernel(model, **given)


def test_what_cannot_be_calculated_says_why() -> None:
    model, batch = made("mlp")
    with pytest.raises(IsometerError, match="no parameter with requires_grad"):
        empirical_kernel(model.requires_grad_(False), batch)
    model.requires_grad_(True)
    with allow(memory=1000), pytest.raises(TooMuchWorkError, match="the kernel of 5 samples with 3 outputs"):
        empirical_kernel(model, batch, outputs="full")


def test_degenerate_models_have_kernels() -> None:
    zero = nn.Linear(3, 1, bias=False).double()
    assert empirical_kernel(zero, torch.zeros(2, 3).double()).condition_number == float("inf")
    assert empirical_kernel(zero, torch.zeros(2, 3).double()).effective_rank == 0.0
    one = empirical_kernel(zero, torch.ones(1, 3).double())
    close(one.matrix, [[3.0]], rtol=1e-14)
    assert one.condition_number == 1.0


def test_a_checkpointed_model_is_differentiated_whole() -> None:
    """What runs again in the backward pass is not tapped."""

    class Checkpointed(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.first, self.last = nn.Linear(3, 5), nn.Linear(5, 2)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return self.last(checkpoint(lambda h: torch.tanh(self.first(h)), x, use_reentrant=False))

    model, batch = Checkpointed().double(), torch.randn(4, 3).double()
    found = empirical_kernel(model, batch)
    plain = empirical_kernel(nn.Sequential(model.first, nn.Tanh(), model.last), batch)
    assert (found.method, plain.method) == ("contraction", "structured")
    close(found.matrix, plain.matrix, rtol=1e-12)


def test_kernels_show_themselves() -> None:
    """A picture and a card; many layers are summed up in both; a kernel of two batches has no spectrum to draw."""
    torch.manual_seed(0)
    layers = [one for _ in range(30) for one in (nn.Linear(4, 4), nn.Tanh())]
    model = nn.Sequential(*layers, nn.Linear(4, 2))
    found = empirical_kernel(model, torch.randn(5, 4), by="layer")
    _, _, shares, _ = found.plot().axes
    labels = [one.get_text() for one in shares.get_yticklabels()]
    assert labels[-1] == "7 others"
    assert len(labels) == 25
    assert sum(bar.get_width() for bar in shares.patches) == pytest.approx(1.0)
    assert "7 others" in found._repr_html_()
    assert len(empirical_kernel(model, torch.randn(5, 4)).plot().axes) == 4
    between = empirical_kernel(model, torch.randn(5, 4), torch.randn(3, 4))
    assert "(5, 3)" in between._repr_html_()
    with pytest.raises(IsometerError, match="between two batches"):
        between.plot()
