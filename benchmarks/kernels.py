"""NNGP and NTK matrices of ReLU networks: against neural-tangents, over depth, and in memory.

neural-tangents needs versions of jax and numpy that this project does not use, so it runs in its own environment: set
ISOMETER_NT_PYTHON to the interpreter of one that has neural-tangents 0.6.5 and jax 0.4.30. Both sides use float64 and
one thread, take turns, and the fastest turn of each counts. Ours includes composing the interpolant from nothing;
theirs is the second call of a jitted function, compilation left out.
"""

from __future__ import annotations

import json
import os
import subprocess
import tracemalloc
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray
from rich.console import Console
from rich.table import Table

from benchmarks.environment import best_of
from isometer.theory.kernels import kernel_matrices

VARIABLE = "ISOMETER_NT_PYTHON"
FEATURES = 64
TURNS = 3
_THEIRS = """
import json, sys, time
import jax
jax.config.update("jax_enable_x64", True)
import numpy as np
from neural_tangents import stax

n, features = int(sys.argv[1]), int(sys.argv[2])
x = np.random.default_rng(0).standard_normal((n, features))
x /= np.linalg.norm(x, axis=1, keepdims=True)
known = {}
for line in sys.stdin:
    depth = int(line)
    if depth not in known:
        layer = stax.serial(stax.Dense(features, W_std=2**0.5), stax.Relu())
        _, _, kernel = stax.serial(stax.repeat(layer, depth), stax.Dense(1))
        known[depth] = jax.jit(lambda x, kernel=kernel: kernel(x, None, ("nngp", "ntk")))
        jax.block_until_ready(known[depth](x))
    start = time.perf_counter()
    both = jax.block_until_ready(known[depth](x))
    seconds = time.perf_counter() - start
    corner = [float(both.nngp[0, 1] / both.nngp[0, 0]), float(both.ntk[0, 1] / both.ntk[0, 0])]
    print(json.dumps({"seconds": seconds, "corner": corner, "jax": jax.__version__}), flush=True)
"""


def _inputs(n: int) -> NDArray[np.float64]:
    x = np.random.default_rng(0).standard_normal((n, FEATURES))
    return x / np.linalg.norm(x, axis=1, keepdims=True)


def _ours(x: NDArray[np.float64], depth: int) -> Callable[[], Any]:
    return lambda: kernel_matrices("unit(relu)", x, depth)


def _against_neural_tangents(console: Console, n: int = 500) -> dict[str, Any] | None:
    interpreter = os.environ.get(VARIABLE)
    if not interpreter:
        console.print(f"[yellow]skipped neural-tangents: set {VARIABLE} to the interpreter of an environment with it")
        return None
    single = {"OMP_NUM_THREADS": "1", "XLA_FLAGS": "--xla_cpu_multi_thread_eigen=false intra_op_parallelism_threads=1"}
    process = subprocess.Popen(
        [interpreter, "-c", _THEIRS, str(n), str(FEATURES)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
        env={**os.environ, **single},
    )
    assert process.stdin is not None
    assert process.stdout is not None
    x, rows = _inputs(n), {}
    table = Table(title=f"NNGP + NTK, ReLU, n = {n}, float64, one thread")
    for column in ("depth", "isometer", "neural-tangents", "ratio", "difference"):
        table.add_column(column, justify="right")
    for depth in (100, 1000):
        ours, theirs, answer = [], [], {}
        for _ in range(TURNS):
            process.stdin.write(f"{depth}\n")
            process.stdin.flush()
            line = process.stdout.readline()
            if not line:
                raise RuntimeError(f"{VARIABLE} does not run neural-tangents; try it by hand")
            answer = json.loads(line)
            theirs.append(answer["seconds"])
            ours.append(best_of(_ours(x, depth), repeats=1))
        both = kernel_matrices("unit(relu)", x, depth)
        corner = [float(both[kind].matrix[0, 1]) for kind in ("nngp", "ntk")]
        difference = max(abs(a - b) for a, b in zip(corner, answer["corner"], strict=True))
        ratio = min(theirs) / min(ours)
        rows[str(depth)] = {
            "seconds": min(ours),
            "neural_tangents_seconds": min(theirs),
            "ratio": ratio,
            "difference_relative_to_diagonal": difference,
        }
        table.add_row(
            str(depth), f"{min(ours) * 1e3:.0f} ms", f"{min(theirs) * 1e3:.0f} ms", f"{ratio:.1f}×", f"{difference:.0e}"
        )
    process.stdin.close()
    process.wait(timeout=60)
    console.print(table)
    return {"n": n, "neural_tangents": "0.6.5", "jax": answer["jax"], "depths": rows}


def _over_depth(console: Console, n: int = 2000) -> dict[str, Any]:
    x = _inputs(n)
    times: dict[int, float] = {10: np.inf, 1000: np.inf, 1_000_000: np.inf}
    for _ in range(TURNS):
        for depth in times:
            times[depth] = min(times[depth], best_of(_ours(x, depth), repeats=1))
    tracemalloc.start()
    kernel_matrices("unit(relu)", x, 1000)
    peak = tracemalloc.get_traced_memory()[1] / (8 * n * n)
    tracemalloc.stop()
    ratio = times[1000] / times[10]
    console.print(
        f"n = {n}: {times[10]:.2f} s at depth 10, {times[1000]:.2f} s at depth 1000 ({ratio:.2f}×), "
        f"{times[1_000_000]:.2f} s at depth 10⁶; peak memory {peak:.2f} n×n matrices, both kernels included"
    )
    return {
        "n": n,
        "seconds": {str(depth): seconds for depth, seconds in times.items()},
        "depth_1000_over_depth_10": ratio,
        "peak_memory_in_matrices": peak,
    }


def run() -> dict[str, Any]:
    """Ratios to neural-tangents at n = 500, cost over depth and memory at n = 2000."""
    console = Console()
    return {
        "against_neural_tangents": _against_neural_tangents(console),
        "over_depth": _over_depth(console),
    }


if __name__ == "__main__":
    from benchmarks.environment import write

    print(f"wrote {write('kernels', run())}")
