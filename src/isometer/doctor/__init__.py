"""Probe → diagnose → treat, for any `torch.nn.Module`."""

import isometer.extras.torch_needed  # noqa: F401
from isometer.doctor.bands import Band
from isometer.doctor.diagnosis import diagnose
from isometer.doctor.examination import Examination
from isometer.doctor.examine import probe
from isometer.doctor.extraction import Chain, extract, why_not
from isometer.doctor.findings import FINDINGS, Finding, Prescription
from isometer.doctor.monitor import SignalMonitor
from isometer.doctor.prediction import Prediction, predict_chain
from isometer.doctor.report import Report
from isometer.doctor.treatment import Treatment, treat
from isometer.doctor.widths import WidthCheck, width_check

__all__ = [
    "FINDINGS",
    "Band",
    "Chain",
    "Examination",
    "Finding",
    "Prediction",
    "Prescription",
    "Report",
    "SignalMonitor",
    "Treatment",
    "WidthCheck",
    "diagnose",
    "extract",
    "predict_chain",
    "probe",
    "treat",
    "why_not",
    "width_check",
]
