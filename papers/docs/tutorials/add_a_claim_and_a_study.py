# # Add your own claim or study
#
# You can make claims and studies in your own files, as the package does.
#
# ## A claim
#
# "Quantity relation bound, for every instance that meets the hypotheses." You give instances; the check tries them, a
# search pushes towards the worst, and a violation counts only if it persists at 50 digits.

import numpy as np

from isometer_papers.claims import Claim, Search, check, tightened


def pairs(rng: np.random.Generator, count: int) -> list[dict[str, float]]:
    return [{"a": float(a), "b": float(b)} for a, b in rng.uniform(0, 2, (count, 2))]


claim = Claim(
    "mine/means",
    "deterministic",
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
assert result.verdict == "holds"

# ## A study
#
# A figure: a grid of cells, a function that computes one, a picture, and the rule of the verdict. The rule is fixed
# before the study runs. The cell's function is in its own file, since workers import it:
#
# ```{literalinclude} my_cells.py
# :language: python
# ```

import tempfile  # noqa: E402
from concurrent.futures import ThreadPoolExecutor  # noqa: E402

from matplotlib.figure import Figure  # noqa: E402
from my_cells import gap_cell  # noqa: E402

from isometer_papers.studies import Measured, Reading, Scale, Study, reproduce  # noqa: E402


def draw(result, settings):
    figure = Figure(layout="constrained")
    axes = figure.subplots()
    for name in settings["activation"]:
        curve = result["orthogonality_gap"].sel(activation=name).mean("run")
        axes.plot(curve["layer"], curve, label=name)
    axes.set(xlabel="layer", ylabel="orthogonality gap")
    axes.legend()
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

# To have your work in the package itself, see [contributing](../../../docs/contributing.md).
