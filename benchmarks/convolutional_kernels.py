"""NNGP and NTK of convolutional networks on 32×32 images, against neural-tangents on its own architectures.

neural-tangents needs versions of jax and numpy that this project does not use, so it runs in its own environment: set
ISOMETER_NT_PYTHON to the interpreter of one that has neural-tangents 0.6.5 and jax 0.4.30. Both sides compute in
float64 with one thread, each architecture in a fresh process, and take turns; the fastest turn of each counts, in
seconds of the processor, so that other work on the machine does not decide. Ours includes everything from the text of
the network on; theirs is a later call of a jitted function, compilation left out. Memory is the largest resident set
during a turn, over what the process holds before it has computed anything.

neural-tangents pads windows with a stride on the other side; so it gets the images turned by 180 degrees.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
from rich.console import Console
from rich.table import Table

VARIABLE = "ISOMETER_NT_PYTHON"
SIZE, TURNS = 32, 3
WITHOUT_POOLING, WITH_POOLING = 50, 8  # images
_CONV = "conv(3, 64, padding='zeros', gain=2**0.5)"
_HALF = "conv(3, 64, stride=2, padding='zeros', gain=2**0.5)"
_MYRTLE = {5: (2, 1, 1), 7: (2, 2, 2), 10: (3, 3, 3)}


def _block(stride: int, first: bool) -> str:
    start = _HALF if stride == 2 else _CONV
    branch = f"act('relu') > {start} > act('relu') > {_CONV}"
    return f"sum({branch}, {start})" if first else f"residual({branch})"


def _wide_resnet(blocks: int, end: str) -> str:
    groups = [_block(stride, number == 0) for stride in (1, 2, 2) for number in range(blocks)]
    groups = [block if at % blocks == 0 else _block(1, False) for at, block in enumerate(groups)]
    return f"{_CONV} > {' > '.join(groups)} > {end} > dense(1)"


def _myrtle(depth: int) -> str:
    text = []
    for times, pools in zip(_MYRTLE[depth], (1, 1, 3), strict=True):
        text += [_CONV, "act('relu')"] * times + ["pool('mean', 2)"] * pools
    return " > ".join([*text, "flatten", "dense(1, gain=2**0.5)"])


NETWORKS: dict[str, str] = {
    "5 convolutions": f"repeat({_CONV} > act('relu'), 5) > flatten > dense(1)",
    "20 convolutions": f"repeat({_CONV} > act('relu'), 20) > flatten > dense(1)",
    "erf, no padding": "repeat(conv(3, 64, padding='valid', gain=1.2) > act('erf'), 5) > flatten > dense(1)",
    "gelu, circular": "repeat(conv(3, 64, padding='circular', gain=1.4) > act('gelu'), 5) > flatten > dense(1)",
    "layer norm": f"repeat({_CONV} > norm('layer', eps=1e-6) > act('relu'), 5) > flatten > dense(1)",
    "dropout": f"repeat({_CONV} > act('relu') > dropout(0.2), 5) > flatten > dense(1)",
    "strides": f"{_CONV} > act('relu') > repeat({_HALF} > act('relu'), 3) > flatten > dense(1)",
    "branches": f"repeat({_CONV} > act('relu') > concat({_CONV} > act('relu'), conv(1, 64) > act('erf')), 2)"
    " > flatten > dense(1)",
    "wide resnet 28": _wide_resnet(4, "flatten"),
    "5 convolutions, pooled": f"repeat({_CONV} > act('relu'), 5) > pool > dense(1)",
    "erf, pooled": "repeat(conv(3, 64, padding='circular', gain=1.2) > act('erf'), 3) > pool > dense(1)",
    "layer norm, pooled": f"repeat({_CONV} > norm('layer', eps=1e-6) > act('relu'), 3) > pool > dense(1)",
    "myrtle 5": _myrtle(5),
    "myrtle 10": _myrtle(10),
    "wide resnet 16, pooled": _wide_resnet(2, "pool('mean', 8) > flatten"),
}


def images(name: str) -> np.ndarray[Any, np.dtype[np.float64]]:
    n = WITH_POOLING if "pool" in NETWORKS[name] else WITHOUT_POOLING
    return np.random.default_rng(0).standard_normal((n, 3, SIZE, SIZE))


# --- what runs in a process of its own --------------------------------------------------------------------------------


_MEASURE = """
import sys, json, time

def resident(field):
    with open("/proc/self/status") as lines:
        return next(int(line.split()[1]) / 1024 for line in lines if line.startswith(field))

def turns(prepare, call):
    before = resident("VmRSS")
    prepare()
    for _ in sys.stdin:
        with open("/proc/self/clear_refs", "w") as file:
            file.write("5")  # forgets the largest resident set so far
        start, wall = time.process_time(), time.perf_counter()
        corner = call()
        spent = time.process_time() - start, time.perf_counter() - wall
        print(json.dumps({"seconds": spent[0], "wall": spent[1], "megabytes": resident("VmHWM") - before,
                          "corner": corner}), flush=True)
"""
_OURS = """
import numpy as np
from benchmarks.convolutional_kernels import NETWORKS, SIZE, images
from isometer.spec import Spec
from isometer.theory.networks import pair_kernels
x = images(sys.argv[1])

def call():
    found = pair_kernels(Spec(f"input(3, [{SIZE}, {SIZE}]) > {NETWORKS[sys.argv[1]]}"), x)
    return [list(found[kind][0, :2]) for kind in ("nngp", "ntk")]

turns(lambda: None, call)
"""
_THEIRS = """
import functools, math
import jax
jax.config.update("jax_enable_x64", True)
import jax.numpy as jnp
import numpy as np
from neural_tangents import stax

ROOT = 2**0.5
def conv(stride=1, padding="SAME", std=ROOT, size=3):
    return stax.Conv(64, (size, size), (stride, stride), padding, W_std=std)
def block(stride, first):
    main = stax.serial(stax.Relu(), conv(stride), stax.Relu(), conv())
    other = conv(stride) if first else stax.Identity()
    return stax.serial(stax.FanOut(2), stax.parallel(main, other), stax.FanInSum())
def wide(blocks, *end):
    groups = [block(stride if k == 0 else 1, k == 0) for stride in (1, 2, 2) for k in range(blocks)]
    return [conv(), *groups, *end, stax.Dense(1)]
def myrtle(*times):
    layers = []
    for count, pools in zip(times, (1, 1, 3)):
        layers += [conv(), stax.Relu()] * count + [stax.AvgPool((2, 2), strides=(2, 2))] * pools
    return [*layers, stax.Flatten(), stax.Dense(1, W_std=ROOT)]
branches = [conv(), stax.Relu(), stax.FanOut(2), stax.parallel(
    stax.serial(conv(), stax.Relu()), stax.serial(conv(std=1.0, size=1), stax.Erf())), stax.FanInConcat(-1)]
norm = [conv(), stax.LayerNorm(eps=1e-6), stax.Relu()]
flat, pool, one = stax.Flatten(), stax.GlobalAvgPool(), stax.Dense(1)
NETWORKS = {
    "5 convolutions": [*[conv(), stax.Relu()] * 5, flat, one],
    "20 convolutions": [*[conv(), stax.Relu()] * 20, flat, one],
    "erf, no padding": [*[conv(padding="VALID", std=1.2), stax.Erf()] * 5, flat, one],
    "gelu, circular": [*[conv(padding="CIRCULAR", std=1.4), stax.Gelu()] * 5, flat, one],
    "layer norm": [*norm * 5, flat, one],
    "dropout": [*[conv(), stax.Relu(), stax.Dropout(0.8)] * 5, flat, one],
    "strides": [conv(), stax.Relu(), *[conv(2), stax.Relu()] * 3, flat, one],
    "branches": [*branches * 2, flat, one],
    "wide resnet 28": wide(4, flat),
    "5 convolutions, pooled": [*[conv(), stax.Relu()] * 5, pool, one],
    "erf, pooled": [*[conv(padding="CIRCULAR", std=1.2), stax.Erf()] * 3, pool, one],
    "layer norm, pooled": [*norm * 3, pool, one],
    "myrtle 5": myrtle(2, 1, 1),
    "myrtle 10": myrtle(3, 3, 3),
    "wide resnet 16, pooled": wide(2, stax.AvgPool((8, 8)), flat),
}
n, size = int(sys.argv[2]), int(sys.argv[3])
x = np.random.default_rng(0).standard_normal((n, 3, size, size))
x = jnp.asarray(np.ascontiguousarray(x.transpose(0, 2, 3, 1)[:, ::-1, ::-1]))
kernel = stax.serial(*NETWORKS[sys.argv[1]])[2]
both = jax.jit(lambda x: kernel(x, None, ("nngp", "ntk")))

def call():
    found = jax.block_until_ready(both(x))
    return [[float(k[0, 0]), float(k[0, 1])] for k in (found.nngp, found.ntk)]

turns(call, call)
"""
_ONE_THREAD = {
    **{f"{name}_NUM_THREADS": "1" for name in ("OMP", "MKL", "OPENBLAS")},
    "XLA_FLAGS": "--xla_cpu_multi_thread_eigen=false intra_op_parallelism_threads=1",
    "JAX_PLATFORMS": "cpu",
}


class Side:
    """A process that computes one architecture when asked."""

    def __init__(self, interpreter: str, code: str, *arguments: str) -> None:
        root = Path(__file__).parents[1]
        places = [str(root), str(root / "src"), os.environ.get("PYTHONPATH", "")]
        self._process = subprocess.Popen(
            [interpreter, "-c", _MEASURE + code, *arguments],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env={**os.environ, **_ONE_THREAD, "PYTHONPATH": os.pathsep.join(places)},
        )

    def turn(self) -> dict[str, Any]:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write("\n")
        self._process.stdin.flush()
        line = self._process.stdout.readline()
        if not line:
            _, errors = self._process.communicate()
            raise RuntimeError(f"a side of the comparison failed:\n{errors[-2000:]}")
        return dict(json.loads(line))

    def end(self) -> None:
        self._process.communicate(timeout=60)


def compared(name: str, interpreter: str) -> dict[str, Any]:
    """One architecture: seconds, megabytes and how far apart the two kernels are, relative to the diagonal."""
    x = images(name)
    sides = {"ours": Side(sys.executable, _OURS, name), "theirs": Side(interpreter, _THEIRS, name, str(len(x)), "32")}
    turns: dict[str, list[dict[str, Any]]] = {side: [] for side in sides}
    for _ in range(TURNS if len(x) == WITHOUT_POOLING else 2):
        for side, process in sides.items():
            turns[side].append(process.turn())
    for process in sides.values():
        process.end()
    corners = [np.array(turns[side][-1]["corner"]) for side in sides]
    found: dict[str, Any] = {"n": len(x)}
    for side, label in (("ours", ""), ("theirs", "neural_tangents_")):
        for key in ("seconds", "wall"):
            found[label + key] = min(turn[key] for turn in turns[side])
        found[label + "megabytes"] = max(turn["megabytes"] for turn in turns[side])
    found["times_as_fast"] = found["neural_tangents_seconds"] / found["seconds"]
    found["share_of_memory"] = found["megabytes"] / found["neural_tangents_megabytes"]
    apart = (np.abs(corners[0] - corners[1]) / corners[1][:, :1]).max(axis=1)
    found["nngp_difference"], found["ntk_difference"] = map(float, apart)
    return found


def run() -> dict[str, Any]:
    """Every architecture against neural-tangents."""
    console = Console()
    interpreter = os.environ.get(VARIABLE)
    if not interpreter:
        console.print(f"[yellow]skipped: set {VARIABLE} to the interpreter of an environment with neural-tangents")
        return {}
    table = Table(title=f"NNGP + NTK of convolutional networks, {SIZE}×{SIZE} images, float64, one thread")
    for column in ("network", "n", "isometer", "neural-tangents", "ratio", "memory", "its memory", "difference"):
        table.add_column(column, justify="left" if column == "network" else "right")
    rows = {}
    for name in NETWORKS:
        rows[name] = one = compared(name, interpreter)
        table.add_row(
            *(name, str(one["n"]), f"{one['seconds']:.3f} s", f"{one['neural_tangents_seconds']:.3f} s"),
            *(f"{one['times_as_fast']:.1f}×", f"{one['megabytes']:.0f} MB"),
            f"{one['neural_tangents_megabytes']:.0f} MB",
            f"{one['nngp_difference']:.0e} {one['ntk_difference']:.0e}",
        )
        console.print(f"{name}: {one['times_as_fast']:.1f}× as fast, {one['share_of_memory']:.2f} of the memory")
    console.print(table)
    return {"against_neural_tangents": {"neural_tangents": "0.6.5", "jax": "0.4.30", "networks": rows}}
