"""`isometer doctor … --treat`: the parts that treat, try and save."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from isometer.checks import whole_number
from isometer.cli._application import Command
from isometer.cli._shared import progress_bar, status
from isometer.errors import IsometerError
from isometer.files import existing_folder, write_whole

if TYPE_CHECKING:
    from isometer.cli._examination import Prepared, StressOptions
    from isometer.doctor._loading import Target

_MOST_STEPS = 10**6
_POOL = 4096  # samples that a trial draws its batches from


class OptionalTreat(Command):
    """`--treat` alone means `--treat recommended`."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Fill in the value that was left out."""
        filled: list[str] = []
        for index, one in enumerate(args):
            filled.append(one)
            if one == "--treat" and (index + 1 == len(args) or args[index + 1].startswith("-")):
                filled.append("recommended")
        return super().parse_args(ctx, filled)


def check_options(treat: str | None, trial: int | None, save: Path | None) -> None:
    """What belongs together is given together."""
    if treat is None and (trial is not None or save is not None):
        raise IsometerError("--trial and --save need --treat — add it")
    if trial is not None:
        whole_number(trial, "--trial", high=_MOST_STEPS, fix="pass the number of steps")
    if save is not None and save.suffix != ".safetensors":
        raise IsometerError(f"--save is {str(save)!r}; expected a name that ends in .safetensors")
    if save is not None:
        existing_folder(save.parent)


def treated(
    examined: Target,
    prepared: Prepared,
    report: Any,
    choose: str,
    trial: int | None,
    seed: int,
    test: StressOptions,
) -> Any:
    """The treatment, judged like the diagnosis, with a trial if one is requested."""
    from dataclasses import replace

    from isometer.doctor.treatment import treat

    if trial is not None and prepared.loss is None:
        raise IsometerError(
            "--trial needs labels to train on — pass --input fashion-mnist, or let the factory "
            "return (model, batch, target)"
        )
    with status("treating", test.budget if test.run else None) as told:
        treatment = treat(
            examined.model,
            report,
            batch=prepared.inputs,
            target=prepared.labels,
            loss=prepared.loss,
            fresh=prepared.fresh() if test.run else None,
            optimizer=test.optimizer,
            choose=choose,
            budget=test.budget,
            stress=test.run,
            seed=seed,
            told=told,
        )
    if trial is None:
        return treatment
    return replace(treatment, trial=_trial(examined, prepared, treatment, trial, seed))


def _trial(examined: Target, prepared: Prepared, treatment: Any, steps: int, seed: int) -> Any:
    from isometer.doctor._loading import make_batch_for
    from isometer.doctor.probe._tensor_trees import tensors
    from isometer.doctor.treatment import trial

    count = next(tensors(prepared.inputs)).shape[0]
    inputs, labels = prepared.inputs, prepared.labels
    if prepared.made and prepared.data != "gaussian":
        inputs, labels = make_batch_for(examined, prepared.data, _POOL, shape=prepared.shape, seed=seed)
    optimizer = examined.patient.optimizer if examined.patient is not None else "sgd"
    with progress_bar("training both") as report:
        return trial(
            examined.model,
            treatment.model,
            inputs,
            target=labels,
            loss=prepared.loss,
            steps=steps,
            optimizer=optimizer,
            samples=count if inputs is not prepared.inputs else None,
            progress=report,
        )


def save_treated(model: Any, path: Path) -> None:
    """Write the parameters and buffers of a model; a reader sees the old file or the new one, never a part."""
    from safetensors.torch import save_file

    # Copies: safetensors refuses tensors that share memory, as tied weights do.
    state = {name: tensor.detach().clone().contiguous() for name, tensor in model.state_dict().items()}
    write_whole(path, lambda partial: save_file(state, partial))
