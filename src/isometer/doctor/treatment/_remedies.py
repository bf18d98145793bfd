"""What carries out each prescription: the calls, the theory, the cost, the side effects, and where it cannot apply."""

from __future__ import annotations

import importlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any

from torch import nn

from isometer.doctor.diagnosis._prescriptions import PRESCRIPTIONS

_INIT = "isometer.init"
_HERE = "isometer.doctor.treatment"


@dataclass(frozen=True)
class Call:
    """One call of a function on the model, both to be made and to be written down.

    Example:
        >>> Call("isometer.init", "principled_gain_", batch=True, options={"law": "keep"}, seeded=True).line(3)
        "principled_gain_(model, batch, law='keep', seed=3)"

    Attributes:
        module: where the function is imported from.
        function: its name.
        batch: whether its second argument is the batch.
        options: keyword arguments.
        seeded: whether it takes a seed.
    """

    module: str
    function: str
    batch: bool = False
    options: Mapping[str, Any] = field(default_factory=lambda: MappingProxyType({}))
    seeded: bool = False

    def make(self, model: nn.Module, batch: Any, seed: int) -> Any:
        """Make the call."""
        function = getattr(importlib.import_module(self.module), self.function)
        options = {**self.options, **({"seed": seed} if self.seeded else {})}
        return function(model, *([batch] if self.batch else []), **options)

    def line(self, seed: int) -> str:
        """The call as Python."""
        options = {**self.options, **({"seed": seed} if self.seeded else {})}
        arguments = ["model", *(["batch"] if self.batch else []), *(f"{k}={v!r}" for k, v in options.items())]
        return f"{self.function}({', '.join(arguments)})"


@dataclass(frozen=True)
class Remedy:
    """How a prescription is carried out.

    Example:
        >>> REMEDIES["zero-bias"].kind, REMEDIES["zero-bias"].calls[0][0].line(0)
        ('weights', 'zero_biases_(model)')

    Attributes:
        id: of the prescription.
        calls: alternatives, each a sequence of calls; the first that raises nothing is taken. None where nothing can be
            done to the model.
        theory: why it helps.
        cost: what it takes.
        side_effects: what else changes.
        cannot: when it does not apply, and why.
    """

    id: str
    calls: tuple[tuple[Call, ...], ...]
    theory: str
    cost: str
    side_effects: str
    cannot: str

    @property
    def kind(self) -> str:
        """`weights`, `architecture`, `batch` or `training`."""
        return PRESCRIPTIONS[self.id].kind


def _gain(law: str) -> Call:
    return Call(_INIT, "principled_gain_", batch=True, options=MappingProxyType({"law": law}), seeded=True)


def _own(function: str, **options: Any) -> Call:
    return Call(_HERE, function, batch=True, options=MappingProxyType(options))


_HAAR = Call(_INIT, "haar_orthogonal_", seeded=True)
_REFUSED = "weights that are frozen, tied, computed from others, quantised or without memory"
_MODULES = "activations called as functions in a forward method, used twice, or not in the registry"
_PASS = "one forward and backward pass"

_ALL = (
    Remedy(
        "principled-gain",
        ((_gain("keep"),),),
        "With variance gain²/fan_in and gain = 1/√E φ(z)² every layer keeps the second moment of its input.",
        _PASS,
        "Weights are rescaled layer by layer; a trained model no longer computes what it did.",
        f"No activation follows any weights, or one is not in the registry; all weights of a layer zero; {_REFUSED}.",
    ),
    Remedy(
        "zero-bias",
        ((Call(_HERE, "zero_biases_"),),),
        "With symmetric weights and no bias half of the units are active on a sample.",
        "none",
        "Biases are lost.",
        f"All biases are zero already; {_REFUSED}.",
    ),
    Remedy(
        "symmetric-init",
        ((_gain("gaussian"),),),
        "Weights of mean zero do not push all samples in one direction.",
        _PASS,
        "All weights are redrawn.",
        f"No activation follows any weights, or one is not in the registry; {_REFUSED}.",
    ),
    Remedy(
        "orthogonal-init",
        ((_gain("orthogonal"),), (_HAAR,)),
        "All singular values equal the gain: behind batch norm the gradients of a linear network no longer grow with "
        "depth, with Gaussian weights they do.",
        f"{_PASS} and a QR decomposition per layer",
        "All weights are redrawn.",
        f"{_REFUSED.capitalize()}.",
    ),
    Remedy(
        "scale-branches",
        ((_own("scale_branches_"),),),
        "A branch as large as what it is added to doubles the second moment; divided by √L, L of them multiply it by "
        "less than e.",
        _PASS,
        "The branches learn more slowly at first.",
        f"Fewer than two residual branches; {_REFUSED}.",
    ),
    Remedy(
        "fixup",
        ((Call(_HERE, "fixup_blocks_", batch=True, seeded=True),),),
        "Branches of m layers scaled by L^(−1/(2m−2)) that end in zero change the output by the same amount per step "
        "whatever the depth.",
        _PASS,
        "All weights are redrawn, and the readout starts at zero: the first step moves nothing else.",
        f"The model normalises, or has fewer than two residual blocks; {_REFUSED}.",
    ),
    Remedy(
        "iterative-orthogonalization",
        ((Call(_INIT, "iterative_orthogonalization_", batch=True, seeded=True), _gain("keep")),),
        "Each layer takes the root of the singular values of what reaches it, so the orthogonality gap falls.",
        "one forward pass and an eigendecomposition per layer",
        "Weights of square layers come from the batch, their biases are zero.",
        "Fewer samples than features, no square layer, a layer that runs twice; " + _REFUSED + ".",
    ),
    Remedy(
        "rank-pretraining",
        ((Call(_INIT, "rank_pretraining_", batch=True, seeded=True),),),
        "Gradient ascent on the stable rank of each layer's output.",
        "about 25 steps per layer on minibatches",
        "Weights are fitted to the batch, biases are zero.",
        "Fewer than two samples, a layer that runs twice; " + _REFUSED + ".",
    ),
    Remedy(
        "shape-activation",
        ((_own("shape_activations_"), _gain("orthogonal")),),
        "An activation closer to linear the deeper the network is keeps the kernel from degenerating and the gradients "
        "from growing.",
        "solving for four constants, and one forward and backward pass",
        "Activations are replaced and all weights redrawn; a step computes an expression instead of one fused kernel.",
        f"The model has {_MODULES}.",
    ),
    Remedy(
        "normalize-activation",
        ((_own("normalize_activations_"), _gain("keep")),),
        "With E φ = 0 and E φ² = 1 the kernel map has its fixed point at an orthogonal batch.",
        _PASS,
        "Activations are replaced; gradients grow by √E φ′² per layer, so it suits moderate depth.",
        f"The model has {_MODULES}.",
    ),
    Remedy(
        "add-batch-norm",
        ((_own("add_norm_", norm="batch"),),),
        "Batch norm keeps the rank of a batch up at any depth.",
        "two passes over each pre-activation in every step",
        "Samples of a batch depend on each other, running statistics in evaluation; with Gaussian weights gradients "
        "grow with depth.",
        "No weights followed by an activation without a normalisation between; modules used twice; tokens.",
    ),
    Remedy(
        "add-layer-norm",
        ((_own("add_norm_", norm="layer"),),),
        "The size of every pre-activation is 1 whatever the weights.",
        "two passes over each pre-activation in every step",
        "The gain of the weights no longer matters, only their direction.",
        "No weights followed by an activation without a normalisation between; modules used twice.",
    ),
    Remedy(
        "full-batch-norm",
        ((_own("full_batch_norm_"),),),
        "Dividing by the deviation keeps one sample from outgrowing the others.",
        "one more pass over each pre-activation in every step",
        "Running statistics in evaluation.",
        "No module subtracts the batch mean and nothing else.",
    ),
    Remedy(
        "batch-free-norm",
        ((Call(_HERE, "batch_free_norm_"),),),
        "Each sample is normalised by itself, so the batch may be of any size.",
        "as before",
        "What batch norm did against rank collapse is lost; trained statistics are dropped.",
        "The model has no batch norm module.",
    ),
    Remedy(
        "add-residual",
        ((_own("add_skips_"),),),
        "With branches scaled by 1/√L the network is a perturbation of the identity at any depth.",
        "one addition per branch",
        "Modules move into branches, so parameter names change.",
        "Fewer than two parts of an nn.Sequential that keep their shape.",
    ),
    Remedy(
        "pre-norm",
        ((_own("pre_norm_"),),),
        "The sum is handed on unscaled, so the gradient reaches every block undivided.",
        "none",
        "The sum grows like √depth; parameter names change in sequential models.",
        "No normalisation directly behind an addition in an nn.Sequential or a layer of torch's transformer.",
    ),
)

REMEDIES: Mapping[str, Remedy] = MappingProxyType({remedy.id: remedy for remedy in _ALL})
"""Every prescription that can be carried out on a model, by its id."""

ELSEWHERE: Mapping[str, str] = MappingProxyType(
    {
        "larger-batch": "the batch is not part of the model; pass a larger one",
        "distinct-samples": "the batch is not part of the model; remove repeated samples from it",
        "clip-gradients": "it belongs to the training loop: isometer.nn.AdaptiveClipping(optimizer)",
        "fewer-layers": "which layers to leave out is for you to decide",
        "finite-weights": "only a checkpoint has the weights that were lost; load it, or choose symmetric-init",
    }
)
"""Prescriptions that no function on the model carries out, and why."""


def code(calls: Iterable[Call], seed: int) -> str:
    """Python lines that make these calls on `model` and `batch`.

    Example:
        >>> print(code([Call("isometer.init", "haar_orthogonal_", seeded=True)], 0))
        from isometer.init import haar_orthogonal_
        <BLANKLINE>
        haar_orthogonal_(model, seed=0)
    """
    made: Sequence[Call] = list(calls)
    imports = sorted({f"from {call.module} import {call.function}" for call in made})
    return "\n".join([*imports, "", *(call.line(seed) for call in made)]) if made else ""
