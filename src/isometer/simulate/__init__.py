"""Finite width: the Markov chain of representations of a random network, forward and backward."""

import isometer.extras.torch_needed  # noqa: F401
from isometer.data import make_batch
from isometer.simulate._convolution import ConvolutionSpec, simulate_convolution
from isometer.simulate._cotangents import LOSSES
from isometer.simulate._engine import simulate
from isometer.simulate._ergodic import ergodic_average
from isometer.simulate._jacobian import jacobian_spectrum
from isometer.simulate._measure import METRICS
from isometer.simulate._states import representations
from isometer_papers.simulate.stationary import stationary_gram
from isometer.trajectory import summarize, trajectory
from isometer_papers.simulate.tree import TreeTrajectory, evolve_tree
from isometer.trajectory import DEFAULT_METRICS

__all__ = [
    "DEFAULT_METRICS",
    "LOSSES",
    "METRICS",
    "ConvolutionSpec",
    "TreeTrajectory",
    "ergodic_average",
    "evolve_tree",
    "jacobian_spectrum",
    "make_batch",
    "representations",
    "simulate",
    "simulate_convolution",
    "stationary_gram",
    "summarize",
    "trajectory",
]
