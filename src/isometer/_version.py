"""The version, in the one place that every other reads."""

__version__ = "0.1.0"
