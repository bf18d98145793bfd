"""Normalisation layers in their parts."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

from isometer.errors import unknown_name
from isometer.spec._checks import SpecError, number, one_of, whole

_LONGEST = 26  # characters of group:K; no more groups than features


@dataclass(frozen=True)
class Norm:
    """A normalisation in its parts; without ε and affine part unless asked.

    With x the values normalised together, c = x − x̄ if `recenter` else x, and s² the mean of x² (divisor `"rms"`) or of
    (x − x̄)² (divisor `"std"`): `y = c / √(s² + ε) · scale + shift`. What has no size, s = 0, becomes 0 + shift.

    Args:
        over: `"batch"` normalises each feature over the samples, `"features"` each sample over its features,
            `"groups"` each sample over `groups` equal runs of features.
        recenter: subtract the mean.
        rescale: divide.
        divisor: `"rms"` or `"std"`; by default that of what is divided: std after recentring, rms without.
        size: `"mean-square"` gives mean square 1, `"length"` sum of squares 1.
        whiten: multiply by the inverse root of the whole second-moment matrix, not of its diagonal (pseudo-inverse).
        groups: number of groups.
        eps: ε added to s².
        scale: affine factor.
        shift: affine offset.

    Example:
        >>> Norm.named("batch-rescale").divisor, Norm.named("group:4").groups
        ('rms', 4)

    Implements: 000/op-rc, 000/op-rs (both readings), 001/op-bn-nomean, 001/op-bn-std, 001/op-ln, 001/op-rms,
        002/def-bn, 002/op-whitening, 003/def-bn, Π of 004/eq-3.
    """

    over: Literal["batch", "features", "groups"] = "batch"
    recenter: bool = True
    rescale: bool = True
    divisor: Literal["rms", "std"] | None = None
    size: Literal["mean-square", "length"] = "mean-square"
    whiten: bool = False
    groups: int = 1
    eps: float = 0.0
    scale: float = 1.0
    shift: float = 0.0

    def __post_init__(self) -> None:
        one_of(self.over, ("batch", "features", "groups"), "norm.over")
        one_of(self.size, ("mean-square", "length"), "norm.size")
        if self.divisor is None:
            object.__setattr__(self, "divisor", "std" if self.recenter else "rms")
        one_of(self.divisor, ("rms", "std"), "norm.divisor")
        for name in ("eps", "scale", "shift"):
            object.__setattr__(self, name, number(getattr(self, name), f"norm.{name}"))
        object.__setattr__(self, "groups", whole(self.groups, "norm.groups", "pass the number of groups"))
        if not (self.recenter or self.rescale):
            raise SpecError("norm neither recentres nor rescales; expected at least one of them — pass norm=None")
        if self.eps < 0:
            raise SpecError(f"norm.eps is {self.eps}; expected a number of at least 0 — PyTorch uses 1e-5")
        if self.groups > 1 and self.over != "groups":
            raise SpecError(f"norm.groups is {self.groups} over {self.over!r}; expected 1 — pass over='groups'")
        if not self.rescale and (self.eps > 0 or self.size == "length"):
            raise SpecError("norm has eps or size='length' but does not rescale — pass rescale=True or drop them")
        if self.whiten and (self.over != "batch" or not self.rescale or self.eps > 0 or self.size == "length"):
            raise SpecError(
                "norm.whiten needs over='batch', rescale=True, eps=0 and size='mean-square' — whitening replaces the "
                "diagonal of the second-moment matrix by all of it"
            )

    @classmethod
    def named(cls, name: str) -> Norm | None:
        """A normalisation by name; `"none"` is None.

        `batch`, `batch-rescale` (by the root mean square), `batch-rescale-std` (by the centred deviation, mean kept),
        `batch-recenter`, `batch-unit` (features of length 1, no mean removal), `whiten`, `layer`, `rms`, `unit`
        (samples of length 1), `group:K`. Case does not matter, and torch's names will do: `BatchNorm1d`, `LayerNorm`.

        Example:
            >>> Norm.named("layer").over
            'features'
        """
        name = _plain(name)
        if name == "none":
            return None
        if name.startswith("group:") and name[6:].isdecimal() and len(name) <= _LONGEST:
            return cls(over="groups", groups=int(name[6:]))
        if name not in _NORMS:
            raise unknown_name("norm", name, ["none", "group:K", *_NORMS], error=SpecError, fix="pass one of them")
        return cls(**_NORMS[name])


def _plain(name: str) -> str:
    """A name as the table has it, from torch's or in any case."""
    plain = name.casefold().replace("_", "-").removesuffix("1d").removesuffix("2d")
    for kind in ("batch", "layer", "rms"):
        if plain in (f"{kind}norm", f"{kind}-norm"):
            return kind
    return plain


_NORMS: dict[str, dict[str, Any]] = {
    "batch": {},
    "batch-rescale": {"recenter": False},
    "batch-rescale-std": {"recenter": False, "divisor": "std"},
    "batch-recenter": {"rescale": False},
    "batch-unit": {"recenter": False, "size": "length"},
    "whiten": {"recenter": False, "whiten": True},
    "layer": {"over": "features"},
    "rms": {"over": "features", "recenter": False},
    "unit": {"over": "features", "recenter": False, "size": "length"},
}
