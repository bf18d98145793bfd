"""Initialisers for torch: in place, seeded without global generators, all or nothing, and they say what they did.

Each takes a weight tensor, a layer or a model (those that need data: a model and a batch), checks everything before it
writes, and returns an `Outcome`. Frozen, tied, computed, quantised and meta weights are refused; `layers=[…]` names the
ones to set. Those that run the model take its layers in the order of execution, the others in that of definition.
"""

import isometer.extras.torch_needed  # noqa: F401
from isometer.init._fixup import fixup_
from isometer.init._iterative import iterative_orthogonalization_
from isometer.init._neurons import one_neuron_per_sample_
from isometer.init._orthogonal import delta_orthogonal_, haar_orthogonal_, orthogonalized_xavier_
from isometer.init._outcome import LayerOutcome, Outcome
from isometer.init._rank import rank_pretraining_
from isometer.init._variances import (
    asymmetric_,
    invariance_variance,
    odd_point_,
    principled_gain_,
    stability_variance,
)

__all__ = [
    "LayerOutcome",
    "Outcome",
    "asymmetric_",
    "delta_orthogonal_",
    "fixup_",
    "haar_orthogonal_",
    "invariance_variance",
    "iterative_orthogonalization_",
    "odd_point_",
    "one_neuron_per_sample_",
    "orthogonalized_xavier_",
    "principled_gain_",
    "rank_pretraining_",
    "stability_variance",
]
