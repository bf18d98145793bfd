"""Which metrics a monitor measures."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from isometer.doctor.watch._observation import ATTENTION
from isometer.errors import IsometerError, unknown_name
from isometer.metrics._catalogue import METRICS, added, also_probed
from isometer.metrics._metric import GAIN_RATIO

DEFAULT = (
    "orthogonality_gap",
    "isometry_gap",
    "stable_rank",
    "effective_rank",
    "mean_abs_cosine",
    "rms",
    "max_abs",
    "overflow_headroom",
    "gradient_log_norm",
    "gradient_alignment",
    "weight_gain",
    "dead_fraction",
    "saturated_fraction",
    *ATTENTION,
)
"""What is measured unless something else is asked for, beside the metrics that were registered at run time."""


def chosen_metrics(metrics: Sequence[str] | None) -> list[str]:
    """Names of the metrics to measure.

    Raises:
        IsometerError: one is not known, or no model has it.

    Example:
        >>> chosen_metrics(["soft_rank", "rms"])
        ['soft_rank', 'rms']
    """
    if metrics is None:
        return [*DEFAULT, *(one.name for one in added() if one.probed)]
    metrics = [metrics] if isinstance(metrics, str) else list(metrics)
    for name in metrics:
        if name in ATTENTION:
            continue
        if name not in METRICS:
            raise unknown_name("metric", name, [*METRICS, *ATTENTION])
        if METRICS[name].reads == "sequence" or name == GAIN_RATIO:
            raise IsometerError(
                f"{name} belongs to predictions and reports; expected a metric that is measured in a model — for "
                f"attention there are {', '.join(ATTENTION)}"
            )
    return list(dict.fromkeys(metrics))


def need_gradients(metrics: Sequence[str]) -> bool:
    """Whether one of the metrics is read in the backward pass.

    Example:
        >>> need_gradients(["rms", "stable_rank"]), need_gradients(["rms", "gradient_alignment"])
        (False, True)
    """
    return any("gradient" in name or (name in METRICS and METRICS[name].reads == "gradient") for name in metrics)


@contextmanager
def measured(metrics: Sequence[str]) -> Iterator[None]:
    """The probe measures all of these inside."""
    with also_probed(*(name for name in metrics if name not in ATTENTION and METRICS[name].function is not None)):
        yield
