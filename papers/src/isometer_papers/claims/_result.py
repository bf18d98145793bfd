"""What a check returns, as data."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from typing import Any, Literal, NotRequired, TypedDict

from isometer.serialize import json_data

Verdict = Literal["refuted", "vacuous", "holds", "inconclusive"]
VERDICTS: tuple[Verdict, ...] = ("holds", "refuted", "vacuous", "inconclusive")

_Number = float | Literal["inf", "-inf", "nan"] | None


class ResultRecord(TypedDict):
    """A result as `Result.to_dict` writes it."""

    id: str
    verdict: Verdict
    kind: str
    margin: NotRequired[_Number]
    instances: NotRequired[dict[str, int]]
    counterexample: NotRequired[dict[str, Any] | None]
    certified_by: NotRequired[str | None]
    note: NotRequired[str]
    seconds: NotRequired[float]
    power: NotRequired[_Number]
    resolution: NotRequired[float | None]
    sees: NotRequired[float | None]
    relation: NotRequired[str]
    points: NotRequired[list[tuple[str, _Number, _Number]]]


@dataclass(frozen=True)
class Result:
    """The outcome of one check.

    Args:
        id: ID of the claim.
        verdict: holds, refuted, vacuous or inconclusive.
        kind: kind of the claim.
        margin: least room seen, relative to the larger side: 0 where the bound is attained, negative where violated;
            for statistical claims in the middle of the confidence interval. None without any instance.
        instances: how many of each family were tried; `rejected` did not satisfy the hypotheses.
        counterexample: instance, value and bound of a refutation.
        certified_by: how the refutation was certified.
        note: what was tried, how tight, which power.
        seconds: how long it took.
        power: of a statistical check, the chance to see a violation of the size `resolution`; None otherwise.
        resolution: of a statistical check, the violation it has to see, relative to the scale.
        sees: the violation that it sees with a chance of 0.99.
        relation: of quantity to bound.
        points: a sample of (family, value, bound), the tightest among them.

    Example:
        >>> Result("000/x", "holds", "deterministic", 0.5).verdict
        'holds'
    """

    id: str
    verdict: Verdict
    kind: str
    margin: float | None = None
    instances: Mapping[str, int] = field(default_factory=dict)
    counterexample: Mapping[str, Any] | None = None
    certified_by: str | None = None
    note: str = ""
    seconds: float = 0.0
    power: float | None = None
    resolution: float | None = None
    sees: float | None = None
    relation: str = "<="
    points: tuple[tuple[str, float, float], ...] = ()

    def to_dict(self) -> dict[str, Any]:
        """Everything, as JSON data.

        Example:
            >>> Result("000/x", "holds", "deterministic").to_dict()["points"]
            []
        """
        data: dict[str, Any] = json_data(self, nonfinite="text")
        return data

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Result:
        """What `to_dict` wrote.

        Example:
            >>> result = Result("000/x", "holds", "deterministic", points=(("a", 1.0, 2.0),))
            >>> Result.from_dict(result.to_dict()) == result
            True
        """
        names = {item.name for item in fields(cls)}
        given = {key: value for key, value in data.items() if key in names}
        given["points"] = tuple((family, value, bound) for family, value, bound in given.get("points", ()))
        return cls(**given)
