from ._effects import StepEffects as StepEffects
from ._outlook import AtRate as AtRate
from ._outlook import Evidence as Evidence
from ._outlook import Outlook as Outlook
from ._race import StressRun as StressRun
from ._reference import by_the_book_ as by_the_book_
from ._stress import Stress as Stress
