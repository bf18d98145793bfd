"""Convolutional chains against the dense matrix of a convolution, and the laws of their weights."""

import json
import math

import numpy as np
import pytest
import torch
import xarray as xr
from hypothesis import given, settings
from hypothesis import strategies as st

from isometer import metrics as metric_library
from isometer.errors import IsometerError
from isometer.simulate import ConvolutionSpec, simulate_convolution
from isometer.simulate._convolution import convolution_matrix, draw_kernel
from isometer.theory.batch_norm import spectrum_map


def images(n=4, channels=3, side=5, seed=0):
    return np.random.default_rng(seed).normal(size=(n, channels, side, side))


def generator_of_run(seed, run):
    """Run r draws from the r-th child of the seed."""
    child = np.random.SeedSequence(seed).spawn(run + 1)[run]
    return torch.Generator().manual_seed(int(child.generate_state(1, np.uint64)[0] >> np.uint64(1)))


# --- a convolution is a dense layer ----------------------------------------------------------------------------------


@given(
    st.integers(1, 5), st.integers(1, 3), st.integers(1, 3), st.integers(2, 6), st.integers(2, 6), st.integers(0, 99)
)
@settings(max_examples=25, deadline=None)
def test_convolution_is_the_unfolded_matrix(side, channels_in, channels_out, height, width, seed):
    generator = torch.Generator().manual_seed(seed)
    kernel = torch.randn((channels_out, channels_in, side, side), generator=generator, dtype=torch.float64)
    batch = torch.randn((2, channels_in, height, width), generator=generator, dtype=torch.float64)
    before, after = (side - 1) // 2, side // 2
    for padding, mode in (("circular", "circular"), ("zero", "constant")):
        padded = torch.nn.functional.pad(batch, (before, after, before, after), mode=mode)
        expected = torch.nn.functional.conv2d(padded, kernel).flatten(1)
        matrix = convolution_matrix(kernel, height, width, padding=padding)
        torch.testing.assert_close(batch.flatten(1) @ matrix.T, expected, rtol=1e-12, atol=1e-12)


def test_circular_matrix_is_block_circulant():
    kernel = torch.randn((2, 3, 3, 3), generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    blocks = convolution_matrix(kernel, 4, 5).reshape(2, 4, 5, 3, 4, 5)
    shifted = torch.roll(blocks, shifts=(1, 2, 1, 2), dims=(1, 2, 4, 5))
    assert torch.equal(blocks, shifted)
    zero = convolution_matrix(kernel, 4, 5, padding="zero").reshape(2, 4, 5, 3, 4, 5)
    assert not torch.equal(zero, torch.roll(zero, shifts=(1, 2, 1, 2), dims=(1, 2, 4, 5)))


def dense_chain(spec, batch, seed, run, at):
    """The same network with dense matrices and NumPy: representations per layer, as they are."""
    generator = generator_of_run(seed, run)
    n, _, height, width = batch.shape
    activations = {"relu": lambda z: np.maximum(z, 0), "tanh": np.tanh, "identity": lambda z: z}
    channels, state = batch.shape[1], batch.reshape(n, -1)
    out = [state]

    def normalize(flat, channels):
        if spec.norm is None:
            return flat
        stack = flat.reshape(n, channels, -1)
        if spec.norm == "batch":
            stack = stack - stack.mean(axis=(0, 2), keepdims=True)
        return (stack / np.sqrt((stack**2).mean(axis=(0, 2), keepdims=True))).reshape(n, -1)

    for wide in spec.widths:
        matrix = convolution_matrix(draw_kernel(spec, wide, channels, generator), height, width, padding=spec.padding)
        hidden = state @ matrix.numpy().T
        if spec.norm_position == "pre":
            hidden = normalize(hidden, wide)
        state = activations[spec.activation](hidden)
        if spec.norm_position == "post":
            state = normalize(state, wide)
        out.append(state if at == "post" else hidden)
        channels = wide
    return out


@pytest.mark.parametrize(
    ("options", "at"),
    [
        ({"padding": "circular"}, "post"),
        ({"padding": "circular", "norm": "batch"}, "pre"),
        ({"padding": "circular", "norm": "batch-rescale", "activation": "identity"}, "post"),
        ({"norm": "batch", "norm_position": "post", "weights": "orthogonal"}, "post"),
        ({"activation": "tanh", "weights": "uniform", "kernel_size": 4, "gain": 2.0}, "pre"),
        ({"padding": "circular", "weights": "pytorch", "kernel_size": 2}, "post"),
    ],
)
def test_chain_equals_the_dense_network(options, at):
    spec = ConvolutionSpec(channels=(6, 2, 5), **options)
    batch = images()
    names = ["orthogonality_gap", "isometry_gap", "mean_abs_cosine", "soft_rank", "effective_rank"]
    chain = simulate_convolution(spec, batch, 2, names, seed=5, at=at)
    for run in range(2):
        for layer, flat in enumerate(dense_chain(spec, batch, 5, run, at)):
            for name in names:
                expected = float(getattr(metric_library, name)(flat))
                assert float(chain[name][run, layer]) == pytest.approx(expected, rel=1e-8, abs=1e-10)
            assert float(chain.log_norm[run, layer]) == pytest.approx(math.log(np.linalg.norm(flat)), abs=1e-11)


# --- format, seeds, scale --------------------------------------------------------------------------------------------


def test_dataset_has_the_trajectory_format(tmp_path):
    spec = ConvolutionSpec(channels=4, depth=3, norm="batch")
    every = metric_library.names("gram", "products", "representation")
    chain = simulate_convolution(spec, images(), 2, every, seed=0)
    assert dict(chain.sizes) == {"run": 2, "layer": 4}
    assert set(chain.data_vars) == {*every, "log_norm"}
    assert chain.depth.values.tolist() == chain.layer.values.tolist() == [0, 1, 2, 3]
    assert chain.op.values.tolist() == ["input", *["convolution norm activation"] * 3]
    assert set(chain.site.values[1:].tolist()) == {"output"}
    assert ConvolutionSpec(**json.loads(chain.attrs["spec"])) == spec
    chain.to_netcdf(tmp_path / "chain.nc", engine="h5netcdf")
    with xr.open_dataset(tmp_path / "chain.nc", engine="h5netcdf") as stored:
        xr.testing.assert_equal(stored.load(), chain)


def test_seeds_repeat_to_the_bit_and_runs_do_not_depend_on_their_number():
    spec = ConvolutionSpec(channels=5, depth=4, norm="batch")
    first = simulate_convolution(spec, images(), 3, ["orthogonality_gap"], seed=11)
    again = simulate_convolution(spec, images(), 3, ["orthogonality_gap"], seed=11)
    fewer = simulate_convolution(spec, images(), 2, ["orthogonality_gap"], seed=11)
    other = simulate_convolution(spec, images(), 3, ["orthogonality_gap"], seed=12)
    xr.testing.assert_identical(first, again)
    xr.testing.assert_equal(first.isel(run=slice(2)), fewer)
    assert len(np.unique(np.concatenate([first.orthogonality_gap[:, 1], other.orthogonality_gap[:, 1]]))) == 6


def test_homogeneous_chains_carry_their_scale():
    names = ["orthogonality_gap", "mean_abs_cosine"]
    plain = simulate_convolution(ConvolutionSpec(channels=4, depth=150), images(), 1, names, seed=3)
    for gain in (2.0**20, 2.0**-20):  # 2^±3000 at the last layer
        spec = ConvolutionSpec(channels=4, depth=150, gain=gain)
        scaled = simulate_convolution(spec, images(), 1, names, seed=3)
        for name in names:
            np.testing.assert_array_equal(scaled[name], plain[name])
        shift = plain.layer.values * math.log(gain)
        np.testing.assert_allclose(scaled.log_norm.values[0] - plain.log_norm.values[0], shift, rtol=1e-12)
    huge = simulate_convolution(ConvolutionSpec(channels=4, depth=2), images() * 1e200, 1, names, seed=3)
    np.testing.assert_allclose(huge.log_norm, plain.log_norm[:, :3] + math.log(1e200), rtol=1e-12)


def test_soft_rank_counts_in_the_units_of_the_unscaled_representation():
    spec = ConvolutionSpec(channels=6, depth=12, gain=3.0)
    chain = simulate_convolution(spec, images(), 1, ["soft_rank"], seed=1)
    for layer, flat in enumerate(dense_chain(spec, images(), 1, 0, "post")):
        assert int(chain.soft_rank[0, layer]) == int(metric_library.soft_rank(flat))


def test_other_chains_name_the_layer_at_which_they_overflow():
    spec = ConvolutionSpec(channels=4, depth=12, activation="cube", gain=10.0)
    with pytest.raises(IsometerError, match=r"run 0 overflows at layer \d+; .* lower the gain"):
        simulate_convolution(spec, images(), 1, ["rank"], seed=0)


def test_degenerate_batches_have_answers():
    same = np.repeat(images(1), 3, axis=0)
    chain = simulate_convolution(ConvolutionSpec(4, 3, norm="batch"), same, 1, ["rank", "isometry_gap"], seed=0)
    assert chain["rank"].values.tolist() == [[1, 1, 1, 1]]
    assert (chain.isometry_gap == math.inf).all()
    for norm in (None, "batch", "batch-rescale"):
        zero = simulate_convolution(ConvolutionSpec(4, 2, norm=norm), 0 * same, 1, ["orthogonality_gap"], seed=0)
        assert np.isfinite(zero.orthogonality_gap).all()
        assert (zero.log_norm == -math.inf).all()
    # A constant image stays constant over space with circular padding: after recentring nothing is left
    flat = np.ones((1, 2, 4, 4))
    gone = simulate_convolution(ConvolutionSpec(4, 1, norm="batch", padding="circular"), flat, 1, [], seed=0)
    assert gone.log_norm.values[0, 1] == -math.inf


def test_float32_follows_float64():
    spec = ConvolutionSpec(channels=8, depth=5, norm="batch")
    double = simulate_convolution(spec, images(), 1, ["orthogonality_gap"], seed=2)
    single = simulate_convolution(spec, images(), 1, ["orthogonality_gap"], seed=2, dtype=torch.float32)
    np.testing.assert_allclose(single.orthogonality_gap, double.orthogonality_gap, rtol=1e-4)


# --- laws ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("law", "share"), [("gaussian", 1.0), ("uniform", 1.0), ("pytorch", 1 / 3)])
def test_variance_of_the_weights(law, share):
    # 57 600 entries: the standard error of the variance is at most √(2/57600) = 0.6 % of it; 4.5 of those. A variance
    # that is off by 5 % is found with probability above 0.99.
    spec = ConvolutionSpec(channels=64, depth=1, weights=law, gain=1.5)
    kernel = draw_kernel(spec, 64, 100, torch.Generator().manual_seed(0))
    assert kernel.shape == (64, 100, 3, 3)
    expected = share * 1.5**2 / 900
    assert float(kernel.square().mean()) == pytest.approx(expected, rel=4.5 * math.sqrt(2 / kernel.numel()))
    assert abs(float(kernel.mean())) < 4.5 * math.sqrt(expected / kernel.numel())
    if law != "gaussian":
        assert float(kernel.abs().max()) <= math.sqrt(3 * expected)


def test_orthogonal_kernels_are_haar_frames():
    spec = ConvolutionSpec(channels=3, depth=1, weights="orthogonal", kernel_size=1, gain=2.0)
    wide = draw_kernel(spec, 3, 7, torch.Generator().manual_seed(0)).flatten(1)
    tall = draw_kernel(spec, 7, 3, torch.Generator().manual_seed(0)).flatten(1)
    torch.testing.assert_close(wide @ wide.T, 4 * torch.eye(3, dtype=torch.float64))
    torch.testing.assert_close(tall.T @ tall, 4 * torch.eye(3, dtype=torch.float64))
    # E tr Q = 0 and E (tr Q)² = 1 for Haar Q; 600 draws, bounds at 4.5 standard errors. Without the signs of R the mean
    # of the trace is about −0.5 here, 12 standard errors away.
    generator = torch.Generator().manual_seed(1)
    traces = torch.stack([draw_kernel(spec, 3, 3, generator).flatten(1).diagonal().sum() / 2 for _ in range(600)])
    assert abs(float(traces.mean())) < 4.5 / math.sqrt(600)
    assert float(traces.square().mean()) == pytest.approx(1, abs=4.5 * math.sqrt(2 / 600))


def test_mean_gram_of_one_pixel_is_the_infinite_width_map():
    # On 1 × 1 images a convolution is dense, and batch norm without mean makes the mean Gram matrix diag(p(λ)) in the
    # basis of the input (003/lem-6). 400 runs × 50 channels: standard error below 0.003; an error of 0.02 in a share
    # is found with probability above 0.99.
    spectrum = np.array([1.0, 0.25, 0.04])
    batch = torch.tensor(np.diag(np.sqrt(spectrum))).reshape(3, 3, 1, 1)
    spec = ConvolutionSpec(channels=50, depth=1, kernel_size=1, norm="batch-rescale", activation="identity")
    kernels = [draw_kernel(spec, 50, 3, generator_of_run(9, run)).flatten(1) for run in range(400)]
    grams = []
    for kernel in kernels:
        hidden = kernel @ batch.flatten(1).T
        rows = hidden / hidden.norm(dim=1, keepdim=True)
        grams.append((rows.square().mean(dim=0)).numpy())
    shares, error = np.mean(grams, axis=0), np.std(grams, axis=0) / 20
    assert (np.abs(shares - spectrum_map(spectrum).eigenvalues) < 4.5 * error).all()
    assert (error < 3e-3).all()
    # …and the simulation normalises as it should: V of its first layer from the same kernels
    chain = simulate_convolution(spec, batch, 3, ["orthogonality_gap"], seed=9)
    for run in range(3):
        hidden = kernels[run] @ batch.flatten(1).T
        rows = hidden / hidden.norm(dim=1, keepdim=True)
        expected = float(metric_library.orthogonality_gap(rows.T))
        assert float(chain.orthogonality_gap[run, 1]) == pytest.approx(expected, rel=1e-12)


def test_batch_norm_lowers_the_gap_and_vanilla_chains_raise_it():  # 003/fig-5, reduced
    batch = images(8, 3, 6) + 1.5 * images(1, 3, 6, seed=1)
    vanilla, normed = (
        simulate_convolution(ConvolutionSpec(16, 20, norm=norm), batch, 4, ["orthogonality_gap"], seed=0, at="pre")
        for norm in (None, "batch")
    )
    assert set(vanilla.site.values[1:].tolist()) == {"pre-activation"}
    start = float(vanilla.orthogonality_gap[0, 0])
    assert (vanilla.orthogonality_gap[:, -1] > start).all()
    assert (normed.orthogonality_gap[:, -1] < start).all()
    assert (normed.orthogonality_gap[:, 10:].max() < vanilla.orthogonality_gap[:, 10:].min()).item()


# --- refusals --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"channels": 4}, "depth is None; expected a whole number of at least 1"),
        ({"channels": (4, 4), "depth": 3}, "channels are given for 2 layers"),
        ({"channels": 0, "depth": 3}, "expected at least 1 of each"),
        ({"channels": 2.5, "depth": 3}, "channels is 2.5; expected a whole number"),
        ({"channels": 4, "depth": 3, "kernel_size": 0}, "kernel_size is 0"),
        ({"channels": 4, "depth": 3, "padding": "same"}, "unknown padding 'same'; expected one of circular, zero"),
        ({"channels": 4, "depth": 3, "weights": "he"}, "unknown weights 'he'; expected one of gaussian"),
        ({"channels": 4, "depth": 3, "norm": "layer"}, "unknown norm 'layer'; expected one of None, batch"),
        ({"channels": 4, "depth": 3, "norm_position": "mid"}, "unknown norm_position 'mid'"),
        ({"channels": 4, "depth": 3, "gain": 0.0}, "gain is 0.0; expected a finite number above 0"),
        ({"channels": 4, "depth": 3, "activation": "rleu"}, "did you mean 'relu'"),
    ],
)
def test_specs_are_checked(options, message):
    with pytest.raises(IsometerError, match=message):
        ConvolutionSpec(**options)


@pytest.mark.parametrize(
    ("options", "batch", "message"),
    [
        ({}, np.ones((3, 4)), r"shape \(3, 4\); expected \(n, channels, height, width\)"),
        ({}, np.full((2, 1, 3, 3), np.nan), "NaN or infinite"),
        ({"norm": "batch"}, np.ones((1, 2, 1, 1)), "batch has 1 sample of 1 pixel; batch statistics need at least 2"),
        ({"padding": "circular", "kernel_size": 9}, np.ones((2, 1, 3, 3)), "kernel_size is 9 on images of 3 × 3"),
    ],
)
def test_batches_are_checked(options, batch, message):
    with pytest.raises(IsometerError, match=message):
        simulate_convolution(ConvolutionSpec(4, 2, **options), batch, 1, ["rank"], seed=0)


def test_names_are_checked():
    spec = ConvolutionSpec(4, 2)
    for metrics, runs, at, message in (
        (["gradient_log_norm"], 1, "post", "unknown metric 'gradient_log_norm'"),
        (["rank"], 0, "post", "runs is 0"),
        (["rank"], 1, "middle", "at is 'middle'"),
    ):
        with pytest.raises(IsometerError, match=message):
            simulate_convolution(spec, images(), runs, metrics, seed=0, at=at)
    with pytest.raises(IsometerError, match="padding is 'same'"):
        convolution_matrix(torch.ones(1, 1, 1, 1), 2, 2, padding="same")
