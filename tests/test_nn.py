"""Modules against torch's own, closed forms and the simulation engines.

`build` is compared with the dense engine, which draws the same weights, number for number, forward and backward; and
with the Gram engine, which shares no draw with it, in distribution. Two-sample Kolmogorov–Smirnov tests, all together
at level 1e-3 by Bonferroni, with fixed seeds: with 250 networks on either side a shift of 0.75 standard deviations, or
a standard deviation larger by a factor of 2.8, is found with 99 % power (`test_the_stated_power`).
"""

from __future__ import annotations

import copy
import math
import pickle

import numpy as np
import pytest
import torch
from scipy import integrate, stats
from torch import nn

from isometer import activation, probe
from isometer.data import make_batch
from isometer.errors import IsometerError
from isometer.metrics import orthogonality_gap
from isometer.nn import (
    Activation,
    AdaptiveClipping,
    BatchNormParts,
    NormReLU,
    SampleNorm,
    Whitening,
    build,
    fit_gain,
    shaped_activations,
)
from isometer.simulate import simulate
from isometer.spec import POST_NORM, RECURRENCES, WEIGHT_LAWS, Norm, PowerLaw, Spec, recurrence

F64 = torch.float64


def draw(*shape: int, seed: int = 0) -> torch.Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=F64)


# --- build ------------------------------------------------------------------------------------------------------------

SPECS = {
    **{name: recurrence(name, width=12, depth=3) for name in RECURRENCES},
    **{f"law {law}": Spec(width=(14, 9, 12), input_width=10, weights=law, gain=1.3) for law in WEIGHT_LAWS},
    **{
        f"{norm}, {phi}, γ = {residual}": Spec(width=12, depth=3, norm=norm, activation=phi, residual=residual)
        for norm in ("none", "batch", "batch-rescale", "batch-rescale-std", "batch-recenter", "layer", "group:3")
        for phi, residual in (("relu", math.inf), ("tanh", 0.5), ("leaky_relu(0.3)", 0.5))
    },
    "whitened": Spec(width=12, depth=2, activation="tanh", norm="whiten"),
    "affine norm": Spec(width=12, depth=2, norm=Norm(eps=0.1, scale=0.7, shift=0.2), activation="gelu"),
    "shaped, biased": Spec(
        width=12, depth=4, activation="sin", bias_variance=0.3, activation_gain=PowerLaw(layer=-0.5), order=POST_NORM
    ),
    "residual after the norm": Spec(
        width=12, depth=3, norm="rms", residual=0.2, order=("norm", "activation", "weights", "residual")
    ),
    "expression": Spec(width=12, depth=3, activation="normalized(x * tanh(x))", norm="batch"),
}


@pytest.mark.parametrize("name", SPECS)
def test_a_network_goes_through_the_representations_of_the_dense_simulation(name: str) -> None:
    spec = SPECS[name]
    assert spec.input_width is not None
    batch = make_batch("gaussian", 5, spec.input_width, seed=1)
    cotangent = draw(5, spec.widths[-1], seed=2)
    names = ["log_norm", "orthogonality_gap", "gradient_log_norm"]
    simulated = simulate(spec, batch, runs=1, metrics=names, seed=3, engine="dense", loss=cotangent.numpy())
    network = build(spec, seed=3, dtype="float64")
    value = torch.tensor(batch, requires_grad=True)
    start, seen = value, [value]
    for layer in network.layers:
        value = layer(value)
        seen.append(value)
    assert torch.equal(value, network(torch.tensor(batch)))
    for layer, h in enumerate(seen):
        assert float(h.detach().norm().log()) == pytest.approx(simulated["log_norm"].values[0, layer], abs=1e-10)
        gap = float(orthogonality_gap(h.detach()))
        assert gap == pytest.approx(simulated["orthogonality_gap"].values[0, layer], abs=1e-10)
    weights = [network.get_submodule(f"layers.{i}.weights").weight for i in range(spec.layers)]
    gradients = torch.autograd.grad((value * cotangent).sum(), [start, *weights])
    logs = [float(g.norm().log()) for g in gradients]
    assert logs == pytest.approx(simulated["gradient_log_norm"].values[0].tolist(), abs=1e-8)


METRICS = ["orthogonality_gap", "mean_cosine", "effective_rank", "log_norm"]
RUNS, LEVEL = 250, 1e-3
LAWFUL = [
    "000/def-layer",
    "001/rec-6.11",
    "law he",
    "batch-rescale-std, tanh, γ = 0.5",
    "batch-recenter, relu, γ = inf",
    "layer, leaky_relu(0.3), γ = 0.5",
]
TESTS = len(LAWFUL) * len(METRICS)


def networks(spec: Spec, batch: np.ndarray, seed: int) -> dict[str, np.ndarray]:
    """Metrics of the last layer over independent networks."""
    with torch.no_grad():
        last = torch.stack([build(spec, seed=seed + i, dtype=F64)(torch.tensor(batch)) for i in range(RUNS)])
    from isometer import metrics

    values = {name: getattr(metrics, name)(last) for name in METRICS[:3]}
    values["log_norm"] = last.flatten(1).norm(dim=1).log()
    return {name: np.round(value.numpy(), 8) for name, value in values.items()}


@pytest.mark.parametrize("name", LAWFUL)
def test_networks_have_the_law_of_the_gram_engine(name: str) -> None:
    spec = SPECS[name]
    assert spec.input_width is not None
    batch = make_batch("gaussian", 4, spec.input_width, seed=1)
    ours = networks(spec, batch, seed=1000)
    theirs = simulate(spec, batch, runs=RUNS, metrics=METRICS, seed=7, engine="gram")
    for metric, values in ours.items():
        other = np.round(theirs[metric].values[:, -1], 8)
        assert stats.ks_2samp(values, other, method="asymp").pvalue > LEVEL / TESTS, metric


def test_the_comparison_can_fail() -> None:
    spec = SPECS["law he"]
    batch = make_batch("gaussian", 4, 10, seed=1)
    ours = networks(spec.replace(gain=1.15 * 1.3), batch, seed=1000)["log_norm"]
    theirs = simulate(spec, batch, runs=RUNS, metrics=["log_norm"], seed=7)["log_norm"].values[:, -1]
    assert stats.ks_2samp(ours, theirs, method="asymp").pvalue < LEVEL / TESTS


@pytest.mark.parametrize(("shift", "spread"), [(0.75, 1.0), (0.0, 2.8)])
def test_the_stated_power(shift: float, spread: float) -> None:
    rng = np.random.default_rng(0)
    found = 0
    for _ in range(300):
        first, second = rng.standard_normal(RUNS), shift + spread * rng.standard_normal(RUNS)
        found += stats.ks_2samp(first, second, method="asymp").pvalue <= LEVEL / TESTS
    assert found >= 297


def test_seeds_determine_networks_and_no_generator_is_touched() -> None:
    spec = Spec(width=8, depth=3, bias_variance=0.1)
    before = torch.get_rng_state()
    first, second, third = (build(spec, classes=3, inputs=5, seed=s) for s in (4, 4, 5))
    assert torch.equal(before, torch.get_rng_state())
    assert all(torch.equal(a, b) for a, b in zip(first.parameters(), second.parameters(), strict=True))
    for (name, a), b in zip(first.named_parameters(), third.parameters(), strict=True):
        assert name == "readout.bias" or not torch.equal(a, b), name


def test_names_dtype_and_ends() -> None:
    network = build(Spec(width=300, depth=2, norm="batch", activation="gelu"), classes=200, inputs=400, dtype=F64)
    assert {"layers.1.weights", "layers.1.norm", "layers.1.activation", "readin", "readout"} <= {
        name for name, _ in network.named_modules()
    }
    assert all(p.dtype == F64 for p in network.parameters())
    # variance of N = 60000 … 120000 normals: relative standard error √(2/N) < 0.6 %
    for end in (network.readin, network.readout):
        assert end is not None
        assert float(end.weight.detach().var()) * end.in_features == pytest.approx(1.0, rel=0.03)
    assert network(draw(3, 4, 100)).shape == (3, 200)  # flattened
    linear = build(Spec(width=4, depth=1, activation="identity"))
    assert [name for name, _ in linear.layers[0].named_children()] == ["weights"]


def test_networks_copy_pickle_and_train() -> None:
    spec = Spec(width=16, depth=3, norm="batch", activation="x * tanh(x)", weights="orthogonal")
    network = build(spec, classes=2)
    x = draw(32, 16).float()
    y = (x[:, 0] > 0).long()
    twins = [copy.deepcopy(network), pickle.loads(pickle.dumps(network))]
    assert all(torch.equal(network(x), twin(x)) for twin in twins)
    optimizer = torch.optim.SGD(network.parameters(), lr=0.1)
    losses = []
    for _ in range(40):
        loss = nn.functional.cross_entropy(network(x), y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(float(loss.detach()))
    assert losses[-1] < 0.3 * losses[0]


def test_the_probe_sees_the_steps() -> None:
    found = probe(build(Spec(width=8, depth=2, norm="batch", residual=0.5), classes=2), draw(6, 8).float())
    kinds = [site.kind for site in found.sites]
    assert kinds == ["input", *["weight", "add", "norm", "activation"] * 2, "weight"]
    assert found.sites[1].name == "layers.0.weights"


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"dtype": "float16"}, "dtype is float16; expected float32 or float64"),
        ({"classes": 0}, "classes is 0; expected a whole number"),
        ({"inputs": 2.5}, "inputs is 2.5; expected a whole number"),
    ],
)
def test_build_refuses(options: dict, message: str) -> None:
    with pytest.raises(IsometerError, match=message):
        build(Spec(width=4, depth=1), **options)


def test_a_wrong_input_is_named() -> None:
    with pytest.raises(IsometerError, match=r"shape \(2, 5\); expected \(samples, 4\)"):
        build(Spec(width=4, depth=1))(torch.ones(2, 5))


# --- normalisations ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("shape", [(7, 5), (3, 5, 4, 2)])
def test_full_batch_norm_is_torch_s_own(shape: tuple[int, ...]) -> None:
    ours = BatchNormParts(5, Norm(eps=1e-5), affine=True, momentum=0.3, dtype=F64)
    theirs = (nn.BatchNorm1d if len(shape) == 2 else nn.BatchNorm2d)(5, momentum=0.3, dtype=F64)
    with torch.no_grad():
        for module in (ours, theirs):
            assert module.weight is not None
            assert module.bias is not None
            module.weight.copy_(draw(5, seed=1))
            module.bias.copy_(draw(5, seed=2))
    for seed in range(3):
        x, cotangent = 3 * draw(*shape, seed=seed) + 1, draw(*shape, seed=9)
        gradients = []
        for module in (ours, theirs):
            argument = x.clone().requires_grad_()
            y = module(argument)
            gradients.append([y, *torch.autograd.grad((y * cotangent).sum(), [argument, *module.parameters()])])
        for a, b in zip(*gradients, strict=True):
            torch.testing.assert_close(a, b, rtol=1e-10, atol=1e-12)
    torch.testing.assert_close(ours.running_mean, theirs.running_mean)
    torch.testing.assert_close(ours.running_square, theirs.running_var)
    assert int(ours.num_batches_tracked) == 3
    x = draw(*shape, seed=20)
    torch.testing.assert_close(ours.eval()(x), theirs.eval()(x))


def test_the_parts_by_their_formulas() -> None:
    x = 2 * draw(6, 4) + 1
    mean = x.mean(0)
    expected = {
        "batch": (x - mean) / x.std(0, correction=0),
        "batch-recenter": x - mean,
        "batch-rescale": x / x.square().mean(0).sqrt(),
        "batch-rescale-std": x / x.std(0, correction=0),
        "batch-unit": x / x.norm(dim=0),
    }
    for name, value in expected.items():
        torch.testing.assert_close(BatchNormParts(4, name, dtype=F64)(x), value)


@pytest.mark.parametrize("name", ["batch", "batch-recenter", "batch-rescale", "batch-rescale-std", "batch-unit"])
def test_running_statistics_of_the_same_batch_converge_to_it(name: str) -> None:
    module, x = BatchNormParts(4, name, dtype=F64), 2 * draw(50, 4) + 1
    for _ in range(400):
        trained = module(x)
    factor = math.sqrt(49 / 50) if name in ("batch", "batch-rescale-std") else 1.0  # the variance without bias
    torch.testing.assert_close(module.eval()(x), trained * factor, rtol=1e-9, atol=1e-12)
    alone = module(x[:1])  # no batch needed
    torch.testing.assert_close(alone, (trained * factor)[:1], rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("name", ["batch", "batch-rescale", "batch-rescale-std", "batch-unit"])
def test_features_without_size_become_zero_and_pass_no_nan(name: str) -> None:
    x = draw(5, 3)
    x[:, 1] = 0.0
    x[:, 2] = 0.1
    x.requires_grad_()
    module = BatchNormParts(3, name, dtype=F64)
    y = module(x)
    (gradient,) = torch.autograd.grad(y.square().sum() + y.sum(), x)
    assert torch.isfinite(y).all()
    assert torch.isfinite(gradient).all()
    assert (y[:, 1] == 0).all()
    if name in ("batch", "batch-rescale-std"):
        assert (y[:, 2] == 0).all()


@pytest.mark.parametrize("module", [BatchNormParts(3, Norm(eps=1e-5)), SampleNorm(Norm(over="features", eps=1e-5))])
def test_statistics_of_half_precision_are_taken_in_single(module: nn.Module) -> None:
    """Squares of 400 overflow float16."""
    x = (400 * draw(64, 3)).half()
    y = module(x)
    assert y.dtype == torch.float16
    torch.testing.assert_close(y.float(), module(x.float()), rtol=2e-3, atol=1e-3)


@pytest.mark.parametrize("name", ["batch", "batch-recenter", "batch-rescale", "batch-rescale-std", "batch-unit"])
def test_first_and_second_derivatives(name: str) -> None:
    module, x = BatchNormParts(3, name, dtype=F64), draw(4, 3).requires_grad_()
    assert torch.autograd.gradcheck(module, (x,))
    assert torch.autograd.gradgradcheck(module, (x,))


def test_sample_norms_are_torch_s_own() -> None:
    x = draw(5, 12) * 3 + 1
    torch.testing.assert_close(SampleNorm("layer")(x), nn.functional.layer_norm(x, (12,), eps=0.0))
    torch.testing.assert_close(SampleNorm("rms")(x), nn.functional.rms_norm(x, (12,), eps=1e-300))
    torch.testing.assert_close(SampleNorm("unit")(x), nn.functional.normalize(x))
    torch.testing.assert_close(SampleNorm("group:3")(x), nn.functional.group_norm(x, 3, eps=0.0))
    tokens = draw(2, 5, 12)
    torch.testing.assert_close(SampleNorm(Norm(over="features", eps=0.2))(tokens), nn.LayerNorm(12, 0.2, False)(tokens))
    assert torch.equal(SampleNorm("layer")(torch.full((1, 4), 3.0)), torch.zeros(1, 4))


def test_whitening_whitens_and_is_differentiable() -> None:
    x = (draw(8, 3) @ draw(3, 3, seed=1)).requires_grad_()
    y = Whitening()(x)
    torch.testing.assert_close(y.mT @ y / 8, torch.eye(3, dtype=F64))
    assert torch.autograd.gradcheck(Whitening(), (x,))


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: BatchNormParts(3, "layer"), "norm is one over the features; expected one over batch"),
        (lambda: BatchNormParts(3, "whiten"), "use Whitening"),
        (lambda: SampleNorm("batch"), "expected one over features or groups"),
        (lambda: Whitening("batch"), "use BatchNormParts"),
        (lambda: BatchNormParts(3)(torch.ones(4, 2)), r"expected \(samples, 3, …\)"),
        (lambda: BatchNormParts(3)(torch.ones(1, 3)), "batch statistics need at least 2"),
        (lambda: SampleNorm("group:5")(torch.ones(2, 12)), "does not split into 5 groups"),
    ],
)
def test_normalisations_refuse(make, message: str) -> None:
    with pytest.raises(IsometerError, match=message):
        make()


# --- activations ------------------------------------------------------------------------------------------------------


def test_activations_are_those_of_the_registry_and_differentiable() -> None:
    x = draw(50).requires_grad_()
    torch.testing.assert_close(Activation("silu")(x), nn.functional.silu(x))
    torch.testing.assert_close(Activation("tanh", gain=0.3)(x), torch.tanh(0.3 * x))
    assert torch.autograd.gradcheck(Activation("x * tanh(softplus(x))"), (x,))


def density(x: float) -> float:
    return math.exp(-x * x / 2) / math.sqrt(2 * math.pi)


@pytest.mark.parametrize(
    "module",
    [
        Activation("relu", normalized=True),
        Activation("gelu", normalized=True),
        Activation("softplus", gain=2.0, normalized=True),
        NormReLU(),
        NormReLU(0.5),
    ],
    ids=repr,
)
def test_normalised_activations_have_mean_0_and_mean_square_1(module: nn.Module) -> None:
    def moment(power: int) -> float:
        def integrand(x: float) -> float:
            return float(module(torch.tensor(x, dtype=F64))) ** power * density(x)

        return integrate.quad(integrand, -12, 12, points=[-1.5975, 0.0, 0.5], limit=200, epsabs=1e-12)[0]

    assert moment(1) == pytest.approx(0.0, abs=1e-9)
    assert moment(2) == pytest.approx(1.0, abs=1e-9)


def test_normrelu_is_the_registry_s() -> None:
    x = draw(100)
    np.testing.assert_allclose(NormReLU()(x).numpy(), activation("normrelu")(x.numpy()), rtol=1e-12)


def test_shaped_activations_follow_the_schedule() -> None:
    x = draw(10)
    modules = shaped_activations("sin", 4, PowerLaw(2.0, layer=-1.0))
    for layer, module in enumerate(modules, start=1):
        torch.testing.assert_close(module(x), torch.sin(2.0 / layer * x))
    assert len(shaped_activations("tanh", 3, (1.0, 0.5, 0.2))) == 3
    with pytest.raises(IsometerError, match="expected 3, one per layer"):
        shaped_activations("tanh", 3, (1.0, 0.5))


def test_a_fitted_schedule_bounds_the_growth_of_gradients() -> None:
    """Width 20, 120 layers: rates at two gains, and the growth of the gradient with the schedule made from them."""
    spec = Spec(width=20, depth=120, activation="tanh", norm="batch-rescale", weights="orthogonal")
    batch = make_batch("gaussian", 20, 20, seed=1)

    def growth(**changes) -> float:
        data = simulate(spec.replace(**changes), batch, runs=4, metrics=["gradient_log_norm"], seed=0)
        logs = data["gradient_log_norm"].values[:, 1:]
        return float((logs[:, 10] - logs[:, -10]).mean()) / 100

    floor = growth(activation="identity")
    rates = [growth(activation_gain=gain) for gain in (1.0, 0.5)]
    fit = fit_gain([1.0, 0.5], rates, floor=floor, k=1.5)
    assert 1.0 < fit.exponent < 5.0
    assert rates[0] > 0.05
    # what is left is bounded by the sum of the fitted rates
    shaped = growth(activation_gain=fit.schedule)
    bound = fit.factor * sum(layer**-1.5 for layer in range(11, 111)) / 100
    assert shaped - floor < 3 * bound < 0.3 * rates[0]


@pytest.mark.parametrize(
    ("arguments", "options", "message"),
    [
        (([1.0], [0.1]), {}, "expected two different positive gains"),
        (([1.0, 0.5], [0.1, 0.01]), {"floor": 0.02}, "rates above the floor"),
        (([1.0, 0.5], [0.1, 0.2]), {}, "fall with the gain"),
        (([1.0, 0.5], [0.1, 0.01]), {"k": 1.0}, "k is 1.0"),
    ],
)
def test_fits_refuse(arguments: tuple, options: dict, message: str) -> None:
    with pytest.raises(IsometerError, match=message):
        fit_gain(*arguments, **options)


# --- clipping ---------------------------------------------------------------------------------------------------------


def one_weight(size: float, gradient: float) -> tuple[nn.Parameter, torch.optim.Optimizer]:
    weight = nn.Parameter(torch.full((2, 2), size / 2, dtype=F64))  # Frobenius norm `size`
    weight.grad = torch.full((2, 2), gradient / 2, dtype=F64)
    return weight, torch.optim.SGD([weight], lr=1.0)


@pytest.mark.parametrize(
    ("size", "gradient", "step"),
    [(1.0, 5.0, 0.1), (1.0, 0.0999, 0.0999), (1.0, 0.1, 0.1), (0.0, 5.0, 0.001), (4.0, 5.0, 0.4)],
)
def test_the_clipped_step_has_the_length_of_the_formula(size: float, gradient: float, step: float) -> None:
    weight, optimizer = one_weight(size, gradient)
    start = weight.detach().clone()
    AdaptiveClipping(optimizer, 0.1)
    optimizer.step()
    assert float((weight.detach() - start).norm()) == pytest.approx(step, rel=1e-12)


def test_vectors_infinities_and_closures() -> None:
    bias = nn.Parameter(torch.ones(4, dtype=F64))
    lost = nn.Parameter(torch.ones(2, 2, dtype=F64))
    unused = nn.Parameter(torch.ones(2, 2, dtype=F64))
    weight, _ = one_weight(1.0, 5.0)
    optimizer = torch.optim.SGD([bias, lost, unused, weight], lr=1.0)
    bias.grad, lost.grad = torch.full_like(bias, 9.0), torch.full_like(lost, math.inf)
    clipping = AdaptiveClipping(optimizer, 0.1)
    scheduler = torch.optim.lr_scheduler.StepLR(optimizer, 1)  # takes optimizers only
    optimizer.step()
    scheduler.step()
    assert clipping.clipped == 1
    assert float(bias.detach()[0]) == -8.0
    assert bool(torch.isinf(lost.detach()).all())

    weight, optimizer = one_weight(1.0, 0.0)
    AdaptiveClipping(optimizer, 0.1)

    def closure() -> float:
        weight.grad = torch.full_like(weight, 50.0)
        return 0.0

    start = weight.detach().clone()
    optimizer.step(closure)
    assert float((weight.detach() - start).norm()) == pytest.approx(0.1)
    optimizer.step(closure=closure)
    assert float((weight.detach() - start).norm()) == pytest.approx(0.19)


def test_clipping_can_be_removed_and_refuses() -> None:
    weight, optimizer = one_weight(1.0, 5.0)
    start = weight.detach().clone()
    AdaptiveClipping(optimizer).remove()
    optimizer.step()
    assert float((weight.detach() - start).norm()) == pytest.approx(5.0)
    with pytest.raises(IsometerError, match="clipping is 0"):
        AdaptiveClipping(optimizer, 0)
    with pytest.raises(IsometerError, match="optimizer is a Parameter"):
        AdaptiveClipping(weight)  # type: ignore[arg-type]
