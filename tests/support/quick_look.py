"""The doctor without its stress test, for tests of what the probe finds."""

from functools import partial

from isometer.doctor import diagnose

quick_look = partial(diagnose, stress=False)
