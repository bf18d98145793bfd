from ._monitor import SignalMonitor as SignalMonitor
