"""001, Theorem C.10 and Lemma C.12 as printed, without expectation: weights that no bound for single draws survives.

Two samples in two features of cosine ρ have the gap ψ = −½ log(1 − ρ²). A rotation of the samples by θ lowers it by
−½ log(1 − ρ² sin² 2θ) and gives rows of squared length 1 ± ρ sin 2θ. Rotations that lower ψ by the same amount in
each of L layers have ρ sin 2θ ≈ √(2ψ/L), so that log‖J_BN‖ ≈ √(ψ/(2L)) in every layer: the sum grows like √L.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from isometer_papers.claims._claim import Instance
from isometer_papers.claims._families import cases
from isometer_papers.claims._statements import asymptotic, at_most
from isometer_papers.float_or_mpmath import Numeric, exp, log, sqrt


class EvenPath(NamedTuple):
    """What L layers that use up ψ evenly do.

    Attributes:
        log_jacobians: Σ log‖J_BN(H^k)‖.
        turn: derivative of the mean direction of both samples in the last layer by the angle between them in the first.
    """

    log_jacobians: Numeric
    turn: Numeric


def even_path(gap: Numeric, layers: int) -> EvenPath:
    """All layers but the last, in which the samples become orthogonal."""
    square = 1 - exp(-2 * gap / layers)  # (ρ sin 2θ)², the same in each layer
    log_jacobian = -log(1 - sqrt(square)) / 2
    turn, spread = gap * 0, gap * 0 + 1
    for layer in range(layers - 1):
        rho = sqrt(1 - exp(-2 * gap * (layers - layer) / layers))
        sine = sqrt(square) / rho
        stretch = sqrt((1 + sine) / (1 - sine))  # tan of the angles to the mean direction: times this and over this
        tangent = sqrt((1 - rho) / (1 + rho))  # of half the angle between the samples
        near = stretch / (1 + (stretch * tangent) ** 2)
        far = stretch / (stretch**2 + tangent**2)
        half = (1 + tangent**2) / 2
        turn = turn + spread * (near - far) * half / 2
        spread = spread * (near + far) * half
    return EvenPath((layers - 1) * log_jacobian, turn)


def _growth(read: Callable[[EvenPath], Numeric]) -> Callable[[Instance], Numeric]:
    """d log(what is read)/d log L between two depths, both so deep that the printed bound is constant."""

    def exponent(i: Instance) -> Numeric:
        low, high = (read(even_path(i["gap"], depth)) for depth in i["depths"])
        return log(high / low) / log(i["gap"] * 0 + i["depths"][1] / i["depths"][0])

    return exponent


_DEPTHS = {"depths": cases(*({"gap": gap, "depths": [4096, 16384]} for gap in (1.0, 0.1)))}

CLAIMS = (
    asymptotic("001/lem-C.12", at_most(_growth(lambda path: path.log_jacobians), 0.05), _DEPTHS, counts=(2, 2)),
    asymptotic("001/thm-C.10", at_most(_growth(lambda path: path.turn), 0.05), _DEPTHS, counts=(2, 2)),
)
