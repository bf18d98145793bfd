"""One model, one operation, one condition: was anything changed?

Three instances of a model are built the same way. One is examined, between two fingerprints. One is only called, and
afterwards both must compute the same. One tells how long the operation is, to interrupt it in the middle.

Where the examined one computes something else, a control decides what that means: further instances, which nobody
examines, are called one after the other. If these disagree, or have no memory to compute in, then the model cannot be
reproduced by itself, and its output is no evidence.
"""

from __future__ import annotations

import logging
import random
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass, field
from typing import Any

import torch
from torch import nn

from isometer.doctor import SignalMonitor, diagnose, probe, treat
from isometer.errors import IsometerError
from support.difficult.subject import OwnError
from support.probing import interruption
from support.probing.fingerprint import Fingerprint, differences, digest
from support.probing.scope import beyond
from support.probing.surroundings import surroundings

OPERATIONS = ("probe", "diagnose", "treat", "monitor")
_WORK = 1.0  # seconds of trainings: what a model is put through does not depend on how often
CONDITIONS = ("plain", "gradients", *interruption.KINDS)
_SHOWN = 12  # differences that are told
_CONTROLS = 5  # instances that nobody examines
_NO_MEMORY = ("MemoryError", "t allocate memory", "not enough memory", "bad_alloc")


@dataclass
class Result:
    """What became of one combination.

    Args:
        model: name of the model.
        groups: classes of its difficulties.
        operation: what was done to it.
        condition: in which state, or how it was interrupted.
        ended: `"returned"`, `"refused"` (an IsometerError of one line), `"own error"` (the model raises it anyway),
            `"interrupted"`, or `"error"` for any other.
        changed: what is different afterwards.
        message: of the error.
        unsteady: why what the model computes is no evidence, if it computes something else.
        moment: when it was interrupted: seconds, lines or operations after the start.
        where: the line that was interrupted.
    """

    model: str
    groups: tuple[str, ...]
    operation: str
    condition: str
    ended: str = ""
    changed: list[str] = field(default_factory=list)
    message: str = ""
    unsteady: str = ""
    moment: float = 0.0
    where: str = ""

    @property
    def outcome(self) -> str:
        """`"changed"`, whatever happened; `"beyond"` if that is out of scope; `"irreproducible"` if only the output is
        different, and would be without an examination; else `"refused"`, `"error"` or `"unchanged"`.
        """
        if self.changed:
            return "beyond" if beyond(self.model, self.changed) else "changed"
        if self.unsteady:
            return "irreproducible"
        return self.ended if self.ended in ("refused", "error", "hung", "crashed") else "unchanged"

    def row(self) -> dict[str, Any]:
        """For JSON."""
        return {**asdict(self), "outcome": self.outcome}


class Patient:
    """A model that can be built again and again.

    Args:
        name: of the model.
        groups: classes of its difficulties.
        build: makes a new subject, each time the same: an object with `model`, `batch` and `outside`.
    """

    def __init__(self, name: str, groups: tuple[str, ...], build: Callable[[], Any]) -> None:
        self.name, self.groups, self._build = name, groups, build
        self._surveys: dict[tuple[str, str], interruption.Survey] = {}
        self.warm: set[str] = set()  # operations that have run once: the first run imports and fills caches
        self._expected: dict[bool, list[str]] = {}
        self._report: Any = None

    def subject(self, gradients: bool) -> Any:
        subject = self._build()
        if gradients:
            _give_gradients(subject.model)
        return subject

    def expected(self, gradients: bool) -> list[str]:
        """What a model that nobody examined computes."""
        if gradients not in self._expected:
            self._expected[gradients] = _behaviour(lambda: self.subject(gradients))
        return self._expected[gradients]

    def operation(self, name: str, subject: Any) -> Callable[[], Any]:
        """The operation on a subject, as a function without arguments."""
        model, batch = subject.model, subject.batch
        if name == "treat":
            report = self.report()
            return lambda: treat(model, report, batch=batch, budget=_WORK)
        if name == "monitor":
            return lambda: _monitored(model, batch)
        if name == "nothing":  # no operations of the doctor: controls of the harness itself
            return lambda: None
        if name == "forward":
            return lambda: call(model, batch)
        return {"probe": lambda: probe(model, batch), "diagnose": lambda: diagnose(model, batch, budget=_WORK)}[name]

    def report(self) -> Any:
        """Of another instance; where there is none, that of a plain model: a treatment has to begin with something."""
        if self._report is None:
            with surroundings():
                subject = self.subject(False)
                try:
                    self._report = diagnose(subject.model, subject.batch, predict=False, budget=_WORK)
                except BaseException:
                    layers = [one for _ in range(6) for one in (nn.Linear(8, 8), nn.ReLU())]
                    self._report = diagnose(nn.Sequential(*layers), torch.randn(6, 8), predict=False, budget=_WORK)
        return self._report

    def survey(self, operation: str, kind: str) -> interruption.Survey:
        """How long the operation is."""
        if (operation, kind) not in self._surveys:
            if operation not in self.warm:
                self.warm.add(operation)
                with surroundings(), _log(), suppress(BaseException):
                    self.operation(operation, self.subject(True))()
            with surroundings(), _log():
                run = self.operation(operation, self.subject(True))
                found = interruption.survey(run, kind)
                self._surveys |= {(operation, each): one for each, one in found.items()}
        return self._surveys[operation, kind]


def examine(patient: Patient, operation: str, condition: str, *, seed: int = 0, moment: float | None = None) -> Result:
    """Do an operation to a new instance of a model, and say what is different afterwards.

    Args:
        patient: the model.
        operation: one of `OPERATIONS`, or a control: `"nothing"`, `"forward"`.
        condition: one of `CONDITIONS`.
        seed: of the moment of an interruption, together with all names.
        moment: of the interruption, if not drawn.
    """
    result = Result(patient.name, patient.groups, operation, condition)
    gradients = condition != "plain"
    expected = patient.expected(gradients)
    stop = condition in interruption.KINDS
    if stop:
        draw = random.Random(f"{patient.name} {operation} {condition} {seed}")
        result.moment = patient.survey(operation, condition).moment(draw) if moment is None else moment
    if operation == "treat":
        patient.report()
    with surroundings(), _log() as said:
        subject = patient.subject(gradients)
        run = patient.operation(operation, subject)
        before = _fingerprint(subject)
        problem: BaseException | None = None
        where: list[str] = []
        try:
            interruption.interrupted(run, condition, result.moment, where) if stop else run()
        except BaseException as raised:  # an exit or an interruption too
            problem = raised
        patient.warm.add(operation)
        result.ended, result.message = _ending(problem, said, expected)
        problem = None  # its frames hold what the operation made, and hooks of a monitor end with the monitor
        result.changed = _shortened(differences(before, _fingerprint(subject)))
        result.where = where[0] if where else ""
        del before, run
        if not any(what.startswith("the process") for what in result.changed):
            computed, result.unsteady = _computed(patient, gradients, subject)
            result.changed += computed
    return result


def _computed(patient: Patient, gradients: bool, subject: Any) -> tuple[list[str], str]:
    """What an examined model computes otherwise, and why that says nothing, if so."""
    expected, after = patient.expected(gradients), _behaviour(lambda: subject)
    found = [f"the model {what}" for what in _other(expected, after)]
    if not found:
        return [], ""
    controls: list[list[str]] = []
    for _ in range(_CONTROLS):
        controls.append(_behaviour(lambda: patient.subject(gradients)))
        if any(map(_without_memory, (expected, after, controls[-1]))):
            return [], "there is not enough memory to compute it"
        if what := _other(controls[0], controls[-1]):
            return [], f"without any examination it {' and '.join(what)} from one instance to the next"
    if _other(expected, controls[0]):  # and so do all of them: it is the process
        found.append("the process computes something else for a new instance, too")
    return found, ""


def _without_memory(behaviour: list[str]) -> bool:
    raised = [text for text in behaviour if text.startswith("raises")]
    return any(word in text for text in raised for word in _NO_MEMORY)


def _fingerprint(subject: Any) -> Fingerprint:
    return Fingerprint(model=subject.model, batch=subject.batch, outside=subject.outside)


def _shortened(found: list[str]) -> list[str]:
    return found if len(found) <= _SHOWN else [*found[:_SHOWN], f"and {len(found) - _SHOWN} more"]


def _ending(problem: BaseException | None, said: list[str], expected: list[str]) -> tuple[str, str]:
    if problem is None:
        text = said[0].partition("observed: ")[2] if said else ""
        if text.startswith("IsometerError") or not text:
            return ("refused" if text else "returned"), text
        return ("own error" if any(text.split(":")[0] in one for one in expected) else "error"), text[:300]
    text = f"{type(problem).__name__}: {problem}"
    if isinstance(problem, IsometerError):
        return ("refused" if "\n" not in str(problem) else "error"), text
    if isinstance(problem, KeyboardInterrupt):
        return "interrupted", ""
    own = isinstance(problem, OwnError) or any(one.startswith(f"raises {type(problem).__name__}") for one in expected)
    return ("own error" if own else "error"), text[:300]


def _other(expected: list[str], after: list[str]) -> list[str]:
    labels = ("gives another output", "gives another second output", "gives other gradients")
    return [label for label, one, other in zip(labels, expected, after, strict=True) if one != other]


def call(model: Any, batch: Any) -> Any:
    """The model's output."""
    if isinstance(batch, Mapping):
        return model(**batch)
    return model(*batch) if isinstance(batch, tuple) else model(batch)


def _behaviour(build: Callable[[], Any]) -> list[str]:
    """That of a subject, each time from the same state of the process."""
    with surroundings():
        return behaviour(build())


def behaviour(subject: Any) -> list[str]:
    """What a model computes from its batch: two outputs and the gradients, as digests; or what it raises."""
    torch.manual_seed(1)
    found = []
    output: Any = None
    for _ in range(2):
        output = None  # whose memory may be needed
        try:
            output = call(subject.model, subject.batch)
            found.append(_values(output))
        except BaseException as problem:  # a model may exit
            output = None
            found.append(f"raises {type(problem).__name__}: {problem}")
    return [*found, _gradients(subject.model, output)]


def _gradients(model: Any, output: Any) -> str:
    floating = [one for one in _tensors(output) if one.requires_grad]
    if not floating:
        return "none"
    try:
        torch.autograd.backward([one.real.float().mean() for one in floating])
    except BaseException as problem:
        return f"raises {type(problem).__name__}: {problem}"
    return _values([parameter.grad for parameter in nn.Module.parameters(model)])


def _tensors(tree: Any) -> Iterator[torch.Tensor]:
    if isinstance(tree, torch.Tensor):
        yield tree
    elif isinstance(tree, Mapping):
        for one in tree.values():
            yield from _tensors(one)
    elif isinstance(tree, (list, tuple)):
        for one in tree:
            yield from _tensors(one)
    elif hasattr(tree, "__dataclass_fields__"):
        yield from _tensors(list(vars(tree).values()))


def _values(tree: Any) -> str:
    texts = []
    for one in _tensors(tree):
        one = one.detach()
        if one.layout is torch.sparse_coo:
            one = one.to_dense()
        if one.device.type == "cpu" and not one.is_nested:
            texts.append(f"{one.dtype}{tuple(one.shape)}{digest(one)}")
        else:
            texts.append(f"{one.dtype}")
    return " ".join(texts)


def _monitored(model: Any, batch: Any) -> None:
    with SignalMonitor(model, when=1, budget=None, samples=4) as monitor:
        monitor.step(batch=batch)


def _give_gradients(model: Any) -> None:
    generator = torch.Generator().manual_seed(5)
    for parameter in nn.Module.parameters(model):
        lazy = nn.parameter.is_lazy(parameter)
        if not lazy and parameter.requires_grad and parameter.grad is None and parameter.device.type == "cpu":
            parameter.grad = torch.randn(parameter.shape, generator=generator).to(parameter.dtype)


@contextmanager
def _log() -> Iterator[list[str]]:
    """What the monitor says, which raises nothing."""
    said: list[str] = []
    handler = logging.Handler()
    handler.emit = lambda record: said.append(record.getMessage())  # type: ignore[method-assign]
    logger = logging.getLogger("isometer.monitor")
    propagate, logger.propagate = logger.propagate, False
    logger.addHandler(handler)
    try:
        yield said
    finally:
        logger.removeHandler(handler)
        logger.propagate = propagate
