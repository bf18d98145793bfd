"""Do transformers of finite width follow theory? Random configurations, one JSON row each, and a table.

    python tools/check_transformers.py --rows FILE.jsonl [--configurations 60] [--first 0] [--widest 512] [--runs 6]
    python tools/check_transformers.py --rows FILE.jsonl --deep
    python tools/check_transformers.py --rows FILE.jsonl --report

Every configuration is drawn from its own number; rows that the file has already are not computed again, so a run that
was stopped goes on. `--deep` adds six of width 1024 with 64 blocks. A row has, for every metric, the largest departure
|mean over runs − theory| over layers; `needed`, the constant c = c₁ = c₂ with which
4 standard errors + the stated error of theory + (c₁/heads + c₂/head_width) · scale covers it at every layer; and its
share of what c = 0.5 allows. The report compares `needed` with `CONSTANTS`.
"""

from __future__ import annotations

import argparse
import json
import math
import time
from pathlib import Path
from typing import Any

import numpy as np

from isometer.metrics import SEQUENCE_METRICS
from isometer.simulate import simulate
from isometer.spec import Spec
from isometer.theory.prediction import predict
from isometer.work import allow

_METRICS = [*SEQUENCE_METRICS, "gradient_log_norm"]
_BIAS = 0.5  # c₁ and c₂ of `of_allowed`
CONSTANTS = {
    "rms": 0.1,
    "token_cosine": 0.25,
    "sample_cosine": 0.25,
    "attention_entropy": 1.0,
    "attention_participation": 1.0,
    "gradient_log_norm": 1.0,
}
"""c₁ and c₂ by metric. Chosen after 96 configurations were seen: 0.5 for all was too small for what attention reads."""
_DEEP = 1000  # numbers of deep configurations begin here
_PLACES = ("pre", "post", "sandwich", "peri", "deep", "none")


def configuration(number: int, widest: int) -> dict[str, Any]:
    """The keywords of a random `gpt`, and the cosine of its tokens."""
    rng = np.random.default_rng([30, number])
    deep = number >= _DEEP
    heads = int(rng.choice([16, 32, 64] if deep else [8, 16, 32, 64]))
    found = {
        "norm": _PLACES[number % len(_PLACES)],
        "width": 1024 if deep else int(rng.choice([w for w in (128, 256, 512, 1024) if w <= widest])),
        "heads": heads,
        "tokens": 16 if deep else int(rng.choice([16, 32, 64])),
        "blocks": 64 if deep else int(rng.integers(2, 9)),
        "qk_gain": round(float(rng.uniform(0.3, 1.8)), 3),
        "branch": round(float(rng.uniform(0.2, 1.0)), 3),
        "causal": bool(rng.integers(2)),
        "qk_norm": bool(rng.integers(4) == 0),
        "rotary": bool(rng.integers(3) == 0),
        "gated": bool(rng.integers(3) == 0),
        "norm_kind": str(rng.choice(["layer", "rms"])),
        "activation": str(rng.choice(["gelu", "relu", "tanh"])),
        "cosine": round(float(rng.uniform(0.0, 0.6)), 3),
    }
    if rng.integers(4) == 0:
        found["key_heads"] = heads // 4
    if found["norm"] == "pre" and rng.integers(3) == 0:  # elsewhere its input is not Gaussian, and theory says so
        found["norm_kind"] = "dyt"
    # without a norm, branches of 64 blocks that add up leave the range of numbers
    return found | ({"branch": round(found["branch"] / 8, 3)} if deep and found["norm"] == "none" else {})


def departures(keywords: dict[str, Any], runs: int, seed: int) -> dict[str, Any]:
    """Theory against runs of the dense engine, by metric."""
    own = {name: value for name, value in keywords.items() if name != "cosine"}
    spec = Spec(f"gpt({', '.join(f'{name}={value!r}' for name, value in own.items())})")
    rng, cosine = np.random.default_rng(seed), keywords["cosine"]
    width, tokens = spec.shape.width, spec.shape.axes[0]
    shared, apart = rng.standard_normal((1, width, 1)), rng.standard_normal((2, width, tokens))
    batch = math.sqrt(cosine) * shared + math.sqrt(1 - cosine) * apart
    start = time.process_time()
    theory = predict(spec, batch, metrics=_METRICS)
    middle = time.process_time()
    with allow(memory="6GiB", seconds="2h"):  # the weights of 64 blocks are 3 GiB, kept for the way back
        drawn = simulate(spec, batch, runs=runs, metrics=_METRICS, engine="dense", dtype="float32", seed=seed)
    stated = float(theory.attrs["relative_error"])
    finite_size = _BIAS / keywords["heads"] + _BIAS * keywords["heads"] / width
    row: dict[str, Any] = {
        "stated_error": stated,
        "finite_size": finite_size,
        "theory_seconds": middle - start,
        "simulation_seconds": time.process_time() - middle,
    }
    for name in _METRICS:
        expected, values = theory[name].values[0], drawn[name].values
        known = np.isfinite(expected) & np.isfinite(values).all(axis=0)
        scale = np.ones(known.sum()) if name.endswith("cosine") else np.maximum(np.abs(expected[known]), 1.0)
        if name == "gradient_log_norm":
            scale = np.ones(known.sum())
        error = values[:, known].std(axis=0, ddof=1) / math.sqrt(runs)
        off = np.abs(values[:, known].mean(axis=0) - expected[known])
        row[name] = {
            "largest": float(off.max()),
            "of_allowed": float((off / (4 * error + (stated + finite_size) * scale)).max()),
            "needed": float((_BIAS * (off - 4 * error - stated * scale) / (finite_size * scale)).clip(0.0).max()),
        }
    return row


def known_rows(path: Path | None, **settings: int) -> dict[int, dict[str, Any]]:
    """The rows of a file by their numbers, those of other settings and a last line that was cut off left out."""
    found: dict[int, dict[str, Any]] = {}
    for line in path.read_text(encoding="utf-8").splitlines() if path is not None and path.exists() else ():
        try:
            row = json.loads(line)
        except json.JSONDecodeError:
            continue
        if all(row.get(name) == value for name, value in settings.items()):
            found[row["number"]] = row
    return found


def _worst(row: dict[str, Any]) -> str:
    return max(_METRICS, key=lambda name: row[name]["of_allowed"])


def outside(row: dict[str, Any]) -> list[str]:
    """Metrics that leave what is allowed."""
    return [name for name in _METRICS if row[name]["needed"] > CONSTANTS[name]]


def report(rows: dict[int, dict[str, Any]]) -> str:
    """A table in Markdown, a line per metric, and the configurations that leave what is allowed."""
    if not rows:
        return "no rows"
    deep = [row for number, row in rows.items() if number >= _DEEP]
    seconds = sum(row["theory_seconds"] + row["simulation_seconds"] for row in rows.values())
    columns = (
        "median departure",
        "largest",
        "width 1024, depth 64",
        "c needed: 95 % of rows",
        "all but one",
        "all",
        "c",
    )
    lines = [f"| metric | {' | '.join(columns)} |", "| --- |" + " --: |" * len(columns)]
    for name in _METRICS:
        off = [row[name]["largest"] for row in rows.values()]
        needed = sorted(row[name]["needed"] for row in rows.values())
        largest = f"{max((row[name]['largest'] for row in deep), default=math.nan):.2g}"
        shown = (needed[int(0.95 * (len(needed) - 1))], needed[-2] if len(needed) > 1 else needed[-1], needed[-1])
        cells = (f"{np.median(off):.2g}", f"{max(off):.2g}", largest, *(f"{one:.2g}" for one in shown))
        lines.append(f"| `{name}` | {' | '.join(cells)} | {CONSTANTS[name]:g} |")
    left = {number: outside(row) for number, row in rows.items() if outside(row)}
    told = ", ".join(f"{number} ({', '.join(names)})" for number, names in left.items()) or "none"
    lines += [
        "",
        f"{len(rows)} configurations, {len(deep)} of them of width 1024 and depth 64; {seconds / 60:.0f} min of CPU.",
    ]
    lines.append(f"Outside: {told}.")
    return "\n".join(lines)


def main() -> None:
    """Run the configurations that are asked for."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    for name, default in (("configurations", 60), ("first", 0), ("widest", 512), ("runs", 6)):
        parser.add_argument(f"--{name}", type=int, default=default)
    parser.add_argument("--rows", type=Path)
    parser.add_argument("--minutes", type=float, default=math.inf, help="of CPU, after which no configuration is begun")
    parser.add_argument("--deep", action="store_true", help="the six of width 1024 and depth 64")
    parser.add_argument("--report", action="store_true", help="only print what the rows say")
    given = parser.parse_args()
    settings = {"widest": given.widest, "runs": given.runs}
    rows = known_rows(given.rows, **settings)
    first, count = (_DEEP, 6) if given.deep else (given.first, given.configurations)
    for number in () if given.report else range(first, first + count):
        if number in rows:
            continue
        if time.process_time() > 60.0 * given.minutes:
            print(f"stopped before configuration {number}")
            break
        keywords = configuration(number, given.widest)
        row = {"number": number, **settings, **keywords, **departures(keywords, given.runs, number)}
        rows[number] = row
        if given.rows is not None:
            with given.rows.open("a", encoding="utf-8") as file:
                file.write(json.dumps(row) + "\n")
        shown = " ".join(f"{name}={value}" for name, value in keywords.items())
        numbers = " ".join(f"{row[name]['of_allowed']:.2f}" for name in _METRICS)
        print(f"{number:3d} {shown} | {numbers} | worst {_worst(row)} {row[_worst(row)]['largest']:.3g}", flush=True)
    print(report(rows))


if __name__ == "__main__":
    main()
