"""Probe → diagnose → treat, for any `torch.nn.Module`."""

import isometer.extras.torch_needed  # noqa: F401
from isometer.doctor.prediction._bands import Band
from isometer.doctor.diagnosis._diagnose import diagnose
from isometer.doctor.probe._examination import Examination
from isometer.doctor.probe._examine import probe
from isometer.doctor.prediction._extraction import Chain, extract, why_not
from isometer.doctor.diagnosis._findings import FINDINGS, Finding, Prescription
from isometer.doctor.watch._monitor import SignalMonitor
from isometer.doctor.prediction._predict_chain import Prediction, predict_chain
from isometer.doctor.diagnosis._report import Report
from isometer.doctor.treatment import Treatment, treat
from isometer.doctor.diagnosis._widths import WidthCheck, width_check

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
