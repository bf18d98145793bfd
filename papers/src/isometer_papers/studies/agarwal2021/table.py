"""The hyper-parameters of 004's appendix as a table, beside what the training studies use."""

from __future__ import annotations

from typing import Any

import xarray

from isometer_papers.studies._drawing import Figure
from isometer_papers.studies._study import Choice, Measured, Reading, Scale, Settings, Study
from isometer_papers.studies._tables import table_picture
from isometer_papers.studies.agarwal2021 import residual, trained
from isometer_papers.studies.agarwal2021.hyperparameters import DROPS, EPOCHS, FACTOR, RUNS, TABLE, UNITS, used_by
from isometer_papers.studies.cells.normrelu_training import printed_cell


def used() -> dict[str, dict[str, Any]]:
    """What the scale `paper` of the studies has for every row of the table.

    Example:
        >>> used()["fig-7: MLP-64, SeLU"]["learning_rate"]
        0.0005
    """
    scales = {study.id.partition("/")[2]: study.paper for study in (*trained.STUDIES, *residual.STUDIES)}
    return {row.label: used_by(scales[row.figure].axes, scales[row.figure].constants, row) for row in TABLE}


def draw_hyperparameters(result: xarray.Dataset, settings: Settings) -> Figure:
    head = ["network", "learning rate", "study has", "epochs", "drops", "runs"]
    rows = []
    for row in TABLE:
        own = settings["used"][row.label]
        rate = "—" if own["learning_rate"] is None else f"{own['learning_rate']:g}"
        drops = ", ".join(map(str, own["drops"]))
        rows.append([row.label, f"{row.learning_rate:g}", rate, str(own["epochs"]), drops, str(own["runs"])])
    return table_picture(head, rows)


def read_hyperparameters(result: xarray.Dataset, settings: Settings) -> Reading:
    """Exact: numbers of the scales `paper` against the printed ones."""
    found = settings["used"]
    plain = [found[row.label] for row in TABLE if row.method != "Fixup"]
    off = [row.label for row in TABLE if found[row.label]["learning_rate"] != row.learning_rate]
    return Reading(
        {"learning rates": Measured(float(len(TABLE))), "of them other than printed": Measured(float(len(off)))},
        {
            "every learning rate is as printed": not off,
            f"{EPOCHS} epochs and {RUNS} runs everywhere": all(
                found[row.label]["epochs"] == EPOCHS and found[row.label]["runs"] == RUNS for row in TABLE
            ),
            f"×{FACTOR:g} after epochs {DROPS[0]} and {DROPS[1]}, except for Fixup": all(
                one["drops"] == list(DROPS) and one["factor"] == FACTOR for one in plain
            ),
            f"{UNITS} units in every MLP": all(one["units"] in (None, UNITS) for one in plain),
        },
        f"Differing: {', '.join(off)}." if off else "",
    )


_TABLE = Scale({"row": [row.label for row in TABLE]}, {"used": used()})
TABLE_I3 = Study(
    "004/tab-I3",
    "hyper-parameters of the experiments",
    "Learning rates by figure, network and method; 300 epochs, ×0.1 every 100, 10 runs, 3000 units in MLPs.",
    {row.label: row.learning_rate for row in TABLE},
    printed_cell,
    _TABLE,
    _TABLE,
    draw_hyperparameters,
    read_hyperparameters,
    choices={
        "schedule": Choice(
            "drops after 100 and 200 epochs",
            "printed as every 100 iterations, which would end training within the first of 300 epochs",
        ),
        "order of NormReLU's rates": Choice(
            "0.0009 and 0.001, as the appendix lists", "the main text says of the order of 1e-5, the appendix does not"
        ),
    },
    seconds=(1, 1),
)

STUDIES = (TABLE_I3,)
