"""Does probing leave every model as it was? Recomputes docs/probing.json and prints the table.

    python tools/check_probing.py [--jobs 2] [--suites difficult,lines,transformers] [--models PATTERN]
                                  [--operations probe,…] [--conditions plain,…] [--moments 1] [--every K]
                                  [--limit 60] [--rows build/probing.jsonl] [--out docs/probing.json]
                                  [--search] [--amend]

Difficult models (`tests/support/difficult`) and small ones of every architecture of `transformers` are probed,
diagnosed, treated and monitored: with gradients, without, and interrupted. Each is compared with what it was before and
with a twin that nobody touched (`tests/support/probing`). Every model has a process of its own, which is ended when one
case takes more than the limit.

Results are written to the rows as they come; a second run goes on where the first ended, unless the code has changed.
--search first finds anew which architectures of `transformers` can be built small. --amend puts the cases that ran in
the place of the same ones in the earlier results, and keeps the others; date and revision are written beside them.

The limit is of seconds that pass, not of computing: on a busy machine it has to be longer.
"""

from __future__ import annotations

import argparse
import dataclasses
import hashlib
import json
import os
import resource
import selectors
import signal
import sys
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from fnmatch import fnmatch
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[1]
sys.path[:0] = [str(ROOT / "tests"), str(ROOT / "src")]
os.environ.setdefault("OMP_NUM_THREADS", "1")
# Newer instructions for half precision are not what every machine computes with.
os.environ.setdefault("ONEDNN_MAX_CPU_ISA", "AVX512_CORE_FP16")

import torch  # noqa: E402

from isometer.files import write_whole  # noqa: E402
from isometer.serialize import json_text  # noqa: E402
from made import made  # noqa: E402
from support import small_transformers  # noqa: E402
from support.probing.suites import SUITES, Case, cases, results  # noqa: E402
from support.probing.tables import BAD, Row, amended, summary  # noqa: E402

MEMORY = 8 << 30  # bytes of address space of a process
SEARCH = 25  # seconds of computing for the recipe of one architecture


_told = [0.0]


def told(text: str, last: bool) -> None:
    """Progress: in one line of a terminal, else one line in ten seconds."""
    terminal = sys.stderr.isatty()
    if last or time.monotonic() - _told[0] > (0.2 if terminal else 10):
        _told[0] = time.monotonic()
        print(
            f"\r{text}  " if terminal else text, end="" if terminal and not last else "\n", file=sys.stderr, flush=True
        )


class Child:
    """A process that works through the cases of one model and tells each result as it comes."""

    def __init__(self, work: list[Any], run: Callable[[Any], Iterable[Row]]) -> None:
        self.work, self.finished = work, 0  # how many of them
        self._text, self.begun = b"", time.monotonic()
        self.output, inside = os.pipe()
        sys.stdout.flush()
        self.pid = os.fork()
        if self.pid == 0:
            os.close(self.output)
            _work(work, run, inside)
        os.close(inside)

    def read(self) -> tuple[list[Row], bool]:
        """Messages that have arrived, and whether that was all."""
        data = os.read(self.output, 1 << 16)
        self._text += data
        *lines, self._text = self._text.split(b"\n")
        if lines:
            self.begun = time.monotonic()
        return [json.loads(line) for line in lines], not data

    def end(self) -> int:
        """End it and say how it ended."""
        os.close(self.output)
        with suppress(ProcessLookupError):
            os.kill(self.pid, signal.SIGKILL)
        return os.waitpid(self.pid, 0)[1]


def _work(work: list[Any], run: Callable[[Any], Iterable[Row]], output: int) -> None:
    """Never returns."""
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, 1)
    os.dup2(nowhere, 2)
    torch.set_num_threads(1)
    try:
        for index, one in enumerate(work):
            for row in run(one):
                os.write(output, json.dumps({"index": index, "row": row}).encode() + b"\n")
            os.write(output, json.dumps({"index": index, "done": True}).encode() + b"\n")
    except BaseException as problem:  # nothing may return into the copy of the parent that this is
        with suppress(OSError):
            os.write(output, json.dumps({"problem": f"{type(problem).__name__}: {problem}"}).encode() + b"\n")
    finally:
        os._exit(0)


def parallel(
    units: list[list[Any]], run: Callable[[Any], Iterable[Row]], jobs: int, limit: float
) -> Iterator[tuple[Any, Row | None, str]]:
    """Work through units in processes of their own.

    Args:
        units: lists of things to do, each list in one process.
        run: what to do with one.
        jobs: processes at a time.
        limit: seconds without a result after which a process is ended.

    Yields:
        The thing, a row of it, and `""`; without a row `"done"`, `"hung"` or `"crashed"` when it is over.
    """
    waiting, running = units[::-1], selectors.DefaultSelector()
    while waiting or running.get_map():
        while waiting and len(running.get_map()) < jobs:
            child = Child(waiting.pop(), run)
            running.register(child.output, selectors.EVENT_READ, child)
        ready = {key.data for key, _ in running.select(timeout=0.5)}
        for key in list(running.get_map().values()):
            child, over, how = key.data, False, "crashed"
            if child in ready:
                messages, over = child.read()
                for message in messages:
                    if "problem" in message:
                        print(f"{child.work[child.finished]}: {message['problem']}", file=sys.stderr)
                        continue
                    thing = child.work[message["index"]]
                    if message.get("done"):
                        child.finished = message["index"] + 1
                        yield thing, None, "done"
                    else:
                        yield thing, message["row"], ""
            elif time.monotonic() - child.begun > limit:
                over, how = True, "hung"
            if over:
                running.unregister(child.output)
                child.end()
                left = child.work[child.finished :]
                if left:  # the first of them is to blame; the others get a new process
                    yield left[0], None, how
                    if left[1:]:
                        waiting.append(left[1:])


def code_digest() -> str:
    """Of everything that a result depends on."""
    found = hashlib.blake2b(digest_size=12)
    for folder in (ROOT / "src" / "isometer", ROOT / "tests" / "support"):
        for path in sorted(folder.rglob("*.py")):
            found.update(path.read_bytes())
    return found.hexdigest()


class Rows:
    """Results on disk, one line each; those of other code are put aside."""

    def __init__(self, path: Path) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        digest, lines = code_digest(), path.read_text(encoding="utf-8").splitlines() if path.exists() else []
        if lines and json.loads(lines[0])["code"] != digest:
            path.rename(path.with_suffix(".old.jsonl"))
            print(f"the code has changed; earlier rows are in {path.with_suffix('.old.jsonl')}", file=sys.stderr)
            lines = []
        self._pending: dict[str, list[Row]] = defaultdict(list)
        self.known: dict[str, list[Row]] = {}
        for line in lines[1:]:
            entry = json.loads(line)
            self.known[entry["key"]] = entry["rows"]
        self._file = path.open("a", encoding="utf-8")
        if not lines:
            self._write({"code": digest})

    def _write(self, entry: Row) -> None:
        self._file.write(json.dumps(entry) + "\n")
        self._file.flush()

    def add(self, case: Case, row: Row) -> None:
        """One result of a case that may have more."""
        self._pending[case.key].append({"suite": case.suite, **row})

    def close(self, case: Case, how: str) -> list[Row]:
        """The case is over; says what came of it."""
        rows = self._pending.pop(case.key, [])
        if how != "done":
            lost = dataclasses.asdict(case) | {"outcome": how, "ended": how, "changed": [], "message": "", "groups": []}
            rows.append(lost)
        self.known[case.key] = rows
        self._write({"key": case.key, "rows": rows})
        return rows


def show(lines: list[Row]) -> None:
    """Print a table."""
    if not lines:
        return
    texts = [list(lines[0]), *([str(value) for value in line.values()] for line in lines)]
    widths = [max(map(len, column)) for column in zip(*texts, strict=True)]
    for text in texts:
        print("  ".join(cell.ljust(width) for cell, width in zip(text, widths, strict=True)).rstrip())
    print()


def _searched(name: str) -> list[Row]:
    resource.setrlimit(resource.RLIMIT_CPU, (SEARCH, SEARCH))
    return [small_transformers.search(name)]


def find_architectures(jobs: int, limit: float) -> None:
    """Write the list of architectures that can be built small, and why others cannot."""
    found: Row = {}
    names = small_transformers.architectures()
    for name, row, how in parallel([[name] for name in names], _searched, jobs, limit):
        if row is not None:
            found[name] = row
        elif name not in found:
            found[name] = {"why_not": how}
        told(f"{len(found)} of {len(names)} architectures", len(found) == len(names))
    good = {name: found[name] for name in sorted(found) if "recipe" in found[name]}
    write_whole(small_transformers.LIST, json.dumps(good, indent=1) + "\n")
    reasons = Counter(str(row["why_not"]).partition(":")[2][:60] for row in found.values() if "why_not" in row)
    print(
        f"{len(good)} of {len(names)} can be built and run; the others: {dict(reasons.most_common(12))}",
        file=sys.stderr,
    )


def chosen(options: argparse.Namespace) -> list[Case]:
    """The cases that the options ask for."""
    found = []
    for suite in options.suites.split(","):
        every = [
            case
            for case in cases(suite, moments=options.moments)
            if fnmatch(case.model, options.models)
            and (not options.operations or case.operation in options.operations.split(","))
            and (not options.conditions or case.condition in options.conditions.split(","))
        ]
        names = list(dict.fromkeys(case.model for case in every))[:: options.every]
        found += [case for case in every if case.model in set(names)]
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--suites", default=",".join(SUITES))
    parser.add_argument("--models", default="*", help="pattern of names, such as 'mlp:*hook*'")
    parser.add_argument("--operations", default="")
    parser.add_argument("--conditions", default="")
    parser.add_argument("--moments", type=int, default=1, help="interruptions per model, operation and kind")
    parser.add_argument("--every", type=int, default=1, help="take every K-th model")
    parser.add_argument("--limit", type=float, default=60, help="seconds that one case may take")
    parser.add_argument("--rows", type=Path, default=ROOT / "build" / "probing.jsonl")
    parser.add_argument("--out", type=Path, default=ROOT / "docs" / "probing.json")
    parser.add_argument("--search", action="store_true", help="find anew which architectures can be built small")
    parser.add_argument("--amend", action="store_true", help="exchange these cases in the earlier results")
    options = parser.parse_args()
    warm_up()
    if options.search:
        find_architectures(options.jobs, 2 * options.limit)
    wanted, rows = chosen(options), Rows(options.rows)
    if options.search:  # recipes may have changed
        rows.known = {key: known for key, known in rows.known.items() if not key.startswith("transformers ")}
    units: dict[tuple[str, str], list[Case]] = defaultdict(list)
    for case in wanted:
        if case.key not in rows.known:
            units[case.suite, case.model].append(case)
    start, done, total, bad = time.monotonic(), 0, sum(map(len, units.values())), 0
    print(f"{len(wanted)} cases, {len(wanted) - total} of them known", file=sys.stderr)
    for case, row, how in parallel(
        list(units.values()), lambda case: (one.row() for one in results(case)), options.jobs, options.limit
    ):
        if row is not None:
            rows.add(case, row)
            continue
        bad += sum(one["outcome"] in BAD for one in rows.close(case, how))
        done += 1
        pace = (time.monotonic() - start) / done * (total - done)
        told(f"{done} of {total} cases, {bad} not as promised, {pace / 60:.0f} min left", done == total)
    found = [row for case in wanted for row in rows.known.get(case.key, [])]
    kept = summary(found) | {"made": made()}
    if options.amend:
        kept = amended(json.loads(options.out.read_text(encoding="utf-8")), found, whole(wanted))
        kept["ran_again"] = [made() | line for line in kept["ran_again"]]
    show(kept["by_class"])
    show(kept["totals"])
    show(kept["out_of_scope"])
    write_whole(options.out, json_text(kept, indent=1) + "\n")


def whole(some: list[Case]) -> set[tuple[str, str, str]]:
    """Suites, operations and conditions all cases of which are among some."""
    left, have = defaultdict(set), {case.key for case in some}
    for suite in SUITES:
        for case in cases(suite):
            left[case.suite, case.operation, case.condition].add(case.key)
    return {place for place, keys in left.items() if keys <= have}


def warm_up() -> None:
    """Load in this process what its children use."""
    from isometer.doctor import diagnose, probe, treat

    _ = probe, diagnose, treat
    torch.set_num_threads(1)
    small_transformers.architectures()
    from transformers import AutoModel, BertModel, CLIPModel, LlamaModel, ViTModel, WhisperModel

    _ = AutoModel, BertModel, CLIPModel, LlamaModel, ViTModel, WhisperModel


if __name__ == "__main__":
    main()
