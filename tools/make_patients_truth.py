"""Do the built-in patients train? Recomputes docs/patients-truth.json.

Every patient is trained for 200 steps at three learning rates from several seeds on Fashion-MNIST and judged against
its healthy sibling by `isometer.doctor.patients.judge`. Where the batch is part of the condition, a control without
batch norm is trained on the same batches. Seeds that the file has already are not trained again.

    python tools/make_patients_truth.py [FOLDER] [--patients NAME,NAME] [--seeds 0,1,2] [--out FILE] [--again]

FOLDER is where the data set lies, if not where `isometer data` finds it.
"""

from __future__ import annotations

import argparse
import json
import math
import platform
from dataclasses import replace
from importlib import metadata
from pathlib import Path
from typing import Any

import torch

from isometer.data import load
from isometer.doctor.patients import PATIENTS, Images, Patient, Trial, judge, patient, trial
from isometer.doctor.patients._outcomes import CHANCE, LEARNED, MATERIAL, SIGNIFICANT
from isometer.doctor.training._loop import LEARNING_RATES, WINDOW
from isometer.files import write_whole

STEPS = 200
CONTROLS = {"mlp-bn-small-batch-10": "mlp-relu-10", "mlp-bn-repeated-10": "mlp-relu-10"}
"""Is it batch norm, or the batch? Healthy models without batch norm that are trained on the batches of a patient."""


def record(done: Trial) -> dict[str, Any]:
    """A trial, ready for JSON."""
    return {
        "steps": done.steps,
        "seeds": list(done.seeds),
        "learning_rates": list(done.learning_rates),
        "losses": [[round(loss, 4) for loss in row] for row in done.losses],
        "diverged": [list(row) for row in done.diverged],
        "best_learning_rate": done.best_learning_rate,
        "best_losses": [round(loss, 4) for loss in done.best_losses],
        "seconds": None if math.isnan(done.seconds) else round(done.seconds, 1),
    }


def control(name: str, own: Trial, data: Images) -> dict[str, Any]:
    """The control of a patient on the same batches, and the patient's loss reduction relative to it."""
    one = PATIENTS[name]
    other = replace(PATIENTS[CONTROLS[name]], samples=one.samples, defect=one.defect)
    done = trial(other, data=data, steps=own.steps, seeds=own.seeds)
    truth = judge(own, done)
    numbers = {"ratio": round(truth.ratio, 4), "p_value": float(f"{truth.p_value:.3g}")}
    return {"model": other.name, "best_losses": [round(loss, 4) for loss in done.best_losses], **numbers}


def about(one: Patient) -> dict[str, Any]:
    """What a reader of the file wants to know about a patient."""
    return {
        "findings": list(one.findings),
        "sibling": one.sibling,
        "family": one.family,
        "optimizer": one.optimizer,
        "samples": one.samples,
        "description": one.description,
    }


def restored(name: str, saved: dict[str, Any]) -> Trial:
    """The trial behind a record."""
    return Trial(
        name,
        tuple(saved["learning_rates"]),
        tuple(saved["seeds"]),
        tuple(tuple(min(loss, CHANCE) for loss in row) for row in saved["losses"]),
        tuple(map(tuple, saved["diverged"])),
        saved["steps"],
        math.nan if saved["seconds"] is None else saved["seconds"],
    )


def joined(old: Trial | None, new: Trial) -> Trial:
    """Both trials of one patient as one."""
    if old is None:
        return new
    return replace(
        old,
        seeds=old.seeds + new.seeds,
        losses=old.losses + new.losses,
        diverged=old.diverged + new.diverged,
        seconds=old.seconds + new.seconds,
    )


def verdicts(patients: dict[str, Any]) -> None:
    """Add to every record what its numbers say, as far as its sibling is there."""
    for name, saved in patients.items():
        sibling = PATIENTS[name].sibling
        for stale in ("trains", "ratio", "p_value"):
            saved.pop(stale, None)
        if sibling is not None and sibling not in patients:
            continue
        truth = judge(restored(name, saved), None if sibling is None else restored(sibling, patients[sibling]))
        saved["trains"] = truth.trains
        saved["ratio"] = round(truth.ratio, 4)
        saved["p_value"] = float(f"{truth.p_value:.3g}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path, nargs="?")
    parser.add_argument("--patients", default=",".join(PATIENTS), help="names, with commas between them")
    parser.add_argument("--seeds", default="0,1,2")
    parser.add_argument("--out", type=Path, default=Path(__file__).parents[1] / "docs" / "patients-truth.json")
    parser.add_argument("--again", action="store_true", help="train also what the file has already")
    options = parser.parse_args()
    torch.set_num_threads(1)
    seeds = [int(seed) for seed in options.seeds.split(",")]
    names = [patient(name).name for name in options.patients.split(",")]
    found: dict[str, Any] = json.loads(options.out.read_text())["patients"] if options.out.exists() else {}
    found = {name: saved for name, saved in found.items() if name in PATIENTS}
    pictures = load("fashion-mnist", root=options.folder)
    data = Images.of(pictures.images, pictures.labels)
    for name in names:
        saved = None if options.again else found.get(name)
        old = restored(name, saved) if saved and saved["steps"] == STEPS else None
        missing = [seed for seed in seeds if old is None or seed not in old.seeds]
        if missing:
            done = joined(old, trial(PATIENTS[name], data=data, steps=STEPS, seeds=missing))
            found[name] = record(done)
            if name in CONTROLS:
                found[name]["control"] = control(name, done, data)
        verdicts(found)
        write(options.out, found)
        shown = found[name]
        print(
            f"{name:28} {shown['seconds'] or math.nan:6.1f} s  {shown['best_losses']}  trains: {shown.get('trains')}",
            flush=True,
        )


def write(out: Path, found: dict[str, Any]) -> None:
    """Write the file in one move, a line per patient; an interruption leaves the old or the new one."""
    head = {
        "data": "Fashion-MNIST, training set, standardised",
        "rule": {
            "chance": round(CHANCE, 4),
            "window": WINDOW,
            "learning_rates": {name: list(rates) for name, rates in LEARNING_RATES.items()},
            "material": MATERIAL,
            "significant": SIGNIFICANT,
            "learned": LEARNED,
        },
        "versions": {
            "python": platform.python_version(),
            **{name: metadata.version(name) for name in ("torch", "numpy", "transformers")},
        },
    }
    lines = [f"{json.dumps(key)}: {json.dumps(value)}" for key, value in head.items()]
    rows = [
        f"{json.dumps(name)}: {json.dumps({**found[name], **about(one)}, ensure_ascii=False)}"
        for name, one in PATIENTS.items()
        if name in found
    ]
    write_whole(out, "{\n" + ",\n".join([*lines, '"patients": {\n' + ",\n".join(rows) + "\n}"]) + "\n}\n")


if __name__ == "__main__":
    main()
