"""The checks: each looks for one kind of trouble and returns the findings it can stand behind."""

from isometer.doctor.diagnosis.checks._batch import degenerate_batch, small_batch
from isometer.doctor.diagnosis.checks._case import Case, Check
from isometer.doctor.diagnosis.checks._gradients import gradient_alignment, gradient_growth
from isometer.doctor.diagnosis.checks._scale import activation_growth
from isometer.doctor.diagnosis.checks._signal import odd_point, rank_collapse
from isometer.doctor.diagnosis.checks._units import dead_units, effectively_linear, saturation
from isometer.doctor.diagnosis.checks._weights import asymmetric_weights, wrong_gain

CHECKS: tuple[Check, ...] = (
    degenerate_batch,
    activation_growth,
    rank_collapse,
    odd_point,
    gradient_growth,
    gradient_alignment,
    small_batch,
    asymmetric_weights,
    dead_units,
    saturation,
    effectively_linear,
    wrong_gain,  # last: it explains what the others found
)
"""In the order they are made; later ones see what earlier ones found."""

__all__ = ["CHECKS", "Case", "Check"]
