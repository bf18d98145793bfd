"""Probe → diagnose → treat, for any `torch.nn.Module`."""

from isometer.doctor.examination import Examination
from isometer.doctor.examine import probe

__all__ = ["Examination", "probe"]
