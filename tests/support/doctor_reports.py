"""Doctor's reports for tests of the page and of the terminal: one measured, others made up at any size."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import torch
from torch import nn

from isometer.doctor import Examination, probe

HOSTILE = (
    "</script><img src=x onerror=alert(1)>",
    "\"><svg onload=alert(2)>'",
    "<!--<script>alert(3)//",
    "[bold red]markup[/] %{y} ${title} {{x}}",
    '<a href="javascript:alert(4)">go</a>&lt;b&gt;&amp;',
    "line\u2028separator\u2029and\x1b[31mescape\x00",
    "a" * 3000,
)


def report_of(found: Examination, *, model: str, grams: int = 12) -> dict[str, Any]:
    """The columns of a report, of what a probe found."""
    rows = found.to_dict()["layers"]
    metrics = {name: [row["metrics"][name] for row in rows] for name in found.values}
    picked = sorted({round(i) for i in np.linspace(0, len(rows) - 1, grams)})
    picked = [layer for layer in picked if found.gram(layer) is not None]
    return {
        "schema": 1,
        "model": model,
        "mode": "train",
        "batch": {"samples": found.samples, "description": "standard Gaussian"},
        "healthy": True,
        "summary": "The signal and its gradients cross the model unharmed.",
        "findings": [],
        "layers": [{key: value for key, value in row.items() if key != "metrics"} for row in rows],
        "metrics": metrics,
        "prediction": None,
        "grams": {"layers": picked, "matrices": [found.gram(layer).tolist() for layer in picked]},
        "comparison": None,
    }


def finding(id: str, severity: str, layers: list[int], **evidence: Any) -> dict[str, Any]:
    return {
        "id": id,
        "severity": severity,
        "layers": layers,
        "evidence": evidence,
        "explanation": "The samples of the batch become nearly parallel, so that later layers see one input. "
        "Gradients of different samples agree and the model learns its mean.",
        "references": ["001/thm-5.11", "002/cor-2"],
        "prescriptions": [
            {
                "id": "normalized-activation",
                "text": "Replace ReLU by its normalised form.",
                "kind": "architecture",
                "references": ["004/def-3"],
            },
            {
                "id": "batch-norm",
                "text": "Put batch norm before the activation.",
                "kind": "architecture",
                "references": [],
            },
            {
                "id": "orthogonal",
                "text": "Draw the weights as orthogonal matrices.",
                "kind": "weights",
                "references": [],
            },
        ],
    }


def measured_report(depth: int = 40) -> dict[str, Any]:
    """A deep ReLU network with He weights: it collapses, and a prediction with a band lies over it."""
    torch.manual_seed(3)
    parts: list[nn.Module] = []
    for _ in range(depth):
        linear = nn.Linear(96, 96, bias=False)
        nn.init.kaiming_normal_(linear.weight, nonlinearity="relu")
        parts += [linear, nn.ReLU()]
    report = report_of(probe(nn.Sequential(*parts), torch.randn(20, 96)), model="a ReLU network of depth 40")
    weights = [row["layer"] for row in report["layers"] if row["kind"] == "weight"]
    late = [layer for layer in weights if layer > 20]
    report["healthy"] = False
    report["summary"] = "The samples become indistinguishable from layer 21 on; expect it to learn a constant."
    report["findings"] = [
        finding("wrong-gain", "moderate", weights[3:5], weight_gain=1.9, principled_gain=math.sqrt(2), p_value=4e-7),
        finding(
            "rank-collapse",
            "severe",
            late,
            mean_abs_cosine=0.997,
            mean_angle_deg=4.2,
            rate_per_layer=0.93,
            isometry_gap="inf",
            p_value=None,
            trajectory=[round(0.9 + 0.005 * i, 3) for i in range(20)],
        ),
    ]
    outputs = [0, *(layer + 1 for layer in weights)]
    bands = {}
    for name, spread in (("mean_abs_cosine", 0.05), ("rms", 0.3), ("output_gradient_log_norm", 0.4)):
        mean = [report["metrics"][name][layer] * (1 + 0.01 * math.sin(layer)) for layer in outputs]
        width = [spread * abs(value) * (i + 1) / len(mean) for i, value in enumerate(mean)]
        bands[name] = {
            "mean": mean,
            "low": [m - w for m, w in zip(mean, width, strict=True)],
            "high": [m + w for m, w in zip(mean, width, strict=True)],
        }
    report["prediction"] = {
        "spec": {"width": 96},
        "layers": outputs,
        "metrics": bands,
        "infinite": {"rms": [1.0] * len(outputs)},
        "note": "32 runs of the extracted chain from the measured Gram matrix.",
        "leaves_band": [{"metric": "rms", "layer": layer} for layer in outputs[5:8]],
    }
    report["comparison"] = {
        "baseline": "before.json",
        "better": ["gradient-vanishing is gone"],
        "worse": ["mean |cos| at the output: 0.91 before, 0.997 now"],
        "unchanged": ["wrong-gain"],
        "numbers": [
            {"quantity": "gradient at the input", "metric": "gradient_log_norm", "before": 0.0, "after": "-inf"}
        ],
    }
    return report


def outlook(
    verdict: str = "trains", *, fresh: float | None = None, fit: float | None = 0.9, **more: Any
) -> dict[str, Any]:
    """What a report says about one optimizer; by default of a model that learns on one batch."""
    return {
        "verdict": verdict,
        "probability": {"trains": 0.97, "slow": 0.5, "sick": 0.02, "unknown": None}[verdict],
        "rates": [0.001, 0.004, 0.016] if verdict in ("trains", "slow") else [],
        "best_rate": None if verdict == "unknown" else 0.004,
        "at_rate": None,
        "evidence": {
            "fresh": fresh,
            "fit": fit,
            "reference_fresh": None if fresh is None else 0.8,
            "reference_fit": None if verdict == "unknown" else 1.0,
            "broken": False,
        },
        **more,
    }


def stress_run(optimizer: str, who: str, on: str, rate: float, losses: list[Any]) -> dict[str, Any]:
    return {"optimizer": optimizer, "who": who, "on": on, "rate": rate, "steps": len(losses), "losses": losses}


def stressed(report: dict[str, Any], healthy: bool | None, **outlooks: dict[str, Any]) -> dict[str, Any]:
    """A report with a stress test: these verdicts, and for each optimizer some steps and runs."""
    effects, runs = {}, []
    for name, one in outlooks.items():
        kinds = ["one batch"] if one["evidence"]["fresh"] is None else ["fresh batches", "one batch"]
        down = one["verdict"] in ("trains", "slow")
        effects[name] = {
            "rate": 0.004,
            "steps": 10,
            "output_change": 0.14,
            "predicted": -0.05,
            "actual": -0.048 if down else 0.7,
            "grown": [] if down else [["act", "inf"], ["fc", 34.2]],
            "moved": [["head", 0.58], ["fc", 0.3 if down else 1e-5]],
            "unmoved": [] if down else ["a", "b", "c", "d"],
            "frozen": ["embed"] if down else [],
        }
        for on in kinds:
            fall = 0.9 if down else 1.0
            runs += [stress_run(name, "model", on, 0.001, [2.0] * 10)]
            runs += [stress_run(name, "model", on, 0.004, [2.0 * fall**step for step in range(40)])]
            runs += [stress_run(name, "reference", on, 0.016, [2.1 * 0.8**step for step in range(40)])]
            if one["at_rate"] is not None:
                runs += [stress_run(name, "model", on, one["at_rate"]["rate"], [2.0, "inf"])]
    stress = {
        "targets": "yours",
        "chance": 1.9,
        "batches": 4,
        "samples": 16,
        "plan": {"name": "full", "rates": 5, "rounds": [10, 40], "fit": 20, "long": 160, "beyond": 4},
        "cost": {"seconds": 0.001, "weights": 1000, "training": 3000, "activations": 2000, "threads": 1},
        "seconds": 2.5,
        "in_place": "",
        "kept": [],
        "skipped": "",
        "notes": ["Trained to your targets, on 4 batches of 16 samples (full, 2.5 s)."],
        "after": [finding("dead-units", "severe", [1])],
        "effects": effects,
        "runs": runs,
    }
    return {**report, "healthy": healthy, "trains": outlooks, "stress": stress}


def long_report(layers: int = 1000, names: tuple[str, ...] = ()) -> dict[str, Any]:
    """A made-up chain of any length: scale and gradients decay, half of the layers have weights."""
    index = np.arange(layers)
    kinds = ["input"] + ["weight" if i % 2 else "activation" for i in range(1, layers)]
    weight = np.array([kind == "weight" for kind in kinds])
    cosine = 1 - 1 / (1 + 0.1 * index)
    metrics: dict[str, list[Any]] = {
        "rms": (0.9**index).tolist(),
        "mean_abs_cosine": cosine.tolist(),
        "effective_rank": (1 + 30 / (1 + 0.1 * index)).tolist(),
        "isometry_gap": ["inf" if i > layers // 2 else 0.01 * float(i + 1) for i in index],
        "output_gradient_log_norm": (-0.05 * (layers - index)).tolist(),
        "gradient_log_norm": [float(-0.05 * (layers - i)) if weight[i] else None for i in index],
        "weight_gain": [1.2 if weight[i] else None for i in index],
        "principled_gain": [math.sqrt(2) if weight[i] else None for i in index],
        "dead_fraction": [None if weight[i] else float(0.5 * cosine[i]) for i in index],
        "brand_new": [float(math.sin(i / 30)) for i in index],
    }
    filler = [f"wave {i}" for i in range(22)]
    metrics.update({name: np.sin(index / 7 + i).tolist() for i, name in enumerate(filler)})
    rows = [
        {
            "layer": int(i),
            "name": names[i % len(names)]
            if names
            else ("input" if i == 0 else f"blocks.{i // 2}.{'fc' if weight[i] else 'act'}"),
            "op": "input" if i == 0 else ("Linear" if weight[i] else "ReLU"),
            "site": "pre-activation" if weight[i] else "output",
            "kind": kinds[i],
            "depth": int((i + 1) // 2),
            "call": 0,
            "shape": [32, 512],
            "dtype": "float32",
            "activation": "relu" if weight[i] else None,
            "normalized": False,
            "alignment": "exact" if weight[i] else None,
        }
        for i in index
    ]
    stored = sorted({round(i) for i in np.linspace(0, layers - 1, min(40, layers))})
    matrices = [(np.full((32, 32), cosine[i]) + (1 - cosine[i]) * np.eye(32)).tolist() for i in stored]
    weights = [int(i) for i in index[weight]]
    return {
        "schema": 1,
        "model": f"a chain of {layers} layers",
        "mode": "train",
        "batch": {"samples": 32, "description": "standard Gaussian"},
        "healthy": layers < 3,
        "summary": "Signal and gradients vanish." if layers > 2 else "Nothing to say.",
        "findings": [
            finding("gradient-vanishing", "severe", weights[: len(weights) // 2], rate_per_layer=0.951),
            finding("activation-vanishing", "severe", weights[len(weights) // 3 :], rms=1e-30),
            finding("dead-units", "moderate", [10, 12], dead_fraction=0.4),
        ]
        if layers > 20
        else [],
        "layers": rows,
        "metrics": metrics,
        "prediction": None,
        "grams": {"layers": stored, "matrices": matrices},
        "comparison": None,
    }


def hostile_report() -> dict[str, Any]:
    """Every text an attacker can reach says something it should not."""
    report = long_report(60, HOSTILE)
    for row in report["layers"]:
        row.update(op=HOSTILE[row["layer"] % 2], kind=HOSTILE[2] if row["layer"] % 2 else "weight", dtype=HOSTILE[1])
    report.update(model=HOSTILE[0], summary=HOSTILE[1], comparison=None)
    report["batch"]["description"] = HOSTILE[0]
    report["metrics"][HOSTILE[0]] = [0.5] * 60
    report["findings"][0].update(id=HOSTILE[1], explanation=HOSTILE[0], references=[HOSTILE[0]])
    report["findings"][0]["evidence"] = {HOSTILE[0]: HOSTILE[1], "list": [HOSTILE[2]] * 3}
    report["findings"][0]["prescriptions"] = [
        {"id": HOSTILE[0], "text": HOSTILE[0], "kind": HOSTILE[1], "references": [HOSTILE[2]]}
    ]
    report["findings"][1]["severity"] = HOSTILE[0]
    report["comparison"] = {
        "baseline": HOSTILE[0],
        "better": [HOSTILE[0]],
        "worse": [HOSTILE[1]],
        "unchanged": [HOSTILE[2]],
    }
    report = stressed(report, None, **{HOSTILE[0]: outlook("unknown"), HOSTILE[3]: outlook("sick", fresh=0.0)})
    report["stress"].update(notes=[HOSTILE[0]], skipped=HOSTILE[1], after=[finding(HOSTILE[0], HOSTILE[1], [])])
    report["stress"]["effects"][HOSTILE[0]].update(unmoved=[HOSTILE[1]], frozen=list(HOSTILE), grown=[[HOSTILE[0], 20]])
    report["prediction"] = {"spec": {}, "layers": [0, 1], "metrics": {}, "note": HOSTILE[0]}
    return report
