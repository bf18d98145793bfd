"""The words of the network language: one entry per step, for reading and for printing alike."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass, fields
from typing import Any

from isometer.spec._norm import _NORMS, Norm
from isometer.spec._steps import (
    Act,
    Attention,
    Bias,
    Convolution,
    Dense,
    Dropout,
    Embedding,
    Flatten,
    Join,
    Noise,
    Pool,
    Positions,
    Repeat,
    Residual,
    Scaling,
    Upsample,
)


@dataclass(frozen=True)
class Word:
    """A step in the language: the fields that may stand without their name, and those that hold steps.

    Example:
        >>> WORDS["repeat"].steps
        ('body',)
    """

    make: Any
    positional: tuple[str, ...] = ()
    steps: tuple[str, ...] = ()
    summary: str = ""

    @property
    def names(self) -> tuple[str, ...]:
        """All fields, those of the dataclass in their order."""
        return tuple(field.name for field in fields(self.make))

    def default(self, name: str) -> Any:
        """The default of a field, `MISSING` if it has none."""
        return next(field.default for field in fields(self.make) if field.name == name)


WORDS: dict[str, Word] = {
    "dense": Word(Dense, ("width",), summary="a random weight matrix, the same at every position"),
    "bias": Word(Bias, ("variance",), summary="a random number per feature is added"),
    "act": Word(Act, ("activation", "gain"), summary="an activation, entry by entry"),
    "scale": Word(Scaling, ("factor",), summary="a factor"),
    "residual": Word(Residual, ("branch", "scale"), ("branch",), "skip · x + scale · branch(x)"),
    "repeat": Word(Repeat, ("body", "times"), ("body",), "the body several times, with weights of its own each time"),
    "conv": Word(Convolution, ("kernel", "channels"), summary="a convolution with random weights"),
    "pool": Word(Pool, ("by", "size"), summary="mean or maximum over windows of positions, or over all"),
    "upsample": Word(Upsample, ("repeats",), summary="every position several times"),
    "flatten": Word(Flatten, summary="positions become features"),
    "attention": Word(Attention, ("heads",), summary="multi-head self-attention over positions"),
    "embedding": Word(Embedding, ("tokens",), summary="a random vector per token"),
    "positions": Word(Positions, ("kind", "gain"), summary="a vector per position is added"),
    "dropout": Word(Dropout, ("rate",), summary="entries are dropped at random"),
    "noise": Word(Noise, ("variance",), summary="a random number is added to every entry"),
}
"""The steps by their word; `norm` and the joins `sum`, `product` and `concat` have a form of their own."""
JOINS = ("sum", "product", "concat")
_WORD_OF = {word.make: name for name, word in WORDS.items()}
_AFFINE = ("eps", "scale", "shift")


def word_of(step: object) -> str:
    """The word of a step.

    Example:
        >>> word_of(Dense(3)), word_of(Norm()), word_of(Join(((Dense(),), (Dense(),))))
        ('dense', 'norm', 'sum')
    """
    if isinstance(step, Norm):
        return "norm"
    return step.by if isinstance(step, Join) else _WORD_OF[type(step)]


def norm_words(norm: Norm) -> tuple[str | None, dict[str, Any]]:
    """A norm as a name and what differs from it; without a name all that differs from the defaults.

    Example:
        >>> norm_words(Norm.named("layer")), norm_words(Norm(eps=1e-5))
        (('layer', {}), ('batch', {'eps': 1e-05}))
    """
    names = [*_NORMS, *([f"group:{norm.groups}"] if norm.over == "groups" else [])]
    for name in names:
        plain = Norm.named(name)
        assert plain is not None
        if dataclasses.replace(norm, eps=0.0, scale=1.0, shift=0.0) == plain:
            return name, {key: getattr(norm, key) for key in _AFFINE if getattr(norm, key) != getattr(plain, key)}
    plain = Norm()
    return None, {
        f.name: getattr(norm, f.name) for f in fields(norm) if getattr(norm, f.name) != getattr(plain, f.name)
    }
