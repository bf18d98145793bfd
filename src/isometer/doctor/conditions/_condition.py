"""One condition that the doctor knows: where harm begins and why, what to change, and the check that looks for it."""

from __future__ import annotations

import importlib
import math
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import TYPE_CHECKING

from isometer.doctor.conditions._findings import Finding
from isometer.doctor.conditions._prescriptions import PRESCRIPTIONS
from isometer.errors import IsometerError

if TYPE_CHECKING:
    from isometer.doctor.diagnosis.checks import Case, Sign


@dataclass(frozen=True)
class Limits:
    """The limits beyond which a number harms training.

    Limits are on a total over the model's own depth, so that a small rate harms a deep model and not a shallow one.

    Example:
        >>> rising, falling = Limits(1.0, 4.0, "twice the spread"), Limits(0.03, 0.003, "what is left")
        >>> rising.severity(5.0), falling.severity(0.01), rising.severity(0.5), rising.severity(math.nan)
        ('severe', 'moderate', None, None)
        >>> Limits(math.log(100), math.log(1e3), "off by that factor", factor=True).words
        ('×100', '×1000')

    Attributes:
        moderate: beyond it, training is worse than that of a healthy sibling.
        severe: beyond it, training is not expected; below `moderate` where small numbers harm.
        reason: why there, in a sentence or two.
        derived: where the numbers come from.
        factor: the number is the logarithm of a factor, and people read the factor.
    """

    moderate: float
    severe: float
    reason: str
    derived: str = "docs/doctor.md"
    factor: bool = False

    def severity(self, value: float) -> str | None:
        """`severe`, `moderate`, or `None` for a harmless number or nan."""
        if math.isnan(value):
            return None
        sign = 1.0 if self.severe > self.moderate else -1.0
        if sign * value >= sign * self.severe:
            return "severe"
        return "moderate" if sign * value >= sign * self.moderate else None

    @property
    def words(self) -> tuple[str, str]:
        """Both limits as people read them."""
        one, two = ((f"×{math.exp(v):.4g}" if self.factor else f"{v:g}") for v in (self.moderate, self.severe))
        return one, two


@dataclass(frozen=True)
class Variant:
    """A form of a condition in which something differs; `None` means as in the condition.

    Attributes:
        when: the form, in words that follow "prescriptions".
        limits: where harm begins.
        harm: why it harms, one sentence.
        references: inventory IDs.
        prescriptions: ids, best first.

    Example:
        >>> Variant("of tokens", references=("002/lem-4",)).prescriptions is None
        True
    """

    when: str
    limits: Limits | None = None
    harm: str | None = None
    references: tuple[str, ...] | None = None
    prescriptions: tuple[str, ...] | None = None


@dataclass(frozen=True)
class Condition:
    """One condition a model can have.

    Example:
        >>> from isometer.doctor import CONDITIONS
        >>> dead = CONDITIONS["dead-units"]
        >>> dead.title, dead.limits.moderate, dead.prescriptions[0]
        ('Dead units', 0.75, 'zero-bias')

    Attributes:
        id: short name, that of its findings.
        title: what people read.
        reads: what the check measures, as a phrase.
        metrics: names of metrics that show it; the page draws the first.
        limits: where that number begins to harm.
        harm: why it harms, the second sentence of an explanation unless the check gives one with numbers.
        references: inventory IDs of the statements behind it.
        prescriptions: ids of what to change, best first.
        check: looks at a case and yields a `Sign` for each finding: a function, or `module:function`, which is imported
            when a model is diagnosed, so that tables and pages do without torch.
        order: checks are made from small to large; each sees what those before it found.
        cause: whether it names something that was set (weights, batch) and not a symptom in the signal. Reports list
            causes first.
        variants: forms in which limits, harm, references or prescriptions differ, by the name that a `Sign` gives.

    Raises:
        IsometerError: a prescription is not known.
    """

    id: str
    title: str
    reads: str
    metrics: tuple[str, ...]
    limits: Limits
    harm: str
    references: tuple[str, ...]
    prescriptions: tuple[str, ...]
    check: Check | str
    order: int = 100
    cause: bool = False
    variants: Mapping[str, Variant] = field(default_factory=lambda: MappingProxyType({}))

    def __post_init__(self) -> None:
        for ids in (self.prescriptions, *(variant.prescriptions or () for variant in self.variants.values())):
            unknown = [one for one in ids if one not in PRESCRIPTIONS]
            if unknown:
                raise IsometerError(
                    f"the condition {self.id!r} lists the prescription {unknown[0]!r}; expected some of "
                    f"{', '.join(PRESCRIPTIONS)} — register it first"
                )

    def _function(self) -> Check:
        if not isinstance(self.check, str):
            return self.check
        module, _, name = self.check.partition(":")
        found: Check = getattr(importlib.import_module(module), name)
        return found

    def found_in(self, case: Case) -> Iterator[Finding]:
        """What the check sees, as findings."""
        for sign in self._function()(case, self):
            variant = self.variants[sign.variant] if sign.variant else Variant("")
            harm = sign.harm or variant.harm or self.harm
            ids = self.prescriptions if variant.prescriptions is None else variant.prescriptions
            yield Finding(
                self.id,
                sign.severity,
                sign.layers,
                sign.evidence,
                f"{sign.seen} {harm}",
                self.references if variant.references is None else variant.references,
                tuple(PRESCRIPTIONS[one] for one in ids),
            )


Check = Callable[["Case", Condition], Iterable["Sign"]]
"""Looks at a case for one condition, with the condition's own limits."""
