"""`isometer regress`: regression with the kernel of an infinitely wide network on a data set."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer
from rich.box import SIMPLE
from rich.table import Table

from isometer.checks import seed_number, whole_number
from isometer.cli._application import listed
from isometer.cli._interruption import INTERRUPTED, keeps, tell_interruption
from isometer.cli._long_work import DaskAddress, Workers, cells_display, tell_failures
from isometer.cli._shared import (
    INPUT,
    LIMITS,
    MEASUREMENT,
    NETWORK,
    OUTPUT,
    Json,
    Memory,
    Time,
    allowing,
    app,
    console,
    emit,
    next_step,
    status,
)
from isometer.errors import IsometerError

if TYPE_CHECKING:
    from isometer.regression._data_set import DataSetRegression
    from isometer.run import Store

_MOST_DRAWS = 10_000
_DEFAULT = "repeat(conv(3, 64, padding='zeros', gain=2**0.5) > act('relu'), 5) > flatten > dense(1)"


class KernelChoice(StrEnum):
    nngp = "nngp"
    ntk = "ntk"
    both = "both"


_KINDS: dict[KernelChoice, tuple[Literal["nngp", "ntk"], ...]] = {
    KernelChoice.nngp: ("nngp",),
    KernelChoice.ntk: ("ntk",),
    KernelChoice.both: ("nngp", "ntk"),
}


class PrecisionChoice(StrEnum):
    float64 = "float64"
    float32 = "float32"


@app.command()
def regress(
    data: Annotated[
        str,
        typer.Argument(
            metavar="DATA", help="Data set from `isometer data list`, with options: cifar10, digits:scale=norm."
        ),
    ],
    network: Annotated[
        str,
        NETWORK(
            "--network",
            metavar="FILE|TEXT",
            help="JSON file or expression; reads the images unless it begins with input(…).",
        ),
    ] = _DEFAULT,
    train: Annotated[int, INPUT("--train", metavar="N", help="Training images, the same number per class.")] = 1000,
    test: Annotated[int, INPUT("--test", metavar="N", help="Test images.")] = 1000,
    draws: Annotated[
        int, INPUT("--draws", metavar="N", min=1, help="Independent draws of training and test images.")
    ] = 1,
    seed: Annotated[int, INPUT("--seed", metavar="S", min=0, help="Seed of the first draw.")] = 0,
    kind: Annotated[KernelChoice, MEASUREMENT("--kind", help="Which kernel.")] = KernelChoice.both,
    ridge: Annotated[
        list[str] | None,
        MEASUREMENT(
            "--ridge",
            metavar="R,R,…",
            help="Ridge, in units of the kernel's mean diagonal; if several are given, leave-one-out accuracy "
            "chooses. 1e-7 to 100 by default.",
        ),
    ] = None,
    precision: Annotated[
        PrecisionChoice, MEASUREMENT("--precision", help="Precision of the kernels; float32 takes half the time.")
    ] = PrecisionChoice.float64,
    block: Annotated[
        int | None,
        LIMITS(
            "--block", metavar="N", min=1, help="Samples per side of a block; by default, a block takes about 20 s."
        ),
    ] = None,
    out: Annotated[
        Path | None, OUTPUT("--out", metavar="DIR", help="Folder for the blocks; runs/… by default.")
    ] = None,
    workers: Workers = None,
    dask: DaskAddress = None,
    memory: Memory = None,
    time: Time = None,
    as_json: Json = False,
) -> None:
    """Classify images by kernel regression: NNGP and NTK of an infinitely wide network, accuracy on test images.

    Kernels are computed in blocks; repeat the command to resume after an interruption. A convolutional network that
    ends with flatten costs positions × pairs of images; one that pools costs positions² × pairs.

    Examples: [bold]isometer regress digits --network "repeat(dense(gain=2**0.5) > act('relu'), 3) > dense(1)"[/],
    [bold]isometer regress cifar10 --train 2000 --test 1000 --out runs/cifar[/],
    [bold]isometer regress cifar10 --train 320 --test 300 --draws 3 --precision float32
    --network "repeat(conv(3, 64, padding='zeros', gain=2**0.5) > act('relu'), 5) > pool > dense(1)"[/]
    """
    from isometer.regression._data_set import DataSetRegression
    from isometer.regression._ridge import RIDGES
    from isometer.threads import available_cores
    from isometer.work import Work, check_work

    seed_number(seed, "--seed")
    whole_number(draws, "--draws", high=_MOST_DRAWS, fix="pass the number of draws")
    plan = DataSetRegression(
        _network(network),
        data,
        train=train,
        test=test,
        kinds=_KINDS[kind],
        ridges=_ridges(ridge) or RIDGES,
        precision=precision.value,
        block=block,
    )
    needed = plan.work(draws)
    with allowing(memory, time):
        check_work(
            "the regression", Work(needed.memory, needed.seconds / (workers or (1 if dask else available_cores())))
        )
    store = _store(plan, data, seed, out)
    found = []
    for number in range(seed, seed + draws):
        found.append(_draw(plan, number, store, workers, dask))
    document = _document(plan, data, seed, found)
    if as_json:
        emit(document)
        return
    _show(document, store.path)


def _network(text: str) -> Any:
    if Path(text).suffix == ".json":
        from isometer.spec import read_spec

        return read_spec(Path(text))
    return text


def _ridges(ridge: list[str] | None) -> tuple[float, ...]:
    try:
        return tuple(sorted({float(one) for one in listed(ridge)}))
    except ValueError:
        raise IsometerError(f"--ridge is {','.join(ridge or [])!r}; expected numbers with commas — 1e-4,1e-2") from None


def _store(plan: DataSetRegression, data: str, seed: int, out: Path | None) -> Store:
    """The folder of the blocks; named by the plan, so that the same command finds its blocks again."""
    import hashlib

    from isometer.run import Store

    if out is None:
        words = repr((str(plan.spec), data, plan.train, plan.test, plan.kinds, plan.precision, plan.block, seed))
        out = Path("runs") / f"regress-{hashlib.sha256(words.encode()).hexdigest()[:8]}"
    return Store.create(out)


def _draw(plan: DataSetRegression, seed: int, store: Store, workers: int | None, dask: str | None) -> dict[str, Any]:
    """The accuracies of one draw; blocks that are there are not computed again."""
    from isometer.run import results, run

    job = plan.job(seed)
    again = "finished blocks are kept; repeat the command to resume"
    try:
        with keeps(again), cells_display() as observer:
            outcome = run(job, store, name=f"draw-{seed}", workers=workers, dask=dask, observer=observer)
    except KeyboardInterrupt as problem:
        tell_interruption(f"{problem or 'no block is lost'}; {again}")
        raise typer.Exit(INTERRUPTED) from None
    if outcome.failures:
        tell_failures(outcome.failures)
        raise typer.Exit(1)
    with status(f"ridges of draw {seed}"):
        return plan.accuracies(seed, results(job, store))


def _document(plan: DataSetRegression, data: str, seed: int, draws: list[dict[str, Any]]) -> dict[str, Any]:
    from isometer.regression._data_set import summary

    return {
        "network": str(plan.spec),
        "data": data,
        "train": plan.train,
        "test": plan.test,
        "precision": plan.precision,
        "seed": seed,
        "kinds": {kind: summary(draws, kind, plan.test) for kind in plan.kinds},
        "draws": draws,
    }


def _show(document: dict[str, Any], folder: Path) -> None:
    page = console()
    best = max(document["kinds"], key=lambda kind: document["kinds"][kind]["accuracy"])
    first = document["kinds"][best]
    page.print(
        f"[bold]→ {100 * first['accuracy']:.1f} % of {document['test']} test images are classified "
        f"correctly with the {best.upper()} of {document['train']} training images of {document['data']}.[/]",
        highlight=False,
    )
    table = Table(box=SIMPLE, padding=(0, 1, 0, 0), pad_edge=False)
    for column in ("kernel", "draw", "test accuracy", "leave-one-out", "ridge"):
        table.add_column(column, justify="left" if column == "kernel" else "right")
    for kind, numbers in document["kinds"].items():
        for at, draw in enumerate(document["draws"]):
            own = draw[kind]
            table.add_row(
                *(kind, str(document["seed"] + at), f"{100 * own['accuracy']:.1f} %"),
                *(f"{100 * own['left_out']:.1f} %", f"{own['ridge']:g}"),
            )
        spread = f" ± {100 * numbers['spread']:.1f}" if len(document["draws"]) > 1 else ""
        table.add_row(kind, "all", f"{100 * numbers['accuracy']:.1f}{spread} %", "", "")
    page.print(table)
    page.print(
        f"With this number of test images, one draw has a standard error of {100 * first['error_of_a_draw']:.1f} "
        f"points. The blocks are in {folder}.",
        highlight=False,
    )
    next_step(page, "the same with --draws 5, for the spread over training images")
