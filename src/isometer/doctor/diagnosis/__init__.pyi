from ._diagnose import diagnose as diagnose
from ._report import Report as Report
