# # Add your own activation or metric
#
# Everything that is built into the package can also be added from your own files.
#
# ## An activation
#
# An expression, or any function of an array. Isometer finds the kinks itself.

import numpy as np

from isometer import activation, kernel_map

squareplus = activation("(x + sqrt(x**2 + 4)) / 2", name="squareplus")
soft = activation(lambda x: np.sign(x) * np.maximum(np.abs(x) - 0.5, 0), name="soft threshold")
for phi in (squareplus, soft):
    kernel = kernel_map(phi)
    print(f"{phi.name}: gain {phi.gain_forward:.3f}, kinks {phi.kinks}, cosines tend to {kernel.fixed_point:.3f}")
# → squareplus: gain 0.816, kinks (), cosines tend to 1.000
# → soft threshold: gain 1.544, kinks (-0.5, 0.5), cosines tend to 0.000
assert soft.mean == 0

# Text is parsed, never executed. The object works wherever a name does: `shape_activation(soft, depth=50, …)`,
# `isometer.nn.Activation(squareplus)`. A [spec](../reference/spec.md) is plain data and needs text: the expression,
# or `"import:package.module:function"` for your own function.
#
# ## A metric
#
# A function of a tensor `(runs, n, d)` with one number per run. `simulate` takes it beside the built-in names.

import torch  # noqa: E402

from isometer import Spec  # noqa: E402
from isometer.data import make_batch  # noqa: E402
from isometer.simulate import simulate  # noqa: E402


def largest_share(h: torch.Tensor) -> torch.Tensor:
    """The share of a batch's squared length that its longest sample has."""
    lengths = h.square().sum(-1)
    return lengths.max(-1).values / lengths.sum(-1)


spec = Spec(width=64, depth=10, activation="relu", norm="batch")
data = simulate(spec, make_batch("gaussian", 5, 64), runs=8, metrics=["rank", largest_share])
share = data["largest_share"].mean("run")
print(f"largest share: {float(share[0]):.2f} of the input, {float(share[-1]):.2f} at layer 10")
# → largest share: 0.25 of the input, 0.26 at layer 10
assert float(share[-1]) >= 0.2, "five samples: a fifth is the least that the longest can have"

# To have your work in the package itself, see [contributing](../contributing.md). Claims and studies of your own:
# [the companion's tutorial](../../papers/docs/tutorials/add_a_claim_and_a_study.py).
