from ._catalogue import FAULTS as FAULTS
from ._fault import Fault as Fault
from ._fault import NotApplicable as NotApplicable
from ._fault import Severity as Severity
from ._sizes import SIZES as SIZES
