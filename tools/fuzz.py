"""Try everything that reads input with random input. Writes docs/reliability.json and prints the table.

    python tools/fuzz.py [--budget 5m] [--jobs 2] [--targets expressions,files-npy,…]
                         [--keep] [--rows build/fuzz.jsonl] [--out docs/reliability.json]

Targets are in `tests/support/fuzz`. Each block of cases runs in a process of its own with little memory; a case that
takes more computing than promised is stopped and counts as a wait. Results are written to the rows as they come, with
the revision and a digest of the code that the target can reach. A second run resumes the first: it repeats the blocks
of targets whose code has changed, or with `--keep` only those of them in which a case failed. Without a budget
everything is run.

A case that fails is printed with its number: `python tools/fuzz.py --show NAME:NUMBER` prints it, `--again
NAME:NUMBER` runs it alone. Add it to the corpus of its target once it is mended.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import multiprocessing
import os
import platform
import re
import resource
import signal
import subprocess
import sys
import time
import traceback
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from contextlib import suppress
from datetime import date
from itertools import zip_longest
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[1]
sys.path[:0] = [str(ROOT / "tests"), str(ROOT / "src")]
os.environ.setdefault("OMP_NUM_THREADS", "1")

from isometer.errors import IsometerError  # noqa: E402
from isometer.files import write_whole  # noqa: E402
from isometer.run._code import code_version  # noqa: E402
from isometer.serialize import json_text  # noqa: E402
from support.fuzz.target import MEMORY, Target, targets  # noqa: E402

PATIENCE = 600.0  # seconds after which a case that waits for something is ended
COMPUTING = 60  # seconds of processor time after which a case is ended that does not stop when told to
Row = dict[str, Any]
Block = tuple[str, int, int]


class Waited(BaseException):
    """A case took more computing than promised."""


def code(target: Target) -> str:
    """Digest of the source that decides about a target's results."""
    if not target.everything:
        return code_version(target.check)
    digest = hashlib.sha256()
    for folder in ("src", "papers/src", "tests/support/fuzz"):
        for path in sorted((ROOT / folder).rglob("*.py")):
            digest.update(path.read_bytes())
    return digest.hexdigest()[:16]


def revision() -> str:
    """The commit that is checked out, marked where files differ from it."""
    call = ["git", "-C", str(ROOT), "describe", "--always", "--exclude=*", "--dirty"]
    done = subprocess.run(call, capture_output=True, text=True, check=False)
    return done.stdout.strip() or "unknown"


def tried(target: Target, case: Any) -> tuple[str, str]:
    """Outcome of one case, `answered` or `refused` if all is well, and a word about it."""
    usage = resource.getrusage(resource.RUSAGE_SELF)
    signal.setitimer(signal.ITIMER_PROF, target.seconds)
    try:
        target.check(case)
    except IsometerError as problem:
        return "refused", str(problem)[:200]
    except Waited:
        return "waited", f"more than {target.seconds:g} s of computing"
    except MemoryError as problem:
        return "memory", str(problem)[:200]
    except Exception as problem:  # whatever it is, it is what is looked for
        lines = traceback.format_exception_only(problem)
        place = traceback.extract_tb(problem.__traceback__)[-1]
        return "broken", f"{lines[-1].strip()[:200]} ({Path(place.filename).name}:{place.lineno})"
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
    grown = 1024 * (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - usage.ru_maxrss)
    return ("memory", f"{grown / 2**30:.1f} GiB") if grown > MEMORY else ("answered", "")


def child(package: str, name: str, first: int, count: int, told: Connection) -> None:
    """Run a block and tell each case as it ends."""

    def stop(*_: Any) -> None:
        raise Waited

    signal.signal(signal.SIGPROF, stop)
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    target = next(one for one in targets(package) if one.name == name)
    # Beyond what the interpreter and its libraries hold.
    base = 1024 * resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    resource.setrlimit(resource.RLIMIT_DATA, (base + 2 * MEMORY, base + 2 * MEMORY))
    for index in range(first, first + count):
        before = time.process_time()
        resource.setrlimit(resource.RLIMIT_CPU, (int(before + target.seconds) + COMPUTING, resource.RLIM_INFINITY))
        outcome, word = tried(target, target.case(index))
        after = time.process_time()
        told.send((index, outcome, word, after - before, after))
    told.close()


def waits(process: int) -> bool:
    """Whether a process waits for something other than a processor."""
    with suppress(OSError):
        return Path(f"/proc/{process}/stat").read_text(encoding="utf-8").rpartition(")")[2].split()[0] != "R"
    return True


def answers(told: Connection, process: int) -> bool:
    """Whether a block tells something, or ends, before patience does: a busy machine is no reason to end it."""
    while not told.poll(PATIENCE):
        if waits(process):
            return False
    return True


def block(package: str, target: Target, first: int, count: int) -> Row:
    """Results of a block, in which the process may die at any case."""
    outcomes = Counter[str]()
    bad: list[list[Any]] = []
    longest, spent = 0.0, 0.0
    at, end = first, first + count
    context = multiprocessing.get_context("spawn")
    while at < end:
        ours, theirs = context.Pipe(duplex=False)
        process = context.Process(target=child, args=(package, target.name, at, end - at, theirs))
        process.start()
        theirs.close()
        total = 0.0
        try:
            while at < end and answers(ours, process.pid or 0):
                index, outcome, word, seconds, total = ours.recv()
                outcomes[outcome] += 1
                longest = max(longest, seconds)
                if outcome not in ("answered", "refused"):
                    bad.append([index, outcome, word])
                at = index + 1
        except EOFError:
            process.join(PATIENCE)
        if at < end:  # this one ended the process, or took too long
            outcome = "hung" if process.is_alive() else "crashed"
            process.kill()
            outcomes[outcome] += 1
            bad.append([at, outcome, f"exit code {process.exitcode}"])
            at += 1
        process.join()
        spent += total
    return {
        "target": target.name,
        "first": first,
        "count": count,
        "outcomes": dict(outcomes),
        "bad": bad,
        "longest": round(longest, 3),
        "seconds": round(spent, 2),
    }


def read(path: Path) -> list[Row]:
    """Rows in the order in which they were written; a last line cut short is left out."""
    rows = []
    for line in path.read_text(encoding="utf-8").splitlines() if path.is_file() else ():
        with suppress(ValueError):
            rows.append(json.loads(line))
    return rows


def blocks_of(target: Target, size: int) -> Iterator[Block]:
    """First case and number of cases of every block."""
    return ((target.name, first, min(size, target.total - first)) for first in range(0, target.total, size))


def newest(chosen: list[Target], rows: list[Row], size: int) -> dict[Block, Row]:
    """The last row of each block of this size."""
    every = {block for target in chosen for block in blocks_of(target, size)}
    found = {(row["target"], row["first"], row["count"]): row for row in rows}
    return {block: row for block, row in found.items() if block in every}


def work(chosen: list[Target], done: set[Block], size: int) -> Iterator[tuple[Target, int, int]]:
    """Blocks that are left, one of each target in turn."""
    for turn in zip_longest(*(blocks_of(target, size) for target in chosen)):
        for target, one in zip(chosen, turn, strict=True):
            if one is not None and one not in done:
                yield target, *one[1:]


def run(
    package: str, chosen: list[Target], rows: Path, *, jobs: int, budget: float, size: int, keep: bool
) -> list[Row]:
    """All rows, old and new."""
    found = read(rows)
    codes, here = {target.name: code(target) for target in chosen}, revision()
    known = {
        one: row
        for one, row in newest(chosen, found, size).items()
        if row["code"] == codes[row["target"]] or (keep and not row["bad"])
    }
    rows.parent.mkdir(parents=True, exist_ok=True)
    blocks = work(chosen, set(known), size)
    total = sum(target.total for target in chosen)
    begun, ended = time.monotonic(), False
    with ThreadPoolExecutor(jobs) as pool, rows.open("a", encoding="utf-8") as file:
        pending: set[Future[Row]] = set()
        while not ended or pending:
            while len(pending) < jobs and not ended:
                one = next(blocks, None) if time.monotonic() - begun < budget else None
                if one is None:
                    ended = True
                else:
                    pending.add(pool.submit(block, package, *one))
            if not pending:
                break
            finished, pending = wait(pending, return_when=FIRST_COMPLETED)
            for future in finished:
                row = future.result()
                row |= {"code": codes[row["target"]], "revision": here}
                found.append(row)
                known[row["target"], row["first"], row["count"]] = row
                file.write(json.dumps(row) + "\n")
                file.flush()
            cases = sum(row["count"] for row in known.values())
            bad = sum(len(row["bad"]) for row in known.values())
            print(f"\r{cases} of {total} cases, {bad} bad, {time.monotonic() - begun:.0f} s ", end="", file=sys.stderr)
    print(file=sys.stderr)
    return found


def summary(chosen: list[Target], rows: list[Row], size: int) -> Row:
    """The table, ready for JSON."""
    last = list(newest(chosen, rows, size).values())
    table = []
    for target in chosen:
        mine = [row for row in last if row["target"] == target.name]
        earlier = [row for row in rows if row["target"] == target.name and not any(row is one for one in mine)]
        outcomes, revisions = Counter[str](), Counter[str]()
        for row in mine:
            outcomes.update(row["outcomes"])
            revisions[row["revision"]] += row["count"]
        table.append(
            {
                "target": target.name,
                "planned": target.total,
                "cases": sum(row["count"] for row in mine),
                "revisions": dict(revisions),
                "outcomes": dict(sorted(outcomes.items())),
                "longest": max((row["longest"] for row in mine), default=0.0),
                "bad": [one for row in mine for one in row["bad"]],
                "bad_before": [[row["revision"], *one] for row in earlier for one in row["bad"]],
            }
        )
    return {
        "date": date.today().isoformat(),
        "python": platform.python_version(),
        "machine": platform.machine(),
        "seconds": round(sum(row["seconds"] for row in last)),
        "targets": table,
    }


def seconds(text: str) -> float:
    """Seconds of a budget such as `90s`, `5m` or `3h`."""
    match = re.fullmatch(r"(\d+(?:\.\d+)?)([smh]?)", text)
    if match is None:
        raise argparse.ArgumentTypeError(f"{text!r} is no time; expected for instance 90s, 5m or 3h")
    return float(match[1]) * {"": 1, "s": 1, "m": 60, "h": 3600}[match[2]]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--budget", type=seconds, default=float("inf"), help="time, such as 5m")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--targets", default="", help="names, with commas; all unless given")
    parser.add_argument("--package", default="support.fuzz", help="where targets are")
    parser.add_argument("--keep", action="store_true", help="blocks that passed with earlier code are not repeated")
    parser.add_argument("--size", type=int, default=200, help="cases in a block")
    parser.add_argument("--rows", type=Path, default=ROOT / "build/fuzz.jsonl")
    parser.add_argument("--out", type=Path)
    parser.add_argument("--show", metavar="NAME:NUMBER", help="print one case")
    parser.add_argument("--again", metavar="NAME:NUMBER", help="run one case in this process")
    options = parser.parse_args()
    every = list(targets(options.package))
    if options.show or options.again:
        name, _, number = (options.show or options.again).partition(":")
        target = next(one for one in every if one.name == name)
        case = target.case(int(number))
        print(json.dumps(case, indent=1))
        if options.again:
            target.check(case)
        return 0
    names = {name for name in options.targets.split(",") if name}
    chosen = [one for one in every if not names or one.name in names]
    rows = run(
        options.package,
        chosen,
        options.rows,
        jobs=options.jobs,
        budget=options.budget,
        size=options.size,
        keep=options.keep,
    )
    result = summary(chosen, rows, options.size)
    for row in result["targets"]:
        told = ", ".join(f"{count} {outcome}" for outcome, count in row["outcomes"].items())
        print(f"{row['target']:<20} {row['cases']:>6} of {row['planned']:<6} {told}; longest {row['longest']:.1f} s")
        for index, outcome, word in row["bad"][:10]:
            print(f"    {row['target']}:{index} {outcome}: {word}")
    if options.out:
        write_whole(options.out, json_text(result))
    return int(any(row["bad"] for row in result["targets"]))


if __name__ == "__main__":
    sys.exit(main())
