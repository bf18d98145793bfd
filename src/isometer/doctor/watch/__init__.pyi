from ._monitor import SignalMonitor as SignalMonitor
from ._warnings import TrainingWarning as TrainingWarning
