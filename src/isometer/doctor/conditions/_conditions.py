"""The conditions that the doctor knows, each described once: limits, references, prescriptions and the check."""

from __future__ import annotations

import math

from isometer.doctor.conditions._condition import Condition, Limits, Variant
from isometer.doctor.conditions._registry import Registry

_CHECKS = "isometer.doctor.diagnosis.checks"
_CALIBRATED = "calibration runs, see docs/doctor.md"
_PATIENTS = "the built-in patients, docs/patients.md"
_GROWTH = Limits(
    math.log(100),
    math.log(1e3),
    "The loss curves like the square of the scale: a learning rate fitted to scale 1 is off by 10⁴ (moderate) or 10⁶ "
    "(severe).",
    _CALIBRATED,
    factor=True,
)
_GRADIENT = Limits(
    math.log(50),
    math.log(400),
    "One learning rate serves all layers; the smallest relative step is this far below the largest.",
    f"{_CALIBRATED}, moved after the built-in patients",
    factor=True,
)
_SCALE = ("principled-gain", "scale-branches", "add-layer-norm", "add-batch-norm", "fixup")
_NOT_FINITE = "Everything after it, and every gradient, is lost."
_BEHIND_BATCH_NORM = ("001/claim-6.gauss", "001/thm-6.5")

CONDITIONS = Registry(
    "condition",
    (
        Condition(
            "rank-collapse",
            "Rank collapse",
            reads="1 − mean |cos| of samples, or of tokens, before the readout",
            metrics=("mean_abs_cosine", "effective_rank"),
            limits=Limits(
                0.025,
                0.005,
                "The kernel of the readout has condition number about n/(1 − ρ), and gradient descent takes that many "
                "steps.",
                _CALIBRATED,
            ),
            harm="Training is slower along what distinguishes the samples than along what they share.",
            references=("002/lem-4", "001/thm-5.11"),
            prescriptions=(
                "normalize-activation",
                "add-batch-norm",
                "shape-activation",
                "add-residual",
                "scale-branches",
                "zero-bias",
                "rank-pretraining",
                "iterative-orthogonalization",
            ),
            check=f"{_CHECKS}._signal:rank_collapse",
            order=40,
            variants={
                "tokens": Variant(
                    "of tokens",
                    Limits(
                        1e-4,
                        1e-5,
                        "A readout over tokens tolerates more: post-norm transformers train at 5e-4.",
                        _PATIENTS,
                    ),
                    references=("002/lem-4",),
                    prescriptions=("add-residual", "pre-norm", "scale-branches", "principled-gain"),
                )
            },
        ),
        Condition(
            "activation-explosion",
            "Activation explosion",
            reads="growth of the rms from the input to the last hidden representation",
            metrics=("rms",),
            limits=_GROWTH,
            harm="Loss and gradients scale with it, so every learning rate that moves the weights also makes training "
            "diverge.",
            references=("001/prop-5.1", "004/thm-12"),
            prescriptions=_SCALE,
            check=f"{_CHECKS}._scale:activation_explosion",
            order=20,
            variants={
                "broken-weights": Variant(
                    "with weights that are not finite", harm=_NOT_FINITE, prescriptions=("finite-weights",)
                ),
                "overflow": Variant(
                    "where values overflow", harm=_NOT_FINITE, prescriptions=("principled-gain", "add-layer-norm")
                ),
            },
        ),
        Condition(
            "activation-vanishing",
            "Activation vanishing",
            reads="decay of the rms from the input to the last hidden representation",
            metrics=("rms",),
            limits=_GROWTH,
            harm="The output hardly depends on the input and gradients shrink with it, so no usual learning rate moves "
            "the weights.",
            references=("001/prop-5.1", "004/thm-12"),
            prescriptions=_SCALE,
            check=f"{_CHECKS}._scale:activation_vanishing",
            order=30,
        ),
        Condition(
            "gradient-explosion",
            "Gradient explosion",
            reads="slope of log ‖∂loss/∂(trunk)‖ toward the input, times the depth",
            metrics=("output_gradient_log_norm",),
            limits=_GRADIENT,
            harm="A learning rate small enough for the first layers hardly moves the last ones.",
            references=("001/eq-6.1-6.2",),
            prescriptions=(
                "principled-gain",
                "normalize-activation",
                "shape-activation",
                "add-residual",
                "scale-branches",
                "clip-gradients",
            ),
            check=f"{_CHECKS}._gradients:gradient_explosion",
            order=60,
            variants={
                "batch-statistics": Variant(
                    "after batch norm",
                    references=_BEHIND_BATCH_NORM,
                    prescriptions=(
                        "orthogonal-init",
                        "shape-activation",
                        "add-residual",
                        "scale-branches",
                        "clip-gradients",
                    ),
                )
            },
        ),
        Condition(
            "gradient-vanishing",
            "Gradient vanishing",
            reads="slope of log ‖∂loss/∂(trunk)‖ toward the input, times the depth, with the other sign",
            metrics=("output_gradient_log_norm",),
            limits=_GRADIENT,
            harm="No learning rate that the last layers tolerate moves the first ones.",
            references=("001/eq-6.1-6.2",),
            prescriptions=("principled-gain", "normalize-activation", "shape-activation", "add-residual"),
            check=f"{_CHECKS}._gradients:gradient_vanishing",
            order=70,
            variants={"batch-statistics": Variant("after batch norm", references=_BEHIND_BATCH_NORM)},
        ),
        Condition(
            "gradient-alignment",
            "Gradient alignment",
            reads="1 − mean |cos| of the gradients of pairs that need the same change of the output",
            metrics=("gradient_alignment",),
            limits=Limits(
                0.05, 0.005, "The share of a step that distinguishes samples: the tangent kernel is nearly constant."
            ),
            harm="A step then moves all outputs together, whatever the inputs are.",
            references=("002/prop-8", "002/fig-8"),
            prescriptions=(
                "add-batch-norm",
                "normalize-activation",
                "shape-activation",
                "add-residual",
                "rank-pretraining",
            ),
            check=f"{_CHECKS}._gradients:gradient_alignment",
            order=80,
        ),
        Condition(
            "odd-point",
            "Odd point",
            reads="share of the batch's squared length in one sample, at more than 45° to the rest",
            metrics=("mean_abs_cosine",),
            limits=Limits(
                0.5, 0.8, "In the invariant geometry of recentring and ReLU the share tends to (n − 1)/n.", _PATIENTS
            ),
            harm="Recentring without rescaling lets ReLU single out one sample, and the differences between the "
            "others become negligible.",
            references=("000/def-12", "000/odd-emergence", "000/thm-11"),
            prescriptions=("full-batch-norm", "normalize-activation"),
            check=f"{_CHECKS}._signal:odd_point",
            order=50,
        ),
        Condition(
            "degenerate-batch",
            "Degenerate batch",
            reads="share of samples that repeat another or are zero",
            metrics=("effective_rank",),
            limits=Limits(
                0.0, 0.5, "Any repeat is worth knowing; half of the batch is half of what a step could learn from."
            ),
            harm="Equal samples stay equal at every depth and add nothing to a step.",
            references=("001/claim-6.rank", "001/claim-6.degen"),
            prescriptions=("distinct-samples",),
            check=f"{_CHECKS}._batch:degenerate_batch",
            order=10,
            cause=True,
            variants={
                "batch-statistics": Variant(
                    "with batch norm",
                    harm="Batch norm keeps equal samples equal at every depth, so the batch spans at most that many "
                    "directions, and gradients through it grow faster.",
                )
            },
        ),
        Condition(
            "small-batch-bn",
            "Small batch batch norm",
            reads="Σ 1/n² over layers whose statistics are taken over n values",
            metrics=("output_gradient_log_norm",),
            limits=Limits(
                0.075,
                0.18,
                "What such a network learns, as a share of what one with layer norm learns, was measured to be "
                "exp(−3.8 Σ 1/n²): three quarters and one half at the limits.",
                f"{_CALIBRATED}, n = 4 … 16 and 4 or 10 layers",
            ),
            harm="The output for a sample depends on the few others in its batch, and gradients grow faster.",
            references=("001/claim-6.gauss", "001/map-3.3"),
            prescriptions=("larger-batch", "batch-free-norm"),
            check=f"{_CHECKS}._batch:small_batch",
            order=90,
            cause=True,
        ),
        Condition(
            "asymmetric-init",
            "Asymmetric init",
            reads="|mean|/std · √fan_in of the weights of most layers",
            metrics=("weight_asymmetry",),
            limits=Limits(
                1.0,
                4.0,
                "For inputs of one sign, the part of a pre-activation common to all units over the part that differs.",
            ),
            harm="Every layer then pushes all samples toward one direction, with or without batch norm.",
            references=("002/init-asym", "002/alg-asym-init", "002/fig-6"),
            prescriptions=("symmetric-init", "orthogonal-init"),
            check=f"{_CHECKS}._weights:asymmetric_weights",
            order=100,
            cause=True,
        ),
        Condition(
            "wrong-gain",
            "Wrong gain",
            reads="Σ log(gain / principled gain) over layers with nothing to normalise in between",
            metrics=("weight_gain",),
            limits=_GROWTH,
            harm="Errors of the gain compound over the depth; reported only beside a symptom that they explain.",
            references=("001/act-gain", "004/fact-1"),
            prescriptions=("principled-gain", "add-layer-norm", "add-batch-norm"),
            check=f"{_CHECKS}._weights:wrong_gain",
            order=140,  # last: it explains what the others found
            cause=True,
        ),
        Condition(
            "dead-units",
            "Dead units",
            reads="share of units that are zero on the whole batch",
            metrics=("dead_fraction",),
            limits=Limits(0.75, 0.95, "Symmetric weights silence at most half of the units; the rest is lost width."),
            harm="Silent units get no gradient and stay silent.",
            references=("000/metric-activity",),
            prescriptions=("zero-bias", "symmetric-init", "add-batch-norm"),
            check=f"{_CHECKS}._units:dead_units",
            order=110,
            cause=True,
        ),
        Condition(
            "saturation",
            "Saturation",
            reads="share of entries with slope below 5 % of the largest, in most layers",
            metrics=("saturated_fraction",),
            limits=Limits(0.35, 0.6, "Only the remaining entries pass a gradient."),
            harm="Gradients pass only through the rest, and the output is close to a sign.",
            references=("001/thm-5.11",),
            prescriptions=("principled-gain", "add-batch-norm", "add-layer-norm"),
            check=f"{_CHECKS}._units:saturation",
            order=120,
        ),
        Condition(
            "effectively-linear",
            "Effectively linear",
            reads="Σ over activations of the share of variance that no linear function explains",
            metrics=("mean_abs_cosine",),
            limits=Limits(1e-4, 1e-6, "The network computes what its linear part computes, up to this share."),
            harm="The network can compute only what its linear part can.",
            references=("001/tab-5.2",),
            prescriptions=("principled-gain", "zero-bias", "add-layer-norm"),
            check=f"{_CHECKS}._units:effectively_linear",
            order=130,
        ),
    ),
)
"""Every condition by its id. `diagnose` makes the checks by `order`; `CONDITIONS.register` adds one."""
