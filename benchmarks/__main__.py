"""`python -m benchmarks [name …]`: run the benchmarks and write benchmarks/results/<name>.json."""

from __future__ import annotations

import importlib
import sys

from benchmarks.environment import write

NAMES = (
    "activations",
    "simulate",
    "probe",
    "doctor",
    "kernels",
    "mixed_kernels",
    "convolutional_kernels",
    "empirical_kernels",
    "prediction",
    "transformers",
    "run",
    "treatment",
    "monitor",
    "training",
    "training_steps",
    "startup",
)


def main() -> None:
    for name in sys.argv[1:] or NAMES:
        if name not in NAMES:
            sys.exit(f"unknown benchmark {name!r}; choose from {', '.join(NAMES)}")
        print(f"wrote {write(name, importlib.import_module(f'benchmarks.{name}').run())}")


if __name__ == "__main__":
    main()
