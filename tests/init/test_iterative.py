"""Iterative orthogonalisation and rank pre-training."""

from __future__ import annotations

import copy
import math
from collections.abc import Callable

import numpy as np
import pytest
import torch
from torch import nn
from torch.nn import functional

from isometer.init import iterative_orthogonalization_, rank_pretraining_
from isometer.metrics import orthogonality_gap, stable_rank
from support.models import F64, draw, mlp, refused

# --- iterative orthogonalisation --------------------------------------------------------------------------------------


def test_eq_6_literally_for_as_many_samples_as_features() -> None:
    """With n = d the whole of V is the slice: W = V Σ^{−1/2} Uᵀ / ‖Σ^{1/2}‖_F, computed here by NumPy's SVD."""
    x = draw(7, 7) + 0.5
    layer = nn.Sequential(nn.Linear(7, 7, dtype=F64))
    iterative_orthogonalization_(layer, x, frame="slice", output_norm=1.0)
    u, s, vt = np.linalg.svd(x.numpy().T)
    expected = vt.T @ np.diag(s**-0.5) @ u.T / np.sqrt(s.sum())
    np.testing.assert_allclose(layer[0].weight.detach().numpy(), expected, atol=1e-9)
    assert float(layer[0].bias.detach().abs().max()) == 0.0


@pytest.mark.parametrize("frame", ["polar", "qr", "haar"])
@pytest.mark.parametrize("exponent", [0.25, 0.5, 1.0])
def test_singular_values_norm_and_gap_of_one_layer(exponent: float, frame: str) -> None:
    """σ(WH) ∝ σ(H)^{1−e}, ‖WH‖_F = 1, and the gap falls: 003/appE for e = ½."""
    x = draw(30, 10) @ torch.diag(torch.linspace(0.1, 3, 10, dtype=F64)) + 1
    model = nn.Sequential(nn.Linear(10, 10, dtype=F64))
    outcome = iterative_orthogonalization_(model, x, exponent=exponent, frame=frame, output_norm=1.0)
    before, after = (np.linalg.svd(m, compute_uv=False) for m in (x.numpy(), model(x).detach().numpy()))
    expected = before ** (1 - exponent) / np.sqrt((before ** (2 - 2 * exponent)).sum())
    np.testing.assert_allclose(after, expected, rtol=1e-6)
    numbers = outcome.layers[0].numbers
    assert numbers["gap_before"] == pytest.approx(float(orthogonality_gap(x)), rel=1e-9)
    assert numbers["gap_after"] == pytest.approx(float(orthogonality_gap(model(x).detach())), rel=1e-6)
    assert numbers["gap_after"] < numbers["gap_before"]
    if exponent == 0.5:
        s = before / np.linalg.norm(before)
        assert numbers["gap_after"] == pytest.approx(math.sqrt(1 / s.sum() ** 2 - 1 / 30), rel=1e-6)


def test_a_slice_as_printed_is_not_orthogonal_and_may_raise_the_gap() -> None:
    """The paper calls a d×d slice of V (n×d) orthogonal; for n > d it is not, and V(WH) < V(H) can fail."""
    outcome = iterative_orthogonalization_(mlp(1, 64), draw(192, 64), frame="slice")
    numbers = outcome.layers[0].numbers
    assert numbers["gap_after"] > numbers["gap_before"]


@pytest.mark.parametrize("frame", ["polar", "qr", "haar"])
@pytest.mark.parametrize("depth", [10, 30, 100])
def test_deep_relu_networks_stay_apart(depth: int, frame: str) -> None:
    width, samples = 24, 72
    x = draw(samples, width) + 0.5
    model = mlp(depth, width)
    least = math.sqrt(1 / width - 1 / samples)
    assert float(orthogonality_gap(model[:-1](x).detach())) > 0.7  # Xavier: the batch collapses
    outcome = iterative_orthogonalization_(model, x, frame=frame)
    gaps = [(layer.numbers["gap_before"], layer.numbers["gap_after"]) for layer in outcome.layers]
    assert len(gaps) == depth
    assert all(after < before or before < least + 1e-6 for before, after in gaps)
    assert float(orthogonality_gap(model[:-1](x).detach())) == pytest.approx(gaps[-1][1], rel=1e-6)
    assert gaps[-1][1] < 2 * least
    # One batch says little, and rounding decides what 100 layers make of it.
    batches = [draw(16, width, seed=5 + k) + 0.5 for k in range(8)]
    fresh = float(np.mean([float(orthogonality_gap(model[:-1](batch).detach())) for batch in batches]))
    if frame == "polar":
        assert fresh < 0.35  # of at most √(15/16)
    elif depth == 100:
        assert fresh > 0.45  # what other frames do, they do to the batch they were made from only


def test_convolutions_are_orthogonalised_on_their_patches() -> None:
    parts: list[nn.Module] = [nn.Conv2d(3, 8, 3, padding=1, dtype=F64)]
    for _ in range(4):
        parts += [nn.ReLU(), nn.Conv2d(8, 8, 3, padding=1, dtype=F64)]
    parts += [nn.Conv2d(8, 8, 1, groups=2, dtype=F64), nn.Flatten(), nn.Linear(8 * 36, 4, dtype=F64)]
    model = nn.Sequential(*parts)
    x = draw(12, 3, 6, 6) + 0.5
    outcome = iterative_orthogonalization_(model, x, output_norm=1.0)
    assert [layer.name for layer in outcome.layers] == ["2", "4", "6", "8"]
    assert {name for name, _ in outcome.skipped} == {"0", "9", "11"}
    hidden = x
    for index, part in enumerate(model[:9]):
        if str(index) in ("2", "4", "6", "8"):
            weight = part.weight.detach().flatten(1)
            unfolded = functional.unfold(hidden, 3, padding=1).mT.flatten(0, 1)  # (patches, 72)
            produced = unfolded @ weight.mT
            assert float(produced.norm()) == pytest.approx(1.0, rel=1e-9)
            # W = V′ Σ^{−1/2} Uᵀ / c with orthonormal rows of V′: W C^{1/2} Wᵀ is a multiple of I
            values, vectors = torch.linalg.eigh(unfolded.mT @ unfolded)
            root = vectors @ torch.diag(values.clamp_min(0).sqrt()) @ vectors.mT
            middle = weight @ root @ weight.mT
            torch.testing.assert_close(middle / middle[0, 0], torch.eye(8, dtype=F64), atol=1e-6, rtol=0.0)
        hidden = part(hidden).detach()


def test_rectangular_layers_if_asked_for() -> None:
    model = nn.Sequential(nn.Linear(6, 9, dtype=F64), nn.ReLU(), nn.Linear(9, 4, dtype=F64))
    outcome = iterative_orthogonalization_(model, draw(30, 6), rectangular=True, exponent=1.0)
    assert [layer.shape for layer in outcome.layers] == [(9, 6), (4, 9)]
    hidden = model(draw(30, 6)).detach()
    torch.testing.assert_close(hidden.mT @ hidden / 30, torch.eye(4, dtype=F64), atol=1e-6, rtol=0.0)


def test_one_run_of_the_model_and_nothing_else_changes(capsys: pytest.CaptureFixture[str]) -> None:
    model = nn.Sequential(nn.Linear(5, 8), nn.BatchNorm1d(8), nn.ReLU(), nn.Linear(8, 8), nn.Dropout(0.5)).double()
    model.register_forward_hook(lambda *_: print("run"))  # a list would be put back as well
    kept = {name: value.clone() for name, value in model.state_dict().items() if not name.startswith("3.")}
    state = torch.get_rng_state()
    outcome = iterative_orthogonalization_(model, draw(40, 5), seed=1)
    assert capsys.readouterr().out == "run\n"
    assert [layer.name for layer in outcome.layers] == ["3"]
    assert outcome.skipped == (("0", "not square: 5 inputs, 8 outputs"),)
    assert all(torch.equal(model.state_dict()[name], value) for name, value in kept.items())
    assert torch.equal(state, torch.get_rng_state())
    assert not any(module._forward_pre_hooks for module in model.modules())
    assert all(p.requires_grad and p.is_leaf for p in model.parameters())


@pytest.mark.parametrize(
    ("make", "batch", "options", "message"),
    [
        (lambda: mlp(3, 8), draw(7, 8), {}, "sees 7 samples of 8 features; expected at least as many"),
        (lambda: mlp(1, 8, 5), draw(20, 5), {}, "no layer is square"),
        (lambda: mlp(3, 8), torch.zeros(20, 8, dtype=F64), {}, "sees zeros"),
        (lambda: mlp(3, 8), draw(20, 8) * math.inf, {}, "not finite"),
        (lambda: mlp(3, 8), draw(20, 8), {"exponent": 1.5}, "exponent is 1.5"),
        (lambda: mlp(3, 8), draw(20, 8), {"frame": "svd"}, "frame is 'svd'"),
        (lambda: mlp(3, 8), draw(20, 8), {"output_norm": 0.0}, "output_norm is 0.0"),
        (lambda: _twice(), draw(20, 8), {}, "runs more than once"),
    ],
)
def test_iterative_orthogonalisation_refuses(
    make: Callable[[], nn.Module], batch: torch.Tensor, options: dict, message: str
) -> None:
    model = make()
    refused(model, lambda: iterative_orthogonalization_(model, batch, **options), message)


def _twice() -> nn.Module:
    class Twice(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.first = nn.Linear(8, 8, dtype=F64)
            self.again = nn.Linear(8, 8, dtype=F64)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            result: torch.Tensor = self.again(self.again(self.first(x)))
            return result

    return Twice()


# --- rank pre-training ------------------------------------------------------------------------------------------------


def test_more_steps_raise_the_rank_of_the_last_layer() -> None:
    """Means over three seeds rise with the number of steps by more than their spread."""
    x = draw(128, 20) + 0.5
    last: dict[int, list[float]] = {}
    for steps in (0, 8, 40):
        for seed in range(3):
            model = mlp(8, 24, 20, bias=True, seed=seed)
            outcome = rank_pretraining_(model, x, steps=steps, seed=seed)
            for layer in outcome.layers:
                slack = 0.0 if steps else 1e-9
                assert layer.numbers["rank_after"] >= layer.numbers["rank_before"] - slack
            value = float(stable_rank(model[:-1](x).detach()))
            assert value == pytest.approx(outcome.layers[-1].numbers["rank_after"], rel=1e-9)
            last.setdefault(steps, []).append(value)
    assert max(last[0]) < 2
    for few, many in ((0, 8), (8, 40)):
        assert min(last[many]) > max(last[few])
    assert min(last[40]) > 6


def test_rank_pretraining_keeps_norms_and_treats_convolutions() -> None:
    model = nn.Sequential(
        nn.Conv2d(2, 4, 3), nn.ReLU(), nn.Conv2d(4, 4, 3), nn.ReLU(), nn.Flatten(), nn.Linear(16, 6)
    ).double()
    norms = [float(p.detach().norm()) for p in model.parameters() if p.dim() > 1]
    x = draw(40, 2, 6, 6) + 1
    outcome = rank_pretraining_(model, x, steps=15)
    after = [float(p.detach().norm()) for p in model.parameters() if p.dim() > 1]
    assert after == pytest.approx(norms, rel=1e-9)
    assert all(layer.numbers["rank_after"] > 1.2 * layer.numbers["rank_before"] for layer in outcome.layers)
    again = copy.deepcopy(model)
    first, second = rank_pretraining_(model, x, steps=3, seed=2), rank_pretraining_(again, x, steps=3, seed=2)
    assert [a.numbers == b.numbers for a, b in zip(first.layers, second.layers, strict=True)] == [True] * 3


@pytest.mark.parametrize(
    ("batch", "options", "message"),
    [
        (draw(1, 8), {}, "sees 1 sample; a rank needs at least 2"),
        (draw(9, 8), {"steps": -1}, "steps is -1"),
        (draw(9, 8), {"learning_rate": 0.0}, "learning_rate is 0.0"),
        (draw(9, 8), {"batch_size": 1}, "batch_size is 1"),
    ],
)
def test_rank_pretraining_refuses(batch: torch.Tensor, options: dict, message: str) -> None:
    model = mlp(3, 8, bias=True)
    refused(model, lambda: rank_pretraining_(model, batch, **options), message)


# --- what must not be written to --------------------------------------------------------------------------------------


def test_leading_directions_alone_lose_the_others() -> None:
    """The rows of a convolution then have no part in the other directions: V′ Σ^(−½) Uᵀ over as many as outputs."""
    made = torch.Generator().manual_seed(0)
    batch = torch.randn(40, 3, 6, 6, generator=made, dtype=torch.float64)
    model = nn.Sequential(nn.Conv2d(3, 3, 3, padding=1, bias=False)).double()
    iterative_orthogonalization_(model, batch, frame="slice", leading=True, seed=0)
    unfolded = nn.functional.unfold(batch, 3, padding=1).permute(0, 2, 1).reshape(-1, 27)
    _, sizes, right = torch.linalg.svd(unfolded, full_matrices=False)
    weight = model[0].weight.detach().flatten(1)
    assert (weight @ right[3:].T).abs().max() < 1e-10 * weight.norm()
    rows = unfolded[:: len(unfolded) // 3][:3]
    expected = (rows @ right[:3].T / sizes[:3] ** 1.5) @ right[:3]  # V′ Σ^(−½) Uᵀ with V′ = rows U Σ⁻¹
    assert torch.allclose(weight / weight.norm(), expected / expected.norm(), atol=1e-8)
