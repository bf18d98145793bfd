"""The numbers that theory gives of an activation or a layer: what to call them, and what a value means.

They are not metrics of a batch, so they are not in `METRICS`; `meaning` explains both.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType

from isometer.metrics._catalogue import METRICS


@dataclass(frozen=True)
class TheoryNumber:
    """A number of theory.

    Attributes:
        title: for people.
        sentence: what a value means.
    """

    title: str
    sentence: str


THEORY_NUMBERS: Mapping[str, TheoryNumber] = MappingProxyType(
    {
        "case": TheoryNumber("Fate of cosines", "Where depth leads the cosine of two inputs."),
        "fixed_point": TheoryNumber("Fixed point ρ*", "The cosine of two inputs at great depth; 1: they are alike."),
        "rate": TheoryNumber("Rate per layer", "The factor by which each layer shrinks the distance to ρ*."),
        "depth_scale": TheoryNumber("Depth scale ξ", "Layers in which the distance to ρ* falls by a factor e."),
        "kernel_slope_at_one": TheoryNumber(
            "Slope κ′(1)", "Above 1 nearby inputs separate and gradients grow; below 1 inputs become alike."
        ),
        "gain_forward": TheoryNumber("Gain, forward", "The gain of the weights that keeps the signal's size: 1/√E φ²."),
        "gain_backward": TheoryNumber(
            "Gain, backward", "The gain of the weights that keeps the gradient's size: 1/√E φ′²."
        ),
        "nonlinearity": TheoryNumber("Nonlinearity", "Share of the Hermite spectrum beyond degree 1; 0: linear."),
        "phase": TheoryNumber("Phase", "Ordered: inputs become alike; chaotic: nearby inputs decorrelate."),
        "chi": TheoryNumber(
            "Growth of squared gradients χ", "Factor per layer; above 1 gradients explode, below 1 they vanish."
        ),
        "variance": TheoryNumber("Variance q*", "Where the variance of pre-activations goes; 0: signals die out."),
        "cosine": TheoryNumber("Cosine c*", "Where the cosine of two inputs goes; 1: they become alike."),
        "length_scale": TheoryNumber("Depth scale of lengths", "Layers in which |q − q*| falls by a factor e."),
        "correlation_scale": TheoryNumber(
            "Depth scale of cosines",
            "Layers in which |c − c*| falls by a factor e; signals reach a few of them deep.",
        ),
        "function": TheoryNumber("The function", "φ itself, or with mean square 1 for Gaussian inputs."),
        "kernel_map": TheoryNumber("Kernel map", "The cosine after a layer, by the cosine before it."),
        "distance": TheoryNumber(
            "Distance to the fixed point", "|ρ − ρ*| layer by layer; a straight line is an exponential rate."
        ),
        "hermite": TheoryNumber(
            "Hermite spectrum", "Shares of φ²: c₀² its mean, c₁² its linear part, the rest nonlinear."
        ),
        "phase_diagram": TheoryNumber(
            "Phase diagram", "χ by the standard deviations of weights and biases; the line χ = 1 is the edge of chaos."
        ),
        "token_phase": TheoryNumber(
            "Where the signal survives",
            "Open: tokens stay distinct and gradients keep their size within a factor of a thousand.",
        ),
        "score_strength": TheoryNumber(
            "Strength of scores β",
            "Standard deviation of attention scores over √log T; above √2 each query of a long sequence reads few "
            "tokens.",
        ),
        "log_jacobian": TheoryNumber(
            "log E ‖J‖²", "How much gradients grow from output to input; ±13.8 is a factor of a thousand in their norm."
        ),
        "angle_exponent": TheoryNumber(
            "Angle exponent", "log of the factor per block for 1 − cosine of similar tokens; below 0 they merge."
        ),
        "gradient_exponent": TheoryNumber(
            "Gradient exponent", "log of the factor per block for squared gradients; above 0 they explode."
        ),
        "gram": TheoryNumber("Gram matrix", "Cosines between the samples; 1 everywhere: they cannot be distinguished."),
    }
)
"""Every number of theory that a page shows, by name."""


def meaning(name: str) -> str:
    """What a value of a metric or of a number of theory means; empty where nothing is known of the name.

    Example:
        >>> meaning("chi")
        'Factor per layer; above 1 gradients explode, below 1 they vanish.'
        >>> meaning("effective_rank"), meaning("no such number")
        ('Directions that the batch uses: exp of the entropy of its spectrum.', '')
    """
    if name in METRICS:
        return METRICS[name].sentence
    return THEORY_NUMBERS[name].sentence if name in THEORY_NUMBERS else ""
