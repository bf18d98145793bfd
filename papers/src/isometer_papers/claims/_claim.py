"""What a claim is: a statement of a paper with everything a program needs to test it."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Literal

import numpy as np

from isometer.errors import IsometerError, unknown_name
from isometer_papers.float_or_mpmath import Numeric

Kind = Literal["deterministic", "expectation", "probability", "asymptotic", "empirical"]
Relation = Literal["<", "<=", "==", ">=", ">"]
Effort = Literal["quick", "thorough"]
Instance = Mapping[str, Any]
Generator = Callable[[np.random.Generator, int], Iterable[Instance]]

KINDS: tuple[Kind, ...] = ("deterministic", "expectation", "probability", "asymptotic", "empirical")
EFFORTS: tuple[Effort, ...] = ("quick", "thorough")


@dataclass(frozen=True)
class Estimate:
    """A number read off random draws.

    Args:
        value: the estimate.
        error: its standard error; 0 for a number known exactly.
        freedom: degrees of freedom of the standard error.
        draws: how many independent draws are behind it.

    Example:
        >>> Estimate.of([1.0, 2.0, 3.0]).value
        2.0
    """

    value: float
    error: float
    freedom: float = math.inf
    draws: int = 0

    @classmethod
    def of(cls, sample: Iterable[float]) -> Estimate:
        """The mean of independent draws, with its error."""
        values = np.asarray(list(sample) if not isinstance(sample, np.ndarray) else sample, dtype=float)
        if values.ndim != 1 or values.size < 2:
            raise IsometerError(f"an estimate has {values.size} draws; expected at least 2 — draw more")
        error = float(values.std(ddof=1)) / math.sqrt(values.size)
        return cls(float(values.mean()), error, values.size - 1, values.size)


@dataclass(frozen=True)
class Search:
    """An adversary: a box of parameters and the instance that each point of it stands for.

    Args:
        build: from a vector in the unit cube to an instance.
        dimension: of the cube.
        evaluations: of the claim, quick and thorough.

    Example:
        >>> Search(lambda x: {"rho": 2 * x[0] - 1}, 1).build([0.5])
        {'rho': 0.0}
    """

    build: Callable[[Any], Instance]
    dimension: int
    evaluations: tuple[int, int] = (200, 2000)


@dataclass(frozen=True)
class SecondFormula:
    """Both sides of a deterministic statement again, by other means than the claim's own.

    Args:
        sides: quantity and bound of an instance, in float64; nothing of the project's theory in it.
        how: what it does otherwise, in a few words.

    Example:
        >>> SecondFormula(lambda i: (i["x"] * i["x"], i["x"]), "a product instead of a power").sides({"x": 3.0})
        (9.0, 3.0)
    """

    sides: Callable[[Instance], tuple[float, float]]
    how: str


def always(instance: Instance) -> bool:
    """Hypotheses that every instance satisfies.

    Example:
        >>> always({})
        True
    """
    return True


@dataclass(frozen=True)
class Claim:
    """A statement `quantity relation bound` about every instance that satisfies the hypotheses.

    Give `quantity` for a number that follows from the instance, or `estimate` for one read off random draws, whose
    generator is passed in. What the paper says, and where, is text: see `ClaimText`.

    Args:
        id: inventory ID, with `:part` for a part of a statement, `#corrected` for a correction and `#intended` for the
            evident reading of a statement that prints another one.
        kind: deterministic, expectation, probability, asymptotic or empirical.
        relation: how quantity and bound compare.
        bound: of an instance; a lower bound for `>=` and `>`.
        generators: families of instances by name, each `(rng, count) -> instances`.
        quantity: of an instance.
        estimate: of an instance and a generator of random numbers.
        hypotheses: which instances the statement is about.
        witness: for an instance that fails the hypotheses, why; without it an empty hypothesis is not called vacuous.
        search: pushes the margin.
        trivial: the bound that holds without the statement; a claim never better than it is vacuous.
        exact: quantity and bound again, in mpmath, for certification; by default the same functions on mpmath numbers.
        again: an independent estimator that certifies a statistical refutation.
        second: a second formula that has to confirm a refutation of a deterministic statement.
        independence: what `again` does otherwise than `estimate`, in a few words.
        tolerance: rounding of quantity and bound, relative to the larger.
        scale: scale of an instance, the size against which differences count; the larger of both sides by default.
        counts: instances per family, quick and thorough.
        resolution: of a statistical claim: the violation, relative to the scale, that the test has to be able to see;
            below 1, since a test that sees only violations as large as the quantity itself has no power.

    Example:
        >>> claim = Claim("000/demo", "deterministic", ">=", lambda i: i["x"],
        ...               {"random": lambda rng, n: ({"x": float(x)} for x in rng.uniform(1, 2, n))},
        ...               quantity=lambda i: i["x"] ** 2)
        >>> claim.paper, claim.statistical
        ('000', False)
    """

    id: str
    kind: Kind
    relation: Relation
    bound: Callable[[Instance], Numeric]
    generators: Mapping[str, Generator]
    quantity: Callable[[Instance], Numeric] | None = None
    estimate: Callable[[Instance, np.random.Generator], Estimate] | None = None
    hypotheses: Callable[[Instance], bool] = always
    witness: Callable[[Instance], str] | None = None
    search: Search | None = None
    trivial: Callable[[Instance], Numeric] | None = None
    exact: Callable[[Instance], tuple[Numeric, Numeric]] | None = None
    again: Callable[[Instance, np.random.Generator], Estimate] | None = None
    second: SecondFormula | None = None
    independence: str = ""
    tolerance: float = 1e-9
    scale: Callable[[Instance], Numeric] | None = None
    counts: tuple[int, int] = (100, 1000)
    resolution: float = 0.05
    inventory: str = field(init=False, default="")

    def __post_init__(self) -> None:
        if (self.quantity is None) == (self.estimate is None):
            raise IsometerError(f"the claim {self.id} has both or neither of quantity and estimate — give one of them")
        if not self.generators:
            raise IsometerError(f"the claim {self.id} has no generators; expected at least one family of instances")
        if self.kind not in KINDS:
            raise unknown_name(f"kind of the claim {self.id}:", self.kind, KINDS)
        object.__setattr__(self, "inventory", self.id.partition("#")[0].partition(":")[0])

    @property
    def paper(self) -> str:
        """The paper's number."""
        return self.id.partition("/")[0]

    @property
    def statistical(self) -> bool:
        """Whether the quantity is read off random draws."""
        return self.estimate is not None


def with_second(claims: Iterable[Claim], formulas: Mapping[str, SecondFormula]) -> tuple[Claim, ...]:
    """The claims, those that have one with their second formula.

    Example:
        >>> with_second([], {"000/x": SecondFormula(lambda i: (0.0, 0.0), "")})
        Traceback (most recent call last):
        ...
        isometer.errors.IsometerError: a second formula is for '000/x', which is not a claim — correct the ID
    """
    found = tuple(replace(one, second=formulas[one.id]) if one.id in formulas else one for one in claims)
    for identifier in sorted(set(formulas) - {claim.id for claim in found}):
        raise IsometerError(f"a second formula is for {identifier!r}, which is not a claim — correct the ID")
    return found


def slack(relation: Relation, value: Any, bound: Any) -> Any:
    """How much room a statement leaves: negative where it is violated.

    Example:
        >>> slack("<=", 1.0, 3.0), slack(">", 1.0, 3.0), slack("==", 1.0, 3.0)
        (2.0, -2.0, -2.0)
    """
    if relation == "==":
        return -abs(value - bound)
    return bound - value if relation in ("<", "<=") else value - bound


def index_of(effort: Effort) -> int:
    """0 for quick, 1 for thorough.

    Example:
        >>> index_of("thorough")
        1
    """
    if effort not in EFFORTS:
        raise IsometerError(f"effort is {effort!r}; expected quick or thorough")
    return EFFORTS.index(effort)
