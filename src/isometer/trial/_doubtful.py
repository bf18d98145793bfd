"""Which models are worth asking about causes and treatment: the sick ones, and those that the doctor does not trust."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from isometer.doctor.stress._outlook import judged
from isometer.trial._fit import evidence
from isometer.trial._guilty import guilty
from isometer.trial._members import Member
from isometer.trial._records import OPTIMIZERS, stresses
from isometer.trial._table import verdicts
from isometer.trial._treated_table import treatable


def doubtful(folder: Path, members: Sequence[Member]) -> set[tuple[str, str]]:
    """Name and optimizer of the models that are sick, or that the stress test does not say of that they train.

    The others have nothing to explain, and a treatment leaves them as they are.

    Args:
        folder: of the trial.
        members: of the trial.
    """
    truth, seen = verdicts(folder, members), stresses(folder, members, ["fresh"]).records()
    found = set()
    for member in members:
        record = seen.get(f"{member.name} fresh")
        for optimizer in OPTIMIZERS:
            known = evidence(record or {}, optimizer)
            # A test that failed does not say that the model trains.
            alarm = record is not None and (known is None or judged(known)[0] != "trains")
            sick = member.name in truth[optimizer] and truth[optimizer][member.name].verdict == "sick"
            if sick or alarm:
                found.add((member.name, optimizer))
    return found


def worth_treating(folder: Path, members: Sequence[Member]) -> set[tuple[str, str]]:
    """Of the doubtful, the sick ones that are treatable, and those that train: the others count in no row."""
    truth = verdicts(folder, members)
    known = {
        (name, optimizer): truth[optimizer][name].verdict
        for name, optimizer in doubtful(folder, members)
        if name in truth[optimizer]
    }
    sick = {name for (name, _), verdict in known.items() if verdict == "sick"}
    faults = {member.name: member.fault for member in members}
    parts = guilty(folder, [member for member in members if member.name in sick])
    return {
        pair
        for pair, verdict in known.items()
        if verdict == "trains" or (verdict == "sick" and treatable(faults[pair[0]], parts[pair[0]].part))
    }
