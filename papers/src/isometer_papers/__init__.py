"""The research companion of Isometer: papers on signal propagation as claims with verdicts and studies with figures."""

__version__ = "0.1.0"
