"""The warning benchmark: do the warnings of `SignalMonitor` come in time, and how often are they false?

Run everything with `python -m benchmarks.warnings`. Small networks of four architectures train on made-up tasks, sound
or with one of eleven faults that sets in after the first fifth of the run. Limits are fitted on one half of the
networks; the other half is opened once.
"""
