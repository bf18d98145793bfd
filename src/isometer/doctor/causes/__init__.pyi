from ._explanation import CauseExplanation as CauseExplanation
from ._repair import Repair as Repair
from ._search import Cause as Cause
