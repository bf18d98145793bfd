"""Studies of 003 and of chapters 2 to 5 of 001: cells against independent references, verdicts in both directions."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import xarray
from numpy.polynomial import hermite_e

from isometer.errors import IsometerError
from isometer.spec import recurrence
from isometer_papers.simulate.stationary import stationary_gram
from isometer_papers.studies import Study, find, overridden, reproduce
from isometer_papers.studies._records import settings_of
from isometer_papers.studies._running import make_job
from isometer_papers.studies.cells.architectures import image_gap_cell
from isometer_papers.studies.cells.gaussianity import wasserstein_cell
from isometer_papers.studies.cells.kernels import convergence_cell, hermite_cell, parallelepiped_cell, property_cell
from isometer_papers.studies.cells.mean_field import gram_error_cell
from isometer_papers.studies.cells.notation import SYMBOLS, notation_cell
from isometer_papers.studies.cells.orthogonality import survival_cell
from isometer_papers.studies.cells.stationarity import stationary_distance_cell
from isometer_papers.studies.joudaki2024.orthogonality import thresholds
from isometer_papers.theory.mean_field.gram_concentration import concentration_bound

MINE = [
    *(f"003/{name}" for name in ("fig-1", "fig-2a", "fig-2b", "fig-5", "fig-6", "table-1", "table-2")),
    *(f"001/{name}" for name in ("fig-2.1", "fig-2.2a", "fig-2.2b", "fig-2.3", "tab-2.1")),
    *(f"001/fig-3.{number}" for number in (1, 2, 3, 4)),
    *(f"001/{name}" for name in ("fig-4.1", "fig-5.1", "fig-5.2", "tab-5.1", "tab-5.2")),
]
RNG = np.random.default_rng(7)


@pytest.fixture(autouse=True)
def same_numbers() -> None:
    """Every test draws the same numbers, whichever ran before."""
    global RNG
    RNG = np.random.default_rng(7)


def dense_batch_norm(weights: np.ndarray[Any, Any], state: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """d^{−1/2} BN(W H) of d × n matrices, as 003 (1) has it."""
    product = weights @ state
    return np.asarray(product / np.linalg.norm(product, axis=1, keepdims=True) / math.sqrt(len(weights)))


def verdict(identifier: str, result: xarray.Dataset, **changes: Any) -> tuple[str, dict[str, Any]]:
    study = find(identifier)
    settings = settings_of(overridden(study, "quick", changes))
    reading = study.read(result, settings)
    return reading.verdict, dict(reading.statements)


# --- declarations ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("identifier", MINE)
def test_studies_declare_what_they_need(identifier: str) -> None:
    study = find(identifier)
    for name in ("quick", "paper"):
        scale = study.scale(name)
        cells = make_job(study, scale).cells
        assert len(cells) >= 1
        assert all(set(scale.constants) <= set(cell.configuration) for cell in cells)
    for choice in study.choices.values():
        for change in choice.instead.values():
            assert overridden(study, "quick", change).axes  # the variation names settings that exist


def test_figures_that_two_texts_share_have_the_same_cells() -> None:
    for one, other in (("003/fig-1", "001/fig-2.1"), ("003/fig-2a", "001/fig-2.2a"), ("003/table-1", "001/tab-2.1")):
        for scale in ("quick", "paper"):
            first, second = (make_job(find(name), find(name).scale(scale)) for name in (one, other))
            assert first.function is second.function
            assert [c.configuration for c in first.cells] == [c.configuration for c in second.cells]


# --- cells against references ----------------------------------------------------------------------------------------


def test_smallest_singular_values_as_in_a_dense_network() -> None:
    """The lowest share over 12 layers, 120 runs each way: means agree within 4 standard errors."""
    n, d, layers, runs = 4, 24, 12, 120
    cell = {"samples": n, "width": d, "depth": layers, "runs": runs, "input": "gaussian"}
    ours = survival_cell(cell, 3)["lowest"].values
    theirs = []
    for _ in range(runs):
        state = RNG.normal(size=(d, n))
        state /= np.linalg.norm(state)
        first = lowest = np.linalg.svd(state, compute_uv=False)[-1]
        for _ in range(layers):
            state = dense_batch_norm(RNG.normal(size=(d, d)), state)
            lowest = min(lowest, np.linalg.svd(state, compute_uv=False)[-1])
        theirs.append(lowest / first)
    error = math.sqrt((np.var(ours, ddof=1) + np.var(theirs, ddof=1)) / runs)
    assert abs(ours.mean() - np.mean(theirs)) < 4 * error
    assert error < 0.02  # a shift of 0.1 would be seen


def test_more_samples_than_features_are_never_independent() -> None:
    cell = {"samples": 5, "width": 4, "depth": 3, "runs": 2, "input": "gaussian"}
    assert survival_cell(cell, 0)["lowest"].values.tolist() == [0.0, 0.0]


def test_distance_to_the_gaussian_as_in_a_dense_vanilla_network() -> None:
    n, d, runs = 3, 40, 300
    shared = {"width": d, "samples": n, "depths": [4], "runs": runs, "side": 3, "share": 4}
    ours = wasserstein_cell({"network": "vanilla MLP", **shared}, 1)["distance"].values[:, 0]
    theirs = []
    for _ in range(runs):
        state = np.linalg.qr(RNG.normal(size=(d, n)))[0]
        for _ in range(4):
            state = RNG.normal(size=(d, d)) / math.sqrt(d) @ state
        values = np.linalg.svd(state / np.linalg.norm(state), compute_uv=False)
        theirs.append(np.linalg.norm(values - 1 / math.sqrt(n)))
    error = math.sqrt((np.var(ours, ddof=1) + np.var(theirs, ddof=1)) / runs)
    assert abs(ours.mean() - np.mean(theirs)) < 4 * error < 0.03


def test_all_networks_of_the_table_start_at_the_gaussian() -> None:
    for network in ("vanilla MLP", "vanilla ConvNet", "batch norm MLP"):
        cell = {"network": network, "width": 16, "samples": 2, "depths": [0, 2], "runs": 2, "side": 3, "share": 4}
        distance = wasserstein_cell(cell, 1)["distance"].values
        assert np.abs(distance[:, 0]).max() < 1e-7 < distance[:, 1].min()
    with pytest.raises(IsometerError, match="expected one of vanilla MLP"):
        wasserstein_cell({"network": "LSTM", "depths": [1]}, 0)


def test_stationary_mean_of_a_linear_chain_is_the_identity_over_n() -> None:
    spec = recurrence("003/net-act", activation="identity", width=64, depth=1)
    found = stationary_gram(spec, RNG.normal(size=(3, 64)), layers=300, burn_in=20, chains=8, seed=2)
    error = found.std(0, ddof=1).max() / math.sqrt(8)
    assert np.abs(found.mean(0) - np.eye(3) / 3).max() < 5 * error < 0.02
    with pytest.raises(IsometerError, match="layers is 0"):
        stationary_gram(spec, np.eye(3, 64), layers=0)
    with pytest.raises(IsometerError, match="equal widths"):
        stationary_gram(recurrence("003/net-act", width=[8, 9]), np.eye(3, 8), layers=1)


def test_distance_from_the_stationary_mean_as_in_a_dense_chain() -> None:
    """tanh is odd: E_ν is I/n, from which a dense chain has the same mean distance."""
    n, d = 2, 32
    cell = {"activation": "tanh", "width": d, "samples": n, "depth": 150, "runs": 10, "reference": 500, "chains": 4}
    ours = stationary_distance_cell(cell, 4)
    theirs = []
    for _ in range(10):
        state, kept = RNG.normal(size=(d, n)), []
        for _ in range(150):
            product = RNG.normal(size=(d, d)) @ np.tanh(state)
            state = product / np.linalg.norm(product, axis=1, keepdims=True)
            kept.append(np.linalg.norm(state.T @ state / d - np.eye(n) / n))
        theirs.append(np.mean(kept))
    values = ours["average"].values
    error = math.sqrt((np.var(values, ddof=1) + np.var(theirs, ddof=1)) / 10)
    assert abs(values.mean() - np.mean(theirs)) < 4.5 * error + 0.003  # the mean is itself estimated
    assert abs(float(ours["off_diagonal"])) < 0.02


def test_mean_field_error_as_in_a_dense_network() -> None:
    """G* of ReLU by its closed form, and h ← W φ(BN(h)) written out."""
    n, d, runs = 4, 60, 150
    cell = {"network": "batch norm", "activation": "relu", "samples": n, "width": d, "depth": 6, "runs": runs}
    ours = gram_error_cell({**cell, "input": "gaussian"}, 5)["error"].values[:, -1]
    r = -1 / (n - 1)
    off = (math.sqrt(1 - r * r) + r * (math.pi - math.acos(r))) / (2 * math.pi)
    target = np.full((n, n), off) + (0.5 - off) * np.eye(n)
    theirs = []
    for _ in range(runs):
        h = RNG.normal(size=(d, n))
        for _ in range(7):
            centred = h - h.mean(1, keepdims=True)
            y = np.maximum(centred / centred.std(1, keepdims=True), 0)
            h = RNG.normal(size=(d, d)) / math.sqrt(d) @ y
        theirs.append(np.linalg.norm(y.T @ y / d - target))
    error = math.sqrt((np.var(ours, ddof=1) + np.var(theirs, ddof=1)) / runs)
    assert abs(ours.mean() - np.mean(theirs)) < 4 * error < 0.05


def test_image_gaps_are_those_of_a_network_written_out(monkeypatch: pytest.MonkeyPatch) -> None:
    """A tiny data set; the first entry is the gap of the pixels, and one draw of weights gives one network."""
    from isometer.data import _datasets as datasets

    pixels = RNG.integers(0, 256, size=(12, 3, 6, 6)).astype(np.uint8)
    tiny = datasets.DataSet("tiny", "train", pixels, np.zeros(12, dtype=np.int64), ("a",))
    monkeypatch.setattr("isometer.data.load", lambda name: tiny)
    cell = {"data": "tiny", "samples": 12, "batches": 3, "depth": 2, "width": 5, "kernel": 3, "padding": "zero"}
    cell |= {"weights": "one draw", "pixels": "shifted", "norm": "batch norm"}
    for architecture in ("MLP", "ConvNet"):
        gaps = image_gap_cell({**cell, "architecture": architecture}, 1)["orthogonality_gap"].values
        flat = (pixels.reshape(12, -1) / 255 - 0.1307) / 0.3081
        gram = flat @ flat.T
        expected = np.linalg.norm(gram / np.trace(gram) - np.eye(12) / 12)
        assert gaps[:, 0] == pytest.approx(expected, abs=1e-6)
        # all images in every batch, so that only their order differs
        assert np.ptp(gaps, axis=0).max() < 1e-4
        apart = image_gap_cell({**cell, "architecture": architecture, "weights": "each"}, 1)["orthogonality_gap"].values
        assert np.ptp(apart[:, 1:], axis=0).max() > 1e-3
    with pytest.raises(IsometerError, match="expected 'MLP' or 'ConvNet'"):
        image_gap_cell({**cell, "architecture": "RNN"}, 1)


def test_hermite_coefficients_against_numpy() -> None:
    """Any polynomial: coefficients by NumPy's conversion of bases."""
    text, powers = "x**3 - 2*x + 0.5", [0.5, -2.0, 0.0, 1.0]
    printed = {"plain": ["1", "x", "x**2 - 1", text], "normalized": ["1", "x", "(x**2 - 1)/sqrt(2)", "x"], "highest": 5}
    found = hermite_cell({"order": 3, **printed}, 0)
    series = hermite_e.poly2herme(powers) * [math.sqrt(math.factorial(k)) for k in range(4)]
    assert found["plain"].values == pytest.approx([*series, 0, 0], abs=1e-12)
    assert float(found["normalized_error"]) == pytest.approx(1.0)  # x is not he_3


def test_properties_of_relu_in_closed_form() -> None:
    found = property_cell({"activation": "relu", "highest": 40, "points": 101}, 0)
    assert found["centred"].values == pytest.approx([1 / math.sqrt(2 * math.pi)] * 3, abs=1e-10)
    assert found["stable"].values[[0, 2]] == pytest.approx([0.5, 0.5], abs=1e-10)
    assert found["bend"].values[0] == pytest.approx(0.5 - 1 / (2 * math.pi) - 0.25, abs=1e-10)
    assert 0 < float(found["rest"]) < 0.01


def test_kernel_paths_of_exp_in_closed_form() -> None:
    """κ(ρ) = e^{ρ − 1}."""
    found = convergence_cell({"activation": "exp", "starts": [0.5], "depth": 4, "points": 5}, 0)
    rho = [0.5]
    for _ in range(4):
        rho.append(math.exp(rho[-1] - 1))
    assert found["cosine"].values[0] == pytest.approx(rho, abs=1e-12)
    assert int(found["case"]) == 3


def test_volume_of_random_vectors_by_their_gram_determinant() -> None:
    found = parallelepiped_cell({"vectors": 3, "draws": 5, "points": 5}, 0)
    # isometry = det(G)^{1/3}/(tr G/3) = (volume at unit scale)^{2/3}
    assert found["isometry"].values == pytest.approx(found["volume"].values ** (2 / 3), rel=1e-9)


@pytest.mark.parametrize("symbol", SYMBOLS)
def test_every_symbol_of_the_notation_is_computed(symbol: str) -> None:
    cell = {"symbol": symbol, "samples": 3, "width": 8, "depth": 4, "outputs": 2, "draws": 200}
    assert float(notation_cell(cell, 1)["error"]) < (4.5 if symbol == "Law(X)" else 1e-10)


def test_unknown_symbols_are_refused() -> None:
    with pytest.raises(IsometerError, match="expected one of"):
        notation_cell({"symbol": "ψ"}, 0)


def test_concentration_bound_as_printed() -> None:
    value = concentration_bound([0, 2], 10, 1000, condition=3.0, mixing=0.5, constant=2.0)
    spread = 10 / math.sqrt(1000) * math.sqrt(2) * math.sqrt(math.log(100))
    assert value == pytest.approx([6 * (1 + spread), 6 * (0.5 + spread)])
    with pytest.raises(IsometerError, match="in \\(0, 1\\]"):
        concentration_bound(1, 2, 10, condition=1.0, mixing=0.0)
    with pytest.raises(IsometerError, match="more neurons"):
        concentration_bound(1, 10, 10, condition=1.0, mixing=0.5)


# --- verdicts in both directions -------------------------------------------------------------------------------------


def _averages(slope: float, runs: int = 20) -> xarray.Dataset:
    widths = np.array(find("003/fig-2b").quick.axes["width"], dtype=float)
    values = 0.8 * widths**slope * np.exp(0.02 * RNG.normal(size=(runs, 6)))
    return xarray.Dataset({"average_gap": (("run", "width"), values)}, {"run": np.arange(runs), "width": widths})


def test_the_slope_must_be_the_printed_one() -> None:
    assert verdict("003/fig-2b", _averages(-0.46))[0] == "agree"
    found, statements = verdict("003/fig-2b", _averages(-0.51))
    assert found == "partly"
    assert not statements["its slope is −0.46, up to rounding and chance"]
    assert verdict("001/fig-2.2b", _averages(-0.5))[0] == "agree"
    assert verdict("001/fig-2.2b", _averages(-0.4))[0] == "partly"


def test_thresholds_are_found_between_widths() -> None:
    widths = np.array([10.0, 100.0, 1000.0])
    lowest = np.array([[0.01, 1.0, 1.0], [0.5, 0.6, 0.7], [0.0, 0.0, 0.01]])
    found = thresholds(lowest, widths)
    assert found[0] == pytest.approx(10**1.5)  # halfway in logarithms
    assert np.isnan(found[1:]).all()  # holds everywhere, or nowhere


def _survival(power: float, factor: float) -> xarray.Dataset:
    axes = find("001/fig-2.3").quick.axes
    n, d = (np.array(axes[name], dtype=float) for name in ("samples", "width"))
    lowest = np.clip(0.1 * d[None, :] / (factor * n[:, None] ** power), 0, 1)
    coordinates = {"samples": n, "width": d, "run": [0, 1]}
    return xarray.Dataset({"lowest": (("run", "samples", "width"), np.stack([lowest] * 2))}, coordinates)


def test_survival_needs_the_square_of_the_samples() -> None:
    key = "d = Ω(n²) is enough: that width grows no faster than n²"
    assert verdict("001/fig-2.3", _survival(2, 0.6))[1][key] is True
    assert verdict("001/fig-2.3", _survival(3, 0.035))[1][key] is False
    assert verdict("001/fig-2.3", _survival(2, 1e-6))[1][key] is None  # holds on the whole grid


def _image_gaps(effect: bool) -> xarray.Dataset:
    study = find("003/fig-5")
    batches, layers = study.quick.constants["batches"], study.quick.constants["depth"] + 1
    values = 0.7 + 0.01 * RNG.normal(size=(2, 2, batches, layers))
    if effect:
        values[:, 0, :, 1:] = 0.3 + 0.005 * RNG.normal(size=(2, batches, layers - 1))
    values[:, 1 if effect else 0] += np.linspace(0, 0.2, layers)
    coordinates = {**study.quick.axes, "batch": np.arange(batches), "layer": np.arange(layers)}
    dimensions = ("architecture", "norm", "batch", "layer")
    return xarray.Dataset({"orthogonality_gap": (dimensions, values)}, coordinates)


def test_image_networks_both_ways() -> None:
    assert verdict("003/fig-5", _image_gaps(True))[0] == "agree"
    assert verdict("003/fig-5", _image_gaps(False))[0] == "disagree"


def _conjecture(slope: float, apart: float) -> xarray.Dataset:
    axes = find("003/fig-6").quick.axes
    widths, count = np.array(axes["width"], dtype=float), len(axes["activation"])
    values = widths**slope * np.exp(0.01 * RNG.normal(size=(count, 8, len(widths))))
    values *= np.exp(apart * np.arange(count))[:, None, None]
    zeros = np.zeros((count, len(widths)))
    return xarray.Dataset(
        {
            "average": (("activation", "run", "width"), values),
            "apart": (("activation", "width"), zeros),
            "off_diagonal": (("activation", "width"), zeros),
        },
        {**axes, "run": np.arange(8)},
    )


def test_the_conjecture_both_ways() -> None:
    assert verdict("003/fig-6", _conjecture(-0.5, 0.0))[0] == "agree"
    assert verdict("003/fig-6", _conjecture(-0.5, 0.3))[0] == "partly"
    assert verdict("003/fig-6", _conjecture(-0.1, 0.3))[0] == "disagree"


def _distances(slope: float, growth: float) -> xarray.Dataset:
    axes, constants = find("003/table-1").quick.axes, find("003/table-1").quick.constants
    widths, depths = np.array(axes["width"], dtype=float), constants["depths"]
    shape = (3, len(widths), constants["runs"], 2)
    values = widths[:, None, None] ** slope * np.exp(0.02 * RNG.normal(size=shape))
    values[:2, :, :, 1] *= growth
    values[2, :, :, 1] /= growth ** (1 if growth < 1 else 0)
    coordinates = {**axes, "run": np.arange(shape[2]), "depth": depths}
    return xarray.Dataset({"distance": (("network", "width", "run", "depth"), values)}, coordinates)


def test_the_table_of_gaussians_both_ways() -> None:
    assert verdict("003/table-1", _distances(-0.5, 3.0))[0] == "agree"
    assert verdict("003/table-1", _distances(0.1, 0.5))[0] == "disagree"


def _gram_errors(identifier: str, function: Any) -> xarray.Dataset:
    study = find(identifier)
    axes, constants = study.quick.axes, study.quick.constants
    layers = np.arange(constants["depth"] + 1)
    grid = [np.asarray(values) if isinstance(values[0], int) else np.arange(len(values)) for values in axes.values()]
    mesh = np.meshgrid(*grid, layers, indexing="ij")
    clean = function(*mesh).astype(float)
    values = clean[None] * np.exp(0.01 * RNG.normal(size=(constants["runs"], *clean.shape)))
    coordinates = {**axes, "run": np.arange(constants["runs"]), "layer": layers}
    return xarray.Dataset({"error": (("run", *axes, "layer"), values)}, coordinates)


def test_mean_field_verdicts_both_ways() -> None:
    def grows(network: Any, layer: Any) -> Any:  # network 0 has batch norm
        return np.where(network == 0, 0.1 * 0.999**layer, 0.1 * np.sqrt(1 + layer))

    assert verdict("001/fig-3.1", _gram_errors("001/fig-3.1", grows))[0] == "agree"
    assert verdict("001/fig-3.1", _gram_errors("001/fig-3.1", lambda network, layer: grows(1 - network, layer)))[0] == (
        "disagree"
    )
    fall = _gram_errors("001/fig-3.2", lambda network, layer: 0.2 + 2 * 0.75**layer)
    assert verdict("001/fig-3.2", fall)[0] == "agree"
    rise = _gram_errors("001/fig-3.2", lambda network, layer: 1 + 2 * layer)
    assert not any(verdict("001/fig-3.2", rise)[1].values())
    slope = _gram_errors("001/fig-3.3", lambda width, network, layer: 3 / np.sqrt(width))
    assert verdict("001/fig-3.3", slope)[0] == "agree"
    assert verdict("001/fig-3.3", _gram_errors("001/fig-3.3", lambda w, network, layer: w**-0.2))[0] == "partly"
    batch = _gram_errors("001/fig-3.4", lambda samples, network, layer: 0.02 * samples)
    assert verdict("001/fig-3.4", batch)[0] == "agree"
    assert verdict("001/fig-3.4", _gram_errors("001/fig-3.4", lambda s, network, layer: 1e3 / s))[0] == "disagree"


def _run(study: Study, **changes: Any) -> xarray.Dataset:
    """All cells of a cheap study, combined without a store."""
    job = make_job(study, overridden(study, "quick", changes))
    parts = [
        job.function(cell.configuration, 0).expand_dims({k: [v] for k, v in cell.coordinates.items()})
        for cell in job.cells
    ]
    return xarray.combine_by_coords(parts)  # type: ignore[return-value]


def test_a_misprinted_hermite_polynomial_is_noticed() -> None:
    study = find("001/tab-5.1")
    assert verdict("001/tab-5.1", _run(study))[0] == "agree"
    wrong = ["1", "x", "x**2 - 1", "x**3 - 3*x", "x**4 - 6*x**2 + 2"]
    assert verdict("001/tab-5.1", _run(study, plain=wrong))[0] == "partly"


def test_properties_that_do_not_agree_are_noticed() -> None:
    study = find("001/tab-5.2")
    few = ["identity", "unit(relu)", "tanh"]
    result = _run(study, activation=few)
    assert verdict("001/tab-5.2", result, activation=few)[0] == "agree"
    broken = result.copy(deep=True)
    broken["centred"].loc[{"activation": "tanh", "of": "kernel map"}] = 0.5
    assert verdict("001/tab-5.2", broken, activation=few)[0] == "partly"
    alone = _run(study, activation=["tanh"])  # no activation without the property: nothing can be told
    assert verdict("001/tab-5.2", alone, activation=["tanh"])[0] == "unclear"


def test_captions_of_the_cases_are_checked() -> None:
    assert verdict("001/fig-5.1", _run(find("001/fig-5.1")))[0] == "agree"
    _, statements = verdict("001/fig-5.2", _run(find("001/fig-5.2")))
    missed = [name for name, seen in statements.items() if not seen]
    assert "relu: is in case 2" in missed
    assert "exp: is in case 3" not in missed


def test_isometry_that_does_not_follow_volume_is_noticed() -> None:
    result = _run(find("001/fig-4.1"))
    assert verdict("001/fig-4.1", result)[0] == "agree"
    assert verdict("001/fig-4.1", result.assign(isometry=1 - result["isometry"]))[0] == "partly"


def test_a_symbol_that_is_off_is_noticed() -> None:
    axes = find("003/table-2").quick.axes["symbol"]
    right = xarray.Dataset({"error": ("symbol", np.zeros(len(axes)))}, {"symbol": list(axes)})
    assert verdict("003/table-2", right)[0] == "agree"
    assert verdict("003/table-2", right + 1e-3)[0] == "partly"


# --- end to end ------------------------------------------------------------------------------------------------------


def test_pictures_are_drawn_from_small_results() -> None:
    for identifier in ("001/fig-4.1", "001/fig-5.2", "001/tab-5.1"):
        study = find(identifier)
        assert study.draw(_run(study), settings_of(study.quick)).axes


@pytest.mark.slow
@pytest.mark.parametrize("identifier", ["001/fig-3.1", "001/fig-2.3", "003/table-2"])
def test_whole_studies(identifier: str, tmp_path: Path) -> None:
    made = reproduce([find(identifier)], tmp_path, workers=1)
    assert made[0].record["verdict"] in ("agree", "partly")
    assert (made[0].folder / "figure.png").stat().st_size > 5000
