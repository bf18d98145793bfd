"""The trajectory format, which lives in `isometer.trajectory` so that predictions can use it without torch."""

from isometer.trajectory import summarize, trajectory, versions

__all__ = ["summarize", "trajectory", "versions"]
