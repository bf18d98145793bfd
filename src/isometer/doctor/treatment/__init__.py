"""Treatments: what carries out each prescription, `treat`, and trials of what it brought."""

from isometer.doctor.treatment._apply import treat
from isometer.doctor.treatment._branches import Skip, add_skips_, fixup_blocks_, scale_branches_, zero_biases_
from isometer.doctor.treatment._functions import normalize_activations_, shape_activations_
from isometer.doctor.treatment._norms import add_norm_, batch_free_norm_, full_batch_norm_
from isometer.doctor.treatment._placement import pre_norm_
from isometer.doctor.treatment._record import Step, Treatment
from isometer.doctor.treatment._remedies import ELSEWHERE, REMEDIES, Call, Remedy
from isometer.doctor.treatment._trials import Arm, TreatmentTrial, trial

__all__ = [
    "ELSEWHERE",
    "REMEDIES",
    "Arm",
    "Call",
    "Remedy",
    "Skip",
    "Step",
    "Treatment",
    "TreatmentTrial",
    "add_norm_",
    "add_skips_",
    "batch_free_norm_",
    "fixup_blocks_",
    "full_batch_norm_",
    "normalize_activations_",
    "pre_norm_",
    "scale_branches_",
    "shape_activations_",
    "treat",
    "trial",
    "zero_biases_",
]
