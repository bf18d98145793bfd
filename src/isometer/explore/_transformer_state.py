"""The state of the transformer lab: a block, its scales, its depth, and two of its numbers as axes of the diagram."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import ClassVar, Self

import numpy as np

from isometer.explore._state import Reader, State, choice, line, real, whole

NORM_PLACES = ("pre", "post", "sandwich", "peri", "deep", "none")
AXES = ("qk_gain", "branch", "mlp_gain")
"""Numbers that may be axes of the diagram: along others, lines cost as much as all points do here."""
_SIDE = 27  # points a side of the diagram
_RANGES: dict[str, tuple[float, float, str]] = {
    "qk_gain": (0.1, 10.0, "geomspace"),
    "branch": (0.0, 1.0, "linspace"),
    "mlp_gain": (0.2, 4.0, "geomspace"),
}


def axis_values(name: str) -> list[float]:
    """Where points of a diagram are.

    Example:
        >>> axis_values("branch")[:2], len(axis_values("qk_gain"))
        ([0.0, 0.038461538461538464], 27)
    """
    low, high, spacing = _RANGES[name]
    values: list[float] = getattr(np, spacing)(low, high, _SIDE).tolist()
    return values


def axis_text(name: str) -> str:
    """The same as Python.

    Example:
        >>> axis_text("branch")
        'np.linspace(0.0, 1.0, 27)'
    """
    low, high, spacing = _RANGES[name]
    return f"np.{spacing}({low!r}, {high!r}, {_SIDE})"


@dataclass(frozen=True)
class TransformerState(State):
    """The transformer lab.

    Example:
        >>> state, notes = TransformerState.read("norm=post&blocks=1000&up=qk_gain")
        >>> state.norm, state.blocks, state.up, len(notes)
        ('post', 200, 'branch', 2)
    """

    norm: str = "post"
    norm_kind: str = "layer"
    activation: str = "gelu"
    mlp: str = "plain"
    blocks: int = 24
    tokens: int = 32
    qk_gain: float = 1.0
    branch: float = 0.5
    mlp_gain: float = 1.0
    cosine: float = 0.0
    across: str = "qk_gain"
    up: str = "branch"

    readers: ClassVar[Mapping[str, Reader]] = {
        "norm": choice("norm", NORM_PLACES),
        "norm_kind": choice("norm_kind", ("layer", "rms")),
        "activation": line("activation"),
        "mlp": choice("mlp", ("plain", "gated", "none")),
        "blocks": whole("blocks"),
        "tokens": whole("tokens"),
        "qk_gain": real("qk_gain"),
        "branch": real("branch"),
        "mlp_gain": real("mlp_gain"),
        "cosine": real("cosine"),
        "across": choice("across", AXES),
        "up": choice("up", AXES),
    }

    def settled(self) -> tuple[Self, list[str]]:
        """Two different axes."""
        if self.across != self.up:
            return self, []
        other = "branch" if self.across != "branch" else "qk_gain"
        return replace(self, up=other), [f"both axes of the diagram are {self.up}; {other} is drawn upwards instead"]

    def network(self) -> str:
        """The preset.

        Example:
            >>> TransformerState(mlp="none").network()
            "gpt(blocks=24, tokens=32, norm='post', qk_gain=1.0, branch=0.5, hidden=0, causal=False)"
        """
        words = [f"blocks={self.blocks}", f"tokens={self.tokens}", f"norm={self.norm!r}"]
        words += [f"norm_kind={self.norm_kind!r}"] if self.norm_kind != "layer" else []
        words += [f"qk_gain={self.qk_gain!r}", f"branch={self.branch!r}"]
        if self.mlp == "none":
            words.append("hidden=0")
        else:
            words += [f"activation={self.activation!r}"] if self.activation != "gelu" else []
            words += [f"mlp_gain={self.mlp_gain!r}"] if self.mlp_gain != 1.0 else []
            words += ["gated=True"] if self.mlp == "gated" else []
        return f"gpt({', '.join(words)}, causal=False)"
