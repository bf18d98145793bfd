"""How long studies that train take: measured steps of their very networks, times the number of steps.

`step_times.json` has the steps of the machine it names; `measure_steps` takes those of this one, which then count
before them.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import math
import os
import platform
import statistics
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

from isometer.data import cache_folder
from isometer.errors import IsometerError
from isometer.files import write_whole
from isometer.run import grid_points
from isometer.serialize import json_text
from isometer_papers.studies._study import Scale, Study

SHIPPED = Path(__file__).with_name("step_times.json")
SHARE = 0.94  # of the time of a run that goes into steps: benchmarks/results/training.json
CORES = 2
_IMAGES = {"cifar10": 50_000, "cifar100": 50_000, "mnist": 60_000, "fashion-mnist": 60_000, "digits": 1_797}
# what the time of a step does not depend on
_FREE = {"run", "learning_rate", "candidate", "epochs", "train", "test", "every", "gap_batches", "watch", "validation"}
_FREE |= {"milestones", "factor", "mlp_train", "resnet_train", "mlp_rates", "resnet_rates", "fixup_milestones"}
_FREE |= {"exponent", "gain", "output_norm", "frame", "start", "ascent", "plain_ascent", "kernels", "tolerance"}
_ALIKE = {  # networks that differ in their weights alone, or in how many classes they read out
    "data": {"cifar100": "cifar10"},
    "scheme": {
        **dict.fromkeys(("iterative", "orthogonal Xavier", "iterative, leading directions"), "Xavier"),
        "one neuron per sample": "He",
        "AGC, λ = 1": "AGC, λ = 0.1",
        "AGC by unit, λ = 1": "AGC by unit, λ = 0.1",
    },
    "network": {
        **dict.fromkeys(("ReLU, He", "ReLU, pre-trained 25", "ReLU, pre-trained 75"), "ReLU"),
        "BN, asymmetric": "BN",
        "VGG19, positive": "VGG19",
        "ResNet50, positive": "ResNet50",
        **dict.fromkeys(("VGG19 without BN, 100 × rate", "VGG19 without BN, random images"), "VGG19 without BN"),
    },
}


class _EnoughError(Exception):
    """Ends a cell once its steps are measured."""


class _Stopwatch:
    """Stands in for a checkpoint: `fit` tells it of every step."""

    def __init__(self, steps: int, seconds: float) -> None:
        self._steps, self._seconds = steps, seconds
        self._began = self._last = time.process_time()
        self.found: list[float] = []

    def load(self) -> None:
        return None

    def save(self, _: Any) -> None:
        return None

    def tell(self, _: str) -> None:
        now = time.process_time()
        self.found.append(now - self._last)
        # the first step includes what came before it; long ones need no average
        if len(self.found) > self._steps or (len(self.found) > 1 and sum(self.found[1:]) > self._seconds):
            raise _EnoughError
        self._last = time.process_time()


def networks_of(study: Study, scale: Scale) -> Iterator[dict[str, Any]]:
    """The configurations of a scale, one for each that takes steps of its own, with the runs that take them together.

    Example:
        >>> from isometer_papers.studies import find
        >>> study = find("001/fig-2.5")
        >>> [(one["scheme"], one["depth"]) for one in networks_of(study, study.quick)]
        [('Xavier', 15), ('Xavier', 30), ('Xavier', 45)]
    """
    seen = set()
    for point in grid_points(_one_run(scale)):
        whole = {**scale.constants, **point, **_runs_of(scale)}
        alike = {name: names.get(whole[name], whole[name]) for name, names in _ALIKE.items() if name in whole}
        whole |= alike
        key = step_key(study, whole)
        if key not in seen:
            seen.add(key)
            yield whole


def _one_run(scale: Scale) -> dict[str, Any]:
    return {name: values[:1] if name == "run" else values for name, values in scale.axes.items()}


def _runs_of(scale: Scale) -> dict[str, Any]:
    """The runs of a cell, where there are several."""
    runs = list(scale.axes.get("run", ()))
    together = math.ceil(len(runs) / math.ceil(len(runs) / scale.together)) if runs else 1
    return {"run": runs[:together]} if scale.together > 1 and together > 1 else {}


def step_key(study: Study, configuration: Mapping[str, Any]) -> str:
    """Of all that the time of a step depends on.

    Example:
        >>> from isometer_papers.studies import find
        >>> study = find("001/fig-2.5")
        >>> step_key(study, {"depth": 15, "run": 0}) == step_key(study, {"depth": 15, "run": 1})
        True
    """
    kept = {name: value for name, value in configuration.items() if name not in _FREE}
    kept |= {name: names.get(kept[name], kept[name]) for name, names in _ALIKE.items() if name in kept}
    if isinstance(runs := configuration.get("run"), list):
        kept["together"] = len(runs)
    text = f"{study.cell.__name__}\n{json.dumps(kept, sort_keys=True, separators=(',', ':'))}"
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def measured_step(study: Study, configuration: Mapping[str, Any], *, steps: int = 5, seconds: float = 2.0) -> float:
    """Seconds of processor time of a training step of one run of a cell, the median of a few.

    Args:
        study: whose cell.
        configuration: of the cell; only enough images are loaded for a few steps.
        steps: at most.
        seconds: of steps, after which no further one is taken.

    Example:
        >>> from isometer_papers.studies import find
        >>> study = find("001/fig-2.5")
        >>> cell = {**study.quick.constants, "scheme": "Xavier", "depth": 3, "width": 8, "data": "digits", "shrink": 1}
        >>> 0 < measured_step(study, cell) < 1
        True
    """
    batch = configuration["batch"]
    few = {"epochs": 1, "watch": False, "gap_batches": 1, "every": 1, "milestones": [], "fixup_milestones": []}
    few |= {"test": batch, "validation": 0}
    few |= dict.fromkeys(("train", "mlp_train", "resnet_train"), (steps + 2) * batch)
    few |= {name: _tiny(configuration.get(name)) for name in ("learning_rate", "mlp_rates", "resnet_rates")}
    small = {name: few.get(name, value) for name, value in configuration.items()}
    watch = _Stopwatch(steps, seconds)
    with contextlib.suppress(_EnoughError):
        study.cell(small, 0, watch)
    if len(watch.found) < 2:
        raise IsometerError(f"{study.id} took {len(watch.found)} steps; expected at least two — it has too few images")
    runs = configuration.get("run")
    return statistics.median(watch.found[1:]) / (len(runs) if isinstance(runs, list) else 1)


def _tiny(rates: Any) -> Any:
    """Rates at which no network diverges within a few steps, in the form that they have."""
    if isinstance(rates, Mapping):
        return {name: _tiny(one) for name, one in rates.items()}
    return [1e-9] * len(rates) if isinstance(rates, list) else 1e-9


def steps_in(configuration: Mapping[str, Any]) -> int:
    """Training steps of a cell.

    Example:
        >>> steps_in({"epochs": 2, "batch": 100, "train": 1050, "data": "cifar10"})
        20
    """
    c = configuration
    kind = f"{str(c.get('architecture', '')).lower()}_train"
    images = c[kind] if kind in c else c["train"]
    count = images if images is not None else _IMAGES.get(c["data"], 50_000) - c.get("validation", 0)
    return int(c["epochs"]) * max(int(count) // int(c["batch"]), 1)


def known_steps() -> dict[str, float]:
    """Seconds of a step by key: those of this machine before those that are shipped.

    Example:
        >>> all(seconds > 0 for seconds in known_steps().values())
        True
    """
    found: dict[str, float] = {}
    for path in (SHIPPED, _own()):
        if path.is_file():
            found |= {key: one["seconds"] for key, one in json.loads(path.read_text("utf-8"))["steps"].items()}
    return found


def longest_run(scale: Scale) -> int:
    """Training steps of the longest run of a scale; 0 where cells have a loop of their own.

    Example:
        >>> from isometer_papers.studies import find
        >>> longest_run(find("001/fig-2.5").quick)
        600
    """
    configurations = ({**scale.constants, **point} for point in grid_points(_one_run(scale)))
    return max((steps_in(one) for one in configurations if "epochs" in one), default=0)


def run_seconds(study: Study, scale: Scale, known: Mapping[str, float] | None = None) -> float | None:
    """Seconds on one core of one run of every network and rate of a scale; None if a step was not measured.

    Example:
        >>> from isometer_papers.studies import find
        >>> study = find("001/fig-2.5")
        >>> step = dict.fromkeys((step_key(study, one) for one in networks_of(study, study.quick)), 0.0094)
        >>> round(run_seconds(study, study.quick, step))  # 600 steps of 2 schemes at 3 depths
        36
    """
    known = known_steps() if known is None else known
    total = 0.0
    for point in grid_points(_one_run(scale)):
        whole = {**scale.constants, **point, **_runs_of(scale)}
        apart = {name: value for name, value in whole.items() if name != "run"}
        # Where runs that take their steps together were not measured, a run of its own is: it takes no less.
        step = known.get(step_key(study, whole), known.get(step_key(study, apart)))
        if step is None:
            return None
        total += steps_in(whole) * step
    return total / SHARE


def estimated_seconds(study: Study, scale_name: str) -> float | None:
    """How long a scale takes on two cores, from measured steps; None for studies that do not train.

    Example:
        >>> from isometer_papers.studies import find
        >>> estimated_seconds(find("003/fig-1"), "paper") is None
        True
    """
    if study.medium is None:
        return None
    scale = study.scale(scale_name)
    runs = len(scale.axes.get("run", (0,)))
    once = run_seconds(study, scale)
    return None if once is None else once * runs / CORES


def expected_seconds(study: Study, scale_name: str) -> float:
    """How long a scale takes on two cores: from measured steps where it trains, else what the study states.

    Args:
        study: which.
        scale_name: quick, medium or paper.

    Returns:
        Seconds.

    Example:
        >>> from isometer_papers.studies import find
        >>> study = find("003/fig-1")
        >>> expected_seconds(study, "paper") == study.seconds[1]
        True
    """
    found = estimated_seconds(study, scale_name)
    return study.seconds[0 if scale_name == "quick" else 1] if found is None else found


def measure_steps(
    studies: list[Study],
    scales: tuple[str, ...] = ("quick", "medium", "paper"),
    *,
    path: Path | None = None,
    told: Callable[[str], None] = lambda _: None,
) -> Path:
    """Measure the steps of all networks of studies on this machine and keep them; what is there is not measured again.

    Args:
        studies: those that train are measured.
        scales: which.
        path: file to keep them in; one in the folder for data unless given.
        told: called with a line for each network.

    Returns:
        The file.

    Example:
        >>> import tempfile
        >>> from isometer_papers.studies import find
        >>> with tempfile.TemporaryDirectory() as folder:  # 003/fig-1 trains nothing
        ...     measure_steps([find("003/fig-1")], path=Path(folder) / "steps.json").name
        'steps.json'
    """
    from isometer.run import library_versions

    path = _own() if path is None else path
    kept: dict[str, Any] = json.loads(path.read_text("utf-8")) if path.is_file() else {"steps": {}}
    kept |= {"machine": _machine(), "versions": json.loads(library_versions())}
    for study in [one for one in studies if one.medium is not None]:
        for scale in scales:
            for configuration in networks_of(study, study.scale(scale)):
                key = step_key(study, configuration)
                if key in kept["steps"]:
                    continue
                seconds = measured_step(study, configuration)
                axes = study.scale(scale).axes
                label = " ".join(f"{name}={configuration[name]}" for name in axes if name not in _FREE)
                place = {"study": study.id, "scale": scale, "network": label}
                kept["steps"][key] = {"seconds": float(f"{seconds:.3g}"), **place}
                write_whole(path, json_text(kept, indent=1, ensure_ascii=False) + "\n")
                told(f"{study.id} {scale} {label}: {1e3 * seconds:.3g} ms")
    return path


def _machine() -> str:
    """Processor and cores, for people."""
    info = Path("/proc/cpuinfo")
    lines = info.read_text("utf-8", errors="replace").splitlines() if info.is_file() else []
    names = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return f"{names[0] if names else platform.machine()}, {os.cpu_count()} cores"


def _own() -> Path:
    return cache_folder() / "step-times.json"


def minutes_of_a_run(study: Study, scale: Scale, seconds: float) -> float:
    """Of one run of all networks on one core: by measured steps, else from the seconds that all runs took."""
    once = run_seconds(study, scale)
    runs = len(scale.axes.get("run", (0,)))
    return (seconds * CORES / runs if once is None else once) / 60 if math.isfinite(seconds) else math.nan
