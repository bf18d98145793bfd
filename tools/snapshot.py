"""Record what the command `isometer` answers, and compare two recordings, to show that a change altered no result.

    python tools/snapshot.py record before --isometer old/.venv/bin/isometer
    python tools/snapshot.py record after --isometer new/.venv/bin/isometer --workers 2
    python tools/snapshot.py compare before after

A recording is a folder with one JSON file per item; a recording that was interrupted goes on with the same command.
Only the command line is used, so that modules may move between two recordings. The parts are

    doctor      every built-in patient, examined
    commands    every command on fixed inputs, with most options and with wrong ones; the help of every command
    treatments  every patient that has a condition, treated
    studies     the records of all studies that train nothing, at scale quick
    claims      the verdicts on all claims, at effort quick, with their margins and counterexamples

`compare` prints every difference and exits with 1 if a result differs. Numbers must be equal to the last digit, unless
--rtol allows more. Help texts are compared too, but counted apart as wording, which leaves the exit code alone. IGNORED
names the values that are not compared. Pictures, pages and arrays that commands write are compared by digest, netCDF
files by their presence alone. Record on one machine with the same data sets, since data that is missing is an answer
too, and start a new folder for a new state of the code, since an item that is there is not asked again.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import math
import os
import random
import re
import shlex
import shutil
import struct
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass
from itertools import zip_longest
from pathlib import Path
from typing import Any

PARTS = ("doctor", "commands", "treatments", "studies", "claims")
IGNORED = {  # keys whose values are bound to differ, and why
    "seconds": "durations",
    "traceback": "names source files and lines",
    "versions": "of this package and of libraries",
    "code": "version and digest of the source that computed a cell; code that a treatment prints is compared",
    "url": "has the first free port",
}
DIGESTED = (".npy", ".npz", ".safetensors", ".png", ".html")  # files compared by digest; of .nc only the presence
READ = (".csv", ".json", ".md")
ABSENT = object()

HELP = """|explain|compare|activations|demo|doctor|explore|kernel|phase|patients|predict|simulate|reproduce
|claims|claims list|claims show|claims causes|claims findings|claims cite|claims check|claims report
|data|data list|data get|data show
|sweep|sweep simulate|sweep predict|sweep kernel|runs|runs list|runs show|runs resume|runs verify|runs clean
"""
# Items by command, between semicolons. Each runs in a folder of its own with the files of `_fixtures`; && separates
# commands that share a folder, where n.json is what the n-th printed.
COMMANDS = {
    "--version": "",
    "explain": """
        relu --json; tanh --plot card.png; gelu --norm layer --norm-position post --json; silu --norm rms --json;
        'normalized(relu)' --gamma 0.3 --json; 'x * sigmoid(2*x)' --json;
        'unit(leaky_relu)' --gamma 1 --norm layer --json; nothing; 'x +'
    """,
    "compare": """
        relu gelu tanh 'normalized(relu)' --plot compare.png; relu sin erf --norm rms --norm-position post --json;
        tanh sigmoid --gamma 0.5 --json; relu nothing
    """,
    "activations": "; --json",
    "kernel": """
        --activation 'normalized(relu)' --depth 100 --input x.npy --kind ntk --json;
        --activation relu --depth 5 --input x.npy --out k.npy --plot k.png;
        --activation 'unit(relu)' --depths 1,10,100,1000 --input x.npy --json;
        --activation tanh --depth 8 --input x.npy --norm layer --norm-position post --bias-variance 0.1 --json;
        --activation gelu --depth 20 --input x.npy --norm rms --kind ntk --json;
        --activation relu --depth 12 --input x.npy --gamma 0.4 --bias-variance 0.05 --out k.npz --json;
        --activation relu --input nowhere.npy --depth 3; --activation relu --input x.npy;
        --activation relu --input x.npy --depth 3 --out k.txt
    """,
    "phase": """
        --activation tanh --plot phase.png --json; --activation erf --bias-limit 0.2 --weight-limit 3 --json;
        --activation relu; --activation 'relu('
    """,
    "predict": """
        --norm batch --depth 20 --backward --json;
        --width 64 --depth 12 --activation tanh --gain 1.5 --bias-variance 0.1 --json;
        --width 50 --depth 10 --activation gelu --norm layer --norm-position post --input correlated:0.7 --json;
        --width 60 --depth 10 --gamma 0.3 --activation relu --metric mean_cosine --metric log_norm --json;
        --depth 15 --runs 4 --against-simulation --plot both.png --json;
        --compare relu,tanh,gelu --depth 10 --runs 4 --norm rms --backward --json;
        --network spec.json --input x.csv;
        --width 40 --depth 6 --gain forward --at pre --input orthogonal --batch 6 --out p.nc --json;
        --norm whiten --json; --weights asymmetric; --compare relu --network spec.json
    """,
    "simulate": """
        --depth 10 --json; --depth 12 --norm batch --backward --loss cross-entropy --runs 4 --json;
        --width 80 --batch 6 --input correlated:0.9 --activation tanh --gain forward --plot net.png --seed 3;
        --width 40 --depth 8 --activation gelu --norm layer --norm-position post --weights orthogonal --runs 4 --json;
        --width 48 --depth 8 --gamma 0.5 --norm rms --weights uniform --seed 7 --runs 4 --json;
        --width 32 --depth 6 --engine dense --dtype float32 --bias-variance 0.2 --at pre --runs 4 --json;
        --width 32 --depth 6 --engine gram --input collinear:0.01 --weights he --runs 4 --json;
        --width 32 --depth 6 --input degenerate:3 --norm group:4 --weights pytorch --runs 4 --json;
        --width 32 --depth 6 --input power-law:1 --norm whiten --weights asymmetric --runs 4 --json;
        --width 32 --depth 6 --norm batch-recenter --weights xavier-uniform --backward --loss squared --runs 4 --json;
        --width 32 --depth 6 --norm unit --weights orthogonalized-xavier --metric rank --metric kurtosis --runs 3
        --json;
        --width 32 --depth 6 --norm batch-rescale --input x.csv --metric clusters --metric isometry_gap --runs 3 --json;
        --width 32 --depth 6 --input data:digits:centre=pixel,scale=unit --runs 3 --json;
        --network spec.json --input x.npy --runs 3 --out s.nc --json; --norm nothing; --metric nothing;
        --weights nothing; --gain much; --input correlated:7; --network nowhere.json; --depth 0; --out nowhere/s.nc
    """,
    "sweep": """
        simulate --grid width=16,32 activation=relu,tanh --depth 4 --runs 3 --workers 1 --out s --json && runs list .
        --json && runs show s --json && runs verify s --json && runs clean s --unused --dry-run --json && runs resume s
        --workers 1 --json && runs clean s --json;
        predict --grid depth=2:6:2 --width 32 --norm batch --workers 1 --out s --json && runs verify s;
        kernel --grid depth=log:1:100:3 'activation=relu,normalized(relu)' --input x.npy --workers 2 --out s --json;
        simulate --grid colour=red; simulate --grid width=8 --norm nothing; kernel --grid depth=1,2
    """,
    "data": """
        list --json; show digits --json; show fashion-mnist --json; show cifar10 --json; show nothing; get cifar100;
        list --root nowhere
    """,
    "patients": "--json; --family mixer; --family nothing",
    "claims": """
        list --json; list --paper 002 --verdict refuted; show 002/lem-1 --json; show 002/lem-1; list --class result;
        list --chapter nowhere; causes --json; findings --json; cite 002/lem-1; cite 009;
        check 002/lem-1 004/lem-1 --json; report --markdown claims.md --html claims.html; show 009/nothing; check;
        report
    """,
    "reproduce": """
        ; list --json; list --paper 003;
        003/fig-1 --set width=64 --workers 1 --out g && reproduce --read-again --out g --json; 009/nothing;
        003/fig-1 --set nothing=1; --resume --out nowhere
    """,
    "demo": "--out tour",
    "doctor": """
        ; --json; mlp-relu-100 --layers 0; mlp-bn-10 --eval --batch 8 --seed 5 --json;
        mlp-tanh-20 --html page.html --json;
        mlp-relu-10 --input digits --shape 1,8,8 --json; mlp-relu-10 --input fashion-mnist --batch 16 --json;
        resnet-20 --input cifar10 --batch 8 --json; spec.json --input x.npy --json; model.py:make --input x.npy --json;
        model.py:make --shape 16 --treat orthogonal-init --save t.safetensors --json && doctor model.py:make --shape 16
        --checkpoint t.safetensors --compare 1.json --json && doctor model.py:make --shape 16 --compare 1.json;
        model.py:make --shape 16 --treat all --save t.safetensors --json && doctor model.py:make --checkpoint
        t.safetensors;
        mlp-sigmoid-20 --treat --trial 3 --json; mlp-tanh-large-gain-20 --treat; nothing; model.py:nothing;
        model.py:make --shape 7 --json; mlp-relu-10 --input nowhere.npy; mlp-relu-10 --treat nothing;
        mlp-relu-10 --save t.safetensors; mlp-relu-10 --shape a,b
    """,
    "explore": "--no-browser --json; --gallery nowhere",
    "runs": "show nowhere",
    "nothing": "",
}
MODEL = """from torch import manual_seed, nn

def make():
    manual_seed(0)
    layers = [module for _ in range(12) for module in (nn.Linear(16, 16), nn.ReLU())]
    return nn.Sequential(*layers, nn.Linear(16, 4))
"""


@dataclass(frozen=True)
class Item:
    """Commands that share a folder, and the file that keeps what they answer."""

    part: str
    name: str
    commands: tuple[str, ...]


def _items(part: str, isometer: list[str], workers: int) -> list[Item]:
    def ask(*arguments: str) -> Any:
        return json.loads(subprocess.run([*isometer, *arguments], check=True, stdout=subprocess.PIPE).stdout)

    if part in ("doctor", "treatments"):
        treat = part == "treatments"
        names = [row["name"] for row in ask("patients", "--json")["patients"] if row["condition"] or not treat]
        return [Item(part, name, (f"doctor {name}{' --treat' * treat} --json",)) for name in names]
    if part == "studies":
        names = [row["id"] for row in ask("reproduce", "list", "--json") if not row["trains"]]
        return [Item(part, name, (f"reproduce {name} --scale quick --workers 1 --out g --json",)) for name in names]
    if part == "claims":
        rest = f"--effort quick --workers {workers} --out claims.json --json"
        papers = sorted({row["paper"] for row in ask("claims", "list", "--json")})
        return [Item(part, paper, (f"claims check --paper {paper} {rest}",)) for paper in papers]
    helps = [f"{name} --help".strip() for name in HELP.replace("\n", "").split("|")]
    lines = [f"{name} {' '.join(rest.split())}".strip() for name, text in COMMANDS.items() for rest in text.split(";")]
    return [Item(part, line, tuple(line.split(" && "))) for line in (*lines, *helps)]


def _file(item: Item) -> Path:
    digest = hashlib.sha256(item.name.encode()).hexdigest()[:6]
    return Path(item.part) / f"{re.sub('[^A-Za-z0-9.]+', '-', item.name)[:60].strip('-')}-{digest}.json"


def _fixtures(folder: Path) -> set[str]:
    """Write the files that commands read: 8 samples of 16 features, a spec and a model; return their names."""
    draw = random.Random(0)
    rows = [[draw.gauss(0.0, 1.0) for _ in range(16)] for _ in range(8)]
    header = "{'descr': '<f8', 'fortran_order': False, 'shape': (8, 16), }".ljust(117) + "\n"
    flat = [value for row in rows for value in row]
    start = b"\x93NUMPY\x01\x00" + struct.pack("<H", len(header)) + header.encode()
    (folder / "x.npy").write_bytes(start + struct.pack("<128d", *flat))
    (folder / "x.csv").write_text("\n".join(",".join(map(repr, row)) for row in rows))
    spec = {"width": 16, "depth": 6, "activation": "gelu", "norm": {"over": "features"}, "gain": 1.2, "input_width": 16}
    (folder / "spec.json").write_text(json.dumps(spec))
    (folder / "model.py").write_text(MODEL)
    return {path.name for path in folder.iterdir()}


def _answer(command: str, isometer: list[str], folder: Path) -> dict[str, Any]:
    arguments = shlex.split(command)
    threads = dict.fromkeys(("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS"), "1")
    plain = {"COLUMNS": "160", "NO_COLOR": "1", "TERM": "dumb", "PYTHONHASHSEED": "0"}
    process = subprocess.Popen(
        [*isometer, *arguments],
        cwd=folder,
        env={**os.environ, **threads, **plain},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    printed = b""
    while arguments[0] == "explore" and process.stdout and (line := process.stdout.readline()):
        printed += line
        if line == b"}\n":  # it serves until it is stopped
            process.terminate()
    rest, said = process.communicate()

    def clean(raw: bytes) -> str:
        text = raw.decode().replace(str(folder), ".").replace(" ".join(isometer), "isometer")
        return re.sub(r"isometer \d+\.[\w.+]+", "isometer VERSION", text)

    stdout: Any = clean(printed + rest)
    with suppress(ValueError):
        stdout = json.loads(stdout)
    stderr = re.sub(r"(?s)Traceback \(most recent call last\).*\n(?=\S)", "Traceback …\n", clean(said))
    return {"command": command, "exit": process.returncode, "stdout": stdout, "stderr": stderr}


def _contents(folder: Path, given: set[str]) -> dict[str, Any]:
    """What commands wrote into their folder, and summaries of sweeps and studies below it."""
    kept: dict[str, Any] = {}
    patterns = ("*.*", "tour/*.*", "s/*.csv", "s/*.png", "g/*/*.png")
    for path in sorted(found for pattern in patterns for found in folder.glob(pattern)):
        if path.name in given or not path.is_file():
            continue
        name = str(path.relative_to(folder))
        if path.suffix in READ:
            text = path.read_text()
            kept[name] = json.loads(text) if path.suffix == ".json" else text
        else:
            kept[name] = hashlib.sha256(path.read_bytes()).hexdigest() if path.suffix in DIGESTED else "written"
    return kept


def _record(item: Item, isometer: list[str], out: Path) -> str:
    target, folder = out / _file(item), out / "work" / _file(item).with_suffix("")
    if target.is_file():
        return ""
    begin = time.monotonic()
    folder.mkdir(parents=True, exist_ok=True)
    target.parent.mkdir(exist_ok=True)
    given = _fixtures(folder)
    steps = []
    for number, command in enumerate(item.commands, start=1):
        steps.append(_answer(command, isometer, folder))
        (folder / f"{number}.json").write_text(json.dumps(steps[-1]["stdout"]))
        given.add(f"{number}.json")
    seconds = round(time.monotonic() - begin, 1)
    record = {"item": item.name, "seconds": seconds, "steps": steps, "files": _contents(folder, given)}
    partial = target.with_suffix(".part")
    partial.write_text(json.dumps(record, indent=1, ensure_ascii=False))
    partial.replace(target)
    shutil.rmtree(folder)
    return f"{item.part} {item.name[:100]}: {seconds} s, exit {', '.join(str(step['exit']) for step in steps)}"


def record(out: Path, isometer: list[str], parts: list[str], workers: int) -> None:
    """Record the parts into the folder `out`, several items at a time; items that are there are kept."""
    out = out.resolve()
    out.mkdir(parents=True, exist_ok=True)
    program = shutil.which(isometer[0])
    if program is None:
        sys.exit(f"there is no command {isometer[0]!r}; expected one that runs isometer — pass --isometer COMMAND")
    isometer = [os.path.abspath(program), *isometer[1:]]
    for part in parts:
        items = _items(part, isometer, workers)
        with ThreadPoolExecutor(1 if part == "claims" else workers) as pool:  # claims have workers of their own
            for line in filter(None, pool.map(lambda item: _record(item, isometer, out), items)):
                print(line, flush=True)
        print(f"{part}: {len(items)} items in {out / part}", flush=True)


def _leaves(value: Any, path: str = "") -> Iterator[tuple[str, Any]]:
    """Every value with the path of keys that leads to it; rows with an id or a name are found by it."""
    if isinstance(value, dict) and value:
        for key, inner in value.items():
            if not _ignored(key, inner):
                yield from _leaves(inner, f"{path}.{key}" if path else key)
    elif isinstance(value, list) and value:
        labels = [_label(row, index) for index, row in enumerate(value)]
        if len(set(labels)) < len(labels):
            labels = [str(index) for index in range(len(value))]
        if labels[0] != "0":
            yield f"{path}[order]", " ".join(labels)
        for label, inner in zip(labels, value, strict=True):
            yield from _leaves(inner, f"{path}[{label}]")
    else:
        yield path, value


def _ignored(key: str, value: Any) -> bool:
    if key == "seconds":
        return not isinstance(value, dict)  # what a study is said to take is no measurement
    if key == "code":
        return isinstance(value, str) and re.fullmatch(r"\d+\.[\w.]+\+[0-9a-f]+", value) is not None
    return key in IGNORED


def _label(row: Any, index: int) -> str:
    found = next((row[key] for key in ("id", "name") if key in row), None) if isinstance(row, dict) else None
    return found if isinstance(found, str) else str(index)


def _difference(before: Any, after: Any, rtol: float) -> str | None:
    """What differs between two leaves, in words; None if nothing does."""
    if ABSENT in (before, after):
        return f"only after: {after!r:.120}" if before is ABSENT else f"only before: {before!r:.120}"
    if type(before) is type(after) and before == after:
        return None
    numbers = [isinstance(value, (int, float)) and not isinstance(value, bool) for value in (before, after)]
    if all(numbers):
        size = max(abs(before), abs(after))
        relative = abs(before - after) / size if size and math.isfinite(size) else 0.0
        same = relative <= rtol and rtol > 0
        return None if same else f"{before!r} -> {after!r} (relative difference {relative:.2g})"
    if isinstance(before, str) and isinstance(after, str):
        pairs = zip_longest(before.split("\n"), after.split("\n"), fillvalue="(no line)")
        number, (old, new) = next((n, pair) for n, pair in enumerate(pairs, start=1) if pair[0] != pair[1])
        at = next((i for i, (a, b) in enumerate(zip(old, new, strict=False)) if a != b), min(len(old), len(new)))
        cut = slice(max(0, at - 40), at + 80)
        return f"line {number}, column {at + 1}: {old[cut]!r} -> {new[cut]!r}"
    return f"{before!r:.120} -> {after!r:.120}"


def compare(before: Path, after: Path, parts: list[str], rtol: float) -> int:
    """Print the differences between two recordings and how much was compared; 1 if a result differs, else 0."""
    compared, different = Counter[str](), Counter[str]()
    roots = (before, after)
    names = [{str(path.relative_to(root)) for part in parts for path in (root / part).glob("*.json")} for root in roots]
    for root, found in zip(roots, names, strict=True):
        if not found:
            sys.exit(f"there is no recording of {', '.join(parts)} in {str(root)!r} — make one with `record`")
    for name in sorted(names[0] | names[1]):
        part = name.partition("/")[0]
        if (name in names[0]) != (name in names[1]):
            print(f"{part} {name}: only in {before if name in names[0] else after}")
            different[part] += 1
            continue
        old, new = (json.loads((root / name).read_text()) for root in roots)
        part = "wording" if old["item"].endswith("--help") else part
        leaves, others = dict(_leaves(old)), dict(_leaves(new))
        for path in dict.fromkeys([*leaves, *others]):
            compared[part] += 1
            words = _difference(leaves.get(path, ABSENT), others.get(path, ABSENT), rtol)
            if words:
                different[part] += 1
                print(f"{part} {old['item']}: {path}: {words}")
    for part in (*parts, "wording"):
        print(f"{part:<10} {compared[part]:>9} values compared, {different[part]} different")
    return int(any(different[part] for part in parts))


def main() -> None:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    verbs = parser.add_subparsers(dest="verb", required=True)
    recording = verbs.add_parser("record", help="ask everything and keep the answers")
    recording.add_argument("out", type=Path)
    recording.add_argument("--isometer", default="isometer", help="the command (default: isometer)")
    recording.add_argument("--workers", type=int, default=2, help="processes at a time (default: 2)")
    comparing = verbs.add_parser("compare", help="print what differs between two recordings")
    comparing.add_argument("before", type=Path)
    comparing.add_argument("after", type=Path)
    comparing.add_argument("--rtol", type=float, default=0.0, help="relative difference of numbers that is allowed")
    for verb in (recording, comparing):
        verb.add_argument("--only", default=",".join(PARTS), help="parts, separated by commas (default: %(default)s)")
    given = parser.parse_args()
    parts = given.only.split(",")
    if unknown := set(parts) - set(PARTS):
        parser.error(f"--only has {', '.join(sorted(unknown))}; expected some of {', '.join(PARTS)}")
    if given.verb == "compare":
        sys.exit(compare(given.before, given.after, parts, given.rtol))
    record(given.out, shlex.split(given.isometer), parts, given.workers)


if __name__ == "__main__":
    main()
