"""What theory says a spec does to a batch, in the format of simulations: infinite width, and what finite width adds."""

from isometer.theory.prediction._comparison import Departure, departures
from isometer.theory.prediction._coverage import Coverage, coverage
from isometer.theory.prediction._fluctuations import LARGEST
from isometer.theory.prediction._limits import Limits, limits
from isometer.theory.prediction._measures import PREDICTED
from isometer.theory.prediction._trajectories import finite_width, finite_width_gap, missing_bands, predict

__all__ = [
    "LARGEST",
    "PREDICTED",
    "Coverage",
    "Departure",
    "Limits",
    "coverage",
    "departures",
    "finite_width",
    "finite_width_gap",
    "limits",
    "missing_bands",
    "predict",
]
