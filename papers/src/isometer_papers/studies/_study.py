"""What a study is: a figure or table of a paper, with everything a program needs to make it again."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal

import xarray

from isometer.errors import IsometerError
from isometer_papers.studies._comparisons import Compared, Decisive, Seen, plain, verdict_of

if TYPE_CHECKING:
    from matplotlib.figure import Figure

Verdict = Literal["agree", "partly", "disagree", "unclear", "not run"]
ScaleName = Literal["quick", "medium", "paper"]
Coordinate = str | int | float
Settings = Mapping[str, Any]  # axes, constants and reading of a scale, by name
TOGETHER = 8  # runs of a small network that are faster together than apart; more gain little
VERDICTS: tuple[Verdict, ...] = ("agree", "partly", "disagree", "unclear", "not run")
SCALES: tuple[ScaleName, ...] = ("quick", "medium", "paper")


@dataclass(frozen=True)
class Scale:
    """How large a study is.

    Args:
        axes: the grid of cells: name → values.
        constants: what all cells share.
        reduced: what is smaller than in the paper, in words; empty if nothing is.
        reading: settings of `draw` and `read` alone, which cells do not see.
        together: runs of one cell at most, which take their steps together; 1 for those that do not.

    Example:
        >>> Scale({"width": [32, 64]}, {"runs": 20}).reduced
        ''
    """

    axes: Mapping[str, Sequence[Coordinate]]
    constants: Mapping[str, Any] = field(default_factory=dict)
    reduced: str = ""
    reading: Mapping[str, Any] = field(default_factory=dict)
    together: int = 1

    def __post_init__(self) -> None:
        if self.together < 1:
            raise IsometerError(f"{self.together} runs are together in a cell of a scale; expected at least 1")
        names = [*self.axes, *self.constants, *self.reading]
        twice = sorted(name for name in set(names) if names.count(name) > 1)
        if twice:
            raise IsometerError(f"{twice[0]!r} is an axis and a constant of a scale, or named twice — drop one of them")


@dataclass(frozen=True)
class Measured:
    """A number with the half-width of its 95 % interval; 0 for one that is exact.

    Example:
        >>> Measured(0.5, 0.01).value
        0.5
    """

    value: float
    uncertainty: float = 0.0


@dataclass(frozen=True)
class Reading:
    """What a result says.

    Args:
        measured: numbers by name, in the names of the study's `published` where the paper has them too.
        statements: what the paper shows, each seen (True), not seen (False), or beyond this result (None), or a
            comparison of runs that says so.
        remark: what a reader should know of this result.
        compared: the comparisons among the statements; filled in.

    Example:
        >>> Reading({}, {"the gap falls": True, "and stays": False}).verdict
        'partly'
    """

    measured: Mapping[str, Measured]
    statements: Mapping[str, Seen]
    remark: str = ""
    compared: Mapping[str, Compared] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if not self.statements:
            raise IsometerError("a reading has no statements; expected at least one thing that the paper shows")
        compared = {name: seen for name, seen in self.statements.items() if isinstance(seen, Compared)}
        object.__setattr__(self, "compared", compared)
        seen = {name: plain(one) for name, one in self.statements.items()}
        object.__setattr__(self, "statements", seen)  # NumPy's booleans are no JSON
        for name, item in self.measured.items():
            if not (math.isfinite(item.value) and math.isfinite(item.uncertainty)):
                raise IsometerError(f"the measured {name!r} is {item.value} ± {item.uncertainty}; expected numbers")

    @property
    def verdict(self) -> Verdict:
        """`agree` if all was seen, `disagree` if nothing was, `partly` in between, `unclear` if nothing can be told."""
        found: Verdict = verdict_of(plain(one) for one in self.statements.values())
        return found


Cell = Callable[..., xarray.Dataset]
Draw = Callable[[xarray.Dataset, Settings], "Figure"]
Read = Callable[[xarray.Dataset, Settings], Reading]


@dataclass(frozen=True)
class Choice:
    """A parameter that the paper does not state.

    Args:
        value: what is taken, in words.
        why: the reason.
        instead: other values that are tried once, at the quick scale: overrides by label.

    Example:
        >>> Choice("n = 4", "the public code has it", {"n = 8": {"samples": 8}}).value
        'n = 4'
    """

    value: str
    why: str
    instead: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)


@dataclass(frozen=True)
class Study:
    """A figure or table: its grid, its cells, its picture, what was published, and the rule for the verdict.

    Args:
        id: inventory ID, such as `003/fig-2b`.
        title: in a line.
        shows: what the paper shows, in a sentence or two.
        published: numbers and orderings as printed, by name.
        cell: a function of a module, `(configuration, seed)` or `(configuration, seed, checkpoint)`, to a dataset.
            The configuration holds the axes and the constants.
        quick: about a minute on two cores.
        paper: the paper's own parameters; at most 20 minutes on two cores, otherwise reduced in words.
        draw: the figure in the paper's axes, from the combined result and the settings.
        read: the verdict's rule, from the same.
        medium: between the two, for studies that train.
        choices: parameters that the paper leaves open, by name.
        because: why a statement is not seen, by statement; shown only where it is not.
        data: name of the data set that it needs by default, if any; settings have it as `data`.
        seconds: rough time at quick and paper, on two cores; of studies that train, `estimated_seconds` knows better.
        decisive: for studies that train, the difference that the study must be able to see.

    Example:
        >>> from isometer_papers.studies import find
        >>> find("003/fig-2b").paper.reduced
        ''
    """

    id: str
    title: str
    shows: str
    published: Mapping[str, float | str]
    cell: Cell
    quick: Scale
    paper: Scale
    draw: Draw
    read: Read
    medium: Scale | None = None
    choices: Mapping[str, Choice] = field(default_factory=dict)
    because: Mapping[str, str] = field(default_factory=dict)
    data: str | None = None
    seconds: tuple[float, float] = (60.0, 600.0)
    decisive: Decisive | None = None

    @property
    def number(self) -> str:
        """The paper's number."""
        return self.id.partition("/")[0]

    def scale(self, name: str) -> Scale:
        """The scale of that name.

        Example:
            >>> from isometer_papers.studies import find
            >>> find("003/fig-2b").scale("medium")
            Traceback (most recent call last):
            ...
            isometer.errors.IsometerError: the study 003/fig-2b has no scale 'medium'; expected quick or paper
        """
        there = [known for known in SCALES if getattr(self, known) is not None]
        if name not in there:
            raise IsometerError(f"the study {self.id} has no scale {name!r}; expected {' or '.join(there)}")
        found: Scale = getattr(self, name)
        return found
