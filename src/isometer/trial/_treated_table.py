"""What treatment is worth: how many sick models reach their sibling, and how many that train get worse."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Any

from isometer.trial._culprits import Part
from isometer.trial._guilty import guilty
from isometer.trial._members import Member
from isometer.trial._records import OPTIMIZERS, sibling_name, treated, truths
from isometer.trial._shares import Share, share
from isometer.trial._table import distinct
from isometer.trial._truth import compare

REACHED = 0.75
"""Share of its sibling's improvement from which on a sick model counts as cured."""
TREATABLE_PARTS = ("module", "modules", "input", "targets", "loss")
UNTREATABLE: Mapping[str, str] = MappingProxyType(
    {
        "input-lost": "every sample has the same input; nothing tells them apart",
        "input-blank": "the missing features or tokens are in no batch",
        "input-drowned": "no function of the input separates it from noise that is drawn anew in every step",
        "targets-shuffled": "the right targets of the exchanged samples are not known",
        "batch-repeated": "a step sees one to four different samples; a treatment does not choose the batch",
        "batch-tiny": "a step sees two or three samples; a treatment does not choose the batch",
        "too-narrow": "the units that are missing are another architecture",
        "too-deep": "the layers that are too many are another architecture",
    }
)
"""Faults that no repair of a model undoes, by name, with the reason; decided before any model was treated. What
destroys weights is treatable, since they can be drawn again, and so is a module that was left out or exchanged, since
another can take its place."""


@dataclass(frozen=True)
class TreatmentRow:
    """What treatment does with one optimizer.

    Attributes:
        optimizer: whose truth it is.
        cured: treatable sick models that reach three quarters of their sibling's improvement.
        repaired: treatable sick models in which something was repaired.
        worse: models that train and that are worse after treatment, beyond the noise of the seeds.
        changed: models that train and in which something was repaired.
        not_cured: treatable sick models that stay behind, each with its fault and its share.
        harmed: those that are worse, each with its share of its own improvement.
    """

    optimizer: str
    cured: Share
    repaired: Share
    worse: Share
    changed: Share
    not_cured: tuple[str, ...]
    harmed: tuple[str, ...]


@dataclass(frozen=True)
class TreatedCase:
    """One model before and after treatment.

    Attributes:
        name: of the model.
        fault: that it has.
        before: the record of its truth.
        after: that of the treated model; the same one if nothing was repaired.
        sound: that of its sibling.
    """

    name: str
    fault: str | None
    before: Mapping[str, Any]
    after: Mapping[str, Any]
    sound: Mapping[str, Any]

    @property
    def changed(self) -> bool:
        """Whether something was repaired."""
        return self.after is not self.before

    @property
    def share(self) -> float:
        """Of its sibling's improvement, after treatment."""
        return compare(self.after, self.sound).share

    @property
    def kept(self) -> tuple[float, bool]:
        """Share of its own improvement, and whether it is worse.

        It is worse if the 90 % interval of the share stays below 1, so that one in twenty is by chance.
        """
        own = compare(self.after, self.before)
        return own.share, self.changed and own.high < 1


def treatable(fault: str | None, part: Part) -> bool:
    """Whether a repair can undo a fault: it is at a part of the model or its training, and not untreatable.

    Example:
        >>> treatable("input-lost", "input"), treatable("input-nan", "input"), treatable("too-deep", "structure")
        (False, True, False)
    """
    return fault not in UNTREATABLE and part in TREATABLE_PARTS


def treatment_rows(folder: Path, members: Sequence[Member]) -> list[TreatmentRow]:
    """One row per optimizer, of the models with a clear truth that were treated."""
    members = distinct(members)
    known, after = truths(folder, members).records(), treated(folder, members).records()
    judged: dict[str, dict[str, list[TreatedCase]]] = {optimizer: defaultdict(list) for optimizer in OPTIMIZERS}
    for optimizer, cases in judged.items():
        for member in members:
            if (outcome := _outcome(member, optimizer, known, after)) is not None:
                cases[compare(outcome.before, outcome.sound).verdict].append(outcome)
    sick = {case.name for cases in judged.values() for case in cases["sick"]}
    parts = guilty(folder, [member for member in members if member.name in sick])
    return [
        treatment_row(
            optimizer, [case for case in cases["sick"] if treatable(case.fault, parts[case.name].part)], cases["trains"]
        )
        for optimizer, cases in judged.items()
    ]


def treatment_row(optimizer: str, sick: Sequence[TreatedCase], well: Sequence[TreatedCase]) -> TreatmentRow:
    """The row of some treatable sick models and some that train."""
    left = [one for one in sick if not one.share >= REACHED]
    harmed = [one for one in well if one.kept[1]]
    return TreatmentRow(
        optimizer,
        share(one.share >= REACHED for one in sick),
        share(one.changed for one in sick),
        share(one.kept[1] for one in well),
        share(one.changed for one in well),
        tuple(f"{one.name} ({one.fault}): {one.share:.2f}" for one in left),
        tuple(f"{one.name} ({one.fault or 'sound'}): {one.kept[0]:.2f}" for one in harmed),
    )


def _outcome(member: Member, optimizer: str, known: Mapping[str, Any], after: Mapping[str, Any]) -> TreatedCase | None:
    own, sound = known.get(f"{member.name} {optimizer}"), known.get(f"{sibling_name(member)} {optimizer}")
    now = after.get(f"{member.name} {optimizer}")
    if own is None or sound is None or now is None:
        return None
    return TreatedCase(member.name, member.fault, own, now if now["second"] else own, sound)
