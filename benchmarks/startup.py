"""What starting the command costs: processor time of `isometer --help` and `isometer explain relu`, against imports.

Processor time of the child and the shortest of a few tries: the machine may be busy with other things.
"""

from __future__ import annotations

import resource
import subprocess
import sys
from typing import Any

from benchmarks.environment import show

_TRIES = 7
_CALLS = {
    "import typer, rich": ["-c", "import typer, rich"],
    "isometer --help": ["-m", "isometer.cli", "--help"],
    "import numpy, scipy.special": ["-c", "import numpy, scipy.special"],
    "isometer explain relu": ["-m", "isometer.cli", "explain", "relu"],
}


def seconds(arguments: list[str]) -> float:
    """Processor time of a child process."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run([sys.executable, *arguments], stdout=subprocess.DEVNULL, check=True)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def run() -> dict[str, Any]:
    """Seconds of each call, and the two ratios."""
    tries = [{name: seconds(arguments) for name, arguments in _CALLS.items()} for _ in range(_TRIES)]
    best = {name: min(one[name] for one in tries) for name in _CALLS}
    results = {
        "overview": {
            "seconds_of_imports": best["import typer, rich"],
            "seconds": best["isometer --help"],
            "ratio": best["isometer --help"] / best["import typer, rich"],
        },
        "explain_relu": {
            "seconds_of_imports": best["import numpy, scipy.special"],
            "seconds": best["isometer explain relu"],
            "ratio": best["isometer explain relu"] / best["import numpy, scipy.special"],
        },
        "limits": {"ratio": 1.5},
    }
    show("starting the command", results)
    return results
