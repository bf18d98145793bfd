"""`isometer doctor`: does it train, which layer loses the signal, why, and what to change."""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.text import Text

from isometer.cli._checkpoint_runs import check_alone, checkpoint_series, finish, run_of
from isometer.cli._doctor_options import ExaminationOptions, RepairOptions, ResultOptions
from isometer.cli._examination import (
    StressOptions,
    diagnosed,
    examined_target,
    input_file,
    kernel_panel,
    large_model,
    prepared_batch,
    told_by_model,
)
from isometer.cli._network import check_folders
from isometer.cli._option_groups import takes_options
from isometer.cli._shared import Json, Memory, Threads, allowing, app, console, emit, next_step, progress_bar, status
from isometer.cli._threads import threads as using
from isometer.cli._treatment import OptionalTreat, check_options, save_treated, treated
from isometer.cli._user_code import running
from isometer.errors import IsometerError
from isometer.extras import need

GALLERY = (
    "mlp-relu-100",
    "mlp-tanh-large-gain-20",
    "mlp-sigmoid-20",
    "mlp-bn-50",
    "mlp-recentred-100",
    "vgg-bn-asymmetric-8",
    "attention-only-24",
    "mlp-relu-10",
    "mlp-bn-10",
    "resnet-20",
    "transformer-24",
)
UNHEALTHY, UNDECIDED = 1, 3


@app.command(cls=OptionalTreat)
@takes_options
def doctor(
    options: ExaminationOptions,
    repair: RepairOptions,
    result: ResultOptions,
    target: Annotated[
        str | None,
        typer.Argument(
            metavar="TARGET",
            help="path/to/file.py:factory or package.module:factory (both are executed), a spec in FILE.json, or a "
            "built-in patient. Without one, a small gallery is examined.",
            show_default=False,
        ),
    ] = None,
    memory: Memory = None,
    threads: Threads = None,
    as_json: Json = False,
) -> None:
    """Does a PyTorch model train? Which layer loses the signal, why, and what to change.

    The doctor measures one forward and one backward pass, then trains a copy for a few dozen steps at several rates,
    beside the same architecture initialised by the book. The model is not changed.

    The exit code is 0 if it trains (with --optimizer: with that one, else with Adam or SGD; with --no-stress: if
    nothing is found), 1 if not, 3 if that could not be decided, 2 for an error, of the model's code too; with --treat
    it is about the treated model.

    A TARGET in a Python file or package is executed: examine only code that you would run. What it prints goes to
    standard error, and there is nothing on its standard input.

    Examples: [bold]isometer doctor my_model.py:make --html report.html[/],
    [bold]isometer doctor my_model.py:make --input fashion-mnist --optimizer adamw[/],
    [bold]isometer doctor my_model.py:make --no-stress --input x.npy[/],
    [bold]isometer doctor my_model.py:make --checkpoints 'run/*.pt' --html run.html[/],
    [bold]isometer doctor mlp-relu-100 --treat[/]
    """
    check_options(repair.treat, repair.trial, repair.save)
    check_folders(result.html)
    options.check()
    result.check()
    if options.network is not None and target is not None:
        raise IsometerError("a TARGET and --network name a model each; expected one of them — drop one")
    if target is None and options.network is None:
        _check_gallery(options, repair, result)
        with using(threads):
            _gallery(options.source, options.batch, options.seed, as_json)
        return
    with status("loading torch"):
        need("torch", "this part of isometer")
    if repair.treat is not None:
        from isometer.doctor.treatment._apply import chosen_ids

        chosen_ids(repair.treat)  # a wrong id is said before anything is run
    with allowing(memory, None):
        if options.checkpoints is not None:
            _examine_run(target, options, repair, result, threads, as_json)
        else:
            _examine_model(target, options, repair, result, threads, as_json)


def _check_gallery(options: ExaminationOptions, repair: RepairOptions, result: ResultOptions) -> None:
    """Refuse options that need a model of one's own."""
    given = (options.checkpoint, options.checkpoints, result.baseline, result.html, repair.treat)
    if any(option is not None for option in given) or input_file(options.source) is not None:
        raise IsometerError(
            "--checkpoint, --checkpoints, --compare, --html, --treat and a file as --input need a TARGET — name "
            "the model to examine"
        )


def _examine_run(
    target: str | None,
    options: ExaminationOptions,
    repair: RepairOptions,
    result: ResultOptions,
    threads: int | None,
    as_json: bool,
) -> None:
    """The checkpoints of one run, or of two."""
    check_alone(
        checkpoint=options.checkpoint,
        treat=repair.treat,
        optimizer=options.optimizer,
        lr=options.lr,
        budget=options.budget,
    )
    assert options.checkpoints is not None
    series = checkpoint_series(options.checkpoints, None if result.baseline is None else str(result.baseline))
    with _user_code(target, threads):
        examined = examined_target(target, options)
        prepared = prepared_batch(examined, options.source, options.batch, options.shape, options.seed)
        look = functools.partial(
            run_of, examined=examined, prepared=prepared, evaluate=options.evaluate, seed=options.seed
        )
        runs = [told_by_model(examined, prepared, functools.partial(look, one)) for one in series]
    finish(runs, result.html, target or "--network …", options.checkpoints, as_json)


def _examine_model(
    target: str | None,
    options: ExaminationOptions,
    repair: RepairOptions,
    result: ResultOptions,
    threads: int | None,
    as_json: bool,
) -> None:
    """One state of a model: report, kernel and treatment; the exit code says whether it trains."""
    from isometer.doctor._loading import load_baseline

    earlier = None if result.baseline is None else load_baseline(result.baseline)
    test = StressOptions(not options.no_stress, options.optimizer, options.lr, options.budget)
    panel = treatment = None
    with _user_code(target, threads):
        examined = examined_target(target, options)
        prepared = prepared_batch(examined, options.source, options.batch, options.shape, options.seed)
        with using(threads, large=large_model(examined, prepared)):
            report = diagnosed(examined, prepared, options.evaluate, options.seed, test)
            if options.kernel or result.html:
                panel = kernel_panel(examined, prepared, options.evaluate, options.seed, asked=options.kernel)
            if repair.treat is not None:
                treat = functools.partial(
                    treated, examined, prepared, report, repair.treat, repair.trial, options.seed, test
                )
                treatment = told_by_model(examined, prepared, treat)
    if treatment is not None and repair.save is not None:
        save_treated(treatment.model, repair.save)
    document = _document(report, panel, treatment, earlier, result)
    _write(document, target, result, as_json)
    outcome = report if treatment is None else treatment.after
    if outcome.healthy is not True:
        raise typer.Exit(UNDECIDED if outcome.healthy is None else UNHEALTHY)


@contextlib.contextmanager
def _user_code(target: str | None, threads: int | None) -> Iterator[None]:
    """Run the code that a target names: it is announced, what it prints is kept apart, its errors are shown."""
    code = "" if target is None else target.rpartition(":")[0]
    if code:
        typer.echo(f"note: executing {code} to build the model", err=True)
    with using(threads), running(code) if code else contextlib.nullcontext():
        yield


def _document(
    report: Any, panel: dict[str, Any] | None, treatment: Any, earlier: dict[str, Any] | None, result: ResultOptions
) -> dict[str, Any]:
    """The report as data, with everything that was asked for besides."""
    from isometer.doctor.diagnosis._comparison import compare

    document: dict[str, Any] = report.to_dict(grams=result.html is not None)
    if panel is not None:
        document["kernel"] = panel
    if treatment is not None:
        document["treatment"] = treatment.to_dict()
        document["treated"] = _layers(treatment.after) if treatment.calls else None
    if earlier is not None and result.baseline is not None:
        document["comparison"] = compare(earlier, document, name=result.baseline.name)
    return document


def _write(document: dict[str, Any], target: str | None, result: ResultOptions, as_json: bool) -> None:
    """Page, JSON or tables."""
    if result.html is not None:
        from isometer.report._doctor_page import save_page

        save_page(document, result.html)
    if as_json:
        document["grams"] = None
        emit(document)
    else:
        _show(document, target, result.layers, result.html)


def _layers(report: Any) -> dict[str, Any]:
    """The table of the layers of a report: what a treated model has in place of that of the model that was given."""
    document = report.to_dict()
    return {key: document[key] for key in ("layers", "metrics", "findings")}


def _show(document: dict[str, Any], target: str | None, layers: int, html: Path | None) -> None:
    from isometer.report._doctor_terminal import print_report

    page = console()
    print_report(page, document, layers=layers or None)
    if html is not None:
        page.print(Text.assemble("report: ", (str(html), "bold"), " (open it in a browser)"), soft_wrap=True)
    next_step(page, _next(document, target or "--network …", html))


def _next(document: dict[str, Any], target: str, html: Path | None) -> str:
    """One thing to do about a report."""
    if document.get("treatment") is not None:
        return "put the lines above into your code, or add --save treated.safetensors"
    if not document["trains"]:
        return f"isometer doctor {target}, for the stress test"
    if document["healthy"] is not True:
        return f"isometer doctor {target} --treat"
    return "train it" if html is not None else f"isometer doctor {target} --html report.html"


def _gallery(source: str, n: int | None, seed: int, as_json: bool) -> None:
    """A table of patients with what was found in each."""
    from rich.box import SIMPLE
    from rich.table import Table

    from isometer.doctor._loading import load_target
    from isometer.doctor.patients import PATIENTS

    rows = []
    with progress_bar("examining") as report_progress:
        for index, name in enumerate(GALLERY):
            report_progress(index, len(GALLERY))
            examined = load_target(name, seed=seed)
            prepared = prepared_batch(examined, source, n, None, seed)
            report = diagnosed(examined, prepared, False, seed, StressOptions(False), predict=False)
            rows.append({"model": name, "expected": list(PATIENTS[name].findings), **_essentials(report)})
    if as_json:
        emit({"gallery": rows, "healthy": None, "findings": [], "layers": [], "metrics": {}, "prediction": None})
        return
    page = console()
    table = Table(title="The gallery: built-in patients, examined now", title_justify="left", box=SIMPLE)
    for column in ("model", "worst", "findings"):
        table.add_column(column, no_wrap=column != "model")
    for row in rows:
        verdict = "[green]nothing found[/]" if row["healthy"] else f"[red]{row['findings'][0]['severity']}[/]"
        found = "\n".join(finding["id"] for finding in row["findings"]) or "—"
        table.add_row(f"[bold]{row['model']}[/]\n[dim]{PATIENTS[row['model']].description}[/]", verdict, found)
    page.print(table)
    next_step(page, "isometer doctor mlp-relu-100 --html report.html")


def _essentials(report: Any) -> dict[str, Any]:
    document = report.to_dict()
    return {"healthy": document["healthy"], "summary": document["summary"], "findings": document["findings"]}
