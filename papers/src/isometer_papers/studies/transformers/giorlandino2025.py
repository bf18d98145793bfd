"""The entropy transition of Giorlandino and Goldt 2025."""

from __future__ import annotations

import math

import numpy as np
import xarray

from isometer_papers.studies._drawing import PALETTE, Figure, new_figure
from isometer_papers.studies._study import Choice, Measured, Reading, Scale, Settings, Study
from isometer_papers.studies.cells.transformers import row_cell
from isometer_papers.studies.transformers._text_grid import GRID

SHARE = "entropy over log T approaches 1 − β²/2 below √2 and 0 above as tokens become more"
PARTICIPATION = "above √2 the mean of Σ A² approaches 1 − √2/β, and below √2 it falls to 0"
CONSTANTS = "at 1024 tokens the limit is right to 10 % of log T"


def limits(strength: float) -> tuple[float, float]:
    """Of entropy over log T, and of E Σ A².

    Example:
        >>> limits(1.0)
        (0.5, 0.0)
    """
    from isometer.theory.transformers import many_tokens

    found = many_tokens(strength)
    return found.entropy_share, found.participation


def draw_transition(result: xarray.Dataset, settings: Settings) -> Figure:
    figure, axes = new_figure(2, width=4.4, height=3.8)
    strengths = settings["strength"]
    for i, tokens in enumerate(settings["tokens"]):
        for axis, name in zip(axes.flat, ("share", "participation"), strict=False):
            told = f"{tokens} tokens"
            axis.plot(strengths, result[name].sel(tokens=tokens), color=PALETTE[i], marker=".", label=told)
    for k, axis in enumerate(axes.flat[:2]):
        axis.plot(strengths, [limits(one)[k] for one in strengths], "k--", label="limit")
        axis.axvline(math.sqrt(2), color="#888888", linewidth=0.8)
        axis.set(xlabel="β, scores over √log T", ylabel=("entropy over log T", "E Σ A²")[k])
    axes.flat[0].legend(fontsize=7)
    return figure


def read_transition(result: xarray.Dataset, settings: Settings) -> Reading:
    """Approaches: the distance to the limit falls at every step of T, for every β that is not at √2."""
    far = [one for one in settings["strength"] if abs(one - math.sqrt(2)) > 0.2]
    limit = np.array([limits(one) for one in far])
    numbers: dict[str, Measured] = {}
    falls = []
    for k, name in enumerate(("share", "participation")):
        values = result[name].sel(strength=far).transpose("strength", "tokens").values
        distance = np.abs(values - limit[:, k : k + 1])
        falls.append(bool((np.diff(distance, axis=1) < 1e-9).all()))
        for tokens in (settings["tokens"][0], settings["tokens"][-1]):
            at = settings["tokens"].index(tokens)
            numbers[f"largest distance of {name} from its limit, {tokens} tokens"] = Measured(
                float(distance[:, at].max())
            )
    share = result["share"].sel(tokens=1024, strength=far).values
    worst = float(np.abs(share - limit[:, 0]).max())
    numbers["largest distance of entropy over log T at 1024 tokens"] = Measured(worst)
    return Reading(numbers, {SHARE: falls[0], PARTICIPATION: falls[1], CONSTANTS: worst < 0.1})


_TOKENS = [64, 1024, 16384, 131072, 1048576]
TRANSITION = Study(
    "008/entropy",
    "entropy of attention over tokens whose scores vary by β² log T",
    "Attention is a random energy model: scores of variance β² log T make it condense at β = √2, where its entropy "
    "falls from a share of log T to a finite number.",
    {"critical β": math.sqrt(2)},
    row_cell,
    Scale({"strength": [0.0, 0.5, 1.0, 1.2, 1.414, 1.7, 2.0, 3.0, 4.0], "tokens": _TOKENS}, reduced="nine strengths"),
    Scale({"strength": [round(0.2 * k, 1) for k in range(26)], "tokens": _TOKENS}),
    draw_transition,
    read_transition,
    choices={"keys": Choice("independent scores", "those of orthogonal tokens")},
    because={
        CONSTANTS: "The limit is reached like log(log T)/log T. At the lengths of real sequences the transition is a "
        "smooth bend: use the theory of the number of tokens that you have.",
        SHARE: "Close to √2 the distance does not fall yet at these lengths.",
        PARTICIPATION: "For weak scores the mean of Σ A² falls like a power of T; where it does not fall, rare queries "
        "still decide it.",
    },
    seconds=(20.0, 60.0),
)
STUDIES = (TRANSITION, GRID)
