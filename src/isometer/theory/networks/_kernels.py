"""NNGP and NTK of a network as it is written."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import numpy as np
from numpy.typing import ArrayLike, NDArray

from isometer.activations import Activation, activation
from isometer.errors import IsometerError
from isometer.spec import Act, Chain, Norm, Spec
from isometer.spec._activation import resolved
from isometer.spec._steps import walk as every_step
from isometer.theory.kernels._inputs import Batch
from isometer.theory.kernels._kernel_map import Norm as NormName
from isometer.theory.kernels._kernel_matrix import ACCURACY, KernelMatrix, Kind, kernel_matrices, singular_reason
from isometer.theory.kernels._length_map import diverging
from isometer.theory.networks._expectations import Expectations
from isometer.theory.networks._inputs import checked_inputs, input_state
from isometer.theory.networks._interpreter import Layers, passage, sample_gram
from isometer.theory.networks._state import FeatureState
from isometer.theory.networks._weights import Run, weight_variance
from isometer.theory.networks._work import check_network_work

Floats = NDArray[np.float64]
_FEW_DIGITS = 1e-4  # share of the diagonal that must be left
_SCRAMBLES = 4  # sets of points
_STUDENT = 3.18  # standard deviations of one, known from four: 95 %


def network_kernels(
    spec: Spec,
    inputs: ArrayLike,
    *,
    kinds: Sequence[Kind] = ("nngp", "ntk"),
    progress: Callable[[int, int], None] | None = None,
) -> dict[Kind, KernelMatrix]:
    """NNGP and NTK of a network of infinite width on a batch, the network as it is written.

    NNGP: the mean over features (and positions) of products of what leaves the network, `H Hᵀ / d`. A network whose
    last step is dense has the kernel of a Gaussian process. NTK: of one feature of the output, all weights and biases
    trained, in the parametrisation W = σ·N(0, 1)/√fan_in, b = σ_b·N(0, 1): a dense step takes (K, Θ) to
    σ²(K, Θ + K), an activation multiplies Θ by E φ′φ′. No input layer and no readout are added.

    A batch norm has kernels of the batch as a whole. Where no formula covers them they are sampled: `error` is the
    estimate (of tangent kernels about 1e-3), and `warnings` says so.

    Args:
        spec: the network; its widths enter by the laws of weights only.
        inputs: `(n, features)`, or `(n, features, *positions)`.
        kinds: which of "nngp" and "ntk".
        progress: called as `progress(done, total)` in layers.

    Returns:
        One `KernelMatrix` per kind.

    Raises:
        NotCovered: theory does not cover some step where it stands.

    Example:
        >>> spec = Spec("input(2) > repeat(residual(act('relu') > dense(gain=2**0.5)), 2) > norm('rms') > dense(1)")
        >>> both = network_kernels(spec, np.eye(2) * 2**0.5)
        >>> both["nngp"].matrix.round(6).tolist()
        [[1.0, 0.159155], [0.159155, 1.0]]
    """
    for kind in kinds:
        if kind not in ("nngp", "ntk"):
            raise IsometerError(f"kind must be 'nngp' or 'ntk'; got {kind!r}")
    array = checked_inputs(inputs, spec.shape)
    batch = Batch.of(array.reshape(len(array), -1))
    found = _depth_free(spec, batch, kinds) if isinstance(spec, Chain) else None
    if found is not None:
        return found
    matrices = kernels_by_steps(spec, array, kinds, progress)
    silent = np.flatnonzero(~np.isfinite(next(iter(matrices.values()))[1]))
    reason = singular_reason(batch, by_direction=False, silent=silent)
    phi = _activation(spec)
    depth = sum(1 for _ in spec.executed_layers())
    out: dict[Kind, KernelMatrix] = {}
    for kind in kinds:
        matrix, logs, error = matrices[kind]
        out[kind] = KernelMatrix(kind, depth, phi, matrix, logs, batch, reason, error)
    return out


def kernels_by_steps(
    spec: Spec, inputs: ArrayLike, kinds: Sequence[Kind], progress: Callable[[int, int], None] | None = None
) -> dict[Kind, tuple[Floats, Floats, float]]:
    """(matrix over its largest diagonal entry, logarithms of the diagonal, error) of each kind, by the interpreter.

    Where expectations are sampled the matrix is that of the points that `predict` has, and independent sets of points
    tell its error by Student's law: errors of early layers are carried through all later ones, as they should be.

    Example:
        >>> spec = Spec("input(2) > dense(gain=2**0.5) > act('relu') > dense(1)")
        >>> kernels_by_steps(spec, np.eye(2), ("nngp",))["nngp"][0].round(6).tolist()  # κ(0) = 1/π
        [[1.0, 0.31831], [0.31831, 1.0]]
    """
    tangent = "ntk" in kinds
    layers = list(spec.executed_layers())
    start = input_state(spec, inputs, tangent=tangent)
    check_network_work(layers, start.layout, slopes=tangent)
    run = Run(Expectations(), tangent=tangent)
    passes = [_kernel_grams(layers, start, run, kinds, progress)]
    if run.moments.sampled:
        for scramble in range(1, _SCRAMBLES):
            own = Run(Expectations(), tangent=tangent, scramble=scramble)
            passes.append(_kernel_grams(layers, start, own, kinds, progress))
    out: dict[Kind, tuple[Floats, Floats, float]] = {}
    for kind in kinds:
        drawn = np.stack([grams[kind][0] for grams in passes])
        gram, log_scale = passes[0][kind]
        with np.errstate(divide="ignore"):
            logs = np.log(np.diag(gram)) + 2 * log_scale
        largest = float(np.diag(gram).max())
        size = largest if largest > 0.0 else 1.0
        error = run.moments.error
        if len(drawn) > 1:
            error = _STUDENT * float(drawn.std(axis=0, ddof=1).max()) / size
        out[kind] = gram / size, logs, max(ACCURACY, error)
    return out


def _kernel_grams(
    layers: Layers, start: FeatureState, run: Run, kinds: Sequence[Kind], progress: Callable[[int, int], None] | None
) -> dict[Kind, tuple[Floats, float]]:
    """Of each kind the matrix `(n, n)` and the logarithm of the scale of features that it leaves out."""
    found = passage(layers, start, run, progress=progress)
    if found.diverged >= 0:
        raise diverging("the network", found.diverged)
    last = found.last
    out: dict[Kind, tuple[Floats, float]] = {}
    for kind in kinds:
        own = last.second().gram() if kind == "nngp" else last.tangent()
        assert own is not None
        out[kind] = sample_gram(own, last.layout), last.log_scale
    return out


def _activation(spec: Spec) -> Activation:
    """The first activation of a network, the identity where there is none."""
    first = next((step for step in every_step(spec.composition) if isinstance(step, Act)), None)
    return activation("identity") if first is None else resolved(first.activation)


# --- chains whose cost does not depend on depth -----------------------------------------------------------------------


def _depth_free(spec: Chain, batch: Batch, kinds: Sequence[Kind]) -> dict[Kind, KernelMatrix] | None:
    """The kernels of weights > (norm over features >) activation, repeated, from the network of `kernel_matrices`.

    That one ends with a readout, the biases of which are V/v in units where weights have the variance 1: its NNGP is
    K + V/v, its NTK that plus the Θ of what leaves the last activation. None where that does not apply, or where the
    difference would have few digits.
    """
    if not _is_plain(spec):
        return None
    variance = _layer_variance(spec, 1)
    norm = spec.norm
    alpha = spec.at("activation_gain", 1)
    root = alpha if norm is not None else alpha * math.sqrt(variance)
    phi = spec.phi if root == 1.0 else spec.phi.gain(root)
    bias = spec.bias_variance / variance
    scaled = Batch(batch.directions, batch.squared_lengths / batch.directions.shape[1])
    kind_of_norm: NormName = "none" if norm is None else "layer" if norm.recenter else "rms"
    whole = kernel_matrices(phi, scaled, spec.layers, kinds=("nngp", *kinds), bias=bias, norm=kind_of_norm)
    readout = whole["nngp"].matrix * math.exp(whole["nngp"].log_diagonal.max())
    out: dict[Kind, KernelMatrix] = {}
    for kind in kinds:
        one = whole[kind]
        size = math.exp(min(float(one.log_diagonal.max()), 700.0))
        gram = one.matrix * size - (bias if kind == "nngp" else readout)
        diagonal = np.diag(gram).copy()
        if not (diagonal > _FEW_DIGITS * size).all():
            return None
        logs = np.log(diagonal)
        out[kind] = KernelMatrix(kind, spec.layers, spec.phi, gram / diagonal.max(), logs, batch, one.singular)
    return out


def _layer_variance(spec: Chain, layer: int) -> float:
    sizes = spec.fan_in[layer - 1], spec.widths[layer - 1]
    return weight_variance(spec.weights, *sizes, spec.at("gain", layer), spec.weight_scaling)


def _is_plain(spec: Chain) -> bool:
    """Whether all layers are weights > norm over features > activation with the same numbers."""
    norm, order = spec.norm, tuple(step for step in spec.steps if step in spec.operations)
    if spec.has_skip or spec.scale != 1.0 or spec.weights == "asymmetric":
        return False
    if order not in (("weights", "activation"), ("weights", "norm", "activation")):
        return False
    if norm is not None and norm not in (Norm.named("layer"), Norm.named("rms")):
        return False
    numbers = {(_layer_variance(spec, layer), spec.at("activation_gain", layer)) for layer in range(1, spec.layers + 1)}
    return len(numbers) == 1 and next(iter(numbers))[0] > 0.0
