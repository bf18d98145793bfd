"""Do transformers of finite width follow theory? Random configurations, one JSON row each, and a table.

    python tools/check_transformers.py [--configurations 60] [--first 0] [--widest 512] [--runs 6] [--rows FILE.jsonl]

Every configuration is drawn from its own number. A row
has, for every metric, the largest departure |mean over runs − theory| over layers, in units of what is allowed:
4 standard errors + the stated error of theory + (c₁/heads + c₂/head_width) · scale, with c₁ = c₂ = 0.5.
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

_METRICS = [*SEQUENCE_METRICS, "gradient_log_norm"]
_BIAS = 0.5  # c₁ and c₂


def configuration(number: int, widest: int) -> dict[str, Any]:
    """The keywords of a random `gpt`, and the cosine of its tokens."""
    rng = np.random.default_rng([30, number])
    heads = int(rng.choice([8, 16, 32, 64]))
    return {
        "norm": ("pre", "post", "sandwich", "peri", "none")[number % 5],
        "width": int(rng.choice([w for w in (128, 256, 512, 1024) if w <= widest])),
        "heads": heads,
        "tokens": int(rng.choice([16, 32, 64])),
        "blocks": int(rng.integers(2, 9)),
        "qk_gain": round(float(rng.uniform(0.3, 1.8)), 3),
        "branch": round(float(rng.uniform(0.2, 1.0)), 3),
        "causal": bool(rng.integers(2)),
        "qk_norm": bool(rng.integers(4) == 0),
        "activation": str(rng.choice(["gelu", "relu", "tanh"])),
        "cosine": round(float(rng.uniform(0.0, 0.6)), 3),
    }


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
    seconds = time.process_time() - start
    drawn = simulate(spec, batch, runs=runs, metrics=_METRICS, engine="dense", dtype="float32", seed=seed)
    stated = float(theory.attrs["relative_error"])
    finite_size = _BIAS / keywords["heads"] + _BIAS * keywords["heads"] / width
    row: dict[str, Any] = {"stated_error": stated, "finite_size": finite_size, "theory_seconds": seconds}
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
        }
    return row


def main() -> None:
    """Run the configurations that are asked for."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    for name, default in (("configurations", 60), ("first", 0), ("widest", 512), ("runs", 6)):
        parser.add_argument(f"--{name}", type=int, default=default)
    parser.add_argument("--rows", type=Path)
    given = parser.parse_args()
    outside = 0
    for number in range(given.first, given.first + given.configurations):
        keywords = configuration(number, given.widest)
        row = {"number": number, **keywords, **departures(keywords, given.runs, number)}
        worst = max(_METRICS, key=lambda name: row[name]["of_allowed"])
        outside += row[worst]["of_allowed"] > 1.0
        if given.rows is not None:
            with given.rows.open("a", encoding="utf-8") as file:
                file.write(json.dumps(row) + "\n")
        shown = " ".join(f"{name}={value}" for name, value in keywords.items())
        numbers = " ".join(f"{row[name]['of_allowed']:.2f}" for name in _METRICS)
        print(f"{number:3d} {shown} | {numbers} | worst {worst} {row[worst]['largest']:.3g}", flush=True)
    print(f"{outside} of {given.configurations} configurations leave what is allowed; columns: {', '.join(_METRICS)}")


if __name__ == "__main__":
    main()
