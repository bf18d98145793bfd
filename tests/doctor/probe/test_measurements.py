"""What a probe reports equals what one computes by hand."""

from __future__ import annotations

import json
import math

import numpy as np
import pytest
import torch
from torch import nn
from torch.nn import functional

from isometer import metrics
from isometer.doctor import probe

NAMES = (
    "orthogonality_gap",
    "isometry_gap",
    "stable_rank",
    "effective_rank",
    "mean_abs_cosine",
    "mean_angle_deg",
)


def _double(model: nn.Module) -> nn.Module:
    torch.manual_seed(1)
    for parameter in model.parameters():
        nn.init.normal_(parameter, std=0.4)
    return model.double()


def _row(found, op: str, call: int = 0) -> int:
    return [i for i, site in enumerate(found.sites) if site.op == op][call]


def _cosine_mean(gradients: torch.Tensor) -> float:
    return float(metrics.gradient_alignment(gradients).mean_abs_cosine)


def _per_sample(model: nn.Module, batch: torch.Tensor, weight: str, cotangent: torch.Tensor) -> torch.Tensor:
    """Gradients of each sample's own loss, one at a time."""
    rows = []
    for i in range(batch.shape[0]):
        output = model(batch[i : i + 1])
        (gradient,) = torch.autograd.grad(output, model.get_parameter(weight), cotangent[i : i + 1])
        rows.append(gradient.flatten())
    return torch.stack(rows)


def _cotangent(output: torch.Tensor, seed: int = 0) -> torch.Tensor:
    return torch.randn(output.shape, generator=torch.Generator().manual_seed(seed)).to(output)


def test_mlp_by_hand() -> None:
    model = _double(nn.Sequential(nn.Linear(6, 9), nn.Tanh(), nn.Linear(9, 9), nn.ReLU(), nn.Linear(9, 4)))
    x = torch.randn(5, 6, dtype=torch.float64)
    found = probe(model, x)
    h = x
    for layer in range(6):
        if layer:
            h = model[layer - 1](h).detach()
        np.testing.assert_allclose(found.gram(layer), (h @ h.mT / h.shape[1]).detach().numpy(), rtol=1e-12, atol=1e-14)
        for name in NAMES:
            expected = float(getattr(metrics, name)(gram=(h @ h.mT).detach()))
            assert found.values[name][layer] == pytest.approx(expected, rel=1e-9), (name, layer)
        assert found.values["rms"][layer] == pytest.approx(float(h.square().mean().sqrt()), rel=1e-12)
        assert found.values["max_abs"][layer] == float(h.abs().max())
        assert found.values["overflow_headroom"][layer] == pytest.approx(
            math.log10(torch.finfo(torch.float64).max) - math.log10(h.abs().max()), rel=1e-12
        )
    dead = (model[:4](x) == 0).all(0).double().mean().item()
    assert found.values["dead_fraction"][4] == pytest.approx(dead)
    tanh = model[:2](x)
    assert found.values["saturated_fraction"][2] == pytest.approx((1 - tanh**2 <= 0.05).double().mean().item())
    data = found.to_dataset()
    assert data["depth"].values.tolist() == [0, 1, 1, 2, 2, 3]
    assert data["site"].values.tolist() == ["output", "pre-activation", "output", "pre-activation", "output", "output"]
    assert data["name"].values.tolist() == ["input", "0", "1", "2", "3", "4"]
    json.dumps(found.to_dict(), allow_nan=False)


def test_gradient_norms_by_hand() -> None:
    model = _double(nn.Sequential(nn.Linear(6, 9), nn.Tanh(), nn.Linear(9, 4)))
    x = torch.randn(5, 6, dtype=torch.float64, requires_grad=True)
    found = probe(model, x)
    hidden = [x]
    for module in model:
        hidden.append(module(hidden[-1]))
    gradients = torch.autograd.grad(
        hidden[-1], [*hidden, model[0].weight, model[2].weight], _cotangent(hidden[-1]), allow_unused=True
    )
    logs = [float(g.norm().log()) for g in gradients]
    np.testing.assert_allclose(found.values["output_gradient_log_norm"], logs[:4], rtol=1e-10)
    np.testing.assert_allclose(found.values["gradient_log_norm"][[0, 1, 3]], [logs[0], *logs[4:]], rtol=1e-10)


def test_loss_and_target() -> None:
    model = _double(nn.Sequential(nn.Linear(6, 3)))
    x, y = torch.randn(8, 6, dtype=torch.float64), torch.arange(8) % 3
    found = probe(model, x, target=y, loss=functional.cross_entropy)
    (gradient,) = torch.autograd.grad(functional.cross_entropy(model(x), y), model[0].weight)
    assert found.values["gradient_log_norm"][1] == pytest.approx(float(gradient.norm().log()), rel=1e-10)
    assert probe(model, x, loss=lambda out: out.square().mean()).values["gradient_log_norm"][1] != 0


def test_alignment_of_linear_layers_is_exact() -> None:
    model = _double(nn.Sequential(nn.Linear(6, 9), nn.ReLU(), nn.Linear(9, 4)))
    x = torch.randn(7, 6, dtype=torch.float64)
    found = probe(model, x)
    cotangent = _cotangent(model(x))
    for layer, weight in ((1, "0.weight"), (3, "2.weight")):
        expected = _cosine_mean(_per_sample(model, x, weight, cotangent))
        assert found.values["gradient_alignment"][layer] == pytest.approx(expected, rel=1e-9)
        assert found.sites[layer].alignment == "exact"


@pytest.mark.parametrize("tokens", [2, 11])
def test_alignment_of_linear_layers_on_tokens_is_exact(tokens: int) -> None:
    model = _double(nn.Sequential(nn.Linear(6, 9), nn.GELU(), nn.Linear(9, 4)))
    x = torch.randn(5, tokens, 6, dtype=torch.float64)
    found = probe(model, x)
    for layer, weight in ((1, "0.weight"), (3, "2.weight")):
        expected = _cosine_mean(_per_sample(model, x, weight, _cotangent(model(x))))
        assert found.values["gradient_alignment"][layer] == pytest.approx(expected, rel=1e-9)


@pytest.mark.parametrize(
    "convolution",
    [
        nn.Conv2d(3, 5, 3, stride=2, padding=1),
        nn.Conv2d(4, 6, (3, 2), padding="same", groups=2, dilation=(1, 2)),
        nn.Conv1d(3, 5, 3, padding=1),
        nn.ConvTranspose2d(3, 4, 3, stride=2, padding=1, output_padding=1),
        nn.Conv2d(3, 4, 1),
        nn.Conv2d(3, 4, 1, stride=(3, 2)),
        nn.Conv2d(3, 4, (4, 2), stride=(3, 2), dilation=(2, 3), padding=(3, 1)),
        nn.ConvTranspose2d(4, 6, (2, 3), stride=(3, 1), groups=2),
    ],
    ids=["strided", "grouped", "1d", "transposed", "1x1", "thinned", "dilated", "transposed-grouped"],
)
def test_alignment_of_few_channels_is_exact(convolution: nn.Module) -> None:
    model = _double(nn.Sequential(convolution, nn.Flatten()))
    channels = convolution.in_channels
    shape = (6, channels, 8) if isinstance(convolution, nn.Conv1d) else (6, channels, 8, 8)
    x = torch.randn(shape, dtype=torch.float64)
    found = probe(model, x)
    expected = _cosine_mean(_per_sample(model, x, "0.weight", _cotangent(model(x))))
    assert found.values["gradient_alignment"][1] == pytest.approx(expected, rel=1e-9)
    assert found.sites[1].alignment == "exact"


def test_sketched_alignment_is_close() -> None:
    """Over seeds the sketch is off by 0.026 (one standard deviation) in the first layer, 0.010 in the second."""
    torch.manual_seed(0)
    model = nn.Sequential(nn.Conv2d(40, 50, 3, padding=1), nn.ReLU(), nn.Conv2d(50, 33, 1))
    shared = torch.randn(1, 40, 6, 6)
    x = (shared + torch.randn(8, 40, 6, 6)).relu()
    found = [probe(model, x, seed=0, loss=lambda out: out.square().sum()) for _ in range(1)]
    output = model(x)
    for layer, weight in ((1, "0.weight"), (3, "2.weight")):
        rows = []
        for i in range(8):
            (gradient,) = torch.autograd.grad(output[i].square().sum(), model.get_parameter(weight), retain_graph=True)
            rows.append(gradient.flatten())
        expected = _cosine_mean(torch.stack(rows))
        assert found[0].sites[layer].alignment == "sketch"
        assert found[0].values["gradient_alignment"][layer] == pytest.approx(expected, abs=0.1)


def test_alignment_under_batch_norm_is_the_contribution_to_the_sum() -> None:
    model = _double(nn.Sequential(nn.Linear(4, 6), nn.BatchNorm1d(6), nn.ReLU(), nn.Linear(6, 3)))
    x = torch.randn(5, 4, dtype=torch.float64)
    found = probe(model, x)
    z = model[0](x)
    output = model[1:](z)
    (delta,) = torch.autograd.grad(output, z, _cotangent(output))
    contributions = torch.einsum("no,ni->noi", delta, x).flatten(1)
    assert found.values["gradient_alignment"][1] == pytest.approx(_cosine_mean(contributions), rel=1e-8)


def test_cnn_and_pixels_by_hand() -> None:
    model = _double(nn.Sequential(nn.Conv2d(2, 4, 3, padding=1), nn.ReLU(), nn.AdaptiveAvgPool2d(1), nn.Flatten()))
    x = torch.randn(4, 2, 5, 5, dtype=torch.float64)
    found = probe(model, x)
    assert [site.op for site in found.sites] == ["input", "Conv2d", "ReLU", "AdaptiveAvgPool2d"]
    h = model[:2](x).detach()
    flat = h.flatten(1)
    np.testing.assert_allclose(found.gram(2), (flat @ flat.mT / flat.shape[1]).numpy(), rtol=1e-12)
    pixels = h.flatten(2).mT  # (n, 25, 4)
    expected = metrics.stable_rank(gram=pixels @ pixels.mT).mean()
    assert found.values["token_stable_rank"][2] == pytest.approx(float(expected), rel=1e-10)
    assert found.values["dead_fraction"][2] == pytest.approx((h == 0).all(0).all(-1).all(-1).double().mean().item())


class Attention(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.qkv, self.out = nn.Linear(8, 24), nn.Linear(8, 8)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        q, k, v = (t.unflatten(-1, (2, 4)).transpose(1, 2) for t in self.qkv(x).chunk(3, -1))
        h = functional.scaled_dot_product_attention(q, k, v)
        return x + self.out(h.transpose(1, 2).flatten(2))


def test_attention_by_hand() -> None:
    model = _double(Attention())
    x = torch.randn(4, 6, 8, dtype=torch.float64)
    found = probe(model, x)
    assert [site.op for site in found.sites] == ["input", "Linear", "scaled_dot_product_attention", "Linear", "add"]
    assert [site.depth for site in found.sites] == [0, 1, 1, 2, 2]
    y = model(x).detach()
    tokens = y @ y.mT
    assert found.values["token_mean_abs_cosine"][4] == pytest.approx(
        float(metrics.mean_abs_cosine(gram=tokens).mean()), rel=1e-9
    )
    q, k, v = (t.unflatten(-1, (2, 4)).transpose(1, 2) for t in model.qkv(x).chunk(3, -1))
    h = functional.scaled_dot_product_attention(q, k, v).transpose(1, 2).flatten(2).detach()
    expected = metrics.stable_rank(gram=h @ h.mT).mean()
    assert found.values["token_stable_rank"][2] == pytest.approx(float(expected), rel=1e-9)


def test_weights_by_hand() -> None:
    model = _double(nn.Sequential(nn.Linear(30, 40), nn.LayerNorm(40), nn.Tanh(), nn.Conv1d(5, 7, 2), nn.ReLU()))
    found = probe(model, torch.randn(3, 5, 30, dtype=torch.float64), spectra=True)
    linear, convolution = _row(found, "Linear"), _row(found, "Conv1d")
    for row, weight, fan_in, gain in (
        (linear, model[0].weight, 30, 1.5925374197),
        (convolution, model[3].weight, 10, math.sqrt(2)),
    ):
        weight = weight.detach()
        std = weight.std(correction=0)
        assert found.values["weight_gain"][row] == pytest.approx(float(std) * math.sqrt(fan_in), rel=1e-10)
        assert found.values["weight_asymmetry"][row] == pytest.approx(
            float(weight.mean() / std) * math.sqrt(fan_in), rel=1e-9
        )
        assert found.values["principled_gain"][row] == pytest.approx(gain, rel=1e-8)
        matrix = weight.detach().flatten(1)
        assert found.values["weight_spectral_norm"][row] == pytest.approx(
            float(torch.linalg.matrix_norm(matrix, 2)), rel=1e-10
        )
    assert found.sites[linear].normalized
    assert not found.sites[convolution].normalized


def test_large_batches_are_subsampled() -> None:
    found = probe(nn.Sequential(nn.Linear(4, 4), nn.ReLU()), torch.randn(200, 4))
    assert found.sites[1].gram is not None
    assert found.sites[1].gram.shape == (50, 50)
    assert np.isfinite(found.values["gradient_alignment"][1])


def test_exploding_gradients_are_rescaled_and_located() -> None:
    layers = [nn.Linear(16, 16, bias=False) for _ in range(40)]
    for layer in layers:
        nn.init.normal_(layer.weight, std=3.0)  # a factor of 12 per layer, 1e43 in all

    class Shrink(nn.Module):
        """Forward 1/12, backward untouched: activations stay finite while gradients overflow."""

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return x + (x / 12 - x).detach()

    model = nn.Sequential(*(module for layer in layers for module in (layer, Shrink())))
    found = probe(model, torch.randn(4, 16))
    assert found.nonfinite_layer is None
    assert found.loss_exponent < 0
    assert found.nonfinite_gradient_layer is not None
    assert 0 < found.nonfinite_gradient_layer < 12
    double = probe(model.double(), torch.randn(4, 16, generator=torch.Generator().manual_seed(0)).double())
    assert double.loss_exponent == 0
    logs = found.values["output_gradient_log_norm"]
    assert np.isfinite(logs).all()
    assert logs[0] > 88  # beyond float32
    rate = np.polyfit(np.arange(len(logs)), logs, 1)[0]
    expected = np.polyfit(np.arange(len(logs)), double.values["output_gradient_log_norm"], 1)[0]
    assert rate == pytest.approx(expected, rel=0.05)


def test_huge_and_tiny_activations_have_metrics() -> None:
    for scale in (1e30, 1e-30):
        model = nn.Sequential(nn.Linear(6, 6, bias=False))
        x = torch.randn(4, 6)
        expected = probe(model, x)
        found = probe(model, x * scale)
        for name in ("stable_rank", "mean_abs_cosine", "gradient_alignment"):
            np.testing.assert_allclose(found.values[name][1], expected.values[name][1], rtol=1e-4)
        assert found.values["rms"][1] == pytest.approx(expected.values["rms"][1] * scale, rel=1e-4)


@pytest.mark.parametrize("scale", [1.0, 1e-22], ids=["ordinary", "tiny"])
@pytest.mark.parametrize("cancelled", [0.0, 1e-5], ids=["spread", "cancelling"])
def test_single_precision_keeps_the_norm_of_gradients(scale: float, cancelled: float) -> None:
    """Pairs of samples whose gradients cancel to a part in 1e5, and cotangents whose squares float32 does not hold."""
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(32, 32), nn.Tanh(), nn.Linear(32, 6, bias=False))
    x, cotangent = torch.randn(8, 32), torch.randn(8, 6) * scale
    if cancelled:
        x[4:] = x[:4]
        cotangent[4:] = -cotangent[:4] * (1 + cancelled)
    found = probe(model, x, loss=lambda out: (out * cotangent.to(out)).sum())
    hidden = model[:2](x).detach().double()
    expected = (cotangent.double().mT @ hidden).norm().log()
    assert found.values["gradient_log_norm"][3] == pytest.approx(float(expected), abs=1e-5)


def test_input_overwritten_after_it_was_read() -> None:
    """What a layer reads is not what the site before it saw, if it was written to in between behind a view."""
    torch.manual_seed(0)

    class Overwritten(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.first, self.second = nn.Linear(5, 6), nn.Linear(6, 3)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            h = self.first(x)
            h[:, :2].mul_(7.0)
            return self.second(h)

    model, x = Overwritten().double(), torch.randn(4, 5, dtype=torch.float64)
    found = probe(model, x)
    output = model(x)
    (gradient,) = torch.autograd.grad(output, model.second.weight, _cotangent(output))
    layer = [site.name for site in found.sites].index("second")
    assert found.values["gradient_log_norm"][layer] == pytest.approx(float(gradient.norm().log()), rel=1e-10)


def test_several_metrics_at_once_are_those_one_at_a_time() -> None:
    from isometer.metrics._several import gradient_alignment_unchecked, several

    torch.manual_seed(0)
    x = torch.randn(12, 9, 20) * torch.logspace(-6, 6, 12)[:, None, None]
    x[3], x[4, 5], x[5, 1:] = 0, 0, x[5, :1].clone()
    gram = x @ x.mT
    gram = (gram + gram.mT) / 2
    for name, values in several(gram, [metrics.METRICS[name] for name in NAMES]).items():
        assert torch.equal(values, getattr(metrics, name)(gram=gram)), name
    assert all(map(torch.equal, gradient_alignment_unchecked(gram), metrics.gradient_alignment(gram=gram)))


# --- where the model ends ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("scale", [1.0, 1e30])
def test_the_loss_and_its_gradient_by_the_output(scale: float) -> None:
    """Against autograd; with gradients that overflow on their way back the pass is repeated, and says the same."""
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(4, 3), *[Times(scale) for _ in range(3)]).double()
    x, y = torch.randn(5, 4, dtype=torch.float64), torch.tensor([0, 1, 2, 0, 1])
    output = model(x).detach().requires_grad_()
    value = functional.cross_entropy(output, y)
    value.backward()
    end = probe(model, x, target=y, loss=functional.cross_entropy).loss
    assert (end.value, end.finite) == (pytest.approx(value.item()), True)
    np.testing.assert_allclose(end.gradient_norms, output.grad.norm(dim=1), rtol=1e-9)


class Times(nn.Module):
    """Hands on its input, and a multiple of its gradient."""

    def __init__(self, factor: float) -> None:
        super().__init__()
        self.factor = factor

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x + (self.factor - 1.0) * (x - x.detach())


def test_losses_that_are_not_finite_and_models_without_a_loss() -> None:
    model, x = nn.Linear(3, 2), torch.randn(4, 3)
    broken = probe(model, x, loss=lambda output: (output * math.inf).sum()).loss
    assert not broken.finite
    free = probe(model, x).loss
    assert math.isnan(free.value)
    assert free.finite
    assert len(free.gradient_norms) == 4
    assert probe(model, x).to_dict()["loss"]["value"] is None


def test_the_steps_that_made_the_output_are_known() -> None:
    class Two(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.body, self.head = nn.Linear(3, 4), nn.Linear(4, 2)

        def forward(self, x: torch.Tensor) -> dict[str, torch.Tensor]:
            h = torch.tanh(self.body(x))
            return {"logits": self.head(h), "pooled": h.mean(1)}

    found = probe(Two(), torch.randn(4, 3))
    assert [found.trace[step].name for step in found.outputs] == ["linear", "mean"]
    assert found.trace[found.outputs[0]].layer == len(found) - 1
