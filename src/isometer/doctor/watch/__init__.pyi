from ._checkpoints import CheckpointRun as CheckpointRun
from ._checkpoints import watch_checkpoints as watch_checkpoints
from ._live_table import LiveTable as LiveTable
from ._monitor import SignalMonitor as SignalMonitor
from ._warnings import TrainingWarning as TrainingWarning
