"""The warning benchmark: do the warnings of `SignalMonitor` come in time, and how often are they false?

Run everything with `python -m benchmarks.warnings`. Small networks train on made-up tasks, sound or with one of
fourteen faults that sets in after the first fifth of the run. Rules and limits were made with the first roster. The
second one, with architectures and faults that the first does not have, is opened once.
"""
