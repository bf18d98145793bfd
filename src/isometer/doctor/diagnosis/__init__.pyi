from ._diagnose import diagnose as diagnose
from ._report import Report as Report
from ._widths import WidthCheck as WidthCheck
from ._widths import width_check as width_check
