from ._loop import TrainingCurve as TrainingCurve
from ._loop import train as train
