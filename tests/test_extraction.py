"""From models to specs, and predicted trajectories against measured ones.

References are closed forms, quadrature written here, and plain torch networks drawn from the law.
"""

from __future__ import annotations

import copy
import dataclasses
import json
import math
from collections.abc import Callable
from itertools import pairwise
from typing import Any

import numpy as np
import pytest
import torch
from scipy import stats
from torch import nn
from torch.nn import functional

from isometer.doctor import Examination, probe
from isometer.doctor.prediction import Chain, extract, predict_chain, why_not
from isometer.doctor.prediction._bands import bands
from isometer.doctor.prediction._infinite_width import infinite_width
from isometer.errors import IsometerError
from isometer.spec import Spec
from isometer.theory.batch_norm import batch_norm_fixed_point

WIDTH, SAMPLES, DEPTH = 48, 6, 6
NORMS: dict[str, Callable[[int], nn.Module]] = {
    "batch": nn.BatchNorm1d,
    "layer": nn.LayerNorm,
    "rms": nn.RMSNorm,
    "": lambda width: nn.Identity(),
}


class Net(nn.Module):
    """Blocks in a loop; Gaussian or orthogonal weights of a given gain."""

    def __init__(
        self,
        phi: Callable[[torch.Tensor], torch.Tensor] = torch.relu,
        *,
        depth: int = DEPTH,
        width: int = WIDTH,
        norm: str = "",
        form: str = "pre",
        gain: float = 1.0,
        bias: float = 0.0,
        gamma: float = 1.0,
        orthogonal: bool = False,
        seed: int = 0,
    ) -> None:
        super().__init__()
        torch.manual_seed(seed)
        self.phi, self.form, self.gamma = phi, form, gamma
        self.weights = nn.ModuleList([nn.Linear(width, width, bias=bias > 0) for _ in range(depth)])
        for layer in self.weights:
            if orthogonal:
                nn.init.orthogonal_(layer.weight, gain)
            else:
                nn.init.normal_(layer.weight, 0.0, gain / math.sqrt(width))
            if bias:
                nn.init.normal_(layer.bias, 0.0, math.sqrt(bias))
        self.norms = nn.ModuleList([NORMS[norm](width) for _ in range(depth)])
        self.stem = nn.Linear(width, width)
        self.head = nn.Linear(width, 5)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = self.stem(x) if "skip" in self.form else x
        for weights, norm in zip(self.weights, self.norms, strict=True):
            if self.form == "pre":
                x = self.phi(norm(weights(x)))
            elif self.form == "post":
                x = norm(self.phi(weights(x)))
            elif self.form == "skip":
                x = x + self.gamma * weights(self.phi(norm(x)))
            elif self.form == "skip-alpha":
                x = self.phi(torch.add(x, weights(x), alpha=self.gamma))
            elif self.form == "skip-outside":
                x = x + self.phi(weights(x)) * self.gamma
            elif self.form == "scaled":
                x = self.phi(weights(x)) * self.gamma
            elif self.form == "product":
                x = self.phi(x @ weights.weight.T)
        return self.head(x)


def draw(samples: int = SAMPLES, width: int = WIDTH, seed: int = 0, **options: Any) -> torch.Tensor:
    generator = torch.Generator().manual_seed(seed)
    common = torch.randn(1, width, generator=generator, **options)
    return torch.randn(samples, width, generator=generator, **options) + 0.5 * common


def chain_of(model: nn.Module, batch: Any, **options: Any) -> tuple[Chain, Examination]:
    found = probe(model, batch, **options)
    chain = extract(model, found)
    assert chain is not None, why_not(model, found)
    return chain, found


# --- extraction -------------------------------------------------------------------------------------------------------

FORMS: list[tuple[dict[str, Any], dict[str, Any], tuple[str, ...], str]] = [
    ({"gain": 1.4}, {"activation": "relu", "gain": 1.4}, ("weights", "activation"), "relu"),
    ({"phi": nn.GELU(), "norm": "batch"}, {"activation": "gelu"}, ("weights", "norm", "activation"), "GELU"),
    ({"phi": functional.silu, "norm": "layer", "form": "post"}, {"activation": "silu"},
     ("weights", "activation", "norm"), "LayerNorm"),
    ({"phi": torch.tanh, "bias": 0.3}, {"activation": "tanh", "bias_variance": 0.3}, ("weights", "activation"), "tanh"),
    ({"orthogonal": True, "gain": 1.2}, {"weights": "orthogonal", "gain": 1.2}, ("weights", "activation"), "relu"),
    ({"form": "skip", "gamma": 0.3}, {"residual": 0.3}, ("activation", "weights", "residual"), "add"),
    ({"form": "skip", "norm": "rms"}, {"residual": 1.0}, ("norm", "activation", "weights", "residual"), "add"),
    ({"form": "skip-alpha", "gamma": 0.2}, {"residual": 0.2}, ("weights", "residual", "activation"), "relu"),
    ({"form": "skip-outside", "gamma": 0.5}, {"residual": 0.5}, ("weights", "activation", "residual"), "add"),
    ({"form": "product", "gain": 0.7}, {"gain": 0.7}, ("weights", "activation"), "relu"),
]  # fmt: skip


@pytest.mark.parametrize(("options", "fields", "operations", "end"), FORMS)
def test_the_spec_of_a_chain_is_that_of_its_law(
    options: dict[str, Any], fields: dict[str, Any], operations: tuple[str, ...], end: str
) -> None:
    model = Net(**options)
    chain, found = chain_of(model, draw())
    assert chain.spec.operations == operations
    assert chain.spec.layers == DEPTH
    assert chain.spec.widths == (WIDTH,) * DEPTH
    for name, value in fields.items():
        measured = getattr(chain.spec, name)
        if isinstance(value, str):
            assert measured == value
        else:  # five deviations of a sample deviation of that many numbers
            count = WIDTH * DEPTH * (1 if name == "bias_variance" else WIDTH)
            exact = name == "residual" or options.get("orthogonal")
            assert measured == pytest.approx(value, rel=1e-6 if exact else 5 * math.sqrt(2 / count))
    assert chain.modules == tuple(f"weights.{i}" for i in range(DEPTH)) or options.get("form") == "product"
    ops = [found.sites[layer].op for layer in chain.layers]
    assert ops[1:] == [end] * DEPTH, ops
    assert chain.differentiable


def test_norms_carry_their_constants() -> None:
    model = Net(norm="batch")
    for norm in model.norms:
        norm.eps = 0.25
        nn.init.constant_(norm.weight, 2.0)
        nn.init.constant_(norm.bias, -0.5)
    norm = chain_of(model, draw())[0].spec.norm
    assert norm is not None
    assert (norm.over, norm.recenter, norm.eps, norm.scale, norm.shift) == ("batch", True, 0.25, 2.0, -0.5)


def test_numbers_behind_activations_belong_to_the_next_weights() -> None:
    spec = chain_of(Net(form="scaled", gamma=1.5), draw())[0].spec
    assert isinstance(spec.gain, tuple)
    assert spec.gain[1:] == pytest.approx([1.5 * spec.gain[0]] * (DEPTH - 1))


def test_gains_that_differ_are_kept_per_layer() -> None:
    model = Net()
    with torch.no_grad():
        for i, layer in enumerate(model.weights):
            layer.weight *= 1.2**i
    gain = chain_of(model, draw())[0].spec.gain
    assert isinstance(gain, tuple)
    assert np.diff(np.log(gain)) == pytest.approx(math.log(1.2), abs=0.1)


def test_nested_modules_widths_and_inplace_activations() -> None:
    torch.manual_seed(0)
    widths = [40, 32, 24, 24, 24]
    blocks = [
        nn.Sequential(nn.Linear(a, b, bias=False), nn.Sequential(nn.LeakyReLU(0.2, inplace=True)))
        for a, b in pairwise(widths)
    ]
    model = nn.Sequential(nn.Flatten(), nn.Sequential(*blocks), nn.Dropout(0.0), nn.Linear(24, 3))
    chain, found = chain_of(model, draw(5, 40).reshape(5, 8, 5))
    assert chain.spec.widths == (32, 24, 24, 24)
    assert chain.spec.input_width == 40
    assert chain.activation == "leaky_relu(0.2)"
    assert chain.layers == (0, 2, 4, 6, 8)
    assert found.sites[chain.head or 0].name == "3"


def test_a_head_behind_a_convolutional_trunk_is_found() -> None:
    torch.manual_seed(0)
    head = [part for _ in range(5) for part in (nn.Linear(8, 8), nn.Tanh())]
    model = nn.Sequential(nn.Conv2d(3, 8, 3), nn.ReLU(), nn.AdaptiveAvgPool2d(1), nn.Flatten(), *head)
    chain, found = chain_of(model, torch.randn(6, 3, 8, 8))
    assert chain.spec.layers >= 4
    assert found.sites[chain.layers[-1]].name == "13"


class TwoInputs(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.layers = nn.ModuleList([nn.Linear(16, 16) for _ in range(4)])
        self.norms = nn.ModuleList([nn.LayerNorm(16) for _ in range(4)])

    def forward(self, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        x = x + y
        for layer, norm in zip(self.layers, self.norms, strict=True):
            x = torch.relu(norm(layer(x)))
        return x


def test_models_of_several_inputs_fall_back_on_the_order_of_execution() -> None:
    chain, _ = chain_of(TwoInputs(), (torch.randn(5, 16), torch.randn(5, 16)))
    assert "order of execution" in chain.note
    assert chain.spec.operations == ("weights", "norm", "activation")
    assert chain.spec.layers == 4


def test_sites_that_a_probe_left_out_are_missed() -> None:
    """Restricted to its linear layers, a probe does not see activations; that must not pass for a linear network."""
    model = nn.Sequential(*[part for _ in range(5) for part in (nn.Linear(8, 8), nn.ReLU())])
    linear = [str(2 * i) for i in range(5)]
    assert extract(model, probe(model, draw(4, 8), layers=linear)) is None
    twin = TwoInputs()
    found = probe(twin, (draw(4, 16), draw(4, 16)), layers=["layers.*"])
    assert extract(twin, found) is None
    assert "left out" in why_not(twin, found)


def test_the_model_is_left_as_it_was() -> None:
    model = Net(norm="batch")
    found = probe(model, draw())
    before, state = copy.deepcopy(model.state_dict()), torch.get_rng_state()
    hooks = [len(m._forward_hooks) for m in model.modules()]
    extract(model, found)
    assert all(torch.equal(value, before[name]) for name, value in model.state_dict().items())
    assert torch.equal(torch.get_rng_state(), state)
    assert hooks == [len(m._forward_hooks) for m in model.modules()]
    assert model.training


class Tower(nn.Module):
    """Two weight layers in a branch, one module used again, or a skip that is scaled."""

    def __init__(self, form: str) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.form = form
        self.first = nn.ModuleList([nn.Linear(16, 16) for _ in range(5)])
        self.second = nn.ModuleList([nn.Linear(16, 16) for _ in range(5)])

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        for first, second in zip(self.first, self.second, strict=True):
            if self.form == "two":
                x = x + second(torch.relu(first(x)))
            elif self.form == "again":
                x = torch.relu(self.first[0](x))
            elif self.form == "scaled-skip":
                x = 0.5 * x + torch.relu(first(x))
            elif self.form == "gated":
                x = torch.sigmoid(first(x)) * second(x)
            elif self.form == "concatenated":
                x = torch.cat([x[:, :8], torch.relu(first(x))[:, :8]], 1)
            else:
                x = functional.prelu(first(x), first.weight[:1, 0])
        return x


def with_means(shift: float) -> nn.Module:
    model = Net()
    with torch.no_grad():
        for layer in model.weights:
            layer.weight += shift
    return model


@pytest.mark.parametrize(
    ("model", "batch", "reason"),
    [
        (Tower("two"), (6, 16), "2 weight layers"),
        (Tower("again"), (6, 16), "same weights"),
        (nn.Sequential(*[copy.deepcopy(m) for _ in range(4) for m in (Tower("").first[0], nn.ReLU())]), (6, 16),
         "same weights"),
        (Tower("scaled-skip"), (6, 16), "adds something else"),
        (Tower("gated"), (6, 16), "no step"),
        (Tower("concatenated"), (6, 16), "no step"),
        (Tower("prelu"), (6, 16), "registry"),
        (Net(depth=2), (6, WIDTH), "has 2"),
        (with_means(0.2), (6, WIDTH), "centred"),
        (nn.Sequential(nn.Conv2d(3, 3, 3), nn.ReLU()), (6, 3, 8, 8), "conv2d"),
        (nn.RNN(4, 8, batch_first=True), (6, 5, 4), "no fully connected layer"),
        (nn.TransformerEncoder(nn.TransformerEncoderLayer(16, 2, 32, batch_first=True), 3), (6, 5, 16), "no step"),
        (nn.Sequential(*[m for _ in range(4) for m in (nn.Linear(8, 8), nn.ReLU())]), (6, 5, 8), "more than"),
        (Net(norm="batch"), (70, WIDTH), "at most 64"),
    ],
)  # fmt: skip
def test_what_is_no_chain_says_why(model: nn.Module, batch: tuple[int, ...], reason: str) -> None:
    torch.manual_seed(1)
    found = probe(model, torch.randn(batch))
    assert extract(model, found) is None
    assert reason in why_not(model, found)


def test_batch_norm_in_evaluation_is_no_chain_whoever_chose_the_mode() -> None:
    model = Net(norm="batch")
    assert "running statistics" in why_not(model, probe(model, draw(), mode="eval"))
    model.eval()
    assert "running statistics" in why_not(model, probe(model, draw()))
    assert why_not(model.train(), probe(model, draw())) == ""


def test_gradients_of_a_chain_that_others_read_are_not_its_own() -> None:
    class Auxiliary(Net):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            middle = x
            for i, layer in enumerate(self.weights):
                x = torch.relu(layer(x))
                middle = x if i == 2 else middle
            return self.head(x).sum(1) + self.stem(middle).sum(1)

    chain, found = chain_of(Auxiliary(), draw())
    assert not chain.differentiable
    assert "output_gradient_log_norm" not in predict_chain(chain, found, runs=8).metrics


# --- infinite width ---------------------------------------------------------------------------------------------------


def arc_cosine(gram: np.ndarray[Any, Any], gain: float, depth: int) -> list[np.ndarray[Any, Any]]:
    """E relu(u) relu(v) = |u||v| (sin θ + (π − θ) cos θ) / 2π."""
    grams = [gram]
    for _ in range(depth):
        here = grams[-1] * gain**2
        size = np.sqrt(np.outer(np.diag(here), np.diag(here)))
        theta = np.arccos(np.clip(here / size, -1, 1))
        grams.append(size * (np.sin(theta) + (math.pi - theta) * np.cos(theta)) / (2 * math.pi))
    return grams


def cosines(gram: np.ndarray[Any, Any]) -> float:
    root = np.sqrt(np.diag(gram))
    upper = np.triu_indices(len(gram), 1)
    return float(np.abs(gram / np.outer(root, root))[upper].mean())


def start(samples: int = 5) -> np.ndarray[Any, Any]:
    factor = np.random.default_rng(3).standard_normal((samples, 9)) + 0.4
    return np.asarray(factor @ factor.T / 9)


def test_relu_at_infinite_width_is_the_arc_cosine_kernel() -> None:
    found = infinite_width(Spec(width=64, depth=8, gain=1.3), start())
    reference = arc_cosine(start(), 1.3, 8)
    assert found["mean_abs_cosine"] == pytest.approx([cosines(g) for g in reference], abs=1e-9)
    assert found["rms"] == pytest.approx([math.sqrt(np.trace(g) / 5) for g in reference], rel=1e-10)
    assert found["output_gradient_log_norm"] == pytest.approx([(8 - k) * math.log(1.3**2 / 2) / 2 for k in range(9)])


@pytest.mark.parametrize("form", ["plain", "layer-post", "rms-pre", "skip"])
def test_softplus_at_infinite_width_agrees_with_quadrature(form: str) -> None:
    """Products of 80-point Gauss–Hermite rules on the pairs, each layer written out here."""
    x, w = np.polynomial.hermite_e.hermegauss(80)
    w = w / w.sum()
    gain, eps = 1.4, 0.01

    def expect(cov: np.ndarray[Any, Any]) -> tuple[np.ndarray[Any, Any], np.ndarray[Any, Any]]:
        size, out, mean = len(cov), np.empty_like(cov), np.empty(len(cov))
        for i in range(size):
            u = math.sqrt(cov[i, i]) * x
            mean[i] = np.log1p(np.exp(u)) @ w
            for j in range(size):
                slope = cov[i, j] / cov[i, i]
                rest = math.sqrt(max(0.0, cov[j, j] - slope * cov[i, j]))
                v = slope * u[:, None] + rest * x[None, :]
                out[i, j] = (np.log1p(np.exp(u))[:, None] * np.log1p(np.exp(v)) * w[:, None] * w[None, :]).sum()
        return out, mean

    here = start(4)
    grams = [here]
    for _ in range(3):
        if form == "skip":
            here = here + 0.25 * (gain**2 * expect(here)[0] + 0.1)
        else:
            cov = gain**2 * here + 0.1
            if form == "rms-pre":
                cov = cov / np.sqrt(np.outer(np.diag(cov) + eps, np.diag(cov) + eps))
            here, mean = expect(cov)
            if form == "layer-post":
                here = here - np.outer(mean, mean)
                here = here / np.sqrt(np.outer(np.diag(here) + eps, np.diag(here) + eps))
        grams.append(here)
    over = {"over": "features", "eps": eps}
    fields: dict[str, Any] = {
        "plain": {},
        "layer-post": {"norm": {**over}, "order": ["weights", "activation", "norm"]},
        "rms-pre": {"norm": {**over, "recenter": False}, "order": ["weights", "norm", "activation"]},
        "skip": {"residual": 0.5, "order": ["activation", "weights", "norm"]},
    }[form]
    record = {"width": 8, "depth": 3, "activation": "softplus", "gain": gain, "bias_variance": 0.1, **fields}
    found = infinite_width(Spec.from_json(json.dumps(record)), start(4))
    assert found["rms"] == pytest.approx([math.sqrt(np.trace(g) / 4) for g in grams], rel=1e-7)
    assert found["mean_abs_cosine"] == pytest.approx([cosines(g) for g in grams], abs=1e-7)


def test_gradients_of_tanh_at_infinite_width() -> None:
    """g² E φ′² per layer, E φ′² by Gauss–Hermite quadrature at the variances that the length map gives."""
    x, w = np.polynomial.hermite_e.hermegauss(80)
    w = w / w.sum()
    q, logs = 0.7, [0.0]
    for _ in range(4):
        entering = 1.2**2 * q + 0.1
        logs.append(math.log(1.2**2 * float((1 - np.tanh(math.sqrt(entering) * x) ** 2) ** 2 @ w)))
        q = float(np.tanh(math.sqrt(entering) * x) ** 2 @ w)
    spec = Spec(width=8, depth=4, activation="tanh", gain=1.2, bias_variance=0.1)
    found = infinite_width(spec, np.array([[0.7, 0.1], [0.1, 0.7]]))["output_gradient_log_norm"]
    assert found == pytest.approx([sum(logs[k + 1 :]) / 2 for k in range(5)], abs=1e-7)


def test_what_no_theory_covers_has_no_trajectory() -> None:
    assert infinite_width(Spec(width=8, depth=2, norm="whiten"), start()) == {}


# --- bands ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("correlation", "runs"),
    [pytest.param(0.0, 16, marks=pytest.mark.slow), (0.97, 12), pytest.param(0.97, 32, marks=pytest.mark.slow)],
)
def test_bands_hold_for_all_layers_at_once(correlation: float, runs: int) -> None:
    """400 new draws of autoregressive trajectories of two metrics; 95 % expected, five deviations allowed."""
    rng = np.random.default_rng(5)
    steps = rng.standard_normal((400, runs + 1, 2, 40))
    paths = steps.copy()
    for k in range(1, 40):
        paths[..., k] = correlation * paths[..., k - 1] + math.sqrt(1 - correlation**2) * steps[..., k]
    inside = 0
    for path in paths:
        draws = {"rms": np.exp(0.3 * path[:runs, 0]), "output_gradient_log_norm": path[:runs, 1]}
        found = bands(draws, samples=4, resolution=0.0)
        out = found["rms"].leaves(np.exp(0.3 * path[runs, 0])).any()
        inside += not (out or found["output_gradient_log_norm"].leaves(path[runs, 1]).any())
    assert inside / 400 > 0.95 - 5 * math.sqrt(0.05 * 0.95 / 400)
    assert inside / 400 < 0.999  # and they are not so wide that nothing ever leaves them


# --- predictions against networks of the law --------------------------------------------------------------------------

LAWS: dict[str, dict[str, Any]] = {
    "relu": {"gain": math.sqrt(2)},
    "tanh with biases": {"phi": torch.tanh, "gain": 1.3, "bias": 0.05},
    "batch norm": {"norm": "batch"},
    "layer norm": {"phi": functional.gelu, "norm": "layer"},
    "rms norm after relu": {"norm": "rms", "form": "post"},
    "skips": {"form": "skip", "gamma": 0.3},
    "skips with layer norm": {"form": "skip", "norm": "layer", "gamma": 0.5},
    "orthogonal": {"phi": torch.tanh, "orthogonal": True},
}


QUICK_LAWS = ("relu", "batch norm", "skips with layer norm")


@pytest.mark.parametrize(
    "law", [law if law in QUICK_LAWS else pytest.param(law, marks=pytest.mark.slow) for law in LAWS]
)
def test_means_are_those_of_networks_of_the_law(law: str) -> None:
    """Means of 24 torch networks against means of 24 draws at the last layer: no difference beyond 4.5 deviations.

    Shared start, so a wrong place or a wrong norm (30 % in rms, 0.1 in cosine) is tens of deviations.
    """
    batch = draw(8, seed=3)
    measured: dict[str, list[float]] = {}
    chain: Chain | None = None
    for seed in range(24):
        model = Net(**LAWS[law], seed=seed)
        model.stem.load_state_dict(Net(**LAWS[law], seed=99).stem.state_dict())
        found = probe(model, batch)
        if chain is None:
            chain, first = extract(model, found), found
        assert chain is not None
        for name in ("rms", "mean_abs_cosine", "effective_rank", "output_gradient_log_norm"):
            values = found.values[name][list(chain.layers)]
            value = values[0] - values[-1] if name == "output_gradient_log_norm" else values[-1]
            measured.setdefault(name, []).append(math.log(value) if name == "rms" else value)
    assert chain is not None
    exact = chain.spec.replace(gain=LAWS[law].get("gain", 1.0), bias_variance=LAWS[law].get("bias", 0.0))
    predicted = predict_chain(dataclasses.replace(chain, spec=exact), first, runs=24)
    for name, values in measured.items():
        band = predicted.metrics[name]
        place = 0 if name == "output_gradient_log_norm" else -1
        mean = band.mean[place] - (band.mean[-1] if place == 0 else 0.0)
        error = np.std(values, ddof=1) * math.sqrt(2 / 24)
        mean = math.log(mean) if name == "rms" else mean
        bias = 0.5 * np.var(values) if name == "rms" else 0.0  # the logarithm of a mean is not the mean of logarithms
        assert abs(np.mean(values) + bias - mean) < 4.5 * error + 1e-3, name


def alarms(law: str, seeds: range, *, factor: float = 1.0, runs: int = 16, **options: Any) -> int:
    """How many networks of a law leave the bands of a spec whose gain is too small by a factor."""
    count = 0
    for seed in seeds:
        model = Net(**LAWS[law], **options, seed=seed)
        chain, found = chain_of(model, draw(8, options.get("width", WIDTH), seed=seed))
        assert isinstance(chain.spec.gain, float)
        spec = chain.spec.replace(gain=chain.spec.gain / factor)
        predicted = predict_chain(dataclasses.replace(chain, spec=spec), found, runs=runs, seed=seed)
        count += bool(predicted.leaves_band)
    return count


def test_networks_of_the_law_stay_in_their_bands() -> None:
    """24 networks at 5 %: more than 6 has a chance below 1e-4; bands that fail 40 % of them pass with 10 %."""
    assert sum(alarms(law, range(3)) for law in LAWS) <= 6


def test_a_gain_wrong_by_five_percent_at_depth_30_is_seen() -> None:
    """The mean log-length moves by 30 log 1.05 = 1.46, its deviation at width 256 is about ½ √(30 · 5 / 256) = 0.38."""
    assert alarms("relu", range(4), factor=1.05, depth=30, width=256) >= 3


@pytest.mark.slow
@pytest.mark.parametrize("law", LAWS)
def test_networks_of_the_law_stay_in_their_bands_at_the_stated_rate(law: str) -> None:
    """60 networks at 5 %: at most 9 with probability 0.999; bands that fail 25 % of them pass with 4 %."""
    assert alarms(law, range(100, 160), runs=32) <= 9


@pytest.mark.slow
@pytest.mark.parametrize("law", ["relu", "tanh with biases"])
def test_power_against_a_gain_wrong_by_five_percent(law: str) -> None:
    """Stated power 0.8 at depth 30 and width 256: 24 networks, at least 15 with probability 0.99."""
    assert alarms(law, range(24), factor=1.05, depth=30, width=256, runs=32) >= 15


# --- edges ------------------------------------------------------------------------------------------------------------


def test_predictions_are_ready_for_json() -> None:
    chain, found = chain_of(Net(norm="batch"), draw(4))
    record = predict_chain(chain, found, runs=8).to_dict()
    assert json.loads(json.dumps(record, allow_nan=False)) == record
    assert Spec.from_json(json.dumps(record["spec"])) == chain.spec
    assert record["layers"] == list(chain.layers)
    assert set(record["infinite"]) == {"rms", "mean_abs_cosine", "mean_angle_deg", "orthogonality_gap", "stable_rank"}
    assert set(record["metrics"]) >= {"rms", "isometry_gap", "effective_rank", "output_gradient_log_norm"}
    # batch norm leaves n − 1 dimensions to what it normalises, relu gives the last one back; layer 0 has all of them
    assert all(len(part) == DEPTH + 1 for band in record["metrics"].values() for part in band.values())


def test_same_seed_same_prediction() -> None:
    chain, found = chain_of(Net(), draw())
    one, two, other = (predict_chain(chain, found, runs=8, seed=seed) for seed in (1, 1, 2))
    assert one.to_dict() == two.to_dict()
    assert one.to_dict() != other.to_dict()


@pytest.mark.parametrize("samples", [1, 2, 40])
def test_batches_of_one_and_batches_wider_than_the_chain(samples: int) -> None:
    model = Net(width=16, gain=math.sqrt(2))
    chain, found = chain_of(model, draw(samples, 16))
    predicted = predict_chain(chain, found, runs=16)
    first = predicted.metrics["rms"].mean[0]
    assert first == pytest.approx(found.values["rms"][0], rel=1e-5)
    assert ("mean_abs_cosine" in predicted.metrics) == (samples > 1)
    assert np.isfinite(predicted.metrics["rms"].low).all()


def test_equal_samples_stay_equal_under_batch_norm() -> None:
    batch = draw(3).repeat(2, 1)
    chain, found = chain_of(Net(norm="batch"), batch)
    predicted = predict_chain(chain, found, runs=16)
    assert predicted.metrics["effective_rank"].mean[-1] <= 3.0
    assert not [leaf for leaf in predicted.leaves_band if leaf[0] == "effective_rank"]


@pytest.mark.parametrize("bias", [True, False])
def test_a_batch_of_zeros_is_predicted_exactly(bias: bool) -> None:
    """Without biases nothing ever comes of it; with them all samples are one."""
    torch.manual_seed(0)
    model = nn.Sequential(*[part for _ in range(4) for part in (nn.Linear(16, 16, bias=bias), nn.Tanh())]).double()
    chain, found = chain_of(model, torch.zeros(4, 16, dtype=torch.float64))
    predicted = predict_chain(chain, found, runs=8)
    assert predicted.leaves_band == ()
    assert predicted.metrics["stable_rank"].mean[-1] == pytest.approx(1.0 if bias else 0.0, abs=1e-9)
    assert (predicted.metrics["rms"].mean[-1] > 0) == bias


def test_chains_that_overflow_have_no_band_from_there_on() -> None:
    torch.manual_seed(0)
    model = nn.Sequential(*[part for _ in range(60) for part in (nn.Linear(32, 32), nn.ELU())])
    for part in model[::2]:
        nn.init.normal_(part.weight, 0.0, 6.0)
    chain, found = chain_of(model, draw(4, 32))
    predicted = predict_chain(chain, found, runs=8)
    assert found.nonfinite_layer is not None
    assert np.isnan(predicted.metrics["rms"].high[-1])
    assert json.dumps(predicted.to_dict(), allow_nan=False)


def test_deep_chains_are_read_at_evenly_spaced_layers() -> None:
    chain, found = chain_of(Net(torch.tanh, depth=140, width=12), draw(3, 12))
    predicted = predict_chain(chain, found, runs=8)
    assert len(predicted.layers) == 129
    assert (predicted.layers[0], predicted.layers[-1]) == (chain.layers[0], chain.layers[-1])
    assert len(predicted.infinite["rms"]) == 129


def test_more_samples_than_the_probe_keeps() -> None:
    chain, found = chain_of(Net(gain=math.sqrt(2)), draw(100))
    predicted = predict_chain(chain, found, runs=8)
    assert "64 or fewer" in predicted.note
    assert "output_gradient_log_norm" not in predicted.metrics


def test_double_precision_is_drawn_in_double_precision() -> None:
    model = Net(form="pre", gain=math.sqrt(2), depth=40, width=64).double()
    chain, found = chain_of(model, draw(4, 64, dtype=torch.float64))
    assert predict_chain(chain, found, runs=16).leaves_band == ()


def test_errors_name_the_fix() -> None:
    chain, found = chain_of(Net(), draw())
    with pytest.raises(IsometerError, match="at least 8"):
        predict_chain(chain, found, runs=3)
    broken = probe(Net(), torch.full((3, WIDTH), math.nan))
    with pytest.raises(IsometerError, match="no finite Gram matrix"):
        predict_chain(chain, broken)


def test_effective_comparisons_of_independent_normals() -> None:
    """One number per draw: the band is Student's prediction interval, or the range that the ranks ask for."""
    draws = np.random.default_rng(0).standard_normal((400, 1))
    found = bands({"output_gradient_log_norm": draws}, samples=1, resolution=0.0)["output_gradient_log_norm"]
    assert (found.high - found.low)[0] / 2 == pytest.approx(stats.norm.ppf(0.975), rel=0.15)


@pytest.mark.slow
def test_batch_norm_has_a_trajectory_at_infinite_width() -> None:
    """Ten layers lead a Gaussian batch to the fixed point, which another integral gives; deep chains end in nan."""
    rng = np.random.default_rng(0)
    batch = rng.normal(size=(10, 400))
    gram = batch @ batch.T / 400
    spec = Spec(width=400, depth=12, activation="tanh", norm="batch")
    found = infinite_width(spec, gram)
    fixed = batch_norm_fixed_point("tanh", 10)
    assert found["mean_abs_cosine"][-1] == pytest.approx(abs(fixed.off_diagonal) / fixed.diagonal, abs=2e-3)
    assert found["rms"][-1] == pytest.approx(math.sqrt(fixed.diagonal), abs=2e-3)
    few = 400 - np.arange(0, 401, 40)[::-1]
    deep = infinite_width(Spec(width=64, depth=400, activation="tanh", norm="batch"), gram, few.tolist())
    assert np.isfinite(deep["mean_abs_cosine"][few <= 360]).all()
    assert np.isnan(deep["mean_abs_cosine"][few > 360]).all()
