"""Does treatment help? Recomputes docs/treatments.json, docs/treatments.md and what `isometer patients` shows.

Every sick patient is examined on a batch of Fashion-MNIST, treated as recommended, and examined again. Then both
versions are trained for 200 steps at three learning rates from several seeds. What the file has already is not computed
again.

    python tools/make_treatments.py [--patients NAME,NAME] [--seeds 0,1] [--data FOLDER] [--again] [--tables]

--tables only rewrites the tables from docs/treatments.json.
"""

from __future__ import annotations

import argparse
import itertools
import json
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import nn

from isometer.data import load
from isometer.doctor import CONDITIONS, PRESCRIPTIONS, Condition, diagnose
from isometer.doctor.patients import PATIENTS, Images, Patient, patient
from isometer.doctor.patients._inputs import pick
from isometer.doctor.treatment import Treatment, treat, trial
from isometer.files import write_whole
from isometer.serialize import json_text
from made import made, made_line

HERE = Path(__file__).parents[1] / "docs"
RESULTS = HERE / "treatments.json"
PAGE = HERE / "treatments.md"
TRUTH = HERE / "patients-truth.json"
SHIPPED = HERE.parent / "src" / "isometer" / "doctor" / "patients" / "outcomes.json"
STEPS = 200
INTRODUCTION = """# Treatments

`isometer doctor MODEL --treat` repairs a copy of the model and prints the lines that do the same in your own code;
`isometer.doctor.treat` does so from Python. Short trainings decide: first come the repairs of the causes in the report,
then, where these are not enough, prescriptions, each time the one with which the model learns most. A change is kept if
it adds at least 0.05 and a tenth to the progress, and if no other optimizer that you named learns less. At the end the
treated model is diagnosed again: it is cured if it did not train before and does now.

With `--no-stress`, or where nothing can be trained, findings decide: a severe one counts as three moderate ones, and
changes of weights are tried before changes of architecture. A prescription that does not apply is refused, with the
reason; one that does not help is undone. The model is never left half changed.

## Repairs of causes

| step | what it does |
|---|---|
| `redraw` | redraws the weights of the modules by the book: `redraw_` |
| `reset-norm` | resets normalisations to gain 1, shift 0 and a small eps: `reset_norms_` |
| `unfreeze` | makes frozen parameters trainable: `unfreeze_` |
| `exchange-activation` | replaces an activation that squashes by ReLU: `exchange_activations_` |
| `exchange-activation` | puts a ReLU after layers that have none: `insert_activations_` |
| `standardise-inputs` | subtracts the mean of the inputs and divides by their size: `standardise_inputs_` |
| `output-units` | returns outputs in the units of the targets: `output_units_` |
| `remove-operation` | removes an operation by a hook, and names the line to change |
| `turn-loss`, `scale-loss`, `check-targets`, `distinct-samples`, `learning-rate`, `warm-up` | advice that you follow |

## From finding to prescription

| finding | prescriptions, best first |
|---|---|
"""

MONITOR = """
## Watching training

`SignalMonitor` makes the same measurements while a model trains, densely at first and sparsely later, within 3 % of the
training time, and warns before the loss shows trouble; see [Watch a training run](howto/watching.md).

`isometer.scaling_check(factory, [64, 128, 256], [2, 4, 8])` measures the same model at several widths and depths and
says whether its learning rate transfers; see [Scale a model up](howto/scaling.md).
"""


def findings_table() -> list[str]:
    """Which conditions list which prescriptions."""
    return [f"| {one.id} | {_advice(one)} |" for one in CONDITIONS.values()]


def _advice(one: Condition) -> str:
    """Prescriptions of the usual form, then those of the forms in which they differ."""
    forms = {"": one.prescriptions, **{v.when: v.prescriptions for v in one.variants.values() if v.prescriptions}}
    lists = {when: ", ".join(f"`{p}`" for p in ids) for when, ids in forms.items()}
    return "; ".join(f"{when}: {ids}" if when else ids for when, ids in lists.items())


def prescriptions_table() -> list[str]:
    """What each prescription does, why, and at what price."""
    rows = ["", "## The prescriptions", ""]
    for kind, words in (("weights", "set weights only"), ("architecture", "change the architecture")):
        rows += [
            f"### Those that {words}",
            "",
            "| prescription | what it does | why | cost | side effects | cannot apply |",
        ]
        rows.append("|---|---|---|---|---|---|")
        for one in PRESCRIPTIONS.values():
            if one.calls and one.kind == kind:
                cells = (one.text, one.theory, one.cost, one.side_effects, one.cannot)
                rows.append(f"| `{one.id}` | {' | '.join(cells)} |")
        rows.append("")
    rows += ["### Those that no function on the model carries out", "", "| prescription | why |", "|---|---|"]
    rows += [f"| `{one.id}` | {one.elsewhere} |" for one in PRESCRIPTIONS.values() if not one.calls]
    return rows


def examine(one: Patient, data: Images) -> tuple[Treatment, dict[str, Any]]:
    """Treat a patient, judged by short trainings on other pictures, and say what became of its findings."""
    model = one.model(0)
    inputs, targets = one.example(seed=0, data=data)

    def fresh() -> Iterator[tuple[Any, Any]]:
        return (one.example(seed=seed, data=data) for seed in itertools.count(1))

    given: dict[str, Any] = {"target": targets, "loss": one.loss, "optimizer": one.optimizer}
    start = time.process_time()
    report = diagnose(model, inputs, fresh=fresh(), predict=False, name=one.name, **given)
    treatment = treat(model, report, batch=inputs, fresh=fresh(), **given)
    found = {
        "before": {finding.id: finding.severity for finding in report.findings},
        "after": {finding.id: finding.severity for finding in treatment.after.findings},
        "applied": list(treatment.applied),
        "cured": treatment.cured,
        "trained": treatment.trained,
        "trains": [one.healthy for one in (report, treatment.after)],
        "progress": treatment.to_dict()["progress"],
        "steps": [step.to_dict() for step in treatment.steps],
        "code": treatment.code,
        "seconds": round(time.process_time() - start, 1),
        "made": made(),
    }
    return treatment, found


def train_both(one: Patient, treatment: Treatment, data: Images, seed: int) -> dict[str, Any]:
    """One seed of the trial: final losses of both at each learning rate."""
    order = torch.randperm(len(data.labels), generator=torch.Generator().manual_seed(seed))

    def sampler(step: int, _: int) -> tuple[Any, Any]:
        batch = pick(one.input, data, order[step * one.samples : (step + 1) * one.samples])
        return batch if one.defect is None else one.defect(*batch)

    def after(seed: int) -> nn.Module:
        return treatment.repeat(one.model(seed), one.example(seed=seed, data=data)[0], seed=seed)

    start = time.process_time()
    done = trial(one.model, after, sampler=sampler, loss=one.loss, steps=STEPS, optimizer=one.optimizer, seeds=[seed])
    shown = done.to_dict()
    return {
        "learning_rates": shown["learning_rates"],
        "before": shown["before"]["final"][0],
        "after": shown["after"]["final"][0],
        "seconds": round(time.process_time() - start, 1),
    }


def _loss(saved: float | str | None) -> float:
    """A loss as JSON has it, where one that is not finite is a word or nothing."""
    value = np.inf if saved is None else float(saved)
    return np.inf if np.isnan(value) else value


def outcome(record: dict[str, Any]) -> dict[str, Any]:
    """Best learning rate of each arm over seeds, the losses there, and whether the bands are apart."""
    seeds = record.get("trials", {})
    if not seeds:
        return {}
    arms: dict[str, list[float]] = {}
    for arm in ("before", "after"):
        losses = np.array([[_loss(v) for v in seeds[seed][arm]] for seed in sorted(seeds)])
        arms[arm] = [round(float(v), 4) for v in losses[:, int(np.argmin(losses.mean(axis=0)))]]
    return {
        "loss_before": arms["before"],
        "loss_after": arms["after"],
        "better": max(arms["after"]) < min(arms["before"]),
        "worse": min(arms["after"]) > max(arms["before"]),
    }


def deep_section() -> list[str]:
    """What `tools/thousand_layers.py` found, if it was run."""
    path = HERE / "thousand-layers.json"
    if not path.exists():
        return []
    found = json.loads(path.read_text())
    rows = [
        "",
        f"## {found['depth']} layers",
        "",
        f"`python tools/thousand_layers.py`: {found['depth']} layers of width {found['width']} with batch norm "
        f"and the shaped tanh `tanh(αx)/α`, α = ℓ^−0.4, {found['steps']} steps of {found['samples']} images, "
        f"seeds {found['seeds'].replace(',', ', ')}, learning rates {found['rates'].replace(',', ', ')}; losses are "
        "those at the best rate, lowest and highest seed. Only the law of the weights differs.",
        "",
        "| weights | gradient, first layer | gradient, last layer | runs that diverge | first loss | last ten steps |",
        "|---|---|---|---|---|---|",
    ]
    for law in ("orthogonal", "gaussian"):
        one = found[law]
        ends = [loss for loss in one["last"] if loss is not None]
        end = f"{min(ends):.2f} … {max(ends):.2f}" if len(ends) == len(one["last"]) else "diverges"
        first = f"{min(one['first']):.2f} … {max(one['first']):.2f}"
        gradients = f"{one['gradient_first']:.3g} | {one['gradient_last']:.3g}"
        rows.append(f"| {law} | {gradients} | {one['diverged']} of {one['runs']} | {first} | {end} |")
    return [*rows, ""]


def results_table(patients: dict[str, Any]) -> list[str]:
    by_findings = [name for name, record in patients.items() if not record.get("trained")]
    rows = [
        "",
        "## The built-in patients, treated",
        "",
        *(["Findings decided about all of these (`--no-stress`).", ""] if len(by_findings) == len(patients) else []),
        "Findings on a batch of Fashion-MNIST, severe ones in bold; loss after 200 steps at the best of three learning "
        "rates, lowest and highest of the seeds (mean of the last 40 steps, chance is 2.303). *Better* means that the "
        "worst seed of the treated network ends below the best of the untreated one.",
        "",
        made_line([record["made"] for record in patients.values()]),
        "",
        "| patient | found | applied | left | loss before | loss after | seeds | better |",
        "|---|---|---|---|---|---|---|---|",
    ]
    for name in PATIENTS:
        if name not in patients:
            continue
        record = patients[name]
        result = outcome(record)
        lists = [
            ", ".join(f"**{k}**" if v == "severe" else k for k, v in record[when].items()) or "—"
            for when in ("before", "after")
        ]
        cells = ["—", "—", "0", "not tried"]
        if result:
            word = "yes" if result["better"] else "**no, worse**" if result["worse"] else "no"
            cells = [_range(result["loss_before"]), _range(result["loss_after"]), str(len(record["trials"])), word]
        alone = "none: the stress test says that it trains" if record.get("trains", [False])[0] else "nothing applies"
        applied = ", ".join(f"`{one}`" for one in record["applied"]) or alone
        rows.append(f"| `{name}` | {lists[0]} | {applied} | {lists[1]} | {' | '.join(cells)} |")
    return rows


def _range(losses: list[float]) -> str:
    low, high = min(losses), max(losses)
    if not np.isfinite(high):
        return "diverges" if not np.isfinite(low) else f"{low:.2f} … diverges"
    return f"{low:.2f}" if f"{low:.2f}" == f"{high:.2f}" else f"{low:.2f} … {high:.2f}"


def write(patients: dict[str, Any], extra: dict[str, Any]) -> None:
    """All files in one move each."""
    ordered = {name: patients[name] for name in PATIENTS if name in patients}
    rows = [f"{json.dumps(name)}: {json.dumps(record, ensure_ascii=False)}" for name, record in ordered.items()]
    head = {"data": "Fashion-MNIST, training set, standardised", "steps": STEPS, **extra}
    lines = [f"{json.dumps(key)}: {json.dumps(value)}" for key, value in head.items()]
    write_whole(RESULTS, "{\n" + ",\n".join([*lines, '"patients": {\n' + ",\n".join(rows) + "\n}"]) + "\n}\n")
    text = INTRODUCTION + "\n".join([*findings_table(), *prescriptions_table(), *results_table(ordered)]) + "\n"
    write_whole(PAGE, text + "\n".join(deep_section()) + MONITOR)
    truth = json.loads(TRUTH.read_text())["patients"] if TRUTH.exists() else {}
    shipped = {}
    for name in PATIENTS:
        entry: dict[str, Any] = {}
        if name in truth:
            entry["trains"] = truth[name].get("trains")
            entry["loss"] = round(float(np.mean(truth[name]["best_losses"])), 3)
        if name in ordered:
            record = ordered[name]
            entry["treatment"] = {"applied": record["applied"], "left": list(record["after"]), **outcome(record)}
        if entry:
            shipped[name] = entry
    write_whole(SHIPPED, json_text(shipped, indent=0) + "\n")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--patients", default=",".join(n for n, p in PATIENTS.items() if not p.healthy))
    parser.add_argument("--seeds", default="0,1,2,3,4")
    parser.add_argument("--data", type=Path, help="folder of the data set, if not where `isometer data` finds it")
    parser.add_argument("--again", action="store_true", help="compute also what the file has already")
    parser.add_argument("--tables", action="store_true", help="only rewrite the tables")
    options = parser.parse_args()
    torch.set_num_threads(1)
    saved = json.loads(RESULTS.read_text()) if RESULTS.exists() else {"patients": {}}
    found: dict[str, Any] = {name: record for name, record in saved["patients"].items() if name in PATIENTS}
    extra = {key: value for key, value in saved.items() if key not in ("patients", "data", "steps")}
    if options.tables:
        write(found, extra)
        return
    pictures = load("fashion-mnist", root=options.data)
    data = Images.of(pictures.images, pictures.labels)
    for name in options.patients.split(","):
        one = patient(name)
        if one.healthy or not one.available:
            continue
        seeds = [seed for seed in options.seeds.split(",") if seed not in found.get(name, {}).get("trials", {})]
        seeds = options.seeds.split(",") if options.again else seeds
        if not seeds and name in found:
            continue
        treatment, record = examine(one, data)
        record["trials"] = {} if options.again else found.get(name, {}).get("trials", {})
        found[name] = record
        for seed in seeds if treatment.applied else []:
            record["trials"][seed] = train_both(one, treatment, data, int(seed))
            write(found, extra)
        write(found, extra)
        result = outcome(record)
        print(f"{name:28} {record['applied']} left {list(record['after'])} {result}", flush=True)


if __name__ == "__main__":
    main()
