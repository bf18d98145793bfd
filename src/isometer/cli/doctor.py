"""`isometer doctor`: does it train, which layer loses the signal, why, and what to change."""

from __future__ import annotations

import contextlib
import functools
import itertools
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.text import Text

from isometer.checks import WIDEST, seed_number, whole_number
from isometer.cli._checkpoint_runs import check_alone, checkpoint_series, finish, run_of
from isometer.cli._network import NetworkText, check_folders, network_from
from isometer.cli._shared import (
    INPUT,
    OUTPUT,
    Json,
    Memory,
    Threads,
    allowing,
    app,
    console,
    emit,
    next_step,
    progress_bar,
    status,
)
from isometer.cli._threads import threads as using
from isometer.cli._treatment import OptionalTreat, check_options, save_treated, treated
from isometer.cli._user_code import running
from isometer.errors import IsometerError
from isometer.extras import need

if TYPE_CHECKING:
    from isometer.doctor._loading import Target

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
_FEW = 4  # samples of a batch that says how much a larger one takes
_CHEAP = 3.0  # seconds of a tangent kernel that nobody asked for
_FEATURES = 100  # of the input of a network that does not say


EXAMINATION, TREATMENT = "Examination", "Treatment"


class DoctorCommand(OptionalTreat):
    """`--batch FILE` is an older name of `--input FILE`."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Parse, with a file after --batch taken for what it is."""
        named = list(args)
        for index, (name, value) in enumerate(itertools.pairwise(args)):
            if name == "--batch" and not value.lstrip("+-").isdecimal():
                named[index] = "--input"
        return super().parse_args(ctx, named)


@app.command(cls=DoctorCommand)
def doctor(
    target: Annotated[
        str | None,
        typer.Argument(
            metavar="TARGET",
            help="path/to/file.py:factory or package.module:factory (both are executed), a spec in FILE.json, or a "
            "built-in patient. Without one, a small gallery is examined.",
            show_default=False,
        ),
    ] = None,
    network: NetworkText = None,
    source: Annotated[
        str,
        typer.Option(
            "--input",
            metavar="SOURCE",
            help="gaussian, a data set (fashion-mnist, cifar10, mnist, digits), or a file: .npy, .npz, .csv, "
            ".safetensors or torch tensors.",
            rich_help_panel=INPUT,
        ),
    ] = "gaussian",
    batch: Annotated[
        int | None,
        typer.Option("--batch", metavar="N", help="Samples in the batch; 32 by default.", rich_help_panel=INPUT),
    ] = None,
    shape: Annotated[
        str | None,
        typer.Option(
            "--shape",
            metavar="C,H,W",
            help="Shape of one sample, if it cannot be inferred from the model.",
            rich_help_panel=INPUT,
        ),
    ] = None,
    seed: Annotated[
        int, typer.Option("--seed", metavar="S", help="Seed of batch, gradients and redraws.", rich_help_panel=INPUT)
    ] = 0,
    checkpoint: Annotated[
        Path | None,
        typer.Option(
            "--checkpoint",
            metavar="FILE",
            help="Weights to load first: .safetensors or a torch state dict.",
            rich_help_panel=EXAMINATION,
        ),
    ] = None,
    checkpoints: Annotated[
        str | None,
        typer.Option(
            "--checkpoints",
            metavar="'run/*.pt'",
            help="Examine all of these instead: layers, findings and warnings over the steps of a training run. With "
            "--compare 'other/*.pt', beside another run.",
            rich_help_panel=EXAMINATION,
        ),
    ] = None,
    evaluate: Annotated[
        bool,
        typer.Option(
            "--eval", help="Examine the model in evaluation mode instead of training mode.", rich_help_panel=EXAMINATION
        ),
    ] = False,
    optimizer: Annotated[
        str | None,
        typer.Option(
            "--optimizer",
            metavar="NAME",
            help="Optimizer you train with: adam, sgd, adamw, …; adam and sgd by default.",
            rich_help_panel=EXAMINATION,
        ),
    ] = None,
    lr: Annotated[
        float | None,
        typer.Option(
            "--lr",
            metavar="RATE",
            help="Your learning rate, judged beside the best one found.",
            rich_help_panel=EXAMINATION,
        ),
    ] = None,
    no_stress: Annotated[
        bool,
        typer.Option(
            "--no-stress",
            help="Skip the training of a copy: a quick look that lists findings only.",
            rich_help_panel=EXAMINATION,
        ),
    ] = False,
    budget: Annotated[
        float | None,
        typer.Option(
            "--budget",
            metavar="SECONDS",
            help="Time for the diagnosis, and again for --treat. By default the whole test runs, ten minutes at most.",
            rich_help_panel=EXAMINATION,
        ),
    ] = None,
    treat: Annotated[
        str | None,
        typer.Option(
            "--treat",
            metavar="all|ID,…",
            help="Repair a copy and keep what helps it train: recommended prescriptions, all, or these IDs.",
            rich_help_panel=TREATMENT,
        ),
    ] = None,
    trial: Annotated[
        int | None,
        typer.Option(
            "--trial",
            metavar="STEPS",
            help="Then train the model and the repaired copy for this many steps: three learning rates, three seeds.",
            rich_help_panel=TREATMENT,
        ),
    ] = None,
    save: Annotated[
        Path | None,
        typer.Option(
            "--save",
            metavar="FILE.safetensors",
            help="Write the treated model's weights.",
            rich_help_panel=TREATMENT,
        ),
    ] = None,
    html: Annotated[
        Path | None,
        typer.Option("--html", metavar="FILE", help="Write the interactive report.", rich_help_panel=OUTPUT),
    ] = None,
    kernel: Annotated[
        bool,
        typer.Option(
            "--kernel",
            help="Also the tangent kernel of the batch: spectrum, condition number, largest stable rates. The --html "
            "report has it anyway where it takes a few seconds at most.",
            rich_help_panel=EXAMINATION,
        ),
    ] = False,
    baseline: Annotated[
        Path | None,
        typer.Option(
            "--compare",
            metavar="FILE.json",
            help="Report what improved or got worse since this --json report; with --checkpoints, checkpoints of "
            "another run.",
            rich_help_panel=OUTPUT,
        ),
    ] = None,
    layers: Annotated[
        int,
        typer.Option("--layers", metavar="K", help="Rows of the per-layer table; 0 for all.", rich_help_panel=OUTPUT),
    ] = 24,
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
    seed_number(seed, "--seed")
    if batch is not None:
        whole_number(batch, "--batch", high=WIDEST, fix="pass the number of samples")
    whole_number(layers, "--layers", low=0, fix="pass the number of rows, 0 for all")
    check_options(treat, trial, save)
    check_folders(html)
    if budget is not None and not budget > 0:
        raise IsometerError(f"--budget is {budget}; expected a positive number of seconds")
    if lr is not None and not 0 < lr < float("inf"):
        raise IsometerError(f"--lr is {lr}; expected a positive number")
    test = StressOptions(not no_stress, optimizer, lr, budget)
    if network is not None and target is not None:
        raise IsometerError("a TARGET and --network name a model each; expected one of them — drop one")
    if target is None and network is None:
        given = (checkpoint, checkpoints, baseline, html, treat)
        if any(option is not None for option in given) or _file(source) is not None:
            raise IsometerError(
                "--checkpoint, --checkpoints, --compare, --html, --treat and a file as --input need a TARGET — name "
                "the model to examine"
            )
        with using(threads):
            _gallery(source, batch, seed, as_json)
        return
    with status("loading torch"):
        need("torch", "this part of isometer")
    from isometer.doctor._loading import load_baseline, load_target, load_weights, network_target
    from isometer.doctor.diagnosis._comparison import compare

    if treat is not None:
        from isometer.doctor.treatment._apply import chosen_ids

        chosen_ids(treat)  # a wrong id is said before anything is run
    if checkpoints is not None:
        check_alone(checkpoint=checkpoint, treat=treat, optimizer=optimizer, lr=lr, budget=budget)
        series = checkpoint_series(checkpoints, None if baseline is None else str(baseline))
    earlier = load_baseline(baseline) if baseline is not None and checkpoints is None else None
    code = "" if target is None else target.rpartition(":")[0]
    if code:
        typer.echo(f"note: executing {code} to build the model", err=True)
    with allowing(memory, None), using(threads), running(code) if code else contextlib.nullcontext():
        if target is not None and target.endswith(".json"):
            examined = network_target(network_from(target, _FEATURES), Path(target).stem, seed=seed)
        elif target is not None:
            examined = load_target(target, seed=seed)
        else:
            assert network is not None
            spec = network_from(network, _FEATURES)
            examined = network_target(spec, str(spec), seed=seed)
        if checkpoint is not None:
            load_weights(examined.model, checkpoint)
        prepared = _prepared(examined, source, batch, shape, seed)
        if checkpoints is not None:
            look = functools.partial(run_of, examined=examined, prepared=prepared, evaluate=evaluate, seed=seed)
            runs = [_told(examined, prepared, functools.partial(look, one)) for one in series]
        else:
            with using(threads, large=_large(examined, prepared)):
                report = _diagnose(examined, prepared, evaluate, seed, test)
                panel = _kernel_panel(examined, prepared, evaluate, seed, asked=kernel) if kernel or html else None
                treatment = None
                if treat is not None:
                    treatment = _told(
                        examined, prepared, lambda: treated(examined, prepared, report, treat, trial, seed, test)
                    )
    if checkpoints is not None:
        finish(runs, html, target or "--network …", checkpoints, as_json)
        return
    document = report.to_dict(grams=html is not None)
    if panel is not None:
        document["kernel"] = panel
    outcome = report
    if treatment is not None:
        document["treatment"], outcome = treatment.to_dict(), treatment.after
        document["treated"] = _layers(treatment.after) if treatment.calls else None
        if save is not None:
            save_treated(treatment.model, save)
    if earlier is not None and baseline is not None:
        document["comparison"] = compare(earlier, document, name=baseline.name)
    if html is not None:
        from isometer.report._doctor_page import save_page

        save_page(document, html)
    if as_json:
        document["grams"] = None
        emit(document)
    else:
        _show(document, target, layers, html)
    if outcome.healthy is not True:
        raise typer.Exit(UNDECIDED if outcome.healthy is None else UNHEALTHY)


@dataclass(frozen=True)
class StressOptions:
    """How the stress test is to be run, if at all."""

    run: bool
    optimizer: str | None = None
    lr: float | None = None
    budget: float | None = None


@dataclass(frozen=True)
class Prepared:
    """What a model is examined with.

    `made` says whether it was made for it, of samples of this shape and of this data set; `more` then makes other
    batches, by seed.
    """

    inputs: Any
    labels: Any
    loss: Any
    description: str
    made: bool
    shape: tuple[int, ...] | None
    more: Callable[[int], tuple[Any, Any]] | None = None
    data: str = "gaussian"

    def fresh(self) -> Any:
        """Batches for the stress test, `None` where no others than the one can be made."""
        return None if self.more is None else map(self.more, itertools.count(1))


def _data_set(source: str) -> str | None:
    """The name of the data set that an input is, if it is one."""
    from isometer.data import CATALOG

    if source.startswith("data:"):
        return source.removeprefix("data:")
    return source if source in CATALOG else None


def _file(source: str) -> Path | None:
    """The file that an input is: whatever is neither made nor a data set."""
    return None if source == "gaussian" or _data_set(source) is not None else Path(source)


def _prepared(examined: Target, source: str, n: int | None, shape: str | None, seed: int) -> Prepared:
    import torch

    from isometer.doctor._loading import load_batch, make_batch_for
    from isometer.doctor.probe._kept import check_pass
    from isometer.doctor.probe._made_up import made_up_words, with_offsets
    from isometer.doctor.stress._objectives import usual_loss

    labels, description, made, size = examined.target, "the factory's own batch", False, _shape(shape)
    file, data = _file(source), _data_set(source) or "gaussian"
    if file is not None:
        inputs, labels, description = load_batch(file, examined.model), None, file.name
    elif examined.batch is not None:
        inputs = examined.batch
    else:
        if n is not None and n > _FEW:
            check_pass(examined.model, make_batch_for(examined, data, _FEW, shape=size, seed=seed)[0], _FEW, n)
        inputs, labels = make_batch_for(examined, data, n, shape=size, seed=seed)
        # Labels of made-up inputs are random: the doctor has better ones.
        labels = None if data == "gaussian" else labels
        description, made = made_up_words(inputs) if data == "gaussian" else data, True
    loss = examined.loss
    if labels is None:
        loss = None
    elif loss is None and isinstance(labels, torch.Tensor) and not labels.is_floating_point():
        loss = usual_loss
    elif loss is None:
        labels = None

    def more(number: int) -> tuple[Any, Any]:
        inputs, targets = make_batch_for(examined, data, n, shape=size, seed=seed + number)
        return (inputs, targets) if labels is not None else (with_offsets(inputs, seed=number), None)

    return Prepared(inputs, labels, loss, description, made, size, more if made else None, data)


def _diagnose(
    examined: Target, prepared: Prepared, evaluate: bool, seed: int, test: StressOptions, *, predict: bool = True
) -> Any:
    from isometer.doctor import diagnose

    run = functools.partial(
        diagnose,
        examined.model,
        prepared.inputs,
        target=prepared.labels,
        loss=prepared.loss,
        fresh=prepared.fresh() if test.run else None,
        optimizer=test.optimizer,
        lr=test.lr,
        stress=test.run,
        budget=test.budget,
        mode="eval" if evaluate else "train",
        name=examined.name,
        description=prepared.description,
        predict=predict,
        seed=seed,
    )
    with status("examining", test.budget if test.run else None) as told:
        return _told(examined, prepared, functools.partial(run, told=told))


def _kernel_panel(examined: Target, prepared: Prepared, evaluate: bool, seed: int, *, asked: bool) -> dict[str, Any]:
    """The tangent kernel of the batch, or why there is none: a model that trains is no less so without it."""
    from isometer.empirical import kernel_summary
    from isometer.work import TooMuchWorkError, allow

    try:
        with allow(seconds=None if asked else _CHEAP), status("tangent kernel"):
            found = kernel_summary(
                examined.model,
                prepared.inputs,
                prepared.labels,
                loss=prepared.loss,
                mode="eval" if evaluate else "train",
                method="auto" if asked else "structured",
                seed=seed,
            )
    except TooMuchWorkError as problem:
        hint = "" if asked else " — --kernel calculates it, from random combinations of outputs where it is long"
        return {"skipped": f"{str(problem).partition(';')[0]}{hint}"}
    except IsometerError as problem:
        return {"skipped": str(problem)}
    return found.to_dict()


def _told(examined: Target, prepared: Prepared, run: Callable[[], Any]) -> Any:
    """What `run` gives; where a user's model fails on the batch, an error that says so and what to do."""
    from isometer.cli._plain_step import attempt

    return attempt(run, examined, prepared.inputs, prepared.description, made=prepared.made)


def _large(examined: Target, prepared: Prepared) -> bool:
    from isometer.cli._plain_step import is_large

    return is_large(examined.model, prepared.inputs)


def _shape(text: str | None) -> tuple[int, ...] | None:
    if text is None:
        return None
    try:
        shape = tuple(int(part) for part in text.replace("x", ",").split(","))
    except ValueError:
        shape = ()
    if not shape or not 1 <= min(shape) <= max(shape) <= WIDEST:
        raise IsometerError(f"--shape is {text!r}; expected positive whole numbers, for example 3,32,32")
    return shape


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
        return f"isometer doctor {target}"
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
            prepared = _prepared(examined, source, n, None, seed)
            report = _diagnose(examined, prepared, False, seed, StressOptions(False), predict=False)
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
