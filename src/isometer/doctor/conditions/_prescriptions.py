"""What can be changed, each change described once; those that set weights come from cheap to dear."""

from __future__ import annotations

from types import MappingProxyType
from typing import Any

from isometer.doctor.conditions._prescription import Call, Prescription
from isometer.doctor.conditions._registry import Registry

_INIT = "isometer.init"
_HERE = "isometer.doctor.treatment"


def _gain(law: str) -> Call:
    return Call(_INIT, "principled_gain_", batch=True, options=MappingProxyType({"law": law}), seeded=True)


def _own(function: str, **options: Any) -> Call:
    return Call(_HERE, function, batch=True, options=MappingProxyType(options))


_HAAR = Call(_INIT, "haar_orthogonal_", seeded=True)
_REFUSED = "weights that are frozen, tied, computed from others, quantised or without memory"
_MODULES = "activations called as functions in a forward method, used twice, or not in the registry"
_PASS = "one forward and backward pass"

_WEIGHTS = (
    Prescription(
        "principled-gain",
        "Scale the weights so that every layer preserves the second moment: standard deviation gain/√fan_in, where "
        "gain = 1/√E[φ(z)²] for the activation φ that follows (√2 for ReLU).",
        "weights",
        ("001/act-gain",),
        calls=((_gain("keep"),),),
        theory="With variance gain²/fan_in and gain = 1/√E φ(z)², layers preserve the second moment of their input.",
        cost=_PASS,
        side_effects="Weights are rescaled layer by layer, so a trained model computes something else.",
        cannot="No activation follows any weights, or one is not in the registry; all weights of a layer zero; "
        f"{_REFUSED}.",
    ),
    Prescription(
        "zero-bias",
        "Start the biases at zero.",
        "weights",
        calls=((Call(_HERE, "zero_biases_"),),),
        theory="With symmetric weights and no bias half of the units are active on a sample.",
        cost="none",
        side_effects="Biases are lost.",
        cannot=f"All biases are zero already; {_REFUSED}.",
    ),
    Prescription(
        "symmetric-init",
        "Draw the weights from a law with mean zero.",
        "weights",
        ("002/init-asym", "002/claim-3.4"),
        calls=((_gain("gaussian"),),),
        theory="Weights of mean zero do not push all samples in one direction.",
        cost=_PASS,
        side_effects="All weights are redrawn.",
        cannot=f"No activation follows any weights, or one is not in the registry; {_REFUSED}.",
    ),
    Prescription(
        "orthogonal-init",
        "Draw the weights as random orthogonal matrices, times the gain.",
        "weights",
        ("001/thm-6.5", "001/fig-6.3"),
        calls=((_gain("orthogonal"),), (_HAAR,)),
        theory="All singular values equal the gain: after batch norm the gradients of a linear network no longer grow "
        "with depth, with Gaussian weights they do.",
        cost=f"{_PASS} and a QR decomposition per layer",
        side_effects="All weights are redrawn.",
        cannot=f"{_REFUSED.capitalize()}.",
    ),
    Prescription(
        "scale-branches",
        "Divide the last weights of every residual branch by the root of the number of branches.",
        "weights",
        calls=((_own("scale_branches_"),),),
        theory="A branch as large as what it is added to doubles the second moment; divided by √L, L of them multiply "
        "it by less than e.",
        cost=_PASS,
        side_effects="The branches learn more slowly at first.",
        cannot=f"Fewer than two residual branches; {_REFUSED}.",
    ),
    Prescription(
        "fixup",
        "Initialise the residual branches by Fixup: scaled by the depth, their last layers zero.",
        "weights",
        ("004/init-fixup",),
        calls=((Call(_HERE, "fixup_blocks_", batch=True, seeded=True),),),
        theory="Branches of m layers scaled by L^(−1/(2m−2)) that end in zero change the output by the same amount per "
        "step whatever the depth.",
        cost=_PASS,
        side_effects="All weights are redrawn, and the readout starts at zero: the first step moves nothing else.",
        cannot=f"The model normalises, or has fewer than two residual blocks; {_REFUSED}.",
    ),
    Prescription(
        "iterative-orthogonalization",
        "Set each layer's weights from the singular values of its input, on a batch larger than the width.",
        "weights",
        ("003/alg-iter-mlp", "001/alg-2.6"),
        calls=((Call(_INIT, "iterative_orthogonalization_", batch=True, seeded=True), _gain("keep")),),
        theory="Each layer takes the square root of its input's singular values, so the orthogonality gap falls.",
        cost="one forward pass and an eigendecomposition per layer",
        side_effects="Weights of square layers come from the batch, their biases are zero.",
        cannot=f"Fewer samples than features, no square layer, a layer that runs twice; {_REFUSED}.",
    ),
    Prescription(
        "rank-pretraining",
        "Raise the rank of each layer's output by a few steps of gradient ascent before training.",
        "weights",
        ("002/alg-rank-pretrain",),
        calls=((Call(_INIT, "rank_pretraining_", batch=True, seeded=True),),),
        theory="Gradient ascent on the stable rank of each layer's output.",
        cost="about 25 steps per layer on minibatches",
        side_effects="Weights are fitted to the batch, biases are zero.",
        cannot=f"Fewer than two samples, a layer that runs twice; {_REFUSED}.",
    ),
    Prescription(
        "one-neuron-per-sample",
        "Give every training sample a neuron of its own in each hidden layer that fires for no other sample.",
        "weights",
        ("000/init-one-neuron-per-sample",),
        calls=((Call(_INIT, "dedicate_neurons_", batch=True, seeded=True),),),
        theory="After each ReLU the samples are orthogonal and of length 1. No finding lists it: it separates the "
        "training samples and says nothing of others, so it is for small data sets and only on request.",
        cost="one forward pass, and a linear program for samples that are hard to separate",
        side_effects="Weights and biases are set from the batch, which should be the whole training set.",
        cannot="More samples than neurons, equal samples, a sample within the convex hull of the others, layers "
        f"without bias, a layer that runs twice; {_REFUSED}.",
    ),
    Prescription(
        "by-the-book",
        "Redraw all weights: Gaussian, scaled so that every layer returns values of size 1, biases zero, norms 1.",
        "weights",
        calls=((Call(_HERE, "redraw_", batch=True, seeded=True),),),
        theory="Every layer returns values of the size that the next one expects, whatever lies between them.",
        cost="one forward pass",
        side_effects="All weights are redrawn, the last layer starts small; a trained model loses what it learned.",
        cannot="Everything is frozen. Parameters that belong to no known kind of layer stay as they are.",
    ),
    Prescription(
        "finite-weights",
        "Restore the weights from a checkpoint in which they are finite.",
        "weights",
        elsewhere="only a checkpoint holds the lost weights; load one, or choose symmetric-init",
    ),
)
_ARCHITECTURE = (
    Prescription(
        "shape-activation",
        "Weaken the nonlinearity with depth: φ(αx)/α with a gain α that falls with the layer.",
        "architecture",
        ("001/alg-C.5",),
        calls=((_own("shape_activations_"), _gain("orthogonal")),),
        theory="Activations that are closer to linear in deeper networks keep the kernel from degenerating and the "
        "gradients from growing.",
        cost="solving for four constants, and one forward and backward pass",
        side_effects="Activations are replaced and all weights redrawn; a step computes an expression instead of one "
        "fused kernel.",
        cannot=f"The model has {_MODULES}.",
    ),
    Prescription(
        "normalize-activation",
        "Centre and scale the activation, (φ(x) − E φ(z)) / √Var φ(z), so that its fixed point is an orthogonal batch.",
        "architecture",
        ("001/thm-5.8", "004/thm-3"),
        calls=((_own("normalize_activations_"), _gain("keep")),),
        theory="With E φ = 0 and E φ² = 1 the kernel map has its fixed point at an orthogonal batch.",
        cost=_PASS,
        side_effects="Activations are replaced; gradients grow by √E φ′² per layer, so it suits moderate depth.",
        cannot=f"The model has {_MODULES}.",
    ),
    Prescription(
        "add-batch-norm",
        "Normalise pre-activations over the batch (at least 16 samples): this keeps the samples distinct at any depth.",
        "architecture",
        ("002/thm-3", "001/thm-A.2"),
        calls=((_own("add_norm_", norm="batch"),),),
        theory="Batch norm keeps the rank of a batch up at any depth.",
        cost="two passes over each pre-activation in every step",
        side_effects="Samples of a batch depend on each other; evaluation uses running statistics; with Gaussian "
        "weights gradients grow with depth.",
        cannot="No weights followed by an activation without a normalisation between; modules used twice; tokens.",
    ),
    Prescription(
        "add-layer-norm",
        "Put a layer norm (or RMS norm) before every layer of weights, so that errors of scale do not compound.",
        "architecture",
        ("001/thm-4.3",),
        calls=((_own("add_norm_", norm="layer"),),),
        theory="Every pre-activation has size 1, whatever the weights.",
        cost="two passes over each pre-activation in every step",
        side_effects="Only the direction of the weights matters then, not their gain.",
        cannot="No weights followed by an activation without a normalisation between; modules used twice.",
    ),
    Prescription(
        "full-batch-norm",
        "Divide by the standard deviation as well as subtracting the mean.",
        "architecture",
        ("000/op-rs", "001/map-3.3"),
        calls=((_own("full_batch_norm_"),),),
        theory="Dividing by the deviation keeps one sample from outgrowing the others.",
        cost="one more pass over each pre-activation in every step",
        side_effects="Running statistics in evaluation.",
        cannot="No module subtracts the batch mean and nothing else.",
    ),
    Prescription(
        "batch-free-norm",
        "Use layer or group norm, which do not need a batch.",
        "architecture",
        calls=((Call(_HERE, "batch_free_norm_"),),),
        theory="Each sample is normalised by itself, so the batch may be of any size.",
        cost="as before",
        side_effects="The protection of batch norm against rank collapse is lost, and so are trained statistics.",
        cannot="The model has no batch norm module.",
    ),
    Prescription(
        "add-residual",
        "Add skip connections around blocks of layers, with branches scaled by 1/√depth.",
        "architecture",
        calls=((_own("add_skips_"),),),
        theory="With branches scaled by 1/√L the network is a perturbation of the identity at any depth.",
        cost="one addition per branch",
        side_effects="Modules move into branches, so parameter names change.",
        cannot="Fewer than two parts of an nn.Sequential that keep their shape.",
    ),
    Prescription(
        "pre-norm",
        "Move the normalisation inside the residual branch, x + f(norm(x)), so that the sum is passed on unscaled.",
        "architecture",
        calls=((_own("pre_norm_"),),),
        theory="The sum is passed on unscaled, so the gradient reaches every block undiminished.",
        cost="none",
        side_effects="The sum grows like √depth; parameter names change in sequential models.",
        cannot="No normalisation directly after an addition in an nn.Sequential or a layer of torch's transformer.",
    ),
    Prescription(
        "fewer-layers",
        "Use fewer layers.",
        "architecture",
        elsewhere="only you can decide which layers to leave out",
    ),
)
_OUTSIDE = (
    Prescription(
        "larger-batch",
        "Use more samples per batch statistic, or accumulate statistics over devices.",
        "batch",
        ("001/claim-6.gauss",),
        elsewhere="the batch is not part of the model; pass a larger one",
    ),
    Prescription(
        "distinct-samples",
        "Remove repeated and constant samples from the batch.",
        "batch",
        ("001/claim-6.rank",),
        elsewhere="the batch is not part of the model; remove repeated samples from it",
    ),
    Prescription(
        "clip-gradients",
        "Clip each layer's gradient relative to the size of its weights.",
        "training",
        ("001/opt-agc",),
        elsewhere="it belongs to the training loop: isometer.nn.AdaptiveClipping(optimizer)",
    ),
)

PRESCRIPTIONS = Registry("prescription", (*_WEIGHTS, *_ARCHITECTURE, *_OUTSIDE))
"""Every prescription by its id. `treat` tries those that set weights in this order, `register` adds to its end."""
