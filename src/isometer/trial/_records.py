"""The files of a trial: who takes part, what training said, what the doctor and the baselines said, who opened a seal.

Each file has one record per line, written whole or not at all. Beside a record is kept what it was computed from, as a
digest (`of`), so that a record of another draw is not taken for one of this, and the version of the code (`code`).
"""

from __future__ import annotations

import hashlib
import json
import platform
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from functools import lru_cache
from importlib import metadata
from pathlib import Path
from typing import Any

import xarray

from isometer.errors import IsometerError
from isometer.files import write_whole
from isometer.run import Cell, Failure, Job, Store, code_version, results, run
from isometer.run._cells import canonical
from isometer.trial._baselines import baseline_cell
from isometer.trial._members import Member, draw_members
from isometer.trial._named_causes import cause_cell
from isometer.trial._opinions import doctor_cell
from isometer.trial._rounds import round_numbered
from isometer.trial._stressed import stress_cell
from isometer.trial._treated import treated_cell
from isometer.trial._truth import FIRST_ROUND, RATES, SECOND_ROUND, long_cell, truth_cell

MEMBERS, TRUTHS, CHECKS, OPINIONS, STRESS, LATER, CAUSES, TREATED, BASELINES, SEAL = (
    f"{name}.json"
    for name in ("members", "truths", "checks", "opinions", "stress", "later", "causes", "treated", "baselines", "seal")
)
OPTIMIZERS = ("adam", "sgd")
_SEEDS, _OPINION_SEED = (0, 1, 2), 700
"""The truth has three seeds; doctor and baselines judge other weights and other batches, the same for all."""
Observer = Callable[[Any], None]


def environment() -> dict[str, str]:
    """The versions that results depend on."""
    return {
        "python": platform.python_version(),
        "machine": platform.machine(),
        **{name: _version(name) for name in ("isometer", "torch", "numpy", "transformers")},
    }


def _version(name: str) -> str:
    try:
        return metadata.version(name)
    except metadata.PackageNotFoundError:  # transformers: only some families need it
        return "none"


def _read(path: Path) -> dict[str, Any]:
    if not path.exists():
        return {"records": {}}
    state = path.stat()
    return _read_state(path, (state.st_ino, state.st_mtime_ns, state.st_size))


@lru_cache(maxsize=16)
def _read_state(path: Path, state: tuple[int, int, int]) -> dict[str, Any]:
    """The content of a file in one state; a table asks for the same file dozens of times."""
    try:
        data = json.loads(path.read_text(encoding="utf-8"))
        return {**data, "records": {name: dict(record) for name, record in data["records"].items()}}
    except (ValueError, KeyError, TypeError, AttributeError) as problem:
        raise IsometerError(
            f"{path} cannot be read as a file of a trial ({problem}); expected what isometer trial wrote — restore it, "
            "or move it away"
        ) from None


def read_records(path: Path) -> dict[str, Any]:
    """The records of a file, none if there is no file."""
    return dict(_read(path)["records"])


def write_records(path: Path, records: Mapping[str, Any], **head: Any) -> None:
    """A file with one record per line."""
    lines = [f"{json.dumps(key)}: {json.dumps(value)}" for key, value in {**head, "versions": environment()}.items()]
    rows = ",\n".join(f"{json.dumps(key)}: {json.dumps(value)}" for key, value in records.items())
    write_whole(path, "{\n" + ",\n".join([*lines, '"records": {\n' + rows + "\n}"]) + "\n}\n")


def read_members(folder: Path) -> list[Member]:
    """The models of a trial in the order of the draw.

    Raises:
        IsometerError: nothing was drawn yet.
    """
    records = read_records(folder / MEMBERS)
    if not records:
        raise IsometerError(
            f"{folder} has no {MEMBERS}; expected a trial that was drawn — run isometer trial draw first"
        )
    return [Member.from_dict({"name": name, **record}) for name, record in records.items()]


def draw(
    folder: Path,
    *,
    per_family: int,
    large: int,
    seed: int,
    names: list[str] | None = None,
    round: int = 1,
    rounds: tuple[int, int] = (FIRST_ROUND, SECOND_ROUND),
    tell: Callable[[str], None] = lambda name: None,
) -> list[Member]:
    """Draw the models of a trial and write them down; a trial that was drawn stays as it is.

    Args:
        folder: of the trial.
        per_family: models per family.
        large: further models of large size.
        seed: of the draw.
        names: of families, all of the round of the trial unless given.
        round: of the trial.
        rounds: steps of the first and of the second round of training.
        tell: called with the name of each model.
    """
    if (folder / MEMBERS).exists():
        return read_members(folder)
    members = []
    for member in draw_members(names, per_family=per_family, large=large, seed=seed, round=round):
        tell(member.name)
        members.append(member)
    records = {m.name: {key: value for key, value in m.to_dict().items() if key != "name"} for m in members}
    head = {"seed": seed, "per_family": per_family, "large": large, "rounds": list(rounds)}
    write_records(folder / MEMBERS, records, **head, **({"round": round} if round > 1 else {}))
    return members


def _digest(configuration: Mapping[str, Any]) -> str:
    return hashlib.sha256(canonical(configuration).encode()).hexdigest()[:16]


class TrialStage:
    """One file of results and the cells that fill it.

    What training says stays true when code changes that does not train. Opinions are those of the present code: `renew`
    computes them again after a change.
    """

    def __init__(
        self, folder: Path, name: str, function: Any, cells: Mapping[str, Mapping[str, Any]], *, renew: bool = False
    ) -> None:
        self.path, self.name, self.function, self.cells = folder / name, name.removesuffix(".json"), function, cells
        self._renew = renew
        self._store = folder / "store" / self.name
        self._digests = {label: _digest(cell) for label, cell in cells.items()}

    def records(self) -> dict[str, Any]:
        """What is there of these cells, in their order."""
        found = read_records(self.path)
        return {key: found[key] for key, digest in self._digests.items() if found.get(key, {}).get("of") == digest}

    def outdated(self) -> list[str]:
        """Those that other code computed, where that matters."""
        if not self._renew:
            return []
        code = code_version(self.function)
        # Earlier records hold only the first characters of it.
        return [label for label, record in self.records().items() if not code.startswith(record["code"])]

    def run(self, observer: Observer | None = None, **how: Any) -> Sequence[Failure]:
        """Compute what is missing; everything that is finished is in the file, also after an interruption."""
        have = self.records().keys() - self.outdated()
        missing = [label for label in self.cells if label not in have]
        if not missing:
            return ()
        cells = tuple(Cell({"cell": label}, self.cells[label]) for label in missing)
        job, store = Job(self.function, {"cell": missing}, cells, combine=_nothing), Store.create(self._store)
        try:
            return run(job, store, name="trial", observer=observer, **how).failures
        finally:
            self._gather(results(job, store), job.code)

    def _gather(self, found: Mapping[str, xarray.Dataset], code: str) -> None:
        """Add results to the file; those of other draws in it are kept."""
        records = read_records(self.path)
        for label, data in found.items():
            name = label.removeprefix("cell=")
            records[name] = {"of": self._digests[name], "code": code, **json.loads(data["record"].item())}
        write_records(self.path, dict(sorted(records.items())))


def _nothing(job: Job, found: Mapping[str, xarray.Dataset]) -> xarray.Dataset:
    """Results are gathered from the store, not combined."""
    return xarray.Dataset()


def _model(member: Member) -> dict[str, Any]:
    record = member.to_dict()
    return {key: record[key] for key in ("family", "blueprint", "fault", "severity")}


def member_digest(member: Member) -> str:
    """What tells a member from one of another draw."""
    return _digest({**_model(member), "sound": _sibling(member)["blueprint"]})


def _sibling(member: Member) -> dict[str, Any]:
    return {"family": member.family, "blueprint": member.to_dict()["sound"], "fault": None, "severity": {}}


def sibling_name(member: Member) -> str:
    """What the truths call the sound model that a member is compared with."""
    return f"{member.family}/sound-{member.base}"


def _turns(members: Iterable[Member]) -> list[Member]:
    """One model of every family, then the next of every family; large ones last."""
    return sorted(members, key=lambda m: (m.large, int(m.name.rsplit("/", 1)[1].removeprefix("large-"))))


def truths(folder: Path, members: Sequence[Member]) -> TrialStage:
    """Training of every member and every sound sibling with both optimizers."""
    cells: dict[str, Mapping[str, Any]] = {}
    plans = [_how(folder, optimizer) for optimizer in OPTIMIZERS]
    for member in _turns(members):
        for how in plans:
            optimizer = how["optimizer"]
            cells.setdefault(f"{sibling_name(member)} {optimizer}", {**_sibling(member), **how, "seeds": [*_SEEDS]})
            cells[f"{member.name} {optimizer}"] = {**_model(member), **how, "seeds": _seeds(member)}
    return TrialStage(folder, TRUTHS, truth_cell, cells)


def _how(folder: Path, optimizer: str) -> dict[str, Any]:
    """How the models of a trial are trained: steps of both rounds of training, and rates of the second.

    In the first round of the trial two rates go without saying, so that its records keep their digests.
    """
    head = _read(folder / MEMBERS)
    first, second = (int(steps) for steps in head.get("rounds", (FIRST_ROUND, SECOND_ROUND)))
    number = head.get("round", 1)
    rules = round_numbered(number)
    steps = [first * (rules.patience if optimizer == "sgd" else 1), second]
    return {"optimizer": optimizer, "steps": steps, **({"rates": rules.rates} if number > 1 else {})}


def opinions(folder: Path, members: Sequence[Member]) -> TrialStage:
    """The doctor's findings on real and on made-up batches."""
    cells = {
        f"{member.name} {batch}": {**_model(member), "weights": _OPINION_SEED + _turn(member), "batch": batch}
        for member in _turns(members)
        for batch in ("real", "gaussian")
    }
    return TrialStage(folder, OPINIONS, doctor_cell, cells, renew=True)


BATCHES = ("fresh", "one", "gaussian")
"""What the stress test is given: batches with targets, one such batch, or made-up inputs."""


def stresses(folder: Path, members: Sequence[Member], batches: Sequence[str] = BATCHES) -> TrialStage:
    """What the stress test sees of every member; all with fresh batches first."""
    return _stress_stage(folder, STRESS, members, batches)


def later_stresses(folder: Path, members: Sequence[Member]) -> TrialStage:
    """What a stress test of later rules saw of some members, on fresh batches.

    An opened seal keeps the records that it was opened for; later rules are fitted to these.
    """
    return _stress_stage(folder, LATER, members, BATCHES[:1])


def _stress_stage(folder: Path, name: str, members: Sequence[Member], batches: Sequence[str]) -> TrialStage:
    cells = {
        f"{member.name} {batch}": {**_model(member), "weights": _OPINION_SEED + _turn(member), "batch": batch}
        for batch in batches
        for member in _turns(members)
    }
    return TrialStage(folder, name, stress_cell, cells, renew=True)


Pairs = Collection[tuple[str, str]]
"""Names of models with optimizers."""


def causes(folder: Path, members: Sequence[Member], only: Pairs | None = None) -> TrialStage:
    """The causes that the doctor names, on fresh batches; `only` for some of the models."""
    chosen = None if only is None else {name for name, _ in only}
    cells = {
        member.name: {**_model(member), "weights": _OPINION_SEED + _turn(member)}
        for member in _turns(members)
        if chosen is None or member.name in chosen
    }
    return TrialStage(folder, CAUSES, cause_cell, cells, renew=True)


def treated(folder: Path, members: Sequence[Member], only: Pairs | None = None) -> TrialStage:
    """Training of members as the doctor left them, as `truths` trained them before; `only` for some of the pairs."""
    plans = {optimizer: _how(folder, optimizer) for optimizer in OPTIMIZERS}
    cells = {
        f"{member.name} {optimizer}": {**_model(member), **how, "seeds": _seeds(member)}
        for member in _turns(members)
        for optimizer, how in plans.items()
        if only is None or (member.name, optimizer) in only
    }
    return TrialStage(folder, TREATED, treated_cell, cells, renew=True)


def _seeds(member: Member) -> list[int]:
    """Seeds of weights and batches: of a sound model others than its sibling's and other sound models'."""
    first = len(_SEEDS) * _turn(member)
    return [*range(first, first + len(_SEEDS))]


def _turn(member: Member) -> int:
    """0 for faulty models, which share the weights of their sibling; a number of its own for each sound one."""
    return 0 if member.fault is not None else 1 + int(member.name.rsplit("/", 1)[1].removeprefix("large-"))


def baselines(folder: Path, members: Sequence[Member]) -> TrialStage:
    """The scores of the baselines."""
    cells = {member.name: {**_model(member), "weights": _OPINION_SEED + _turn(member)} for member in _turns(members)}
    return TrialStage(folder, BASELINES, baseline_cell, cells, renew=True)


CHECKED, LONGER = 40, 10
"""Models whose truth is checked, and how many times as many steps the check has."""


def checks(folder: Path, members: Sequence[Member]) -> TrialStage:
    """Some models and their siblings trained ten times as long, at the best rate found and at the next lower one.

    Which models is up to the hash of their name; only those with a truth can be checked.
    """
    known = truths(folder, members).records()
    order = sorted(
        (m for m in members if not m.large), key=lambda m: hashlib.sha256(f"check {m.name}".encode()).hexdigest()
    )
    cells: dict[str, Mapping[str, Any]] = {}
    for member in order[:CHECKED]:
        for optimizer in OPTIMIZERS:
            # A sound member has other seeds than its sibling here too; otherwise it would be held against itself.
            own = _seeds(member)[0]
            for name, model, start in (
                (sibling_name(member), _sibling(member), _SEEDS[0]),
                (member.name, _model(member), own),
            ):
                label = f"{name} {optimizer}"
                if label not in known:
                    continue
                best = known[label]["second"][0]["rate"]
                rates = [best, float(f"{best / RATES[optimizer][1]:.4g}")]
                how = {
                    "optimizer": optimizer,
                    "rates": rates,
                    "steps": LONGER * _how(folder, optimizer)["steps"][1],
                    "seeds": [start],
                }
                cells[label] = {**model, **how}
    return TrialStage(folder, CHECKS, long_cell, cells)
