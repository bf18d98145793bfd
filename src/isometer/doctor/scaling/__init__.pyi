from ._check import scaling_check as scaling_check
from ._fitting import Exponent as Exponent
from ._result import ScalingCheck as ScalingCheck
from ._rules import PARAMETRISATIONS as PARAMETRISATIONS
from ._rules import Parametrisation as Parametrisation
from ._transfer import RateSweep as RateSweep
from ._verdicts import ScalingVerdict as ScalingVerdict
