"""Finite width: the Markov chain of representations of a random network, forward and backward."""

import isometer.extras.torch_needed  # noqa: F401
from isometer.simulate.batches import make_batch
from isometer.simulate.convolution import ConvolutionSpec, simulate_convolution
from isometer.simulate.cotangents import LOSSES
from isometer.simulate.engine import simulate
from isometer.simulate.ergodic import ergodic_average
from isometer.simulate.jacobian import jacobian_spectrum
from isometer.simulate.measure import METRICS
from isometer.simulate.states import representations
from isometer.simulate.stationary import stationary_gram
from isometer.simulate.trajectory import summarize, trajectory
from isometer.simulate.tree import TreeTrajectory, evolve_tree
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
