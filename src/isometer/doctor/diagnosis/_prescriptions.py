"""What can be changed, each change described once."""

from __future__ import annotations

from isometer.doctor.diagnosis._findings import Prescription

_ALL = (
    Prescription(
        "principled-gain",
        "Scale the weights so that the second moment is kept: standard deviation gain/√fan_in with the gain "
        "1/√E[φ(z)²] "
        "of the activation that follows (√2 for ReLU).",
        "weights",
        ("001/act-gain",),
    ),
    Prescription(
        "orthogonal-init",
        "Draw the weights as random orthogonal matrices, times the gain.",
        "weights",
        ("001/thm-6.5", "001/fig-6.3"),
    ),
    Prescription(
        "symmetric-init",
        "Draw the weights from a law with mean zero.",
        "weights",
        ("002/init-asym", "002/claim-3.4"),
    ),
    Prescription("zero-bias", "Start the biases at zero.", "weights", ()),
    Prescription(
        "normalize-activation",
        "Centre and scale the activation, (φ(x) − E φ(z)) / √Var φ(z), so that its fixed point is an orthogonal batch.",
        "architecture",
        ("001/thm-5.8", "004/thm-3"),
    ),
    Prescription(
        "add-batch-norm",
        "Normalise pre-activations over the batch (of at least 16 samples): it keeps the samples apart at any depth.",
        "architecture",
        ("002/thm-3", "001/thm-A.2"),
    ),
    Prescription(
        "add-layer-norm",
        "Put a layer norm (or RMS norm) before every layer of weights, so that scales no longer multiply up.",
        "architecture",
        ("001/thm-4.3",),
    ),
    Prescription(
        "pre-norm",
        "Move the normalisation inside the residual branch, x + f(norm(x)), so that the sum is handed on unscaled.",
        "architecture",
        (),
    ),
    Prescription(
        "add-residual",
        "Add skip connections around blocks of layers, with branches scaled by 1/√depth.",
        "architecture",
        (),
    ),
    Prescription(
        "shape-activation",
        "Weaken the nonlinearity with depth: φ(αx)/α with a gain α that falls with the layer.",
        "architecture",
        ("001/alg-C.5",),
    ),
    Prescription(
        "full-batch-norm",
        "Divide by the standard deviation as well as subtracting the mean.",
        "architecture",
        ("000/op-rs", "001/map-3.3"),
    ),
    Prescription(
        "larger-batch",
        "Use more samples per batch statistic, or accumulate statistics over devices.",
        "batch",
        ("001/claim-6.gauss",),
    ),
    Prescription("batch-free-norm", "Use layer or group norm, which do not need a batch.", "architecture", ()),
    Prescription(
        "distinct-samples", "Remove repeated and constant samples from the batch.", "batch", ("001/claim-6.rank",)
    ),
    Prescription("fewer-layers", "Use fewer layers.", "architecture", ()),
    Prescription(
        "clip-gradients",
        "Clip each layer's gradient relative to the size of its weights.",
        "training",
        ("001/opt-agc",),
    ),
    Prescription(
        "finite-weights",
        "Restore the weights from a checkpoint in which they are finite.",
        "weights",
        (),
    ),
    Prescription(
        "scale-branches",
        "Divide the last weights of every residual branch by the root of the number of branches.",
        "weights",
        (),
    ),
    Prescription(
        "fixup",
        "Initialise the residual branches by Fixup: scaled by the depth, their last layers zero.",
        "weights",
        ("004/init-fixup",),
    ),
    Prescription(
        "iterative-orthogonalization",
        "Set each layer's weights from the singular values of what reaches it, on a batch larger than the width.",
        "weights",
        ("003/alg-iter-mlp", "001/alg-2.6"),
    ),
    Prescription(
        "rank-pretraining",
        "Raise the rank of each layer's output by a few steps of gradient ascent before training.",
        "weights",
        ("002/alg-rank-pretrain",),
    ),
)
PRESCRIPTIONS = {prescription.id: prescription for prescription in _ALL}
"""Every prescription by its id."""


def prescribe(*ids: str) -> tuple[Prescription, ...]:
    """The prescriptions of these ids.

    Example:
        >>> [p.kind for p in prescribe("principled-gain", "larger-batch")]
        ['weights', 'batch']
    """
    return tuple(PRESCRIPTIONS[one] for one in ids)
