# # Add your own activation, metric, claim, study
#
# Everything that the package has built in can be made outside it, in your own files.
#
# ## An activation
#
# An expression, or any function of an array. Kinks are found by themselves.

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
# `isometer.nn.Activation(squareplus)`. A [spec](../reference/spec.md) is plain data and wants text: the expression,
# or `"import:package.module:function"` for a function of yours.
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

# ## A claim
#
# "Quantity relation bound, for every instance that meets the hypotheses." You give instances; the check tries them, a
# search pushes towards the worst, and a violation has to survive 50 digits before it is called one.

from isometer_papers.claims import Claim, Search, check, tightened  # noqa: E402


def pairs(rng: np.random.Generator, count: int) -> list[dict[str, float]]:
    return [{"a": float(a), "b": float(b)} for a, b in rng.uniform(0, 2, (count, 2))]


claim = Claim(
    "mine/means",
    "a textbook",
    "deterministic",
    "(ab)^½ ≤ (a + b)/2 for a, b ≥ 0",
    "<=",
    lambda i: (i["a"] + i["b"]) / 2,
    {"random": pairs},
    quantity=lambda i: (i["a"] * i["b"]) ** 0.5,
    search=Search(lambda x: {"a": 2 * x[0], "b": 2 * x[1]}, 2),
)
result = check(claim)
print(result.verdict, "·", result.note)
# → holds · the bound is attained

# Can this check fail at all? `tightened` moves the bound past the nearest instance that was seen.

print(check(tightened(claim, result)).verdict)
# → refuted

# ## A study
#
# A figure: a grid of cells, a function that computes one, a picture, and the rule of the verdict. The rule is fixed
# before the study runs. The cell's function is in a file of its own, since workers import it:
#
# ```{literalinclude} my_cells.py
# :language: python
# ```

import tempfile  # noqa: E402
from concurrent.futures import ThreadPoolExecutor  # noqa: E402

from my_cells import gap_cell  # noqa: E402

from isometer_papers.studies import Measured, Reading, Scale, Study, reproduce  # noqa: E402
from isometer_papers.studies._drawing import band, new_figure  # noqa: E402


def draw(result, settings):
    figure, axes = new_figure(1)
    for i, name in enumerate(settings["activation"]):
        curve = result["orthogonality_gap"].sel(activation=name).transpose("run", "layer")
        band(axes[0, 0], curve["layer"], curve.values, label=name, index=i)
    axes[0, 0].set(xlabel="layer", ylabel="orthogonality gap")
    axes[0, 0].legend()
    return figure


def read(result, settings):
    last = result["orthogonality_gap"].isel(layer=-1).mean("run")
    values = {name: float(last.sel(activation=name)) for name in settings["activation"]}
    return Reading(
        {f"gap, {name}": Measured(value) for name, value in values.items()},
        {"tanh ends more orthogonal than relu": values["tanh"] < values["relu"]},
    )


scale = Scale({"activation": ["tanh", "relu"]}, {"runs": 8})
study = Study(
    "mine/fig-1",
    "orthogonality gap over depth, tanh and relu",
    "Under batch norm without the mean, tanh makes samples more orthogonal than relu.",
    {},
    gap_cell,
    scale,
    scale,
    draw,
    read,
)
with tempfile.TemporaryDirectory() as folder, ThreadPoolExecutor(1) as pool:
    made = reproduce([study], folder, executor=pool)[0]
    print(made.record["verdict"], "·", *sorted(path.name for path in made.folder.glob("*.p*")))
# → agree · figure.pdf figure.png

# To have your work in the package itself, see [contributing](../contributing.md).
