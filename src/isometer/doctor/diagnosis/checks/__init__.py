"""The checks: each looks at a case for one condition and yields what it can stand behind."""

from isometer.doctor.diagnosis.checks._case import SIGNIFICANCE, Case, Sign

__all__ = ["SIGNIFICANCE", "Case", "Sign"]
