"""Command lines: every command with any of its options, values that make sense and values that make none.

Commands and options are read from the application itself, so that a new one is tried without a line here. What would
serve, train or download for long is replaced by something short.
"""

from __future__ import annotations

import contextlib
import errno
import functools
import io
import json
import os
import socket
import tempfile
import warnings
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from enum import Enum
from pathlib import Path
from typing import Any, get_args
from unittest import mock

import numpy as np
import typer

from isometer.cli import _commands, main
from support.fuzz.target import PromiseBroken, Target

WHOLE = ["1", "2", "3", "5", "8", "16"]
NUMBERS = ["0", "0.5", "1", "2", "1e-3", "0.9", "inf"]
TEXTS = ["", " ", "x", "none", "relu", "é" * 40, "a,b", "1", "-", "--", "a=b", "\x00", "x" * 3000, "[bold]", "%s{0}"]
BAD_NUMBERS = ["-1", "0", "x", "", "1.5", "nan", "-inf", "1e400", "1_0", "٣", " 5 ", "0x10", str(10**18), str(10**30)]
PATHS = ["x.npy", "folder", "nowhere", "damaged.npy", "empty.npy", "text.txt", "nowhere/x", "spec.json", "list.json"]
PATHS += ["damaged.json", "text.txt/x", "", ".", "/", "\x00", "n" * 300, "store", "names.npz", "new.npy", "new.json"]
PATHS += ["complex.npy", "integers.npy"]
BY_NAME = {
    "activation": ["relu", "tanh", "normalized(relu)", "x*tanh(x)", "rleu", "x**", "1/x", "exp(x**2)", "(" * 40],
    "activations": ["relu", "tanh", "gelu", "sin", "rleu"],
    "compare": ["relu,tanh", "relu", ",", "normalized(relu),x", "rleu"],
    "norm": ["none", "batch", "layer", "rms", "group:2", "group:x", "whiten", "bacth"],
    "weights": ["gaussian", "orthogonal", "uniform", "he", "nobody"],
    "gain": ["1", "forward", "2.5", "0", "x", "nan", "inf"],
    "metric": ["mean_cosine", "effective_rank", "gradient_log_norm", "isometry_gap", "nothing"],
    "source": ["gaussian", "orthogonal", "correlated:0.5", "correlated:x", "collinear:0.1", "degenerate:2", "x.npy",
               "damaged.npy", "data:digits", "data:nothing", "power-law:1", "nowhere.csv", "data:digits:centre=x",
               "complex.npy", "integers.npy", "names.npz"],
    "depths": ["1,2,4", "", ",", "1,x", "-1", "0"],
    "target": ["mlp-relu-5", "mlp-tanh-20", "model.py:make", "model.py:fail", "model.py:nothing", "model.py", "x:y:z",
               "spec.json", "nowhere.json", "damaged.json", "os:getcwd", ".:x", ":", "folder.py:make"],
    "batch_file": ["x.npy", "names.npz", "damaged.npy", "nowhere.npy", "folder", "text.txt", "complex.npy"],
    "data": ["gaussian", "digits", "mnist", "nothing"],
    "shape": ["3", "4", "1,2,2", "0", "x", "", "3x3", "-1"],
    "treat": ["all", "recommended", "nothing", ""],
    "optimizer": ["adam", "sgd", "adamw", "nothing"],
    "name": ["digits", "mnist", "nothing", "fashion-mnist"],
    "url": ["file:///nowhere", "x", "", "http://", "ftp://x/y.tgz", "https://localhost/x.tgz"],
    "family": ["mlp", "convnet", "nothing"],
    "families": ["nothing", "", ",", "moe-mlp,nothing"],
    "rounds": ["1,1", "1", "", "x,y", "0,0", "1,2,3"],
    "batches": ["fresh", "one,gaussian", "nothing", ""],
    "parts": ["findings", "nothing", "", "stress,causes"],
    "grid": ["width=2,4", "depth=1:3:1", "depth=log:1:4:2", "activation=relu,tanh", "width", "=", "x=1", "width=x",
             "depth=1,1", "depth=", "norm=rms,layer", "depth=3:1:1", "depth=1:1000000000:1", "depth=log:0:4:2"],
    "host": ["127.0.0.1", "nowhere.invalid", "", "::1", "256.1.1.1"],
    "identifier": ["002/lem-1", "nothing", "", "999/x", "002"],
    "identifiers": ["nothing", "list", "999/x", "", "a=b"],
    "paper": ["002", "999", "", "x"],
    "change": ["width=4", "nothing", "=", "a=b=c"],
    "device": ["cpu", "nothing"],
    "dask": ["nowhere", ""],
    "workers": ["1", "2"],
}  # fmt: skip
SEVERAL = {"doctor", "sweep simulate", "sweep predict", "sweep kernel", "runs resume", "runs verify", "claims check"}
SEVERAL |= {"trial truth", "trial examine", "trial run", "reproduce"}
"""Commands whose exit code 1 is documented."""
ALWAYS = {
    "doctor": ["--no-stress"],
    "trial draw": ["--families", "nothing"],
    "trial run": ["--families", "nothing"],
    "simulate": ["--width", "6", "--depth", "3", "--runs", "2"],
    "predict": ["--width", "6", "--depth", "3", "--runs", "2"],
    "sweep simulate": ["--width", "6", "--depth", "3", "--runs", "2"],
    "sweep predict": ["--width", "6", "--depth", "3"],
}
"""What keeps a command short, unless an option says otherwise."""
FEW_OPTIONS = {"activations", "demo", "explore", "patients", "reproduce"}
"""Drawn less often, like the parts of groups."""
NEVER = {"claims check": {"every", "paper"}, "reproduce": {"every", "paper"}}
"""Options that compute for long whatever else is given."""


@functools.cache
def leaves() -> dict[str, list[Any]]:
    """Parameters of every command, by its path."""

    def below(command: Any, path: str, parent: Any) -> Iterator[tuple[str, list[Any]]]:
        context = command.context_class(command, info_name=path, parent=parent)
        if not hasattr(command, "list_commands"):
            yield path, command.get_params(context)
            return
        for name in command.list_commands(context):
            yield from below(command.get_command(context, name), f"{path} {name}".strip(), context)

    return dict(below(typer.main.get_command(_commands.app), "", None))


def draw(rng: np.random.Generator) -> list[str]:
    """A command line."""
    paths = sorted(leaves())
    weights = np.array([1.0 if " " in one or one in FEW_OPTIONS else 5.0 for one in paths])
    path = str(rng.choice(paths, p=weights / weights.sum()))
    words: list[str] = []
    for parameter in leaves()[path]:
        if parameter.name in NEVER.get(path, ()) or parameter.name == "help":
            continue
        often = 0.95 if parameter.required else 0.6 if parameter.param_type_name == "argument" else 0.2
        often = 0.5 if parameter.name == "as_json" else often
        while rng.random() < often:
            words += _given(rng, path, parameter)
            often = 0.4 if parameter.multiple or parameter.nargs == -1 else 0.03
    words += _kept_short(path, words)
    if rng.random() < 0.04:
        words.append(str(rng.choice(["--nothing", "--jsn", "-x", "surplus", "--", "--help"])))
    if words and rng.random() < 0.03:
        words.pop(int(rng.integers(len(words))))
    return [*(["--debug"] if rng.random() < 0.01 else []), *path.split(), *words]


def _kept_short(path: str, words: list[str]) -> list[str]:
    """The pairs of `ALWAYS` that no word gives."""
    more = ALWAYS.get(path, [])
    given = {word.partition("=")[0] for word in words}
    if len(more) < 2:
        return [one for one in more if one not in given]
    return [word for i in range(0, len(more), 2) if more[i] not in given for word in more[i : i + 2]]


def _given(rng: np.random.Generator, path: str, parameter: Any) -> list[str]:
    """An option with its value, or an argument."""
    kind = _kind(parameter)
    if parameter.param_type_name == "argument":
        return [_value(rng, path, parameter.name, kind)]
    name = str(rng.choice(parameter.opts))
    if kind is bool:
        return [name]
    value = _value(rng, path, parameter.name, kind)
    return [f"{name}={value}"] if rng.random() < 0.5 or value.startswith("-") else [name, value]


def _kind(parameter: Any) -> Any:
    """The type of a value: of one, where several may be given."""
    kind = getattr(getattr(parameter, "type_descriptor", None), "annotation", str)
    while get_args(kind):
        kind = next(one for one in get_args(kind) if one is not type(None))
    return kind


def _value(rng: np.random.Generator, path: str, name: str, kind: Any) -> str:
    if rng.random() < 0.08:
        return str(rng.choice(TEXTS))
    if isinstance(kind, type) and issubclass(kind, Enum):
        return str(rng.choice([one.value for one in kind]))
    if name == "batch" and kind is Path:
        name = "batch_file"
    if name in BY_NAME and not (name == "norm" and path in ("explain", "compare", "kernel")):
        return str(rng.choice(BY_NAME["grid" if name == "axes" else name]))
    if name == "axes":
        return str(rng.choice(BY_NAME["grid"]))
    if kind in (int, float):
        good = WHOLE if kind is int else NUMBERS
        return str(rng.choice(good if rng.random() < 0.8 else BAD_NUMBERS))
    return str(rng.choice(PATHS if kind is Path else TEXTS))


def check(words: list[str]) -> None:
    """Exit code 0, a documented one or 2; JSON where it is asked for; an error in one line; never a traceback."""
    words = [word.replace("\x00", "\ufffd") for word in words]  # no shell can pass it
    out, err = io.StringIO(), io.StringIO()
    with tempfile.TemporaryDirectory() as folder, _short(words, folder), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        _fill(Path(folder))
        with contextlib.chdir(folder), contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
            try:
                main(words)
            except SystemExit as end:
                code = end.code
    _judge(words, code, out.getvalue(), err.getvalue())


def _judge(words: list[str], code: Any, out: str, err: str) -> None:
    path = next((one for one in leaves() if " ".join(words).startswith(one)), "")
    allowed = {0, 2} | ({1} if path in SEVERAL else set()) | ({3} if path == "doctor" else set())
    debug = "--debug" in words
    if code not in allowed and not (debug and code in (0, 1, 2, 3)):
        raise PromiseBroken(f"exit code {code}: {err.strip()[-600:]}")
    if "Traceback" in err and not debug:
        raise PromiseBroken(f"a traceback: {err.strip()[-600:]}")
    if code == 2 and not debug:
        told = [line for line in err.splitlines() if not line.startswith(("note: ", "  "))]
        if len(told) != 1 or not told[0].startswith("error: "):
            raise PromiseBroken(f"an error in {len(told)} lines: {err.strip()[-600:]}")
    if "--json" in words and "--help" not in words and not debug:
        _json(out, code)


def _json(out: str, code: Any) -> None:
    if code == 2:
        if out:
            raise PromiseBroken(f"an error, and on standard output {out[:100]!r}")
        return

    def refuse(word: str) -> Any:
        raise PromiseBroken(f"{word} in JSON")

    try:
        json.loads(out, parse_constant=refuse)
    except ValueError as problem:
        raise PromiseBroken(f"no JSON ({problem}): {out[:100]!r}") from None


@contextlib.contextmanager
def _short(words: list[str], folder: str) -> Iterator[None]:
    """Nothing is served, downloaded, opened in a browser, or computed by further processes."""

    def nowhere(*_: Any) -> None:
        raise OSError(errno.ENETUNREACH, "Network is unreachable")

    def serve(*_: Any, ready: Any, **__: Any) -> None:
        ready("http://127.0.0.1:8050/")

    def one_thread(_: Any) -> ThreadPoolExecutor:
        return ThreadPoolExecutor(1)

    with (
        mock.patch.object(socket.socket, "connect", nowhere),
        mock.patch("socket.getaddrinfo", nowhere),
        mock.patch("webbrowser.open", nowhere),
        # Only where it is asked for: loading the explorer takes longer than most commands.
        mock.patch("isometer.explore.serve", serve) if "explore" in words else contextlib.nullcontext(),
        mock.patch("isometer.cli.demo._tour"),
        mock.patch("isometer.cli.doctor.GALLERY", ("mlp-relu-5",)),
        mock.patch("isometer.run._executors.Processes._pool", one_thread),
        mock.patch("tempfile.tempdir", folder),
        mock.patch("isometer.cli._progress.FIRST", 1e9),  # seconds: lines about progress are no errors
        mock.patch.dict(os.environ, {"ISOMETER_DATA": os.devnull}),
    ):
        yield


MODEL = """
from torch import nn

def make():
    print("note: made")
    return nn.Sequential(nn.Linear(3, 3), nn.ReLU())

def fail():
    raise KeyError("gone")
"""


def _fill(folder: Path) -> None:
    """Files of every kind, whole, damaged and empty."""
    (folder / "folder").mkdir()
    (folder / "folder.py").mkdir()
    x = np.random.default_rng(0).normal(size=(4, 3))
    np.save(folder / "x.npy", x)
    np.savez(folder / "names.npz", a=x, b=x)
    np.save(folder / "complex.npy", x + 1j)
    np.save(folder / "integers.npy", np.arange(12).reshape(4, 3))
    whole = (folder / "x.npy").read_bytes()
    (folder / "damaged.npy").write_bytes(whole[: len(whole) // 2])
    (folder / "empty.npy").write_bytes(b"")
    (folder / "text.txt").write_text("not an array\n")
    (folder / "spec.json").write_text('{"width": 3, "depth": 2, "activation": "relu", "input_width": 3}')
    (folder / "damaged.json").write_text('{"width": 3,')
    (folder / "list.json").write_text("[1, 2]")
    (folder / "model.py").write_text(MODEL)


TARGETS = (Target("commands", 1000, 4, draw, check, everything=True),)
