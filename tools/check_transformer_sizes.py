"""Does what theory leaves out fall like c₁/heads + c₂/head width? Equal configurations at growing sizes.

    python tools/check_transformer_sizes.py --rows FILE.jsonl [--minutes 20]
    python tools/check_transformer_sizes.py --rows FILE.jsonl --report

Tokens have one Gram matrix at every size, so theory says the same of all. A row has, for one configuration and one
size, the mean over runs minus theory at the last layer, and its standard error, by metric. The report fits
c₁/heads + c₂/head width to the ten sizes of a configuration, and the exponent with which the departure falls as heads
and head width grow together.
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

METRICS = (*SEQUENCE_METRICS, "gradient_log_norm")
TOGETHER = ((4, 4), (8, 8), (16, 16), (32, 32))
SIZES = (*TOGETHER, (4, 32), (8, 32), (16, 32), (32, 4), (32, 8), (32, 16))
"""Heads and head widths."""
CONFIGURATIONS = {
    "pre": "norm='pre', qk_gain=1.2, branch=0.7",
    "post, causal": "norm='post', qk_gain=1.2, branch=0.8, causal=True",
    "peri, gated": "norm='peri', norm_kind='rms', qk_gain=1.5, gated=True",
    "deep, QK-norm": "norm='deep', qk_gain=1.2, qk_norm=True",
    "none, tanh": "norm='none', activation='tanh', qk_gain=1.0, branch=0.6",
}
_TOKENS, _SAMPLES, _COSINE = 8, 2, 0.3
_SIGNIFICANT = 4.0  # standard errors from which on a departure enters the fit of an exponent


def network(options: str, heads: int, head_width: int) -> Spec:
    """Three blocks of this size."""
    width = heads * head_width
    causal = "" if "causal" in options else ", causal=False"
    sizes = f"blocks=3, width={width}, hidden={2 * width}, heads={heads}, tokens={_TOKENS}"
    return Spec(f"gpt({sizes}, {options}{causal})")


def tokens(width: int) -> np.ndarray:
    """A batch whose tokens have one cosine exactly, `(samples, width, tokens)`."""
    count = _SAMPLES * _TOKENS
    frame = np.linalg.qr(np.random.default_rng(width).standard_normal((width, count)))[0].T * math.sqrt(width)
    root = np.linalg.cholesky((1 - _COSINE) * np.eye(count) + _COSINE)
    return (root @ frame).reshape(_SAMPLES, _TOKENS, width).transpose(0, 2, 1)


def measured(name: str, heads: int, head_width: int) -> dict[str, Any]:
    """Means of networks that are drawn, minus theory."""
    spec, width = network(CONFIGURATIONS[name], heads, head_width), heads * head_width
    batch = tokens(width)
    runs = int(np.clip(100_000 // width, 100, 1500))
    theory = predict(spec, batch, metrics=METRICS)
    seed = 1000 * list(CONFIGURATIONS).index(name) + width
    drawn = simulate(spec, batch, runs=runs, metrics=METRICS, engine="dense", dtype="float32", seed=seed)
    row: dict[str, Any] = {"name": name, "heads": heads, "head_width": head_width, "runs": runs}
    row["stated_error"] = float(theory.attrs["relative_error"])
    for metric in METRICS:
        expected = theory[metric].values[0]
        # gradients at the first layer, everything else where it was read last
        at = np.flatnonzero(np.isfinite(expected))[0 if metric == "gradient_log_norm" else -1]
        values = drawn[metric].values[:, at]
        row[metric] = [float(values.mean() - expected[at]), float(values.std(ddof=1) / math.sqrt(runs))]
        row[f"theory_{metric}"] = float(expected[at])
    return row


def fitted(rows: list[dict[str, Any]], metric: str) -> dict[str, float]:
    """c₁ and c₂ of one configuration by weighted least squares, and the exponent along equal heads and head widths."""
    off, error = np.array([row[metric] for row in rows]).T
    sizes = np.array([[1 / row["heads"], 1 / row["head_width"]] for row in rows])
    weight = 1 / np.hypot(error, 0.2 * np.abs(off) + 1e-12)  # higher orders of small sizes: a fifth of a departure
    constants = np.linalg.lstsq(sizes * weight[:, None], off * weight, rcond=None)[0]
    found = {"c1": float(constants[0]), "c2": float(constants[1]), "exponent": math.nan, "exponent_error": math.nan}
    along = [row for row in rows if row["heads"] == row["head_width"]]
    seen = [(row["heads"], *row[metric]) for row in along if abs(row[metric][0]) > _SIGNIFICANT * row[metric][1]]
    if len(seen) >= 3 and len({value > 0 for _, value, _ in seen}) == 1:
        size, value, spread = np.array(seen).T
        share = np.hypot(spread / np.abs(value), 0.1)  # relative errors, and higher orders
        design = np.stack([np.ones(len(seen)), np.log(size)], axis=1) / share[:, None]
        covariance = np.linalg.inv(design.T @ design)
        slope = covariance @ design.T @ (np.log(np.abs(value)) / share)
        found |= {"exponent": float(slope[1]), "exponent_error": float(math.sqrt(covariance[1, 1]))}
    return found


def known(path: Path | None) -> list[dict[str, Any]]:
    """The rows of a file."""
    lines = path.read_text(encoding="utf-8").splitlines() if path is not None and path.exists() else ()
    return [json.loads(line) for line in lines]


def report(rows: list[dict[str, Any]]) -> str:
    """A table in Markdown: by configuration and metric, the constants and the exponent."""
    lines = ["| configuration | metric | theory | departure at 4 × 4, 8 × 8, 16 × 16, 32 × 32 | c₁ | c₂ | falls like |"]
    lines.append("| --- | --- | --: | --: | --: | --: | --: |")
    for name in CONFIGURATIONS:
        own = [row for row in rows if row["name"] == name]
        if len(own) < len(SIZES):
            continue
        along = {row["heads"]: row for row in own if row["heads"] == row["head_width"]}
        for metric in METRICS:
            fit = fitted(own, metric)
            shown = ", ".join(f"{along[size][metric][0]:+.2g}" for size, _ in TOGETHER)
            power = (
                "below its noise"
                if math.isnan(fit["exponent"])
                else (f"size^{fit['exponent']:.2f} ± {fit['exponent_error']:.2f}")
            )
            theory = own[0][f"theory_{metric}"]
            lines.append(
                f"| {name} | `{metric}` | {theory:.3g} | {shown} | {fit['c1']:.2g} | {fit['c2']:.2g} | {power} |"
            )
    return "\n".join(lines)


def main() -> None:
    """Run the sizes that the file does not have."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=Path)
    parser.add_argument("--minutes", type=float, default=math.inf, help="of CPU, after which no size is begun")
    parser.add_argument("--report", action="store_true", help="only print what the rows say")
    given = parser.parse_args()
    rows = known(given.rows)
    done = {(row["name"], row["heads"], row["head_width"]) for row in rows}
    for name in () if given.report else CONFIGURATIONS:
        for heads, head_width in SIZES:
            if (name, heads, head_width) in done or time.process_time() > 60.0 * given.minutes:
                continue
            row = measured(name, heads, head_width)
            rows.append(row)
            if given.rows is not None:
                with given.rows.open("a", encoding="utf-8") as file:
                    file.write(json.dumps(row) + "\n")
            print(name, heads, head_width, {metric: row[metric] for metric in METRICS}, flush=True)
    print(report(rows))


if __name__ == "__main__":
    main()
