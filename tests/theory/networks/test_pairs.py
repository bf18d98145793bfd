"""Kernels pair by pair: against neural-tangents, the interpreter, and themselves in other orders and precisions."""

from __future__ import annotations

import tracemalloc

import numpy as np
import pytest

from isometer import Spec
from isometer.errors import IsometerError
from isometer.theory.networks import NotCovered, PairKernels, network_kernels, pair_kernels
from isometer.work import TooMuchWorkError, allow
from support.references import stored

REFERENCES = {**stored("networks"), **stored("convolutions")}
IMAGES = np.random.default_rng(3).standard_normal((5, 2, 6, 5))
CONV = "conv(3, 8, padding='zeros', gain=1.3) > bias(0.1)"


@pytest.mark.parametrize("name", REFERENCES)
def test_pairs_have_the_kernels_of_neural_tangents(name: str) -> None:
    """NNGP to rounding, NTK to that library's own error; no entry is left out, symmetric and rectangular alike."""
    reference = REFERENCES[name]
    spec, inputs = Spec(reference["network"]), np.array(reference["inputs"])
    found, corner = pair_kernels(spec, inputs), pair_kernels(spec, inputs[:1], inputs[1:])
    for kind, tolerance in (("nngp", 1e-13), ("ntk", 2e-9)):
        expected = np.array(reference[kind])
        size = np.diag(expected).max()
        assert np.abs(found[kind] - expected).max() < tolerance * size
        assert np.abs(corner[kind] - expected[:1, 1:]).max() < tolerance * size


@pytest.mark.parametrize(
    "text",
    [
        f"{CONV} > act('tanh') > {CONV} > act('swish') > pool > dense(1)",
        f"{CONV} > act('gelu') > residual(norm('rms') > {CONV} > act('erf') > {CONV}) > flatten > dense(1)",
        f"conv(3, 8, padding='reflect', dilation=2) > act('leaky_relu(0.3)') > pool('mean', 2) > {CONV} > act('abs')",
        f"{CONV} > dropout(0.2) > noise(0.3) > {CONV} > act('relu') > norm('layer') > {CONV} > flatten",
        f"{CONV} > act('relu') > upsample(2) > conv(5, 8, stride=2, padding='circular') > act('abs') > pool",
    ],
)
def test_pairs_and_the_interpreter_agree(text: str) -> None:
    """Two implementations: whole batches by 1 − ρ, and pairs by products."""
    spec = Spec(f"input(2, [6, 5]) > {text}")
    whole, pairs = network_kernels(spec, IMAGES), pair_kernels(spec, IMAGES)
    for kind in ("nngp", "ntk"):
        expected = whole[kind].matrix * np.exp(whole[kind].log_diagonal.max())
        assert np.abs(pairs[kind] - expected).max() < 1e-9 * np.diag(expected).max()


def test_pairs_in_any_order_and_number() -> None:
    """An entry depends on its two inputs alone, whatever else is asked for with it."""
    spec = Spec(
        f"input(2, [6, 5]) > {CONV} > act('relu') > pool('mean', 2) > {CONV} > act('relu') > flatten > dense(1)"
    )
    engine, whole = PairKernels(spec, IMAGES), pair_kernels(spec, IMAGES)
    one, other = np.array([4, 0, 2, 2]), np.array([1, 0, 3, 2])
    for kind, entries in engine(one, other).items():
        assert np.abs(entries / whole[kind][one, other] - 1).max() < 1e-14
        alone = [float(engine([i], [j])[kind][0]) for i, j in zip(one, other, strict=True)]
        assert np.abs(np.array(alone) / entries - 1).max() < 1e-14


def test_single_precision_has_six_digits() -> None:
    spec = Spec(f"input(2, [6, 5]) > repeat({CONV} > act('relu'), 4) > pool > dense(1)")
    exact, single = pair_kernels(spec, IMAGES), pair_kernels(spec, IMAGES, precision="float32")
    for kind in ("nngp", "ntk"):
        assert 1e-12 < np.abs(single[kind] - exact[kind]).max() / np.diag(exact[kind]).max() < 3e-6


def test_equal_images_have_the_kernel_of_one() -> None:
    """Where two samples are equal, products round and the derivative of the kernel is steep."""
    spec = Spec(f"input(2, [6, 5]) > repeat({CONV} > act('relu'), 6) > flatten > dense(1)")
    twice = np.concatenate([IMAGES[:1], IMAGES[:1]])
    for kind, tolerance in (("nngp", 1e-13), ("ntk", 1e-7)):
        matrix = pair_kernels(spec, twice, kinds=(kind,))[kind]
        assert abs(matrix[0, 1] / matrix[0, 0] - 1) < tolerance


def test_memory_is_that_of_a_few_pairs() -> None:
    """All pairs of positions of 60 images would take 1830 · 8 · 64² · 8 bytes, 480 MB, in eight arrays."""
    spec = Spec("input(3, [8, 8]) > conv(3, 8, padding='zeros') > act('relu') > pool > dense(1)")
    images = np.random.default_rng(0).standard_normal((60, 3, 8, 8))
    engine = PairKernels(spec, images)
    tracemalloc.start()
    engine(*np.triu_indices(60))
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < engine.work(1830).memory < 1.2e8


@pytest.mark.parametrize(
    ("text", "names"),
    [
        (f"{CONV} > norm('batch') > act('relu')", "batch norm"),
        (f"{CONV} > act('hardtanh')", "hardtanh"),
        (f"{CONV} > pool('max', 2)", "max"),
        (f"{CONV} > act('relu') > act('relu')", "relu"),
        (f"{CONV} > act('relu') > residual(act('relu'))", "relu"),
    ],
)
def test_what_pairs_cannot_have_is_named(text: str, names: str) -> None:
    with pytest.raises(NotCovered, match=names):
        pair_kernels(Spec(f"input(2, [6, 5]) > {text}"), IMAGES)


def test_too_much_work_is_refused_before_it_starts() -> None:
    spec = Spec("input(3, [32, 32]) > repeat(conv(3, 8, padding='zeros') > act('relu'), 10) > pool > dense(1)")
    with allow(seconds=5.0), pytest.raises(TooMuchWorkError, match="kernel"):
        pair_kernels(spec, np.ones((300, 3, 32, 32)))


def test_bad_words_are_refused() -> None:
    spec = Spec("input(2) > dense(3)")
    with pytest.raises(IsometerError, match="'float16'"):
        pair_kernels(spec, np.eye(2), precision="float16")  # type: ignore[arg-type]
    with pytest.raises(IsometerError, match="'gp'"):
        pair_kernels(spec, np.eye(2), kinds=("gp",))  # type: ignore[arg-type]
