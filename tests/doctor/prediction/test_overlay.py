"""Theory over measurement: models with weights of the law stay inside the band, others do not.

`tools/check_overlay.py` runs all models of `support.overlay_models` with eight seeds each.
"""

from __future__ import annotations

import io
import math
from pathlib import Path

import numpy as np
import pytest
import torch
from rich.console import Console
from torch import nn

from isometer import Spec
from isometer.doctor import Prediction, diagnose, extract_network, predict_network, probe
from isometer.report._doctor_terminal import print_report
from support.overlay_models import ARCHITECTURES, BLOCKS, HEADS, IMAGES, MODULES, WIDTH, OwnBlock, build

SLICE = ("llama", "bert", "vit", "softmax written out", "nn.TransformerEncoder", "residual MLP", "ResNet", "VGG")


def predicted(model: nn.Module, batch: torch.Tensor, *, seconds: float = 0.0, runs: int = 32) -> Prediction:
    found = probe(model, batch)
    network = extract_network(model, found)
    assert network is not None
    return predict_network(network, found, seed=7, seconds=seconds, runs=runs)


def inside(found: Prediction) -> tuple[int, int]:
    """Layers at which all metrics are inside, and layers that have any."""
    layers = int(np.any([np.isfinite(band.low) for band in found.metrics.values()], axis=0).sum())
    return layers - len({layer for _, layer in found.leaves_band}), layers


def test_models_of_the_law_stay_inside() -> None:
    """A band holds for a whole model with probability 0.95: 3 or more of 8 leave theirs with probability 0.006."""
    counts = [inside(predicted(*build(name, 0))) for name in SLICE]
    assert sum(good < every for good, every in counts) <= 2
    assert sum(good for good, _ in counts) >= 0.95 * sum(every for _, every in counts)


@pytest.mark.slow
@pytest.mark.parametrize("name", [*ARCHITECTURES, *MODULES, *IMAGES])
def test_every_model_stays_inside(name: str) -> None:
    counts = [inside(predicted(*build(name, seed))) for seed in range(2)]
    assert sum(good for good, _ in counts) >= 0.9 * sum(every for _, every in counts)


def test_weights_that_are_no_draws_of_the_law_leave_the_band() -> None:
    """With rows that are all the same, features are too, and every token has the same direction."""
    model = nn.Sequential(*(OwnBlock(fused=True, post=False) for _ in range(BLOCKS)))
    with torch.no_grad():
        for block in model:
            rows = block.down.weight
            rows.copy_(rows[:1] * torch.sign(torch.randn(len(rows), 1, generator=torch.Generator().manual_seed(0))))
    good, every = inside(predicted(model, torch.randn(4, 12, WIDTH)))
    assert good < every


def test_infinite_width_is_inside_the_band_of_finite_width() -> None:
    torch.manual_seed(0)
    found = predicted(nn.Sequential(*(OwnBlock(fused=True, post=True) for _ in range(2))), torch.randn(3, 8, WIDTH),
                      seconds=12.0)  # fmt: skip
    assert set(found.infinite) == {"rms", "token_cosine", "sample_cosine", "attention_entropy"}
    for name, values in found.infinite.items():
        band = found.metrics[name]
        assert np.isfinite(values).sum() == np.isfinite(band.low).sum()
        # rms behind a layer norm is 1 at every width, up to ε and rounding
        assert not band.leaves(np.where(np.abs(values - band.mean) < 1e-5, band.mean, values)).any()


def test_what_is_measured_of_tokens() -> None:
    """Cosines with their sign and entropies in nats, against loops over the tokens themselves."""
    block = OwnBlock(fused=True, post=False)
    x = torch.randn(3, 6, WIDTH, generator=torch.Generator().manual_seed(0))
    found = probe(nn.Sequential(block), x)
    end = len(found) - 1
    with torch.no_grad():
        y = nn.functional.normalize(block(x), dim=-1)
        n, t = y.shape[:2]
        within = [float(y[i, a] @ y[i, b]) for i in range(n) for a in range(t) for b in range(t) if a != b]
        across = [float(y[i, a] @ y[j, a]) for a in range(t) for i in range(n) for j in range(n) if i != j]
        read = block.first(x)
        q, k = (part(read).view(n, t, HEADS, -1).transpose(1, 2) for part in (block.query, block.key))
        scores = (q @ k.mT / math.sqrt(WIDTH // HEADS)).masked_fill(torch.ones(t, t).triu(1).bool(), -torch.inf)
        a = scores.softmax(-1)
        entropy = float(-(a * a.clamp(min=1e-30).log()).sum(-1).mean())
    assert found.values["token_cosine"][end] == pytest.approx(np.mean(within), abs=1e-6)
    assert found.values["sample_cosine"][end] == pytest.approx(np.mean(across), abs=1e-6)
    at = next(layer for layer, site in enumerate(found.sites) if site.attention is not None)
    assert found.values["attention_entropy"][at] == pytest.approx(entropy, abs=1e-5)


def test_the_report_has_the_network_and_the_prediction(tmp_path: Path) -> None:
    torch.manual_seed(0)
    model = nn.Sequential(*(OwnBlock(fused=True, post=True) for _ in range(2)))
    report = diagnose(model, torch.randn(3, 8, WIDTH), stress=False)
    document = report.to_dict()
    found = document["prediction"]
    assert Spec(found["network"]) == Spec.from_json(report.prediction.spec.to_json())
    assert set(found["metrics"]) == {"rms", "token_cosine", "sample_cosine", "attention_entropy"}
    assert all(len(band["low"]) == len(found["layers"]) for band in found["metrics"].values())
    page = io.StringIO()
    print_report(Console(file=page, width=200), document)
    assert "Network: input(64, [8]) > repeat(" in page.getvalue()
    assert "The measurement is inside the band of theory at" in page.getvalue()
    report.to_html(tmp_path / "report.html")
    text = (tmp_path / "report.html").read_text(encoding="utf-8")
    assert "attention(4, head_width=16" in text
    assert report.to_dataset()["predicted_token_cosine"].shape[0] == 3


def test_large_networks_have_fewer_draws_or_none() -> None:
    from isometer.doctor.prediction._predict_network import _affordable

    small = Spec("input(64, [8]) > repeat(residual(norm('layer') > dense(64)), 2)")
    large = Spec("input(4096, [512]) > repeat(residual(norm('layer') > dense(16384) > dense(4096)), 48)")
    assert _affordable(small, "gram", 4, 32) == (32, "")
    assert _affordable(large, "gram", 4, 32)[0] == 0


@pytest.mark.parametrize("samples", [3, 7, 70])
def test_the_same_samples_are_measured_and_drawn(samples: int) -> None:
    """A convolution over sequences, of which the probe keeps every few samples, through orthogonal weights."""
    first, second = nn.Conv1d(6, 6, 1, bias=False), nn.Conv1d(6, 6, 1, bias=False)
    for layer in (first, second):
        nn.init.orthogonal_(layer.weight.data[:, :, 0])
    x = torch.randn(samples, 6, 10, generator=torch.Generator().manual_seed(0))
    x = x * torch.linspace(0.2, 3.0, samples)[:, None, None]  # a wrong choice of samples has another size
    found = predicted(nn.Sequential(first, second), x)
    assert {metric for metric, _ in found.leaves_band} == set()
